// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line: `pages`, `bench` and `cost`.

use clap::builder::NonEmptyStringValueParser;
use clap::{value_parser, Args, Parser, Subcommand};

use capture::arguments;
use capture::backend::Kind;
use capture::pages::Pages;
use capture::twinring::Policy;

/// Measures rings of capture: the memory pages under a ring, the cost of a packet, the losses of a slow reader. It records
/// nothing.
#[derive(Debug, Parser)]
#[command(name = "capture-lab", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub tool: Tool,
}

#[derive(Debug, Subcommand)]
pub enum Tool {
    Pages(PagesArguments),
    Bench(BenchArguments),
    Cost(CostArguments),
}

/// Options of a ring without a recording.
#[derive(Args, Debug)]
pub struct RingArguments {
    /// Source of the packets
    #[arg(long, value_name = "NAME", default_value = "tpacket3")]
    pub backend: Kind,

    /// With --backend afxdp: the host does not get the received packets
    #[arg(long)]
    pub take: bool,

    /// Pages of the memory to which packets are copied (not for tpacket3, whose ring is the kernel's)
    #[arg(long, value_name = "KIND", default_value = "4k")]
    pub pages: Pages,

    /// With --backend twinring, in place of --pages: the policy of its pages (kernel/README.md)
    #[arg(long, value_name = "NAME", conflicts_with = "pages")]
    pub policy: Option<Policy>,

    /// Memory of the ring
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = arguments::ring)]
    pub ring: u64,

    /// Read at most this number of bytes of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 2048, value_parser = value_parser!(u32).range(1..=262_144))]
    pub snaplen: u32,
}

/// Prints the page sizes under a ring, on the program's side and, as far as they are known, on the kernel's.
#[derive(Args, Debug)]
pub struct PagesArguments {
    /// Interface of the ring; its packets are not read
    #[arg(short, long, value_name = "NAME", default_value = "lo", value_parser = NonEmptyStringValueParser::new())]
    pub interface: String,

    #[command(flatten)]
    pub ring: RingArguments,
}

/// Reads packets like a published experiment, and reports losses: it hashes every byte, and works longer for each N-th
/// packet. Records nothing.
#[derive(Args, Debug)]
pub struct BenchArguments {
    /// Interface to read from
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub interface: String,

    #[command(flatten)]
    pub ring: RingArguments,

    /// Factors of the delays, one after another: a delay is FACTOR x 1,000 multiplications
    #[arg(long, value_name = "FROM:TO:STEP", default_value = "0", value_parser = delays)]
    pub delay: Delays,

    /// Add the delay after each N-th packet
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..))]
    pub every: u32,

    /// Seconds of measurement for each factor
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=3600))]
    pub seconds: u32,

    /// Count misses of the data TLB on each processor, for programs and for the kernel; if the processor can't, print the reason and the output of --model
    #[arg(long)]
    pub tlb: bool,

    /// At the end, print TLB misses according to a model of this processor (nothing is measured)
    #[arg(long)]
    pub model: bool,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

/// Prints the cost of a packet for the kernel and for a reader that hashes every byte, with the page-table entries under the
/// ring and their TLB misses by a model. It sends the packets by the other end of a pair of interfaces.
#[derive(Args, Debug)]
pub struct CostArguments {
    /// Interface to read from
    #[arg(short, long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub interface: String,

    /// Other end of the pair, which sends the packets
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub from: String,

    #[command(flatten)]
    pub ring: RingArguments,

    /// Number of measured packets; three times as many are sent
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    pub packets: u32,

    /// Bytes of each packet
    #[arg(long, value_name = "N", default_value_t = 1100, value_parser = value_parser!(u32).range(60..=1514))]
    pub bytes: u32,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// Delay factors of a run, which measures each of them in turn. A delay is factor x 1,000 multiplications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays(pub Vec<u32>);

/// Maximum delay factor; no reader needs longer for a packet.
const DELAY_MOST: u32 = 1_000_000;

/// Parses one factor (`40`) or FROM:TO:STEP (`0:200:30`: 0, 30, …, 180; TO is the maximum).
fn delays(text: &str) -> std::result::Result<Delays, String> {
    let wrong = || format!("\"{text}\" are no factors: 40, or 0:200:20, up to {DELAY_MOST}");
    let numbers: std::result::Result<Vec<u32>, _> = text.split(':').map(str::parse).collect();
    let factors: Vec<u32> = match numbers.map_err(|_| wrong())?.as_slice() {
        [one] => vec![*one],
        [from, to, step] if from <= to && *step > 0 => {
            (*from..=*to).step_by(*step as usize).collect()
        }
        _ => return Err(wrong()),
    };
    match factors.iter().all(|factor| *factor <= DELAY_MOST) {
        true => Ok(Delays(factors)),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn factors_are_one_or_a_range() {
        let read = |text| delays(text).map(|delays| delays.0);
        assert_eq!(read("40"), Ok(vec![40]));
        assert_eq!(read("0:200:50"), Ok(vec![0, 50, 100, 150, 200]));
        assert_eq!(read("5:9:10"), Ok(vec![5]));
        for text in ["", "x", "1:2", "2:1:1", "0:9:0", "1:2:3:4", "1000001", "-1"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
