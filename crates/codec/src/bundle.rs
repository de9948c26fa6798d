//! Bundles: messages that take effect together (OpenFlow 1.4.1, section 7.3.9; ONF's extension 230).

use crate::Message;

/// What is done with a bundle; each has a request and a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each says what the switch is asked, or has done")]
pub enum BundleStep {
    OpenRequest = 0,
    OpenReply = 1,
    CloseRequest = 2,
    CloseReply = 3,
    CommitRequest = 4,
    CommitReply = 5,
    DiscardRequest = 6,
    DiscardReply = 7,
}

/// Flags of a bundle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BundleFlags {
    /// All messages take effect at once, or none.
    pub atomic: bool,
    /// They take effect in their order.
    pub ordered: bool,
}

/// A bundle is opened, closed, committed or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// Which.
    pub id: u32,
    /// What is done.
    pub step: BundleStep,
    /// Its flags.
    pub flags: BundleFlags,
}

/// A message becomes part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// Which.
    pub id: u32,
    /// Its flags.
    pub flags: BundleFlags,
    /// The message.
    pub message: Box<Message>,
}
