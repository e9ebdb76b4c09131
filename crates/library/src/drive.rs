//! Drivers: what goes on with workflows that were interrupted (`docs/library.md`).
//!
//! ```no_run
//! use onefold::drive::{Drive, Interrupted};
//! use onefold::{BoxError, Onefold, Operation, Scope, Verdict};
//!
//! # async fn example(onefold: Onefold, fulfil: Operation) {
//! let own = onefold.clone();
//! let driving = onefold.drive([Drive::new(&fulfil.clone(), move |interrupted: Interrupted| {
//!     let (onefold, fulfil) = (own.clone(), fulfil.clone());
//!     async move {
//!         // The same call again. What it asks for is in the service's own tables, under the key.
//!         let call = fulfil.call(Scope::shared(), interrupted.key(), interrupted.key())?;
//!         onefold.resumable(call, |steps| async move {
//!             let shipped = steps.run("ship", |key| async move { Ok(key) }).await?;
//!             Ok(Verdict::succeeded(shipped))
//!         }).await?;
//!         Ok(())
//!     }
//! })]);
//! # }
//! ```

use std::future::Future;
use std::sync::Arc;

use onefold_core::{Key, OperationId, Record, Scope};
use onefold_engine::Driver;
use onefold_store::AtomicStore;

pub use onefold_engine::Driving;

use crate::verdict::BoxError;
use crate::{Onefold, Operation};

/// A workflow that was interrupted.
#[derive(Clone, Debug)]
pub struct Interrupted(Record);

impl Interrupted {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.0.id
    }

    /// The caller's key.
    pub fn key(&self) -> &str {
        self.0.key.as_ref().map(Key::as_str).unwrap_or_default()
    }

    /// Whose key it is.
    pub fn scope(&self) -> &Scope {
        &self.0.scope
    }

    /// What ties it to other operations.
    pub fn correlation_id(&self) -> Option<&str> {
        self.0.correlation_id.as_deref()
    }

    /// The number of the attempt that was interrupted.
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }
}

/// What drives the workflows of one operation.
#[derive(Clone)]
pub struct Drive(Driver);

impl Drive {
    /// Drives so: the closure makes the operation's call again. Its error says nothing but in the log: what became of
    /// the workflow, its record says.
    pub fn new<F, Fut>(operation: &Operation, drive: F) -> Drive
    where
        F: Fn(Interrupted) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let name = operation.contract().operation.clone();
        let drive = move |record: Record| {
            let id = record.id;
            let driving = drive(Interrupted(record));
            let driven = async move {
                if let Err(error) = driving.await {
                    tracing::info!(operation = %id, %error, "a workflow is not at its end yet");
                }
            };
            Box::pin(driven) as onefold_engine::Drives
        };
        Drive(Driver { operation: name, drive: Arc::new(drive) })
    }
}

impl<S: AtomicStore> Onefold<S> {
    /// Starts the loop that drives interrupted workflows on, for as long as the answer is kept. Any number of processes
    /// may run one: of two that go on with one workflow the record lets one. At most 16 at once in a process; one that
    /// is interrupted again is driven again after half a second at first, and half a minute at most. Must be called
    /// within a tokio runtime.
    ///
    /// It drives what was begun and interrupted. A call that was never made, or that freed its key, is the service's to
    /// make.
    pub fn drive(&self, drivers: impl IntoIterator<Item = Drive>) -> Driving {
        self.engine().drive(drivers.into_iter().map(|Drive(driver)| driver).collect())
    }
}
