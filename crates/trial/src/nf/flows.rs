//! A flow table of a user's own as a network function: `flows:FILE`.
//!
//! The file is text that `ovs-ofctl add-flows` reads, or a rule set or a routing table, which become flows
//! (`sets.rs`). The tester's two sides are its ports 1 and 2. It is read once,
//! where a plan names it ([`FlowFile::read`]). A stored run names it by file name and a hash of its bytes,
//! `flows:site.flows@0123456789abcdef`: over other contents it is another function, and no run is resumed with
//! them or compared with another's. Such a name can be read back without the file; only its contents are
//! missing then.
//!
//! Costs: [`crate::Nf`] is copied everywhere, so a file's contents are kept once and for as long as the process
//! lives. Threads: any; a lock while a name is looked up.

use super::sets;
use crate::expected::tables;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};
use weir_openflow::{Flow, FlowMod, Names, parse_flow_file};

/// Mistakes of a file that are told; the rest is counted.
const TOLD: usize = 5;
/// Hexadecimal digits of the hash in a name.
const HASH_DIGITS: usize = 16;

/// A flow table, by its name and hash.
#[derive(Clone, Copy)]
pub struct FlowFile(&'static Known);

struct Known {
    name: String,
    hash: String,
    contents: OnceLock<Contents>,
}

#[derive(Debug)]
struct Contents {
    source: String,
    /// The flows that another form stands for.
    flows: Option<String>,
    entries: Vec<FlowEntry>,
}

/// One entry, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// Its line, from 1.
    pub line: u32,
    /// The entry.
    pub flow: Flow,
}

/// A file that is no function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowFileError {
    /// It cannot be read.
    #[error("{file}: {reason}; name a file of flows, as `ovs-ofctl add-flows` reads them")]
    Unread {
        /// The file.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// Lines of it are wrong.
    #[error("{file}: {}", told(.mistakes))]
    Wrong {
        /// The file.
        file: String,
        /// What is wrong, each with its line.
        mistakes: Vec<String>,
    },
    /// It has no entry.
    #[error("{0}: holds no flow; write at least one, such as `in_port=1,actions=output:2`")]
    Empty(String),
}

fn told(mistakes: &[String]) -> String {
    let rest = mistakes.len().saturating_sub(TOLD);
    let shown = mistakes[..mistakes.len().min(TOLD)].join("\n");
    if rest == 0 { shown } else { format!("{shown}\nand {rest} more") }
}

static KNOWN: Mutex<Vec<&'static Known>> = Mutex::new(Vec::new());

impl FlowFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, and every line that is wrong or says what the reference cannot judge.
    pub fn read(path: &Path) -> Result<Self, FlowFileError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| FlowFileError::Unread { file: file.clone(), reason: error.to_string() })?;
        let name = path.file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy().into_owned());
        Self::of(&name, &file, text)
    }

    /// A flow table of this text. `file` stands in the errors.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn of(name: &str, file: &str, text: String) -> Result<Self, FlowFileError> {
        let hash = hash(text.as_bytes());
        let known = Self::known(name, &hash);
        if known.0.contents.get().is_none() {
            let wrong = |mistakes| FlowFileError::Wrong { file: file.to_owned(), mistakes };
            let flows = sets::flows(&text).transpose().map_err(wrong)?;
            let (flows, lines) = flows.map_or((None, None), |flows| {
                let (lines, flows): (Vec<u32>, Vec<String>) = flows.into_iter().unzip();
                (Some(flows.join("\n")), Some(lines))
            });
            let mut entries = entries(flows.as_deref().unwrap_or(&text)).map_err(wrong)?;
            for (entry, line) in entries.iter_mut().zip(lines.into_iter().flatten()) {
                entry.line = line;
            }
            if entries.is_empty() {
                return Err(FlowFileError::Empty(file.to_owned()));
            }
            known.0.contents.get_or_init(|| Contents { source: text, flows, entries });
        }
        Ok(known)
    }

    /// The name of a file that is not read: for those who measure nothing.
    pub fn unread(path: &Path) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self::known(&name, &"0".repeat(HASH_DIGITS))
    }

    /// The table of a stored name, `NAME@HASH`; nothing for another text.
    pub(super) fn stored(text: &str) -> Option<Self> {
        let (name, hash) = text.rsplit_once('@')?;
        let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
        (is_hash && !name.is_empty()).then(|| Self::known(name, hash))
    }

    fn known(name: &str, hash: &str) -> Self {
        let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let there = all.iter().find(|known| known.name == name && known.hash == hash).copied();
        Self(there.unwrap_or_else(|| {
            let (name, hash) = (name.to_owned(), hash.to_owned());
            let new: &'static Known = Box::leak(Box::new(Known { name, hash, contents: OnceLock::new() }));
            all.push(new);
            new
        }))
    }

    /// The file's name, without its folder.
    pub fn name(self) -> &'static str {
        &self.0.name
    }

    /// The hash of its bytes, shortened.
    pub fn hash(self) -> &'static str {
        &self.0.hash
    }

    /// What [`Self::hash`] is of a file with these bytes.
    pub fn hash_of(bytes: &[u8]) -> String {
        hash(bytes)
    }

    /// The text of its flows; nothing where this process did not read it.
    pub fn text(self) -> Option<&'static str> {
        let contents = self.0.contents.get()?;
        Some(contents.flows.as_ref().unwrap_or(&contents.source))
    }

    /// The file's own text; nothing where this process did not read it.
    pub fn source(self) -> Option<&'static str> {
        self.0.contents.get().map(|contents| contents.source.as_str())
    }

    /// Its entries, in the file's order; none where this process did not read it.
    pub fn entries(self) -> &'static [FlowEntry] {
        self.0.contents.get().map_or(&[], |contents| contents.entries.as_slice())
    }
}

