//! The key header against the public vectors of structured fields (httpwg/structured-field-tests): what RFC 9651 calls
//! a String is that key, and nothing else is a key in the strict syntax. Read in place; loudly skipped where missing.

use std::io::Write;
use std::path::Path;

use onefold_core::key::{KEY_BYTES_MAX, KeySyntax};
use onefold_core::{Key, KeyError};
use serde_json::Value;

fn vectors(file: &str) -> Option<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/cases/files/structured-field-tests")
        .join(file);
    match std::fs::read(&path) {
        Ok(text) => Some(serde_json::from_slice(&text).expect("the vectors are JSON")),
        Err(error) => {
            skipped(&format!("SKIPPED: structured-field vectors {file}: {error}"));
            None
        }
    }
}

fn skipped(line: &str) {
    eprintln!("{line}");
    if let Some(list) = std::env::var_os("ONEFOLD_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(list);
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }
}

fn read(vector: &Value, syntax: KeySyntax) -> Result<Option<Key>, KeyError> {
    let lines = vector["raw"].as_array().expect("raw lines").iter();
    Key::from_header_lines(lines.map(|line| line.as_str().expect("a line").as_bytes()), syntax)
}

/// Runs every vector of a file through `check`, which says whether it looked at it; returns how many it looked at.
fn count(file: &str, check: impl Fn(&Value) -> bool) -> Option<usize> {
    Some(vectors(file)?.iter().filter(|vector| check(vector)).count())
}

fn fails(vector: &Value) -> bool {
    vector["must_fail"] == true
}

fn name(vector: &Value) -> String {
    vector["name"].to_string()
}

#[test]
fn a_valid_string_is_that_key_in_both_syntaxes() {
    for (file, at_least) in [("string.json", 5), ("examples.json", 1)] {
        let looked_at = count(file, |vector| {
            let Some(text) = vector["expected"][0].as_str().filter(|_| !fails(vector)) else { return false };
            let lines = vector["raw"].as_array().map_or(0, Vec::len);
            for syntax in [KeySyntax::Strict, KeySyntax::Lenient] {
                let key = read(vector, syntax);
                match text {
                    _ if lines > 1 => assert!(key.unwrap_err().is_ambiguous(), "{}", name(vector)),
                    "" => assert_eq!(key, Err(KeyError::Empty), "{}", name(vector)),
                    text if text.trim().is_empty() => {
                        assert_eq!(key, Err(KeyError::Blank), "{}", name(vector))
                    }
                    text if text.len() > KEY_BYTES_MAX => {
                        assert_eq!(key, Err(KeyError::TooLong { bytes: text.len() }), "{}", name(vector));
                    }
                    text => assert_eq!(key, Ok(Some(Key::new(text).unwrap())), "{}", name(vector)),
                }
            }
            true
        });
        assert!(looked_at.is_none_or(|n| n >= at_least), "{file}: {looked_at:?} vectors");
    }
}

#[test]
fn what_starts_with_a_quote_and_is_no_string_is_refused_in_both_syntaxes() {
    let looked_at = count("string.json", |vector| {
        let quoted = vector["raw"][0].as_str().is_some_and(|line| line.trim_start().starts_with('"'));
        if !fails(vector) || !quoted {
            return false;
        }
        for syntax in [KeySyntax::Strict, KeySyntax::Lenient] {
            assert!(read(vector, syntax).is_err(), "{}", name(vector));
        }
        true
    });
    assert!(looked_at.is_none_or(|n| n >= 5), "{looked_at:?} vectors");
}

#[test]
fn what_is_no_string_is_no_key_in_the_strict_syntax() {
    for (file, at_least) in [("token.json", 2), ("item.json", 2), ("list.json", 2), ("param-list.json", 2)] {
        let looked_at = count(file, |vector| {
            let string =
                vector["header_type"] == "item" && vector["expected"][0].is_string() && !fails(vector);
            let absent = vector["raw"].as_array().is_none_or(Vec::is_empty);
            if string || absent {
                return false;
            }
            assert!(read(vector, KeySyntax::Strict).is_err(), "{}", name(vector));
            true
        });
        assert!(looked_at.is_none_or(|n| n >= at_least), "{file}: {looked_at:?} vectors");
    }
}
