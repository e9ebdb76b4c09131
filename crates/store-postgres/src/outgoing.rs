//! Making messages that are to leave, in a transaction that is open: the business's, an owner's, or one of their own.
//!
//! A message with an ordering key holds the lock of that key until its transaction ends, so that the next one of the
//! key has its place behind it. Several in one statement take their locks in one order. The lock is one of the
//! server's advisory locks, of which a transaction cannot hold any number: some thousands of ordering keys in one
//! transaction are an error of the server. Above READ COMMITTED a wait for the lock does not end in a serialization
//! failure; the places are in order all the same.

use onefold_core::{FingerprintBuilder, IdentityKey, Key, Message, OperationId, outgoing_id};
use onefold_store::codec::{encode_message, message_length};
use onefold_store::{Sealer, StoreError, id_is_taken};
use tokio_postgres::types::{ToSql, Type};

use crate::ask::Ask;
use crate::driver::Columns as Row;
use crate::row::{clock, get};
use crate::server::Unanswered;

/// For each message, in the order of the arrays: whether it is new.
pub(crate) const PUT: &str =
    "SELECT onefold.outbox_put($1, i.lock, i.id, i.destination, i.address, i.ordering_key, i.form, $2)
    FROM unnest($3::bigint[], $4::bytea[], $5::bytea[], $6::bytea[], $7::bytea[], $8::bytea[])
    WITH ORDINALITY AS i (lock, id, destination, address, ordering_key, form, n) ORDER BY i.n";
/// Whether the message under an id goes there.
pub(crate) const GOES_TO: &str =
    "SELECT m.destination = $2 AND m.address = $3 FROM onefold.outbox m WHERE m.id = $1";
/// Forgets those of $1 that are done.
pub(crate) const FORGET_DONE: &str = "WITH old AS MATERIALIZED (
        SELECT d.place FROM onefold.outbox m JOIN onefold.outbox_done d ON d.place = m.place
        WHERE m.id = ANY ($1) FOR UPDATE OF d
    ),
    gone AS (DELETE FROM onefold.outbox m USING old WHERE m.place = old.place RETURNING m.id),
    unacted AS (DELETE FROM onefold.acts a USING gone WHERE NOT a.incoming AND a.message = gone.id)
    DELETE FROM onefold.outbox_done d USING old WHERE d.place = old.place";

/// A row: the effect is the first of its kind.
pub(crate) const EFFECT: &str = concat!(
    "INSERT INTO onefold.effects (key, operation, at) SELECT $2, $3, c.now FROM (",
    clock!(),
    ") c ON CONFLICT (key) DO NOTHING RETURNING at"
);
/// The effect was noted in this transaction, and its message was there before.
pub(crate) const FORGET_EFFECT: &str = "DELETE FROM onefold.effects WHERE key = $1";

/// A message with its content sealed.
pub(crate) struct Outgoing {
    id: Key,
    destination: String,
    address: String,
    ordering_key: Option<String>,
    form: Vec<u8>,
    /// Of its ordering key.
    lock: Option<i64>,
}

impl Outgoing {
    pub(crate) fn new(message: Message, identity_key: &IdentityKey, sealer: &Sealer) -> Outgoing {
        let Message { id, destination, address, ordering_key, headers, body } = message;
        let digest = outgoing_id(&id, identity_key);
        let form =
            sealer.seal(&digest, message_length(&headers, &body), |out| encode_message(&headers, &body, out));
        let lock = ordering_key.as_ref().map(|key| lock(&destination, key, identity_key));
        Outgoing { id, destination, address, ordering_key, form, lock }
    }

    /// The parameters of [`GOES_TO`].
    pub(crate) fn place(&self) -> [&[u8]; 3] {
        [self.id.as_str().as_bytes(), self.destination.as_bytes(), self.address.as_bytes()]
    }

    /// Why it was not made, by the rows of [`GOES_TO`], where that is not because it was made before.
    pub(crate) fn refused<R: Row>(&self, rows: &[R]) -> Result<(), StoreError> {
        match rows.first().map(|row| get(row, 0)).transpose()? {
            Some(false) => Err(id_is_taken(&self.id, &self.destination)),
            _ => Ok(()),
        }
    }
}

