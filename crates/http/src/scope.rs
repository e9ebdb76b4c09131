//! Whose key it is, read from a request (SEMANTICS 6 and 7). Never inferred from what the caller controls freely.

use std::cell::OnceCell;

use http::{HeaderMap, header};
use jsonwebtoken::dangerous::insecure_decode_claims;
use onefold_core::contract::ScopeSource;
use onefold_core::{FingerprintBuilder, IdentityKey, Scope, to_hex};
use serde_json::Value;

use crate::token::{Claims, TokenRule};

/// The longest value of a claim that says whose key it is, in bytes: as long as a key may be.
pub const CLAIM_BYTES_MAX: usize = 255;

/// Whom to believe, and when: what a request cannot say of itself.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// Whether the peer is one of the trusted proxies, who may set tenant headers.
    pub proxy: bool,
    /// Which tokens are believed.
    pub tokens: &'a TokenRule,
    /// The time, in seconds since the Unix epoch.
    pub now: i64,
}

/// A part of the scope is missing: 401, never a shared anonymous scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub String);

/// The scope of a request. `named` are the named segments of its path.
pub fn scope(
    sources: &[ScopeSource],
    headers: &HeaderMap,
    named: &[(String, String)],
    trust: Trust<'_>,
    secret: &IdentityKey,
) -> Result<Scope, Missing> {
    // A signature is verified once, however many of the claims are asked for.
    let claims = OnceCell::new();
    let mut parts = Vec::with_capacity(sources.len());
    for source in sources {
        let part = match source {
            ScopeSource::Shared => continue,
            ScopeSource::Credential => ("credential".to_owned(), credential(headers, secret)?),
            ScopeSource::Cookie(name) => (format!("cookie:{name}"), cookie(headers, name, secret)?),
            ScopeSource::Header(name) => (format!("header:{name}"), trusted_header(headers, name, trust)?),
            ScopeSource::Claim(name) => {
                let claims = claims.get_or_init(|| believed(headers, trust));
                (format!("claim:{name}"), claim(claims.as_ref().map_err(Missing::clone)?, name)?)
            }
            ScopeSource::Path(name) => (format!("path:{name}"), segment(named, name)?),
        };
        parts.push(part);
    }
    Ok(Scope::new(parts))
}

fn credential(headers: &HeaderMap, secret: &IdentityKey) -> Result<String, Missing> {
    let lines: Vec<&[u8]> =
        headers.get_all(header::AUTHORIZATION).iter().map(|v| v.as_bytes().trim_ascii()).collect();
    if lines.iter().all(|line| line.is_empty()) {
        return Err(Missing("the request has no Authorization; it says whose key it is".into()));
    }
    Ok(digested("credential", lines, secret))
}

fn cookie(headers: &HeaderMap, name: &str, secret: &IdentityKey) -> Result<String, Missing> {
    let values: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .flat_map(|line| line.as_bytes().split(|b| *b == b';'))
        .filter_map(|pair| {
            let pair = pair.trim_ascii();
            pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
        })
        .collect();
    match values.as_slice() {
        [value] if !value.is_empty() => Ok(digested("cookie", values, secret)),
        [] | [_] => Err(Missing(format!("the request has no cookie {name}; it says whose key it is"))),
        _ => Err(Missing(format!("the request has more than one cookie {name}"))),
    }
}

fn trusted_header(headers: &HeaderMap, name: &str, trust: Trust<'_>) -> Result<String, Missing> {
    if !trust.proxy {
        return Err(Missing(format!("{name} says whose key it is, and only trusted proxies may set it")));
    }
    let mut lines = headers.get_all(name).iter();
    match (lines.next().map(|v| v.to_str().map(str::trim)), lines.next()) {
        (Some(Ok(value)), None) if !value.is_empty() => Ok(value.to_owned()),
        (None, _) | (Some(Ok("")), None) => {
            Err(Missing(format!("the request has no {name}; it says whose key it is")))
        }
        _ => Err(Missing(format!("{name} must be there once, in visible ASCII"))),
    }
}

/// The claims of the caller's token.
fn believed(headers: &HeaderMap, trust: Trust<'_>) -> Result<Claims, Missing> {
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let line = match (lines.next(), lines.next()) {
        (Some(line), None) => line.to_str().unwrap_or_default(),
        (None, _) => "",
        _ => return Err(Missing("the request has more than one Authorization".into())),
    };
    let missing = || Missing("the request has no bearer token; its claims say whose key it is".into());
    let token = bearer(line).ok_or_else(missing)?;
    trust.tokens.claims(token, trust.now).map_err(|wrong| Missing(wrong.to_string()))
}

