// SPDX-License-Identifier: GPL-2.0-or-later
//! `capture-lab pages`, `capture-lab bench` and `capture-lab cost`: pages of rings, a reader slower than the packets' rate, and the cost
//! of a packet.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::place::{program, send, Place, BACKENDS};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns a tool's stdout; the tool must succeed.
fn said(output: &Output) -> String {
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && error.is_empty(), "{error}{out}");
    out
}

fn pages(place: &Place, words: &str) -> String {
    let mut command = place.here.command(program());
    let words = words.split_whitespace();
    said(&command.arg("pages").args(words).output().unwrap())
}

#[test]
fn a_ring_of_the_kernels_lies_in_small_pages_here() {
    let place = Place::new();
    let said = pages(&place, "--ring 8M");
    assert!(
        said.starts_with("tpacket3: 8 MiB\n  program's side: 2,048 x 4K\n  kernel's side:  "),
        "{said}"
    );
}

/// The kernel may have no transparent huge page left; small ones are always available.
#[test]
fn memory_of_our_own_has_the_pages_that_were_asked_for() {
    let place = Place::new();
    for backend in ["recvmmsg", "io-uring"] {
        let said = pages(&place, &format!("--backend {backend} --ring 8M"));
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[1].ends_with("side: 512 x 4K"), "{said}");
        assert!(lines[2].ends_with("copies through them"), "{said}");
        let said = pages(
            &place,
            &format!("--backend {backend} --ring 8M --pages thp"),
        );
        let whole = ["side: 1 x 2M", "side: 512 x 4K"];
        let line = said.lines().nth(1).unwrap();
        assert!(whole.iter().any(|end| line.ends_with(end)), "{said}");
    }
}

/// Tests that the kernel's own mapping of the packet memory has small pages.
#[test]
fn a_ring_of_afxdp_is_mapped_by_the_kernel_once_more() {
    let place = Place::new();
    let said = pages(&place, "-i veth --backend afxdp --take --ring 8M");
    assert!(
        said.ends_with("side: 2,048 x 4K\n  kernel's side:  2,048 x 4K (vmalloc)\n"),
        "{said}"
    );
}

#[test]
fn what_is_wrong_is_one_line() {
    for (words, code, wanted) in [
        ("pages --backend afxdp", 2, "it goes with --take"),
        ("pages -i nope0", 2, "-i nope0: no such interface"),
        (
            "pages --pages thp",
            2,
            "the ring of tpacket3 is the kernel's",
        ),
        ("pages --ring 1", 2, "between 2M and 16G"),
        ("bench", 2, "not provided: --interface <NAME>"),
        (
            "bench -i lo --delay 5:1:1",
            2,
            "are no factors: 40, or 0:200:20",
        ),
        ("bench -i lo --every 0", 2, "--every"),
        ("bench -i lo -w x", 2, "'-w'"),
        ("pages --policy dax", 2, "only the rings of twinring"),
        ("pages --backend twinring --policy x", 2, "vmalloc-huge"),
        (
            "pages --backend twinring --policy dax --pages thp",
            2,
            "cannot be used with",
        ),
        ("cost -i lo", 2, "not provided: --from <NAME>"),
        (
            "cost -i lo --from nope0",
            2,
            "--from nope0: no such interface",
        ),
        ("cost -i lo --from lo --bytes 20", 2, "--bytes"),
    ] {
        let output = Command::new(program())
            .args(words.split(' '))
            .output()
            .unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {error}");
        assert!(
            error.contains(wanted) && error.lines().count() == 1,
            "{words}: {error}"
        );
        assert!(output.stdout.is_empty(), "{words}");
    }
}

/// Runs `capture-lab bench`, and sends frames at the speed of one sender until it has ended. Returns its output and the
/// number of frames sent.
fn bench(words: &str) -> (String, u64) {
    let place = Place::new();
    for namespace in [&place.here, &place.there] {
        // The stacks send nothing on their own.
        let file = "/proc/sys/net/ipv6/conf/veth/disable_ipv6";
        namespace.enter(|| std::fs::write(file, "1")).unwrap();
    }
    let mut command = place.here.command(program());
    command.args(["bench", "-i", "veth", "--seconds", "1"]);
    command.args(words.split_whitespace());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while !ended.load(Ordering::Relaxed) {
                send(&place.there, 0..100, 1400);
                sent += 100;
            }
            sent
        });
        let output = command.output().unwrap();
        ended.store(true, Ordering::Relaxed);
        (said(&output), sending.join().unwrap())
    })
}

/// Returns the number under a key in a line of JSON.
fn number(line: &str, key: &str) -> f64 {
    let (_, rest) = line.split_once(&format!("\"{key}\":")).expect(key);
    let end = rest.find([',', '}']).unwrap();
    rest[..end]
        .parse()
        .unwrap_or_else(|_| panic!("{key}: {line}"))
}

