// SPDX-License-Identifier: GPL-2.0-or-later
//! TLS client and server by rustls with aws-lc-rs, which supports post-quantum key exchange.
//!
//!     rustls-aws-lc serve PORT CERTIFICATE KEY   prints `ready`; performs handshakes
//!     rustls-aws-lc ask                          like go-tls, with the same input and output

use std::error::Error;
use std::io::{self, BufRead, ErrorKind, Write};
use std::net::{IpAddr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme,
};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Accepts any certificate of a server.
#[derive(Debug)]
struct Trusting;

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer,
        _: &[CertificateDer],
        _: &ServerName,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn serve(port: &str, certificate: &str, key: &str) -> Fallible<()> {
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_file(certificate)?],
            PrivateKeyDer::from_pem_file(key)?,
        )?;
    let config = Arc::new(config);
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port.parse()?))?;
    println!("ready");
    for mut stream in listener.incoming().flatten() {
        let connection = ServerConnection::new(config.clone());
        thread::spawn(move || connection.map(|mut end| end.complete_io(&mut stream)));
    }
    Ok(())
}

/// Performs a TLS handshake as a line of input requests: TLS version, server's IP address, port, name for SNI,
/// and seconds. Returns `yes` and the length of the ClientHello in bytes, or `no` if the server sends nothing for these
/// seconds before the handshake is complete.
fn ask(question: &str) -> Fallible<String> {
    let words: Vec<&str> = question.split(' ').collect();
    let [way, host, port, name, seconds] = words[..] else {
        return Err("five words are a question".into());
    };
    let versions = match way {
        "1.2" => vec![&TLS12],
        _ => vec![&TLS12, &TLS13],
    };
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&versions)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting))
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned())?;
    let mut connection = ClientConnection::new(Arc::new(config), name)?;
    let mut stream = TcpStream::connect((host.parse::<IpAddr>()?, port.parse()?))?;
    stream.set_read_timeout(Some(Duration::from_secs_f64(seconds.parse()?)))?;
    let mut hello = Vec::new();
    connection.write_tls(&mut hello)?;
    stream.write_all(&hello)?;
    while connection.is_handshaking() {
        match connection.complete_io(&mut stream) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok("no".to_owned()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(format!("yes {}", hello.len()))
}

fn ask_all() -> Fallible<()> {
    let lines: Vec<String> = io::stdin().lock().lines().collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let asked: Vec<_> = lines
            .iter()
            .map(|line| scope.spawn(move || ask(line).map_err(|error| format!("{line}: {error}"))))
            .collect();
        for (number, answer) in asked.into_iter().enumerate() {
            println!("{number} {}", answer.join().expect("no panic")?);
        }
        Ok(())
    })
}

fn main() -> Fallible<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", port, certificate, key] => serve(port, certificate, key),
        ["ask"] => ask_all(),
        _ => Err("rustls-aws-lc serve PORT CERTIFICATE KEY, or rustls-aws-lc ask".into()),
    }
}
