//! A chain of functions as the flows of one switch: a table a function.
//!
//! What a function sends by its second port is looked up in the next one's table as if it had come in by port 1,
//! what it sends by its first port in the one before as if by port 2 (`resubmit(PORT,TABLE)`, ovs-actions(7)).

use super::{Dialect, FORGET_INPUT, of};
use weir_trial::{Nf, NfKind};

/// What sends a packet out.
const OUTPUT: &str = "output:";

/// The flows of functions in a row.
pub(super) fn flows(members: &[Nf], dialect: Dialect) -> Result<String, String> {
    let has_one_table = |nf: &&Nf| matches!(nf.kind(), NfKind::L2Fwd | NfKind::L3Fwd | NfKind::Firewall);
    if let Some(own) = members.iter().find(|nf| !has_one_table(nf)) {
        return Err(format!(
            "in one switch a chain is a table for each of l2fwd, l3fwd:N and firewall:N, and {own} has tables of its own; \
             take a deployment that has a process for each function, such as vhost or vale"
        ));
    }
    let last = members.len() - 1;
    // What comes in by the chain's second port meets the last function first.
    let mut text = format!("priority=65535,in_port={},actions=resubmit({},{})\n", of(1), of(1), last + 1);
    text += &format!("priority=65535,in_port={},actions=resubmit({},1)\n", of(0), of(0));
    for (place, member) in members.iter().enumerate() {
        for line in super::flows(*member, dialect)?.lines() {
            text += &placed(line, place, last);
        }
    }
    Ok(text)
}

/// A flow of the function at a place of the chain.
fn placed(line: &str, place: usize, last: usize) -> String {
    let (flow, out) = line.rsplit_once(OUTPUT).unwrap_or((line, ""));
    // Where it goes back, it may leave by the port it came in by, whichever function it is in.
    let flow = flow.replace(&format!("{FORGET_INPUT},"), "");
    let end = match (out, place) {
        ("", _) => String::new(),
        ("1", 0) => format!("{FORGET_INPUT},{OUTPUT}1"),
        ("1", place) => format!("resubmit({},{place})", of(1)),
        (_, place) if place == last => format!("{FORGET_INPUT},{OUTPUT}2"),
        (_, place) => format!("resubmit({},{})", of(0), place + 2),
    };
    format!("table={},{flow}{end}\n", place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_a_table_and_its_outputs_lead_to_its_neighbours() {
        let text = flows(&[Nf::L2Fwd, Nf::L2Fwd, Nf::L2Fwd], Dialect::Weir).unwrap();
        let expected = "priority=65535,in_port=2,actions=resubmit(2,3)\n\
             priority=65535,in_port=1,actions=resubmit(1,1)\n\
             table=1,in_port=1,actions=resubmit(1,2)\n\
             table=1,in_port=2,actions=load:0->NXM_OF_IN_PORT[],output:1\n\
             table=2,in_port=1,actions=resubmit(1,3)\n\
             table=2,in_port=2,actions=resubmit(2,1)\n\
             table=3,in_port=1,actions=load:0->NXM_OF_IN_PORT[],output:2\n\
             table=3,in_port=2,actions=resubmit(2,2)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn functions_with_tables_of_their_own_are_no_table_of_one_switch() {
        let error = flows(&[Nf::L2Fwd, Nf::PipelineD { noops: 1 }], Dialect::Weir).unwrap_err();
        assert!(
            error.contains("pipeline-d:1 has tables of its own") && error.contains("vhost or vale"),
            "{error}"
        );
    }

    #[test]
    fn what_drops_drops_in_its_table_and_what_edits_edits_before_it_goes_on() {
        let text =
            flows(&[Nf::Firewall { rules: 2 }, Nf::L3Fwd { routes: 1 }], Dialect::OpenVSwitch).unwrap();
        assert!(
            text.lines().any(|line| line.starts_with("table=1,") && line.ends_with("actions=drop")),
            "{text}"
        );
        let route = text.lines().last().unwrap();
        assert!(
            route.starts_with("table=2,priority=16,ip,nw_dst=198.19.0.0/16,actions=dec_ttl,mod_dl_src:"),
            "{route}"
        );
        assert!(route.ends_with(",load:0->NXM_OF_IN_PORT[],output:2"), "{route}");
        assert_eq!(route.matches("NXM_OF_IN_PORT").count(), 1);
    }
}
