// SPDX-License-Identifier: GPL-2.0-or-later
//! A reader like that of a published experiment: it hashes every byte, and for each N-th packet it multiplies FACTOR x 1,000
//! times. The result is the kernel's count of packets and drops in that time. For a ring of blocks the loss is also
//! predicted: of `rate x time` packets the reader processes as many as its speed allows, and the ring holds as many as fit.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use capture::backend::{Backend, Kind};
use capture::failure::{Failure, Result};
use capture::reader::Opening;
use capture::socket::Statistics;
use capture::source::{Ready, Source};

use crate::arguments::BenchArguments;
use crate::census;
use crate::misses::{Counted, Misses};
use crate::translation::{Model, Sizes};

const MULTIPLICATIONS: u32 = 1000;
/// Time for which the TLB model reads packets.
const MODEL_TIME: Duration = Duration::from_secs(1);
/// Maximum time for which the ring is emptied before the measurement with each delay factor.
const DRAINING: Duration = Duration::from_millis(200);
/// Bytes in a block beside each packet (struct tpacket3_hdr, the link-layer address, and padding).
const HEAD_BYTES: f64 = 90.0;

/// Parameters of a measurement.
pub struct Job {
    interface: String,
    delays: Vec<u32>,
    every: u32,
    time: Duration,
    json: bool,
    /// Size of the whole ring in bytes, from which its capacity in packets is estimated. 0 for a ring without blocks:
    /// its capacity is not estimated.
    block_bytes: usize,
    /// Page size for the TLB model in bytes, that of the program's mapping; None if the model does not run.
    model: Option<u64>,
}

impl Job {
    /// Returns the parameters of a measurement.
    /// - misses: true if TLB misses are counted. If they were requested and can't be counted, the model runs instead.
    pub fn new(
        given: &BenchArguments,
        opening: &Opening,
        ring: &Backend,
        misses: bool,
    ) -> Result<Job> {
        let memory = ring.memory();
        let bytes = memory.as_ref().map_or(0, |memory| memory.bytes);
        let wanted = given.model || given.tlb && !misses;
        let model = match (wanted, &memory) {
            (true, Some(memory)) => {
                let failed = |error| Failure::system("the census", &error);
                let entries = census::program(memory.start, memory.bytes).map_err(failed)?;
                Some(entries.least_bytes())
            }
            _ => None,
        };
        Ok(Job {
            interface: opening.interface.name.clone(),
            delays: given.delay.0.clone(),
            every: given.every,
            time: Duration::from_secs(given.seconds.into()),
            json: given.json,
            block_bytes: match opening.backend {
                Kind::Tpacket3 | Kind::Twinring => bytes,
                _ => 0,
            },
            model,
        })
    }
}

/// Hashes eight bytes at a time; each multiplication depends on the one before.
pub fn hash(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(ODD);
    let eights = bytes.chunks_exact(8);
    let rest = eights.remainder();
    let whole = eights.fold(bytes.len() as u64, |hash, eight| {
        let word = eight.try_into().map_or(0, u64::from_ne_bytes);
        mix(hash, word)
    });
    rest.iter()
        .fold(whole, |hash, byte| mix(hash, (*byte).into()))
}

/// Multiplies `count` times; each multiplication depends on the one before. The rotation keeps the compiler from merging two
/// successive multiplications.
fn multiply(count: u32) {
    let mut product = black_box(3_u64);
    for _ in 0..count {
        product = product.wrapping_mul(0x5851_f42d_4c95_7f2d).rotate_left(1);
    }
    black_box(product);
}

/// Results of a measurement with one delay factor.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    delay: u32,
    seconds: f64,
    kernel: u64,
    drops: u64,
    taken: u64,
    bytes: u64,
    /// Total time of reading and hashing packets in nanoseconds, without the delays.
    work_ns: f64,
    delays: u64,
    delays_ns: f64,
}

impl Row {
    fn lost(&self) -> f64 {
        self.drops as f64 / self.kernel.max(1) as f64
    }

    fn hash_ns(&self) -> f64 {
        self.work_ns / self.taken.max(1) as f64
    }

    fn delay_ns(&self) -> f64 {
        self.delays_ns / self.delays.max(1) as f64
    }

