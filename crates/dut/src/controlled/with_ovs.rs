//! Encrypted connections with a real `ovs-vswitchd`, whose ports are dummies.

use super::OpenFlow;
use crate::eal::tests::request;
use crate::folder::Folder;
use crate::wiring::External;
use crate::{Adapter as _, DutError, RunningDut};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_testkit::{Need, needs};

/// An authority, and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes a key and a certificate beside its own certificate.
    fn sign(&self, folder: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        for (kind, text) in [("key", key.serialize_pem()), ("cert", certificate.pem()), ("ca", self.0.pem())]
        {
            std::fs::write(folder.join(format!("{name}-{kind}.pem")), text).unwrap();
        }
    }
}

/// Open vSwitch with certificates of its own and a bridge of dummy ports 1 and 2, and its controllers.
struct Ovs(Child);

impl Ovs {
    fn start(folder: &Path, controllers: &str) -> Self {
        let script = "cd {d} && export OVS_RUNDIR={d} OVS_DBDIR={d} OVS_LOGDIR={d}\n\
             ovsdb-tool create conf.db /usr/share/openvswitch/vswitch.ovsschema\n\
             setpriv --pdeathsig KILL -- ovsdb-server conf.db --remote=punix:{d}/db.sock --unixctl={d}/ovsdb.ctl &\n\
             until [ -S db.sock ]; do sleep 0.02; done\n\
             v=\"ovs-vsctl --db=unix:{d}/db.sock --no-wait\"; $v init\n\
             $v set-ssl {d}/switch-key.pem {d}/switch-cert.pem {d}/switch-ca.pem\n\
             $v add-br br -- set Bridge br datapath_type=dummy fail-mode=secure -- set-controller br {c}\n\
             for c in $($v --columns=_uuid -f csv -d bare --no-headings list Controller); do $v set Controller $c max_backoff=1000; done\n\
             for n in 1 2; do $v add-port br p$n -- set Interface p$n type=dummy ofport_request=$n; done\n\
             exec ovs-vswitchd unix:{d}/db.sock --unixctl={d}/v.ctl --enable-dummy";
        let script = script.replace("{c}", controllers).replace("{d}", &folder.display().to_string());
        let log = std::fs::File::create(folder.join("ovs.log")).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "sh", "-c", &script]).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self(command.spawn().unwrap())
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        let _ = self.0.kill(); // its database goes with it
        let _ = self.0.wait();
    }
}

fn has_ovs() -> bool {
    needs!(Need::Root, Need::Program("ovs-vswitchd", "openvswitch-switch-dpdk"))
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The lab's settings of a connection with the certificates of this name.
fn with(place: &str, folder: &Path, name: &str) -> String {
    let file = |kind: &str| folder.join(format!("{name}-{kind}.pem")).display().to_string();
    format!("{place}+private-key={}+certificate={}+ca-cert={}", file("key"), file("cert"), file("ca"))
}

/// Has the lab be the controller of the switch at a place.
fn control(variant: &str, folder: &Folder) -> Result<Box<dyn RunningDut>, DutError> {
    let external = External { wait: Duration::from_secs(20), ..External::default() };
    let mut request = request("l3fwd:5".parse().unwrap(), &[], folder);
    (request.variant, request.external) = (variant, &external);
    OpenFlow.start(&request)
}

#[test]
fn open_vswitch_is_controlled_in_tls_whoever_of_both_connects() {
    if !has_ovs() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    ["switch", "lab"].into_iter().for_each(|name| authority.sign(folder.path(), name));
    let [listens, connects] = [free_port(), free_port()];
    let _ovs = Ovs::start(folder.path(), &format!("pssl:{listens}:127.0.0.1 ssl:127.0.0.1:{connects}"));
    let flows = || {
        let bridge = format!("unix:{}", folder.path().join("br.mgmt").display());
        let output = Command::new("ovs-ofctl").args(["dump-flows", &bridge]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().matches("actions=").count()
    };
    for place in [format!("ssl:127.0.0.1:{listens}"), format!("pssl:{connects}")] {
        let own = Folder::new().unwrap();
        let mut running = control(&with(&place, folder.path(), "lab"), &own).unwrap();
        let description = running.description();
        assert!(description.contains("Open vSwitch") && description.contains(&place), "{description}");
        assert_eq!(running.counters().unwrap().ports.len(), 2);
        assert_eq!(flows(), 10, "each of five routes is two plain entries");
        running.stop().unwrap();
        assert_eq!(flows(), 0);
    }
}

#[test]
fn a_certificate_of_a_stranger_and_a_switch_without_tls_are_named_at_once() {
    if !has_ovs() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [ours, theirs] = ["ours", "theirs"].map(Authority::new);
    ours.sign(folder.path(), "switch");
    theirs.sign(folder.path(), "stranger");
    // Trusts the switch, and is not trusted by it.
    theirs.sign(folder.path(), "unknown");
    std::fs::copy(folder.path().join("switch-ca.pem"), folder.path().join("unknown-ca.pem")).unwrap();
    let [encrypted, plain] = [free_port(), free_port()];
    let _ovs = Ovs::start(folder.path(), &format!("pssl:{encrypted}:127.0.0.1 ptcp:{plain}:127.0.0.1"));
    let begun = Instant::now();
    let own = Folder::new().unwrap();
    for (port, name, says) in [
        (encrypted, "stranger", ["the TLS handshake: invalid peer certificate: UnknownIssuer"; 2]),
        // The switch closes as it says so, and what it said may be lost with the connection.
        (encrypted, "unknown", ["alert", "the connection ended"]),
        (plain, "unknown", ["the TLS handshake"; 2]),
        (plain, "nobody", ["nobody-ca.pem"; 2]),
    ] {
        let place = format!("ssl:127.0.0.1:{port}");
        let error = control(&with(&place, folder.path(), name), &own).err().unwrap().to_string();
        assert!(error.contains(&place) && says.iter().any(|says| error.contains(says)), "{name}: {error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "none was tried until its time was over");
}
