//! Sockets that were left over: by a process that was killed, and had no time to remove them.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// Makes room for a socket: one that is left over is removed. False if something is there that is not ours to
/// remove: no socket, another user's, or one that somebody holds.
pub(crate) fn vacate(path: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else { return true };
    // SAFETY: it has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    let ours = user == 0 || meta.uid() == user;
    meta.file_type().is_socket() && ours && nobody_holds(path) && fs::remove_file(path).is_ok()
}

/// Whether nobody holds the socket. Whoever does notices nothing: these sockets are of other types than the one
/// that asks, so that the system refuses before it connects.
fn nobody_holds(path: &Path) -> bool {
    let asked = UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    asked.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_goes_only_when_nobody_holds_it_and_nothing_else_goes() {
        let folder = std::env::temp_dir().join(format!("weir-vacate-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        assert!(vacate(&path), "nothing is there");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!vacate(&path) && path.exists());
        // It was not disturbed: its first visitor is a real one.
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let _visitor = UnixStream::connect(&path).unwrap();
        listener.accept().unwrap();
        drop(listener);
        assert!(path.exists() && vacate(&path) && !path.exists(), "it was left over");
        let datagrams = UnixDatagram::bind(&path).unwrap();
        assert!(!vacate(&path) && path.exists());
        drop(datagrams);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert!(!vacate(&path) && path.exists(), "a file is no socket");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(!vacate(&path) && fs::symlink_metadata(&path).is_ok(), "nor is a link");
        fs::remove_dir_all(&folder).unwrap();
    }
}
