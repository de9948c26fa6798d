//! Meters, from text and as text, as `ovs-ofctl add-meter` takes them:
//! `meter=1 kbps burst stats bands=type=drop rate=10 burst_size=5`.

use super::action::{argument, meter};
use super::error::{Fault, Parsed, TextError};
use super::scan::{Pairs, number_u8, number_u32};
use crate::{Band, BandKind, Meter, MeterUnit};
use std::fmt::Write;

/// A band before it is whole.
#[derive(Clone, Copy)]
struct Draft<'a> {
    /// Where it begins, for complaints.
    word: &'a str,
    remarks: bool,
    rate: u32,
    burst: u32,
    level: u8,
}

impl Meter {
    /// Reads a meter.
    ///
    /// # Errors
    ///
    /// The first word that is wrong.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        read(text).map_err(|fault| fault.within(text, None))
    }

    /// The meter as [`Meter::parse`], and `ovs-ofctl add-meter`, read it.
    pub fn text(&self) -> String {
        let unit = match self.unit {
            MeterUnit::KilobitsPerSecond => "kbps",
            MeterUnit::PacketsPerSecond => "pktps",
        };
        let mut out = format!("meter={} {unit}", self.id);
        out.push_str(if self.burst { " burst" } else { "" });
        out.push_str(if self.stats { " stats" } else { "" });
        out.push_str(" bands=");
        for (place, band) in self.bands.iter().enumerate() {
            out.push_str(if place == 0 { "" } else { " " });
            let kind = if band.kind == BandKind::Drop { "drop" } else { "dscp_remark" };
            let _ = write!(out, "type={kind} rate={}", band.rate);
            if self.burst {
                let _ = write!(out, " burst_size={}", band.burst);
            }
            if let BandKind::DscpRemark(level) = band.kind {
                let _ = write!(out, " prec_level={level}");
            }
        }
        out
    }
}

fn read(text: &str) -> Parsed<Meter> {
    let bands = text.find("band").and_then(|at| Some((at, at + text[at..].find('=')? + 1)));
    let Some((head, bands)) = bands else {
        return Err(Fault::new(text, "the meter has no bands").mend("end with bands=type=drop rate=RATE"));
    };
    let (mut id, mut unit, mut burst, mut stats) = (None, None, false, false);
    for pair in Pairs::of(&text[..head]) {
        let wanted = match pair.key {
            "meter" => {
                id = Some(meter(&pair)?);
                continue;
            }
            "kbps" => MeterUnit::KilobitsPerSecond,
            "pktps" => MeterUnit::PacketsPerSecond,
            "burst" => {
                burst = true;
                continue;
            }
            "stats" => {
                stats = true;
                continue;
            }
            _ => {
                return Err(Fault::new(pair.whole, "a meter knows nothing of this name")
                    .meant(pair.key, ["meter", "kbps", "pktps", "burst", "stats", "bands"]));
            }
        };
        if unit.is_some_and(|unit| unit != wanted) {
            return Err(
                Fault::new(pair.whole, "a meter counts one thing").mend("write kbps or pktps, not both")
            );
        }
        unit = Some(wanted);
    }
    let missing =
        |what: &str, advice: &str| Fault::new(text, format!("the meter has no {what}")).mend(advice);
    Ok(Meter {
        id: id.ok_or_else(|| missing("number", "write meter=NUMBER"))?,
        unit: unit.ok_or_else(|| missing("unit", "write kbps or pktps"))?,
        burst,
        stats,
        bands: read_bands(&text[bands..], burst)?,
    })
}

fn read_bands(text: &str, burst: bool) -> Parsed<Vec<Band>> {
    let mut drafts: Vec<Draft<'_>> = Vec::new();
    for pair in Pairs::of(text) {
        let value = argument(&pair)?;
        if pair.key == "type" {
            let remarks = match value {
                "drop" => false,
                "dscp_remark" => true,
                _ => {
                    return Err(
                        Fault::new(value, "no kind of band has this name").mend("write drop or dscp_remark")
                    );
                }
            };
            drafts.push(Draft { word: pair.whole, remarks, rate: 0, burst: 0, level: 0 });
            continue;
        }
        let Some(band) = drafts.last_mut() else {
            return Err(
                Fault::new(pair.whole, "a band begins with its type").mend("write type=drop in front")
            );
        };
        match pair.key {
            "rate" => band.rate = number_u32(value)?,
            "burst_size" => band.burst = number_u32(value)?,
            "prec_level" => band.level = number_u8(value)?,
            _ => {
                return Err(Fault::new(pair.whole, "a band knows nothing of this name")
                    .meant(pair.key, ["type", "rate", "burst_size", "prec_level"]));
            }
        }
    }
    if drafts.is_empty() {
        return Err(Fault::new(text, "the meter has no bands").mend("write bands=type=drop rate=RATE"));
    }
    drafts.into_iter().map(|draft| draft.band(burst)).collect()
}

impl Draft<'_> {
    fn band(self, bursts: bool) -> Parsed<Band> {
        let Self { word, remarks, rate, burst, level } = self;
        let wrong = |what: &str, advice: &str| Err(Fault::new(word, what).mend(advice));
        match (remarks, level) {
            (true, 0) => return wrong("the band lowers nothing", "add prec_level=LEVEL"),
            (false, 1..) => return wrong("only dscp_remark has prec_level", "leave it out"),
            _ => {}
        }
        match (bursts, burst) {
            (true, 0) => return wrong("the meter has bursts, the band has none", "add burst_size=SIZE"),
            (false, 1..) => {
                return wrong("the band has bursts, the meter has none", "add `burst` before the bands");
            }
            _ => {}
        }
        if rate == 0 {
            return wrong("the band has no rate", "add rate=RATE");
        }
        let kind = if remarks { BandKind::DscpRemark(level) } else { BandKind::Drop };
        Ok(Band { kind, rate, burst })
    }
}
