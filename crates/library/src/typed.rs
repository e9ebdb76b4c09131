//! Results as versioned data.
//!
//! A result is kept as JSON beside the version of its form. Unit, `None`, `0`, `""` and `[]` are results like any
//! other. A form that this program does not know is an error that names the versions, never a reason to run again. What
//! JSON does not tell apart comes back as one of the two: `Some(())` and `Some(None)` as `None`.

use onefold_core::{Kept, NotKept, TypedValue};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Operation;

/// Brings a stored result of an older version into the present form.
pub type Upgrade = fn(u16, serde_json::Value) -> Option<serde_json::Value>;

/// The stored form of a result. An error: the value cannot be kept so that it comes back.
pub(crate) fn keep<T: Serialize + DeserializeOwned>(
    operation: &Operation,
    value: &T,
) -> Result<Kept, String> {
    let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    // Not every value that can be written can be read: a NaN is written as null.
    serde_json::from_slice::<T>(&json).map_err(|error| format!("it would not come back: {error}"))?;
    if json.len() as u64 > operation.contract().store_response.body_bytes_max {
        return Ok(Kept::NotKept { status: None, why: NotKept::TooBig });
    }
    Ok(Kept::Value(TypedValue { version: operation.version(), json }))
}

/// Why a stored form gives no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoValue {
    #[error("it is not kept: {why}")]
    NotKept { reason: &'static str, why: &'static str },
    #[error("it has version {stored} and this program knows {known}: {detail}")]
    Unreadable { stored: u16, known: u16, detail: String },
}

/// The result in a stored form.
pub(crate) fn value<T: DeserializeOwned>(operation: &Operation, kept: &Kept) -> Result<T, NoValue> {
    let none = |reason, why| Err(NoValue::NotKept { reason, why });
    let value = match kept {
        Kept::Value(value) => value,
        Kept::NotKept { why, .. } => return none(why.name(), not_kept(*why)),
        Kept::Nothing => return none("nothing", "there is none"),
        Kept::Full(_) | Kept::Reference(_) => {
            return none("http_answer", "it is an HTTP answer of a gateway");
        }
    };
    let known = operation.version();
    let unreadable = |detail: String| NoValue::Unreadable { stored: value.version, known, detail };
    if value.version == known {
        return serde_json::from_slice(&value.json).map_err(|error| unreadable(error.to_string()));
    }
    let Some(upgrade) = operation.upgrading().filter(|_| value.version < known) else {
        return Err(unreadable("this program does not know that version".into()));
    };
    let old = serde_json::from_slice(&value.json).map_err(|error| unreadable(error.to_string()))?;
    let new = upgrade(value.version, old);
    let new = new.ok_or_else(|| unreadable("this program does not know that version".into()))?;
    serde_json::from_value(new).map_err(|error| unreadable(error.to_string()))
}

fn not_kept(why: NotKept) -> &'static str {
    match why {
        NotKept::TooBig => "it was longer than the operation keeps",
        NotKept::Cut => "it was cut",
        NotKept::ByContract => "the operation keeps none",
        NotKept::Settled => "a person settled the operation without one",
        NotKept::Reconciled => "a look-up settled the operation without one",
        NotKept::NotStored => "the store could not take it",
    }
}
