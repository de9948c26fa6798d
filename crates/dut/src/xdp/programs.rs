//! Network functions as programs for the kernel, one a port.
//!
//! What leaves is handed to the other interface's driver (`bpf_redirect`); what is dropped ends here. A router looks up
//! the longest prefix in a table of the kernel's; a filter's rules are the program's own instructions, one rule after
//! the other. Fields are read from the packet anew for each rule: what the kernel's verifier would learn about a value
//! from one rule would make it look at the next rule once more.

use super::assembly::{Assembly, FRAME, If, Label, R0, R1, R2, R3, R4, R6, R7, R8, R9, Reg, Size};
use weir_wire::table::{Action, Ipv4Prefix, Ports, Rule, has_ports};

/// Functions of the kernel.
const LOOK_UP: i32 = 1;
const REDIRECT: i32 = 23;

/// What a program returns for a packet that is to be dropped.
const DROP: i32 = 1;

/// Where fields are in a frame.
const ETHERTYPE: i16 = 12;
const VERSION: i16 = 14;
const FRAGMENT: i16 = 20;
const TTL: i16 = 22;
const PROTOCOL: i16 = 23;
const CHECKSUM: i16 = 24;
const SOURCE: i16 = 26;
const DESTINATION: i16 = 30;
/// Bytes of the Ethernet header and of the least IPv4 header.
const HEADERS: i32 = 34;
const ETHERNET: i32 = 14;

/// IPv4's EtherType as a little-endian machine reads it.
const IPV4: i32 = 0x0008;

/// A route's value: interface, destination address, source address.
pub(super) const ROUTE: usize = 16;

/// The value of a route.
pub(super) fn route(interface: u32, destination: [u8; 6], source: [u8; 6]) -> [u8; ROUTE] {
    let mut value = [0; ROUTE];
    value[..4].copy_from_slice(&interface.to_le_bytes());
    value[4..10].copy_from_slice(&destination);
    value[10..].copy_from_slice(&source);
    value
}

/// Everything out of another interface.
pub(super) fn forward(to: u32) -> Result<Vec<[u8; 8]>, String> {
    let mut code = Assembly::default();
    redirect(&mut code, to);
    code.done()
}

/// Routes: the table's entries are of [`route`].
pub(super) fn router(table: i32) -> Result<Vec<[u8; 8]>, String> {
    let mut code = Assembly::default();
    let drop = code.label();
    ipv4(&mut code, drop);
    code.load(Size::Byte, R8, R7, TTL);
    code.jump_if(R8, If::Less, 2, drop);
    // The key: all 32 bits of the destination.
    code.set(R1, 32);
    code.store(Size::Word, FRAME, -8, R1);
    code.load(Size::Word, R1, R7, DESTINATION);
    code.store(Size::Word, FRAME, -4, R1);
    code.table(R1, table);
    code.copy(R2, FRAME);
    code.add(R2, -8);
    code.call(LOOK_UP);
    code.jump_if(R0, If::Equal, 0, drop);
    code.add(R8, -1);
    code.store(Size::Byte, R7, TTL, R8);
    // The checksum's way (RFC 1624), the TTL being the higher byte of its word.
    let whole = code.label();
    code.load(Size::Half, R1, R7, CHECKSUM);
    code.add(R1, 1);
    code.jump_if(R1, If::Less, 0xffff, whole);
    code.add(R1, 1);
    code.put(whole);
    code.store(Size::Half, R7, CHECKSUM, R1);
    for (size, from, to) in [(Size::Word, 4, 0), (Size::Half, 8, 4), (Size::Half, 10, 6), (Size::Word, 12, 8)]
    {
        code.load(size, R1, R0, from);
        code.store(size, R7, to, R1);
    }
    code.load(Size::Word, R1, R0, 0);
    code.set(R2, 0);
    code.call(REDIRECT);
    code.exit();
    dropped(&mut code, drop);
    code.done()
}

/// The first rule that matches decides; what none does is dropped, as is what is not IPv4.
pub(super) fn filter(rules: &[Rule], to: u32) -> Result<Vec<[u8; 8]>, String> {
    let mut code = Assembly::default();
    let drop = code.label();
    ipv4(&mut code, drop);
    let begin = code.label();
    // The end of this label's jumps is near; that of the rules is not.
    let over = code.label();
    code.jump_if(R7, If::NotEqual, 0, over);
    dropped(&mut code, drop);
    code.put(over);
    find_ports(&mut code, begin);
    code.put(begin);
    for rule in rules {
        let next = code.label();
        conditions(&mut code, rule, next);
        match rule.action {
            Action::Allow => redirect(&mut code, to),
            Action::Deny => {
                code.set(R0, DROP);
                code.exit();
            }
        }
        code.put(next);
        if always(rule) {
            // Nothing comes behind it, and the kernel takes no instruction that is never reached.
            return code.done();
        }
    }
    code.set(R0, DROP);
    code.exit();
    code.done()
}

/// Whether a rule asks nothing of a packet.
fn always(rule: &Rule) -> bool {
    Rule { action: rule.action, ..Rule::ALLOW_ALL } == *rule
}

