//! Parameters of statements, each with the type that PostgreSQL takes it for; and its rows.
//!
//! `connection` sends every statement with its types and without a name, in one message. So nothing is
//! prepared that would have to be there for the next transaction: behind a pooler that one may run on
//! another server connection.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::store::sql::driver::Values;
use crate::store::sql::value::{Row, Value};

/// A parameter, with its type in SQL.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

impl Value<'_> {
    pub(super) fn typed(&self) -> Param<'_> {
        let sql_type = match self {
            Value::Int(_) => Type::INT8,
            Value::Text(_) => Type::TEXT,
            Value::Bytes(_) => Type::BYTEA,
            Value::Bool(_) => Type::BOOL,
        };
        (self, sql_type)
    }
}

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        sql_type: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Value::Int(number) => number.to_sql(sql_type, out),
            Value::Text(text) => text.as_deref().to_sql(sql_type, out),
            Value::Bytes(bytes) => bytes.as_deref().to_sql(sql_type, out),
            Value::Bool(truth) => truth.to_sql(sql_type, out),
        }
    }

    // Its type was made of it.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The values of a column, in many rows.
pub(super) struct Array<'a>(Box<dyn ToSql + Sync + Send + 'a>, Type);

impl<'a> Array<'a> {
    /// One column of rows that have so many.
    pub(super) fn column(rows: Values<'a>, width: usize, column: usize) -> Array<'a> {
        let values = rows.iter().skip(column).step_by(width);
        match rows[column] {
            Value::Text(_) => {
                let texts: Vec<Option<&str>> = values.map(Value::text).collect();
                Array(Box::new(texts), Type::TEXT_ARRAY)
            }
            Value::Bytes(_) => {
                let blobs: Vec<Option<&[u8]>> = values.map(Value::bytes).collect();
                Array(Box::new(blobs), Type::BYTEA_ARRAY)
            }
            Value::Bool(_) => unreachable!("no list has truths"),
            Value::Int(_) => {
                let numbers: Vec<Option<i64>> = values.map(Value::int).collect();
                Array(Box::new(numbers), Type::INT8_ARRAY)
            }
        }
    }

    pub(super) fn typed(&self) -> Param<'_> {
        (&*self.0, self.1.clone())
    }
}

/// A row of PostgreSQL, of columns that our statements ask for.
pub(super) fn row_from(row: &tokio_postgres::Row) -> Row {
    let value = |(index, column): (usize, &tokio_postgres::Column)| match *column.type_() {
        Type::INT8 => Value::Int(row.get(index)),
        Type::INT4 => Value::Int(row.get::<_, Option<i32>>(index).map(i64::from)),
        Type::BOOL => Value::Bool(row.get(index)),
        Type::BYTEA => Value::Bytes(row.get::<_, Option<Vec<u8>>>(index).map(Into::into)),
        _ => Value::Text(row.get::<_, Option<String>>(index).map(Into::into)),
    };
    Row(row.columns().iter().enumerate().map(value).collect())
}
