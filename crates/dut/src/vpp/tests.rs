use super::*;
use crate::PortCounts;
use crate::eal::tests::request;
use counts::tests::{ERRORS, INTERFACES};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::sync::Mutex;

/// The first bytes of VPP's session: options of telnet, the question for the terminal's kind among them.
const GREETING: &[u8] = &[255, 252, 34, 255, 251, 1, 255, 253, 24, 255, 250, 24, 1, 255, 240, 255, 253, 31];

const STAYS: &str = "exec sleep 30";
/// How long is waited for what comes, and for what never does.
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(300);

/// A program in VPP's place: what it says of its version, and what it does otherwise.
fn program(folder: &Folder, version: &str, does: &str) -> PathBuf {
    let text =
        format!("#!/bin/sh\ngrep -q '  exec ' \"$2\" && {{ echo '{version}'; exec sleep 30; }}\n{does}\n");
    let path = folder.write("vpp", &text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

type Said = Arc<Mutex<Vec<String>>>;

/// A command line's socket: what it begins with, and what it prints for a command; nothing closes it.
fn socket(
    folder: &Folder,
    greeting: &'static [u8],
    print: impl Fn(&str) -> Option<String> + Send + 'static,
) -> Said {
    let listener = UnixListener::bind(folder.file("cli.sock")).unwrap();
    let said = Said::default();
    let heard = Arc::clone(&said);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting).unwrap();
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap_or(0);
        assert!(read == 0 || bytes[..read].starts_with(b"\xff\xfa\x18\0vppctl\xff\xf0"));
        while let Ok(read @ 1..) = stream.read(&mut bytes) {
            let command = String::from_utf8_lossy(&bytes[..read]).trim_end().to_owned();
            heard.lock().unwrap().push(command.clone());
            let Some(printed) = print(&command) else { return };
            // In pieces, as a socket may deliver them.
            for piece in printed.as_bytes().chunks(700) {
                stream.write_all(piece).unwrap();
            }
            stream.write_all(&[0]).unwrap();
        }
    });
    said
}

/// What a VPP prints when nothing is wrong.
fn well(command: &str) -> Option<String> {
    Some(match command.split_whitespace().collect::<Vec<_>>()[..] {
        ["show", "version"] => {
            "vpp v25.10-release built by root on here at 2025-10-29T12:00:00\r\n".to_owned()
        }
        ["create", "vhost-user", "socket", path, ..] => {
            format!("VirtualEthernet0/0/{}\r\n", u8::from(path.contains("link1")))
        }
        ["show", "interface"] => INTERFACES.to_owned(),
        ["show", "errors"] => ERRORS.to_owned(),
        _ => String::new(),
    })
}

fn ports() -> [String; 2] {
    [0, 1].map(|link| format!("net_vhost{link},iface=/t/link{link}.sock,queues=1,client=0"))
}

fn started(folder: &Folder, nf: &str) -> Result<Box<dyn RunningDut>, DutError> {
    let ports = ports();
    run(&program(folder, "", STAYS), &request(nf.parse().unwrap(), &ports, folder), LONG)
}

#[test]
fn ports_and_function_are_made_by_commands_and_counters_read() {
    let folder = Folder::new().unwrap();
    let said = socket(&folder, GREETING, well);
    let mut dut = started(&folder, "firewall:100").unwrap();
    let description = dut.description();
    assert!(description.starts_with("VPP 25.10-release; ") && description.contains("startup.conf"));
    let counters = dut.counters().unwrap();
    assert_eq!((counters.received, counters.sent), (12, 19));
    assert_eq!(counters.ports[0], PortCounts { received: 12, sent: 7, refused: Some(2) });
    assert_eq!(counters.details["acl-plugin-in-ip4-l2: ACL deny packets"], 4);
    dut.stop().unwrap();
    let said = said.lock().unwrap();
    assert_eq!(said[..2], ["show version", "create vhost-user socket /t/link0.sock server"]);
    assert!(
        said.iter().any(|one| one == "set interface l2 xconnect VirtualEthernet0/0/1 VirtualEthernet0/0/0")
    );
    assert!(said.iter().all(|one| one.len() < 2048), "what is long is read from a file");
    let texts = folder.texts();
    assert!(texts["startup.conf"].contains("corelist-workers 3"));
    assert!(texts["rules0.cli"].ends_with("permit src 0.0.0.0/0 dst 0.0.0.0/0\n"));
    assert!(
        texts["commands.cli"].contains("rules0.cli\nset acl-plugin interface VirtualEthernet0/0/0 input")
    );
}