/// The packet in [`R7`], its end in [`R3`]; to `drop` with what is not IPv4.
fn ipv4(code: &mut Assembly, drop: Label) {
    code.load(Size::Word, R7, R1, 0);
    code.load(Size::Word, R3, R1, 4);
    code.copy(R2, R7);
    code.add(R2, HEADERS);
    code.jump_if_reg(R2, If::Greater, R3, drop);
    code.load(Size::Half, R1, R7, ETHERTYPE);
    code.jump_if(R1, If::NotEqual, IPV4, drop);
    code.load(Size::Byte, R1, R7, VERSION);
    code.right(R1, 4);
    code.jump_if(R1, If::NotEqual, 4, drop);
}

/// The packet's ports behind [`R9`] where [`R8`] is 1; it is 0 where it has none.
fn find_ports(code: &mut Assembly, none: Label) {
    code.set(R8, 0);
    // A later fragment has none.
    code.load(Size::Half, R1, R7, FRAGMENT);
    code.swap(R1, 16);
    code.and(R1, 0x1fff);
    code.jump_if(R1, If::NotEqual, 0, none);
    let found = code.label();
    code.load(Size::Byte, R1, R7, PROTOCOL);
    for protocol in (0..=u8::MAX).filter(|protocol| has_ports(*protocol)) {
        code.jump_if(R1, If::Equal, i32::from(protocol), found);
    }
    code.set(R6, 0);
    code.jump_if(R6, If::Equal, 0, none);
    code.put(found);
    code.load(Size::Byte, R1, R7, VERSION);
    code.and(R1, 0x0f);
    code.left(R1, 2);
    code.copy(R9, R7);
    code.add_to(R9, R1);
    code.add(R9, ETHERNET);
    code.copy(R4, R9);
    code.add(R4, 4);
    code.jump_if_reg(R4, If::Greater, R3, none);
    code.set(R8, 1);
}

/// To `next` where a condition of the rule does not hold.
fn conditions(code: &mut Assembly, rule: &Rule, next: Label) {
    if let Some(protocol) = rule.protocol {
        code.load(Size::Byte, R1, R7, PROTOCOL);
        code.jump_if(R1, If::NotEqual, i32::from(protocol), next);
    }
    for (prefix, at) in [(rule.source, SOURCE), (rule.destination, DESTINATION)] {
        within(code, prefix, at, next);
    }
    if [rule.source_ports, rule.destination_ports] != [Ports::Any; 2] {
        code.jump_if(R8, If::Equal, 0, next);
    }
    for (ports, at) in [(rule.source_ports, 0), (rule.destination_ports, 2)] {
        let Ports::Range { first, last } = ports else { continue };
        code.load(Size::Half, R1, R9, at);
        code.swap(R1, 16);
        if first > 0 {
            code.jump_if(R1, If::Less, i32::from(first), next);
        }
        if last < u16::MAX {
            code.jump_if(R1, If::Greater, i32::from(last), next);
        }
    }
}

/// To `next` where an address is not of the prefix.
fn within(code: &mut Assembly, prefix: Ipv4Prefix, at: i16, next: Label) {
    if prefix.bits() == 0 {
        return;
    }
    code.load(Size::Word, R1, R7, at);
    code.swap(R1, 32);
    let (shift, address) = (32 - i32::from(prefix.bits()), prefix.address().to_bits());
    code.right(R1, shift);
    // Numbers in instructions have a sign: one that has the highest bit is compared in a register.
    match i32::try_from(address >> shift) {
        Ok(number) => code.jump_if(R1, If::NotEqual, number, next),
        Err(_) => {
            code.set(R2, (address >> shift) as i32);
            code.left(R2, 32);
            code.right(R2, 32);
            code.jump_if_reg(R1, If::NotEqual, R2, next);
        }
    }
}

/// Out of an interface.
fn redirect(code: &mut Assembly, to: u32) {
    code.set(R1, to as i32);
    code.set(R2, 0);
    code.call(REDIRECT);
    code.exit();
}

/// What jumps here is dropped.
fn dropped(code: &mut Assembly, here: Label) {
    let unused: Reg = R0;
    code.put(here);
    code.set(unused, DROP);
    code.exit();
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_trial::Nf;

    #[test]
    fn a_rule_costs_instructions_for_what_it_asks_alone() {
        let count = |rule: &str| filter(&[rule.parse().unwrap()], 7).unwrap().len();
        let none = filter(&[], 7).unwrap().len();
        assert_eq!(count("deny any any any any any"), none, "it stands for the end");
        assert_eq!(count("deny udp any any any any") - none, 4);
        assert_eq!(count("allow any 198.18.0.0/15 any any any") - none, 8);
        assert_eq!(count("deny any any any any 53") - none, 7);
    }

    #[test]
    fn every_function_can_be_said() {
        assert_eq!(forward(7).unwrap().len(), 4);
        assert!(filter(&Nf::Firewall { rules: 1000 }.rules(), 7).unwrap().len() < 30_000);
        assert!(router(3).is_ok());
        assert_eq!(route(258, [1; 6], [2; 6]), [2, 1, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }
}
