// SPDX-License-Identifier: GPL-2.0-or-later
//! Access to files while the program runs (landlock(7)): it may read files in the policy's folders, create and write
//! files in the events file's folder, and remove files in the control socket's folder. It may open nothing else: no
//! device, no TCP connection or port, no abstract socket (unless systemd's is one); and it may signal no other process.
//! All of this applies as far as the kernel supports it.

use std::fs;
use std::path::Path;

use landlock::{
    Access, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, ABI,
};
use nix::errno::Errno;

use crate::base::log::{failure_set_start, Failure};
use crate::options::Options;
use crate::policy::Policy;

/// Newest version of Landlock that is used; on older kernels a part of it applies.
const NEWEST: ABI = ABI::V6;

/// Creates a ruleset that refuses everything that the kernel's version of Landlock can refuse; for versions after 6,
/// everything that version 6 can refuse. Rules that are added later allow exceptions. Abstract sockets are not refused
/// if systemd's socket for notifications is an abstract socket.
fn make_ruleset() -> Result<RulesetCreated, RulesetError> {
    let notify = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let mut scope = BitFlags::from(Scope::Signal);
    if !notify.as_encoded_bytes().starts_with(b"@") {
        scope |= Scope::AbstractUnixSocket;
    }
    Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(scope)?
        .create()
}

/// Adds a rule that allows an access below a folder. If the folder can't be opened, adds no rule and succeeds.
fn allow_folder(
    ruleset: RulesetCreated,
    folder: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    match PathFd::new(folder) {
        Ok(folder) => ruleset.add_rule(PathBeneath::new(folder, access)),
        Err(_) => Ok(ruleset),
    }
}

/// Adds rules that allow an access in the folder of a file and, if the file is a link, in the folder of the link's
/// target.
fn allow(
    mut ruleset: RulesetCreated,
    file: &str,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let folder_of = |file: &Path| file.parent().unwrap_or(file).to_owned();
    ruleset = allow_folder(ruleset, &folder_of(Path::new(file)), access)?;
    match fs::canonicalize(file) {
        Ok(target) => allow_folder(ruleset, &folder_of(&target), access),
        Err(_) => Ok(ruleset),
    }
}

fn is_file(events: &str) -> bool {
    events != "-" && !events.starts_with("unix:")
}

/// Adds the rules for the files that the options and the policy name.
fn allow_all(
    mut ruleset: RulesetCreated,
    options: Option<&Options>,
    policy: Option<&Policy>,
) -> Result<RulesetCreated, RulesetError> {
    for file in policy.map_or(&[][..], |policy| &policy.files) {
        ruleset = allow(ruleset, file, AccessFs::ReadFile.into())?;
    }
    let events = options.and_then(|options| options.events.as_deref());
    if let Some(events) = events.filter(|events| is_file(events)) {
        ruleset = allow(ruleset, events, AccessFs::WriteFile | AccessFs::MakeReg)?;
    }
    if let Some(control) = options.and_then(|options| options.control.as_deref()) {
        ruleset = allow(ruleset, control, AccessFs::RemoveFile.into())?;
    }
    Ok(ruleset)
}

/// Enforces Landlock's rules for the calling thread and the threads that it starts. Needs no_new_privs.
/// - options: options with the files that may be accessed; None = no files.
/// - policy: policy whose files' folders may be read; None = no folders.
/// - Returns the version of the kernel's Landlock; 0 = the kernel has none, and nothing is enforced.
pub fn landlock(options: Option<&Options>, policy: Option<&Policy>) -> Result<i32, Failure> {
    let restricted = make_ruleset()
        .and_then(|ruleset| allow_all(ruleset, options, policy))
        .and_then(RulesetCreated::restrict_self)
        .map_err(|_| failure_set_start("landlock_restrict_self", Errno::last()))?;
    Ok(match restricted.landlock {
        LandlockStatus::Available {
            effective_abi,
            kernel_abi,
        } => kernel_abi.unwrap_or(effective_abi as i32),
        _ => 0,
    })
}
