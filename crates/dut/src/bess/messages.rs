//! The messages of `bessd`'s control protocol that are used here (protobuf, `bess.pb`), with the numbers of their fields.
//!
//! They are written by hand, so that no compiler for them is needed. Fields that are not used are left out: a reader of
//! protobuf passes over what it does not know.

use prost::Message;

/// Why something was refused; the code is an errno, or 0.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Error {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) errmsg: String,
}

/// A message with its type's name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Any {
    #[prost(string, tag = "1")]
    pub(super) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

impl Any {
    /// A message of this type.
    pub(super) fn of(name: &str, message: &impl Message) -> Self {
        Self { type_url: format!("type.googleapis.com/bess.pb.{name}"), value: message.encode_to_vec() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EmptyRequest {}

/// Every answer that holds nothing else.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EmptyResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) error: Option<Error>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) error: Option<Error>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AddWorkerRequest {
    #[prost(int64, tag = "1")]
    pub(super) wid: i64,
    #[prost(int64, tag = "2")]
    pub(super) core: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreatePortRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) driver: String,
    #[prost(uint64, tag = "3")]
    pub(super) num_inc_q: u64,
    #[prost(uint64, tag = "4")]
    pub(super) num_out_q: u64,
    #[prost(uint64, tag = "5")]
    pub(super) size_inc_q: u64,
    #[prost(uint64, tag = "6")]
    pub(super) size_out_q: u64,
    #[prost(message, optional, tag = "7")]
    pub(super) arg: Option<Any>,
}

/// Of a port of DPDK's: its PCI address, or what makes it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PmdPortArg {
    #[prost(string, optional, tag = "3")]
    pub(super) pci: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) vdev: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateModuleRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) mclass: String,
    #[prost(message, optional, tag = "3")]
    pub(super) arg: Option<Any>,
}

/// What was made, by its name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct CreateResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) error: Option<Error>,
    #[prost(string, tag = "2")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConnectModulesRequest {
    #[prost(string, tag = "1")]
    pub(super) m1: String,
    #[prost(string, tag = "2")]
    pub(super) m2: String,
    #[prost(uint64, tag = "3")]
    pub(super) ogate: u64,
    #[prost(uint64, tag = "4")]
    pub(super) igate: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CommandRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) cmd: String,
    #[prost(message, optional, tag = "3")]
    pub(super) arg: Option<Any>,
}

/// A list of what has a name: modules, or ports.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ListResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) error: Option<Error>,
    #[prost(message, repeated, tag = "2")]
    pub(super) items: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Named {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListWorkersResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) error: Option<Error>,
    #[prost(message, repeated, tag = "2")]
    pub(super) workers: Vec<Worker>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Worker {
    #[prost(int64, tag = "1")]
    pub(super) wid: i64,
    #[prost(int64, tag = "2")]
    pub(super) core: i64,
    /// Packets that left by a gate that leads nowhere.
    #[prost(int64, tag = "5")]
    pub(super) silent_drops: i64,
}

/// Whether what was made can be run by the workers that there are.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ConstraintsResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) error: Option<Error>,
    #[prost(bool, tag = "2")]
    pub(super) fatal: bool,
    /// Modules that cannot.
    #[prost(message, repeated, tag = "4")]
    pub(super) modules: Vec<Named>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetPortStatsRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetPortStatsResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) error: Option<Error>,
    #[prost(message, optional, tag = "2")]
    pub(super) inc: Option<Stat>,
    #[prost(message, optional, tag = "3")]
    pub(super) out: Option<Stat>,
}

/// Packets in one direction.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Stat {
    #[prost(uint64, tag = "1")]
    pub(super) packets: u64,
    #[prost(uint64, tag = "2")]
    pub(super) dropped: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PortArg {
    #[prost(string, tag = "1")]
    pub(super) port: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IpChecksumArg {
    #[prost(bool, tag = "1")]
    pub(super) verify: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IpLookupArg {
    #[prost(uint32, tag = "1")]
    pub(super) max_rules: u32,
    #[prost(uint32, tag = "2")]
    pub(super) max_tbl8s: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct IpLookupCommandAddArg {
    #[prost(string, tag = "1")]
    pub(super) prefix: String,
    #[prost(uint64, tag = "2")]
    pub(super) prefix_len: u64,
    #[prost(uint64, tag = "3")]
    pub(super) gate: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateArg {
    #[prost(message, repeated, tag = "1")]
    pub(super) fields: Vec<UpdateField>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UpdateField {
    #[prost(int64, tag = "1")]
    pub(super) offset: i64,
    #[prost(uint64, tag = "2")]
    pub(super) size: u64,
    #[prost(uint64, tag = "3")]
    pub(super) value: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BpfArg {
    #[prost(message, repeated, tag = "1")]
    pub(super) filters: Vec<BpfFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BpfFilter {
    #[prost(int64, tag = "1")]
    pub(super) priority: i64,
    #[prost(string, tag = "2")]
    pub(super) filter: String,
    #[prost(int64, tag = "3")]
    pub(super) gate: i64,
}

/// An answer, which says whether what was asked was done.
pub(super) trait Answer: Message + Default {
    /// Why not.
    fn error(&self) -> Option<&Error>;
}

macro_rules! answers {
    ($($name:ident),*) => {
        $(impl Answer for $name {
            fn error(&self) -> Option<&Error> {
                self.error.as_ref().filter(|error| error.code != 0)
            }
        })*
    };
}

answers!(
    EmptyResponse,
    VersionResponse,
    CreateResponse,
    ListResponse,
    ListWorkersResponse,
    ConstraintsResponse,
    GetPortStatsResponse
);
