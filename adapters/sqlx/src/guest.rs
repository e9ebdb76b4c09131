//! The store's statements over a connection of sqlx.
//!
//! Parameters and rows pass in the binary form, so sqlx looks no type up. Whether a statement is kept prepared is for
//! the options of the service's connections to say, as with its own statements.

use onefold_store_postgres::{BinaryParam, Columns, Guest};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgConnection, PgRow, PgTypeInfo, PgValueFormat};
use sqlx::{Encode, Postgres, Row, Type};

use crate::Error;

/// A connection inside a transaction.
pub(crate) struct Inside<'a>(pub(crate) &'a mut PgConnection);

impl Guest for Inside<'_> {
    type Row = Binary;
    type Error = Error;

    async fn ask(&mut self, sql: &'static str, params: Vec<BinaryParam>) -> Result<Vec<Binary>, Error> {
        let mut query = sqlx::query(sql);
        for param in params {
            query = query.bind(Bound(param));
        }
        let rows = query.fetch_all(&mut *self.0).await?;
        Ok(rows.into_iter().map(Binary).collect())
    }
}

/// A row of sqlx.
pub(crate) struct Binary(PgRow);

impl Columns for Binary {
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, String> {
        let value = self.0.try_get_raw(column).map_err(|error| error.to_string())?;
        if sqlx::ValueRef::is_null(&value) {
            return Ok(None);
        }
        match value.format() {
            PgValueFormat::Binary => value.as_bytes().map(Some).map_err(|error| error.to_string()),
            PgValueFormat::Text => Err("a value came as text".into()),
        }
    }
}

/// A parameter as sqlx sends it.
struct Bound(BinaryParam);

impl Type<Postgres> for Bound {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Bound {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match &self.0.bytes {
            Some(bytes) => {
                buffer.extend_from_slice(bytes);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.0.oid)))
    }
}
