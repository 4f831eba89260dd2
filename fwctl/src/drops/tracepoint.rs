// SPDX-License-Identifier: GPL-2.0-or-later
//! The tracepoint skb:kfree_skb, through perf, for kernels without drop monitor. It reports place and reason of each
//! dropped packet, but neither interface nor flow. It ends with this process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use perf_event::data::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, SampleFlag, Sampler};

use super::drop::{function_of, is_ip, Drop};

const EVENT: &str = "events/skb/kfree_skb";
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Size of the ring in which drops wait until they are read, for each processor.
const RING_BYTES: usize = 1 << 20;
/// Reasons that are no drop: the packet was consumed.
const NO_DROP: [&str; 2] = ["NOT_DROPPED_YET", "CONSUMED"];

/// Position of a value in a record: its first byte and its length.
type Field = (usize, usize);

/// Contents of the event's file `format`: positions of values in a record, and the names of reasons by number.
#[derive(Debug, PartialEq, Eq)]
struct Format {
    location: Field,
    protocol: Field,
    reason: Option<Field>,
    reasons: BTreeMap<u64, String>,
}

pub struct Trace {
    samplers: Vec<Sampler>,
    format: Format,
    /// Names of kernel functions by address.
    symbols: BTreeMap<u64, String>,
}

/// Returns the position of a field, from its line `field:TYPE NAME;\toffset:N;\tsize:N;`.
fn field(text: &str, name: &str) -> Option<Field> {
    let line = text.lines().find(|line| {
        let declared = line
            .trim_start()
            .strip_prefix("field:")
            .and_then(|rest| rest.split(';').next());
        declared.is_some_and(|declared| declared.split([' ', '*']).next_back() == Some(name))
    })?;
    let number = |key: &str| {
        let rest = &line[line.find(key)? + key.len()..];
        rest.split(';').next()?.trim().parse().ok()
    };
    Some((number("offset:")?, number("size:")?))
}

impl Format {
    fn parse(text: &str) -> Option<Format> {
        let mut reasons = BTreeMap::new();
        // { 2, "NOT_SPECIFIED" }, ...
        for part in text.split("{ ").skip(1) {
            if let Some((number, rest)) = part.split_once(", \"") {
                let name = rest.split('"').next().unwrap_or_default();
                if let Ok(number) = number.trim().parse() {
                    reasons.insert(number, name.to_owned());
                }
            }
        }
        Some(Format {
            location: field(text, "location")?,
            protocol: field(text, "protocol")?,
            reason: field(text, "reason"),
            reasons,
        })
    }

    fn number(bytes: &[u8], (offset, size): Field) -> Option<u64> {
        let value = bytes.get(offset..offset + size)?;
        let mut number = [0; 8];
        number.get_mut(..size)?.copy_from_slice(value);
        Some(u64::from_ne_bytes(number))
    }
}

/// Returns the names of the kernel's functions by address; only root sees the addresses.
fn symbols() -> io::Result<BTreeMap<u64, String>> {
    let mut symbols = BTreeMap::new();
    for line in fs::read_to_string("/proc/kallsyms")?.lines() {
        let mut words = line.split_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if kind.eq_ignore_ascii_case("t") {
            if let Ok(address) = u64::from_str_radix(address, 16) {
                symbols.insert(address, name.to_owned());
            }
        }
    }
    Ok(symbols)
}

/// Returns the folder of the event. If tracefs is not mounted, mounts it for this process alone.
fn event_folder() -> io::Result<PathBuf> {
    let mut folders = TRACEFS.iter().map(|folder| Path::new(folder).join(EVENT));
    if let Some(folder) = folders.find(|folder| folder.exists()) {
        return Ok(folder);
    }
    let private = MsFlags::MS_PRIVATE | MsFlags::MS_REC;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    mount(
        Some("tracefs"),
        TRACEFS[0],
        Some("tracefs"),
        MsFlags::empty(),
        None::<&str>,
    )?;
    Ok(Path::new(TRACEFS[0]).join(EVENT))
}

/// Parses the list of online processors, such as "0-3,6".
fn processors(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse()) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

