//! The open stores: a store belongs to one thread at a time, so each reader at work has one of its own.

use crate::answer::Fault;
use crate::site::Open;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;
use weir_store::{Store, StoreResult, View, Viewer};

/// Stores that nobody reads at the moment, and the right to read.
pub(crate) struct Stores {
    open: Open,
    idle: Arc<Mutex<Vec<Store>>>,
    readers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
}

/// Writers at a time; a file has one by itself.
const WRITERS: usize = 2;

impl Stores {
    /// Opens the first, so that a store that cannot be read is known before anything is served.
    pub(crate) fn new(open: Open, readers: usize) -> StoreResult<Self> {
        let first = open()?;
        let readers = Arc::new(Semaphore::new(readers.max(1)));
        let writers = Arc::new(Semaphore::new(WRITERS));
        Ok(Self { open, idle: Arc::new(Mutex::new(vec![first])), readers, writers })
    }

    /// Does what takes its time and reads no store.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let permit = Arc::clone(&self.readers).acquire_owned().await.map_err(|_| Fault::Stopping)?;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.unwrap_or_else(|error| Err(Fault::Broken(error.to_string())))
    }

    /// Reads the store as somebody sees it, or draws from what was read, on a thread that may take its time.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        viewer: Viewer,
        work: impl FnOnce(&View<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.whole(move |store| work(&store.view(viewer))).await
    }

    /// Looks at the whole store, whoever may see what: for the list of all runs, which is narrowed before anybody has it, and for
    /// accounts themselves. Pages do not.
    pub(crate) async fn whole<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.with(&self.readers, work).await
    }

    /// Writes to the store. Readers need not wait for those who write.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        self.with(&self.writers, work).await
    }

    async fn with<T: Send + 'static>(
        &self,
        places: &Arc<Semaphore>,
        work: impl FnOnce(&mut Store) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let permit = Arc::clone(places).acquire_owned().await.map_err(|_| Fault::Stopping)?;
        let (open, idle) = (Arc::clone(&self.open), Arc::clone(&self.idle));
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let kept = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut store = match kept {
                Some(store) => store,
                None => open()?,
            };
            let value = work(&mut store);
            // One that failed may be of a database that was moved away: the next reader opens it anew.
            if value.is_ok() {
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(store);
            }
            value
        });
        done.await.unwrap_or_else(|error| Err(Fault::Broken(error.to_string())))
    }
}