/// The token of an Authorization value (RFC 6750).
fn bearer(line: &str) -> Option<&str> {
    let (scheme, token) = line.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Whether the credential is a JSON Web Token that says when it expires. It is only looked at, never believed.
pub fn carries_expiring_token(headers: &HeaderMap) -> bool {
    let line = headers.get(header::AUTHORIZATION).and_then(|line| line.to_str().ok());
    let claims = line.and_then(bearer).and_then(|token| insecure_decode_claims::<Claims>(token).ok());
    claims.is_some_and(|claims| claims.contains_key("exp"))
}

/// A claim's text, or its whole number in decimal.
fn claim(claims: &Claims, name: &str) -> Result<String, Missing> {
    let value = match claims.get(name) {
        None => return Err(Missing(format!("the token has no claim {name}; it says whose key it is"))),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if !number.is_f64() => number.to_string(),
        Some(_) => {
            return Err(Missing(format!("the token's claim {name} is neither text nor a whole number")));
        }
    };
    if value.trim().is_empty() || value.len() > CLAIM_BYTES_MAX || value.contains(char::is_control) {
        let must = format!("1 to {CLAIM_BYTES_MAX} bytes without control characters, not all blanks");
        return Err(Missing(format!("the token's claim {name} must be {must}")));
    }
    Ok(value)
}

fn segment(named: &[(String, String)], name: &str) -> Result<String, Missing> {
    let found = named.iter().find(|(n, _)| n == name);
    found
        .map(|(_, value)| value.clone())
        .ok_or_else(|| Missing(format!("the path has no segment {{{name}}}")))
}

/// Secrets enter the scope as digests: the store and its lists never show them.
fn digested(what: &str, values: Vec<&[u8]>, secret: &IdentityKey) -> String {
    let builder = values.iter().fold(FingerprintBuilder::new(secret), |b, value| b.part(what, value));
    to_hex(&builder.finish().digest[..16])
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;
    use crate::token::TokenKey;

    fn trust(tokens: &TokenRule, proxy: bool) -> Trust<'_> {
        Trust { proxy, tokens, now: 1_800_000_000 }
    }

    fn of(source: ScopeSource, lines: &[(&'static str, &str)], trusted: bool) -> Result<String, Missing> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        let tokens = TokenRule::default();
        scope(&[source], &headers, &[], trust(&tokens, trusted), &IdentityKey::none())
            .map(|scope| scope.parts()[0].value.clone())
    }

    #[test]
    fn credentials_are_told_apart_and_never_shown() {
        let a = of(ScopeSource::Credential, &[("authorization", "Bearer a")], false).unwrap();
        let b = of(ScopeSource::Credential, &[("authorization", "Bearer b")], false).unwrap();
        assert_ne!(a, b);
        assert!(!a.contains("Bearer"));
        assert!(of(ScopeSource::Credential, &[], false).is_err());
        assert!(of(ScopeSource::Credential, &[("authorization", " ")], false).is_err());
    }

    #[test]
    fn a_tenant_header_counts_from_trusted_proxies_only() {
        let tenant = || ScopeSource::Header("X-Tenant".into());
        assert_eq!(of(tenant(), &[("x-tenant", "acme")], true).as_deref(), Ok("acme"));
        assert!(of(tenant(), &[("x-tenant", "acme")], false).is_err());
        assert!(of(tenant(), &[("x-tenant", "acme"), ("x-tenant", "victim")], true).is_err());
        assert!(of(tenant(), &[], true).is_err());
    }

    #[test]
    fn a_guest_is_known_by_a_cookie_of_exactly_this_name() {
        let session = || ScopeSource::Cookie("sid".into());
        let one = of(session(), &[("cookie", "a=1; sid=one; b=2")], false).unwrap();
        assert_ne!(one, of(session(), &[("cookie", "sid=two")], false).unwrap());
        assert!(of(session(), &[("cookie", "xsid=one; sidx=one")], false).is_err());
        assert!(of(session(), &[("cookie", "sid=")], false).is_err());
        assert!(of(session(), &[("cookie", "sid=one; sid=two")], false).is_err());
    }

    const SECRET: &[u8] = b"a secret of the tests, long enough";

    /// `Bearer` and a token of these claims.
    fn bearer(claims: &str) -> String {
        let head =
            format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET);
        format!("Bearer {head}.{}", URL_SAFE_NO_PAD.encode(ring::hmac::sign(&key, head.as_bytes())))
    }

    fn of_claims(names: &[&str], lines: &[&str]) -> Result<String, String> {
        let tokens = TokenRule::new(vec![TokenKey::secret(SECRET).unwrap()], None, None);
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::AUTHORIZATION, line.parse().unwrap());
        }
        let sources: Vec<_> = names.iter().map(|name| ScopeSource::Claim((*name).into())).collect();
        scope(&sources, &headers, &[], trust(&tokens, false), &IdentityKey::none())
            .map(|scope| scope.to_string())
            .map_err(|missing| missing.0)
    }

    #[test]
    fn claims_of_a_verified_token_are_the_scope_in_clear_and_in_order() {
        let token = bearer(r#"{"sub":"user-17","tenant":7,"https://x.example/org":"acme","exp":1800000000}"#);
        assert_eq!(of_claims(&["sub"], &[&token]).unwrap(), "claim:sub=user-17");
        assert_eq!(of_claims(&["tenant", "sub"], &[&token]).unwrap(), "claim:tenant=7,claim:sub=user-17");
        assert_eq!(
            of_claims(&["https://x.example/org"], &[&token]).unwrap(),
            "claim:https://x.example/org=acme"
        );
        let refreshed = bearer(r#"{"exp":1800003600,"sub":"user-17"}"#).replace("Bearer", "bearer");
        assert_eq!(of_claims(&["sub"], &[&refreshed]).unwrap(), "claim:sub=user-17");
    }

    #[test]
    fn a_claim_that_is_not_there_once_as_text_or_whole_number_is_missing() {
        let long = "x".repeat(CLAIM_BYTES_MAX + 1);
        for (value, wrong) in [
            (r#""""#, "must be 1 to 255 bytes"),
            (r#"" ""#, "must be 1 to 255 bytes"),
            (r#""a\u0000b""#, "must be 1 to 255 bytes"),
            (r#""a\u001b[2J""#, "must be 1 to 255 bytes"),
            (&format!("{long:?}"), "must be 1 to 255 bytes"),
            ("1.5", "is neither text nor a whole number"),
            ("18446744073709551616", "is neither text nor a whole number"),
            ("true", "is neither text nor a whole number"),
            ("null", "is neither text nor a whole number"),
            (r#"["user-17"]"#, "is neither text nor a whole number"),
            (r#"{"id":"user-17"}"#, "is neither text nor a whole number"),
        ] {
            let found = of_claims(&["org"], &[&bearer(&format!(r#"{{"org":{value}}}"#))]).unwrap_err();
            assert!(found.starts_with("the token's claim org ") && found.contains(wrong), "{value}: {found}");
        }
        for sub in ["[]", "{}", "1e3", "null"] {
            assert!(of_claims(&["sub"], &[&bearer(&format!(r#"{{"sub":{sub}}}"#))]).is_err(), "{sub}");
        }
        assert!(of_claims(&["sub"], &[&bearer(r#"{"sub":"a","sub":"b"}"#)]).is_err(), "which of them?");
        assert_eq!(of_claims(&["sub"], &[&bearer(r#"{"sub":17}"#)]).unwrap(), "claim:sub=17");
        let token = bearer(r#"{"sub":"user-17"}"#);
        let missing = "the token has no claim tenant; it says whose key it is";
        assert_eq!(of_claims(&["sub", "tenant"], &[&token]).unwrap_err(), missing);
    }

    #[test]
    fn a_claim_counts_only_in_the_one_bearer_token_and_under_its_signature() {
        let token = bearer(r#"{"sub":"user-17"}"#);
        let none = "the request has no bearer token; its claims say whose key it is";
        for lines in
            [&[][..], &[""], &["Bearer"], &["Basic dXNlcjpwYXNz"], &[token.trim_start_matches("Bearer ")]]
        {
            assert_eq!(of_claims(&["sub"], lines).unwrap_err(), none, "{lines:?}");
        }
        let two = of_claims(&["sub"], &[&token, &token]).unwrap_err();
        assert_eq!(two, "the request has more than one Authorization");
        assert!(of_claims(&["sub"], &[&format!("{token}, {token}")]).is_err());
        let forged = format!("{}AAAA", &token[..token.len() - 4]);
        let found = of_claims(&["sub"], &[&forged]).unwrap_err();
        assert_eq!(found, "the token's signature does not verify under any key here");
        let expired = of_claims(&["sub"], &[&bearer(r#"{"sub":"user-17","exp":1700000000}"#)]).unwrap_err();
        assert_eq!(expired, "the token has expired; send a fresh one, with the same key");
    }
}
