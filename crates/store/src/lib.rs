//! The store port of Onefold: what a database must offer so that operations can be performed over it.
//!
//! *Invariants.* A store never decides. It reads records with the time and the lease as its own clock judges them,
//! and it carries out transitions that name the state and the attempt they start from; a transition that finds
//! another state or attempt changes nothing and says so. What it has acknowledged is durable.

mod port;

pub use port::{
    Advance, Advanced, Also, Claim, Claimed, NewEvent, OperationStore, Page, Promise, Query, Read, Start,
    Step, StoreError, Survey, Swept,
};
