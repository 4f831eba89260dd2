// SPDX-License-Identifier: GPL-2.0-or-later
//! The rules that direct packets to the queues: fragments of rules/queue, adapted to the run.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};
use testbed::netns::Namespace;

use crate::experiment::Route;
use crate::runner::Workload;

/// Start of the target within a rule.
const TARGET: &str = " -j NFQUEUE ";
const SERVER: &str = "127.0.0.1/32";
/// Ruleset of the kernel's own filter without a policy: rules accept the packets to the loads' ports.
const ACCEPT_EVERYTHING: &str = "table inet filter {
\tchain output { type filter hook output priority filter; policy accept; th dport { 53, 443, 9999 } accept; }
\tchain input { type filter hook input priority filter; policy accept; th dport { 53, 443, 9999 } accept; }
}
";

/// Destination of the packets in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Accept,
    /// A number of queues, numbered from 0.
    Queues(u16),
}

/// Returns the name of the fragment (file of iptables rules in rules/queue) for a load.
pub fn name(workload: Workload, route: Route) -> &'static str {
    match (route, workload) {
        (_, workload) if workload.shows_names() => "loopback-names",
        (Route::Veth, _) => "veth-9999",
        (Route::Loopback, Workload::TcpProbe) => "balanced-9999",
        (Route::Loopback, Workload::UdpFlood) => "loopback-9999-udp",
        _ => "loopback-9999",
    }
}

/// Returns the listening address of a flow's server (flows count from 0) on the loopback interface.
pub fn loopback_address(flow: u16) -> IpAddr {
    let [high, low] = (flow + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 0, high, low))
}

/// Loads the iptables rules of the file `rules/queue/NAME.iptables` under `root` inside a namespace. The rules
/// disappear with the namespace.
pub fn load(
    namespace: &Namespace,
    root: &Path,
    name: &str,
    target: Target,
    flows: u16,
) -> Result<()> {
    let file = root.join("rules/queue").join(format!("{name}.iptables"));
    load_file(namespace, &file, target, flows)
}

/// Loads a file of rules for iptables-restore inside a namespace, with `target` as the destination of their packets.
pub fn load_file(namespace: &Namespace, file: &Path, target: Target, flows: u16) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let tools = tools(&text).with_context(|| format!("{}: no line `# tools:`", file.display()))?;
    let text = adapt(&text, target, flows);
    for tool in tools.split_whitespace() {
        namespace
            .feed(
                &format!("{tool}-restore"),
                &["--noflush", "-w", "10"],
                &text,
            )
            .with_context(|| file.display().to_string())?;
    }
    Ok(())
}

/// Loads a policy into the kernel's own filter inside a namespace; without a file, a policy that accepts every packet.
/// The policy disappears with the namespace.
pub fn load_policy(namespace: &Namespace, policy: Option<&Path>) -> Result<()> {
    let text = match policy {
        Some(file) => fs::read_to_string(file).with_context(|| file.display().to_string())?,
        None => ACCEPT_EVERYTHING.into(),
    };
    namespace.feed("nft", &["-f", "-"], &text)
}

/// Returns the programs that load a fragment, from its line `# tools: iptables ip6tables`.
fn tools(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("# tools:"))
}

/// Returns a fragment of iptables rules with `target` in place of each NFQUEUE target. With several queues, a rule uses
/// --queue-balance, except a rule for 127.0.0.1: it is repeated for the address of each flow, and the copies use the
/// queues in turn. --queue-balance would select the queue by a hash with a random key, so two flows might share a queue
/// after one boot and not after the next.
fn adapt(text: &str, target: Target, flows: u16) -> String {
    let rule = |start: &str, flow: u16| {
        let address = format!("{}/32", loopback_address(flow));
        let start = start.replace(SERVER, &address);
        match target {
            Target::Accept => format!("{start} -j ACCEPT\n"),
            Target::Queues(queues) => format!("{start}{TARGET}--queue-num {}\n", flow % queues),
        }
    };
    text.lines()
        .map(|line| match (line.split_once(TARGET), target) {
            (None, _) => format!("{line}\n"),
            (Some((start, _)), _) if start.contains(SERVER) => {
                (0..flows).map(|flow| rule(start, flow)).collect()
            }
            (Some((start, _)), Target::Queues(queues)) if queues > 1 => {
                format!("{start}{TARGET}--queue-balance 0:{}\n", queues - 1)
            }
            (Some((start, _)), _) => rule(start, 0),
        })
        .collect()
}

/// Queue rules on the machine itself, outside of namespaces: loaded by `make rules`, and removed on drop by `make
/// unrules`.
pub struct HostSteering {
    root: PathBuf,
}

impl HostSteering {
    pub fn load(root: &Path, name: &str) -> Result<HostSteering> {
        let rules = HostSteering { root: root.into() };
        make(root, &["rules", &format!("QUEUE_RULES={name}")])?;
        Ok(rules)
    }
}

