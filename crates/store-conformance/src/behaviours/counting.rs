//! How often a record was met.

use onefold_core::{Counters, OperationId};

use crate::fixture::Fixture;

/// Additions add up, also for one record twice in one call.
pub async fn counters_add_up_and_pass_over_what_is_gone(f: Fixture) {
    let (one, two) = (f.won("one").await, f.won("two").await);
    let gone = OperationId::from_bytes([1; 32]);
    let counts = |duplicates, conflicts, replays| Counters { duplicates, conflicts, replays };
    f.store
        .count(vec![(one, counts(1, 0, 2)), (gone, counts(1, 1, 1)), (one, counts(1, 5, 0))])
        .await
        .unwrap();
    f.store.count(vec![(two, counts(0, 1, 0)), (one, counts(1, 0, 0))]).await.unwrap();
    f.store.count(Vec::new()).await.unwrap();
    assert_eq!(f.record(one).await.counters, counts(3, 5, 2));
    assert_eq!(f.record(two).await.counters, counts(0, 1, 0));
    assert_eq!(f.store.read(gone).await.unwrap().record, None);
}
