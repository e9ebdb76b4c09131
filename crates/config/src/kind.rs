//! Kinds of values that are written as text: addresses, paths, names; each with its grammar in words.
//!
//! One [`Kind`] is what a setting reads, what its error allows and what the reference prints.

use std::net::SocketAddr;

use onefold_canon::{Pointer, PointerError};
use onefold_core::contract::{ScopeSource, StatusPattern, UrlTemplate};

use onefold_webhooks::Place;

use crate::path_pattern::{PathPattern, is_name};
use crate::urls::{look_up_url, service_url};
use crate::{Network, NotAUrl, StoreUrl, UpstreamUrl};

/// The most characters of a written value that an error repeats.
const QUOTED_CHARS_MAX: usize = 60;
/// The longest name of an operation or of a claim, in characters.
const NAME_CHARS_MAX: usize = 100;

/// One kind of value.
pub(crate) struct Kind<T> {
    /// What it is: "a duration".
    pub(crate) what: &'static str,
    /// How it is written: "one such as 30s".
    pub(crate) write: &'static str,
    /// `Err(Wrong::Kind)`: the text is not of this kind. `Err(Wrong::Because(…))`: it is, and this is wrong with it.
    pub(crate) parse: fn(&str) -> Result<T, Wrong>,
}

/// Why a text is no value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is not of this kind.
    Kind,
    /// It is of this kind, and this is wrong with it.
    Because(String),
    /// The same, where the text may hold a password that no error repeats.
    Unquoted(String),
}

impl<T> Kind<T> {
    /// The value, or what is wrong and allowed.
    pub(crate) fn read(&self, text: &str) -> Result<T, String> {
        (self.parse)(text).map_err(|wrong| match wrong {
            Wrong::Kind => self.refusal(&quoted(text)),
            Wrong::Because(wrong) => format!("{}: {wrong}", quoted(text)),
            Wrong::Unquoted(wrong) => wrong,
        })
    }

    /// The error for something that is not of this kind.
    pub(crate) fn refusal(&self, shown: &str) -> String {
        format!("{shown} is not {}; write {}", self.what, self.write)
    }

    /// The error for something that is not even text.
    pub(crate) fn refusal_of_no_text(&self, shown: &str) -> String {
        format!("{shown} is not {}; write, in quotes, {}", self.what, self.write)
    }
}

/// The text in quotes, on one line, cut to a screen's width.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

pub(crate) const ADDRESS: Kind<SocketAddr> = Kind {
    what: "an IP address with a port",
    write: "one such as 127.0.0.1:8080, [::1]:8080",
    parse: |text| text.parse().map_err(|_| Wrong::Kind),
};

pub(crate) const NETWORK: Kind<Network> = Kind {
    what: "an IP address or network",
    write: "one such as 10.0.0.0/8, 192.0.2.7",
    parse: Network::parse,
};

pub(crate) const PATH: Kind<PathPattern> = Kind {
    what: "a path",
    write: "one such as /orders, /orders/{id}/items; segments may be {named}",
    parse: PathPattern::parse,
};

/// A path of the gateway's own: literal, normalized, not the root.
pub(crate) const OWN_PATH: Kind<String> = Kind {
    what: "a literal path beneath /",
    write: "one such as /operations",
    parse: |text| {
        let path = PathPattern::parse(text)?;
        match path.names().next().is_none() && path.to_string() != "/" {
            true => Ok(path.to_string()),
            false => Err(Wrong::Kind),
        }
    },
};

pub(crate) const METHOD: Kind<String> = Kind {
    what: "a method",
    write: "one in capitals, such as POST, PUT, PATCH, DELETE",
    parse: |text| match text {
        "GET" | "HEAD" | "OPTIONS" | "TRACE" => {
            Err(Wrong::Because("safe methods pass through untouched and need no operation".into()))
        }
        "CONNECT" => Err(Wrong::Because("a tunnel is no request with a path".into())),
        _ if is_token(text) && !text.bytes().any(|b| b.is_ascii_lowercase()) => Ok(text.into()),
        _ => Err(Wrong::Kind),
    },
};

pub(crate) const OPERATION_NAME: Kind<String> = Kind {
    what: "a name",
    write: "1 to 100 characters without blanks at the ends and without control characters",
    parse: |text| {
        let fits = (1..=NAME_CHARS_MAX).contains(&text.chars().count());
        match fits && text.trim() == text && !text.contains(char::is_control) {
            true => Ok(text.into()),
            false => Err(Wrong::Kind),
        }
    },
};

pub(crate) const DESTINATION_NAME: Kind<String> =
    Kind { what: "a name", write: OPERATION_NAME.write, parse: OPERATION_NAME.parse };

pub(crate) const BOUNDARY: Kind<String> =
    Kind { what: "a boundary", write: "one such as one order for each key", parse: |text| Ok(text.into()) };

pub(crate) const FILE: Kind<std::path::PathBuf> = Kind {
    what: "a file",
    write: "its path, relative to the working directory",
    parse: |text| if text.is_empty() || text.contains('\0') { Err(Wrong::Kind) } else { Ok(text.into()) },
};

pub(crate) const HEADER: Kind<String> = Kind {
    what: "a header name",
    write: "one such as Idempotency-Key",
    parse: |text| if is_token(text) { Ok(text.into()) } else { Err(Wrong::Kind) },
};

/// Any JSON pointer.
pub(crate) const POINTER: Kind<String> = Kind {
    what: "a JSON pointer",
    write: "one such as /id, /items/0/price (RFC 6901; ~0 is ~, ~1 is /)",
    parse: |text| pointer(text).map(|_| text.into()),
};

