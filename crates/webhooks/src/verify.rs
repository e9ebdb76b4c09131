//! Whether the signature of a delivery is good: first its headers, then the body as it comes.
//!
//! What the headers alone say is refused before a byte of the body is needed. Every scheme signs the body behind some
//! bytes that the headers hold, so the digest is made on the way.

use std::time::Duration;

use hmac::{Hmac, Mac};
use http::HeaderMap;
use onefold_canon::{BodyHasher, BodyKind, Pointer};
use onefold_core::{Fingerprint, IdentityKey};
use sha2::Sha256;

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

/// A delivery whose headers are as they must be, while its body comes.
///
/// The signature is checked as the body comes, so that nobody has to hold one whole that nobody has signed.
pub struct Verifier {
    signature: Signature,
    content: BodyHasher,
}

/// What the body of a delivery says, for telling whether two deliveries under one id are one message: JSON by its
/// meaning and without what the source ignores, everything else byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content([u8; 32]);

impl Content {
    /// The fingerprint of a message that says this, under the store's key.
    pub fn fingerprint(&self, secret: &IdentityKey) -> Fingerprint {
        Fingerprint::of_message(&self.0, secret)
    }
}

impl Verifier {
    pub(crate) fn new(signature: Signature, ignore: &[Pointer]) -> Verifier {
        // What is no JSON is digested as it stands.
        Verifier { signature, content: BodyHasher::new(BodyKind::Json, ignore) }
    }

    /// Takes the next part of the body.
    pub fn update(&mut self, part: &[u8]) {
        self.signature.macs.iter_mut().for_each(|mac| mac.update(part));
        self.content.update(part);
    }

    /// What the whole body says, where the sender has signed it.
    ///
    /// # Errors
    /// [`Refusal::Mismatch`].
    pub fn finish(self) -> Result<Content, Refusal> {
        self.signature.check()?;
        Ok(Content(self.content.finish().digest))
    }
}

/// The signature of a delivery, while its body comes.
pub(crate) struct Signature {
    /// One for each secret, over all that came so far; empty where nothing is signed.
    macs: Vec<Hmac<Sha256>>,
    /// Those that the sender gave; `None` where the scheme signs nothing.
    given: Option<Vec<Vec<u8>>>,
}

impl Signature {
    fn new(secrets: &[Secret], before_body: &[&[u8]], given: Vec<Vec<u8>>) -> Signature {
        let macs = secrets.iter().map(|secret| secret.mac(before_body)).collect();
        Signature { macs, given: Some(given) }
    }

    fn check(self) -> Result<(), Refusal> {
        let Some(given) = self.given else { return Ok(()) };
        // `verify_slice` compares in constant time.
        let good = |mac: &Hmac<Sha256>| given.iter().any(|one| mac.clone().verify_slice(one).is_ok());
        if self.macs.iter().any(good) { Ok(()) } else { Err(Refusal::Mismatch) }
    }
}

/// Checks the headers of a delivery that came at `now_s`: signature and time are there, can be read, and the time is
/// near enough.
pub(crate) fn begin(
    scheme: &Scheme,
    secrets: &[Secret],
    tolerance: Duration,
    headers: &HeaderMap,
    now_s: i64,
) -> Result<Signature, Refusal> {
    match scheme {
        Scheme::None => Ok(Signature { macs: Vec::new(), given: None }),
        Scheme::Standard => standard(secrets, tolerance, headers, now_s),
        Scheme::Stripe => stripe(secrets, tolerance, headers, now_s),
        Scheme::GitHub => plain(secrets, GITHUB, "sha256=", Encoding::Hex, headers, &[]),
        Scheme::Shopify => plain(secrets, SHOPIFY, "", Encoding::Base64, headers, &[]),
        Scheme::Hmac(HmacRule { header, encoding, prefix, before_body, .. }) => {
            plain(secrets, header, prefix, *encoding, headers, &[before_body.as_bytes()])
        }
    }
}

fn standard(
    secrets: &[Secret],
    tolerance: Duration,
    headers: &HeaderMap,
    now_s: i64,
) -> Result<Signature, Refusal> {
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
    in_time(time, STANDARD_TIME, tolerance, now_s)?;
    Ok(Signature::new(secrets, &[id, b".", time, b"."], signatures))
}

fn stripe(
    secrets: &[Secret],
    tolerance: Duration,
    headers: &HeaderMap,
    now_s: i64,
) -> Result<Signature, Refusal> {
    let line = one(headers, STRIPE)?;
    let parts = || line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut times = parts().filter_map(|part| part.strip_prefix(b"t="));
    let (Some(time), None) = (times.next(), times.next()) else {
        return Err(malformed(STRIPE, "it holds one time t=SECONDS"));
    };
    let entries = parts().filter_map(|part| part.strip_prefix(b"v1="));
    let signatures = decoded(entries, Encoding::Hex, STRIPE, "it holds no signature v1=HEX")?;
    in_time(time, STRIPE, tolerance, now_s)?;
    Ok(Signature::new(secrets, &[time, b"."], signatures))
}

fn plain(
    secrets: &[Secret],
    header: &str,
    prefix: &str,
    encoding: Encoding,
    headers: &HeaderMap,
    before_body: &[&[u8]],
) -> Result<Signature, Refusal> {
    let line = one(headers, header)?;
    let entry = line.strip_prefix(prefix.as_bytes());
    let signatures =
        decoded(entry.into_iter(), encoding, header, "it holds no signature as it must be written")?;
    Ok(Signature::new(secrets, before_body, signatures))
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

/// Whether a signed time is near enough, before now and after it.
fn in_time(time: &[u8], header: &str, tolerance: Duration, now_s: i64) -> Result<(), Refusal> {
    let digits = time.iter().all(u8::is_ascii_digit);
    let time = std::str::from_utf8(time).ok().filter(|_| digits).and_then(|time| time.parse::<i64>().ok());
    let time = time.ok_or_else(|| malformed(header, "the time is a number of seconds"))?;
    let (off_s, tolerance_s) = (now_s.abs_diff(time), tolerance.as_secs());
    if off_s > tolerance_s { Err(Refusal::Stale { off_s, tolerance_s }) } else { Ok(()) }
}
