//! Whether what a configuration says of OpenFlow controllers makes sense.

use super::check::Checker;
use super::file::OpenflowTable;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use toml::Spanned;
use weir_agent::channel::{
    ChannelSettings, Controller, ECHO_SECONDS, FailMode, Listen, MAX_CONNECTIONS, TlsFiles,
};

/// Connections that may be accepted at once.
const CONNECTIONS: RangeInclusive<u32> = 1..=1024;
/// Seconds that a controller may be silent.
const SECONDS: RangeInclusive<u32> = 1..=3600;

impl Checker<'_> {
    pub(super) fn openflow(&mut self, table: &OpenflowTable) -> ChannelSettings {
        let mut listen: Vec<Listen> = self.endpoints("listen", &table.listen);
        for listen in &mut listen {
            if let Listen::Unix(path) = listen {
                *path = self.folder().join(&path);
            }
        }
        let mut controllers: Vec<Controller> = self.endpoints("controllers", &table.controllers);
        for controller in &mut controllers {
            if let Controller::Unix(path) = controller {
                *path = self.folder().join(&path);
            }
        }
        let tls = self.tls(table);
        let takers = listen.iter().map(Listen::tls).chain(controllers.iter().map(Controller::tls));
        let written = table.listen.iter().chain(&table.controllers);
        // Mistakes that were noted already make the two lists differ.
        if tls.is_none()
            && self.found.is_empty()
            && let Some((_, taker)) = takers.zip(written).find(|(takes, _)| *takes)
        {
            self.wrong(
                taker.span(),
                format!("`{}` takes `private_key`, `certificate` and `ca_cert`", taker.get_ref()),
            );
        }
        let of = |value: Option<u32>, or: u64| value.map_or(or, u64::from);
        let connections =
            table.max_connections.as_ref().map(|most| self.within(most, "max_connections", CONNECTIONS));
        let echo = table.echo_seconds.as_ref().map(|echo| self.within(echo, "echo_seconds", SECONDS));
        ChannelSettings {
            listen,
            controllers,
            tls,
            max_connections: connections.map_or(MAX_CONNECTIONS, |most| most as usize),
            echo: Duration::from_secs(of(echo, ECHO_SECONDS)),
            fail_mode: self.fail_mode(table.fail_mode.as_ref()),
            datapath_id: table.datapath_id.as_ref().and_then(|id| self.datapath_id(id)),
        }
    }

    /// Endpoints, each once.
    fn endpoints<T>(&mut self, key: &str, written: &[Spanned<String>]) -> Vec<T>
    where
        T: FromStr<Err = String> + PartialEq,
    {
        let mut endpoints = Vec::new();
        for text in written {
            match text.get_ref().parse() {
                Err(reason) => self.wrong(text.span(), format!("`{key}`: {reason}")),
                Ok(endpoint) if endpoints.contains(&endpoint) => {
                    self.wrong(text.span(), format!("`{key}`: `{}` is there twice", text.get_ref()));
                }
                Ok(endpoint) => endpoints.push(endpoint),
            }
        }
        endpoints
    }

    /// The files of certificates: all three, or none.
    fn tls(&mut self, table: &OpenflowTable) -> Option<TlsFiles> {
        let keys = [
            ("private_key", &table.private_key),
            ("certificate", &table.certificate),
            ("ca_cert", &table.ca_cert),
        ];
        let given = keys.iter().find_map(|(_, value)| value.as_ref())?;
        let missing: Vec<&str> =
            keys.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| *key).collect();
        if !missing.is_empty() {
            let missing = missing.join("` and `");
            self.wrong(given.span(), format!("certificates take three files: name `{missing}` as well"));
        }
        let path = |key: &Option<Spanned<String>>| -> Option<PathBuf> {
            key.as_ref().map(|path| self.path(path.get_ref()))
        };
        Some(TlsFiles {
            private_key: path(&table.private_key)?,
            certificate: path(&table.certificate)?,
            ca_cert: path(&table.ca_cert)?,
        })
    }

    fn fail_mode(&mut self, mode: Option<&Spanned<String>>) -> FailMode {
        match mode.map(|mode| (mode.get_ref().as_str(), mode.span())) {
            None | Some(("secure", _)) => FailMode::Secure,
            Some(("standalone", _)) => FailMode::Standalone,
            Some((other, span)) => {
                self.wrong(span, format!("`fail_mode`: `{other}` is neither \"secure\" nor \"standalone\""));
                FailMode::Secure
            }
        }
    }

    fn datapath_id(&mut self, id: &Spanned<String>) -> Option<u64> {
        let text = id.get_ref();
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let plain = digits.chars().all(|digit| digit.is_ascii_hexdigit());
        match u64::from_str_radix(digits, 16) {
            Ok(number) if plain && number != 0 => Some(number),
            _ => {
                self.wrong(
                    id.span(),
                    format!("`datapath_id`: `{text}` is not 1 to 16 hexadecimal digits, such as \"00000000000000a1\""),
                );
                None
            }
        }
    }
}