/// A JSON pointer to something in the body, as it is written.
pub(crate) const FIELD: Kind<String> = Kind { parse: |text| field(text).map(|_| text.into()), ..POINTER };

/// The same, read.
pub(crate) const FIELD_READ: Kind<Pointer> = Kind { what: POINTER.what, write: POINTER.write, parse: field };

fn pointer(text: &str) -> Result<Pointer, Wrong> {
    text.parse().map_err(|wrong: PointerError| match text.starts_with('/') {
        true => Wrong::Because(wrong.to_string()),
        false => Wrong::Kind,
    })
}

/// The empty pointer names no field, so it would ignore and remove nothing.
fn field(text: &str) -> Result<Pointer, Wrong> {
    match text {
        "" => Err(Wrong::Because("the empty pointer names the whole body, not a field of it".into())),
        _ => pointer(text),
    }
}

/// Where a webhook says something of itself.
pub(crate) const PLACE: Kind<Place> = Kind {
    what: "a place",
    write: "a JSON pointer such as /id, or header:NAME",
    parse: |text| match text.strip_prefix("header:") {
        Some(name) if is_token(name) => Ok(Place::Header(name.into())),
        Some(_) => Err(Wrong::Because("the colon is followed by the name of a header".into())),
        None => (FIELD.parse)(text).map(Place::Pointer),
    },
};

pub(crate) const INBOX_SOURCE: Kind<String> = Kind {
    what: "a source",
    write: "one such as stripe, github/app1: segments of letters, digits, -, _ and .",
    parse: |text| {
        let segment = |segment: &str| {
            let fits = segment.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            fits && !["", ".", ".."].contains(&segment)
        };
        if text.len() <= NAME_CHARS_MAX && text.split('/').all(segment) {
            Ok(text.into())
        } else {
            Err(Wrong::Kind)
        }
    },
};

pub(crate) const TEXT: Kind<String> =
    Kind { what: "a text", write: "it as it is sent", parse: |text| Ok(text.into()) };

pub(crate) const SCOPE: Kind<ScopeSource> = Kind {
    what: "a part of a scope",
    write: "credential, cookie:NAME, header:NAME, claim:NAME, path:NAME or shared",
    parse: parse_scope,
};

pub(crate) const ISSUER: Kind<String> =
    Kind { what: "an issuer", write: "one such as https://id.example", parse: not_empty };

pub(crate) const AUDIENCE: Kind<String> =
    Kind { what: "an audience", write: "one such as orders", parse: not_empty };

pub(crate) const STATUS: Kind<StatusPattern> = Kind {
    what: "a status",
    write: "a number from 200 to 599, or a class: 2xx, 3xx, 4xx, 5xx",
    parse: |text| match text.parse::<StatusPattern>() {
        // `+500` and `0500` are numbers too, but nobody's way to write a status.
        Ok(pattern) if pattern.to_string() == text => Ok(pattern),
        _ => Err(Wrong::Kind),
    },
};

pub(crate) const STORE_URL: Kind<StoreUrl> = Kind {
    what: "a store",
    write: "sqlite:PATH or postgres://…",
    parse: |text| text.parse().map_err(unquoted),
};

pub(crate) const UPSTREAM_URL: Kind<UpstreamUrl> = Kind {
    what: "an upstream",
    write: "one such as http://127.0.0.1:3000",
    parse: |text| text.parse().map_err(unquoted),
};

pub(crate) const LOOK_UP_URL: Kind<UrlTemplate> = Kind {
    what: "a URL",
    write: "one such as http://127.0.0.1:3000/orders?key={{key}}",
    parse: |text| look_up_url(text).map_err(unquoted),
};

pub(crate) const SERVICE_URL: Kind<String> = Kind {
    what: "a URL",
    write: "one such as http://127.0.0.1:3000/auth",
    parse: |text| service_url(text).map_err(unquoted),
};

fn not_empty(text: &str) -> Result<String, Wrong> {
    if text.is_empty() { Err(Wrong::Kind) } else { Ok(text.into()) }
}

fn unquoted(wrong: NotAUrl) -> Wrong {
    Wrong::Unquoted(wrong.to_string())
}

fn parse_scope(text: &str) -> Result<ScopeSource, Wrong> {
    let named = |what: &str, name: &str, fits: bool| match fits {
        true => Ok(name.to_owned()),
        false => Err(Wrong::Because(format!("the colon is followed by the name of a {what}"))),
    };
    match text.split_once(':') {
        None if text == "credential" => Ok(ScopeSource::Credential),
        None if text == "shared" => Ok(ScopeSource::Shared),
        Some(("cookie", name)) => named("cookie", name, is_token(name)).map(ScopeSource::Cookie),
        Some(("header", name)) => named("header", name, is_token(name)).map(ScopeSource::Header),
        Some(("path", name)) => named("segment", name, is_name(name)).map(ScopeSource::Path),
        Some(("claim", name)) => named("claim", name, is_claim(name)).map(ScopeSource::Claim),
        _ => Err(Wrong::Kind),
    }
}

/// The name of a claim: any JSON name that a person would write, `https://id.example/tenant` among them.
fn is_claim(text: &str) -> bool {
    (1..=NAME_CHARS_MAX).contains(&text.chars().count())
        && !text.contains(|c: char| c.is_control() || c == ' ')
}

/// A token of RFC 9110: the grammar of methods, header names and cookie names.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}
