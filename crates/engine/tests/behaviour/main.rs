//! What the engine promises, shown through its public face over a store: a file for each concern.
//!
//! Time is tokio's paused time and the store's clock follows it, so leases of seconds pass at once and nothing here
//! depends on how fast the machine is. Only `processes` runs in real time, over SQLite.

mod abandoning;
mod acts;
mod again;
mod answers_lost;
mod conflicts;
mod driving;
mod duplicates;
mod expiry;
mod fences;
mod heartbeats;
mod keeping;
mod lost_outcomes;
mod processes;
mod reconciling;
mod settling;
mod store_failures;
mod takeovers;
mod waiters;
mod world;
