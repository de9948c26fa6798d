//! Connections with controllers: endpoints, TLS, hello, echoes, framing, and bounds on all of it.
//!
//! - [`ChannelSettings`]: where controllers connect, and to which the switch does; [`Listen`],
//!   [`Controller`], [`TlsFiles`];
//! - [`Channels`]: the running thing, which tells what it [`Heard`];
//! - [`Line`]: what the switch says to one of them;
//! - [`ChannelStatus`]: what is to be seen of it.
//!
//! Why so: the switch's thread is to meet whole, decoded requests and nothing else. Whatever a controller
//! does (send slowly, never read, lie about lengths, open a thousand connections) ends here, at a bound
//! that is stated, and in the numbers of [`ChannelStatus`].
//!
//! Threads: the switch's thread polls all sockets while it has nothing else to do, and `weir-openflow` while it
//! has (`watch`, `hub`); `weir-requests` decodes what they asked for and waits for the switch where that takes
//! it not at once (`backlog`); `weir-lookup` looks a name up and ends.
//! A connection has no thread: it costs what its socket and its buffers do.

mod atomics;
mod backlog;
mod conversation;
mod dial;
mod doorway;
mod endpoint;
mod hub;
mod line;
mod link;
mod listener;
mod settings;
mod status;
mod transport;
mod waker;
mod watch;
mod wish;

use crate::Heard;
use backlog::Backlog;
use hub::{Command, Hub, Keep, Rules, SCRATCH};
use listener::Listener;
use status::{Board, Row};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use waker::waker;
use watch::Watch;
use weir_tls::Tls;

pub use endpoint::{Controller, Host, Listen, OPENFLOW_PORT};
pub(crate) use line::Held;
pub use line::{BEHIND, Line, MOST_WAITING, MOST_WAITING_IN_ALL};
pub use settings::{ChannelSettings, ECHO_SECONDS, FailMode, MAX_CONNECTIONS};
pub use status::{ChannelStatus, ConnectionStatus};
pub use weir_tls::{TlsError, TlsFiles};

/// Why there can be no connections.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// A listener cannot be had.
    #[error("`{listen}`: {reason}")]
    Listen {
        /// Where.
        listen: Listen,
        /// What stands in the way and how to mend it.
        reason: String,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There are none.
    #[error("`{0}` takes certificates: name private_key, certificate and ca_cert under [openflow]")]
    NoCertificates(String),
    /// What the system says.
    #[error("OpenFlow: {0}")]
    System(#[from] io::Error),
}

/// The connections of a switch. Dropping it ends them.
///
/// The thread that waits for the switch ends when the switch takes what it was told, or does not listen any
/// more; nobody waits for that.
pub struct Channels {
    commander: Sender<Command>,
    watch: Arc<Watch>,
    /// Whether the switch's thread polls, and so has the watch.
    attends: bool,
    backlog: Backlog,
    board: Board,
    hub: Option<JoinHandle<()>>,
    endpoints: Vec<(u64, Endpoint)>,
    numbered: u64,
}

/// What is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Endpoint {
    Listen(Listen),
    Connect(Controller),
}

impl Endpoint {
    fn text(&self) -> String {
        match self {
            Self::Listen(listen) => listen.to_string(),
            Self::Connect(controller) => controller.to_string(),
        }
    }

    const fn tls(&self) -> bool {
        match self {
            Self::Listen(listen) => listen.tls(),
            Self::Connect(controller) => controller.tls(),
        }
    }
}

