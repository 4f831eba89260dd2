// SPDX-License-Identifier: GPL-2.0-or-later
//! Files of `make install` and of the Debian packages: all are present, the installed programs work, and all can be
//! removed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{bail, ensure, Context};
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::skip::not_installed;
use testbed::twin::USER;
use testbed::twin::{root, Twin, TWINS};
use testbed::wait::{wait_within, PATIENCE};
use twinwall_tests::case::Case;

mod upgrade;

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("man-pages", man_pages),
        Case::new("completion", completion),
        Case::new("completion-of-other-shells", other_shells),
        Case::new("install", install),
        Case::new("units", units),
        Case::new("settings", settings),
        Case::new("user", user),
        Case::new("deb", deb),
        Case::new("hardened", hardened),
    ]
}

/// Checks properties of the linked programs: no code at a fixed address, no writable function tables at run time, no
/// executable stack. The C program must also check return addresses and buffer lengths at run time.
fn hardened() -> anyhow::Result<()> {
    for twin in TWINS {
        let program = twin.binary();
        let said = |option: &str| -> anyhow::Result<String> {
            let output = done(
                Command::new("readelf")
                    .args(["--wide", option])
                    .arg(&program),
            )?;
            Ok(String::from_utf8(output.stdout)?)
        };
        let (dynamic, segments) = (said("--dynamic")?, said("--segments")?);
        let flags = dynamic.lines().find(|line| line.contains("(FLAGS_1)"));
        let flags = flags.with_context(|| dynamic.clone())?;
        ensure!(flags.contains("NOW") && flags.contains("PIE"), "{flags}");
        ensure!(segments.contains("GNU_RELRO"), "{segments}");
        let stack = segments.lines().find(|line| line.contains("GNU_STACK"));
        ensure!(
            stack.is_some_and(|line| line.contains(" RW ")),
            "{segments}"
        );
        if twin == Twin::C {
            let symbols = said("--dyn-syms")?;
            for checked in ["__stack_chk_fail", "__snprintf_chk", "__memcpy_chk"] {
                ensure!(symbols.contains(checked), "{checked} is not in: {symbols}");
            }
        }
    }
    Ok(())
}

/// Runs a program until it ends. Fails with its stderr if it fails.
fn done(command: &mut Command) -> anyhow::Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(_) => return Err(not_installed(&program)),
    };
    if !output.status.success() {
        bail!("{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output)
}

fn need(program: &str) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    match there {
        true => Ok(()),
        false => Err(not_installed(program)),
    }
}

fn script(name: &str) -> PathBuf {
    root().join("packaging").join(name)
}

/// Returns a folder with the programs and the man pages, like build/.
fn build() -> anyhow::Result<Folder> {
    need("lowdown")?;
    let build = Folder::new()?;
    let programs = Twin::Rust.binary();
    let programs = programs.parent().context("a folder with programs")?;
    for name in [
        "rust-firewall",
        "c-firewall",
        "fwctl",
        "twinwall-exporter",
        "scanner",
        "capture",
        "twinwall-agent",
        "twinwall-fleet-local",
    ] {
        fs::copy(programs.join(name), build.path().join(name))
            .with_context(|| format!("there is no {name}: run make build"))?;
    }
    done(Command::new(script("man/make")).arg(build.path()))?;
    Ok(build)
}

