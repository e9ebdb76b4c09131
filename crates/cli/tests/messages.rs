//! Messages that wait for a person: found, settled and sent again, by commands and through the admin listener.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_core::{FingerprintBuilder, InboxState, Key, Message, MessageIdentity, OutboxState};
use onefold_store::{
    Consumed, Failure, IfLost, InboxQuery, InboxStore, KeptMessage, Mark, OutboxStore, Sent, Settlement, Take,
};
use onefold_store_sqlite::{Options, SqliteStore};
use onefold_testkit::{Answer, Gateway, Request, Setup, Upstream};
use serde_json::{Value, json};

/// A store with messages in every state that a person sees.
struct Shop {
    directory: tempfile::TempDir,
    store: SqliteStore,
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

impl Shop {
    fn open() -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path().join("onefold.db"), Options::default()).unwrap();
        Shop { directory, store }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("onefold.db")
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.path().display())
    }

    /// Messages that were sent and ended so.
    async fn sent(&self, ids: &[&str], sent: Sent) {
        let message = |id: &&str| Message {
            id: key(id),
            destination: "shop".into(),
            address: "orders".into(),
            ordering_key: None,
            headers: vec![("content-type".into(), "text/plain".into())],
            body: b"two books".to_vec(),
        };
        self.store.enqueue(ids.iter().map(message).collect()).await.unwrap();
        let take = Take {
            destination: "shop".into(),
            limit: 100,
            bytes: u64::MAX,
            lease: Duration::from_secs(60),
            if_lost: IfLost::SendAgain,
        };
        let taken = self.store.take(take).await.unwrap();
        let settled = taken.into_iter().map(|taken| Settlement {
            id: taken.message.id,
            attempt: taken.attempt,
            sent: sent.clone(),
        });
        assert!(self.store.settle_sent(settled.collect()).await.unwrap().into_iter().all(|done| done));
    }

    fn mark(&self, message: &str) -> Mark {
        let identity =
            MessageIdentity { consumer: "loyalty".into(), source: "shop".into(), message: key(message) };
        Mark {
            id: identity.id(onefold_store::OperationStore::identity_key(&self.store)),
            round: 0,
            identity,
            handler: "41".into(),
            fingerprint: FingerprintBuilder::new(onefold_store::OperationStore::identity_key(&self.store))
                .part("body", b"a")
                .finish(),
            retention: Retention::Forever,
            too_old_at: None,
            body: Some(KeptMessage { headers: Vec::new(), body: vec![0xff, 0x00] }),
            versioned: None,
        }
    }

    /// A message that build 41 has handled, with its body; returns its id.
    async fn handled(&self, message: &str) -> String {
        let mark = self.mark(message);
        let id = mark.id.to_string();
        let accepted = self.store.accept(mark, Vec::new()).await.unwrap();
        assert!(matches!(accepted, Consumed::Done { .. }), "{accepted:?}");
        id
    }

    /// A message whose handler failed so often that it was parked; returns its id.
    async fn parked(&self, message: &str) -> String {
        let mark = self.mark(message);
        let id = mark.id.to_string();
        let failure = Failure { mark, reason: "no such customer".into(), park_after: Some(1) };
        self.store.fail(failure).await.unwrap();
        id
    }

    async fn state(&self, id: &str) -> OutboxState {
        self.store.outgoing(&key(id)).await.unwrap().unwrap().state
    }

    fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
        command.args(args).args(["--store", &self.url()]).env("USER", "ann");
        command.output().expect("runs")
    }

    fn json(&self, args: &[&str]) -> Value {
        let mut all = args.to_vec();
        all.extend(["--output", "json"]);
        let output = self.command(&all);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A gateway over this store.
    async fn gateway(&self, upstream: &Upstream) -> Gateway {
        Setup::new(&upstream.url()).store_url(&self.url()).start().await
    }
}

fn dead() -> Sent {
    Sent::Dead { reason: "410 Gone".into() }
}

