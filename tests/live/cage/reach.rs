// SPDX-License-Identifier: GPL-2.0-or-later
//! What a command in a cage reaches, and how it learns that it does not.

use std::time::Instant;

use anyhow::ensure;
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::scene::{Scene, BAD, GOOD, SHARED};

pub const ROWS: &[Row] = &[
    ("allow", 180, allow),
    ("addresses", 120, addresses),
    ("slirp4netns", 120, slirp),
    ("root", 120, root),
    ("policy", 120, policy),
    ("learn", 180, learn),
    ("report", 120, report),
    ("print", 60, print),
];

const ALLOW: [&str; 2] = ["--allow", "good.example"];

/// An HTTPS or HTTP request; says the status or fails at once.
fn curl(more: &str) -> String {
    format!("curl -sS --max-time 20 {more}")
}

fn allow(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    for version in ["-4", "-6"] {
        for url in ["http://good.example/", "https://good.example/"] {
            let said = scene.shell(&ALLOW, &curl(&format!("{version} {url}")))?;
            ensure!(
                said.code(0)? == "good.example here\n",
                "{url}: {}",
                said.all()
            );
            ensure!(said.stderr.is_empty(), "nothing was denied: {}", said.all());
        }
    }
    // A name is asked for in DNS, in the connection, and as the address that it has.
    let denied = [
        (
            "https://bad.example/",
            "dns name bad.example (169.254.53.53:53): question not allowed",
        ),
        (
            &format!("https://{}/", BAD[0]),
            "tcp 203.0.113.11:443: address not allowed",
        ),
        (
            &format!("-g https://[{}]/", BAD[1]),
            "tcp [2001:db8:2::11]:443: address not allowed",
        ),
        (
            &format!("-k --connect-to ::{}: https://good.example:443/", BAD[0]),
            "tcp 203.0.113.11:443: address not allowed",
        ),
        (
            "-4 -H 'Host: bad.example' http://good.example/",
            "http host bad.example (203.0.113.10:80): name not allowed",
        ),
        (
            "-4 -k --connect-to bad.example::good.example: https://bad.example/",
            "tls sni bad.example (203.0.113.10:443): name not allowed",
        ),
        (
            "-4 http://good.example:443/",
            "http host good.example (203.0.113.10:443): name not allowed",
        ),
        (
            "-4 telnet://good.example:22",
            "tcp 203.0.113.10:22: address not allowed",
        ),
    ];
    for (words, expected) in denied {
        let began = Instant::now();
        let said = scene.shell(&[&["--verbose"], &ALLOW[..]].concat(), &curl(words))?;
        ensure!(said.code != Some(0), "{words} came through: {}", said.all());
        ensure!(
            !said.stderr.contains("timed out"),
            "{words} waited: {}",
            said.all()
        );
        ensure!(
            began.elapsed().as_secs() < 15,
            "{words} waited: {}",
            said.all()
        );
        said.says(&format!("denied: {expected}\n"))?;
        said.says(&format!("  {expected}\n"))?;
    }
    ensure!(
        !scene.asked()?.contains("bad.example"),
        "a question came out: {}",
        scene.asked()?
    );
    Ok(())
}

fn addresses(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let open = format!("{}:80", BAD[0]);
    let said = scene.shell(&["--allow", &open], &curl(&format!("http://{}/", BAD[0])))?;
    said.code(0)?;
    let said = scene.shell(&["--allow", &open], &curl(&format!("https://{}/", BAD[0])))?;
    said.code(7)?;
    let said = scene.shell(
        &["--allow", "2001:db8::/32"],
        &curl(&format!("-g http://[{}]/", SHARED[1])),
    )?;
    said.code(0)?;
    // Of a wildcard the names below; a port of its own by the address alone.
    let said = scene.shell(
        &["--allow", "*.wild.example"],
        &curl("https://a.wild.example/"),
    )?;
    said.code(0)?;
    let said = scene.shell(
        &["--allow", "*.wild.example"],
        &curl("https://wild.example/"),
    )?;
    said.code(6)?;
    let said = scene.shell(
        &["--allow", "nobody@good.example:443"],
        &curl("http://good.example/"),
    )?;
    said.code(7)?;
    // Where nothing is allowed, nothing passes.
    for words in ["https://good.example/", &format!("http://{}/", GOOD[0])] {
        let said = scene.shell(&[], &curl(words))?;
        ensure!(said.code != Some(0), "{words} came through: {}", said.all());
    }
    Ok(())
}

fn slirp(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let options = [&["--uplink", "slirp4netns"], &ALLOW[..]].concat();
    let said = scene.shell(&options, &curl("https://good.example/"))?;
    ensure!(said.code(0)? == "good.example here\n", "{}", said.all());
    scene
        .shell(&options, &curl(&format!("http://{}/", BAD[0])))?
        .code(7)?;
    scene
        .shell(&options, &curl("https://bad.example/"))?
        .code(6)?;
    Ok(())
}

