// SPDX-License-Identifier: GPL-2.0-or-later
//! Text output: one line per result, `10.0.0.1:22 open syn-ack 0.213 ms matched "SSH-2.0-OpenSSH_9.2"`.

use std::io::{self, Write};

use super::{printable, End, Head, Line, Output};
use crate::state::Finding;
use crate::targets::Address;

pub struct Human;

/// Formats address and port, with brackets around IPv6.
pub fn endpoint(address: Address, port: u16) -> String {
    match address.ip {
        std::net::IpAddr::V4(ip) => format!("{ip}:{port}"),
        std::net::IpAddr::V6(_) => format!("[{address}]:{port}"),
    }
}

impl Output for Human {
    fn begin(&mut self, _head: &Head, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn result(&mut self, line: &Line, to: &mut dyn Write) -> io::Result<()> {
        let endpoint = endpoint(line.address, line.port);
        let (state, reason) = (line.state.name(), line.reason.name());
        write!(to, "{endpoint} {state} {reason}")?;
        // SYN scans measure no round-trip times.
        if line.rtt_us > 0 {
            write!(to, " {:.3} ms", f64::from(line.rtt_us) / 1000.0)?;
        }
        if let Some(name) = line.name {
            write!(to, " ({name})")?;
        }
        if line.errno != 0 {
            write!(to, " ({})", io::Error::from_raw_os_error(line.errno))?;
        }
        match line.matched {
            Some(true) => write!(to, " matched")?,
            Some(false) => write!(to, " no match")?,
            None => {}
        }
        if !matches!(line.finding, Finding::None | Finding::Answer) {
            write!(to, " {}", line.finding.name())?;
        }
        if !line.answer.is_empty() {
            write!(to, " \"{}\"", printable(line.answer))?;
        }
        writeln!(to)
    }

    fn end(&mut self, _end: &End, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
