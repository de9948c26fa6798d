//! What the requests share.

use crate::Program;
use crate::answer::Fault;
use crate::cache::{self, Cache};
use crate::catalogue::{Catalogue, Index};
use crate::central::who::Who;
use crate::central::{Central, Pushes};
use crate::listen::{ServeError, Stop};
use crate::numbers::KeptNumbers;
use crate::start::door::Door;
use crate::start::form::Form;
use crate::start::queue::Queue;
use crate::start::{Runs, Start};
use crate::stores::Stores;
use std::sync::Arc;
use std::time::Duration;
use weir_store::{Store, StoreResult};
use weir_tls::OwnCertificate;

/// Opens the store once more: readers have one each.
pub type Open = Arc<dyn Fn() -> StoreResult<Store> + Send + Sync>;

/// How the site is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Names under which it may be asked for, beside `localhost` and addresses. Another name in the header Host is refused: a
    /// page of somebody else's could otherwise read the store by giving its own name this address (DNS rebinding).
    pub hosts: Vec<String>,
    /// What measures, where whoever has the token may.
    pub runs: Option<Runs>,
    /// How others push runs here, where they may.
    pub pushes: Option<Pushes>,
    /// The server's own certificate: it speaks TLS then, and nothing else.
    pub tls: Option<OwnCertificate>,
    /// A proxy stands in front that speaks TLS, and writes `X-Forwarded-For`.
    pub proxied: bool,
    /// Bounds of what one request, or all of them, may take.
    pub limits: Limits,
}

impl Options {
    /// Whether browsers reach the server over TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some() || self.proxied
    }
}

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. One more takes the place of the one that has been idle longest.
    pub connections: usize,
    /// How long a client may take over the head of a request, and be idle between two.
    pub head: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub stall: Duration,
    /// How long a connection may last, however busy it is.
    pub life: Duration,
    /// How long an answer may take.
    pub answer: Duration,
    /// How long a bundle that is pushed may take, with its verification.
    pub push: Duration,
    /// How long its sender may be silent.
    pub push_silence: Duration,
    /// After how long its sender's speed counts.
    pub push_start: Duration,
    /// The least speed of a sender from then on, bytes a second since it began.
    pub push_speed: u64,
    /// How long a bundle waits for a place, where too many are coming in.
    pub push_wait: Duration,
    /// Bytes of a request's body.
    pub body_bytes: usize,
    /// Bytes of a request's head.
    pub head_bytes: usize,
    /// Readers of the store at a time.
    pub readers: usize,
    /// How old the list of runs may be.
    pub fresh: Duration,
    /// Bytes of pages that are kept.
    pub cache_bytes: usize,
    /// How often the files of the server's certificate are looked at.
    pub certificate: Duration,
    /// How long requests under way may go on when the server stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            head: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            life: Duration::from_secs(600),
            answer: Duration::from_secs(60),
            push: Duration::from_secs(540),
            push_silence: Duration::from_secs(10),
            push_start: Duration::from_secs(15),
            push_speed: 8 << 10,
            push_wait: Duration::from_secs(20),
            body_bytes: 256 << 10,
            head_bytes: 16 << 10,
            readers: 4,
            fresh: Duration::from_secs(1),
            cache_bytes: 64 << 20,
            certificate: Duration::from_secs(10),
            grace: Duration::from_secs(5),
        }
    }
}

/// The site: one for all requests.
pub(crate) struct Site {
    pub(crate) options: Options,
    pub(crate) program: Arc<dyn Program>,
    pub(crate) stores: Stores,
    pub(crate) catalogue: Catalogue,
    pub(crate) cache: Cache,
    pub(crate) histories: Cache,
    /// What histories are made of.
    pub(crate) numbers: KeptNumbers,
    /// Measuring, where it is allowed.
    pub(crate) start: Option<Start>,
    /// Accounts, where they may push.
    pub(crate) central: Option<Central>,
    /// The server ends.
    pub(crate) stop: Stop,
}

impl Site {
    /// A site over a store, which must be there.
    pub(crate) fn new(options: Options, open: Open, program: Arc<dyn Program>) -> Result<Self, ServeError> {
        let limits = options.limits;
        let begin = |runs: &Runs| {
            let door =
                Door::new(runs.token.clone()).map_err(|why| ServeError::Start(std::io::Error::other(why)))?;
            let queue = Queue::new(runs.program.clone(), runs.database.clone()).map_err(ServeError::Start)?;
            Ok::<_, ServeError>(Start { door, queue, form: Form::of(&program.plan_schema()) })
        };
        let start = options.runs.as_ref().map(begin).transpose()?;
        Ok(Self {
            stores: Stores::new(open, limits.readers)?,
            catalogue: Catalogue::new(limits.fresh),
            cache: Cache::new(limits.cache_bytes, cache::OF_RUNS),
            histories: Cache::new(limits.cache_bytes / 2, cache::OF_HISTORIES),
            numbers: KeptNumbers::default(),
            start,
            central: options.pushes.clone().map(|pushes| Central::new(pushes, options.is_secure())),
            stop: Stop::default(),
            options,
            program,
        })
    }

    /// The runs that are listed for who asks.
    pub(crate) async fn index(&self, who: &Who) -> Result<Arc<Index>, Fault> {
        self.catalogue.seen(&self.stores, who.viewer).await
    }
}
