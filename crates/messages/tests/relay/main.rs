//! The relay over a real outbox, with sinks that do as a test says.

mod batches;
mod crowd;
mod database;
mod ends;
mod look_up;
mod losses;
mod rig;
