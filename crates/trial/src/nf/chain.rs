//! Chains: functions in a row between the same two ports.
//!
//! What leaves a function by port 1 goes into the next one's port 0, what leaves it by port 0 into port 1 of the
//! one before; the first function's port 0 and the last one's port 1 are the chain's. Where each function runs
//! is another matter ([`crate::Placement`]).
//!
//! Costs: [`Nf`] is copied everywhere, so a chain is kept once and for as long as the process lives. Threads: any;
//! a lock while a chain is looked up.

use super::{FlowFile, Nf, NfKind};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Functions in a row, two at least.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Chain(&'static [Nf]);

/// Functions that are no chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Too many.
    #[error("a chain of {0} functions is too long; it has {most} at most", most = Chain::MOST)]
    Long(usize),
    /// One that no chain has.
    #[error(
        "{0} cannot be in a chain: which address and port it gives a packet is its own choice, which nobody follows further"
    )]
    Member(Nf),
    /// More than one that encrypts.
    #[error("{0} stands twice in a chain: what is encrypted twice the tester cannot read; write it once")]
    Sealed(Nf),
}

static KNOWN: Mutex<Vec<&'static [Nf]>> = Mutex::new(Vec::new());

impl Chain {
    /// Most functions of a chain.
    pub const MOST: usize = 8;
    /// What stands between two functions in a chain's name.
    pub const SEPARATOR: char = '+';

    /// These functions in a row; one alone is no chain, and stays what it is.
    ///
    /// # Errors
    ///
    /// Where they are too many, or one cannot be in a chain.
    ///
    /// # Panics
    ///
    /// Without a function.
    pub fn of(members: &[Nf]) -> Result<Nf, ChainError> {
        if let Some(wrong) = members.iter().copied().find(|nf| !is_member(*nf)) {
            return Err(ChainError::Member(wrong));
        }
        if let Some(second) = members.iter().copied().filter(|nf| nf.encrypts()).nth(1) {
            return Err(ChainError::Sealed(second));
        }
        match members {
            [] => panic!("a chain of nothing"),
            [alone] => Ok(*alone),
            many if many.len() > Self::MOST => Err(ChainError::Long(many.len())),
            many => Ok(Nf::Chain(Self::known(many))),
        }
    }

    fn known(members: &[Nf]) -> Self {
        let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let there = all.iter().find(|known| **known == members).copied();
        Self(there.unwrap_or_else(|| {
            let new: &'static [Nf] = Box::leak(members.into());
            all.push(new);
            new
        }))
    }

    /// Its functions, from port 0 on.
    pub fn members(self) -> &'static [Nf] {
        self.0
    }

    /// The texts of a chain's functions. A file of flows may have the separator in its name; one behind which the name of
    /// a kind of function stands ends it.
    pub fn split(text: &str) -> Vec<&str> {
        let (mut parts, mut begin) = (Vec::new(), 0);
        for (at, _) in text.match_indices(Self::SEPARATOR) {
            let in_file = text[begin..].starts_with(Nf::FLOWS);
            if !in_file || begins_function(&text[at + 1..]) {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
        }
        parts.push(&text[begin..]);
        parts
    }
}

/// Whether a text begins with the name of a function, whole.
fn begins_function(text: &str) -> bool {
    let name = text.split([':', Chain::SEPARATOR]).next().unwrap_or_default();
    NfKind::ALL.into_iter().any(|kind| kind != NfKind::Chain && kind.name() == name)
}

/// Whether a function can be in a chain: what must come out of it is known to the byte, or is one of a few frames.
fn is_member(nf: Nf) -> bool {
    !matches!(nf.kind(), NfKind::Nat | NfKind::Chain)
}

impl Nf {
    /// The functions in a row that it is: itself alone, if it is no chain.
    pub fn members(self) -> Vec<Nf> {
        match self {
            Self::Chain(chain) => chain.members().to_vec(),
            alone => vec![alone],
        }
    }

    /// Whether packets of a connection pass it that no rule allows to open one, or one of its functions.
    pub fn is_stateful(self) -> bool {
        self.members().into_iter().any(|nf| nf.pipeline_entries().is_some())
    }

