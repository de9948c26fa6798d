//! Another machine for the device: the axis `server`, what can run there, and how it is reached.

use super::Placements;
use crate::plan::check::Checker;
use crate::plan::text::{HugePages, List};
use crate::plan::{Machine, PointSpec};
use crate::runner::ENOUGH_HUGE_PAGES;
use toml::Spanned;
use weir_dut::server;
use weir_dut::wiring::WiringKind;
use weir_trial::{CoreUse, Server};

impl Checker<'_> {
    /// The axes of placement, with that of servers.
    pub(in crate::plan) fn servers(
        &mut self,
        servers: Option<Spanned<List<String>>>,
        placements: Placements,
    ) -> Placements {
        let axis = servers.map_or_else(Vec::new, |list| self.axis("server", list));
        let mut found = Vec::new();
        for (span, text) in axis {
            match text.parse::<Server>() {
                _ if text == Server::HERE => found.push(None),
                Ok(server) => found.push(Some(server)),
                Err(error) => self.refuse(&span, format!("`server`: {error}")),
            }
        }
        Placements { servers: if found.is_empty() { vec![None] } else { found }, ..placements }
    }
}

impl PointSpec {
    /// Why its device cannot run on that server, on any machine; nothing where it can, or runs here.
    pub(crate) fn unserved(&self, wiring: WiringKind) -> Option<String> {
        let server = self.placement.server.as_ref()?;
        let adapter = weir_dut::adapter(&self.dut)?;
        let is_far = matches!(server, Server::Ssh(_));
        let joins = if is_far { "`nic`" } else { "`veth` or `nic`" };
        let reason = match wiring {
            _ if !self.placement.is_inline() => {
                let deployment = self.placement.deployment;
                Some(format!(
                    "the processes of `{deployment}` share memory of this machine; take deployment `inline`"
                ))
            }
            WiringKind::Vhost | WiringKind::Memif => Some(format!(
                "`{wiring}` is memory that processes of one machine share, and does not reach another; take {joins}"
            )),
            WiringKind::Fed => {
                Some(format!("`fed` is a file of this machine that the device reads; take {joins}"))
            }
            WiringKind::Veth if is_far => Some(
                "`veth` joins namespaces of one machine; take `nic`, with the ports of both machines"
                    .to_owned(),
            ),
            WiringKind::Veth | WiringKind::Nic => {
                adapter.runs_on(server).err().or_else(|| self.unreadable(server))
            }
        };
        Some(format!("`server = \"{server}\"`: {}", reason?))
    }

    /// What is asked of the device's cores that is this kernel's to do or to tell.
    fn unreadable(&self, server: &Server) -> Option<String> {
        let placement = &self.placement;
        let asked = [
            ("`frequency`", placement.frequency.is_some()),
            ("`node`", placement.node.is_some()),
            ("`cores`", placement.cores != CoreUse::Own),
            ("`against`", self.in_turns_with.is_some()),
        ];
        let far = matches!(server, Server::Ssh(_));
        let (what, _) = asked.into_iter().find(|(_, asked)| far && *asked)?;
        Some(format!("{what} is about cores of this machine, which the device does not have; leave it out"))
    }

    /// What a server lacks for this point; nothing where it has all, or the device runs here.
    pub(crate) fn lacks_there(&self, machine: &Machine) -> Option<String> {
        let server = self.placement.server.as_ref()?;
        if matches!(server, Server::Namespace(_)) && !machine.namespaces {
            return Some(format!("`{server}` is entered, which needs root; run it as root"));
        }
        let facts = match server::facts(server) {
            Ok(facts) => facts,
            Err(error) => return Some(error),
        };
        let far = matches!(server, Server::Ssh(_));
        if far && facts.cores.is_empty() {
            return Some(format!("{server} does not say which cores a process may use there"));
        }
        let short = far && self.huge_pages == HugePages::On && facts.huge_pages < ENOUGH_HUGE_PAGES;
        short.then(|| {
            format!(
                "{server} has {} free huge pages, and {ENOUGH_HUGE_PAGES} are needed (sysctl vm.nr_hugepages=1024 there); or write \
                 `huge_pages = false`",
                facts.huge_pages
            )
        })
    }

    /// The cores that its device has on another machine over ssh: the last to forward, the first for all else.
    pub(crate) fn cores_there(&self) -> Option<(usize, usize)> {
        let server = self.placement.server.as_ref().filter(|server| matches!(server, Server::Ssh(_)))?;
        let cores = server::facts(server).ok()?.cores;
        Some((*cores.last()?, *cores.first()?))
    }
}
