//! `onefold relay` as a process: webhooks and mail by the settings, and a relay that is killed with a message on its way.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use onefold_core::{Key, Message, OutboxState};
use onefold_store::OutboxStore;
use onefold_store_sqlite::{Options, SqliteStore};
use onefold_testkit::process::Process;
use onefold_testkit::{Gate, Reply, SmtpServer, TestDirectory, Upstream, wait};

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
        let message = Message {
            id: Key::new(id).unwrap(),
            destination: destination.into(),
            address: String::new(),
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
        let config = self.directory.file("relay.toml");
        std::fs::write(&config, destinations).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
        command.arg("relay").arg("--config").arg(config);
        command.arg("--store").arg(format!("sqlite:{}", self.directory.file("onefold.db").display()));
        let log = std::fs::File::create(self.directory.file("relay.log")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert!(said.starts_with("relaying to"), "{said}");
        Relay(child)
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