    /// Whether it, or one of its functions, encrypts payloads (the crate `weir-cipher`).
    pub fn encrypts(self) -> bool {
        self.members().iter().any(|nf| nf.kind() == NfKind::PipelineB)
    }

    /// The flow table of a user's own that it is, or that the first of its functions is which is one.
    pub fn flow_file(self) -> Option<FlowFile> {
        self.members().into_iter().find_map(|nf| match nf {
            Self::Flows(file) => Some(file),
            _ => None,
        })
    }

    /// Whether it may answer packets itself, as routers do (RFC 1812, section 4.3).
    pub fn is_router(self) -> bool {
        self.members().iter().any(|nf| matches!(nf.kind(), NfKind::L3Fwd | NfKind::Nat))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, member) in self.0.iter().enumerate() {
            if place > 0 {
                write!(f, "{}", Self::SEPARATOR)?;
            }
            write!(f, "{member}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_written_with_pluses_and_read_again() {
        let nf: Nf = "firewall:10+l3fwd:10+l2fwd".parse().unwrap();
        assert_eq!(nf.to_string(), "firewall:10+l3fwd:10+l2fwd");
        assert_eq!(nf.members(), [Nf::Firewall { rules: 10 }, Nf::L3Fwd { routes: 10 }, Nf::L2Fwd]);
        assert_eq!(nf, "firewall+l3fwd+l2fwd".parse().unwrap(), "the same chain is the same value");
        assert_ne!(nf, "l2fwd+l3fwd+firewall".parse().unwrap(), "their order counts");
        assert!(nf.is_router() && !Nf::L2Fwd.is_router());
        assert_eq!(Chain::of(&[Nf::L2Fwd]), Ok(Nf::L2Fwd));
    }

    #[test]
    fn pipelines_and_flow_tables_are_members_and_a_file_may_have_a_plus_in_its_name() {
        let nf: Nf = "flows:a+b.flows@0123456789abcdef+pipeline-b:16+l2fwd".parse().unwrap();
        let members = nf.members();
        let [Nf::Flows(file), b, Nf::L2Fwd] = members[..] else { panic!("{members:?}") };
        assert_eq!((file.name(), b), ("a+b.flows", Nf::PipelineB { entries: 16 }));
        assert_eq!(nf.to_string().parse(), Ok(nf));
        assert!(
            nf.is_stateful() && nf.encrypts() && nf.flow_file().is_some_and(|own| own.name() == "a+b.flows")
        );
        assert_eq!(Chain::split("flows:x+l2fwd.flows+l3fwd:10"), ["flows:x+l2fwd.flows", "l3fwd:10"]);
        assert_eq!(Chain::split("flows:x+l2fwd"), ["flows:x", "l2fwd"]);
        let two = "flows:a@0123456789abcdef+flows:b@0123456789abcdef".parse::<Nf>().unwrap();
        assert_eq!(two.members().len(), 2);
        let file: Nf = "flows:a+b@0123456789abcdef".parse().unwrap();
        assert!(matches!(file, Nf::Flows(file) if file.name() == "a+b"));
        assert!(!file.is_stateful() && !file.encrypts());
    }

    #[test]
    fn what_cannot_be_in_a_chain_and_too_many_are_refused_by_name() {
        for text in ["l2fwd+nat", "l2fwd+", "+l2fwd", "l2fwd++l2fwd", "l2fwd+flows:a@0123", "flows:a+l2fwd"] {
            assert!(text.parse::<Nf>().is_err(), "{text}");
        }
        let error = Chain::of(&[Nf::L2Fwd, Nf::Nat { addresses: 1 }]).unwrap_err().to_string();
        assert!(error.starts_with("nat:1 cannot be in a chain"), "{error}");
        let b = Nf::PipelineB { entries: 16 };
        let error = Chain::of(&[b, Nf::L2Fwd, b]).unwrap_err().to_string();
        assert!(error.starts_with("pipeline-b:16 stands twice"), "{error}");
        assert_eq!(Chain::of(&[Nf::L2Fwd; 9]), Err(ChainError::Long(9)));
        assert!("l2fwd+l2fwd+l2fwd+l2fwd+l2fwd+l2fwd+l2fwd+l2fwd+l2fwd".parse::<Nf>().is_err());
    }
}
