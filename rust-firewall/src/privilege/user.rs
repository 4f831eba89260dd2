// SPDX-License-Identifier: GPL-2.0-or-later
//! User that a firewall changes to if root has started it.

use nix::unistd::{Gid, Uid, User};

use crate::base::log::{failure_set, Failure, LogExit};
use crate::options::values;

/// Name of the user that a firewall without --user changes to if root has started it.
const USER_OWN: &str = "twinwall";

/// User that a firewall changes to if root has started it.
pub struct PrivilegeUser {
    pub uid: Uid,
    pub gid: Gid,
    /// Name of the user for messages.
    pub name: String,
}

/// Parses the numeric ID of a user or a group.
fn parse_id(text: &str) -> Option<u32> {
    values::parse_number(text.as_bytes(), u32::MAX - 1)
}

/// Parses UID or UID:GID, which need not exist. Without GID, the group is that of the user, or the group with the
/// number UID if there is no such user.
fn parse_numbers(text: &str) -> Option<PrivilegeUser> {
    let (uid, gid) = match text.split_once(':') {
        Some((uid, gid)) => (parse_id(uid)?, parse_id(gid)?),
        None => {
            let uid = parse_id(text)?;
            let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            (uid, known.map_or(uid, |user| user.gid.as_raw()))
        }
    };
    Some(PrivilegeUser {
        uid: Uid::from_raw(uid),
        gid: Gid::from_raw(gid),
        name: text.to_owned(),
    })
}

/// Finds the user to change to. Fails if no user has the name, unless the name is UID or UID:GID.
/// - name: value of --user; None = the user "twinwall".
pub fn find(name: Option<&str>) -> Result<PrivilegeUser, Failure> {
    let known = User::from_name(name.unwrap_or(USER_OWN)).ok().flatten();
    if let Some(user) = known {
        return Ok(PrivilegeUser {
            uid: user.uid,
            gid: user.gid,
            name: user.name,
        });
    }
    let Some(name) = name else {
        return Err(failure_set(
            LogExit::Usage,
            format_args!(
                "there is no user \"{USER_OWN}\" for the firewall to become: make it (in a checkout \
                 sudo make user; the packages do by systemd-sysusers), or choose another with --user \
                 NAME"
            ),
        ));
    };
    parse_numbers(name).ok_or_else(|| {
        failure_set(
            LogExit::Usage,
            format_args!("there is no user \"{name}\": choose another with --user"),
        )
    })
}
