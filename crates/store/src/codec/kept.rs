//! What is kept of a result. Version 1: what it is, then its parts.
//!
//! Absent and empty are different: an empty body is a body, and a status of 0 is none of ours.

use onefold_core::{Answer, Kept, NotKept, TypedValue};

use super::CodecError;
use super::bytes::{PREFIX, Parts, put, put_length};

const VERSION: u8 = 1;

const NOTHING: u8 = 0;
const FULL: u8 = 1;
const REFERENCE: u8 = 2;
const NOT_KEPT: u8 = 3;
const VALUE: u8 = 4;

/// Reasons by their stored number. A number is never given twice.
const REASONS: [(u8, NotKept); 6] = [
    (0, NotKept::TooBig),
    (1, NotKept::Cut),
    (2, NotKept::ByContract),
    (3, NotKept::Settled),
    (4, NotKept::NotStored),
    (5, NotKept::Reconciled),
];

/// How long the stored form is, in bytes.
pub fn kept_length(kept: &Kept) -> usize {
    match kept {
        Kept::Nothing => 2,
        Kept::Full(answer) | Kept::Reference(answer) => {
            let lines = answer.headers.iter().chain(&answer.trailers);
            let lines: usize = lines.map(|(name, value)| 2 * PREFIX + name.len() + value.len()).sum();
            2 + 2 + 3 * PREFIX + lines + answer.body.len()
        }
        Kept::NotKept { .. } => 6,
        Kept::Value(value) => 2 + 2 + PREFIX + value.json.len(),
    }
}

/// Appends the stored form.
pub fn encode_kept(kept: &Kept, out: &mut Vec<u8>) {
    out.push(VERSION);
    match kept {
        Kept::Nothing => out.push(NOTHING),
        Kept::Full(answer) => {
            out.push(FULL);
            put_answer(out, answer);
        }
        Kept::Reference(answer) => {
            out.push(REFERENCE);
            put_answer(out, answer);
        }
        Kept::Value(value) => {
            out.push(VALUE);
            out.extend_from_slice(&value.version.to_be_bytes());
            put(out, &value.json);
        }
        Kept::NotKept { status, why } => {
            out.push(NOT_KEPT);
            out.push(u8::from(status.is_some()));
            out.extend_from_slice(&status.unwrap_or(0).to_be_bytes());
            let reason = REASONS.iter().find(|(_, known)| known == why);
            out.push(reason.expect("every reason has a number").0);
        }
    }
}

/// What a stored form keeps.
pub fn decode_kept(bytes: &[u8]) -> Result<Kept, CodecError> {
    let mut parts = Parts::of_version(bytes, VERSION)?;
    let kept = match parts.byte()? {
        NOTHING => Kept::Nothing,
        FULL => Kept::Full(answer(&mut parts)?),
        REFERENCE => Kept::Reference(answer(&mut parts)?),
        NOT_KEPT => {
            let status = match (parts.byte()?, parts.number()?) {
                (0, 0) => None,
                (1, status) => Some(status),
                _ => return Err(CodecError::Impossible("a status that is neither there nor absent")),
            };
            let number = parts.byte()?;
            let why = REASONS.iter().find(|(known, _)| *known == number);
            let why = why.ok_or(CodecError::Impossible("an unknown reason why nothing is kept"))?.1;
            Kept::NotKept { status, why }
        }
        VALUE => Kept::Value(TypedValue { version: parts.number()?, json: parts.part()?.to_vec() }),
        _ => return Err(CodecError::Impossible("an unknown kind of result")),
    };
    parts.end()?;
    Ok(kept)
}

fn put_answer(out: &mut Vec<u8>, answer: &Answer) {
    out.extend_from_slice(&answer.status.to_be_bytes());
    put_lines(out, &answer.headers);
    put(out, &answer.body);
    put_lines(out, &answer.trailers);
}

fn put_lines(out: &mut Vec<u8>, lines: &[(String, Vec<u8>)]) {
    put_length(out, lines.len());
    for (name, value) in lines {
        put(out, name.as_bytes());
        put(out, value);
    }
}

fn answer(parts: &mut Parts<'_>) -> Result<Answer, CodecError> {
    Ok(Answer {
        status: parts.number()?,
        headers: lines(parts)?,
        body: parts.part()?.to_vec(),
        trailers: lines(parts)?,
    })
}

fn lines(parts: &mut Parts<'_>) -> Result<Vec<(String, Vec<u8>)>, CodecError> {
    (0..parts.count()?).map(|_| Ok((parts.text()?, parts.part()?.to_vec()))).collect()
}
