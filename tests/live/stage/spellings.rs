// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies in other spellings that nft accepts: without a blank, with one more, in quotes, by a definition, on joined
//! lines. The splitter must refuse them, or queue all packets that it queues for the same policy as nft lists it.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::process::Output;

use anyhow::{ensure, Context};
use stage::{Options, Queue};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::namespace;
use testbed::twin::root;
use twinwall_judge::names;
use twinwall_judge::random::Random;

use super::corpus::{policies, refusal_of_nft, router};

/// Policy with markers in chains to which jumps lead, and many spellings of the matches on the way.
const DENSE: &str = r#"
define ports = { 80, 443 }
define to = names
table inet f {
	set hosts { type ipv4_addr; flags interval; elements = { 10.1.0.0/16, 10.2.0.1-10.2.0.9 } }
	map services { type inet_service : verdict; elements = { 443 : jump names, 80 : goto other } }
	chain input {
		type filter hook input priority filter - 10; policy accept;
		iifname eth* tcp dport 440-450 jump names
		ip saddr @hosts tcp dport vmap @services
		ip saddr 10.0.0.0/8 udp dport 443 goto other
		meta mark set meta mark | 0x100
		meta mark & 0xff == 0x10 jump other
	}
	chain output {
		type filter hook output priority 0; policy accept;
		oifname != lo ip daddr { 10.0.0.1, 10.3.0.0/16 } jump $to
		tcp dport vmap { 25 : jump other, 80-90 : jump names }
		ip6 daddr fd00::/8 tcp sport != 1-1023 jump { udp dport 53 ct zone 60001 drop; tcp dport 53 jump other; }
	}
	chain names {
		tcp dport $ports ct zone 60001 counter drop
		udp dport 440-450 ip daddr 10.0.0.0/8 ct zone 60001 drop
	}
	chain other {
		meta l4proto { tcp, udp } th dport 443 ct zone 60001 log prefix "a b" drop
	}
}
"#;
/// Match that nft lists as it is written, in place of NAME.
const MARKER: &str = "ct zone 60001";
const NAME: &str = "tls sni \"denied.example\"";
/// Stands for MARKER while a policy is respelled, so that the marker stays.
const KEPT: &str = "\u{1}";
/// Number of spellings that are compared; the environment's TWINWALL_SPELLINGS overrides it.
const SPELLINGS: u64 = 100;
/// Maximum number of tries per compared spelling, on average: nft refuses most spellings.
const TRIES: u64 = 50;
/// Line of a chain `stage-names-HOOK` that queues all packets that may have names, as nft lists it.
const ALL: &str = "meta l4proto { 6, 17, 51 } goto stage-ask";
/// Words of nft, each with a replacement: another spelling, or a similar statement.
const WORDS: [(&str, &str); 13] = [
    ("==", "eq"),
    ("!=", "ne"),
    ("iifname", "meta iifname"),
    (" & ", " and "),
    (" | ", " or "),
    ("meta l4proto", "l4proto"),
    ("jump ", "goto "),
    ("accept", "counter accept"),
    ("{ ", "{"),
    (" }", "}"),
    (", ", ","),
    ("-", " -"),
    ("/", " /"),
];

/// Returns the byte offsets at which a text has a pattern.
fn places(text: &str, pattern: &str) -> Vec<usize> {
    text.match_indices(pattern).map(|(at, _)| at).collect()
}

/// Returns the ranges of the words of a text.
fn words(text: &str) -> Vec<(usize, usize)> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let all = text.split_whitespace();
    all.map(|word| (start(word), start(word) + word.len()))
        .collect()
}

