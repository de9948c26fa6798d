//! Errors by name, and their numbers in each version.
//!
//! OpenFlow 1.0 has fewer errors than later versions, and 1.3 fewer than 1.4. Where a version has none
//! for a name, the one is used that Open vSwitch uses: Nicira's experimenter errors, and ONF's.

use crate::{NICIRA, ONF, Version};

/// How an error is numbered on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorNumber {
    /// OpenFlow's own type and code.
    Standard {
        /// The type (`OFPET_`).
        kind: u16,
        /// The code.
        code: u16,
    },
    /// An experimenter's (OpenFlow 1.2 and later, type 0xffff).
    Experimenter {
        /// Whose.
        id: u32,
        /// Its number.
        kind: u16,
    },
    /// An experimenter's in OpenFlow 1.0, as Nicira numbers them (type 0xb0c2, code 0).
    Vendor {
        /// Whose.
        id: u32,
        /// Its type.
        kind: u16,
        /// Its code.
        code: u16,
    },
}

const fn of(kind: u16, code: u16) -> ErrorNumber {
    ErrorNumber::Standard { kind, code }
}

const fn nx10(kind: u16, code: u16) -> ErrorNumber {
    ErrorNumber::Vendor { id: NICIRA, kind, code }
}

const fn onf(kind: u16) -> ErrorNumber {
    ErrorNumber::Experimenter { id: ONF, kind }
}

const fn nx(kind: u16) -> ErrorNumber {
    ErrorNumber::Experimenter { id: NICIRA, kind }
}

/// An error that OpenFlow 1.0 cannot say.
const NONE10: ErrorNumber = nx10(1, 521);
/// An error that a later version cannot say.
const NONE: ErrorNumber = nx(10);

/// Numbers in 1.0, 1.3, 1.4, 1.5.
type Numbers = [ErrorNumber; 4];

const fn all(kind: u16, code: u16) -> Numbers {
    [of(kind, code); 4]
}

const fn but10(ten: ErrorNumber, kind: u16, code: u16) -> Numbers {
    [ten, of(kind, code), of(kind, code), of(kind, code)]
}

const fn late(kind: u16, code: u16) -> Numbers {
    but10(NONE10, kind, code)
}

const fn since14(thirteen: ErrorNumber, kind: u16, code: u16) -> Numbers {
    [NONE10, thirteen, of(kind, code), of(kind, code)]
}

const fn nicira(ten: ErrorNumber, kind: u16) -> Numbers {
    [ten, nx(kind), nx(kind), nx(kind)]
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $name:ident = $numbers:expr;)*) => {
        /// What is wrong, independent of the version.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code {
            $($(#[doc = $doc])* $name,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            const fn numbers(self) -> &'static Numbers {
                match self {
                    $(Self::$name => const { &$numbers },)*
                }
            }
        }
    };
}

