//! Which multipart bodies are the same request.

mod support;

use onefold_canon::limits::PART_HEADER_BYTES_MAX;
use onefold_canon::{BodyKind, Compared};
use proptest::prelude::*;
use support::{Random, digest, digest_in_chunks, digest_in_random_chunks};

fn kind(boundary: &str) -> BodyKind {
    BodyKind::Multipart { boundary: boundary.to_owned() }
}

/// A body of parts, each a header block (without its empty line) and a content.
fn body(boundary: &str, parts: &[(&str, &str)]) -> String {
    let parts: String = parts
        .iter()
        .map(|(headers, content)| format!("--{boundary}\r\n{headers}\r\n\r\n{content}\r\n"))
        .collect();
    format!("{parts}--{boundary}--\r\n")
}

fn parts(parts: &[(&str, &str)]) -> [u8; 32] {
    raw(&body("B", parts))
}

fn raw(body: &str) -> [u8; 32] {
    let found = digest(kind("B"), &[], body);
    assert_eq!(found.form, Compared::Multipart, "{body:?}");
    found.digest
}

const A: &str = "Content-Disposition: form-data; name=\"a\"";
const B: &str = "Content-Disposition: form-data; name=\"b\"";
const FILE: &str =
    "Content-Disposition: form-data; name=\"a\"; filename=\"f.txt\"\r\nContent-Type: text/plain";

#[test]
fn boundary_preamble_epilogue_and_padding_do_not_count() {
    let expected = parts(&[(A, "1"), (FILE, "2\r\n")]);
    let other = body("----x'()+_,-./:=? y", &[(A, "1"), (FILE, "2\r\n")]);
    assert_eq!(digest(kind("----x'()+_,-./:=? y"), &[], &other).digest, expected);
    let plain = body("B", &[(A, "1"), (FILE, "2\r\n")]);
    assert_eq!(raw(&format!("preamble\r\n{plain}")), expected);
    assert_eq!(raw(&format!("{plain}epilogue\r\n --B")), expected);
    assert_eq!(raw(plain.trim_end()), expected);
    assert_eq!(raw(&plain.replace("--B\r\n", "--B \t\r\n").replace("--B--", "--B-- \t")), expected);
}

#[test]
fn other_headers_and_the_spelling_of_headers_do_not_count() {
    let expected = parts(&[(FILE, "1")]);
    for headers in [
        "content-type:text/plain\r\nX-Other: 1\r\nCONTENT-DISPOSITION:  Form-Data;name=a;  filename=f.txt ",
        "Content-Length: 1\r\nContent-Type: Text/Plain\r\nContent-Disposition: form-data; FileName=f.txt; size=1; name=a",
    ] {
        assert_eq!(parts(&[(headers, "1")]), expected, "{headers}");
    }
}

#[test]
fn differences_in_meaning_stay_differences() {
    let all = [
        parts(&[]),
        parts(&[(A, "1")]),
        parts(&[(A, "2")]),
        parts(&[(A, "")]),
        parts(&[(A, "\r\n")]),
        parts(&[(B, "1")]),
        parts(&[(A, "1"), (A, "1")]),
        parts(&[(A, "1"), (B, "1")]),
        parts(&[(B, "1"), (A, "1")]),
        parts(&[(FILE, "1")]),
        parts(&[(&FILE.replace("f.txt", "g.txt"), "1")]),
        parts(&[(&FILE.replace("f.txt", ""), "1")]),
        parts(&[(&FILE.replace("filename=", "filename*="), "1")]),
        parts(&[(&FILE.replace("plain", "html"), "1")]),
        parts(&[(&FILE.replace("plain", "plain; charset=utf-8"), "1")]),
        parts(&[(&format!("{A}\r\nContent-Type: text/plain"), "1")]),
        parts(&[(&format!("{A}; filename=f.txt"), "1")]),
        parts(&[(&format!("{A}\r\nContent-Transfer-Encoding: base64"), "1")]),
    ];
    for (at, one) in all.iter().enumerate() {
        for (other_at, other) in all.iter().enumerate() {
            assert_eq!(one == other, at == other_at, "{at} {other_at}");
        }
    }
}

#[test]
fn content_that_resembles_a_delimiter_is_content() {
    for content in
        ["\r", "\n", "\r\n", "\r\n--", "\r\n--A", "\r\r\n-", "--B", "x--B--", "\n--B\n", "\r\n--\r\n--"]
    {
        assert_eq!(parts(&[(A, &format!("x{content}"))]), parts(&[(A, &format!("x{content}"))]));
        assert_ne!(parts(&[(A, &format!("x{content}"))]), parts(&[(A, "x")]), "{content:?}");
        let whole = body("B", &[(A, &format!("x{content}")), (B, content.trim_start_matches("--B"))]);
        for chunk in 1..8 {
            let chunked = digest_in_chunks(kind("B"), &[], whole.as_bytes(), chunk);
            assert_eq!(chunked.digest, raw(&whole), "{content:?} in chunks of {chunk}");
        }
    }
}

