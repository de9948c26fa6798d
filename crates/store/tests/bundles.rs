//! A run in a bundle and back, and signatures as OpenSSL makes and checks them.

use crate::conformance::run;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use weir_store::bundle::{self, BundleError, PublicKey, Seal, SigningKey};
use weir_testkit::{Need, needs};
use weir_trial::run::Run;

/// A run as a store would have it.
fn stored(run: Run) -> Run {
    Run { id: 0, uuid: "01938f2e-0000-7000-8000-0000000000aa".to_owned(), ..run }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_run_survives_a_bundle_unchanged(run in run()) {
        let run = stored(run);
        let thresholds = json!({ "goals": [], "verdicts": { "late_ratio": 1e-4 } });
        let written = bundle::write(&run, &thresholds, Seal::None).unwrap();
        let back = bundle::read(written.bytes.as_slice()).unwrap();
        prop_assert_eq!(&back.run, &run);
        prop_assert_eq!(&back.address, &written.address);
        prop_assert!(back.unknown.is_empty(), "{:?}", back.unknown);
        let again = bundle::write(&back.run, &back.thresholds, Seal::None).unwrap();
        prop_assert!(again.bytes == written.bytes, "the same run gives the same bytes");
    }
}

fn openssl(folder: &Path, words: &str) -> bool {
    let output = Command::new("openssl").args(words.split(' ')).current_dir(folder).output().unwrap();
    output.status.success()
}

fn a_run() -> Run {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let tree = run().new_tree(&mut runner).unwrap();
    stored(proptest::strategy::ValueTree::current(&tree))
}

#[test]
fn a_signature_is_one_that_openssl_checks_and_keys_are_those_that_it_makes() {
    if !needs!(Need::Program("openssl", "openssl"), Need::Program("tar", "tar")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for words in [
        "genpkey -algorithm ed25519 -out key.pem",
        "pkey -in key.pem -pubout -out key.pub",
        "genpkey -algorithm ed25519 -out other.pem",
        "pkey -in other.pem -pubout -out other.pub",
        "genpkey -algorithm ed25519 -aes256 -pass pass:x -out locked.pem",
    ] {
        assert!(openssl(folder, words), "{words}");
    }
    let key = SigningKey::read(&folder.join("key.pem")).unwrap();
    let written = bundle::write(&a_run(), &json!({}), Seal::Sign(&key)).unwrap();
    let back = bundle::read(written.bytes.as_slice()).unwrap();
    let (signature, whose) = back.signed.unwrap();
    assert_eq!(whose, PublicKey::read(&folder.join("key.pub")).unwrap());
    assert_ne!(whose, PublicKey::read(&folder.join("other.pub")).unwrap());

    // As a stranger would, without Weir.
    std::fs::write(folder.join("run.weir"), &written.bytes).unwrap();
    let unpacked = Command::new("tar").args(["xzf", "run.weir"]).current_dir(folder).status().unwrap();
    assert!(unpacked.success());
    let raw =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &signature.signature).unwrap();
    std::fs::write(folder.join("signature"), raw).unwrap();
    let check = |key: &str| {
        openssl(
            folder,
            &format!("pkeyutl -verify -pubin -inkey {key} -rawin -in manifest.json -sigfile signature"),
        )
    };
    assert!(check("key.pub") && !check("other.pub"));

    // Another run under the same signature: it is left out, for it would not hold.
    let other = Run { plan: "# another\n".to_owned(), ..a_run() };
    let kept = bundle::write(&other, &json!({}), Seal::Kept(&signature)).unwrap();
    assert!(!kept.signed);
    let kept = bundle::write(&a_run(), &json!({}), Seal::Kept(&signature)).unwrap();
    assert!(kept.signed && kept.bytes == written.bytes);

    for (file, why) in [("locked.pem", "without a password"), ("key.pub", "PRIVATE KEY"), ("gone", "No such")]
    {
        let error = SigningKey::read(&folder.join(file)).unwrap_err();
        assert!(matches!(error, BundleError::Key { .. }) && error.to_string().contains(why), "{error}");
    }
    assert!(PublicKey::read(&folder.join("key.pem")).is_err());
}
