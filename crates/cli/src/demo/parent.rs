//! Ending with the parent: a process of the demo holds one end of a pipe that only the demo keeps open.
//!
//! The pipe closes however the demo ends, killed or not, so nothing has to be tidied up by somebody who may be gone.

use std::io;

use tokio::sync::oneshot;

/// Returns when nobody holds the other end of standard input any more.
///
/// A plain thread reads it: one of the runtime's would keep the runtime from ending.
pub(crate) async fn gone() {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = tell.send(());
    });
    let _ = told.await;
}
