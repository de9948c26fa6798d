//! Tables: what configures them, what tells of them.

use crate::Version;
use crate::field::{EXPERIMENTER, row_for};
use weir_flow::Field;
use weir_openflow::TableId;

/// A table is configured (OpenFlow 1.3.5, section 7.3.3; 1.4.1, section 7.3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMod {
    /// Which; none for all.
    pub table: Option<TableId>,
    /// Bits: [`TableConfig::EVICTION`] and so on. Nothing is meant by them until OpenFlow 1.3.
    pub config: TableConfig,
}

/// How a table is configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableConfig {
    /// Bits: [`TableConfig::EVICTION`] and so on.
    pub flags: u32,
    /// By what entries are evicted: 1 other, 2 importance, 4 lifetime. OpenFlow 1.4.
    pub eviction: Option<u32>,
    /// When the controller is told how full the table is. OpenFlow 1.4.
    pub vacancy: Option<Vacancy>,
}

impl TableConfig {
    /// Entries may go to make room for others.
    pub const EVICTION: u32 = 1 << 2;
    /// The controller is told how full the table is.
    pub const VACANCY_EVENTS: u32 = 1 << 3;
}

/// Shares of a table that are free, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vacancy {
    /// Below this, the controller is told.
    pub down: u8,
    /// Above this, again.
    pub up: u8,
    /// Now; 0 in requests.
    pub now: u8,
}

/// A table's configuration (OpenFlow 1.4.1, section 7.3.5.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableDesc {
    /// Which.
    pub table: TableId,
    /// How it is configured.
    pub config: TableConfig,
}

/// A table's counters (OpenFlow 1.3.5, section 7.3.5.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// Which.
    pub table: TableId,
    /// Its name. OpenFlow 1.0 only.
    pub name: String,
    /// Bits that entries may leave open (`ofp10_flow_wildcards`). OpenFlow 1.0 only.
    pub wildcards: u32,
    /// The most entries. OpenFlow 1.0 only.
    pub most: u32,
    /// Entries now.
    pub active: u32,
    /// Packets looked up.
    pub lookups: u64,
    /// Packets that matched an entry.
    pub matched: u64,
}

/// What a table can do (section 7.3.5.5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFeatures {
    /// Which.
    pub table: TableId,
    /// What is asked (OpenFlow 1.5): 0 replace, 1 modify, 2 enable, 3 disable.
    pub command: u8,
    /// Features (OpenFlow 1.5): 1 ingress, 2 egress, 16 first egress.
    pub features: u32,
    /// Its name.
    pub name: String,
    /// Bits of the metadata that can be matched.
    pub metadata_match: u64,
    /// Bits of the metadata that can be written.
    pub metadata_write: u64,
    /// Its configuration.
    pub config: u32,
    /// The most entries.
    pub most: u32,
    /// All that it can.
    pub properties: Vec<TableProperty>,
}

/// An instruction or action that a table can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FeatureId {
    /// Its number; 0xffff for an experimenter's.
    pub kind: u16,
    /// The experimenter's number.
    pub experimenter: Option<u32>,
}

/// A field that a table can match or set, as an OXM header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OxmId {
    /// The header, with the bit for masks and the length of the value.
    pub header: u32,
    /// The experimenter's number, where the header's class is 0xffff.
    pub experimenter: Option<u32>,
}

impl OxmId {
    /// A field as a version writes it; with the bit for masks if it can have one.
    pub fn of(field: Field, version: Version) -> Self {
        let row = row_for(field, version);
        let experimenter = (row.class == EXPERIMENTER).then_some(row.experimenter);
        Self { header: row.header(field.about().maskable), experimenter }
    }
}

/// Something that a table can; `miss` says that it is so for the table-miss entry only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableProperty {
    /// Instructions.
    Instructions {
        /// For table misses.
        miss: bool,
        /// Which.
        ids: Vec<FeatureId>,
    },
    /// Tables that can follow.
    NextTables {
        /// For table misses.
        miss: bool,
        /// Which.
        tables: Vec<TableId>,
    },
    /// Tables that this one is synchronised from (OpenFlow 1.4).
    SyncFrom(Vec<TableId>),
    /// Actions of the action set.
    WriteActions {
        /// For table misses.
        miss: bool,
        /// Which.
        ids: Vec<FeatureId>,
    },
    /// Actions done at once.
    ApplyActions {
        /// For table misses.
        miss: bool,
        /// Which.
        ids: Vec<FeatureId>,
    },
    /// Fields that can be matched.
    Match(Vec<OxmId>),
    /// Fields that can be left out.
    Wildcards(Vec<OxmId>),
    /// Fields that the action set can set.
    WriteSetField {
        /// For table misses.
        miss: bool,
        /// Which.
        ids: Vec<OxmId>,
    },
    /// Fields that can be set at once.
    ApplySetField {
        /// For table misses.
        miss: bool,
        /// Which.
        ids: Vec<OxmId>,
    },
    /// Fields that the action set can copy (OpenFlow 1.5).
    WriteCopyField {
        /// For table misses.
        miss: bool,
        /// Which.
        ids: Vec<OxmId>,
    },
    /// Fields that can be copied at once (OpenFlow 1.5).
    ApplyCopyField {
        /// For table misses.
        miss: bool,
        /// Which.
        ids: Vec<OxmId>,
    },
    /// Something else that the codec hands through: its number and contents.
    Other {
        /// Its number.
        kind: u16,
        /// What is in it.
        contents: Vec<u8>,
    },
}
