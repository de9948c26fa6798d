//! Functions in guests: real QEMU, which emulates their processors so that it runs on every machine.

use crate::chains::{is_whole, names, plan};
use crate::lab::{Lab, Working, cores, told, wait_for, weir};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use weir_testkit::Need;
use weir_trial::run::Run;

/// Few packets: an emulated processor takes turns with the host's on one core.
const METHOD: &str = "[latency]\nloads = [\"2kpps\"]\nduration = \"300ms\"\n";

const PLACED: &str = "deployment = \"vm\"\naccel = \"tcg\"\ncores = \"shared\"";

/// The folder of what guests are made of.
fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    cache.unwrap_or_else(|| Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache"))
}

/// What each of these tests needs.
fn needs() -> [Need; 3] {
    let kernel = cache().join("weir/guest/kernel/vmlinuz");
    [
        Need::Program("qemu-system-x86_64", "qemu-system-x86"),
        Need::Program("busybox", "busybox-static"),
        Need::Found("a kernel for guests".to_owned(), kernel.is_file(), "./x guest".to_owned()),
    ]
}

/// Nothing of a lab that has ended is there.
fn is_gone(lab: &Lab) {
    assert_eq!(lab.leftovers(), Vec::<PathBuf>::new());
    wait_for("the guests' end", || lab.devices().is_empty().then_some(()));
}

/// The results of emulated guests are marked.
fn is_marked(run: &Run) {
    for point in &run.points {
        assert!(point.key.placement.is_emulated(), "{:?}", point.key);
        let doubt = point.doubt(&point.results[0]).expect("an emulated guest is in doubt");
        assert!(doubt.invalid && doubt.why.contains("emulated (TCG)"), "{doubt:?}");
    }
}

#[test]
fn functions_in_guests_forward_right_packets_on_our_program_and_on_their_kernel() {
    let _cores = cores();
    let [qemu, busybox, kernel] = needs();
    if !weir_testkit::needs!(qemu, busybox, kernel, Need::Program("nft", "nftables")) {
        return;
    }
    let measured = |axes: &str| {
        let lab = Lab::new(&plan(&format!("{axes}\n{PLACED}"), METHOD));
        let run = lab.measure(0);
        is_whole(&run);
        is_marked(&run);
        is_gone(&lab);
        run.points
    };
    let both = measured("nf = \"l3fwd:10\"\ndut = [\"nf\", \"linux\"]");
    let [ours, kernel] = both.as_slice() else { panic!("{}", both.len()) };
    let filter = &measured("nf = \"firewall:10\"\ndut = \"linux\"")[0];
    assert_eq!(names(filter), ["weir", "linux 1 firewall:10", "weir"]);
    assert_eq!(names(ours), ["weir", "nf 1 l3fwd:10", "weir"]);
    assert_eq!(names(kernel), ["weir", "linux 1 l3fwd:10", "weir"]);
    assert_eq!(ours.key.device(), "nf in vm (1 vCPU, 512 MiB, TCG) on weir, one core");
    let what = kernel.dut_version.as_deref().unwrap();
    assert!(what.contains("routes in the main table in QEMU") && what.contains("linux-image"), "{what}");
}

#[test]
fn our_switch_is_a_function_with_connections_and_a_cipher_in_a_guest() {
    let _cores = cores();
    let [qemu, busybox, kernel] = needs();
    if !weir_testkit::needs!(qemu, busybox, kernel) {
        return;
    }
    let axes = format!("nf = \"pipeline-b:16\"\ndut = \"weir\"\n{PLACED}");
    let lab = Lab::new(&plan(&axes, METHOD).replace("flows:100", "conversations:100:16"));
    let run = lab.measure(0);
    is_whole(&run);
    is_marked(&run);
    let [point] = run.points.as_slice() else { panic!("{}", run.points.len()) };
    assert_eq!(names(point), ["weir", "weir 1 pipeline-b:16", "weir"]);
    assert!(point.dut_version.as_deref().unwrap().contains("in QEMU"), "{:?}", point.dut_version);
    is_gone(&lab);
}

