//! Configurations: what they mean, and how mistakes are told.

use std::path::Path;
use weir_openflow::PortNo;
use weir_switch::{FailMode, Known, Settings, config};

fn parse(text: &str) -> Result<Settings, String> {
    let known = Known { kinds: vec!["conntrack", "counter", "noop"] };
    Settings::parse(text, Path::new("etc/switch.toml"), &known).map_err(|error| error.to_string())
}

#[test]
fn what_a_configuration_says_is_what_the_settings_hold() {
    let settings = parse(
        r#"
        [switch]
        cores = [1, 3]
        huge_pages = true
        memory_mib = 512
        buffers = 65536
        max_frame = 9018
        coalescing = false
        selection = "round-robin"
        poll = "adaptive:50us"
        tcam = "512,evict=lowest-rate"
        seed = 7
        control = "run/weir.sock"
        metrics = "127.0.0.1:9464"

        [port.zulu]
        spec = "net_vhost0,iface=/tmp/a"
        queues = 2
        [port.alpha]
        spec = "trace:in.pcap,tx=out.pcap"
        [port.mike]
        spec = "0000:01:00.0"
        number = 1
        descriptors = 512

        [service.firewall]
        kind = "conntrack"
        settings = { timeouts = { udp = 30 } }
        limits = { panics = 5, policy = "pass" }
        [service.counter]

        [tables]
        flows = "actions=drop"
        "#,
    )
    .unwrap();
    assert_eq!((settings.cores(), settings.huge_pages, settings.coalescing), (vec![1, 3], true, false));
    assert_eq!((settings.buffers, settings.max_frame.bytes(), settings.seed), (65_536, 9018, Some(7)));
    assert_eq!(settings.control.as_deref(), Some(Path::new("etc/run/weir.sock")), "relative to the file");
    assert_eq!(settings.poll.to_string(), "adaptive:50us");
    assert_eq!(settings.selection.to_string(), "round-robin");
    assert_eq!(settings.tcam.unwrap().to_string(), "512,latency=100us,evict=lowest-rate");
    assert_eq!(settings.metrics.clone().unwrap().to_string(), "http://127.0.0.1:9464/metrics");
    let ports: Vec<_> =
        settings.ports.iter().map(|port| (port.name.as_str(), port.number.unwrap().0)).collect();
    assert_eq!(ports, [("zulu", 2), ("alpha", 3), ("mike", 1)], "numbers go by the order of the file");
    assert_eq!((settings.ports[2].descriptors, settings.ports[0].queues), (512, 2));
    assert_eq!(settings.queues_filled(&settings.ports[1]).queues, 2, "one a worker");
    let firewall = &settings.services["firewall"];
    assert_eq!((firewall.kind.as_str(), firewall.limits.panics), ("conntrack", 5));
    assert_eq!(firewall.settings["timeouts"]["udp"], 30);
    assert_eq!(settings.services["counter"].kind, "counter");
    let eal = settings.eal();
    assert!(eal.pci && eal.megabytes == 512);
    assert_eq!(settings.datapath(9).seed, 7);
    assert_eq!(settings.flows.unwrap().text, "actions=drop");
}

#[test]
fn controllers_are_named_as_open_vswitch_names_them() {
    let settings = parse(
        r#"
        [openflow]
        listen = ["ptcp:6653:127.0.0.1", "pssl:", "punix:run/of.sock"]
        controllers = ["tcp:10.0.0.1", "ssl:controller.example.org:6633"]
        fail_mode = "standalone"
        private_key = "key.pem"
        certificate = "/etc/weir/cert.pem"
        ca_cert = "ca.pem"
        max_connections = 8
        echo_seconds = 30
        datapath_id = "00000000000000a1"
        "#,
    )
    .unwrap()
    .openflow;
    let listen: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["ptcp:6653:127.0.0.1", "pssl:6653:0.0.0.0", "punix:etc/run/of.sock"]);
    let controllers: Vec<String> = settings.controllers.iter().map(ToString::to_string).collect();
    assert_eq!(controllers, ["tcp:10.0.0.1:6653", "ssl:controller.example.org:6633"]);
    let tls = settings.tls.as_ref().unwrap();
    assert_eq!(tls.private_key, Path::new("etc/key.pem"), "relative to the file");
    assert_eq!(tls.certificate, Path::new("/etc/weir/cert.pem"));
    assert_eq!((settings.fail_mode, settings.max_connections), (FailMode::Standalone, 8));
    assert_eq!((settings.echo.as_secs(), settings.datapath_id), (30, Some(0xa1)));
    assert!(settings.stands_alone());
    let none = parse("[openflow]\n").unwrap().openflow;
    assert_eq!((none.fail_mode, none.max_connections, none.echo.as_secs()), (FailMode::Secure, 64, 5));
    assert!(!none.stands_alone() && none.listen.is_empty() && none.datapath_id.is_none());
}

