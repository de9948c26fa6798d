//! Whether a configuration makes sense. Every mistake is noted with its place; checking goes on.

use super::file::{PortTable, ServiceTable, SwitchFile, SwitchTable, TablesTable};
use super::{Known, Settings, TableText, check_name};
use crate::http::MetricsAt;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use weir_datapath::{PortSpec, ServiceConfig};
use weir_diagnostic::Diagnostic;
use weir_openflow::PortNo;
use weir_units::FrameSize;

/// Packet buffers that a switch may have.
pub(super) const BUFFERS: RangeInclusive<u32> = 1024..=4_000_000;
/// Bytes of a frame that a packet buffer may be told to have room for.
pub(super) const ROOM: RangeInclusive<u16> = 64..=16_384;
/// Descriptors that a queue may have.
pub(super) const DESCRIPTORS: RangeInclusive<u16> = 64..=32_768;
/// Queues that a port may have.
const QUEUES: RangeInclusive<u16> = 1..=64;
/// Seconds for which an address may be known, as in Open vSwitch.
const MAC_AGEING: RangeInclusive<u16> = 15..=3600;
/// Addresses that may be known at a time, as in Open vSwitch.
const MAC_TABLE_SIZE: RangeInclusive<u32> = 10..=1_000_000;
/// Mebibytes that DPDK may be given.
const MEMORY_MIB: RangeInclusive<u32> = 64..=1_000_000;

