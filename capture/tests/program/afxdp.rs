// SPDX-License-Identifier: GPL-2.0-or-later
//! The backend afxdp, which redirects packets from the host: on a veth pair, in the kernel's generic mode.

use crate::place::{count, gaps, ledger, numbers, send, Place, Run};

const AFXDP: [&str; 3] = ["--backend", "afxdp", "--take"];

/// Creates a test network without IPv6, so that the kernel sends no packets of its own in either namespace.
fn place() -> Place {
    let place = Place::new();
    for (namespace, name) in [(&place.here, "here"), (&place.there, "there")] {
        namespace.enter(|| {
            let file = "/proc/sys/net/ipv6/conf/veth/disable_ipv6";
            std::fs::write(file, "1").unwrap_or_else(|error| panic!("{name}: {error}"));
        });
    }
    place
}

#[test]
fn what_comes_in_is_recorded_once_and_in_order() {
    for pages in ["4k", "thp"] {
        let place = place();
        let file = place.file("x.pcapng");
        let words = [&["-w", &file, "--pages", pages], &AFXDP[..]].concat();
        let run = Run::on(&place, &words);
        send(&place.there, 0..3000, 1000);
        let ledger = run.end();
        assert_eq!((ledger.kernel, ledger.written), (3000, 3000), "{ledger}");
        assert_eq!(numbers(&file), (0..3000).collect::<Vec<u32>>());
        assert_eq!(gaps(&file), (0, Some((3000, 0))));
    }
}

#[test]
fn the_host_gets_nothing_while_it_runs_and_all_behind_its_end() {
    let place = place();
    let file = place.file("x.pcapng");
    let watched = place.file("host.pcapng");
    let host = Run::on(&place, &["-w", &watched, crate::place::OURS]);
    let run = Run::on(&place, &[&["-w", &file], &AFXDP[..]].concat());
    send(&place.there, 0..100, 100);
    assert_eq!(run.end().written, 100);
    send(&place.there, 100..300, 100);
    assert_eq!(host.end().written, 200);
    assert_eq!(numbers(&watched), (100..300).collect::<Vec<u32>>());
}

#[test]
fn what_finds_no_frame_is_counted_to_the_packet() {
    let place = place();
    let file = place.file("x.pcapng");
    let words = [&["-w", &file, "--ring", "2M"], &AFXDP[..]].concat();
    let run = Run::on(&place, &words);
    run.stop();
    send(&place.there, 0..5000, 1000);
    run.signal(libc::SIGCONT);
    let ledger = run.end();
    // Number of frames in 2 MiB.
    assert_eq!((ledger.kernel, ledger.written), (5000, 512), "{ledger}");
    assert_eq!(count(&file), 512);
}

#[test]
fn an_interface_that_goes_away_ends_it_with_a_whole_file() {
    let place = place();
    let file = place.file("x.pcapng");
    let mut run = Run::on(&place, &[&["-w", &file], &AFXDP[..]].concat());
    send(&place.there, 0..500, 100);
    place.ip("link delete veth\n");
    assert_eq!(run.wait(), Some(1), "{}", run.said);
    assert!(
        run.said.contains("-i veth: the interface is gone"),
        "{}",
        run.said
    );
    assert_eq!(ledger(&run.said).written, 500, "{}", run.said);
    assert_eq!(count(&file), 500);
}

#[test]
fn another_at_the_same_interface_is_refused() {
    let place = place();
    let file = place.file("x.pcapng");
    let words = [&["-w", &file], &AFXDP[..]].concat();
    let first = Run::on(&place, &words);
    let all = [&["-i", "veth"], &words[..]].concat();
    let mut command = place.here.command(crate::place::program());
    let output = command.args(all).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("another program is at the interface"),
        "{said}"
    );
    drop(first);
}
