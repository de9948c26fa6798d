//! A server's address: what it says, and what the environment adds to it, as PostgreSQL's own programs have it.

use super::fault::all_of;
use super::password;
use crate::error::{StoreError, StoreResult};
use ::postgres::Config;
use ::postgres::config::{Host, SslMode};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server that does not answer is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// And one that stopped in the middle.
const SILENCE: Duration = Duration::from_secs(30);

/// Why a connection that must be encrypted is refused.
pub(super) const NO_TLS: &str = "this weir speaks no TLS with a server; leave `sslmode` out and go through an ssh tunnel, or over its socket";

/// Where Debian's servers have their sockets.
const SOCKETS: &str = "/var/run/postgresql";

/// The settings of a connection with a server.
pub(super) fn config(address: &str, place: &Path) -> StoreResult<Config> {
    let refused = |why: String| StoreError::BadAddress { path: place.to_owned(), why };
    if ["sslmode=require", "sslmode=verify-ca", "sslmode=verify-full"]
        .iter()
        .any(|mode| address.contains(mode))
    {
        return Err(refused(NO_TLS.to_owned()));
    }
    let mut config: Config = address.parse().map_err(|error: ::postgres::Error| refused(all_of(&error)))?;
    config.ssl_mode(SslMode::Disable);
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        match std::env::var("PGHOST") {
            Ok(host) => config.host(&host),
            Err(_) => config.host_path(SOCKETS),
        };
    }
    if config.get_user().is_none()
        && let Ok(user) = std::env::var("PGUSER")
    {
        config.user(&user);
    }
    if config.get_password().is_none()
        && let Some(password) = password(&config, place)?
    {
        config.password(password);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(PATIENCE);
    }
    config.tcp_user_timeout(SILENCE).keepalives_idle(SILENCE).application_name("weir");
    Ok(config)
}

/// The password of the environment, else of the password file.
fn password(config: &Config, place: &Path) -> StoreResult<Option<String>> {
    if let Ok(password) = std::env::var("PGPASSWORD") {
        return Ok(Some(password));
    }
    let named = std::env::var_os("PGPASSFILE").map(PathBuf::from);
    let Some(file) = named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"))) else {
        return Ok(None);
    };
    let refused = |why| StoreError::BadAddress { path: place.to_owned(), why };
    let Some(text) = password::read(&file).map_err(refused)? else { return Ok(None) };
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        // As libpq has it.
        _ => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().map_or_else(whoami, str::to_owned);
    let database = config.get_dbname().unwrap_or(&user);
    Ok(password::find(&text, [&host, &port, database, &user]))
}

fn whoami() -> String {
    std::env::var("USER").unwrap_or_default()
}
