//! Pinned threads that DPDK knows.
//!
//! DPDK gives each registered thread a number, and with it a private cache in every mbuf pool. A process that shares its
//! memory with others has one number, which the owner of the memory gave it, for one worker at a time.

use crate::{Eal, ffi};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use weir_cpu::{allowed_cores, pin};

/// A thread on one core.
#[derive(Debug)]
pub struct Worker<T> {
    thread: JoinHandle<Result<T, WorkerError>>,
}

/// A worker that could not start or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The core is not one this process may use.
    #[error("core {core} cannot be used: {reason}; this process may run on cores {allowed:?}")]
    Core {
        /// The core asked for.
        core: usize,
        /// The system's reason.
        reason: String,
        /// The cores that would do.
        allowed: Vec<usize>,
    },
    /// DPDK has no number left for the thread.
    #[error("DPDK could not register the thread: {0}")]
    Register(String),
    /// The system refused the thread.
    #[error("the system refused a thread: {0}")]
    Spawn(#[from] std::io::Error),
    /// The thread panicked.
    #[error("the worker panicked: {0}")]
    Panicked(String),
}

impl<T: Send + 'static> Worker<T> {
    /// Starts `body` on a core.
    pub fn spawn(
        eal: &'static Eal,
        name: &str,
        core: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Self, WorkerError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            pin(core).map_err(|refused| WorkerError::Core {
                core,
                reason: refused.to_string(),
                allowed: allowed_cores(),
            })?;
            let _registered = Registered::new(eal)?;
            Ok(body())
        })?;
        Ok(Self { thread })
    }

    /// Whether the body has returned.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the body's result.
    pub fn join(self) -> Result<T, WorkerError> {
        self.thread.join().unwrap_or_else(|panic| {
            let text = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned());
            Err(WorkerError::Panicked(text.unwrap_or_else(|| "no message".to_owned())))
        })
    }
}

/// Undone when the thread ends, also by a panic.
enum Registered {
    /// By DPDK.
    Numbered,
    /// With the process's own number.
    Adopted,
}

/// Whether the process's own number is in use: two threads of one number would share a cache that has no lock.
static ADOPTED: AtomicBool = AtomicBool::new(false);

impl Registered {
    fn new(eal: &Eal) -> Result<Self, WorkerError> {
        if let Some(lcore) = eal.lcore() {
            if ADOPTED.swap(true, Ordering::Acquire) {
                let why = "a process that shares its memory has one worker, and it has one already";
                return Err(WorkerError::Register(why.to_owned()));
            }
            // SAFETY: the EAL runs; no other thread of those that share its memory has this number.
            unsafe { ffi::weir_thread_adopt(lcore) };
            return Ok(Self::Adopted);
        }
        // SAFETY: the EAL runs (spawn takes it as an argument) and this thread is not registered yet.
        match unsafe { ffi::weir_thread_register() } {
            0 => Ok(Self::Numbered),
            error => Err(WorkerError::Register(crate::eal::describe(error))),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        match self {
            // SAFETY: this thread registered in `new`.
            Self::Numbered => unsafe { ffi::weir_thread_unregister() },
            Self::Adopted => {
                // SAFETY: this thread adopted the number in `new`.
                unsafe { ffi::weir_thread_give_up() };
                ADOPTED.store(false, Ordering::Release);
            }
        }
    }
}