impl Trace {
    pub fn start() -> io::Result<Trace> {
        let folder = event_folder()?;
        let text = fs::read_to_string(folder.join("format"))?;
        let format = Format::parse(&text).ok_or(io::ErrorKind::InvalidData)?;
        let id = fs::read_to_string(folder.join("id"))?;
        let id = id.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
        let online = fs::read_to_string("/sys/devices/system/cpu/online")?;
        let mut samplers = Vec::new();
        for processor in processors(&online) {
            let mut builder = Builder::new(Tracepoint::with_id(id));
            builder.any_pid().one_cpu(processor).include_kernel();
            builder.sample(SampleFlag::RAW).sample_period(1);
            let mut sampler = builder.build()?.sampled(RING_BYTES)?;
            sampler.enable()?;
            samplers.push(sampler);
        }
        Ok(Trace {
            samplers,
            format,
            symbols: symbols()?,
        })
    }

    /// Passes all waiting drops to `told`. Returns the number of drops since the last call that are lost, because they
    /// came too fast.
    pub fn read(&mut self, mut told: impl FnMut(Drop)) -> u64 {
        let mut lost = 0;
        for sampler in &mut self.samplers {
            while let Some(record) = sampler.next_record() {
                match record.parse_record() {
                    Ok(Record::Sample(sample)) => {
                        let drop = sample
                            .raw()
                            .and_then(|raw| drop_of(&self.format, &self.symbols, raw));
                        drop.into_iter().for_each(&mut told);
                    }
                    Ok(Record::Lost(record)) => lost += record.lost,
                    Ok(Record::LostSamples(record)) => lost += record.lost,
                    _ => {}
                }
            }
        }
        lost
    }
}

fn drop_of(format: &Format, symbols: &BTreeMap<u64, String>, raw: &[u8]) -> Option<Drop> {
    let address = Format::number(raw, format.location)?;
    if !is_ip(Format::number(raw, format.protocol)?) {
        return None;
    }
    let place = symbols.range(..=address).next_back();
    let reason = format.reason.and_then(|field| Format::number(raw, field));
    let reason = reason.map_or(String::new(), |number| match format.reasons.get(&number) {
        Some(name) => name.clone(),
        None => number.to_string(),
    });
    (!NO_DROP.contains(&reason.as_str())).then(|| Drop {
        place: place.map_or("?".into(), |(_, name)| function_of(name).to_owned()),
        reason,
        ..Drop::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "\
name: kfree_skb
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:void * skbaddr;\toffset:8;\tsize:8;\tsigned:0;
\tfield:void * location;\toffset:16;\tsize:8;\tsigned:0;
\tfield:unsigned short protocol;\toffset:24;\tsize:2;\tsigned:0;
\tfield:enum skb_drop_reason reason;\toffset:28;\tsize:4;\tsigned:0;

print fmt: \"location=%pS reason: %s\", REC->location, __print_symbolic(REC->reason, { 2, \"NOT_SPECIFIED\" }, { 3, \"NO_SOCKET\" })
";

    #[test]
    fn a_record_is_read_as_its_format_says() {
        let format = Format::parse(FORMAT).unwrap();
        assert_eq!((format.location, format.reason), ((16, 8), Some((28, 4))));
        let symbols = BTreeMap::from([
            (100, "before".into()),
            (200, "nf_queue".into()),
            (300, "behind".into()),
        ]);
        let mut raw = [0; 32];
        raw[16] = 205;
        raw[25] = 8;
        raw[28] = 3;
        let drop = drop_of(&format, &symbols, &raw).unwrap();
        assert_eq!(
            (drop.place.as_str(), drop.reason.as_str()),
            ("nf_queue", "NO_SOCKET")
        );
        raw[28] = 9;
        assert_eq!(drop_of(&format, &symbols, &raw).unwrap().reason, "9");
        assert_eq!(drop_of(&format, &symbols, &raw[..20]), None);
    }

    #[test]
    fn a_kernel_without_reasons_has_none() {
        let text: Vec<&str> = FORMAT
            .lines()
            .filter(|line| !line.contains("skb_drop_reason"))
            .collect();
        assert_eq!(Format::parse(&text.join("\n")).unwrap().reason, None);
        assert_eq!(Format::parse("name: other"), None);
    }

    #[test]
    fn processors_are_listed() {
        assert_eq!(processors("0-1,4\n"), [0, 1, 4]);
        assert_eq!(processors("0\n"), [0]);
    }
}
