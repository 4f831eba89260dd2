// SPDX-License-Identifier: GPL-2.0-or-later
//! `explain`: explains the running policy's decisions on a capture's packets. It uses the Rust twin's library in
//! process: both twins explain alike, to the byte.

use std::ffi::OsString;

use nix::sys::socket::UnixCredentials;
use rust_firewall::base::log::LogExit;
use rust_firewall::options::{self, Options, OptionsAction};
use rust_firewall::policy::Policy;

use crate::answer::Status;
use crate::arguments::{self, Arguments};
use crate::client;
use crate::failure::{tell, Exit, Failure};
use crate::running;

/// Parses words of the command line as the firewall's own `explain` would.
fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Options, String> {
    let begin = [options::PROGRAM, "explain"].map(OsString::from);
    let all: Vec<OsString> = begin.into_iter().chain(words).collect();
    match options::parse(&all) {
        Ok(OptionsAction::Explain(options)) => Ok(options),
        // --help and --version belong to this program.
        Ok(_) => Err("explain needs a capture: see --help".to_owned()),
        Err(failure) => Err(failure.text),
    }
}

/// Requests the firewall's status; also returns the sender's credentials, as the kernel reports them.
fn ask(arguments: &Arguments) -> Result<(Status, Option<UnixCredentials>), Failure> {
    let mut client = client::connect(&arguments.socket)?;
    let status = client.status()?;
    Ok((status, client.writer()))
}

/// Returns the options of `explain`: those of the command line, otherwise those by which the running firewall decides
/// (the defaults if no firewall answers). Also returns the running policy; None if the command line names a policy.
fn prepare(
    arguments: &Arguments,
    given: &arguments::Explain,
) -> Result<(Options, Option<Policy>), Failure> {
    let json = arguments.json.then(|| OsString::from("--json"));
    let words: Vec<OsString> = json
        .into_iter()
        .chain(given.words.iter().cloned())
        .collect();
    let with_policy = parse(words.iter().cloned());
    let (status, writer) = match (ask(arguments), &with_policy) {
        (Ok(asked), _) => asked,
        (Err(_), Ok(options)) => {
            tell(
                "note",
                "no firewall was used: options that are not given have their defaults",
            );
            return Ok((options.clone(), None));
        }
        (Err(failure), Err(_)) => return Err(failure),
    };
    let mut all = running::explain_options(&running::options(&status)?);
    let mut policy = None;
    if with_policy.is_err() {
        let (path, read) = running::policy(&status, writer)?;
        all.push(path.into_os_string());
        policy = Some(read);
    }
    all.extend(words);
    // An error besides the missing policy appears in both attempts.
    let lacks_policy = |why: &String| why.contains("needs a policy");
    let own = with_policy.err().filter(|why| !lacks_policy(why));
    let options = parse(all).map_err(|why| Failure::new(Exit::Usage, own.unwrap_or(why)))?;
    Ok((options, policy))
}

pub fn run(arguments: &Arguments, given: &arguments::Explain) -> Result<Exit, Failure> {
    let (options, policy) = prepare(arguments, given)?;
    let explained = match policy {
        Some(policy) => rust_firewall::explain::run_policy(&options, policy),
        None => rust_firewall::explain::run(&options),
    };
    Ok(match explained {
        LogExit::Stopped => Exit::Fine,
        LogExit::Usage => Exit::Usage,
        LogExit::Call if options.explain.expect => Exit::Findings,
        _ => Exit::Refused,
    })
}
