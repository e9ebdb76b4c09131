//! Values as parameters of unnamed statements, which must name the type of each.

use tokio_postgres::types::{ToSql, Type};

/// A value that says itself of which type of PostgreSQL it is. For any other type there is
/// [`PostgresTx::query_typed`](crate::PostgresTx::query_typed).
pub trait Param: ToSql + Sync {
    /// The type of the parameter.
    fn kind(&self) -> Type;
}

macro_rules! param {
    ($($rust:ty => $kind:ident,)*) => {
        $(
            impl Param for $rust {
                fn kind(&self) -> Type {
                    Type::$kind
                }
            }

            impl Param for Option<$rust> {
                fn kind(&self) -> Type {
                    Type::$kind
                }
            }
        )*
    };
}

param! {
    bool => BOOL,
    i16 => INT2,
    i32 => INT4,
    i64 => INT8,
    f32 => FLOAT4,
    f64 => FLOAT8,
    &str => TEXT,
    String => TEXT,
    &[u8] => BYTEA,
    Vec<u8> => BYTEA,
}

/// The parameters with their types.
pub(crate) fn typed<'a>(params: &'a [&'a dyn Param]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    params.iter().map(|param| (*param as &(dyn ToSql + Sync), param.kind())).collect()
}
