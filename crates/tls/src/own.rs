//! A server's own certificate: shown to whoever connects, who shows none.
//!
//! What the files hold is read when the server starts, and again when they are changed ([`OwnCertificate::look_again`]), so that a
//! renewed certificate is taken up without a restart. Connections that are open keep theirs. Files that are no good any
//! more, as between the writing of one and of the other, change nothing.

use crate::{TlsError, certificates, private_key};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What the certificate and the key are called in errors: the options that name their files.
const CERTIFICATE: &str = "--tls-cert";
const KEY: &str = "--tls-key";

/// Which content a file has, without reading it: when it was changed, where, and its inode and length.
type Seen = [(i64, i64, u64, u64); 2];

/// A certificate with its key, as they are in their files now.
#[derive(Clone, Debug)]
pub struct OwnCertificate(Arc<Shown>);

#[derive(Debug)]
struct Shown {
    certificate: PathBuf,
    key: PathBuf,
    pair: RwLock<Arc<CertifiedKey>>,
    seen: Mutex<Option<Seen>>,
}

impl OwnCertificate {
    /// Reads a certificate (and those between it and the authority behind it) and its private key, both in PEM.
    ///
    /// # Errors
    /// A file that cannot be read, does not hold what it should, or a key of another certificate.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let seen = seen(certificate, key);
        let pair = RwLock::new(Arc::new(pair(certificate, key)?));
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Ok(Self(Arc::new(Shown { certificate, key, pair, seen: Mutex::new(seen) })))
    }

    /// Reads the files again where they were changed; whether that gave another certificate. After an error the one of before
    /// stays, and the files are read when they are next changed.
    ///
    /// # Errors
    /// As of [`OwnCertificate::load`].
    pub fn look_again(&self) -> Result<bool, TlsError> {
        let shown = &self.0;
        let now = seen(&shown.certificate, &shown.key);
        let mut before = shown.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *before == now {
            return Ok(false);
        }
        *before = now;
        let pair = Arc::new(pair(&shown.certificate, &shown.key)?);
        let mut there = shown.pair.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = there.cert != pair.cert;
        *there = pair;
        Ok(is_new)
    }

    /// What accepts connections of HTTP/1.1 with it, in TLS 1.2 or 1.3.
    ///
    /// # Errors
    /// What rustls cannot begin with.
    pub fn config(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.0) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.pair.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn pair(certificate: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(CERTIFICATE, certificate)?;
    let secret = private_key(KEY, key)?;
    CertifiedKey::from_der(chain, secret, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Contents {
            what: KEY,
            path: key.to_owned(),
            reason: format!("it is not the key of the certificate {}", certificate.display()),
        },
        rustls::Error::InvalidCertificate(why) => TlsError::Contents {
            what: CERTIFICATE,
            path: certificate.to_owned(),
            reason: format!("its first certificate cannot be read: {why}"),
        },
        other => TlsError::Contents { what: KEY, path: key.to_owned(), reason: other.to_string() },
    })
}

/// Taken before the files are read: what is written meanwhile is seen at the next look.
fn seen(certificate: &Path, key: &Path) -> Option<Seen> {
    let of = |path: &Path| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.mtime(), about.mtime_nsec(), about.ino(), about.size()))
    };
    Some([of(certificate)?, of(key)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new certificate and its key, in PEM.
    fn made(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    fn write(folder: &Path, pem: &(String, String)) -> (PathBuf, PathBuf) {
        let (certificate, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        std::fs::write(&certificate, &pem.0).unwrap();
        std::fs::write(&key, &pem.1).unwrap();
        (certificate, key)
    }

    #[test]
    fn files_that_are_no_good_are_named_with_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let (good, other) = (made("localhost"), made("localhost"));
        let (certificate, key) = write(folder.path(), &good);
        OwnCertificate::load(&certificate, &key).unwrap();
        let refused = |certificate: &str, key: &str| {
            let (at, of) = write(folder.path(), &(certificate.to_owned(), key.to_owned()));
            OwnCertificate::load(&at, &of).unwrap_err().to_string()
        };
        let text = refused(&good.0, &other.1);
        assert!(text.contains("--tls-key ") && text.contains("key.pem: it is not the key of"), "{text}");
        let text = refused(&good.1, &good.1);
        assert!(text.contains("--tls-cert ") && text.contains("there is no certificate"), "{text}");
        let text = refused(&good.0, &good.0);
        assert!(text.contains("--tls-key ") && text.contains("there is no private key"), "{text}");
        let text = refused(&good.0[..good.0.len() / 2], &good.1);
        assert!(text.contains("--tls-cert "), "{text}");
        let damaged = good.0.replacen("MII", "MIJ", 1);
        assert!(refused(&damaged, &good.1).contains("--tls-cert "), "{}", refused(&damaged, &good.1));
        let absent = OwnCertificate::load(&folder.path().join("none.pem"), &key).unwrap_err().to_string();
        assert!(absent.contains("--tls-cert ") && absent.contains("none.pem: No such file"), "{absent}");
    }

    #[test]
    fn a_renewed_pair_is_taken_up_and_half_of_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (made("localhost"), made("localhost"));
        let (certificate, key) = write(folder.path(), &old);
        let own = OwnCertificate::load(&certificate, &key).unwrap();
        let shown = || own.0.pair.read().unwrap().cert.clone();
        let first = shown();
        assert!(!own.look_again().unwrap());
        // Beside its place and renamed, as whoever renews certificates writes it: another inode.
        let put = |path: &Path, text: &str| {
            std::fs::write(folder.path().join("new"), text).unwrap();
            std::fs::rename(folder.path().join("new"), path).unwrap();
        };
        put(&certificate, &new.0);
        assert!(own.look_again().unwrap_err().to_string().contains("it is not the key of"));
        assert!(!own.look_again().unwrap(), "an error is told once");
        assert_eq!(shown(), first);
        put(&key, &new.1);
        assert!(own.look_again().unwrap());
        assert_ne!(shown(), first);
        std::fs::remove_file(&key).unwrap();
        assert!(own.look_again().unwrap_err().to_string().contains("--tls-key "));
        assert_ne!(shown(), first);
    }
}
