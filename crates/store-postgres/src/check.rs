//! What is looked at when a store is opened, and by `onefold store check`: whether what is acknowledged will survive.
//!
//! Nothing is changed. A failure means that the store cannot be used; a warning names what can be lost, or cost.

use onefold_core::StoreTime;
use onefold_store::{Clock, Finding, Gravity, SystemClock, clock_beside_the_hosts};
use tokio_postgres::Row;

use crate::OpenError;
use crate::error::Failed;
use crate::server::{Server, Unanswered};

/// The oldest major version on which the statements are tested or known to work.
const VERSION_MIN: i32 = 14;
/// A transaction that is open for so long keeps the server from clearing dead rows.
const OLD_TRANSACTION_S: i64 = 300;

/// Of the session that asks, which a pooler may have given it.
pub(crate) const LOOK: &str = "SELECT current_setting('server_version_num')::integer / 10000,
    pg_is_in_recovery(), current_setting('transaction_read_only')::boolean, current_setting('fsync')::boolean,
    current_setting('full_page_writes')::boolean, current_setting('synchronous_commit'),
    current_setting('synchronous_standby_names'), (SELECT count(*) FROM pg_stat_replication),
    current_setting('transaction_isolation'),
    (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::bigint FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()),
    (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The server as it was seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    version: i32,
    in_recovery: bool,
    read_only: bool,
    fsync: bool,
    full_page_writes: bool,
    synchronous_commit: String,
    standby_names: String,
    standbys: i64,
    isolation: String,
    oldest_transaction_s: i64,
    /// The server's clock.
    clock: StoreTime,
    /// The host's, before it was asked and when it had answered.
    host: (StoreTime, StoreTime),
}

/// Looks at the server.
pub(crate) async fn look(server: &Server) -> Result<Seen, Failed> {
    let clock = SystemClock::new();
    let before = clock.wall();
    let rows = server.ask(LOOK, &[], Unanswered::AskAgain).await?;
    let host = (before, clock.wall());
    let row = rows.first().ok_or_else(|| Failed::Server("it gave no answer".into()))?;
    let mut seen = seen(row, host).map_err(|error| Failed::Server(error.to_string()))?;
    // A test's time stands in for the server's, here as everywhere.
    seen.clock = server.now().map_or(seen.clock, StoreTime);
    Ok(seen)
}

fn seen(row: &Row, host: (StoreTime, StoreTime)) -> Result<Seen, tokio_postgres::Error> {
    Ok(Seen {
        version: row.try_get(0)?,
        in_recovery: row.try_get(1)?,
        read_only: row.try_get(2)?,
        fsync: row.try_get(3)?,
        full_page_writes: row.try_get(4)?,
        synchronous_commit: row.try_get(5)?,
        standby_names: row.try_get(6)?,
        standbys: row.try_get(7)?,
        isolation: row.try_get(8)?,
        oldest_transaction_s: row.try_get(9)?,
        clock: StoreTime(row.try_get(10)?),
        host,
    })
}

impl Seen {
    /// Refuses a server that cannot be used.
    pub(crate) fn refuse(&self) -> Result<(), OpenError> {
        if self.version < VERSION_MIN {
            return Err(OpenError::TooOld { found: self.version, needed: VERSION_MIN });
        }
        match self.writable() {
            Finding { gravity: Gravity::Failure, says, .. } => Err(OpenError::ReadOnly(says)),
            _ => Ok(()),
        }
    }

