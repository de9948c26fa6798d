//! Connection tracking over scripted conversations: who may say what, and when.

mod fragments;
mod limits;
mod others;
mod tcp;

use crate::support::{
    ACK, FIN, Net, PSH, RST, SYN, Tcp, echo, fragments, icmp, tcp, udp, unreachable, v4, v6,
};
use std::net::SocketAddr;
use weir_conntrack::{
    Checksums, EarlyFragments, Event, Judgement, Packet, Reason, Settings, State, Timeouts, Tuple, ct,
};
use weir_flow::Key;

/// A conversation between a client inside and a server outside.
struct Talk {
    net: Net,
    client: SocketAddr,
    server: SocketAddr,
}

const NEW: u8 = ct::TRK | ct::NEW;
const EST: u8 = ct::TRK | ct::EST;
const REPLY: u8 = ct::TRK | ct::EST | ct::RPL;

impl Talk {
    fn with(settings: Settings) -> Self {
        Self { net: Net::new(settings), client: v4(1, 1000), server: v4(20, 80) }
    }

    fn new() -> Self {
        Self::with(Settings { connections: 1000, ..Settings::default() })
    }

    /// From the client: its flow entry lets it open connections.
    fn says(&mut self, segment: Tcp) -> Judgement {
        self.net.allow(&tcp(self.client, self.server, segment))
    }

    /// From the server: it may only answer.
    fn hears(&mut self, segment: Tcp) -> Judgement {
        self.net.pass(&tcp(self.server, self.client, segment))
    }

    /// A handshake without scaling: the client is at 101, the server at 501; both have 1,000 bytes of
    /// window.
    fn shake(mut self) -> Self {
        assert_eq!(state(self.says(syn(100))), NEW);
        assert_eq!(state(self.hears(syn_ack(500, 101))), REPLY);
        assert_eq!(state(self.says(ack(101, 501))), EST);
        assert_eq!(self.state(), State::Established);
        self
    }

    fn state(&self) -> State {
        let (_, place) = self.net.tracker.all(0).next().expect("there is a connection");
        self.net.tracker.connection(place, self.net.tick_now()).unwrap().state
    }
}

fn state(judgement: Judgement) -> u8 {
    assert_eq!(judgement.refused, None);
    judgement.state
}

fn refused(judgement: Judgement) -> Reason {
    judgement.refused.expect("it should not pass")
}

fn segment(flags: u8, seq: u32, ack: u32) -> Tcp {
    Tcp { flags, seq, ack, window: 1000, ..Tcp::default() }
}

fn syn(seq: u32) -> Tcp {
    segment(SYN, seq, 0)
}

fn syn_ack(seq: u32, ack: u32) -> Tcp {
    segment(SYN | ACK, seq, ack)
}

fn ack(seq: u32, ack: u32) -> Tcp {
    segment(ACK, seq, ack)
}

fn data(seq: u32, ack: u32, length: usize) -> Tcp {
    Tcp { length, ..segment(ACK | PSH, seq, ack) }
}
