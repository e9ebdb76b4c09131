//! A source of webhooks, and what a delivery of it says of itself.

use std::time::Duration;

use http::HeaderMap;
use onefold_canon::{Pointer, PointerError};
use onefold_core::Key;
use serde_json::Value;

use crate::verify::{STANDARD_ID, begin, one};
use crate::{Refusal, Scheme, Secret, Verifier};

/// The longest entity, in bytes: with more a database could not keep it in an index.
const ENTITY_BYTES_MAX: usize = 1024;

/// Where something is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At a JSON pointer (RFC 6901) into the body.
    Pointer(String),
    /// In a header.
    Header(String),
}

/// One source of webhooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// How it signs.
    pub scheme: Scheme,
    /// All are accepted; a scheme that signs accepts nothing when there is none.
    pub secrets: Vec<Secret>,
    /// How far a signed time may be from now, where the scheme signs one. Whole seconds count.
    pub tolerance: Duration,
    /// Where the id is; `None`: where the scheme has it.
    pub id: Option<Place>,
    /// Where the entity is that it is about.
    pub entity: Option<Place>,
    /// Where that entity's version is.
    pub version: Option<Place>,
    /// Members of the body that differ between deliveries under one id by design, so they do not count when two are
    /// compared.
    pub ignore: Vec<Pointer>,
}

/// What a delivery says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The id that the sender gave the message, the same in every delivery.
    pub id: Key,
    /// What it is about. `None` where no place is set, or nothing stands there: not every event is about something.
    pub entity: Option<String>,
    /// A whole number as it stands, or a time of RFC 3339 in microseconds of Unix time. `None` likewise.
    pub version: Option<i64>,
}

/// How far a signed time may be from now, unless it is said.
const TOLERANCE: Duration = Duration::from_secs(300);

impl Source {
    /// A source whose id is where the scheme has it, with a tolerance of five minutes, that ignores what
    /// [`Scheme::differs`] names.
    pub fn new(scheme: Scheme, secrets: impl IntoIterator<Item = Secret>) -> Source {
        let (secrets, ignore) = (secrets.into_iter().collect(), scheme.differs());
        Source { scheme, secrets, tolerance: TOLERANCE, id: None, entity: None, version: None, ignore }
    }

    /// Ignores the members at these JSON pointers as well.
    ///
    /// # Errors
    /// One is no JSON pointer.
    pub fn ignoring(mut self, pointers: &[&str]) -> Result<Source, PointerError> {
        for pointer in pointers {
            self.ignore.push(pointer.parse()?);
        }
        Ok(self)
    }

    /// What a delivery that came at `now_s` says of itself, after its signature was found good.
    ///
    /// # Errors
    ///
    /// The signature is not good ([`Refusal::is_of_the_signature`]), or what is said cannot be read.
    pub fn read(&self, headers: &HeaderMap, body: &[u8], now_s: i64) -> Result<Delivery, Refusal> {
        let mut verifier = self.verifier(headers, now_s)?;
        verifier.update(body);
        verifier.finish()?;
        self.read_verified(headers, body)
    }

    /// What checks the body of a delivery that came at `now_s` with these headers, part by part, and digests what it
    /// says.
    ///
    /// # Errors
    ///
    /// What signs it is not there or cannot be read, or the signed time is too far from now. No byte of the body is
    /// needed to know that.
    pub fn verifier(&self, headers: &HeaderMap, now_s: i64) -> Result<Verifier, Refusal> {
        let signature = begin(&self.scheme, &self.secrets, self.tolerance, headers, now_s)?;
        Ok(Verifier::new(signature, &self.ignore))
    }

    /// What a delivery says of itself whose signature was found good before.
    ///
    /// # Errors
    ///
    /// What is said cannot be read.
    pub fn read_verified(&self, headers: &HeaderMap, body: &[u8]) -> Result<Delivery, Refusal> {
        let places = [&self.id, &self.entity, &self.version];
        let in_body = places.into_iter().any(|place| matches!(place, Some(Place::Pointer(_))))
            || self.id.is_none() && self.scheme == Scheme::Stripe;
        let body = match in_body {
            true => serde_json::from_slice(body).map_err(|_| unreadable("the body", "it is not JSON"))?,
            false => Value::Null,
        };
        let id = match &self.id {
            Some(place) => {
                said(place, headers, &body)?.ok_or_else(|| unreadable(&name(place), "there is no id"))?
            }
            None => own_id(&self.scheme, headers, &body)?,
        };
        let id =
            Key::new(id).map_err(|_| unreadable("the id", "it is empty, blank or over 255 bytes long"))?;
        let entity = self.entity.as_ref().map(|place| said(place, headers, &body)).transpose()?.flatten();
        if entity.as_ref().is_some_and(|entity| entity.len() > ENTITY_BYTES_MAX) {
            return Err(unreadable("the entity", "it is over 1024 bytes long"));
        }
        let version = match &self.version {
            Some(place) => said(place, headers, &body)?.map(|text| version(&text, place)).transpose()?,
            None => None,
        };
        Ok(Delivery { id, entity, version })
    }
}

/// The id where the scheme has it.
fn own_id(scheme: &Scheme, headers: &HeaderMap, body: &Value) -> Result<String, Refusal> {
    let header = |name: &str| said(&Place::Header(name.into()), headers, body);
    let required = |name: &str| header(name)?.ok_or_else(|| unreadable(name, "there is no id"));
    match scheme {
        Scheme::Standard => required(STANDARD_ID),
        Scheme::Stripe => said(&Place::Pointer("/id".into()), headers, body)?
            .ok_or_else(|| unreadable("/id", "there is no id")),
        Scheme::GitHub => required("X-GitHub-Delivery"),
        // One event id may stand in webhooks of several topics, and in one webhook for each subscription to a topic.
        // The latter are one message, the former are not. An older sender has only the id of the webhook.
        Scheme::Shopify => match header("X-Shopify-Event-Id")? {
            Some(event) => Ok(match header("X-Shopify-Topic")? {
                Some(topic) => format!("{topic} {event}"),
                None => event,
            }),
            None => required("X-Shopify-Webhook-Id"),
        },
        Scheme::Hmac(_) | Scheme::None => Err(unreadable("the id", "no place is set for it")),
    }
}

/// What stands in a place: a string, or a whole number as it is written. `None`: nothing, or null.
fn said(place: &Place, headers: &HeaderMap, body: &Value) -> Result<Option<String>, Refusal> {
    match place {
        Place::Header(header) => match one(headers, header) {
            Ok(line) => match std::str::from_utf8(line) {
                Ok(text) => Ok(Some(text.to_owned())),
                Err(_) => Err(unreadable(header, "it is not text")),
            },
            Err(Refusal::Missing(_)) => Ok(None),
            Err(_) => Err(unreadable(header, "it is there more than once")),
        },
        Place::Pointer(pointer) => match body.pointer(pointer) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) if !number.is_f64() => Ok(Some(number.to_string())),
            Some(_) => Err(unreadable(pointer, "it is neither a string nor a whole number")),
        },
    }
}

fn version(text: &str, place: &Place) -> Result<i64, Refusal> {
    let time = || text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_microsecond);
    let number = text.parse().ok().or_else(time);
    number.ok_or_else(|| unreadable(&name(place), "a version is a whole number or a time of RFC 3339"))
}

fn name(place: &Place) -> String {
    match place {
        Place::Pointer(name) | Place::Header(name) => name.clone(),
    }
}

fn unreadable(place: &str, wrong: &'static str) -> Refusal {
    Refusal::Unreadable { place: place.into(), wrong }
}