/// Changes one random place of a text. The result may have another meaning, or none. Returns None without a change if
/// the text has no place for the chosen change.
fn respell_once(text: &mut String, random: &mut Random) -> Option<()> {
    let pick = |from: Vec<usize>, random: &mut Random| {
        (!from.is_empty()).then(|| from[random.below(from.len())])
    };
    match random.below(9) {
        0 | 1 => {
            let at = pick(places(text, " "), random)?;
            text.remove(at);
        }
        2 | 3 => {
            let sign = |(at, c): (usize, char)| "-/:,.*{}()&|=!<>".contains(c).then_some(at);
            let at = pick(text.char_indices().filter_map(sign).collect(), random)?;
            text.insert(at + random.below(2), ' ');
        }
        4 => {
            let at = pick(places(text, " "), random)?;
            text.replace_range(at..=at, [" \\\n ", "\\\n"][random.below(2)]);
        }
        5 => {
            let all = words(text);
            let (start, end) = *random.pick(&all);
            text.insert(end, '"');
            text.insert(start, '"');
        }
        6 => {
            let quotes = places(text, "\"");
            let at = random.below(quotes.len() / 2 + 1) * 2;
            let (start, end) = (*quotes.get(at)?, *quotes.get(at + 1)?);
            text.remove(end);
            text.remove(start);
        }
        7 => {
            let (from, to) = *random.pick(&WORDS);
            let at = pick(places(text, from), random)?;
            text.replace_range(at..at + from.len(), to);
        }
        _ => {
            let all = words(text);
            let (start, end) = *random.pick(&all);
            let value = text[start..end].to_owned();
            text.replace_range(start..end, "$spelt");
            text.insert_str(0, &format!("define spelt = {value}\n"));
        }
    }
    Some(())
}

fn respelled(text: &str, random: &mut Random) -> String {
    let mut text = text.replace(MARKER, KEPT);
    for _ in 0..1 + random.below(3) {
        // A text may have no such place.
        let _ = respell_once(&mut text, random);
    }
    text.replace(KEPT, MARKER)
}

/// Namespace in which policies are loaded.
struct Place {
    namespace: Namespace,
    folder: Folder,
}

impl Place {
    /// Loads a text in place of all rules. Returns nft's listing; None if nft refuses the text.
    fn listed(&self, text: &str) -> anyhow::Result<Option<String>> {
        self.folder.replace("spelt.nft", text)?;
        let nft = |arguments: &[&str]| -> anyhow::Result<Output> {
            let mut command = self.namespace.command("nft");
            command.args(arguments).output().context("nft")
        };
        let flushed = nft(&["flush", "ruleset"])?;
        ensure!(flushed.status.success(), "{flushed:?}");
        if !nft(&["-f", &self.folder.file("spelt.nft")])?
            .status
            .success()
        {
            return Ok(None);
        }
        let listed = nft(&["-n", "list", "ruleset"])?.stdout;
        Ok(Some(String::from_utf8_lossy(&listed).into_owned()))
    }

    /// Splits a policy with markers in place of names. Returns the lines that queue packets, by table and chain; None if the
    /// policy is refused. Fails if nft refuses the kernel's text.
    fn queued(&self, text: &str) -> anyhow::Result<Option<BTreeMap<String, BTreeSet<String>>>> {
        let options = Options {
            queue: Queue::Iptables,
            ..Options::default()
        };
        let source = stage::text("policy.nft", &text.replace(MARKER, NAME));
        let split = source
            .ok()
            .and_then(|source| stage::split(&source, &options).ok());
        let Some(split) = split else {
            return Ok(None);
        };
        let listed = self.listed(&split.kernel)?;
        let listed = listed.with_context(|| format!("nft refuses {}", split.kernel))?;
        let mut queued: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let (mut table, mut chain) = ("", "");
        for line in listed.lines().map(str::trim) {
            table = line.strip_prefix("table ").unwrap_or(table);
            chain = line.strip_prefix("chain ").unwrap_or(chain);
            if line.ends_with("goto stage-ask") {
                let lines = queued.entry(format!("{table} {chain}")).or_default();
                lines.insert(simplified(line));
            }
        }
        Ok(Some(queued))
    }
}

