//! Inputs that are kept: `crates/fuzz/corpus/TARGET.txt`, one a line.
//!
//! A byte stands as it is where it can be read, else as `\xNN` (as [`u8::escape_ascii`] writes it), so that a change of
//! the corpus can be read. A line that begins with `#` is a comment: above an input that found something, what that was.
//! libFuzzer has one file an input: [`unpack`] and [`pack`] go from one to the other.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of inputs, as lines, that are kept of a target beside those that found something.
pub const ROOM: usize = 24 * 1024;

/// Where the corpus is.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn file(target: &str) -> PathBuf {
    folder().join(format!("{target}.txt"))
}

/// An input as a line.
pub fn line(input: &[u8]) -> String {
    let line = input.escape_ascii().to_string();
    match line.strip_prefix('#') {
        Some(rest) => format!("\\x23{rest}"),
        None => line,
    }
}

/// The input of a line.
///
/// # Errors
/// What in it is no byte.
pub fn input(line: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut letters = line.bytes();
    while let Some(letter) = letters.next() {
        if letter != b'\\' {
            bytes.push(letter);
            continue;
        }
        bytes.push(match letters.next() {
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(quote @ (b'\'' | b'"' | b'\\')) => quote,
            Some(b'x') => {
                let digits: String = letters.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).map_err(|_| format!("`\\x{digits}` is no byte"))?
            }
            other => return Err(format!("`\\{}` is no byte", other.map_or(' ', char::from))),
        });
    }
    Ok(bytes)
}

/// The inputs that are kept of a target.
///
/// # Errors
/// The line that is none.
pub fn kept(target: &str) -> Result<Vec<Vec<u8>>, String> {
    let path = file(target);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines
        .map(|(at, line)| input(line).map_err(|why| format!("{}:{}: {why}", path.display(), at + 1)))
        .collect()
}

/// Writes what is kept of a target, and its seeds, into a folder, a file each.
///
/// # Errors
/// What the system says, and a line that is no input.
pub fn unpack(target: &crate::Target, to: &Path) -> Result<usize, String> {
    let wrong = |error: io::Error| format!("{}: {error}", to.display());
    fs::create_dir_all(to).map_err(wrong)?;
    let inputs: BTreeSet<Vec<u8>> = kept(target.name)?.into_iter().chain((target.seeds)()).collect();
    for input in &inputs {
        let name = crate::Outcome::of(input).0;
        fs::write(to.join(format!("{name:016x}")), input).map_err(wrong)?;
    }
    Ok(inputs.len())
}

/// Keeps of a folder's inputs, the shortest first, what there is room for; those under a comment stay. Says how many.
///
/// # Errors
/// What the system says.
pub fn pack(target: &crate::Target, from: &Path) -> Result<usize, String> {
    let path = file(target.name);
    let mut text = regressions(&fs::read_to_string(&path).unwrap_or_default());
    let mut inputs = BTreeSet::new();
    for entry in fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let input = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        inputs.insert((input.len(), line(&input)));
    }
    let seeds: BTreeSet<String> = (target.seeds)().iter().map(|seed| line(seed)).collect();
    let (mut room, mut count) = (ROOM, 0);
    for (_, line) in inputs.iter().filter(|(_, line)| !seeds.contains(line)) {
        if line.len() >= room {
            break;
        }
        room -= line.len() + 1;
        count += 1;
        text.push_str(line);
        text.push('\n');
    }
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(count)
}

/// The comments of a corpus, and the input under each.
fn regressions(text: &str) -> String {
    let (mut kept, mut under) = (String::new(), false);
    for line in text.lines() {
        let comment = line.starts_with('#');
        if comment || under {
            kept.push_str(line);
            kept.push('\n');
        }
        under = comment;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_one_line_and_the_same_bytes_again() {
        for bytes in [&b"# \x00\xff\t\"quoted\" \\ \n"[..], b"", b"plain", "é".as_bytes()] {
            let line = line(bytes);
            assert!(!line.contains('\n') && !line.starts_with('#'), "{line}");
            assert_eq!(input(&line).as_deref(), Ok(bytes));
        }
        assert_eq!(input("\\xzz"), Err("`\\xzz` is no byte".to_owned()));
        assert!(input("\\").is_err());
    }

    #[test]
    fn what_found_something_stays_with_its_comment() {
        assert_eq!(
            regressions("a\n# it panicked\n# in two lines\nb\nc\n"),
            "# it panicked\n# in two lines\nb\n"
        );
    }

    #[test]
    fn every_file_of_the_corpus_is_of_a_target_and_can_be_read() {
        for entry in fs::read_dir(folder()).expect("there is a corpus") {
            let path = entry.expect("a file").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            assert!(crate::target(name).is_some(), "{}: no target of that name", path.display());
            kept(name).unwrap();
        }
    }
}
