//! A NIC's flow rules as the table that gives hints.
//!
//! Writing a rule takes the driver's time and DPDK's lock, so that workers do not do it: they order it,
//! and the control thread does what was ordered between its other duties ([`Installer::work`]). A rule
//! that a driver refuses, and one that is destroyed, comes back as a mark that is free again.
//!
//! A rule compares what NICs compare: addresses, protocol, ports, one tag. Whatever else a megaflow
//! matches on is left out, so that the NIC may mark packets that do not belong to it; the worker finds
//! that out, and looks them up (SoftFlow, section 6).

use super::HintSource;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use weir_classifier::{Mark, Refusal};
use weir_dpdk::{Headers, MarkError, MarkRule};
use weir_flow::{Field, Key, Mask};
use weir_units::Nanos;

/// Orders that may wait for the control thread.
const ORDERS: usize = 64;

/// A queue of a port: the port's place, and the queue's number.
type Queue = (u16, usize);

enum Order {
    Write { queue: Queue, mark: Mark, spec: Headers, mask: Headers },
    Erase { queue: Queue, mark: Mark },
}

/// A worker's end.
pub(crate) struct Rules {
    queue: Queue,
    orders: SyncSender<Order>,
    gone: Receiver<Mark>,
}

impl Rules {
    fn order(&self, order: Order) -> Result<(), Refusal> {
        self.orders.try_send(order).map_err(|_| Refusal::Busy)
    }
}

impl HintSource for Rules {
    fn is_ready(&self, _: Nanos) -> bool {
        true
    }

    fn write(&mut self, mark: Mark, key: &Key, mask: &Mask, _: Nanos) -> Result<(), Refusal> {
        let spec = headers(|field| field.get(key));
        let mask = headers(|field| field.mask_of(mask));
        self.order(Order::Write { queue: self.queue, mark, spec, mask })
    }

    fn erase(&mut self, mark: Mark, _: Nanos) -> Result<(), Refusal> {
        self.order(Order::Erase { queue: self.queue, mark })
    }

    fn gone(&mut self, _: Nanos) -> Option<Mark> {
        self.gone.try_recv().ok()
    }
}

/// The headers of a key, or of a mask.
fn headers(get: impl Fn(Field) -> u128) -> Headers {
    let mut headers = Headers {
        eth_dst: tail(get(Field::EthDst)),
        eth_src: tail(get(Field::EthSrc)),
        eth_type: tail(get(Field::EthType)),
        // Bit 12 of the field says that there is a tag; on the wire it is another.
        vlan_tci: tail(get(Field::VlanTci) & 0xefff),
        ip_src: get(Field::Ipv6Src).to_be_bytes(),
        ip_dst: get(Field::Ipv6Dst).to_be_bytes(),
        ip_proto: get(Field::NwProto) as u8,
        ip_tos: get(Field::NwTos) as u8,
        tp_src: tail(get(Field::UdpSrc)),
        tp_dst: tail(get(Field::UdpDst)),
    };
    // A key has one family's addresses, and zeros for the other's.
    for (field, place) in [(Field::NwSrc, &mut headers.ip_src), (Field::NwDst, &mut headers.ip_dst)] {
        let four: [u8; 4] = tail(get(field));
        place.iter_mut().zip(four).for_each(|(byte, more)| *byte |= more);
    }
    headers
}

/// The last bytes of a number, the highest first.
fn tail<const N: usize>(value: u128) -> [u8; N] {
    *value.to_be_bytes().last_chunk().expect("a field has no more than 16 bytes")
}

/// The control thread's end.
pub(crate) struct Installer {
    orders: Receiver<Order>,
    ordering: SyncSender<Order>,
    gone: HashMap<Queue, Sender<Mark>>,
    rules: HashMap<(u16, Mark), MarkRule>,
}

impl Default for Installer {
    fn default() -> Self {
        let (ordering, orders) = sync_channel(ORDERS);
        Self { orders, ordering, gone: HashMap::new(), rules: HashMap::new() }
    }
}

