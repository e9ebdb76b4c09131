//! Consumers over an inbox on SQLite.

mod again;
mod deliveries;
mod parked;
mod rebuild;
mod redriving;
mod rig;