#[test]
fn a_guest_that_dies_is_named_and_none_outlives_the_lab() {
    let _cores = cores();
    let [qemu, busybox, kernel] = needs();
    if !weir_testkit::needs!(qemu, busybox, kernel) {
        return;
    }
    let method = "[latency]\nloads = [\"2kpps\"]\nduration = \"60s\"\n";
    let lab = Lab::new(&plan(&format!("nf = \"l2fwd\"\n{PLACED}"), method));
    let guest = || {
        lab.devices().into_iter().find(|process| {
            let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
            line.starts_with(b"qemu-system-x86_64\0")
        })
    };
    // Its processors have a core of their own once it forwards; before that it only boots.
    let mut working = Working::start(&mut lab.bench());
    let victim = wait_for("the guest", guest);
    wait_for("traffic", || working.is_testing().then_some(()));
    kill(Pid::from_raw(victim), Signal::SIGKILL).unwrap();
    let output = working.end();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let error = lab.stored().unwrap().points[0].error.clone().unwrap();
    assert!(error.contains("nf 1 l2fwd: the guest (tcg) ended (signal: 9"), "{error}");
    is_gone(&lab);

    let mut working = Working::start(&mut lab.bench());
    wait_for("another guest", guest);
    working.signal(Signal::SIGKILL);
    working.end();
    wait_for("its end", || lab.devices().is_empty().then_some(()));
}

/// A guest that does not boot: nothing forwards, so the cores are not held, and it runs beside tests that measure.
mod absent {
    use super::*;

    #[test]
    fn a_guest_that_does_not_boot_is_named_with_its_console_and_leaves_nothing() {
        let [qemu, busybox, kernel] = needs();
        if !weir_testkit::needs!(qemu, busybox, kernel) {
            return;
        }
        let axes = format!("nf = \"l2fwd\"\n{PLACED}");
        let error = |lab: &Lab| {
            let output = lab.bench().env("XDG_CACHE_HOME", lab.file("cache")).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", told(&output));
            is_gone(lab);
            lab.stored().unwrap().points[0].error.clone().unwrap()
        };
        let lab = Lab::new(&plan(&format!("{axes}\nmemory = 240"), METHOD));
        // A kernel and images of our own, to be damaged.
        let (real, guests) = (cache().join("weir/guest/kernel"), lab.file("cache/weir/guest"));
        let kernel = guests.join("kernel/vmlinuz");
        fs::create_dir_all(guests.join("kernel")).unwrap();
        symlink(real.join("modules"), guests.join("kernel/modules")).unwrap();
        fs::copy(real.join("version"), guests.join("kernel/version")).unwrap();
        fs::copy(real.join("vmlinuz"), &kernel).unwrap();
        let said = error(&lab);
        assert!(said.contains("nf 1 l2fwd: the guest (tcg) ended"), "{said}");
        assert!(said.contains("huge pages of 2 MiB: the guest has too little memory"), "{said}");

        fs::write(lab.file("plan.toml"), plan(&axes, METHOD)).unwrap();
        let images = fs::read_dir(&guests).unwrap().flatten().map(|entry| entry.path());
        let images: Vec<PathBuf> = images.filter(|path| path.is_file()).collect();
        assert_eq!(images.len(), 1, "{images:?}");
        fs::write(&images[0], "no image").unwrap();
        let said = error(&lab);
        assert!(said.contains("the guest (tcg) ended") && said.contains("    | "), "{said}");
        assert!(said.contains("Kernel panic"), "{said}");

        let mut damaged = fs::read(&kernel).unwrap();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 4096].fill(0x55);
        fs::write(&kernel, damaged).unwrap();
        let said = error(&lab);
        assert!(said.contains("the guest (tcg) halted before it began") && said.contains("    | "), "{said}");

        // What the machine lacks is no failure of the point, as everywhere.
        fs::remove_file(&kernel).unwrap();
        let output = lab.bench().env("XDG_CACHE_HOME", lab.file("cache")).output().unwrap();
        let said = told(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("not supported") && said.contains("there is no kernel for guests"), "{said}");
        assert!(said.contains("./x guest"), "{said}");
        is_gone(&lab);
    }
}

#[test]
fn a_plan_of_guests_is_right_where_the_machine_has_no_qemu_and_says_what_is_missing() {
    let lab = Lab::new(&plan(&format!("nf = \"l2fwd\"\n{PLACED}"), METHOD));
    let check = |path: &str| {
        let mut command = weir();
        command.args(["plan", "check"]).arg(lab.file("plan.toml")).env("PATH", path);
        command.output().unwrap()
    };
    let output = check("/nonexistent");
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let text = told(&output);
    assert!(
        text.contains("qemu-system-x86_64") && text.contains("apt-get install qemu-system-x86"),
        "{text}"
    );
}