    /// Predicts the share of packets that are lost: 1 - (C T + R) / (rate T), at least 0. T is the duration, `rate` the
    /// packets that arrive per time, C = 1 / (work + delay / N) the packets that the reader can process per time, and R
    /// the number of packets that fit in a ring of `ring_bytes`. Returns None for a ring without blocks, or if no
    /// packet arrived or was read.
    /// - every: N: a delay follows each N-th packet.
    fn foretold(&self, every: u32, ring_bytes: usize) -> Option<f64> {
        if ring_bytes == 0 || self.taken == 0 || self.kernel == 0 {
            return None;
        }
        let mean_bytes = self.bytes as f64 / self.taken as f64;
        let holds = ring_bytes as f64 / (mean_bytes + HEAD_BYTES);
        let each_ns = self.hash_ns() + self.delay_ns() / f64::from(every);
        let read = self.seconds * 1e9 / each_ns;
        Some((1.0 - (read + holds) / self.kernel as f64).max(0.0))
    }
}

/// Discards packets until none arrives, but at most for DRAINING, which is much longer than a whole ring takes. Resets
/// the kernel's counts; returns the old ones.
fn drain(ring: &mut Backend) -> io::Result<Statistics> {
    let end = Instant::now() + DRAINING;
    while Instant::now() < end && ring.ready()? != Ready::Nothing {
        ring.take(|_| ());
    }
    ring.statistics()
}

/// Returns the TLB misses of each processor since the last call; empty if misses are not counted.
fn missed(misses: &mut Option<Misses>) -> io::Result<Vec<Counted>> {
    match misses {
        Some(misses) => misses.since(),
        None => Ok(Vec::new()),
    }
}

fn measure(
    job: &Job,
    ring: &mut Backend,
    misses: &mut Option<Misses>,
    delay: u32,
) -> io::Result<(Row, Vec<Counted>)> {
    drain(ring)?;
    missed(misses)?;
    let mut row = Row {
        delay,
        ..Row::default()
    };
    let begun = Instant::now();
    while begun.elapsed() < job.time {
        if ring.ready()? == Ready::Nothing {
            continue;
        }
        let at_work = Instant::now();
        let delays_before = row.delays_ns;
        ring.take(|packet| {
            black_box(hash(packet.bytes));
            row.taken += 1;
            row.bytes += packet.bytes.len() as u64;
            if delay > 0 && row.taken % u64::from(job.every) == 0 {
                let waits = Instant::now();
                multiply(delay * MULTIPLICATIONS);
                row.delays += 1;
                row.delays_ns += waits.elapsed().as_nanos() as f64;
            }
        });
        row.work_ns += at_work.elapsed().as_nanos() as f64 - (row.delays_ns - delays_before);
    }
    let counted = ring.statistics()?;
    let missed = missed(misses)?;
    row.seconds = begun.elapsed().as_secs_f64();
    (row.kernel, row.drops) = (counted.packets, counted.drops);
    Ok((row, missed))
}

/// Formats the TLB misses of each processor as JSON; null if misses were not counted.
fn missed_json(missed: &[Counted]) -> String {
    let all: Vec<String> = missed.iter().map(Counted::json).collect();
    match all.is_empty() {
        true => "null".to_owned(),
        false => format!("[{}]", all.join(",")),
    }
}

fn tell(job: &Job, row: &Row, missed: &[Counted]) {
    let foretold = row.foretold(job.every, job.block_bytes);
    if job.json {
        let foretold = foretold.map_or("null".to_owned(), |lost| format!("{lost:.5}"));
        println!(
            "{{\"delay\":{},\"every\":{},\"seconds\":{:.3},\"kernel\":{},\"drops\":{},\"taken\":{},\"bytes\":{},\
             \"lost\":{:.5},\"foretold\":{foretold},\"hash_ns\":{:.1},\"delay_ns\":{:.1},\"tlb_misses\":{}}}",
            row.delay,
            job.every,
            row.seconds,
            row.kernel,
            row.drops,
            row.taken,
            row.bytes,
            row.lost(),
            row.hash_ns(),
            row.delay_ns(),
            missed_json(missed)
        );
        return;
    }
    let foretold = foretold.map_or(String::new(), |lost| {
        format!(" (foretold {:.2} %)", lost * 100.0)
    });
    println!(
        "delay {}: {} packets in {:.1} s, lost {:.2} %{foretold}; {:.0} ns a packet, {:.1} us a delay",
        row.delay,
        row.kernel,
        row.seconds,
        row.lost() * 100.0,
        row.hash_ns(),
        row.delay_ns() / 1e3
    );
    for one in missed {
        println!("{}", one.text(row.taken));
    }
}

