// SPDX-License-Identifier: GPL-2.0-or-later
//! The measured subjects: no firewall, a rule without a firewall, one of our programs in a variant, a peer, a program
//! of exchanges, a way of a command to the network, a packet ring, or a recorder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use testbed::twin::USER;

use crate::synthetic::SyntheticPolicy;

/// Name of the subject without a rule: the baseline, unless an experiment names another subject.
pub const UNFILTERED: &str = "none";
/// Placeholder for the queue's number in a peer's command line.
pub const QUEUE_PLACE: &str = "{queue}";
/// Placeholder for the folder of programs in a peer's command line.
pub const BUILD_PLACE: &str = "{build}";
/// Placeholder for the folder `harness`, which is beside the folder of programs, in a peer's command line.
pub const HARNESS_PLACE: &str = "{harness}";
const EXPECTED: &str =
    "none, accept, nftables, or {rust,c}-{classic,mnl,raw}-{paper,fast} such as rust-raw-fast; \
     @2 behind it gives it two queues, #2 makes a second copy; \
     stage-rust, stage-c, or nftables-tracked: a policy with names split, and without its names; \
     of exchanges: genl-NAME, ipc-NAME or ring-NAME, a program of kernel/userland; \
     of commands: way-NAME, a way of harness/cage/way; \
     of captures: capture-tpacket3-4k, or capture-{recvmmsg,iouring,afxdp}-{4k,thp,hugetlb}; \
     of recorders: record-{capture,tcpdump,dumpcap,netsniff-ng}";
const BACKENDS: [&str; 3] = ["classic", "mnl", "raw"];
const PROFILES: [&str; 2] = ["paper", "fast"];
const MOST_QUEUES: u16 = 16;
/// Folder of the programs that exchange messages, below the folder of programs.
const EXCHANGES: &str = "kernel/bin";
/// Prefixes of the names of subjects that exchange messages, are rings, or run commands.
const EXCHANGE_NAMES: [&str; 4] = ["genl", "ipc", RING, WAY];
/// Prefix of subjects that are ways of a command to the network: directly, in a cage, or by an alternative to the cage.
const WAY: &str = "way";
/// Program that runs a command by a way to the network ([`WAY`]). The path is below the folder harness, which is beside
/// the folder of programs.
const WAYS: &str = "cage/way";
/// Prefix of subjects that are packet rings in the virtual machine; their reader is capture-lab.
const RING: &str = "ring";
/// The program whose rings are subjects.
pub const CAPTURE: &str = "capture";
/// The program that reads the packet rings that are subjects.
pub const CAPTURE_LAB: &str = "capture-lab";
/// Types of rings in the names of subjects.
const RING_BACKENDS: [&str; 4] = ["tpacket3", "recvmmsg", "iouring", "afxdp"];
/// Page sizes of rings in the names of subjects.
const RING_PAGES: [&str; 3] = ["4k", "thp", "hugetlb"];

/// Prefix of recorders' names.
const RECORD: &str = "record-";
/// Programs that are measured as recorders.
const RECORDERS: [&str; 4] = [CAPTURE, "tcpdump", "dumpcap", "netsniff-ng"];

/// Kind of a subject ([`Subject`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Subject without a rule: packets pass unfiltered.
    None,
    /// The rule with ACCEPT in place of NFQUEUE: the cost of the rule without userspace.
    Accept,
    /// The kernel's own filter with the load's policy, without a queue.
    Nftables,
    /// The kernel's own filter with the policy of [`crate::staged`] without its names. The policy tests the
    /// connection's state.
    Tracked,
    /// The policy of [`crate::staged`], split: the kernel decides, one of the twins reports names.
    Stage { program: String },
    /// One of the twins.
    Twin {
        program: String,
        backend: String,
        profile: String,
        /// Further options; they override the profile's.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        options: Vec<String>,
        /// Policy that replaces the load's.
        #[serde(skip_serializing_if = "Option::is_none")]
        policy: Option<SyntheticPolicy>,
    },
    /// A program of the kernel lab that exchanges messages or reads a ring, or a way of a command to the network.
    Exchange,
    /// A packet ring of capture, read by capture-lab.
    Capture { backend: String, pages: String },
    /// A program that records packets to a file: capture, or a peer, which is omitted where it is not installed.
    Recorder { program: String },
    /// Any other program, by its command line.
    Peer {
        words: Vec<String>,
        /// True if the peer is omitted where its program is not installed.
        optional: bool,
        /// Rules that replace those of the load: a file below the repository's root.
        #[serde(skip_serializing_if = "Option::is_none")]
        rules: Option<PathBuf>,
        /// Further programs without which the peer is omitted, if it is optional.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        needs: Vec<PathBuf>,
    },
}

