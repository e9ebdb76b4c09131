//! Consumers over an inbox on SQLite.

mod again;
mod deliveries;
mod parked;
mod redriving;
mod rig;
