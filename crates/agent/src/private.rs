//! Unix sockets for processes of this user, or of root, alone: the folder, the socket's mode and the peer's credentials
//! are all looked at.

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, getsockopt, listen, socket,
    sockopt::PeerCredentials,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::Uid;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why a control socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The folder is not one that others are kept out of.
    #[error("control socket {}: {}", path.display(), self.reason())]
    Folder {
        /// The socket.
        path: PathBuf,
        /// What is wrong and how to mend it.
        reason: String,
    },
    /// Somebody answers there.
    #[error("control socket {}: {}", path.display(), self.reason())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// What the system says.
    #[error("control socket {}: {}", path.display(), self.reason())]
    System {
        /// The socket.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
}

impl SocketError {
    /// What is wrong, without the path.
    pub fn reason(&self) -> String {
        match self {
            Self::Folder { reason, .. } => reason.clone(),
            Self::InUse { .. } => "a switch answers there already; stop it, or name another path".to_owned(),
            Self::System { error, .. } => error.to_string(),
        }
    }
}

/// Listens at a path where nobody does, for processes of this user alone: the socket has mode 0600 from its first
/// moment on, whatever the umask, so that there is none in which another user could connect.
pub fn bind_private(path: &Path) -> Result<UnixListener, SocketError> {
    vacate(path)?;
    let bind = || -> nix::Result<UnixListener> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        // Of a socket without a path this is the mode that its path will have.
        fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
        bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
        listen(&socket, Backlog::MAXCONN)?;
        Ok(UnixListener::from(socket))
    };
    bind().map_err(|error| SocketError::System { path: path.to_owned(), error: error.into() })
}

/// Whether the process at the other end is one of this user's, or of root's.
pub fn is_ours(stream: &UnixStream) -> io::Result<bool> {
    let user = getsockopt(stream, PeerCredentials).map(|peer| Uid::from_raw(peer.uid()))?;
    Ok(user == Uid::effective() || user.is_root())
}

/// Makes sure of the folder, and that nothing is left at the path: a socket can be bound there.
fn vacate(path: &Path) -> Result<(), SocketError> {
    let system = |error| SocketError::System { path: path.to_owned(), error };
    let refused = |reason: String| SocketError::Folder { path: path.to_owned(), reason };
    let folder = match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => return Err(refused("that is no path of a file".to_owned())),
    };
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(system)?;
    }
    let meta = fs::metadata(folder).map_err(system)?;
    let (owner, mode) = (Uid::from_raw(meta.uid()), meta.mode());
    if owner != Uid::effective() && !owner.is_root() {
        let folder = folder.display();
        return Err(refused(format!("its folder {folder} belongs to user {owner}, who could replace it")));
    }
    let (others_write, sticky) = (mode & 0o022 != 0, mode & 0o1000 != 0);
    if others_write && !sticky {
        let folder = folder.display();
        return Err(refused(format!("others may write to its folder {folder}; chmod go-w {folder}")));
    }
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(system(error)),
        Ok(meta) if !meta.file_type().is_socket() => {
            Err(refused("there is a file of that name, and it is no socket".to_owned()))
        }
        Ok(_) if UnixStream::connect(path).is_ok() => Err(SocketError::InUse { path: path.to_owned() }),
        Ok(_) => fs::remove_file(path).map_err(system), // left over by one that was killed
    }
}
