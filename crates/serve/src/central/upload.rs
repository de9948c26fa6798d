//! A bundle as it comes: into a file that has no name, bounded in bytes, in time and in number, then verified as `weir import`
//! verifies, then into the store in one transaction. Whoever is told that a run is kept can take that to be so.
//!
//! A server or a machine that dies leaves nothing of an upload: the file goes with the process, the transaction with the database.

use crate::answer::Fault;
use crate::central::now_ms;
use crate::program::Admitted;
use crate::site::{Limits, Site};
use axum::body::Body;
use axum::http::{HeaderMap, header};
use futures_util::StreamExt as _;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Seek as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_store::accounts::Bearer;
use weir_store::{Imported, Push, Share, Visibility};

/// Uploads that come in at a time, of all and of one account.
const MOST: usize = 16;
const MOST_OF_ACCOUNT: usize = 4;
/// Bundles that are verified at a time: each may take a core, and the memory of a whole run.
const VERIFIED_AT_ONCE: usize = 1;
/// Bytes that are gathered before they are written.
const GATHERED: usize = 1 << 20;

/// The places of uploads.
pub(crate) struct Uploads {
    coming: Arc<Semaphore>,
    verifying: Arc<Semaphore>,
    by_account: Arc<Mutex<HashMap<i64, usize>>>,
}

impl Default for Uploads {
    fn default() -> Self {
        Self {
            coming: Arc::new(Semaphore::new(MOST)),
            verifying: Arc::new(Semaphore::new(VERIFIED_AT_ONCE)),
            by_account: Arc::default(),
        }
    }
}

/// A place that is taken, until this goes.
struct Place {
    _coming: OwnedSemaphorePermit,
    account: i64,
    by_account: Arc<Mutex<HashMap<i64, usize>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_account = self.by_account.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_account.get_mut(&self.account) {
            *count -= 1;
            if *count == 0 {
                by_account.remove(&self.account);
            }
        }
    }
}

impl Uploads {
    async fn place(&self, account: i64, wait: Duration) -> Result<Place, Fault> {
        let permit = tokio::time::timeout(wait, Arc::clone(&self.coming).acquire_owned()).await;
        let Ok(Ok(coming)) = permit else {
            return Err(Fault::Late("too many bundles are coming in; try again soon".to_owned()));
        };
        let mut by_account = self.by_account.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_account.entry(account).or_insert(0);
        if *count >= MOST_OF_ACCOUNT {
            let what = format!(
                "{MOST_OF_ACCOUNT} bundles of this account are coming in; send them one after another"
            );
            return Err(Fault::Often { what, seconds: 2 });
        }
        *count += 1;
        Ok(Place { _coming: coming, account, by_account: Arc::clone(&self.by_account) })
    }
}

/// What became of a bundle.
pub(crate) struct Kept {
    pub(crate) uuid: String,
    /// Its name here.
    pub(crate) name: String,
    /// The address of its bundle.
    pub(crate) address: String,
    pub(crate) imported: Imported,
    pub(crate) share: Share,
}

/// Takes a bundle in.
pub(crate) async fn take(
    site: &Arc<Site>,
    bearer: &Bearer,
    visibility: Option<Visibility>,
    headers: &HeaderMap,
    body: Body,
) -> Result<Kept, Fault> {
    let central = site.central.as_ref().ok_or(Fault::Stopping)?;
    let most = central.options.bundle_bytes;
    let stated =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if stated.is_some_and(|stated| stated > most) {
        return Err(too_large(most));
    }
    let account = bearer.account;
    // What has no room need not come. What it unpacks to is counted when it is there.
    let room = move |store: &mut weir_store::Store| Ok(store.has_room(account, stated.unwrap_or(0))?);
    site.stores.whole(room).await?;
    let limits = &site.options.limits;
    let place = central.uploads.place(account, limits.push_wait).await?;
    let file = receive(body, most, limits).await?;
    let admitted = admit(site, file).await?;
    drop(place);
    let licence = central.options.licence.clone();
    let kept = site.stores.write(move |store| {
        let Admitted { run, origin, bytes } = admitted;
        let push = Push { account, visibility, licence: &licence, bytes, now_ms: now_ms() };
        let imported = store.push(&run, &origin, &push)?;
        let name = store.run_name(imported.run())?;
        let share = store.share(imported.run())?;
        let share = share
            .ok_or_else(|| Fault::Conflict("the run is here already, and not of an account".to_owned()))?;
        Ok(Kept { uuid: run.uuid, name, address: origin.address, imported, share })
    });
    let kept = kept.await?;
    // Of a run that was here, who may see it may have changed.
    match kept.imported {
        Imported::Added(_) => site.catalogue.renew(),
        _ => site.catalogue.forget(),
    }
    Ok(kept)
}

fn too_large(most: u64) -> Fault {
    Fault::Large(format!("a bundle has {most} bytes at most here"))
}

/// The body as a file that has no name.
async fn receive(body: Body, most: u64, limits: &Limits) -> Result<File, Fault> {
    let broken = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::StorageFull => Fault::Late("the server has no room for a bundle now".to_owned()),
        _ => Fault::Broken(format!("temporary file: {error}")),
    };
    let mut file = tempfile::tempfile().map_err(broken)?;
    let mut parts = body.into_data_stream();
    let (begin, mut came, mut gathered) = (Instant::now(), 0_u64, Vec::new());
    loop {
        let slow = || Fault::Slow("the bundle came too slowly; nothing of it was kept".to_owned());
        let part = match tokio::time::timeout(limits.push_silence, parts.next()).await {
            Err(_) => return Err(slow()),
            Ok(None) => break,
            Ok(Some(Err(_))) => {
                return Err(Fault::Bad("the bundle was cut off; nothing of it was kept".to_owned()));
            }
            Ok(Some(Ok(part))) => part,
        };
        came += part.len() as u64;
        if came > most {
            return Err(too_large(most));
        }
        let late = begin.elapsed().saturating_sub(limits.push_start);
        if u128::from(came) * 1000 < late.as_millis() * u128::from(limits.push_speed) {
            return Err(slow());
        }
        gathered.extend_from_slice(&part);
        if gathered.len() >= GATHERED {
            (file, gathered) = written(file, gathered).await?.map_err(broken)?;
        }
    }
    let (mut file, _) = written(file, gathered).await?.map_err(broken)?;
    file.rewind().map_err(broken)?;
    Ok(file)
}

/// Writes what was gathered, on a thread that may wait for a disk.
async fn written(mut file: File, mut bytes: Vec<u8>) -> Result<std::io::Result<(File, Vec<u8>)>, Fault> {
    let write = move || {
        file.write_all(&bytes)?;
        bytes.clear();
        Ok((file, bytes))
    };
    tokio::task::spawn_blocking(write).await.map_err(|error| Fault::Broken(error.to_string()))
}

/// Verifies a bundle.
async fn admit(site: &Arc<Site>, file: File) -> Result<Admitted, Fault> {
    let verifying = site.central.as_ref().map(|central| Arc::clone(&central.uploads.verifying));
    let verifying = verifying.ok_or(Fault::Stopping)?;
    let permit = verifying.acquire_owned().await.map_err(|_| Fault::Stopping)?;
    let program = Arc::clone(&site.program);
    let work = move || {
        let _permit = permit;
        program.admit(&mut BufReader::new(file)).map_err(Fault::Refused)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(Fault::Broken(error.to_string())))
}
