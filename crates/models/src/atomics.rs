//! Loom's atomics under the names of the standard library's, with the methods that the files here use.
//!
//! Loom does not know of the one order that all sequentially consistent accesses have. Fences that are so, it does know:
//! each such access has one before it here, which is how it is compiled for POWER ("leading sync"), and orders a little
//! more than the language promises.

pub use loom::sync::atomic::{Ordering, fence};

/// The order of an access behind its fence.
fn fenced(order: Ordering, otherwise: Ordering) -> Ordering {
    if order == Ordering::SeqCst {
        fence(Ordering::SeqCst);
        otherwise
    } else {
        order
    }
}

macro_rules! atomic {
    ($(#[$about:meta])* $name:ident: $of:ty) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name(loom::sync::atomic::$name);

        impl Default for $name {
            fn default() -> Self {
                Self::new(Default::default())
            }
        }

        impl $name {
            /// With this in it.
            pub fn new(value: $of) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            /// What is in it.
            pub fn load(&self, order: Ordering) -> $of {
                self.0.load(fenced(order, Ordering::Acquire))
            }

            /// Puts something into it.
            pub fn store(&self, value: $of, order: Ordering) {
                self.0.store(value, fenced(order, Ordering::Release));
            }

            /// Puts something into it; what was in it.
            pub fn swap(&self, value: $of, order: Ordering) -> $of {
                self.0.swap(value, fenced(order, Ordering::AcqRel))
            }

            /// Puts something in the place of something else.
            ///
            /// # Errors
            /// What is in it instead.
            pub fn compare_exchange(
                &self,
                old: $of,
                new: $of,
                order: Ordering,
                failed: Ordering,
            ) -> Result<$of, $of> {
                self.0.compare_exchange(old, new, fenced(order, Ordering::AcqRel), failed)
            }
        }
    };
}

atomic! {
    /// A flag.
    AtomicBool: bool
}

atomic! {
    /// A number.
    AtomicU64: u64
}

impl AtomicU64 {
    /// Adds; what was in it.
    pub fn fetch_add(&self, more: u64, order: Ordering) -> u64 {
        self.0.fetch_add(more, fenced(order, Ordering::AcqRel))
    }

    /// The greater of what is in it and this; what was in it.
    pub fn fetch_max(&self, other: u64, order: Ordering) -> u64 {
        self.0.fetch_max(other, fenced(order, Ordering::AcqRel))
    }

    /// Changes it, unless there is nothing to be put into it.
    ///
    /// # Errors
    /// What is in it, where nothing was put into it.
    pub fn fetch_update(
        &self,
        order: Ordering,
        read: Ordering,
        change: impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        self.0.fetch_update(order, read, change)
    }
}