impl Drop for HostSteering {
    fn drop(&mut self) {
        // A signal that ends the run also ends its children, and so perhaps the first attempt.
        let undo = || make(&self.root, &["unrules"]);
        if let Err(error) = undo().or_else(|_| undo()) {
            eprintln!("warning: {error:#}: run `make unrules` by hand");
        }
    }
}

fn make(root: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("make")
        .arg("--no-print-directory")
        .arg("-C")
        .arg(root)
        .args(arguments)
        .stdin(Stdio::null())
        // A Ctrl-C on the terminal must end the run and not this cleanup.
        .process_group(0)
        .output()
        .context("make could not be started")?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("make {}: {}", arguments.join(" "), words.trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAGMENT: &str = "# tools: iptables\n\
        *filter\n\
        :TWINWALL - [0:0]\n\
        -A TWINWALL -d 127.0.0.1/32 -p udp -m udp --dport 9999 -j NFQUEUE --queue-num 0\n\
        -A OUTPUT -j TWINWALL\n\
        COMMIT\n";

    fn rules(text: &str) -> Vec<&str> {
        text.lines()
            .filter(|line| line.starts_with("-A TWINWALL"))
            .collect()
    }

    #[test]
    fn one_queue_leaves_the_fragment_as_it_is() {
        assert_eq!(adapt(FRAGMENT, Target::Queues(1), 1), FRAGMENT);
    }

    #[test]
    fn accept_takes_the_place_of_the_queue() {
        assert_eq!(
            rules(&adapt(FRAGMENT, Target::Accept, 1)),
            ["-A TWINWALL -d 127.0.0.1/32 -p udp -m udp --dport 9999 -j ACCEPT"]
        );
    }

    #[test]
    fn flows_take_the_queues_in_turn() {
        let text = adapt(FRAGMENT, Target::Queues(2), 3);
        let ends: Vec<(bool, bool)> = rules(&text)
            .iter()
            .enumerate()
            .map(|(flow, rule)| {
                let address = format!("-d 127.0.0.{}/32 ", flow + 1);
                (
                    rule.contains(&address),
                    rule.ends_with(&format!("--queue-num {}", flow % 2)),
                )
            })
            .collect();
        assert_eq!(ends, [(true, true); 3]);
        assert_eq!(loopback_address(255).to_string(), "127.0.1.0");
    }

    #[test]
    fn a_rule_for_many_addresses_is_spread_by_the_kernel() {
        let text = FRAGMENT.replace(SERVER, "127.0.0.0/8");
        for (target, end) in [
            (Target::Accept, "-j ACCEPT"),
            (Target::Queues(1), "-j NFQUEUE --queue-num 0"),
            (Target::Queues(3), "-j NFQUEUE --queue-balance 0:2"),
        ] {
            let rule = format!("-A TWINWALL -d 127.0.0.0/8 -p udp -m udp --dport 9999 {end}");
            assert_eq!(rules(&adapt(&text, target, 1)), [rule]);
        }
    }

    #[test]
    fn every_fragment_that_a_load_asks_for_is_there_and_is_taken_by_the_kernel() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let workloads = [
            Workload::TcpStream,
            Workload::TcpProbe,
            Workload::UdpFlood,
            Workload::TlsConnect,
        ];
        for (workload, route) in workloads
            .iter()
            .flat_map(|w| [(*w, Route::Loopback), (*w, Route::Veth)])
        {
            for target in [Target::Accept, Target::Queues(1), Target::Queues(2)] {
                let namespace = Namespace::new().unwrap();
                load(&namespace, &root, name(workload, route), target, 2).unwrap();
                let output = namespace.command("iptables-save").output().unwrap();
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let sought = match target {
                    Target::Accept => "-j ACCEPT",
                    Target::Queues(1) => "--queue-num 0",
                    Target::Queues(_) => "NFQUEUE",
                };
                let address = match (workload, route) {
                    (Workload::TlsConnect, _) => "-s 127.0.0.2/32",
                    (_, Route::Veth) => "",
                    (Workload::TcpProbe, _) => "-d 127.0.0.0/8",
                    _ => "-d 127.0.0.2/32",
                };
                assert!(
                    text.contains(sought) && text.contains(address),
                    "{workload} {route} {target:?}: {text}"
                );
            }
        }
    }

    #[test]
    fn the_kernel_takes_what_accepts_everything() {
        let namespace = Namespace::new().unwrap();
        load_policy(&namespace, None).unwrap();
        let output = namespace.command("nft").args(["list", "ruleset"]).output();
        let text = String::from_utf8_lossy(&output.unwrap().stdout).into_owned();
        assert!(text.contains("th dport { 53, 443, 9999 } accept"), "{text}");
    }

    #[test]
    fn a_broken_fragment_is_refused_with_the_tools_words() {
        let namespace = Namespace::new().unwrap();
        let lines = "*filter\n-A NOWHERE -j ACCEPT\nCOMMIT\n";
        let error = namespace.feed("iptables-restore", &[], lines);
        assert!(error
            .unwrap_err()
            .to_string()
            .starts_with("iptables-restore: "));
    }
}
