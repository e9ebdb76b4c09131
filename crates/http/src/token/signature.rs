//! Signatures of tokens, verified by ring: the one cryptographic provider of this build, TLS included.
//!
//! Nothing here signs. A key of one kind never meets an algorithm of another, whatever a token says of itself.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey};
use ring::signature::{self as asymmetric, UnparsedPublicKey, VerificationAlgorithm};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(Verification::new(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes ring what `jsonwebtoken` verifies with, unless this process has chosen already.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = PROVIDER.install_default();
    });
}

struct Verification {
    algorithm: Algorithm,
    primitive: Primitive,
    key: Vec<u8>,
}

enum Primitive {
    Mac(ring::hmac::Algorithm),
    Signature(&'static dyn VerificationAlgorithm),
}

impl Verification {
    fn new(algorithm: Algorithm, key: &DecodingKey) -> Result<Verification, Error> {
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let key = key.try_get_as_bytes()?.to_vec();
        Ok(Verification { algorithm, primitive: primitive(algorithm)?, key })
    }
}

fn primitive(algorithm: Algorithm) -> Result<Primitive, Error> {
    Ok(match algorithm {
        Algorithm::HS256 => Primitive::Mac(ring::hmac::HMAC_SHA256),
        Algorithm::HS384 => Primitive::Mac(ring::hmac::HMAC_SHA384),
        Algorithm::HS512 => Primitive::Mac(ring::hmac::HMAC_SHA512),
        Algorithm::RS256 => Primitive::Signature(&asymmetric::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Primitive::Signature(&asymmetric::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Primitive::Signature(&asymmetric::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Primitive::Signature(&asymmetric::RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Primitive::Signature(&asymmetric::RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Primitive::Signature(&asymmetric::RSA_PSS_2048_8192_SHA512),
        Algorithm::ES256 => Primitive::Signature(&asymmetric::ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Primitive::Signature(&asymmetric::ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Primitive::Signature(&asymmetric::ED25519),
        _ => return Err(ErrorKind::UnsupportedAlgorithm.into()),
    })
}

impl Verifier<Vec<u8>> for Verification {
    fn verify(&self, message: &[u8], given: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.primitive {
            Primitive::Mac(mac) => ring::hmac::verify(&ring::hmac::Key::new(*mac, &self.key), message, given),
            Primitive::Signature(algorithm) => {
                UnparsedPublicKey::new(*algorithm, &self.key).verify(message, given)
            }
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Verification {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
