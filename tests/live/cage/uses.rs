// SPDX-License-Identifier: GPL-2.0-or-later
//! Typical uses of cages: real clients fetch allowed content from test servers, and fail at once for denied hosts.

use std::process::Command;

use anyhow::{ensure, Context};
use testbed::skip::skip;
use testbed::twin::{root as repository, Twin};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::browser;
use twinwall_tests::case::Row;

use super::scene::{Said, Scene, GOOD, USER};
use crate::names::programs;

pub const ROWS: &[Row] = &[
    ("git-https", git_https),
    ("git-ssh", git_ssh),
    ("pip", pip),
    ("npm", npm),
    ("cargo", cargo),
    ("ci", ci),
    ("podman", podman),
    ("go", go),
    ("apt", apt),
    ("browser", in_browser),
    ("http3", http3),
    ("many-connections", many),
];

/// Runs shell lines as root in the scene's folder, outside the scene's namespaces. The lines use no network.
fn make(scene: &Scene, lines: &str) -> anyhow::Result<()> {
    let output = Command::new("sh")
        .args(["-ec", lines])
        .current_dir(scene.folder.path())
        .output()?;
    ensure!(
        output.status.success(),
        "{lines}: {}",
        Said::of(output).all()
    );
    Ok(())
}

/// Skips the case unless a program is installed.
/// - is_root: true if root runs the program; false if the ordinary user runs it: root's folder is closed to the user.
fn need(program: &str, is_root: bool) -> anyhow::Result<()> {
    let lines = format!("command -v {program}");
    let output = Command::new("sh").args(["-c", &lines]).output()?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.success() && (is_root || !path.starts_with("/root")) {
        true => Ok(()),
        false => Err(skip(format!("there is no {program} for an ordinary user"))),
    }
}

/// Runs shell lines in a cage that allows another name, where they must fail, and in a cage that allows `allowed`,
/// where they must succeed.
fn both(scene: &Scene, is_root: bool, allowed: &str, lines: &str) -> anyhow::Result<()> {
    let words = |allowed| ["--verbose", "--allow", allowed, "--", "sh", "-ec", lines];
    scene.run_saying(is_root, &words("front.example"), &["denied: "])?;
    let said = scene.run_whole(is_root, &words(allowed))?;
    said.code(0)?;
    ensure!(!said.stderr.contains("denied: "), "{}", said.all());
    Ok(())
}

fn make_repository(scene: &Scene) -> anyhow::Result<()> {
    make(
        scene,
        "git init -q work; cd work; git config user.name a; git config user.email a@example; echo a > a; git add a; git commit -qm a
         git clone -q --bare . ../www/repo.git; cd ../www/repo.git; git update-server-info",
    )
}

fn git_https(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    make_repository(&scene)?;
    let cert = scene.folder.file("cert.pem");
    both(&scene, false, "good.example", &format!("cd home; rm -rf repo; GIT_SSL_CAINFO={cert} git clone -q https://good.example/repo.git; cat repo/a"))
}

/// Tests git with an SSH server and a key of the user. The server sees a test folder in place of root's home folder.
fn git_ssh(twin: Twin) -> anyhow::Result<()> {
    let mut scene = Scene::new(twin)?;
    make_repository(&scene)?;
    let folder = scene.folder.path().display().to_string();
    make(
        &scene,
        &format!(
            "dropbearkey -t ed25519 -f host >/dev/null; ssh-keygen -q -t ed25519 -N '' -f home/id; chown {USER}:{USER} home/id
             mkdir -m 700 -p root/.ssh; cp home/id.pub root/.ssh/authorized_keys"
        ),
    )?;
    let lines = format!("mount --bind {folder}/root /root; exec dropbear -F -E -s -p 22 -r {folder}/host -P {folder}/dropbear.pid");
    scene.serve("dropbear", &["unshare", "--mount", "sh", "-ec", &lines], 22)?;
    let ssh = "ssh -F none -i id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=20";
    let lines = format!("cd home; rm -rf repo; GIT_SSH_COMMAND='{ssh}' git clone -q ssh://root@good.example{folder}/www/repo.git; cat repo/a");
    both(&scene, false, "root@good.example:22", &lines)
}

