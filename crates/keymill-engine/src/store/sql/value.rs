//! Values that statements are given and that rows hold, the same for every driver.
//!
//! The algorithms make and read them; each driver turns them into its library's own and back. A value
//! that is missing still has its type, because PostgreSQL wants to be told.

use std::borrow::Cow;

use jiff::Timestamp;

use crate::store::values::{signed, time, unsigned};

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    /// A number, or none.
    Int(Option<i64>),
    /// A text, or none.
    Text(Option<Cow<'a, str>>),
    /// Bytes, or none.
    Bytes(Option<Cow<'a, [u8]>>),
    /// A truth.
    Bool(bool),
}

/// The values of a row that was read.
#[derive(Debug)]
pub(super) struct Row(pub(super) Vec<Value<'static>>);

/// What a column can be read as.
pub(super) trait FromValue: Sized {
    /// Reads it; `None` where it is something else.
    fn from_value(value: &Value<'_>) -> Option<Self>;
}

/// The arguments of a statement, in their order.
macro_rules! values {
    ($($value:expr),* $(,)?) => {
        [$($crate::store::sql::value::Value::from($value)),*]
    };
}
pub(super) use values;

impl Row {
    /// A column, of the type that our own statement and schema give it.
    pub(super) fn get<T: FromValue>(&self, column: usize) -> T {
        T::from_value(&self.0[column]).expect("the statement asks for this column, of this type")
    }
}

impl Value<'_> {
    pub(super) const NULL: Value<'static> = Value::Int(None);

    /// The number that it is.
    pub(super) fn int(&self) -> Option<i64> {
        if let Value::Int(number) = self { *number } else { None }
    }

    /// The text that it is.
    pub(super) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = self { text.as_deref() } else { None }
    }

    /// The bytes that it is.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        if let Value::Bytes(bytes) = self { bytes.as_deref() } else { None }
    }

    fn is_null(&self) -> bool {
        matches!(self, Value::Int(None) | Value::Text(None) | Value::Bytes(None))
    }
}

impl FromValue for i64 {
    fn from_value(value: &Value<'_>) -> Option<i64> {
        match value {
            Value::Int(Some(number)) => Some(*number),
            Value::Bool(truth) => Some(i64::from(*truth)),
            // MySQL answers a statement without parameters in text.
            Value::Bytes(Some(digits)) => std::str::from_utf8(digits).ok()?.parse().ok(),
            Value::Text(Some(digits)) => digits.parse().ok(),
            _ => None,
        }
    }
}

impl FromValue for u64 {
    fn from_value(value: &Value<'_>) -> Option<u64> {
        i64::from_value(value).map(unsigned)
    }
}

impl FromValue for u32 {
    fn from_value(value: &Value<'_>) -> Option<u32> {
        u32::try_from(i64::from_value(value)?).ok()
    }
}

impl FromValue for bool {
    fn from_value(value: &Value<'_>) -> Option<bool> {
        i64::from_value(value).map(|number| number != 0)
    }
}

impl FromValue for String {
    fn from_value(value: &Value<'_>) -> Option<String> {
        match value {
            Value::Text(Some(text)) => Some(text.to_string()),
            // MySQL's columns are bytes, so that they are compared as such.
            Value::Bytes(Some(bytes)) => String::from_utf8(bytes.to_vec()).ok(),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value<'_>) -> Option<Vec<u8>> {
        match value {
            Value::Bytes(Some(bytes)) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl FromValue for Timestamp {
    fn from_value(value: &Value<'_>) -> Option<Timestamp> {
        i64::from_value(value).map(time)
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value<'_>) -> Option<Option<T>> {
        if value.is_null() { Some(None) } else { T::from_value(value).map(Some) }
    }
}

macro_rules! numbers {
    ($($rust:ty => $number:expr,)*) => {$(
        impl From<$rust> for Value<'_> {
            fn from(value: $rust) -> Self {
                Value::Int(Some($number(value)))
            }
        }

        impl From<Option<$rust>> for Value<'_> {
            fn from(value: Option<$rust>) -> Self {
                Value::Int(value.map($number))
            }
        }
    )*};
}

numbers! {
    i64 => std::convert::identity,
    u64 => signed,
    u32 => i64::from,
    Timestamp => Timestamp::as_millisecond,
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

macro_rules! others {
    ($($rust:ty => $kind:ident,)*) => {$(
        impl<'a> From<$rust> for Value<'a> {
            fn from(value: $rust) -> Self {
                Value::$kind(Some(value.into()))
            }
        }
    )*};
}

others! {
    String => Text,
    &'a str => Text,
    &'a String => Text,
    Vec<u8> => Bytes,
    &'a [u8] => Bytes,
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Value::Text(value.map(Cow::from))
    }
}
