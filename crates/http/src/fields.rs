//! Header fields that belong to one hop or to one exchange.

use http::{HeaderMap, HeaderName, header};

/// Fields of one connection (RFC 9110, section 7.6.1, and their old companions).
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("http2-settings"),
];

/// Fields of one exchange: a replay of them would lie, or hand on what was meant for one caller at one moment
/// (SEMANTICS 8). Names that end in `*` are prefixes.
const ONE_EXCHANGE: [&str; 26] = [
    "date",
    "age",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
    "proxy-authenticate",
    "authentication-info",
    "proxy-authentication-info",
    "request-id",
    "x-request-id",
    "x-requestid",
    "x-correlation-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "x-amzn-trace-id",
    "x-amz-cf-id",
    "x-trace-id",
    "x-b3-*",
    "cf-ray",
    "traceparent",
    "tracestate",
    "server-timing",
    "ratelimit*",
    "x-ratelimit*",
    "x-rate-limit*",
    "x-runtime",
];

/// Whether the field belongs to one connection.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    HOP_BY_HOP.contains(name)
}

/// Whether the field belongs to one exchange and is not replayed.
pub(crate) fn is_of_one_exchange(name: &HeaderName) -> bool {
    let name = name.as_str();
    ONE_EXCHANGE.iter().any(|field| match field.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *field,
    })
}

/// Trailer fields as they may be handed on or kept: none that frames, routes, authorizes or marks a message
/// (RFC 9110, section 6.5.1).
pub fn clean_trailers(trailers: &HeaderMap) -> HeaderMap {
    const NEVER: [HeaderName; 9] = [
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::CONTENT_ENCODING,
        header::HOST,
        header::AUTHORIZATION,
        header::COOKIE,
        header::SET_COOKIE,
        header::TRAILER,
        header::CACHE_CONTROL,
    ];
    let mut clean = HeaderMap::with_capacity(trailers.len());
    for (name, value) in trailers {
        if !is_hop_by_hop(name)
            && !NEVER.contains(name)
            && *name != crate::REPLAYED
            && *name != crate::OPERATION
        {
            clean.append(name, value.clone());
        }
    }
    clean
}

/// The headers without the fields of this connection, those named by `Connection` included. Lines keep their order.
pub fn strip_hop_by_hop(headers: &HeaderMap) -> HeaderMap {
    strip_hop_by_hop_except(headers, |_| false)
}

/// As [`strip_hop_by_hop`], but `Connection` cannot take away what `end_to_end` says is meant for the other end: a
/// caller must not be able to hide from the upstream what the layer has counted (the key, the credential).
pub fn strip_hop_by_hop_except(headers: &HeaderMap, end_to_end: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .filter(|name| !end_to_end(name))
        .collect();
    let mut kept = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        if !is_hop_by_hop(name) && !named.contains(name) {
            kept.append(name, value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_and_those_it_names_are_left_out() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("link", "<a>"),
            ("keep-alive", "timeout=5"),
            ("link", "<b>"),
            ("upgrade", "h2c"),
        ] {
            headers.append(HeaderName::from_static(name), value.parse().unwrap());
        }
        let kept: Vec<_> =
            strip_hop_by_hop(&headers).iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
        assert_eq!(
            kept,
            [
                ("link".into(), "<a>".parse().unwrap()),
                ("link".into(), "<b>".parse::<http::HeaderValue>().unwrap())
            ]
        );
    }

    #[test]
    fn fields_of_one_exchange_are_known_by_name_or_prefix() {
        for name in
            ["date", "set-cookie", "x-ratelimit-remaining", "ratelimit", "www-authenticate", "x-b3-traceid"]
        {
            assert!(is_of_one_exchange(&HeaderName::from_static(name)), "{name}");
        }
        for name in ["location", "etag", "link", "retry-after", "x-custom", "content-disposition"] {
            assert!(!is_of_one_exchange(&HeaderName::from_static(name)), "{name}");
        }
    }
}
