//! Consumers over an inbox, on each kind of store.

mod again;
mod deliveries;
mod parked;
mod rebuild;
mod redriving;
mod rerunning;
mod restored;
mod rig;