codes! {
    /// No version in common.
    HelloIncompatible = all(0, 0);
    /// The header's version is not the one agreed on.
    BadVersion = all(1, 0);
    /// Unknown message.
    BadType = all(1, 1);
    /// Unknown multipart (statistics).
    BadMultipart = all(1, 2);
    /// Unknown experimenter of a message.
    BadExperimenter = all(1, 3);
    /// Unknown message of an experimenter.
    BadExperimenterType = all(1, 4);
    /// The sender may not do this.
    NotPermitted = all(1, 5);
    /// A message's length is wrong.
    BadLength = all(1, 6);
    /// The buffer was used already.
    BufferEmpty = all(1, 7);
    /// There is no such buffer.
    BufferUnknown = all(1, 8);
    /// There is no such table.
    BadTable = but10(nx10(1, 512), 1, 9);
    /// A secondary controller may only read.
    IsSecondary = but10(of(1, 5), 1, 10);
    /// There is no such port.
    BadPort = but10(nx10(1, 514), 1, 11);
    /// The packet of a packet-out is malformed.
    BadPacket = late(1, 12);
    /// A request of several parts is too long.
    MultipartOverflow = late(1, 13);
    /// Bytes that must be zero are not.
    MustBeZero = nicira(nx10(1, 515), 4);
    /// A Nicira match is malformed.
    NxmInvalid = nicira(nx10(1, 256), 2);
    /// Unknown action.
    ActionType = all(2, 0);
    /// An action's length is wrong.
    ActionLength = all(2, 1);
    /// Unknown experimenter of an action.
    ActionExperimenter = all(2, 2);
    /// Unknown action of an experimenter.
    ActionExperimenterType = all(2, 3);
    /// Nothing can be sent to this port.
    ActionPort = all(2, 4);
    /// An argument of an action is wrong.
    ActionArgument = all(2, 5);
    /// More actions than can be done.
    ActionTooMany = all(2, 7);
    /// There is no such queue.
    ActionQueue = all(2, 8);
    /// There is no such group.
    ActionGroup = but10(nx10(2, 9), 2, 9);
    /// Packets of this match do not have what the action needs.
    ActionInconsistent = but10(nx10(1, 522), 2, 10);
    /// The actions cannot be done in this order.
    ActionOrder = late(2, 11);
    /// An unsupported tag.
    ActionTag = late(2, 12);
    /// An unknown field is set.
    ActionFieldType = but10(nx10(1, 523), 2, 13);
    /// A field is set with a wrong length.
    ActionFieldLength = but10(nx10(1, 524), 2, 14);
    /// A field is set to an impossible value, or cannot be set.
    ActionFieldValue = but10(nx10(1, 525), 2, 15);
    /// A field is set with a mask where none can stand.
    ActionFieldMask = [NONE10, onf(4250), onf(4250), of(2, 16)];
    /// There is no such meter.
    ActionMeter = [NONE10, of(12, 2), of(12, 2), of(2, 17)];
    /// Bytes of an action that must be zero are not.
    ActionMustBeZero = nicira(nx10(2, 256), 11);
    /// Conjunctions are wrong here.
    ActionConjunction = nicira(nx10(2, 526), 15);
    /// Connections are not tracked in this way.
    ActionConntrack = nicira(nx10(1, 265), 42);
    /// Unknown instruction.
    InstructionUnknown = late(3, 0);
    /// Unsupported instruction.
    InstructionUnsupported = but10(nx10(2, 257), 3, 1);
    /// There is no such table to go to.
    InstructionTable = late(3, 2);
    /// Unsupported metadata.
    InstructionMetadata = late(3, 3);
    /// Unsupported mask of the metadata.
    InstructionMetadataMask = late(3, 4);
    /// Unknown experimenter of an instruction.
    InstructionExperimenter = late(3, 5);
    /// An instruction's length is wrong.
    InstructionLength = late(3, 7);
    /// An instruction is there twice.
    InstructionTwice = since14(onf(2600), 3, 9);
    /// Unknown kind of match.
    MatchType = late(4, 0);
    /// A match's length is wrong.
    MatchLength = late(4, 1);
    /// Bits of a value are set that its mask does not name.
    MatchWildcards = but10(nx10(1, 262), 4, 5);
    /// Unknown field.
    MatchField = but10(nx10(0, 263), 4, 6);
    /// An impossible value.
    MatchValue = but10(nx10(1, 258), 4, 7);
    /// An impossible mask.
    MatchMask = but10(nx10(1, 259), 4, 8);
    /// What a field needs is not matched before it.
    MatchPrerequisite = but10(nx10(1, 260), 4, 9);
    /// A field is there twice.
    MatchTwice = but10(nx10(1, 261), 4, 10);
    /// The flow could not be added or changed.
    FlowUnknown = late(5, 0);
    /// The table is full.
    FlowTableFull = but10(of(3, 0), 5, 1);
    /// There is no such table.
    FlowTable = but10(nx10(1, 512), 5, 2);
    /// The flow overlaps another.
    FlowOverlap = but10(of(3, 1), 5, 3);
    /// The flow may not be changed.
    FlowNotPermitted = but10(of(3, 2), 5, 4);
    /// Unsupported timeouts.
    FlowTimeout = late(5, 5);
    /// Unknown command.
    FlowCommand = but10(of(3, 4), 5, 6);
    /// Unknown flags.
    FlowFlags = but10(nx10(3, 258), 5, 7);
    /// The group exists.
    GroupExists = but10(nx10(6, 0), 6, 0);
    /// An impossible group.
    GroupInvalid = but10(nx10(6, 1), 6, 1);
    /// Weights must be equal.
    GroupWeight = but10(nx10(6, 2), 6, 2);
    /// No more groups.
    GroupsExhausted = but10(nx10(6, 3), 6, 3);
    /// No more buckets.
    GroupBuckets = but10(nx10(6, 4), 6, 4);
    /// Groups cannot lead to groups.
    GroupChaining = but10(nx10(6, 5), 6, 5);
    /// This cannot be watched.
    GroupWatchUnsupported = but10(nx10(6, 6), 6, 6);
    /// Groups would lead in a circle.
    GroupLoop = but10(nx10(6, 7), 6, 7);
    /// There is no such group.
    GroupUnknown = but10(nx10(6, 8), 6, 8);
    /// Another group leads to it.
    GroupChained = but10(nx10(6, 9), 6, 9);
    /// Unknown kind of group.
    GroupType = but10(nx10(6, 10), 6, 10);
    /// Unknown command.
    GroupCommand = but10(nx10(6, 11), 6, 11);
    /// A bucket is malformed.
    GroupBucket = but10(nx10(6, 12), 6, 12);
    /// What is watched is not there.
    GroupWatch = but10(nx10(6, 13), 6, 13);
    /// There is no such bucket.
    GroupBucketUnknown = [nx10(6, 15), NONE, NONE, of(6, 15)];
    /// The bucket exists.
    GroupBucketExists = [nx10(6, 16), NONE, NONE, of(6, 16)];
    /// There is no such port.
    PortBad = but10(of(4, 0), 7, 0);
    /// The address is another port's.
    PortAddress = but10(of(4, 1), 7, 1);
    /// The port cannot be configured so.
    PortConfig = late(7, 2);
    /// The port cannot advertise this.
    PortAdvertise = late(7, 3);
    /// There is no such table.
    TableBad = late(8, 0);
    /// The table cannot be configured so.
    TableConfig = late(8, 1);
    /// There is no such port.
    QueuePort = but10(of(5, 0), 9, 0);
    /// There is no such queue.
    QueueBad = but10(of(5, 1), 9, 1);
    /// Unknown flags of the switch's configuration.
    ConfigFlags = late(10, 0);
    /// A miss cannot send so many bytes.
    ConfigLength = late(10, 1);
    /// An old generation.
    RoleStale = late(11, 0);
    /// The role cannot be changed.
    RoleUnsupported = late(11, 1);
    /// Unknown role.
    RoleBad = but10(nx10(1, 513), 11, 2);
    /// The meter could not be added or changed.
    MeterUnknownError = late(12, 0);
    /// The meter exists.
    MeterExists = late(12, 1);
    /// An impossible meter.
    MeterInvalid = late(12, 2);
    /// There is no such meter.
    MeterUnknown = late(12, 3);
    /// Unknown command.
    MeterCommand = late(12, 4);
    /// Unsupported flags.
    MeterFlags = late(12, 5);
    /// Unsupported rate.
    MeterRate = late(12, 6);
    /// Unsupported burst.
    MeterBurst = late(12, 7);
    /// Unknown band.
    MeterBand = late(12, 8);
    /// Unsupported argument of a band.
    MeterBandValue = late(12, 9);
    /// No more meters.
    MetersExhausted = late(12, 10);
    /// No more bands.
    MeterBands = late(12, 11);
    /// There is no such table.
    FeaturesTable = late(13, 0);
    /// Table features cannot be set.
    FeaturesNotPermitted = late(13, 5);
    /// Unknown property.
    PropertyType = [nx10(13, 2), of(13, 2), of(14, 0), of(14, 0)];
    /// A property's length is wrong.
    PropertyLength = [nx10(13, 3), of(13, 3), of(14, 1), of(14, 1)];
    /// Unsupported value of a property.
    PropertyValue = [nx10(13, 4), of(13, 4), of(14, 2), of(14, 2)];
    /// A property is there twice.
    PropertyTwice = since14(onf(4444), 14, 4);
    /// Unknown experimenter of a property.
    PropertyExperimenter = [nx10(14, 5), onf(4445), of(14, 5), of(14, 5)];
    /// A mask of asynchronous messages is impossible.
    AsyncInvalid = since14(onf(2370), 15, 0);
    /// These asynchronous messages cannot be configured.
    AsyncUnsupported = since14(onf(2371), 15, 1);
    /// The monitor exists.
    MonitorExists = [nx10(1, 517), nx(6), of(16, 1), of(16, 1)];
    /// There is no such monitor.
    MonitorUnknown = [nx10(1, 519), nx(8), of(16, 3), of(16, 3)];
    /// Unknown command.
    MonitorCommand = [NONE10, NONE, of(16, 4), of(16, 4)];
    /// Unsupported flags.
    MonitorFlags = [nx10(1, 518), nx(7), of(16, 5), of(16, 5)];
    /// The bundle could not be done.
    BundleUnknownError = since14(onf(2300), 17, 0);
    /// There is no such bundle.
    BundleUnknown = since14(onf(2302), 17, 2);
    /// The bundle exists.
    BundleExists = since14(onf(2303), 17, 3);
    /// The bundle is closed.
    BundleClosed = since14(onf(2304), 17, 4);
    /// No more bundles.
    BundlesExhausted = since14(onf(2305), 17, 5);
    /// Unknown control message.
    BundleType = since14(onf(2306), 17, 6);
    /// Flags differ from those it was opened with, or are unknown.
    BundleFlags = since14(onf(2307), 17, 7);
    /// The message inside has a wrong length.
    BundleLength = since14(onf(2308), 17, 8);
    /// The message inside has another transaction.
    BundleXid = since14(onf(2309), 17, 9);
    /// The message inside cannot be in a bundle.
    BundleUnsupported = since14(onf(2310), 17, 10);
    /// More messages than a bundle can hold.
    BundleTooMany = since14(onf(2312), 17, 12);
    /// A message of the bundle failed.
    BundleFailed = since14(onf(2313), 17, 13);
    /// The bundle took too long.
    BundleTimeout = since14(onf(2314), 17, 14);
    /// The message inside has another version.
    BundleVersion = [NONE10, onf(2310), nx(22), nx(22)];
    /// Continuations are not supported.
    ResumeUnsupported = nicira(nx10(1, 533), 34);
}

impl Code {
    /// Its number in a version.
    pub const fn number(self, version: Version) -> ErrorNumber {
        let numbers = self.numbers();
        match version {
            Version::V10 => numbers[0],
            Version::V13 => numbers[1],
            Version::V14 => numbers[2],
            Version::V15 => numbers[3],
        }
    }
}
