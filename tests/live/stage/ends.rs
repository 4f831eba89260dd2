// SPDX-License-Identifier: GPL-2.0-or-later
//! A TCP connection of which the test has both ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::ensure;
use testbed::wait::{patience, PATIENCE};

use crate::evasion::net::{Net, SERVER};

/// Time after which bytes that may be dropped, and have not arrived, count as dropped.
pub const QUIET: Duration = Duration::from_millis(300);
/// First bytes of a client that uses neither TLS nor HTTP, and so has no name.
pub const NAMELESS: &[u8] = b"SSH-2.0-nameless\r\n";

/// Both ends of a connection through the firewall.
pub struct Ends {
    client: TcpStream,
    server: TcpStream,
}

impl Ends {
    pub fn new(net: &Net, port: u16) -> anyhow::Result<Ends> {
        let address = SocketAddr::from((SERVER, port));
        let listener = net.server.enter(|| TcpListener::bind(address))?;
        let client = net
            .client
            .enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
        let (server, _) = listener.accept()?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
        }
        Ok(Ends { client, server })
    }

    /// Sends bytes to the server and back. Fails unless they arrive unchanged.
    pub fn exchange(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Ends { client, server } = self;
        let mut read = vec![0; bytes.len()];
        client.write_all(bytes)?;
        server.read_exact(&mut read)?;
        server.write_all(&read)?;
        client.read_exact(&mut read)?;
        ensure!(read == bytes, "other bytes came");
        Ok(())
    }

    /// Sends bytes from the client. Returns true if they reach the server in time.
    /// - expected: true for a time limit of PATIENCE, since the bytes must arrive; false for QUIET.
    pub fn brings(&mut self, bytes: &[u8], expected: bool) -> anyhow::Result<bool> {
        let limit = patience(expected, QUIET);
        self.server.set_read_timeout(Some(limit))?;
        self.client.write_all(bytes)?;
        Ok(self.server.read(&mut [0; 4096]).is_ok())
    }

    /// Sends a byte from the server to the client. Fails unless it arrives.
    pub fn answers(&mut self) -> anyhow::Result<()> {
        self.server.write_all(b"x")?;
        self.client.read_exact(&mut [0])?;
        Ok(())
    }

    /// Returns the command by which an FTP client announces that it expects a connection to this client's address and
    /// port (RFC 959, section 4.1.2).
    pub fn port_command(&self) -> anyhow::Result<String> {
        let address = self.client.local_addr()?;
        let [high, low] = address.port().to_be_bytes();
        let host = address.ip().to_string().replace('.', ",");
        Ok(format!("PORT {host},{high},{low}\r\n"))
    }

    /// Sends one more byte from the client. Returns true if it reaches the server in time.
    /// - expected: as for `brings`.
    pub fn passes(&mut self, expected: bool) -> anyhow::Result<bool> {
        self.brings(b"x", expected)
    }
}
