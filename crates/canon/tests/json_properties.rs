//! Properties of JSON digests and canonical texts on random values. The oracle for RFC 8785 is
//! `serde_json_canonicalizer`, another implementation, on values whose numbers it can represent.

mod support;

use onefold_canon::BodyKind;
use onefold_canon::json::canonical_text;
use proptest::prelude::*;
use serde_json::Value;
use support::{Random, digest, digest_in_random_chunks, json};

fn oracle(value: &Value) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(value).unwrap()
}

fn written(value: &Value, random: &mut Random) -> String {
    let mut text = String::new();
    support::write(value, random, &mut text);
    text
}

/// What must hold for one seed; the proptests and the long run share it.
fn check(seed: u64) {
    let mut random = Random(seed);
    let one = support::value(&mut random, 4);
    let other = support::change(&one, &mut random);
    let (one_text, other_text) = (written(&one, &mut random), written(&other, &mut random));
    let (one_oracle, other_oracle) = (oracle(&one), oracle(&other));

    assert_eq!(canonical_text(one_text.as_bytes()).as_ref(), Ok(&one_oracle), "seed {seed}: {one_text}");
    assert_eq!(json(&one_text), json(&one_oracle), "seed {seed}: {one_text}");
    let agree = json(&one_text) == json(&other_text);
    assert_eq!(agree, one_oracle == other_oracle, "seed {seed}: {one_text} and {other_text}");

    let chunked = digest_in_random_chunks(BodyKind::Json, &[], one_text.as_bytes(), &mut random);
    assert_eq!(chunked, digest(BodyKind::Json, &[], &one_text), "seed {seed}: {one_text}");
}

proptest! {
    #[test]
    fn digests_and_canonical_texts_agree_with_the_oracle(seed: u64) {
        check(seed);
    }

    #[test]
    fn no_chunking_of_any_bytes_changes_a_digest(seed: u64, damage in 0usize..400, by: u8) {
        let mut random = Random(seed);
        let value = support::value(&mut random, 3);
        let mut body = written(&value, &mut random).into_bytes();
        let at = damage % body.len();
        body[at] = by;
        let whole = digest(BodyKind::Json, &["/a", "/0/b"], &body);
        let chunked = digest_in_random_chunks(BodyKind::Json, &["/a", "/0/b"], &body, &mut random);
        prop_assert_eq!(whole, chunked);
    }

    #[test]
    fn what_is_accepted_is_what_another_parser_accepts(seed: u64, damage in 0usize..400, by: u8) {
        let mut random = Random(seed);
        let value = support::value(&mut random, 3);
        let mut body = written(&value, &mut random).into_bytes();
        let at = damage % body.len();
        body[at] = by;
        let other = serde_json::from_slice::<Value>(&body);
        // The other parser keeps numbers as doubles.
        prop_assume!(!other.as_ref().is_err_and(|error| error.to_string().starts_with("number out of range")));
        let own = onefold_canon::json::without(&body, &[]);
        prop_assert_eq!(own.is_ok(), other.is_ok(), "{:?}: {:?} {:?}", String::from_utf8_lossy(&body), own, other);
    }
}

#[test]
fn the_same_holds_for_a_long_fixed_series_of_random_values() {
    (0..3000).for_each(check);
}
