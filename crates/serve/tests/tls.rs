//! The server with a certificate of its own, asked by a client that is not ours: curl.

use crate::central::Central;
use crate::common::{Answer, Site, small, store};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use weir_serve::{Limits, Options, OwnCertificate, Pushes};
use weir_testkit::{Need, needs};

/// A certificate for this machine, and its key; replaced whole where they are there.
struct Files {
    folder: tempfile::TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        let files = Self { folder, certificate, key };
        files.renew();
        files
    }

    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        for (path, text) in
            [(&self.certificate, made.cert.pem()), (&self.key, made.signing_key.serialize_pem())]
        {
            let unfinished = self.folder.path().join("unfinished");
            std::fs::write(&unfinished, text).unwrap();
            std::fs::rename(&unfinished, path).unwrap();
        }
    }

    fn options(&self, limits: Limits) -> Options {
        let tls = Some(OwnCertificate::load(&self.certificate, &self.key).unwrap());
        Options { tls, limits, pushes: Some(Pushes::default()), ..Options::default() }
    }
}

/// A server that has accounts, and the certificate.
fn central(files: &Files, limits: Limits) -> Central {
    let folder = tempfile::tempdir().unwrap();
    let database = store(folder.path(), &[small("otter", 1)]);
    Central::under(folder, database, files.options(limits))
}

fn curl(site: &Site, authority: &Path, path: &str, more: &[&str]) -> Output {
    let port = site.address.port();
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--max-time", "40", "--cacert"]).arg(authority);
    command.arg("--resolve").arg(format!("localhost:{port}:127.0.0.1")).args(more);
    command.arg(format!("https://localhost:{port}{path}")).output().unwrap()
}

fn answer(output: &Output) -> Answer {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Answer::of(&output.stdout)
}

fn has_curl() -> bool {
    needs!(Need::Program("curl", "curl"))
}

#[test]
fn a_server_with_a_certificate_speaks_tls_alone_and_has_browsers_keep_to_it() {
    if !has_curl() {
        return;
    }
    let files = Files::new();
    let central = central(&files, Limits::default());
    let ask = |path: &str, more: &[&str]| answer(&curl(&central.site, &files.certificate, path, more));
    let list = ask("/runs", &["--header", "Accept: text/html"]);
    assert!(list.status == 200 && list.body.contains("otter"), "{}", list.head);
    assert_eq!(list.header("strict-transport-security"), Some("max-age=31536000"));
    let entered = ask("/account/enter", &["--data", &format!("token={}", central.mine)]);
    let cookie = entered.header("set-cookie").unwrap();
    assert!(cookie.starts_with("__host-weir_session=") && cookie.ends_with("; secure"), "{cookie}");
    let own = ask("/api/v1/account", &["--header", &format!("Authorization: Bearer {}", central.mine)]);
    assert!(own.status == 200 && own.body.contains("\"mine\""), "{}", own.body);
    let outdated = curl(&central.site, &files.certificate, "/runs", &["--tls-max", "1.1"]);
    assert!(!outdated.status.success(), "TLS 1.1 is not spoken");
    let stranger = curl(&central.site, &Files::new().certificate, "/runs", &[]);
    assert!(!stranger.status.success(), "another certificate is shown than the one that was given");
    let plain = central.site.get("/runs");
    assert!(plain.status == 400 && plain.body.contains("write https://"), "{}\n{}", plain.head, plain.body);
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart_and_a_bad_one_changes_nothing() {
    if !has_curl() {
        return;
    }
    let files = Files::new();
    let limits = Limits { certificate: Duration::from_millis(20), ..Limits::default() };
    let central = central(&files, limits);
    let old = files.folder.path().join("old.pem");
    std::fs::copy(&files.certificate, &old).unwrap();
    assert!(curl(&central.site, &old, "/runs", &[]).status.success());
    std::fs::write(&files.key, "no key").unwrap();
    assert!(curl(&central.site, &old, "/runs", &[]).status.success(), "the one of before stays");
    files.renew();
    let begin = Instant::now();
    while !curl(&central.site, &files.certificate, "/runs", &[]).status.success() {
        assert!(begin.elapsed() < Duration::from_secs(45), "it is never taken up");
    }
    assert!(!curl(&central.site, &old, "/runs", &[]).status.success(), "the old one is shown no more");
}

#[test]
fn a_client_that_does_not_end_its_handshake_is_left() {
    let files = Files::new();
    let central = central(&files, Limits { head: Duration::from_millis(300), ..Limits::default() });
    // Nothing; the beginning of a handshake; a whole record that never comes.
    for begun in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = central.site.connect();
        stream.write_all(begun).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let is_timeout = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_timeout, "{begun:?} is waited for without an end");
    }
}