fn lock(destination: &str, ordering_key: &str, identity_key: &IdentityKey) -> i64 {
    let digest = FingerprintBuilder::new(identity_key)
        .part("destination", destination.as_bytes())
        .part("ordering key", ordering_key.as_bytes())
        .finish()
        .digest;
    let [a, b, c, d, e, f, g, h, ..] = digest;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Makes them in this transaction; says how many are new. Of one ordering key they keep their order.
pub(crate) async fn put<A: Ask>(
    mut messages: Vec<Outgoing>,
    cause: Option<OperationId>,
    ask: &A,
) -> Result<u64, A::Error> {
    messages.sort_by_key(|message| message.lock);
    let new = put_each(&messages, cause, ask).await?;
    Ok(new.into_iter().map(u64::from).sum())
}

/// As [`put`], for whoever chooses ids freely: it is an error where an id is that of a message that goes elsewhere.
pub(crate) async fn put_new<A: Ask>(mut messages: Vec<Outgoing>, ask: &A) -> Result<u64, A::Error> {
    messages.sort_by_key(|message| message.lock);
    let new = put_each(&messages, None, ask).await?;
    for (message, _) in messages.iter().zip(&new).filter(|(_, new)| !**new) {
        let place = message.place();
        let place = place.each_ref().map(|value| (value as &(dyn ToSql + Sync), Type::BYTEA));
        message.refused(&ask.ask(GOES_TO, &place, Unanswered::AskAgain).await?)?;
    }
    Ok(new.into_iter().map(u64::from).sum())
}

/// For each, whether it is new.
async fn put_each<A: Ask>(
    messages: &[Outgoing],
    cause: Option<OperationId>,
    ask: &A,
) -> Result<Vec<bool>, A::Error> {
    if messages.is_empty() {
        return Ok(Vec::new());
    }
    let now = ask.now();
    let cause = cause.as_ref().map(|cause| cause.as_bytes().as_slice());
    let columns = Columns::of(messages);
    let rows = ask.ask(PUT, &columns.params(&now, &cause), Unanswered::GiveUp).await?;
    Ok(rows.iter().map(|row| get(row, 0)).collect::<Result<_, _>>()?)
}

/// Makes them as [`put`] does, and again those that were made and done before.
pub(crate) async fn put_anew<A: Ask>(
    messages: impl Fn() -> Vec<Outgoing>,
    cause: OperationId,
    ask: &A,
) -> Result<u64, A::Error> {
    let first = messages();
    let all = first.len() as u64;
    let made = put(first, Some(cause), ask).await?;
    if made == all {
        return Ok(made);
    }
    let again = messages();
    let ids: Vec<&[u8]> = again.iter().map(|message| message.id.as_str().as_bytes()).collect();
    ask.ask(FORGET_DONE, &[(&ids, Type::BYTEA_ARRAY)], Unanswered::GiveUp).await?;
    Ok(made + put(again, Some(cause), ask).await?)
}

/// Makes the one message of an effect in this transaction, which `by` asked for; false: the effect happened before.
pub(crate) async fn put_once<A: Ask>(
    effect: &str,
    by: OperationId,
    message: Outgoing,
    ask: &A,
) -> Result<bool, A::Error> {
    let (now, key) = (ask.now(), effect.as_bytes());
    let noted: [(&(dyn ToSql + Sync), Type); 3] =
        [(&now, Type::INT8), (&key, Type::BYTEA), (&by.as_bytes().as_slice(), Type::BYTEA)];
    if ask.ask(EFFECT, &noted, Unanswered::GiveUp).await?.is_empty() {
        return Ok(false);
    }
    let made = put(vec![message], None, ask).await? > 0;
    if !made {
        ask.ask(FORGET_EFFECT, &[(&key, Type::BYTEA)], Unanswered::GiveUp).await?;
    }
    Ok(made)
}

/// Messages, column by column.
pub(crate) struct Columns<'a> {
    locks: Vec<Option<i64>>,
    ids: Vec<&'a [u8]>,
    destinations: Vec<&'a [u8]>,
    addresses: Vec<&'a [u8]>,
    ordering_keys: Vec<Option<&'a [u8]>>,
    forms: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(crate) fn of(messages: &'a [Outgoing]) -> Columns<'a> {
        Columns {
            locks: messages.iter().map(|message| message.lock).collect(),
            ids: messages.iter().map(|message| message.id.as_str().as_bytes()).collect(),
            destinations: messages.iter().map(|message| message.destination.as_bytes()).collect(),
            addresses: messages.iter().map(|message| message.address.as_bytes()).collect(),
            ordering_keys: messages
                .iter()
                .map(|message| message.ordering_key.as_deref().map(str::as_bytes))
                .collect(),
            forms: messages.iter().map(|message| message.form.as_slice()).collect(),
        }
    }

    /// The parameters of [`PUT`].
    pub(crate) fn params<'p>(
        &'p self,
        now: &'p Option<i64>,
        cause: &'p Option<&'a [u8]>,
    ) -> [(&'p (dyn ToSql + Sync), Type); 8] {
        [
            (now, Type::INT8),
            (cause, Type::BYTEA),
            (&self.locks, Type::INT8_ARRAY),
            (&self.ids, Type::BYTEA_ARRAY),
            (&self.destinations, Type::BYTEA_ARRAY),
            (&self.addresses, Type::BYTEA_ARRAY),
            (&self.ordering_keys, Type::BYTEA_ARRAY),
            (&self.forms, Type::BYTEA_ARRAY),
        ]
    }
}
