//! Lists of cores as the kernel writes them: `0-3,8`.

/// The cores of a list, rising; parts that are no numbers are left out.
pub fn parse(text: &str) -> Vec<usize> {
    let mut cores: Vec<usize> = text
        .split(',')
        .filter_map(|part| {
            let part = part.trim();
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            // "0-15:2/4" is a stride of the command line only; its plain part is what is taken.
            let last = last.split(':').next()?;
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
        .collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Cores as a list; `none` for none.
pub fn format(cores: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &core in cores {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => parts.push((core, core)),
        }
    }
    if parts.is_empty() {
        return "none".to_owned();
    }
    let words = parts.iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(parse("0-3,8,10-11"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("3,1-2,2"), [1, 2, 3]);
        assert_eq!(parse("none"), [0_usize; 0]);
        assert_eq!(format(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(format(&[]), "none");
        assert_eq!(parse(&format(&[5])), [5]);
    }
}
