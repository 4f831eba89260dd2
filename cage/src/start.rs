// SPDX-License-Identifier: GPL-2.0-or-later
//! Construction of a cage, up to the order to run the command.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;

use nix::sched::{setns, unshare, CloneFlags};

use crate::channel::{self, Inside, Order, Report};
use crate::failure::Failure;
use crate::firewall::{self, Firewall};
use crate::namespaces::{self, Caller};
use crate::settings::{Settings, Source};
use crate::uplink::Uplink;
use crate::{policy, queue_rules, refused, settle, sockets, stage};

/// File that turns probes for duplicates of IPv6 addresses off (0) or on (1), for interfaces made later (kernel:
/// ip-sysctl, accept_dad).
const DUPLICATE_PROBES: &str = "/proc/sys/net/ipv6/conf/default/accept_dad";

/// Cage whose firewall and uplink are ready, and whose command waits for its order.
pub struct Cage {
    pub channel: OwnedFd,
    pub hold: Child,
    pub firewall: Firewall,
    pub uplink: Child,
    pub control: PathBuf,
}

/// Parameters of a cage that are known before any process is started.
pub struct Plan {
    pub caller: Caller,
    pub uplink: Uplink,
    pub resolver: IpAddr,
    pub place: &'static Path,
    /// Path of the policy that the firewall reads.
    pub policy: PathBuf,
    /// Text of the policy, if the cage writes it.
    pub text: Option<String>,
    /// Unix sockets of the host, and folders of such sockets, that stay reachable.
    pub left_open: Vec<PathBuf>,
    /// Reason why the packets of settled connections are queued as well; None if they are not queued.
    pub queued: Option<String>,
}

/// Returns a path without symbolic links. Its last part need not exist.
/// - path: absolute path.
fn resolved(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let missing = folder
        .zip(path.file_name())
        .map(|(folder, name)| folder.join(name));
    let existing = path.canonicalize().ok();
    existing.or(missing).unwrap_or_else(|| path.to_owned())
}

impl Plan {
    pub fn new(settings: &Settings) -> Result<Plan, Failure> {
        let uplink = Uplink::find(settings.uplink)?;
        let resolver = uplink.resolver();
        let current = std::env::current_dir().map_err(Failure::at("the current folder"))?;
        let own = std::env::current_exe().unwrap_or_default();
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let mut paths = vec![current, own, settings.firewall.clone()];
        paths.extend(settings.report.as_deref().map(absolute));
        let mut queued = None;
        let (file, text) = match &settings.source {
            Source::File(file) => {
                let file = absolute(file);
                let wrapped = settle::wrap(&file).map_err(|why| queued = Some(why)).ok();
                (Some(file), wrapped)
            }
            Source::Allow(allowed) => (
                None,
                Some(policy::of_allowed(allowed, resolver, settings.ech)),
            ),
            Source::Learn(file) => {
                paths.push(absolute(file));
                (None, Some(policy::of_learning()))
            }
        };
        paths.extend(file.clone());
        let targets: Vec<PathBuf> = paths.iter().map(|path| resolved(path)).collect();
        paths.extend(targets);
        let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let place = namespaces::place(&paths)?;
        let own = text.as_ref().map(|_| place.join("policy.nft"));
        let policy = own.or(file).unwrap_or_default(); // a policy has a text or is a file
        Ok(Plan {
            caller: Caller::new(),
            uplink,
            resolver,
            place,
            policy,
            text,
            left_open: sockets::left_open(&settings.host_sockets)?,
            queued,
        })
    }

    pub fn firewall_arguments(&self, settings: &Settings) -> Vec<String> {
        let looks_on = matches!(settings.source, Source::Learn(_));
        firewall::arguments(&self.policy, &firewall::control(self.place), looks_on)
    }

    fn inside(&self) -> Inside {
        Inside {
            uid: self.caller.uid,
            place: self.place.to_owned(),
            resolv_conf: format!("nameserver {}\noptions edns0\n", self.resolver),
            is_root: self.caller.is_root,
        }
    }
}

/// Processes started in the new network namespace.
struct Networked {
    hold: Child,
    firewall: Firewall,
}

/// Namespaces for the uplink (the program that connects the cage to the network): the cage's network namespace, and the
/// pid namespace whose end also ends the uplink.
struct Made {
    network: File,
    processes: File,
}

fn start_hold(command: &[OsString], channel: OwnedFd) -> Result<Child, Failure> {
    let mut hold = stage::command(stage::HOLD, ["--"]).map_err(Failure::at("a stage"))?;
    hold.args(command).stdin(Stdio::from(channel));
    hold.spawn().map_err(Failure::at("a stage"))
}