/// Subject: a program or setting that is measured. Its text form is `NAME[@QUEUES][#COPY]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Subject {
    /// Name without `@QUEUES` and `#COPY`.
    base: String,
    pub kind: Kind,
    /// Number of queues that the subject serves, numbered from 0; 1 also for a subject without a queue.
    pub queues: u16,
    /// Number of the copy, 1 for the original; copies are measured as if they were different subjects (the noise
    /// floor).
    pub copy: u16,
}

impl Subject {
    /// Returns a peer. `command` is split at white space and run without a shell. Fails if the name or the command is
    /// invalid.
    /// - optional: true if the peer is omitted where its program is not installed.
    pub fn peer(name: &str, command: &str, optional: bool) -> Result<Subject, String> {
        let words: Vec<String> = command.split_whitespace().map(str::to_string).collect();
        if words.is_empty() {
            return Err(format!("the command line of {name} is empty"));
        }
        let kind = Kind::Peer {
            words,
            optional,
            rules: None,
            needs: Vec::new(),
        };
        Subject::named(name, kind)
    }

    /// Returns a peer with its own rules and further required programs; any other subject unchanged.
    /// - file: file of rules; None: the peer uses the load's rules.
    pub fn with_rules(mut self, file: Option<PathBuf>, programs: &[PathBuf]) -> Subject {
        if let Kind::Peer { rules, needs, .. } = &mut self.kind {
            (*rules, *needs) = (file, programs.into());
        }
        self
    }

    /// Returns the files of the subject's program and of the further programs that a peer needs.
    pub fn programs(&self, bin_dir: &Path) -> Vec<PathBuf> {
        let needs = match &self.kind {
            Kind::Peer { needs, .. } => needs.clone(),
            _ => Vec::new(),
        };
        self.program(bin_dir).into_iter().chain(needs).collect()
    }

    /// Returns a twin with further options or its own policy, under a separate name. Fails if `of` is no twin, or if
    /// the name is invalid.
    /// - own_policy: None: the twin uses the load's policy.
    pub fn variant(
        name: &str,
        of: &Subject,
        options: &[String],
        own_policy: Option<SyntheticPolicy>,
    ) -> Result<Subject, String> {
        let mut kind = of.kind.clone();
        let Kind::Twin {
            options: own,
            policy,
            ..
        } = &mut kind
        else {
            return Err(format!(
                "{name}: {of} is no twin, and only twins have variants"
            ));
        };
        own.extend_from_slice(options);
        *policy = own_policy;
        Subject::named(name, kind)
    }

    /// Returns the subject's policy under a load.
    /// - of_load: policy of the load; None without a policy.
    pub fn policy(&self, of_load: Option<SyntheticPolicy>) -> Option<SyntheticPolicy> {
        match &self.kind {
            Kind::Twin { policy, .. } => policy.or(of_load),
            _ => of_load,
        }
    }

