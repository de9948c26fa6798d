//! Messages that os-ken's own tests have, made by other programs and by hand: each is read and written back
//! as it was, or is in one of two lists with the reason why not.
//!
//! They are in the Python package os-ken; `./x setup --test` installs it, and `WEIR_OSKEN_PACKETS` names
//! another place.

use std::path::{Path, PathBuf};
use weir_codec::{Code, decode, encode};

/// Messages that are refused: part of the name, with what, and why.
const REFUSED: &[(&str, Code, &str)] = &[
    ("ofp_experimenter.packet", Code::BadExperimenter, "an experimenter that nobody has"),
    ("ofp_experimenter_re", Code::BadExperimenter, "the same in a multipart"),
    ("OFP15-experimenter", Code::BadExperimenter, "the same"),
    ("onf_flow_monitor_request", Code::MatchType, "ONF's first draft; Open vSwitch sends another form"),
    ("_mpls_tc", Code::ActionArgument, "a traffic class of 10, in a field of 3 bits"),
    ("4-12-ofp_flow_stats_reply", Code::ActionArgument, "a backbone tag of EtherType 100"),
    ("4-2-ofp_flow_mod", Code::ActionArgument, "the same"),
    ("5-12-ofp_flow_stats_reply", Code::ActionArgument, "the same"),
    ("5-2-ofp_flow_mod", Code::ActionArgument, "the same"),
    ("OFP15-flow_desc_reply", Code::InstructionLength, "statistics without their padding"),
    ("4-59-ofp_packet_in", Code::MatchField, "all fields, of which in_phy_port is not supported"),
    ("4-60-ofp_flow_mod", Code::MatchField, "the same"),
    ("5-57-ofp_packet_in", Code::MatchField, "the same"),
    ("5-58-ofp_flow_mod", Code::MatchField, "the same"),
    ("4-21-ofp_group_mod", Code::GroupInvalid, "weights in a group of the type all"),
    ("5-21-ofp_group_mod", Code::GroupInvalid, "the same"),
    ("meter_mod", Code::MeterBand, "a band of an experimenter"),
    ("OFP13-flow_mod.packet", Code::ActionExperimenterType, "learn"),
    ("action_learn", Code::ActionExperimenterType, "learn"),
    ("OFP15-flow_mod.packet", Code::ActionExperimenterType, "learn"),
    ("OFP15-bundle_add", Code::ActionExperimenterType, "learn"),
    ("action_controller2", Code::PropertyType, "controller with pause"),
    ("action_ct.packet", Code::ActionFieldLength, "a zone of 28 bits"),
    ("action_fintimeout", Code::ActionExperimenterType, "fin_timeout"),
    ("action_output_trunc", Code::ActionExperimenterType, "output with max_len"),
    ("action_sample", Code::ActionExperimenterType, "sample"),
    ("action_stack", Code::ActionExperimenterType, "push and pop"),
    ("port_mod", Code::PropertyType, "a property of optical ports"),
    ("table_mod", Code::PropertyType, "a property of an experimenter"),
    ("table_desc_reply", Code::PropertyType, "the same"),
    ("_async", Code::PropertyType, "the same"),
    ("async.packet", Code::PropertyType, "the same"),
    ("table_status", Code::BadType, "table status is not spoken"),
    ("requestforward", Code::BadType, "requests are not forwarded"),
    ("controller_status.packet", Code::BadType, "controllers' status is not told"),
    ("controller_status_re", Code::BadMultipart, "controllers' status is not told"),
    ("bundle_features", Code::BadMultipart, "bundles are not scheduled"),
    ("5-70-ofp_bundle_add_msg", Code::BundleUnsupported, "an echo in a bundle"),
    ("OFP15-meter_features_reply", Code::BadLength, "its header says another length"),
];

/// Messages that are written otherwise, but read the same again: part of the name, and why.
const REWRITTEN: &[(&str, &str)] = &[
    ("1-2-ofp_flow_mod", "63 wildcarded bits of an address are 32"),
    ("1-6-ofp_switch_features", "a port's state that OpenFlow 1.0 has not"),
    ("4-4-ofp_packet_in", "fields in another order"),
    ("5-4-ofp_packet_in", "fields in another order"),
    ("queue_get_config_reply", "properties of an experimenter are left out"),
    ("queue_desc_reply", "the same"),
    ("queue_stats_reply", "the same"),
    ("port_stats_reply", "the same, and of optical ports"),
    ("port_status", "the same"),
    ("port_desc_reply", "the same"),
    ("5-65-ofp_role_status", "the same"),
    ("5-69-ofp_bundle_ctrl_msg", "the same"),
    ("OFP15-aggregate_stats_reply", "counters that are not said are 0"),
    ("OFP15-flow_removed", "the same"),
    ("OFP15-flow_stats_reply", "the duration is said"),
    ("OFP15-role_re", "OpenFlow 1.5's short number of a controller is not spoken"),
];

fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("WEIR_OSKEN_PACKETS") {
        return folder.into();
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.weir/venv/lib");
    let pythons = lib.read_dir().into_iter().flatten().flatten();
    let found = pythons
        .map(|python| python.path().join("site-packages/os_ken/tests/packet_data"))
        .find(|folder| folder.is_dir());
    found.unwrap_or_else(|| {
        panic!(
            "the Python package os-ken is not installed. `./x setup --test` installs it into .weir/venv; or \
             run `python3 -m venv .weir/venv && .weir/venv/bin/pip install -r \
             crates/codec/tests/oracle/requirements.txt`; or set WEIR_OSKEN_PACKETS to its tests/packet_data"
        )
    })
}

#[test]
fn messages_of_os_ken_are_written_back_as_they_were_or_it_is_known_why_not() {
    let (mut same, mut wrong) = (0, String::new());
    for version in ["of10", "of13", "of14", "of15"] {
        let folder = folder().join(version);
        let mut files: Vec<PathBuf> =
            folder.read_dir().expect("there are messages").flatten().map(|file| file.path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "packet")) {
            let name = file.file_name().expect("it has a name").to_string_lossy().into_owned();
            let bytes = std::fs::read(file).expect("it can be read");
            let refused = REFUSED.iter().find(|(part, ..)| name.contains(part)).map(|row| row.1);
            let message = match decode(&bytes) {
                Err(error) if refused == Some(error.fault.code) => continue,
                Err(error) => {
                    wrong += &format!("{version}/{name}: {error}\n");
                    continue;
                }
                Ok(message) => message,
            };
            let mut again = Vec::new();
            encode(&message, &mut again).unwrap_or_else(|error| panic!("{version}/{name}: {error}"));
            if again == bytes {
                same += 1;
                continue;
            }
            let listed = REWRITTEN.iter().any(|(part, _)| name.contains(part));
            if !listed || decode(&again).as_ref() != Ok(&message) {
                wrong += &format!("{version}/{name}: {bytes:02x?}\nbecomes {again:02x?}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(same >= 150, "only {same} messages are written back as they were");
}
