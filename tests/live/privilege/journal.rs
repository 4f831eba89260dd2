// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines on stderr have a priority if, and only if, stderr is the journal's (sd-daemon(3)).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::ensure;
use testbed::firewall::{run_to_end, Firewall};
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::proc;
use testbed::twin::Twin;
use twinwall_tests::case::Case;

use super::running::{of_both, policy};

pub fn cases() -> Vec<Case> {
    of_both(
        "journal",
        &[("priorities", priorities), ("only-there", only_there)],
    )
}

/// Wrapper that marks stderr as the journal's, as systemd does.
const JOURNAL: [&str; 4] = [
    "sh",
    "-c",
    "JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$@\"",
    "sh",
];

fn priorities(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let ended = run_to_end(&namespace, &JOURNAL, twin, &["--user", "no-such-user"])?;
    ensure!(
        ended.stderr == "<3>error: there is no user \"no-such-user\": choose another with --user\n",
        "{}",
        ended.stderr
    );
    let folder = Folder::shared()?;
    let file = folder.write("p.nft", policy(""))?;
    let other = folder.write("other.nft", "")?;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o600))?;
    fs::write(&file, format!("include \"{other}\"\n{}", policy("")))?;
    let arguments = ["--policy", &file, "--json", "--log-level", "debug"];
    let firewall = Firewall::start_under(&namespace, &JOURNAL, twin, &arguments)?;
    proc::signal(firewall.pid, libc::SIGHUP);
    firewall.ledger()?; // behind the reload, which fails
    fs::write(&file, policy(""))?;
    proc::signal(firewall.pid, libc::SIGHUP);
    firewall.ledger()?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let has = |start: &str| ended.stderr.lines().any(|line| line.starts_with(start));
    for start in ["<3>error: ", "<4>warning: ", "<6>info: ", "<7>debug: "] {
        ensure!(has(start), "no {start}: {}", ended.stderr);
    }
    ensure!(
        ended.stderr.lines().all(|line| line.starts_with('<')),
        "a line without a priority: {}",
        ended.stderr
    );
    Ok(())
}

/// Checks that log lines have no priority if JOURNAL_STREAM does not identify stderr, as in a service that redirects
/// stderr.
fn only_there(twin: Twin) -> anyhow::Result<()> {
    for stream in ["JOURNAL_STREAM=1:2", "JOURNAL_STREAM=", "JOURNAL_STREAM=x"] {
        let arguments = ["--user", "no-such-user"];
        let ended = run_to_end(&namespace()?, &["env", stream], twin, &arguments)?;
        ensure!(
            ended.stderr.starts_with("error: "),
            "{stream}: {}",
            ended.stderr
        );
    }
    Ok(())
}
