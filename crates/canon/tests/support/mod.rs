//! What several tests need: digests in one call, random values, and texts that say the same thing in many ways.

#![allow(dead_code)]

use onefold_canon::{BodyDigest, BodyHasher, BodyKind, Compared, Pointer};
use serde_json::{Map, Value};
use std::io::Write;
use std::path::PathBuf;

pub fn pointers(texts: &[&str]) -> Vec<Pointer> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

pub fn digest_in_chunks(kind: BodyKind, ignore: &[&str], body: &[u8], chunk: usize) -> BodyDigest {
    let mut hasher = BodyHasher::new(kind, &pointers(ignore));
    body.chunks(chunk).for_each(|part| hasher.update(part));
    hasher.finish()
}

pub fn digest(kind: BodyKind, ignore: &[&str], body: impl AsRef<[u8]>) -> BodyDigest {
    let mut hasher = BodyHasher::new(kind, &pointers(ignore));
    hasher.update(body.as_ref());
    hasher.finish()
}

/// The digest of a body that must be compared as JSON.
pub fn json(body: impl AsRef<[u8]>) -> [u8; 32] {
    json_ignoring(&[], body)
}

pub fn json_ignoring(ignore: &[&str], body: impl AsRef<[u8]>) -> [u8; 32] {
    let body = body.as_ref();
    let BodyDigest { form, digest } = digest(BodyKind::Json, ignore, body);
    assert_eq!(form, Compared::Json, "{}", String::from_utf8_lossy(body));
    digest
}

/// Whether a body is compared as bytes although JSON was asked for.
pub fn falls_back(body: impl AsRef<[u8]>) -> bool {
    let body = body.as_ref();
    let found = digest(BodyKind::Json, &["/a", "/0"], body);
    assert_eq!(found.form == Compared::Bytes, found == digest(BodyKind::Bytes, &[], body));
    found.form == Compared::Bytes
}

/// Where the public test vectors are; `None`, and a line on stderr, where they are not.
pub fn vectors(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases/files").join(name);
    if path.exists() {
        return Some(path);
    }
    skipped(&format!("{name} vectors: not at ../shared/cases/files"));
    None
}

/// Says that something was not tested: on stderr, past the harness (which hides what a passing test prints), and in
/// the file that `ONEFOLD_SKIPS` names, if it does.
fn skipped(reason: &str) {
    let line = format!("SKIPPED: {reason}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    if let Some(path) = std::env::var_os("ONEFOLD_SKIPS") {
        let mut list = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        list.write_all(line.as_bytes()).unwrap();
    }
}

/// A small generator (splitmix64), so that a failure can be repeated from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// Cuts a body into chunks of 0 to 8 bytes.
    pub fn cut<'a>(&mut self, body: &'a [u8]) -> Vec<&'a [u8]> {
        let mut rest = body;
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (chunk, after) = rest.split_at(self.below(9).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks
    }
}

pub fn digest_in_random_chunks(
    kind: BodyKind,
    ignore: &[&str],
    body: &[u8],
    random: &mut Random,
) -> BodyDigest {
    let mut hasher = BodyHasher::new(kind, &pointers(ignore));
    random.cut(body).into_iter().for_each(|part| hasher.update(part));
    hasher.finish()
}

const CHARACTERS: [&str; 22] = [
    "a",
    "b",
    "Z",
    "0",
    " ",
    "\"",
    "\\",
    "/",
    "\n",
    "\t",
    "\u{8}",
    "\u{c}",
    "\u{1}",
    "\u{7f}",
    "é",
    "\u{7ff}",
    "\u{20ac}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{ffff}",
    "\u{10000}",
    "\u{1f602}",
];

pub fn text(random: &mut Random) -> String {
    let length = match random.below(40) {
        0 => 250 + random.below(10),
        _ => random.below(5),
    };
    (0..length).map(|_| random.pick(&CHARACTERS)).collect()
}

