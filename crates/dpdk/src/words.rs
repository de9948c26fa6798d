//! Memory that two processes have in common and that neither trusts the other with, and how it is handed over.
//!
//! Why words and no bytes: whoever reads while another process writes must not be surprised by what changes between two
//! looks. [`SharedWords`] is a slice of atomics, so that the compiler reads each word once, where the code says so, and safe
//! code over it can at worst see nonsense, never leave the slice.
//! Design: a file without a name (memfd), sealed: nobody can make it shorter, by which whoever reads it would die. All of it
//! is there from the start, so that whoever touches it first does not die where memory has run out. Who has mapped it keeps
//! no descriptor of it, by which holes could be made in it.
//! Threads: any.

use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use std::fs::File;
use std::io;
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

/// Room for the descriptors of one message, aligned as the kernel wants it.
#[repr(C, align(8))]
struct Room([u8; 64]);

const fn room() -> usize {
    // SAFETY: it computes with a number.
    unsafe { libc::CMSG_SPACE((MOST * size_of::<RawFd>()) as u32) as usize }
}

const _: () = assert!(room() <= size_of::<Room>());

/// Sends a message and descriptors with it, as a whole.
///
/// # Errors
/// What the system refuses; too many descriptors; the other end is gone.
pub fn send_with(stream: &UnixStream, text: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    if files.len() > MOST || files.is_empty() {
        return Err(io::Error::other("a message carries one to four descriptors"));
    }
    let mut control = Room([0; 64]);
    let mut part = libc::iovec { iov_base: text.as_ptr().cast_mut().cast(), iov_len: text.len() };
    let bytes = size_of_val(files) as u32;
    // SAFETY: all zeros are a message of nothing, filled in below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: it computes with a number. The room was compared above with the most there can be.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(bytes) } as usize;
    // SAFETY: the control part has room for a header and its descriptors, so the header is there; descriptors are
    // plain numbers, and `BorrowedFd` is one of them.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(bytes) as usize;
        let into = libc::CMSG_DATA(header).cast::<RawFd>();
        for (place, file) in files.iter().enumerate() {
            into.add(place).write_unaligned(file.as_raw_fd());
        }
    }
    // SAFETY: the message and all that it points to live until the call ends.
    match unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) } {
        sent if usize::try_from(sent) == Ok(text.len()) => Ok(()),
        sent if sent < 0 => Err(io::Error::last_os_error()),
        _ => Err(io::Error::other("the message went in part")),
    }
}

/// Receives a message, and the descriptors that came with it. No byte says that the other end is gone.
///
/// # Errors
/// What the system says.
pub fn receive_with(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut control = Room([0; 64]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros are a message of nothing, filled in below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.0.as_mut_ptr().cast(), room());
    // SAFETY: the message and all that it points to live until the call ends; the kernel writes within their lengths.
    let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    let mut files = Vec::new();
    // SAFETY: the kernel filled the control part; the macros stay within the length that it says. A descriptor that it
    // hands over is this process's, and nobody else's.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(this) = header.as_ref() {
            if this.cmsg_level == libc::SOL_SOCKET && this.cmsg_type == libc::SCM_RIGHTS {
                let bytes = this.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                let from = libc::CMSG_DATA(header).cast::<RawFd>();
                for place in 0..bytes / size_of::<RawFd>() {
                    files.push(OwnedFd::from_raw_fd(from.add(place).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((got, files))
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
