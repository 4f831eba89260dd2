// SPDX-License-Identifier: GPL-2.0-or-later
//! Root opens and changes no file to which another user's link leads: the events file is opened as the firewall's user,
//! and links that other users could have made are not followed.

use std::fs;
use std::os::unix::fs::{chown, symlink, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::ensure;
use testbed::control::Client;
use testbed::firewall::{run_to_end, Ended, Firewall};
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Case;

use super::running::of_both;

/// User that is neither root nor the firewall's.
const OTHER: u32 = 65533;

pub fn cases() -> Vec<Case> {
    of_both(
        "paths",
        &[
            ("events-by-a-link-of-others", events_by_a_link),
            ("events-in-a-folder-by-a-link-of-others", events_in_a_folder),
            ("events-by-a-link-of-root-s", events_by_roots_folder),
            ("events-that-the-user-may-not-write", events_of_root),
            ("events-anew-by-a-link", events_anew),
            ("events-to-a-listener-of-root-s", events_to_roots_listener),
            ("control-in-a-folder-by-a-link-of-others", control_by_a_link),
            ("control-taken-over-by-a-link", control_taken_over),
        ],
    )
}

/// Writes a file that only root may read. Returns its path.
fn secret(folder: &Folder) -> anyhow::Result<String> {
    let file = folder.write("secret", "root's own\n")?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

fn check_untouched(secret: &str) -> anyhow::Result<()> {
    let mode = fs::metadata(secret)?.mode() & 0o777;
    let text = fs::read_to_string(secret)?;
    ensure!(mode == 0o600 && text == "root's own\n", "{mode:o}: {text}");
    Ok(())
}

/// Creates a folder that belongs to another user, who can make links there. Returns its path.
fn others_folder(folder: &Folder, name: &str) -> anyhow::Result<String> {
    let path = folder.file(name);
    fs::create_dir(&path)?;
    chown(&path, Some(OTHER), Some(OTHER))?;
    Ok(path)
}

fn others_link(target: &str, link: &str) -> anyhow::Result<()> {
    symlink(target, link)?;
    Ok(std::os::unix::fs::lchown(link, Some(OTHER), Some(OTHER))?)
}

const LINK: &str = "it is a link, or others could redirect it by one";
const CURE: &str =
    "name a file that the firewall's user (--user) can write, in a folder that is there";

fn refused(twin: Twin, option: &str, path: &str) -> anyhow::Result<Ended> {
    run_to_end(&namespace()?, &[], twin, &[option, path])
}

fn check_refused(twin: Twin, events: &str, reason: &str) -> anyhow::Result<()> {
    let ended = refused(twin, "--events", events)?;
    let line = format!("error: --events {events}: {reason}: {CURE}\n");
    ensure!(
        ended.code == Some(2) && ended.stderr == line,
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

fn events_by_a_link(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let secret = secret(&folder)?;
    let events = format!("{}/events", others_folder(&folder, "theirs")?);
    others_link(&secret, &events)?;
    check_refused(twin, &events, LINK)?;
    check_untouched(&secret)
}

fn events_in_a_folder(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let theirs = others_folder(&folder, "theirs")?;
    let target = folder.file("target");
    fs::create_dir(&target)?;
    fs::set_permissions(&target, fs::Permissions::from_mode(0o777))?;
    others_link(&target, &format!("{theirs}/link"))?;
    check_refused(twin, &format!("{theirs}/link/events"), LINK)?;
    ensure!(!Path::new(&format!("{target}/events")).exists());
    Ok(())
}

/// Checks that a link in the path of the events file is followed if it is in root's folder, like /var/run.
fn events_by_roots_folder(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let ours = folder.file("ours");
    fs::create_dir(&ours)?;
    symlink(folder.file(""), format!("{ours}/link"))?;
    let events = format!("{ours}/link/events");
    Firewall::start(&namespace()?, twin, &["--events", &events])?.stop()?;
    ensure!(Path::new(&folder.file("events")).exists());
    Ok(())
}

fn events_of_root(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let secret = secret(&folder)?;
    check_refused(twin, &secret, "Permission denied")?;
    check_untouched(&secret)
}

/// Checks that on SIGUSR2 the firewall does not follow a link at the path of the events file: the old file stays in
/// use, and a warning says so.
fn events_anew(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let (events, control) = (folder.file("events"), folder.file("control"));
    let target = folder.write("target", "")?;
    fs::set_permissions(&target, fs::Permissions::from_mode(0o666))?;
    let policy = folder.write("p.nft", super::running::policy(""))?;
    let arguments = [
        "--events",
        &events,
        "--control",
        &control,
        "--policy",
        &policy,
    ];
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    let moved = folder.file("events.1");
    fs::rename(&events, &moved)?;
    symlink(&target, &events)?;
    proc::signal(firewall.pid, libc::SIGUSR2);
    Client::new(&control)?.command("reload")?; // which is an event
    until("the event is in the old file", PATIENCE, || {
        Ok(fs::read_to_string(&moved)?.contains("reload"))
    })?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let line = format!(
        "warning: events: {events}: {LINK}: it could not be reopened, the old file stays in use\n"
    );
    ensure!(ended.stderr.contains(&line), "{}", ended.stderr);
    ensure!(
        fs::read_to_string(&target)?.is_empty(),
        "the link was followed"
    );
    Ok(())
}

fn events_to_roots_listener(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let path = folder.file("listener");
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    let events = format!("unix:{path}");
    let firewall = Firewall::start(&namespace()?, twin, &["--events", &events])?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.stderr.contains("Permission denied") && listener.accept().is_err(),
        "root has connected: {}",
        ended.stderr
    );
    Ok(())
}

fn control_by_a_link(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let theirs = others_folder(&folder, "theirs")?;
    let target = folder.file("target");
    fs::create_dir(&target)?;
    others_link(&target, &format!("{theirs}/link"))?;
    let control = format!("{theirs}/link/control");
    let ended = refused(twin, "--control", &control)?;
    let line = format!(
        "error: control socket {control}: others could redirect it by a link: choose another path\n"
    );
    ensure!(
        ended.code == Some(2) && ended.stderr == line,
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    ensure!(!Path::new(&format!("{target}/control")).exists());
    Ok(())
}

/// Checks a take-over if a link has replaced the control socket's file: the new firewall refuses to start, and does not
/// change the link's target.
fn control_taken_over(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let secret = secret(&folder)?;
    let (control, moved) = (folder.file("control"), folder.file("moved"));
    let namespace = namespace()?;
    let old = Firewall::start(&namespace, twin, &["--control", &control])?;
    fs::rename(&control, &moved)?;
    others_link(&secret, &control)?;
    let arguments = [
        "--control",
        &control,
        "--control-mode",
        "0666",
        "--take-over",
        &moved,
    ];
    let ended = run_to_end(&namespace, &[], twin, &arguments)?;
    check_untouched(&secret)?;
    ensure!(ended.code == Some(2), "{:?}: {}", ended.code, ended.stderr);
    ensure!(
        ended.stderr.contains("there is a file that is no socket"),
        "{}",
        ended.stderr
    );
    let old = old.end_by(libc::SIGTERM)?;
    ensure!(old.code == Some(0), "{:?}: {}", old.code, old.stderr);
    Ok(())
}
