// SPDX-License-Identifier: GPL-2.0-or-later
//! Destinations that a command in a cage reaches, and the errors for all other destinations.

use std::process::Stdio;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::twin::{root as repository, Twin};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::life::of;
use super::scene::{Said, Scene, BAD, GOOD, SHARED};

pub const ROWS: &[Row] = &[
    ("allow", allow),
    ("addresses", addresses),
    ("addresses-are-final", final_addresses),
    ("other-resolvers", other_resolvers),
    ("slirp4netns", slirp),
    ("root", root),
    ("policy", policy),
    ("egress-names", egress_names),
    ("settled", settled),
    ("learn", learn),
    ("report", report),
    ("results-that-cannot-be-written", unwritable),
    ("print", print),
];

const ALLOW: [&str; 2] = ["--allow", "good.example"];

/// Exit code of curl after its --max-time.
const TIMED_OUT: i32 = 28;

/// Returns a shell command that sends a request with curl and prints the answer. Without an answer it fails after 20 s.
/// - more: options and URL.
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
    // The denied host is named in DNS, in a connection, and by its address.
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
        let lines = curl(&format!("--max-time 15 {words}"));
        let texts = [format!("denied: {expected}\n"), format!("  {expected}\n")];
        let options = [&["--verbose"], &ALLOW[..]].concat();
        let said = scene.shell_saying(&options, &lines, &texts.each_ref().map(String::as_str))?;
        ensure!(
            !said.stderr.contains("timed out"),
            "{words} waited: {}",
            said.all()
        );
        ensure!(
            said.code != Some(TIMED_OUT),
            "{words} waited: {}",
            said.all()
        );
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
    // A wildcard allows the names below it, but not the name itself. With a port after a name, only the address
    // decides.
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
    // A learned address is valid for at least a minute, even if its TTL is shorter. Some addresses are refused for
    // every name.
    let said = scene.shell(
        &ALLOW,
        &format!(
            "getent ahosts good.example; sleep 2; {}",
            curl(&format!(
                "--resolve good.example:443:{} https://good.example/",
                GOOD[0]
            ))
        ),
    )?;
    said.code(0)?;
    let said = scene.shell_saying(
        &["--verbose", "--allow", "rebound.example"],
        &curl("http://rebound.example/latest/meta-data"),
        &["denied: tcp 169.254.169.254:80: no address of a name\n"],
    )?;
    said.code(7)?;
    // Without --allow nothing passes.
    for words in ["https://good.example/", &format!("http://{}/", GOOD[0])] {
        let said = scene.shell(&[], &curl(words))?;
        ensure!(said.code != Some(0), "{words} came through: {}", said.all());
    }
    Ok(())
}

/// Checks that the addresses of the cage's interface are final when the command starts: a browser aborts its requests
/// if an address changes.
fn final_addresses(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let tentative = "ip address show dev uplink; echo; ip address show dev uplink tentative";
    // A busy machine may start the command before the kernel has ended its check of the addresses.
    until("no address is tentative", PATIENCE, || {
        let said = scene.shell(&ALLOW, tentative)?;
        let (all, tentative) = said.code(0)?.split_once("\n\n").context("two lists")?;
        ensure!(all.contains("inet6 fe80"), "{all}");
        Ok(tentative.is_empty())
    })
}

