//! The section of the tokens that callers are known by.
//!
//! A secret and a public key are told apart by what they look like, so what could be a public key that lost its form
//! is no secret: everybody could sign with it. No error repeats a key.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use onefold_core::contract::TOKEN_SECRET_BYTES_MIN;

use super::document::Table;
use super::{Environment, secret};
use crate::kind::{AUDIENCE, ISSUER};
use crate::{ClaimKey, Claims};

/// What every PEM block begins with.
const BLOCK: &str = "-----BEGIN ";
/// The blocks that hold a public key.
const PUBLIC: &[&str] = &["-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----"];
/// What is allowed in place of something that is no public key.
const WRITE_PEM: &str = "write one PUBLIC KEY or CERTIFICATE in PEM";

pub(super) fn read(root: &Table<'_>, environment: Environment<'_>) -> Claims {
    let mut claims = Claims::default();
    let Some(table) = root.table("claims") else { return claims };
    claims.issuer = table.text("issuer", &ISSUER);
    claims.audience = table.text("audience", &AUDIENCE);
    let Some(keys) = table.get("keys") else {
        if table.entries().next().is_some() {
            let message = "required; write keys = [\"env:NAME\"] or [\"file:PATH\"]";
            table.report.mistake(table.at, &table.field_of("keys"), message);
        }
        return claims;
    };
    let Some(items) = keys.items() else {
        keys.refuse::<()>("keys are a list; write [\"env:NAME\"] or [\"file:PATH\"]");
        return claims;
    };
    let read = items.filter_map(|item| match item.value.as_str() {
        Some(reference) => {
            let key = secret::resolve(reference, environment).and_then(|text| key(reference, text.trim()));
            key.map_or_else(|wrong| item.refuse(wrong), Some)
        }
        None => item.refuse(secret::ELSEWHERE),
    });
    claims.keys = read.collect();
    claims
}

fn key(reference: &str, text: &str) -> Result<ClaimKey, String> {
    match text.matches(BLOCK).count() {
        0 => secret_key(reference, text),
        1 if PUBLIC.iter().any(|block| text.contains(block)) => Ok(ClaimKey::Pem(text.into())),
        1 => Err(format!("{reference} holds something in PEM that is no public key; {WRITE_PEM}")),
        blocks => Err(format!("{reference} holds {blocks} blocks of PEM; {WRITE_PEM} for each key")),
    }
}

fn secret_key(reference: &str, text: &str) -> Result<ClaimKey, String> {
    let bytes = text.len();
    if text.starts_with('{') || text.starts_with("ssh-") || text.starts_with("ecdsa-") || is_bare_der(text) {
        return Err(format!("what {reference} holds looks like a public key, and not like PEM; {WRITE_PEM}"));
    }
    if bytes < TOKEN_SECRET_BYTES_MIN {
        return Err(format!(
            "{reference} holds a secret of {bytes} bytes; at least {TOKEN_SECRET_BYTES_MIN} are allowed"
        ));
    }
    Ok(ClaimKey::Secret(text.into()))
}

/// Whether this is base64 of one ASN.1 sequence and nothing else: a key or a certificate without the lines around it.
fn is_bare_der(text: &str) -> bool {
    let text: String = text.split_whitespace().collect();
    let Ok(der) = STANDARD.decode(text) else { return false };
    let (length, rest) = match der.as_slice() {
        [0x30, short @ 0..=0x7f, rest @ ..] => (usize::from(*short), rest),
        [0x30, 0x81, length, rest @ ..] => (usize::from(*length), rest),
        [0x30, 0x82, high, low, rest @ ..] => (usize::from(*high) << 8 | usize::from(*low), rest),
        _ => return false,
    };
    // A sequence within it, or the modulus of an RSA key.
    rest.len() == length && matches!(rest.first(), Some(0x30 | 0x02))
}
