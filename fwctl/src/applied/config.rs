// SPDX-License-Identifier: GPL-2.0-or-later
//! /etc/twinwall/twinwall.conf: settings of the firewall for the host's policy. systemd reads it too, as an
//! EnvironmentFile.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use apply::firewall::{Orders, Twin};
use apply::kernel::Wanted;
use rust_firewall::options::{self, Options, OptionsAction, OptionsSituation};
use rust_firewall::packet::verdict::Verdict;

use super::firewall::program;
use super::trust;
use crate::arguments::mask;
use crate::failure::{Exit, Failure};

/// Content of the configuration file (twinwall.conf).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub twin: Option<Twin>,
    options: Vec<String>,
    /// Bits of marks that may be used when a policy with names is split; None: all bits.
    marks: Option<u32>,
    /// True if other tables may take connections past a policy with names, into flowtables.
    allows_flowtables: bool,
}

/// Keys of the configuration file, for messages.
const KEYS: &str = "OPTIONS=, FIREWALL=, MARKS= or FLOWTABLES=";

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, text)
}

/// Parses a line of the configuration file into `config`. Fails with the reason.
fn read_line(config: &mut Config, line: &str) -> Result<(), String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with(['#', ';']) {
        return Ok(());
    }
    let Some((key, value)) = line.split_once('=') else {
        return Err(format!("no KEY=VALUE: write {KEYS}"));
    };
    if value.contains(['"', '\'', '\\']) {
        return Err("quotes and \\ are not taken: write words without blanks".to_owned());
    }
    match key {
        "OPTIONS" => config.options = value.split_whitespace().map(str::to_owned).collect(),
        "FIREWALL" => {
            config.twin = match value {
                "rust" => Some(Twin::Rust),
                "c" => Some(Twin::C),
                _ => return Err(format!("FIREWALL={value}: write rust or c")),
            }
        }
        "MARKS" => config.marks = Some(mask(value).map_err(|why| format!("MARKS={value}: {why}"))?),
        "FLOWTABLES" => match value {
            "allow" | "refuse" => config.allows_flowtables = value == "allow",
            _ => return Err(format!("FLOWTABLES={value}: write allow or refuse")),
        },
        _ => return Err(format!("\"{key}\" is not known: write {KEYS}")),
    }
    Ok(())
}

fn parse(file: &str, text: &str) -> Result<Config, Failure> {
    let mut config = Config::default();
    for (number, line) in (1..).zip(text.lines()) {
        read_line(&mut config, line)
            .map_err(|why| refused(format_args!("{file}:{number}: {why}")))?;
    }
    Ok(config)
}

/// Reads the configuration file (twinwall.conf). A missing file has no settings.
pub fn read(path: &Path) -> Result<Config, Failure> {
    if !path.exists() {
        return Ok(Config::default());
    }
    trust::check_file(path)?;
    let text = fs::read_to_string(path).map_err(trust::at(path))?;
    parse(&path.display().to_string(), &text)
}

/// Parses the firewall's options. Fails if they are invalid, or if they contain an option that `apply` sets.
fn parsed(words: &[String]) -> Result<Options, Failure> {
    const OWN: [&str; 4] = ["--policy", "--stage", "--control", "--take-over"];
    let name = |word: &String| word.split('=').next().unwrap_or_default().to_owned();
    if let Some(own) = words
        .iter()
        .map(name)
        .find(|name| OWN.contains(&name.as_str()))
    {
        return Err(refused(format_args!(
            "OPTIONS= has {own}, which fwctl apply sets: leave it out"
        )));
    }
    // Some options are valid only with a policy.
    let behind = ["--policy", "names.nft"].map(OsString::from);
    let program = OsString::from(options::PROGRAM);
    let given = words.iter().map(OsString::from);
    let all: Vec<OsString> = [program].into_iter().chain(given).chain(behind).collect();
    match options::parse(&all).map_err(|failure| refused(failure.text))? {
        OptionsAction::Run(options) => Ok(options),
        _ => Err(refused(
            "OPTIONS= starts no firewall: leave out --help, --version and commands",
        )),
    }
}

