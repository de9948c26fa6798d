//! Bundles that are pushed, and those that mean no good.

use crate::central::{Central, MUCH, bundle};
use crate::common::{Answer, run, small};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};
use weir_serve::{Limits, Pushes};
use weir_store::accounts::Amount;
use weir_store::{Store, Visibility};

fn said(answer: &Answer) -> serde_json::Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}

fn runs(central: &Central) -> usize {
    Store::open(Some(&central.database)).unwrap().runs().unwrap().len()
}

#[test]
fn a_bundle_is_kept_once_with_its_licence_and_comes_out_as_it_went_in() {
    let pushes = Pushes { licence: "MIT, https://example.org/mit".to_owned(), ..Pushes::default() };
    let limits = Limits { fresh: Duration::ZERO, ..Limits::default() };
    let central = Central::with(&[small("otter", 1)], pushes, limits);
    let pushed = small("otter", 7);
    let first = central.ask("POST", "/api/v1/runs", Some(&central.mine), &bundle(&pushed));
    assert_eq!(
        (first.status, first.header("location")),
        (201, Some(format!("/runs/{}", pushed.uuid).as_str())),
        "{}",
        first.body
    );
    let first = said(&first);
    assert_eq!((first["name"].as_str(), first["became"].as_str()), (Some("otter-2"), Some("added")));
    assert_eq!(
        (first["shared"]["visibility"].as_str(), first["shared"]["own"].as_bool()),
        (Some("private"), Some(true))
    );
    assert_eq!(first["shared"]["licence"], "MIT, https://example.org/mit");
    let again = central.ask("POST", "/api/v1/runs?visibility=public", Some(&central.mine), &bundle(&pushed));
    assert_eq!((again.status, said(&again)["became"].as_str()), (200, Some("known")));
    let there = said(&central.ask("GET", &format!("/api/v1/runs/{}", pushed.uuid), None, b""));
    assert_eq!(
        (there["shared"]["by"].as_str(), there["shared"]["own"].as_bool()),
        (Some("mine"), Some(false))
    );
    assert_eq!(there["bundle"], first["bundle"]);
    let kept = said(&central.ask("GET", &format!("/api/v1/runs/{}/run.json", pushed.uuid), None, b""));
    assert_eq!(kept["points"], serde_json::to_value(&pushed.points).unwrap());
    assert_eq!(runs(&central), 2);
}

/// The parts of a bundle: names, and contents.
fn parts(bundle: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(bundle).read_to_end(&mut tar).unwrap();
    let (mut parts, mut at) = (Vec::new(), 0);
    while tar[at] != 0 {
        let text = |from: usize, to: usize| {
            let field = &tar[at + from..at + to];
            String::from_utf8(field.iter().copied().take_while(|byte| *byte != 0).collect()).unwrap()
        };
        let bytes = usize::from_str_radix(text(124, 136).trim(), 8).unwrap();
        parts.push((text(0, 100), tar[at + 512..at + 512 + bytes].to_vec()));
        at += 512 + bytes.div_ceil(512) * 512;
    }
    parts
}

/// A member of a tar (POSIX ustar), of a kind: `0` a file, `2` a symbolic link.
fn member(name: &str, kind: u8, target: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(157, target);
    put(257, "ustar\x0000");
    header[156] = kind;
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut whole = [&header[..], content].concat();
    whole.resize(whole.len().div_ceil(512) * 512, 0);
    whole
}

/// Members as a bundle is packed.
fn packed(members: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    members.iter().for_each(|member| packed.write_all(member).unwrap());
    packed.write_all(&[0; 1024]).unwrap();
    packed.finish().unwrap()
}