/// Returns a line that queues packets in a form for comparisons: a set of one element becomes the element, and matches
/// of the IP version are removed, which nft does not list if another match implies them.
fn simplified(line: &str) -> String {
    let line = ["ipv4 ", "ipv6 ", "2 ", "10 "]
        .iter()
        .fold(line.to_owned(), |line, version| {
            line.replace(&format!("meta nfproto {version}"), "")
        });
    let mut parts = line.split("{ ");
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(" }") {
            Some((inner, rest)) if !inner.contains(',') => made += &format!("{inner}{rest}"),
            _ => made += &format!("{{ {part}"),
        }
    }
    made
}

/// Returns the lines that queue packets by the listed policy, but not by the respelled one. Omits chains in which the
/// respelled policy queues all packets that may have names.
/// - spelt: lines of the respelled policy, from `queued`.
/// - listed: lines of the same policy as nft lists it.
fn missing(
    spelt: &BTreeMap<String, BTreeSet<String>>,
    listed: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let none = BTreeSet::new();
    let lines = |(chain, lines): (&String, &BTreeSet<String>)| {
        let own = spelt.get(chain).unwrap_or(&none);
        let left: Vec<String> = match own.contains(ALL) {
            true => Vec::new(),
            false => lines.difference(own).cloned().collect(),
        };
        left
    };
    listed.iter().flat_map(lines).collect()
}

/// Returns the policies to which markers are added: the router's policy, and those of the repository that nft accepts
/// and that include no other file. Fails unless nft accepts DENSE.
fn bases(place: &Namespace) -> anyhow::Result<Vec<String>> {
    let mut found = vec![router(place)?];
    ensure!(refusal_of_nft(place, root(), DENSE.as_bytes())?.is_none());
    for path in policies()? {
        let folder = path.parent().context("a folder")?;
        let Ok(text) = String::from_utf8(std::fs::read(&path)?) else {
            continue;
        };
        let is_alone = !text.contains("include ");
        if is_alone && refusal_of_nft(place, folder, text.as_bytes())?.is_none() {
            found.push(text);
        }
    }
    Ok(found)
}

pub fn all_queued() -> anyhow::Result<()> {
    let place = Place {
        namespace: namespace()?,
        folder: Folder::new()?,
    };
    place.folder.write("spelt.nft", "")?;
    let bases = bases(&place.namespace)?;
    let spellings = match env::var("TWINWALL_SPELLINGS") {
        Ok(number) => number.parse().context("TWINWALL_SPELLINGS")?,
        Err(_) => SPELLINGS,
    };
    let (mut compared, mut refused, mut unread, mut wrong) = (0, 0, 0, Vec::new());
    let mut seeds = 0..TRIES * spellings;
    while compared < spellings {
        let seed = seeds
            .next()
            .context("nft or the splitter refuses too many")?;
        let mut random = Random::new(seed);
        let marked = match random.below(2) {
            0 => Some(DENSE.to_owned()),
            _ => names::written(&bases[random.below(bases.len())], &[MARKER], &mut random),
        };
        let Some(marked) = marked else {
            continue;
        };
        let spelt = respelled(&marked, &mut random);
        let Some(listed) = place.listed(&spelt)? else {
            continue;
        };
        let Some(own) = place.queued(&spelt).with_context(|| spelt.clone())? else {
            refused += 1;
            continue;
        };
        // nft can't read each of its listings.
        let Ok(Some(want)) = place.queued(&listed) else {
            unread += 1;
            continue;
        };
        compared += 1;
        let missing = missing(&own, &want);
        if !missing.is_empty() {
            wrong.push(format!("{seed}: not queued: {missing:?}\n{spelt}"));
        }
    }
    println!("{refused} refused, {unread} with a listing that can't be read, {compared} compared");
    ensure!(unread < compared, "nft's listings can't be read");
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
