//! What threads share: the standard library's atomics. `crates/models` puts loom's in their place, in the file that it has of
//! this crate.

pub(super) use std::sync::atomic::{AtomicBool, Ordering};