impl Installer {
    /// The table of a queue, for the worker that polls it.
    pub(crate) fn table(&mut self, queue: Queue) -> Rules {
        let (sender, gone) = channel();
        self.gone.insert(queue, sender);
        Rules { queue, orders: self.ordering.clone(), gone }
    }

    /// Does what was ordered; `rule` writes one at the port of a place.
    pub(crate) fn work(
        &mut self,
        mut rule: impl FnMut(u16, &Headers, &Headers, Mark) -> Result<MarkRule, MarkError>,
    ) {
        for order in self.orders.try_iter() {
            let (queue, mark) = match order {
                Order::Write { queue, mark, spec, mask } => match rule(queue.0, &spec, &mask, mark) {
                    Ok(rule) => {
                        self.rules.insert((queue.0, mark), rule);
                        continue;
                    }
                    Err(_) => (queue, mark),
                },
                Order::Erase { queue, mark } => {
                    self.rules.remove(&(queue.0, mark));
                    (queue, mark)
                }
            };
            if let Some(gone) = self.gone.get(&queue) {
                // A worker that let go of the queue does not care.
                let _ = gone.send(mark);
            }
        }
    }

    /// Forgets a port before it is closed: rules keep it open.
    pub(crate) fn forget(&mut self, place: u16) {
        self.gone.retain(|queue, _| queue.0 != place);
        self.rules.retain(|(of, _), _| *of != place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_compares_what_the_wire_has_and_leaves_out_what_it_has_not() {
        let (mut key, mut mask) = (Key::new(), Mask::new());
        for (field, value, bits) in [
            (Field::InPort, 3, 0xffff_ffff),
            (Field::EthType, 0x0800, 0xffff),
            (Field::VlanTci, 0x1005, 0x1fff),
            (Field::NwSrc, 0x0a00_0001, 0xffff_ff00),
            (Field::NwProto, 17, 0xff),
            (Field::UdpDst, 53, 0xffff),
        ] {
            field.set(&mut key, value);
            field.examine(&mut mask, bits);
        }
        let spec = headers(|field| field.get(&key));
        let mask = headers(|field| field.mask_of(&mask));
        assert_eq!((spec.eth_type, mask.eth_type, spec.ip_proto), ([8, 0], [0xff; 2], 17));
        assert_eq!((spec.vlan_tci, mask.vlan_tci), ([0, 5], [0x0f, 0xff]));
        assert_eq!((&spec.ip_src[..4], &mask.ip_src[..5]), (&[10, 0, 0, 1][..], &[255, 255, 255, 0, 0][..]));
        assert_eq!((spec.tp_dst, mask.tp_dst, mask.tp_src), ([0, 53], [0xff; 2], [0; 2]));
        assert_eq!((mask.eth_dst, mask.ip_dst), ([0; 6], [0; 16]));
    }

    #[test]
    fn what_a_port_refuses_and_what_is_erased_comes_back_as_free() {
        let mut installer = Installer::default();
        let (mut one, mut other) = (installer.table((1, 0)), installer.table((1, 1)));
        one.write(5, &Key::new(), &Mask::new(), Nanos(0)).unwrap();
        other.erase(9, Nanos(0)).unwrap();
        let mut asked = Vec::new();
        installer.work(|place, _, _, mark| {
            asked.push((place, mark));
            Err(MarkError { port: String::new(), reason: String::new() })
        });
        assert_eq!(asked, [(1, 5)]);
        assert_eq!((one.gone(Nanos(0)), one.gone(Nanos(0)), other.gone(Nanos(0))), (Some(5), None, Some(9)));
        // A control thread that is behind: the worker is told to come again.
        let begun = (0..200).filter(|mark| one.erase(*mark, Nanos(0)).is_ok()).count();
        assert_eq!(begun, ORDERS);
        installer.forget(1);
        installer.work(|_, _, _, _| unreachable!("nothing is to be written"));
        assert_eq!(one.gone(Nanos(0)), None);
    }
}
