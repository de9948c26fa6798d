//! The services of a datapath: they come and go while packets flow, and answer questions.
//!
//! A registered kind is there under its own name without being asked for, but asleep: it is built, with
//! default settings, when the first flow calls it.
//!
//! A group may register several services, which share its state: each has a number and a name of its own, and they come, go and are
//! built anew together.
//!
//! A service's instances are built here, on the control thread, and handed to the workers ready; when
//! it goes, they come back and are freed here. Its number stands for no other service afterwards.

use crate::control::datapath::Datapath;
use crate::model::entries::{ServiceInfo, Touched};
use crate::model::kept::Kept;
use crate::model::requests::{ControlError, ServiceConfig, told};
use crate::worker::command::Command;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use weir_services::{
    Group, GroupConfig, Host, Limits, OwnerTable, Registration, SERVICES, ask_group, registered,
};

/// The name, and the kind, of the service that does `ct`.
const TRACKER: &str = "conntrack";

/// A service.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) by_flow: bool,
    /// Nothing while it sleeps.
    group: Option<Arc<dyn Group>>,
    /// The numbers of all services of its group, the group's own first.
    together: Vec<u16>,
}

/// A service's group and its instances, worker by worker, ready to be handed over; nothing while it
/// sleeps.
pub(super) struct Built(Vec<BuiltOne>);

/// One of the services of a group.
struct BuiltOne {
    number: u16,
    group: Option<Arc<dyn Group>>,
    hosts: Vec<Option<Box<Host>>>,
}

impl Datapath {
    /// The services of the configuration; then, asleep, each kind that it does not name.
    pub(super) fn first_services(&mut self) -> Result<(), ControlError> {
        let named: Vec<(String, ServiceConfig)> =
            self.config.services.iter().map(|(name, service)| (name.clone(), service.clone())).collect();
        for (name, service) in &named {
            self.add_service(name, service)?;
        }
        for kind in SERVICES {
            if self.config.services.contains_key(kind.kind) {
                continue;
            }
            if let Some(taken) = kind.names(kind.kind).find(|name| self.names.service(name).is_some()) {
                let whose = kind.kind;
                return Err(ControlError(format!(
                    "service `{taken}` has the name of one of the group `{whose}`; give it another"
                )));
            }
            let numbers = self.name_all(kind.kind, kind);
            self.services_changed(infos(kind, &numbers))?;
        }
        Ok(())
    }

    /// Gives each service of a group its name and number; asleep.
    fn name_all(&mut self, name: &str, kind: &Registration) -> Vec<u16> {
        let numbers: Vec<u16> = kind.names(name).map(|name| self.names.add_service(&name)).collect();
        for (number, name) in numbers.iter().zip(kind.names(name)) {
            let together = numbers.clone();
            let known = Known { name, kind: kind.kind, by_flow: kind.by_flow, group: None, together };
            self.services.insert(*number, known);
        }
        numbers
    }

    /// Builds those services that sleep and that are called.
    pub(super) fn wake_services(&mut self, called: &BTreeSet<u16>) -> Result<(), ControlError> {
        for number in called {
            if self.services.get(number).is_some_and(|known| known.group.is_none()) {
                self.wake(*number)?;
            }
        }
        Ok(())
    }

    fn wake(&mut self, number: u16) -> Result<(), ControlError> {
        let Some((kind, together)) =
            self.services.get(&number).map(|known| (known.kind, known.together.clone()))
        else {
            return Ok(());
        };
        let Some(kind) = registered(kind) else { return Ok(()) };
        let settings = ServiceConfig::of_kind(kind.kind);
        let built = self.build(&together, kind, &settings.settings, settings.limits)?;
        self.install(built).map(drop)
    }

    /// Builds a group and the instances of its services, which have these numbers; nobody has them yet.
    fn build(
        &self,
        numbers: &[u16],
        kind: &Registration,
        settings: &serde_json::Value,
        limits: Limits,
    ) -> Result<Built, ControlError> {
        let name_of = |number: &u16| self.names.service_name(*number).unwrap_or_default();
        let name = numbers.first().map_or("", name_of);
        let config = GroupConfig { name, settings, workers: self.workers.len(), seed: self.config.seed };
        let group = kind.group(&config).map_err(told)?;
        let one = |(place, number): (usize, &u16)| {
            let member = place.checked_sub(1);
            let host = |worker: usize| {
                let of = (group.clone(), member);
                Some(Box::new(Host::of_member(name_of(number), of, worker, limits)))
            };
            let hosts = self.workers.iter().map(|worker| host(worker.number)).collect();
            BuiltOne { number: *number, group: Some(group.clone()), hosts }
        };
        Ok(Built(numbers.iter().enumerate().map(one).collect()))
    }

