//! Opening a store: what is refused and left as it is, and what is made once however many open it at once.

mod asking;

use std::sync::Arc;
use std::time::Duration;

use asking::{claim, open, open_with};
use onefold_core::{FingerprintBuilder, StoreTime};
use onefold_store::clock::ManualClock;
use onefold_store::{Clock, Gravity, OperationStore, StoreError};
use onefold_store_postgres::{Address, OpenError, Options, PostgresStore, SCHEMA_VERSION};
use onefold_testkit::logged::Logged;
use onefold_testkit::postgres::{Database, Isolation, PostgresServer};
use onefold_testkit::wait::DEADLINE;
use onefold_testkit::{TestDirectory, pgbouncer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

const WHAT: &str = "opening stores on PostgreSQL";

fn secret_of(store: &PostgresStore) -> [u8; 32] {
    FingerprintBuilder::new(store.identity_key()).part("a", b"b").finish().digest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_that_are_opened_at_once_make_one_schema_and_one_secret() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let Some(database) = Database::create(WHAT, isolation).await else { return };
        let mut urls = vec![database.url()];
        urls.extend(pgbouncer::shared().map(|pooler| database.url_at(&pooler)));
        let mut opens = JoinSet::new();
        for n in 0..8 {
            let url = urls[n % urls.len()].clone();
            opens.spawn(async move { secret_of(&open(&url).await) });
        }
        let secrets = opens.join_all().await;
        assert!(secrets.iter().all(|secret| *secret == secrets[0]), "{isolation:?}");
        let versions = database.ask("SELECT count(*) FROM onefold.migrations").await;
        assert_eq!(versions, SCHEMA_VERSION.to_string());
    }
}

