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
use crate::{Call, CallError, Done, Onefold, Operation, Rejection, typed};

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
    /// The step is refused for good, by this attempt or an earlier one, and is not asked for again. Returned with `?`
    /// it rejects the workflow with the value of the [`Rejection`]; what other steps have done is the workflow's to
    /// make good before.
    #[error("the step {name} is refused for good")]
    Rejected {
        /// The step.
        name: String,
        /// With the value.
        #[source]
        rejection: Rejection,
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
    /// An error is not kept, and the step is repeated under the same key, but for a [`Rejection`]: that is kept like a
    /// result. Names are unique in an operation, and none ends with `!rejected`. Cancellation: a step that is dropped
    /// is repeated under the same key.
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
        let rejected = format!("{name}!rejected");
        let kept = {
            let finished = shared.finished.lock();
            finished
                .get(&name)
                .map(|kept| Ok(kept.clone()))
                .or(finished.get(&rejected).map(|kept| Err(kept.clone())))
        };
        match kept {
            Some(Ok(kept)) => return shared.read(name, &kept),
            Some(Err(kept)) => {
                let rejection = Rejection::from_json(shared.read(name.clone(), &kept)?);
                return Err(StepError::Rejected { name, rejection });
            }
            None => {}
        }
        let result = match work(shared.performing.downstream_key(&name)).await {
            Ok(result) => result,
            Err(error) => {
                let Some(rejection) = Rejection::within(&error).cloned() else {
                    return Err(StepError::Failed { name, error });
                };
                let json =
                    rejection.json().map_err(|error| StepError::Failed { name: name.clone(), error })?;
                shared.keep(rejected, json).await?;
                return Err(StepError::Rejected { name, rejection });
            }
        };
        match shared.keep(name.clone(), &result).await? {
            None => Ok(result),
            Some(kept) => shared.read(name, &kept),
        }
    }
}

impl Shared {
    /// Keeps the result of a step. Where another one is kept already, that is given back.
    async fn keep<R: Serialize + DeserializeOwned>(
        &self,
        name: String,
        result: &R,
    ) -> Result<Option<Kept>, StepError> {
        let kept = match typed::keep(&self.operation, result) {
            Ok(kept @ Kept::Value(_)) => kept,
            Ok(_) => {
                return Err(StepError::NotKept {
                    name,
                    detail: "it is longer than the operation keeps".into(),
                });
            }
            Err(detail) => return Err(StepError::NotKept { name, detail }),
        };
        let (id, attempt) = (self.performing.id(), self.performing.attempt());
        match self.store.put_step(id, attempt, name.clone(), kept.clone()).await {
            Ok(StepPut::Done) => {
                self.finished.lock().insert(name, kept);
                Ok(None)
            }
            Ok(StepPut::Exists(step)) => {
                self.finished.lock().insert(name, step.kept.clone());
                Ok(Some(step.kept))
            }
            Ok(StepPut::Superseded(_)) => {
                self.superseded.store(true, Ordering::Relaxed);
                Err(StepError::Superseded(name))
            }
            Err(error) => Err(StepError::NotKept { name, detail: error.to_string() }),
        }
    }

    fn read<R: DeserializeOwned>(&self, name: String, kept: &Kept) -> Result<R, StepError> {
        typed::value(&self.operation, kept)
            .map_err(|error| StepError::Unreadable { name, detail: error.to_string() })
    }
}

impl<S: AtomicStore + StepStore> Onefold<S> {
    /// Performs the operation as a workflow of steps, or goes on with one that was interrupted.
    ///
    /// An untyped error, a panic and a lost process interrupt it; the next call of the operation resumes. "Not done" is
    /// believed only while no step is finished: a workflow that has done something has not done nothing.
    ///
    /// # Errors
    /// [`CallError::Interrupted`]: it stopped in the middle, and the next call goes on. [`CallError::NotDone`]: no step
    /// was finished, and the key is free. The others say what a duplicate meets ([`CallError`]); whether a new key is
    /// safe, [`CallError::new_key_is_safe`].
    ///
    /// Cancellation: dropping the future changes nothing but who hears of the result. The work goes on in a task of its
    /// own, and the same call made again waits for it or gets its result.
    pub async fn resumable<T, F, Fut>(&self, call: Call, work: F) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(Steps) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<T>, BoxError>> + Send + 'static,
    {
        let (engine, store) = (self.engine().clone(), self.store().clone());
        let asked = call.resumable(engine.identity_key());
        let companion = self.companions().of(&call.operation);
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
                    return settle(&call.operation, attempt, verdict, Lost::IsResumed, companion).await;
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
            settle(&call.operation, attempt, verdict, Lost::IsResumed, companion).await
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
