// SPDX-License-Identifier: GPL-2.0-or-later
//! `doctor`: finds problems of this machine and its firewall, and shows how to solve them.

mod before;
mod boot;
mod cpu;
pub mod cure;
mod daemon;
mod finding;
mod flows;
pub mod hooks;
pub mod iptables;
mod kernel;
mod landlock;
mod limits;
mod metrics;
mod netlink;
pub mod nft;
mod owner;
mod reload;
pub mod rights;
pub mod ruleset;
mod source;
pub mod tools;

use std::ffi::OsString;
use std::path::Path;

use nix::sys::socket::UnixCredentials;
use rust_firewall::options::{self, Options, OptionsAction, OptionsSituation};
use rust_firewall::policy::{self, Hook};

use crate::answer::Status;
use crate::arguments::{Arguments, Doctor};
use crate::client;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::running;

use finding::Findings;

/// Host under examination, with its running firewall.
pub struct Patient {
    /// Status of the running firewall; None if none answered.
    status: Option<Status>,
    /// Credentials of the process that answered, as the kernel reports them.
    writer: Option<UnixCredentials>,
    /// Options of the running firewall; None if no firewall answered, or its arguments can't be parsed.
    options: Option<Options>,
    queues: Vec<u16>,
}

impl Patient {
    fn is_running(&self) -> bool {
        self.status.is_some()
    }

    fn open(&self, situation: OptionsSituation) -> Option<bool> {
        let options = self.options.as_ref()?;
        Some(options.fail_open[situation as usize])
    }

    fn overload_open(&self) -> bool {
        self.open(OptionsSituation::Overload) == Some(true)
    }

    /// Returns true if --fail crash=open is in effect, so that packets pass after a crash. None: the options of the
    /// running firewall are unknown.
    fn crash_open(&self) -> Option<bool> {
        self.open(OptionsSituation::Crash)
    }

    fn reads_names(&self) -> bool {
        let policy = self
            .status
            .as_ref()
            .and_then(|status| status.policy.as_ref());
        policy.is_some_and(|policy| policy.requirement.names)
    }

    /// Returns the hooks of the running policy's base chains; input if the policy has none, or can't be read.
    fn hooks(&self) -> Vec<&'static str> {
        let read = self
            .status
            .as_ref()
            .map(|status| running::read(status, self.writer));
        let Some(Ok(read)) = read else {
            return vec![policy::hook_name(Hook::Input)];
        };
        let chains = read.policy.tables.iter().flat_map(|table| &table.chains);
        let hooks = chains.filter_map(|chain| chain.base.map(|base| base.hook));
        let mut hooks: Vec<&str> = hooks.map(policy::hook_name).collect();
        hooks.sort_unstable();
        hooks.dedup();
        match hooks.is_empty() {
            true => vec![policy::hook_name(Hook::Input)],
            false => hooks,
        }
    }

    /// Returns the size of the receive buffer that the firewall requests, in bytes; 64 MiB if its options are unknown.
    fn receive_buffer(&self) -> u32 {
        self.options
            .as_ref()
            .map_or(64 << 20, |options| options.receive_buffer)
    }
}

/// Returns the names of the tables of the applied policy ("inet filter"), of a policy that waits for its confirmation,
/// and of the table that identifies the generation.
fn applied_tables() -> Vec<String> {
    let state = apply::store::read(Path::new(apply::store::FOLDER));
    let state = state.ok().flatten().unwrap_or_default();
    state.tables().iter().map(ToString::to_string).collect()
}

/// Parses queues in the format of the firewall's --queue.
fn queues_of(given: &str) -> Result<Vec<u16>, Failure> {
    let words = [options::PROGRAM, "--queue", given].map(OsString::from);
    match options::parse(&words)? {
        OptionsAction::Run(options) => Ok((options.queue_first..=options.queue_last).collect()),
        _ => Ok(Vec::new()),
    }
}

/// Requests the firewall's status. Also returns the credentials of the process that answered, as the kernel reports
/// them.
fn ask(arguments: &Arguments) -> Result<(Status, Option<UnixCredentials>), Failure> {
    let mut client = client::connect(&arguments.socket)?;
    let status = client.status()?;
    Ok((status, client.writer()))
}

pub fn run(arguments: &Arguments, doctor: &Doctor) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    let named = doctor.queue.as_deref().map(queues_of).transpose()?;
    let asked = ask(arguments);
    if let Err(failure) = &asked {
        findings.unseen(format!("a running firewall: {}", failure.text));
    }
    let (status, writer) = asked.ok().unzip();
    let options = status.as_ref().map(running::options).transpose();
    let options = options.unwrap_or_else(|failure| {
        findings.unseen(failure.text);
        None
    });
    let served = status
        .as_ref()
        .map(|status| status.queues.iter().map(|queue| queue.queue).collect());
    let patient = Patient {
        status,
        writer: writer.flatten(),
        options,
        queues: named.or(served).unwrap_or(vec![0]),
    };
    daemon::check(&patient, &mut findings);
    rights::check(&mut findings, patient.is_running());
    kernel::check(&patient, &mut findings);
    owner::check(&patient, &mut findings);
    hooks::check(&patient, &mut findings);
    source::check(&patient, &mut findings);
    limits::check(&patient, &mut findings);
    cpu::check(&patient, &mut findings);
    metrics::check(&mut findings);
    match arguments.json {
        true => output::json(&findings.json()),
        false => output::lines(&findings.text()),
    };
    Ok(match findings.any() {
        true => Exit::Findings,
        false => Exit::Fine,
    })
}
