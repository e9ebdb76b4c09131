//! Section 8 of the cases: whose key it is. B76 and B77 concern webhooks.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, dump, gateway, order, setup};
use onefold_testkit::{Reply, Request, Setup, Upstream};

fn order_by(token: &str) -> Request {
    Request::post(ROUTE).bearer(token).key("k-1").json("{}")
}

#[tokio::test]
async fn b70_callers_with_one_key_have_operations_of_their_own() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::status(201).json(r#"{"owner":"alice"}"#));
    upstream.next(ROUTE, Reply::status(201).json(r#"{"owner":"bob"}"#));
    let alice = gateway.send(&order_by("alice")).await;
    let bob = gateway.send(&order_by("bob")).await;
    assert_fresh(&bob, 201);
    assert_eq!(bob.text(), r#"{"owner":"bob"}"#);
    assert_replay(&gateway.send(&order_by("alice")).await, &alice);
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b70_shared_scope_is_shared_because_it_says_so() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "scope = [\"shared\"]").await;
    let alice = gateway.send(&order_by("alice")).await;
    assert_replay(&gateway.send(&order_by("bob")).await, &alice);
}

#[tokio::test]
async fn b71_caller_without_credentials_is_refused_where_they_are_the_scope() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let answer = gateway.send(&Request::post(ROUTE).key("1").json("{}")).await;
    assert_problem(&answer, 401, "scope-missing");
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b71_guests_are_told_apart_by_their_session() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "scope = [\"cookie:session\"]").await;
    let guest = |session: &str, body: &str| {
        let cookie = format!("theme=dark; session={session}; lang=de");
        Request::post(ROUTE).header("Cookie", cookie).key("1").json(body)
    };
    assert_eq!(gateway.send(&guest("s-1", "[1]")).await.n(), 1);
    assert_eq!(gateway.send(&guest("s-2", "[2]")).await.n(), 2);
    assert_eq!(gateway.send(&guest("s-3", "[1]")).await.n(), 3, "equal bodies identify nobody");
    let nobody = gateway.send(&Request::post(ROUTE).key("1").json("[1]")).await;
    assert_problem(&nobody, 401, "scope-missing");
}

const BY_TENANT: &str = "scope = [\"header:X-Tenant\"]";

fn order_for(tenant: &str) -> Request {
    order_by("admin").header("X-Tenant", tenant)
}

#[tokio::test]
async fn b74_tenant_from_an_untrusted_peer_does_not_count() {
    let upstream = Upstream::start().await;
    let setup = setup(&upstream, BY_TENANT).server("trusted_proxies = [\"10.0.0.0/8\"]");
    let gateway = setup.start().await;
    assert_problem(&gateway.send(&order_for("victim")).await, 401, "scope-missing");
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b74_tenants_under_one_credential_have_operations_of_their_own() {
    let upstream = Upstream::start().await;
    let setup = setup(&upstream, BY_TENANT).server("trusted_proxies = [\"127.0.0.0/8\"]");
    let gateway = setup.start().await;
    let first = gateway.send(&order_for("t-1")).await;
    assert_eq!(gateway.send(&order_for("t-2")).await.n(), 2);
    assert_replay(&gateway.send(&order_for("t-1")).await, &first);
}

#[tokio::test]
async fn b74_two_tenant_lines_are_not_one_tenant() {
    let upstream = Upstream::start().await;
    let setup = setup(&upstream, BY_TENANT).server("trusted_proxies = [\"127.0.0.0/8\"]");
    let gateway = setup.start().await;
    let answer = gateway.send(&order_for("t-1").header("X-Tenant", "victim")).await;
    assert!(matches!(answer.status, 400 | 401), "{answer}");
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b74_parts_of_a_path_may_be_the_scope() {
    let upstream = Upstream::start().await;
    let path = "/tenants/{tenant}/orders";
    let setup = Setup::new(&upstream.url()).operation("Order", "POST", path, "scope = [\"path:tenant\"]");
    let gateway = setup.start().await;
    for tenant in ["a", "b"] {
        let request = Request::post(&format!("/tenants/{tenant}/orders")).key("k-1").json("{}");
        assert_fresh(&gateway.send(&request).await, 200);
    }
    assert_eq!(upstream.total(), 2);
}

const ISSUED_UNDER: &str = "the secret of the issuer, 38 bytes long";
const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAul3Xr1JVfqStpFmGamXxRA1fBSaJXXe8ikhAW1DadNM=\n-----END PUBLIC KEY-----";

fn by_claims(upstream: &Upstream, scope: &str) -> Setup {
    setup(upstream, scope)
        .section("[claims]\nkeys = [\"env:ISSUER\", \"env:OTHER_ISSUER\"]\naudience = \"orders\"")
        .env("ISSUER", ISSUED_UNDER)
        .env("OTHER_ISSUER", PUBLIC_KEY)
}

fn signed(algorithm: &str, claims: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"{algorithm}","typ":"JWT"}}"#));
    let head = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims));
    let mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).expect("takes any length");
    let mac = mac.chain_update(&head).finalize().into_bytes();
    format!("{head}.{}", URL_SAFE_NO_PAD.encode(mac))
}

