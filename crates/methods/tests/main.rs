//! Searches and comparisons.

mod compare;
mod oracle;
mod rescore;
mod search;
