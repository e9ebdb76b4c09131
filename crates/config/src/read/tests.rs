//! Whole files: what they mean, and that nothing panics.

use std::time::Duration;

use onefold_core::Contract;
use onefold_core::contract::{
    Authorize, BodyRule, FingerprintRule, KeyRule, LookUp, Meaning, OnStale, Remember, Retention,
    RetryFailed, ScopeSource, StatusPattern, StoreResponse, WhileRunning,
};
use onefold_core::reconcile::Fence;
use onefold_core::retry::Backoff;
use proptest::prelude::*;

use super::*;
use crate::reference::EXAMPLE;
use crate::{Limits, Paths, Server, StoreSettings, TlsFiles, Upstream};

mod claims;
mod destination;
mod inbox;
mod mistakes;

const UPSTREAM: &str = "[upstream]\nurl = \"http://127.0.0.1:3000\"\n";

fn parse(text: &str) -> Result<Settings, String> {
    let environment = |name: &str| match name {
        "KEY" => Some(format!("{}=\n", "A".repeat(43))),
        "OTHER_KEY" => Some(format!("{}8=", "/".repeat(42))),
        "SHORT_KEY" => Some("c2hvcnQ=".into()),
        "BAD_KEY" => Some("hunter2 is a password".into()),
        _ => None,
    };
    read(text, "onefold.toml", &Flags::default(), &environment).map_err(|error| error.to_string())
}

/// The contract of one operation of this body.
fn contract(body: &str) -> Contract {
    let text = format!(
        "{UPSTREAM}[[operation]]\nname = \"A\"\nmatch = {{ method = \"POST\", path = \"/a/{{id}}\" }}\nboundary = \"b\"\n{body}"
    );
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")).operations.remove(0).contract
}

#[test]
fn only_an_upstream_must_be_named() {
    let settings = parse(UPSTREAM).unwrap();
    assert_eq!(settings, Settings::defaults_for_upstream("http://127.0.0.1:3000").unwrap());
    let Settings {
        server,
        store,
        limits,
        upstream,
        claims,
        operations,
        defaults,
        inbox,
        destinations,
        encryption,
        paths,
        warnings,
    } = settings;
    assert_eq!(server, Server::default());
    assert_eq!(
        (server.listen.to_string(), server.admin_listen.to_string()),
        ("127.0.0.1:8080".into(), "127.0.0.1:7070".into())
    );
    assert_eq!((server.shutdown_grace, server.max_request), (Duration::from_secs(10), 64 << 20));
    assert_eq!((server.trusted_proxies, server.tls), (vec![], None));
    assert_eq!(store, StoreSettings::default());
    assert_eq!(
        (store.url.to_string(), store.migrate, store.sweep_every.as_secs()),
        ("sqlite:onefold.db".into(), true, 60)
    );
    assert_eq!(limits, Limits { live_keys_per_scope: 100_000, waiters_per_key: 100, waiters: 10_000 });
    assert_eq!(upstream.unwrap().timeout, Duration::from_secs(30));
    assert_eq!(paths, Paths { operations: "/operations".into(), policy: "/.well-known/idempotency".into() });
    assert_eq!(defaults, Contract::new("", "one effect for each key"));
    assert_eq!(claims, crate::Claims::default());
    assert!(
        operations.is_empty()
            && inbox.is_empty()
            && destinations.is_empty()
            && encryption.is_empty()
            && warnings.is_empty()
    );
}

#[test]
fn the_example_means_what_it_says() {
    let settings = parse(EXAMPLE).unwrap();
    assert_eq!(settings.warnings, Vec::<String>::new());
    assert_eq!(
        settings.server.trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/8"]
    );
    assert_eq!(
        settings.upstream,
        Some(Upstream { url: "http://127.0.0.1:3000".parse().unwrap(), timeout: Upstream::TIMEOUT })
    );
    let mut order = Contract::new("CreateOrder", "one order for each key");
    order.fingerprint = FingerprintRule { ignore: vec!["/id".into()], ..FingerprintRule::default() };
    order.remember = Remember(vec![(StatusPattern::Class(5), Meaning::Unknown)]);
    order.retry_failed = RetryFailed { attempts: 3, backoff: Backoff::default() };
    order.store_response = StoreResponse {
        redact: vec!["/_auth".into()],
        drop_headers: vec!["X-Trace".into()],
        ..StoreResponse::default()
    };
    order.authorize =
        Some(Authorize { url: "http://127.0.0.1:3000/auth".into(), timeout: Duration::from_secs(5) });
    order.reconcile = Some(LookUp {
        get: "http://127.0.0.1:3000/orders?key={{key}}".parse().unwrap(),
        happened: vec![StatusPattern::Exactly(200)],
        did_not_happen: vec![StatusPattern::Exactly(404)],
        fence: Some(Fence::Settled { window: Duration::from_secs(30) }),
    });
    let [create, ship] = &settings.operations[..] else { panic!("two operations") };
    assert_eq!(create.contract, order);
    assert_eq!((create.matcher.method.as_str(), create.matcher.path.to_string()), ("POST", "/orders".into()));
    let mut item = Contract::new("ShipItem", "one parcel for each item of a shop");
    item.scope = vec![ScopeSource::Header("X-Tenant".into()), ScopeSource::Path("shop".into())];
    item.key = KeyRule { headers: vec![], body: Some("/shipment/id".into()), ..KeyRule::default() };
    item.while_running = WhileRunning::Accepted;
    item.retention = Retention::Forever;
    assert_eq!(ship.contract, item);
    assert_eq!(ship.matcher.path.matches("/shops/4/items/7/ship"), Some(vec![("shop", "4"), ("item", "7")]));
}

