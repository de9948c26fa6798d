//! The first root file system of a guest: busybox, modules, and the programs of one kind of function with their shared
//! libraries, all as they are on this machine.
//!
//! It is put together when it is first needed, and again when something in it has changed: its name is the hash of what
//! is in it (path, size and time of each file). The program `weir` in it is the one that runs now.

use super::cpio::Cpio;
use super::kernel::{Kernel, cache};
use crate::DutError;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufWriter};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// What starts in it.
const INIT: &str = include_str!("init.sh");

/// Images of one kind that are kept, beside the one at hand.
const KEPT: usize = 3;

/// A file system that boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) path: PathBuf,
    /// The hash of what is in it, 16 hexadecimal digits.
    pub(super) hash: String,
}

/// What an image is to hold.
pub(super) struct Content<'a> {
    /// The kind of function: part of the file's name.
    pub(super) kind: &'a str,
    pub(super) modules: &'a [&'a str],
    /// Programs; each goes to `/bin` under its own name, or this one.
    pub(super) programs: Vec<(PathBuf, &'a str)>,
    /// Files that programs load by themselves, at the path where they are here.
    pub(super) loaded: Vec<PathBuf>,
}

/// A file of an image: where it goes, and where it comes from.
type Part = (String, PathBuf);

impl Content<'_> {
    /// The image, made unless it is there.
    pub(super) fn image(&self, kernel: &Kernel) -> Result<Image, DutError> {
        let modules = kernel.modules(self.modules)?;
        let mut parts = self.programs()?;
        parts.extend(modules.iter().map(|(name, path)| (format!("modules/{name}.ko"), path.clone())));
        let hash = hash(&parts, &kernel.version)?;
        let path = cache().join(format!("{}-{hash}.cpio", self.kind));
        if path.is_file() {
            // Which are in use is told by their times.
            let _ = fs::File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        } else {
            let order: String = modules.iter().map(|(name, _)| format!("{name}\n")).collect();
            write(&path, &parts, &order)
                .map_err(|error| DutError::File { path: path.clone(), reason: error.to_string() })?;
            prune(&path, self.kind);
        }
        Ok(Image { path, hash })
    }

    /// Programs and libraries.
    fn programs(&self) -> Result<Vec<Part>, DutError> {
        let missing = DutError::MissingForGuests { program: "busybox", package: "busybox-static" };
        let busybox = find("busybox").ok_or(missing)?;
        let mut parts: Vec<Part> = vec![("bin/busybox".to_owned(), busybox)];
        for (path, name) in &self.programs {
            parts.push((format!("bin/{name}"), path.clone()));
            parts.extend(libraries(path)?);
        }
        for path in &self.loaded {
            parts.push((inside(path), path.clone()));
            parts.extend(libraries(path)?);
        }
        parts.sort();
        parts.dedup();
        Ok(parts)
    }
}

/// A path without the slash that it begins with.
fn inside(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}

/// A program, as the shell finds it, and where administrators' programs are.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The shared libraries that a program or library needs, as the loader of this machine finds them: a symbolic link's
/// name, and the file behind it.
fn libraries(path: &Path) -> Result<Vec<Part>, DutError> {
    let spawn = |error: io::Error| DutError::Spawn { program: "ldd".to_owned(), reason: error.to_string() };
    let output = Command::new("ldd").arg(path).stderr(Stdio::null()).output().map_err(spawn)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let paths = text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    paths
        .map(|path| {
            let file = |error: io::Error| DutError::File { path: path.clone(), reason: error.to_string() };
            Ok((inside(&path), fs::canonicalize(&path).map_err(file)?))
        })
        .collect()
}

/// The hash of what goes into an image.
fn hash(parts: &[Part], kernel: &str) -> Result<String, DutError> {
    let mut hasher = DefaultHasher::new();
    (INIT, kernel).hash(&mut hasher);
    for (name, path) in parts {
        let data = fs::metadata(path)
            .map_err(|error| DutError::File { path: path.clone(), reason: error.to_string() })?;
        (name, path, data.len(), data.mtime(), data.mtime_nsec()).hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Writes an image beside its place and puts it there when it is whole.
fn write(path: &Path, parts: &[Part], order: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let file = tempfile::NamedTempFile::new_in(folder)?;
    let mut cpio = Cpio::new(BufWriter::new(file.as_file()));
    for folder in ["dev", "proc", "sys", "tmp", "run"] {
        cpio.folder(folder)?;
    }
    cpio.file("init", INIT.as_bytes())?;
    for (name, path) in parts {
        cpio.file(name, &stripped(path, name)?)?;
    }
    cpio.file("modules/order", order.as_bytes())?;
    cpio.end()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// A file, without symbols and what debuggers read where `objcopy` is there: a build for developers has three times its size
/// of that.
fn stripped(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    if name.starts_with("bin/")
        && let Ok(to) = tempfile::NamedTempFile::new()
    {
        let mut command = Command::new("objcopy");
        command.arg("--strip-all").arg(path).arg(to.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if command.status().is_ok_and(|status| status.success()) {
            return fs::read(to.path());
        }
    }
    fs::read(path)
}

/// Removes images of this kind that were not used lately.
fn prune(newest: &Path, kind: &str) {
    let Some(entries) = newest.parent().and_then(|folder| fs::read_dir(folder).ok()) else { return };
    let mut others: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path != newest && is_image(path, kind))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    others.sort();
    let old = others.len().saturating_sub(KEPT);
    for (_, path) in others.drain(..old) {
        let _ = fs::remove_file(path); // another lab may have been faster
    }
}

/// Whether a file is an image of this kind: `nf-0123456789abcdef.cpio`.
fn is_image(path: &Path, kind: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hash = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".cpio"));
    hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_the_hash_of_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "one").unwrap();
        let parts = vec![("bin/a".to_owned(), file.clone())];
        let first = hash(&parts, "linux 1").unwrap();
        assert_eq!((first.len(), hash(&parts, "linux 1").unwrap()), (16, first.clone()));
        assert_ne!(hash(&parts, "linux 2").unwrap(), first, "another kernel");
        fs::write(&file, "other").unwrap();
        assert_ne!(hash(&parts, "linux 1").unwrap(), first, "another content");
    }

    #[test]
    fn a_program_brings_its_libraries_and_their_loader() {
        let Some(shell) = find("sh") else { panic!("no shell") };
        let parts = libraries(&shell).unwrap();
        let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.iter().any(|name| name.contains("libc.so")), "{names:?}");
        assert!(names.iter().any(|name| name.contains("ld-linux")), "{names:?}");
        assert!(parts.iter().all(|(name, path)| !name.starts_with('/') && path.is_file()));
    }

    #[test]
    fn old_images_of_one_kind_go_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let image = |number: u32| folder.path().join(format!("nf-{number:016x}.cpio"));
        for number in 0..6 {
            fs::write(image(number), "x").unwrap();
            let then = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(u64::from(number));
            fs::File::open(image(number)).unwrap().set_modified(then).unwrap();
        }
        let other = folder.path().join("linux-0000000000000000.cpio");
        fs::write(&other, "x").unwrap();
        prune(&image(5), "nf");
        let left: Vec<bool> = (0..6).map(|number| image(number).exists()).collect();
        assert_eq!(left, [false, false, true, true, true, true]);
        assert!(other.exists());
    }
}
