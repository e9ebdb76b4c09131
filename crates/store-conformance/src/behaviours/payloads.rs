//! Results come back as they were kept.

use onefold_core::{Answer, Kept, NotKept, Resource, State, TypedValue};
use onefold_store::Step;

use crate::fixture::{Fixture, RUNNING, answer};

async fn kept(f: &Fixture, key: &str, kept: Kept) -> Kept {
    let id = f.won(key).await;
    f.done(id, RUNNING, 1, Step::Settle { state: State::Succeeded, kept, resource: None }).await;
    f.record(id).await.kept
}

/// Each kind, with header lines and trailers in their order, and the resource beside it.
pub async fn every_kind_of_result_comes_back_as_it_was(f: Fixture) {
    let full = Answer {
        status: 299,
        headers: vec![
            ("link".into(), b"</a>".to_vec()),
            ("x-bytes".into(), vec![0xff, 0xfe, 0x00]),
            ("link".into(), b"</b>".to_vec()),
            ("x-empty".into(), vec![]),
        ],
        body: (0..=255).collect(),
        trailers: vec![("x-sum".into(), b"1".to_vec()), ("x-sum".into(), b"2".to_vec())],
    };
    let mut results =
        vec![Kept::Nothing, Kept::Full(full.clone()), Kept::Reference(Answer { body: vec![], ..full })];
    for json in [&b"null"[..], b"0", b"false", b"\"\"", b"[]", br#"{"id":9007199254740993}"#] {
        results.push(Kept::Value(TypedValue { version: 1, json: json.to_vec() }));
        results.push(Kept::Value(TypedValue { version: u16::MAX, json: json.to_vec() }));
    }
    for why in [NotKept::TooBig, NotKept::Cut, NotKept::ByContract, NotKept::Settled, NotKept::NotStored] {
        results.push(Kept::NotKept { status: Some(200), why });
        results.push(Kept::NotKept { status: None, why });
    }
    for (i, result) in results.into_iter().enumerate() {
        assert_eq!(kept(&f, &format!("k-{i}"), result.clone()).await, result);
    }
    let id = f.won("resource").await;
    let resource = Some(Resource { kind: String::new(), id: "/orders/ü".into() });
    let step = Step::Settle { state: State::Failed, kept: Kept::Nothing, resource: resource.clone() };
    f.done(id, RUNNING, 1, step).await;
    assert_eq!(f.record(id).await.resource, resource);
}

/// Absent and empty are different.
pub async fn empty_body_differs_from_nothing_kept(f: Fixture) {
    let empty = Kept::Full(Answer { status: 204, ..Answer::default() });
    assert_eq!(kept(&f, "empty", empty.clone()).await, empty);
    assert_eq!(kept(&f, "nothing", Kept::Nothing).await, Kept::Nothing);
    for body in [&b"0"[..], b"false", b"\"\"", b"[]", b"null"] {
        let full = Kept::Full(answer(body));
        assert_eq!(kept(&f, &String::from_utf8_lossy(body), full.clone()).await, full);
    }
}

/// As long as a contract keeps by default.
pub async fn body_of_a_mebibyte_comes_back_byte_for_byte(f: Fixture) {
    let body: Vec<u8> = (0..1_u32 << 20).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let full = Kept::Full(answer(&body));
    assert!(kept(&f, "big", full.clone()).await == full, "the body differs");
}