#[test]
fn line_ends_and_the_mark_of_another_editor_do_not_count() {
    let text = format!("\u{feff}{EXAMPLE}").replace('\n', "\r\n");
    assert_eq!(parse(&text), parse(EXAMPLE));
    let error = parse("\u{feff}[upstream]\r\nurl = \"http://h\"\r\ntimeout = 3\r\n").unwrap_err();
    assert!(error.starts_with("onefold.toml:3: upstream.timeout: "), "{error}");
}

#[test]
fn an_operation_replaces_a_default_as_a_whole() {
    let text = format!(
        "{UPSTREAM}[defaults]\nlease = \"10s\"\nkey_time = \"off\"\nretention = \"2d\"\n\
         key = {{ header = \"X-Key\", required = false }}\nfingerprint = {{ body = \"json\", headers = [\"X-A\"] }}\n\
         [[operation]]\nname = \"A\"\nmatch = {{ method = \"POST\", path = \"/a\" }}\nboundary = \"b\"\n\
         retention = \"3d\"\nkey = {{ body = \"/k\" }}\n"
    );
    let settings = parse(&text).unwrap();
    let contract = &settings.operations[0].contract;
    assert_eq!(contract.lease, Duration::from_secs(10));
    assert_eq!(contract.retention, Retention::For(Duration::from_secs(3 * 86_400)));
    assert_eq!(
        (contract.key.headers.len(), contract.key.body.as_deref(), contract.key.required),
        (0, Some("/k"), true)
    );
    assert_eq!(contract.key.time, settings.defaults.key.time);
    assert_eq!(contract.fingerprint.body, BodyRule::Json);
    assert_eq!(settings.defaults.key.headers, ["X-Key"]);
    assert_eq!(settings.defaults.boundary, "one effect for each key");
}

#[test]
fn every_spelling_of_a_setting_is_read() {
    assert_eq!(
        contract("while_running = { wait = \"0s\" }").while_running,
        WhileRunning::Wait(Duration::ZERO)
    );
    assert_eq!(contract("while_running = { busy = true }").while_running, WhileRunning::Busy);
    assert_eq!(contract("key = { header = [\"A\", \"B\"], body = \"\" }").key.headers, ["A", "B"]);
    assert_eq!(contract("key = { required = false }").key.headers, ["Idempotency-Key"]);
    assert_eq!(contract("store_response = { max = 65_536 }").store_response.body_bytes_max, 65_536);
    assert_eq!(contract("scope = [\"cookie:sid\", \"path:id\"]").scope.len(), 2);
    assert_eq!(contract("max_attempts = 0x10").max_attempts, 16);
    let slow = contract("retry_failed = { attempts = 1, backoff = \"1m\" }").retry_failed.backoff;
    assert_eq!(slow, Backoff { first: Duration::from_secs(60), max: Duration::from_secs(60) });
    let remember = contract("[operation.remember]\n503 = \"final\"\n5xx = \"not_done\"\n").remember;
    assert_eq!(
        (remember.meaning(503, true), remember.meaning(500, false)),
        (Meaning::Final, Meaning::NotDone)
    );
    let asks = contract(
        "on_stale = \"reconcile\"\nauthorize = { url = \"https://auth/x?y\" }\n\
         reconcile = { get = \"http://h/{{downstream_key}}\", happened = [\"2xx\", \"302\"], did_not_happen = [\"404\", \"410\"], fence = \"same_key\" }",
    );
    assert_eq!(asks.authorize.map(|a| a.timeout), Some(Duration::from_secs(5)));
    let look_up = asks.reconcile.unwrap();
    assert_eq!((look_up.happened.len(), look_up.did_not_happen.len()), (2, 2));
    assert_eq!((look_up.fence, asks.on_stale), (Some(Fence::SameKey), OnStale::Reconcile));
    let tls =
        parse(&format!("{UPSTREAM}[server.tls]\ncert = \"c.pem\"\nkey = \"k.pem\"\n")).unwrap().server.tls;
    assert_eq!(tls, Some(TlsFiles { cert: "c.pem".into(), key: "k.pem".into() }));
    let moved = parse(&format!("{UPSTREAM}[server]\noperations_path = \"/_ops/\"\n")).unwrap().paths;
    assert_eq!(moved.operations, "/_ops");
}

