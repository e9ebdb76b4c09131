//! Consumers over an inbox, and the intake of webhooks, on each kind of store.

mod again;
mod deliveries;
mod intake;
mod parked;
mod rebuild;
mod redriving;
mod rerunning;
mod restored;
mod rig;