/// Creates the network namespace for this thread and its children, and the outer pid namespace for its children only.
/// Starts the stage `hold`, which is the init of the pid namespace; sends both namespaces to `made`; starts the
/// firewall, loads the queue rules, and waits until the firewall is ready.
fn network(
    plan: &Plan,
    settings: &Settings,
    channel: OwnedFd,
    made: &mpsc::Sender<Made>,
) -> Result<Networked, Failure> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWPID).map_err(refused::namespaces)?;
    // The tap has no other hosts. Without probes its addresses don't change while the command runs; a browser aborts
    // its requests when they change. In a container whose /proc/sys is read-only they do change, a second after the
    // start.
    let _ = fs::write(DUPLICATE_PROBES, "0");
    let open = |path: &str| File::open(path).map_err(Failure::at(path));
    let network = open("/proc/thread-self/ns/net")?;
    let hold = start_hold(&settings.command, channel)?;
    let processes = open(&format!("/proc/{}/ns/pid", hold.id()))?;
    // The uplink may start now, since the command does not run before the rules are loaded.
    let _ = made.send(Made { network, processes }); // a missing receiver has failed itself
    let mut firewall = firewall::start(&settings.firewall, &plan.firewall_arguments(settings))?;
    queue_rules::load()?;
    firewall.wait()?;
    Ok(Networked { hold, firewall })
}

/// Starts the uplink in the outer pid namespace and the host's network namespace. Waits until its interface is ready.
fn uplink(plan: &Plan, settings: &Settings, made: &mpsc::Receiver<Made>) -> Result<Child, Failure> {
    let made = made
        .recv()
        .map_err(|_| Failure::new("the cage has no network namespace"))?;
    setns(&made.processes, CloneFlags::CLONE_NEWPID).map_err(refused::namespaces)?;
    plan.uplink
        .start(made.network, settings.host_loopback)?
        .wait()
}

fn begin(plan: &Plan, channel: &OwnedFd) -> Result<(), Failure> {
    let order = Order::Begin(Box::new(plan.inside()));
    channel::send(channel, &order, Some(io::stdin().as_fd())).map_err(Failure::at("a stage"))
}

/// Maps the users of the inner user namespace when the stage has entered it.
fn map_users(plan: &Plan, channel: &OwnedFd) -> Result<(), Failure> {
    let got = channel::receive::<Report>(channel).map_err(Failure::at("a stage"))?;
    let got = got.ok_or_else(|| Failure::new("a stage of the cage ended"))?;
    let pid = match (got.message, got.process) {
        (Report::Unmapped, Some(pid)) => pid.to_string(),
        (Report::Failed(code, text), _) => return Err(Failure { code, text }),
        _ => return Err(Failure::new("a stage of the cage said something else")),
    };
    let caller = &plan.caller;
    let maps = match caller.is_root {
        true => namespaces::same_maps(),
        false => Ok((format!("{} 0 1", caller.uid), format!("{} 0 1", caller.gid))),
    };
    let written = maps
        .and_then(|(users, groups)| namespaces::write_maps(&pid, caller.is_root, &users, &groups));
    written.map_err(refused::maps)?;
    channel::send(channel, &Order::Mapped, None).map_err(Failure::at("a stage"))
}

/// Mounts the private folder, and writes the policy and the lists of sockets into it. The search for sockets comes
/// first, since the mount hides the sockets below it.
fn make_place(plan: &Plan) -> Result<(), Failure> {
    let covered = sockets::covered(&plan.left_open);
    let emptied = sockets::emptied(plan.caller.uid, &plan.left_open);
    namespaces::mount_private(plan.place)?;
    if let Some(text) = &plan.text {
        fs::write(&plan.policy, text).map_err(Failure::at(plan.policy.display()))?;
    }
    for (name, paths) in [(sockets::COVERED, covered), (sockets::EMPTIED, emptied)] {
        let file = plan.place.join(name);
        sockets::write_list(&file, &paths).map_err(Failure::at(file.display()))?;
    }
    Ok(())
}

/// Builds the cage. The calling process must have one thread.
pub fn build(plan: &Plan, settings: &Settings) -> Result<Cage, Failure> {
    namespaces::enter(&plan.caller)?;
    make_place(plan)?;
    let (channel, other) = channel::pair().map_err(Failure::at("a socket"))?;
    let (made, is_made) = mpsc::channel();
    thread::scope(|scope| {
        let networked = scope.spawn(move || network(plan, settings, other, &made));
        let uplink = scope.spawn(move || uplink(plan, settings, &is_made));
        let inside = begin(plan, &channel).and_then(|()| map_users(plan, &channel));
        let ended = |_| Failure::new("a thread of the cage ended");
        let (networked, uplink) = (networked.join(), uplink.join());
        inside?; // without a stage the others fail, too
        let networked = networked.map_err(ended)??;
        let uplink = uplink.map_err(ended)??;
        let control = firewall::control(plan.place);
        Ok(Cage {
            channel,
            hold: networked.hold,
            firewall: networked.firewall,
            uplink,
            control,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_resolved_without_its_file() {
        let folder = std::env::temp_dir().join(format!("cage-start-{}", std::process::id()));
        fs::create_dir_all(folder.join("target")).unwrap();
        std::os::unix::fs::symlink(folder.join("target"), folder.join("link")).unwrap();
        let target = folder.join("target").canonicalize().unwrap();
        assert_eq!(resolved(&folder.join("link")), target);
        assert_eq!(resolved(&folder.join("link/new")), target.join("new"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
