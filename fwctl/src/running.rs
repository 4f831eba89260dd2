// SPDX-License-Identifier: GPL-2.0-or-later
//! Options and policy of the running firewall. `explain` and `diff` decide packets by them; other commands check them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use nix::sys::socket::UnixCredentials;
use nix::unistd::{Gid, Uid};
use rust_firewall::options::{self, Options, OptionsAction, OptionsSituation};
use rust_firewall::packet::verdict::{self, Verdict};
use rust_firewall::policy::{parse, Policy};

use crate::answer::{Status, StatusPolicy};
use crate::failure::{tell, Exit, Failure};
use crate::rights;

/// Returns the options of a running firewall, parsed by the library from its arguments.
pub fn options(status: &Status) -> Result<Options, Failure> {
    let program = OsString::from(options::PROGRAM);
    let given = status.arguments.iter().map(OsString::from);
    let arguments: Vec<OsString> = std::iter::once(program).chain(given).collect();
    match options::parse(&arguments) {
        Ok(OptionsAction::Run(options)) => Ok(options),
        Ok(_) => Err("they do not start a firewall".to_owned()),
        Err(failure) => Err(failure.text),
    }
    .map_err(|why| {
        Failure::new(
            Exit::Refused,
            format_args!(
                "unsupported arguments of the running firewall ({why}): use fwctl and firewall \
                 of the same version"
            ),
        )
    })
}

/// Returns options for `explain` that make it decide like the running firewall.
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

/// Returns an absolute path for a path of the firewall, which may be relative to its working directory.
fn absolute(status: &Status, path: &str) -> PathBuf {
    let path = Path::new(path);
    let folder = fs::read_link(format!("/proc/{}/cwd", status.pid));
    match folder {
        Ok(folder) if path.is_relative() => folder.join(path),
        _ => path.to_owned(),
    }
}

/// Returns true if a policy file has changed since the firewall loaded it; false if there is no file. Fails if it is
/// not a regular file: reading a pipe may never end.
fn has_changed(path: &Path, policy: &StatusPolicy) -> Result<bool, Failure> {
    let Ok(data) = fs::metadata(path) else {
        return Ok(false); // reading it reports the reason
    };
    if !data.is_file() {
        let shown = path.display();
        let text = format!("{shown}, the policy of the running firewall, is no file: name one");
        return Err(Failure::new(Exit::Usage, text));
    }
    let changed = data.modified().ok();
    let changed_ms = changed.map(|time| time.duration_since(UNIX_EPOCH).unwrap_or_default());
    Ok(changed_ms.is_some_and(|time| time.as_millis() > u128::from(policy.loaded_ms)))
}

/// Fails if the firewall's policy file can't be read, or if one of its expectations is broken or can't be decided.
/// Other errors in the file are reported by the firewall. If the path is no regular file, nothing is checked.
/// - writer: credentials of the firewall's process, as the kernel reports them; the file is read with these rights.
///   None: nothing is checked.
pub fn check_expectations(status: &Status, writer: Option<UnixCredentials>) -> Result<(), Failure> {
    let (Some(policy), Some(writer)) = (&status.policy, writer) else {
        return Ok(());
    };
    let path = absolute(status, &policy.file);
    if !fs::metadata(&path).is_ok_and(|data| data.is_file()) {
        return Ok(());
    }
    let settings = expect::Settings::from(&options(status)?);
    let (user, group) = (Uid::from_raw(writer.uid()), Gid::from_raw(writer.gid()));
    rights::as_user(user, group, || {
        let source = stage::file(&path.to_string_lossy())
            .and_then(|source| source.map_lists(|list| Ok(list.to_owned())));
        let source = source.map_err(|error| {
            let text = format!(
                "{error}, so expectations can't be decided: run fwctl as root or as user {user}"
            );
            Failure::new(Exit::Refused, text)
        })?;
        apply::expectations::check(&source, &settings)?;
        Ok(())
    })?
}

/// The running policy, read from its file.
pub struct Read {
    pub path: PathBuf,
    pub policy: Policy,
    /// True if the file has changed since the firewall loaded it.
    pub has_changed: bool,
}

/// Reads the running policy. The firewall names the file and may be compromised, so the file is read with the rights of
/// the firewall's user.
/// - writer: credentials of the process that answered, as the kernel reports them.
pub fn read(status: &Status, writer: Option<UnixCredentials>) -> Result<Read, Failure> {
    let Some(policy) = &status.policy else {
        return Err(Failure::new(
            Exit::Usage,
            "the running firewall has no policy: start it with --policy",
        ));
    };
    let Some(writer) = writer else {
        return Err(Failure::new(
            Exit::Refused,
            "the user of the firewall is unknown: name the policy",
        ));
    };
    let path = absolute(status, &policy.file);
    let (user, group) = (Uid::from_raw(writer.uid()), Gid::from_raw(writer.gid()));
    rights::as_user(user, group, || {
        let has_changed = has_changed(&path, policy)?;
        let read = parse::file(&path.to_string_lossy()).map_err(|failure| {
            let text = format!(
                "{} (read as user {user}, as which the firewall runs)",
                failure.text
            );
            Failure::new(Exit::Usage, text)
        })?;
        Ok(Read {
            path,
            policy: read,
            has_changed,
        })
    })?
}

/// Reads the running policy. Returns the path of its file and the policy. Warns if the file has changed since the
/// firewall loaded it.
pub fn policy(
    status: &Status,
    writer: Option<UnixCredentials>,
) -> Result<(PathBuf, Policy), Failure> {
    let read = read(status, writer)?;
    if read.has_changed {
        let shown = read.path.display();
        let text = format!(
            "{shown} has changed since it was loaded: this output describes its present text"
        );
        tell("warning", text);
    }
    Ok((read.path, read.policy))
}
