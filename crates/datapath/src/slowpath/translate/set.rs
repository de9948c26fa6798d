//! The action set (OpenFlow 1.3.5, section 5.10): at most one action of a kind, done in a fixed order.
//!
//! Those that set fields are all done, in the order in which they came, as `ovs-actions(7)` has it: two
//! may set different bits of a field, or move what another has set.

use weir_openflow::Action;

/// The set, in the order in which it will be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ActionSet(Vec<Action>);

/// The place of all that set fields.
const SETS: u8 = 10;

/// The place of outputs, and of what else stands at the end.
const OUTPUT: u8 = 13;

/// The place of an action in the order of execution.
fn rank(action: &Action) -> u8 {
    match action {
        Action::CopyTtlIn => 0,
        Action::PopVlan => 1,
        Action::PopMpls(_) => 2,
        Action::PopPbb => 3,
        Action::PushMpls(_) => 4,
        Action::PushPbb(_) => 5,
        Action::PushVlan(_) => 6,
        Action::CopyTtlOut => 7,
        Action::DecTtl(_) => 8,
        Action::DecMplsTtl => 9,
        Action::SetField { .. }
        | Action::SetVlanVid(_)
        | Action::SetVlanPcp(_)
        | Action::SetMplsTtl(_)
        | Action::SetNwTtl(_)
        | Action::Load { .. }
        | Action::Move { .. } => SETS,
        Action::Meter(_) => 11,
        Action::Group(_) => 12,
        _ => OUTPUT,
    }
}

impl ActionSet {
    /// A set of these, written one after the other.
    pub(crate) fn of(actions: &[Action]) -> Self {
        let mut set = Self::default();
        actions.iter().for_each(|action| set.write(action));
        set
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts an action into the set, in the place of one of its kind.
    pub(super) fn write(&mut self, action: &Action) {
        let place = rank(action);
        if place != SETS {
            self.0.retain(|other| rank(other) != place);
        }
        let at = self.0.partition_point(|other| rank(other) <= place);
        self.0.insert(at, action.clone());
    }

    /// The actions to be done: with a group, an output is left out.
    pub(crate) fn actions(&self) -> Vec<Action> {
        let group = self.0.iter().any(|action| matches!(action, Action::Group(_)));
        self.0.iter().filter(|action| !(group && rank(action) == OUTPUT)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_flow::Field;
    use weir_openflow::{GroupId, PortNo};

    #[test]
    fn a_set_is_done_in_the_order_of_the_specification_and_has_one_of_a_kind() {
        let vid = |value, mask| Action::SetField { field: Field::VlanVid, value, mask };
        let output = |port| Action::Output(PortNo(port));
        let (first, second) = (vid(1, 3), vid(4, 12));
        let written = [
            output(1),
            first.clone(),
            Action::PushVlan(0x8100),
            second.clone(),
            output(2),
            Action::PopMpls(0x0800),
            Action::PopVlan,
            Action::CopyTtlIn,
        ];
        let mut set = ActionSet::of(&written);
        let (pop, push) = ([Action::PopVlan, Action::PopMpls(0x0800)], Action::PushVlan(0x8100));
        let [vlan, label] = pop;
        assert_eq!(set.actions(), [Action::CopyTtlIn, vlan, label, push, first, second, output(2)]);
        set.write(&Action::Group(GroupId(7)));
        assert_eq!(set.actions().last(), Some(&Action::Group(GroupId(7))), "a group silences the output");
    }
}
