// SPDX-License-Identifier: GPL-2.0-or-later
//! Asking by bare SYNs: one thread sends, one listens, and no connection comes about. The kernel resets what answers
//! SYN-ACK, since the local port has no listener; a socket that is bound to it keeps others from it.
//!
//! Nothing is remembered of a question: the sequence number is a keyed hash of its addresses and ports, so an answer that
//! acknowledges it is one to a question of ours. A byte a target holds what was answered, so that those without an
//! answer can be asked again.

mod capture;
pub mod frame;
mod send;
mod source;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::counts::{add, Counts, Sum};
use crate::failure::{Failure, Result};
use crate::plan::Plan;
use crate::rate::Rate;
use crate::record::{boxes, Batch, Outbox, Record};
use crate::state::{Finding, Reason, State};
use capture::Capture;
use frame::{Answer, Cookies};
use send::Sender;
use source::Sources;

/// More would take as many bytes; by connections there is no such limit.
const MOST_TARGETS: u64 = 1 << 31;
/// Between two looks at the counts.
const WATCH: Duration = Duration::from_millis(5);

const ASKED: u8 = 0;
const ANSWERED: u8 = 1;

pub struct Job<'a> {
    pub plan: &'a Plan,
    pub timeout: Duration,
    pub retries: u8,
    pub rate: f64,
    pub told: [bool; 4],
    pub stop: &'a AtomicBool,
}

/// What both threads know.
struct Shared<'a> {
    job: &'a Job<'a>,
    cookies: Cookies,
    port: u16,
    /// By index.
    answered: Vec<AtomicU8>,
    /// The sender is done and the last answers have had their time.
    over: AtomicBool,
}

impl Shared<'_> {
    /// Whether this is the first answer of a target.
    fn take(&self, index: u64) -> bool {
        self.answered[index as usize].swap(ANSWERED, Ordering::Relaxed) == ASKED
    }

    fn tell(&self, outbox: &mut Outbox, counts: &Counts, record: Record) {
        counts.finished(record.state, record.reason, Finding::None);
        if self.job.told[record.state as usize] {
            outbox.push(record, &[]);
        }
    }
}

/// Runs it; `take` and `watch` as in [`crate::run::run`].
pub fn run(
    job: &Job,
    take: impl FnMut(&Batch) -> io::Result<()> + Send,
    watch: impl Fn(&Sum),
) -> Result<Sum> {
    if job.plan.len() > MOST_TARGETS {
        return Err(Failure::usage(format!(
            "--syn asks at most {MOST_TARGETS} targets: name fewer, or leave --syn out"
        )));
    }
    let sender = Sender::new().map_err(refused)?;
    let sources =
        Sources::new(&job.plan.targets).map_err(|error| Failure::system("no route", &error))?;
    let shared = Shared {
        job,
        cookies: Cookies::new(),
        port: sender.port(),
        answered: (0..job.plan.len()).map(|_| AtomicU8::new(ASKED)).collect(),
        over: AtomicBool::new(false),
    };
    let capture = Capture::new(shared.port).map_err(refused)?;
    let counts = [Counts::default(), Counts::default()];
    let (mut outboxes, inbox) = boxes(2);
    let (to_sender, to_listener) = (outboxes.remove(0), outboxes.remove(0));
    let (shared, counts_of) = (&shared, &counts);
    let ended = thread::scope(|scope| {
        let writer = scope.spawn(move || inbox.each(take));
        let listener = scope.spawn(move || listen(shared, capture, &counts_of[1], to_listener));
        let asker = scope.spawn(move || {
            let mut asker = Asker {
                shared,
                sender,
                sources,
                counts: &counts_of[0],
                outbox: to_sender,
            };
            let asked = asker.run();
            shared.over.store(true, Ordering::Relaxed);
            asked.map(|()| asker)
        });
        while !(asker.is_finished() && listener.is_finished()) {
            watch(&Sum::of(counts_of));
            thread::sleep(WATCH);
        }
        listener
            .join()
            .expect("the listener does not panic")
            .map_err(|error| Failure::system("the capture ring", &error))?;
        let mut asker = asker.join().expect("the sender does not panic")?;
        asker.tell_silent();
        drop(asker);
        match writer.join().expect("the writer does not panic") {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::system("the results cannot be written", &error))
            }
            _ => Ok(()),
        }
    });
    ended.map(|()| Sum::of(&counts))
}

fn refused(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::privilege(
            "--syn needs a raw socket: run as root, or setcap cap_net_raw+ep on this program; or leave --syn out",
        ),
        _ => Failure::system("--syn: a raw socket", &error),
    }
}

struct Asker<'a> {
    shared: &'a Shared<'a>,
    sender: Sender,
    sources: Sources,
    counts: &'a Counts,
    outbox: Outbox,
}

