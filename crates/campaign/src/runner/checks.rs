//! What the tester can do by itself: the campaign's side of [`crate::self_check`].

use super::{Campaign, CampaignError, Watcher};
use crate::cores::Seats;
use crate::limit::{self, Evidence, Tried};
use crate::plan::{PointSpec, ThroughputPlan};
use crate::rig::{Rig, RigSetup};
use crate::self_check;
use crate::traffic::Traffic;
use weir_dpdk::Eal;
use weir_dut::Kind;
use weir_traffic::Shape;
use weir_trial::run::{PointKey, PointResult};
use weir_trial::{CoreUse, Nf, Placement, SelfCheck};

/// The device that only passes packets on: what the tester is looped onto itself by.
const LOOP: &str = "nf";

impl Campaign<'_> {
    /// The check of a point's wiring: done before, or done now, with a device that only passes packets
    /// on. Nothing where no tester is at the wire, and where the plan does without.
    pub(super) fn self_check(
        &mut self,
        eal: &'static Eal,
        spec: &PointSpec,
        traffic: &Traffic,
        (key, huge_pages): (&PointKey, bool),
        watcher: &mut dyn Watcher,
    ) -> Result<Option<SelfCheck>, CampaignError> {
        if spec.mrr_only
            || weir_dut::kind(&spec.dut) != Kind::Started
            || !self.plan.self_check
            || self.plan.shape == Shape::Recorded
        {
            return Ok(None);
        }
        let known = self.store.self_checks(self.run)?;
        if let Some(check) = known.into_iter().find(|check| check.stands_for(key)) {
            return Ok(Some(check));
        }
        let mut rig = self.loop_back(eal, spec, traffic, huge_pages)?;
        let check = self_check::run(&mut rig, key)?;
        rig.take_down()?;
        self.store.add_self_check(self.run, &check)?;
        watcher.self_check(&check);
        Ok(Some(check))
    }

    /// The tester looped onto itself over a point's wiring.
    fn loop_back(
        &mut self,
        eal: &'static Eal,
        spec: &PointSpec,
        traffic: &Traffic,
        huge_pages: bool,
    ) -> Result<Rig, CampaignError> {
        self.rigs += 1;
        // On the core where the device will be.
        let is_said = spec.placement.cores.fixed().is_some() || spec.placement.node.is_some();
        let seats = self.seats.get(&super::seated(spec)).filter(|_| is_said).unwrap_or(&self.usual).clone();
        let seated = Seats { forwarding: vec![seats.cores.dut], ..seats };
        // As many ports and queues as at the point, all of them on one core.
        let Placement { bundles, queues, ref server, .. } = spec.placement;
        let (cores, server) = (CoreUse::Shared, server.clone());
        let placement = Placement { bundles, queues, cores, server, ..Placement::default() }.plainest();
        let loop_back = PointSpec { dut: LOOP.to_owned(), nf: Nf::L2Fwd, placement, ..spec.clone() };
        let setup = self.setup(&loop_back, traffic, huge_pages)?;
        let (cores, testers) = (seated.cores, seated.testers.as_slice());
        let setup = RigSetup { shape: Shape::Constant, cores, testers, seats: &seated, ..setup };
        Ok(Rig::wire_up(eal, &setup, self.rigs, &self.flags)?)
    }

    /// The check of a point's wiring, its ceiling measured again at the load of the results where they
    /// come near it: what the tester can do differs from load to load, and from minute to minute.
    pub(super) fn check_again(
        &mut self,
        eal: &'static Eal,
        spec: &PointSpec,
        traffic: &Traffic,
        (key, huge_pages): (&PointKey, bool),
        (check, results): (Option<SelfCheck>, &[PointResult]),
        watcher: &mut dyn Watcher,
    ) -> Result<Option<SelfCheck>, CampaignError> {
        let Some(check) = check else { return Ok(None) };
        let Some(load) = limit::near_ceiling(&check, results) else { return Ok(Some(check)) };
        let mut rig = self.loop_back(eal, spec, traffic, huge_pages)?;
        let ceiling = self_check::ceiling_at(&mut rig, key, load)?;
        rig.take_down()?;
        if ceiling.0 <= check.ceiling.0 {
            return Ok(Some(check));
        }
        let raised = SelfCheck { ceiling, ..check.clone() };
        self.store.replace_self_check(self.run, &check, &raised)?;
        watcher.self_check(&raised);
        Ok(Some(raised))
    }

    /// What is known about the limits of a point's results.
    pub(super) fn evidence<'e>(
        &self,
        spec: &PointSpec,
        key: &PointKey,
        check: Option<&'e SelfCheck>,
        trials: &'e [Tried],
    ) -> Evidence<'e> {
        let line = key.theoretical();
        let max_load = self.plan.method::<ThroughputPlan>().and_then(|throughput| throughput.max_load);
        Evidence { check, trials, line, max_load: max_load.unwrap_or(line), fed: spec.mrr_only }
    }
}
