// SPDX-License-Identifier: GPL-2.0-or-later
//! Load tls-connect: TLS 1.3 connections; the server sends one byte on each. Enough run in parallel to keep the CPUs of
//! both ends busy. Both ends use rustls; the certificate has an ECDSA key of P-256, and no session is resumed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::arrivals::{Arrivals, Server};
use super::socket::{abort_on_close, connect, listen};
use super::{Aim, Burst, Emptied, Traffic, LOOK_UP, STALLED};
use crate::runner::Place;

/// Server name, which no policy contains.
const NAME: &str = "www.load.example";
/// Number of clients and of servers; each handles one connection at a time.
const AT_ONCE: usize = 8;

pub struct Handshakes {
    to: SocketAddr,
    config: Arc<ClientConfig>,
    _servers: Vec<Server>,
}

impl Handshakes {
    pub fn open(aim: &Aim, place: &Place) -> Result<Handshakes> {
        let (config, server) = ends()?;
        let listener = Arc::new(place.server.enter(|| listen(aim.end(), LOOK_UP))?);
        let start = |_| {
            let (listener, config) = (listener.clone(), server.clone());
            let serve = move |arrivals: &Arrivals| serve(&listener, &config, arrivals);
            Server::start(&Arrivals::new(), serve)
        };
        Ok(Handshakes {
            to: aim.end(),
            config,
            _servers: (0..AT_ONCE).map(start).collect(),
        })
    }
}

impl Traffic for Handshakes {
    /// Makes connections for the duration, from threads in the client's namespace: each connection has a new socket,
    /// which belongs to the namespace of its thread.
    fn burst(&mut self, place: &Place, duration: Duration, _emptied: &Emptied) -> Result<Burst> {
        let (to, config) = (self.to, &self.config);
        place.client.enter(|| {
            let start = Instant::now();
            let counts: Vec<Result<u64>> = thread::scope(|scope| {
                let client = || connect_until(start + duration, to, config);
                let clients: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(client)).collect();
                clients.into_iter().map(joined).collect()
            });
            let seconds = start.elapsed().as_secs_f64();
            let sent = counts.into_iter().sum::<Result<u64>>()?;
            Ok(Burst {
                sent,
                arrived: sent,
                seconds,
                latencies: None,
            })
        })
    }
}

/// Returns the configurations of a client and of a server whose certificate it trusts.
pub fn ends() -> Result<(Arc<ClientConfig>, Arc<ServerConfig>)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_string()]).context("certificate")?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let client = client_config(Some(certificate.clone()))?;
    Ok((client, server_config(certificate, key)?))
}

fn joined(client: thread::ScopedJoinHandle<Result<u64>>) -> Result<u64> {
    client.join().unwrap_or_else(|_| bail!("a client panicked"))
}

/// Makes consecutive connections until `end`. Returns their number.
fn connect_until(end: Instant, to: SocketAddr, config: &Arc<ClientConfig>) -> Result<u64> {
    let mut count = 0;
    while Instant::now() < end {
        one_byte(to, config).with_context(|| format!("connect to {to}"))?;
        count += 1;
    }
    Ok(count)
}

/// Returns a client configuration that trusts the given certificate, or none.
fn client_config(certificate: Option<CertificateDer<'static>>) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    if let Some(certificate) = certificate {
        roots.add(certificate).context("certificate")?;
    }
    let builder = ClientConfig::builder();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
) -> Result<Arc<ServerConfig>> {
    let builder = ServerConfig::builder().with_no_client_auth();
    let mut config = builder.with_single_cert(vec![certificate], key.into())?;
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn client(config: &Arc<ClientConfig>) -> io::Result<ClientConnection> {
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    ClientConnection::new(config.clone(), name).map_err(io::Error::other)
}

/// Connects, does a TLS handshake as the client, reads the server's byte and aborts the connection.
fn one_byte(to: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<()> {
    let mut socket = connect(to, STALLED)?;
    // Aborts, so that no port stays in TIME_WAIT: there are only 28,000 ports.
    abort_on_close(&socket)?;
    socket.set_nodelay(true)?;
    take_byte(&mut socket, config)
}

/// Does a TLS handshake as the client and reads the server's byte.
pub fn take_byte(socket: &mut TcpStream, config: &Arc<ClientConfig>) -> io::Result<()> {
    rustls::Stream::new(&mut client(config)?, socket).read_exact(&mut [0])
}

fn serve(listener: &TcpListener, config: &Arc<ServerConfig>, arrivals: &Arrivals) {
    while !arrivals.over() {
        if let Ok((mut socket, _)) = listener.accept() {
            // The client notices and reports a failure.
            let _ = give_byte(&mut socket, config);
        }
    }
}

/// Does a TLS handshake as the server and sends a byte.
pub fn give_byte(socket: &mut TcpStream, config: &Arc<ServerConfig>) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(STALLED))?;
    let mut session = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
    let mut stream = rustls::Stream::new(&mut session, socket);
    stream.write_all(b"x")?;
    stream.flush()
}

/// Returns the ClientHello of a TLS client, in a record.
pub fn hello() -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    client(&client_config(None)?)?.write_tls(&mut bytes)?;
    Ok(bytes)
}
