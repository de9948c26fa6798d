//! What users write, mangled: configurations, requests, flows, packets and bytes in them. Each is
//! understood or refused with a sentence; nothing panics.
//!
//! `WEIR_CASES` says how many of each kind are tried, `WEIR_SEED` which.

use crate::double::{CONFIGURATION, Double, settings};
use serde_json::{Value, json};
use std::path::Path;
use weir_flow::samples::Sampler;
use weir_switch::protocol::read_request;
use weir_switch::{About, Known, Request, Settings, Switch};
use weir_testkit::asked;

/// Bytes that mean something to one reader or another.
const WORDS: [&str; 40] = [
    "\"",
    "'",
    "\\",
    "[",
    "]",
    "{",
    "}",
    "=",
    ",",
    ".",
    ":",
    "#",
    "\n",
    " ",
    "-",
    "0",
    "9",
    "1e999",
    "-1",
    "0x",
    "18446744073709551616",
    "null",
    "true",
    "[[port]]",
    "[port.",
    "\u{0}",
    "é",
    "\u{202e}",
    "💥",
    "(",
    ")",
    "/",
    "->",
    "..",
    "*",
    "\"\"\"",
    "'''",
    "inf",
    "1979-05-27",
    "\u{feff}",
];

/// A text with something wrong: cut, doubled, with letters changed and words put in.
fn mangled(random: &mut Sampler, text: &str) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(4) {
        let at = random.below(text.len() + 1);
        let to = at + random.below((text.len() - at).min(30) + 1);
        match random.below(6) {
            0 => drop(text.drain(at..to)),
            1 => {
                let part = text[at..to].to_vec();
                let place = random.below(text.len() + 1);
                drop(text.splice(place..place, part));
            }
            2 => drop(text.splice(at..at, random.pick(&WORDS).chars())),
            3 => drop(text.splice(at..to, random.pick(&WORDS).chars())),
            4 => text.truncate(at),
            _ => {
                if let Some(letter) = text.get_mut(at) {
                    *letter = char::from_u32(random.bits() as u32 & 0x7f).unwrap_or('?');
                }
            }
        }
    }
    text.into_iter().collect()
}

/// A refusal is a sentence, not an empty word.
fn is_told(error: &str) {
    assert!(error.trim().len() > 10, "{error:?}");
}

#[test]
fn a_mangled_configuration_is_understood_or_refused_with_a_sentence() {
    let mut random = Sampler::new(weir_testkit::seed(1));
    let cases = asked("WEIR_CASES", 4000);
    let known = Known { kinds: vec!["conntrack", "counter", "noop"] };
    let (mut understood, mut refused) = (0, 0);
    for _ in 0..cases {
        let text = mangled(&mut random, CONFIGURATION);
        match Settings::parse(&text, Path::new("switch.toml"), &known) {
            Ok(settings) => {
                understood += 1;
                settings.datapath(7);
            }
            Err(error) => {
                refused += 1;
                let error = error.to_string();
                is_told(&error);
                assert!(error.contains("switch.toml"), "{error}");
            }
        }
    }
    println!("{cases} configurations: {understood} understood, {refused} refused");
    assert!(understood > cases / 100 && refused > cases / 100);
}