fn pip(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let wheel = r#"
import os, zipfile
os.makedirs("www/simple/tiny")
name = "tiny-1.0-py3-none-any.whl"
with zipfile.ZipFile(f"www/simple/tiny/{name}", "w") as wheel:
    wheel.writestr("tiny.py", "")
    wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: a\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("tiny-1.0.dist-info/RECORD", "")
with open("www/simple/tiny/index.html", "w") as page:
    page.write(f'<a href="{name}">{name}</a>')
"#;
    scene.folder.write("wheel.py", wheel)?;
    make(
        &scene,
        "/usr/bin/python3 wheel.py; /usr/bin/python3 -m venv venv",
    )
    .context("python3 -m venv: make deps")?;
    let cert = scene.folder.file("cert.pem");
    let options = format!("--retries 0 --disable-pip-version-check --no-cache-dir --no-deps --cert {cert} --index-url https://good.example/simple/");
    let lines = format!("REQUESTS_CA_BUNDLE={cert} PIP_CONFIG_FILE=/dev/null venv/bin/pip download {options} -d home tiny; ls home/tiny-1.0*");
    both(&scene, false, "good.example", &lines)
}

fn npm(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    need("npm", false)?;
    make(
        &scene,
        r#"mkdir -p www/npm package; echo '{"name":"tiny","version":"1.0.0"}' > package/package.json; tar -czf www/npm/tiny.tgz package
           echo '{"name":"tiny","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"tiny","version":"1.0.0",
               "dist":{"tarball":"https://good.example/npm/tiny.tgz"}}}}' > www/npm/tiny"#,
    )?;
    let cert = scene.folder.file("cert.pem");
    let options = "--registry https://good.example/npm/ --fetch-retries 0 --no-audit --no-fund --no-update-notifier";
    both(&scene, false, "good.example", &format!("cd home; rm -rf node_modules; npm_config_cafile={cert} npm install {options} tiny; ls node_modules/tiny/package.json"))
}

/// Creates root's cargo project, whose crate comes from the test's crates.io. Returns environment variables for cargo,
/// as shell text.
fn make_project(scene: &Scene) -> anyhow::Result<String> {
    need("cargo", true)?;
    make(
        scene,
        r#"mkdir -p tiny-1.0.0/src www/crates www/ti/ny home/project/src
           printf '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n' > tiny-1.0.0/Cargo.toml; : > tiny-1.0.0/src/lib.rs
           tar -czf www/crates/tiny-1.0.0.crate tiny-1.0.0
           sum=$(sha256sum www/crates/tiny-1.0.0.crate | cut -d' ' -f1)
           echo '{"dl":"https://static.crates.io/crates/{crate}-{version}.crate"}' > www/config.json
           echo '{"name":"tiny","vers":"1.0.0","deps":[],"cksum":"'$sum'","features":{},"yanked":false}' > www/ti/ny/tiny
           printf '[package]\nname = "project"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ntiny = "1"\n' > home/project/Cargo.toml
           : > home/project/src/lib.rs"#,
    )?;
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let cert = scene.folder.file("cert.pem");
    Ok(format!("RUSTUP_HOME={home}/.rustup CARGO_HOME=$PWD/cargo CARGO_HTTP_CAINFO={cert} CARGO_NET_RETRY=0 PATH=$PATH:{home}/.cargo/bin"))
}

fn cargo(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let variables = make_project(&scene)?;
    both(&scene, true, "*.crates.io", &format!("cd home/project; rm -rf cargo Cargo.lock; env {variables} cargo fetch --quiet; ls cargo/registry/src/*/tiny-1.0.0/Cargo.toml"))
}