/// A value whose numbers are integers of 32 bits, nested at most `depth` deep.
pub fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::from(random.next() as i32),
        3 => Value::from(random.below(20) as i32 * 10 - 100),
        4 | 5 => Value::String(text(random)),
        6 | 7 => (0..random.below(5)).map(|_| value(random, depth - 1)).collect(),
        _ => Value::Object(
            (0..random.below(6)).map(|_| (text(random), value(random, depth - 1))).collect::<Map<_, _>>(),
        ),
    }
}

/// The value with one thing changed somewhere; sometimes with nothing changed.
pub fn change(value: &Value, random: &mut Random) -> Value {
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            let mut elements = elements.clone();
            let at = random.below(elements.len());
            match random.below(4) {
                0 => drop(elements.remove(at)),
                1 => elements.swap(0, at),
                _ => elements[at] = change(&elements[at], random),
            }
            Value::Array(elements)
        }
        Value::Object(members) if !members.is_empty() => {
            let mut members = members.clone();
            let name = members.keys().nth(random.below(members.len())).unwrap().clone();
            match random.below(4) {
                0 => drop(members.remove(&name)),
                1 => {
                    let moved = members.remove(&name).unwrap();
                    members.insert(text(random), moved);
                }
                _ => {
                    let changed = change(&members[&name], random);
                    members.insert(name, changed);
                }
            }
            Value::Object(members)
        }
        Value::Number(number) if random.below(2) == 0 => Value::String(number.to_string()),
        Value::Bool(bool) if random.below(2) == 0 => Value::String(bool.to_string()),
        _ => super::support::value(random, 1),
    }
}

/// One of the many texts of a value: other order, white space, escapes and notations of numbers.
pub fn write(value: &Value, random: &mut Random, out: &mut String) {
    blank(random, out);
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => write_number(number.as_i64().unwrap(), random, out),
        Value::String(text) => write_string(text, random, out),
        Value::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                write(element, random, out);
            }
            blank(random, out);
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for at in (1..members.len()).rev() {
                members.swap(at, random.below(at + 1));
            }
            out.push('{');
            for (at, (name, member)) in members.into_iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                blank(random, out);
                write_string(name, random, out);
                blank(random, out);
                out.push(':');
                write(member, random, out);
            }
            blank(random, out);
            out.push('}');
        }
    }
    blank(random, out);
}

fn blank(random: &mut Random, out: &mut String) {
    out.push_str(random.pick(&["", "", "", " ", "\n", "\t\r\n  "]));
}

fn write_number(number: i64, random: &mut Random, out: &mut String) {
    let sign = if number < 0 { "-" } else { "" };
    let digits = number.unsigned_abs().to_string();
    let (first, others) = digits.split_at(1);
    out.push_str(&match random.below(9) {
        0 => format!("{number}.0"),
        1 => format!("{number}e0"),
        2 => format!("{number}.00E-0"),
        3 if number != 0 => format!("{number}000e-3"),
        4 => format!("{sign}{first}.{others}0e+{}", others.len()),
        5 => format!("{sign}0.000{digits}E{}", digits.len() + 3),
        6 if number == 0 => "-0".to_owned(),
        _ => number.to_string(),
    });
}

fn write_string(text: &str, random: &mut Random, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        let short = "\"\\/\u{8}\u{c}\n\r\t".chars().zip("\"\\/bfnrt".chars()).find(|(c, _)| *c == character);
        match (random.below(3), short) {
            (0, Some((_, escape))) => {
                out.push('\\');
                out.push(escape);
            }
            (1, _) => escape_units(character, random, out),
            _ if character < ' ' || matches!(character, '"' | '\\') => escape_units(character, random, out),
            _ => out.push(character),
        }
    }
    out.push('"');
}

fn escape_units(character: char, random: &mut Random, out: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        match random.below(2) {
            0 => out.push_str(&format!("\\u{unit:04x}")),
            _ => out.push_str(&format!("\\u{unit:04X}")),
        }
    }
}