    /// Returns a subject with one queue, the original and no copy. Fails if the name is invalid or one of our own.
    fn named(name: &str, kind: Kind) -> Result<Subject, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || !name.chars().all(plain) || name.parse::<Subject>().is_ok() {
            return Err(format!(
                "the name {name:?} of a program: \
                 expected letters, digits, - _ . and no name of ours"
            ));
        }
        Ok(Subject {
            base: name.into(),
            kind,
            queues: 1,
            copy: 1,
        })
    }

    /// Returns the name without `@QUEUES` and `#COPY`.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn name(&self) -> String {
        self.to_string()
    }

    /// Returns the same subject with a different number of queues.
    pub fn with_queues(&self, queues: u16) -> Subject {
        Subject {
            queues,
            ..self.clone()
        }
    }

    /// Returns the same subject as the copy of this number, from 1.
    pub fn with_copy(&self, copy: u16) -> Subject {
        Subject {
            copy,
            ..self.clone()
        }
    }

    /// Returns true if the subject is omitted where its program is missing.
    pub fn is_optional(&self) -> bool {
        match &self.kind {
            Kind::Peer { optional, .. } => *optional,
            Kind::Recorder { program } => program != CAPTURE,
            _ => false,
        }
    }

    /// Returns true if the system calls of the subject can be counted.
    pub fn is_program(&self) -> bool {
        self.has_firewall() || self.kind == Kind::Exchange
    }

    fn is_of(&self, family: &str) -> bool {
        let own = self.base.split_once('-').map(|name| name.0);
        self.kind == Kind::Exchange && own == Some(family)
    }

    /// Returns true if the subject is a packet ring in the virtual machine that counts instructions.
    pub fn is_ring(&self) -> bool {
        self.is_of(RING)
    }

    /// Returns true if the subject is a way of a command to the network.
    pub fn is_way(&self) -> bool {
        self.is_of(WAY)
    }

    /// Returns true if a program filters the packets: a firewall, not the kernel.
    pub fn has_firewall(&self) -> bool {
        matches!(
            self.kind,
            Kind::Twin { .. } | Kind::Stage { .. } | Kind::Peer { .. }
        )
    }

    /// Returns true if the subject's program is one of the twins.
    pub fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Twin { .. } | Kind::Stage { .. })
    }

    /// Returns true if the subject uses the load's rules in rules/queue, which queue or accept every packet.
    pub fn has_rules_of_load(&self) -> bool {
        matches!(
            self.kind,
            Kind::Accept | Kind::Twin { .. } | Kind::Peer { rules: None, .. }
        )
    }

    /// Returns true if the subject needs the policy of [`crate::staged`].
    pub fn is_staged(&self) -> bool {
        matches!(self.kind, Kind::Tracked | Kind::Stage { .. })
    }

    /// Returns true if the subject's program takes packets from a queue. A peer with its own rules does so if its
    /// command line names the queue.
    pub fn has_queue(&self) -> bool {
        match &self.kind {
            Kind::Peer { words, rules, .. } => {
                rules.is_none() || words.iter().any(|word| word.contains(QUEUE_PLACE))
            }
            _ => self.has_firewall(),
        }
    }

    /// Returns the program and its arguments; None without a firewall. A twin gets the policy's file if there is one.
    pub fn command_line(&self, bin_dir: &Path, policy: Option<&Path>) -> Option<Vec<String>> {
        match &self.kind {
            Kind::None
            | Kind::Accept
            | Kind::Nftables
            | Kind::Tracked
            | Kind::Exchange
            | Kind::Capture { .. }
            | Kind::Recorder { .. } => None,
            Kind::Twin {
                backend,
                profile,
                options,
                ..
            } => {
                let queue = match self.queues {
                    1 => "0".to_string(),
                    queues => format!("0:{}", queues - 1),
                };
                let program = self.program(bin_dir)?.to_string_lossy().into_owned();
                let words = [
                    &program,
                    "--queue",
                    &queue,
                    "--backend",
                    backend,
                    "--profile",
                    profile,
                    "--user",
                    USER,
                ];
                let policy = policy.map(|file| file.to_string_lossy());
                let policy = policy.iter().flat_map(|file| ["--policy", file]);
                let options = options.iter().map(String::as_str);
                Some(
                    words
                        .into_iter()
                        .chain(options)
                        .chain(policy)
                        .chain(["--json"])
                        .map(str::to_string)
                        .collect(),
                )
            }
            Kind::Stage { .. } => {
                let program = self.program(bin_dir)?.to_string_lossy().into_owned();
                let words = [&program, "--queue", "0", "--user", USER, "--json"];
                Some(words.map(str::to_string).to_vec())
            }
            Kind::Peer { words, .. } => {
                let in_place = |word: &String| in_bin_dir(word, bin_dir).replace(QUEUE_PLACE, "0");
                Some(words.iter().map(in_place).collect())
            }
        }
    }

    /// Returns the options of capture-lab for a ring of capture; none for other subjects.
    pub fn ring_words(&self) -> Vec<String> {
        let Kind::Capture { backend, pages } = &self.kind else {
            return Vec::new();
        };
        let backend = match backend.as_str() {
            "iouring" => "io-uring",
            other => other,
        };
        let words = ["--backend", backend, "--pages", pages].map(str::to_string);
        let take = (backend == "afxdp").then(|| "--take".to_string());
        words.into_iter().chain(take).collect()
    }

    /// Returns the file of the subject's program; None without a program. A name without a folder is for a search in
    /// PATH.
    pub fn program(&self, bin_dir: &Path) -> Option<PathBuf> {
        match &self.kind {
            Kind::None | Kind::Accept | Kind::Nftables | Kind::Tracked => None,
            Kind::Twin { program, .. } | Kind::Stage { program } => Some(bin_dir.join(program)),
            Kind::Exchange if self.is_way() => Some(bin_dir.with_file_name("harness").join(WAYS)),
            Kind::Exchange => Some(bin_dir.join(EXCHANGES).join(&self.base)),
            Kind::Capture { .. } => Some(bin_dir.join(CAPTURE_LAB)),
            Kind::Recorder { program } if program == CAPTURE => Some(bin_dir.join(CAPTURE)),
            Kind::Recorder { program } => Some(PathBuf::from(program)),
            Kind::Peer { words, .. } => Some(PathBuf::from(in_bin_dir(&words[0], bin_dir))),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.base)?;
        if self.queues > 1 {
            write!(f, "@{}", self.queues)?;
        }
        if self.copy > 1 {
            write!(f, "#{}", self.copy)?;
        }
        Ok(())
    }
}