#[test]
fn a_name_may_hold_a_quote_behind_a_backslash_and_keeps_its_spelling() {
    let named = |name: &str| parts(&[(A.replace("name=\"a\"", name).as_str(), "1")]);
    assert_ne!(named(r#"name="a\"b""#), named(r#"name="a%22b""#));
    assert_ne!(named(r#"name="a\"; filename=\"b""#), named(r#"name="a"; filename="b""#));
    assert_ne!(named(r#"name="C:\\f""#), named(r#"name="C:\f""#));
}

#[test]
fn a_part_may_end_right_after_its_headers() {
    let short = format!("--B\r\n{A}\r\n\r\n--B--");
    assert_eq!(raw(&short), parts(&[(A, "")]));
}

#[test]
fn parts_of_an_ignored_name_are_as_if_absent() {
    let found = digest(kind("B"), &["/a", "/b/c"], body("B", &[(A, "1"), (B, "2"), (FILE, "3")]));
    assert_eq!(found.digest, parts(&[(B, "2")]));
}

#[test]
fn what_is_malformed_is_compared_as_bytes() {
    let good = body("B", &[(A, "1"), (B, "2")]);
    let long = format!("{A}\r\nX: {}", "x".repeat(PART_HEADER_BYTES_MAX));
    for bad in [
        String::new(),
        "no delimiter".to_owned(),
        good.replace("--B--\r\n", ""),
        good.replace("--B--", "--B-"),
        good.replace("--B--", "--B--x"),
        good.replace("--B\r\n", "--Bx\r\n"),
        good.replace("--B\r\n", "--B-\r\n"),
        good.replace("\r\n", "\n"),
        good.trim_end().to_owned() + "\r",
        good.clone() + &good,
        format!("{good}\r\n--B--"),
        good.replace("name=", "nom="),
        good.replace("form-data", "attachment"),
        good.replace("name=\"a\"", "name=\"a\"; name=\"a\""),
        good.replace("name=\"a\"", "name=\"a"),
        good.replace("name=\"a\"", "name=\"a\"x"),
        good.replace("name=\"a\"", "name=a b"),
        good.replace(A, &format!("{A}\r\n{A}")),
        good.replace(A, &format!("{A};\r\n filename=x")),
        good.replace(A, "Content-Type: text/plain"),
        good.replace(A, &format!("{A}\r\nnocolon")),
        good.replace(A, &format!("{A}\r\nContent-Type : text/plain")),
        good.replace(A, &format!("{A}\r\nContent-Type: a/b\r\nContent-Type: a/b")),
        good.replace(A, &format!("{A}\r\nX: a\nb")),
        good.replace(A, &format!("{A}\r\nX: a\rb")),
        good.replace(A, &format!("\r\n{A}")),
        good.replace(A, &long),
        "--B\r\n\r\n1\r\n--B--".to_owned(),
    ] {
        let found = digest(kind("B"), &["/a"], &bad);
        assert_eq!(found, digest(BodyKind::Bytes, &[], &bad), "{:?}", &bad[..bad.len().min(300)]);
    }
}

#[test]
fn a_boundary_that_is_not_allowed_is_compared_as_bytes() {
    for boundary in ["", "a ", "a\r\nb", "\u{e9}", &"x".repeat(71)] {
        let found = digest(kind(boundary), &[], body(boundary, &[(A, "1")]));
        assert_eq!(found.form, Compared::Bytes, "{boundary:?}");
    }
}

proptest! {
    #[test]
    fn no_chunking_changes_a_digest(text in "(\r\n|--B|--|\r|[ab\n]){0,40}", seed: u64) {
        for whole in [body("B", &[(FILE, &text), (B, &text)]), text] {
            let expected = digest(kind("B"), &["/b"], &whole);
            let found = digest_in_random_chunks(kind("B"), &["/b"], whole.as_bytes(), &mut Random(seed));
            prop_assert_eq!(found, expected);
            prop_assert_eq!(digest_in_chunks(kind("B"), &["/b"], whole.as_bytes(), 1), expected);
        }
    }

    #[test]
    fn parts_are_those_of_a_simple_splitter(one in "(\r\n|--|\r|[ab\n]){0,6}", other in "(\r\n|--|\r|[ab\n]){0,6}") {
        prop_assert_eq!(parts(&[(A, &one)]) == parts(&[(A, &other)]), one == other);
    }
}
