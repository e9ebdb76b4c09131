//! A database in which somebody may make operators and functions in a schema of the search path: the store's own
//! statements must not use them, or they would run under its role and tell it the time.

mod asking;

use std::time::{Duration, SystemTime};

use asking::{claim, open};
use onefold_store::{AtomicStore, Atomically, Claimed, Ended, Entry, Finish, OperationStore};
use onefold_store_postgres::PostgresWork;
use onefold_testkit::postgres::{Database, Isolation};
use tokio_postgres::NoTls;

const HOSTILE: &str = "
    CREATE FUNCTION public.late(numeric, integer) RETURNS numeric LANGUAGE sql AS 'SELECT $1 * ($2 * 9)::numeric';
    CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = public.late);
    CREATE FUNCTION public.full(numeric, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
    CREATE OPERATOR public.>= (LEFTARG = numeric, RIGHTARG = bigint, FUNCTION = public.full);
    CREATE FUNCTION public.unnest(bytea[]) RETURNS SETOF bytea LANGUAGE sql AS 'SELECT NULL::bytea WHERE false';
";
/// The server's clock is this machine's.
const APART_MAX: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn operators_of_others_tell_the_store_neither_the_time_nor_the_quota() {
    let what = "statements of the store among others' operators";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client.batch_execute(HOSTILE).await.expect("operators are made");
    let seen = client.query_one("SELECT 1.0 * 1, 0.0 >= 1::bigint", &[]).await;
    let seen = seen.expect("operators are used");
    assert!(seen.get::<_, bool>(1), "the operators are there for whoever names no types");
    let store = open(&database.url()).await;
    // clock: what the real time is, to compare the store's with.
    let real = SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    let near = |now: i64| {
        let apart = real.abs_diff(u128::try_from(now).unwrap_or(0));
        assert!(apart < APART_MAX.as_millis(), "{now} is not near {real}");
    };

    let reserved = claim(&store, "reserved");
    let id = reserved.id;
    match store.claim(reserved).await.expect("the store works") {
        Claimed::Won { now } => near(now.0),
        other => panic!("{other:?}"),
    }
    let read = store.read(id).await.expect("the store works");
    assert!(read.record.is_some(), "a record that stands is found");
    let mut counted = claim(&store, "atomic");
    counted.live_keys_max = Some(100);
    let mut work = PostgresWork::new(|_| {
        let kept = onefold_core::Kept::Nothing;
        Box::pin(async { Ended::Finished { finish: Finish::Succeeded, kept, resource: None } })
    });
    let entry = Entry::New(Box::new(counted));
    match store.atomically(entry, &mut work).await.expect("the store works") {
        Atomically::Committed { now, .. } => near(now.0),
        other => panic!("{other:?}"),
    }
}
