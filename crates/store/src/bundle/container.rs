//! The container: a gzip of a tar archive, of which only plain files are written and read (POSIX.1-2001, ustar).
//!
//! `tar xzf FILE` unpacks it. The reader trusts nothing: names are compared with those that a bundle must have and never
//! reach a file system, a length that is stated allocates nothing before its bytes have come, and what is unpacked is
//! counted against a bound as it comes.

use super::error::{BundleError, BundleResult};
use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use std::io::{BufRead, ErrorKind, Read, Write as _};

/// A block of a tar archive, in bytes.
const BLOCK: usize = 512;

/// Zeros after an archive's end that other programs write, in bytes.
const MOST_PADDING: u64 = 1 << 16;

/// Writes files into an archive, compressed; the same files give the same bytes.
pub(super) fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let zeros = [0_u8; 2 * BLOCK];
    let mut put = |bytes: &[u8]| packed.write_all(bytes).expect("writing to memory cannot fail");
    for (name, content) in files {
        put(&header(name, content.len()));
        put(content);
        put(&zeros[..content.len().next_multiple_of(BLOCK) - content.len()]);
    }
    put(&zeros);
    packed.finish().expect("writing to memory cannot fail")
}

/// The header of a plain file. Names here are far shorter than its 100 bytes.
fn header(name: &str, size: usize) -> [u8; BLOCK] {
    let mut block = [0_u8; BLOCK];
    let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum = checksum(&block);
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// The sum of a header's bytes, its own field taken for blanks.
fn checksum(block: &[u8; BLOCK]) -> u32 {
    let byte = |(at, byte): (usize, &u8)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) };
    block.iter().enumerate().map(byte).sum()
}

/// Reads an archive file by file, in order.
pub(super) struct Unpacking<R> {
    stream: GzDecoder<R>,
    /// Bytes that may still be unpacked.
    left: u64,
    bound: u64,
}

impl<R: BufRead> Unpacking<R> {
    /// Of a compressed stream, of which so many unpacked bytes at most are read.
    pub(super) fn new(stream: R, bound: u64) -> Self {
        Self { stream: GzDecoder::new(stream), left: bound, bound }
    }

    /// The next file, which must have this name, whole; more than `most` bytes of it are refused.
    pub(super) fn file(&mut self, name: &str, most: u64) -> BundleResult<Vec<u8>> {
        match self.next(most)? {
            Some((found, content)) if found == name => Ok(content),
            Some((found, _)) => {
                Err(BundleError::Damaged(format!("it has {} where `{name}` must be", shown(&found))))
            }
            None => Err(BundleError::Cut(format!("`{name}` is missing"))),
        }
    }

    /// The next file, whatever its name; nothing at the archive's end.
    pub(super) fn next(&mut self, most: u64) -> BundleResult<Option<(String, Vec<u8>)>> {
        let mut block = [0_u8; BLOCK];
        self.exactly(&mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let (name, size) = entry(&block)?;
        if size > most {
            let what = format!("{} has {size} bytes", shown(&name));
            return Err(BundleError::TooLarge { what, bound: most });
        }
        let content = self.content(&name, size)?;
        Ok(Some((name, content)))
    }

    fn content(&mut self, name: &str, size: u64) -> BundleResult<Vec<u8>> {
        self.spend(size)?;
        let mut content = Vec::new();
        (&mut self.stream).take(size).read_to_end(&mut content).map_err(broken)?;
        if content.len() as u64 != size {
            return Err(BundleError::Cut(format!(
                "{} ends after {} of {size} bytes",
                shown(name),
                content.len()
            )));
        }
        let mut rest = [0_u8; BLOCK];
        let padding = content.len().next_multiple_of(BLOCK) - content.len();
        self.exactly(&mut rest[..padding])?;
        Ok(content)
    }

    /// The archive's end: nothing but zeros may follow, and nothing after the compressed stream.
    pub(super) fn end(mut self) -> BundleResult<()> {
        let mut rest = Vec::new();
        (&mut self.stream).take(MOST_PADDING + 1).read_to_end(&mut rest).map_err(broken)?;
        if rest.len() as u64 > MOST_PADDING || rest.iter().any(|byte| *byte != 0) {
            return Err(BundleError::Damaged("something follows its last part".to_owned()));
        }
        let after = self.stream.into_inner().fill_buf().map_err(broken)?.len();
        if after > 0 {
            return Err(BundleError::Damaged("something follows its end".to_owned()));
        }
        Ok(())
    }

    fn exactly(&mut self, bytes: &mut [u8]) -> BundleResult<()> {
        self.spend(bytes.len() as u64)?;
        self.stream.read_exact(bytes).map_err(broken)
    }

    fn spend(&mut self, bytes: u64) -> BundleResult<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| BundleError::TooLarge {
            what: format!("it unpacks to more than {} bytes", self.bound),
            bound: self.bound,
        })?;
        Ok(())
    }
}

