// SPDX-License-Identifier: GPL-2.0-or-later
//! Interfaces that go down, come up, go away and come back.

use testbed::wait::pause_for;

use crate::place::{count, gaps, ledger, send, Place, Run, OURS};

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
    // The second thread may lag a moment.
    pause_for(std::time::Duration::from_millis(400));
    send(&place.here, 100..300, 100);
    let ledger = run.end();
    assert_eq!((ledger.kernel, ledger.written), (300, 300));
    assert_eq!(count(&file), 300);
}
