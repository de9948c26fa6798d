//! An archive as the kernel unpacks it into its first root file system: cpio's `newc` format, written file by file.

use std::collections::BTreeSet;
use std::io::{self, Write};

/// What a folder's mode says, and what a program's does.
const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// The name that ends an archive.
const END: &str = "TRAILER!!!";

/// An archive being written.
pub(super) struct Cpio<W> {
    out: W,
    /// Folders it has.
    folders: BTreeSet<String>,
    entries: u32,
    written: u64,
}

impl<W: Write> Cpio<W> {
    /// An empty one.
    pub(super) fn new(out: W) -> Self {
        Self { out, folders: BTreeSet::new(), entries: 0, written: 0 }
    }

    /// A folder, with those above it. Paths begin without a slash.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for part in ends.map(|end| &path[..end]).filter(|part| !part.is_empty()) {
            if self.folders.insert(part.to_owned()) {
                self.entry(part, FOLDER, &[])?;
            }
        }
        Ok(())
    }

    /// A file that may be run, with the folders above it.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder)?;
        }
        self.entry(path, PROGRAM, content)
    }

    /// Ends the archive; how many bytes it has.
    pub(super) fn end(mut self) -> io::Result<u64> {
        self.entry(END, 0, &[])?;
        self.out.flush()?;
        Ok(self.written)
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len()).map_err(|_| {
            io::Error::new(io::ErrorKind::FileTooLarge, format!("{name} has more than 4 GiB"))
        })?;
        self.entries = self.entries.wrapping_add(1);
        let links = if mode == FOLDER { 2 } else { 1 };
        // Number, mode, user, group, links, time, size, four of devices, length of the name, check sum.
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name.len() as u32 + 1, 0];
        let mut head = b"070701".to_vec();
        for field in fields {
            head.extend(format!("{field:08x}").bytes());
        }
        head.extend(name.bytes().chain([0]));
        self.aligned(&head)?;
        self.aligned(content)
    }

    /// Bytes, and what is missing to a multiple of four.
    fn aligned(&mut self, bytes: &[u8]) -> io::Result<()> {
        let missing = bytes.len().next_multiple_of(4) - bytes.len();
        self.out.write_all(bytes)?;
        self.out.write_all(&[0; 3][..missing])?;
        self.written += (bytes.len() + missing) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use weir_testkit::Need;

    fn archive() -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut cpio = Cpio::new(&mut bytes);
        cpio.folder("proc").unwrap();
        cpio.file("lib/deep/hello", b"hello").unwrap();
        cpio.file("lib/deep/empty", b"").unwrap();
        let length = cpio.end().unwrap();
        assert_eq!(length, bytes.len() as u64);
        bytes
    }

    #[test]
    fn every_part_begins_at_a_multiple_of_four_and_folders_come_once_before_their_files() {
        let bytes = archive();
        let text = String::from_utf8_lossy(&bytes);
        let heads: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(heads.len(), 6, "proc, lib, lib/deep, two files and the end");
        assert!(heads.iter().all(|at| at % 4 == 0) && bytes.len().is_multiple_of(4), "{heads:?}");
        assert!(text.find("lib/deep\0") < text.find("lib/deep/hello\0"));
    }

    #[test]
    fn cpio_itself_unpacks_it() {
        if !weir_testkit::needs!(Need::Program("busybox", "busybox-static")) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("busybox");
        command.args(["cpio", "-i"]).current_dir(folder.path()).stdin(Stdio::piped());
        let mut cpio = command.stderr(Stdio::null()).spawn().unwrap();
        cpio.stdin.take().unwrap().write_all(&archive()).unwrap();
        assert!(cpio.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(folder.path().join("lib/deep/hello")).unwrap(), "hello");
        assert!(folder.path().join("proc").is_dir());
    }
}
