//! The services of a datapath: they come and go while packets flow, and answer questions.
//!
//! A registered kind is there under its own name without being asked for, but asleep: it is built, with
//! default settings, when the first flow calls it.
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
}

/// A service's group and its instances, worker by worker, ready to be handed over; nothing while it
/// sleeps.
pub(super) struct Built {
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
            let number = self.names.add_service(kind.kind);
            let (name, by_flow) = (kind.kind.to_owned(), kind.by_flow);
            self.services.insert(number, Known { name, kind: kind.kind, by_flow, group: None });
            self.services_changed(number, Some(ServiceInfo::new(kind.rewrites, kind.coalesces)))?;
        }
        Ok(())
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
        let Some((name, kind)) = self.services.get(&number).map(|known| (known.name.clone(), known.kind))
        else {
            return Ok(());
        };
        let Some(kind) = registered(kind) else { return Ok(()) };
        let settings = ServiceConfig::of_kind(kind.kind);
        let built = self.build(number, &name, kind, &settings.settings, settings.limits)?;
        self.install(built).map(drop)
    }

    /// Builds a service's group and instances; nobody has them yet.
    fn build(
        &self,
        number: u16,
        name: &str,
        kind: &Registration,
        settings: &serde_json::Value,
        limits: Limits,
    ) -> Result<Built, ControlError> {
        let config = GroupConfig { name, settings, workers: self.workers.len(), seed: self.config.seed };
        let group = kind.group(&config).map_err(told)?;
        let host = |worker: usize| Some(Box::new(Host::named(name, group.clone(), worker, limits)));
        let hosts = self.workers.iter().map(|worker| host(worker.number)).collect();
        Ok(Built { number, group: Some(group), hosts })
    }

    /// Builds a service that is there with other settings, beside the one that works.
    ///
    /// # Errors
    /// No such service, another kind, or settings that make no sense.
    pub(super) fn build_anew(&self, name: &str, service: &ServiceConfig) -> Result<Built, ControlError> {
        let number = self.service_number(name)?;
        let kind = self.services.get(&number).map_or("", |known| known.kind);
        match registered(kind).filter(|registered| registered.kind == service.kind) {
            Some(kind) => self.build(number, name, kind, &service.settings, service.limits),
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
        let Built { number, group, hosts } = built;
        let group =
            self.services.get_mut(&number).and_then(|known| std::mem::replace(&mut known.group, group));
        self.quarantined.retain(|(_, other)| *other != number);
        if self.pipeline.by_flow {
            let mut next = (*self.pipeline).clone();
            if next.owners.is_some() && next.tracker == Some(number) {
                next.owners = self.owners();
            }
            next.kept = self.kept();
            self.publish(next)?;
        }
        let mut asked = Vec::with_capacity(hosts.len());
        for (worker, host) in self.workers.iter_mut().zip(hosts) {
            match &host {
                Some(host) => drop(worker.watches.insert(number, host.watch())),
                None => drop(worker.watches.remove(&number)),
            }
            let (old, olds) = channel();
            worker.send(Command::Service { number, host, old });
            asked.push(olds);
        }
        let hosts = self.gather(&asked)?;
        Ok(Built { number, group, hosts })
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
        if self.names.service(name).is_some() {
            return Err(ControlError(format!("a service named `{name}` exists; give this one another name")));
        }
        self.all_answer()?;
        let number = self.names.add_service(name);
        let built = match self.build(number, name, kind, settings, limits) {
            Ok(built) => built,
            Err(error) => {
                self.names.remove_service(name);
                return Err(error);
            }
        };
        let info = ServiceInfo::new(kind.rewrites, kind.coalesces);
        let known = Known { name: name.to_owned(), kind: kind.kind, by_flow: kind.by_flow, group: None };
        self.services.insert(number, known);
        self.install(built)?;
        self.services_changed(number, Some(info))?;
        Ok(number)
    }

    /// Removes a service, while packets flow.
    ///
    /// # Errors
    /// No such service, or flows or groups that call it.
    pub fn remove_service(&mut self, name: &str) -> Result<(), ControlError> {
        let number = self.service_number(name)?;
        self.check_unused(name)?;
        self.all_answer()?;
        self.services_changed(number, None)?;
        let hosts = self.workers.iter().map(|_| None).collect();
        drop(self.install(Built { number, group: None, hosts })?);
        self.services.remove(&number);
        self.names.remove_service(name);
        Ok(())
    }

    /// Whether a service may go.
    ///
    /// # Errors
    /// No such service, or flows or groups that call it.
    pub(super) fn check_unused(&self, name: &str) -> Result<(), ControlError> {
        if self.pipeline.calls(self.service_number(name)?) {
            return Err(ControlError(format!(
                "service `{name}` is called by flows or groups; delete them before it"
            )));
        }
        Ok(())
    }

    fn services_changed(&mut self, number: u16, info: Option<ServiceInfo>) -> Result<(), ControlError> {
        let mut next = (*self.pipeline).clone();
        let services = Arc::make_mut(&mut next.services);
        let at = usize::from(number) - 1;
        if services.len() <= at {
            services.resize_with(at + 1, || None);
        }
        services[at] = info;
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
