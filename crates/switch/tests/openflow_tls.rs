//! TLS: certificates made here, by both sides and by Open vSwitch's own client; wrong files and wrong peers.

use crate::peer::{Bench, Peer, settings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tempfile::TempDir;
use weir_codec::{Body, Message, Version};
use weir_switch::{ChannelSettings, Channels, Heard, TlsFiles};

/// An authority, and certificates that it signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap() }
    }

    /// Writes a key and a certificate, and names the files.
    fn sign(&self, folder: &Path, name: &str) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |suffix: &str, text: String| -> PathBuf {
            let path = folder.join(format!("{name}-{suffix}.pem"));
            fs::write(&path, text).unwrap();
            path
        };
        TlsFiles {
            private_key: file("key", key.serialize_pem()),
            certificate: file("cert", certificate.pem()),
            ca_cert: file("ca", self.issuer.pem()),
        }
    }
}

fn with_tls(settings: ChannelSettings, files: &TlsFiles) -> ChannelSettings {
    ChannelSettings { tls: Some(files.clone()), ..settings }
}

fn read(files: &TlsFiles) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>, RootCertStore) {
    let certificate = CertificateDer::from_pem_file(&files.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&files.private_key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.ca_cert).unwrap()).unwrap();
    (vec![certificate], key, roots)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A client that shows the certificate in these files, or none.
fn client(address: &str, files: &TlsFiles, shows: bool) -> Peer<StreamOwned<ClientConnection, TcpStream>> {
    let (chain, key, roots) = read(files);
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let config = if shows {
        builder.with_client_auth_cert(chain, key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let name = ServerName::try_from("switch").unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    Peer::new(StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream))
}

#[test]
fn both_sides_show_certificates_and_long_messages_pass_both_ways() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("ours");
    let switch = authority.sign(folder.path(), "switch");
    let bench = Bench::new(&with_tls(settings(&["pssl:0:127.0.0.1"], &[]), &switch));
    let files = authority.sign(folder.path(), "controller");
    let mut peer = client(&bench.address(), &files, true);
    peer.hello(Version::V13);
    let (_, version, line) = bench.opened();
    assert_eq!(version, Version::V13);
    let long = Body::EchoReply((0..60_000).map(|byte| byte as u8).collect());
    (0..100).for_each(|xid| line.answer(crate::peer::encoded(version, xid, long.clone())));
    for xid in 0..100 {
        assert_eq!(peer.hear().unwrap(), Message::new(version, xid, long.clone()));
    }
    peer.say(version, 3, Body::EchoRequest(vec![1; 60_000]));
    assert_eq!(peer.hear().unwrap().body, Body::EchoReply(vec![1; 60_000]));
    (0..500).for_each(|xid| peer.say(version, xid, Body::BarrierRequest));
    (0..500).for_each(|xid| assert_eq!(bench.message().1.xid, xid));
    assert!(bench.row(0).connections[0].peer.starts_with("ssl:127.0.0.1:"));
    peer.stream.conn.send_close_notify();
    peer.stream.conn.complete_io(&mut peer.stream.sock).unwrap();
    assert_eq!(bench.closed().1, "it hung up");
}

#[test]
fn whoever_has_no_certificate_of_the_authority_is_refused_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let (authority, stranger) = (Authority::new("ours"), Authority::new("another"));
    let switch = authority.sign(folder.path(), "switch");
    let bench = Bench::new(&with_tls(settings(&["pssl:0:127.0.0.1"], &[]), &switch));
    let refused = |said: &str| {
        bench.wait(said, |status| status[0].last_end.as_deref().is_some_and(|why| why.contains(said)));
    };
    let ours = authority.sign(folder.path(), "controller");
    let mut none = client(&bench.address(), &ours, false);
    assert!(std::io::Read::read(&mut none.stream, &mut [0; 64]).is_err());
    refused("TLS: peer sent no certificates");
    // Trusts the switch, but shows another authority's certificate.
    let theirs = stranger.sign(folder.path(), "stranger");
    let mixed = TlsFiles { ca_cert: ours.ca_cert.clone(), ..theirs };
    let mut foreign = client(&bench.address(), &mixed, true);
    assert!(std::io::Read::read(&mut foreign.stream, &mut [0; 64]).is_err());
    refused("TLS: invalid peer certificate: UnknownIssuer");
    // Speaks no TLS at all.
    let mut plain = crate::peer::tcp(&bench.address());
    std::io::Write::write_all(&mut plain.stream, &[4, 0, 0, 8, 0, 0, 0, 1]).unwrap();
    let _ = std::io::Read::read_to_end(&mut plain.stream, &mut Vec::new());
    refused("TLS: received corrupt message");
    bench.silent(Duration::from_millis(50));
}

