//! The store as the engine sees it: claims and transitions go to their lanes, everything else straight to the server.
//!
//! Payloads are encoded, sealed and opened on the caller's side. A call whose future is dropped may or may not have
//! its effect. When the store is dropped, what waits is still done, and then the connections are closed.

use async_trait::async_trait;
use onefold_core::{Counters, Event, FingerprintBuilder, IdentityKey, Kept, OperationId};
use onefold_store::{
    Advance, Advanced, AtomicStore, Atomically, Claim, Claimed, Entry, Finding, FinishedStep, Gravity, Hints,
    Inventory, OperationStore, Page, ProbeTurn, Query, Read, Sealer, Step, StepPut, StepStore, StoreError,
    Survey, Swept, TakeProbes,
};
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::types::Type;

use crate::advance::AdvanceWork;
use crate::begin::BeginWork;
use crate::check;
use crate::claim::{ClaimWork, RawClaimed};
use crate::grants;
use crate::lanes::{Lanes, Work};
use crate::low_water::LowWater;
use crate::migrate::{self, LATEST};
use crate::server::{Server, Unanswered};
use crate::stats::{Counts, Stats};
use crate::{
    Address, OpenError, Options, PostgresWork, atomic, counts, events, inventory, list, open, probes, read,
    steps, survey, sweep, versions,
};

/// Lanes of each kind: while one waits for its commit another can gather and send.
const LANES: usize = 2;
/// Shards of a scope's counter: as many gateways can claim in one scope without waiting for each other's commit.
const SHARDS: i16 = 16;

/// Writes, and leaves nothing behind but the same row again.
pub(crate) const PROBE: &str = "INSERT INTO onefold.meta (name, value) VALUES ('probe', ''::bytea)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

/// A PostgreSQL database as a store of operations.
pub struct PostgresStore {
    identity_key: IdentityKey,
    sealer: Arc<Sealer>,
    hints: Hints,
    low_water: LowWater,
    versions: versions::Place,
    server: Server,
    shard: i16,
    claims: Lanes<ClaimWork>,
    beginnings: Lanes<BeginWork>,
    advances: Lanes<AdvanceWork>,
    counts: Arc<Counts>,
    closure_time_max: Duration,
    record_bytes_max: usize,
}

impl PostgresStore {
    /// Connects, checks the server, brings the schema to this release's and unlocks the store. Must be called inside
    /// a tokio runtime, which the store then needs until it is dropped.
    pub async fn open(address: &Address, options: Options) -> Result<PostgresStore, OpenError> {
        let opened = open::open(address, &options).await?;
        let counts = Arc::new(Counts::default());
        Ok(PostgresStore {
            identity_key: opened.identity_key,
            sealer: Arc::new(opened.sealer),
            hints: Hints::default(),
            low_water: LowWater::default(),
            versions: versions::Place::default(),
            shard: rand::random_range(0..SHARDS),
            claims: Lanes::start(LANES, &opened.server, &counts),
            beginnings: Lanes::start(1, &opened.server, &counts),
            advances: Lanes::start(LANES, &opened.server, &counts),
            server: opened.server,
            counts,
            closure_time_max: options.closure_time_max,
            record_bytes_max: options.record_bytes_max,
        })
    }

    /// Looks at the server and at the schema, and changes nothing.
    pub async fn check(address: &Address) -> Result<Vec<Finding>, OpenError> {
        let server = Server::new(address, 1, None)?;
        let mut findings = check::look(&server).await?.findings();
        let schema = {
            // There is one connection, which the next look takes.
            let connection = server.connection().await?;
            migrate::schema_of(&**connection, LATEST).await
        };
        match schema {
            // What is not there yet, nobody can be allowed to use.
            Ok(found) if found < LATEST => {
                let says = "not looked at: the schema is to be migrated first";
                findings.push(Finding::new("grants", Gravity::Warning, says));
            }
            _ => findings.push(grants::look(&server).await?),
        }
        findings.push(match schema {
            Ok(LATEST) => Finding::new("schema", Gravity::Fine, format!("schema {LATEST}, this release's")),
            Ok(found) if found > LATEST => {
                let says =
                    format!("schema {found} of a later release, which lets this one (schema {LATEST}) work");
                Finding::new("schema", Gravity::Fine, says)
            }
            Ok(found) => {
                let error = OpenError::NeedsMigration { found, needed: LATEST };
                Finding::new("schema", Gravity::Failure, error.to_string())
            }
            Err(error) => Finding::new("schema", Gravity::Failure, error.to_string()),
        });
        Ok(findings)
    }

    /// The schema that the database has: [`SCHEMA_VERSION`](crate::SCHEMA_VERSION), or that of a later release, which
    /// lets this one work.
    pub async fn schema(&self) -> Result<u32, OpenError> {
        let connection = self.server.connection().await?;
        migrate::schema_of(&**connection, LATEST).await
    }