/// A name and a size from a header, which must be one of a plain file.
fn entry(block: &[u8; BLOCK]) -> BundleResult<(String, u64)> {
    let damaged = |what: String| BundleError::Damaged(what);
    let stated = octal(&block[148..156]);
    if stated != Some(u64::from(checksum(block))) {
        return Err(damaged("the header of a part has a wrong checksum".to_owned()));
    }
    let name = block[..100].split(|byte| *byte == 0).next().unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| damaged("the name of a part is no text".to_owned()))?;
    let is_file = matches!(block[156], b'0' | 0) && block[345] == 0;
    if name.is_empty() || !is_file {
        return Err(damaged(format!("{} is no plain file", shown(name))));
    }
    let size = octal(&block[124..136]).ok_or_else(|| damaged(format!("{} has no size", shown(name))))?;
    Ok((name.to_owned(), size))
}

/// A number as a header has it.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    u64::from_str_radix(text, 8).ok()
}

/// A name for a message: short, and without what a terminal would obey.
pub(super) fn shown(name: &str) -> String {
    let short: String = name.chars().take(60).collect();
    format!("`{}`", short.escape_debug())
}

/// What the decompressor says, sorted.
fn broken(error: std::io::Error) -> BundleError {
    match error.kind() {
        ErrorKind::UnexpectedEof => BundleError::Cut("the file ends in the middle".to_owned()),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => BundleError::Damaged(error.to_string()),
        _ => BundleError::NotABundle(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> Vec<(String, Vec<u8>)> {
        vec![("a.json".to_owned(), b"{}".to_vec()), ("points/0/b".to_owned(), vec![7; 1300])]
    }

    #[test]
    fn what_was_packed_is_unpacked_and_the_same_files_give_the_same_bytes() {
        let packed = pack(&files());
        assert_eq!(packed, pack(&files()));
        let mut unpacking = Unpacking::new(packed.as_slice(), 1 << 20);
        for (name, content) in files() {
            assert_eq!(unpacking.file(&name, 1 << 20).unwrap(), content);
        }
        assert!(unpacking.next(0).unwrap().is_none());
        unpacking.end().unwrap();
    }

    #[test]
    fn a_file_that_unpacks_to_more_than_the_bound_is_left_at_the_bound() {
        let packed = pack(&[("zeros".to_owned(), vec![0; 8 << 20])]);
        assert!(packed.len() < 64 << 10, "{} bytes", packed.len());
        let error = Unpacking::new(packed.as_slice(), 1 << 20).file("zeros", 1 << 30).unwrap_err();
        assert!(matches!(error, BundleError::TooLarge { bound: 1_048_576, .. }), "{error}");
        let error = Unpacking::new(packed.as_slice(), 1 << 30).file("zeros", 100).unwrap_err();
        assert!(error.to_string().contains("8388608 bytes"), "{error}");
    }
}
