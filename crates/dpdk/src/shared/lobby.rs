//! Where processes meet that share memory: a socket in the primary's folder.
//!
//! A secondary says `weir VERSION PID END,END NAME` and is told `ok NUMBER PID`, or `no REASON`. The connection stays: its
//! end without `bye` says that the other has died, at once and whatever killed it. The primary hands out what must
//! not be twice: ends of rings, and the numbers of workers, which are places in the caches of the pool.
//!
//! Threads: one that lets secondaries in and one for each of them, in the primary; one in a secondary. All sleep
//! while nobody comes or goes.

use super::{RingEnd, SharedError};
use crate::socket::vacate;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of the primary's worker.
pub(super) const OWN_NUMBER: u32 = 0;
/// Numbers that DPDK has (`RTE_MAX_LCORE` in Debian's build).
const NUMBERS: u32 = 128;
/// What the primary is called among those who have ends.
const OWNER: &str = "the process that owns the memory";
/// What a process says that ends in order.
const BYE: &str = "bye";
/// What both programs must have in common: mbufs and rings lie in memory as this build says.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long either side waits for the other's first line.
const PATIENCE: Duration = Duration::from_secs(5);

fn socket(folder: &Path) -> PathBuf {
    folder.join("attach.sock")
}

/// Who has what.
#[derive(Debug, Default)]
struct Members {
    links: u16,
    ends: BTreeMap<RingEnd, String>,
    numbers: BTreeMap<u32, String>,
    lost: Option<String>,
}

impl Members {
    /// Gives a process its number and ends; why not, where it cannot have them.
    fn admit(&mut self, name: &str, ends: &[RingEnd]) -> Result<u32, String> {
        for (place, end) in ends.iter().enumerate() {
            if end.link >= self.links {
                return Err(format!(
                    "`{end}` is none of its rings, which are 0 to {}",
                    i64::from(self.links) - 1
                ));
            }
            if let Some(holder) = self.ends.get(end) {
                return Err(format!("{holder} has `{end}`"));
            }
            if ends[..place].contains(end) {
                return Err(format!("`{end}` was asked for twice"));
            }
        }
        let free = (OWN_NUMBER + 1..NUMBERS).find(|number| !self.numbers.contains_key(number));
        let number =
            free.ok_or_else(|| format!("{NUMBERS} processes have its memory, which is all there can be"))?;
        self.numbers.insert(number, name.to_owned());
        self.ends.extend(ends.iter().map(|end| (*end, name.to_owned())));
        Ok(number)
    }

    /// Takes back what one had that ended in order.
    fn release(&mut self, number: u32, ends: &[RingEnd]) {
        self.numbers.remove(&number);
        ends.iter().for_each(|end| drop(self.ends.remove(end)));
    }
}

/// The primary's side.
#[derive(Debug)]
pub(super) struct Lobby {
    members: Arc<Mutex<Members>>,
}

impl Lobby {
    /// Lets others in from now on.
    pub(super) fn open(folder: &Path, links: u16) -> Result<Self, SharedError> {
        let path = socket(folder);
        let wrong = |reason: String| SharedError::Folder { folder: folder.to_owned(), reason };
        if !vacate(&path) {
            return Err(wrong("another process shares its memory there".to_owned()));
        }
        let listener = UnixListener::bind(&path).map_err(|error| wrong(error.to_string()))?;
        let members = Arc::new(Mutex::new(Members { links, ..Members::default() }));
        let inner = Arc::clone(&members);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                let members = Arc::clone(&inner);
                // One that gets no thread is turned away: its connection ends.
                let _ = std::thread::Builder::new()
                    .name("weir-member".into())
                    .spawn(move || attend(stream, &members));
            }
        };
        let spawned = std::thread::Builder::new().name("weir-lobby".into()).spawn(serve);
        spawned.map_err(|error| wrong(error.to_string()))?;
        Ok(Self { members })
    }

    /// Takes an end for the primary itself; false where somebody has it.
    pub(super) fn claim(&self, end: RingEnd) -> bool {
        let mut members = lock(&self.members);
        let free = end.link < members.links && !members.ends.contains_key(&end);
        if free {
            members.ends.insert(end, OWNER.to_owned());
        }
        free
    }

    /// Who has died.
    pub(super) fn lost(&self) -> Option<String> {
        lock(&self.members).lost.clone()
    }

    /// Does something while no secondary is there, and none comes.
    pub(super) fn if_alone(&self, act: impl FnOnce()) {
        let members = lock(&self.members);
        if members.numbers.is_empty() && members.lost.is_none() {
            act();
        }
    }
}

