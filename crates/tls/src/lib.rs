//! TLS by rustls, with certificates from PEM files.
//!
//! - [`Tls`], of an OpenFlow connection: the switch's end, and that of the lab where it is a controller. Both sides show a certificate
//!   that the other's authority has signed. As with Open vSwitch, whoever has one is trusted whatever its name is: the
//!   authority is to be one of controllers alone (`ovs-pki(8)`).
//! - [`OwnCertificate`], of a web server.

mod own;

pub use own::OwnCertificate;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of one side's certificates, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// This side's private key.
    pub private_key: PathBuf,
    /// Its certificate, and those between it and the authority.
    pub certificate: PathBuf,
    /// The authority, or several, that signed the other side's.
    pub ca_cert: PathBuf,
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// What the system says of a file.
    #[error("{what} {}: {error}", path.display())]
    Read {
        /// What the file is to hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        error: std::io::Error,
    },
    /// It does not hold what it should.
    #[error("{what} {}: {reason}", path.display())]
    Contents {
        /// What the file is to hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong and how to mend it.
        reason: String,
    },
}

/// Begins conversations in TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read, or does not hold what it should.
    pub fn load(files: &TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let roots = Arc::new(authorities(&files.ca_cert)?);
        let chain = certificates("certificate", &files.certificate)?;
        let key = private_key("private_key", &files.private_key)?;
        let unfit = |reason: String| TlsError::Contents {
            what: "certificate",
            path: files.certificate.clone(),
            reason: format!("{reason}, with the private key {}", files.private_key.display()),
        };
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|error| unfit(error.to_string()))?;
        let server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(error.to_string()))?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unfit(error.to_string()))?;
        let client = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OfTheAuthority { roots, provider }))
            .with_client_auth_cert(chain, key)
            .map_err(|error| unfit(error.to_string()))?;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    /// The side that was connected to.
    ///
    /// # Errors
    /// What rustls cannot begin with these certificates.
    pub fn accept(&self) -> Result<Connection, rustls::Error> {
        ServerConnection::new(self.server.clone()).map(Connection::Server)
    }

    /// The side that connects.
    ///
    /// # Errors
    /// As of [`Tls::accept`].
    pub fn connect(&self) -> Result<Connection, rustls::Error> {
        // An address is not sent to the other side, and no name is compared.
        let nobody = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        ClientConnection::new(self.client.clone(), nobody).map(Connection::Client)
    }
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read { what, path: path.to_owned(), error })
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bytes = read(what, path)?;
    let wrong = |reason: String| TlsError::Contents { what, path: path.to_owned(), reason };
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(wrong("there is no certificate in it (-----BEGIN CERTIFICATE-----)".to_owned()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(wrong(format!("it is not PEM: {error}"))),
    }
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    const WHAT: &str = "ca_cert";
    let mut roots = RootCertStore::empty();
    for certificate in certificates(WHAT, path)? {
        roots.add(certificate).map_err(|error| TlsError::Contents {
            what: WHAT,
            path: path.to_owned(),
            reason: format!("a certificate in it cannot be an authority's: {error}"),
        })?;
    }
    Ok(roots)
}

fn private_key(what: &'static str, path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read(what, path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| TlsError::Contents {
        what,
        path: path.to_owned(),
        reason: match error {
            pem::Error::NoItemsFound => {
                "there is no private key in it, or one with a pass phrase; write it without".to_owned()
            }
            error => format!("it is not PEM: {error}"),
        },
    })
}

/// Trusts a server whose certificate an authority has signed, whatever its name.
struct OfTheAuthority {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl fmt::Debug for OfTheAuthority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OfTheAuthority").field("authorities", &self.roots.len()).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for OfTheAuthority {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, between, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
