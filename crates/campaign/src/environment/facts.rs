//! A bag of facts that takes only what is there.

use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Facts(BTreeMap<String, String>);

impl Facts {
    /// Keeps a fact, unless there is none or it is empty.
    pub(super) fn put(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value.map(|value| value.to_string()).filter(|value| !value.is_empty()) {
            self.0.insert(name.to_owned(), value);
        }
    }

    pub(super) fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}
