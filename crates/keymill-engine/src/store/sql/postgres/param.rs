//! Parameters of statements, each with the type that PostgreSQL takes it for.
//!
//! `connection` sends every statement with its types and without a name, in one message. So nothing is
//! prepared that would have to be there for the next transaction: behind a pooler that one may run on
//! another server connection.

use tokio_postgres::types::{ToSql, Type};

/// A value that a statement can be given.
pub(super) trait Param: Sync {
    /// The value, and its type in SQL.
    fn typed(&self) -> (&(dyn ToSql + Sync), Type);
}

/// The parameters of a statement, in their order.
pub(super) type Params<'a> = &'a [&'a dyn Param];

macro_rules! types {
    ($($rust:ty => $sql:ident,)*) => {$(
        impl Param for $rust {
            fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
                (self, Type::$sql)
            }
        }
    )*};
}

types! {
    bool => BOOL,
    i64 => INT8,
    Option<i64> => INT8,
    Vec<i64> => INT8_ARRAY,
    Vec<Option<i64>> => INT8_ARRAY,
    &str => TEXT,
    String => TEXT,
    Option<String> => TEXT,
    &[&str] => TEXT_ARRAY,
    Vec<&str> => TEXT_ARRAY,
    Vec<String> => TEXT_ARRAY,
    Vec<&[u8]> => BYTEA_ARRAY,
}

impl<T: Param> Param for &T {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        (**self).typed()
    }
}