impl Channels {
    /// Listens and connects. What is heard goes to the inbox; if that is full, controllers wait.
    ///
    /// # Errors
    /// Certificates or a listener that cannot be; then nothing was begun.
    pub fn start<T: From<Heard> + Send + 'static>(
        settings: &ChannelSettings,
        inbox: SyncSender<T>,
    ) -> Result<Self, ChannelError> {
        let (waker, woken) = waker()?;
        let (commander, commands) = channel();
        let direct = inbox.clone();
        let direct = Box::new(move |heard: Heard| direct.try_send(heard.into()).is_ok());
        let (backlog, board) = (Backlog::new(waker.clone(), direct), Board::default());
        let hub = Hub {
            commands,
            commander: commander.clone(),
            waker: waker.clone(),
            woken,
            backlog: backlog.clone(),
            board: board.clone(),
            rules: rules(settings)?,
            keep: Keep::default(),
            scratch: vec![0; SCRATCH].into(),
            lively: false,
            stopped: false,
        };
        let watch = Arc::new(Watch::new(hub, waker));
        let stand_in = watch.clone();
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let hub = spawn("weir-openflow").spawn(move || stand_in.stand_in())?;
        // From here on, whatever fails ends what was begun.
        let (hub, endpoints) = (Some(hub), Vec::new());
        let mut channels =
            Self { commander, watch, attends: false, backlog, board, hub, endpoints, numbered: 0 };
        let telling = channels.backlog.clone();
        spawn("weir-requests").spawn(move || telling.tell(&inbox))?;
        channels.reconfigure(settings)?;
        Ok(channels)
    }

    /// Takes other settings. Endpoints that stay keep their connections; those that go lose them. Answers
    /// what was done.
    ///
    /// # Errors
    /// Certificates or a listener that cannot be; then all is as it was, but that connections of listeners
    /// that were to go may be lost.
    pub fn reconfigure(&mut self, settings: &ChannelSettings) -> Result<Vec<String>, ChannelError> {
        let rules = rules(settings)?;
        let wanted = wanted(settings);
        let (stay, gone): (Vec<_>, Vec<_>) =
            self.endpoints.drain(..).partition(|(_, there)| wanted.contains(there));
        self.endpoints = stay;
        let new: Vec<Endpoint> = wanted
            .into_iter()
            .filter(|wanted| !self.endpoints.iter().any(|(_, there)| there == wanted))
            .collect();
        // What goes may be in the way of what comes.
        self.remove(gone.iter().map(|(number, _)| *number).collect());
        let ready: Result<Vec<Ready>, ChannelError> = new.iter().map(ready).collect();
        let ready = match ready {
            Ok(ready) => ready,
            Err(error) => {
                // What listened a moment ago can, unless another program was quicker.
                gone.iter().filter_map(|(_, gone)| self::ready(gone).ok()).for_each(|ready| self.add(ready));
                return Err(error);
            }
        };
        self.command(Command::Rules(rules));
        let mut done: Vec<String> =
            gone.iter().map(|(_, endpoint)| format!("{} closed", endpoint.text())).collect();
        done.extend(new.iter().map(|endpoint| format!("{} opened", endpoint.text())));
        ready.into_iter().for_each(|ready| self.add(ready));
        Ok(done)
    }

    /// Polls once, for so long at most, on the thread that takes what is heard; that is in the inbox then.
    /// Whoever does so should do nothing else in between for long, or say that he leaves.
    pub fn attend(&mut self, most: Duration) {
        self.attends = true;
        self.watch.attend(most);
    }

    /// Leaves the polling to the channel's own thread, at once.
    pub fn leave(&mut self) {
        if std::mem::take(&mut self.attends) {
            self.watch.call();
        }
    }

    /// What is known of endpoints and connections now.
    pub fn status(&self) -> Vec<ChannelStatus> {
        self.board.status(Instant::now())
    }

    fn command(&self, command: Command) {
        // It lives as long as this.
        let _ = self.commander.send(command);
        self.watch.call();
    }

    /// Ends endpoints, and waits until they are gone, which takes no longer than a turn.
    fn remove(&self, endpoints: Vec<u64>) {
        let (done, gone) = sync_channel(1);
        self.command(Command::Remove(endpoints, done));
        let _ = gone.recv();
    }

    fn add(&mut self, ready: Ready) {
        self.numbered += 1;
        let number = self.numbered;
        let (endpoint, command, address) = match ready {
            Ready::Listen(listen, listener) => {
                let address = Some(listener.address.clone());
                (Endpoint::Listen(listen), Command::Listen(number, listener), address)
            }
            Ready::Connect(controller) => {
                (Endpoint::Connect(controller.clone()), Command::Connect(number, controller), None)
            }
        };
        let row = Row { endpoint: endpoint.text(), address, ..Row::default() };
        self.board.rows().insert(number, row);
        self.endpoints.push((number, endpoint));
        self.command(command);
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Channels").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        self.backlog.stop();
        self.command(Command::Stop);
        if let Some(hub) = self.hub.take() {
            // A panic there was printed when it happened.
            let _ = hub.join();
        }
    }
}

/// An endpoint that nothing stands in the way of any more.
enum Ready {
    Listen(Listen, Listener),
    Connect(Controller),
}

fn ready(endpoint: &Endpoint) -> Result<Ready, ChannelError> {
    match endpoint {
        Endpoint::Connect(controller) => Ok(Ready::Connect(controller.clone())),
        Endpoint::Listen(listen) => match Listener::bind(listen) {
            Ok(listener) => Ok(Ready::Listen(listen.clone(), listener)),
            Err(reason) => Err(ChannelError::Listen { listen: listen.clone(), reason }),
        },
    }
}

fn wanted(settings: &ChannelSettings) -> Vec<Endpoint> {
    let listen = settings.listen.iter().cloned().map(Endpoint::Listen);
    listen.chain(settings.controllers.iter().cloned().map(Endpoint::Connect)).collect()
}

fn rules(settings: &ChannelSettings) -> Result<Rules, ChannelError> {
    let taker = wanted(settings).into_iter().find(Endpoint::tls);
    let tls = match (&settings.tls, taker) {
        (None, Some(taker)) => return Err(ChannelError::NoCertificates(taker.text())),
        (files, _) => files.as_ref().map(Tls::load).transpose()?,
    };
    Ok(Rules { tls, echo: settings.echo, max_connections: settings.max_connections })
}
