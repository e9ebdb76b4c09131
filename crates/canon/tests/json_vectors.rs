//! Public vectors: RFC 8785 by its author (`jcs`), and the parsing tests of JSONTestSuite.

mod support;

use flate2::read::GzDecoder;
use onefold_canon::json::{NotCanonical, canonical_text, without};
use onefold_canon::{BodyKind, Compared};
use std::fs;
use std::io::Read;

#[test]
fn canonical_text_is_that_of_the_jcs_vectors_byte_for_byte() {
    let Some(jcs) = support::vectors("jcs") else { return };
    for name in ["arrays", "french", "structures", "unicode"] {
        let input = fs::read(jcs.join(format!("input/{name}.json"))).unwrap();
        let output = fs::read(jcs.join(format!("output/{name}.json"))).unwrap();
        let hexadecimal = fs::read_to_string(jcs.join(format!("outhex/{name}.txt"))).unwrap();
        let bytes: Vec<u8> =
            hexadecimal.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
        let found = canonical_text(&input).unwrap();
        assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&output), "{name}");
        assert_eq!(found, bytes, "{name}");
        assert_eq!(support::json(&input), support::json(&output), "{name}");
    }
}

/// The names and texts of JSONTestSuite's `test_parsing` that begin with `prefix`.
fn parsing_tests(prefix: &str) -> Vec<(String, Vec<u8>)> {
    let Some(directory) = support::vectors("JSONTestSuite") else { return Vec::new() };
    let mut found = Vec::new();
    for archive in fs::read_dir(directory).unwrap() {
        let file = fs::File::open(archive.unwrap().path()).unwrap();
        for entry in tar::Archive::new(GzDecoder::new(file)).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().to_string_lossy().into_owned();
            let Some((_, name)) = path.split_once("test_parsing/") else { continue };
            if name.starts_with(prefix) {
                let mut text = Vec::new();
                entry.read_to_end(&mut text).unwrap();
                found.push((name.to_owned(), text));
            }
        }
    }
    assert!(found.len() > 30, "only {} tests", found.len());
    found
}

#[test]
fn every_text_that_must_be_accepted_is() {
    let tests = parsing_tests("y_");
    for (name, text) in &tests {
        assert_eq!(without(text, &[]).as_ref(), Ok(text), "{name}");
        let duplicates = name.starts_with("y_object_duplicated_key");
        let expected = if duplicates { Compared::Bytes } else { Compared::Json };
        assert_eq!(support::digest(BodyKind::Json, &[], text).form, expected, "{name}");
        assert_eq!(canonical_text(text) == Err(NotCanonical::DuplicateName), duplicates, "{name}");
    }
}

#[test]
fn every_text_that_must_be_refused_is_compared_as_bytes() {
    for (name, text) in parsing_tests("n_") {
        assert!(support::falls_back(&text), "{name}");
        assert!(without(&text, &[]).is_err(), "{name}");
        assert!(canonical_text(&text).is_err(), "{name}");
    }
}

#[test]
fn texts_that_parsers_may_refuse_are_refused_or_accepted_by_all_functions_alike() {
    for (name, text) in parsing_tests("i_") {
        let accepted = !support::falls_back(&text);
        assert_eq!(canonical_text(&text).is_ok(), accepted, "{name}");
        assert_eq!(without(&text, &[]).is_ok(), accepted, "{name}");
        assert_eq!(accepted, accepted_by_choice(&name), "{name}");
    }
}

/// Of what RFC 8259 leaves open: numbers of any size and deep nesting are taken; other encodings, a byte order
/// mark and lone surrogates are not.
fn accepted_by_choice(name: &str) -> bool {
    name.starts_with("i_number") || name.contains("nested")
}
