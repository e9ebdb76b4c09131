//! `without` and `at`: taking places out of a text, and reading one.

mod support;

use onefold_canon::BodyKind;
use onefold_canon::json::{Found, NotCanonical, at, without};
use proptest::prelude::*;
use serde_json::Value;
use support::{Random, digest, pointers};

fn cut(text: &str, places: &[&str]) -> String {
    String::from_utf8(without(text.as_bytes(), &pointers(places)).unwrap()).unwrap()
}

#[test]
fn removal_keeps_every_other_byte_and_mends_the_commas() {
    let text = "{ \"a\" : 1 ,\n  \"b\":\t[ 1.0 , 2e0,3 ] , \"c\" : \"\\u0041\" }\n";
    for (places, expected) in [
        (&["/a"][..], "{ \"b\":\t[ 1.0 , 2e0,3 ] , \"c\" : \"\\u0041\" }\n"),
        (&["/b"], "{ \"a\" : 1 , \"c\" : \"\\u0041\" }\n"),
        (&["/c"], "{ \"a\" : 1 ,\n  \"b\":\t[ 1.0 , 2e0,3 ] }\n"),
        (&["/a", "/c"], "{ \"b\":\t[ 1.0 , 2e0,3 ] }\n"),
        (&["/a", "/b"], "{ \"c\" : \"\\u0041\" }\n"),
        (&["/b", "/c"], "{ \"a\" : 1 }\n"),
        (&["/a", "/b", "/c"], "{  }\n"),
        (&["/b/0"], "{ \"a\" : 1 ,\n  \"b\":\t[ 2e0,3 ] , \"c\" : \"\\u0041\" }\n"),
        (&["/b/0", "/b/2"], "{ \"a\" : 1 ,\n  \"b\":\t[ 2e0 ] , \"c\" : \"\\u0041\" }\n"),
        (&["/a", "/b/1", "/b/2"], "{ \"b\":\t[ 1.0 ] , \"c\" : \"\\u0041\" }\n"),
        (&["/b", "/b/1"], "{ \"a\" : 1 , \"c\" : \"\\u0041\" }\n"),
        (&["", "/a"], "{ \"b\":\t[ 1.0 , 2e0,3 ] , \"c\" : \"\\u0041\" }\n"),
        (&["", "/d", "/b/3", "/b/00", "/a/x"], text),
    ] {
        assert_eq!(cut(text, places), expected, "{places:?}");
    }
}