#[test]
fn every_backend_is_read() {
    for backend in BACKENDS {
        let (said, sent) = bench(&format!(
            "--json --delay 0:1:1 --model {}",
            backend.join(" ")
        ));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        for (line, delay) in lines.iter().zip([0.0, 1.0]) {
            assert_eq!(
                (number(line, "delay"), number(line, "every")),
                (delay, 10.0)
            );
            let taken = number(line, "taken");
            assert!(
                taken > 0.0 && number(line, "kernel") <= sent as f64,
                "{said}"
            );
            assert_eq!(number(line, "bytes"), taken * 1400.0, "{said}");
            assert_eq!(number(line, "delay_ns") > 0.0, delay > 0.0, "{said}");
        }
        assert!(lines[2].starts_with("{\"model\":\"tlb\","), "{said}");
        assert!(number(lines[2], "packets") > 0.0, "{said}");
    }
    let (said, _) = bench("--backend afxdp --take");
    assert!(
        said.starts_with("delay 0: ") && said.contains(" ns a packet"),
        "{said}"
    );
}

/// Reading a block takes seconds; packets that arrive meanwhile find room in one other block.
#[test]
fn a_delay_that_is_too_long_loses_packets() {
    let (said, sent) = bench("--json --delay 4000 --every 1 --ring 2M");
    let (kernel, drops) = (number(&said, "kernel"), number(&said, "drops"));
    assert!(
        drops > 0.0 && drops < kernel && kernel <= sent as f64,
        "{said}"
    );
    assert!(
        (number(&said, "lost") - drops / kernel).abs() < 1e-4,
        "{said}"
    );
    let foretold = number(&said, "foretold");
    assert!((0.0..1.0).contains(&foretold), "{said}");
}

/// Checks that TLB misses are counted for each processor, or that a line states the reason and the model is printed.
#[test]
fn misses_are_counted_or_modelled() {
    let place = Place::new();
    let mut command = place.here.command(program());
    command.args(["bench", "-i", "veth", "--seconds", "1", "--json", "--tlb"]);
    let output = command.output().unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{error}{out}");
    let lines: Vec<&str> = out.lines().collect();
    match lines[0].contains("\"tlb_misses\":null") {
        true => {
            let note = "note: misses of the TLB are not counted, a model follows: ";
            assert!(
                error.starts_with(note) && error.lines().count() == 1,
                "{error}"
            );
            assert!(lines[1].starts_with("{\"model\":\"tlb\","), "{out}");
        }
        false => {
            assert!(lines[0].contains("\"tlb_misses\":[{\"cpu\":0,\"user_loads\":"));
            assert!(lines.len() == 1 && error.is_empty(), "{error}{out}");
        }
    }
}

/// Creates a test network with two more pairs of interfaces. Returns exit code, stdout and stderr of `capture-lab cost` for
/// the interface `left`.
fn cost(words: &str) -> (Option<i32>, String, String) {
    let place = Place::new();
    place.ip("link add left type veth peer name right");
    place.ip("link add other type veth peer name another");
    for name in ["left", "right", "other", "another"] {
        // The stacks send nothing on their own.
        let file = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
        place.here.enter(|| std::fs::write(file, "1")).unwrap();
        place.ip(&format!("link set {name} up"));
    }
    let mut command = place.here.command(program());
    command.args(["cost", "-i", "left"]);
    let output = command.args(words.split_whitespace()).output().unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), out, error)
}

#[test]
fn a_packet_costs_kernel_and_reader() {
    for backend in BACKENDS {
        let words = format!(
            "--from right --ring 8M --packets 4000 --json {}",
            backend.join(" ")
        );
        let (code, out, error) = cost(&words);
        assert_eq!((code, error.as_str()), (Some(0), ""), "{out}");
        let out = out.replace(": ", ":");
        assert_eq!(number(&out, "count"), 4000.0, "{out}");
        assert!(number(&out, "reader_ns") > 0.0, "{out}");
        let parts = number(&out, "kernel_ns") + number(&out, "reader_ns");
        assert_eq!(number(&out, "wall_ns"), parts, "{out}");
        let (_, program) = out.split_once("\"program\":").unwrap();
        let misses = number(program, "model_tlb_misses");
        // A packet needs at most one new translation (TLB entry).
        assert!(misses > 0.0 && misses <= 1.0, "{out}");
        if backend.contains(&"tpacket3") {
            assert_eq!(number(program, "entries"), 2048.0, "{out}");
            // Small pages under 4,000 packets of 1,100 bytes and their headers.
            assert!((0.27..0.31).contains(&misses), "{out}");
        }
    }
    let (_, out, _) = cost("--from right --packets 500");
    assert!(
        out.starts_with("tpacket3: 500 packets of 1100 bytes: kernel "),
        "{out}"
    );
    assert_eq!(out.matches("model, not measured").count(), 2, "{out}");
}

#[test]
fn packets_that_do_not_come_are_told() {
    let (code, out, error) = cost("--from other --packets 1");
    assert_eq!(code, Some(1), "{out}{error}");
    assert!(
        error.contains("not all that --from other sent has come: are they a pair"),
        "{error}"
    );
}
