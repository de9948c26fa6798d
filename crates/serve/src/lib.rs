//! `weir serve`: the store as a web page.
//!
//! Every page is made on the server, works without scripts, and is a plain GET whose address says all of it: an address that is
//! copied shows another reader the same. Scripts add what is pleasant and nothing that is needed.
//!
//! - [`site`]: what the requests share. `stores` has the open databases, `catalogue` what runs are found by, `cache` pages
//!   that were made.
//! - `filter`: the list's address, read and written again; `pages`: one file a page.
//! - `answer`: bodies with their headers, and what is said instead of one; `guard`: what holds for every request; `listen`:
//!   connections, bounded in number and in time, over TLS or not.
//! - `central`: who asks, and runs that accounts push, where that is allowed; `api`: the same for programs, with its document.
//! - `start`: measuring from the page, where that is allowed: who may, a plan as a form, the queue.
//! - [`Program`]: what the command line knows and this crate does not, so that a page and a command say the same.
//!
//! Threads: one accepts and answers, a bounded number read the store and draw pages; nothing of the database is read on the
//! first. Memory: the catalogue (about 1 kB a run), the cache ([`site::Limits::cache_bytes`]), and a run for every reader at work.

mod answer;
mod api;
mod cache;
mod catalogue;
mod central;
mod filter;
mod guard;
mod listen;
mod numbers;
mod pages;
mod program;
pub mod site;
mod start;
mod stores;

pub use central::{LICENCE, Pushes};
pub use listen::{ServeError, Server, Stop};
pub use program::{Admitted, Checked, PlanText, Program};
pub use site::{Limits, Options};
pub use start::Runs;
pub use weir_tls::OwnCertificate;