#[test]
fn mistakes_about_controllers_are_told_with_their_place() {
    for (text, place, said) in [
        ("listen = [\"tcp:6653\"]", "3:11", "`listen`: `tcp:6653` connects to a controller"),
        ("listen = [\"ptcp:\", \"ptcp:6653\"]", "3:20", "`listen`: `ptcp:6653` is there twice"),
        ("controllers = [\"ssl:a\"]", "3:16", "`ssl:a` takes `private_key`, `certificate` and `ca_cert`"),
        ("ca_cert = \"ca.pem\"", "3:11", "name `private_key` and `certificate` as well"),
        ("fail_mode = \"open\"", "3:13", "`open` is neither \"secure\" nor \"standalone\""),
        ("max_connections = 0", "3:19", "`max_connections`: 0 is not 1 to 1024"),
        ("echo_seconds = 9999", "3:16", "`echo_seconds`: 9999 is not 1 to 3600"),
        ("datapath_id = \"0\"", "3:15", "`0` is not 1 to 16 hexadecimal digits"),
        ("datapath_id = \"+1\"", "3:15", "`+1` is not 1 to 16 hexadecimal digits"),
        ("listens = []", "3:1", "`listens`"),
    ] {
        let error = parse(&format!("\n[openflow]\n{text}\n")).unwrap_err();
        assert!(error.contains(said) && error.contains(&format!("switch.toml:{place}")), "{error}");
    }
}

#[test]
fn an_empty_configuration_is_a_switch_with_defaults() {
    let settings = parse("").unwrap();
    assert_eq!((settings.cores().len(), settings.buffers, settings.max_frame.bytes()), (1, 16_384, 1522));
    assert!(settings.ports.is_empty() && settings.metrics.is_none() && settings.control.is_some());
    assert!(settings.eal().megabytes > 32 && !settings.eal().pci);
    assert_eq!(settings.datapath(9).seed, 9);
    assert!(parse("[switch]\ncontrol = \"none\"").unwrap().control.is_none());
}

