//! Data on stdout.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::exit::Failure;

/// Writes a line, or several, at once. A reader that has gone (`| head`) has seen what it wanted.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}
