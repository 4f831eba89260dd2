// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks this machine for obstacles to the scan before it starts, raises the descriptor limit, measures the process's
//! CPU time, and enters a network namespace.

use std::fs;
use std::io;

/// Raises RLIMIT_NOFILE to `wanted`, or as far as permitted. Returns the resulting limit; 1024 if a system call failed.
pub fn raise_descriptors(wanted: u64) -> u64 {
    // SAFETY: getrlimit(2) and setrlimit(2) read and write one rlimit, which outlives the calls.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) != 0 {
            return 1024;
        }
        if limit.rlim_cur >= wanted {
            return limit.rlim_cur;
        }
        let both = libc::rlimit {
            rlim_cur: wanted,
            rlim_max: limit.rlim_max.max(wanted),
        };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &both) == 0 {
            return wanted;
        }
        limit.rlim_cur = limit.rlim_max.min(wanted);
        match libc::setrlimit(libc::RLIMIT_NOFILE, &limit) {
            0 => limit.rlim_cur,
            _ => 1024,
        }
    }
}

fn number(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Returns warnings for stderr: too few local ports, or too little room in the kernel's connection table.
pub fn hints(targets: u64, in_flight: u64) -> Vec<String> {
    let mut hints = Vec::new();
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = range
        .split_whitespace()
        .filter_map(|word| word.parse::<u64>().ok());
    if let (Some(first), Some(last)) = (bounds.next(), bounds.next()) {
        let ports = (last + 1).saturating_sub(first);
        if in_flight > ports {
            hints.push(format!(
                "{in_flight} in flight share {ports} local ports, which the kernel then searches for long: \
                 sysctl net.ipv4.ip_local_port_range=\"1024 65535\", or --max-inflight {ports}"
            ));
        }
    }
    let most = number("/proc/sys/net/netfilter/nf_conntrack_max");
    let used = number("/proc/sys/net/netfilter/nf_conntrack_count");
    if let (Some(most), Some(used)) = (most, used) {
        if used > 0 && used + targets > most {
            hints.push(format!(
                "conntrack holds {used} of at most {most} connections, and {targets} more will not fit: packets will be \
                 dropped: sysctl net.netfilter.nf_conntrack_max={}, or --rate",
                used + targets
            ));
        }
    }
    hints
}

/// Returns the user and system time of this process.
pub fn cpu_time() -> std::time::Duration {
    // SAFETY: getrusage(2) fills in one rusage, for which all zeros is valid, too.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        std::time::Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// Moves the calling thread, and threads that it starts later, into a network namespace: a name of `ip netns`, or a
/// path.
pub fn enter_namespace(name: &str) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let path = match name.contains('/') {
        true => name.to_string(),
        false => format!("/run/netns/{name}"),
    };
    let file = fs::File::open(path)?;
    // SAFETY: setns(2) takes an open descriptor and touches no memory.
    match unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
