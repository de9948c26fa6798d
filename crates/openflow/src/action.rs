//! What may be done to a packet: actions and instructions (OpenFlow 1.3.5, sections 5.9 to 5.12; Nicira's
//! extensions as `ovs-actions(7)` has them; SoftFlow, section 3).

use crate::{Arguments, Ct, GroupId, MeterId, PortNo, TableId};
use weir_flow::{Field, Subfield};

/// Where a controller's copy of a packet comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToController {
    /// Most bytes of the packet that are sent; `u16::MAX` for all of it.
    pub max_len: u16,
    /// The controllers that want it; 0 for all that listen to packet-ins.
    pub id: u16,
    /// Why it is sent, by OpenFlow's number: 0 no match, 1 action, 2 invalid TTL.
    pub reason: u8,
    /// Bytes that the controller gets back with the packet.
    pub userdata: Vec<u8>,
}

impl Default for ToController {
    fn default() -> Self {
        Self { max_len: u16::MAX, id: 0, reason: 1, userdata: Vec::new() }
    }
}

/// What a flow entry's packets meet: one dimension of a conjunction (`ovs-actions(7)`, `conjunction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conjunction {
    /// The conjunction's number: what `conj_id` is where all of its dimensions are met.
    pub id: u32,
    /// Which dimension this is, from 1.
    pub dimension: u8,
    /// How many there are, 2 to 64.
    pub dimensions: u8,
}

impl Conjunction {
    /// Whether its numbers can be; what is wrong with them if not, in the words of `ovs-ofctl`.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub const fn check(self) -> Result<Self, &'static str> {
        match self {
            Self { dimensions: ..2, .. } => Err("conjunction must have at least 2 clauses"),
            Self { dimensions: 65.., .. } => Err("conjunction must have at most 64 clauses"),
            Self { dimension: 0, .. } => Err("clause index must be positive"),
            Self { dimension, dimensions, .. } if dimension > dimensions => {
                Err("clause index must be less than or equal to number of clauses")
            }
            fine => Ok(fine),
        }
    }
}

/// One action.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A copy leaves by a port, or by what a reserved port stands for.
    Output(PortNo),
    /// The same with a `max_len`, which says nothing of any port but the controller's. It is kept because
    /// clients compare an entry that they read with the one they sent, byte by byte.
    OutputWith(PortNo, u16),
    /// A copy leaves by the port whose number these bits hold.
    OutputReg(Subfield),
    /// A copy goes to a controller.
    Controller(ToController),
    /// A copy goes through a group.
    Group(GroupId),
    /// Bits of a field are set.
    SetField {
        /// Which field.
        field: Field,
        /// What to.
        value: u128,
        /// Which of its bits.
        mask: u128,
    },
    /// Bits are copied from one field to another, as many as `to` has.
    Move {
        /// From where.
        from: Subfield,
        /// To where; as wide as `from`.
        to: Subfield,
    },
    /// Bits are set (`load`), whatever the packet has for prerequisites.
    Load {
        /// What to.
        value: u128,
        /// Which bits.
        to: Subfield,
    },
    /// A tag of this TPID (0x8100 or 0x88a8) goes in front.
    PushVlan(u16),
    /// The VLAN of the outer tag is set; a packet without one gets one (OpenFlow 1.0, section 5.2.4).
    SetVlanVid(u16),
    /// The priority of the outer tag is set; a packet without one gets one (OpenFlow 1.0, section 5.2.4).
    SetVlanPcp(u8),
    /// The outer tag goes.
    PopVlan,
    /// A label stack entry goes in front; the EtherType becomes 0x8847 or 0x8848.
    PushMpls(u16),
    /// The outer entry goes; the EtherType becomes this.
    PopMpls(u16),
    /// A service instance tag and a backbone header go in front (IEEE 802.1ah; TPID 0x88e7).
    PushPbb(u16),
    /// They go.
    PopPbb,
    /// The MPLS TTL is set.
    SetMplsTtl(u8),
    /// The MPLS TTL is lowered.
    DecMplsTtl,
    /// The IP time to live is set.
    SetNwTtl(u8),
    /// The IP time to live is lowered; who wants packets that cannot go on.
    DecTtl(Vec<u16>),
    /// The TTL of the next header is copied to the outermost.
    CopyTtlOut,
    /// The TTL of the outermost header is copied to the next.
    CopyTtlIn,
    /// The packet ends here.
    Drop,
    /// The packet is looked up in a table, as if it came in by a port; then the next action follows.
    Resubmit {
        /// As if it came in by this port.
        port: Option<PortNo>,
        /// The table; the present one if none.
        table: Option<TableId>,
    },
    /// The same, where packets are looked up by the original tuple of their connection and not by their own
    /// addresses, protocol and ports (`resubmit(PORT,TABLE,ct)`).
    ResubmitTracked {
        /// As if it came in by this port.
        port: Option<PortNo>,
        /// The table; the present one if none.
        table: Option<TableId>,
    },
    /// A SoftFlow service takes the packet.
    Service {
        /// Its number ([`crate::Names::service`]).
        service: u16,
        /// What it is told (`sf_argument`).
        argument: u32,
    },
    /// The same, where the service is told more than one number.
    ServiceWith {
        /// Its number.
        service: u16,
        /// What it is told.
        arguments: Arguments,
    },
    /// The packet's connection is tracked, and its addresses translated.
    Ct(Box<Ct>),
    /// The packet is one that is not tracked again.
    CtClear,
    /// The meter polices the packet (OpenFlow 1.5's action form).
    Meter(MeterId),
    /// Actions on a copy that change nothing for those that follow.
    Clone(Vec<Action>),
    /// Packets meet a dimension of a conjunction; nothing is done to them.
    Conjunction(Conjunction),
    /// Nothing follows.
    Exit,
    /// Words for people, without effect.
    Note(Vec<u8>),
}