/// Removes the socket of a primary that is gone.
pub(super) fn sweep(folder: &Path) {
    let _ = std::fs::remove_file(socket(folder)); // the folder may be gone
}

fn lock(members: &Mutex<Members>) -> MutexGuard<'_, Members> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever came, until it goes.
fn attend(stream: UnixStream, members: &Mutex<Members>) {
    let mut lines = BufReader::new(&stream);
    let mut line = String::new();
    if stream.set_read_timeout(Some(PATIENCE)).is_err() || lines.read_line(&mut line).is_err() {
        return;
    }
    let (name, ends, admitted) = match hello(line.trim_end()) {
        Ok((name, ends)) => {
            let admitted = lock(members).admit(&name, &ends);
            (name, ends, admitted)
        }
        Err(reason) => (String::new(), Vec::new(), Err(reason)),
    };
    let answer = match &admitted {
        Ok(number) => format!("ok {number} {}\n", std::process::id()),
        Err(reason) => format!("no {reason}\n"),
    };
    let told = (&stream).write_all(answer.as_bytes()).and_then(|()| stream.set_read_timeout(None));
    let Ok(number) = admitted else { return };
    let last = lines.lines().map_while(Result::ok).last();
    let mut members = lock(members);
    if told.is_ok() && last.as_deref() != Some(BYE) {
        members.lost.get_or_insert(format!(
            "{name}, which was attached to this memory, has died; what it held of it is lost"
        ));
    }
    members.release(number, &ends);
}

/// Name and ends of one that wants to come in.
fn hello(line: &str) -> Result<(String, Vec<RingEnd>), String> {
    let mut words = line.splitn(5, ' ');
    let (Some("weir"), Some(version), Some(pid), Some(ends), Some(name)) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return Err(format!("`{line}` is not what a process says that attaches"));
    };
    if version != VERSION {
        return Err(format!(
            "it is weir {VERSION}, and {name} is weir {version}; both must be the same program"
        ));
    }
    let ends = ends.split(',').filter(|end| !end.is_empty()).map(str::parse).collect::<Result<_, _>>()?;
    Ok((format!("{name} (process {pid})"), ends))
}

/// A secondary's side.
#[derive(Debug)]
pub(super) struct Member {
    stream: UnixStream,
    number: u32,
    primary: u32,
    lost: Arc<Mutex<Option<String>>>,
}

impl Member {
    /// Asks the primary to be let in.
    pub(super) fn ask(folder: &Path, name: &str, ends: &[RingEnd]) -> Result<Self, SharedError> {
        let nobody = |error: std::io::Error| SharedError::Nobody {
            folder: folder.to_owned(),
            reason: error.to_string(),
        };
        let refused =
            |reason: &str| SharedError::Refused { folder: folder.to_owned(), reason: reason.to_owned() };
        let mut stream = UnixStream::connect(socket(folder)).map_err(nobody)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(nobody)?;
        let ends: Vec<String> = ends.iter().map(ToString::to_string).collect();
        let name = name.replace(['\n', '\r'], " ");
        writeln!(stream, "weir {VERSION} {} {} {name}", std::process::id(), ends.join(","))
            .map_err(nobody)?;
        let mut lines = BufReader::new(stream.try_clone().map_err(nobody)?);
        let mut line = String::new();
        lines.read_line(&mut line).map_err(nobody)?;
        let line = line.trim_end();
        let told = line.strip_prefix("ok ").and_then(|told| told.split_once(' '));
        let told = told.and_then(|(number, primary)| Some((number.parse().ok()?, primary.parse().ok()?)));
        let Some((number, primary)) = told else {
            return Err(refused(line.strip_prefix("no ").unwrap_or("it ended before it answered")));
        };
        stream.set_read_timeout(None).map_err(nobody)?;
        let lost = Arc::<Mutex<Option<String>>>::default();
        let raised = Arc::clone(&lost);
        let watch = move || {
            lines.lines().map_while(Result::ok).for_each(drop);
            let why =
                format!("process {primary}, which owns the memory and the ports of this one, has ended");
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        };
        std::thread::Builder::new().name("weir-primary".into()).spawn(watch).map_err(nobody)?;
        Ok(Self { stream, number, primary, lost })
    }