#[test]
fn what_it_refuses_is_named_by_the_command() {
    let folder = Folder::new().unwrap();
    socket(&folder, GREETING, |command| match command.starts_with("set interface l2") {
        true => Some("set interface l2 xconnect: unknown interface\r\n".to_owned()),
        false => well(command),
    });
    let error = started(&folder, "l2fwd").err().unwrap().to_string();
    let refused = "`set interface l2 xconnect VirtualEthernet0/0/0 VirtualEthernet0/0/1` failed";
    assert!(error.contains(refused) && error.contains("unknown interface"), "{error}");
}

#[test]
fn a_version_without_a_command_is_named() {
    let folder = Folder::new().unwrap();
    socket(&folder, GREETING, |command| match command.starts_with("create vhost-user") {
        true => Some("create: unknown input `vhost-user socket'\r\n".to_owned()),
        false => well(command),
    });
    let error = started(&folder, "l2fwd").err().unwrap().to_string();
    assert!(
        error.contains("`create vhost-user socket /t/link0.sock server` failed: create: unknown"),
        "{error}"
    );
    // One that makes no interface and says nothing of it has not made one.
    let folder = Folder::new().unwrap();
    socket(&folder, GREETING, |command| {
        well(command).map(|printed| if command.starts_with("create") { String::new() } else { printed })
    });
    let error = started(&folder, "l2fwd").err().unwrap().to_string();
    assert!(error.contains("it printed nothing"), "{error}");
}

#[test]
fn nonsense_silence_and_another_program_are_named() {
    let folder = Folder::new().unwrap();
    socket(&folder, b"HTTP/1.1 400 Bad Request\r\n", well);
    let error = started(&folder, "l2fwd").err().unwrap().to_string();
    assert!(error.contains("HTTP/1.1") && error.contains("VPP's command line"), "{error}");
    let folder = Folder::new().unwrap();
    socket(&folder, GREETING, |_| Some("bird> what?\r\n".to_owned()));
    let error = started(&folder, "l2fwd").err().unwrap().to_string();
    assert!(error.contains("`bird> what?`") && error.contains("VPP's version"), "{error}");
    let folder = Folder::new().unwrap();
    socket(&folder, GREETING, |command| well(command).filter(|_| command != "show interface"));
    let error = started(&folder, "l2fwd").unwrap().counters().unwrap_err().to_string();
    assert!(error.contains("VPP's command line: it was closed"), "{error}");
    let folder = Folder::new().unwrap();
    socket(&folder, GREETING, |command| match command {
        "show interface" => Some("no interfaces\r\n".to_owned()),
        _ => well(command),
    });
    let error = started(&folder, "l2fwd").unwrap().counters().unwrap_err().to_string();
    assert!(error.contains("`no interfaces` where the counters"), "{error}");
}

#[test]
fn one_that_never_listens_is_named_with_its_last_words() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let program = program(&folder, "", "echo no huge pages; exec sleep 30");
    let begun = run(&program, &request(Nf::L2Fwd, &ports, &folder), SHORT);
    let error = begun.err().unwrap().to_string();
    assert!(error.contains("did not listen at its command line's socket"), "{error}");
    assert!(error.contains("| no huge pages"), "{error}");
}

#[test]
fn its_version_is_what_a_command_prints_and_another_program_has_none() {
    let folder = Folder::new().unwrap();
    let vpp = program(&folder, "vpp v25.10-release built by root on here at 2025-10-29T12:00:00", "exit 1");
    assert_eq!(version(&vpp, LONG).unwrap(), "VPP 25.10-release");
    let other = program(&folder, "Vocoder 3", "exit 1");
    let error = version(&other, SHORT).unwrap_err().to_string();
    assert!(error.contains("did not say its version") && error.contains("| Vocoder 3"), "{error}");
    let error = version("/bin/false".as_ref(), LONG).unwrap_err().to_string();
    assert!(error.contains("ended by itself (exit status: 1)"), "{error}");
}

#[test]
fn one_that_dies_is_named_with_its_last_words() {
    let (folder, ports) = (Folder::new().unwrap(), ports());
    let dies = program(&folder, "", "echo 'vlib_call_all_config_functions: unknown input'; exit 1");
    let begun = run(&dies, &request(Nf::L2Fwd, &ports, &folder), LONG);
    let error = begun.err().unwrap().to_string();
    assert!(error.contains("exit status: 1") && error.contains("unknown input"), "{error}");
    socket(&folder, GREETING, well);
    let die = folder.file("die");
    let does = format!(
        "until [ -e {} ]; do sleep 0.05; done; echo received signal SIGSEGV; exit 139",
        die.display()
    );
    let program = program(&folder, "", &does);
    let mut dut = run(&program, &request(Nf::L2Fwd, &ports, &folder), LONG).unwrap();
    std::fs::write(die, "").unwrap();
    let end = Instant::now() + LONG;
    while dut.ended().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let error = dut.ended().unwrap().to_string();
    assert!(error.contains("exit status: 139") && error.contains("SIGSEGV"), "{error}");
}

