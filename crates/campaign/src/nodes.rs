//! NUMA nodes: which cores each has, and on which of them a process has its memory.

use crate::cores::{NoSeats, Seats};
use crate::environment::core_list;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use weir_trial::{CoreUse, NodeUse};

/// The cores of each node of a machine whose files are below a folder.
pub(crate) fn cores(root: &Path) -> BTreeMap<u32, Vec<usize>> {
    let folders = fs::read_dir(root.join("sys/devices/system/node")).into_iter().flatten().flatten();
    let node = |folder: fs::DirEntry| {
        let number = folder.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        let list = fs::read_to_string(folder.path().join("cpulist")).ok()?;
        Some((number, core_list::parse(list.trim())))
    };
    folders.filter_map(node).collect()
}

/// Seats where the DUT is on the tester's node or on another, of the cores that may be used. With the other, what the
/// DUT has beside its forwarding threads stays on the tester's.
pub(crate) fn seats(
    node: NodeUse,
    (root, allowed): (&Path, &[usize]),
    testers: u32,
    (cores, processes): (&CoreUse, usize),
) -> Result<Seats, NoSeats> {
    let own = match cores {
        CoreUse::On(_) => return Err(NoSeats::Named),
        CoreUse::Own => processes,
        CoreUse::Shared => 1,
        CoreUse::Count(count) => *count as usize,
    };
    let nodes: Vec<Vec<usize>> = self::cores(root)
        .into_values()
        .map(|cores| cores.into_iter().filter(|core| allowed.contains(core)).collect())
        .collect();
    let wanted = testers.max(1) as usize;
    let choices: Vec<Vec<usize>> = match node {
        NodeUse::Same => nodes.clone(),
        NodeUse::Other => pairs(&nodes, wanted, own),
    };
    let seats =
        choices.iter().rev().find_map(|chosen| Seats::placed(chosen, testers, (cores, processes)).ok());
    seats.ok_or(NoSeats::Nodes { node, testers: wanted, own, here: nodes })
}

/// For each two nodes that have cores enough: all of the tester's, and after them the last of the other.
fn pairs(nodes: &[Vec<usize>], testers: usize, own: usize) -> Vec<Vec<usize>> {
    let places = (0..nodes.len()).flat_map(|dut| (0..nodes.len()).map(move |lab| (lab, dut)));
    let enough =
        places.filter(|(lab, dut)| lab != dut && nodes[*lab].len() >= testers && nodes[*dut].len() >= own);
    enough
        .map(|(lab, dut)| {
            let last = &nodes[dut][nodes[dut].len() - own..];
            nodes[lab].iter().chain(last).copied().collect()
        })
        .collect()
}

/// Where tester and DUT sit, and where the DUT's memory lies: `tester on node 0, device on node 1; its memory: node 1
/// 340 MiB`. Each process of the DUT by its number.
pub(crate) fn says(root: &Path, seats: &Seats, processes: &[u32]) -> String {
    let nodes = cores(root);
    let of = |core: usize| {
        let found = nodes.iter().find(|(_, cores)| cores.contains(&core));
        found.map_or_else(|| "an unknown node".to_owned(), |(node, _)| format!("node {node}"))
    };
    let mut memory = BTreeMap::new();
    for process in processes {
        let maps = fs::read_to_string(root.join(format!("proc/{process}/numa_maps"))).unwrap_or_default();
        for (node, kibibytes) in by_node(&maps) {
            *memory.entry(node).or_insert(0) += kibibytes;
        }
    }
    let memory: Vec<String> =
        memory.into_iter().map(|(node, kibibytes)| format!("node {node} {} MiB", kibibytes >> 10)).collect();
    let memory = if memory.is_empty() { "not known".to_owned() } else { memory.join(", ") };
    format!("tester on {}, device on {}; its memory: {memory}", of(seats.cores.tester), of(seats.cores.dut))
}

/// KiB on each node, of the text of a process's `numa_maps`: `N0=12 N1=3 kernelpagesize_kB=4`.
fn by_node(maps: &str) -> BTreeMap<u32, u64> {
    let mut found = BTreeMap::new();
    for line in maps.lines() {
        let page =
            line.split_whitespace().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse().ok());
        let page: u64 = page.unwrap_or(4);
        for word in line.split_whitespace() {
            let Some((node, pages)) = word.strip_prefix('N').and_then(|word| word.split_once('=')) else {
                continue;
            };
            if let (Ok(node), Ok(pages)) = (node.parse::<u32>(), pages.parse::<u64>()) {
                *found.entry(node).or_insert(0) += pages * page;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of files with these nodes, and memory of process 7.
    fn machine(nodes: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (number, list) in nodes.iter().enumerate() {
            let folder = root.path().join(format!("sys/devices/system/node/node{number}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpulist"), format!("{list}\n")).unwrap();
        }
        fs::create_dir_all(root.path().join("proc/7")).unwrap();
        let maps = "7f default anon=3 N0=1 N1=2 kernelpagesize_kB=2048\n7e default file=/x N1=256 kernelpagesize_kB=4\n";
        fs::write(root.path().join("proc/7/numa_maps"), maps).unwrap();
        root
    }

    #[test]
    fn a_device_sits_on_the_testers_node_or_on_another() {
        let root = machine(&["0-3", "4-7"]);
        let allowed: Vec<usize> = (0..8).collect();
        let seats = |node, cores: &CoreUse, processes| {
            seats(node, (root.path(), &allowed), 1, (cores, processes)).unwrap()
        };
        let same = seats(NodeUse::Same, &CoreUse::Own, 2);
        assert_eq!((same.cores.tester, same.forwarding.as_slice()), (5, &[6, 7][..]));
        let other = seats(NodeUse::Other, &CoreUse::Own, 2);
        assert_eq!(
            (other.cores.tester, other.cores.control, other.forwarding.as_slice()),
            (3, 0, &[6, 7][..])
        );
        assert_eq!(seats(NodeUse::Other, &CoreUse::Shared, 3).forwarding, [7, 7, 7]);
        assert_eq!(
            says(root.path(), &other, &[7, 8]),
            "tester on node 0, device on node 1; its memory: node 0 2 MiB, node 1 5 MiB"
        );
    }

    #[test]
    fn nodes_that_are_not_there_are_named() {
        let says = |nodes: &[&str], node, cores: &CoreUse| {
            let root = machine(nodes);
            seats(node, (root.path(), &[0, 1, 2]), 1, (cores, 2)).unwrap_err().to_string()
        };
        let one = says(&["0-2"], NodeUse::Other, &CoreUse::Own);
        assert!(
            one.contains("`node = \"other\"` wants 1 core(s)") && one.contains("1 node(s): 0-2"),
            "{one}"
        );
        // A node whose cores may not be used is none to sit on.
        assert!(says(&["0-2", "3-5"], NodeUse::Other, &CoreUse::Own).contains("0-2; none"));
        assert!(says(&["0-1", "2"], NodeUse::Same, &CoreUse::Own).contains("on one node"));
        assert!(says(&["0-2"], NodeUse::Same, &CoreUse::On(vec![1])).contains("names the cores already"));
    }
}
