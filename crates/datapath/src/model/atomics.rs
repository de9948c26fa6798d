//! What threads share: the standard library's atomics. `crates/models` puts loom's in their place, in the files that it has
//! of this crate.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
