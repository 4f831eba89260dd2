// SPDX-License-Identifier: GPL-2.0-or-later
//! Trial of the policy before it is loaded: on the packets of the last minute that the unit twinwall-record has
//! recorded; without a record, on the next packets of a running firewall.

use std::path::Path;

use fleet::local::past;
use fleet::report::{Flip, Trial};

use super::arguments::Init;
use crate::applied::trust;
use crate::arguments::Arguments;
use crate::failure::{tell, Failure};
use crate::{diff, instance, output};

/// Maximum age of the recorded packets on which a policy is tried, in seconds.
const RECORDED_SECONDS: u32 = 60;
/// Time for which the policy is tried on the packets of a running firewall.
const LIVE_SECONDS: u32 = 10;

/// Returns a line for each rule that decides packets differently.
/// - change: words between the numbers and the rule, such as "would be dropped by".
fn lines(flips: &[Flip], change: &str) -> Vec<String> {
    let line = |flip: &Flip| {
        let (packets, flows) = (flip.packets, flip.flows.unwrap_or_default());
        format!("{packets} packets of {flows} flows {change} {}", flip.rule)
    };
    flips.iter().map(line).collect()
}

/// Tries a policy on packets that the unit twinwall-record has recorded. Returns None if there is no record.
/// - folder: a private folder for a temporary file.
fn recorded(asked: &Init, folder: &Path, policy: &Path) -> Result<Option<Trial>, String> {
    let fwctl = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
    let old = asked.policy.exists().then_some(asked.policy.as_path());
    let mut trial = Trial {
        seconds: RECORDED_SECONDS,
        ..Trial::default()
    };
    let nothing = folder.join("nothing.nft");
    let has_record = past::decide(&fwctl, &asked.record, (old, policy), &nothing, &mut trial);
    has_record
        .map(|has_record| has_record.then_some(trial))
        .map_err(|failure| failure.text)
}

/// Prints the outcome of a trial on the record.
fn report(trial: &Trial) {
    let seconds = trial.recorded.unwrap_or_default();
    tell(
        "note",
        format_args!("the policy was tried on the packets of the last {seconds} s"),
    );
    let mut all = lines(&trial.drops, "would be dropped by");
    all.extend(lines(&trial.passes, "would pass, and are dropped now by"));
    if all.is_empty() {
        all.push("it decides each of them as now".to_owned());
    }
    output::lines(&all);
}

/// Tries a policy on the packets that a running firewall decides meanwhile. Does nothing if no firewall runs.
fn live(arguments: &Arguments, policy: &Path) -> Result<(), String> {
    let Some(socket) = instance::socket(arguments)
        .ok()
        .filter(|socket| socket.exists())
    else {
        return Ok(());
    };
    tell(
        "note",
        format_args!("trying the policy on {LIVE_SECONDS} s of the running firewall's packets"),
    );
    let lines = diff::live(&socket, policy, LIVE_SECONDS).map_err(|failure| failure.text)?;
    output::lines(&lines);
    Ok(())
}

/// Tries a policy's text on packets, and prints what it would decide differently.
pub fn run(arguments: &Arguments, asked: &Init, text: &str) -> Result<(), Failure> {
    let folder = tempfile::tempdir().map_err(trust::at(&std::env::temp_dir()))?;
    let policy = folder.path().join("policy.nft");
    std::fs::write(&policy, text).map_err(trust::at(&policy))?;
    let tried = match recorded(asked, folder.path(), &policy) {
        Ok(Some(trial)) => {
            report(&trial);
            Ok(())
        }
        Ok(None) => live(arguments, &policy),
        Err(why) => Err(why),
    };
    if let Err(why) = tried {
        tell("note", format_args!("it was not tried on packets: {why}"));
    }
    Ok(())
}
