//! Secrets, which stand elsewhere: `env:NAME` or `file:PATH`.
//!
//! No error repeats what a secret holds, nor a setting that may be a secret written in its place.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use onefold_webhooks::{KeyForm, Secret};

use super::Environment;
use super::document::Value;

/// The longest secret, in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// What is allowed in place of a secret.
pub(super) const ELSEWHERE: &str = "a secret stays out of the file; write env:NAME or file:PATH";

/// A key of 32 bytes, written as base64 where `reference` says.
pub(super) fn key(reference: &str, environment: Environment<'_>) -> Result<[u8; 32], String> {
    let text = resolve(reference, environment)?;
    let bytes = STANDARD
        .decode(text.trim())
        .map_err(|_| format!("what {reference} holds is not base64; 32 bytes in base64 are allowed"))?;
    let count = bytes.len();
    bytes.try_into().map_err(|_| format!("{reference} holds {count} bytes; 32 bytes in base64 are allowed"))
}

/// A secret that signs webhooks, written as `form` says where `item` says.
pub(super) fn signing(item: &Value<'_>, form: KeyForm, environment: Environment<'_>) -> Option<Secret> {
    let Some(reference) = item.value.as_str() else { return item.refuse(ELSEWHERE) };
    match resolve(reference, environment) {
        Ok(text) => match Secret::new(text.trim(), form) {
            Ok(secret) => Some(secret),
            Err(wrong) => item.refuse(format!("{reference}: {wrong}")),
        },
        Err(wrong) => item.refuse(wrong),
    }
}

/// The text that stands where `reference` says.
pub(super) fn resolve(reference: &str, environment: Environment<'_>) -> Result<String, String> {
    match reference.split_once(':') {
        Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0']) => {
            environment(name).ok_or_else(|| format!("the environment has no {name}, or it is not text"))
        }
        Some(("file", path)) if !path.is_empty() => {
            contents(path).map_err(|error| format!("{path} cannot be read: {error}"))
        }
        _ => Err(ELSEWHERE.into()),
    }
}

fn contents(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(SECRET_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
