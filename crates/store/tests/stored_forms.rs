//! The stored forms: what a release has written is read by every later one.
//!
//! The fixtures hold one form to a line, `name hex`. A line is never changed or taken away; a new version adds a file.

use onefold_core::{Answer, Kept, NotKept, Scope, TypedValue};
use onefold_store::codec::{
    decode_kept, decode_message, decode_scope, decode_texts, encode_kept, encode_message, encode_scope,
    encode_texts, kept_length, message_length,
};
use onefold_store::{CodecError, KeptMessage};
use proptest::prelude::*;

const VERSION_1: &str = include_str!("fixtures/version-1.txt");

fn fixture(name: &str) -> Vec<u8> {
    let hex = VERSION_1.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect(name);
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn encoded(kept: &Kept) -> Vec<u8> {
    let mut out = Vec::new();
    encode_kept(kept, &mut out);
    out
}

fn answer() -> Answer {
    Answer {
        status: 201,
        headers: vec![
            ("content-type".into(), b"application/json".to_vec()),
            ("x-odd".into(), vec![0xff, 0x00]),
            ("x-odd".into(), vec![]),
        ],
        body: b"{\"id\":1}\r\n".to_vec(),
        trailers: vec![("x-sum".into(), b"9".to_vec())],
    }
}

fn examples() -> Vec<(&'static str, Kept)> {
    let status = Some(200);
    vec![
        ("kept-nothing", Kept::Nothing),
        ("kept-full", Kept::Full(answer())),
        ("kept-full-empty", Kept::Full(Answer { status: 204, ..Answer::default() })),
        ("kept-reference", Kept::Reference(Answer { body: vec![], trailers: vec![], ..answer() })),
        ("kept-value", Kept::Value(TypedValue { version: 3, json: b"{\"id\":1}".to_vec() })),
        ("kept-value-of-nothing", Kept::Value(TypedValue { version: 1, json: b"null".to_vec() })),
        ("kept-too-big", Kept::NotKept { status, why: NotKept::TooBig }),
        ("kept-cut", Kept::NotKept { status, why: NotKept::Cut }),
        ("kept-by-contract", Kept::NotKept { status, why: NotKept::ByContract }),
        ("kept-settled", Kept::NotKept { status: None, why: NotKept::Settled }),
        ("kept-reconciled", Kept::NotKept { status: None, why: NotKept::Reconciled }),
        ("kept-not-stored", Kept::NotKept { status, why: NotKept::NotStored }),
    ]
}

#[test]
fn version_1_of_every_kept_form_is_read_and_written() {
    for (name, kept) in examples() {
        assert_eq!(decode_kept(&fixture(name)), Ok(kept.clone()), "{name}");
        assert_eq!(encoded(&kept), fixture(name), "{name}");
    }
}

#[test]
fn version_1_of_scopes_and_texts_is_read_and_written() {
    let scope = Scope::new([("tenant", "a,b=c"), ("user", "ö")]);
    assert_eq!(decode_scope(&fixture("scope")), Ok(scope.clone()));
    assert_eq!(encode_scope(&scope), fixture("scope"));
    assert_eq!(decode_scope(&fixture("scope-shared")), Ok(Scope::shared()));
    assert_eq!(encode_scope(&Scope::shared()), fixture("scope-shared"));
    let texts = vec!["/a".to_owned(), String::new()];
    assert_eq!(decode_texts(&fixture("texts")), Ok(texts.clone()));
    assert_eq!(encode_texts(&texts), fixture("texts"));
}

#[test]
fn a_cut_form_or_one_with_bytes_left_over_is_an_error() {
    for (name, kept) in examples() {
        let mut form = encoded(&kept);
        assert_eq!(form.len(), kept_length(&kept), "{name}");
        for length in 0..form.len() {
            assert!(decode_kept(&form[..length]).is_err(), "{name} cut at {length}");
        }
        form.push(0);
        assert_eq!(decode_kept(&form), Err(CodecError::LeftOver), "{name}");
    }
}

#[test]
fn a_form_of_a_later_release_names_its_version() {
    assert_eq!(decode_kept(&[9, 0]), Err(CodecError::Version(9)));
    assert_eq!(decode_scope(&[9]), Err(CodecError::Version(9)));
    assert_eq!(decode_texts(&[]), Err(CodecError::Cut));
}

#[test]
fn a_number_of_parts_that_cannot_be_true_asks_for_no_memory() {
    let mut form = vec![1];
    form.extend_from_slice(&u64::MAX.to_be_bytes());
    assert_eq!(decode_texts(&form), Err(CodecError::Cut));
}

fn any_lines() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    prop::collection::vec((".{0,20}", prop::collection::vec(any::<u8>(), 0..30)), 0..5)
}

proptest! {
    #[test]
    fn any_answer_survives_the_round_trip(
        status in any::<u16>(), headers in any_lines(), trailers in any_lines(),
        body in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let kept = Kept::Full(Answer { status, headers, body, trailers });
        prop_assert_eq!(decode_kept(&encoded(&kept)), Ok(kept));
    }

    #[test]
    fn any_scope_survives_the_round_trip(parts in prop::collection::vec((".{0,9}", ".{0,9}"), 0..4)) {
        let scope = Scope::new(parts);
        prop_assert_eq!(decode_scope(&encode_scope(&scope)), Ok(scope));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_kept(&bytes);
        let _ = decode_scope(&bytes);
        let _ = decode_texts(&bytes);
    }
}

#[test]
fn version_1_of_a_message_is_read_and_written() {
    let headers = vec![("content-type".to_owned(), "text/plain".to_owned()), ("x".to_owned(), String::new())];
    let mut form = Vec::new();
    encode_message(&headers, b"hi", &mut form);
    assert_eq!(form, fixture("message"));
    assert_eq!(form.len(), message_length(&headers, b"hi"));
    assert_eq!(decode_message(&form), Ok(KeptMessage { headers, body: b"hi".to_vec() }));
    for length in 0..form.len() {
        assert!(decode_message(&form[..length]).is_err(), "cut at {length}");
    }
    form.push(0);
    assert_eq!(decode_message(&form), Err(CodecError::LeftOver));
}