fn ids(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

async fn post(gateway: &Gateway, target: &str, key: &str, body: &Value) -> Answer {
    let request = Request::post(target).header("idempotency-key", key).json(body.to_string());
    request.send(gateway.admin_address()).await
}

#[tokio::test]
async fn dead_letters_are_listed_shown_and_sent_again_with_a_pace() {
    let shop = Shop::open();
    shop.sent(&["m-1", "m-2", "m-3"], dead()).await;
    shop.sent(&["m-4"], Sent::Delivered).await;
    assert_eq!(ids(&shop.json(&["outbox", "list", "--state", "dead"])), ["m-1", "m-2", "m-3"]);
    let shown = shop.json(&["outbox", "show", "m-1"]);
    assert_eq!((&shown["reason"], &shown["body"]), (&json!("410 Gone"), &json!("two books")), "{shown}");
    let text = shop.command(&["outbox", "show", "m-1"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("onefold outbox redrive m-1"), "{text:?}");

    let redrive = ["outbox", "redrive", "--destination", "shop", "--as", "send-again", "--per-second", "2"];
    let acted = shop.json(&[&redrive[..], &["--reason", "the shop is up again"]].concat());
    assert_eq!(acted["done"], json!(["m-1", "m-2", "m-3"]));
    let due = async |id: &str| {
        let entry = shop.store.outgoing(&key(id)).await.unwrap().unwrap();
        assert_eq!(entry.state, OutboxState::Waiting);
        entry.due_at.unwrap().0
    };
    let (first, second, third) = (due("m-1").await, due("m-2").await, due("m-3").await);
    assert!(second - first >= 500 && third - second >= 500, "two a second: {first}, {second}, {third}");
    let history = shop.json(&["outbox", "show", "m-2"])["history"].clone();
    assert_eq!(history[0]["who"], "ann (command line)");
    assert_eq!(
        (&history[0]["kind"], &history[0]["reason"]),
        (&json!("redriven"), &json!("the shop is up again"))
    );
    assert_eq!(shop.state("m-4").await, OutboxState::Delivered, "what is done is left alone");
}

#[tokio::test]
async fn unknown_sending_is_settled_by_a_persons_word_once() {
    let shop = Shop::open();
    shop.sent(&["m-1"], Sent::Unknown { reason: "the answer was lost".into() }).await;
    let listed = shop.json(&["outbox", "list", "--state", "outcome_unknown"]);
    assert_eq!(ids(&listed), ["m-1"]);
    let text = shop.command(&["outbox", "show", "m-1"]);
    assert!(
        String::from_utf8_lossy(&text.stdout).contains("redrive m-1 --attempt 1 --as delivered"),
        "{text:?}"
    );
    let other =
        ["outbox", "redrive", "m-1", "--attempt", "2", "--as", "send-again", "--reason", "seen elsewhere"];
    let other = shop.command(&other);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    assert!(String::from_utf8_lossy(&other.stdout).contains("this is attempt 1"), "{other:?}");
    assert_eq!(shop.state("m-1").await, OutboxState::Unknown, "another attempt was meant");
    let delivered =
        ["outbox", "redrive", "m-1", "--attempt", "1", "--as", "delivered", "--reason", "in their log"];
    assert_eq!(shop.json(&delivered)["done"], json!(["m-1"]));
    let again = shop.command(&["outbox", "redrive", "m-1", "--as", "send-again", "--reason", "hm"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(
        String::from_utf8_lossy(&again.stdout).contains("passed over  m-1: it is delivered"),
        "{again:?}"
    );
    assert_eq!(shop.state("m-1").await, OutboxState::Delivered);
}

#[tokio::test]
async fn wrong_words_are_refused_and_change_nothing() {
    let shop = Shop::open();
    shop.sent(&["m-1"], dead()).await;
    for (args, code, said) in [
        (&["outbox", "redrive", "m-1", "--as", "send-again", "--reason", " "][..], 2, "a reason is required"),
        (&["outbox", "redrive", "m-1", "--reason", "r"], 2, "--as"),
        (&["outbox", "redrive", "--as", "delivered", "--reason", "r"], 2, "ID"),
        (&["outbox", "list", "--state", "asleep"], 2, "--state"),
        (
            &[
                "outbox",
                "redrive",
                "--destination",
                "shop",
                "--state",
                "waiting",
                "--as",
                "discarded",
                "--reason",
                "r",
            ],
            2,
            "waits for nobody",
        ),
        (&["outbox", "show", "nothing"], 1, "no such message"),
        (&["inbox", "show", "nothing"], 2, "operations list"),
        (&["inbox", "redrive", "--reason", "r"], 2, "ID"),
        (&["inbox", "redrive", "ID", "--source", "shop", "--reason", "r"], 2, "--source"),
        (&["inbox", "rerun", "--permit", "7", "--reason", "r"], 1, "no such permit"),
        (&["inbox", "rerun", "--reason", "r"], 2, "--permit"),
        (&["permits", "grant", "--consumer", "loyalty", "--reason", "r"], 2, "everything again"),
        (&["permits", "revoke", "7", "--reason", "r"], 1, "no such permit"),
    ] {
        let output = shop.command(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{args:?}: {output:?}");
    }
    assert_eq!(shop.state("m-1").await, OutboxState::Dead);
}

#[tokio::test]
async fn parked_messages_are_let_go_and_permits_granted_and_ended() {
    let shop = Shop::open();
    let id = shop.parked("evt_1").await;
    assert_eq!(ids(&shop.json(&["inbox", "list", "--state", "parked"])), [id.as_str()]);
    let shown = shop.json(&["inbox", "show", &id]);
    assert_eq!((&shown["reason"], &shown["body_base64"]), (&json!("no such customer"), &json!("/wA=")));
    assert_eq!(shop.json(&["inbox", "redrive", &id, "--reason", "she is there now"])["done"], json!([id]));
    assert_eq!(shop.json(&["inbox", "show", &id])["state"], "failing");
    let again = shop.command(&["inbox", "redrive", &id, "--reason", "again"]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");

    let grant =
        ["permits", "grant", "--consumer", "loyalty", "--damaged", "41", "--reason", "too few points"];
    assert_eq!(shop.json(&grant)["number"], 1);
    let revoke = ["permits", "revoke", "1", "--reason", "all are repaired"];
    assert_eq!(shop.json(&revoke)["revoked"]["reason"], "all are repaired");
    assert_eq!(shop.command(&revoke).status.code(), Some(1));
    assert_eq!(shop.json(&["permits", "list"])["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn parked_messages_of_a_source_are_let_go_with_a_pace_by_command_and_through_the_listener() {
    let (shop, upstream) = (Shop::open(), Upstream::start().await);
    let seen = [shop.parked("evt_1").await, shop.parked("evt_2").await, shop.parked("evt_3").await];
    let redrive =
        ["inbox", "redrive", "--source", "shop", "--per-second", "2", "--reason", "they are there now"];
    let other =
        shop.json(&["inbox", "redrive", "--consumer", "loyalty", "--source", "bank", "--reason", "r"]);
    assert_eq!((&other["done"], &other["passed_over"]), (&json!([]), &json!([])));
    assert_eq!(shop.json(&redrive)["done"], json!(seen));
    let due: Vec<i64> = {
        let failing = InboxQuery { state: Some(InboxState::Failing), limit: 10, ..InboxQuery::default() };
        let entries = shop.store.list_inbox(failing).await.unwrap().entries;
        entries.iter().map(|entry| entry.due_at().expect("it was let go on").0).collect()
    };
    assert!(due[1] - due[0] >= 500 && due[2] - due[1] >= 500, "two a second: {due:?}");
    assert!(shop.json(&["inbox", "show", &seen[2]])["due_at"].is_string());

    let gateway = shop.gateway(&upstream).await;
    let fourth = shop.parked("evt_4").await;
    let body = json!({"consumer": "loyalty", "per_second": 2, "reason": "they are there now"});
    let answer = post(&gateway, "/v1/inbox/redrives", "u-1", &body).await;
    assert_eq!(answer.json()["done"], json!([fourth]), "{answer}");
    assert!(post(&gateway, "/v1/inbox/redrives", "u-1", &body).await.is_replay());
    for wrong in [json!({"reason": "r"}), json!({"ids": [fourth], "source": "shop", "reason": "r"})] {
        let refused = post(&gateway, "/v1/inbox/redrives", "u-2", &wrong).await;
        assert_eq!(
            (refused.status, refused.problem().as_deref()),
            (400, Some("request-invalid")),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn what_a_permit_is_for_is_put_into_its_round_by_command_and_through_the_listener() {
    let (shop, upstream) = (Shop::open(), Upstream::start().await);
    let (first, second) = (shop.handled("evt_1").await, shop.handled("evt_2").await);
    let grant =
        ["permits", "grant", "--consumer", "loyalty", "--message", "evt_1", "--reason", "too few points"];
    assert_eq!(shop.json(&grant)["number"], 1);
    let rerun = ["inbox", "rerun", "--permit", "1", "--reason", "too few points"];
    assert_eq!(shop.json(&rerun)["done"], json!([first]));
    let shown = shop.json(&["inbox", "show", &first]);
    assert_eq!((&shown["state"], &shown["round"]), (&json!("failing"), &json!(1)), "{shown}");
    assert_eq!(
        (&shown["body_base64"], &shown["history"][0]["reason"]),
        (&json!("/wA="), &json!("too few points"))
    );
    assert_eq!(shop.json(&rerun)["done"], json!([]), "once");

    let gateway = shop.gateway(&upstream).await;
    let grant = json!({"consumer": "loyalty", "source": "shop", "reason": "too few points"});
    assert_eq!(post(&gateway, "/v1/permits", "p-1", &grant).await.json()["number"], 2);
    let body = json!({"permit": 2, "per_second": 10, "reason": "too few points"});
    let answer = post(&gateway, "/v1/inbox/reruns", "r-1", &body).await;
    assert_eq!(answer.json()["done"], json!([second]), "{answer}");
    assert_eq!(answer.json()["passed_over"], json!([{"id": first, "why": "it is failing"}]));
    assert!(post(&gateway, "/v1/inbox/reruns", "r-1", &body).await.is_replay());
}

#[tokio::test]
async fn admin_listener_does_each_act_once_for_each_key() {
    let (shop, upstream) = (Shop::open(), Upstream::start().await);
    shop.sent(&["m-1", "m-2"], dead()).await;
    let parked = shop.parked("evt_1").await;
    let gateway = shop.gateway(&upstream).await;
    assert_eq!(ids(&gateway.admin_get("/v1/outbox?state=dead").await.json()), ["m-1", "m-2"]);
    assert_eq!(gateway.admin_get("/v1/outbox/m-1").await.json()["body"], "two books");
    for nowhere in ["/v1/outbox/m-9", &format!("/v1/inbox/{}", "0".repeat(64))] {
        let missing = gateway.admin_get(nowhere).await;
        assert_eq!((missing.status, missing.problem().as_deref()), (404, Some("not-found")), "{missing}");
        let title = missing.json()["title"].as_str().unwrap().to_owned();
        assert!(!title.to_lowercase().contains("operation"), "it is a message: {missing}");
    }

    let redrive = json!({"ids": ["m-1"], "as": "discarded", "reason": "nobody wants it"});
    let bare = gateway.admin_post("/v1/outbox/redrives", &redrive).await;
    assert_eq!((bare.status, bare.problem().as_deref()), (400, Some("key-missing")), "{bare}");
    let first = post(&gateway, "/v1/outbox/redrives", "r-1", &redrive).await;
    assert_eq!((first.status, &first.json()["done"]), (200, &json!(["m-1"])), "{first}");
    let again = post(&gateway, "/v1/outbox/redrives", "r-1", &redrive).await;
    assert!(again.is_replay(), "{again}");
    assert_eq!(again.json(), first.json());
    let other = json!({"ids": ["m-2"], "as": "discarded", "reason": "nobody wants it"});
    let conflict = post(&gateway, "/v1/outbox/redrives", "r-1", &other).await;
    assert_eq!(conflict.problem().as_deref(), Some("key-conflict"), "{conflict}");
    assert_eq!(shop.state("m-2").await, OutboxState::Dead);

    let grant = json!({"consumer": "loyalty", "damaged": "41", "reason": "too few points"});
    let granted = post(&gateway, "/v1/permits", "p-1", &grant).await;
    assert_eq!(granted.json()["number"], 1, "{granted}");
    assert!(post(&gateway, "/v1/permits", "p-1", &grant).await.is_replay());
    let permits = gateway.admin_get("/v1/permits").await.json();
    assert_eq!(permits["items"].as_array().unwrap().len(), 1, "one permit for one key: {permits}");
    let revoked = post(&gateway, "/v1/permits/1/revoke", "p-2", &json!({"reason": "done"})).await;
    assert_eq!(revoked.json()["revoked"]["reason"], "done", "{revoked}");

    let unpark = json!({"ids": [parked], "reason": "she is there now"});
    let unparked = post(&gateway, "/v1/inbox/redrives", "u-1", &unpark).await;
    assert_eq!(unparked.json()["done"], json!([parked]), "{unparked}");
    assert_eq!(gateway.admin_get(&format!("/v1/inbox/{parked}")).await.json()["state"], "failing");
    // What was refused changed nothing and leaves its key free.
    let wrong = json!({"ids": [parked], "reason": ""});
    let refused = post(&gateway, "/v1/inbox/redrives", "u-2", &wrong).await;
    assert_eq!((refused.status, refused.problem().as_deref()), (400, Some("reason-missing")), "{refused}");
}
