// SPDX-License-Identifier: GPL-2.0-or-later
//! Top talkers: the source addresses with the most packets, counted from the events of `tail` on a separate thread.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::client;
use crate::event::Event;
use crate::failure::Failure;
use crate::output::printable;
use crate::tail;

/// Maximum number of addresses that are counted separately between two reads.
const ADDRESSES_MAX: usize = 4096;
/// Pause between the end of an event stream (`tail`) and the request for the next one.
const PAUSE: Duration = Duration::from_secs(1);

/// Packets with one source address, in the firewall's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub packets: u64,
    /// Number of packets that were not accepted.
    pub refused: u64,
    /// Last name in the events of these packets; None if no event has a name.
    pub name: Option<String>,
}

/// Packets in the firewall's events since the last call of `take`.
#[derive(Clone, Debug, Default)]
pub struct Talk {
    pub heard: HashMap<IpAddr, Heard>,
    pub packets: u64,
    /// Number of packets without an event, because they came too fast.
    pub missed: u64,
    /// Reason why the packets can't be counted.
    pub error: Option<String>,
}

impl Talk {
    fn note(&mut self, event: &Event) {
        self.missed += event.missed();
        let (true, Some(address)) = (event.is_packet(), event.src_ip) else {
            return;
        };
        self.packets += 1;
        if self.heard.len() >= ADDRESSES_MAX && !self.heard.contains_key(&address) {
            return;
        }
        let heard = self.heard.entry(address).or_default();
        heard.packets += 1;
        heard.refused += u64::from(event.twinwall.verdict.as_deref() != Some("accept"));
        if let Some(name) = event.name() {
            heard.name = Some(printable(name));
        }
    }
}

#[derive(Clone, Default)]
pub struct Talkers(Arc<Mutex<Talk>>);

impl Talkers {
    fn lock(&self) -> MutexGuard<'_, Talk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, socket: &Path) -> Result<(), Failure> {
        let mut client = client::connect(socket)?;
        tail::begin(&mut client, &[], false)?;
        self.lock().error = None;
        while let Some(line) = client.line()? {
            let event = Event::parse(&line)?;
            self.lock().note(&event);
        }
        Ok(())
    }

    /// Starts a thread that reads the firewall's events, if `wanted`. The thread ends with the program.
    pub fn start(socket: PathBuf, wanted: bool) -> Talkers {
        let talkers = Talkers::default();
        if !wanted {
            return talkers;
        }
        let listener = talkers.clone();
        thread::spawn(move || loop {
            if let Err(failure) = listener.listen(&socket) {
                listener.lock().error = Some(failure.text);
            }
            thread::sleep(PAUSE);
        });
        talkers
    }

    /// Returns the packets in the firewall's events since the last call.
    pub fn take(&self) -> Talk {
        let mut talk = self.lock();
        let error = talk.error.clone();
        std::mem::replace(
            &mut talk,
            Talk {
                error,
                ..Talk::default()
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(address: &str, verdict: &str) -> Event {
        Event::parse(&format!(
            "{{\"timestamp\":\"\",\"event_type\":\"{verdict}\",\"src_ip\":\"{address}\",\
             \"twinwall\":{{\"verdict\":\"{verdict}\"}}}}"
        ))
        .unwrap()
    }

    #[test]
    fn packets_are_counted_by_their_source() {
        let talkers = Talkers::default();
        for verdict in ["accept", "drop", "reject"] {
            talkers.lock().note(&packet("192.0.2.1", verdict));
        }
        let talk = talkers.take();
        let expected = Heard {
            packets: 3,
            refused: 2,
            name: None,
        };
        assert_eq!(talk.heard[&"192.0.2.1".parse().unwrap()], expected);
        assert_eq!(talkers.take().packets, 0);
    }

    #[test]
    fn the_last_name_stays_and_is_printable() {
        let mut talk = Talk::default();
        for name in [
            r#""tls":{"sni":"old.example"},"#,
            r#""http":{"hostname":"a\u001b[2Jb.example"},"#,
            "",
        ] {
            let line = format!(
                r#"{{"timestamp":"","event_type":"accept","src_ip":"192.0.2.1",{name}"twinwall":{{"verdict":"accept"}}}}"#
            );
            talk.note(&Event::parse(&line).unwrap());
        }
        let heard = &talk.heard[&"192.0.2.1".parse().unwrap()];
        assert_eq!(heard.name.as_deref(), Some("a?[2Jb.example"));
    }

    #[test]
    fn a_flood_of_addresses_is_bounded() {
        let mut talk = Talk::default();
        for number in 0..ADDRESSES_MAX as u32 + 5 {
            talk.note(&packet(
                &std::net::Ipv4Addr::from(number).to_string(),
                "drop",
            ));
        }
        assert_eq!(
            (talk.heard.len(), talk.packets),
            (ADDRESSES_MAX, ADDRESSES_MAX as u64 + 5)
        );
    }
}
