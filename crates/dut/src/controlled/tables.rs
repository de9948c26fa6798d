//! What the lab puts into a switch's tables, and how it comes out again.

use super::session::{Session, all_entries};
use std::collections::BTreeSet;
use weir_codec::{Body, FlowCommand, FlowMod, Reply};
use weir_flow::{Field, Match};
use weir_openflow::{Action, Flow, FlowMod as FlowChange, Instructions, Names, PortNo, TableId, parse_flows};

/// The cookie of the lab's entries: `weirlab` and a version. Entries of a lab that was killed are known by it.
pub(super) const COOKIE: u64 = 0x7765_6972_6c61_6201;

/// Entries of somebody else that are named in an error.
const NAMED: usize = 3;

/// The greatest priority that leaves room for a second entry beside each.
const MOST_DOUBLED: u16 = u16::MAX / 2;

/// A function in a switch's tables, taken out when it is dropped.
pub(super) struct Installed {
    pub(super) session: Session,
    /// Entries that were there before.
    aside: Vec<Flow>,
    is_out: bool,
}

impl Installed {
    /// Puts these entries in. Entries of somebody else are set aside where `replace` says so, and refused where not.
    pub(super) fn install(session: Session, flows: Vec<Flow>, replace: bool) -> Result<Self, String> {
        let mut installed = Self { session, aside: Vec::new(), is_out: true };
        let others = installed.others()?;
        if !others.is_empty() && !replace {
            let names: Vec<String> =
                others.iter().take(NAMED).map(|flow| flow.text(&Names::default())).collect();
            let more = if others.len() > NAMED { ", ..." } else { "" };
            return Err(format!(
                "its tables have {} entries of somebody else ({}{more}); take them out, or add `+replace`, which puts \
                 them back at the end",
                others.len(),
                names.join("; ")
            ));
        }
        installed.is_out = false;
        installed.aside = others;
        installed.clear()?;
        let texts: Vec<String> = flows.iter().map(|flow| flow.text(&Names::default())).collect();
        let refused = installed.add(flows)?;
        if let Some((place, why)) = refused.first() {
            let more =
                if refused.len() > 1 { format!(" (and {} more)", refused.len() - 1) } else { String::new() };
            return Err(format!("it refused the flow `{}`{more}: {why}", texts[*place]));
        }
        Ok(installed)
    }

    /// Entries that are not the lab's. One that does nothing to what no other entry matches says what is so anyway.
    fn others(&mut self) -> Result<Vec<Flow>, String> {
        let Reply::Flow(_, entries) = self.session.part(all_entries())? else {
            return Err("it did not answer with its entries".to_owned());
        };
        let drops_the_rest = |flow: &Flow| {
            flow.priority == 0
                && flow.matching == Match::any()
                && flow.instructions == Instructions::default()
        };
        let flows = entries.into_iter().map(|entry| entry.flow);
        Ok(flows.filter(|flow| flow.cookie != COOKIE && !drops_the_rest(flow)).collect())
    }

    /// Takes out the lab's entries, those of one that was killed included, and what is set aside.
    fn clear(&mut self) -> Result<(), String> {
        let ours = FlowMod {
            command: FlowCommand::Delete,
            table: None,
            cookie: COOKIE,
            cookie_mask: u64::MAX,
            ..FlowMod::default()
        };
        self.session.say(Body::FlowMod(ours))?;
        for flow in self.aside.clone() {
            let Flow { table, priority, matching, .. } = flow;
            let (command, table) = (FlowCommand::DeleteStrict, Some(table));
            self.session.say(Body::FlowMod(FlowMod {
                command,
                table,
                matching,
                priority,
                ..FlowMod::default()
            }))?;
        }
        self.done()
    }

    /// Adds entries; which of them were refused, and why.
    fn add(&mut self, flows: Vec<Flow>) -> Result<Vec<(usize, String)>, String> {
        let mut sent = Vec::with_capacity(flows.len());
        for flow in flows {
            sent.push(self.session.say(Body::FlowMod(added(flow)))?);
        }
        let refused = self.session.barrier()?;
        let place = |(xid, why)| sent.iter().position(|sent| *sent == xid).map(|place| (place, why));
        Ok(refused.into_iter().filter_map(place).collect())
    }

    /// Waits until all is done; an error where something was refused.
    fn done(&mut self) -> Result<(), String> {
        match self.session.barrier()?.first() {
            None => Ok(()),
            Some((_, why)) => Err(format!("it would not let entries be taken out: {why}")),
        }
    }

    /// Takes the lab's entries out, and puts back what was there.
    pub(super) fn take_out(&mut self) -> Result<(), String> {
        if self.is_out {
            return Ok(());
        }
        self.is_out = true;
        let aside = std::mem::take(&mut self.aside);
        self.clear()?;
        let refused = self.add(aside)?;
        match refused.first() {
            None => Ok(()),
            Some((_, why)) => Err(format!("{} entries could not be put back: {why}", refused.len())),
        }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = self.take_out(); // a switch that is gone has nothing of ours
    }
}

/// An entry as the message that adds it.
fn added(flow: Flow) -> FlowMod {
    let Flow {
        table,
        priority,
        matching,
        instructions,
        cookie,
        idle_timeout,
        hard_timeout,
        importance,
        flags,
    } = flow;
    let (command, table) = (FlowCommand::Add, Some(table));
    FlowMod {
        command,
        table,
        matching,
        priority,
        instructions,
        cookie,
        idle_timeout,
        hard_timeout,
        importance,
        flags,
        ..FlowMod::default()
    }
}