impl Action {
    /// Whether a list of actions has `conjunction`, and which other action that cannot stand beside it.
    pub fn beside_conjunction(actions: &[Self]) -> Option<&Self> {
        let aside = |action: &&Self| !matches!(action, Self::Conjunction(_) | Self::Note(_));
        let has = actions.iter().any(|action| matches!(action, Self::Conjunction(_)));
        if has { actions.iter().find(aside) } else { None }
    }

    /// Bytes of memory that a list of actions takes, those on clones included.
    pub fn memory(actions: &[Self]) -> usize {
        let more = |action: &Self| match action {
            Self::Clone(inner) => Self::memory(inner),
            Self::Ct(ct) => size_of_val(&**ct) + size_of_val(ct.steps.as_slice()),
            Self::DecTtl(controllers) => size_of_val(controllers.as_slice()),
            Self::Note(words) => words.len(),
            Self::ServiceWith { arguments, .. } => arguments.memory(),
            _ => 0,
        };
        size_of_val(actions) + actions.iter().map(more).sum::<usize>()
    }
}

/// What a flow entry does, in the order of OpenFlow 1.3.5, section 5.9.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instructions {
    /// The meter that polices its packets first.
    pub meter: Option<MeterId>,
    /// Actions done at once.
    pub apply: Vec<Action>,
    /// Whether the action set is emptied.
    pub clear: bool,
    /// Actions put into the action set.
    pub write: Vec<Action>,
    /// Bits of the metadata that are set: value and mask.
    pub metadata: Option<(u64, u64)>,
    /// The table that follows.
    pub goto: Option<TableId>,
}

impl Instructions {
    /// Whether nothing follows the applied actions.
    pub fn ends(&self) -> bool {
        !self.clear && self.write.is_empty() && self.metadata.is_none() && self.goto.is_none()
    }

    /// The conjunctions whose dimensions the entry's packets meet, if it is of that kind: such an entry does nothing
    /// else.
    pub fn conjunctions(&self) -> impl Iterator<Item = &Conjunction> {
        self.apply.iter().filter_map(|action| match action {
            Action::Conjunction(conjunction) => Some(conjunction),
            _ => None,
        })
    }

    /// Whether `conjunction` stands beside anything but `note`, which does nothing either.
    pub fn mixes_conjunctions(&self) -> bool {
        let more = self.meter.is_some() || !self.ends();
        Action::beside_conjunction(&self.apply).is_some() || more && self.conjunctions().next().is_some()
    }

    /// Looks at each of its actions, applied, written or on a clone.
    pub fn each(&self, look: &mut dyn FnMut(&Action)) {
        fn among(actions: &[Action], look: &mut dyn FnMut(&Action)) {
            for action in actions {
                look(action);
                if let Action::Clone(inner) = action {
                    among(inner, look);
                }
            }
        }
        among(&self.apply, look);
        among(&self.write, look);
    }

    /// Bytes of memory that its actions take.
    pub fn memory(&self) -> usize {
        Action::memory(&self.apply) + Action::memory(&self.write)
    }

    /// Whether one of its actions, applied, written or on a clone, is such.
    pub fn any(&self, is: &dyn Fn(&Action) -> bool) -> bool {
        fn among(actions: &[Action], is: &dyn Fn(&Action) -> bool) -> bool {
            actions
                .iter()
                .any(|action| is(action) || matches!(action, Action::Clone(inner) if among(inner, is)))
        }
        among(&self.apply, is) || among(&self.write, is)
    }
}
