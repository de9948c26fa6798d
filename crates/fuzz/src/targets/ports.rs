//! Specs of ports.

use super::{seeds, text};
use crate::{Budget, Outcome, Target, refused};

pub(super) const PORT: Target = Target {
    name: "port-spec",
    about: "what a port is to be: DPDK's devices with their options, raw sockets, traces, faults; nothing is opened",
    budget: Budget::of(64 << 10, 512, 400, 8),
    longest: 512,
    words: &[
        "net_vhost0,iface=",
        "net_memif0,role=client,",
        "net_virtio_user0,path=",
        "af_packet:",
        "trace:",
        "fault:",
        "drop=1%,",
        "dup=",
        "delay=20us",
        "loop",
        "rate=",
        "tx=",
        "seed=",
        "null",
        ",",
        "=",
        ":",
        "0000:01:00.0",
        "iface=",
        "slots=",
        "100%",
        "1e999Mpps",
    ],
    seeds: || {
        seeds(&[
            "net_vhost0,iface=/tmp/a,queues=2,client=1",
            "net_memif0,role=client,socket=/tmp/m,id=3,rsize=9,bsize=2048,zero-copy=yes",
            "net_virtio_user0,path=/tmp/a,queues=1,queue_size=1024",
            "net_af_packet0,iface=eth1,framecnt=64",
            "af_packet:eth1,slots=64",
            "trace:in.pcap,tx=out.pcap,loop,rate=2Mpps",
            "null",
            "0000:01:00.0",
            "fault:drop=0.1%,dup=0.1%,reorder=1%,corrupt=0.1%,truncate=0.1%,delay=20us,seed=1:null",
            "fault:partial=1%,stall=0.1%/100us,seed=1:trace:in.pcap",
            "net_null0,size=64",
            "net_ring0",
        ])
    },
    run: |input| {
        let text = &*text(input);
        let device = weir_port::device(text);
        if let Some(device) = device {
            assert!(text.contains(device) && !device.contains(','), "{device:?} of {text:?}");
        }
        assert!(!weir_port::is_pci(text) || device.is_some());
        match weir_port::check(text) {
            Ok(()) => Outcome::of((device.is_some(), weir_port::is_pci(text), input.first())),
            Err(error) => refused(&error.to_string(), input),
        }
    },
    workers: false,
};
