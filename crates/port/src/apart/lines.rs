//! Lines from another process, which may say anything, for as long as it likes.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;

/// Bytes of a line that is listened to.
const LONGEST: usize = 16 << 10;
/// Between the lines of a text that is told as one.
pub(super) const NEW_LINE: char = '\u{1f}';

/// The lines of a stream.
#[derive(Debug)]
pub(super) struct Lines {
    stream: UnixStream,
    /// What came and is no line yet, or was not asked for.
    text: Vec<u8>,
}

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// A line, without what would move the cursor of whoever reads it.
    Line(String),
    /// Nothing yet.
    Nothing,
    /// The other end is gone, or talks without end.
    End,
}

impl Lines {
    /// The stream says itself how long it waits.
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, text: Vec::new() }
    }

    /// The stream.
    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// The next line. It waits as long as the stream does, once.
    pub(super) fn hear(&mut self) -> Heard {
        if let Some(line) = self.line() {
            return line;
        }
        let mut chunk = [0; 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => Heard::End,
            Ok(got) => {
                self.text.extend_from_slice(&chunk[..got]);
                self.line().unwrap_or(Heard::Nothing)
            }
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Heard::Nothing,
                _ => Heard::End,
            },
        }
    }

    fn line(&mut self) -> Option<Heard> {
        let Some(end) = self.text.iter().position(|byte| *byte == b'\n') else {
            return (self.text.len() > LONGEST).then_some(Heard::End);
        };
        let line: Vec<u8> = self.text.drain(..=end).collect();
        let shown = |letter: char| match letter {
            NEW_LINE => '\n',
            letter if letter.is_control() => ' ',
            letter => letter,
        };
        Some(Heard::Line(String::from_utf8_lossy(&line[..end]).chars().map(shown).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn said(bytes: &[u8]) -> (Lines, UnixStream) {
        let (here, mut there) = UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        there.write_all(bytes).unwrap();
        (Lines::new(here), there)
    }

    #[test]
    fn a_line_is_heard_once_it_is_whole_and_moves_no_cursor() {
        let (mut lines, mut there) = said(b"pid 7\nfailed \x1b[2Jno\x1ftwo \xff\nha");
        assert_eq!(lines.hear(), Heard::Line("pid 7".to_owned()));
        assert_eq!(lines.hear(), Heard::Line("failed  [2Jno\ntwo \u{fffd}".to_owned()));
        assert_eq!(lines.hear(), Heard::Nothing);
        there.write_all(b"lf\n").unwrap();
        assert_eq!(lines.hear(), Heard::Line("half".to_owned()));
        drop(there);
        assert_eq!(lines.hear(), Heard::End);
    }

    #[test]
    fn who_talks_without_end_is_heard_a_line_at_a_time_and_not_for_ever() {
        let (mut lines, mut there) = said(&b"pid 1\n".repeat(1000));
        for _ in 0..1000 {
            assert_eq!(lines.hear(), Heard::Line("pid 1".to_owned()));
        }
        let mut asked = 0;
        while lines.hear() != Heard::End {
            there.write_all(&[b'x'; 1000]).unwrap();
            asked += 1;
            assert!(asked < 100, "a line without end is no line");
        }
    }
}
