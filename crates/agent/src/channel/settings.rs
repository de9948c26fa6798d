//! What the channel is to be: `[openflow]` of a switch's configuration.

use super::endpoint::{Controller, Listen};
use std::time::Duration;
use weir_tls::TlsFiles;

/// Connections of each kind (TCP, TLS, Unix sockets) that are accepted at once when nobody says.
pub const MAX_CONNECTIONS: usize = 64;
/// Seconds of silence before a controller is asked whether it is there, when nobody says.
pub const ECHO_SECONDS: u64 = 5;

/// What a switch does while none of its controllers answers (OpenFlow 1.3.5, section 6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    /// What its tables say; packets for the controller are lost.
    #[default]
    Secure,
    /// What a learning switch does, until a controller answers again.
    Standalone,
}

/// What the channel is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelSettings {
    /// Where controllers may connect.
    pub listen: Vec<Listen>,
    /// Controllers to be connected to.
    pub controllers: Vec<Controller>,
    /// Certificates, which `pssl:` and `ssl:` take.
    pub tls: Option<TlsFiles>,
    /// Connections of each kind (TCP, TLS, Unix sockets) that are accepted at once.
    pub max_connections: usize,
    /// How long a controller may be silent before it is asked whether it is there, and then how long it
    /// has to answer.
    pub echo: Duration,
    /// What the switch does without a controller.
    pub fail_mode: FailMode,
    /// The switch's number among all (OpenFlow 1.3.5, section 7.3.1); its own choice if none.
    pub datapath_id: Option<u64>,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            controllers: Vec::new(),
            tls: None,
            max_connections: MAX_CONNECTIONS,
            echo: Duration::from_secs(ECHO_SECONDS),
            fail_mode: FailMode::default(),
            datapath_id: None,
        }
    }
}

impl ChannelSettings {
    /// Whether the switch is to forward by itself while none of its controllers answers: it has some, and
    /// they want it to.
    pub fn stands_alone(&self) -> bool {
        self.fail_mode == FailMode::Standalone && !self.controllers.is_empty()
    }
}
