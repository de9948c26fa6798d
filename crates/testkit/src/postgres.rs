//! A PostgreSQL server for tests: Debian's programs, a folder of its own, a socket in that folder, never the system's.
//!
//! Each test is a process, so the server is shared by all that run at a time: the first that needs it starts it, and it
//! goes some seconds after the last, however that ended (`KEEPER`). A test has a database of its own in it. A test that
//! stops its server has one for itself ([`Server::own`]). Nothing of it survives a crash of the machine: it does not sync.
//!
//! PostgreSQL refuses to run as root: there it runs as the user that Debian's package makes.

use crate::Need;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Whom the server knows as its administrator.
const USER: &str = "weir";

/// A role whose password is asked for.
pub const LOCKED: &str = "locked";

/// The user of Debian's package.
const SYSTEM_USER: &str = "postgres";

/// How long a server may take to start, on a machine that is busy with other tests.
const START: Duration = Duration::from_secs(60);

/// Starts a server, and stops it when nobody has held the file `users` for some seconds: `$1` the folder, and the command
/// of the server behind it. While it takes the server away it holds that file itself.
const KEEPER: &str = r#"
folder=$1
cd "$folder" || exit
shift
echo $$ >keeper
"$@" >log 2>&1 &
server=$!
exec 9<users
idle=0
while kill -0 $server 2>/dev/null; do
    sleep 1
    if flock -n -x 9; then
        idle=$((idle + 1))
        if [ $idle -ge 8 ]; then break; fi
        flock -u 9
    else
        idle=0
    fi
done
flock -x 9
kill -INT $server 2>/dev/null
wait $server
if [ "$(cat keeper)" = $$ ]; then rm -rf data run log; fi
"#;

/// A running server.
#[derive(Debug)]
pub struct Server {
    folder: PathBuf,
    programs: PathBuf,
    /// Held while this process uses the shared server.
    _users: Option<File>,
    /// The server, where it is this test's own.
    own: Option<Child>,
}

/// The folder of the newest server that Debian's packages installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let versions = versions.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let newest = versions.max()?;
    let folder = PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"));
    folder.join("postgres").exists().then_some(folder)
}

impl Server {
    /// What a test says that needs one.
    pub fn need() -> Need {
        Need::Found("PostgreSQL".to_owned(), programs().is_some(), "./x setup --test".to_owned())
    }

