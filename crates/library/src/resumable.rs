//! Resumable mode: a workflow of several effects, each of them a step with a downstream key and a kept result.
//!
//! An attempt that is interrupted leaves the operation open. The next call takes over, skips the finished steps and
//! repeats the open one under the same downstream key, so the other side must honour that key. An attempt that lost its
//! operation to a newer one learns so at its next step and stops there.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use onefold_canon::{BodyHasher, BodyKind};
use onefold_core::{Kept, to_hex};
use onefold_engine::Entered;
use onefold_store::{AtomicStore, StepPut, StepStore, StoreError};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::known_to;
use crate::reserved::{Lost, Performing, run, settle};
use crate::task::detached;
use crate::verdict::{BoxError, Verdict};
use crate::{Call, CallError, Done, Onefold, Operation, typed};

/// Why a step has no result. The workflow stops with it: return it with `?`.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The step failed. It is repeated under the same downstream key when the operation is resumed.
    #[error("the step {name} failed: {error}")]
    Failed {
        /// The step.
        name: String,
        /// Why.
        #[source]
        error: BoxError,
    },
    /// A newer attempt, or a person, has the operation now: this attempt must do nothing more.
    #[error("the step {0} is not ours any more: the attempt was superseded")]
    Superseded(String),
    /// The result could not be kept. The step is repeated under the same downstream key.
    #[error("the result of the step {name} could not be kept: {detail}")]
    NotKept {
        /// The step.
        name: String,
        /// Why.
        detail: String,
    },
    /// The step is finished, and this program cannot read its result.
    #[error("the result of the step {name} cannot be read: {detail}")]
    Unreadable {
        /// The step.
        name: String,
        /// Why, with the versions.
        detail: String,
    },
}

/// The steps of one attempt. Cheap to clone.
#[derive(Clone)]
pub struct Steps(Arc<Shared>);

struct Shared {
    store: Arc<dyn StepStore>,
    operation: Operation,
    performing: Performing,
    finished: Mutex<HashMap<String, Kept>>,
    superseded: AtomicBool,
}

impl Steps {
    /// The attempt.
    pub fn attempt(&self) -> &Performing {
        &self.0.performing
    }

    /// Whether this step was finished, by this attempt or an earlier one.
    pub fn finished(&self, name: &str) -> bool {
        self.0.finished.lock().contains_key(name)
    }

    /// Runs the step, or gives its kept result. The work gets the key under which it asks the other system.
    ///
    /// Names are unique in an operation. Cancellation: a step that is dropped is repeated under the same key.
    pub async fn run<R, F, Fut>(&self, name: &str, work: F) -> Result<R, StepError>
    where
        R: Serialize + DeserializeOwned,
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<R, BoxError>>,
    {
        self.step(name.to_owned(), work).await
    }

    /// The same, for a step that may be asked for in several ways: another input is another step with another key, and
    /// the same input is the same step.
    pub async fn run_with<R, F, Fut>(
        &self,
        name: &str,
        input: &(impl Serialize + ?Sized),
        work: F,
    ) -> Result<R, StepError>
    where
        R: Serialize + DeserializeOwned,
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<R, BoxError>>,
    {
        let json = serde_json::to_vec(input)
            .map_err(|error| StepError::Failed { name: name.to_owned(), error: error.into() })?;
        let mut hasher = BodyHasher::new(BodyKind::Json, &[]);
        hasher.update(&json);
        self.step(format!("{name}#{}", &to_hex(&hasher.finish().digest)[..16]), work).await
    }

    async fn step<R, F, Fut>(&self, name: String, work: F) -> Result<R, StepError>
    where
        R: Serialize + DeserializeOwned,
        F: FnOnce(String) -> Fut,
        Fut: Future<Output = Result<R, BoxError>>,
    {
        let shared = &*self.0;
        if shared.superseded.load(Ordering::Relaxed) {
            return Err(StepError::Superseded(name));
        }
        let kept = shared.finished.lock().get(&name).cloned();
        if let Some(kept) = kept {
            return shared.read(name, &kept);
        }
        let result = match work(shared.performing.downstream_key(&name)).await {
            Ok(result) => result,
            Err(error) => return Err(StepError::Failed { name, error }),
        };
        let kept = match typed::keep(&shared.operation, &result) {
            Ok(kept @ Kept::Value(_)) => kept,
            Ok(_) => {
                return Err(StepError::NotKept {
                    name,
                    detail: "it is longer than the operation keeps".into(),
                });
            }
            Err(detail) => return Err(StepError::NotKept { name, detail }),
        };
        let (id, attempt) = (shared.performing.id(), shared.performing.attempt());
        match shared.store.put_step(id, attempt, name.clone(), kept.clone()).await {
            Ok(StepPut::Done) => {
                shared.finished.lock().insert(name, kept);
                Ok(result)
            }
            Ok(StepPut::Exists(step)) => {
                shared.finished.lock().insert(name.clone(), step.kept.clone());
                shared.read(name, &step.kept)
            }
            Ok(StepPut::Superseded(_)) => {
                shared.superseded.store(true, Ordering::Relaxed);
                Err(StepError::Superseded(name))
            }
            Err(error) => Err(StepError::NotKept { name, detail: error.to_string() }),
        }
    }
}

impl Shared {
    fn read<R: DeserializeOwned>(&self, name: String, kept: &Kept) -> Result<R, StepError> {
        typed::value(&self.operation, self.performing.id(), kept)
            .map_err(|error| StepError::Unreadable { name, detail: error.to_string() })
    }
}

impl<S: AtomicStore + StepStore> Onefold<S> {
    /// Performs the operation as a workflow of steps, or goes on with one that was interrupted.
    ///
    /// An untyped error, a panic and a lost process interrupt it; the next call of the operation resumes. "Not done" is
    /// believed only while no step is finished: a workflow that has done something has not done nothing.
    pub async fn resumable<T, F, Fut>(&self, call: Call, work: F) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(Steps) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<T>, BoxError>> + Send + 'static,
    {
        let (engine, store) = (self.engine().clone(), self.store().clone());
        let asked = call.resumable(engine.identity_key());
        if let Some(known) = engine.recall(&asked) {
            return known_to(&call.operation, &known);
        }
        detached(|gone| async move {
            let attempt = match engine.enter(&asked, gone.wait()).await? {
                Entered::Known(known) => return known_to(&call.operation, &known),
                Entered::Attempt(attempt) => attempt,
            };
            let finished = match finished(&*store, attempt.id()).await {
                Ok(finished) => finished,
                Err(error) => {
                    let verdict = Verdict::<T>::Unknown { error: error.into() };
                    return settle(&call.operation, attempt, verdict, Lost::IsResumed).await;
                }
            };
            let steps = Steps(Arc::new(Shared {
                store,
                operation: call.operation.clone(),
                performing: Performing::of(&attempt, &call, engine.identity_key().clone()),
                finished: Mutex::new(finished),
                superseded: AtomicBool::new(false),
            }));
            let own = steps.clone();
            let verdict = match run(&call.operation, async move || work(own).await).await {
                Verdict::NotDone { error, .. } if !steps.0.finished.lock().is_empty() => {
                    Verdict::Unknown { error }
                }
                verdict => verdict,
            };
            settle(&call.operation, attempt, verdict, Lost::IsResumed).await
        })
        .await
    }
}

async fn finished(
    store: &impl StepStore,
    id: onefold_core::OperationId,
) -> Result<HashMap<String, Kept>, StoreError> {
    let steps = store.steps(id).await?;
    Ok(steps.into_iter().map(|step| (step.name, step.kept)).collect())
}
