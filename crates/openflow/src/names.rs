//! Names of ports, tables and services, for text in and out.

use crate::{PortNo, TableId};
use std::collections::BTreeMap;

/// What names stand for in one switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    ports: BTreeMap<String, PortNo>,
    tables: BTreeMap<String, TableId>,
    /// By number from 1; nothing where a service has gone, so that its number stands for no other.
    services: Vec<Option<String>>,
}

impl Names {
    /// Names a port.
    pub fn add_port(&mut self, name: &str, number: PortNo) {
        self.ports.insert(name.to_owned(), number);
    }

    /// Forgets a port's name.
    pub fn remove_port(&mut self, name: &str) {
        self.ports.remove(name);
    }

    /// Names a table.
    pub fn add_table(&mut self, name: &str, number: TableId) {
        self.tables.insert(name.to_owned(), number);
    }

    /// Names a service; its number, which is the value of `sf_action` after it ran, is its place
    /// from 1, because 0 stands for none.
    pub fn add_service(&mut self, name: &str) -> u16 {
        if let Some(number) = self.service(name) {
            return number;
        }
        self.services.push(Some(name.to_owned()));
        u16::try_from(self.services.len()).expect("a configuration names fewer services")
    }

    /// Forgets a service's name. Its number is not given to another.
    pub fn remove_service(&mut self, name: &str) {
        if let Some(service) = self.services.iter_mut().find(|service| service.as_deref() == Some(name)) {
            *service = None;
        }
    }

    /// The port of this name.
    pub fn port(&self, name: &str) -> Option<PortNo> {
        self.ports.get(name).copied()
    }

    /// The table of this name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        self.tables.get(name).copied()
    }

    /// The number of the service of this name.
    pub fn service(&self, name: &str) -> Option<u16> {
        let place = self.services.iter().position(|service| service.as_deref() == Some(name))?;
        u16::try_from(place + 1).ok()
    }

    /// The name of a port.
    pub fn port_name(&self, number: PortNo) -> Option<&str> {
        self.ports.iter().find(|(_, port)| **port == number).map(|(name, _)| name.as_str())
    }

    /// The name of a table.
    pub fn table_name(&self, number: TableId) -> Option<&str> {
        self.tables.iter().find(|(_, table)| **table == number).map(|(name, _)| name.as_str())
    }

    /// The names of all ports.
    pub fn ports(&self) -> impl Iterator<Item = &str> {
        self.ports.keys().map(String::as_str)
    }

    /// The names of all tables.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// The name of a service by its number.
    pub fn service_name(&self, number: u16) -> Option<&str> {
        let place = usize::from(number).checked_sub(1)?;
        self.services.get(place)?.as_deref()
    }

    /// All services, by number from 1.
    pub fn services(&self) -> impl Iterator<Item = (u16, &str)> {
        (1..).zip(&self.services).filter_map(|(number, service)| Some((number, service.as_deref()?)))
    }
}