pub(super) struct Checker<'a> {
    known: &'a Known<'a>,
    folder: &'a Path,
    pub(super) found: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(known: &'a Known<'a>, folder: &'a Path) -> Self {
        Self { known, folder, found: Vec::new() }
    }

    pub(super) fn wrong(&mut self, span: Range<usize>, message: impl Into<String>) {
        self.found.push(Diagnostic::new(span, message));
    }

    pub(super) fn settings(&mut self, file: SwitchFile) -> Settings {
        let mut settings = Settings::default();
        self.switch(&file.switch, &mut settings);
        self.ports(file.port, &mut settings);
        self.services(file.service, &mut settings);
        self.tables(file.tables, &mut settings);
        settings.openflow = self.openflow(&file.openflow);
        settings
    }

    fn switch(&mut self, table: &SwitchTable, settings: &mut Settings) {
        if let Some(cores) = &table.cores {
            settings.cores.clone_from(cores.get_ref());
            let mut seen = BTreeSet::new();
            if cores.get_ref().is_empty() {
                self.wrong(cores.span(), "`cores`: a switch has at least one worker");
            } else if let Some(twice) = cores.get_ref().iter().find(|core| !seen.insert(**core)) {
                self.wrong(
                    cores.span(),
                    format!("`cores`: core {twice} is there twice; a worker has one of its own"),
                );
            }
        }
        settings.huge_pages = table.huge_pages.unwrap_or(settings.huge_pages);
        settings.memory_mib = table.memory_mib.as_ref().map(|mib| self.within(mib, "memory_mib", MEMORY_MIB));
        if let Some(buffers) = &table.buffers {
            settings.buffers = self.within(buffers, "buffers", BUFFERS);
        }
        if let Some(size) = &table.max_frame {
            match FrameSize::new(*size.get_ref()) {
                Ok(frame) => settings.max_frame = frame,
                Err(error) => self.wrong(size.span(), format!("`max_frame`: {error}")),
            }
        }
        if let Some(room) = &table.room {
            settings.room = self.within(room, "room", ROOM);
        }
        settings.coalescing = table.coalescing.unwrap_or(settings.coalescing);
        if let Some(selection) = &table.selection {
            match selection.get_ref().parse() {
                Ok(way) => settings.selection = way,
                Err(reason) => self.wrong(selection.span(), format!("`selection`: {reason}")),
            }
        }
        if let Some(poll) = &table.poll {
            match poll.get_ref().parse() {
                Ok(mode) => settings.poll = mode,
                Err(reason) => self.wrong(poll.span(), format!("`poll`: {reason}")),
            }
        }
        if let Some(tcam) = &table.tcam {
            match tcam.get_ref().parse() {
                Ok(config) => settings.tcam = Some(config),
                Err(reason) => self.wrong(tcam.span(), format!("`tcam`: {reason}")),
            }
        }
        if let Some(experiment) = &table.experiment {
            match experiment.get_ref().parse() {
                Ok(experiment) => settings.experiment = experiment,
                Err(reason) => self.wrong(experiment.span(), format!("`experiment`: {reason}")),
            }
        }
        settings.upcalls = table.upcalls.map_or(settings.upcalls, std::num::NonZeroU32::get);
        if let Some(seconds) = &table.mac_ageing {
            let seconds = self.within(seconds, "mac_ageing", MAC_AGEING);
            settings.learning.ageing = Duration::from_secs(seconds.into());
        }
        if let Some(most) = &table.mac_table_size {
            settings.learning.most = self.within(most, "mac_table_size", MAC_TABLE_SIZE) as usize;
        }
        settings.seed = table.seed;
        match table.control.as_ref().map(|control| (control.get_ref().as_str(), control.span())) {
            None => {}
            Some(("none", _)) => settings.control = None,
            Some(("", span)) => self.wrong(span, "`control`: name a path, or \"none\""),
            Some((path, _)) => settings.control = Some(self.path(path)),
        }
        if let Some(user) = &table.user {
            if user.get_ref().is_empty() {
                self.wrong(user.span(), "`user`: name one that there is, such as \"weir\"");
            }
            settings.user = Some(user.get_ref().clone());
        }
        settings.seccomp = table.seccomp.unwrap_or(settings.seccomp);
        if let Some(metrics) = &table.metrics {
            match metrics.get_ref().parse() {
                Ok(MetricsAt::Unix(path)) => {
                    settings.metrics = Some(MetricsAt::Unix(self.path(&path.to_string_lossy())));
                }
                Ok(at) => settings.metrics = Some(at),
                Err(error) => self.wrong(metrics.span(), format!("`metrics`: {error}")),
            }
        }
    }

    fn ports(&mut self, tables: BTreeMap<Spanned<String>, PortTable>, settings: &mut Settings) {
        let mut tables: Vec<_> = tables.into_iter().collect();
        tables.sort_by_key(|(name, _)| name.span().start);
        let mut numbers: BTreeMap<u32, String> = BTreeMap::new();
        for (name, table) in &tables {
            let Some(number) = &table.number else { continue };
            let value = *number.get_ref();
            if value == 0 || PortNo(value).is_reserved() {
                self.wrong(number.span(), format!("`number`: {value} is not 1 to {}", PortNo::MAX));
            } else if let Some(other) = numbers.insert(value, name.get_ref().clone()) {
                self.wrong(number.span(), format!("`number`: {value} is the number of port `{other}`"));
            }
        }
        for (name, table) in tables {
            if let Err(reason) = check_name(name.get_ref()) {
                self.wrong(name.span(), format!("port `{}`: {reason}", name.get_ref()));
            }
            if table.spec.get_ref().is_empty() {
                self.wrong(
                    table.spec.span(),
                    "`spec`: name a port, such as \"net_vhost0,iface=/tmp/a\" or \"null\"",
                );
            }
            let number = table.number.map_or_else(
                || (1..).find(|number| !numbers.contains_key(number)).unwrap_or(PortNo::MAX.0),
                Spanned::into_inner,
            );
            numbers.insert(number, name.get_ref().clone());
            settings.ports.push(PortSpec {
                name: name.into_inner(),
                number: Some(PortNo(number)),
                spec: table.spec.into_inner(),
                queues: table.queues.map_or(0, |queues| self.within(&queues, "queues", QUEUES)),
                descriptors: table
                    .descriptors
                    .map_or(super::DESCRIPTORS, |count| self.within(&count, "descriptors", DESCRIPTORS)),
            });
        }
    }

    fn services(&mut self, tables: BTreeMap<Spanned<String>, ServiceTable>, settings: &mut Settings) {
        for (name, table) in tables {
            if let Err(reason) = check_name(name.get_ref()) {
                self.wrong(name.span(), format!("service `{}`: {reason}", name.get_ref()));
            }
            let kind = table.kind.as_ref().unwrap_or(&name);
            if !self.known.kinds.contains(&kind.get_ref().as_str()) {
                let unknown =
                    Diagnostic::unknown(kind.span(), "kind of service", kind.get_ref(), &self.known.kinds);
                self.found.push(unknown);
            }
            let config = ServiceConfig {
                kind: kind.get_ref().clone(),
                settings: serde_json::Value::Object(table.settings),
                limits: table.limits,
            };
            settings.services.insert(name.into_inner(), config);
        }
    }

    fn tables(&mut self, tables: TablesTable, settings: &mut Settings) {
        settings.flows = self.text("flows", tables.flows, tables.flows_file);
        settings.groups = self.text("groups", tables.groups, tables.groups_file);
        settings.meters = self.text("meters", tables.meters, tables.meters_file);
    }

    /// A table's text, given in the configuration or in a file.
    fn text(
        &mut self,
        key: &str,
        here: Option<Spanned<String>>,
        file: Option<Spanned<String>>,
    ) -> Option<TableText> {
        match (here, file) {
            (Some(_), Some(file)) => {
                self.wrong(
                    file.span(),
                    format!("`{key}_file`: {key} are given twice; keep `{key}` or `{key}_file`"),
                );
                None
            }
            (Some(text), None) => Some(TableText { name: key.to_owned(), text: text.into_inner() }),
            (None, Some(file)) => match TableText::read(&self.path(file.get_ref())) {
                Ok(text) => Some(text),
                Err(reason) => {
                    self.wrong(file.span(), format!("`{key}_file`: {reason}"));
                    None
                }
            },
            (None, None) => None,
        }
    }

    /// Where relative paths start.
    pub(super) const fn folder(&self) -> &Path {
        self.folder
    }

    /// A path of the configuration: relative to its folder.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    pub(super) fn within<T: Copy + PartialOrd + std::fmt::Display>(
        &mut self,
        value: &Spanned<T>,
        key: &str,
        range: RangeInclusive<T>,
    ) -> T {
        let found = *value.get_ref();
        if !range.contains(&found) {
            let (least, most) = range.into_inner();
            self.wrong(value.span(), format!("`{key}`: {found} is not {least} to {most}"));
        }
        found
    }
}
