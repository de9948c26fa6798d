//! Commands that a page or a program suggests.

/// A word as a shell takes it: as it is, or in quotes where it has letters that mean something there.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@~%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_to_a_shell_stands_in_quotes() {
        assert_eq!(shell_word("plans/tse.toml"), "plans/tse.toml");
        for (word, wanted) in [("", "''"), ("a b", "'a b'"), ("$(x)", "'$(x)'"), ("it's", r"'it'\''s'")] {
            assert_eq!(shell_word(word), wanted);
        }
    }
}
