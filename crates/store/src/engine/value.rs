//! Values that go into a statement and come out of a row.

use super::{Fault, Result};
use std::sync::Arc;

/// A value as both databases have it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

/// The values of a statement, in order.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::engine::Value::from($value)),*] };
}
pub(crate) use values;

macro_rules! whole {
    ($($kind:ty),*) => { $(
        impl From<$kind> for Value {
            fn from(value: $kind) -> Self {
                Self::Int(i64::from(value))
            }
        }
    )* };
}
whole!(i64, u32, u16, u8, bool);

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        Self::Text(value.clone())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(value)
    }
}

impl<T> From<Option<T>> for Value
where
    Self: From<T>,
{
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Self::from)
    }
}

/// A row of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    columns: Arc<[String]>,
    values: Vec<Value>,
}

impl Row {
    pub(super) fn new(columns: Arc<[String]>, values: Vec<Value>) -> Self {
        Self { columns, values }
    }

    /// The names of the columns, in order.
    #[cfg(feature = "central")]
    pub(crate) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The values, in the order of the columns.
    #[cfg(feature = "central")]
    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// The value of a column.
    pub(crate) fn get<T: FromValue>(&self, column: &str) -> Result<T> {
        let place = self.columns.iter().position(|known| known == column);
        let value = place.and_then(|place| self.values.get(place));
        let value = value.ok_or_else(|| Fault::nonsense(column, "it is not there"))?;
        T::from_value(value).ok_or_else(|| {
            let kind = match value {
                Value::Null => "nothing",
                Value::Int(_) => "a whole number",
                Value::Real(_) => "a number",
                Value::Text(_) => "a text",
                Value::Blob(_) => "bytes",
            };
            Fault::nonsense(column, format!("it holds {kind} that does not belong there"))
        })
    }
}

/// What a value can be read as.
pub(crate) trait FromValue: Sized {
    /// The value, where it is of this kind and within its range.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! read_whole {
    ($($kind:ty),*) => { $(
        impl FromValue for $kind {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Int(number) => Self::try_from(*number).ok(),
                    _ => None,
                }
            }
        }
    )* };
}
read_whole!(i64, u32, u8);

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(*number != 0),
            _ => None,
        }
    }
}

impl FromValue for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Real(number) => Some(*number),
            Value::Int(number) => Some(*number as Self),
            _ => None,
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Blob(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}