/// Runs the build step of the CI example packaging/example/cage-ci.yml, with only `--twin` added.
fn ci(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let variables = make_project(&scene)?;
    let example = std::fs::read_to_string(repository().join("packaging/example/cage-ci.yml"))?;
    let steps = example
        .lines()
        .filter_map(|line| line.split_once("- run: "));
    let step = steps
        .map(|(_, step)| step)
        .find(|step| step.contains("fwctl run"))
        .context("a step with fwctl run")?;
    let step = step.replace("fwctl run", &format!("fwctl run --twin {}", twin.name()));
    let folder = scene.folder.path().display();
    let lines = format!("PATH={folder}:$PATH; cd home/project; export {variables}; {step}");
    let said = Said::of(scene.on_host(true, &["sh", "-ec", &lines]).output()?);
    said.code(0)?;
    let report = std::fs::read_to_string(scene.folder.file("home/project/report.json"))?;
    let report: serde_json::Value = serde_json::from_str(&report)?;
    let reached = report["allowed"].to_string();
    for name in ["index.crates.io", "static.crates.io"] {
        ensure!(reached.contains(name), "{report:#}");
    }
    Ok(())
}

/// Tests a rootless container that uses the cage's network.
fn podman(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    need("podman", false)?;
    make(
        &scene,
        &format!(
            "for folder in bin etc proc sys dev tmp run; do mkdir -p rootfs/$folder; done; cp /bin/busybox rootfs/bin; ln -s busybox rootfs/bin/wget
             mkdir home/run; chown -R {USER}:{USER} rootfs home"
        ),
    )?;
    let folder = scene.folder.path().display();
    let global = "--log-level error --cgroup-manager cgroupfs --root $HOME/storage --runroot $HOME/run/containers";
    let lines = format!(
        "export XDG_RUNTIME_DIR=$HOME/run; podman {global} run --rm --cgroups disabled --ulimit host --network host --rootfs {folder}/rootfs \
         wget -q -O - http://good.example/ | grep 'good.example here'"
    );
    both(&scene, false, "good.example", &lines)
}

fn go(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    need("go", false)?;
    let zip = r#"
import os, zipfile
os.makedirs("www/go/tiny.example/@v")
folder = "www/go/tiny.example/@v/"
open(folder + "list", "w").write("v1.0.0\n")
open(folder + "v1.0.0.info", "w").write('{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}')
open(folder + "v1.0.0.mod", "w").write("module tiny.example\n")
with zipfile.ZipFile(folder + "v1.0.0.zip", "w") as module:
    module.writestr("tiny.example@v1.0.0/go.mod", "module tiny.example\n")
    module.writestr("tiny.example@v1.0.0/tiny.go", "package tiny\n")
"#;
    scene.folder.write("zip.py", zip)?;
    make(&scene, "/usr/bin/python3 zip.py")?;
    let cert = scene.folder.file("cert.pem");
    let variables = format!("GOPATH=$PWD/go GOCACHE=$PWD/cache GOPROXY=https://good.example/go GOSUMDB=off GOTOOLCHAIN=local GOFLAGS=-modcacherw SSL_CERT_FILE={cert}");
    both(&scene, false, "good.example", &format!("cd home; rm -rf go; {variables} go mod download tiny.example@v1.0.0; ls go/pkg/mod/tiny.example@v1.0.0/tiny.go"))
}

fn apt(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    need("apt-get", false)?;
    make(
        &scene,
        "mkdir -p www/apt; printf 'Package: tiny\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a\\nFilename: ./tiny.deb\\nSize: 1\\nSHA256: 0\\n\\n' > www/apt/Packages
         printf 'deb [trusted=yes] http://good.example/apt ./\\n' > sources.list",
    )?;
    let folder = scene.folder.path().display();
    let options = format!("-o Dir::Etc::sourcelist={folder}/sources.list -o Dir::Etc::sourceparts=/nowhere -o Dir::State=$PWD/state -o Dir::State::status=$PWD/status -o Dir::Cache=$PWD/cache -o APT::Sandbox::User= -o Acquire::EnableSrvRecords=false -o Acquire::Retries=0 -o APT::Update::Error-Mode=any");
    let lines = format!("cd home; rm -rf state cache; mkdir -p state/lists/partial cache/archives/partial; : > status; apt-get {options} update; ls state/lists/*Packages*");
    both(&scene, false, "good.example", &lines)
}