/// Returns bash's completions for the last of some words; the first word is the program.
fn offered(words: &[&str]) -> anyhow::Result<Vec<String>> {
    const COMPLETE: &str = r#". "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_twinwall_firewall "$1" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}" && printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["-c", COMPLETE])
        .arg(root().join("cli/completion.bash"));
    let output = done(bash.args(words))?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn completion() -> anyhow::Result<()> {
    for (words, expected) in [
        (&["c-firewall", ""][..], &["check", "explain"][..]),
        (&["c-firewall", "--pol"], &["--policy"]),
        (&["c-firewall", "--backend", ""], &["classic", "mnl", "raw"]),
        (&["c-firewall", "--pin", "--backend", "=", "m"], &["mnl"]),
        (&["rust-firewall", "check", "--"], &["--help", "--print"]),
        (&["rust-firewall", "explain", "--i"], &["--iif"]),
    ] {
        let offered = offered(words)?;
        ensure!(offered == expected, "{words:?}: {offered:?}");
    }
    // Every option of the help text must be offered for one of these commands.
    let help = fs::read_to_string(root().join("cli/help.txt"))?;
    let mut all = BTreeSet::new();
    for command in [
        &["c-firewall"][..],
        &["c-firewall", "check"],
        &["c-firewall", "explain"],
    ] {
        all.extend(offered(&[command, &["-"]].concat())?);
    }
    for option in options(&help) {
        ensure!(all.contains(option), "{option} is not offered");
    }
    Ok(())
}

/// Checks that fish and zsh load the completion file of each program, and complete the program's words.
fn other_shells() -> anyhow::Result<()> {
    for shell in ["fish", "zsh"] {
        need(shell)?;
    }
    let (build, into) = (build()?, Folder::new()?);
    installed(&build, &into)?;
    let share = into.path().join("usr/share");
    for (program, line, expected) in [
        ("c-firewall", "c-firewall --backend ", "classic mnl raw"),
        ("rust-firewall", "rust-firewall check --", "--help --print"),
        ("fwctl", "fwctl rel", "reload"),
        ("twinwall-scanner", "twinwall-scanner --vers", "--version"),
        ("twinwall-capture", "twinwall-capture --zst", "--zstd"),
    ] {
        let file = share.join(format!("fish/vendor_completions.d/{program}.fish"));
        let script = "source $argv[1]; complete --do-complete $argv[2]";
        let mut fish = Command::new("fish");
        let offered = done(fish.args(["--no-config", "-c", script]).arg(file).arg(line))?;
        let offered = String::from_utf8(offered.stdout)?;
        let words: BTreeSet<&str> = offered
            .lines()
            .filter_map(|line| line.split('\t').next())
            .collect();
        let words = Vec::from_iter(words).join(" ");
        ensure!(words == expected, "fish, {line:?}: {words}");
        let file = share.join(format!("zsh/vendor-completions/_{program}"));
        done(Command::new("zsh").arg("-n").arg(file))?;
        let file = share.join(format!("bash-completion/completions/{program}"));
        done(Command::new("bash").arg("-n").arg(file))?;
    }
    let mut zsh = Command::new("zsh");
    let script = "zmodload zsh/zpty; zpty shell zsh -f; \
                  zpty -w shell \"fpath=($0 \\$fpath); autoload -U compinit; compinit -u -D; PS1=READY\"; \
                  zpty -r shell before '*READY*READY*'; zpty -n -w shell $'c-firewall --backend ra\\t'; \
                  zpty -r shell offered '*raw*' && print $offered";
    zsh.args(["-f", "-c", script])
        .arg(share.join("zsh/vendor-completions"));
    let offered = String::from_utf8_lossy(&done(&mut zsh)?.stdout).into_owned();
    ensure!(offered.contains("--backend raw"), "zsh: {offered}");
    Ok(())
}

/// Returns all files below a folder, as paths relative to it.
fn files(folder: &Path) -> anyhow::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            match path.is_dir() && !path.is_symlink() {
                true => folders.push(path),
                false => drop(files.insert(path.strip_prefix(folder)?.display().to_string())),
            }
        }
    }
    Ok(files)
}

/// Formats a man page. Returns groff's warnings, and the formatted page.
fn formatted(page: &Path) -> anyhow::Result<(String, String)> {
    let mut groff = Command::new("groff");
    let output = done(
        groff
            .args(["-t", "-man", "-ww", "-Tutf8", "-P-cbou", "-Kutf8"])
            .arg(page),
    )?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(&output.stderr), text(&output.stdout)))
}

/// Returns the long options in a text that are at the beginning of a line or follow other options there.
fn options(text: &str) -> BTreeSet<&str> {
    let starts = text
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'));
    let words = starts.flat_map(|line| line.split([' ', ',', '=']));
    words.filter(|word| word.starts_with("--")).collect()
}

fn man_pages() -> anyhow::Result<()> {
    need("groff")?;
    let build = build()?;
    let help = fs::read_to_string(root().join("cli/help.txt"))?;
    for (page, words) in [
        ("rust-firewall.8", "ENVIRONMENT"),
        ("c-firewall.8", "ENVIRONMENT"),
        ("fwctl.8", "fwctl reload"),
        ("twinwall-exporter.8", "--listen <ADDR:PORT>"),
        ("twinwall-scanner.8", "--i-am-authorised"),
        ("twinwall-capture.8", "--rotate <SIZE,TIME>"),
        ("twinwall-agent.8", "--folder"),
        ("twinwall-fleet-local.8", "nobody"),
        ("twinwall-policy.5", "chain-head"),
    ] {
        let (warnings, text) = formatted(&build.path().join("man").join(page))?;
        ensure!(warnings.is_empty(), "{page}: {warnings}");
        ensure!(text.contains(words), "{page} has no {words}: {text}");
        let examples = page.ends_with(".8").then_some("EXAMPLES");
        let missing = examples.filter(|words| !text.contains(words));
        ensure!(missing.is_none(), "{page} has no examples: {text}");
        let unsaid = text.contains("EXIT STATUS\nEXAMPLES");
        ensure!(!unsaid, "{page} has no exit status: {text}");
        let open = ["@OPTIONS@", "@COMMANDS@", "@EXIT@", "@PROGRAM@"];
        ensure!(
            !open.iter().any(|mark| text.contains(mark)),
            "{page}: {text}"
        );
        if page.ends_with("firewall.8") {
            let missing: Vec<_> = options(&help)
                .difference(&options(&text))
                .copied()
                .collect();
            ensure!(missing.is_empty(), "{page} lacks {missing:?}");
        }
    }
    Ok(())
}

