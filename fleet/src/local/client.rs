// SPDX-License-Identifier: GPL-2.0-or-later
//! Client of root's service, for the agent.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::protocol::{Answer, Request};
use crate::failure::{later, refused, system, Result};
use crate::report::Local;

/// Time limit of each read and write on the socket. Root's service may answer only after nft has loaded the policy.
const PATIENCE: Duration = Duration::from_secs(120);
const ANSWER_MAX: u64 = 1 << 20;

/// Sends a request to root's service (twinwall-fleet-local). Returns the host's state after the request. Fails with the
/// service's error text if the service refuses. The kind is `Later` if the same request may succeed later.
/// - bundle: bytes of the bundle in `apply` and `try`; empty in other requests.
pub fn ask(socket: &Path, request: &Request, bundle: &[u8]) -> Result<Local> {
    let fail = |error: std::io::Error| {
        system(format_args!(
            "{}: {error}: run systemctl start twinwall-fleet.socket",
            socket.display()
        ))
    };
    let mut stream = UnixStream::connect(socket).map_err(fail)?;
    let line = serde_json::to_string(request).unwrap_or_default() + "\n";
    let mut said = String::new();
    let mut exchange = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // A service that refuses early has sent its reason.
        let sent = stream.write_all(line.as_bytes());
        let sent = sent.and_then(|()| stream.write_all(bundle));
        let read = (&stream).take(ANSWER_MAX).read_to_string(&mut said);
        match said.is_empty() {
            true => sent.and(read).map(|_| ()),
            false => Ok(()),
        }
    };
    exchange().map_err(fail)?;
    match serde_json::from_str(&said) {
        Ok(Answer::Done(local)) => Ok(local),
        Ok(Answer::Error(text)) => Err(refused(text)),
        Ok(Answer::Later(text)) => Err(later(text)),
        Err(_) => Err(system(
            "root's service ended without an answer: see journalctl -u 'twinwall-fleet@*'",
        )),
    }
}
