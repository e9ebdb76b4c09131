//! The stored form of an answer: versioned data, read for ever.
//!
//! A message is kept in its own encoding; the version of the operation's value is that of the message's meaning, since
//! protobuf itself lets messages grow. Of a status its code, message and details are kept, and no metadata.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};

/// An answer as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kept {
    /// An encoded message, in base 64.
    Message(String),
    /// A refusal.
    Status {
        /// Its number.
        code: i32,
        /// Its words.
        message: String,
        /// Its details, in base 64.
        details: String,
    },
}

impl Kept {
    pub(crate) fn message(message: &impl Message) -> Kept {
        Kept::Message(STANDARD.encode(message.encode_to_vec()))
    }

    pub(crate) fn status(status: &Status) -> Kept {
        Kept::Status {
            code: status.code().into(),
            message: status.message().to_owned(),
            details: STANDARD.encode(status.details()),
        }
    }

    /// The answer again. An outer error: this program cannot read it.
    pub(crate) fn answer<R: Message + Default>(self) -> Result<Result<R, Status>, String> {
        let bytes = |text: &str| STANDARD.decode(text).map_err(|error| error.to_string());
        match self {
            Kept::Message(text) => {
                R::decode(bytes(&text)?.as_slice()).map(Ok).map_err(|error| error.to_string())
            }
            Kept::Status { code, message, details } => {
                Ok(Err(Status::with_details(Code::from_i32(code), message, bytes(&details)?.into())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_forms_stay_as_they_are() {
        let message = Kept::message(&"lamp".to_owned());
        let status = Kept::status(&Status::with_details(Code::NotFound, "no lamp", vec![1, 2].into()));
        for (kept, form) in [
            (message, r#"{"message":"CgRsYW1w"}"#),
            (status, r#"{"status":{"code":5,"message":"no lamp","details":"AQI="}}"#),
        ] {
            assert_eq!(serde_json::to_string(&kept).unwrap(), form);
            assert_eq!(serde_json::from_str::<Kept>(form).unwrap(), kept);
        }
    }
}
