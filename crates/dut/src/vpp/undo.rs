//! What undoes the commands that made ports and function, so that a VPP that goes on running is left as it was.

/// A command that was done, and what it printed.
pub(super) type Done = (String, String);

/// The commands that undo these, the last one first. `undone` names the file that undoes one of commands, where there is any.
pub(super) fn commands(done: &[Done], undone: impl Fn(&str) -> Option<String>) -> Vec<String> {
    done.iter().rev().filter_map(|(command, printed)| undoing(command, printed.trim(), &undone)).collect()
}

fn undoing(command: &str, printed: &str, undone: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    Some(match words[..] {
        ["create", "vhost-user", ..] => format!("delete vhost-user {printed}"),
        ["create", "memif", "socket", "id", id, ..] => format!("delete memif socket id {id}"),
        ["create", "interface", "memif", "id", id, "socket-id", socket, ..] => {
            format!("delete interface memif memif{socket}/{id}")
        }
        ["set", "interface", "l2", "xconnect", name, _] => format!("set interface l3 {name}"),
        ["set", "interface", "secondary-mac-address", name, address, "add"] => {
            format!("set interface secondary-mac-address {name} {address} del")
        }
        ["set", "interface", "ip", "address", name, address] => {
            format!("set interface ip address del {name} {address}")
        }
        ["set", "interface", "state", name, "up"] => format!("set interface state {name} down"),
        ["ip", "neighbor", name, address, mac, "static"] => {
            format!("ip neighbor del {name} {address} {mac} static")
        }
        ["set", "acl-plugin", "interface", ..] => format!("{command} del"),
        ["exec", file] => undone(file)?,
        _ => return None,
    })
}

/// The commands of a file as what undoes them: a list of rules by its number, routes one by one.
pub(super) fn file(text: &str, number: usize) -> String {
    if text.starts_with("set acl-plugin acl ") {
        return format!("delete acl-plugin acl index {number}\n");
    }
    text.replace("ip route add ", "ip route del ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vpp::config::{self, Step};

    #[test]
    fn what_makes_a_function_is_undone_from_its_end() {
        let names = ["memif1/0".to_owned(), "memif2/1".to_owned()];
        let mut done: Vec<Done> = Vec::new();
        for step in config::function("firewall:2+l3fwd:2".parse().unwrap(), &names).unwrap() {
            done.push(match step {
                Step::Command(command) => (command, String::new()),
                Step::File(name, _) => (format!("exec /t/{name}"), String::new()),
            });
        }
        let undone = |file: &str| Some(format!("exec {file}.undo"));
        let undo = commands(&done, undone);
        assert_eq!(undo.len(), done.len(), "every step of a function is undone");
        assert_eq!(
            undo[..4],
            [
                "set interface state memif2/1 down",
                "set interface state memif1/0 down",
                "set acl-plugin interface memif1/0 output acl 0 del",
                "set acl-plugin interface memif1/0 input acl 0 del",
            ]
        );
        let has = |command: &str| undo.iter().any(|one| one == command);
        assert!(
            has("exec /t/routes.cli.undo")
                && has("ip neighbor del memif2/1 192.0.2.6 02:00:00:00:02:01 static")
        );
        assert!(has("set interface ip address del memif1/0 192.0.2.1/30"), "{undo:?}");
    }

    #[test]
    fn ports_are_undone_by_their_names_and_files_by_what_they_hold() {
        let done = [
            ("create memif socket id 1 filename /t/0", ""),
            ("create interface memif id 0 socket-id 1 slave ring-size 1024", ""),
            ("create vhost-user socket /t/1 server", "VirtualEthernet0/0/3\r\n"),
        ];
        let undo =
            commands(&done.map(|(command, printed)| (command.to_owned(), printed.to_owned())), |_| None);
        let last = [
            "delete vhost-user VirtualEthernet0/0/3",
            "delete interface memif memif1/0",
            "delete memif socket id 1",
        ];
        assert_eq!(undo, last);
        assert_eq!(
            file("set acl-plugin acl deny src 1.0.0.0/8 dst 0.0.0.0/0\n", 1),
            "delete acl-plugin acl index 1\n"
        );
        assert_eq!(
            file("ip route add 1.0.0.0/8 via 192.0.2.2 a\n", 0),
            "ip route del 1.0.0.0/8 via 192.0.2.2 a\n"
        );
    }
}
