// SPDX-License-Identifier: GPL-2.0-or-later
//! Accepts every packet of a queue with the crate nfqueue, as in its documentation: peer-nfqueue QUEUE [tuned].

use nfqueue::{CopyMode, Message, Queue, Verdict};

struct State;

fn accept(message: &Message, _: &mut State) {
    message.set_verdict(Verdict::Accept);
}

fn set_option(socket: i32, level: i32, option: i32, value: i32) {
    let bytes = size_of::<i32>() as libc::socklen_t;
    // SAFETY: setsockopt(2) reads the four bytes of `value`, which lives until it returns.
    let done = unsafe { libc::setsockopt(socket, level, option, (&raw const value).cast(), bytes) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn main() {
    let mut words = std::env::args().skip(1);
    let number = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let is_tuned = words.next().as_deref() == Some("tuned");
    let mut queue = Queue::new(State);
    queue.open();
    queue.bind(libc::AF_INET);
    queue.create_queue(number, accept);
    // The crate's loop panics when the kernel reports a full buffer (ENOBUFS).
    set_option(queue.fd(), libc::SOL_NETLINK, libc::NETLINK_NO_ENOBUFS, 1);
    if is_tuned {
        set_option(queue.fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 64 << 20);
    }
    queue.set_mode(CopyMode::CopyPacket, if is_tuned { 128 } else { 0xffff });
    queue.run_loop();
}
