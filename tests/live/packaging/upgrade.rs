// SPDX-License-Identifier: GPL-2.0-or-later
//! Scripts of the Debian packages in an upgrade.

use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use testbed::folder::Folder;

use super::done;

/// Runs a script of a package as on a host with systemd. Prints its commands about systemd on stderr, and does not run
/// them. Arguments: the script and its arguments.
const RECORDED: &str = r#"mount -t tmpfs none /run && mkdir -p /run/systemd/system || exit
for name in deb-systemd-helper deb-systemd-invoke systemctl systemd-sysusers; do
    eval "$name() { echo $name \"\$@\" >&2; }"
done
. "$@""#;

/// Returns the commands about systemd that the scripts of a package run in an upgrade, one a line.
fn commands(package: &Path) -> anyhow::Result<String> {
    let folder = Folder::new()?;
    let control = folder.path().join("control");
    let mut unpack = Command::new("dpkg-deb");
    done(unpack.arg("--control").arg(package).arg(&control))?;
    let mut commands = String::new();
    for (script, action) in [
        ("prerm", "upgrade"),
        ("preinst", "upgrade"),
        ("postrm", "upgrade"),
        ("postinst", "configure"),
    ] {
        let script = control.join(script);
        if script.exists() {
            let mut shell = Command::new("unshare");
            shell.args(["--mount", "bash", "-c", RECORDED, "bash"]);
            let output = done(shell.arg(script).args([action, "0.1"]))?;
            commands += &String::from_utf8_lossy(&output.stderr);
        }
    }
    Ok(commands)
}

/// Fails if an upgrade starts or stops a unit.
fn check_untouched(commands: &str, unit: &str) -> anyhow::Result<()> {
    let is_touched = |line: &&str| line.contains(unit) && !line.starts_with("deb-systemd-helper ");
    let touched = commands.lines().find(is_touched);
    ensure!(touched.is_none(), "an upgrade runs {touched:?}");
    Ok(())
}

/// Checks that an upgrade starts and stops neither the unit that loads the policy nor the record of packets, restarts
/// the agent, and leaves the policy's unit enabled.
/// - common, fleet: the packages twinwall-common and twinwall-fleet.
pub fn check(common: &Path, fleet: &Path) -> anyhow::Result<()> {
    let said = commands(common)?;
    check_untouched(&said, "twinwall.service")?;
    for expected in [
        "deb-systemd-helper enable twinwall.service\n",
        "systemctl daemon-reload\n",
    ] {
        ensure!(said.contains(expected), "{expected:?} is not in: {said}");
    }
    let said = commands(fleet)?;
    check_untouched(&said, "twinwall-record.service")?;
    let restart = "deb-systemd-invoke restart twinwall-agent.service ";
    ensure!(said.contains(restart), "{restart:?} is not in: {said}");
    Ok(())
}
