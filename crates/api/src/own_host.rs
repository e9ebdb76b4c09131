//! The admin listener answers programs that were told its address, not web pages that were led to it.
//!
//! A browser on the operator's machine can be brought to send requests to loopback: across sites, or to a name of the
//! attacker's that suddenly means 127.0.0.1. Both are told by what the browser adds: `Origin`, and the name in `Host`.

use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use onefold_core::Problem;

use crate::refusal::Refusal;

/// Refuses requests that a web page of another site has caused.
pub(crate) async fn only(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    if headers.contains_key(header::ORIGIN) || !host.is_none_or(is_own) {
        let detail =
            "this listener is asked by its address (127.0.0.1, [::1] or localhost), not from a web page";
        return Refusal::new(Problem::Forbidden, detail).into_response();
    }
    next.run(request).await
}

/// Whether the host is an address or `localhost`, with or without a port.
fn is_own(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_own_and_names_are_not() {
        for host in ["127.0.0.1", "127.0.0.1:7070", "localhost:7070", "LOCALHOST", "[::1]:7070", "[::1]"] {
            assert!(is_own(host), "{host}");
        }
        for host in
            ["evil.example:7070", "evil.example", "localhost.evil.example", "", "127.0.0.1.evil.example:1"]
        {
            assert!(!is_own(host), "{host}");
        }
    }
}
