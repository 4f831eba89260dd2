// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS and QUIC ends other than OpenSSL: rustls and quinn, as clients and as servers.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{
    Connection, ConnectionError, Endpoint, EndpointConfig, Incoming, TokioRuntime, TransportConfig,
};
use rustls::crypto::ring::{default_provider, kx_group};
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::quic::Version;
use rustls::{ClientConfig, ClientConnection, NamedGroup, RootCertStore, ServerConfig};
use testbed::wait::PATIENCE;
use tokio::runtime::{Builder, Runtime};

use crate::evasion::net::Net;

/// Server ports of quinn (UDP) and rustls (TCP).
pub const QUIC_PORT: u16 = 443;
pub const TLS_PORT: u16 = 8443;
/// Application protocol of the servers (ALPN).
pub const SPOKEN: &str = "spoken";

/// Time without any packet after which an end gives up a QUIC connection.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Kind of a ClientHello, by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hello {
    Plain,
    /// With a key share for X25519MLKEM768 and one for X25519, like browsers: two QUIC packets.
    PostQuantum,
    /// With a key share for FrodoKEM-640 with X25519 and one for X25519: nine QUIC packets.
    Longest,
}

pub const HELLOS: [Hello; 3] = [Hello::Plain, Hello::PostQuantum, Hello::Longest];

/// Group of a hybrid key exchange that a client offers to a server that supports X25519 only. The hybrid's key
/// share has arbitrary bytes; the client's X25519 key is in a separate key share.
#[derive(Debug)]
struct Hybrid {
    group: NamedGroup,
    share_bytes: usize,
}

/// Hybrid of ML-KEM-768 and X25519 (draft-ietf-tls-ecdhe-mlkem, section 4.1).
const POST_QUANTUM: Hybrid = Hybrid {
    group: NamedGroup::X25519MLKEM768,
    share_bytes: 1184 + 32,
};
/// Hybrid of FrodoKEM-640 and X25519, with the group number of Open Quantum Safe.
const LONGEST: Hybrid = Hybrid {
    group: NamedGroup::Unknown(0x2f80),
    share_bytes: 9616 + 32,
};

struct Shares {
    group: NamedGroup,
    hybrid: Vec<u8>,
    known: Box<dyn ActiveKeyExchange>,
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        Ok(Box::new(Shares {
            group: self.group,
            hybrid: (0..self.share_bytes).map(|at| (at * 167) as u8).collect(),
            known: kx_group::X25519.start()?,
        }))
    }

    fn name(&self) -> NamedGroup {
        self.group
    }
}

impl ActiveKeyExchange for Shares {
    fn complete(self: Box<Self>, _peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        Err(rustls::Error::General("no server here knows it".to_owned()))
    }

    fn hybrid_component(&self) -> Option<(NamedGroup, &[u8])> {
        Some((self.known.group(), self.known.pub_key()))
    }

    fn complete_hybrid_component(
        self: Box<Self>,
        peer: &[u8],
    ) -> Result<SharedSecret, rustls::Error> {
        self.known.complete(peer)
    }

    fn pub_key(&self) -> &[u8] {
        &self.hybrid
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}

/// Certificate for some names, with its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    pub fn new(names: &[&str]) -> anyhow::Result<Identity> {
        let names = names.iter().map(|name| name.to_ascii_lowercase());
        let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>())?;
        Ok(Identity {
            certificate: made.cert.der().clone(),
            key: PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into()),
        })
    }

    fn server(&self) -> anyhow::Result<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![SPOKEN.as_bytes().to_vec()];
        Ok(config)
    }

    /// Returns the configuration of a client that trusts this certificate.
    /// - more: a protocol (ALPN) that the client offers first.
    pub fn client(&self, hello: Hello, more: Option<&str>) -> anyhow::Result<ClientConfig> {
        let mut provider: CryptoProvider = default_provider();
        match hello {
            Hello::Plain => {}
            Hello::PostQuantum => provider.kx_groups.insert(0, &POST_QUANTUM),
            Hello::Longest => provider.kx_groups.insert(0, &LONGEST),
        }
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let offered = more.into_iter().chain([SPOKEN]);
        config.alpn_protocols = offered.map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }
}

/// Returns the transport of both ends of QUIC: nothing drives a client while a case does something else.
fn patient() -> anyhow::Result<Arc<TransportConfig>> {
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(IDLE_MAX.try_into()?));
    Ok(Arc::new(transport))
}

fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Serves TLS by rustls on TLS_PORT until the case ends.
pub fn serve_tls(net: &Net, identity: &Identity) -> anyhow::Result<()> {
    let config = Arc::new(identity.server()?);
    let listener = net
        .server
        .enter(|| TcpListener::bind((Ipv6Addr::UNSPECIFIED, TLS_PORT)))?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let connection = rustls::ServerConnection::new(config.clone());
            thread::spawn(move || connection.map(|mut end| end.complete_io(&mut stream)));
        }
    });
    Ok(())
}

/// Names that clients requested from a server, each with the client's port. Over QUIC they are recorded once a hello is
/// complete.
pub type Heard = Arc<Mutex<Vec<(u16, String)>>>;

