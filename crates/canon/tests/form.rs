//! Which forms are the same request.

mod support;

use onefold_canon::limits::PENDING_BYTES_MAX;
use onefold_canon::{BodyKind, Compared};
use proptest::prelude::*;
use support::{Random, digest, digest_in_chunks, digest_in_random_chunks};

fn form(body: impl AsRef<[u8]>) -> [u8; 32] {
    let found = digest(BodyKind::Form, &[], body);
    assert_eq!(found.form, Compared::Form);
    found.digest
}

#[test]
fn order_across_names_and_the_spelling_of_characters_do_not_count() {
    for (one, other) in [
        ("a=1&b=2", "b=2&a=1"),
        ("a=1&b=2&a=3", "b=2&a=1&a=3"),
        ("a=x+y", "a=x%20y"),
        ("a=%e9%41", "%61=%E9A"),
        ("a=1", "&&a=1&"),
        ("a=%3D%26", "a==%26"),
    ] {
        assert_eq!(form(one), form(other), "{one} {other}");
    }
}

#[test]
fn differences_in_meaning_stay_differences() {
    for (one, other) in [
        ("a=1&a=2", "a=2&a=1"),
        ("a", "a="),
        ("a=1&b=2", "a=2&b=1"),
        ("a=1", "a=1&a=1"),
        ("a=1", "a=1&b="),
        ("a=%2B", "a=+"),
        ("a=1%26b=2", "a=1&b=2"),
        ("ab=c", "a=bc"),
        ("=", ""),
        ("=a", "a="),
        ("a=b=c", "a=b&=c"),
        ("a=1;b=2", "a=1&b=2"),
        ("a=\u{e9}", "a=e\u{301}"),
        ("a=%00", "a="),
    ] {
        assert_ne!(form(one), form(other), "{one} {other}");
    }
}

#[test]
fn repeated_names_keep_their_order_however_many_there_are() {
    let fields = |at: usize| format!("{}={at}", ["b", "a", "c"][at % 3]);
    let body: Vec<String> = (0..300).map(fields).collect();
    let mut sorted = body.clone();
    sorted.sort_by_key(|field| field.as_bytes()[0]);
    assert_eq!(form(body.join("&")), form(sorted.join("&")));
    sorted.swap(50, 51);
    assert_ne!(form(body.join("&")), form(sorted.join("&")));
}

#[test]
fn malformed_escapes_are_compared_as_bytes() {
    for body in ["a=%", "a=%4", "a=%4&b=1", "a=%G1", "a=%1G", "%=1", "a=%%41", "a=%4=1", "a=1&%zz"] {
        let found = digest(BodyKind::Form, &["/a"], body);
        assert_eq!(found, digest(BodyKind::Bytes, &[], body), "{body}");
    }
}

#[test]
fn fields_of_an_ignored_name_are_as_if_absent() {
    let found = digest(BodyKind::Form, &["/a", "/x/y", "/b~1c"], "%61=1&b%2Fc=2&c=3&a&x=4");
    assert_eq!(found.digest, form("c=3&x=4"));
    assert_eq!(digest(BodyKind::Form, &["/a"], "a=1").digest, form(""));
    assert_eq!(digest(BodyKind::Form, &[""], "a=1").digest, form("a=1"));
}

#[test]
fn an_empty_body_is_the_form_without_fields() {
    assert_eq!(digest(BodyKind::Form, &[], "").form, Compared::Form);
    assert_ne!(digest(BodyKind::Form, &[], ""), digest(BodyKind::Bytes, &[], ""));
}

#[test]
fn long_values_stream_and_long_names_are_compared_as_bytes() {
    let long = "x".repeat(PENDING_BYTES_MAX + 1);
    assert_eq!(digest(BodyKind::Form, &[], format!("b={long}&a=1")).form, Compared::Form);
    assert_eq!(digest(BodyKind::Form, &[], format!("{long}=1")).form, Compared::Bytes);
    let long = &long[..20_000];
    assert_eq!(form(format!("b={long}&a=1")), form(format!("a=1&b={long}")));
    assert_ne!(form(format!("b={long}&a=1")), form(format!("a=1&b={long}y")));
}

type Field = (Vec<u8>, Option<Vec<u8>>);

/// Fields as a simple decoder reads them, sorted by name.
fn fields(body: &str) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    for field in body.split('&').filter(|field| !field.is_empty()) {
        let (name, value) = match field.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (field, None),
        };
        let value = match value {
            Some(value) => Some(decode(value)?),
            None => None,
        };
        fields.push((decode(name)?, value));
    }
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    Some(fields)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    Some(decoded)
}

proptest! {
    #[test]
    fn forms_are_equal_if_a_simple_decoder_says_so(one in "([ab]|%6[12]|=|&){0,9}", other in "([ab]|%6[12]|=|&){0,9}") {
        prop_assert_eq!(form(&one) == form(&other), fields(&one) == fields(&other), "{} {}", one, other);
    }

    #[test]
    fn no_chunking_changes_a_digest(body in "([ab%+]|%2[05a]|=|&){0,30}", seed: u64) {
        let whole = digest(BodyKind::Form, &["/a"], &body);
        let chunked = digest_in_random_chunks(BodyKind::Form, &["/a"], body.as_bytes(), &mut Random(seed));
        prop_assert_eq!(whole, chunked);
        prop_assert_eq!(whole, digest_in_chunks(BodyKind::Form, &["/a"], body.as_bytes(), 1));
        prop_assert_eq!(whole.form == Compared::Form, fields(&body).is_some());
    }
}
