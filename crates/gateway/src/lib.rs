//! The gateway: a streaming reverse proxy that lets a protected request have one effect (SEMANTICS 6 to 8).
//!
//! *Invariants.* The gateway decides nothing about operations: it reads requests, asks the engine, performs an
//! attempt against the upstream and says what the answer means. An operation runs in a task of its own; the caller
//! hanging up cancels nothing. A caller has the end of an answer only after the outcome is durable, so every answer
//! that was received whole is replayed. After a crash an attempt that was running becomes `outcome_unknown` (or is
//! resumed, where the contract says so) when its lease ends.

mod answer;
mod authorize;
mod body;
mod forward;
mod handle;
mod limits;
mod look_up;
mod options;
mod pass;
mod perform;
mod protect;
mod published;
mod reconcile;
mod relay;
mod request_body;
mod scope;
mod server;
mod upstream;
mod webhook;

pub use options::{Implicit, Matcher, Named, Options, Reply, Route, WebhookSource, Webhooks};
pub use server::{Ended, Running, start};

use std::collections::HashSet;
use std::sync::Arc;

use onefold_engine::Engine;
use tokio_util::task::TaskTracker;

/// What every request needs.
pub(crate) struct Gateway {
    pub(crate) options: Options,
    pub(crate) implicit: Option<options::ImplicitRoutes>,
    /// Fields that `Connection` cannot take away.
    pub(crate) end_to_end: HashSet<http::HeaderName>,
    pub(crate) engine: Engine,
    pub(crate) upstream: upstream::Upstream,
    /// The way to whoever is asked about operations and callers.
    pub(crate) services: look_up::Services,
    /// Who waits for what handlers of webhooks answer.
    pub(crate) listeners: Arc<webhook::Listeners>,
    pub(crate) webhook_memory: webhook::Memory,
    /// The operations that run, apart from the requests that asked for them.
    pub(crate) operations: TaskTracker,
    pub(crate) warned_of_expiring_tokens: std::sync::Once,
}

pub(crate) type Shared = Arc<Gateway>;
