//! The store's secret and the keys it is sealed under.
//!
//! The secret that digests identities is made with the store and sealed under the first configured key. The names of
//! all keys that have sealed anything stand beside it, so a store whose key is not configured is refused as a whole
//! at the start, not record by record later. A key may be retired when no record is sealed under it any more.

use std::path::Path;

use onefold_core::{IdentityKey, OperationId};
use onefold_store::{KeyId, SealError, Sealer};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::OpenError;

const SECRET: &str = "SELECT value FROM onefold_meta WHERE name = 'identity_secret'";
const PUT_SECRET: &str = "INSERT INTO onefold_meta (name, value) VALUES ('identity_secret', ?1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const KEYS: &str = "SELECT id FROM onefold_seal_keys ORDER BY id";
const ADD_KEY: &str = "INSERT INTO onefold_seal_keys (id) VALUES (?1) ON CONFLICT DO NOTHING";
const DROP_KEY: &str = "DELETE FROM onefold_seal_keys WHERE id = ?1";
/// A payload form under a key begins with 1 and the key's name.
const IN_USE: &str = "SELECT 1 FROM onefold_outcomes WHERE kept IS NOT NULL AND substr(kept, 1, 5) = ?1
    UNION ALL SELECT 1 FROM onefold_steps WHERE substr(kept, 1, 5) = ?1
    UNION ALL SELECT 1 FROM onefold_inbox WHERE kept IS NOT NULL AND substr(kept, 1, 5) = ?1
    UNION ALL SELECT 1 FROM onefold_outbox WHERE substr(form, 1, 5) = ?1 LIMIT 1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[SECRET, PUT_SECRET, KEYS, ADD_KEY, DROP_KEY, IN_USE];

/// The secret is bound to no operation: its form is sealed to an id that no digest can be expected to hit.
const SECRET_ID: OperationId = OperationId::from_bytes([0; 32]);

/// Opens the store's secret with the configured keys, and seals it under the first of them.
pub(crate) fn unlock(
    connection: &mut Connection,
    path: &Path,
    sealer: &Sealer,
) -> Result<IdentityKey, OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    let writing = sealer.key_ids().next();
    let form: Option<Vec<u8>> =
        connection.query_row(SECRET, [], |row| row.get(0)).optional().map_err(sqlite)?;
    let known = known_keys(connection).map_err(sqlite)?;
    let settled = form.as_deref().is_some_and(|form| Sealer::sealed_under(form) == writing)
        && known.iter().all(|id| sealer.key_ids().any(|ours| ours == *id))
        && writing.is_none_or(|id| known.contains(&id));
    if settled && let Some(form) = form {
        return Ok(IdentityKey::secret(open_secret(path, sealer, &form)?));
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
    let form: Option<Vec<u8>> =
        transaction.query_row(SECRET, [], |row| row.get(0)).optional().map_err(sqlite)?;
    let secret = match form {
        Some(form) => open_secret(path, sealer, &form)?,
        None => new_secret(),
    };
    for id in known_keys(&transaction).map_err(sqlite)? {
        if !sealer.key_ids().any(|ours| ours == id) {
            if in_use(&transaction, id).map_err(sqlite)? {
                return Err(missing(sealer, id));
            }
            transaction.execute(DROP_KEY, [id.0.as_slice()]).map_err(sqlite)?;
        }
    }
    let form = sealer.seal(&SECRET_ID, secret.len(), |out| out.extend_from_slice(&secret));
    transaction.execute(PUT_SECRET, params![form]).map_err(sqlite)?;
    if let Some(id) = writing {
        transaction.execute(ADD_KEY, [id.0.as_slice()]).map_err(sqlite)?;
    }
    transaction.commit().map_err(sqlite)?;
    Ok(IdentityKey::secret(secret))
}

fn new_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    rand::fill(&mut secret);
    secret
}

fn open_secret(path: &Path, sealer: &Sealer, form: &[u8]) -> Result<[u8; 32], OpenError> {
    let damaged = |detail: String| OpenError::Damaged { path: path.to_owned(), detail };
    let secret = sealer.open(&SECRET_ID, form).map_err(|error| match error {
        SealError::KeyMissing(id) | SealError::Broken(id) => missing(sealer, id),
        SealError::Form => damaged(format!("its secret cannot be read: {error}")),
    })?;
    secret.as_ref().try_into().map_err(|_| damaged("its secret has another length".into()))
}

fn missing(sealer: &Sealer, id: KeyId) -> OpenError {
    if sealer.key_ids().next().is_none() { OpenError::NoKey(id) } else { OpenError::OtherKey(id) }
}

fn known_keys(connection: &Connection) -> rusqlite::Result<Vec<KeyId>> {
    connection.prepare(KEYS)?.query_map([], |row| row.get(0).map(KeyId))?.collect()
}

fn in_use(connection: &Connection, id: KeyId) -> rusqlite::Result<bool> {
    let mut prefix = vec![1];
    prefix.extend_from_slice(&id.0);
    Ok(connection.query_row(IN_USE, [prefix], |_| Ok(())).optional()?.is_some())
}