/// A token of this caller that ends in so many seconds, or ended so many ago.
fn token(sub: &str, seconds: i64) -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().as_ref().map_or(0, Duration::as_secs);
    let end = now.saturating_add_signed(seconds);
    signed("HS256", &format!(r#"{{"sub":"{sub}","org":7,"aud":"orders","exp":{end}}}"#), ISSUED_UNDER)
}

#[tokio::test]
async fn refreshed_token_of_one_caller_is_the_same_caller() {
    let upstream = Upstream::start().await;
    let gateway = by_claims(&upstream, "scope = [\"claim:sub\"]").start().await;
    let first = gateway.send(&order_by(&token("user-17", 600))).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&order_by(&token("user-17", 1200))).await, &first);
    let other = gateway.send(&order_by(&token("user-18", 600))).await;
    assert_fresh(&other, 200);
    assert_eq!(upstream.count(ROUTE), 2);

    let page =
        |token: &str| Request::get(first.header("onefold-operation").expect("has a page")).bearer(token);
    assert_eq!(gateway.send(&page(&token("user-17", 900))).await.status, 200);
    assert_problem(&gateway.send(&page(&token("user-18", 900))).await, 404, "not-found");
    assert_problem(&gateway.send(&page(&token("user-17", -900))).await, 401, "scope-missing");
}

#[tokio::test]
async fn claims_stand_beside_each_other_and_in_clear_where_operators_look() {
    let upstream = Upstream::start().await;
    let gateway = by_claims(&upstream, "scope = [\"claim:org\", \"claim:sub\"]").start().await;
    assert_fresh(&gateway.send(&order_by(&token("user-17", 600))).await, 200);
    assert_fresh(&gateway.send(&order_by(&token("user-18", 600))).await, 200);
    let listed = format!("{:?}", gateway.operations_in("succeeded").await);
    assert!(listed.contains("claim:org") && listed.contains("claim:sub"), "{listed}");
    assert!(listed.contains("user-17") && listed.contains("user-18"), "{listed}");
}

