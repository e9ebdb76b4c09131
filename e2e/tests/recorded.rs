//! Recorded exchanges of a payment provider, passed through twice.
//!
//! They were masked by their recorder (1 and x are placeholders), and some lengths no longer fit.

use onefold_e2e::{assert_fresh, assert_replay};
use onefold_testkit::wire::Line;
use onefold_testkit::{Reply, Request, Setup, Upstream, recordings};
use yaml_rust2::{Yaml, YamlLoader};

struct Exchange {
    request: Request,
    path: String,
    status: u16,
    headers: Vec<Line>,
    body: String,
}

/// Framing and what belongs to one connection: the peers make their own.
const NOT_PLAYED: [&str; 4] = ["content-length", "connection", "transfer-encoding", "host"];

fn lines(headers: &Yaml) -> Vec<Line> {
    let mut lines = Vec::new();
    for (name, values) in headers.as_hash().expect("headers") {
        let name = name.as_str().expect("a name");
        if NOT_PLAYED.iter().any(|not| name.eq_ignore_ascii_case(not)) {
            continue;
        }
        for value in values.as_vec().expect("values") {
            lines.push((name.to_owned(), value.as_str().expect("a value").as_bytes().to_vec()));
        }
    }
    lines
}

fn exchange(recorded: &Yaml) -> Option<Exchange> {
    let (asked, answered) = (&recorded["request"], &recorded["response"]);
    if asked["method"].as_str() != Some("post") {
        return None;
    }
    let uri = asked["uri"].as_str().expect("a URI");
    let target = uri.strip_prefix("https://api.stripe.com").expect("the provider's URI");
    let mut request = Request::post(target);
    request.headers = lines(&asked["headers"]);
    request.body = asked["body"]["string"].as_str().expect("a body").as_bytes().to_vec();
    Some(Exchange {
        path: target.split('?').next().unwrap_or_default().to_owned(),
        request,
        status: u16::try_from(answered["status"]["code"].as_i64().expect("a status")).expect("a status"),
        headers: lines(&answered["headers"]),
        body: answered["body"]["string"].as_str().expect("a body").to_owned(),
    })
}

fn read(cassette: &[u8]) -> Vec<Exchange> {
    let masked = std::str::from_utf8(cassette).expect("text");
    let text = masked.replace("<VENDOR_ID>", "1").replace("<VENDOR_AUTH_CODE>", "x");
    let documents = YamlLoader::load_from_str(&text).expect("YAML");
    let recorded = documents[0]["http_interactions"].as_vec().expect("exchanges");
    recorded.iter().filter_map(exchange).collect()
}

#[tokio::test]
async fn recorded_exchanges_pass_through_twice() {
    let cassettes = recordings::all("stripe/vcr_cassettes", "yml");
    if cassettes.is_empty() {
        return;
    }
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream.url()).start().await;
    let mut played = 0;
    for exchange in cassettes.iter().flat_map(|(_, cassette)| read(cassette)) {
        let mut reply = Reply::status(exchange.status).body(&exchange.body);
        for (name, value) in &exchange.headers {
            reply = reply.header(name, value);
        }
        upstream.next(&exchange.path, reply);
        let before = upstream.total();
        let first = gateway.send(&exchange.request).await;
        assert_fresh(&first, exchange.status);
        assert_eq!(first.text(), exchange.body);
        assert_eq!(upstream.total(), before + 1, "the first pass goes upstream");
        let second = gateway.send(&exchange.request).await;
        let own = ["request-id"];
        let mut expected = first.clone();
        expected.headers.retain(|(name, _)| !own.iter().any(|own| name.eq_ignore_ascii_case(own)));
        assert_replay(&second, &expected);
        assert_eq!(upstream.total(), before + 1, "the second pass adds nothing");
        played += 1;
    }
    eprintln!("{played} recorded exchanges passed through twice");
    assert!(played >= 14, "only {played} exchanges were found in {} recordings", cassettes.len());
}
