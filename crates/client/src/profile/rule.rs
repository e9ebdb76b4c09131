//! One rule of a profile: what an answer looks like, and what it then means.

use http::{HeaderName, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::{ProfileError, header_name};
use crate::meaning::Received;

/// What an answer means to the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// It happened.
    Succeeded,
    /// It will not happen under this key; final.
    Rejected,
    /// Nothing happened, and the same request would be refused again.
    Refused,
    /// Nothing happened; it may be sent again.
    NotDone,
    /// An attempt is running.
    InProgress,
    /// The key was used for another request. Never sent again.
    Conflict,
    /// It may have happened; asking again under the same key may tell.
    Unknown,
    /// It may have happened; asking again brings the same answer.
    UnknownFinal,
    /// The key is not known any more.
    Expired,
    /// It is finished, and the answer was not kept.
    NotKept,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRule {
    status: Option<String>,
    header: Option<WrittenHeader>,
    body: Option<WrittenBody>,
    means: Means,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenHeader {
    name: String,
    is: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenBody {
    at: String,
    is: Option<String>,
    contains: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statuses {
    One(u16),
    Class(u16),
}

/// What an answer looks like, and what it then means.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    status: Option<Statuses>,
    header: Option<(HeaderName, Option<String>)>,
    body: Option<WrittenBody>,
    means: Means,
}

impl Rule {
    pub(super) fn read(written: WrittenRule) -> Result<Rule, ProfileError> {
        let header = match written.header {
            None => None,
            Some(header) => Some((header_name("answer.header.name", header.name)?, header.is)),
        };
        let status = written.status.map(statuses).transpose()?;
        if status.is_none() && header.is_none() && written.body.is_none() {
            return Err(ProfileError::Value {
                field: "answer",
                value: String::new(),
                allowed: "say by which status, header or body it is known",
            });
        }
        Ok(Rule { status, header, body: written.body, means: written.means })
    }

    /// What the answer means, if it looks like this. `json` is its body.
    pub(crate) fn reads(&self, received: &Received<'_>, json: Option<&Value>) -> Option<Means> {
        let matches = self.status.is_none_or(|statuses| statuses.hold(received.status))
            && self.header.as_ref().is_none_or(|(name, is)| {
                received
                    .text(name)
                    .is_some_and(|value| is.as_deref().is_none_or(|is| is.eq_ignore_ascii_case(value)))
            })
            && self.body.as_ref().is_none_or(|body| json.is_some_and(|json| body.holds(json)));
        matches.then_some(self.means)
    }
}

impl WrittenBody {
    fn holds(&self, json: &Value) -> bool {
        let found = match json.pointer(&self.at) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Bool(value)) => value.to_string(),
            _ => return false,
        };
        self.is.as_deref().is_none_or(|is| is == found)
            && self.contains.as_deref().is_none_or(|part| found.contains(part))
    }
}

impl Statuses {
    fn hold(self, status: StatusCode) -> bool {
        match self {
            Statuses::One(one) => status.as_u16() == one,
            Statuses::Class(class) => status.as_u16() / 100 == class,
        }
    }
}

fn statuses(value: String) -> Result<Statuses, ProfileError> {
    let class = match value.as_str() {
        "2xx" => Some(2),
        "3xx" => Some(3),
        "4xx" => Some(4),
        "5xx" => Some(5),
        _ => None,
    };
    match (class, value.parse::<u16>()) {
        (Some(class), _) => Ok(Statuses::Class(class)),
        (None, Ok(one @ 200..=599)) => Ok(Statuses::One(one)),
        _ => Err(ProfileError::Value {
            field: "answer.status",
            value,
            allowed: "write one such as 409 or 4xx",
        }),
    }
}
