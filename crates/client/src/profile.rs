//! What a provider expects and what its answers mean, as data.
//!
//! A profile says where the key goes, what it may look like, how long the provider remembers it, and which answers
//! mean something else than they would by their status. Those that are shipped name their sources; your own is TOML
//! ([`Profile::from_toml`]) of the same form:
//!
//! ```
//! let profile = onefold_client::Profile::from_toml(r#"
//!     name = "acme"
//!     source = "Acme's handbook, page 12"
//!     key = { header = "X-Request-Id", max = 36, alphabet = "uuid" }   # or { body = "request_id", … }, or "none"
//!     window = "12h"
//!
//!     [[answer]]                       # the first that matches counts; what matches none counts by its status
//!     status = "409"                   # or "4xx"; status, header and body may each be left out
//!     header = { name = "X-State" }    # present; with `is = "…"`: has this value
//!     body = { at = "/error/code", is = "BUSY" }                        # or contains = "…"
//!     means = "in-progress"
//! "#)?;
//! # Ok::<(), onefold_client::ProfileError>(())
//! ```
//!
//! `means` is one of `succeeded`, `rejected` (it will not happen; final), `refused` (nothing happened, and sending the
//! same again does not help), `not-done` (nothing happened; sent again), `in-progress`, `conflict`, `unknown` (may
//! have happened; asked again under the same key), `unknown-final` (may have happened; asking again brings the same),
//! `expired`.

mod rule;

use std::time::Duration;

use http::HeaderName;
use serde::Deserialize;

pub use rule::Means;
pub(crate) use rule::Rule;

use crate::OperationKey;

const SHIPPED: [(&str, &str); 8] = [
    ("onefold", include_str!("profile/shipped/onefold.toml")),
    ("draft", include_str!("profile/shipped/draft.toml")),
    ("stripe", include_str!("profile/shipped/stripe.toml")),
    ("adyen", include_str!("profile/shipped/adyen.toml")),
    ("square", include_str!("profile/shipped/square.toml")),
    ("paypal", include_str!("profile/shipped/paypal.toml")),
    ("github", include_str!("profile/shipped/github.toml")),
    ("grpc", include_str!("profile/shipped/grpc.toml")),
];

/// What one provider expects, and what its answers mean.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Where this is documented, in words.
    pub source: String,
    /// Where the key goes; `None`: the provider takes no key.
    pub carrier: Option<Carrier>,
    /// What a key may look like.
    pub rule: KeyRule,
    /// How long the provider remembers a key. An older key is not sent again: it could be a second effect.
    pub window: Option<Duration>,
    /// A header with the time (seconds since 1970) at which a limit is lifted.
    pub reset: Option<HeaderName>,
    pub(crate) answers: Vec<Rule>,
}

/// Where the key goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A header, as an RFC 9651 String or as it is.
    Header {
        /// Its name.
        name: HeaderName,
        /// In quotes, as the draft has it.
        quoted: bool,
    },
    /// A member of the JSON object that is the body.
    Body {
        /// The member's name.
        member: String,
    },
}

/// What a key may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRule {
    /// The longest key, in bytes.
    pub bytes_max: usize,
    /// Which characters.
    pub alphabet: Alphabet,
}

/// Which characters a key may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alphabet {
    /// Visible ASCII without `"` `,` `;` `\`.
    #[default]
    Visible,
    /// Letters and digits.
    Alphanumeric,
    /// Lower-case hexadecimal digits.
    Hex,
    /// Decimal digits.
    Digits,
    /// A UUID in its form of 36 characters.
    Uuid,
}

/// The key is not one that this provider takes. It is never cut or changed to fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DoesNotFit {
    /// Too long.
    #[error("the key is {bytes} bytes long; {profile} takes at most {bytes_max}")]
    TooLong {
        /// The key's length.
        bytes: usize,
        /// The longest allowed.
        bytes_max: usize,
        /// The profile.
        profile: String,
    },
    /// Other characters than allowed.
    #[error("the key holds characters that {profile} does not take ({alphabet:?})")]
    Characters {
        /// What is allowed.
        alphabet: Alphabet,
        /// The profile.
        profile: String,
    },
    /// The rule leaves no room for a key that nobody else has.
    #[error("{profile} takes keys of at most {bytes_max} bytes ({alphabet:?}): too few for a derived key")]
    TooNarrow {
        /// The longest allowed.
        bytes_max: usize,
        /// What is allowed.
        alphabet: Alphabet,
        /// The profile.
        profile: String,
    },
}