fn installed(build: &Folder, into: &Folder) -> anyhow::Result<()> {
    let mut install = Command::new(script("install"));
    install
        .arg(build.path())
        .env("DESTDIR", into.path())
        .env("PREFIX", "/usr");
    done(&mut install).map(drop)
}

fn install() -> anyhow::Result<()> {
    let (build, into) = (build()?, Folder::new()?);
    installed(&build, &into)?;
    let found = files(into.path())?;
    for file in [
        "usr/sbin/rust-firewall",
        "usr/sbin/c-firewall",
        "usr/bin/fwctl",
        "usr/bin/twinwall-exporter",
        "usr/bin/twinwall-scanner",
        "usr/bin/twinwall-capture",
        "usr/sbin/twinwall-agent",
        "usr/sbin/twinwall-fleet-local",
        "usr/lib/systemd/system/twinwall.service",
        "usr/lib/systemd/system/twinwall-exporter@.service",
        "usr/lib/systemd/system/twinwall-agent.service",
        "usr/lib/systemd/system/twinwall-fleet.socket",
        "usr/lib/systemd/system/twinwall-fleet@.service",
        "usr/lib/sysusers.d/twinwall-fleet.conf",
        "usr/lib/systemd/system/twinwall-rust@.service",
        "usr/lib/systemd/system/twinwall-c@.service",
        "usr/lib/systemd/system/twinwall-c@.service.d/10-network.conf",
        "usr/lib/sysusers.d/twinwall.conf",
        "usr/share/bash-completion/completions/c-firewall",
        "usr/share/bash-completion/completions/rust-firewall",
        "usr/share/bash-completion/completions/fwctl",
        "usr/share/fish/vendor_completions.d/c-firewall.fish",
        "usr/share/fish/vendor_completions.d/twinwall-scanner.fish",
        "usr/share/zsh/vendor-completions/_rust-firewall",
        "usr/share/zsh/vendor-completions/_twinwall-capture",
        "usr/share/man/man8/fwctl.8",
        "usr/share/man/man5/twinwall-policy.5",
        "usr/share/twinwall/policy/web-server.nft",
        "usr/share/twinwall/queue/loopback-9999.iptables",
        "usr/share/doc/twinwall/RUN.md",
        "etc/twinwall/example.conf",
        "etc/twinwall/twinwall.conf",
    ] {
        ensure!(found.contains(file), "{file} is not installed");
    }
    let load = into.path().join("usr/share/twinwall/load");
    let output = Command::new(load).arg("no-such-rules").output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(
        words.contains("loopback-9999"),
        "load does not find its rules: {words}"
    );
    let example = into.path().join("etc/twinwall/example.nft");
    for twin in TWINS {
        let program = into.path().join("usr/sbin").join(twin.program());
        done(Command::new(program).arg("check").arg(&example))?;
    }
    // A second installation must keep the administrator's version.
    fs::write(&example, "# mine\n")?;
    installed(&build, &into)?;
    ensure!(
        fs::read_to_string(&example)? == "# mine\n",
        "{} is another",
        example.display()
    );
    ensure!(
        files(into.path())? == found,
        "a second time installs other files"
    );
    Ok(())
}

