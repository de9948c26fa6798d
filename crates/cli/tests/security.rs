//! Documents that say which test shows what: each of these tests is there.

use std::collections::BTreeSet;
use std::path::Path;

/// The names of all functions in the sources and tests of a crate, and of the files of its tests.
fn names(krate: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(krate);
    let (mut found, mut folders) = (BTreeSet::new(), vec![root.join("src"), root.join("tests")]);
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
                let text = std::fs::read_to_string(&path).unwrap();
                let functions = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
                found.extend(functions.map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn every_test_that_the_rows_of_asvs_name_is_there_and_each_row_has_one_or_says_why_not() {
    let document = include_str!("../../../docs/security-asvs.md");
    let (mut rows, mut named) = (0, 0);
    for line in document.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit())
    {
        rows += 1;
        let mut tests =
            line.split('`').skip(1).step_by(2).filter_map(|word| word.split_once(": ")).peekable();
        let says = line.rsplit('|').nth(1).unwrap().trim();
        assert!(tests.peek().is_some() || says.len() > 8, "{line}");
        for (krate, name) in tests {
            assert!(names(krate).contains(name), "{krate}: {name} is not there");
            named += 1;
        }
    }
    assert!(rows > 50 && named > 50, "{rows} rows, {named} tests");
}