#[test]
fn a_controller_is_connected_to_whatever_its_name_if_the_authority_signed_it() {
    let folder = TempDir::new().unwrap();
    let (authority, stranger) = (Authority::new("ours"), Authority::new("another"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("ssl:{}", listener.local_addr().unwrap());
    let switch = authority.sign(folder.path(), "switch");
    let bench = Bench::new(&with_tls(settings(&[], &[&to]), &switch));
    let accept = |files: &TlsFiles| {
        let (chain, key, roots) = read(files);
        let verifier =
            rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
                .build()
                .unwrap();
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Peer::new(StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream))
    };
    let impostor = TlsFiles { ca_cert: switch.ca_cert.clone(), ..stranger.sign(folder.path(), "impostor") };
    assert!(std::io::Read::read(&mut accept(&impostor).stream, &mut [0; 64]).is_err());
    bench.wait("the refusal", |status| {
        status[0].last_end.as_deref().is_some_and(|why| why.contains("UnknownIssuer"))
    });
    let mut controller = accept(&authority.sign(folder.path(), "elsewhere.example.org"));
    controller.hello(Version::V14);
    assert_eq!(bench.opened().1, Version::V14);
}

#[test]
fn wrong_files_are_named_with_what_is_wrong() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("ours");
    let good = authority.sign(folder.path(), "switch");
    let other = authority.sign(folder.path(), "other");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let empty = path("empty.pem", "");
    let cut = path("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    let no_certificate =
        path("none.pem", "-----BEGIN CERTIFICATE-----\nV2Vpcg==\n-----END CERTIFICATE-----\n");
    for (files, said) in [
        (
            TlsFiles { private_key: folder.path().join("absent.pem"), ..good.clone() },
            "private_key absent.pem: No such file",
        ),
        (
            TlsFiles { private_key: empty.clone(), ..good.clone() },
            "private_key empty.pem: there is no private key",
        ),
        (
            TlsFiles { private_key: other.private_key, ..good.clone() },
            "certificate switch-cert.pem: keys may not be consistent",
        ),
        (
            TlsFiles { certificate: empty, ..good.clone() },
            "certificate empty.pem: there is no certificate in it",
        ),
        (TlsFiles { certificate: cut, ..good.clone() }, "certificate cut.pem: it is not PEM"),
        (
            TlsFiles { ca_cert: no_certificate, ..good },
            "ca_cert none.pem: a certificate in it cannot be an authority's",
        ),
    ] {
        let (sender, _inbox) = sync_channel::<Heard>(1);
        let error =
            Channels::start(&with_tls(settings(&["pssl:0:127.0.0.1"], &[]), &files), sender).unwrap_err();
        let error = error.to_string().replace(&format!("{}/", folder.path().display()), "");
        assert!(error.starts_with(said), "{error}");
    }
}

/// Runs a program, and hands back whether it succeeded and what it said.
fn run(folder: &Path, program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn open_vswitchs_own_certificates_and_client_are_understood() {
    let folder = TempDir::new().unwrap();
    for arguments in [&["init"][..], &["req+sign", "sw", "switch"], &["req+sign", "ctl", "controller"]] {
        let (done, said) =
            run(folder.path(), "ovs-pki", &[&["--dir=pki", "--log=log", "--force"], arguments].concat());
        assert!(done, "{said}");
    }
    let files = TlsFiles {
        private_key: folder.path().join("sw-privkey.pem"),
        certificate: folder.path().join("sw-cert.pem"),
        ca_cert: folder.path().join("pki/controllerca/cacert.pem"),
    };
    let bench = Bench::new(&with_tls(settings(&["pssl:0:127.0.0.1"], &[]), &files));
    let address = format!("ssl:{}", bench.address());
    let of = |name: &str| {
        let (key, certificate) = (format!("{name}-privkey.pem"), format!("{name}-cert.pem"));
        let options = ["-p", &key, "-c", &certificate, "-C", "pki/switchca/cacert.pem"];
        run(folder.path(), "ovs-ofctl", &[&options[..], &["-O", "OpenFlow13", "probe", &address]].concat())
    };
    let (done, said) = of("ctl");
    assert!(done, "{said}");
    assert_eq!(bench.opened().1, Version::V13);
    bench.closed();
    let (done, _) = of("sw");
    assert!(!done, "a switch's certificate is no controller's");
    bench.wait("the refusal", |status| {
        status[0].last_end.as_deref().is_some_and(|why| why.contains("invalid peer certificate"))
    });
}
