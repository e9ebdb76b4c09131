//! Whether a store's clock and the host's agree: looked at when a store is opened, and by `onefold store check`.
//!
//! Nothing here decides anything. The store's clock judges leases, retentions and the age of keys; the host's judges
//! tokens and the signed times of webhooks, and it mints the keys that carry a time.

use std::time::Duration;

use jiff::Timestamp;
use onefold_core::StoreTime;

use crate::{Finding, Gravity};

/// Clocks that are further apart than this are worth a word: what keeps clocks keeps them within a fraction of it.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(5);

/// Looks at the clock of a store that has one of its own. `host` is what the host's clock said before it was asked and
/// when it had answered: its answer is from between the two.
pub fn clock_beside_the_hosts(store: StoreTime, host: (StoreTime, StoreTime)) -> Finding {
    let (before, after) = host;
    let (ahead, behind) = (after.until(store), store.until(before));
    let apart = ahead.max(behind);
    let (store, host) = (instant(store), instant(after));
    if apart <= CLOCKS_APART_MAX {
        return Finding::new(
            "clock",
            Gravity::Fine,
            format!("the server's says {store}, this host's {host}"),
        );
    }
    let which = if ahead > behind { "ahead" } else { "behind" };
    let says = format!(
        "the server's says {store}, this host's {host}: the server's is {} s {which}. Leases, retentions and the age of keys are \
         judged by the server's; tokens, signed times of webhooks and new keys go by this host's: keep both by NTP, and slew \
         the server's back rather than stepping it",
        apart.as_secs()
    );
    Finding::new("clock", Gravity::Warning, says)
}

/// Looks at the host's clock beside the latest time that a store has committed, where the store lives by the host's.
pub fn clock_of_the_host(latest: StoreTime, host: StoreTime) -> Finding {
    let behind = host.until(latest);
    let (latest, host) = (instant(latest), instant(host));
    if behind <= CLOCKS_APART_MAX {
        return Finding::new(
            "clock",
            Gravity::Fine,
            format!("this host's says {host}, no less than the store's latest"),
        );
    }
    let says = format!(
        "this host's says {host}, and the store's latest time is {latest}, {} s later: one of them is wrong. Until this host's \
         clock has caught up the store's goes on from there, so nothing expires early; tokens, signed times of webhooks and new keys go \
         by this host's: keep it by NTP",
        behind.as_secs()
    );
    Finding::new("clock", Gravity::Warning, says)
}

/// A time as people read it.
fn instant(at: StoreTime) -> String {
    Timestamp::from_millisecond(at.0).map_or_else(|_| at.to_string(), |instant| format!("{instant:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: StoreTime = StoreTime(1_700_000_000_000);

    fn after(by: Duration) -> StoreTime {
        NOON.plus(by)
    }

    #[test]
    fn clocks_that_are_apart_are_told_with_both_values() {
        let ahead = clock_beside_the_hosts(after(Duration::from_secs(3600)), (NOON, NOON));
        assert_eq!(ahead.gravity, Gravity::Warning);
        for part in ["2023-11-14T23:13:20.000Z", "2023-11-14T22:13:20.000Z", "3600 s ahead"] {
            assert!(ahead.says.contains(part), "{}", ahead.says);
        }
        let late = after(Duration::from_secs(6));
        let behind = clock_beside_the_hosts(NOON, (late, late));
        assert_eq!(behind.gravity, Gravity::Warning);
        assert!(behind.says.contains("6 s behind"), "{}", behind.says);
        let stepped_back = clock_of_the_host(after(Duration::from_secs(3600)), NOON);
        assert_eq!(stepped_back.gravity, Gravity::Warning);
        assert!(stepped_back.says.contains("3600 s later"), "{}", stepped_back.says);
    }

    #[test]
    fn a_slow_answer_and_an_idle_store_are_no_finding() {
        let slow = (NOON, after(Duration::from_secs(60)));
        for server in [Duration::ZERO, Duration::from_secs(30), Duration::from_secs(65)] {
            assert_eq!(clock_beside_the_hosts(after(server), slow).gravity, Gravity::Fine, "{server:?}");
        }
        assert_eq!(clock_of_the_host(NOON, after(Duration::from_secs(86_400))).gravity, Gravity::Fine);
    }
}
