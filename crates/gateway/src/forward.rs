//! The request as it goes on to the upstream.

use std::collections::HashSet;
use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version, request};
use onefold_core::Key;
use onefold_core::contract::{Contract, ForwardKey, ScopeSource};
use onefold_http::strip_hop_by_hop_except;

use crate::Gateway;
use crate::body::AnyBody;

/// Who sent the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) ip: IpAddr,
    pub(crate) tls: bool,
    pub(crate) trusted: bool,
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// What only trusted proxies may say of where a request came from.
const FORWARDED: [HeaderName; 4] = [FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST, header::FORWARDED];

/// The head of a request: what is needed to send it, as often as attempts are made.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl Head {
    /// The head of a request. HTTP/2 names the host in its target, which counts before a `Host` field.
    pub(crate) fn of(parts: request::Parts) -> Head {
        let mut headers = parts.headers;
        let authority = parts.uri.authority().filter(|_| parts.version >= Version::HTTP_2);
        if let Some(Ok(host)) = authority.map(|authority| HeaderValue::from_str(authority.as_str())) {
            headers.insert(header::HOST, host);
        }
        Head { method: parts.method, uri: parts.uri, headers }
    }

    /// The path and query as the caller sent them.
    pub(crate) fn target(&self) -> &str {
        self.uri.path_and_query().map_or("/", |target| target.as_str())
    }

    /// The request for the upstream. Fails only when the target is not one.
    pub(crate) fn to_request(
        &self,
        gateway: &Gateway,
        caller: Caller,
        body: AnyBody,
    ) -> Result<Request<AnyBody>, http::Error> {
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = gateway.upstream.url(self.target())?;
        *request.version_mut() = Version::HTTP_11;
        *request.headers_mut() = self.forwarded_headers(gateway, caller);
        Ok(request)
    }

    /// What the caller may say to whoever is behind the gateway.
    pub(crate) fn believed_headers(&self, gateway: &Gateway, caller: Caller) -> HeaderMap {
        let mut headers = strip_hop_by_hop_except(&self.headers, |name| gateway.end_to_end.contains(name));
        headers.remove(header::EXPECT);
        if !caller.trusted {
            let tenant = |name: &HeaderName| gateway.tenant_headers().any(|header| looks_like(name, header));
            let forged = |name: &HeaderName| FORWARDED.contains(name) || tenant(name);
            for name in headers.keys().filter(|name| forged(name)).cloned().collect::<Vec<_>>() {
                headers.remove(name);
            }
        }
        headers
    }

    fn forwarded_headers(&self, gateway: &Gateway, caller: Caller) -> HeaderMap {
        let mut headers = self.believed_headers(gateway, caller);
        if takes_trailers(&self.headers) {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        // RFC 9113, section 8.2.3: HTTP/2 may split the cookies, HTTP/1.1 has one line.
        join(&mut headers, &header::COOKIE, b"; ", None);
        join(&mut headers, &FORWARDED_FOR, b", ", Some(caller.ip.to_string().as_bytes()));
        let proto = if caller.tls { "https" } else { "http" };
        headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static(proto));
        if let Some(host) = headers.get(header::HOST).cloned() {
            headers.entry(FORWARDED_HOST).or_insert(host);
        }
        headers
    }
}

/// Whether servers that hand headers on as variables would take one name for the other (`X_Tenant`, `X-Tenant`).
fn looks_like(name: &HeaderName, header: &str) -> bool {
    let same =
        |a: u8, b: u8| a.eq_ignore_ascii_case(&b) || (matches!(a, b'-' | b'_') && matches!(b, b'-' | b'_'));
    name.as_str().len() == header.len() && name.as_str().bytes().zip(header.bytes()).all(|(a, b)| same(a, b))
}

/// All lines of a name as one, with one more value at the end. Without any nothing changes.
fn join(headers: &mut HeaderMap, name: &HeaderName, separator: &[u8], more: Option<&[u8]>) {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).chain(more).collect();
    if let Ok(joined) = HeaderValue::from_bytes(&lines.join(separator))
        && !lines.is_empty()
    {
        headers.insert(name, joined);
    }
}

/// Whether the caller takes trailers; then the gateway does, for the upstream (RFC 9110, section 10.1.4).
fn takes_trailers(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::TE).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers")))
}

/// The fields that a caller cannot declare as belonging to this hop: what the layer counts on, and what makes a request
/// what it is for the upstream.
pub(crate) fn end_to_end(contracts: &[&Contract]) -> HashSet<HeaderName> {
    let always = [
        header::AUTHORIZATION,
        header::COOKIE,
        header::HOST,
        header::CONTENT_TYPE,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
    ];
    let named = contracts.iter().flat_map(|contract| {
        let scope = contract.scope.iter().filter_map(|source| match source {
            ScopeSource::Header(name) => Some(name),
            _ => None,
        });
        contract.key.headers.iter().chain(&contract.fingerprint.headers).chain(scope)
    });
    always.into_iter().chain(named.filter_map(|name| name.parse().ok())).collect()
}

impl Gateway {
    /// The headers that say whose key it is: from a peer that is not trusted they go no further.
    fn tenant_headers(&self) -> impl Iterator<Item = &str> {
        self.options.routes.iter().flat_map(|route| &route.contract.scope).filter_map(|source| match source {
            ScopeSource::Header(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

/// Puts the key for the upstream in place.
pub(crate) fn forward_key(headers: &mut HeaderMap, contract: &Contract, derived: impl FnOnce() -> String) {
    match contract.forward_key {
        ForwardKey::Same => {}
        ForwardKey::None => remove_keys(headers, contract),
        ForwardKey::Derived => {
            remove_keys(headers, contract);
            let name =
                contract.key.headers.first().map_or(onefold_core::contract::KEY_HEADER, String::as_str);
            let value = Key::new(derived()).ok().and_then(|key| key.to_header());
            if let (Ok(name), Some(Ok(value))) =
                (HeaderName::try_from(name), value.map(HeaderValue::try_from))
            {
                headers.insert(name, value);
            }
        }
    }
}

fn remove_keys(headers: &mut HeaderMap, contract: &Contract) {
    for name in &contract.key.headers {
        headers.remove(name.as_str());
    }
}