/// The text is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Not the TOML of a profile; the message has line and field.
    #[error("the profile cannot be read: {0}")]
    Form(#[from] toml::de::Error),
    /// A value that means nothing.
    #[error("the profile's {field} is {value:?}; {allowed}")]
    Value {
        /// The field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        allowed: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    source: String,
    key: WrittenKey,
    window: Option<String>,
    reset: Option<String>,
    #[serde(default)]
    answer: Vec<rule::WrittenRule>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenKey {
    Word(String),
    Header(HeaderKey),
    Body(BodyKey),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderKey {
    header: String,
    #[serde(default)]
    quoted: bool,
    max: usize,
    #[serde(default)]
    alphabet: Alphabet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BodyKey {
    body: String,
    max: usize,
    #[serde(default)]
    alphabet: Alphabet,
}

impl Profile {
    /// The gateway of this project.
    pub fn onefold() -> Profile {
        Profile::shipped("onefold").expect("it is shipped")
    }

    /// A shipped profile: `onefold`, `draft`, `stripe`, `adyen`, `square`, `paypal`, `github`, `grpc`.
    pub fn shipped(name: &str) -> Option<Profile> {
        let (_, text) = SHIPPED.into_iter().find(|(shipped, _)| *shipped == name)?;
        Some(Profile::from_toml(text).expect("a shipped profile can be read"))
    }

    /// The names of all shipped profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SHIPPED.into_iter().map(|(name, _)| name)
    }

    /// How long the provider remembers a key, where attempts that go on for this long outlast it: the last of them
    /// could be second effects.
    pub fn outlasted_by(&self, attempts: Duration) -> Option<Duration> {
        self.window.filter(|window| attempts > *window)
    }

    /// One's own profile.
    ///
    /// # Errors
    /// Unknown fields and values are errors.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let written: Written = toml::from_str(text)?;
        let no_key = KeyRule { bytes_max: 0, alphabet: Alphabet::Visible };
        let (carrier, rule) = match written.key {
            WrittenKey::Word(word) if word == "none" => (None, no_key),
            WrittenKey::Word(word) => {
                return Err(ProfileError::Value {
                    field: "key",
                    value: word,
                    allowed: "write a table with header or body and max, or \"none\"",
                });
            }
            WrittenKey::Header(key) => {
                let name = header_name("key.header", key.header)?;
                let rule = KeyRule { bytes_max: key.max, alphabet: key.alphabet };
                (Some(Carrier::Header { name, quoted: key.quoted }), rule)
            }
            WrittenKey::Body(key) => {
                let rule = KeyRule { bytes_max: key.max, alphabet: key.alphabet };
                (Some(Carrier::Body { member: key.body }), rule)
            }
        };
        Ok(Profile {
            name: written.name,
            source: written.source,
            carrier,
            rule,
            window: written.window.map(window).transpose()?,
            reset: written.reset.map(|name| header_name("reset", name)).transpose()?,
            answers: written.answer.into_iter().map(Rule::read).collect::<Result<_, _>>()?,
        })
    }

    /// The key as this provider is sent it.
    ///
    /// # Errors
    /// The provider does not take it: too long, or other characters. It is never cut.
    pub fn fit(&self, key: &OperationKey) -> Result<String, DoesNotFit> {
        let text = key.as_str();
        let KeyRule { bytes_max, alphabet } = self.rule;
        if text.len() > bytes_max {
            let profile = self.name.clone();
            return Err(DoesNotFit::TooLong { bytes: text.len(), bytes_max, profile });
        }
        let characters = || DoesNotFit::Characters { alphabet, profile: self.name.clone() };
        match &self.carrier {
            Some(Carrier::Header { quoted: true, .. }) if alphabet == Alphabet::Visible => {
                key.quoted().ok_or_else(characters)
            }
            carrier if alphabet.allows(text) => match carrier {
                Some(Carrier::Header { quoted: true, .. }) => key.quoted().ok_or_else(characters),
                _ => Ok(text.to_owned()),
            },
            _ => Err(characters()),
        }
    }
}

impl Alphabet {
    fn allows(self, text: &str) -> bool {
        let mut bytes = text.bytes();
        match self {
            Alphabet::Visible => bytes.all(|b| b.is_ascii_graphic() && !b"\",;\\".contains(&b)),
            Alphabet::Alphanumeric => bytes.all(|b| b.is_ascii_alphanumeric()),
            Alphabet::Hex => bytes.all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')),
            Alphabet::Digits => bytes.all(|b| b.is_ascii_digit()),
            Alphabet::Uuid => text.len() == 36 && uuid::Uuid::try_parse(text).is_ok(),
        }
    }
}

fn header_name(field: &'static str, value: String) -> Result<HeaderName, ProfileError> {
    HeaderName::try_from(value.as_str()).map_err(|_| ProfileError::Value {
        field,
        value,
        allowed: "write the name of a header",
    })
}

/// A whole number and `s`, `m`, `h` or `d`.
fn window(value: String) -> Result<Duration, ProfileError> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let seconds = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        _ => None,
    };
    match (number.parse::<u64>(), seconds) {
        (Ok(number @ 1..=36_500), Some(seconds)) => Ok(Duration::from_secs(number * seconds)),
        _ => Err(ProfileError::Value { field: "window", value, allowed: "write one such as 30m, 24h, 7d" }),
    }
}

#[cfg(test)]
mod tests;
