//! Points and trials for the store's tests, taken from the simulated device, and the databases they are kept in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_simulated::SimulatedDut;
use weir_store::{NewRun, RunId, Store};
use weir_testkit::needs;
use weir_testkit::postgres::{Database, Server};
use weir_trial::run::{PointKey, Purpose, StoredTrial};
use weir_trial::{Nf, TrialSpec};
use weir_units::{Bps, LineRate, Nanos, Pps};

/// 2026-11-21 00:00:00 UTC.
pub(crate) const START_MS: i64 = 1_795_219_200_000;

pub(crate) fn key(size: u16) -> PointKey {
    PointKey {
        nf: Nf::L3Fwd { routes: 10 },
        dut: "simulated".to_owned(),
        wiring: "fed".to_owned(),
        trace: "simple".to_owned(),
        size: size.to_string(),
        mean_frame_bytes: f64::from(size),
        directions: 2,
        placement: weir_trial::Placement::default(),
        huge_pages: false,
        line_rate: LineRate(Bps(10e9)),
    }
}

pub(crate) fn trial(sequence: u32) -> StoredTrial {
    let spec = TrialSpec { load: Pps(4e6 + f64::from(sequence) * 1e5), duration: Nanos(Nanos::PER_SECOND) };
    let started_ms = START_MS + i64::from(sequence) * 1000;
    StoredTrial::new(sequence, Purpose::Search, started_ms, SimulatedDut::default().start().run(spec))
}

pub(crate) fn begin(store: &mut Store, name: Option<&str>) -> RunId {
    let environment = BTreeMap::from([("cpu".to_owned(), "a test".to_owned())]);
    let new =
        NewRun { name, started_ms: START_MS, plan: "# plan\n", weir: "0.1.0", environment: &environment };
    store.begin_run(new).unwrap()
}

/// Set in the processes that tests start: the database they write to.
const CHILD: &str = "WEIR_STORE_TEST_DATABASE";

/// Makes tests of functions that take a [`Place`]: each is run in a file, and on a server.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&crate::common::Place::file(concat!(module_path!(), "::", stringify!($name))));
            })+
        }

        mod postgres {
            $(#[test]
            fn $name() {
                let test = concat!(module_path!(), "::", stringify!($name));
                if let Some(place) = crate::common::Place::server(test) {
                    super::$name(&place);
                }
            })+
        }
    };
}
pub(crate) use on_both;

/// Where a test keeps its runs: databases of one engine.
pub(crate) struct Place {
    test: &'static str,
    database: PathBuf,
    /// The folder of a file.
    folder: Option<tempfile::TempDir>,
    /// The database on a server, which goes with it.
    server: Option<Database<'static>>,
}

impl Place {
    /// In a file.
    pub(crate) fn file(test: &'static str) -> Self {
        Self::given(test).unwrap_or_else(|| {
            let folder = tempfile::tempdir().unwrap();
            Self { test, database: folder.path().join("weir.db"), folder: Some(folder), server: None }
        })
    }

    /// On a server; nothing where there is none.
    pub(crate) fn server(test: &'static str) -> Option<Self> {
        let given = Self::given(test);
        if given.is_some() || !needs!(Server::need()) {
            return given;
        }
        let database = Server::shared().database();
        Some(Self { test, database: database.address().into(), folder: None, server: Some(database) })
    }

    fn given(test: &'static str) -> Option<Self> {
        let database = PathBuf::from(std::env::var_os(CHILD)?);
        Some(Self { test, database, folder: None, server: None })
    }

    /// Another, empty database of the same engine.
    pub(crate) fn another(&self) -> Self {
        match self.server {
            Some(_) => Self::server(self.test).expect("there was one"),
            None => Self::file(self.test),
        }
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(Some(&self.database)).unwrap()
    }

    pub(crate) fn open_existing(&self) -> Store {
        Store::open_existing(Some(&self.database)).unwrap()
    }

    /// The folder of a file; nothing of a server.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(tempfile::TempDir::path)
    }

    /// Whether this process was started by [`Place::child`].
    pub(crate) fn is_child(&self) -> bool {
        self.folder.is_none() && self.server.is_none()
    }

    /// Starts this test program again, to run this test as a child on this database.
    pub(crate) fn child(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // The program's own modules have no crate's name in front.
        let test = self.test.split_once("::").map_or(self.test, |(_, test)| test);
        command.args(["--exact", test, "--nocapture"]).env(CHILD, &self.database).stdout(Stdio::piped());
        command
    }
}
