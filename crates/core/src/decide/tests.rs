//! The whole table: states × requests × policies × lease × retention, against an independent statement of it.

use super::*;
use crate::contract::{RETENTION, Retention};
use crate::{Counters, FingerprintBuilder, IdentityKey, Kept, Key, OperationId, Reconciliation, Scope};

const NOW: StoreTime = StoreTime(1_000_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

fn before(by: Duration) -> StoreTime {
    StoreTime(NOW.0 - by.as_millis() as i64)
}

fn print(text: &str) -> Fingerprint {
    FingerprintBuilder::new(&IdentityKey::none()).part("body", text.as_bytes()).finish()
}

fn record(state: State, lease: Lease, attempt: u32, expires_at: Option<StoreTime>) -> Record {
    Record {
        id: OperationId::from_bytes([1; 32]),
        scope: Scope::shared(),
        operation: "op".into(),
        key: Some(Key::new("k").unwrap()),
        correlation_id: None,
        fingerprint: Some(print("a")),
        ignored: vec![],
        state,
        attempt,
        owner: "me".into(),
        lease,
        on_stale: OnStale::Unknown,
        reconciliation: Reconciliation::Open,
        resource: None,
        kept: Kept::Nothing,
        created_at: StoreTime(1),
        begun_at: None,
        completed_at: None,
        expires_at,
        counters: Counters::default(),
    }
}

/// One row of the table, stated in words and not in the code's own order.
fn expected(record: &Record, same: bool, key_time: Option<StoreTime>, c: &Contract) -> Decision {
    let over = record.state.is_terminal() && record.expires_at.is_some_and(|e| e.0 <= NOW.0);
    let buried = record.expires_at.is_some_and(|e| e.0 + TOMBSTONE.as_millis() as i64 > NOW.0);
    let reject = c.after_expiry == AfterExpiry::Reject;
    if over && reject && buried {
        return Decision::Expired(Expiry::Tombstone);
    }
    if over {
        let old = match (key_time, c.retention) {
            (Some(t), Retention::For(r)) => t.0 + r.as_millis() as i64 <= NOW.0,
            _ => false,
        };
        return match key_time {
            Some(made_at) if old && reject => Decision::Expired(Expiry::KeyTooOld { made_at }),
            _ => Decision::Begin,
        };
    }
    let last = c.max_attempts != 0 && record.attempt >= c.max_attempts;
    if !same && (record.state != State::Failed || last) {
        return Decision::Conflict { original: record.state };
    }
    match (record.state, record.lease, c.on_stale) {
        (State::Received, ..) => Decision::Pending,
        (State::Succeeded | State::Rejected, ..) => Decision::Replay,
        (State::OutcomeUnknown, ..)
            if record.reconciliation == Reconciliation::MayRetry && c.forward_key != ForwardKey::None =>
        {
            if last {
                Decision::NeedsOperator
            } else {
                Decision::TakeOver { attempt: record.attempt + 1 }
            }
        }
        (State::OutcomeUnknown, ..) => Decision::Unknown,
        (State::Failed, ..) if last => Decision::Exhausted,
        (State::Failed, ..) => Decision::Begin,
        (State::Processing, Lease::Alive(left), _) => {
            Decision::Busy { retry_after: left.min(Duration::from_secs(30)).max(Duration::from_secs(1)) }
        }
        (State::Processing, _, OnStale::Unknown) => Decision::Unknown,
        (State::Processing, _, OnStale::Reconcile) => Decision::Reconcile,
        (State::Processing, _, OnStale::Resume) if last => Decision::NeedsOperator,
        (State::Processing, _, OnStale::Resume) => Decision::TakeOver { attempt: record.attempt + 1 },
    }
}

#[test]
fn every_row_of_the_table_is_as_the_semantics_say() {
    let leases = [Lease::None, Lease::Over, Lease::Alive(Duration::from_millis(1)), Lease::Alive(DAY)];
    let ends =
        [None, Some(before(Duration::ZERO)), Some(before(TOMBSTONE)), Some(before(DAY)), Some(NOW.plus(DAY))];
    let key_times = [None, Some(before(RETENTION)), Some(before(DAY)), Some(NOW.plus(DAY))];
    let mut rows = 0;
    for state in State::ALL {
        for lease in leases {
            for end in ends {
                for attempt in [1, 3] {
                    for contract in contracts() {
                        for key_time in key_times {
                            for (same, reconciliation) in verdicts() {
                                let record = Record { reconciliation, ..record(state, lease, attempt, end) };
                                let asked = print(if same { "a" } else { "b" });
                                let request = Request { fingerprint: &asked, key_time };
                                assert_eq!(
                                    decide(Some(&record), &request, &contract, NOW),
                                    expected(&record, same, key_time, &contract),
                                    "{state} {lease:?} ends {end:?} attempt {attempt} key {key_time:?} same {same} {reconciliation:?} {contract:?}",
                                );
                                rows += 1;
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(rows, 6 * 4 * 5 * 2 * 32 * 4 * 6, "a dimension of the table went missing");
}

fn verdicts() -> impl Iterator<Item = (bool, Reconciliation)> {
    use Reconciliation as R;
    let all = [R::Open, R::MayRetry, R::Escalated];
    all.into_iter().flat_map(|verdict| [(true, verdict), (false, verdict)])
}

fn contracts() -> Vec<Contract> {
    let mut all = Vec::new();
    for (on_stale, forward_key) in [
        (OnStale::Unknown, ForwardKey::Same),
        (OnStale::Unknown, ForwardKey::None),
        (OnStale::Reconcile, ForwardKey::Same),
        (OnStale::Resume, ForwardKey::Derived),
    ] {
        for after_expiry in [AfterExpiry::Reject, AfterExpiry::New] {
            for retention in [Retention::For(RETENTION), Retention::Forever] {
                for max_attempts in [0, 3] {
                    let mut c = Contract::new("op", "one");
                    c.on_stale = on_stale;
                    c.forward_key = forward_key;
                    c.after_expiry = after_expiry;
                    c.retention = retention;
                    c.max_attempts = max_attempts;
                    all.push(c);
                }
            }
        }
    }
    all
}

#[test]
fn an_unknown_key_begins_unless_it_says_itself_that_it_is_too_old() {
    let (contract, asked) = (Contract::new("op", "one"), print("a"));
    let at = |key_time| decide(None, &Request { fingerprint: &asked, key_time }, &contract, NOW);
    assert_eq!(at(None), Decision::Begin);
    assert_eq!(at(Some(NOW.plus(DAY))), Decision::Begin, "a key from the future is an ordinary key");
    assert_eq!(at(Some(before(DAY))), Decision::Begin);
    let made_at = before(RETENTION);
    assert_eq!(at(Some(made_at)), Decision::Expired(Expiry::KeyTooOld { made_at }));
}

#[test]
fn an_effect_that_may_exist_is_never_begun_again() {
    for state in [State::Succeeded, State::Rejected, State::OutcomeUnknown, State::Received] {
        for contract in contracts() {
            for same in [true, false] {
                let asked = print(if same { "a" } else { "b" });
                let record = record(state, Lease::Over, 1, Some(NOW.plus(DAY)));
                let request = Request { fingerprint: &asked, key_time: Some(before(RETENTION)) };
                let decision = decide(Some(&record), &request, &contract, NOW);
                assert!(
                    !matches!(decision, Decision::Begin | Decision::TakeOver { .. }),
                    "{state}: {decision:?}"
                );
            }
        }
    }
}
