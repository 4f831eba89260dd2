// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP over TLS, by rustls. Certificates are not verified: the scan reports the answer of any server at the port. rustls
//! allocates memory for each session; the limit on received bytes bounds it.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use super::http::{self, Head, Http, LONGEST_HEAD};
use super::{Scan, Step, Talk};
use crate::failure::{Failure, Result};
use crate::state::Finding;

/// Size of the input buffer. A TLS record has slightly more than 16 KiB; a smaller buffer suffices, since rustls stores
/// partial records.
const INPUT: usize = 4096;
const OUTPUT: usize = 4096;
/// Maximum bytes received: handshake, certificates and head of an honest server.
const MOST_HEARD: usize = 128 * 1024;

pub struct Https {
    http: Http,
    config: Arc<ClientConfig>,
    sessions: Vec<Option<Box<Session>>>,
    /// Head of the response that `answer` returned last.
    answer: Vec<u8>,
}

struct Session {
    tls: ClientConnection,
    head: Vec<u8>,
    heard: usize,
}

impl Https {
    pub fn new(http: Http, slots: usize) -> Result<Https> {
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::failed(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth();
        Ok(Https {
            http,
            config: Arc::new(config),
            sessions: (0..slots).map(|_| None).collect(),
            answer: Vec::new(),
        })
    }

    /// Returns the next step: to send the session's pending data, which it writes to the output, or else to receive.
    fn next(session: &mut Session, talk: &mut Talk) -> Step {
        let mut output = &mut talk.output[..];
        let room = output.len();
        while session.tls.wants_write() && !output.is_empty() {
            if session.tls.write_tls(&mut output).is_err() {
                break;
            }
        }
        match room - output.len() {
            0 => Step::Receive,
            sent => Step::Send(sent),
        }
    }

    fn hear(session: &mut Session, talk: &mut Talk) -> std::result::Result<(), Finding> {
        let mut bytes = &talk.input[..*talk.filled];
        session.heard += bytes.len();
        *talk.filled = 0;
        while !bytes.is_empty() {
            let taken = session.tls.read_tls(&mut bytes);
            // After the peer's close_notify rustls takes no more bytes.
            if taken.map_err(|_| Finding::NoTls)? == 0 {
                break;
            }
            let state = session
                .tls
                .process_new_packets()
                .map_err(|_| Finding::NoTls)?;
            let room = LONGEST_HEAD - session.head.len();
            let count = state.plaintext_bytes_to_read().min(room);
            let from = session.head.len();
            session.head.resize(from + count, 0);
            let read = session.tls.reader().read(&mut session.head[from..]);
            session.head.truncate(from + read.unwrap_or(0));
            if session.head.len() == LONGEST_HEAD {
                break;
            }
        }
        Ok(())
    }
}

impl Scan for Https {
    fn room(&self) -> (usize, usize) {
        // The handshake, and the request after it.
        (INPUT, OUTPUT + self.http.request_room())
    }

    fn opened(&mut self, talk: &mut Talk) -> Step {
        let name = ServerName::from(talk.to.ip);
        let Ok(tls) = ClientConnection::new(self.config.clone(), name) else {
            return Step::Done(Finding::NoTls);
        };
        let mut session = Box::new(Session {
            tls,
            head: Vec::new(),
            heard: 0,
        });
        // Encrypted once the handshake is done.
        let mut request = vec![0; self.http.request_room()];
        let len = self.http.write(talk, &mut request);
        if session.tls.writer().write_all(&request[..len]).is_err() {
            return Step::Done(Finding::NoTls);
        }
        let step = Https::next(&mut session, talk);
        self.sessions[talk.slot] = Some(session);
        step
    }

    fn received(&mut self, talk: &mut Talk) -> Step {
        let Some(session) = &mut self.sessions[talk.slot] else {
            return Step::Done(Finding::NoTls);
        };
        if let Err(finding) = Https::hear(session, talk) {
            return Step::Done(finding);
        }
        match http::head(&session.head) {
            Head::Whole(_) => Step::Done(Finding::Answer),
            Head::Invalid => Step::Done(Finding::Invalid),
            Head::More if session.head.len() >= LONGEST_HEAD => Step::Done(Finding::TooLong),
            Head::More if session.heard > MOST_HEARD => Step::Done(Finding::TooLong),
            Head::More => Https::next(session, talk),
        }
    }

    fn ended(&mut self, talk: &mut Talk, why: Finding) -> Finding {
        match &self.sessions[talk.slot] {
            Some(session) if why == Finding::Ended && session.tls.is_handshaking() => {
                Finding::NoTls
            }
            _ => why,
        }
    }

    fn answer<'a>(&'a mut self, talk: &'a Talk) -> &'a [u8] {
        self.answer.clear();
        if let Some(session) = self.sessions[talk.slot].take() {
            let len = match http::head(&session.head) {
                Head::Whole(len) => len,
                _ => session.head.len().min(256),
            };
            self.answer.extend_from_slice(&session.head[..len]);
        }
        &self.answer
    }
}

/// Certificate verifier that accepts any certificate, but verifies that its owner signed this handshake.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