    /// What was seen, in words.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        vec![
            self.version(),
            self.writable(),
            self.durability(),
            self.replication(),
            Finding::new("isolation", Gravity::Fine, format!("transactions are {}", self.isolation)),
            clock_beside_the_hosts(self.clock, self.host),
            self.transactions(),
        ]
    }

    fn version(&self) -> Finding {
        let gravity = if self.version < VERSION_MIN { Gravity::Failure } else { Gravity::Fine };
        Finding::new(
            "version",
            gravity,
            format!("PostgreSQL {}; {VERSION_MIN} or later is needed", self.version),
        )
    }

    fn writable(&self) -> Finding {
        let (gravity, says) = match (self.in_recovery, self.read_only) {
            (true, _) => (Gravity::Failure, "it is a replica in recovery"),
            (_, true) => (Gravity::Failure, "its transactions are read-only by default"),
            _ => (Gravity::Fine, "the server is a primary and takes writes"),
        };
        Finding::new("primary", gravity, says)
    }

    fn durability(&self) -> Finding {
        let mut risks = Vec::new();
        if !self.fsync {
            risks.push("fsync is off: a crash of the host can damage or lose everything");
        }
        if !self.full_page_writes {
            risks.push("full_page_writes is off: a crash of the host can damage pages");
        }
        if self.synchronous_commit == "off" {
            risks.push(
                "synchronous_commit is off: a crash loses what was acknowledged last, and it would run again",
            );
        }
        if risks.is_empty() {
            let says = format!("commits are flushed (synchronous_commit is {})", self.synchronous_commit);
            return Finding::new("durability", Gravity::Fine, says);
        }
        Finding::new("durability", Gravity::Warning, risks.join("; "))
    }

    fn replication(&self) -> Finding {
        let asynchronous =
            self.standby_names.is_empty() || ["local", "off"].contains(&self.synchronous_commit.as_str());
        match (self.standbys, asynchronous) {
            (0, _) => Finding::new("replication", Gravity::Fine, "no standby is connected"),
            (standbys, true) => Finding::new(
                "replication",
                Gravity::Warning,
                format!(
                    "{standbys} standbys are connected and none is synchronous: a failover can lose what was acknowledged last, and it would run again; set synchronous_standby_names"
                ),
            ),
            (standbys, false) => Finding::new(
                "replication",
                Gravity::Fine,
                format!("{standbys} standbys are connected, synchronous: {}", self.standby_names),
            ),
        }
    }

    fn transactions(&self) -> Finding {
        let seconds = self.oldest_transaction_s;
        if seconds < OLD_TRANSACTION_S {
            return Finding::new("transactions", Gravity::Fine, "none is old");
        }
        let says = format!(
            "one is open for {seconds} s: as long as it is, dead rows stay and claims become slower (see pg_stat_activity)"
        );
        Finding::new("transactions", Gravity::Warning, says)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine() -> Seen {
        Seen {
            version: 15,
            in_recovery: false,
            read_only: false,
            fsync: true,
            full_page_writes: true,
            synchronous_commit: "on".into(),
            standby_names: String::new(),
            standbys: 0,
            isolation: "read committed".into(),
            oldest_transaction_s: 0,
            clock: StoreTime(0),
            host: (StoreTime(0), StoreTime(0)),
        }
    }

    fn gravity(seen: &Seen, what: &str) -> Gravity {
        seen.findings().into_iter().find(|finding| finding.what == what).expect("it is looked at").gravity
    }

    #[test]
    fn a_server_as_it_should_be_has_no_finding() {
        assert!(fine().findings().iter().all(|finding| finding.gravity == Gravity::Fine));
        assert!(fine().refuse().is_ok());
    }

    #[test]
    fn a_server_that_takes_no_writes_or_is_too_old_is_refused() {
        assert!(matches!(Seen { in_recovery: true, ..fine() }.refuse(), Err(OpenError::ReadOnly(_))));
        assert!(matches!(Seen { read_only: true, ..fine() }.refuse(), Err(OpenError::ReadOnly(_))));
        assert!(matches!(Seen { version: 13, ..fine() }.refuse(), Err(OpenError::TooOld { found: 13, .. })));
    }

    #[test]
    fn what_can_lose_an_acknowledged_record_is_a_warning() {
        for seen in [
            Seen { fsync: false, ..fine() },
            Seen { full_page_writes: false, ..fine() },
            Seen { synchronous_commit: "off".into(), ..fine() },
        ] {
            assert_eq!(gravity(&seen, "durability"), Gravity::Warning, "{seen:?}");
        }
        let standby = Seen { standbys: 1, ..fine() };
        assert_eq!(gravity(&standby, "replication"), Gravity::Warning);
        let named = Seen { standby_names: "ANY 1 (*)".into(), ..standby };
        assert_eq!(gravity(&named, "replication"), Gravity::Fine);
        let local = Seen { synchronous_commit: "local".into(), ..named };
        assert_eq!(gravity(&local, "replication"), Gravity::Warning);
    }

    #[test]
    fn a_clock_that_is_not_the_hosts_is_a_warning() {
        let ahead = Seen { clock: StoreTime(6_000), ..fine() };
        assert_eq!(gravity(&ahead, "clock"), Gravity::Warning);
        assert!(ahead.refuse().is_ok());
    }
}