#[tokio::test]
async fn schema_that_is_absent_newer_or_of_something_else_is_refused() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let no_migration = Options { migrate: false, ..Options::default() };
    let refused = open_with(&database.url(), no_migration).await.err().expect("there is no schema");
    assert!(matches!(refused, OpenError::NeedsMigration { found: 0, needed: SCHEMA_VERSION }), "{refused}");
    assert_eq!(database.ask("SELECT to_regnamespace('onefold') IS NULL").await, "t", "nothing was made");
    database.execute("CREATE SCHEMA onefold; CREATE TABLE onefold.mine (a int)").await;
    let refused = open_with(&database.url(), Options::default()).await.err().expect("it is another's");
    assert!(matches!(refused, OpenError::Foreign), "{refused}");
    database.execute("DROP SCHEMA onefold CASCADE").await;
    drop(open(&database.url()).await);
    database.execute("INSERT INTO onefold.migrations (version) VALUES (99)").await;
    let refused = open_with(&database.url(), Options::default()).await.err().expect("it is newer");
    assert!(
        matches!(refused, OpenError::Newer { found: 99, min_reader: 99, known: SCHEMA_VERSION, .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn store_that_is_sealed_needs_its_key_and_keys_are_rotated() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let with = |seal_keys: &[[u8; 32]]| Options { seal_keys: seal_keys.to_vec(), ..Options::default() };
    let (old, new) = ([7; 32], [8; 32]);
    let store = open_with(&database.url(), with(&[old])).await.expect("a new store opens");
    let first = claim(&store, "k");
    let id = first.id;
    store.claim(first).await.expect("the store works");
    store.advance(asking::settle(id, b"secret", None)).await.expect("the store works");
    let without = open_with(&database.url(), with(&[])).await.err().expect("it is sealed");
    assert!(matches!(without, OpenError::NoKey(_)), "{without}");
    let other = open_with(&database.url(), with(&[new])).await.err().expect("it is sealed under the old one");
    assert!(matches!(other, OpenError::OtherKey(_)), "{other}");
    let rotated = open_with(&database.url(), with(&[new, old])).await.expect("both are there");
    assert!(rotated.read(id).await.is_ok());
    let retired =
        open_with(&database.url(), with(&[new])).await.err().expect("a record is under the old one");
    assert!(matches!(retired, OpenError::OtherKey(_)), "{retired}");
    database.execute("DELETE FROM onefold.operations").await;
    assert!(open_with(&database.url(), with(&[new])).await.is_ok(), "nothing is left under the old one");
}

#[tokio::test]
async fn server_that_cannot_be_reached_or_takes_no_writes_is_refused() {
    let nobody = onefold_testkit::ReservedAddress::take();
    let url = nobody.url().replace("http://", "postgres://me@") + "/shop";
    let refused = open_with(&url, Options::default()).await.err().expect("nobody answers");
    assert!(matches!(refused, OpenError::Unreachable(_)), "{refused}");
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let name = database.ask("SELECT current_database()").await;
    database.execute(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    let refused = open_with(&database.url(), Options::default()).await.err().expect("it is read-only");
    assert!(refused.to_string().contains("read-only") || refused.to_string().contains("writes"), "{refused}");
    database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").await;
    let claimed = store.claim(claim(&store, "k")).await;
    assert!(matches!(claimed, Err(StoreError::Unavailable(_))), "it fails closed: {claimed:?}");
    assert!(store.ready().await.is_err());
}

#[tokio::test]
async fn store_whose_server_is_gone_says_so_promptly_and_finds_it_again() {
    let directory = TestDirectory::create();
    let Some(mut server) = PostgresServer::start(WHAT, &directory, "") else { return };
    let store = open(&format!("{}/postgres", server.url())).await;
    assert_eq!(store.ready().await, Ok(()));
    server.kill();
    assert!(matches!(store.claim(claim(&store, "k")).await, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.ready().await, Err(StoreError::Unavailable(_))));
    server.restart();
    assert_eq!(store.ready().await, Ok(()));
    assert!(store.claim(claim(&store, "k")).await.is_ok());
}

#[tokio::test]
async fn check_says_what_could_be_lost() {
    let directory = TestDirectory::create();
    let Some(server) = PostgresServer::start(WHAT, &directory, "synchronous_commit = off\n") else { return };
    let url = format!("{}/postgres", server.url());
    let address = Address::parse(&url).expect("an address");
    let gravity = async |what| {
        let findings = PostgresStore::check(&address).await.expect("it can be reached");
        findings.into_iter().find(|finding| finding.what == what).expect("it is looked at").gravity
    };
    assert_eq!(gravity("durability").await, Gravity::Warning);
    assert_eq!(gravity("primary").await, Gravity::Fine);
    assert_eq!(gravity("schema").await, Gravity::Failure, "there is none");
    drop(open(&url).await);
    assert_eq!(gravity("schema").await, Gravity::Fine);
}

#[tokio::test]
async fn connections_are_encrypted_and_verified_as_the_address_says() {
    let directory = TestDirectory::create();
    let Some((server, certificate)) = PostgresServer::start_encrypted("TLS to PostgreSQL", &directory) else {
        return;
    };
    let url =
        |host: &str, query: &str| format!("postgres://postgres@{host}:{}/postgres?{query}", server.port());
    let root = format!("sslmode=verify-full&sslrootcert={}", certificate.display());
    for query in ["sslmode=require", "sslmode=prefer", &root] {
        let store = open(&url("localhost", query)).await;
        assert_eq!(store.ready().await, Ok(()), "{query}");
    }
    let (client, connection) =
        tokio_postgres::connect(&url("localhost", "sslmode=disable"), tokio_postgres::NoTls)
            .await
            .expect("it also takes plain connections");
    tokio::spawn(connection);
    let encrypted = async || {
        let sessions =
            "SELECT count(*) FILTER (WHERE ssl) > 0 FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE application_name = 'onefold'";
        client.query_one(sessions, &[]).await.expect("it answers").get::<_, bool>(0)
    };
    let store = open(&url("localhost", "sslmode=prefer")).await;
    assert!(encrypted().await, "the server sees an encrypted session");
    drop(store);
    for (host, query) in [("127.0.0.1", &*root), ("localhost", "sslmode=verify-full")] {
        let refused = open_with(&url(host, query), Options::default()).await;
        assert!(matches!(refused, Err(OpenError::Unreachable(_))), "{host} {query}: another's certificate");
    }
}

/// So a pooler seems that lets clients in and has no server for them.
#[tokio::test]
async fn new_connection_on_which_nobody_answers_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("postgres://shop@{}/shop?sslmode=disable", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        // It is authenticated; the number of the process and its secret; ready for a query.
        const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07\0\0\0\x09Z\0\0\0\x05I";
        // The driver's own question, whether one may write here: a column, its value, done, ready.
        const WRITABLE: &[u8] = b"T\0\0\0\x2e\0\x01transaction_read_only\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\
            \xff\xff\xff\xff\0\0D\0\0\0\x0d\0\x01\0\0\0\x03offC\0\0\0\x09SHOW\0Z\0\0\0\x05I";
        let mut clients = Vec::new();
        while let Ok((mut client, _)) = listener.accept().await {
            let introduced = client.read(&mut [0; 1024]).await.expect("it introduces itself");
            client.write_all(WELCOME).await.expect("it listens");
            let asked = client.read(&mut [0; 1024]).await.expect("it asks");
            assert!(introduced > 0 && asked > 0, "it is there");
            client.write_all(WRITABLE).await.expect("it listens");
            clients.push(client);
        }
    });
    let opened = timeout(DEADLINE, open_with(&url, Options::default())).await;
    let refused = opened.expect("the wait has an end").err().expect("nobody is there").to_string();
    assert!(refused.contains("does not answer on a new connection"), "{refused}");
}

#[tokio::test]
async fn a_replica_that_nobody_waits_for_is_told_at_every_start_and_by_a_check() {
    let directory = TestDirectory::create();
    let Some(primary) = PostgresServer::start(WHAT, &directory, "") else { return };
    let database = Database::create_in(primary.url(), Isolation::ReadCommitted).await;
    let address = Address::parse(&database.url()).expect("an address");
    let logged = Logged::here();
    drop(PostgresStore::open(&address, Options::default()).await.expect("it opens"));
    assert!(logged.warnings("check=\"replication\"").is_empty(), "there is no replica yet");
    let _replica = primary.late_replica_in(&directory.file("replica"), Duration::ZERO).await;
    drop(PostgresStore::open(&address, Options::default()).await.expect("it opens all the same"));
    let warnings = logged.warnings("check=\"replication\"");
    assert!(
        matches!(&warnings[..], [one] if one.contains("1 standbys are connected and none is synchronous")),
        "{warnings:?}"
    );
    let findings = PostgresStore::check(&address).await.expect("it can be looked at");
    let replication = findings.iter().find(|finding| finding.what == "replication").expect("it is looked at");
    assert_eq!(replication.gravity, Gravity::Warning);
    assert!(
        replication.says.contains("a failover can lose what was acknowledged last"),
        "{}",
        replication.says
    );
}

#[tokio::test]
async fn a_server_whose_clock_is_not_the_hosts_is_told_at_every_start() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let address = Address::parse(&database.url()).expect("an address");
    let logged = Logged::here();
    drop(PostgresStore::open(&address, Options::default()).await.expect("it opens"));
    assert!(logged.warnings("check=\"clock\"").is_empty(), "both are this host's");
    let test_clock: Option<Arc<dyn Clock>> = Some(Arc::new(ManualClock::at(StoreTime(1_700_000_000_000))));
    let elsewhere = Options { test_clock, ..Options::default() };
    drop(PostgresStore::open(&address, elsewhere).await.expect("it opens all the same"));
    let warnings = logged.warnings("check=\"clock\"");
    assert!(
        matches!(&warnings[..], [one] if one.contains("the server's says 2023-11-14T22:13:20.000Z")),
        "{warnings:?}"
    );
}
