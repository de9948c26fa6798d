//! Searches and comparisons.

mod compare;
mod history;
mod oracle;
mod rescore;
mod search;
