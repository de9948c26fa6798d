//! Signatures: Ed25519 over the bytes of the manifest, which states the hash of every part.
//!
//! Keys are the files of `openssl genpkey -algorithm ed25519` (PKCS#8, PEM) and `openssl pkey -pubout`, so that anybody can
//! make one, and check a signature, without Weir.

use super::error::{BundleError, BundleResult};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The one algorithm there is.
const ALGORITHM: &str = "ed25519";

/// What a public key begins with as SubjectPublicKeyInfo (RFC 8410, section 10.1).
const SPKI: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The part `signature.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Signature {
    /// `ed25519` (RFC 8032).
    pub algorithm: String,
    /// The 32 bytes of the public key, base64.
    pub public_key: String,
    /// The 64 bytes of the signature over the bytes of `manifest.json`, base64.
    pub signature: String,
}

impl Signature {
    /// Whether it is one of this manifest, and whose.
    pub(super) fn check(&self, manifest: &[u8]) -> BundleResult<PublicKey> {
        let wrong = |why: &str| BundleError::Signature(why.to_owned());
        if self.algorithm != ALGORITHM {
            return Err(wrong("its algorithm is not ed25519"));
        }
        let key = BASE64.decode(&self.public_key).ok().and_then(|key| key.try_into().ok());
        let key = PublicKey(key.ok_or_else(|| wrong("its public key is not 32 bytes in base64"))?);
        let signature =
            BASE64.decode(&self.signature).map_err(|_| wrong("its signature is not in base64"))?;
        UnparsedPublicKey::new(&ED25519, &key.0)
            .verify(manifest, &signature)
            .map_err(|_| wrong("the manifest is not what was signed with the key that stands with it"))?;
        Ok(key)
    }
}

/// Who signed: a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads a file of `openssl pkey -pubout`.
    pub fn read(path: &Path) -> BundleResult<Self> {
        let der = pem(path, "PUBLIC KEY", "openssl pkey -in key.pem -pubout -out key.pub")?;
        let key = der.strip_prefix(&SPKI).and_then(|key| key.try_into().ok());
        key.map(Self).ok_or_else(|| refused(path, "it is no public key of Ed25519"))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}:{}", BASE64.encode(self.0))
    }
}

/// A key to sign with.
pub struct SigningKey(pub(super) Ed25519KeyPair);

impl SigningKey {
    /// Reads a file of `openssl genpkey -algorithm ed25519`.
    pub fn read(path: &Path) -> BundleResult<Self> {
        let der = pem(path, "PRIVATE KEY", "openssl genpkey -algorithm ed25519 -out key.pem")?;
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der)
            .map(Self)
            .map_err(|error| refused(path, &format!("it is no private key of Ed25519 ({error})")))
    }

    /// Signs a manifest.
    pub(super) fn sign(&self, manifest: &[u8]) -> Signature {
        Signature {
            algorithm: ALGORITHM.to_owned(),
            public_key: BASE64.encode(self.0.public_key()),
            signature: BASE64.encode(self.0.sign(manifest)),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

/// What stands in a PEM file under this label.
fn pem(path: &Path, label: &str, made_by: &str) -> BundleResult<Vec<u8>> {
    let text = std::fs::read_to_string(path).map_err(|error| refused(path, &error.to_string()))?;
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let body = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).map(|(body, _)| body);
    let der = body.and_then(|body| BASE64.decode(body.split_whitespace().collect::<String>()).ok());
    der.ok_or_else(|| {
        refused(path, &format!("it has no `{begin}`; `{made_by}` makes one, without a password"))
    })
}

fn refused(path: &Path, why: &str) -> BundleError {
    BundleError::Key { path: path.display().to_string(), why: why.to_owned() }
}
