//! OpenFlow from outside: a switch with a real datapath, driven by `ovs-ofctl` and by messages by hand.

mod ofctl;
mod rig;
