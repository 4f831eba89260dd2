// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses the files of tests/corpus/vectors/policy. tests/corpus/vectors/README.md describes their format; any deviation is
//! an error with its line.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::str::FromStr;

use anyhow::{anyhow, bail, ensure, Context};

/// Vector: the input of `explain`, and the expected result.
#[derive(Debug)]
pub struct Vector {
    pub name: String,
    pub options: Vec<String>,
    /// Text of the policy file.
    pub policy: String,
    pub sends: Vec<Send>,
    pub counters: Vec<Counter>,
}

/// Packet and its expected result.
#[derive(Clone, Debug)]
pub struct Send {
    /// Captured bytes of the packet; fewer than `original` if the vector cuts the packet.
    pub bytes: Vec<u8>,
    /// Length of the packet in bytes, of which some may not be captured.
    pub original: usize,
    /// Time of the packet in the capture, in nanoseconds.
    pub time_ns: u64,
    pub verdict: String,
    /// Reject type such as `icmp port-unreachable`; None with another verdict than reject.
    pub reject: Option<String>,
    pub by: Option<By>,
    /// Mark that a rule has set on an accepted packet; None if no rule has set one.
    pub mark: Option<u32>,
}

/// Origin of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The rule on this line of the policy.
    Rule(u32),
    Policy,
    Default,
    Fail,
    Undecided,
}

/// Expected final values of a rule's counter: its packets and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The line of its rule in the policy.
    pub line: u32,
    pub packets: u64,
    pub bytes: u64,
}

/// Parses the vectors of a file.
pub fn parse(text: &str) -> anyhow::Result<Vec<Vector>> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader
            .line(line)
            .with_context(|| format!("line {}: {line}", index + 1))?;
    }
    reader.end_block()?;
    reader.check_use()?;
    Ok(reader.vectors)
}

/// Part of a vector, in the order of a vector's lines; the reader stores the part that it parsed last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Name,
    Options,
    Kernel,
    Policy,
    Send,
    Counter,
}

#[derive(Default)]
struct Reader {
    /// Bytes of each packet, by its name. True if a vector sends the packet.
    packets: BTreeMap<String, (Vec<u8>, bool)>,
    vectors: Vec<Vector>,
    /// Name of the packet whose bytes follow; None outside a packet's lines.
    packet: Option<String>,
    vector: Option<(Vector, Stage)>,
    comments: usize,
}

impl Reader {
    fn line(&mut self, line: &str) -> anyhow::Result<()> {
        if line.is_empty() {
            return self.end_block();
        }
        if let Some(text) = line.strip_prefix("    ") {
            let vector = self.enter(Stage::Policy)?;
            vector.policy.push_str(text);
            vector.policy.push('\n');
            return Ok(());
        }
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "#" => {
                ensure!(
                    self.vector.is_none() && self.packet.is_none(),
                    "a comment stands before its name"
                );
                if !(value.starts_with("== ") && value.ends_with(" ==")) {
                    self.comments += 1;
                }
            }
            "packet" => self.begin_packet(value)?,
            "hex" | "hexrepeat" => self.bytes(word, value)?,
            "name" => self.begin_vector(value)?,
            "options" => {
                self.enter(Stage::Options)?.options =
                    value.split(' ').map(str::to_string).collect();
            }
            "kernel" => {
                self.enter(Stage::Kernel)?;
                let reason = value.strip_prefix("no: ").unwrap_or_default();
                ensure!(!reason.is_empty(), "expected `no: REASON`");
            }
            "policy" => {
                self.enter(Stage::Policy)?;
                ensure!(value.is_empty(), "the policy follows on lines of its own");
            }
            "send" => self.send(value)?,
            "counter" => {
                let counter = counter(value)?;
                self.enter(Stage::Counter)?.counters.push(counter);
            }
            _ => bail!("an unknown word"),
        }
        Ok(())
    }

    fn begin_packet(&mut self, name: &str) -> anyhow::Result<()> {
        ensure!(self.comments > 0, "a packet needs a comment");
        ensure!(
            self.packet.is_none() && self.vector.is_none(),
            "an empty line stands between"
        );
        let before = self.packets.insert(name.to_string(), (Vec::new(), false));
        ensure!(before.is_none(), "a packet of this name is there");
        self.packet = Some(name.to_string());
        Ok(())
    }

    fn bytes(&mut self, word: &str, value: &str) -> anyhow::Result<()> {
        let name = self.packet.as_ref().context("of which packet?")?;
        let (bytes, _) = self.packets.get_mut(name).expect("it was named");
        if word == "hex" {
            bytes.extend(hex(value)?);
            return Ok(());
        }
        let (byte, count) = value.split_once(' ').context("expected BYTE COUNT")?;
        let byte = hex(byte)?;
        ensure!(byte.len() == 1, "expected one byte");
        bytes.resize(bytes.len() + number::<usize>(count)?, byte[0]);
        Ok(())
    }

    fn begin_vector(&mut self, name: &str) -> anyhow::Result<()> {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        ensure!(
            self.packet.is_none() && self.vector.is_none(),
            "an empty line stands between"
        );
        ensure!(
            !name.is_empty() && name.chars().all(is_name),
            "lower-case letters, digits and `-`"
        );
        ensure!(self.comments > 0, "a vector says why it is there");
        let vector = Vector {
            name: name.to_string(),
            options: Vec::new(),
            policy: String::new(),
            sends: Vec::new(),
            counters: Vec::new(),
        };
        self.vector = Some((vector, Stage::Name));
        Ok(())
    }

    /// Sets the stage of the current vector, and returns the vector. Fails if no line of this stage may follow.
    fn enter(&mut self, stage: Stage) -> anyhow::Result<&mut Vector> {
        let (vector, at) = self.vector.as_mut().context("before a name")?;
        let again = stage >= Stage::Policy && *at == stage;
        ensure!(*at < stage || again, "{stage:?} behind {at:?}");
        *at = stage;
        Ok(vector)
    }

    fn send(&mut self, value: &str) -> anyhow::Result<()> {
        let (packet, outcome) = value
            .split_once(" -> ")
            .context("expected PACKET -> VERDICT")?;
        let mut words = packet.split(' ');
        let name = words.next().unwrap_or_default();
        let (bytes, used) = self
            .packets
            .get_mut(name)
            .with_context(|| format!("there is no packet {name}"))?;
        *used = true;
        let mut send = outcome_of(outcome)?;
        send.original = bytes.len();
        send.bytes = bytes.clone();
        let mut times = 1;
        let mut at = None;
        while let Some(word) = words.next() {
            match word {
                "at" => at = Some(time_ns(words.next().context("at when?")?)?),
                "cut" => {
                    let captured = number(words.next().context("cut where?")?)?;
                    ensure!(captured < send.original, "that is not cut");
                    send.bytes.truncate(captured);
                }
                _ => times = number(word.strip_prefix('x').context("expected xN")?)?,
            }
        }
        let sends = &mut self.enter(Stage::Send)?.sends;
        send.time_ns = at.or(sends.last().map(|last| last.time_ns)).unwrap_or(0);
        sends.extend(std::iter::repeat_n(send, times));
        Ok(())
    }

    fn end_block(&mut self) -> anyhow::Result<()> {
        self.packet = None;
        self.comments = 0;
        let Some((vector, _)) = self.vector.take() else {
            return Ok(());
        };
        let again = self.vectors.iter().any(|other| other.name == vector.name);
        ensure!(!again, "{}: a vector of this name is there", vector.name);
        ensure!(!vector.sends.is_empty(), "{}: no packet", vector.name);
        self.vectors.push(vector);
        Ok(())
    }

    fn check_use(&self) -> anyhow::Result<()> {
        for (name, (_, used)) in &self.packets {
            ensure!(*used, "no vector sends {name}");
        }
        Ok(())
    }
}