/// Requests with text of every kind in them.
fn requests() -> Vec<Value> {
    let flow = "table=1,priority=7,cookie=0x1/0xff,tcp,in_port=left,nw_src=198.18.0.0/15,tcp_dst=80,\
                tcp_flags=+syn-ack,ct_state=+est actions=dec_ttl,set_field:10.0.0.1->ip_dst,\
                clone(push_vlan:0x8100,output:right),softflow:conntrack:65537,goto_table:2";
    let frame =
        "020000000002 020000000001 0800 45000026000000004011f96ec6120001c6130001 03e80050001200000000";
    vec![
        json!({"command": "add-flow", "flow": flow}),
        json!({"command": "add-flows", "flows": format!("{flow}\ndelete tcp\nmodify_strict {flow}")}),
        json!({"command": "replace-flows", "flows": flow, "name": "flows.txt"}),
        json!({"command": "mod-flows", "flow": flow, "strict": true}),
        json!({"command": "del-flows", "flow": "table=1,udp,out_port=left,out_group=3"}),
        json!({"command": "dump-flows", "flow": "table=1,ipv6,ipv6_src=2001:db8::/32"}),
        json!({"command": "add-group", "group": "group_id=1,type=select,bucket=weight:3,actions=output:left,\
               bucket=bucket_id:7,watch_port:right,actions=mod_nw_dst:1.2.3.4,output:right"}),
        json!({"command": "mod-group", "group": "group_id=1,type=all,bucket=actions=flood"}),
        json!({"command": "add-meter", "meter": "meter=1,kbps,burst,bands=type=drop,rate=100,burst_size=7"}),
        json!({"command": "add-port", "name": "middle", "spec": "trace:a.pcap,tx=b.pcap", "queues": 2}),
        json!({"command": "del-port", "port": "middle"}),
        json!({"command": "service", "service": "conntrack", "action": "dump", "argument": {"zone": 1}}),
        json!({"command": "dump-conntrack", "selection": {"protocol": "tcp", "source": "10.0.0.1"}}),
        json!({"command": "trace", "packet": "in_port=left,icmp6,ipv6_src=fe80::1,icmpv6_type=135,\
               nd_target=fe80::2,dl_vlan=7,dl_vlan_pcp=3"}),
        json!({"command": "trace", "packet": "in_port=1,arp,arp_op=1,arp_spa=10.0.0.1,arp_sha=02:00:00:00:00:01"}),
        json!({"command": "trace", "frame": frame, "in_port": "left", "metadata": [1, 2]}),
        json!({"command": "capture", "port": "left", "matching": "tcp,tcp_dst=80", "snap": 64, "count": 3}),
        json!({"command": "release", "service": "conntrack"}),
        json!({"id": [1, {"a": null}], "command": "stats"}),
    ]
}

/// One of the texts in a request, mangled.
fn wrong_text(random: &mut Sampler, request: &Value) -> Value {
    let mut request = request.clone();
    let fields = request.as_object_mut().expect("requests are objects");
    let texts: Vec<String> = fields
        .iter()
        .filter(|(name, value)| *name != "command" && value.is_string())
        .map(|(name, _)| name.clone())
        .collect();
    if !texts.is_empty() {
        let name = &texts[random.below(texts.len())];
        let text = fields[name].as_str().unwrap_or_default().to_owned();
        fields[name] = Value::String(mangled(random, &text));
    }
    request
}

#[test]
fn a_mangled_request_is_answered_or_refused_with_a_sentence() {
    let mut random = Sampler::new(weir_testkit::seed(2));
    let cases = asked("WEIR_CASES", 6000);
    let both = settings("[port.left]\nspec = \"a\"\n[port.right]\nspec = \"b\"\n");
    let loader = both.clone();
    let load = Box::new(move || Ok(loader.clone()));
    let mut switch = Switch::new(Double::new(), both, load, About::default()).unwrap();
    let requests = requests();
    let (mut answered, mut refused) = (0, 0);
    for case in 0..cases {
        let request = &requests[random.below(requests.len())];
        let line = match random.below(4) {
            0 => mangled(&mut random, &request.to_string()),
            1 => request.to_string(),
            _ => wrong_text(&mut random, request).to_string(),
        };
        let said = read_request(&line).map_err(|(_, error)| error);
        let answer = said.and_then(|(_, request)| match request {
            Request::Stop {} => Ok(None),
            request => switch.answer(request).map(Some),
        });
        match answer {
            Ok(_) => answered += 1,
            Err(error) => {
                refused += 1;
                is_told(&error);
            }
        }
        // What was added goes, so that the switch stays as it was.
        if case % 100 == 99 {
            switch.answer(Request::DelFlows { flow: String::new(), strict: false }).unwrap();
        }
    }
    println!("{cases} requests: {answered} answered, {refused} refused");
    assert!(answered > cases / 10 && refused > cases / 10, "{answered} answered, {refused} refused");
}
