//! Ending with the parent: a service holds one end of a pipe that only its parent keeps open, and ends when it closes.
//!
//! The pipe closes however the parent ends, killed or not, so no process is left behind.

use std::io;

use tokio::sync::oneshot;

/// Returns when nobody holds the other end of standard input any more.
///
/// A plain thread reads it: one of the runtime's would keep the runtime from ending.
pub async fn gone() {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = tell.send(());
    });
    let _ = told.await;
}