/// Checks that a command can't use another DNS server, at an allowed address, that answers with an address of its
/// choice.
fn other_resolvers(twin: Twin) -> anyhow::Result<()> {
    let mut scene = Scene::new(twin)?;
    let answer = format!("--address=/good.example/{}", SHARED[0]);
    let listen = format!("--listen-address={}", BAD[0]);
    let alone = [
        "--no-daemon",
        "--no-resolv",
        "--no-hosts",
        "--bind-interfaces",
    ];
    let own = [
        "--conf-file=/dev/null",
        "--pid-file=",
        "--user=root",
        &listen,
        &answer,
    ];
    scene.serve_at(
        BAD[0],
        "resolver",
        &[&["dnsmasq"], &alone[..], &own].concat(),
        53,
    )?;
    let lines = format!(
        "dig @{0} good.example +tries=1 +time=5 >&2; dig @{0} good.example +tcp +tries=1 +time=5 >&2; {1}",
        BAD[0],
        curl(&format!("--resolve good.example:80:{} http://good.example/", SHARED[0]))
    );
    let denied = format!("denied: tcp {}:80: address not allowed", SHARED[0]);
    let said = scene.shell_saying(
        &["--verbose", "--allow", "good.example", "--allow", BAD[0]],
        &lines,
        &["question to another server", &denied],
    )?;
    said.code(7).map(drop)
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

/// Checks root's cage: it maps all users, so that programs can change to them, but it can't change the kernel's
/// settings.
fn root(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let said = |lines: &str| -> anyhow::Result<Said> {
        scene.run_whole(true, &[&ALLOW[..], &["--", "sh", "-c", lines]].concat())
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
    let denied = "denied: tls sni bad.example (203.0.113.11:443): by build.nft:4\n";
    let said = scene.shell_saying(&options, &curl("-4 https://bad.example/"), &[denied])?;
    said.code(35)?;
    // An error in a policy is reported with file and line, and the command does not run.
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

/// Writes the shipped policy egress-names with the scene's name in place of its example. Returns its path.
fn egress_names_of(scene: &Scene) -> anyhow::Result<String> {
    let shipped = std::fs::read_to_string(repository().join("rules/policy/egress-names.nft"))?;
    ensure!(shipped.contains("api.example.com"), "another example");
    let text = shipped.replace("api.example.com", "good.example");
    scene.folder.write("egress-names.nft", text)
}

fn egress_names(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let file = egress_names_of(&scene)?;
    let options = ["--policy", file.as_str()];
    for url in ["https://good.example/", "http://good.example/"] {
        scene.shell(&options, &curl(url))?.code(0)?;
    }
    let denied = "dns name bad.example (169.254.53.53:53): other names, or none";
    let said = scene.shell_saying(&options, &curl("https://bad.example/"), &[denied])?;
    said.code(6).map(drop)
}

/// Python script that downloads 50 MB over a connection and waits for a file. With `again` it then opens more
/// connections between the same addresses and ports, alternately with a denied and the allowed name. An attempt waits
/// up to a minute, until the kernel removes the connection before it.
const SETTLED: &str = r#"
import errno, os, socket, ssl, sys, time
def connect(name, is_reset):
    while True:
        try:
            return connect_once(name, is_reset)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:  # the old connection lingers
                raise
        time.sleep(0.1)
def connect_once(name, is_reset):
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if is_reset:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    own.settimeout(20)
    own.bind(("0.0.0.0", 40000))
    socket.getaddrinfo("good.example", 443)  # so that the address is known
    own.connect(("203.0.113.10", 443))
    return ssl._create_unverified_context().wrap_socket(own, server_hostname=name)
def carry(is_reset):
    with connect("good.example", is_reset) as own:
        own.sendall(b"GET /big HTTP/1.0\r\nHost: good.example\r\n\r\n")
        count = 0
        while more := own.recv(1 << 16):
            count += len(more)
        return count > 50_000_000
print("carried:", carry(False))
open("home/carried", "w").close()
while not os.path.exists("home/go"):
    time.sleep(0.05)
for is_reset in (False, True) if sys.argv[1:] == ["again"] else ():
    try:
        connect("bad.example", is_reset).close()
        print("came through")
    except ConnectionResetError:
        print("denied")
    print("carried:", carry(is_reset))
"#;

/// Runs SETTLED in a cage. Returns the number of queued packets during its first download.
fn queued_while_carrying(scene: &Scene, options: &[&str], more: &[&str]) -> anyhow::Result<u64> {
    let script = scene.folder.write("settled.py", SETTLED)?;
    for name in ["home/carried", "home/go"] {
        let _ = std::fs::remove_file(scene.folder.file(name)); // of the run before, if there was one
    }
    let words = [options, &["--", "/usr/bin/python3", &script], more].concat();
    let child = scene
        .run_as(false, &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let carried = scene.folder.file("home/carried");
    until("the bytes are carried", PATIENCE, || {
        Ok(std::path::Path::new(&carried).exists())
    })?;
    let firewall = *of(scene, "-firewall --queue")?
        .first()
        .context("no firewall")?;
    let queues =
        std::fs::read_to_string(format!("/proc/{firewall}/net/netfilter/nfnetlink_queue"))?;
    let queued: u64 = queues
        .split_whitespace()
        .nth(7)
        .context("no queue")?
        .parse()?;
    std::fs::write(scene.folder.file("home/go"), "")?;
    let said = Said::of(child.wait_with_output()?);
    let others = "denied\ncarried: True\n".repeat(2 * more.len());
    let expected = format!("carried: True\n{others}");
    ensure!(said.code(0)? == expected, "{}", said.all());
    Ok(queued)
}

/// Checks that the packets of a connection are not queued after its names are final, until another connection begins
/// between the same addresses and ports. The caller's own policy has the same effect, unless a limit in it must see
/// each packet.
fn settled(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let big = std::fs::File::create(scene.folder.file("www/big"))?;
    big.set_len(50_000_000)?;
    let own = egress_names_of(&scene)?;
    let bounded = "table inet bounded {\n\tchain input {\n\t\ttype filter hook input priority 1; policy accept;\n\t\tlimit rate over 1000000/second burst 1000000 packets drop\n\t}\n}\n";
    let text = std::fs::read_to_string(&own)? + bounded;
    let bounded = scene.folder.write("bounded.nft", text)?;
    for (options, more, is_settled) in [
        (&ALLOW[..], &["again"][..], true),
        (&["--policy", &own], &[], true),
        (&["--policy", &bounded], &[], false),
    ] {
        let queued = queued_while_carrying(&scene, options, more)?;
        // A segment has at most 65,480 bytes, so 50 MB are at least 764 packets.
        ensure!(
            (queued < 200) == is_settled,
            "{options:?}: {queued} packets were queued"
        );
    }
    let said = scene.run(&["--print", "--policy", &bounded])?;
    let words = ": a limit or quota has to see each packet";
    ensure!(said.code(0)?.contains(words), "{}", said.all());
    Ok(())
}

/// Checks that a learned policy allows a second run of the command, and nothing else.
fn learn(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let learnt = scene.folder.file("learnt.nft");
    let lines =
        "curl -sS --max-time 20 https://good.example/ http://front.example/ http://203.0.113.11/";
    scene.shell(&["--learn", &learnt], lines)?.code(0)?;
    let text = std::fs::read_to_string(&learnt)?;
    for witness in [
        "#   good.example\n#     tls sni good.example (",
        "#   front.example\n#     http host front.example (",
        "#   203.0.113.11:80\n#     http host 203.0.113.11 (203.0.113.11:80), 1 connection\n",
    ] {
        ensure!(text.contains(witness), "{witness} is missing: {text}");
    }
    let said = scene.shell(&["--policy", &learnt], lines)?;
    ensure!(
        said.code(0)? == "good.example here\nfront.example here\n203.0.113.11 here\n",
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
    let is_https = |row: &&Value| row["name"] == "good.example" && row["port"] == 443;
    let mut report = Value::Null;
    let reported = until("a report of all connections", PATIENCE, || {
        let said = scene.shell(&[&["--report", &file], &ALLOW[..]].concat(), &lines)?;
        said.code(3)?;
        report = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
        ensure!(report["exit"] == 3, "{report:#}");
        let rows = report["allowed"].as_array();
        let row = rows.and_then(|rows| rows.iter().find(is_https));
        let has_all = row.is_some_and(|row| row["connections"] == 3)
            && report["denied"][0]["address"] == BAD[0];
        ensure!(has_all || said.is_incomplete(), "{}", said.all());
        Ok(has_all)
    });
    reported.with_context(|| format!("{report:#}"))?;
    // The table of denied connections can't be written.
    let full = format!(
        "{} run --twin {} -- sh -c 'curl -s --max-time 20 http://{}/; exit 3' 2>/dev/full",
        scene.folder.file("fwctl"),
        twin.name(),
        BAD[0]
    );
    Said::of(scene.on_host(false, &["sh", "-c", &full]).output()?).code(3)?;
    Ok(())
}

/// Checks that a command does not start if its report can't be written. If the report's folder is removed later, the
/// learned policy is still written, and the exit code is the command's.
fn unwritable(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let (learnt, report) = (
        scene.folder.file("learnt.nft"),
        scene.folder.file("home/out/report.json"),
    );
    let options = ["--learn", &learnt, "--report", &report];
    let said = scene.shell(&options, "echo ran")?;
    ensure!(said.code(125)?.is_empty(), "{}", said.all());
    said.says(&format!(
        "error: {report} can't be written (No such file or directory)"
    ))?;
    Said::of(scene.on_host(false, &["mkdir", "home/out"]).output()?).code(0)?;
    let said = scene.shell(&options, "rmdir home/out; exit 3")?;
    said.code(3)?;
    said.says(&format!("error: {report}: No such file or directory"))?;
    ensure!(std::fs::read_to_string(&learnt)?.contains("table inet cage"));
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
