//! The relay over a real outbox, with sinks that do as a test says.

mod crowd;
mod ends;
mod losses;
mod rig;
