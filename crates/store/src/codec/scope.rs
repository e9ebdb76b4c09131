//! A scope. Version 1: the number of parts, then name and value of each, so that no two scopes share a form.

use onefold_core::Scope;

use super::CodecError;
use super::bytes::{PREFIX, Parts, put, put_length};

const VERSION: u8 = 1;

/// The stored form of a scope. Equal forms are equal scopes.
pub fn encode_scope(scope: &Scope) -> Vec<u8> {
    let parts = scope.parts();
    let length: usize = parts.iter().map(|part| 2 * PREFIX + part.name.len() + part.value.len()).sum();
    let mut out = Vec::with_capacity(1 + PREFIX + length);
    out.push(VERSION);
    put_length(&mut out, parts.len());
    for part in parts {
        put(&mut out, part.name.as_bytes());
        put(&mut out, part.value.as_bytes());
    }
    out
}

/// The scope of a stored form.
pub fn decode_scope(bytes: &[u8]) -> Result<Scope, CodecError> {
    let mut parts = Parts::of_version(bytes, VERSION)?;
    let named: Vec<(String, String)> =
        (0..parts.count()?).map(|_| Ok((parts.text()?, parts.text()?))).collect::<Result<_, CodecError>>()?;
    parts.end()?;
    Ok(Scope::new(named))
}
