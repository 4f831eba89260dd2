// SPDX-License-Identifier: GPL-2.0-or-later
//! Networks of the measurements: namespaces, and the server in them.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use testbed::netns::Namespace;

/// Network that the client reaches over the veth pair. All its addresses are local to the server's namespace.
pub const BEHIND: &str = "10.64.0.0/16";

/// Time that the server's thread sleeps if no connection waits.
const REST: Duration = Duration::from_micros(200);

/// Network of one workload.
pub struct Place {
    /// Namespace of the scanners; over loopback also of the server.
    pub client: Namespace,
    /// MAC address of the server's end of the veth pair, for scanners that build frames; empty over loopback.
    pub mac: String,
    _server: Option<Namespace>,
    stop: Arc<AtomicBool>,
    answering: Option<JoinHandle<()>>,
}

impl Place {
    pub fn loopback() -> anyhow::Result<Place> {
        let client = Namespace::new()?;
        tune(&client)?;
        Ok(Place {
            client,
            mac: String::new(),
            _server: None,
            stop: Arc::default(),
            answering: None,
        })
    }

    /// Creates two namespaces, joined by a veth pair over which the client reaches [`BEHIND`].
    /// - drops: true if the server drops all TCP packets.
    pub fn veth(drops: bool) -> anyhow::Result<Place> {
        let (client, server) = (Namespace::new()?, Namespace::new()?);
        Namespace::veth_pair(&client, &server)?;
        tune(&client)?;
        tune(&server)?;
        client.feed(
            "ip",
            &["-batch", "-"],
            &format!("route add {BEHIND} via 10.77.0.2\n"),
        )?;
        server.feed(
            "ip",
            &["-batch", "-"],
            &format!("route add local {BEHIND} dev lo\n"),
        )?;
        let shown = server
            .command("ip")
            .args(["-o", "link", "show", "veth"])
            .output()?;
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let mac = shown.split("link/ether ").nth(1).unwrap_or("");
        let mac = mac.split(' ').next().unwrap_or("").to_string();
        if drops {
            let rules = "*filter\n-A INPUT -p tcp -j DROP\nCOMMIT\n";
            server.feed("iptables-restore", &["--noflush", "--wait"], rules)?;
        }
        Ok(Place {
            client,
            mac,
            _server: Some(server),
            stop: Arc::default(),
            answering: None,
        })
    }

    /// Starts a thread that accepts connections on a port, sends `words` on each connection and closes it. The thread
    /// handles all waiting connections and then sleeps, to leave CPU time to the scanners.
    pub fn answer(&mut self, port: u16, words: &'static [u8]) -> anyhow::Result<()> {
        let place = self._server.as_ref().unwrap_or(&self.client);
        let listener = place.enter(|| listen(port))?;
        listener.set_nonblocking(true)?;
        let stop = self.stop.clone();
        self.answering = Some(thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((mut stream, _)) => {
                        let _ = stream.write_all(words);
                    }
                    Err(_) => thread::sleep(REST),
                }
            }
        }));
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(answering) = self.answering.take() {
            let _ = answering.join();
        }
    }
}

/// Opens a listener on all IPv4 addresses. Its backlog is so large that no scanner fills it while the server's thread
/// sleeps.
fn listen(port: u16) -> anyhow::Result<TcpListener> {
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port);
    // SAFETY: socket(2), bind(2) and listen(2) read an address that outlives them; the descriptor is owned at the end.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0);
        let mut at: libc::sockaddr_in = std::mem::zeroed();
        at.sin_family = libc::AF_INET as u16;
        at.sin_port = any.port().to_be();
        let size = size_of::<libc::sockaddr_in>() as u32;
        let bound =
            libc::bind(fd, (&raw const at).cast(), size) == 0 && libc::listen(fd, 65535) == 0;
        anyhow::ensure!(
            bound,
            "listen on {any}: {}",
            std::io::Error::last_os_error()
        );
        Ok(TcpListener::from_raw_fd(fd))
    }
}

fn tune(place: &Namespace) -> anyhow::Result<()> {
    place.enter(|| {
        for (name, value) in [
            ("net/core/somaxconn", "65535"),
            ("net/ipv4/tcp_max_syn_backlog", "65535"),
            ("net/ipv4/ip_local_port_range", "1024 65535"),
            ("net/ipv4/tcp_syncookies", "0"),
        ] {
            fs::write(format!("/proc/sys/{name}"), value).with_context(|| name.to_string())?;
        }
        Ok(())
    })
}
