//! The password file of PostgreSQL's programs: `~/.pgpass`, lines of `host:port:database:user:password`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The text of a password file; nothing where there is none. One that others may read is refused, as an open secret.
pub(super) fn read(file: &Path) -> Result<Option<String>, String> {
    let Ok(data) = file.metadata() else { return Ok(None) };
    if !data.is_file() {
        return Ok(None);
    }
    if data.permissions().mode() & 0o077 != 0 {
        let file = file.display();
        return Err(format!("others may read the password file {file}; `chmod 600 {file}` closes it"));
    }
    std::fs::read_to_string(file).map(Some).map_err(|error| format!("{}: {error}", file.display()))
}

/// The password of the first line that fits host, port, database and user; `*` fits all.
pub(super) fn find(text: &str, of: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (fields, password) = fields.split_at_checked(4)?;
        let fits = fields.iter().zip(of).all(|(field, value)| field == "*" || field == value);
        fits.then(|| password.first().cloned()).flatten()
    })
}

/// The fields of a line: `\` takes the next character as it is.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match c {
            ':' if fields.len() < 5 => fields.push(String::new()),
            c => {
                let c = if c == '\\' { rest.next().unwrap_or(c) } else { c };
                fields.last_mut().expect("there is one").push(c);
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# a comment:5432:*:me:no
db.lab:5432:weir:me:first
db.lab:*:*:you:se\\:cr\\\\et:more
short:line
*:*:*:me:any
";

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let of = |host, database, user| find(FILE, [host, "5432", database, user]);
        assert_eq!(of("db.lab", "weir", "me").as_deref(), Some("first"));
        assert_eq!(of("db.lab", "other", "me").as_deref(), Some("any"));
        assert_eq!(of("db.lab", "weir", "you").as_deref(), Some("se:cr\\et:more"));
        assert_eq!(of("elsewhere", "weir", "you"), None);
    }

    #[test]
    fn a_password_file_that_others_may_read_is_refused_with_its_cure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pgpass");
        assert_eq!(read(&file), Ok(None), "there is none");
        std::fs::write(&file, FILE).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read(&file).unwrap_err().contains("chmod 600"));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&file).unwrap().as_deref(), Some(FILE));
    }
}
