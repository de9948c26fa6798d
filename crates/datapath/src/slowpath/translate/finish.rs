//! The end of a list of operations: what the packet itself becomes, so that the last copy need not be one.

use crate::actions::program::Op;
use weir_packet::DropReason;

/// Ends a list of operations: those after the last that has an effect go, and the last copy becomes the
/// packet itself. Where nothing is done with the packet, it is dropped for the reason.
pub(super) fn finish(mut ops: Vec<Op>, why: DropReason) -> Vec<Op> {
    loop {
        let end = match ops.pop() {
            None => Op::Drop(why),
            Some(Op::Copy(port)) => Op::Forward(port),
            Some(Op::Clone(inner)) => {
                ops.extend(inner);
                return ops;
            }
            Some(Op::SelectCopy(select)) => Op::Select(select),
            Some(Op::Controller(punt)) => Op::Punt(punt),
            // It changed nothing but the packet, which is at its end.
            Some(Op::Rewrite(_) | Op::Header(_)) => continue,
            Some(op @ (Op::Meter(_) | Op::DecTtl(_) | Op::DecMplsTtl(_))) => {
                if ops.iter().any(consumes) {
                    continue;
                }
                ops.push(op);
                Op::Drop(why)
            }
            Some(last) => last,
        };
        ops.push(end);
        return ops;
    }
}

/// Whether an operation has the packet go somewhere.
fn consumes(op: &Op) -> bool {
    matches!(op, Op::Copy(_) | Op::Controller(_) | Op::Clone(_) | Op::SelectCopy(_))
}

/// Whether the list has come to its end already.
pub(super) fn is_ended(ops: &[Op]) -> bool {
    matches!(
        ops.last(),
        Some(
            Op::Forward(_)
                | Op::Drop(_)
                | Op::Punt(_)
                | Op::Service(..)
                | Op::Tell(..)
                | Op::Track(_)
                | Op::Recirculate(_)
                | Op::Select(_)
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::header::HeaderOp;

    fn finished(ops: Vec<Op>) -> String {
        format!("{:?}", finish(ops, DropReason::ByFlow))
    }

    #[test]
    fn the_last_copy_is_the_packet_itself_and_what_follows_it_is_left_out() {
        let tail = vec![Op::Copy(1), Op::Copy(2), Op::Header(HeaderOp::PopVlan), Op::DecTtl(None)];
        assert_eq!(finished(tail), "[Copy(1), Forward(2)]");
        assert_eq!(finished(vec![]), "[Drop(ByFlow)]");
        assert_eq!(finished(vec![Op::Header(HeaderOp::PopVlan)]), "[Drop(ByFlow)]");
    }

    #[test]
    fn a_clone_at_the_end_is_done_to_the_packet_itself() {
        let clone = Op::Clone(vec![Op::Header(HeaderOp::PopVlan), Op::Forward(3)]);
        assert_eq!(finished(vec![Op::Copy(1), clone]), "[Copy(1), Header(PopVlan), Forward(3)]");
    }
}
