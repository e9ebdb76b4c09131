//! Keys of operations, made as text of one length so that a request is patched in place.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use crate::args::KeysKind;

/// A UUID as text.
pub(crate) type KeyText = [u8; KEY_BYTES];

/// How long each key is.
pub(crate) const KEY_BYTES: usize = uuid::fmt::Hyphenated::LENGTH;

/// Makes keys, no two alike.
pub(crate) struct KeyMaker {
    kind: KeysKind,
    random: SmallRng,
}

impl KeyMaker {
    pub(crate) fn new(kind: KeysKind) -> KeyMaker {
        KeyMaker { kind, random: SmallRng::from_rng(&mut rand::rng()) }
    }

    /// A new key.
    pub(crate) fn uuid(&mut self) -> Uuid {
        match self.kind {
            KeysKind::V4 => uuid::Builder::from_random_bytes(self.random.random()).into_uuid(),
            KeysKind::V7 => Uuid::now_v7(),
        }
    }

    /// A new key as text.
    pub(crate) fn text(&mut self) -> KeyText {
        let mut text = [0; KEY_BYTES];
        self.uuid().hyphenated().encode_lower(&mut text);
        text
    }

    /// One of these at random.
    pub(crate) fn pick<'k>(&mut self, keys: &'k [KeyText]) -> &'k KeyText {
        &keys[self.random.random_range(0..keys.len())]
    }
}
