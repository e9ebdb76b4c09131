//! One operation as the store sees it: a claim that commits, then a result that commits; and the same bytes for the
//! raw log.

use std::time::Duration;

use anyhow::{Result, ensure};
use onefold_core::contract::{OnStale, Retention};
use onefold_core::key::KeyTime;
use onefold_core::{Answer, Fingerprint, Identity, IdentityKey, Kept, Key, OperationId, Scope, State};
use onefold_store::codec::{encode_kept, encode_scope, kept_length};
use onefold_store::{Advance, Advanced, Also, Claim, Claimed, OperationStore, Promise, Start, Step};

use crate::keys::KeyMaker;
use crate::raw_log::RawLog;

/// An answer's body of a usual size.
const BODY_BYTES: usize = 300;
/// Columns of a claim that hold a number: seq, state, attempt, the lease's two, the promise's three, created, begun,
/// the fingerprint's version.
const CLAIM_NUMBERS: usize = 11;
/// Columns that a result sets to a number: state, completed, expires, due.
const SETTLE_NUMBERS: usize = 4;
const NUMBER_BYTES: usize = 8;

/// A claim and its result.
pub(crate) struct Pair {
    claim: Claim,
    kept: Kept,
}

impl Pair {
    /// A pair under a new key, as the gateway makes it for an order.
    pub(crate) fn new(maker: &mut KeyMaker) -> Result<Pair> {
        let credential = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9";
        let identity = Identity {
            scope: Scope::new([("credential", credential)]),
            operation: "CreateOrder".into(),
            key: Key::new(maker.uuid().to_string())?,
        };
        let id: OperationId = identity.id(&IdentityKey::none(), KeyTime::Uuidv7);
        let claim = Claim {
            id,
            scope: identity.scope,
            operation: identity.operation,
            key: identity.key,
            correlation_id: None,
            fingerprint: Fingerprint { version: 1, digest: *id.as_bytes() },
            ignored: Vec::new(),
            owner: "gateway-1".into(),
            lease: Duration::from_secs(30),
            promise: Promise {
                on_stale: OnStale::Unknown,
                retention: Retention::For(Duration::from_secs(7 * 86_400)),
                tombstone: Duration::from_secs(30 * 86_400),
            },
            live_keys_max: Some(u64::MAX),
            key_expires_at: None,
        };
        let kept = Kept::Full(Answer {
            status: 201,
            headers: vec![("content-type".into(), b"application/json".to_vec())],
            body: vec![b'x'; BODY_BYTES],
            trailers: Vec::new(),
        });
        Ok(Pair { claim, kept })
    }

    /// Bytes of what the claim and the result put into their columns.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let id = self.claim.id.as_bytes().len();
        let texts = self.claim.operation.len() + self.claim.key.as_str().len() + self.claim.owner.len();
        let blobs = id + self.claim.fingerprint.digest.len() + encode_scope(&self.claim.scope).len();
        (
            blobs + texts + CLAIM_NUMBERS * NUMBER_BYTES,
            id + kept_length(&self.kept) + SETTLE_NUMBERS * NUMBER_BYTES,
        )
    }

    /// Claims, then settles.
    pub(crate) async fn perform(self, store: &dyn OperationStore) -> Result<()> {
        let id = self.claim.id;
        let claimed = store.claim(self.claim).await?;
        ensure!(matches!(claimed, Claimed::Won { .. }), "a new key was claimed before: {claimed:?}");
        let settle = Advance {
            id,
            start: Start { states: &[State::Processing], attempt: 1, also: Also::Nothing },
            step: Step::Settle { state: State::Succeeded, kept: self.kept, resource: None },
            event: None,
            if_superseded: None,
        };
        let settled = store.advance(settle).await?;
        ensure!(matches!(settled, Advanced::Done { .. }), "an attempt was superseded: {settled:?}");
        Ok(())
    }

    /// The same bytes as one row: the digest, and everything else.
    pub(crate) fn row(self) -> ([u8; 32], Vec<u8>) {
        let (claim, settle) = self.bytes();
        let mut bytes = Vec::with_capacity(claim + settle);
        encode_kept(&self.kept, &mut bytes);
        bytes.resize(claim + settle - 2 * self.claim.id.as_bytes().len(), b'r');
        (*self.claim.id.as_bytes(), bytes)
    }

    /// Writes the same bytes to the raw log, in as many commits.
    pub(crate) async fn log(self, log: &RawLog) -> Result<()> {
        let (claim, settle) = self.bytes();
        let mut bytes = Vec::with_capacity(settle);
        bytes.extend_from_slice(self.claim.id.as_bytes());
        bytes.resize(claim, b'c');
        log.append(bytes).await?;
        let mut bytes = Vec::with_capacity(settle);
        bytes.extend_from_slice(self.claim.id.as_bytes());
        encode_kept(&self.kept, &mut bytes);
        bytes.resize(settle, b's');
        log.append(bytes).await
    }
}