impl FromStr for Subject {
    type Err = String;

    /// Parses our own subjects; a peer also needs its command line ([`Subject::peer`]).
    fn from_str(text: &str) -> Result<Subject, String> {
        let refused = || format!("subject {text:?}: expected {EXPECTED}");
        let (rest, copy) = split_number(text, '#', u16::MAX).ok_or_else(refused)?;
        let (base, queues) = split_number(rest, '@', MOST_QUEUES).ok_or_else(refused)?;
        let recorder = base.strip_prefix(RECORD);
        let kind = match base.split('-').collect::<Vec<_>>()[..] {
            _ if recorder.is_some_and(|program| RECORDERS.contains(&program)) => Kind::Recorder {
                program: recorder.unwrap_or_default().into(),
            },
            ["none"] => Kind::None,
            ["accept"] => Kind::Accept,
            ["nftables"] => Kind::Nftables,
            ["nftables", "tracked"] => Kind::Tracked,
            ["stage", twin @ ("rust" | "c")] => Kind::Stage {
                program: format!("{twin}-firewall"),
            },
            [family, _, ..] if EXCHANGE_NAMES.contains(&family) => Kind::Exchange,
            [CAPTURE, backend, pages]
                if RING_BACKENDS.contains(&backend)
                    && RING_PAGES.contains(&pages)
                    && (backend != "tpacket3" || pages == "4k") =>
            {
                Kind::Capture {
                    backend: backend.into(),
                    pages: pages.into(),
                }
            }
            [twin @ ("rust" | "c"), backend, profile]
                if BACKENDS.contains(&backend) && PROFILES.contains(&profile) =>
            {
                Kind::Twin {
                    program: format!("{twin}-firewall"),
                    backend: backend.into(),
                    profile: profile.into(),
                    options: Vec::new(),
                    policy: None,
                }
            }
            _ => return Err(refused()),
        };
        if queues > 1 && !matches!(kind, Kind::Twin { .. }) {
            return Err(refused());
        }
        Ok(Subject {
            base: base.into(),
            kind,
            queues,
            copy,
        })
    }
}

impl TryFrom<String> for Subject {
    type Error = String;

