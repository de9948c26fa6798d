//! Controllers in words: where they connect, to which the switch does, and how each connection is.

use super::view::grouped;
use weir_switch::{ChannelStatus, ConnectionStatus};

/// Endpoints, each with its connections below it.
pub(super) fn show(endpoints: &[ChannelStatus]) -> String {
    if endpoints.is_empty() {
        return "no controllers: name some under [openflow], or by --listen and --controller\n".to_owned();
    }
    endpoints.iter().map(endpoint).collect()
}

fn endpoint(of: &ChannelStatus) -> String {
    let state = match (&of.address, of.retry_ms, of.connections.len()) {
        (Some(address), ..) => format!("listens at {address}"),
        (None, Some(ms), _) => format!("tries again in {:.1} s", ms as f64 * 1e-3),
        (None, None, 0) => "connects".to_owned(),
        (None, None, _) => "connected".to_owned(),
    };
    let mut text = format!("{}: {state}; {} connections so far", of.endpoint, grouped(of.connects));
    for (count, what) in
        [(of.refused, "refused because there were too many"), (of.evicted, "closed to make room for others")]
    {
        if count > 0 {
            text += &format!(", {} {what}", grouped(count));
        }
    }
    if let Some(why) = &of.last_end {
        text += &format!("; the last ended: {why}");
    }
    text.push('\n');
    text + &of.connections.iter().map(connection).collect::<String>()
}

fn connection(of: &ConnectionStatus) -> String {
    let role = of.role.as_deref().unwrap_or("new");
    let mut text = format!(
        "  {} {}, OpenFlow {}, {role}, for {} s: {} messages in, {} out",
        of.connection,
        of.peer,
        of.version,
        grouped(of.seconds),
        grouped(of.messages_in),
        grouped(of.messages_out)
    );
    for (count, what) in [
        (of.refused, "refused"),
        (of.untold, "not told because it was behind"),
        (of.waiting, "bytes waiting"),
        (of.held, "bytes of bundles held"),
    ] {
        if count > 0 {
            text += &format!(", {} {what}", grouped(count));
        }
    }
    if let Some(why) = &of.last_refused {
        text += &format!("; the last refusal: {why}");
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_amiss_is_said_and_the_rest_is_short() {
        assert!(show(&[]).contains("--listen"));
        let connection = ConnectionStatus {
            connection: 7,
            peer: "tcp:192.0.2.7:40000".to_owned(),
            version: "1.3".to_owned(),
            role: Some("primary".to_owned()),
            seconds: 12,
            messages_in: 1200,
            messages_out: 34,
            ..ConnectionStatus::default()
        };
        let listens = ChannelStatus {
            endpoint: "ptcp:0:127.0.0.1".to_owned(),
            address: Some("127.0.0.1:6653".to_owned()),
            connects: 3,
            refused: 1,
            connections: vec![connection.clone(), ConnectionStatus { untold: 5, ..connection }],
            ..ChannelStatus::default()
        };
        let waits = ChannelStatus {
            endpoint: "tcp:192.0.2.9:6653".to_owned(),
            connects: 2,
            last_end: Some("Connection refused".to_owned()),
            retry_ms: Some(1500),
            ..ChannelStatus::default()
        };
        let text = show(&[listens, waits]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "ptcp:0:127.0.0.1: listens at 127.0.0.1:6653; 3 connections so far, 1 refused because there \
                 were too many",
                "  7 tcp:192.0.2.7:40000, OpenFlow 1.3, primary, for 12 s: 1 200 messages in, 34 out",
                "  7 tcp:192.0.2.7:40000, OpenFlow 1.3, primary, for 12 s: 1 200 messages in, 34 out, \
                 5 not told because it was behind",
                "tcp:192.0.2.9:6653: tries again in 1.5 s; 2 connections so far; the last ended: Connection \
                 refused",
            ]
        );
    }
}
