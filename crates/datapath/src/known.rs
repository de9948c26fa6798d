//! The services of a datapath: they come and go while packets flow, and answer questions.
//!
//! A registered kind is there under its own name without being asked for, but asleep: it is built, with
//! default settings, when the first flow calls it.
//!
//! A service's instances are built here, on the control thread, and handed to the workers ready; when
//! it goes, they come back and are freed here. Its number stands for no other service afterwards.

use crate::control::{Change, ControlError, ServiceConfig};
use crate::datapath::{Datapath, told};
use crate::mail::Mail;
use crate::pipeline::{ServiceInfo, Touched};
use crate::tables::{Draft, calls};
use std::sync::Arc;
use std::sync::mpsc::channel;
use weir_services::{Group, GroupConfig, Host, Limits, Registration, SERVICES, ask_group, registered};

/// A service.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    pub(crate) by_flow: bool,
    /// Nothing while it sleeps.
    group: Option<Arc<dyn Group>>,
}

impl Datapath {
    /// The services of the configuration; then, asleep, each kind that it does not name.
    pub(crate) fn first_services(&mut self) -> Result<(), ControlError> {
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

    /// Builds those services that sleep and that flows or groups of these changes call.
    pub(crate) fn wake_services(&mut self, changes: &[Change]) -> Result<(), ControlError> {
        let asleep = |(number, known): (&u16, &Known)| known.group.is_none().then_some(*number);
        let asleep: Vec<u16> = self.services.iter().filter_map(asleep).collect();
        for number in asleep {
            if changes.iter().any(|change| calls(change, &|called| called == number)) {
                self.wake(number)?;
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
        let group = self.build(number, &name, kind, &settings.settings, settings.limits)?;
        if let Some(known) = self.services.get_mut(&number) {
            known.group = Some(group);
        }
        self.fence()
    }

    /// Builds a service's group and instances, and hands these to the workers.
    fn build(
        &mut self,
        number: u16,
        name: &str,
        kind: &Registration,
        settings: &serde_json::Value,
        limits: Limits,
    ) -> Result<Arc<dyn Group>, ControlError> {
        let config = GroupConfig { name, settings, workers: self.workers.len(), seed: self.config.seed };
        let group = kind.group(&config).map_err(told)?;
        for worker in &mut self.workers {
            let host = Host::named(name, group.clone(), worker.number, limits);
            worker.watches.insert(number, host.watch());
            let (old, _) = channel();
            worker.send(Mail::Service { number, host: Some(Box::new(host)), old });
        }
        Ok(group)
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
        let number = self.names.add_service(name);
        let group = match self.build(number, name, kind, settings, limits) {
            Ok(group) => group,
            Err(error) => {
                self.names.remove_service(name);
                return Err(error);
            }
        };
        let info = ServiceInfo::new(kind.rewrites, kind.coalesces);
        let known =
            Known { name: name.to_owned(), kind: kind.kind, by_flow: kind.by_flow, group: Some(group) };
        self.services.insert(number, known);
        self.services_changed(number, Some(info))?;
        Ok(number)
    }

    /// Removes a service, while packets flow.
    ///
    /// # Errors
    /// No such service, or flows or groups that call it.
    pub fn remove_service(&mut self, name: &str) -> Result<(), ControlError> {
        let number = self.service_number(name)?;
        let mut next = (*self.pipeline).clone();
        let now = self.now();
        let draft = Draft { pipeline: &mut next, touched: Vec::new(), now };
        if draft.any_calls(number) {
            return Err(ControlError(format!(
                "service `{name}` is called by flows or groups; delete them before it"
            )));
        }
        self.services_changed(number, None)?;
        let gone = self.ask(|old| Mail::Service { number, host: None, old })?;
        drop(gone);
        self.workers.iter_mut().for_each(|worker| drop(worker.watches.remove(&number)));
        self.services.remove(&number);
        self.quarantined.retain(|(_, other)| *other != number);
        self.names.remove_service(name);
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
        let answers = self.ask(|answer| Mail::Command {
            service: number,
            command: command.to_owned(),
            argument: argument.clone(),
            answer,
        })?;
        answers.into_iter().map(|answer| answer.map_err(of_service)).collect()
    }

    /// Lets a service out of quarantine, built anew.
    ///
    /// # Errors
    /// No such service.
    pub fn release(&mut self, service: &str) -> Result<(), ControlError> {
        let number = self.service_number(service)?;
        self.quarantined.retain(|(_, other)| *other != number);
        self.workers.iter().for_each(|worker| worker.send(Mail::Release(number)));
        self.fence()
    }

    fn service_number(&self, service: &str) -> Result<u16, ControlError> {
        self.names.service(service).ok_or_else(|| {
            let known: Vec<&str> = self.services.values().map(|known| known.name.as_str()).collect();
            ControlError(format!("there is no service `{service}`; there are {}", known.join(", ")))
        })
    }
}
