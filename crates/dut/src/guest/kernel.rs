//! The kernel of guests: Debian's, unpacked and not installed (`crates/dut/guest.sh`), and which of its modules a
//! guest needs, in an order in which they can be loaded.

use crate::DutError;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// What makes it.
const CURE: &str = "./x guest fetches Debian's";

/// A kernel that is here.
#[derive(Debug)]
pub(crate) struct Kernel {
    folder: PathBuf,
    /// Package and version, such as `linux-image-6.1.0-56-cloud-amd64 6.1.192-2`.
    pub(super) version: String,
}

/// The user's folder for what guests are made of, from the values of `XDG_CACHE_HOME` and `HOME`.
fn folder(cache: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let cache = cache.map(PathBuf::from).filter(|path| path.is_absolute());
    cache.unwrap_or_else(|| PathBuf::from(home.unwrap_or_default()).join(".cache")).join("weir/guest")
}

/// Where what guests are made of lies.
pub(super) fn cache() -> PathBuf {
    folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))
}

impl Kernel {
    /// The one that is here.
    ///
    /// # Errors
    ///
    /// Where there is none: what makes it.
    pub(super) fn here() -> Result<Self, DutError> {
        Self::of(cache().join("kernel"))
    }

    fn of(folder: PathBuf) -> Result<Self, DutError> {
        let version = fs::read_to_string(folder.join("version")).unwrap_or_default().trim().to_owned();
        let kernel = Self { folder, version };
        if kernel.version.is_empty() || !kernel.image().is_file() {
            let path = kernel.image();
            return Err(DutError::File { path, reason: format!("there is no kernel for guests; {CURE}") });
        }
        Ok(kernel)
    }

    /// What boots.
    pub(super) fn image(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// The files of these modules and of those they need, each after what it needs. One that the kernel has built
    /// in is no file.
    pub(super) fn modules(&self, wanted: &[&str]) -> Result<Vec<(String, PathBuf)>, DutError> {
        let mut files = BTreeMap::new();
        collect(&self.folder.join("modules"), &mut files);
        if files.is_empty() {
            let path = self.folder.join("modules");
            return Err(DutError::File { path, reason: format!("the kernel has no modules; {CURE}") });
        }
        let mut order = Vec::new();
        for name in wanted {
            load(name, &files, &mut order)?;
        }
        Ok(order)
    }
}

/// All modules below a folder, by name.
fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if let (Some(stem), Some("ko")) =
            (path.file_stem().and_then(|stem| stem.to_str()), path.extension().and_then(|end| end.to_str()))
        {
            files.insert(plain(stem), path);
        }
    }
}

/// A module's name, in which `-` and `_` are the same.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

/// A module behind those it needs.
fn load(
    name: &str,
    files: &BTreeMap<String, PathBuf>,
    order: &mut Vec<(String, PathBuf)>,
) -> Result<(), DutError> {
    let name = plain(name);
    let Some(path) = files.get(&name).filter(|_| !order.iter().any(|(there, _)| *there == name)) else {
        return Ok(());
    };
    let unread = |error: std::io::Error| DutError::File { path: path.clone(), reason: error.to_string() };
    for needed in depends(&fs::read(path).map_err(unread)?) {
        load(&needed, files, order)?;
    }
    order.push((name, path.clone()));
    Ok(())
}

/// What a module says it needs: `depends=a,b`, between zeros, in its section `.modinfo`.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let text = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(text);
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_need_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("modules/drivers");
        fs::create_dir_all(&deep).unwrap();
        for (name, needs) in
            [("virtio_net", "net-failover,virtio"), ("net_failover", "virtio"), ("virtio", "")]
        {
            fs::write(deep.join(format!("{name}.ko")), format!("\u{7f}ELF\0depends={needs}\0x\0")).unwrap();
        }
        fs::write(folder.path().join("version"), "linux-image-x 1\n").unwrap();
        fs::write(folder.path().join("vmlinuz"), "x").unwrap();
        let kernel = Kernel::of(folder.path().to_owned()).unwrap();
        let modules = kernel.modules(&["virtio-net", "virtio", "built_in"]).unwrap();
        let names: Vec<&str> = modules.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["virtio", "net_failover", "virtio_net"]);
        assert_eq!(kernel.version, "linux-image-x 1");
    }

    #[test]
    fn a_kernel_that_is_not_there_says_what_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        let error = Kernel::of(folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("no kernel for guests") && error.contains("./x guest"), "{error}");
    }

    #[test]
    fn it_is_looked_for_in_the_cache_of_the_user() {
        assert_eq!(folder(None, Some("/home/a".into())), PathBuf::from("/home/a/.cache/weir/guest"));
        assert_eq!(folder(Some("/c".into()), None), PathBuf::from("/c/weir/guest"));
    }
}
