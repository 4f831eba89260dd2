// SPDX-License-Identifier: GPL-2.0-or-later
//! Queues of the kernel, in a network namespace of our own; without root they are skipped. It is the
//! main thread's, whose /proc/net all threads see, so these run one after the other, without a harness.

use std::fs::{self, File};
use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sched::{unshare, CloneFlags};
use rust_firewall::packet::verdict::VerdictBatch;
use rust_firewall::queue::adopt::{
    adopt, can_adopt, confirm, give, release, resume, QueueHandover,
};
use rust_firewall::queue::socket::slot_bytes;
use rust_firewall::queue::{self, Queue, QueueKind, QueueReceived, QueueSettings};

const NUMBER: u16 = 7;
const KINDS: [QueueKind; 3] = [QueueKind::Classic, QueueKind::Mnl, QueueKind::Raw];

fn settings_of(kind: QueueKind, copy_bytes: u32) -> QueueSettings {
    QueueSettings {
        number: NUMBER,
        kind,
        copy_bytes,
        batch: 4,
        slot_bytes: slot_bytes(copy_bytes),
        receive_buffer: 0,
        receive_buffer_required: false,
        queue_length: 100,
        gso: false,
        fail_open: false,
        uid_gid: false,
        conntrack: false,
        names: false,
    }
}

/// Enters a new network namespace. Returns false if the process has no right to do so.
fn enter_namespace() -> bool {
    match unshare(CloneFlags::CLONE_NEWNET) {
        Err(Errno::EPERM) => false,
        result => result.is_ok(),
    }
}

/// Returns the copy mode and the copy range of the first queue in the kernel; empty if there is no queue.
fn mode() -> String {
    let text = fs::read_to_string(queue::proc::QUEUES).expect("the queues");
    let Some(line) = text.lines().next() else {
        return String::new();
    };
    let fields: Vec<_> = line.split_whitespace().collect();
    assert_eq!(fields[0], NUMBER.to_string());
    fields[3..5].join(" ")
}

/// Gives up a queue as in an upgrade. Returns its hand-over, and a duplicate of its socket's descriptor.
fn handover_of(queue: &mut Queue) -> (QueueHandover, OwnedFd) {
    give(queue);
    let handover = QueueHandover {
        copy_bytes: queue.settings.copy_bytes,
        flags: queue.flags,
    };
    let fd = queue::fd(queue).expect("an open queue");
    (handover, fd.try_clone_to_owned().expect("a descriptor"))
}

fn resumed(queue: &mut Queue) -> u32 {
    let mut received = QueueReceived::default();
    let mut batch = Box::<VerdictBatch>::default();
    resume(queue, &mut batch, &mut received).expect("a queue of ours");
    received.packets
}

fn a_queue_goes_from_each_backend_to_each_that_can() {
    for from in KINDS {
        for to in KINDS.into_iter().filter(|to| can_adopt(*to)) {
            let mut old = queue::open(&settings_of(from, 64)).expect("a queue");
            assert_eq!(mode(), "2 64");
            let (handover, fd) = handover_of(&mut old);
            let mut new = adopt(&settings_of(to, 200), &handover, fd).expect("a queue");
            assert_eq!(new.portid, old.portid);
            assert_eq!(mode(), "2 64", "nothing has changed yet");
            assert_eq!(resumed(&mut new), 0);
            assert_eq!(mode(), "2 200");
            release(old);
            assert_eq!(mode(), "2 200");
            confirm(&mut new);
            let fd = queue::fd(&new).expect("an open queue");
            let guard = fd.try_clone_to_owned().expect("a descriptor");
            drop(new);
            assert_eq!(mode(), "", "unbound, though the socket is open");
            drop(guard);
        }
    }
}

fn the_old_one_asks_anew_if_it_goes_on() {
    let mut old = queue::open(&settings_of(QueueKind::Classic, 64)).expect("a queue");
    let (handover, fd) = handover_of(&mut old);
    let mut new = adopt(&settings_of(QueueKind::Raw, 0), &handover, fd).expect("a queue");
    resumed(&mut new);
    assert_eq!(mode(), "1 0");
    drop(new); // as at the end of the process
    assert_eq!(mode(), "1 0");
    resumed(&mut old);
    assert_eq!(mode(), "2 64");
    drop(old);
    assert_eq!(mode(), "");
}

fn what_is_no_socket_is_refused() {
    let settings = settings_of(QueueKind::Raw, 64);
    let refused = |fd: OwnedFd| match adopt(&settings, &QueueHandover::default(), fd) {
        Ok(_) => panic!("it is a queue"),
        Err(failure) => failure.text,
    };
    let text =
        "the descriptor handed over for queue 7 is no netlink socket: start without --take-over";
    assert_eq!(
        refused(File::open("/dev/null").expect("a file").into()),
        text
    );
}

fn main() {
    let tests: [(&str, fn()); 3] = [
        (
            "a_queue_goes_from_each_backend_to_each_that_can",
            a_queue_goes_from_each_backend_to_each_that_can,
        ),
        (
            "the_old_one_asks_anew_if_it_goes_on",
            the_old_one_asks_anew_if_it_goes_on,
        ),
        ("what_is_no_socket_is_refused", what_is_no_socket_is_refused),
    ];
    let (mut passed, mut ignored) = (0, 0);
    let may = enter_namespace();
    for (name, test) in tests {
        print!("test {name} ... ");
        if may {
            test();
            println!("ok");
            passed += 1;
        } else {
            println!("ignored, needs root");
            ignored += 1;
        }
    }
    println!("test result: ok. {passed} passed; 0 failed; {ignored} ignored");
}