/// Checks that a browser shows a page of an allowed name. Its hellos have an encrypted part, so the cage needs --ech.
fn in_browser(twin: Twin) -> anyhow::Result<()> {
    let browser = browser::find()?;
    let scene = Scene::new(twin)?;
    let words = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--ignore-certificate-errors",
        "--user-data-dir=home/profile",
        "--dump-dom",
    ];
    let show = |options: &[&str], url: &str| -> anyhow::Result<Said> {
        scene.run(&[options, &["--"], &words[..], &[url]].concat())
    };
    // Starts the browser until it has sent its request: on a busy machine it may give up before.
    let check_denied = |options: &[&str], url: &str, denials: &[&str]| {
        until(&format!("{url} is denied"), PATIENCE, || {
            let said = show(options, url)?;
            ensure!(!said.stdout.contains("here"), "{}", said.all());
            Ok(denials.iter().all(|denial| said.stderr.contains(denial)))
        })
    };
    let open = ["--verbose", "--ech", "--allow", "good.example"];
    until("the page is shown", PATIENCE, || {
        let said = show(&open, "https://good.example/")?;
        Ok(said.code == Some(0) && said.stdout.contains("good.example here"))
    })?;
    let denial = "denied: dns name bad.example (169.254.53.53:53): question not allowed";
    check_denied(&open, "https://bad.example/", &[denial])?;
    check_denied(
        &["--verbose", "--allow", "good.example"],
        "https://good.example/",
        &[
            "denied: tls sni good.example (",
            ":443): encrypted ClientHello",
        ],
    )
}

/// Tests HTTP/3 with aioquic, as root, because only root may have access to aioquic's Python environment. For a denied
/// name a client with a connected socket ends at once: the socket reports the refusal.
fn http3(twin: Twin) -> anyhow::Result<()> {
    let program = programs::file(programs::HTTP3)?.display().to_string();
    let mut scene = Scene::new(twin)?;
    let (cert, key) = (scene.folder.file("cert.pem"), scene.folder.file("key.pem"));
    let [v4, v6] = GOOD;
    scene.serve_ready("http3", &[&program, "serve", &cert, &key, v4, v6])?;
    both(
        &scene,
        true,
        "good.example",
        &format!("{program} get good.example good.example | grep 'good.example here'"),
    )?;
    for address in [v4, v6] {
        let words = ["--verbose", "--allow", "good.example", "--", "sh", "-c"];
        let lines = format!("getent ahosts good.example; exec {program} get {address} bad.example");
        let texts = [
            "ConnectionRefusedError",
            "denied: quic sni bad.example (",
            ":443): name not allowed\n",
        ];
        scene.run_saying(true, &[&words[..], &[&lines]].concat(), &texts)?;
    }
    Ok(())
}

/// Tests 2000 connections of twenty concurrent threads: all requests with the allowed name must be answered, and none
/// with the denied name.
fn many(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin)?;
    let lines = r#"
import concurrent.futures, socket, ssl
def ask(number):
    name = "good.example" if number % 2 else "bad.example"
    try:
        with socket.create_connection(("good.example", 443), 100) as plain:
            with ssl._create_unverified_context().wrap_socket(plain, server_hostname=name) as own:
                own.sendall(f"GET / HTTP/1.0\r\nHost: {name}\r\n\r\n".encode())
                return own.makefile("rb").read().decode().splitlines()[-1]
    except OSError as error:
        return type(error).__name__
with concurrent.futures.ThreadPoolExecutor(20) as pool:
    said = list(pool.map(ask, range(2000)))
for word in sorted(set(said)):
    print(said.count(word), word)
"#;
    scene.folder.write("many.py", lines)?;
    let words = [
        "--allow",
        "good.example",
        "--",
        "/usr/bin/python3",
        "many.py",
    ];
    let expected = "1000 ConnectionResetError\n1000 good.example here\n";
    until("the table of denied connections", PATIENCE, || {
        let said = scene.run(&words)?;
        ensure!(said.code(0)? == expected, "{}", said.all());
        let has_all = said.stderr.contains("tls sni bad.example");
        ensure!(has_all || said.is_incomplete(), "{}", said.all());
        Ok(has_all)
    })
}