/// Root's cage keeps all users, so that programs may become them; the kernel's settings are out of its reach.
fn root(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let said = |lines: &str| -> anyhow::Result<super::scene::Said> {
        let words = [&ALLOW[..], &["--", "sh", "-c", lines]].concat();
        Ok(super::scene::Said::of(scene.run_as(true, &words).output()?))
    };
    said(&curl("https://good.example/"))?.code(0)?;
    said(&curl(&format!("http://{}/", BAD[0])))?.code(7)?;
    ensure!(
        said("id -u; setpriv --reuid 1000 --regid 1000 --clear-groups id -u")?.code(0)?
            == "0\n1000\n"
    );
    ensure!(said("echo > /proc/sys/kernel/domainname")?
        .code(2)?
        .is_empty());
    ensure!(
        said("ip link set uplink down; ip route flush table all; ip rule flush; ip -br link")?
            .stdout
            .contains("uplink")
    );
    said("ip link set uplink down")?.code(2)?;
    Ok(())
}

fn policy(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let text = "table inet build {
	chain output {
		type filter hook output priority filter; policy accept;
		tls sni \"bad.example\" reject
		http host \"bad.example\" drop
	}
	chain input { type filter hook input priority filter; policy accept; }
}
";
    let file = scene.folder.write("build.nft", text)?;
    let options = ["--verbose", "--policy", &file];
    scene
        .shell(&options, &curl("https://good.example/"))?
        .code(0)?;
    let said = scene.shell(&options, &curl("-4 https://bad.example/"))?;
    said.code(35)?;
    said.says("denied: tls sni bad.example (203.0.113.11:443): by build.nft:4\n")?;
    // What is wrong with a policy is said by its place, and the command is not run.
    let wrong = scene
        .folder
        .write("wrong.nft", "table inet a {\n\tchain b { acept; }\n}\n")?;
    let said = scene.shell(&["--policy", &wrong], "echo ran")?;
    ensure!(said.code(125)?.is_empty(), "{}", said.all());
    said.says("wrong.nft:2")?;
    let is_one = said.stderr.starts_with("error: ") && said.stderr.lines().count() == 1;
    ensure!(is_one, "one line: {}", said.all());
    let said = scene.shell(&["--policy", "missing.nft"], "echo ran")?;
    ensure!(said.code(125)?.is_empty(), "{}", said.all());
    Ok(())
}

/// What a command reached is enough for it the next time, and for nothing else.
fn learn(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let learnt = scene.folder.file("learnt.nft");
    let lines = "curl -sS --max-time 20 https://good.example/ http://front.example/";
    scene.shell(&["--learn", &learnt], lines)?.code(0)?;
    let text = std::fs::read_to_string(&learnt)?;
    for witness in [
        "#   good.example\n#     tls sni good.example (",
        "#   front.example\n#     http host front.example (",
    ] {
        ensure!(text.contains(witness), "{witness} is missing: {text}");
    }
    let said = scene.shell(&["--policy", &learnt], lines)?;
    ensure!(
        said.code(0)? == "good.example here\nfront.example here\n",
        "{}",
        said.all()
    );
    ensure!(said.stderr.is_empty(), "{}", said.all());
    scene
        .shell(&["--policy", &learnt], &curl("https://bad.example/"))?
        .code(6)?;
    Ok(())
}

fn report(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let file = scene.folder.file("report.json");
    let lines = format!(
        "for i in 1 2 3; do {}; done; {}; exit 3",
        curl("-4 https://good.example/"),
        curl(&format!("http://{}/", BAD[0]))
    );
    let said = scene.shell(&[&["--report", &file], &ALLOW[..]].concat(), &lines)?;
    said.code(3)?;
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    let allowed = &report["allowed"];
    let is_https = |row: &&serde_json::Value| row["name"] == "good.example" && row["port"] == 443;
    let row = allowed
        .as_array()
        .and_then(|rows| rows.iter().find(is_https));
    ensure!(row.is_some_and(|row| row["connections"] == 3), "{report:#}");
    ensure!(
        report["denied"][0]["address"] == BAD[0] && report["exit"] == 3,
        "{report:#}"
    );
    Ok(())
}

fn print(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let said = scene.run(&[&["--print"], &ALLOW[..]].concat())?;
    let text = said.code(0)?;
    for words in [
        "pasta --foreground",
        "queue num 0",
        "-j NFQUEUE --queue-num 0",
        "\"good.example\"",
        "no capability",
    ] {
        ensure!(text.contains(words), "{words} is missing: {text}");
    }
    ensure!(!text.contains("bypass"), "{text}");
    Ok(())
}
