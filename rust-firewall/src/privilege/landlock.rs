// SPDX-License-Identifier: GPL-2.0-or-later
//! Which files may be opened once the program runs (landlock(7)): those of the policy's folders to
//! read, the events file to write, the control socket to remove. Nothing else, no device, no TCP
//! connection or port, no socket with an abstract name, no signal to others; each as far as the
//! kernel knows it.

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

/// The newest version that is used; older kernels do what they can of it.
const NEWEST: ABI = ABI::V6;

/// All that can be refused. systemd's own socket may have an abstract name.
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

/// Allows something below a folder. One that this user can't reach needs no rule.
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

/// Allows something in the folder of a file, and in that of the file that a link leads to.
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

/// Adds the rules.
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

/// Enforces the rules for the calling thread and those that it starts. Needs no_new_privs.
/// - options: what it names is allowed; none = nothing.
/// - policy: whose files' folders are readable.
/// - Returns the version of the kernel's Landlock; 0 = it has none, and nothing is in force.
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
