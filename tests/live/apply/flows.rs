// SPDX-License-Identifier: GPL-2.0-or-later
//! Flowtables in tables of other programs: their connections bypass a policy with names. Not every kernel has
//! flowtables, so a program in place of nft lists a rule with `flow add`.

use std::fs::{self, set_permissions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use anyhow::ensure;
use testbed::skip::not_installed;
use testbed::twin::Twin;

use super::place::{Place, Row};

pub const ROWS: &[Row] = &[("flowtables-of-others", flowtables_of_others)];

const NFT: &str = "/usr/sbin/nft";
const LISTED: &str = r"table inet other { # handle 3
	chain forward { # handle 4
		ct state established flow add @past # handle 5
	}
}";
const FORWARDED: &str = r#"table inet host {
	chain forward {
		type filter hook forward priority 0; policy accept;
		tcp dport 443 tls sni "denied.example" drop
	}
}
"#;

/// Writes the program in place of nft: it prints LISTED for `--handle -t list ruleset`, and otherwise runs nft. Returns
/// its path.
fn lister(place: &Place) -> anyhow::Result<String> {
    let real = place.folder.file("real");
    fs::copy(NFT, &real).map_err(|_| not_installed("nft"))?;
    let script = format!(
        "#!/bin/sh\ncase $* in *'--handle -t list ruleset') echo '{LISTED}' ;; *) exec {real} \"$@\" ;; esac\n"
    );
    let program = place.folder.write("nft", script)?;
    set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}

/// Runs fwctl with the program in place of nft. Returns its exit code and standard error.
fn run(place: &Place, program: &str, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let script = format!("mount --bind \"$0\" {NFT} && exec \"$@\"");
    let wrapper = ["unshare", "--mount", "sh", "-c", &script, program];
    let Output { status, stderr, .. } = place.command_under(&wrapper, arguments).output()?;
    Ok((status.code(), String::from_utf8_lossy(&stderr).into_owned()))
}

fn flowtables_of_others() -> anyhow::Result<()> {
    const FLOW: &str =
        "table inet other, chain forward: flow add @past takes connections past this policy";
    let place = Place::with_twin(Twin::C)?;
    let program = lister(&place)?;
    let policy = place.folder.write("policy.nft", FORWARDED)?;
    let input = FORWARDED.replace("hook forward", "hook input");
    let input = place.folder.write("input.nft", input)?;
    let before = place.rules()?;
    let (code, said) = run(&place, &program, &["apply", "--now", &policy])?;
    let starts = said.starts_with(&format!("error: {FLOW}"));
    ensure!(
        code == Some(2) && starts && said.contains("handle 5"),
        "{code:?}: {said}"
    );
    place.check_rules(&before)?;
    // A flowtable takes no connections of the host itself.
    let (code, said) = run(&place, &program, &["apply", "--now", &input])?;
    ensure!(code == Some(0) && !said.contains(FLOW), "{code:?}: {said}");
    let config = fs::read_to_string(place.folder.file("twinwall.conf"))?;
    place
        .folder
        .replace("twinwall.conf", config + "FLOWTABLES=allow\n")?;
    let (code, said) = run(&place, &program, &["apply", "--now", &policy])?;
    ensure!(
        code == Some(0) && said.contains(&format!("warning: {FLOW}")),
        "{code:?}: {said}"
    );
    place.done(&["unapply"])?;
    Ok(())
}
