//! Senders of webhooks: bodies, signed as each service signs them, with secrets of the test.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use onefold_testkit::{Gateway, Request, Setup, Store, Upstream, wait};
use serde_json::Value;
use sha2::Sha256;

/// The path of the handler on the test's upstream.
pub const HANDLER: &str = "/hooks";
/// A secret of the test.
pub const SECRET: &str = "whsec_dGhlIHNlY3JldCBvZiB0aGUgdGVzdA==";
/// Another one.
pub const OTHER_SECRET: &str = "whsec_YW5vdGhlciBzZWNyZXQgb2YgdGhlIHRlc3Q=";

/// Seconds of Unix time.
///
/// # Panics
/// Before 1970.
#[must_use]
pub fn now_s() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_secs()
}

fn mac(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A delivery of Stripe, signed at this time.
#[must_use]
pub fn stripe_at(source: &str, body: impl AsRef<[u8]>, secret: &str, time: u64) -> Request {
    let signature = hex(&mac(secret.as_bytes(), &[time.to_string().as_bytes(), b".", body.as_ref()]));
    Request::post(&format!("/inbox/{source}"))
        .header("Stripe-Signature", format!("t={time},v1={signature}"))
        .json(body)
}

/// A delivery of Stripe to `/inbox/stripe`, signed now.
#[must_use]
pub fn stripe(body: impl AsRef<[u8]>) -> Request {
    stripe_at("stripe", body, SECRET, now_s())
}

/// A delivery of GitHub.
#[must_use]
pub fn github(source: &str, id: &str, event: &str, body: impl AsRef<[u8]>, secret: &str) -> Request {
    Request::post(&format!("/inbox/{source}"))
        .header("X-GitHub-Delivery", id)
        .header("X-GitHub-Event", event)
        .header("X-Hub-Signature-256", format!("sha256={}", hex(&mac(secret.as_bytes(), &[body.as_ref()]))))
        .json(body)
}

/// A delivery of Shopify.
#[must_use]
pub fn shopify(source: &str, topic: &str, event: &str, body: impl AsRef<[u8]>) -> Request {
    Request::post(&format!("/inbox/{source}"))
        .header("X-Shopify-Topic", topic)
        .header("X-Shopify-Event-Id", event)
        .header("X-Shopify-Hmac-Sha256", STANDARD.encode(mac(SECRET.as_bytes(), &[body.as_ref()])))
        .json(body)
}

/// A delivery of a sender that signs its bodies alone, in hexadecimal digits, as Lemon Squeezy does.
#[must_use]
pub fn plain_hmac(source: &str, body: impl AsRef<[u8]>, secret: &str) -> Request {
    Request::post(&format!("/inbox/{source}"))
        .header("X-Signature", hex(&mac(secret.as_bytes(), &[body.as_ref()])))
        .json(body)
}

/// A delivery as Standard Webhooks says, signed now.
///
/// # Panics
/// When the secret is none of that form.
#[must_use]
pub fn standard(source: &str, id: &str, body: impl AsRef<[u8]>) -> Request {
    let time = now_s().to_string();
    let key = STANDARD.decode(SECRET.trim_start_matches("whsec_")).expect("base64");
    let signature = STANDARD.encode(mac(&key, &[id.as_bytes(), b".", time.as_bytes(), b".", body.as_ref()]));
    Request::post(&format!("/inbox/{source}"))
        .header("webhook-id", id)
        .header("webhook-timestamp", time)
        .header("webhook-signature", format!("v1,{signature}"))
        .json(body)
}

/// The settings of a source whose handler is the upstream's [`HANDLER`]. `forward` are further members of it; the
/// secret is [`SECRET`] unless a line says otherwise.
#[must_use]
pub fn inbox(upstream: &Upstream, source: &str, scheme: &str, forward: &str, lines: &str) -> String {
    let names_secrets = lines.lines().any(|line| line.starts_with("secrets"));
    let secrets = if names_secrets { "" } else { "secrets = [\"env:HOOK_SECRET\"]\n" };
    format!(
        "[[inbox]]\nsource = \"{source}\"\nscheme = \"{scheme}\"\n{secrets}\
         forward = {{ url = \"{}{HANDLER}\"{forward} }}\n{lines}\n",
        upstream.url()
    )
}

/// A gateway's settings with the secrets in its environment.
#[must_use]
pub fn setup(upstream: &Upstream) -> Setup {
    Setup::new(&upstream.url()).env("HOOK_SECRET", SECRET).env("OTHER_SECRET", OTHER_SECRET)
}

/// A gateway that takes in Stripe's webhooks.
pub async fn stripe_gateway(upstream: &Upstream, forward: &str, lines: &str) -> Gateway {
    setup(upstream).section(&inbox(upstream, "stripe", "stripe", forward, lines)).start().await
}

/// The settings of [`setup`] for a gateway on this store.
#[must_use]
pub fn setup_on(store: &Store, upstream: &Upstream) -> Setup {
    setup(upstream).store_url(store.url())
}

/// A gateway on this store that takes in Stripe's webhooks.
pub async fn stripe_gateway_on(store: &Store, upstream: &Upstream, forward: &str, lines: &str) -> Gateway {
    setup_on(store, upstream).section(&inbox(upstream, "stripe", "stripe", forward, lines)).start().await
}

/// What `onefold inbox list` shows under these filters.
///
/// # Panics
/// When it shows no list.
pub async fn incoming(gateway: &Gateway, filters: &[&str]) -> Vec<Value> {
    items(gateway, &[&["inbox", "list"], filters].concat()).await
}

/// What `onefold outbox list` shows under these filters.
///
/// # Panics
/// When it shows no list.
pub async fn outgoing(gateway: &Gateway, filters: &[&str]) -> Vec<Value> {
    items(gateway, &[&["outbox", "list"], filters].concat()).await
}

async fn items(gateway: &Gateway, command: &[&str]) -> Vec<Value> {
    let listed = gateway.command(command).await;
    listed.assert_code(0);
    listed.json()["items"].as_array().expect("items").clone()
}

/// Waits until this many messages are delivered and none is anything else.
pub async fn all_delivered(gateway: &Gateway, messages: usize) {
    wait::until_within(Duration::from_secs(60), "all messages are delivered", async || {
        let outgoing = outgoing(gateway, &[]).await;
        outgoing.len() == messages && outgoing.iter().all(|message| message["state"] == "delivered")
    })
    .await;
}

/// An event of Stripe's about a subscription.
#[must_use]
pub fn event(id: &str, entity: &str, created: u64, status: &str) -> String {
    format!(
        r#"{{"id":"{id}","object":"event","created":{created},"data":{{"object":{{"id":"{entity}","status":"{status}"}}}}}}"#
    )
}

/// Delivers a message whose id and entity hold what no header, terminal or text column takes, a duplicate of it, and
/// another body under its id. The source orders by entity.
///
/// # Panics
/// When one of them is not told apart.
pub async fn odd_characters_are_carried(gateway: &Gateway, upstream: &Upstream) {
    let body = |status| event(r"evt_\u0000\n\u202e", r"sub_\u0000\u00e9", 1, status);
    assert_eq!(gateway.send(&stripe(body("active"))).await.status, 202);
    all_delivered(gateway, 1).await;
    assert_eq!(gateway.send(&stripe(body("active"))).await.status, 200);
    assert_eq!(gateway.send(&stripe(body("incomplete"))).await.status, 409);
    assert_eq!(incoming(gateway, &["--state", "parked"]).await.len(), 1);
    let seen = upstream.seen_at(HANDLER);
    assert!(seen.len() == 1 && seen[0].header("idempotency-key").is_some(), "{seen:?}");
}
