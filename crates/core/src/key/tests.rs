//! The grammar of the key header, case by case.

use super::*;

fn lenient(line: &str) -> Result<String, KeyError> {
    read(&[line], KeySyntax::Lenient)
}

fn strict(line: &str) -> Result<String, KeyError> {
    read(&[line], KeySyntax::Strict)
}

fn read(lines: &[&str], syntax: KeySyntax) -> Result<String, KeyError> {
    Key::from_header_lines(lines.iter().map(|l| l.as_bytes()), syntax)
        .map(|key| key.map_or_else(|| "(absent)".into(), |key| key.as_str().to_owned()))
}

#[test]
fn quoted_and_bare_forms_name_the_same_key() {
    for value in ["k-1", "42", "?1", "'foo'", ":YQ==:", "a=b"] {
        assert_eq!(lenient(value).as_deref(), Ok(value));
        assert_eq!(lenient(&format!("\"{value}\"")).as_deref(), Ok(value));
        assert_eq!(strict(&format!("\"{value}\"")).as_deref(), Ok(value));
        assert!(matches!(strict(value), Err(KeyError::Malformed(_))), "{value}");
    }
}

#[test]
fn parameters_are_ignored_and_escapes_are_decoded() {
    assert_eq!(lenient(r#""a\"b\\c";v=1;w"#).as_deref(), Ok(r#"a"b\c"#));
    assert_eq!(lenient("  \"k\"  ").as_deref(), Ok("k"));
}

#[test]
fn what_starts_with_a_quote_and_does_not_parse_is_malformed() {
    for line in ["\"k", "\"k\" x", "\"é\"", "\"a\\n\"", "\"k\"\"l\""] {
        assert!(matches!(lenient(line), Err(KeyError::Malformed(_))), "{line}");
    }
}

#[test]
fn several_values_are_ambiguous() {
    assert!(lenient("a,b").unwrap_err().is_ambiguous());
    assert!(lenient("\"a\", \"b\"").unwrap_err().is_ambiguous());
    assert!(strict("a, b").unwrap_err().is_ambiguous());
    assert!(read(&["a", "a"], KeySyntax::Lenient).unwrap_err().is_ambiguous());
    assert_eq!(lenient("\"a,b\"").as_deref(), Ok("a,b"), "a comma inside the quotes is the key's own");
}

#[test]
fn absent_empty_and_blank_are_three_cases() {
    assert_eq!(read(&[], KeySyntax::Lenient).as_deref(), Ok("(absent)"));
    assert_eq!(lenient(""), Err(KeyError::Empty));
    assert_eq!(lenient("    "), Err(KeyError::Empty));
    assert_eq!(lenient("\"\""), Err(KeyError::Empty));
    assert_eq!(lenient("\"   \""), Err(KeyError::Blank));
}

#[test]
fn length_is_limited_after_decoding_and_never_cut() {
    for n in [1, 255] {
        assert_eq!(lenient(&"k".repeat(n)).map(|k| k.len()), Ok(n));
        assert_eq!(lenient(&format!("\"{}\"", "\\\"".repeat(n))).map(|k| k.len()), Ok(n));
    }
    for n in [256, 257, 8000] {
        assert_eq!(lenient(&"k".repeat(n)), Err(KeyError::TooLong { bytes: n }));
        assert_eq!(lenient(&format!("\"{}\"", "k".repeat(n))), Err(KeyError::TooLong { bytes: n }));
    }
}

#[test]
fn bytes_outside_visible_ascii_are_refused() {
    for line in ["a b", "a;b", "a\\b", "é", "a\u{7f}"] {
        assert!(matches!(lenient(line), Err(KeyError::Malformed(_))), "{line}");
    }
}

#[test]
fn a_key_is_written_as_the_string_it_was_read_from() {
    let key = Key::new(r#"a"b\c"#).unwrap();
    assert_eq!(key.to_header().as_deref(), Some(r#""a\"b\\c""#));
    assert_eq!(lenient(&key.to_header().unwrap()).as_deref(), Ok(key.as_str()));
    assert_eq!(Key::new("é").unwrap().to_header(), None);
}

#[test]
fn only_the_declared_kind_of_key_carries_a_time() {
    let uuid = Key::new("0190163d-8694-739b-aea5-966c26f8ad91").unwrap();
    assert_eq!(uuid.time(KeyTime::Uuidv7), Some(StoreTime(0x0190_163d_8694)));
    assert_eq!(uuid.time(KeyTime::Ulid), None);
    assert_eq!(uuid.time(KeyTime::Off), None);
    let v4 = Key::new("0190163d-8694-439b-aea5-966c26f8ad91").unwrap();
    assert_eq!(v4.time(KeyTime::Uuidv7), None);
    let ulid = Key::new("01ARZ3NDEKTSV4RRFFQ69G5FAV").unwrap();
    assert_eq!(ulid.time(KeyTime::Ulid), Some(StoreTime(1_469_922_850_259)));
    assert_eq!(ulid.time(KeyTime::Uuidv7), None);
    assert_eq!(Key::new("0190163dx8694-739b-aea5-966c26f8ad91").unwrap().time(KeyTime::Uuidv7), None);
}

#[test]
fn a_key_is_never_shown_by_debug() {
    assert_eq!(format!("{:?}", Key::new("jane@example.com").unwrap()), "Key(16 bytes)");
}
