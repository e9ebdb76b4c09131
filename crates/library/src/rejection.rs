//! Refusals for good, as errors: what a work or one of its steps ends with, however deep it is.

use std::error::Error;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::verdict::{BoxError, Verdict};

/// An error that refuses the operation for good, with the value that every caller of it gets: the same as
/// [`Verdict::Rejected`], for code that returns errors. The value must be one of the operation's results.
///
/// A step that ends with it is never asked for again: see [`Steps::run`](crate::Steps::run).
#[derive(Clone, Debug)]
pub struct Rejection(Result<Value, String>);

impl Rejection {
    /// With this value.
    pub fn of(value: impl Serialize) -> Rejection {
        Rejection(serde_json::to_value(value).map_err(|error| error.to_string()))
    }

    /// The one that the error is, or is caused by.
    pub(crate) fn within(error: &BoxError) -> Option<&Rejection> {
        let mut cause: Option<&(dyn Error + 'static)> = Some(&**error);
        while let Some(error) = cause {
            if let Some(rejection) = error.downcast_ref() {
                return Some(rejection);
            }
            cause = error.source();
        }
        None
    }

    /// The value in a stored form; an error says why there is none.
    pub(crate) fn json(&self) -> Result<&Value, BoxError> {
        self.0.as_ref().map_err(|why| format!("the value of a rejection cannot be kept: {why}").into())
    }

    /// From its stored form.
    pub(crate) fn from_json(value: Value) -> Rejection {
        Rejection(Ok(value))
    }

    /// What it says of the operation.
    pub(crate) fn verdict<T: DeserializeOwned>(&self) -> Verdict<T> {
        let value = self.json().and_then(|value| {
            let value = serde_json::from_value(value.clone());
            value.map_err(|error| format!("a rejection has another type than the result: {error}").into())
        });
        match value {
            Ok(value) => Verdict::Rejected { value },
            Err(error) => Verdict::Unknown { error },
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is refused for good")
    }
}

impl Error for Rejection {}
