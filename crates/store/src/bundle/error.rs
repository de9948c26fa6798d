//! What can be wrong with a bundle, each said so that the reader knows which part and what to do.

/// Result of reading or writing a bundle.
pub type BundleResult<T> = Result<T, BundleError>;

/// Why a bundle was refused. Nothing of it was kept then.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file is something else.
    #[error("this is no bundle ({0}); `weir export RUN --bundle -o FILE` writes one")]
    NotABundle(String),
    /// The file ends early.
    #[error("the bundle is cut off ({0}); copy it again")]
    Cut(String),
    /// The container does not hold what it must, or more.
    #[error("the bundle is damaged ({0}); copy it again, or export it again where it was made")]
    Damaged(String),
    /// A later Weir wrote it.
    #[error(
        "the bundle has version {found}, and this weir reads up to version {known}; it holds {what}; read it with a newer weir"
    )]
    Newer {
        /// Its version.
        found: u64,
        /// The newest version this build knows.
        known: u32,
        /// Which run it holds, as far as can be told.
        what: String,
    },
    /// A part does not have the hash that the manifest says.
    #[error("`{part}` was changed: its sha256 is {found}, and the manifest says {stated}")]
    Changed {
        /// Its name.
        part: String,
        /// The hash of what is there.
        found: String,
        /// The hash that the manifest states.
        stated: String,
    },
    /// A part cannot be read as what it must be.
    #[error("`{part}`: {why}")]
    Part {
        /// Its name.
        part: String,
        /// What is wrong with it.
        why: String,
    },
    /// It holds more than a reader takes.
    #[error("the bundle is too large: {what}, and the bound is {bound}")]
    TooLarge {
        /// What there is too much of.
        what: String,
        /// The most that is read.
        bound: u64,
    },
    /// The signature is not one of this manifest.
    #[error("the signature does not hold: {0}")]
    Signature(String),
    /// A key file cannot be read.
    #[error("key {path}: {why}")]
    Key {
        /// The file.
        path: String,
        /// What is wrong with it, and how a right one is made.
        why: String,
    },
}

/// What is wrong with a part.
pub(super) fn part(name: &str, why: impl ToString) -> BundleError {
    BundleError::Part { part: name.to_owned(), why: why.to_string() }
}
