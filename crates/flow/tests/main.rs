//! Fields of packets, beside other readers of them.

mod etherparse;
mod ovs;
