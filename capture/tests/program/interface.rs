// SPDX-License-Identifier: GPL-2.0-or-later
//! Interfaces that go down, come up, go away and come back.

use testbed::wait::until;

use crate::place::{count, gaps, ledger, program, send, Place, Run, LIMIT, OURS};
use crate::rights::{of_threads, Tracer};

#[test]
fn an_interface_that_goes_down_and_up_is_waited_for() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut run = Run::on(&place, &["-w", &file, OURS]);
    send(&place.here, 0..100, 100);
    place.ip("link set veth down\n");
    run.hears("veth is down");
    place.ip("link set veth up\n");
    run.hears("veth is up again");
    send(&place.here, 100..300, 100);
    assert_eq!(run.end().written, 300);
    assert_eq!(count(&file), 300);
}

/// A capture can start on an interface that is down.
#[test]
fn an_interface_that_is_down_at_the_start_is_waited_for() {
    let place = Place::new();
    place.ip("link set veth down\n");
    let file = place.file("x.pcapng");
    let mut run = Run::on(&place, &["-w", &file, OURS]);
    run.hears("veth is down");
    place.ip("link set veth up\n");
    run.hears("veth is up again");
    send(&place.here, 0..10, 100);
    assert_eq!(run.end().written, 10);
}

/// Older kernels refuse that sockets share an interface that is down.
#[test]
fn threads_that_follow_wait_for_an_interface_that_is_down_at_the_start() {
    let place = Place::new();
    place.ip("link set veth down\n");
    let file = place.file("x.pcapng");
    // -D: the program stays the child. Its fifth option of a socket is the first PACKET_FANOUT.
    let mut command = place.here.command("strace");
    command.args(["-D", "-q", "-o", "/dev/null"]);
    command.args(["-e", "trace=setsockopt"]);
    command.args(["-e", "inject=setsockopt:error=EINVAL:when=5", program()]);
    let words = format!("-i veth -w {file} --follow --threads 2 --ring 4M {OURS}");
    let words: Vec<&str> = words.split(' ').collect();
    let mut run = Run::spawn(&mut command, &words);
    run.hears("veth is down: waiting for it");
    place.ip("link set veth up\n");
    run.hears("capture: ");
    send(&place.here, 0..10, 100);
    assert_eq!(run.end().written, 10);
}

#[test]
fn an_interface_that_goes_away_ends_it_with_a_whole_file() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut run = Run::on(&place, &["-w", &file, OURS]);
    send(&place.here, 0..2944, 100);
    place.ip("link delete veth\n");
    assert_eq!(run.wait(), Some(1), "{}", run.said);
    assert!(
        run.said.contains("error: -i veth: the interface is gone"),
        "{}",
        run.said
    );
    let ledger = ledger(&run.said);
    assert!(
        ledger.reconciles() && ledger.written == 2944,
        "{}",
        run.said
    );
    assert_eq!(count(&file), 2944);
    assert_eq!(gaps(&file), (0, Some((2944, 0))));
}

#[test]
fn an_interface_that_comes_back_is_followed() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut run = Run::on(
        &place,
        &[
            "-w",
            &file,
            "--follow",
            "--threads",
            "2",
            "--ring",
            "4M",
            OURS,
        ],
    );
    send(&place.here, 0..100, 100);
    place.ip("link delete veth\n");
    run.hears("veth is gone");
    place.ip("link add veth type veth peer name other\n\
         link set other up\n\
         link set veth up\n");
    run.hears("veth is there again");
    // A socket of the old interface, whose index has become -1, is closed once its thread has a new one.
    let are_new = || {
        let file = "/proc/thread-self/net/packet";
        let sockets = place.here.enter(|| std::fs::read_to_string(file))?;
        let is_old = |line: &str| line.split_whitespace().nth(4) == Some("-1");
        Ok(!sockets.lines().any(is_old))
    };
    until("both threads have new sockets", LIMIT, are_new).unwrap();
    send(&place.here, 100..300, 100);
    let ledger = run.end();
    assert_eq!((ledger.kernel, ledger.written), (300, 300));
    assert_eq!(count(&file), 300);
}

/// The interface goes away once more between a look at it and bind(2), which strace simulates.
#[test]
fn an_interface_that_cannot_be_opened_is_tried_again() {
    let place = Place::new();
    let file = place.file("x.pcapng");
    let mut run = Run::on(&place, &["-w", &file, "--follow", OURS]);
    send(&place.here, 0..100, 100);
    // A program that answers has started all its threads.
    run.has_taken(100);
    // The sandbox allows getpid(2).
    let inject = "inject=bind:error=ENODEV:syscall=getpid:when=1";
    let tracer = Tracer::new(&run, &["-f", "-e", "trace=bind", "-e", inject]);
    let are_traced = || {
        let tracers = of_threads(&run, "TracerPid:");
        Ok(tracers.iter().all(|tracer| tracer[0] != "0"))
    };
    until("strace traces all threads", LIMIT, are_traced).unwrap();
    place.ip("link delete veth\n");
    run.hears("veth is gone");
    place.ip("link add veth type veth peer name other\n\
         link set other up\n\
         link set veth up\n");
    run.hears("veth cannot be opened: No such device");
    run.hears("veth is there again");
    drop(tracer);
    send(&place.here, 100..300, 100);
    let ledger = run.end();
    assert_eq!((ledger.kernel, ledger.written), (300, 300));
    assert_eq!(count(&file), 300);
}