    /// Builds a service that is there with other settings, beside the one that works.
    ///
    /// # Errors
    /// No such service, another kind, or settings that make no sense.
    pub(super) fn build_anew(&self, name: &str, service: &ServiceConfig) -> Result<Built, ControlError> {
        let number = self.service_number(name)?;
        let (kind, together) =
            self.services.get(&number).map_or(("", &[][..]), |known| (known.kind, &known.together));
        match registered(kind).filter(|registered| registered.kind == service.kind) {
            Some(kind) => self.build(together, kind, &service.settings, service.limits),
            None => Err(ControlError(format!(
                "service `{name}` is a `{kind}` and cannot become a `{}` while flows may call it; give \
                 the new one another name, or restart the switch",
                service.kind
            ))),
        }
    }

    /// Hands a service's instances to the workers, each of which takes its own between two bursts, and
    /// returns what was there.
    ///
    /// # Errors
    /// A worker that does not answer.
    pub(super) fn install(&mut self, built: Built) -> Result<Built, ControlError> {
        self.all_answer()?;
        let mut before = Vec::with_capacity(built.0.len());
        for BuiltOne { number, group, hosts } in built.0 {
            let group =
                self.services.get_mut(&number).and_then(|known| std::mem::replace(&mut known.group, group));
            before.push((number, group, hosts));
        }
        let is_here = |number: &u16| before.iter().any(|(here, ..)| here == number);
        self.quarantined.retain(|(_, other)| !is_here(other));
        if self.pipeline.by_flow {
            let mut next = (*self.pipeline).clone();
            if next.owners.is_some() && next.tracker.is_some_and(|tracker| is_here(&tracker)) {
                next.owners = self.owners();
            }
            next.kept = self.kept();
            self.publish(next)?;
        }
        let mut asked = Vec::with_capacity(before.len());
        for (number, group, hosts) in before {
            let mut of_one = Vec::with_capacity(hosts.len());
            for (worker, host) in self.workers.iter_mut().zip(hosts) {
                match &host {
                    Some(host) => drop(worker.watches.insert(number, host.watch())),
                    None => drop(worker.watches.remove(&number)),
                }
                let (old, olds) = channel();
                worker.send(Command::Service { number, host, old });
                of_one.push(olds);
            }
            asked.push((number, group, of_one));
        }
        let one = |(number, group, asked): (u16, _, Vec<_>)| {
            Ok(BuiltOne { number, group, hosts: self.gather(&asked)? })
        };
        asked.into_iter().map(one).collect::<Result<Vec<_>, ControlError>>().map(Built)
    }

    /// Adds a service of a registered kind, while packets flow.
    ///
    /// # Errors
    /// A name that is taken, a kind that is not there, or settings that make no sense.
    pub fn add_service(&mut self, name: &str, service: &ServiceConfig) -> Result<u16, ControlError> {
        let kind = registered(&service.kind).ok_or_else(|| {
            let kinds: Vec<&str> = SERVICES.iter().map(|kind| kind.kind).collect();
            ControlError(format!(
                "service `{name}`: there is no kind `{}`; there are {}",
                service.kind,
                kinds.join(", ")
            ))
        })?;
        self.add_service_of(name, kind, &service.settings, service.limits)
    }

    /// Adds a service of any kind, registered or not.
    ///
    /// # Errors
    /// A name that is taken, or settings that make no sense.
    pub fn add_service_of(
        &mut self,
        name: &str,
        kind: &Registration,
        settings: &serde_json::Value,
        limits: Limits,
    ) -> Result<u16, ControlError> {
        if let Some(taken) = kind.names(name).find(|name| self.names.service(name).is_some()) {
            return Err(ControlError(format!(
                "a service named `{taken}` exists; give this one another name"
            )));
        }
        self.all_answer()?;
        let numbers = self.name_all(name, kind);
        let built = match self.build(&numbers, kind, settings, limits) {
            Ok(built) => built,
            Err(error) => {
                self.forget(&numbers);
                return Err(error);
            }
        };
        self.install(built)?;
        self.services_changed(infos(kind, &numbers))?;
        Ok(numbers[0])
    }

    /// Takes names and numbers back.
    fn forget(&mut self, numbers: &[u16]) {
        for known in numbers.iter().filter_map(|number| self.services.remove(number)) {
            self.names.remove_service(&known.name);
        }
    }

    /// Removes a service, while packets flow.
    ///
    /// # Errors
    /// No such service, or flows or groups that call it.
    pub fn remove_service(&mut self, name: &str) -> Result<(), ControlError> {
        let numbers = self.together(name)?;
        self.check_unused(name)?;
        self.all_answer()?;
        self.services_changed(numbers.iter().map(|number| (*number, None)))?;
        let none = || self.workers.iter().map(|_| None).collect();
        let gone =
            numbers.iter().map(|number| BuiltOne { number: *number, group: None, hosts: none() }).collect();
        drop(self.install(Built(gone))?);
        self.forget(&numbers);
        Ok(())
    }

