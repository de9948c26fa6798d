//! Pinned threads that DPDK knows.
//!
//! DPDK gives each registered thread a number, and with it a private cache in every mbuf pool.

use crate::{Eal, ffi};
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
        _eal: &'static Eal,
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
            let _registered = Registered::new()?;
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
struct Registered;

impl Registered {
    fn new() -> Result<Self, WorkerError> {
        // SAFETY: the EAL runs (spawn takes it as an argument) and this thread is not registered yet.
        match unsafe { ffi::weir_thread_register() } {
            0 => Ok(Self),
            error => Err(WorkerError::Register(crate::eal::describe(error))),
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: this thread registered in `new`.
        unsafe { ffi::weir_thread_unregister() };
    }
}
