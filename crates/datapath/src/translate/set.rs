//! The action set (OpenFlow 1.3.5, section 5.10): at most one action of a kind, done in a fixed order.

use weir_flow::Field;
use weir_openflow::Action;

/// The set, in the order in which it will be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActionSet(Vec<Action>);

/// The place of an action in the order of execution.
fn rank(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 0,
        Action::PopVlan | Action::PopMpls(_) | Action::PopPbb => 1,
        Action::PushMpls(_) => 2,
        Action::PushPbb(_) => 3,
        Action::PushVlan(_) => 4,
        Action::CopyTtlOut => 5,
        Action::DecTtl(_) | Action::DecMplsTtl => 6,
        Action::SetField { .. }
        | Action::SetMplsTtl(_)
        | Action::SetNwTtl(_)
        | Action::Load { .. }
        | Action::Move { .. } => 7,
        Action::Meter(_) => 8,
        Action::Group(_) => 9,
        _ => 10,
    }
}

/// Whether the second replaces the first in a set.
fn same_kind(a: &Action, b: &Action) -> bool {
    match (a, b) {
        (Action::SetField { field: a, .. }, Action::SetField { field: b, .. }) => a == b,
        (Action::Load { to: a, .. } | Action::Move { to: a, .. }, other) => match other {
            Action::Load { to: b, .. } | Action::Move { to: b, .. } => a == b,
            _ => false,
        },
        (Action::SetMplsTtl(_), Action::SetField { field: Field::MplsTtl, .. }) => true,
        (Action::SetNwTtl(_), Action::SetField { field: Field::NwTtl, .. }) => true,
        _ if rank(a) == 10 => rank(b) == 10,
        _ => std::mem::discriminant(a) == std::mem::discriminant(b),
    }
}

impl ActionSet {
    /// Puts an action into the set, in the place of one of its kind.
    pub(super) fn write(&mut self, action: &Action) {
        if let Some(at) = self.0.iter().position(|other| same_kind(other, action)) {
            self.0.remove(at);
        }
        let at = self.0.partition_point(|other| rank(other) <= rank(action));
        self.0.insert(at, action.clone());
    }

    /// The actions to be done: with a group, an output is left out.
    pub(super) fn actions(&self) -> Vec<Action> {
        let group = self.0.iter().any(|action| matches!(action, Action::Group(_)));
        self.0.iter().filter(|action| !(group && rank(action) == 10)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_openflow::{GroupId, PortNo};

    #[test]
    fn a_set_is_done_in_the_order_of_the_specification_and_has_one_of_a_kind() {
        let mut set = ActionSet::default();
        let vid = |value| Action::SetField { field: Field::VlanVid, value, mask: u128::MAX };
        let output = |port| Action::Output(PortNo(port));
        for action in [output(1), vid(1), Action::PushVlan(0x8100), vid(2), output(2), Action::CopyTtlIn] {
            set.write(&action);
        }
        assert_eq!(set.actions(), [Action::CopyTtlIn, Action::PushVlan(0x8100), vid(2), output(2)]);
        set.write(&Action::Group(GroupId(7)));
        assert_eq!(set.actions().last(), Some(&Action::Group(GroupId(7))), "a group silences the output");
    }
}
