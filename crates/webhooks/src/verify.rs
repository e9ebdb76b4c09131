//! Whether the signature of a delivery is good.

use std::time::Duration;

use hmac::Mac;
use http::HeaderMap;

use crate::{Encoding, HmacRule, Refusal, Scheme, Secret};

pub(crate) const STANDARD_ID: &str = "webhook-id";
pub(crate) const STANDARD_TIME: &str = "webhook-timestamp";
pub(crate) const STANDARD_SIGNATURE: &str = "webhook-signature";
const STRIPE: &str = "Stripe-Signature";
const GITHUB: &str = "X-Hub-Signature-256";
const SHOPIFY: &str = "X-Shopify-Hmac-Sha256";

/// The most signatures of one delivery that are looked at: a sender that changes its secrets sends two or three, and
/// each costs a digest.
const SIGNATURES_MAX: usize = 16;

/// Checks a delivery that came at `now_s`.
pub(crate) fn verify(
    scheme: &Scheme,
    secrets: &[Secret],
    tolerance: Duration,
    headers: &HeaderMap,
    body: &[u8],
    now_s: i64,
) -> Result<(), Refusal> {
    match scheme {
        Scheme::None => Ok(()),
        Scheme::Standard => standard(secrets, tolerance, headers, body, now_s),
        Scheme::Stripe => stripe(secrets, tolerance, headers, body, now_s),
        Scheme::GitHub => plain(secrets, GITHUB, "sha256=", Encoding::Hex, headers, &[body]),
        Scheme::Shopify => plain(secrets, SHOPIFY, "", Encoding::Base64, headers, &[body]),
        Scheme::Hmac(HmacRule { header, encoding, prefix, before_body, .. }) => {
            plain(secrets, header, prefix, *encoding, headers, &[before_body.as_bytes(), body])
        }
    }
}

fn standard(
    secrets: &[Secret],
    tolerance: Duration,
    headers: &HeaderMap,
    body: &[u8],
    now_s: i64,
) -> Result<(), Refusal> {
    let id = one(headers, STANDARD_ID)?;
    let time = one(headers, STANDARD_TIME)?;
    let signatures = one(headers, STANDARD_SIGNATURE)?;
    // A dot would let another id and time read from the same signed bytes.
    if id.contains(&b'.') {
        return Err(malformed(STANDARD_ID, "an id holds no dot"));
    }
    let entries = signatures.split(|byte| *byte == b' ').filter_map(|entry| entry.strip_prefix(b"v1,"));
    let signatures =
        decoded(entries, Encoding::Base64, STANDARD_SIGNATURE, "it holds no signature v1,BASE64")?;
    any(secrets, &[id, b".", time, b".", body], &signatures)?;
    in_time(time, STANDARD_TIME, tolerance, now_s)
}

fn stripe(
    secrets: &[Secret],
    tolerance: Duration,
    headers: &HeaderMap,
    body: &[u8],
    now_s: i64,
) -> Result<(), Refusal> {
    let line = one(headers, STRIPE)?;
    let parts = || line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut times = parts().filter_map(|part| part.strip_prefix(b"t="));
    let (Some(time), None) = (times.next(), times.next()) else {
        return Err(malformed(STRIPE, "it holds one time t=SECONDS"));
    };
    let entries = parts().filter_map(|part| part.strip_prefix(b"v1="));
    let signatures = decoded(entries, Encoding::Hex, STRIPE, "it holds no signature v1=HEX")?;
    any(secrets, &[time, b".", body], &signatures)?;
    in_time(time, STRIPE, tolerance, now_s)
}

fn plain(
    secrets: &[Secret],
    header: &str,
    prefix: &str,
    encoding: Encoding,
    headers: &HeaderMap,
    signed: &[&[u8]],
) -> Result<(), Refusal> {
    let line = one(headers, header)?;
    let entry = line.strip_prefix(prefix.as_bytes());
    let signatures =
        decoded(entry.into_iter(), encoding, header, "it holds no signature as it must be written")?;
    any(secrets, signed, &signatures)
}

/// The header's one line.
pub(crate) fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h [u8], Refusal> {
    let mut lines = headers.get_all(name).iter();
    let line = lines.next().ok_or_else(|| Refusal::Missing(name.into()))?;
    match lines.next() {
        Some(_) => Err(malformed(name, "it is there more than once")),
        None => Ok(line.as_bytes().trim_ascii()),
    }
}

fn malformed(header: &str, wrong: &'static str) -> Refusal {
    Refusal::Malformed { header: header.into(), wrong }
}

/// The signatures that can be read; there must be one, and not too many.
fn decoded<'e>(
    entries: impl Iterator<Item = &'e [u8]>,
    encoding: Encoding,
    header: &str,
    none: &'static str,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let signatures: Vec<_> =
        entries.filter_map(|entry| encoding.decode(entry)).take(SIGNATURES_MAX + 1).collect();
    match signatures.len() {
        0 => Err(malformed(header, none)),
        1..=SIGNATURES_MAX => Ok(signatures),
        _ => Err(malformed(header, "it holds more than 16 signatures")),
    }
}

/// Whether one of the signatures was made with one of the secrets.
fn any(secrets: &[Secret], signed: &[&[u8]], signatures: &[Vec<u8>]) -> Result<(), Refusal> {
    for secret in secrets {
        let mac = secret.mac(signed);
        // `verify_slice` compares in constant time.
        if signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok()) {
            return Ok(());
        }
    }
    Err(Refusal::Mismatch)
}

/// Whether a signed time is near enough, before now and after it.
fn in_time(time: &[u8], header: &str, tolerance: Duration, now_s: i64) -> Result<(), Refusal> {
    let digits = time.iter().all(u8::is_ascii_digit);
    let time = std::str::from_utf8(time).ok().filter(|_| digits).and_then(|time| time.parse::<i64>().ok());
    let time = time.ok_or_else(|| malformed(header, "the time is a number of seconds"))?;
    let (off_s, tolerance_s) = (now_s.abs_diff(time), tolerance.as_secs());
    if off_s > tolerance_s { Err(Refusal::Stale { off_s, tolerance_s }) } else { Ok(()) }
}