/// Bundles that are whole archives, in which one thing is not what it should be.
fn changed_bundles() -> Vec<(&'static str, Vec<u8>)> {
    let parts = parts(&bundle(&small("otter", 1)));
    let files = || parts.iter().map(|(name, content)| member(name, b'0', "", content)).collect::<Vec<_>>();
    let with = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut members = files();
        change(&mut members);
        packed(&members)
    };
    let (first, last) = (&parts[0], parts.len() - 1);
    let mut sums = first.1.clone();
    let at = String::from_utf8(sums.clone()).unwrap().find("\"sha256\": \"").unwrap() + 11;
    sums[at] = if sums[at] == b'0' { b'1' } else { b'0' };
    let mut trial = parts[last].1.clone();
    let digit = trial.iter().rposition(u8::is_ascii_digit).unwrap();
    trial[digit] = if trial[digit] == b'7' { b'8' } else { b'7' };
    vec![
        ("a wrong sum", with(&|members| members[0] = member(&first.0, b'0', "", &sums))),
        (
            "a trial that was changed",
            with(&|members| members[last] = member(&parts[last].0, b'0', "", &trial)),
        ),
        ("a name that leads out", with(&|members| members.push(member("../../../tmp/weir", b'0', "", b"x")))),
        ("an absolute name", with(&|members| members[1] = member("/etc/passwd", b'0', "", &parts[1].1))),
        ("a link", with(&|members| members[1] = member(&parts[1].0, b'2', "/etc/passwd", b""))),
        ("a part twice", with(&|members| members.push(members[last].clone()))),
        ("a part too few", with(&|members| drop(members.pop()))),
        ("an order of its own", with(&|members| members.swap(1, 2))),
    ]
}

#[test]
fn an_archive_in_which_one_thing_is_wrong_is_refused_and_as_it_was_it_is_taken() {
    let central = Central::of(&[small("here", 7)]);
    let push =
        |bytes: &[u8]| central.ask("POST", "/api/v1/runs?visibility=public", Some(&central.mine), bytes);
    for (what, bytes) in changed_bundles() {
        let answer = push(&bytes);
        assert_eq!(answer.status, 422, "{what}: {}", answer.body);
        assert!(!answer.body.contains("root:"), "{what}");
    }
    assert_eq!(runs(&central), 1);
    // What the tests pack themselves is no worse for it.
    let parts = parts(&bundle(&small("otter", 1)));
    let same: Vec<_> = parts.iter().map(|(name, content)| member(name, b'0', "", content)).collect();
    assert_eq!(push(&packed(&same)).status, 201);
}

