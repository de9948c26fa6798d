//! Services: what they say of packets, and what they may not do.

mod balancer;
mod common;
mod conntrack_helper;
mod conntrack_linux_nat;
mod conntrack_load;
mod conntrack_service;
mod conntrack_tracking;
mod example;
mod simple;
mod support;
mod transcoder;
