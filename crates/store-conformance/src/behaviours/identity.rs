//! Keys and scopes are bytes to a store.

use onefold_core::key::KEY_BYTES_MAX;
use onefold_core::{Key, Scope};
use onefold_store::Query;

use crate::fixture::Fixture;

/// No folding, no trimming, no normal form: each is an operation of its own.
pub async fn keys_are_compared_byte_for_byte(f: Fixture) {
    // The last two look alike: one code point, and a letter with a combining mark.
    let keys = ["key", "KEY", "key ", " key", "key\t", "k\u{1}y", "k%y", "k_y", "k'y", "\u{e9}", "e\u{301}"];
    for key in keys {
        f.won(key).await;
    }
    for key in keys {
        let found =
            f.store.list(Query { key: Some(key.into()), limit: 1000, ..Query::default() }).await.unwrap();
        let found: Vec<&str> =
            found.records.iter().filter_map(|record| record.key.as_ref()).map(Key::as_str).collect();
        assert_eq!(found, [key]);
    }
}

/// Long values and separators are as good as any.
pub async fn longest_key_and_odd_scopes_come_back_as_they_were(f: Fixture) {
    let long = "ü".repeat(KEY_BYTES_MAX / 2) + "x";
    assert_eq!(long.len(), KEY_BYTES_MAX);
    let value = "v".repeat(256);
    let scopes = [
        Scope::shared(),
        Scope::new([("tenant", "a:b"), ("user", "c")]),
        Scope::new([("tenant", "a"), ("user", "b:c")]),
        Scope::new([("user", "c"), ("tenant", "a:b")]),
        Scope::new([("header:X", ""), ("x", &*value)]),
        Scope::new([("zero", "a\0b")]),
    ];
    let mut ids = Vec::new();
    for scope in &scopes {
        ids.push(f.won_as(f.claim_in(scope.clone(), &long)).await);
    }
    for (id, scope) in ids.iter().zip(&scopes) {
        let record = f.record(*id).await;
        assert_eq!((&record.scope, record.key.as_ref().map(Key::as_str)), (scope, Some(&*long)));
    }
}
