// SPDX-License-Identifier: GPL-2.0-or-later
//! Expected state of each port by a policy. The policy must accept the question (a SYN) on its way in, and the answer
//! on its way out.

use super::explain::{Decision, Firewall, Packets, Verdict};
use super::pcap::Kind;
use crate::failure::Result;
use crate::ports::Ports;
use crate::state::State;

/// The policy's decisions on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub question: Decision,
    /// The rule or chain (see `Decision::by`) that drops or rejects the SYN-ACK of an open port. None: the policy
    /// accepts the SYN-ACK, or it does not accept the SYN.
    pub syn_ack_kept: Option<String>,
    /// The rule or chain that drops or rejects the RST of a closed port, or of `reject with tcp reset`. None: the
    /// policy accepts the RST, or it neither accepts the SYN nor rejects it by a RST.
    pub reset_kept: Option<String>,
}

impl Expected {
    /// Returns true if the policy explains a state. An accepted port may be open or closed: the policy does not
    /// determine whether a server listens. A port whose answer is dropped is filtered.
    pub fn meets(&self, state: State) -> bool {
        let heard = |kept: &Option<String>, heard| match kept {
            None => state == heard,
            Some(_) => state == State::Filtered,
        };
        match &self.question.verdict {
            Verdict::Accept => {
                heard(&self.syn_ack_kept, State::Open) || heard(&self.reset_kept, State::Closed)
            }
            Verdict::Drop => state == State::Filtered,
            Verdict::Reject(with) if with == "tcp reset" => heard(&self.reset_kept, State::Closed),
            // Port-unreachable appears as closed or filtered, all other rejections as filtered.
            Verdict::Reject(with) if with.ends_with("port-unreachable") => {
                matches!(state, State::Closed | State::Filtered)
            }
            Verdict::Reject(_) => state == State::Filtered,
        }
    }

    /// Returns true if the policy drops or rejects an answer, so that the scanner does not receive it.
    pub fn is_kept(&self) -> bool {
        self.syn_ack_kept.is_some() || self.reset_kept.is_some()
    }

    /// Formats the decisions: `accept, but the answer of an open port is dropped by policy.nft:12`.
    pub fn said(&self) -> String {
        let verdict = match &self.question.verdict {
            Verdict::Accept => "accept".to_string(),
            Verdict::Drop => "drop".to_string(),
            Verdict::Reject(with) => format!("reject with {with}"),
        };
        let is_accepted = self.question.verdict == Verdict::Accept;
        match (&self.syn_ack_kept, &self.reset_kept) {
            (None, None) => verdict,
            (Some(one), Some(other)) if one == other => {
                format!("{verdict}, but the answer is dropped by {one}")
            }
            (Some(open), Some(closed)) => format!(
                "{verdict}, but the answer is dropped by {open} (open) or {closed} (closed)"
            ),
            (Some(by), None) => {
                format!("{verdict}, but the answer of an open port is dropped by {by}")
            }
            (None, Some(by)) if is_accepted => {
                format!("{verdict}, but the answer of a closed port is dropped by {by}")
            }
            (None, Some(by)) => format!("{verdict}, but the RST is dropped by {by}"),
        }
    }
}

/// Returns the hook that answers pass if the questions pass `hook`: the one for the opposite direction.
fn opposite(hook: &str) -> &str {
    match hook {
        "input" => "output",
        "output" => "input",
        "prerouting" => "postrouting",
        "postrouting" => "prerouting",
        other => other,
    }
}

