//! The switch: configuration, control socket and life of a datapath.