#[test]
fn mistakes_are_told_with_line_column_and_cure() {
    for (text, said) in [
        ("[swich]\n", &["etc/switch.toml:1:2: unknown key `swich`", "did you mean `switch`?"][..]),
        ("[switch]\ncoers = [1]", &["2:1: unknown key `coers`", "did you mean `cores`?", "allowed: cores,"]),
        ("[switch]\ncores = []", &["2:9: `cores`: a switch has at least one worker"]),
        ("[switch]\ncores = [2, 2]", &["core 2 is there twice"]),
        ("[switch]\ncores = \"all\"", &["2:9: `cores`: invalid type"]),
        ("[switch]\nbuffers = 12", &["2:11: `buffers`: 12 is not 1024 to 4000000"]),
        ("[switch]\nmax_frame = 20", &["`max_frame`:"]),
        ("[switch]\nselection = \"any\"", &["`selection`: `any` is no way to choose", "flow or round-robin"]),
        ("[switch]\npoll = \"lazy\"", &["`poll`: `lazy` is no way to wait", "busy, yield, adaptive"]),
        ("[switch]\ntcam = \"0\"", &["`tcam`: ", "1 to 65536"]),
        ("[switch]\nmetrics = \"9464\"", &["`9464` is no address and port", "127.0.0.1:9464"]),
        ("[switch]\ncontrol = \"\"", &["name a path"]),
        ("[port.left]\n", &["1:1: the key `spec` is missing"]),
        ("[port.left]\nspec = \"\"", &["2:8: `spec`: name a port"]),
        ("[port.7up]\nspec = \"null\"", &["1:7: port `7up`: a name begins with a letter"]),
        ("[port.flood]\nspec = \"null\"", &["port `flood`: that is a word of the flow syntax"]),
        ("[port.a]\nspec = \"null\"\nnumber = 0", &["3:10: `number`: 0 is not 1 to 4294967040"]),
        ("[port.a]\nspec = \"null\"\nqueues = 0", &["`queues`: 0 is not 1 to 64"]),
        ("[port.a]\nspec = \"null\"\nnumber = -1", &["`number`: invalid value"]),
        ("[service.ct]\n", &["1:10: unknown kind of service `ct`", "allowed: conntrack, counter, noop"]),
        (
            "[service.ct]\nkind = \"contrack\"",
            &["2:8: unknown kind of service `contrack`", "did you mean `conntrack`?"],
        ),
        ("[service.noop]\nlimits = { panic = 1 }", &["unknown key `panic`", "did you mean `panics`?"]),
        ("[tables]\nflows = \"a\"\nflows_file = \"b\"", &["3:14: `flows_file`: flows are given twice"]),
        ("[tables]\ngroups_file = \"absent\"", &["2:15: `groups_file`: etc/absent: No such file"]),
        ("[switch\n", &["etc/switch.toml:1:"]),
    ] {
        let error = parse(text).expect_err(text);
        for part in said {
            assert!(error.contains(part), "{text:?} says\n{error}\nand not {part}");
        }
    }
}

#[test]
fn mistakes_of_meaning_are_told_all_at_once() {
    let error =
        parse("[switch]\nbuffers = 1\n[port.a]\nspec = \"\"\nnumber = 3\n[port.b]\nspec = \"x\"\nnumber = 3")
            .unwrap_err();
    for part in ["2:11:", "4:8:", "`number`: 3 is the number of port `a`"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn ports_by_option_are_numbered_behind_those_of_the_file() {
    let mut settings = parse("[port.a]\nspec = \"null\"\nnumber = 2").unwrap();
    let port = |name: &str, number: Option<u32>| weir_datapath::PortSpec {
        name: name.to_owned(),
        number: number.map(PortNo),
        spec: "null".to_owned(),
        queues: 0,
        descriptors: 64,
    };
    settings.add_port(port("b", None)).unwrap();
    settings.add_port(port("c", None)).unwrap();
    assert_eq!(settings.ports.iter().map(|port| port.number.unwrap().0).collect::<Vec<_>>(), [2, 1, 3]);
    assert!(settings.add_port(port("c", None)).unwrap_err().contains("named twice"));
    assert!(settings.add_port(port("drop", None)).is_err());
}

#[test]
fn the_schema_names_every_key_with_a_description() {
    fn described(schema: &serde_json::Value, at: &str) {
        let Some(fields) = schema["properties"].as_object() else { return };
        for (key, field) in fields {
            assert!(field["description"].as_str().is_some_and(|text| text.len() > 4), "{at}.{key}");
        }
    }
    let schema = config::schema();
    assert!(!schema.to_string().contains("null\""), "TOML has no null");
    described(&schema, "");
    for (name, part) in schema["$defs"].as_object().unwrap() {
        described(part, name);
    }
}

#[test]
fn the_configuration_in_the_documentation_makes_sense() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switch.md")).unwrap();
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let example = example.replace("flows_file = \"my.flows\"", "flows = \"actions=drop\"");
    let settings = parse(&example).unwrap();
    assert_eq!((settings.ports.len(), settings.cores()), (2, vec![2, 3]));
    assert_eq!((settings.openflow.listen.len(), settings.openflow.controllers.len()), (1, 1));
}
