//! The whole program over real DPDK ports, without huge pages, as any user.

mod pcap;
mod taps;
