//! Errors by number, for what the datapath says by kind.

use weir_codec::Code;
use weir_openflow::Refusal;

/// The error that says why a change was refused (OpenFlow 1.3.5, section 7.5.4).
pub(super) const fn code(why: Refusal) -> Code {
    match why {
        Refusal::NoTable => Code::FlowTable,
        Refusal::BadGoto => Code::InstructionTable,
        Refusal::BadMatch => Code::MatchField,
        Refusal::Overlap => Code::FlowOverlap,
        Refusal::TableFull => Code::FlowTableFull,
        Refusal::BadPort => Code::ActionPort,
        Refusal::NoGroup => Code::ActionGroup,
        Refusal::NoMeter => Code::ActionMeter,
        Refusal::NoService | Refusal::BadArgument => Code::ActionArgument,
        Refusal::BadAction => Code::ActionType,
        Refusal::BadConjunction => Code::ActionConjunction,
        Refusal::GroupExists => Code::GroupExists,
        Refusal::GroupUnknown => Code::GroupUnknown,
        Refusal::GroupInvalid => Code::GroupInvalid,
        Refusal::GroupLoop => Code::GroupLoop,
        Refusal::GroupsChained => Code::GroupChaining,
        Refusal::GroupsExhausted => Code::GroupsExhausted,
        Refusal::BucketsExhausted => Code::GroupBuckets,
        Refusal::BucketExists => Code::GroupBucketExists,
        Refusal::BucketUnknown => Code::GroupBucketUnknown,
        Refusal::MeterExists => Code::MeterExists,
        Refusal::MeterUnknown => Code::MeterUnknown,
        Refusal::MeterInvalid => Code::MeterInvalid,
        Refusal::MetersExhausted => Code::MetersExhausted,
    }
}
