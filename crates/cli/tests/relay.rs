//! `onefold relay` as a process: webhooks and mail by the settings, and a relay that is killed with a message on its
//! way.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use onefold_broker_rabbitmq::{Access, RabbitConsumer, Subscription};
use onefold_core::{Key, Message, OutboxState};
use onefold_messages::{Inbound, Receive, Settle};
use onefold_store::OutboxStore;
use onefold_store_sqlite::{Options, SqliteStore};
use onefold_testkit::process::Process;
use onefold_testkit::{
    Gate, NatsServer, RabbitServer, Reply, Request, SmtpServer, TestDirectory, Upstream, wait,
};

struct Shop {
    directory: TestDirectory,
    store: SqliteStore,
}

impl Shop {
    fn open() -> Shop {
        let directory = TestDirectory::create();
        let store = SqliteStore::open(directory.file("onefold.db"), Options::default()).unwrap();
        Shop { directory, store }
    }

    async fn put(&self, id: &str, destination: &str, body: &str) {
        self.put_for(id, destination, "", body).await;
    }

    async fn put_for(&self, id: &str, destination: &str, address: &str, body: &str) {
        let message = Message {
            id: Key::new(id).unwrap(),
            destination: destination.into(),
            address: address.into(),
            ordering_key: None,
            headers: vec![("content-type".into(), "application/json".into())],
            body: body.as_bytes().to_vec(),
        };
        assert_eq!(self.store.enqueue(vec![message]).await.unwrap(), 1);
    }

    async fn delivered(&self, id: &str, deadline: Duration) {
        wait::until_within(deadline, &format!("{id} is delivered"), async || {
            let entry = self.store.outgoing(&Key::new(id).unwrap()).await.unwrap().unwrap();
            entry.state == OutboxState::Delivered
        })
        .await;
    }

    /// A relay to the destinations of these settings, once it says that it runs.
    fn relay(&self, destinations: &str) -> Relay {
        self.relay_with(destinations, &[]).0
    }

