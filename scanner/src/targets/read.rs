// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads targets from the command line and from files; each error names the place.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::net::ToSocketAddrs;

use super::grammar::{self, Word};
use super::set::{self, Set, MOST_MEMBERS};
use super::{authorise, interface_index, Address, Family, Range};
use crate::failure::{Failure, Result};

/// Default block list, used if it exists; --block-file names a different one.
pub const BLOCK_FILE: &str = "/etc/twinwall/scanner.block";
/// Maximum length of a line in a target file.
const LONGEST_LINE_BYTES: u64 = 4096;

/// Targets and exclusions of the command line.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    pub words: &'a [String],
    /// Target file; `-` is stdin.
    pub file: Option<&'a str>,
    pub exclude: &'a [String],
    pub exclude_file: Option<&'a str>,
    pub block_file: Option<&'a str>,
    pub authorised: bool,
}

/// Addresses to scan, after exclusions.
#[derive(Debug, Default)]
pub struct Targets {
    pub set: Set,
    /// Host names by the addresses to which they were resolved.
    pub names: HashMap<Address, String>,
    /// Number of addresses that the block list excluded, or that no host has ([`authorise::nobody`]).
    pub blocked: u128,
}

pub fn read(wanted: &Wanted) -> Result<Targets> {
    let mut reader = Reader {
        asks: true,
        ..Reader::default()
    };
    reader.words(wanted.words, "target")?;
    if let Some(file) = wanted.file {
        reader.file(file)?;
    }
    let (ranges, names) = (reader.ranges, reader.names);
    if ranges.is_empty() {
        return Err(Failure::usage(
            "no target: name addresses, networks or hosts (--help)",
        ));
    }
    let mut excluded = Reader::default();
    excluded.words(wanted.exclude, "--exclude")?;
    if let Some(file) = wanted.exclude_file {
        excluded.file(file)?;
    }
    let mut block = Reader {
        ranges: authorise::nobody(),
        ..Reader::default()
    };
    match wanted.block_file {
        Some(file) => block.file(file)?,
        None => block.file_if_any(BLOCK_FILE)?,
    }
    let asked = set::subtract(&ranges, &excluded.ranges);
    let allowed = set::subtract(&asked, &block.ranges);
    authorise::check(&allowed, wanted.authorised)?;
    let blocked = set::count(&asked) - set::count(&allowed);
    let set = Set::new(allowed).ok_or_else(|| {
        Failure::usage(format!(
            "more than {MOST_MEMBERS} addresses: name smaller networks"
        ))
    })?;
    if set.is_empty() {
        return Err(Failure::usage(
            "no named target is left: see --exclude, --exclude-file and the block list",
        ));
    }
    Ok(Targets {
        set,
        names,
        blocked,
    })
}

#[derive(Default)]
struct Reader {
    /// True if the words are targets, not exclusions: a link-local target needs an interface.
    asks: bool,
    ranges: Vec<Range>,
    names: HashMap<Address, String>,
}

impl Reader {
    fn words(&mut self, words: &[String], what: &str) -> Result<()> {
        for (at, word) in words.iter().enumerate() {
            self.word(word, || format!("{what} {}", at + 1))?;
        }
        Ok(())
    }

    fn file(&mut self, name: &str) -> Result<()> {
        let (source, shown): (Box<dyn Read>, &str) = match name {
            "-" => (Box::new(io::stdin()), "stdin"),
            _ => {
                let file = std::fs::File::open(name)
                    .map_err(|error| Failure::usage(format!("{name}: cannot be read: {error}")))?;
                (Box::new(file), name)
            }
        };
        self.lines(source, shown)
    }

    /// Reads a file of addresses, if it exists. Fails if its existence can't be determined, or if it can't be read or
    /// parsed.
    fn file_if_any(&mut self, name: &str) -> Result<()> {
        match std::fs::symlink_metadata(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            _ => self.file(name),
        }
    }

    fn lines(&mut self, source: impl Read, shown: &str) -> Result<()> {
        let mut source = BufReader::new(source);
        let mut line = String::new();
        for number in 1.. {
            line.clear();
            let got = (&mut source).take(LONGEST_LINE_BYTES).read_line(&mut line);
            match got {
                Ok(0) => break,
                Ok(_) if !line.ends_with('\n') && line.len() as u64 == LONGEST_LINE_BYTES => {
                    return Err(Failure::usage(format!(
                        "{shown}:{number}: a line of more than {LONGEST_LINE_BYTES} bytes: it is no list of targets"
                    )));
                }
                Ok(_) => {}
                Err(error) => {
                    return Err(Failure::usage(format!(
                        "{shown}:{number}: cannot be read: {error}"
                    )))
                }
            }
            let text = line.split('#').next().unwrap_or("");
            for word in text
                .split([' ', '\t', '\r', '\n', ','])
                .filter(|word| !word.is_empty())
            {
                let column = word.as_ptr() as usize - line.as_ptr() as usize + 1;
                self.word(word, || format!("{shown}:{number}:{column}"))?;
            }
        }
        Ok(())
    }

