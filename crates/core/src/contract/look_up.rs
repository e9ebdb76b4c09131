//! Whom a gateway asks: the authority about a lost outcome, and the authorizer about a caller.
//!
//! Plain data. A template holds variables only after the host, so no value that a caller chose can name another
//! host, and every value is percent-encoded, so none can leave its place in the URL.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::contract::StatusPattern;
use crate::reconcile::Fence;

/// How an authority is asked what became of an operation, and what its answer means. A status that neither list
/// names is inconclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// What is asked for by GET.
    pub get: UrlTemplate,
    /// Statuses that say that it happened.
    pub happened: Vec<StatusPattern>,
    /// Statuses that say that it did not.
    pub did_not_happen: Vec<StatusPattern>,
    /// Why the late original cannot happen after such an answer; without one it frees nothing.
    pub fence: Option<Fence>,
}

/// Who is asked whether a caller may have a stored answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorize {
    /// The URL, asked by GET.
    pub url: String,
    /// How long its answer may take.
    pub timeout: Duration,
}

/// What a template is filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variable {
    /// The caller's key.
    Key,
    /// The operation's id.
    OperationId,
    /// The key that the upstream got.
    DownstreamKey,
}

const VARIABLES: [(&str, Variable); 3] = [
    ("key", Variable::Key),
    ("operation_id", Variable::OperationId),
    ("downstream_key", Variable::DownstreamKey),
];

/// A URL with variables: `http://127.0.0.1:3000/orders?key={{key}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate {
    /// Each text is followed by its variable.
    pieces: Vec<(String, Variable)>,
    rest: String,
}

/// The text is no template; what is wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotATemplate(&'static str);

impl UrlTemplate {
    /// The variables in their order.
    pub fn variables(&self) -> impl Iterator<Item = Variable> {
        self.pieces.iter().map(|(_, variable)| *variable)
    }

    /// The URL with these values, percent-encoded but for what RFC 3986 calls unreserved.
    pub fn fill(&self, value: impl Fn(Variable) -> String) -> String {
        let mut url = String::new();
        for (text, variable) in &self.pieces {
            url.push_str(text);
            encode(&value(*variable), &mut url);
        }
        url.push_str(&self.rest);
        url
    }
}

fn encode(value: &str, out: &mut String) {
    use fmt::Write;
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

impl FromStr for UrlTemplate {
    type Err = NotATemplate;

    fn from_str(text: &str) -> Result<UrlTemplate, NotATemplate> {
        let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
        let host = after_scheme.find(['/', '?']).map_or(after_scheme, |end| &after_scheme[..end]);
        if host.contains("{{") {
            return Err(NotATemplate("a variable cannot stand in the host"));
        }
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").ok_or(NotATemplate("a variable ends with }}"))?;
            let variable = VARIABLES.iter().find(|(known, _)| *known == name.trim());
            let variable = variable.ok_or(NotATemplate(
                "there is no such variable; allowed: {{key}}, {{operation_id}}, {{downstream_key}}",
            ))?;
            pieces.push((before.to_owned(), variable.1));
            rest = after;
        }
        Ok(UrlTemplate { pieces, rest: rest.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str, key: &str) -> String {
        let template: UrlTemplate = template.parse().unwrap();
        template.fill(|variable| match variable {
            Variable::Key => key.to_owned(),
            Variable::OperationId => "ab12".to_owned(),
            Variable::DownstreamKey => "d".to_owned(),
        })
    }

    #[test]
    fn values_are_encoded_and_stay_in_their_place() {
        let url = "http://h/orders/{{operation_id}}?key={{key}}&d={{ downstream_key }}#x";
        assert_eq!(filled(url, "k-1._~"), "http://h/orders/ab12?key=k-1._~&d=d#x");
        assert_eq!(
            filled("http://h/{{key}}", "../a?b=c&d#e/\u{e9}%"),
            "http://h/..%2Fa%3Fb%3Dc%26d%23e%2F%C3%A9%25"
        );
        assert_eq!(filled("http://h/", "k"), "http://h/");
    }

    #[test]
    fn a_variable_is_known_ends_and_stands_after_the_host() {
        for bad in ["http://{{key}}/", "http://h{{key}}", "http://h/{{key", "http://h/{{body}}", "{{key}}"] {
            assert!(bad.parse::<UrlTemplate>().is_err(), "{bad}");
        }
    }
}