/// The lab's flows, whose ports are 1 and 2, for a switch with these ports, under the lab's cookie, and without
/// extensions where plain OpenFlow can say the same.
pub(super) fn adapted(text: &str, ports: [PortNo; 2]) -> Result<Vec<Flow>, String> {
    let changes = parse_flows(text, &Names::default()).map_err(|errors| errors.to_string())?;
    let entry = |change| match change {
        FlowChange::Add(flow) => Ok(flow),
        other => {
            Err(format!("`{}` changes entries; a function only adds them", other.text(&Names::default())))
        }
    };
    let mut flows = plain(changes.into_iter().map(entry).collect::<Result<_, _>>()?);
    for flow in &mut flows {
        flow.cookie = COOKIE;
        let (port, mask) = flow.matching.field(Field::InPort);
        if mask != 0 {
            flow.matching.demand(Field::InPort, u128::from(mapped(PortNo(port as u32), ports).0), mask);
        }
        for action in flow.instructions.apply.iter_mut().chain(&mut flow.instructions.write) {
            match action {
                Action::Output(port) | Action::OutputWith(port, _) => *port = mapped(*port, ports),
                Action::Resubmit { port, .. } => *port = port.map(|port| mapped(port, ports)),
                _ => {}
            }
        }
    }
    Ok(flows)
}

fn mapped(port: PortNo, ports: [PortNo; 2]) -> PortNo {
    match port.0 {
        1 => ports[0],
        2 => ports[1],
        _ => port,
    }
}

/// What leaves by any port, its own included, is said by forgetting the input port, which is an extension. Plain
/// OpenFlow says it by two entries: one for what came in by that port, which names it IN_PORT, above one for the rest.
fn plain(flows: Vec<Flow>) -> Vec<Flow> {
    let tables: BTreeSet<TableId> =
        flows.iter().filter(|flow| back(flow).is_some()).map(|flow| flow.table).collect();
    let fits =
        |table: &TableId| flows.iter().all(|flow| flow.table != *table || flow.priority <= MOST_DOUBLED);
    let tables: BTreeSet<TableId> = tables.into_iter().filter(fits).collect();
    let mut found = Vec::with_capacity(2 * flows.len());
    for mut flow in flows {
        if !tables.contains(&flow.table) {
            found.push(flow);
            continue;
        }
        flow.priority *= 2;
        if let Some((at, port)) = back(&flow) {
            flow.instructions.apply.remove(at);
            let mut own = flow.clone();
            own.priority += 1;
            own.matching.demand(Field::InPort, u128::from(port.0), u128::from(u32::MAX));
            own.instructions.apply[at] = Action::Output(PortNo::IN_PORT);
            found.push(own);
        }
        found.push(flow);
    }
    found
}

/// Where a flow that matches any port forgets it before its last action, an output; and the port of that.
fn back(flow: &Flow) -> Option<(usize, PortNo)> {
    let apply = &flow.instructions.apply;
    let at =
        apply.iter().position(|action| *action == Action::Load { value: 0, to: Field::InPort.whole() })?;
    let is_any = flow.matching.field(Field::InPort).1 == 0;
    match apply[at + 1..] {
        [Action::Output(port)] if is_any => Some((at, port)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openflow::{Dialect, flows};

    const PORTS: [PortNo; 2] = [PortNo(7), PortNo(3)];

    fn texts(nf: &str) -> Vec<String> {
        let flows = flows(nf.parse().unwrap(), Dialect::OpenVSwitch).unwrap();
        let names = Names::default();
        let cookie = format!("cookie={COOKIE:#x}, ");
        let text = |flow: &Flow| flow.text(&names).strip_prefix(&cookie).unwrap().to_owned();
        adapted(&flows, PORTS).unwrap().iter().map(text).collect()
    }

    #[test]
    fn flows_get_the_ports_of_the_switch() {
        assert_eq!(texts("l2fwd"), ["in_port=7 actions=output:3", "in_port=3 actions=output:7"]);
    }

    #[test]
    fn a_route_that_may_lead_back_is_two_plain_entries() {
        let texts = texts("l3fwd:2");
        assert_eq!(texts.len(), 4);
        let of = |port: &str| texts.iter().filter(|text| text.contains(port)).count();
        assert_eq!((of("in_port=7"), of("in_port=3"), of("actions=")), (1, 1, 4), "{texts:?}");
        assert!(texts.iter().all(|text| !text.contains("load:")), "{texts:?}");
        let own = texts.iter().find(|text| text.contains("in_port=3,")).unwrap();
        assert!(own.contains("priority=33") && own.to_lowercase().ends_with("in_port"), "{own}");
        let rest = texts.iter().find(|text| text.ends_with("output:3")).unwrap();
        assert!(rest.contains("priority=32"), "{rest}");
    }

    #[test]
    fn what_plain_openflow_cannot_say_stays_as_it_is() {
        assert!(
            texts("firewall:100").iter().any(|text| text.contains("ip_frag") || text.contains("nw_frag"))
        );
        assert!(adapted("in_port=1,actions=what", PORTS).unwrap_err().contains("what"));
        assert!(adapted("delete in_port=1", PORTS).unwrap_err().contains("only adds"));
    }

    #[test]
    fn a_file_of_flows_may_have_comments() {
        let flows = adapted("# one way\n\nin_port=1,actions=output:2 # and not back\n", PORTS).unwrap();
        assert_eq!((flows.len(), flows[0].cookie), (1, COOKIE));
    }
}
