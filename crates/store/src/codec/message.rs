//! A message: its header lines and its body. Version 1: the number of lines, name and value of each, the body.

use super::CodecError;
use super::bytes::{PREFIX, Parts, put, put_length};
use crate::KeptMessage;

const VERSION: u8 = 1;

/// How long the stored form is, in bytes.
pub fn message_length(headers: &[(String, String)], body: &[u8]) -> usize {
    let lines: usize = headers.iter().map(|(name, value)| 2 * PREFIX + name.len() + value.len()).sum();
    1 + 2 * PREFIX + lines + body.len()
}

/// Appends the stored form.
pub fn encode_message(headers: &[(String, String)], body: &[u8], out: &mut Vec<u8>) {
    out.push(VERSION);
    put_length(out, headers.len());
    for (name, value) in headers {
        put(out, name.as_bytes());
        put(out, value.as_bytes());
    }
    put(out, body);
}

/// The message of a stored form.
pub fn decode_message(bytes: &[u8]) -> Result<KeptMessage, CodecError> {
    let mut parts = Parts::of_version(bytes, VERSION)?;
    let headers =
        (0..parts.count()?).map(|_| Ok((parts.text()?, parts.text()?))).collect::<Result<_, CodecError>>()?;
    let body = parts.part()?.to_vec();
    parts.end()?;
    Ok(KeptMessage { headers, body })
}
