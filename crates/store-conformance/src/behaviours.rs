//! The behaviours, one file for each family. Each takes a fresh store and panics where the store differs.

pub mod atomic;
pub mod beside;
pub mod claims;
pub mod consume;
pub mod counting;
pub mod identity;
pub mod inbox;
pub mod interrupted;
pub mod leases;
pub mod listing;
pub mod lost;
pub mod outbox;
pub mod payloads;
pub mod probes;
pub mod quota;
pub mod retention;
pub mod rounds;
pub mod steps;
pub mod survey;
pub mod takeovers;
pub mod time;
pub mod tombstones;
pub mod transitions;