    /// The server that all tests share.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| {
            let folder = PathBuf::from(format!("/tmp/weir-postgres-{}", nix::unistd::geteuid()));
            let made = std::fs::DirBuilder::new().mode(0o755).recursive(true).create(&folder);
            made.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            let owner = folder.symlink_metadata().expect("it was made").uid();
            assert_eq!(owner, nix::unistd::geteuid().as_raw(), "{} is somebody else's", folder.display());
            let open = |file: &str| {
                let path = folder.join(file);
                let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
                file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
            };
            let users = open("users");
            // Waits while a keeper takes the last one away.
            users.lock_shared().expect("a file can be locked");
            let starting = open("starting");
            starting.lock().expect("a file can be locked");
            let server =
                Self { folder, programs: programs().expect("PostgreSQL"), _users: Some(users), own: None };
            if !server.answers() {
                server.prepare();
                let mut keeper = Command::new("setsid");
                keeper
                    .args(["--fork", "sh", "-c", KEEPER, "keeper"])
                    .arg(&server.folder)
                    .args(server.command(false));
                let null = || Stdio::null();
                keeper.current_dir("/").stdin(null()).stdout(null()).stderr(null());
                assert!(keeper.status().expect("setsid is there").success());
                server.wait();
            }
            server
        })
    }

    /// A server of one test, in a folder of the test's.
    pub fn own(folder: &Path) -> Self {
        // The server's user must get there.
        let mut parent = Some(folder);
        while let Some(folder) =
            parent.filter(|folder| *folder != Path::new("/") && *folder != Path::new("/tmp"))
        {
            let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755));
            parent = folder.parent();
        }
        let programs = programs().expect("PostgreSQL");
        let mut server = Self { folder: folder.to_owned(), programs, _users: None, own: None };
        server.prepare();
        server.start();
        server
    }

    /// Starts a server of this test's own again.
    pub fn start(&mut self) {
        let words = self.command(true);
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join("log")).expect("a log");
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir("/").stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a file can be shared")).stderr(log);
        self.own = Some(command.spawn().expect("setpriv is there"));
        self.wait();
    }

    /// Stops a server of this test's own: at once, as by a crash, or in order, each connection being told.
    pub fn stop(&mut self, crash: bool) {
        let Some(mut child) = self.own.take() else { return };
        // Its own children notice that it is gone, and go too.
        let signal = if crash { nix::sys::signal::SIGKILL } else { nix::sys::signal::SIGINT };
        let process = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a process number"));
        let _ = nix::sys::signal::kill(process, signal);
        let _ = child.wait();
        if crash {
            // The next one refuses to start while one of them has the memory they shared.
            std::thread::sleep(Duration::from_millis(300));
            let _ = std::fs::remove_file(self.folder.join("data/postmaster.pid"));
        }
    }

    /// Makes a database; it goes with the value.
    pub fn database(&self) -> Database<'_> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let database = Database { server: self, name: format!("t{}_{number}", std::process::id()) };
        // Through the log, as by itself, it takes twice as long.
        self.tool("createdb", &["--strategy=file_copy", &database.name]);
        database
    }

    /// The address of one of its databases, for a user.
    pub fn address(&self, user: &str, database: &str) -> String {
        let socket = self.run().display().to_string().replace('/', "%2F");
        format!("postgres://{user}@{socket}/{database}")
    }

    /// The folder of its socket.
    fn run(&self) -> PathBuf {
        self.folder.join("run")
    }

    fn answers(&self) -> bool {
        UnixStream::connect(self.run().join(".s.PGSQL.5432")).is_ok()
    }

    /// Makes the cluster.
    fn prepare(&self) {
        let data = self.folder.join("data");
        for folder in [&data, &self.run()] {
            let _ = std::fs::remove_dir_all(folder);
            std::fs::create_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
            if nix::unistd::geteuid().is_root() {
                let user = nix::unistd::User::from_name(SYSTEM_USER).expect("users can be looked up");
                let user = user.expect("Debian's package makes the user postgres");
                nix::unistd::chown(folder, Some(user.uid), Some(user.gid)).expect("root may");
            }
        }
        let mut words = as_user(false);
        words.push(self.programs.join("initdb").display().to_string());
        words.extend(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"].map(str::to_owned));
        words.extend([format!("--username={USER}"), "-D".to_owned(), data.display().to_string()]);
        said(Command::new(&words[0]).args(&words[1..]).current_dir("/"));
        let rules = format!("local all {LOCKED} scram-sha-256\nlocal all all trust\n");
        std::fs::write(data.join("pg_hba.conf"), rules).expect("it was made");
    }

    /// The server's command.
    fn command(&self, with_us: bool) -> Vec<String> {
        let mut words = as_user(with_us);
        words.push(self.programs.join("postgres").display().to_string());
        words.extend(["-D".to_owned(), self.folder.join("data").display().to_string()]);
        let socket = format!("unix_socket_directories={}", self.run().display());
        let settings =
            ["listen_addresses=", &socket, "fsync=off", "full_page_writes=off", "autovacuum=off", "jit=off"];
        let memory = [
            "shared_buffers=16MB",
            "max_connections=60",
            "max_wal_size=256MB",
            "wal_level=minimal",
            "max_wal_senders=0",
        ];
        for setting in settings.iter().chain(&memory) {
            words.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        words
    }

    fn wait(&self) {
        let until = Instant::now() + START;
        let mut ready = Command::new(self.programs.join("pg_isready"));
        ready.arg("-q").arg("-h").arg(self.run());
        while !ready.status().is_ok_and(|status| status.success()) {
            let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(
                Instant::now() < until,
                "PostgreSQL does not start in {}: {}",
                self.folder.display(),
                log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn tool(&self, tool: &str, words: &[&str]) -> String {
        let mut command = Command::new(self.programs.join(tool));
        said(command.arg("-h").arg(self.run()).args(["-U", USER]).args(words).env_remove("PGPASSWORD"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(false);
    }
}

/// A database of a test.
#[derive(Debug)]
pub struct Database<'a> {
    server: &'a Server,
    name: String,
}

impl Database<'_> {
    /// Its address, for its owner.
    pub fn address(&self) -> String {
        self.address_for(USER)
    }

    /// Its address for another user, who may be `NAME:PASSWORD`.
    pub fn address_for(&self, user: &str) -> String {
        self.server.address(user, &self.name)
    }

    /// What `psql` prints for a statement that its owner says.
    pub fn psql(&self, sql: &str) -> String {
        let words = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &self.name, "-c", sql];
        self.server.tool("psql", &words)
    }
}

impl Drop for Database<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() || !self.server.answers() {
            return;
        }
        self.server.tool("dropdb", &["--force", &self.name]);
    }
}

/// Begins a command that runs as somebody whom PostgreSQL accepts, and ends with this thread if asked.
fn as_user(with_us: bool) -> Vec<String> {
    let mut words = vec!["setpriv".to_owned()];
    if with_us {
        words.push("--pdeathsig=INT".to_owned());
    }
    if nix::unistd::geteuid().is_root() {
        words.extend(["--reuid", SYSTEM_USER, "--regid", SYSTEM_USER, "--init-groups"].map(str::to_owned));
    }
    words.push("--".to_owned());
    words
}

/// What a command prints; it must succeed.
fn said(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}