/// Checks that systemd accepts the units, and that the programs accept the units' options.
fn units() -> anyhow::Result<()> {
    let (build, into) = (build()?, Folder::new()?);
    installed(&build, &into)?;
    let conf = fs::read_to_string(into.path().join("etc/twinwall/example.conf"))?;
    let line = conf.lines().find_map(|line| line.strip_prefix("OPTIONS="));
    let options: Vec<&str> = line.context("no OPTIONS")?.split(' ').collect();
    // Targets of a machine, which the fleet's units refer to.
    for target in ["sysinit", "basic", "shutdown", "sockets", "network-online"] {
        let unit = format!("usr/lib/systemd/system/{target}.target");
        fs::write(into.path().join(unit), "[Unit]\n")?;
    }
    let mut names = vec![
        "twinwall-agent.service".to_owned(),
        "twinwall-fleet.socket".to_owned(),
        "twinwall-fleet@1.service".to_owned(),
    ];
    for twin in TWINS {
        names.push(format!(
            "twinwall-{}@example.service",
            twin.program().replace("-firewall", "")
        ));
        // With --help at the end, the options are parsed, and no firewall runs.
        let program = into.path().join("usr/sbin").join(twin.program());
        done(Command::new(program).args(&options).arg("--help"))?;
    }
    for unit in names {
        let mut verify = Command::new("systemd-analyze");
        verify
            .args(["verify", "--man=no", "--recursive-errors=yes"])
            .arg("--root")
            .arg(into.path());
        let output = done(verify.arg(&unit))?;
        let words = String::from_utf8_lossy(&output.stderr);
        ensure!(words.trim().is_empty(), "{unit}: {words}");
    }
    Ok(())
}

/// Returns the value of a setting in a unit. Fails unless there is exactly one.
fn setting<'a>(unit: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let values: Vec<_> = unit
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='))
        .collect();
    match values[..] {
        [value] => Ok(value),
        _ => bail!("{name} is {values:?}"),
    }
}

/// Checks settings in the twins' units: each unit conflicts with the other, has its own runtime folder, and restarts
/// without a limit. The effects are tested in the virtual machine.
fn settings() -> anyhow::Result<()> {
    let (build, into) = (build()?, Folder::new()?);
    installed(&build, &into)?;
    for (twin, other, order) in [("rust", "c", "Before"), ("c", "rust", "After")] {
        let path = format!("usr/lib/systemd/system/twinwall-{twin}@.service");
        let unit = fs::read_to_string(into.path().join(path))?;
        let folder = format!("twinwall/{twin}-%i");
        let control = format!("/run/{folder}/control");
        for (name, value) in [
            ("RuntimeDirectory", folder.as_str()),
            ("LogsDirectory", "twinwall/%i"),
            ("KillMode", "process"),
            ("OOMPolicy", "continue"),
            ("StartLimitIntervalSec", "0"),
            ("RestartPreventExitStatus", "2 3 4 6"),
        ] {
            ensure!(setting(&unit, name)? == value, "{twin}: {name}");
        }
        for name in ["ExecStart", "ExecReload"] {
            ensure!(setting(&unit, name)?.contains(&control), "{twin}: {name}");
        }
        let other = format!("twinwall-{other}@%i.service");
        let says = |line: String| unit.lines().any(|one| one == line);
        ensure!(says(format!("Conflicts={other}")), "{twin}: Conflicts");
        ensure!(says(format!("{order}={other}")), "{twin}: {order}");
        ensure!(
            !unit.contains("network-pre.target"),
            "{twin}: no drop-in can put it behind the network"
        );
    }
    Ok(())
}

/// Checks that `make user` creates the user only once, in a mount namespace with separate account files.
fn user() -> anyhow::Result<()> {
    namespace()?; // only root can mount
    need("systemd-sysusers")?;
    let folder = Folder::new()?;
    for (file, text) in [
        ("passwd", "root:x:0:0::/:/bin/sh\n"),
        ("group", "root:x:0:\n"),
        ("shadow", "root:*:1:::::::\n"),
        ("gshadow", "root:*::\n"),
        ("nsswitch.conf", "passwd: files\ngroup: files\n"),
    ] {
        fs::write(folder.path().join(file), text)?;
    }
    let script = format!(
        "mount --bind {} /etc && exec {}",
        folder.path().display(),
        script("user").display()
    );
    for said in ["made the user twinwall\n", "there is a user twinwall\n"] {
        let output = done(Command::new("unshare").args(["--mount", "sh", "-c", &script]))?;
        let found = String::from_utf8_lossy(&output.stdout);
        ensure!(found == said, "{found}");
    }
    let users = fs::read_to_string(folder.path().join("passwd"))?;
    ensure!(users.matches("twinwall:").count() == 1, "{users}");
    Ok(())
}

/// Runs dpkg with a folder in place of the root of a machine. The folder's package list has no libraries, so dpkg must
/// ignore dependencies.
fn dpkg<A: AsRef<OsStr>>(
    into: &Folder,
    arguments: impl IntoIterator<Item = A>,
) -> anyhow::Result<()> {
    let mut dpkg = Command::new("dpkg");
    dpkg.env(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    )
    .arg(format!("--root={}", into.path().display()))
    .args([
        "--log=/dev/null",
        "--force-script-chrootless",
        "--force-depends",
    ]);
    done(dpkg.args(arguments)).map(drop)
}