/// Returns the policy's decisions on each port. Queries the firewall for the SYN to each port, and for the answers to
/// SYNs that are accepted, or rejected by a RST.
/// - hook: hook that the SYNs pass; the answers pass the opposite hook.
/// - iif: interface by which SYNs come in and answers leave; None passes no interface to the firewall.
pub fn expected(
    firewall: &Firewall,
    hook: &str,
    iif: Option<&str>,
    ports: &Ports,
) -> Result<Vec<Expected>> {
    let ports: Vec<u16> = ports.iter().collect();
    let questions = firewall.decisions(&Packets {
        kind: Kind::Syn,
        hook,
        ct_state: "new",
        interface: iif.map(|name| ["--iif", name]),
        ports: &ports,
    })?;
    let mut all: Vec<Expected> = questions
        .into_iter()
        .map(|question| Expected {
            question,
            syn_ack_kept: None,
            reset_kept: None,
        })
        .collect();
    let is_accepted = |question: &Decision| question.verdict == Verdict::Accept;
    let is_reset =
        |question: &Decision| question.verdict == Verdict::Reject("tcp reset".to_string());
    let mut ask = |which: &dyn Fn(&Decision) -> bool, kind, ct_state| -> Result<()> {
        let at = (0..ports.len()).filter(|&at| which(&all[at].question));
        let (at, ports): (Vec<usize>, Vec<u16>) = at.map(|at| (at, ports[at])).unzip();
        let answers = firewall.decisions(&Packets {
            kind,
            hook: opposite(hook),
            ct_state,
            interface: iif.map(|name| ["--oif", name]),
            ports: &ports,
        })?;
        for (at, answer) in at.into_iter().zip(answers) {
            // A rejected answer is reported to its sender, not to us.
            let kept = (answer.verdict != Verdict::Accept).then_some(answer.by);
            match kind {
                Kind::SynAck => all[at].syn_ack_kept = kept,
                _ => all[at].reset_kept = kept,
            }
        }
        Ok(())
    };
    ask(&is_accepted, Kind::SynAck, "established")?;
    ask(&is_accepted, Kind::Reset, "established")?;
    // A rejected question has no connection.
    ask(&is_reset, Kind::Reset, "invalid")?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 4] = [State::Open, State::Closed, State::Filtered, State::Error];

    fn expected(
        verdict: Verdict,
        syn_ack_kept: Option<&str>,
        reset_kept: Option<&str>,
    ) -> Expected {
        Expected {
            question: Decision {
                verdict,
                by: String::new(),
            },
            syn_ack_kept: syn_ack_kept.map(str::to_string),
            reset_kept: reset_kept.map(str::to_string),
        }
    }

    #[test]
    fn verdicts_lead_to_states() {
        let reject = |with: &str| Verdict::Reject(with.to_string());
        for (verdict, states) in [
            (Verdict::Accept, [true, true, false, false]),
            (Verdict::Drop, [false, false, true, false]),
            (reject("tcp reset"), [false, true, false, false]),
            (reject("icmp port-unreachable"), [false, true, true, false]),
            (reject("icmp host-unreachable"), [false, false, true, false]),
        ] {
            let expected = expected(verdict, None, None);
            assert_eq!(STATES.map(|state| expected.meets(state)), states);
        }
    }

    #[test]
    fn an_answer_that_is_kept_back_is_silence() {
        let reset = Verdict::Reject("tcp reset".into());
        for (verdict, syn_ack, rst, states, said) in [
            (
                Verdict::Accept,
                Some("p:1"),
                Some("p:1"),
                [false, false, true, false],
                "accept, but the answer is dropped by p:1",
            ),
            (
                Verdict::Accept,
                Some("p:1"),
                None,
                [false, true, true, false],
                "accept, but the answer of an open port is dropped by p:1",
            ),
            (
                Verdict::Accept,
                None,
                Some("p:2"),
                [true, false, true, false],
                "accept, but the answer of a closed port is dropped by p:2",
            ),
            (
                reset,
                None,
                Some("p:2"),
                [false, false, true, false],
                "reject with tcp reset, but the RST is dropped by p:2",
            ),
        ] {
            let expected = expected(verdict, syn_ack, rst);
            assert_eq!(STATES.map(|state| expected.meets(state)), states, "{said}");
            assert_eq!(expected.said(), said);
            assert!(expected.is_kept());
        }
    }
}
