// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks whether the next reload would load the policy in the running firewall's file.

use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::interface;
use rust_firewall::options::{self, Options, OptionsConntrack};
use rust_firewall::policy::requirement::{self, Requirement};
use rust_firewall::policy::{advice, Policy};

use super::finding::Findings;
use super::{rights, Patient};
use crate::answer::{self, Status};
use crate::contract;
use crate::running::{self, Read};

/// Returns the requirement of a policy: the packet data that it reads. Fails with the reason if interfaces are missing,
/// or if the firewall's options don't provide the data.
/// - sees_interfaces: true if this process is in the firewall's network namespace.
fn requirement_of(
    policy: &Policy,
    options: &Options,
    sees_interfaces: bool,
) -> Result<Requirement, String> {
    let settings = CompileSettings {
        linear: false,
        interface_index: &|name| interface::index(name.as_bytes()),
        interfaces_must_exist: sees_interfaces,
    };
    let compiled = compile::policy(policy, &settings).map_err(|failure| failure.text)?;
    let needed = *compile::requirement(&compiled);
    options::require(options, &needed).map_err(|failure| failure.text)?;
    Ok(needed)
}

/// Returns the first kind of packet data that a policy reads and the loaded policy does not, in words; None if there is
/// none. The queues lack such data, unless the firewall's first policy has read it.
/// - by_mark: true if packets have their ct state in marks, not from the queues (--conntrack mark).
fn added(
    needed: &Requirement,
    loaded: &answer::Requirement,
    by_mark: bool,
) -> Option<&'static str> {
    let conntrack = needed.conntrack_state || needed.conntrack_mark;
    if needed.uid_gid && !loaded.uid_gid {
        Some("meta skuid or meta skgid")
    } else if conntrack && !by_mark && !loaded.conntrack_state && !loaded.conntrack_mark {
        Some("ct state or ct mark")
    } else if requirement::reads_names(needed) && !loaded.names && !loaded.learns {
        Some("names")
    } else {
        None
    }
}

/// Checks whether the firewall would load a policy that can be parsed and meets its expectations. A firewall that can't
/// reject is reported by `rights::check_reject`.
fn check_policy(
    read: &Read,
    options: &Options,
    status: &Status,
    loaded: &answer::Requirement,
    findings: &mut Findings,
) {
    let path = read.path.display();
    let sees_interfaces = contract::has_same_rules(status);
    let needed = match requirement_of(&read.policy, options, sees_interfaces) {
        Ok(needed) => needed,
        Err(why) => {
            return findings.warning(
                format!("the next reload would fail: {why}"),
                "fwctl reload  # when mended; or fwctl upgrade, with other options",
            )
        }
    };
    let by_mark = options.conntrack == OptionsConntrack::Mark;
    if let Some(what) = added(&needed, loaded, by_mark) {
        findings.warning(
            format!(
                "the next reload would fail, unless the firewall's first policy has read them: {path} reads \
                 {what}, and the loaded policy does not"
            ),
            "fwctl upgrade  # starts anew with the policy of the file, without losing a packet",
        );
    } else if !needed.reject || rights::has_raw_socket(status.pid) != Some(false) {
        let condition = match sees_interfaces {
            true => "",
            false => ", if its interfaces exist",
        };
        findings.ok(format!("{path} can be reloaded{condition}"));
    }
}

/// Checks whether the next reload would load the policy with the rights of the firewall's user, and reports rules that
/// do less than they seem to.
pub fn check(patient: &Patient, status: &Status, findings: &mut Findings) {
    let Some(loaded) = &status.policy else {
        return;
    };
    let read = running::read(status, patient.writer).and_then(|read| {
        running::check_expectations(status, patient.writer)?;
        Ok(read)
    });
    let read =
        match read {
            Ok(read) => read,
            Err(failure) => return findings.warning(
                format!("the next reload would fail: {}", failure.text),
                "fwctl reload  # when mended; the firewall's user has to be able to read the file",
            ),
        };
    match &patient.options {
        Some(options) => check_policy(&read, options, status, &loaded.requirement, findings),
        None => findings.ok(format!("{} can be parsed", read.path.display())),
    }
    advice::advise(&read.policy, &mut |text| {
        findings.warning(text, "fwctl reload  # when mended");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_the_loaded_policy_does_not_read_are_added() {
        let loaded: answer::Requirement = serde_json::from_str(
            r#"{"copy_bytes": 128, "uid_gid": false, "conntrack_state": false, "conntrack_mark": true,
            "interface_names": false, "reject": false}"#,
        )
        .unwrap();
        let nothing = Requirement::default();
        assert_eq!(added(&nothing, &loaded, false), None);
        let owners = Requirement {
            uid_gid: true,
            ..nothing
        };
        let said = added(&owners, &loaded, false);
        assert_eq!(said, Some("meta skuid or meta skgid"));
        let names = Requirement {
            names: true,
            ..nothing
        };
        assert_eq!(added(&names, &loaded, false), Some("names"));
        let states = Requirement {
            conntrack_state: true,
            ..nothing
        };
        // The queues of the loaded policy give the mark and the state alike.
        assert_eq!(added(&states, &loaded, false), None);
        let loaded = answer::Requirement {
            conntrack_mark: false,
            ..loaded
        };
        assert_eq!(added(&states, &loaded, false), Some("ct state or ct mark"));
        assert_eq!(added(&states, &loaded, true), None);
    }
}