/// Packages in an order in which they can be installed. [`deb`] refers to the first two by their place.
const PACKAGES: [&str; 6] = [
    "twinwall-common",
    "twinwall-fleet",
    "twinwall-c",
    "twinwall-rust",
    "twinwall-scanner",
    "twinwall-capture",
];

/// Checks that an installed program starts, and runs until it is stopped.
fn starts_and_stops(into: &Folder, twin: Twin) -> anyhow::Result<()> {
    let program = into.path().join("usr/sbin").join(twin.program());
    let mut command = namespace()?.command(program);
    command
        .args(["--user", USER, "--policy"])
        .arg(into.path().join("etc/twinwall/example.nft"));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut stdout = child.stdout.take().context("stdout is piped")?;
    let mut first = [0; 6];
    std::io::Read::read_exact(&mut stdout, &mut first).context("it does not get ready")?;
    ensure!(&first == b"ready:", "{} says {first:?}", twin.program());
    testbed::proc::signal(child.id(), libc::SIGTERM);
    std::io::copy(&mut stdout, &mut std::io::sink())?;
    let ended = wait_within(&mut child, PATIENCE).context("it does not end")?;
    ensure!(ended.success(), "{}: {ended}", twin.program());
    Ok(())
}

fn deb() -> anyhow::Result<()> {
    namespace()?; // only root can give files to root
    for program in ["dpkg-deb", "dh", "systemd-sysusers"] {
        need(program)?;
    }
    let (build, into) = (build()?, Folder::new()?);
    done(Command::new(script("deb")).arg(build.path()))?;
    let made = files(&build.path().join("deb"))?;
    let package = |name: &&str| {
        let file = made
            .iter()
            .find(|file| file.starts_with(&format!("{name}_")));
        file.map(|file| build.path().join("deb").join(file))
    };
    let packages: Vec<_> = PACKAGES.iter().filter_map(package).collect();
    ensure!(packages.len() == PACKAGES.len(), "made: {made:?}");
    if need("lintian").is_ok() {
        let mut lintian = Command::new("lintian");
        let output = done(
            lintian
                .args(["--allow-root", "--fail-on=error,warning"])
                .args(&packages),
        )?;
        let words = String::from_utf8_lossy(&output.stdout);
        ensure!(words.is_empty(), "lintian: {words}");
    }
    upgrade::check(&packages[0], &packages[1])?;
    let lists = into.path().join("var/lib/dpkg");
    fs::create_dir_all(lists.join("info"))?;
    fs::create_dir_all(lists.join("updates"))?;
    fs::write(lists.join("status"), "")?;
    let before = files(into.path())?;
    dpkg(
        &into,
        [OsStr::new("--install")]
            .into_iter()
            .chain(packages.iter().map(|path| path.as_os_str())),
    )?;
    let users = fs::read_to_string(into.path().join("etc/passwd"))?;
    ensure!(
        users.contains("twinwall:"),
        "there is no user twinwall: {users}"
    );
    ensure!(
        users.contains("twinwall-agent:"),
        "there is no user twinwall-agent: {users}"
    );
    for twin in TWINS {
        starts_and_stops(&into, twin)?;
    }
    for program in ["fwctl", "twinwall-scanner", "twinwall-capture"] {
        done(Command::new(into.path().join("usr/bin").join(program)).arg("--version"))?;
    }
    for program in ["twinwall-agent", "twinwall-fleet-local"] {
        done(Command::new(into.path().join("usr/sbin").join(program)).arg("--version"))?;
    }
    let purge = PACKAGES.iter().rev().copied();
    dpkg(&into, ["--purge"].into_iter().chain(purge))?;
    let left: Vec<_> = files(into.path())?.difference(&before).cloned().collect();
    // The user stays, as files may belong to the user. dpkg's own files stay, too.
    let may = |file: &str| file.starts_with("var/lib/dpkg/") || ACCOUNTS.contains(&file);
    let left: Vec<_> = left.into_iter().filter(|file| !may(file)).collect();
    ensure!(left.is_empty(), "is left: {left:?}");
    Ok(())
}

/// Files that may stay after a purge: account files, and systemd-sysusers' copies of them from before it added a user.
const ACCOUNTS: [&str; 9] = [
    "etc/.pwd.lock",
    "etc/group",
    "etc/group-",
    "etc/gshadow",
    "etc/gshadow-",
    "etc/passwd",
    "etc/passwd-",
    "etc/shadow",
    "etc/shadow-",
];