impl Asker<'_> {
    /// Asks all, then those without an answer, again and again; waits for the last answers.
    fn run(&mut self) -> Result<()> {
        let job = self.shared.job;
        for round in 0..=job.retries {
            let begun = Instant::now();
            let asked = match round {
                0 => self.ask(job.plan.cursor(), false)?,
                _ => self.ask(0..job.plan.len(), true)?,
            };
            if asked == 0 {
                break;
            }
            // What was asked first has had its time while the last was asked.
            let end = begun.elapsed() + job.timeout;
            while begun.elapsed() < end && !self.stopped() {
                thread::sleep(Duration::from_millis(5).min(end.saturating_sub(begun.elapsed())));
                if !self
                    .shared
                    .answered
                    .iter()
                    .any(|one| one.load(Ordering::Relaxed) == ASKED)
                {
                    break;
                }
            }
        }
        Ok(())
    }

    fn stopped(&self) -> bool {
        self.shared.job.stop.load(Ordering::Relaxed)
    }

    /// Sends a SYN to each that has not answered. Gives how many.
    fn ask(&mut self, indices: impl Iterator<Item = u64>, again: bool) -> Result<u64> {
        let plan = self.shared.job.plan;
        let clock = Instant::now();
        let mut rate = Rate::new(self.shared.job.rate, 0);
        let mut asked = 0;
        for index in indices {
            if self.shared.answered[index as usize].load(Ordering::Relaxed) != ASKED {
                continue;
            }
            while rate.allowed(clock.elapsed().as_nanos() as u64) == 0 {
                self.flush()?;
                thread::sleep(Duration::from_micros(200));
            }
            rate.take(1);
            let (to, port) = plan.target(index);
            let Some(from) = self.sources.from(plan.targets.position(to).unwrap_or(0)) else {
                self.unreachable(index, Reason::NetUnreach);
                continue;
            };
            let sequence = self.shared.cookies.of(to.ip, port, self.shared.port);
            self.sender.add(index, from, to, port, sequence);
            asked += 1;
            add(&self.counts.retries, u64::from(again));
            if self.sender.is_full() {
                self.flush()?;
                if self.stopped() {
                    break;
                }
            }
        }
        self.flush()?;
        Ok(asked)
    }

    /// Sends what has gathered. What the kernel refuses says something of the target, or has to wait.
    fn flush(&mut self) -> Result<()> {
        while let Some((index, errno)) = self.sender.flush(&self.counts.calls) {
            match errno {
                libc::ENOBUFS | libc::EAGAIN | libc::ENOMEM => {
                    add(&self.counts.shortages, 1);
                    thread::sleep(Duration::from_millis(1));
                    if self.stopped() {
                        return Ok(());
                    }
                    continue;
                }
                libc::EPERM => self.unreachable(index, Reason::NotPermitted),
                libc::EACCES => self.unreachable(index, Reason::AdminProhibited),
                libc::EHOSTUNREACH => self.unreachable(index, Reason::HostUnreach),
                libc::ENETUNREACH => self.unreachable(index, Reason::NetUnreach),
                errno => {
                    let error = io::Error::from_raw_os_error(errno);
                    return Err(Failure::system("--syn: sendmmsg", &error));
                }
            }
            self.sender.skip();
        }
        Ok(())
    }

    fn unreachable(&mut self, index: u64, reason: Reason) {
        if self.shared.take(index) {
            let record = Record::new(index, State::Filtered, reason);
            self.shared.tell(&mut self.outbox, self.counts, record);
        }
    }

    /// Those that never answered; of a scan that was stopped, nothing is said of them.
    fn tell_silent(&mut self) {
        if !self.stopped() {
            for index in 0..self.shared.job.plan.len() {
                if self.shared.take(index) {
                    let mut record = Record::new(index, State::Filtered, Reason::Timeout);
                    record.attempts = self.shared.job.retries + 1;
                    self.shared.tell(&mut self.outbox, self.counts, record);
                }
            }
        }
        self.outbox.flush();
    }
}

/// Hears answers until it is over.
fn listen(
    shared: &Shared,
    mut capture: Capture,
    counts: &Counts,
    mut outbox: Outbox,
) -> io::Result<()> {
    loop {
        let over = shared.over.load(Ordering::Relaxed);
        let heard = capture.next_block(|packet| {
            match frame::answer(packet, shared.port, &shared.cookies) {
                Some(answer) => hear(shared, counts, &mut outbox, answer),
                None => add(&counts.strangers, 1),
            }
        })?;
        add(&counts.calls, 1);
        if !heard {
            outbox.flush();
            if over {
                break;
            }
        }
    }
    add(&counts.ring_losses, capture.lost()?);
    Ok(())
}

fn hear(shared: &Shared, counts: &Counts, outbox: &mut Outbox, answer: Answer) {
    let plan = shared.job.plan;
    // A link-local address is asked on an interface, which the packet does not name: there is one of each address.
    let scopes = plan.targets.ranges().iter().map(|range| range.scope);
    let index = [0]
        .into_iter()
        .chain(scopes.filter(|&scope| scope != 0))
        .find_map(|scope| {
            let address = crate::targets::Address {
                ip: answer.of,
                scope,
            };
            plan.index(address, answer.port)
        });
    match index {
        Some(index) if shared.take(index) => {
            let record = Record::new(index, answer.state, answer.reason);
            shared.tell(outbox, counts, record);
        }
        Some(_) => {}
        None => add(&counts.strangers, 1),
    }
}