#[tokio::test]
async fn token_that_is_not_believed_is_nobody_and_reaches_nothing() {
    let upstream = Upstream::start().await;
    let gateway = by_claims(&upstream, "scope = [\"claim:sub\"]").start().await;
    let victim = gateway.send(&order_by(&token("victim", 600))).await;
    assert_fresh(&victim, 200);

    let claims = r#"{"sub":"victim","aud":"orders"}"#;
    let unsigned = signed("none", claims, "");
    let (head, _) = unsigned.rsplit_once('.').expect("has three parts");
    let (good, _) =
        token("victim", 600).rsplit_once('.').map(|(h, s)| (h.to_owned(), s.len())).expect("has a signature");
    for (what, forged) in [
        ("another secret", signed("HS256", claims, "another secret, also long enough to be one")),
        ("the public key as a secret", signed("HS256", claims, PUBLIC_KEY)),
        ("an algorithm of the other key", signed("EdDSA", claims, ISSUED_UNDER)),
        ("none", format!("{head}.")),
        ("no signature", format!("{good}.")),
        ("expired", token("victim", -61)),
        ("another audience", signed("HS256", r#"{"sub":"victim","aud":"stock"}"#, ISSUED_UNDER)),
        ("no claim", signed("HS256", r#"{"aud":"orders"}"#, ISSUED_UNDER)),
        ("opaque", "victim".to_owned()),
    ] {
        let answer = gateway.send(&order_by(&forged)).await;
        assert_problem(&answer, 401, "scope-missing");
        assert!(!answer.text().contains(&forged) && !answer.text().contains("victim"), "{what}: {answer}");
        let page = Request::get(victim.header("onefold-operation").expect("has a page")).bearer(&forged);
        assert_problem(&gateway.send(&page).await, 401, "scope-missing");
    }
    let two =
        order_by(&token("mallory", 600)).header("Authorization", format!("Bearer {}", token("victim", 600)));
    assert_problem(&gateway.send(&two).await, 401, "scope-missing");
    assert_eq!(upstream.count(ROUTE), 1);
    assert!(!gateway.log().contains("victim"), "in the log");
}

#[tokio::test]
async fn key_that_no_token_is_verified_with_stops_the_start() {
    let upstream = Upstream::start().await;
    let key = "-----BEGIN PUBLIC KEY-----\nMC4=\n-----END PUBLIC KEY-----";
    let ended = by_claims(&upstream, "scope = [\"claim:sub\"]").env("OTHER_ISSUER", key).run().await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("claims.keys[1]: the public key cannot be read"), "{ended:?}");
}

#[tokio::test]
async fn expiring_token_under_credential_is_told_with_the_way_out() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_fresh(&gateway.send(&order_by(&token("user-17", 600))).await, 200);
    assert!(gateway.log().contains("claim:sub"), "{}", gateway.log());
}

const SECRET: &str = "AKIA-TEST-SECRET-0001";

#[tokio::test]
async fn b75_credentials_in_an_answer_are_not_another_callers() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::count().json(format!("{{\"secret-access-key\":\"{SECRET}\"}}")));
    assert!(gateway.send(&order_by("alice")).await.text().contains(SECRET));
    let thief = gateway.send(&order_by("mallory")).await;
    assert!(!thief.text().contains(SECRET), "{thief}");
    assert!(!thief.is_replay(), "{thief}");
}

#[tokio::test]
async fn b75_redacted_credentials_are_not_in_the_store() {
    let upstream = Upstream::start().await;
    let redacted = r#"store_response = { mode = "full", redact = ["/secret-access-key"] }"#;
    let gateway = gateway(&upstream, redacted).await;
    let body = format!("{{\"table\":\"witness-of-the-dump\",\"secret-access-key\":\"{SECRET}\"}}");
    upstream.next(ROUTE, Reply::count().json(body));
    let first = gateway.send(&order("k-1")).await;
    assert!(first.text().contains(SECRET), "the first caller gets it: {first}");
    let second = gateway.send(&order("k-1")).await;
    assert!(second.is_replay() && !second.text().contains(SECRET), "{second}");
    assert!(dump::contains(gateway.setup(), "witness-of-the-dump"), "the dump shows what is stored");
    assert!(!dump::contains(gateway.setup(), SECRET), "in the store");
}

#[tokio::test]
async fn b75_unkept_credentials_are_not_in_the_store() {
    let upstream = Upstream::start().await;
    for mode in ["none", "reference"] {
        let gateway = gateway(&upstream, &format!("store_response = {{ mode = \"{mode}\" }}")).await;
        upstream.next(ROUTE, Reply::count().json(format!("{{\"secret-access-key\":\"{SECRET}\"}}")));
        assert!(gateway.send(&order("k-1")).await.text().contains(SECRET));
        assert!(!gateway.send(&order("k-1")).await.text().contains(SECRET));
        assert!(!dump::contains(gateway.setup(), SECRET), "{mode}: in the store");
    }
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn default_scope_of_one_s_own_holds_for_requests_without_credentials() {
    let upstream = Upstream::start().await;
    let defaults = "[defaults]\nscope = [\"cookie:sid\"]";
    let gateway = Setup::new(&upstream.url()).section(defaults).start().await;
    let guest = |sid: &str| Request::post(ROUTE).header("cookie", format!("sid={sid}")).key("k-1").json("{}");
    let alice = gateway.send(&guest("alice")).await;
    assert_fresh(&alice, 200);
    assert_fresh(&gateway.send(&guest("bob")).await, 200);
    assert_replay(&gateway.send(&guest("alice")).await, &alice);
    let nobody = gateway.send(&Request::post(ROUTE).key("k-1").json("{}")).await;
    assert_problem(&nobody, 401, "scope-missing");
    assert_eq!(upstream.count(ROUTE), 2);
}