    /// The numbers of the services of a group, by the name of one of them.
    fn together(&self, name: &str) -> Result<Vec<u16>, ControlError> {
        let number = self.service_number(name)?;
        Ok(self.services.get(&number).map_or_else(Vec::new, |known| known.together.clone()))
    }

    /// Whether a service may go.
    ///
    /// # Errors
    /// No such service, or flows or groups that call it.
    pub(super) fn check_unused(&self, name: &str) -> Result<(), ControlError> {
        let called = self.together(name)?.into_iter().find(|number| self.pipeline.calls(*number));
        match called.and_then(|number| self.names.service_name(number)) {
            Some(called) => Err(ControlError(format!(
                "service `{called}` is called by flows or groups; delete them before it"
            ))),
            None => Ok(()),
        }
    }

    fn services_changed(
        &mut self,
        changed: impl IntoIterator<Item = (u16, Option<ServiceInfo>)>,
    ) -> Result<(), ControlError> {
        let mut next = (*self.pipeline).clone();
        let services = Arc::make_mut(&mut next.services);
        for (number, info) in changed {
            let at = usize::from(number) - 1;
            if services.len() <= at {
                services.resize_with(at + 1, || None);
            }
            services[at] = info;
        }
        next.tracker = self.services.iter().find_map(|(number, known)| {
            let is = known.name == TRACKER
                && known.kind == TRACKER
                && next.services[usize::from(*number) - 1].is_some();
            is.then_some(*number)
        });
        next.advance(vec![Touched::All]);
        self.publish(next)
    }

    /// Asks a service something; one answer a worker, or one of all where the service's group knows.
    ///
    /// # Errors
    /// No such service, or what it does not understand.
    pub fn command(
        &mut self,
        service: &str,
        command: &str,
        argument: &serde_json::Value,
    ) -> Result<Vec<serde_json::Value>, ControlError> {
        let number = self.service_number(service)?;
        let of_service = |why: String| ControlError(format!("{service}: {why}"));
        // What concerns all instances alike is done once, here.
        if self.services.get(&number).is_some_and(|known| known.group.is_none()) {
            self.wake(number)?;
        }
        let group = self.services.get(&number).and_then(|known| known.group.clone());
        if let Some(answer) = group.and_then(|group| ask_group(group.as_ref(), command, argument)) {
            return answer.map(|answer| vec![answer]).map_err(of_service);
        }
        self.all_answer()?;
        let answers = self.ask(|answer| Command::AskService {
            service: number,
            command: command.to_owned(),
            argument: argument.clone(),
            answer,
        })?;
        answers.into_iter().map(|answer| answer.map_err(of_service)).collect()
    }

    /// Who has which translated connection, ready for use.
    pub(crate) fn owners(&self) -> Option<Arc<dyn OwnerTable>> {
        let tracker = self.services.get(&self.pipeline.tracker?)?;
        let owners = tracker.group.as_ref()?.owners()?;
        owners.prepare();
        Some(owners)
    }

    /// What services say about the pairs of addresses that they keep state of.
    pub(crate) fn kept(&self) -> Kept {
        let by_flow = self.services.values().filter(|known| known.by_flow);
        Kept::of(by_flow.filter_map(|known| known.group.as_deref()))
    }

    /// Lets a service out of quarantine, built anew.
    ///
    /// # Errors
    /// No such service.
    pub fn release(&mut self, service: &str) -> Result<(), ControlError> {
        let number = self.service_number(service)?;
        self.all_answer()?;
        self.quarantined.retain(|(_, other)| *other != number);
        self.workers.iter().for_each(|worker| worker.send(Command::Release(number)));
        self.fence()
    }

    fn service_number(&self, service: &str) -> Result<u16, ControlError> {
        self.names.service(service).ok_or_else(|| {
            let known: Vec<&str> = self.services.values().map(|known| known.name.as_str()).collect();
            ControlError(format!("there is no service `{service}`; there are {}", known.join(", ")))
        })
    }
}

/// What is known of the services of a group, by their numbers.
fn infos(kind: &Registration, numbers: &[u16]) -> Vec<(u16, Option<ServiceInfo>)> {
    let coalesces = std::iter::once(kind.coalesces).chain(kind.members.iter().map(|member| member.coalesces));
    let info = |coalesces| Some(ServiceInfo::new(kind.rewrites, coalesces, kind.arguments));
    numbers.iter().copied().zip(coalesces.map(info)).collect()
}
