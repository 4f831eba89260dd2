// SPDX-License-Identifier: GPL-2.0-or-later
//! What the running firewall decides by, for those who decide on packets here: `explain` and `diff`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rust_firewall::options::{self, Options, OptionsAction, OptionsSituation};
use rust_firewall::packet::verdict::{self, Verdict};

use crate::answer::Status;
use crate::failure::{tell, Exit, Failure};

/// The options of a running firewall, as the library reads its arguments.
pub fn options(status: &Status) -> Result<Options, Failure> {
    let program = OsString::from(options::PROGRAM);
    let given = status.arguments.iter().map(OsString::from);
    let arguments: Vec<OsString> = std::iter::once(program).chain(given).collect();
    match options::parse(&arguments) {
        Ok(OptionsAction::Run(options)) => Ok(options),
        Ok(_) => Err("they are those of no firewall".to_owned()),
        Err(failure) => Err(failure.text),
    }
    .map_err(|why| {
        Failure::new(
            Exit::Refused,
            format_args!(
                "the arguments of the running firewall are not understood ({why}): are fwctl and \
                 the firewall of one version?"
            ),
        )
    })
}

/// The options of the command `explain` that decide as the running firewall does.
pub fn explain_options(options: &Options) -> Vec<OsString> {
    let fail = |situation| match options.fail_open[situation as usize] {
        true => "open",
        false => "closed",
    };
    let by = match options.malformed_by_policy {
        true => "policy",
        false => "fail",
    };
    [
        format!("--default={}", verdict::name(options.default_verdict)),
        format!(
            "--fail=malformed={},truncated={},unknown={}",
            fail(OptionsSituation::Malformed),
            fail(OptionsSituation::Truncated),
            fail(OptionsSituation::Unknown)
        ),
        match options.undecided_verdict {
            Verdict::Accept => format!("--undecided=accept:{}", options.undecided_bytes),
            other => format!("--undecided={}", verdict::name(other)),
        },
        format!("--malformed={by}"),
    ]
    .map(OsString::from)
    .to_vec()
}

/// A path of the firewall's, which may be meant from its working directory.
fn absolute(status: &Status, path: &str) -> PathBuf {
    let path = Path::new(path);
    let folder = std::fs::read_link(format!("/proc/{}/cwd", status.pid));
    match folder {
        Ok(folder) if path.is_relative() => folder.join(path),
        _ => path.to_owned(),
    }
}

/// The file of the running policy. Warns if it is not what was loaded any more.
pub fn policy(status: &Status) -> Result<PathBuf, Failure> {
    let Some(policy) = &status.policy else {
        return Err(Failure::new(
            Exit::Usage,
            "the running firewall has no policy: start it with --policy",
        ));
    };
    let path = absolute(status, &policy.file);
    let changed = std::fs::metadata(&path).and_then(|data| data.modified());
    let changed_ms = changed.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    if changed_ms.is_ok_and(|time| time.as_millis() > u128::from(policy.loaded_ms)) {
        tell(
            "warning",
            format_args!(
                "{} has changed since it was loaded: what is said here is by what it says now",
                path.display()
            ),
        );
    }
    Ok(path)
}