#[test]
fn keys_come_from_the_environment_and_from_files_and_are_never_shown() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    std::io::Write::write_all(&mut file, format!("{}8=\n", "/".repeat(42)).as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let settings = parse(&format!("{UPSTREAM}[encryption]\nkeys = [\"env:KEY\", 'file:{path}']\n")).unwrap();
    assert_eq!(settings.encryption, [[0; 32], [255; 32]]);
    let shown = format!("{settings:?}");
    assert!(shown.contains("2 keys") && !shown.contains("255, 255"), "{shown}");
}

#[test]
fn a_flag_overrules_the_file_and_its_mistakes_are_told_of_the_flag() {
    let flags = Flags {
        upstream: Some("https://api.example/v1".into()),
        listen: Some("0.0.0.0:80".into()),
        admin_listen: Some("[::1]:9000".into()),
        store: Some("sqlite:other.db".into()),
    };
    let settings = Settings::parse_with("[server]\nlisten = \"127.0.0.1:1\"\n", "f", &flags).unwrap();
    assert_eq!(
        (settings.server.listen.to_string(), settings.upstream.unwrap().url.to_string()),
        ("0.0.0.0:80".into(), "https://api.example/v1".into())
    );
    assert_eq!(
        (settings.server.admin_listen.to_string(), settings.store.url.to_string()),
        ("[::1]:9000".into(), "sqlite:other.db".into())
    );
    let flags = Flags { admin_listen: Some("0.0.0.0:1".into()), store: Some("redis:x".into()), ..flags };
    assert_eq!(
        Settings::without_file(&flags).unwrap_err().to_string(),
        "--admin-listen: 0.0.0.0:1 is refused: the admin listener has no roles yet; listen on loopback, such as 127.0.0.1:7070\n\
         --store: there is no store of the kind \"redis\"; allowed: sqlite:PATH, such as sqlite:onefold.db, or postgres://USER:PASSWORD@HOST:PORT/DATABASE"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("onefold.toml");
    let error = Settings::load(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot be read: ", path.display())), "{error}");
    std::fs::write(&path, b"# \xff\n").unwrap();
    assert!(matches!(Settings::load(&path), Err(ConfigError::Unreadable { .. })));
    std::fs::write(&path, UPSTREAM).unwrap();
    assert!(Settings::load(&path).is_ok());
}

#[test]
fn what_is_unwise_is_a_warning_and_strict_refuses_it() {
    let text = format!(
        "{UPSTREAM}[server]\ntrusted_proxies = [\"0.0.0.0/0\"]\n[defaults]\nretention = \"1h\"\n[[operation]]\nname = \"A\"\n\
         match = {{ method = \"POST\", path = \"/operations/{{id}}\" }}\nboundary = \"b\"\n"
    );
    let settings = parse(&text).unwrap();
    let warnings = [
        "onefold.toml:4: server.trusted_proxies: 0.0.0.0/0 lets every caller set forwarded and tenant headers",
        "onefold.toml:6: defaults.retention: 3600s is shorter than the day for which clients and queues commonly retry",
        "onefold.toml:9: operation[0].match: GET /operations is answered by the gateway itself; move it with server.operations_path",
    ];
    assert_eq!(settings.warnings, warnings);
    assert_eq!(settings.refuse_warnings().unwrap_err().to_string(), warnings.join("\n"));
    assert!(parse(UPSTREAM).unwrap().refuse_warnings().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_panics(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        let _ = parse(&text);
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_damaged_example_never_panics(at in 0..EXAMPLE.len(), until in 0..EXAMPLE.len(), text in "[\\[\\]{}\"=.,0-9a-zé~%/\n-]{0,12}") {
        let (from, to) = (at.min(until), at.max(until).min(at + 40).max(at.min(until)));
        let _ = parse(&format!("{}{text}{}", &EXAMPLE[..from], &EXAMPLE[to..]));
    }

    #[test]
    fn any_value_of_any_setting_never_panics(setting in 0..30usize, value in "\"[ -~é]{0,20}\"|[0-9]{1,25}|\\[\\]|\\{\\}|true|1.5|1979-05-27") {
        let names = crate::reference::names("operation");
        let _ = parse(&format!("{UPSTREAM}[[operation]]\n{} = {value}\n", names[setting % names.len()]));
    }
}