#[test]
fn a_flood_of_uploads_of_many_accounts_is_bounded_and_pages_are_answered_meanwhile() {
    let limits = Limits {
        push_wait: Duration::from_millis(200),
        push_silence: Duration::from_secs(600),
        push_start: Duration::from_secs(600),
        ..Limits::default()
    };
    let central = Central::with(&[small("here", 7)], Pushes::default(), limits);
    let mut store = Store::open(Some(&central.database)).unwrap();
    let tokens: Vec<String> =
        (0..6).map(|number| store.add_account(&format!("flood{number}"), MUCH, 1).unwrap().text()).collect();
    // Four of each of six accounts begin, and go on no further: there are places for sixteen.
    let waiting: Vec<_> = tokens
        .iter()
        .flat_map(|token| [token; 4])
        .map(|token| {
            let mut stream = central.site.connect();
            let head = format!(
                "POST /api/v1/runs HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: 5000\r\n\r\nx",
                central.site.address
            );
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let good = bundle(&small("otter", 1));
    let push = || central.ask("POST", "/api/v1/runs", Some(&central.mine), &good);
    let begin = Instant::now();
    let refused = loop {
        let answer = push();
        if answer.status == 503 {
            break answer;
        }
        // They are not all there yet.
        assert!(begin.elapsed() < Duration::from_secs(45), "{} {}", answer.status, answer.body);
    };
    assert!(
        refused.body.contains("too many bundles") && refused.header("retry-after").is_some(),
        "{}",
        refused.body
    );
    for path in ["/runs", "/runs/here", "/api/v1/runs"] {
        assert_eq!(central.site.get(path).status, 200, "{path}");
    }
    drop(waiting);
    let begin = Instant::now();
    while push().status == 503 {
        assert!(begin.elapsed() < Duration::from_secs(45), "a place that was left stays taken");
    }
    let told = said(&central.ask("GET", "/api/v1/account", Some(&tokens[0]), b""));
    assert_eq!(told["used"]["runs"], 0, "nothing is kept of what was left");
}

/// What makes no bundle of it.
fn bad_bundles() -> Vec<(&'static str, Vec<u8>)> {
    let good = bundle(&small("otter", 1));
    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x20;
    let mut tail = good.clone();
    tail.extend_from_slice(b"more");
    let zeros = |bytes: usize| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let part = vec![0_u8; 1 << 20];
        (0..bytes >> 20).for_each(|_| packed.write_all(&part).unwrap());
        packed.finish().unwrap()
    };
    // A tar whose first file says that it has 10 GB of zeros.
    let bomb = {
        let mut header = [0_u8; 512];
        header[..13].copy_from_slice(b"manifest.json");
        header[124..136].copy_from_slice(b"12000000000\0");
        header[156] = b'0';
        header[257..263].copy_from_slice(b"ustar\0");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packed.write_all(&header).unwrap();
        let part = vec![0_u8; 1 << 20];
        (0..300).for_each(|_| packed.write_all(&part).unwrap());
        packed.finish().unwrap()
    };
    vec![
        ("nothing", Vec::new()),
        ("no gzip", b"<script>alert(1)</script>".to_vec()),
        ("a zip", b"PK\x03\x04rest".to_vec()),
        ("zstd", b"\x28\xb5\x2f\xfd\x00\x00".to_vec()),
        ("cut off", good[..good.len() / 2].to_vec()),
        ("one bit", flipped),
        ("more behind", tail),
        ("zeros", zeros(300 << 20)),
        ("a bomb", bomb),
    ]
}

#[test]
fn hostile_bundles_are_refused_leave_nothing_and_keep_nobody_waiting() {
    let central = Central::of(&[small("here", 1)]);
    for (what, bytes) in bad_bundles() {
        let begin = Instant::now();
        let answer = central.ask("POST", "/api/v1/runs?visibility=public", Some(&central.mine), &bytes);
        assert_eq!(answer.status, 422, "{what}: {}", answer.body);
        assert!(!answer.body.contains("<script>"), "{what}");
        assert!(begin.elapsed() < Duration::from_secs(30), "{what} took {:?}", begin.elapsed());
    }
    assert_eq!(runs(&central), 1);
    assert_eq!(central.site.get("/runs").status, 200);
}

#[test]
fn a_body_that_is_said_to_be_something_else_is_refused() {
    let central = Central::of(&[]);
    let bearer = format!("Authorization: Bearer {}\r\n", central.mine);
    for (method, path) in [("POST", "/api/v1/runs"), ("PATCH", "/api/v1/runs/otter")] {
        for kind in [
            "application/x-www-form-urlencoded",
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/xml",
        ] {
            let answer = central.site.ask(
                method,
                path,
                &format!("{bearer}Content-Length: 0\r\nContent-Type: {kind}\r\n"),
            );
            assert!(
                answer.status == 415 && answer.body.contains("application/"),
                "{method} {kind}: {} {}",
                answer.status,
                answer.body
            );
        }
    }
}

#[test]
fn names_with_scripts_and_paths_stay_texts() {
    let central = Central::of(&[]);
    let mut run = small("otter", 1);
    run.name = "<script>alert(1)<b>".to_owned();
    run.plan = "</script><script>alert(2)</script>".to_owned();
    run.points[0].key.dut = "../../etc/passwd\"><img src=x onerror=alert(3)>".to_owned();
    run.environment.insert("cpu.model".to_owned(), "<b onclick=alert(4)>".to_owned());
    central.push(&central.mine, &run, Visibility::Public);
    for path in [
        "/runs",
        "/history?nf=l2fwd",
        &format!("/runs/{}", run.uuid),
        &format!("/runs/{}/points/0", run.uuid),
        &format!("/figures?run={}", run.uuid),
        &format!("/badge/{}/0.svg", run.uuid),
    ] {
        let page = central.site.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        for tag in ["<script>alert", "<img src=x", "<b onclick"] {
            assert!(!page.body.contains(tag), "{path} has {tag}");
        }
    }
    let file = central.site.get(&format!("/runs/{}/plan.toml", run.uuid));
    let name = file.header("content-disposition").unwrap();
    assert!(!name.contains(['<', '/']), "{name}");
    assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn what_is_too_large_or_lies_about_its_length_is_refused() {
    let pushes = Pushes { bundle_bytes: 100_000, ..Pushes::default() };
    let central = Central::with(&[], pushes, Limits::default());
    let head = |lines: &str| {
        format!(
            "POST /api/v1/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\n{lines}\r\n",
            central.site.address, central.mine
        )
    };
    // Ten gigabytes are refused by their number, before one of them came.
    for length in ["10000000000", "9223372036854775807", "100001"] {
        let answer = central.site.say(&head(&format!("Content-Length: {length}\r\n")));
        assert!(
            answer.status == 413 && answer.body.contains("100000 bytes"),
            "{length}: {} {}",
            answer.status,
            answer.body
        );
    }
    for lines in
        ["Content-Length: -1\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: x\r\n"]
    {
        assert!(matches!(central.site.say(&head(lines)).status, 0 | 400), "{lines}");
    }
    // Without a length they are refused where the bound is.
    let mut stream = central.site.connect();
    stream.write_all(head("Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
    let chunk = format!("2000\r\n{}\r\n", "x".repeat(0x2000));
    let mut sent = 0;
    while stream.write_all(chunk.as_bytes()).is_ok() {
        sent += chunk.len();
        assert!(sent < 64 << 20, "it is taken without an end");
    }
    // A body that is shorter than its length is cut off.
    let mut stream = central.site.connect();
    stream.write_all(head("Content-Length: 5000\r\n").as_bytes()).unwrap();
    stream.write_all(b"short").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(matches!(Answer::read(stream).status, 0 | 400), "it was cut off");
    assert_eq!(runs(&central), 0);
}

#[test]
fn one_account_has_few_uploads_at_a_time_and_others_have_theirs() {
    let central = Central::of(&[]);
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {}\r\nContent-Length: 5000\r\n\r\nx",
        central.site.address, central.mine
    );
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = central.site.connect();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let begin = Instant::now();
    loop {
        let fifth = central.ask("POST", "/api/v1/runs", Some(&central.mine), &bundle(&small("otter", 1)));
        if fifth.status == 429 {
            break;
        }
        // The four are not all there yet.
        assert!(begin.elapsed() < Duration::from_secs(8), "{} {}", fifth.status, fifth.body);
    }
    let other = central.ask("POST", "/api/v1/runs", Some(&central.other), &bundle(&small("heron", 2)));
    assert_eq!(other.status, 201, "{}", other.body);
    drop(waiting);
}

#[test]
fn a_quota_is_said_and_holds() {
    let central = Central::of(&[]);
    let mut store = Store::open(Some(&central.database)).unwrap();
    store.set_quota("mine", Amount { runs: 1, ..MUCH }).unwrap();
    store.set_quota("other", Amount { bytes: 3000, runs: 9 }).unwrap();
    let push = |token: &str, number| {
        central.ask("POST", "/api/v1/runs", Some(token), &bundle(&small("otter", number)))
    };
    assert_eq!(push(&central.mine, 1).status, 201);
    for (answer, says) in [(push(&central.mine, 2), "may have 1"), (push(&central.other, 3), "may have 3000")]
    {
        assert!(
            answer.status == 403 && answer.body.contains(says) && answer.body.contains("quota"),
            "{}",
            answer.body
        );
    }
    assert_eq!(runs(&central), 1);
}

#[test]
fn whoever_pushes_one_run_at_the_same_time_is_told_the_same() {
    let central = Central::of(&[]);
    let bytes = bundle(&run("otter", 1, 1.0));
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let one = || central.ask("POST", "/api/v1/runs", Some(&central.mine), &bytes).status;
        let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 3, "{answers:?}");
    assert_eq!(runs(&central), 1);
}