fn number<T: FromStr>(text: &str) -> anyhow::Result<T> {
    text.parse()
        .map_err(|_| anyhow!("{text:?} is not a number"))
}

fn hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b' ').collect();
    digits
        .chunks(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair)?;
            ensure!(pair.len() == 2, "half a byte");
            Ok(u8::from_str_radix(pair, 16)?)
        })
        .collect()
}

/// Parses seconds with up to nine decimal places.
fn time_ns(text: &str) -> anyhow::Result<u64> {
    let (seconds, rest) = text.split_once('.').unwrap_or((text, ""));
    ensure!(rest.len() <= 9, "finer than nanoseconds");
    let nanoseconds: u64 = number(&format!("{rest:0<9}"))?;
    Ok(number::<u64>(seconds)? * 1_000_000_000 + nanoseconds)
}

/// Parses the expected outcome of a packet: `VERDICT [WHAT] [by WHO][, mark N]`. The caller adds bytes and time.
fn outcome_of(text: &str) -> anyhow::Result<Send> {
    let (text, mark) = match text.split_once(", mark ") {
        Some((text, mark)) => (text, Some(mark_of(mark)?)),
        None => (text, None),
    };
    let (text, by) = match text.split_once(" by ") {
        Some((text, by)) => (text, Some(by_of(by)?)),
        None => (text, None),
    };
    let (verdict, reject) = match text.split_once(' ') {
        Some((verdict, what)) => (verdict, Some(what.to_string())),
        None => (text, None),
    };
    let is_reject = verdict == "reject";
    ensure!(
        is_reject || ["accept", "drop"].contains(&verdict),
        "an unknown verdict"
    );
    ensure!(is_reject == reject.is_some(), "reject, and with what");
    ensure!(
        mark.is_none() || verdict == "accept",
        "only an accepted packet has a mark to carry on"
    );
    Ok(Send {
        bytes: Vec::new(),
        original: 0,
        time_ns: 0,
        verdict: verdict.to_string(),
        reject,
        by,
        mark,
    })
}

fn mark_of(text: &str) -> anyhow::Result<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => Ok(u32::from_str_radix(digits, 16)?),
        None => number(text),
    }
}

fn by_of(text: &str) -> anyhow::Result<By> {
    Ok(match text {
        "policy" => By::Policy,
        "default" => By::Default,
        "fail" => By::Fail,
        "undecided" => By::Undecided,
        line => By::Rule(number(line)?),
    })
}

/// Parses `LINE packets N bytes N`.
fn counter(text: &str) -> anyhow::Result<Counter> {
    let words: Vec<&str> = text.split(' ').collect();
    let [line, "packets", packets, "bytes", bytes] = words[..] else {
        bail!("expected LINE packets N bytes N");
    };
    Ok(Counter {
        line: number(line)?,
        packets: number(packets)?,
        bytes: number(bytes)?,
    })
}