/// The hash of a file's bytes, shortened.
fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..HASH_DIGITS].to_owned()
}

/// The entries of a file; all that is wrong with it.
fn entries(text: &str) -> Result<Vec<FlowEntry>, Vec<String>> {
    let file = parse_flow_file(text, &Names::default())
        .map_err(|errors| errors.0.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let (mut entries, mut mistakes) = (Vec::with_capacity(file.changes.len()), Vec::new());
    for (change, line) in file.changes.into_iter().zip(file.lines) {
        let FlowMod::Add(flow) = change else {
            mistakes.push(format!(
                "line {line}: the line changes or deletes entries; a function's file only adds"
            ));
            continue;
        };
        match tables::judges(&flow) {
            Ok(()) => entries.push(FlowEntry { line, flow }),
            Err(what) => mistakes.push(format!(
                "line {line}: the reference that packets are compared with does not know {what}; leave it out"
            )),
        }
    }
    if mistakes.is_empty() { Ok(entries) } else { Err(mistakes) }
}

impl PartialEq for FlowFile {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for FlowFile {}

impl Hash for FlowFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.0).hash(state);
    }
}

impl fmt::Debug for FlowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlowFile({self})")
    }
}

/// `site.flows@0123456789abcdef`.
impl fmt::Display for FlowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.0.name, self.0.hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nf, NfKind};

    #[test]
    fn a_file_is_a_function_by_its_name_and_contents() {
        let of = |text: &str| FlowFile::of("a.flows", "x/a.flows", text.to_owned()).unwrap();
        let one = of("# both ways\nin_port=1,actions=output:2\n\nin_port=2,actions=output:1\n");
        assert_eq!(one, of("# both ways\nin_port=1,actions=output:2\n\nin_port=2,actions=output:1\n"));
        assert_ne!(one, of("in_port=1,actions=output:2\n"));
        assert_eq!(one.entries().iter().map(|entry| entry.line).collect::<Vec<_>>(), [2, 4]);
        let nf = Nf::Flows(one);
        assert_eq!((nf.kind(), nf.entries()), (NfKind::Flows, None));
        assert_eq!(nf.to_string(), format!("flows:a.flows@{}", one.hash()));
        assert_eq!(nf.to_string().parse(), Ok(nf));
        let unread: Nf = "flows:b@c.flows@00000000deadbeef".parse().unwrap();
        assert_eq!(unread.to_string(), "flows:b@c.flows@00000000deadbeef");
        assert!(matches!(unread, Nf::Flows(file) if file.text().is_none() && file.entries().is_empty()));
        let error = "flows:a.flows".parse::<Nf>().unwrap_err().to_string();
        assert!(error.contains("flows:FILE"), "{error}");
    }

    #[test]
    fn a_mistake_is_named_by_its_line_and_word_and_of_many_the_first_few() {
        let mut text = "priority=1,actions=output:1\n".repeat(39_999);
        text.push_str("tcp,tp_dst=70000,actions=output:2\n");
        let error = FlowFile::of("f", "site.flows", text).unwrap_err().to_string();
        assert!(error.starts_with("site.flows: line 40000, column 12: `70000`"), "{error}");
        let error = FlowFile::of("f", "f", "actions=ouput:2\n".repeat(9)).unwrap_err().to_string();
        assert_eq!((error.lines().count(), error.lines().last()), (TOLD + 1, Some("and 4 more")), "{error}");
        assert!(FlowFile::of("f", "f", "# none\n".into()).unwrap_err().to_string().contains("holds no flow"));
        let missing = FlowFile::read(Path::new("/nowhere/site.flows")).unwrap_err().to_string();
        assert!(missing.starts_with("/nowhere/site.flows: "), "{missing}");
    }

    #[test]
    fn rule_sets_and_routing_tables_are_flows_of_their_own_lines() {
        let set = "@1.0.0.0/8 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xFF\n\n\
                   @2.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF\n";
        let file = FlowFile::of("acl1.rules", "acl1.rules", set.to_owned()).unwrap();
        assert_eq!(file.entries().iter().map(|entry| entry.line).collect::<Vec<_>>(), [1, 1, 3, 3]);
        assert_eq!(file.source(), Some(set));
        assert!(
            file.text().unwrap().starts_with("priority=65535,in_port=1,tcp,nw_src=1.0.0.0/8,"),
            "{:?}",
            file.text()
        );
        let error =
            FlowFile::of("r", "routes.txt", "10.0.0.0/8 1\n10.0.0.0/40 1\n".into()).unwrap_err().to_string();
        assert!(error.starts_with("routes.txt: line 2: `10.0.0.0/40`"), "{error}");
    }

    #[test]
    fn what_the_reference_does_not_know_is_refused_by_name() {
        for (line, word) in [
            ("ip,actions=ct(commit)", "`ct`"),
            ("actions=controller", "`controller`"),
            ("actions=group:1", "`group`"),
            ("actions=meter:1,output:2", "a meter"),
            ("ct_state=+trk,actions=output:2", "`ct_state`"),
            ("mpls,mpls_label=3,actions=output:2", "`mpls_label`"),
            ("actions=output:3", "`output:3`"),
            ("idle_timeout=5,actions=output:2", "goes after some time"),
            ("delete in_port=1", "only adds"),
            ("actions=set_field:1->tun_id,output:2", "writes `tun_id`"),
        ] {
            let text = format!("in_port=1,actions=output:2\n{line}\n");
            let error = FlowFile::of("f", "f", text).unwrap_err().to_string();
            assert!(error.contains("line 2: ") && error.contains(word), "{line}: {error}");
        }
    }
}