    /// The same with more flags, and what else it says then.
    fn relay_with(&self, destinations: &str, flags: &[&str]) -> (Relay, BufReader<ChildStdout>) {
        let config = self.directory.file("relay.toml");
        std::fs::write(&config, destinations).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
        command.arg("relay").args(flags).arg("--config").arg(config);
        command.arg("--store").arg(format!("sqlite:{}", self.directory.file("onefold.db").display()));
        let log = std::fs::File::create(self.directory.file("relay.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (mut said, mut out) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
        out.read_line(&mut said).unwrap();
        assert!(said.starts_with("relaying to"), "{said}");
        (Relay(child), out)
    }
}

/// Killed when dropped.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SECRET: &str = "b25lIG9mIHRoZSBrZXlzIQ==";

#[tokio::test]
async fn relay_sends_webhooks_and_mail_by_its_settings() {
    let (shop, endpoint) = (Shop::open(), Upstream::start().await);
    let Some(mail) = SmtpServer::start("mail by the command `relay`", &shop.directory) else { return };
    std::fs::write(shop.directory.file("secret"), SECRET).unwrap();
    let settings = format!(
        "[[destination]]\nname = \"hook\"\nkind = \"http\"\nurl = \"{}/hook\"\nsecrets = [\"file:{}\"]\n\
         [[destination]]\nname = \"mail\"\nkind = \"smtp\"\nurl = \"smtp://127.0.0.1:{}\"\nsender = \"shop@example.org\"\n",
        endpoint.url(),
        shop.directory.file("secret").display(),
        mail.port(),
    );
    shop.put("m-1", "hook", "{}").await;
    shop.put("m-2", "mail", r#"{"to":["ann@example.org"],"subject":"Your order","text":"Thank you."}"#).await;
    let mut relay = shop.relay(&settings);
    shop.delivered("m-1", wait::DEADLINE).await;
    shop.delivered("m-2", wait::DEADLINE).await;
    assert_eq!(endpoint.seen_at("/hook")[0].header("webhook-id"), Some("m-1"));
    assert_eq!(mail.taken()[0].field("Message-ID"), Some("<m-2@example.org>"));
    Process::of(relay.0.id()).terminate();
    assert!(relay.0.wait().unwrap().success());
}

/// Notes the ids that come.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<Key>>>);

#[async_trait]
impl Receive for Noting {
    async fn receive(&self, inbound: Inbound) -> Settle {
        self.0.lock().unwrap().extend(inbound.id);
        Settle::Acknowledge
    }
}

#[tokio::test]
async fn relay_publishes_to_rabbitmq_by_its_settings() {
    let shop = Shop::open();
    let Some(server) = RabbitServer::any("RabbitMQ by the command `relay`") else { return };
    let queue = format!("relay-{}", std::process::id());
    let noting = Noting::default();
    let access = Access::new(server.url()).unwrap();
    let receive: Arc<dyn Receive> = Arc::new(noting.clone());
    let consumer = RabbitConsumer::new(access, Subscription::new(&queue), receive);
    let consuming = tokio::spawn(async move { consumer.run(std::future::pending()).await });
    shop.put_for("m-1", "events", &queue, "{}").await;
    let url = shop.directory.file("url");
    std::fs::write(&url, server.url()).unwrap();
    let relay = shop.relay(&format!(
        "[[destination]]\nname = \"events\"\nkind = \"rabbitmq\"\nurl = \"file:{}\"\n",
        url.display()
    ));
    // The queue may be made after the first try.
    shop.delivered("m-1", Duration::from_secs(60)).await;
    wait::until("it has come", || !noting.0.lock().unwrap().is_empty()).await;
    assert_eq!(noting.0.lock().unwrap()[0].as_str(), "m-1");
    drop(relay);
    consuming.abort();
}

#[tokio::test]
async fn relay_publishes_to_nats_by_its_settings() {
    let shop = Shop::open();
    let Some(server) = NatsServer::any("NATS by the command `relay`", &shop.directory) else { return };
    let client = onefold_broker_nats::connect(server.url(), async_nats::ConnectOptions::new()).await.unwrap();
    let context = async_nats::jetstream::new(client);
    let name = format!("relay-{}", std::process::id());
    let config = async_nats::jetstream::stream::Config {
        name: name.clone(),
        subjects: vec![format!("{name}.>")],
        ..Default::default()
    };
    let stream = context.create_stream(config).await.unwrap();
    shop.put_for("m-1", "events", &format!("{name}.orders"), "{}").await;
    let settings = "[[destination]]\nname = \"events\"\nkind = \"nats\"\n";
    let relay = shop.relay(&format!("{settings}url = \"{}\"\n", server.url()));
    shop.delivered("m-1", wait::DEADLINE).await;
    let stored = stream.get_raw_message(1).await.unwrap();
    assert_eq!(stored.headers.get("onefold-message-id").map(|id| id.as_str()), Some("m-1"));
    drop(relay);
    context.delete_stream(name).await.unwrap();
}

#[tokio::test]
async fn relay_logs_what_waits_for_a_person() {
    let (shop, endpoint) = (Shop::open(), Upstream::start().await);
    endpoint.always("/hook", Reply::status(410));
    std::fs::write(shop.directory.file("secret"), SECRET).unwrap();
    shop.put("m-1", "hook", "{}").await;
    shop.put("m-2", "hock", "{}").await;
    let _relay = shop.relay(&format!(
        "[[destination]]\nname = \"hook\"\nkind = \"http\"\nurl = \"{}/hook\"\nsecrets = [\"file:{}\"]\n",
        endpoint.url(),
        shop.directory.file("secret").display(),
    ));
    let lines = || -> Vec<serde_json::Value> {
        let log = std::fs::read_to_string(shop.directory.file("relay.log")).unwrap();
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let told = |member: &str, value: &str| {
        lines().iter().any(|line| line[member] == value && line["level"] == "WARN")
    };
    wait::until("the dead letter is told", || told("id", "m-1")).await;
    assert!(told("destination", "hock"), "{:?}", lines());
}

#[tokio::test]
async fn relay_logs_a_sending_that_failed_once_with_its_reason_and_when_it_is_tried_again() {
    let (shop, endpoint) = (Shop::open(), Upstream::start().await);
    endpoint.next("/hook", Reply::status(500));
    std::fs::write(shop.directory.file("secret"), SECRET).unwrap();
    shop.put("m-1", "hook", "{}").await;
    let _relay = shop.relay(&format!(
        "[[destination]]\nname = \"hook\"\nkind = \"http\"\nurl = \"{}/hook\"\nsecrets = [\"file:{}\"]\n",
        endpoint.url(),
        shop.directory.file("secret").display(),
    ));
    shop.delivered("m-1", wait::DEADLINE).await;
    let log = std::fs::read_to_string(shop.directory.file("relay.log")).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let told: Vec<_> = lines.filter(|line| line["id"] == "m-1").collect();
    let [line] = &told[..] else { panic!("one line for one failure: {log}") };
    assert_eq!((&line["level"], &line["destination"]), (&"WARN".into(), &"hook".into()), "{line}");
    assert!(line["reason"].as_str().is_some_and(|reason| reason.contains("500")), "{line}");
    assert!(line["again_in_ms"].is_u64() && line["attempt"] == 1, "{line}");
}

#[tokio::test]
async fn relay_shows_its_health_and_what_waits_where_it_is_told_to() {
    let (shop, endpoint) = (Shop::open(), Upstream::start().await);
    endpoint.always("/hook", Reply::status(410));
    std::fs::write(shop.directory.file("secret"), SECRET).unwrap();
    shop.put("m-1", "hook", "{}").await;
    shop.put("m-2", "another relay's", "{}").await;
    let settings = format!(
        "[[destination]]\nname = \"hook\"\nkind = \"http\"\nurl = \"{}/hook\"\nsecrets = [\"file:{}\"]\n",
        endpoint.url(),
        shop.directory.file("secret").display(),
    );
    let (_relay, mut out) = shop.relay_with(&settings, &["--listen", "127.0.0.1:0"]);
    let mut said = String::new();
    out.read_line(&mut said).unwrap();
    let address =
        said.trim().strip_prefix("health and metrics on http://").unwrap_or_else(|| panic!("{said}"));
    let address = address.parse().unwrap();
    let get = async |target: &str| Request::get(target).send(address).await;
    for page in ["/healthz", "/readyz"] {
        assert_eq!(get(page).await.status, 200, "{page}");
    }
    let shown = async |name: &str, destination: &str| {
        let metrics = get("/metrics").await.text();
        let label = format!("destination=\"{destination}\"");
        metrics.lines().any(|line| line.starts_with(name) && line.contains(&label) && line.ends_with(" 1"))
    };
    for (name, destination) in [("onefold_outbox_dead", "hook"), ("onefold_outbox_depth", "another relay's")]
    {
        wait::until_within(wait::DEADLINE, name, async || shown(name, destination).await).await;
    }
    assert_eq!(get("/v1/outbox").await.status, 404, "it changes nothing and lists nothing");
    let led = Request::get("/metrics").header("origin", "https://evil.example").send(address).await;
    assert_eq!(led.status, 403, "{led}");
}

#[test]
fn what_cannot_be_sent_to_is_a_mistake_of_the_settings() {
    let directory = TestDirectory::create();
    let config = directory.file("relay.toml");
    for (settings, said) in [
        ("[upstream]\nurl = \"http://127.0.0.1:1\"\n", "there is no [[destination]] to send to"),
        ("[[destination]]\nname = \"e\"\nkind = \"rabbitmq\"\nurl = \"amqp://\"\n", "destination \"e\""),
        ("[[destination]]\nname = \"e\"\nkind = \"smtp\"\nurl = \"smtp://u:p@h\"\n", "destination \"e\""),
    ] {
        std::fs::write(&config, settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
        command.arg("relay").arg("--config").arg(&config).current_dir(directory.path());
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{settings}: {ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains(said), "{settings}: {ended:?}");
        assert!(!directory.file("onefold.db").exists(), "no store was made");
    }
}

#[tokio::test]
async fn b94_relay_that_is_killed_after_the_acceptance_sends_again_under_the_same_id() {
    let (shop, endpoint, answer) = (Shop::open(), Upstream::start().await, Gate::closed());
    endpoint.next("/hook", Reply::status(200).hold_after(&answer));
    std::fs::write(shop.directory.file("secret"), SECRET).unwrap();
    // A lease is 15 s longer than the time-out: that long the message is left alone.
    let settings = format!(
        "[[destination]]\nname = \"hook\"\nkind = \"http\"\nurl = \"{}/hook\"\nsecrets = [\"file:{}\"]\ntimeout = \"5s\"\n",
        endpoint.url(),
        shop.directory.file("secret").display(),
    );
    shop.put("m-1", "hook", "{}").await;
    let relay = shop.relay(&settings);
    endpoint.reached("/hook", 1).await;
    drop(relay);
    answer.open();
    let _another = shop.relay(&settings);
    shop.delivered("m-1", Duration::from_secs(60)).await;
    let seen = endpoint.seen_at("/hook");
    assert_eq!(seen.len(), 2);
    for copy in &seen {
        assert_eq!((copy.header("webhook-id"), copy.body.as_ref()), (Some("m-1"), &b"{}"[..]));
    }
}
