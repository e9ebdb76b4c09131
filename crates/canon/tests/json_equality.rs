//! Which JSON bodies are the same request (SEMANTICS 7), and which are compared as bytes.

mod support;

use onefold_canon::limits::{DEPTH_MAX, PENDING_BYTES_MAX};
use onefold_canon::{BodyHasher, BodyKind, Compared};
use support::{digest, falls_back, json, json_ignoring};

fn assert_same(one: &str, other: &str) {
    assert_eq!(json(one), json(other), "{one} and {other} must be the same");
}

fn assert_different(one: &str, other: &str) {
    assert_ne!(json(one), json(other), "{one} and {other} must differ");
}

#[test]
fn member_order_and_white_space_do_not_count() {
    assert_same(r#"{"a":1,"b":{"x":1,"y":2}}"#, "{\"b\" : {\"y\":2,\n\"x\":1},\t\"a\":1}\r\n");
    assert_same("[ ]", "[]");
}

#[test]
fn escapes_do_not_count() {
    assert_same(r#""\u00e9""#, r#""é""#);
    assert_same(r#"{"\u0061\/":"\ud83d\ude02"}"#, r#"{"a/":"😂"}"#);
    assert_same(r#""\b\f\n\r\t\"\\""#, r#""\u0008\u000C\u000a\u000D\u0009\u0022\u005c""#);
}

#[test]
fn differences_in_meaning_stay_differences() {
    for (one, other) in [
        ("[1,2]", "[2,1]"),
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":1}"#, r#"{"a":"1"}"#),
        (r#"{"a":true}"#, r#"{"a":"true"}"#),
        ("null", "false"),
        ("true", "false"),
        ("[]", "{}"),
        ("[]", "[[]]"),
        ("[[1],2]", "[[1,2]]"),
        ("[[],[]]", "[[[]]]"),
        (r#"{"a":1}"#, r#"["a",1]"#),
        (r#"{"a":"b"}"#, r#"{"ab":""}"#),
        // Names that hold what stands between members in the encoding.
        (r#"{"a":"","b":""}"#, r#"{"a\u0004\u0000b":""}"#),
        (r#"{"a":"","b":""}"#, r#"{"a\u0004\u0000\u0001b":""}"#),
        (r#""""#, "0"),
        (r#""a""#, r#""A""#),
        (r#""é""#, "\"e\u{301}\""),
        (r#"{"a":{"b":1}}"#, r#"{"a":{},"b":1}"#),
    ] {
        assert_different(one, other);
    }
}

#[test]
fn long_values_differ_as_short_ones_do() {
    for length in [250, 254, 255, 256, 4095, 4096, 4097, 20_000] {
        let (one, other) = ("x".repeat(length), "x".repeat(length - 1) + "y");
        assert_different(&format!("\"{one}\""), &format!("\"{other}\""));
        assert_different(&format!("\"{one}\""), &format!("[\"{one}\"]"));
        assert_different(&format!("{{\"{one}\":1}}"), &format!("{{\"{other}\":1}}"));
        assert_different(&format!("[\"{one}\",1]"), &format!("[\"{other}\",1]"));
        assert_same(&format!("{{\"{one}\":1,\"a\":2}}"), &format!("{{\"a\":2,\"{one}\":1}}"));
    }
}

#[test]
fn a_value_cannot_pose_as_the_digest_of_another() {
    let long = format!("\"{}\"", "x".repeat(300));
    let digest = json(&long);
    let text: String = digest.iter().map(|byte| format!("\\u{byte:04x}")).collect();
    assert_different(&format!("[{long}]"), &format!("[\"{text}\"]"));
}

#[test]
fn numbers_are_compared_as_exact_decimals() {
    for (one, other) in [
        ("1", "1.0"),
        ("1", "1e0"),
        ("1", "10e-1"),
        ("1e2", "100"),
        ("-0", "0"),
        ("0", "-0.000e+99999999999999999999999"),
        ("0.001", "1E-3"),
        ("1e400", "10e399"),
        ("0.1e400", "1e399"),
        ("1e0000000000000000000000000000400", "1e400"),
        ("12300e-2", "0.0123e4"),
        ("9007199254740993", "9007199254740993.0"),
    ] {
        assert_same(one, other);
    }
    for (one, other) in [
        ("9007199254740993", "9007199254740992"),
        ("1e400", "1e401"),
        ("1e-400", "0"),
        ("1e400", "-1e400"),
        ("1e400", "1e-400"),
        ("0.1", "0.10000000000000001"),
        ("1", "-1"),
        ("12", "21"),
        ("10", "1"),
        ("101", "11"),
    ] {
        assert_different(one, other);
    }
}

#[test]
fn exponents_of_any_length_are_added_exactly() {
    let nines = "9".repeat(5000);
    let power = format!("1{}", "0".repeat(5000));
    assert_same(&format!("10e{nines}"), &format!("1e{power}"));
    assert_same(&format!("0.1e{power}"), &format!("1e{nines}"));
    assert_same(&format!("0.1e-{nines}"), &format!("1e-{power}"));
    assert_same(&format!("10e-{power}"), &format!("1e-{nines}"));
    assert_different(&format!("1e{power}"), &format!("1e{nines}"));
    assert_different(&format!("1e-{power}"), &format!("1e{power}"));
    // Across the border between machine integers and long ones: 10^18.
    assert_same("10e999999999999999999", "1e1000000000000000000");
    assert_same("0.01e1000000000000000000", "1e999999999999999998");
    assert_same("0.01e-999999999999999999", "1e-1000000000000000001");
    assert_same("123456e-1000000000000000000", "1.23456e-999999999999999995");
}

#[test]
fn digits_of_any_number_count_and_trailing_zeros_do_not() {
    let ones = "1".repeat(100_000);
    let zeros = "0".repeat(100_000);
    assert_same(&format!("{ones}.{zeros}"), &format!("{ones}e0"));
    assert_same(&format!("1{zeros}"), "1e100000");
    assert_same(&format!("0.{zeros}1"), "1e-100001");
    assert_different(&ones, &format!("{ones}.{zeros}1"));
    assert_different(&format!("1{zeros}1"), &format!("1{zeros}01"));
}

#[test]
fn duplicate_names_are_compared_as_bytes() {
    assert!(falls_back(r#"{"a":1,"a":1}"#));
    assert!(falls_back(r#"{"a":1,"\u0061":2}"#));
    assert!(falls_back(r#"[{"x":{"b":1,"c":2,"b":3}}]"#));
    assert!(falls_back(r#"{"":1,"":2}"#));
    assert!(!falls_back(r#"{"a":{"a":1},"b":[{"a":1},{"a":1}]}"#));
    assert_ne!(
        digest(BodyKind::Json, &[], r#"{"a":1,"a":2}"#),
        digest(BodyKind::Json, &[], r#"{"a":2,"a":1}"#)
    );
}

#[test]
fn what_is_not_canonical_is_compared_as_bytes() {
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "nul",
        "nulll",
        "tru e",
        "01",
        "1.",
        ".5",
        "+1",
        "-",
        "1e",
        "1e+",
        "NaN",
        "[1 2]",
        "{\"a\" 1}",
        "{a:1}",
        "'a'",
        "[1]]",
        "1 2",
        "\"a",
        "\"\n\"",
        "\"\\x\"",
        "\"\\u12G4\"",
        "\u{feff}{}",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\ud800\"",
        "\"\\ud800\\n\"",
        "\"\\ud800x\"",
        "\"\\ud83d\u{e9}\"",
        "\"\\udc00\\ud800\"",
        "\"a\u{0}\"",
        "[\u{a0}]",
        "}",
        "]",
        "{]",
        "[}",
    ] {
        assert!(falls_back(text), "{text:?}");
    }
    let invalid_utf8: [&[u8]; 10] = [
        b"\"\xff\"",
        b"\"\xc0\x80\"",
        b"\"\xc1\xbf\"",
        b"\"\xe0\x80\x80\"",
        b"\"\xed\xa0\x80\"",
        b"\"\xf0\x80\x80\x80\"",
        b"\"\xf4\x90\x80\x80\"",
        b"\"\xc3\"",
        b"\"\xe2\x82\"",
        b"\"\x80\"",
    ];
    for text in invalid_utf8 {
        assert!(falls_back(text), "{text:?}");
    }
}

#[test]
fn a_lone_surrogate_is_found_wherever_the_body_is_cut() {
    for text in [
        "\"\\ud83dabc\"",
        "\"\\ud83d\\n\\ude02\"",
        "\"\\ud83d\"",
        "[\"\\ud83d\",\"\\ude02\"]",
        "\"\\ud83d/\\ude02\"",
    ] {
        for at in 0..=text.len() {
            let mut hasher = BodyHasher::new(BodyKind::Json, &[]);
            hasher.update(&text.as_bytes()[..at]);
            hasher.update(&text.as_bytes()[at..]);
            assert_eq!(hasher.finish().form, Compared::Bytes, "{text} cut at {at}");
        }
    }
}

#[test]
fn ignored_places_are_as_if_absent() {
    let ignore = ["/id", "/meta/at", "/list/1", "/a~1b"];
    let kept = json(r#"{"meta":{"by":1},"list":[0,2],"x":{"id":5}}"#);
    let full = r#"{"id":[{"deep":"x"}],"meta":{"by":1,"at":"now"},"list":[0,1,2],"x":{"id":5},"a/b":0}"#;
    assert_eq!(json_ignoring(&ignore, full), kept);
    assert_ne!(json_ignoring(&["/id"], full), kept);
    assert_eq!(json_ignoring(&ignore, "5"), json("5"));
    assert_eq!(json_ignoring(&["/0/a", "/1"], r#"[{"a":1,"b":2},3]"#), json(r#"[{"b":2}]"#));
}

#[test]
fn indexes_are_written_as_the_rfc_says() {
    for text in ["/01", "/-", "/1 ", "/+1", "/2"] {
        assert_eq!(json_ignoring(&[text], "[0,1]"), json("[0,1]"), "{text}");
    }
    assert_eq!(json_ignoring(&["/1"], r#"{"1":0,"2":0}"#), json(r#"{"2":0}"#));
}

#[test]
fn the_empty_pointer_ignores_nothing() {
    assert_ne!(json_ignoring(&[""], "1"), json_ignoring(&[""], "2"));
    assert_eq!(json_ignoring(&["", "/a"], r#"{"a":1,"b":2}"#), json(r#"{"b":2}"#));
}

#[test]
fn ignored_places_must_still_be_canonical() {
    assert!(falls_back(r#"{"a":[1,],"b":2}"#));
    assert!(falls_back(r#"{"a":{"x":1,"x":2},"b":2}"#));
    assert!(falls_back(r#"{"a":1,"b":2,"a":3}"#));
    assert!(falls_back(r#"{"a":"\ud800","b":2}"#));
}

#[test]
fn nothing_is_ignored_in_bytes() {
    let one = digest(BodyKind::Json, &["/a"], r#"{"a":1,"b":2,"b":3}"#);
    let other = digest(BodyKind::Json, &["/a"], r#"{"a":2,"b":2,"b":3}"#);
    assert_eq!(one.form, Compared::Bytes);
    assert_ne!(one, other);
}

#[test]
fn nesting_beyond_the_limit_is_compared_as_bytes_and_costs_no_stack() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(!falls_back(nested(DEPTH_MAX)));
    assert!(falls_back(nested(DEPTH_MAX + 1)));
    assert!(falls_back(nested(1_000_000)));
    assert!(falls_back("[".repeat(1_000_000)));
    let objects = r#"{"a":"#.repeat(DEPTH_MAX) + "1" + &"}".repeat(DEPTH_MAX);
    assert!(!falls_back(&objects));
    assert!(!falls_back(format!("[{}]", vec!["[[]]"; 10_000].join(","))));
}

#[test]
fn an_open_object_beyond_the_memory_limit_is_compared_as_bytes_and_long_values_are_not() {
    let long = "x".repeat(PENDING_BYTES_MAX + 1);
    assert!(falls_back(format!("{{\"{long}\":1}}")));
    assert!(!falls_back(format!("{{\"long\":[\"{long}\"]}}")));
}

#[test]
fn an_empty_body_is_no_json() {
    assert_eq!(digest(BodyKind::Json, &[], ""), digest(BodyKind::Bytes, &[], ""));
    assert_eq!(digest(BodyKind::Json, &[], "").form, Compared::Bytes);
}

#[test]
fn bytes_are_compared_as_they_are_and_apart_from_all_other_forms() {
    assert_ne!(digest(BodyKind::Bytes, &[], "1"), digest(BodyKind::Bytes, &[], "1 "));
    assert_ne!(digest(BodyKind::Bytes, &[], "1").digest, json("1"));
    assert_ne!(digest(BodyKind::Bytes, &[], [1]).digest, json("null"));
    assert_ne!(digest(BodyKind::Form, &[], "1").digest, json("1"));
    assert_ne!(digest(BodyKind::Form, &[], "").digest, digest(BodyKind::Bytes, &[], "").digest);
}