/// Runs the TLB model over the addresses of packets and prints its result.
fn model(job: &Job, ring: &mut Backend, page_bytes: u64) -> io::Result<()> {
    let sizes = Sizes::of_this();
    let mut model = Model::new(sizes, page_bytes);
    let begun = Instant::now();
    while begun.elapsed() < MODEL_TIME {
        if ring.ready()? != Ready::Nothing {
            ring.take(|packet| model.packet(packet.bytes.as_ptr() as u64, packet.bytes.len()));
        }
    }
    if job.json {
        println!(
            "{{\"model\":\"tlb\",\"first\":{},\"second\":{},\"sizes_known\":{},\"page_bytes\":{page_bytes},\
             \"packets\":{},\"misses_a_packet\":{:.5}}}",
            sizes.first,
            sizes.second,
            sizes.known,
            model.packets,
            model.misses_a_packet()
        );
        return Ok(());
    }
    println!(
        "model, not measured: a TLB of {} and {} entries{} misses {:.4} translations a packet on the program's side, in \
         pages of {} KiB",
        sizes.first,
        sizes.second,
        if sizes.known { "" } else { " (assumed)" },
        model.misses_a_packet(),
        page_bytes >> 10
    );
    Ok(())
}

/// Measures the reader with each delay factor in sequence, with the same ring. With a factor, the reader multiplies
/// factor x 1,000 times after each N-th packet. Then runs the TLB model, if the job requests it.
pub fn run(job: &Job, mut ring: Backend, mut misses: Option<Misses>) -> Result<()> {
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(libc::ENETDOWN) => Failure::failed(format!(
            "-i {}: it is down, or gone: ip link",
            job.interface
        )),
        _ => Failure::system(&format!("-i {}", job.interface), &error),
    };
    for delay in &job.delays {
        let measured = measure(job, &mut ring, &mut misses, *delay);
        let (row, missed) = measured.map_err(failed)?;
        tell(job, &row, &missed);
    }
    match job.model {
        Some(page_bytes) => model(job, &mut ring, page_bytes).map_err(failed),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        let bytes: Vec<u8> = (0..100).collect();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(hash(&bytes), hash(&other), "{at}");
        }
        assert_ne!(hash(&bytes), hash(&bytes[..99]));
    }

    /// A multiplication takes three cycles or more, and no processor has more than six cycles in a nanosecond.
    #[test]
    fn no_multiplication_is_left_out() {
        const COUNT: u32 = 1_000_000;
        let begun = Instant::now();
        multiply(COUNT);
        let elapsed = begun.elapsed();
        assert!(
            elapsed >= Duration::from_nanos(u64::from(COUNT) / 2),
            "{elapsed:?}"
        );
    }

    /// 100,000 packets of 910 bytes arrive in a second; with 1,000 bytes per packet, a ring of 1 MB holds 1,000.
    #[test]
    fn loss_is_foretold_from_work_and_ring() {
        let row = Row {
            delay: 1,
            seconds: 1.0,
            kernel: 100_000,
            drops: 0,
            taken: 1000,
            bytes: 910_000,
            work_ns: 1000.0 * 10_000.0,
            delays: 100,
            delays_ns: 100.0 * 100_000.0,
        };
        // 10 us and a tenth of 100 us per packet: the reader processes 50,000.
        let foretold = row.foretold(10, 1_000_000).unwrap();
        assert!((foretold - 0.49).abs() < 1e-9, "{foretold}");
        assert_eq!(row.foretold(10, 0), None);
        let enough = Row {
            work_ns: 1000.0,
            delays_ns: 0.0,
            ..row
        };
        assert_eq!(enough.foretold(10, 1_000_000), Some(0.0));
    }
}
