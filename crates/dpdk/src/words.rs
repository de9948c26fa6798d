//! Memory that two processes have in common and that neither trusts the other with, and how it is handed over.
//!
//! Why words and no bytes: whoever reads while another process writes must not be surprised by what changes between two
//! looks. [`SharedWords`] is a slice of atomics, so that the compiler reads each word once, where the code says so, and safe
//! code over it can at worst see nonsense, never leave the slice.
//! Design: a file without a name (memfd), sealed: nobody can make it shorter, by which whoever reads it would die. All of it
//! is there from the start, so that whoever touches it first does not die where memory has run out. Who has mapped it keeps
//! no descriptor of it, by which holes could be made in it.
//! Threads: any.

use nix::cmsg_space;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::unistd::ftruncate;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Descriptors that one message carries at most.
const MOST: usize = 4;

/// Shared memory, word by word.
#[derive(Debug)]
pub struct SharedWords {
    at: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the memory is a plain array of atomics, which any thread may use.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Makes so many words, all zero, and the descriptor by which another process gets them.
    ///
    /// # Errors
    /// What the system refuses; too little memory.
    pub fn create(count: usize) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create(c"weir-apart", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        let bytes = count.checked_mul(size_of::<AtomicU64>()).and_then(|bytes| i64::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| io::Error::other("that is more than memory has"))?;
        ftruncate(&file, bytes)?;
        fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
        Ok((Self::map(&file, count)?, file))
    }

    /// Opens what another process has made: so many words.
    ///
    /// # Errors
    /// It is none such, or can be made shorter, or what the system refuses.
    pub fn open(file: OwnedFd, count: usize) -> io::Result<Self> {
        let seals = SealFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GET_SEALS)?);
        let bytes = File::from(file.try_clone()?).metadata()?.len();
        if !seals.contains(SealFlag::F_SEAL_SHRINK) || bytes != (count * size_of::<AtomicU64>()) as u64 {
            return Err(io::Error::other("it is no memory that was made to be shared so"));
        }
        Self::map(&file, count)
    }

    fn map(file: &OwnedFd, count: usize) -> io::Result<Self> {
        let (protection, bytes) = (libc::PROT_READ | libc::PROT_WRITE, count * size_of::<AtomicU64>());
        // SAFETY: a new mapping at an address that the kernel chooses; its result is looked at below.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        match NonNull::new(at.cast::<AtomicU64>()).filter(|_| at != libc::MAP_FAILED) {
            Some(at) => Ok(Self { at, count }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has `count` words and lives as long as self; the file cannot be made shorter. Whatever
        // another process writes there is a valid word.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is whole, and no borrow of it is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.count * size_of::<AtomicU64>()) };
    }
}

/// Sends a message and descriptors with it, as a whole.
///
/// # Errors
/// What the system refuses; too many descriptors; the other end is gone.
pub fn send_with(stream: &UnixStream, text: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    if files.len() > MOST || files.is_empty() {
        return Err(io::Error::other("a message carries one to four descriptors"));
    }
    let files: Vec<RawFd> = files.iter().map(|file| file.as_raw_fd()).collect();
    let (parts, files) = ([IoSlice::new(text)], [ControlMessage::ScmRights(&files)]);
    let sent = sendmsg::<()>(stream.as_raw_fd(), &parts, &files, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent == text.len() { Ok(()) } else { Err(io::Error::other("the message went in part")) }
}

/// Receives a message, and the descriptors that came with it. No byte says that the other end is gone.
///
/// # Errors
/// What the system says; more descriptors than [`send_with`] sends.
pub fn receive_with(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let (mut parts, mut room) = ([IoSliceMut::new(buffer)], cmsg_space!([RawFd; MOST]));
    let message = recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut room), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(came) = part {
            // SAFETY: a descriptor that the kernel hands over is this process's, and nobody else's.
            files.extend(came.into_iter().map(|file| unsafe { OwnedFd::from_raw_fd(file) }));
        }
    }
    Ok((message.bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_ends_see_the_same_words_and_none_can_make_them_fewer() {
        let (here, there) = UnixStream::pair().unwrap();
        let (ours, file) = SharedWords::create(1024).unwrap();
        let there_already = File::from(file.try_clone().unwrap()).metadata().unwrap().blocks() * 512;
        assert_eq!(there_already, 8192, "nobody's first look has to find memory");
        send_with(&here, b"take it", &[file.as_fd()]).unwrap();
        let mut buffer = [0; 64];
        let (got, mut files) = receive_with(&there, &mut buffer).unwrap();
        assert_eq!((&buffer[..got], files.len()), (&b"take it"[..], 1));
        let file = files.pop().unwrap();
        assert!(ftruncate(&file, 0).is_err() && ftruncate(&file, 1 << 20).is_err(), "it is sealed");
        assert!(SharedWords::open(file.try_clone().unwrap(), 1023).is_err(), "it is of another length");
        let theirs = SharedWords::open(file, 1024).unwrap();
        theirs.words()[1023].store(7, Ordering::Release);
        assert_eq!(ours.words()[1023].load(Ordering::Acquire), 7);
        let plain = memfd_create(c"plain", MFdFlags::MFD_CLOEXEC).unwrap();
        ftruncate(&plain, 8192).unwrap();
        assert!(SharedWords::open(plain, 1024).is_err(), "its maker could take it away");
        drop(here);
        assert_eq!(receive_with(&there, &mut buffer).unwrap().0, 0);
    }
}
