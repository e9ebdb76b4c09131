//! The request as it goes on to the upstream.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};
use onefold_core::Key;
use onefold_core::contract::{Contract, ForwardKey, ScopeSource};
use onefold_http::strip_hop_by_hop;

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

/// The head of a request: what is needed to send it, as often as attempts are made.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
}

impl Head {
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

    fn forwarded_headers(&self, gateway: &Gateway, caller: Caller) -> HeaderMap {
        let mut headers = strip_hop_by_hop(&self.headers);
        headers.remove(header::EXPECT);
        if takes_trailers(&self.headers) {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        let host = self.headers.get(header::HOST).cloned().or_else(|| {
            self.uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok())
        });
        if !caller.trusted {
            for name in [FORWARDED_FOR, FORWARDED_PROTO, FORWARDED_HOST, header::FORWARDED] {
                headers.remove(name);
            }
            for name in gateway.tenant_headers() {
                headers.remove(name);
            }
        }
        let ip = caller.ip.to_string();
        let chain = match headers.get(&FORWARDED_FOR).and_then(|v| v.to_str().ok()) {
            Some(before) => format!("{before}, {ip}"),
            None => ip,
        };
        if let Ok(chain) = HeaderValue::from_str(&chain) {
            headers.insert(FORWARDED_FOR, chain);
        }
        let proto = if caller.tls { "https" } else { "http" };
        headers.entry(FORWARDED_PROTO).or_insert(HeaderValue::from_static(proto));
        if let Some(host) = host {
            headers.entry(FORWARDED_HOST).or_insert_with(|| host.clone());
            headers.entry(header::HOST).or_insert(host);
        }
        headers
    }
}

/// Whether the caller takes trailers; then the gateway does, for the upstream (RFC 9110, section 10.1.4).
fn takes_trailers(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::TE).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers")))
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
pub(crate) fn forward_key(headers: &mut HeaderMap, contract: &Contract, derived: &str) {
    match contract.forward_key {
        ForwardKey::Same => {}
        ForwardKey::None => remove_keys(headers, contract),
        ForwardKey::Derived => {
            remove_keys(headers, contract);
            let name =
                contract.key.headers.first().map_or(onefold_core::contract::KEY_HEADER, String::as_str);
            let value = Key::new(derived).ok().and_then(|key| key.to_header());
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
