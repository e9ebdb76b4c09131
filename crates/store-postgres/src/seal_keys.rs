//! The store's secret and the keys it is sealed under.
//!
//! The secret that digests identities is made with the store and sealed under the first configured key. The names of
//! all keys that have sealed anything stand beside it, so a store whose key is not configured is refused as a whole at
//! the start, not record by record later. A key may be retired when no record is sealed under it any more. Gateways
//! that start at once wait for each other here, and the secret is made once.

use onefold_core::{IdentityKey, OperationId};
use onefold_store::{KeyId, SealError, Sealer};
use tokio_postgres::GenericClient;
use tokio_postgres::types::{ToSql, Type};

use crate::OpenError;
use crate::error::Failed;
use crate::migrate;
use crate::server::Server;

pub(crate) const SECRET: &str = "SELECT value FROM onefold.meta WHERE name = 'identity_secret'";
pub(crate) const PUT_SECRET: &str = "INSERT INTO onefold.meta (name, value) VALUES ('identity_secret', $1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";
pub(crate) const KEYS: &str = "SELECT id FROM onefold.seal_keys ORDER BY id";
pub(crate) const ADD_KEY: &str = "INSERT INTO onefold.seal_keys (id) VALUES ($1) ON CONFLICT DO NOTHING";
pub(crate) const DROP_KEY: &str = "DELETE FROM onefold.seal_keys WHERE id = $1";
/// A payload form under a key begins with 1 and the key's name. Walks over all records, when a key is retired.
pub(crate) const IN_USE: &str =
    "SELECT 1 FROM onefold.operations WHERE kept IS NOT NULL AND substr(kept, 1, 5) = $1
    UNION ALL SELECT 1 FROM onefold.steps WHERE substr(kept, 1, 5) = $1
    UNION ALL SELECT 1 FROM onefold.inbox WHERE kept IS NOT NULL AND substr(kept, 1, 5) = $1
    UNION ALL SELECT 1 FROM onefold.outbox WHERE substr(form, 1, 5) = $1 LIMIT 1";

/// The secret is bound to no operation: its form is sealed to an id that no digest can be expected to hit.
const SECRET_ID: OperationId = OperationId::from_bytes([0; 32]);

/// Opens the store's secret with the configured keys, and seals it under the first of them.
pub(crate) async fn unlock(server: &Server, sealer: &Sealer) -> Result<IdentityKey, OpenError> {
    let writing = sealer.key_ids().next();
    let mut connection = server.connection().await?;
    let form = secret(&**connection).await?;
    let known = known_keys(&**connection).await?;
    let settled = form.as_deref().is_some_and(|form| Sealer::sealed_under(form) == writing)
        && known.iter().all(|id| sealer.key_ids().any(|ours| ours == *id))
        && writing.is_none_or(|id| known.contains(&id));
    if settled && let Some(form) = form {
        return Ok(IdentityKey::secret(open_secret(sealer, &form)?));
    }
    let transaction = migrate::alone(&mut connection).await?;
    let secret = match secret(&transaction).await? {
        Some(form) => open_secret(sealer, &form)?,
        None => new_secret(),
    };
    for id in known_keys(&transaction).await? {
        if !sealer.key_ids().any(|ours| ours == id) {
            if in_use(&transaction, id).await? {
                return Err(missing(sealer, id));
            }
            ask(&transaction, DROP_KEY, &[(&id.0.as_slice(), Type::BYTEA)]).await?;
        }
    }
    let form = sealer.seal(&SECRET_ID, secret.len(), |out| out.extend_from_slice(&secret));
    ask(&transaction, PUT_SECRET, &[(&form, Type::BYTEA)]).await?;
    if let Some(id) = writing {
        ask(&transaction, ADD_KEY, &[(&id.0.as_slice(), Type::BYTEA)]).await?;
    }
    migrate::commit(transaction).await?;
    Ok(IdentityKey::secret(secret))
}

fn new_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    rand::fill(&mut secret);
    secret
}

fn open_secret(sealer: &Sealer, form: &[u8]) -> Result<[u8; 32], OpenError> {
    let secret = sealer.open(&SECRET_ID, form).map_err(|error| match error {
        SealError::KeyMissing(id) | SealError::Broken(id) => missing(sealer, id),
        SealError::Form => OpenError::Damaged(format!("its secret cannot be read: {error}")),
    })?;
    secret.as_ref().try_into().map_err(|_| OpenError::Damaged("its secret has another length".into()))
}

fn missing(sealer: &Sealer, id: KeyId) -> OpenError {
    if sealer.key_ids().next().is_none() { OpenError::NoKey(id) } else { OpenError::OtherKey(id) }
}

async fn ask(
    client: &impl GenericClient,
    sql: &str,
    params: &[(&(dyn ToSql + Sync), Type)],
) -> Result<Vec<tokio_postgres::Row>, OpenError> {
    client.query_typed(sql, params).await.map_err(|error| Failed::of(&error).into())
}

async fn secret(client: &impl GenericClient) -> Result<Option<Vec<u8>>, OpenError> {
    Ok(ask(client, SECRET, &[]).await?.first().map(|row| row.get(0)))
}

async fn known_keys(client: &impl GenericClient) -> Result<Vec<KeyId>, OpenError> {
    let key = |row: &tokio_postgres::Row| {
        let id = row.get::<_, &[u8]>(0).try_into();
        id.map(KeyId).map_err(|_| OpenError::Damaged("the name of a key has another length".into()))
    };
    ask(client, KEYS, &[]).await?.iter().map(key).collect()
}

async fn in_use(client: &impl GenericClient, id: KeyId) -> Result<bool, OpenError> {
    let mut prefix = vec![1];
    prefix.extend_from_slice(&id.0);
    Ok(!ask(client, IN_USE, &[(&prefix, Type::BYTEA)]).await?.is_empty())
}
