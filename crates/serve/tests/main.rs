//! The site, as browsers and hostile clients ask for it.

mod browser;
mod common;
mod compare;
mod history;
mod http;
mod load;
mod pages;
mod start;