    /// What the lanes did since the store was opened.
    pub fn stats(&self) -> Stats {
        self.counts.read()
    }

    /// Counts what stands, by walking over the tables.
    pub async fn inventory(&self) -> Result<Inventory, StoreError> {
        inventory::run(&self.server).await
    }

    /// Where a scope is counted. Under the store's secret, so that nobody can make two scopes share a place.
    pub(crate) fn bucket(&self, scope: &[u8]) -> i64 {
        let digest = FingerprintBuilder::new(&self.identity_key).part("scope", scope).finish().digest;
        let [a, b, c, d, e, f, g, h, ..] = digest;
        i64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl PostgresStore {
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn sealer(&self) -> &Arc<Sealer> {
        &self.sealer
    }

    pub(crate) fn secret(&self) -> &IdentityKey {
        &self.identity_key
    }

    pub(crate) fn hints(&self) -> &Hints {
        &self.hints
    }

    pub(crate) fn low_water(&self) -> &LowWater {
        &self.low_water
    }

    /// Refuses what is too long.
    pub(crate) fn takes(&self, bytes: usize) -> Result<(), StoreError> {
        if bytes > self.record_bytes_max {
            let most = self.record_bytes_max;
            return Err(StoreError::Refused(format!(
                "{bytes} bytes are too many for a record: it holds {most}"
            )));
        }
        Ok(())
    }

    pub(crate) fn versions(&self) -> &versions::Place {
        &self.versions
    }

    pub(crate) fn closure_time_max(&self) -> Duration {
        self.closure_time_max
    }
}

#[async_trait]
impl AtomicStore for PostgresStore {
    type Work = PostgresWork;

    async fn atomically(&self, entry: Entry, work: &mut PostgresWork) -> Result<Atomically, StoreError> {
        atomic::run(entry, work, self).await
    }
}

#[async_trait]
impl StepStore for PostgresStore {
    async fn put_step(
        &self,
        id: OperationId,
        attempt: u32,
        name: String,
        kept: Kept,
    ) -> Result<StepPut, StoreError> {
        steps::put(id, attempt, &name, &kept, &self.server, &self.sealer).await
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<FinishedStep>, StoreError> {
        steps::of(id, &self.server, &self.sealer).await
    }
}

/// Jobs of one operation go through one lane.
fn place(id: OperationId) -> u64 {
    u64::from(id.as_bytes()[31])
}

#[async_trait]
impl OperationStore for PostgresStore {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn identity_key(&self) -> &IdentityKey {
        &self.identity_key
    }

    async fn read(&self, id: OperationId) -> Result<Read, StoreError> {
        read::one(id, &self.server).await?.open(&self.sealer)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let work = ClaimWork::new(claim, |scope| self.bucket(scope), self.shard);
        let place = work.bucket.unsigned_abs();
        Ok(match self.claims.ask(work, place).await? {
            RawClaimed::Won { now } => Claimed::Won { now },
            RawClaimed::Exists(read) => Claimed::Exists(Box::new(read.open(&self.sealer)?)),
            RawClaimed::QuotaReached => Claimed::QuotaReached,
            RawClaimed::KeyTooOld { now } => Claimed::KeyTooOld { now },
        })
    }

    async fn advance(&self, advance: Advance) -> Result<Advanced, StoreError> {
        let place = place(advance.id);
        let advanced = match &advance.step {
            Step::Begin { .. } => {
                let work = BeginWork::new(advance, |scope| self.bucket(scope), self.shard);
                self.beginnings.ask(work, place).await?
            }
            _ => {
                let work = AdvanceWork::new(advance, &self.sealer);
                self.takes(work.bytes())?;
                self.advances.ask(work, place).await?
            }
        };
        advanced.open(&self.sealer)
    }

    async fn count(&self, counts: Vec<(OperationId, Counters)>) -> Result<(), StoreError> {
        counts::run(counts, &self.server).await
    }

    async fn list(&self, query: Query) -> Result<Page, StoreError> {
        let page = list::run(&query, &self.server).await?;
        let records = page.records.into_iter().map(|record| record.open(&self.sealer));
        let records = records.collect::<Result<_, _>>()?;
        Ok(Page { now: page.now, records, next_cursor: page.next_cursor })
    }

    async fn events(&self, id: OperationId) -> Result<Vec<Event>, StoreError> {
        events::of(id, &self.server).await
    }

    async fn lose_stale(&self, limit: u32) -> Result<u64, StoreError> {
        sweep::lose_stale(limit, &self.server).await
    }

    async fn take_probes(&self, take: TakeProbes) -> Result<Vec<ProbeTurn>, StoreError> {
        probes::take(&take, &self.server, &self.sealer).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        sweep::run(limit, &self.server).await
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        survey::run(&self.server).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let none: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 0] = [];
        self.server.ask(PROBE, &none, Unanswered::AskAgain).await?;
        Ok(())
    }
}
