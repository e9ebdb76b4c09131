//! Claims, transitions and messages in a transaction that the caller owns, over a driver of the caller's choice.
//!
//! The statements and what their rows mean are those of the store; a [`Guest`] only sends them. Nothing becomes visible
//! before the caller commits, and all of it goes with a rollback. A claim that another transaction is about to make
//! waits for the end of that transaction. Losing one is no error of the server, so the transaction goes on; under
//! REPEATABLE READ and SERIALIZABLE the server may end it with 40001 instead, and the caller runs it again.
//!
//! *It does not* rerun anything or ask twice: that is for whoever owns the transaction. It must be in the store's
//! database.

use std::future::Future;

use bytes::BytesMut;
use onefold_core::{Message, OperationId};
use onefold_store::{Advance, Advanced, Claim, Claimed, StoreError};
use tokio::sync::Mutex;
use tokio_postgres::types::{IsNull, ToSql, Type};

use crate::PostgresStore;
use crate::ask::Ask;
use crate::outgoing;
use crate::server::{Params, Unanswered};

/// A parameter in the binary form of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinaryParam {
    /// The type's object id.
    pub oid: u32,
    /// The value; `None` is null.
    pub bytes: Option<Vec<u8>>,
}

/// A row of a result in the binary form.
pub trait Columns: Send + Sync {
    /// The value of a column, from 0; `None` is null. An error: there is no such column, or it is no binary value.
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, String>;
}

/// Sends statements in a transaction that somebody else owns.
pub trait Guest: Send {
    /// A row of a result.
    type Row: Columns;
    /// What the driver's errors are made into.
    type Error: From<StoreError> + Send;

    /// Sends one statement, once, and gives all of its rows in the binary form.
    fn ask(
        &mut self,
        sql: &'static str,
        params: Vec<BinaryParam>,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Self::Error>> + Send;
}

impl PostgresStore {
    /// Makes a claim in the guest's transaction. An error may have ended the transaction: roll it back.
    pub async fn claim_over<G: Guest>(&self, guest: &mut G, claim: Claim) -> Result<Claimed, G::Error> {
        self.claim_by(&Of::new(guest), claim).await
    }

    /// Carries out a transition in the guest's transaction. An error may have ended the transaction: roll it back.
    pub async fn advance_over<G: Guest>(
        &self,
        guest: &mut G,
        advance: Advance,
    ) -> Result<Advanced, G::Error> {
        self.advance_by(&Of::new(guest), advance).await
    }

    /// Makes a message on its way out in the guest's transaction, as [`PostgresStore::enqueue_in`] does. An error may
    /// have ended the transaction: roll it back.
    pub async fn enqueue_over<G: Guest>(&self, guest: &mut G, message: Message) -> Result<bool, G::Error> {
        Ok(outgoing::put_new(vec![self.seal_message(message)], &Of::new(guest)).await? > 0)
    }

    /// Makes the one message for an effect in the guest's transaction, as [`PostgresStore::enqueue_once_in`] does. An
    /// error may have ended the transaction: roll it back.
    pub async fn enqueue_once_over<G: Guest>(
        &self,
        guest: &mut G,
        by: OperationId,
        effect: &str,
        message: Message,
    ) -> Result<bool, G::Error> {
        outgoing::put_once(effect, by, self.message_of(effect, message), &Of::new(guest)).await
    }
}

/// A guest as whom a batch asks. One statement is under way at a time, so nobody ever waits for the lock.
struct Of<'a, G>(Mutex<&'a mut G>);

impl<'a, G> Of<'a, G> {
    fn new(guest: &'a mut G) -> Of<'a, G> {
        Of(Mutex::new(guest))
    }
}

impl<G: Guest> Ask for Of<'_, G> {
    type Row = G::Row;
    type Error = G::Error;

    fn now(&self) -> Option<i64> {
        None
    }

    async fn ask(
        &self,
        sql: &'static str,
        params: &Params<'_>,
        _: Unanswered,
    ) -> Result<Vec<G::Row>, G::Error> {
        let written = written(params)?;
        self.0.lock().await.ask(sql, written).await
    }
}

fn written(params: &Params<'_>) -> Result<Vec<BinaryParam>, StoreError> {
    params.iter().map(|(value, kind)| param(*value, kind)).collect()
}

fn param(value: &(dyn ToSql + Sync), kind: &Type) -> Result<BinaryParam, StoreError> {
    let mut bytes = BytesMut::new();
    let written = value.to_sql_checked(kind, &mut bytes);
    let bytes = match written.map_err(|error| StoreError::Refused(error.to_string()))? {
        IsNull::Yes => None,
        IsNull::No => Some(bytes.to_vec()),
    };
    Ok(BinaryParam { oid: kind.oid(), bytes })
}