    fn word(&mut self, word: &str, place: impl Fn() -> String) -> Result<()> {
        let bad = |why: String| Failure::usage(format!("{}: \"{word}\": {why}", place()));
        match grammar::parse(word).map_err(bad)? {
            Word::Range {
                family,
                scope,
                first,
                last,
            } => {
                let scope = match scope {
                    None if self.asks && is_link_local(family, first) => return Err(bad(
                        "a link-local address is one of an interface: name it, as in fe80::1%eth0"
                            .into(),
                    )),
                    None => 0,
                    Some(name) => interface_index(name).ok_or_else(|| {
                        bad(format!("no interface is called {name} here: ip link"))
                    })?,
                };
                self.ranges.push(Range {
                    family,
                    scope,
                    first,
                    last,
                });
            }
            Word::Name(name) => {
                let address = resolve(name).map_err(bad)?;
                self.ranges.push(Range::one(address));
                self.names.insert(address, name.into());
            }
        }
        Ok(())
    }
}

/// Returns true if an address is in fe80::/10 (RFC 4291).
fn is_link_local(family: Family, address: u128) -> bool {
    family == Family::V6 && address >> 118 == 0xfe80 >> 6
}

/// Returns the first address of a host, like nmap.
fn resolve(name: &str) -> std::result::Result<Address, String> {
    let found = (name, 0).to_socket_addrs().map_err(|error| {
        format!("the host cannot be resolved: {error}: check the spelling and the resolver")
    })?;
    let first = found.into_iter().next().ok_or("the host has no address")?;
    let scope = match first {
        std::net::SocketAddr::V6(address) => address.scope_id(),
        std::net::SocketAddr::V4(_) => 0,
    };
    Ok(Address {
        ip: first.ip(),
        scope,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn exclusions_and_broadcast_are_left_out() {
        let (asked, exclude) = (words(&["10.0.0.0/24", "localhost"]), words(&["10.0.0.0-9"]));
        let targets = read(&Wanted {
            words: &asked,
            exclude: &exclude,
            ..Wanted::default()
        })
        .unwrap();
        assert_eq!(targets.set.len(), 247);
        assert_eq!(targets.set.get(0).to_string(), "10.0.0.10");
        assert_eq!(targets.names.len(), 1);
        assert_eq!(targets.blocked, 0);
        let asked = words(&["127.0.0.1", "224.0.0.0/24"]);
        let targets = read(&Wanted {
            words: &asked,
            ..Wanted::default()
        })
        .unwrap();
        assert_eq!((targets.set.len(), targets.blocked), (1, 256));
        let asked = words(&["224.0.0.1", "127.0.0.1", "224.0.0.0-1"]);
        let targets = read(&Wanted {
            words: &asked,
            ..Wanted::default()
        })
        .unwrap();
        assert_eq!((targets.set.len(), targets.blocked), (1, 2));
    }

    #[test]
    fn errors_name_the_place() {
        let mut reader = Reader::default();
        let error = reader
            .lines(
                &b"# hosts\n10.0.0.1, 10.0.0.2\n  10.0.0.300 # x\n"[..],
                "hosts",
            )
            .unwrap_err();
        assert_eq!(error.text, "hosts:3:3: \"10.0.0.300\": it is no address");
        assert_eq!(reader.ranges.len(), 2);
        let asked = words(&["10.0.0.1", "fe80::1%nosuch"]);
        let error = read(&Wanted {
            words: &asked,
            ..Wanted::default()
        });
        let text = error.unwrap_err().text;
        assert!(
            text.starts_with("target 2: \"fe80::1%nosuch\": no interface"),
            "{text}"
        );
        let asked = words(&["fe80::1"]);
        let error = read(&Wanted {
            words: &asked,
            ..Wanted::default()
        });
        let text = error.unwrap_err().text;
        assert!(text.ends_with("name it, as in fe80::1%eth0"), "{text}");
        let (asked, exclude) = (words(&["fe80::1%1", "fe80::2%1"]), words(&["fe80::1"]));
        let left = read(&Wanted {
            words: &asked,
            exclude: &exclude,
            ..Wanted::default()
        });
        assert_eq!(left.unwrap().set.len(), 1);
        let long = vec![b'1'; 5000];
        let error = Reader::default().lines(&long[..], "-").unwrap_err();
        assert!(error.text.contains("-:1: a line of more"), "{error}");
        assert!(Reader::default().lines(&b"\xff\xfe\n"[..], "-").is_err());
    }

    #[test]
    fn only_a_missing_block_list_is_ignored() {
        let name = format!("scanner-block-{}", std::process::id());
        let list = std::env::temp_dir().join(name);
        let read = |file: &std::path::Path| {
            let mut block = Reader::default();
            let read = block.file_if_any(file.to_str().unwrap());
            read.map(|()| block.ranges.len())
        };
        let is_unreadable = |file: &std::path::Path| {
            read(file).is_err_and(|error| error.text.contains("cannot be read"))
        };
        assert_eq!(read(&list), Ok(0));
        std::os::unix::fs::symlink("/nonexistent/list", &list).unwrap();
        let is_dangling_refused = is_unreadable(&list);
        std::fs::remove_file(&list).unwrap();
        std::fs::write(&list, "10.0.0.1").unwrap();
        let found = (read(&list), is_unreadable(&list.join("below a file")));
        std::fs::remove_file(&list).unwrap();
        assert!(is_dangling_refused);
        assert_eq!(found, (Ok(1), true));
    }

    #[test]
    fn nothing_left_is_an_error() {
        let (asked, exclude) = (words(&["10.0.0.1"]), words(&["10.0.0.0/24"]));
        let error = read(&Wanted {
            words: &asked,
            exclude: &exclude,
            ..Wanted::default()
        });
        assert!(error.unwrap_err().text.contains("no named target is left"));
        assert!(read(&Wanted::default())
            .unwrap_err()
            .text
            .contains("no target:"));
    }
}
