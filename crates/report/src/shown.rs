//! Text that may be somebody else's, as a reader sees it: runs, bundles and files hold names, versions and errors that others
//! wrote, and some letters do something to a terminal or a reader instead of being seen.
//!
//! A control character (C0 without tab and the end of a line, DEL, C1) and a character that turns the direction of writing or is
//! not seen is written as `\u001b`.

use std::fmt::Write as _;

/// Whether a character does something to a terminal or a reader instead of being seen.
pub fn is_hostile(letter: char) -> bool {
    match letter {
        '\n' | '\t' => false,
        letter if letter.is_control() => true,
        // Marks and overrides of direction, joiners and other letters of no width, separators of lines, tags.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' => true,
        '\u{61c}' | '\u{180e}' | '\u{e0000}'..='\u{e007f}' => true,
        // What no XML may hold, nor an SVG.
        '\u{fffe}' | '\u{ffff}' => true,
        _ => false,
    }
}

/// Writes a character out, in units of UTF-16 as JSON has them.
pub fn write_out(letter: char, text: &mut String) {
    let mut units = [0; 2];
    for unit in letter.encode_utf16(&mut units) {
        let _ = write!(text, "\\u{unit:04x}");
    }
}

/// The text with every hostile character written out.
pub fn shown(text: String) -> String {
    if !text.chars().any(is_hostile) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 64);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        // Files of other systems end their lines so.
        let is_end = letter == '\r' && letters.peek() == Some(&'\n');
        if is_hostile(letter) && !is_end { write_out(letter, &mut safe) } else { safe.push(letter) }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_something_to_a_reader_is_written_out() {
        for (text, safe) in [
            ("plain µs, Mpps → 1\n\t", "plain µs, Mpps → 1\n\t"),
            ("a\u{7}\u{1b}[2Jb\u{9b}", "a\\u0007\\u001b[2Jb\\u009b"),
            ("nf\u{202e}reversed\u{200b}\u{feff}\u{ffff}", "nf\\u202ereversed\\u200b\\ufeff\\uffff"),
            ("a\r\nb\rc", "a\r\nb\\u000dc"),
            ("tag \u{e0041}", "tag \\udb40\\udc41"),
        ] {
            assert_eq!(shown(text.to_owned()), safe, "{text:?}");
        }
    }
}
