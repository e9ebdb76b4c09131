//! The keys under which a token's signature may verify: a shared secret, or a public key in PEM.
//!
//! What a key is, is said by whoever configures it and never by a token: each key names the algorithms that it is for.

use std::fmt;

use jsonwebtoken::{Algorithm, DecodingKey};
use onefold_core::contract::TOKEN_SECRET_BYTES_MIN;
use rustls_pki_types::pem::{PemObject, SectionKind};
use rustls_pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use spki::der::asn1::UintRef;
use spki::der::{Decode, Reader, SliceReader};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

/// The shortest and the longest modulus of an RSA key, in bits: shorter ones are no protection, longer ones a burden.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A key under which a token's signature may verify.
#[derive(Clone)]
pub struct TokenKey {
    pub(super) decoding: DecodingKey,
    pub(super) algorithms: &'static [Algorithm],
}

/// Why something is no key. No message repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefused {
    /// A secret under [`TOKEN_SECRET_BYTES_MIN`].
    #[error("the secret is shorter than {TOKEN_SECRET_BYTES_MIN} bytes")]
    ShortSecret,
    /// Not a `PUBLIC KEY` and not a `CERTIFICATE` in PEM.
    #[error("it is not a PUBLIC KEY or CERTIFICATE in PEM")]
    NotPem,
    /// A certificate that cannot be read.
    #[error("the certificate cannot be read; `openssl x509 -pubkey -noout` writes its public key")]
    Certificate,
    /// A public key that cannot be read.
    #[error("the public key cannot be read")]
    PublicKey,
    /// A public key of a kind that no token is verified with.
    #[error("the key is not RSA of 2048 to 8192 bits, not on the curve P-256 or P-384, and not Ed25519")]
    Kind,
}

impl TokenKey {
    /// A secret for HS256, HS384 and HS512, taken as it stands.
    pub fn secret(secret: &[u8]) -> Result<TokenKey, KeyRefused> {
        if secret.len() < TOKEN_SECRET_BYTES_MIN {
            return Err(KeyRefused::ShortSecret);
        }
        let decoding = DecodingKey::from_secret(secret).map_err(|_| KeyRefused::ShortSecret)?;
        Ok(TokenKey { decoding, algorithms: &[Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] })
    }

    /// The public key, or that of the certificate, in the PEM text: for the signatures of its own kind alone. Dates
    /// and issuer of a certificate are not looked at.
    pub fn pem(pem: &str) -> Result<TokenKey, KeyRefused> {
        let (kind, der) =
            <(SectionKind, Vec<u8>)>::from_pem_slice(pem.as_bytes()).map_err(|_| KeyRefused::NotPem)?;
        match kind {
            SectionKind::PublicKey => of_public_key(&der.into()),
            SectionKind::Certificate => {
                let der = CertificateDer::from(der);
                let certificate =
                    webpki::EndEntityCert::try_from(&der).map_err(|_| KeyRefused::Certificate)?;
                of_public_key(&certificate.subject_public_key_info())
            }
            _ => Err(KeyRefused::NotPem),
        }
    }
}

fn of_public_key(der: &SubjectPublicKeyInfoDer<'_>) -> Result<TokenKey, KeyRefused> {
    let info = SubjectPublicKeyInfoRef::try_from(der.as_ref()).map_err(|_| KeyRefused::PublicKey)?;
    let key = info.subject_public_key.as_bytes().ok_or(KeyRefused::PublicKey)?;
    let curve = info.algorithm.parameters_oid().ok();
    let (decoding, algorithms): (_, &'static [Algorithm]) = match (info.algorithm.oid, curve) {
        (RSA, _) if RSA_BITS.contains(&rsa_bits(key)?) => (
            DecodingKey::from_rsa_der(key),
            &[
                Algorithm::RS256,
                Algorithm::RS384,
                Algorithm::RS512,
                Algorithm::PS256,
                Algorithm::PS384,
                Algorithm::PS512,
            ],
        ),
        (EC, Some(P256)) => (DecodingKey::from_ec_der(point(key, 65)?), &[Algorithm::ES256]),
        (EC, Some(P384)) => (DecodingKey::from_ec_der(point(key, 97)?), &[Algorithm::ES384]),
        (ED25519, _) if key.len() == 32 => (DecodingKey::from_ed_der(key), &[Algorithm::EdDSA]),
        _ => return Err(KeyRefused::Kind),
    };
    Ok(TokenKey { decoding, algorithms })
}

/// The bits of the modulus, rounded up to bytes.
fn rsa_bits(pkcs1: &[u8]) -> Result<usize, KeyRefused> {
    let modulus = |pkcs1| -> Result<usize, spki::der::Error> {
        let mut reader = SliceReader::new(pkcs1)?;
        let bytes = reader.sequence(|key| -> Result<usize, spki::der::Error> {
            let modulus = UintRef::decode(key)?.as_bytes().len();
            UintRef::decode(key)?;
            Ok(modulus)
        })?;
        reader.finish()?;
        Ok(bytes)
    };
    modulus(pkcs1).map(|bytes| bytes * 8).map_err(|_| KeyRefused::PublicKey)
}

/// An uncompressed point of this many bytes.
fn point(key: &[u8], bytes: usize) -> Result<&[u8], KeyRefused> {
    if key.len() == bytes && key.first() == Some(&4) { Ok(key) } else { Err(KeyRefused::PublicKey) }
}

impl fmt::Debug for TokenKey {
    /// What it is for, and nothing of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey({:?})", self.algorithms)
    }
}