    fn try_from(text: String) -> Result<Subject, String> {
        text.parse()
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> String {
        subject.to_string()
    }
}

fn in_bin_dir(word: &str, bin_dir: &Path) -> String {
    let harness = bin_dir.with_file_name("harness");
    word.replace(BUILD_PLACE, &bin_dir.to_string_lossy())
        .replace(HARNESS_PLACE, &harness.to_string_lossy())
}

/// Returns the name of a copy's original; None for an original.
pub fn original(name: &str) -> Option<&str> {
    name.split_once('#').map(|(original, _)| original)
}

/// Splits `name#3` into (`name`, 3) and `name` into (`name`, 1); None if a number is there and not in 2..=most.
fn split_number(text: &str, mark: char, most: u16) -> Option<(&str, u16)> {
    let Some((name, number)) = text.split_once(mark) else {
        return Some((text, 1));
    };
    let number = number.parse().ok().filter(|n| (2..=most).contains(n))?;
    Some((name, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_were_given() {
        for name in [
            "none",
            "accept",
            "nftables",
            "rust-raw-fast",
            "c-mnl-paper#2",
            "c-raw-fast@4#3",
            "none#2",
            "nftables-tracked",
            "stage-rust#2",
        ] {
            assert_eq!(name.parse::<Subject>().unwrap().name(), name);
        }
    }

    #[test]
    fn other_names_are_refused_with_what_was_expected() {
        for name in [
            "",
            "rust",
            "rust-raw",
            "go-raw-fast",
            "rust-raw-fast#1",
            "rust-raw-fast@x",
            "none@2",
        ] {
            let error = name.parse::<Subject>().unwrap_err();
            assert!(error.contains("expected none, accept"), "{name}: {error}");
        }
    }

    #[test]
    fn a_copy_knows_its_original() {
        assert_eq!(original("c-raw-fast@2#2"), Some("c-raw-fast@2"));
        assert_eq!(original("c-raw-fast@2"), None);
    }

    #[test]
    fn command_lines() {
        let line = |subject: Subject| {
            subject
                .command_line(Path::new("/b"), None)
                .map(|words| words.join(" "))
        };
        assert_eq!(
            line("rust-raw-fast#2".parse().unwrap()).unwrap(),
            "/b/rust-firewall --queue 0 --backend raw --profile fast --user 64123:64123 --json"
        );
        assert_eq!(
            line("c-classic-paper@3".parse().unwrap()).unwrap(),
            "/b/c-firewall --queue 0:2 --backend classic --profile paper --user 64123:64123 --json"
        );
        assert_eq!(line("accept".parse().unwrap()), None);
        let twin: Subject = "c-raw-fast".parse().unwrap();
        let words = twin.command_line(Path::new("/b"), Some(Path::new("/p.nft")));
        assert!(words
            .unwrap()
            .join(" ")
            .ends_with("fast --user 64123:64123 --policy /p.nft --json"));
        let peer = Subject::peer("nfq", "/usr/bin/nfqnl_test  {queue} -v", false).unwrap();
        assert_eq!(line(peer).unwrap(), "/usr/bin/nfqnl_test 0 -v");
        let peer = Subject::peer("nfq", "{build}/peers/nfq {queue}", true).unwrap();
        assert_eq!(line(peer).unwrap(), "/b/peers/nfq 0");
    }

    #[test]
    fn a_variant_has_its_options_behind_those_of_its_profile() {
        let twin: Subject = "c-raw-fast".parse().unwrap();
        let options = ["--receive-buffer", "0"].map(String::from);
        let variant = Subject::variant("small", &twin, &options, None).unwrap();
        let words = variant.command_line(Path::new("/b"), None).unwrap();
        assert_eq!(
            words.join(" "),
            "/b/c-firewall --queue 0 --backend raw --profile fast --user 64123:64123 --receive-buffer 0 --json"
        );
        assert!(Subject::variant("rust-raw-fast", &twin, &options, None).is_err());
        let none: Subject = "none".parse().unwrap();
        assert!(Subject::variant("small", &none, &options, None).is_err());
    }

    #[test]
    fn peers_need_a_name_of_their_own_and_a_command() {
        for (name, command) in [("none", "x"), ("", "x"), ("a b", "x"), ("a", "  ")] {
            assert!(
                Subject::peer(name, command, false).is_err(),
                "{name:?} {command:?}"
            );
        }
    }
}