#[test]
fn what_it_puts_into_shared_memory_goes_with_it() {
    let folder = Folder::new().unwrap();
    let left = "/dev/shm/weir-test-of-vpp";
    let program = program(&folder, "", &format!("echo > {left}; ls /dev/shm; exec sleep 30"));
    let (unshare, arguments) = command(&program, &folder.write("startup.conf", "").unwrap());
    let process = Process::start(NAME, unshare, &arguments, Arc::default()).unwrap();
    let sees = |lines: &[&str]| lines.contains(&"weir-test-of-vpp").then_some(());
    process.wait_for(0, "see its own", LONG, sees).unwrap();
    assert!(!Path::new(left).exists());
}

#[test]
fn ports_of_dpdk_and_frames_beyond_its_mtu_are_refused() {
    let folder = Folder::new().unwrap();
    let front = ["net_virtio_user0,path=/t/s,queues=1".to_owned(), "net_null1".to_owned()];
    let error = Vpp.start(&request(Nf::L2Fwd, &front, &folder)).err().unwrap().to_string();
    assert!(error.contains("vhost-user back end alone"), "{error}");
    let ports = ports();
    let long = weir_units::FrameSize::MAX;
    let request = StartRequest { max_frame: long, ..request(Nf::L2Fwd, &ports, &folder) };
    let error = Vpp.start(&request).err().unwrap().to_string();
    assert!(error.contains("9014 bytes"), "{error}");
}

#[test]
fn a_trace_is_fed_in_the_format_that_it_reads_and_a_sink_that_is_there_is_reached() {
    let folder = Folder::new().unwrap();
    let said = socket(&folder, GREETING, |command| match command {
        "show interface" => Some(INTERFACES.replace("VirtualEthernet0/0/", "pg")),
        _ => well(command),
    });
    let (trace, sink) = (folder.file("a.pcap"), folder.file("0"));
    std::fs::write(&trace, [&NANOSECONDS.to_ne_bytes()[..], &[7; 20]].concat()).unwrap();
    std::fs::write(&sink, "").unwrap();
    let ports = [
        format!("net_pcap0,rx_pcap={},infinite_rx=1,tx_pcap={}", trace.display(), sink.display()),
        "net_null1,no-rx=1".to_owned(),
    ];
    let vpp = program(&folder, "", STAYS);
    let mut dut = run(&vpp, &request(Nf::L2Fwd, &ports, &folder), LONG).unwrap();
    assert_eq!(dut.counters().unwrap().ports[1].sent, 12);
    assert_eq!(std::fs::read(&trace).unwrap(), [&MICROSECONDS.to_ne_bytes()[..], &[7; 20]].concat());
    std::fs::write(config::capture(&sink.display().to_string()), "captured").unwrap();
    assert_eq!(std::fs::read_to_string(&sink).unwrap(), "captured");
    let said = said.lock().unwrap();
    let place = |what: &str| said.iter().position(|command| command.starts_with(what)).unwrap();
    assert!(place("packet-generator new") < place("set interface state pg1 up"), "{said:?}");
    assert!(place("set interface state pg1 up") < place("packet-generator enable-stream feed0"), "{said:?}");
}

/// A VPP that already runs, with a list of rules by default and what it knows of interfaces: none but its own until the lab makes some.
fn running(folder: &Folder, refuses: &'static str) -> (String, Said) {
    let made = Mutex::new(false);
    let said = socket(folder, GREETING, move |command| {
        let mut made = made.lock().unwrap();
        *made |= command.starts_with("create vhost-user");
        match command {
            _ if !refuses.is_empty() && command.starts_with(refuses) => {
                Some("no: unknown input\r\n".to_owned())
            }
            "show interface" if !*made => Some(
                "              Name               Idx\r\nlocal0                            0     down\r\n"
                    .to_owned(),
            ),
            _ => well(command),
        }
    });
    (format!("unix:{}", folder.file("cli.sock").display()), said)
}

fn taken_over(place: &str, folder: &Folder, nf: &str) -> Result<Box<dyn RunningDut>, DutError> {
    let ports = ports();
    let mut request = request(nf.parse().unwrap(), &ports, folder);
    request.variant = place;
    Vpp.start(&request)
}

