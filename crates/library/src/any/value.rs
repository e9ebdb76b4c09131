//! Values of statements and rows, the same on both databases.

use rusqlite::types::ValueRef;
use tokio_postgres::types::{ToSql, Type};

use super::AnyError;

/// A value on its way to or from a database; see [`ToValue`] and [`FromValue`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// None. A statement must know of which kind.
    Null(Kind),
    /// On SQLite 0 or 1.
    Bool(bool),
    /// Of at most eight bytes.
    Integer(i64),
    /// Of eight bytes.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A truth value: `boolean`.
    Bool,
    /// `bigint`.
    Integer,
    /// `double precision`.
    Real,
    /// `text`.
    Text,
    /// `bytea`, `BLOB`.
    Bytes,
}

/// What can be a parameter of a statement.
pub trait ToValue: Sync {
    /// The value.
    fn value(&self) -> Value;
}

/// What can be read from a row.
pub trait FromValue: Sized {
    /// The value as this type; `None` where it is none.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! to_value {
    ($($rust:ty => $kind:ident, $convert:expr;)*) => {
        $(
            impl ToValue for $rust {
                fn value(&self) -> Value {
                    let convert: fn(&$rust) -> _ = $convert;
                    Value::$kind(convert(self))
                }
            }

            impl ToValue for Option<$rust> {
                fn value(&self) -> Value {
                    self.as_ref().map_or(Value::Null(Kind::$kind), ToValue::value)
                }
            }
        )*
    };
}

to_value! {
    bool => Bool, |value| *value;
    i16 => Integer, |value| i64::from(*value);
    i32 => Integer, |value| i64::from(*value);
    i64 => Integer, |value| *value;
    u32 => Integer, |value| i64::from(*value);
    f64 => Real, |value| *value;
    &str => Text, |value| (*value).to_owned();
    String => Text, |value| value.clone();
    &[u8] => Bytes, |value| value.to_vec();
    Vec<u8> => Bytes, |value| value.clone();
}

macro_rules! from_value {
    ($($rust:ty => $($pattern:pat => $convert:expr),+;)*) => {
        $(
            impl FromValue for $rust {
                fn from_value(value: &Value) -> Option<$rust> {
                    match value {
                        $($pattern => $convert,)+
                        _ => None,
                    }
                }
            }
        )*
    };
}

from_value! {
    bool => Value::Bool(value) => Some(*value), Value::Integer(value @ (0 | 1)) => Some(*value == 1);
    i16 => Value::Integer(value) => (*value).try_into().ok();
    i32 => Value::Integer(value) => (*value).try_into().ok();
    i64 => Value::Integer(value) => Some(*value);
    u32 => Value::Integer(value) => (*value).try_into().ok();
    f64 => Value::Real(value) => Some(*value);
    String => Value::Text(value) => Some(value.clone());
    Vec<u8> => Value::Bytes(value) => Some(value.clone());
}

impl<A: FromValue> FromValue for Option<A> {
    fn from_value(value: &Value) -> Option<Option<A>> {
        match value {
            Value::Null(_) => Some(None),
            value => A::from_value(value).map(Some),
        }
    }
}

/// The parameters of a statement.
pub(super) fn values(params: &[&dyn ToValue]) -> Vec<Value> {
    params.iter().map(|param| param.value()).collect()
}

/// A row of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyRow(Vec<Value>);

impl AnyRow {
    /// The value of a column, counted from 0. An error where there is none, or it is not of this type.
    pub fn get<A: FromValue>(&self, column: usize) -> Result<A, AnyError> {
        let value = self.0.get(column);
        value.and_then(A::from_value).ok_or_else(|| AnyError::Column {
            column,
            wanted: std::any::type_name::<A>(),
            found: value.map_or("missing", Value::name),
        })
    }