/// Returns the options for splitting a policy with names into the kernel's part and the firewall's part. They follow
/// from the firewall's options.
fn split_options(options: &Options, marks: u32) -> Result<stage::Options, Failure> {
    let is_open = |situation: OptionsSituation| options.fail_open[situation as usize];
    let bypass = is_open(OptionsSituation::Crash);
    if bypass != is_open(OptionsSituation::Overload) {
        return Err(refused(
            "OPTIONS= has different --fail for overload and crash, but the kernel treats both alike: set both to open or both to closed",
        ));
    }
    Ok(stage::Options {
        queues: (options.queue_first, options.queue_last),
        bypass,
        undecided: match options.undecided_verdict {
            Verdict::Accept => stage::Undecided::Accept,
            _ => stage::Undecided::Drop,
        },
        unknown_open: is_open(OptionsSituation::Unknown),
        marks,
        ..stage::Options::default()
    })
}

impl Config {
    /// Returns the parameters for applying a new policy.
    pub fn wanted(&self) -> Result<Wanted, Failure> {
        let twin = self.twin.unwrap_or_else(program::installed);
        self.wanted_by(twin, &self.options)
    }

    /// Returns the parameters for applying a generation again: the twin and options of its orders, and the mark bits of
    /// this file. Flowtables are allowed: without the generation the host would be less protected.
    pub fn wanted_again(&self, orders: &Orders) -> Result<Wanted, Failure> {
        let wanted = self.wanted_by(orders.twin, &orders.options)?;
        Ok(Wanted {
            allows_flowtables: true,
            ..wanted
        })
    }

    fn wanted_by(&self, twin: Twin, words: &[String]) -> Result<Wanted, Failure> {
        let options = parsed(words)?;
        Ok(Wanted {
            twin,
            options: words.to_vec(),
            split: split_options(&options, self.marks.unwrap_or(u32::MAX))?,
            expect: expect::Settings::of_kernel(&options),
            allows_flowtables: self.allows_flowtables,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_options() {
        let text =
            "# a comment\n\nOPTIONS=--queue 2:3  --undecided drop\nFIREWALL=c\nMARKS=0xff00\nFLOWTABLES=allow\n";
        let wanted = parse("t.conf", text).unwrap().wanted().unwrap();
        assert_eq!(wanted.twin, Twin::C);
        assert_eq!(wanted.options, ["--queue", "2:3", "--undecided", "drop"]);
        assert_eq!(wanted.split.queues, (2, 3));
        assert_eq!(wanted.split.undecided, stage::Undecided::Drop);
        assert_eq!(wanted.split.marks, 0xff00);
        assert!(!wanted.split.bypass && wanted.allows_flowtables);
        let open = parse("t.conf", "OPTIONS=--fail open\n")
            .unwrap()
            .wanted()
            .unwrap();
        assert!(!open.allows_flowtables && open.split.bypass && open.split.unknown_open);
    }

    #[test]
    fn what_is_wrong_has_a_cure() {
        for (text, words) in [
            ("\nnothing\n", "t.conf:2: no KEY=VALUE"),
            ("A=b", "t.conf:1: \"A\" is not known"),
            ("FIREWALL=go", "write rust or c"),
            ("OPTIONS=\"--pin\"", "quotes"),
            ("FLOWTABLES=yes", "write allow or refuse"),
            ("MARKS=x", "a number of 32 bits"),
            ("OPTIONS=--monster", "--monster"),
            ("OPTIONS=--policy a", "which fwctl apply sets"),
            (
                "OPTIONS=--fail crash=open",
                "set both to open or both to closed",
            ),
        ] {
            let wanted = parse("t.conf", text).and_then(|config| config.wanted());
            let said = wanted.unwrap_err().text;
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