#[test]
fn one_that_already_runs_is_set_up_counted_and_left_as_it_was() {
    let folder = Folder::new().unwrap();
    let (place, said) = running(&folder, "");
    let mut dut = taken_over(&place, &folder, "firewall:10").unwrap();
    assert_eq!(dut.description(), format!("VPP 25.10-release at {place}"));
    assert_eq!(dut.counters().unwrap().received, 12);
    assert!(dut.processes().is_empty() && dut.ended().is_none());
    let before = said.lock().unwrap().len();
    dut.stop().unwrap();
    let said = said.lock().unwrap();
    let undone = &said[before..];
    assert_eq!(undone[0], "set interface state VirtualEthernet0/0/1 down");
    assert_eq!(undone.last().unwrap(), "delete vhost-user VirtualEthernet0/0/0");
    assert!(undone.iter().any(|command| command.ends_with("/undo-rules0.cli")), "{undone:?}");
    assert_eq!(folder.texts()["undo-rules0.cli"], "delete acl-plugin acl index 0\n");
    let made = said[..before].iter().filter(|command| !command.starts_with("show")).count();
    assert_eq!(undone.len(), made, "{said:?}");
}

#[test]
fn one_that_refuses_in_the_middle_is_left_as_it_was_and_one_that_goes_is_named() {
    let folder = Folder::new().unwrap();
    let (place, said) = running(&folder, "set interface l2");
    let error = taken_over(&place, &folder, "l2fwd").err().unwrap().to_string();
    assert!(error.contains("`set interface l2 xconnect VirtualEthernet0/0/0"), "{error}");
    let last: Vec<String> = said.lock().unwrap().iter().rev().take(2).rev().cloned().collect();
    assert_eq!(last, ["delete vhost-user VirtualEthernet0/0/1", "delete vhost-user VirtualEthernet0/0/0"]);
    let folder = Folder::new().unwrap();
    let place = format!("unix:{}", folder.file("cli.sock").display());
    socket(&folder, GREETING, |command| match command {
        "show interface" => Some("local0   0   down\r\n".to_owned()),
        "show errors" => None,
        _ => well(command),
    });
    let mut dut = taken_over(&place, &folder, "l2fwd").unwrap();
    let error = dut.counters().unwrap_err().to_string();
    assert!(error.contains("VPP's command line: it was closed"), "{error}");
    assert!(dut.ended().unwrap().to_string().contains("it was closed"));
}

#[test]
fn one_in_which_somebody_has_made_something_and_one_that_is_not_there_are_named() {
    let folder = Folder::new().unwrap();
    let place = format!("unix:{}", folder.file("cli.sock").display());
    let error = taken_over(&place, &folder, "l2fwd").err().unwrap().to_string();
    assert!(error.contains("No such file") && error.contains("`cli-listen`"), "{error}");
    let said = socket(&folder, GREETING, well);
    let error = taken_over(&place, &folder, "l2fwd").err().unwrap().to_string();
    assert!(error.contains("somebody has made `VirtualEthernet0/0/0` in it"), "{error}");
    assert_eq!(said.lock().unwrap().len(), 2, "nothing was changed");
    let folder = Folder::new().unwrap();
    let place = format!("unix:{}", folder.file("cli.sock").display());
    socket(&folder, GREETING, |command| match command {
        "show interface" => Some("local0   0   down\r\n".to_owned()),
        "show acl-plugin acl" => Some("acl-index 0 count 1 tag {cli}\r\n  0: ipv4 permit\r\n".to_owned()),
        _ => well(command),
    });
    let error = taken_over(&place, &folder, "l2fwd").err().unwrap().to_string();
    assert!(error.contains("somebody has made `acl-index 0 count 1 tag {cli}`"), "{error}");
}

#[test]
fn the_place_of_one_that_runs_is_read_or_named_and_it_does_not_feed_itself() {
    assert_eq!(crate::check_variant("vpp:unix:/run/vpp/cli.sock"), Ok(()));
    for wrong in ["vpp:tcp:127.0.0.1:5002", "vpp:unix:", "vpp:fast"] {
        let error = crate::check_variant(wrong).unwrap_err();
        assert!(error.contains("write unix:PATH"), "{error}");
    }
    let folder = Folder::new().unwrap();
    let fed = ["net_pcap0,rx_pcap=/t/a.pcap,infinite_rx=1".to_owned(), "net_null1,no-rx=1".to_owned()];
    let mut request = request(Nf::L2Fwd, &fed, &folder);
    request.variant = "unix:/run/vpp/cli.sock";
    let error = Vpp.start(&request).err().unwrap().to_string();
    assert!(error.contains("does not feed itself"), "{error}");
}