    /// The number of this process's worker.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The primary's process number.
    pub(super) fn primary(&self) -> u32 {
        self.primary
    }

    /// What has become of the primary; nothing while it lives.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = writeln!(self.stream, "{BYE}"); // the primary may be gone, which is what this is about
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn end(text: &str) -> RingEnd {
        text.parse().unwrap()
    }

    fn wait(mut what: impl FnMut() -> Option<String>) -> String {
        let begin = Instant::now();
        loop {
            if let Some(text) = what() {
                return text;
            }
            assert!(begin.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn ends_and_numbers_are_handed_out_once_and_come_back_with_a_good_bye() {
        let folder = tempfile::tempdir().unwrap();
        let lobby = Lobby::open(folder.path(), 2).unwrap();
        assert!(lobby.claim(end("ring:0:near")) && !lobby.claim(end("ring:0:near")));
        assert!(!lobby.claim(end("ring:2:near")), "there are two pairs");
        let ask = |name: &str, ends: &[&str]| {
            let ends: Vec<RingEnd> = ends.iter().map(|text| end(text)).collect();
            Member::ask(folder.path(), name, &ends)
        };
        let first = ask("nf 1 l2fwd", &["ring:0:far", "ring:1:near"]).unwrap();
        assert_eq!((first.number(), first.primary()), (1, std::process::id()));
        for (ends, says) in [
            (["ring:0:near"], "the process that owns the memory has `ring:0:near`"),
            (["ring:1:near"], "nf 1 l2fwd (process"),
            (["ring:7:far"], "which are 0 to 1"),
        ] {
            let error = ask("late", &ends).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert!(ask("x", &["ring:1:far", "ring:1:far"]).unwrap_err().to_string().contains("twice"));
        let second = ask("nf 2", &["ring:1:far"]).unwrap();
        assert_eq!(second.number(), 2);
        drop(first);
        wait(|| ask("nf 3", &["ring:1:near"]).ok().map(|member| member.number().to_string()));
        assert_eq!((lobby.lost(), second.lost()), (None, None));
    }

    #[test]
    fn either_side_learns_that_the_other_has_died() {
        let folder = tempfile::tempdir().unwrap();
        let lobby = Lobby::open(folder.path(), 1).unwrap();
        let member = Member::ask(folder.path(), "nf 1 firewall:10", &[end("ring:0:far")]).unwrap();
        lobby.if_alone(|| panic!("it is not alone"));
        // What a killed process leaves: an end of the connection, and no word.
        member.stream.shutdown(std::net::Shutdown::Both).unwrap();
        let why = wait(|| lobby.lost());
        assert!(why.starts_with("nf 1 firewall:10 (process") && why.contains("has died"), "{why}");
        let why = wait(|| member.lost());
        assert!(why.contains(&format!("process {}", std::process::id())), "{why}");
        lobby.if_alone(|| panic!("rings of a dead process may be broken"));
    }

    #[test]
    fn another_version_and_nonsense_are_turned_away() {
        assert!(hello("weir 0.0.0 7 ring:0:far nf 1").unwrap_err().contains("weir 0.0.0"));
        for line in ["", "hello", "weir 1 2 3"] {
            assert!(hello(line).unwrap_err().contains("is not what"), "{line}");
        }
        let (name, ends) = hello(&format!("weir {VERSION} 7 ring:0:far,ring:1:near nf 1 l3fwd:10")).unwrap();
        assert_eq!((name.as_str(), ends.len()), ("nf 1 l3fwd:10 (process 7)", 2));
    }
}
