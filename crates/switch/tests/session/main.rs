//! OpenFlow from outside: a switch with a real datapath, driven by `ovs-ofctl` and by messages by hand.

mod bundles;
mod controller;
mod many;
mod messages;
mod mutated;
mod ofctl;
mod rig;
mod standalone;
mod wrong;
