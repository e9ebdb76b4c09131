//! A list of texts, such as the names of ignored fields. Version 1: the number of texts, then each of them.

use super::CodecError;
use super::bytes::{PREFIX, Parts, put, put_length};

const VERSION: u8 = 1;

/// The stored form of a list of texts.
pub fn encode_texts(texts: &[String]) -> Vec<u8> {
    let length = 1 + PREFIX + texts.iter().map(|text| PREFIX + text.len()).sum::<usize>();
    let mut out = Vec::with_capacity(length);
    out.push(VERSION);
    put_length(&mut out, texts.len());
    for text in texts {
        put(&mut out, text.as_bytes());
    }
    out
}

/// The list of texts of a stored form.
pub fn decode_texts(bytes: &[u8]) -> Result<Vec<String>, CodecError> {
    let mut parts = Parts::of_version(bytes, VERSION)?;
    let texts = (0..parts.count()?).map(|_| parts.text()).collect::<Result<_, _>>()?;
    parts.end()?;
    Ok(texts)
}
