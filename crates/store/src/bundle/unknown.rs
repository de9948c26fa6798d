//! What a later Weir wrote into a bundle and this one would drop without a word.
//!
//! Each document is written again from what was read of it; whatever of the original is not there then, is not known here.

use super::error::{BundleResult, part};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;

/// Most fields that are named.
const MOST_NAMED: usize = 12;

/// Fields that were met and are not known, each by its place in a document.
#[derive(Debug, Default)]
pub(super) struct Unknown(BTreeSet<String>);

impl Unknown {
    /// Compares a document with what was read of it.
    pub(super) fn look<T: Serialize>(&mut self, name: &str, text: &[u8], read: &T) -> BundleResult<()> {
        let again = serde_json::to_vec(read).map_err(|error| part(name, error))?;
        if again == text || self.0.len() >= MOST_NAMED {
            return Ok(());
        }
        let value = |bytes| serde_json::from_slice::<Value>(bytes).map_err(|error| part(name, error));
        let kind = name.rsplit('/').next().unwrap_or(name).split([',', '.']).next().unwrap_or(name);
        self.compare(&value(text)?, &value(&again)?, kind.to_owned());
        Ok(())
    }

    /// What is unknown, in order.
    pub(super) fn fields(self) -> Vec<String> {
        self.0.into_iter().collect()
    }

    fn compare(&mut self, text: &Value, read: &Value, place: String) {
        match (text, read) {
            (Value::Object(text), Value::Object(read)) => {
                for (key, value) in text {
                    let place = format!("{place}.{}", key.escape_debug());
                    match read.get(key) {
                        Some(read) => self.compare(value, read, place),
                        // A field that says that there is nothing, which is not written any more.
                        None if is_nothing(value) => {}
                        None => self.note(place),
                    }
                }
            }
            (Value::Array(text), Value::Array(read)) if text.len() == read.len() => {
                for (value, read) in text.iter().zip(read) {
                    self.compare(value, read, format!("{place}[]"));
                }
            }
            (Value::Number(text), Value::Number(read)) if text.as_f64() == read.as_f64() => {}
            _ if text == read => {}
            _ => self.note(place),
        }
    }

    fn note(&mut self, place: String) {
        if self.0.len() < MOST_NAMED {
            self.0.insert(place.chars().take(100).collect());
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
