//! The program, as people use it.

mod against;
mod arrows;
mod bad_input;
mod bench_lifecycle;
mod clients;
mod comparing;
mod curves;
mod doctor;
mod examples;
mod faults;
mod figures;
mod lab;
mod memif;
mod nf;
mod packets;
mod peers;
mod perf;
mod pipelines;
mod readers;
mod supervised;
mod supply;
mod switch;
mod trace;
mod unsafe_lives_in_dpdk;
mod verify;
mod wirings;
