//! Asking the authority what became of attempts whose outcome is unknown (SEMANTICS 10).

pub use onefold_core::reconcile::{Fence, Found, Verdict as Known};
pub use onefold_core::{Kept, TypedValue};
pub use onefold_engine::{Probed, Reconciler, Reconciling, Registration, Subject};