    pub(super) fn of_sqlite(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<AnyRow> {
        let value = |column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Null(Kind::Text),
                ValueRef::Integer(value) => Value::Integer(value),
                ValueRef::Real(value) => Value::Real(value),
                ValueRef::Text(value) => Value::Text(String::from_utf8_lossy(value).into_owned()),
                ValueRef::Blob(value) => Value::Bytes(value.to_vec()),
            })
        };
        (0..columns).map(value).collect::<rusqlite::Result<_>>().map(AnyRow)
    }

    pub(super) fn of_postgres(row: &tokio_postgres::Row) -> Result<AnyRow, AnyError> {
        let value = |(at, column): (usize, &tokio_postgres::Column)| {
            let unread =
                || AnyError::Unread { column: column.name().to_owned(), kind: column.type_().to_string() };
            read(row, at, column.type_()).ok_or_else(unread)
        };
        row.columns().iter().enumerate().map(value).collect::<Result<_, _>>().map(AnyRow)
    }
}

fn read(row: &tokio_postgres::Row, at: usize, of: &Type) -> Option<Value> {
    let (value, kind) = match *of {
        Type::BOOL => (row.try_get::<_, Option<bool>>(at).ok()?.map(Value::Bool), Kind::Bool),
        Type::INT2 => {
            (row.try_get::<_, Option<i16>>(at).ok()?.map(|value| Value::Integer(value.into())), Kind::Integer)
        }
        Type::INT4 => {
            (row.try_get::<_, Option<i32>>(at).ok()?.map(|value| Value::Integer(value.into())), Kind::Integer)
        }
        Type::INT8 => (row.try_get::<_, Option<i64>>(at).ok()?.map(Value::Integer), Kind::Integer),
        Type::FLOAT4 => {
            (row.try_get::<_, Option<f32>>(at).ok()?.map(|value| Value::Real(value.into())), Kind::Real)
        }
        Type::FLOAT8 => (row.try_get::<_, Option<f64>>(at).ok()?.map(Value::Real), Kind::Real),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME => {
            (row.try_get::<_, Option<String>>(at).ok()?.map(Value::Text), Kind::Text)
        }
        Type::BYTEA => (row.try_get::<_, Option<Vec<u8>>>(at).ok()?.map(Value::Bytes), Kind::Bytes),
        _ => return None,
    };
    Some(value.unwrap_or(Value::Null(kind)))
}

impl Value {
    fn name(&self) -> &'static str {
        match self {
            Value::Null(_) => "NULL",
            Value::Bool(_) => "a truth value",
            Value::Integer(_) => "an integer",
            Value::Real(_) => "a real number",
            Value::Text(_) => "a text",
            Value::Bytes(_) => "bytes",
        }
    }

    /// As a parameter on PostgreSQL, with its type.
    pub(super) fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Value::Null(Kind::Bool) => (&None::<bool>, Type::BOOL),
            Value::Null(Kind::Integer) => (&None::<i64>, Type::INT8),
            Value::Null(Kind::Real) => (&None::<f64>, Type::FLOAT8),
            Value::Null(Kind::Text) => (&None::<String>, Type::TEXT),
            Value::Null(Kind::Bytes) => (&None::<Vec<u8>>, Type::BYTEA),
            Value::Bool(value) => (value, Type::BOOL),
            Value::Integer(value) => (value, Type::INT8),
            Value::Real(value) => (value, Type::FLOAT8),
            Value::Text(value) => (value, Type::TEXT),
            Value::Bytes(value) => (value, Type::BYTEA),
        }
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(match self {
            Value::Null(_) => ValueRef::Null,
            Value::Bool(value) => ValueRef::Integer((*value).into()),
            Value::Integer(value) => ValueRef::Integer(*value),
            Value::Real(value) => ValueRef::Real(*value),
            Value::Text(value) => ValueRef::Text(value.as_bytes()),
            Value::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}

/// Binds every parameter of a statement on SQLite, there written `$1`, `$2` as on PostgreSQL. Each must be used.
pub(super) fn bind(statement: &mut rusqlite::Statement<'_>, params: &[Value]) -> rusqlite::Result<()> {
    if statement.parameter_count() != params.len() {
        return Err(rusqlite::Error::InvalidParameterCount(params.len(), statement.parameter_count()));
    }
    for (at, value) in params.iter().enumerate() {
        let name = format!("${}", at + 1);
        let index = statement.parameter_index(&name)?.ok_or(rusqlite::Error::InvalidParameterName(name))?;
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}
