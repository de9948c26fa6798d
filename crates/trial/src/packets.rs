//! Whether the right packets came out: each compared with what the network function must produce.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What can be wrong with a packet that came out, or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The source or destination MAC address is not what the function must write.
    Macs,
    /// The time to live was not lowered by one, or was changed where it must not be.
    Ttl,
    /// The IPv4 header's checksum does not hold.
    Checksum,
    /// Another header field was changed.
    Header,
    /// The payload was changed.
    Payload,
    /// The packet grew or shrank.
    Length,
    /// It left by another port than the function says.
    Port,
    /// A rule denies it, and it came out.
    Denied,
    /// It must come out, and did not (untimed pass only: under load a packet may be lost).
    Missing,
    /// It came more than once.
    Duplicate,
    /// It overtook an earlier packet of its own flow.
    Order,
    /// It is a packet of an earlier trial.
    Stale,
    /// The tester never sent it.
    Foreign,
    /// The device counts other packets than came out (`fed` only).
    Counter,
}

impl Fault {
    /// Every fault, in the order of the tables people read.
    pub const ALL: [Self; 14] = [
        Self::Macs,
        Self::Ttl,
        Self::Checksum,
        Self::Header,
        Self::Payload,
        Self::Length,
        Self::Port,
        Self::Denied,
        Self::Missing,
        Self::Duplicate,
        Self::Order,
        Self::Stale,
        Self::Foreign,
        Self::Counter,
    ];

    /// What it is, in a few words.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Macs => "wrong MAC address",
            Self::Ttl => "wrong time to live",
            Self::Checksum => "broken IPv4 checksum",
            Self::Header => "changed header",
            Self::Payload => "changed payload",
            Self::Length => "changed length",
            Self::Port => "wrong port",
            Self::Denied => "denied, but let through",
            Self::Missing => "missing",
            Self::Duplicate => "came twice",
            Self::Order => "overtook its own flow",
            Self::Stale => "an old packet again",
            Self::Foreign => "never sent",
            Self::Counter => "a counter that is not right",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.says())
    }
}

/// Packets with one fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrongPackets {
    /// What is wrong.
    pub fault: Fault,
    /// How many.
    pub count: u64,
    /// The first of them, said so that it can be found: flow, what must be there, what was.
    pub example: String,
}

/// What comparing packets with what the function must produce came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PacketCheck {
    /// Packets compared: those that came out, and in an untimed pass those that must not or did not.
    pub compared: u64,
    /// Faults, each kind once; empty when all was right.
    pub wrong: Vec<WrongPackets>,
    /// What was not compared, and why; nothing when all that could be was.
    pub remark: Option<String>,
    /// What the lab's own sink counted of a device that feeds itself; nothing over other wirings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
}

/// What the lab's own sink counted of a device that feeds itself (`fed`), beside the device's own counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Packets that came to the sink.
    pub counted: u64,
    /// Packets that the device says it sent in that time.
    pub device: u64,
    /// Packets by which the two may differ, as they are not read at one moment.
    pub resolution: u64,
    /// Packets a second with the sink, which costs the device some; the rate that counts is without it.
    pub rate: u64,
    /// Packets that were compared, by the port that they left by.
    #[serde(default)]
    pub by_port: Vec<u64>,
}

/// `5,012,345 packets came to the lab's sink, the device says 5,012,300 (± 20,000 by the moments of reading), at 4.9 Mpps`.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [counted, device, resolution] = [self.counted, self.device, self.resolution].map(grouped);
        write!(
            f,
            "{counted} packets came to the lab's sink where the device says {device} (they are read up to \
             {resolution} packets apart), at {:.3} Mpps with that sink",
            self.rate as f64 / 1e6
        )
    }
}

impl PacketCheck {
    /// Notes a packet's fault; the first of its kind becomes the example.
    pub fn note(&mut self, fault: Fault, example: impl FnOnce() -> String) {
        match self.wrong.iter_mut().find(|wrong| wrong.fault == fault) {
            Some(wrong) => wrong.count += 1,
            None => self.wrong.push(WrongPackets { fault, count: 1, example: example() }),
        }
    }

    /// Adds a sentence about what was not compared.
    pub fn remark(&mut self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        match &mut self.remark {
            Some(remark) => remark.push_str(&format!("; {sentence}")),
            None => self.remark = Some(sentence),
        }
    }

    /// Adds another check's findings to this one.
    pub fn merge(&mut self, other: Self) {
        self.compared += other.compared;
        for wrong in other.wrong {
            match self.wrong.iter_mut().find(|known| known.fault == wrong.fault) {
                Some(known) => known.count += wrong.count,
                None => self.wrong.push(wrong),
            }
        }
        if let Some(remark) = other.remark.filter(|remark| self.remark.as_ref() != Some(remark)) {
            self.remark(remark);
        }
        self.audit = other.audit.or(self.audit.take());
    }

    /// Whether nothing was wrong. A check that compared nothing finds nothing.
    pub fn is_right(&self) -> bool {
        self.wrong.is_empty()
    }
}

/// `12,345 compared, all right`, or the faults with an example of each; remarks in parentheses.
impl fmt::Display for PacketCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} compared", grouped(self.compared))?;
        if self.is_right() {
            f.write_str(", all right")?;
        }
        for (place, wrong) in self.wrong.iter().enumerate() {
            let between = if place == 0 { ", " } else { "; " };
            let (count, fault, example) = (grouped(wrong.count), wrong.fault, &wrong.example);
            write!(f, "{between}{count} {fault}, for one {example}")?;
        }
        self.audit.as_ref().map_or(Ok(()), |audit| write!(f, "; {audit}"))?;
        self.remark.as_ref().map_or(Ok(()), |remark| write!(f, " ({remark})"))
    }
}

/// A count with a comma before every third digit from the right.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_said_in_a_line() {
        let mut check = PacketCheck { compared: 1_234_567, ..PacketCheck::default() };
        assert_eq!(check.to_string(), "1,234,567 compared, all right");
        check.note(Fault::Ttl, || "flow a: 64".to_owned());
        check.note(Fault::Ttl, || "flow b: 64".to_owned());
        check.remark("the trace is longer");
        check.merge(PacketCheck {
            compared: 3,
            remark: Some("and so on".to_owned()),
            ..PacketCheck::default()
        });
        assert_eq!(
            check.to_string(),
            "1,234,570 compared, 2 wrong time to live, for one flow a: 64 (the trace is longer; and so on)"
        );
    }
}