/// Accepts a QUIC client, records the name in its hello, and sends as many bytes as the client requests.
async fn take_in(incoming: Incoming, heard: Heard) -> Option<()> {
    let port = incoming.remote_address().port();
    let mut connecting = incoming.accept().ok()?;
    let data = connecting.handshake_data().await.ok()?;
    let data = data.downcast::<HandshakeData>().ok()?;
    let name = data.server_name.unwrap_or_default();
    heard.lock().expect("no panic").push((port, name));
    let connection = connecting.await.ok()?;
    while let Ok((mut answer, mut ask)) = connection.accept_bi().await {
        let bytes = ask.read_to_end(size_of::<u64>()).await.ok()?;
        let bytes = u64::from_be_bytes(bytes.try_into().ok()?);
        answer.write_all(&vec![7; bytes as usize]).await.ok()?;
        answer.finish().ok()?;
    }
    Some(())
}

/// Serves QUIC by quinn until the case ends.
/// - retry: true if each client must first validate its address (RFC 9000, section 8.1.2).
/// - heard: receives the names in the hellos.
pub fn serve_quic(
    net: &Net,
    identity: &Identity,
    port: u16,
    retry: bool,
    heard: &Heard,
) -> anyhow::Result<()> {
    let heard = heard.clone();
    let crypto = QuicServerConfig::try_from(identity.server()?)?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(patient()?);
    let socket = net
        .server
        .enter(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)))?;
    let runtime = runtime()?;
    let endpoint = {
        let _inside = runtime.enter();
        let settings = EndpointConfig::default();
        Endpoint::new(settings, Some(config), socket, Arc::new(TokioRuntime))?
    };
    thread::spawn(move || {
        runtime.block_on(async {
            while let Some(incoming) = endpoint.accept().await {
                if retry && !incoming.remote_address_validated() {
                    let _ = incoming.retry();
                    continue;
                }
                tokio::spawn(take_in(incoming, heard.clone()));
            }
        });
    });
    Ok(())
}

/// Returns true if a TLS handshake with the server completes within `patience`.
pub fn completes_tls(
    net: &Net,
    server: IpAddr,
    config: ClientConfig,
    name: &str,
    patience: Duration,
) -> anyhow::Result<bool> {
    let address = SocketAddr::from((server, TLS_PORT));
    let mut stream = net
        .client
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
    stream.set_read_timeout(Some(patience))?;
    let name = ServerName::try_from(name.to_owned())?;
    let mut connection = ClientConnection::new(Arc::new(config), name)?;
    while connection.is_handshaking() {
        match connection.complete_io(&mut stream) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("rustls"),
        }
    }
    Ok(true)
}

/// QUIC client whose handshake is complete.
pub struct QuicClient {
    runtime: Runtime,
    _endpoint: Endpoint,
    connection: Connection,
}

impl QuicClient {
    /// Connects from a port; 0 = any port. Returns None if the handshake does not complete within `patience`.
    pub fn new(
        net: &Net,
        port: u16,
        server: IpAddr,
        config: ClientConfig,
        name: &str,
        patience: Duration,
    ) -> anyhow::Result<Option<QuicClient>> {
        let any: IpAddr = match server {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = net.client.enter(|| UdpSocket::bind((any, port)))?;
        let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config)?));
        config.transport_config(patient()?);
        let runtime = runtime()?;
        let connected = runtime.block_on(async {
            let settings = EndpointConfig::default();
            let endpoint = Endpoint::new(settings, None, socket, Arc::new(TokioRuntime))?;
            let server = SocketAddr::from((server, QUIC_PORT));
            let connecting = endpoint.connect_with(config, server, name)?;
            match tokio::time::timeout(patience, connecting).await {
                Ok(Ok(connection)) => Ok(Some((endpoint, connection))),
                Err(_) | Ok(Err(ConnectionError::TimedOut)) => Ok(None),
                Ok(Err(error)) => Err(error).context("quinn"),
            }
        })?;
        Ok(connected.map(|(endpoint, connection)| QuicClient {
            runtime,
            _endpoint: endpoint,
            connection,
        }))
    }

    /// Requests bytes from the server. Returns true if all of them arrive within `patience`.
    pub fn fetches(&self, bytes: u64, patience: Duration) -> bool {
        let fetch = async {
            let (mut ask, mut answer) = self.connection.open_bi().await.ok()?;
            ask.write_all(&bytes.to_be_bytes()).await.ok()?;
            ask.finish().ok()?;
            let got = answer.read_to_end(bytes as usize).await.ok()?;
            (got.len() as u64 == bytes).then_some(())
        };
        let fetched = self
            .runtime
            .block_on(async { tokio::time::timeout(patience, fetch).await });
        matches!(fetched, Ok(Some(())))
    }
}

/// Returns true if a QUIC handshake with the server completes within `patience`.
pub fn completes_quic(
    net: &Net,
    server: IpAddr,
    config: ClientConfig,
    name: &str,
    patience: Duration,
) -> anyhow::Result<bool> {
    let client = QuicClient::new(net, 0, server, config, name, patience)?;
    Ok(client.is_some())
}

/// Returns a ClientHello as carried in QUIC's CRYPTO frames.
/// - source: the client's connection id.
pub fn quic_hello(
    config: ClientConfig,
    name: &str,
    version: Version,
    source: &[u8],
) -> anyhow::Result<Vec<u8>> {
    // Transport parameter initial_source_connection_id, the only one that a server requires (RFC 9000, section 7.3).
    let parameters = [&[0x0f, source.len() as u8], source].concat();
    let name = ServerName::try_from(name.to_owned())?;
    let mut connection =
        rustls::quic::ClientConnection::new(config.into(), version, name, parameters)?;
    let mut bytes = Vec::new();
    connection.write_hs(&mut bytes);
    Ok(bytes)
}
