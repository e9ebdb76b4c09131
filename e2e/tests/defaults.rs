//! What `[defaults]` says holds for the operations that nobody configured: there is no `[[operation]]` here.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, dump, order, order_of};
use onefold_testkit::{Gateway, Reply, Request, Setup, Upstream};

async fn with_defaults(upstream: &Upstream, lines: &str) -> Gateway {
    Setup::new(&upstream.url()).section(&format!("[defaults]\n{lines}")).start().await
}

#[tokio::test]
async fn default_redaction_holds_without_operations() {
    let upstream = Upstream::start().await;
    let gateway =
        with_defaults(&upstream, r#"store_response = { mode = "full", redact = ["/_auth"] }"#).await;
    upstream.next(ROUTE, Reply::count().json(r#"{"note":"witness-of-the-dump","_auth":"tok-1"}"#));
    assert_eq!(gateway.send(&order("k-1")).await.json()["_auth"], "tok-1");
    let second = gateway.send(&order("k-1")).await;
    assert!(second.is_replay() && second.json().get("_auth").is_none(), "{second}");
    assert!(dump::contains(gateway.setup(), "witness-of-the-dump"), "the dump shows what is stored");
    assert!(!dump::contains(gateway.setup(), "tok-1"), "in the store");
}

#[tokio::test]
async fn default_of_what_the_fingerprint_ignores_holds_without_operations() {
    let upstream = Upstream::start().await;
    let gateway = with_defaults(&upstream, r#"fingerprint = { ignore = ["/sent_at"] }"#).await;
    let first = gateway.send(&order_of("k-1", r#"{"sku":"book","sent_at":1}"#)).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&order_of("k-1", r#"{"sku":"book","sent_at":2}"#)).await, &first);
    let changed = gateway.send(&order_of("k-1", r#"{"sku":"pen","sent_at":1}"#)).await;
    assert_problem(&changed, 422, "key-conflict");
}

#[tokio::test]
async fn default_place_of_the_key_in_the_body_holds_without_operations() {
    let upstream = Upstream::start().await;
    let gateway = with_defaults(&upstream, r#"key = { body = "/request_id" }"#).await;
    let request = |body: &str| Request::post(ROUTE).bearer("alice").json(body);
    let first = gateway.send(&request(r#"{"request_id":"k-1","sku":"book"}"#)).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&request(r#"{"request_id":"k-1","sku":"book"}"#)).await, &first);
    let changed = gateway.send(&request(r#"{"request_id":"k-1","sku":"pen"}"#)).await;
    assert_problem(&changed, 422, "key-conflict");
    assert_fresh(&gateway.send(&request(r#"{"request_id":"k-2","sku":"book"}"#)).await, 200);
    assert_eq!(upstream.count(ROUTE), 2);
}
