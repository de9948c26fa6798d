//! The site, as browsers and hostile clients ask for it.

mod api;
mod browser;
mod central;
mod common;
mod compare;
mod history;
mod http;
mod load;
mod pages;
mod slow;
mod start;
mod tls;
mod uploads;
mod visibility;
