//! Messages are made with the business, and their ids are forgotten once they are done.
//!
//! The writer has the one write lock, so the order of `seq` is that of the commits. After a crash a message is there if
//! and only if the business that made it is.

use onefold_core::{IdentityKey, Key, Message, OperationId, StoreTime, outgoing_id};
use onefold_store::codec::{encode_message, message_length};
use onefold_store::{Sealer, StoreError, crash, id_is_taken};
use rusqlite::{Connection, OptionalExtension, params};

use crate::acts;
use crate::batch::Batch;
use crate::errand::Work;
use crate::error::JobError;

const MAKE: &str =
    "INSERT INTO onefold_outbox (seq, id, destination, address, ordering_key, created_at, form)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO NOTHING";
/// Whether the message under an id goes there.
const GOES_TO: &str = "SELECT destination = ?2 AND address = ?3 FROM onefold_outbox WHERE id = ?1";
const OPEN: &str = "INSERT INTO onefold_outbox_open (seq, destination, ordering_key, created_at, state, due_at, cause)
    VALUES (?1, ?2, ?3, ?4, 0, CASE WHEN ?3 IS NOT NULL AND EXISTS (
        SELECT 1 FROM onefold_outbox_open e WHERE e.destination = ?2 AND e.ordering_key = ?3) THEN NULL ELSE ?4 END, ?5)";
const FORGET: &str = "DELETE FROM onefold_outbox WHERE seq = ?1";
const FORGET_DONE: &str = "DELETE FROM onefold_outbox_done WHERE seq = ?1";
const DONE_OF: &str =
    "SELECT m.seq FROM onefold_outbox m CROSS JOIN onefold_outbox_done d ON d.seq = m.seq WHERE m.id = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[MAKE, GOES_TO, OPEN, FORGET, FORGET_DONE, DONE_OF];

/// A message with its content sealed.
pub(crate) struct Outgoing {
    id: Key,
    destination: String,
    address: String,
    ordering_key: Option<String>,
    form: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(message: Message, identity_key: &IdentityKey, sealer: &Sealer) -> Outgoing {
        let Message { id, destination, address, ordering_key, headers, body } = message;
        let form = sealer.seal_as(
            || outgoing_id(&id, identity_key),
            message_length(&headers, &body),
            |out| encode_message(&headers, &body, out),
        );
        Outgoing { id, destination, address, ordering_key, form }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.form.len()
    }

    /// Makes it, if its id is new: says whether it is. An error may leave half of it: it is made in a savepoint, or
    /// taken back by [`take_back`].
    pub(crate) fn make(
        &self,
        cause: Option<OperationId>,
        seq: i64,
        now: StoreTime,
        connection: &Connection,
    ) -> rusqlite::Result<bool> {
        let made = connection.prepare_cached(MAKE)?.execute(params![
            seq,
            self.id.as_str(),
            self.destination,
            self.address,
            self.ordering_key,
            now.0,
            self.form
        ])?;
        if made == 0 {
            return Ok(false);
        }
        crash::point("sqlite.message.after");
        let cause = cause.as_ref().map(OperationId::as_bytes);
        let open = params![seq, self.destination, self.ordering_key, now.0, cause];
        connection.prepare_cached(OPEN)?.execute(open)?;
        crash::point("sqlite.message_open.after");
        Ok(true)
    }

    /// Why it was not made, where that is not because it was made before.
    pub(crate) fn refused(&self, connection: &Connection) -> rusqlite::Result<Option<StoreError>> {
        let place = params![self.id.as_str(), self.destination, self.address];
        let same = connection.prepare_cached(GOES_TO)?.query_row(place, |row| row.get::<_, bool>(0));
        Ok((same.optional()? == Some(false)).then(|| id_is_taken(&self.id, &self.destination)))
    }
}

/// Takes back what an error has left of a message that was to be made under this number.
pub(crate) fn take_back(seq: i64, connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached(FORGET)?.execute([seq]).map(drop)
}

/// Makes messages; says how many are new.
pub(crate) fn make_all(
    messages: &[Outgoing],
    cause: Option<OperationId>,
    batch: &mut Batch<'_>,
) -> Result<u64, JobError> {
    let mut made = 0;
    for message in messages {
        let seq = batch.next_seq();
        if message.make(cause, seq, batch.moment.time, batch.connection)? {
            made += 1;
        }
    }
    if made > 0 {
        batch.wrote();
        batch.messages_wait();
    }
    Ok(made)
}

/// Forgets those of these that are done, so that their ids can be made again.
pub(crate) fn forget_done(messages: &[Outgoing], batch: &mut Batch<'_>) -> Result<(), JobError> {
    for message in messages {
        let done =
            batch.connection.prepare_cached(DONE_OF)?.query_row([message.id.as_str()], |row| row.get(0));
        if let Some(seq) = done.optional()? {
            forget(seq, &message.id, batch)?;
        }
    }
    Ok(())
}

fn forget(seq: i64, id: &Key, batch: &mut Batch<'_>) -> rusqlite::Result<()> {
    forget_rows(seq, batch)?;
    acts::forget(outgoing_id(id, batch.identity_key), batch)?;
    batch.wrote();
    Ok(())
}

/// The rows of a message that is done.
pub(crate) fn forget_rows(seq: i64, batch: &Batch<'_>) -> rusqlite::Result<()> {
    batch.connection.prepare_cached(FORGET)?.execute([seq])?;
    batch.connection.prepare_cached(FORGET_DONE)?.execute([seq])?;
    Ok(())
}

/// Messages in a commit of their own.
pub(crate) struct Enqueue(pub(crate) Vec<Outgoing>);

impl Work for Enqueue {
    type Answer = u64;

    fn run(&self, batch: &mut Batch<'_>) -> Result<u64, JobError> {
        batch.in_savepoint(|batch| {
            let made = make_all(&self.0, None, batch)?;
            if made < self.0.len() as u64 {
                for message in &self.0 {
                    if let Some(refused) = message.refused(batch.connection)? {
                        return Err(JobError::Job(refused));
                    }
                }
            }
            Ok(made)
        })
    }

    fn payload_bytes(&self) -> usize {
        self.0.iter().map(Outgoing::bytes).sum()
    }
}
