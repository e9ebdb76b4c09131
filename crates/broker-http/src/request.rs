//! The request that a message becomes: where it goes and which header lines it carries.

use http::{HeaderMap, HeaderName, HeaderValue};
use onefold_client::reqwest::Url;
use onefold_messages::{Message, wire};
use onefold_webhooks::Secret;

/// Lines that belong to one connection or to the frame of a request: no message may set them.
const OF_THE_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The endpoint, or the place below it that the address names. An address never leads out of the endpoint.
pub(crate) fn place(endpoint: &Url, address: &str) -> Result<Url, String> {
    let mut place = endpoint.clone();
    let address = address.strip_prefix('/').unwrap_or(address);
    if address.is_empty() {
        return Ok(place);
    }
    if address.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err("the address is no path below the endpoint".into());
    }
    let mut segments = place.path_segments_mut().map_err(|()| "the endpoint has no paths".to_owned())?;
    segments.pop_if_empty().extend(address.split('/'));
    drop(segments);
    Ok(place)
}

/// The lines of the wire contract and the signature.
pub(crate) fn headers(message: &Message, now_s: i64, secrets: &[Secret]) -> Result<HeaderMap, String> {
    let id = message.id.as_str();
    let signed = onefold_webhooks::sign(id, now_s, &message.body, secrets);
    let signed = signed.map_err(|why| format!("it cannot be signed: {why}"))?;
    let mut headers = HeaderMap::new();
    for (name, value) in wire::lines(message) {
        let refused = || format!("the header {name:?} cannot be sent over HTTP");
        let name: HeaderName = name.parse().map_err(|_| refused())?;
        if OF_THE_CONNECTION.contains(&name.as_str()) {
            return Err(format!("the header {name} is not a message's to set"));
        }
        headers.append(name, HeaderValue::from_str(&value).map_err(|_| refused())?);
    }
    for (name, value) in signed {
        let value = HeaderValue::from_str(&value).map_err(|_| format!("{name} cannot be sent over HTTP"))?;
        // In place of what the message says under these names.
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_core::Key;
    use onefold_webhooks::KeyForm;

    fn place_of(address: &str) -> Result<String, String> {
        let endpoint = Url::parse("https://shop.example/hooks/?v=1").unwrap();
        place(&endpoint, address).map(|url| url.to_string())
    }

    #[test]
    fn address_is_a_path_below_the_endpoint_and_nothing_else() {
        assert_eq!(place_of("").unwrap(), "https://shop.example/hooks/?v=1");
        for address in ["orders/new", "/orders/new"] {
            assert_eq!(place_of(address).unwrap(), "https://shop.example/hooks/orders/new?v=1");
        }
        assert_eq!(place_of("a?b#c%2e").unwrap(), "https://shop.example/hooks/a%3Fb%23c%252e?v=1");
        for address in ["../admin", "a/../../b", "//other.example", "https://other.example/x", "a//b", "."] {
            assert!(place_of(address).is_err(), "{address}");
        }
    }

    #[test]
    fn lines_of_the_connection_are_refused_and_a_signature_cannot_be_brought_along() {
        let with = |name: &str, value: &str| Message {
            id: Key::new("m-1").unwrap(),
            destination: "shop".into(),
            address: String::new(),
            ordering_key: Some("order-1".into()),
            headers: vec![(name.into(), value.into())],
            body: b"{}".to_vec(),
        };
        let secrets = [Secret::new("s", KeyForm::Text).unwrap()];
        for name in OF_THE_CONNECTION {
            assert!(headers(&with(name, "1"), 1, &secrets).is_err(), "{name}");
        }
        assert!(headers(&with("x-note", "a\r\nb: c"), 1, &secrets).is_err());
        let made = headers(&with("webhook-signature", "v1,forged"), 1, &secrets).unwrap();
        assert_eq!(made.get_all("webhook-signature").iter().count(), 1);
        assert_ne!(made["webhook-signature"], "v1,forged");
        assert_eq!(made["onefold-message-id"], "m-1");
        assert_eq!(made["onefold-ordering-key"], "order-1");
    }
}