#[test]
fn every_member_of_a_duplicate_name_is_removed() {
    assert_eq!(cut(r#"{"t":1,"x":2,"\u0074":3}"#, &["/t"]), r#"{"x":2}"#);
    assert_eq!(cut(r#"{"t":{"s":1},"t":{"s":2}}"#, &["/t/s"]), r#"{"t":{},"t":{}}"#);
}

#[test]
fn removal_from_what_is_no_json_is_an_error() {
    let one = pointers(&["/a"]);
    assert_eq!(without(b"{\"a\":1", &one), Err(NotCanonical::Incomplete));
    assert_eq!(without(b"{\"a\":1}x", &one), Err(NotCanonical::Syntax { offset: 7 }));
    assert_eq!(without(b"", &one), Err(NotCanonical::Incomplete));
    assert_eq!(without(b"[\"\xff\"]", &one), Err(NotCanonical::Utf8 { offset: 2 }));
    assert_eq!(without(b"[\"\\ud800\"]", &one), Err(NotCanonical::LoneSurrogate { offset: 8 }));
    assert!(matches!(
        without("[".repeat(2000).as_bytes(), &one),
        Err(NotCanonical::TooDeep { offset: 1024 })
    ));
}

fn find(text: &str, pointer: &str) -> Result<Option<Found>, NotCanonical> {
    at(text.as_bytes(), &pointer.parse().unwrap())
}

#[test]
fn the_value_at_a_pointer_is_found() {
    let text = r#"{"a":{"b":["x","\u0079",{"c":"z"}]},"":"e","t":true,"f":false,"n":null,"i":1.5}"#;
    let string = |text: &str| Ok(Some(Found::String(text.to_owned())));
    assert_eq!(find(text, "/a/b/0"), string("x"));
    assert_eq!(find(text, "/a/b/1"), string("y"));
    assert_eq!(find(text, "/a/b/2/c"), string("z"));
    assert_eq!(find(text, "/"), string("e"));
    assert_eq!(find("\"x\"", ""), string("x"));
    for (pointer, kind) in [
        ("/a", "object"),
        ("/a/b", "array"),
        ("/t", "true"),
        ("/f", "false"),
        ("/n", "null"),
        ("/i", "number"),
        ("", "object"),
    ] {
        assert_eq!(find(text, pointer), Ok(Some(Found::Other(kind))), "{pointer}");
    }
    for pointer in ["/b", "/a/b/3", "/a/b/-", "/a/b/00", "/a/b/0/x", "/i/0", "/a/c"] {
        assert_eq!(find(text, pointer), Ok(None), "{pointer}");
    }
}

#[test]
fn a_duplicate_name_on_the_way_is_an_error_and_elsewhere_is_not() {
    assert_eq!(find(r#"{"a":"x","\u0061":"y"}"#, "/a"), Err(NotCanonical::DuplicateName));
    assert_eq!(find(r#"{"a":{"b":"x"},"a":{"c":"y"}}"#, "/a/b"), Err(NotCanonical::DuplicateName));
    assert_eq!(find(r#"{"a":"x","b":1,"b":2}"#, "/a"), Ok(Some(Found::String("x".to_owned()))));
}

#[test]
fn the_text_is_checked_behind_the_value_too() {
    assert_eq!(find(r#"{"a":"x"} y"#, "/a"), Err(NotCanonical::Syntax { offset: 10 }));
    assert_eq!(find(r#"{"a":"x""#, "/a"), Err(NotCanonical::Incomplete));
}

/// All places of a value, as pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                found.push(format!("{at}/{index}"));
                places(element, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let below = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                found.push(below.clone());
                places(member, &below, found);
            }
        }
        _ => {}
    }
}

/// Takes one place out of a value; independent of the crate. Places must be taken out from the last to the first.
fn remove(value: &mut Value, pointer: &str) {
    let (parent, token) = pointer.rsplit_once('/').unwrap();
    match value.pointer_mut(parent) {
        Some(Value::Array(elements)) => drop(elements.remove(token.parse().unwrap())),
        Some(Value::Object(members)) => {
            members.remove(&token.replace("~1", "/").replace("~0", "~"));
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn removal_is_that_of_the_value_in_a_subsequence_of_the_bytes(seed: u64) {
        let mut random = Random(seed);
        let mut value = support::value(&mut random, 3);
        let mut text = String::new();
        support::write(&value, &mut random, &mut text);
        let mut all = Vec::new();
        places(&value, "", &mut all);
        let mut chosen: Vec<String> = all.into_iter().filter(|_| random.below(3) == 0).collect();
        let borrowed: Vec<&str> = chosen.iter().map(String::as_str).collect();
        let left = cut(&text, &borrowed);

        // Canonical numbers in both, since `1e0` is no integer for the other parser.
        let canonical = |text: &str| onefold_canon::json::canonical_text(text.as_bytes()).unwrap();
        let ignored = digest(BodyKind::Json, &borrowed, &text);
        prop_assert_eq!(ignored, digest(BodyKind::Json, &[], &left));
        chosen.reverse();
        chosen.iter().for_each(|pointer| remove(&mut value, pointer));
        prop_assert_eq!(canonical(&left), canonical(&value.to_string()));

        let mut rest = text.bytes();
        prop_assert!(left.bytes().all(|byte| rest.any(|other| other == byte)), "{:?} of {:?}", left, text);
    }
}
