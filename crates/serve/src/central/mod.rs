//! A server for several: accounts push runs to it, and each run is seen by whom its account says.
//!
//! - `who`: who asks, by a token or a session; every handler has it from here. What they may see is the store's to say
//!   ([`weir_store::View`]), through which every page reads.
//! - `sessions`: browsers that gave a token. `throttle`: addresses that gave wrong ones.
//! - `upload`: a bundle as it comes, bounded in bytes, in time and in number, until it is in the store.
//!
//! Nothing of this is there unless the server was started with `--allow-push`; who may see what holds all the same.

pub(crate) mod sessions;
pub(crate) mod throttle;
pub(crate) mod upload;
pub(crate) mod who;

use sessions::Sessions;
use std::time::{SystemTime, UNIX_EPOCH};
use throttle::Throttle;
use upload::Uploads;

/// How runs are pushed here.
#[derive(Clone, Debug)]
pub struct Pushes {
    /// The licence under which runs are pushed: it stays with each.
    pub licence: String,
    /// Most bytes of a bundle as it is sent.
    pub bundle_bytes: u64,
}

impl Default for Pushes {
    fn default() -> Self {
        Self { licence: LICENCE.to_owned(), bundle_bytes: 64 << 20 }
    }
}

/// The licence where none is named.
pub const LICENCE: &str = "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/";

/// What the requests share.
pub(crate) struct Central {
    pub(crate) options: Pushes,
    pub(crate) sessions: Sessions,
    pub(crate) throttle: Throttle,
    pub(crate) uploads: Uploads,
}

impl Central {
    /// Of a server that browsers reach over TLS, or not.
    pub(crate) fn new(options: Pushes, secure: bool) -> Self {
        Self {
            sessions: Sessions::new(secure),
            options,
            throttle: Throttle::default(),
            uploads: Uploads::default(),
        }
    }
}

/// Milliseconds since 1970-01-01 UTC.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
