//! Whose key it is, read from a request (SEMANTICS 6 and 7). Never inferred from what the caller controls freely.

use http::{HeaderMap, header};
use onefold_core::contract::ScopeSource;
use onefold_core::{FingerprintBuilder, IdentityKey, Scope, to_hex};

/// What is known of the peer that sent the request.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Whether it is one of the trusted proxies, who may set tenant headers.
    pub trusted: bool,
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
    peer: Peer,
    secret: &IdentityKey,
) -> Result<Scope, Missing> {
    let mut parts = Vec::with_capacity(sources.len());
    for source in sources {
        let part = match source {
            ScopeSource::Shared => continue,
            ScopeSource::Credential => ("credential".to_owned(), credential(headers, secret)?),
            ScopeSource::Cookie(name) => (format!("cookie:{name}"), cookie(headers, name, secret)?),
            ScopeSource::Header(name) => (format!("header:{name}"), trusted_header(headers, name, peer)?),
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

fn trusted_header(headers: &HeaderMap, name: &str, peer: Peer) -> Result<String, Missing> {
    if !peer.trusted {
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
    use super::*;

    fn of(source: ScopeSource, lines: &[(&'static str, &str)], trusted: bool) -> Result<String, Missing> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, value.parse().unwrap());
        }
        scope(&[source], &headers, &[], Peer { trusted }, &IdentityKey::none())
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
}
