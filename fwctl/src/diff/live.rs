// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that the firewall decides now: compares their verdict with the new policy's.

use std::time::{Duration, Instant};

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use rust_firewall::engine::fields;
use rust_firewall::options::{Options, OptionsConntrack};
use rust_firewall::policy::symbol;
use rust_firewall::policy::Type;

use super::engine::{Decision, Engine, Facts, Interfaces};
use super::flips::{Flips, FlowKey};
use crate::answer::Status;
use crate::client::Client;
use crate::event::{Event, Input};
use crate::failure::{tell, Exit, Failure};
use crate::running;
use crate::tail;

/// Fails, as a reload would, if the new policy reads data that the queues don't deliver.
fn check(status: &Status, options: &Options, new: &Engine) -> Result<(), Failure> {
    let given = status.policy.as_ref().map(|policy| &policy.requirement);
    // Bytes that the firewall's policy reads are copied, whatever the option's default is.
    let copied = given
        .map_or(0, |given| given.copy_bytes)
        .max(options.copy_bytes);
    let reads = new.requirement();
    let by_mark = options.conntrack == OptionsConntrack::Mark;
    let conntrack = given.is_some_and(|given| given.conntrack_state || given.conntrack_mark);
    let what = if reads.copy_bytes > copied {
        format!(
            "{} bytes of a packet where the queues give it {}",
            reads.copy_bytes, copied
        )
    } else if reads.uid_gid && !given.is_some_and(|given| given.uid_gid) {
        "meta skuid or meta skgid, which the queues do not give".to_owned()
    } else if (reads.conntrack_state || reads.conntrack_mark) && !by_mark && !conntrack {
        "ct state or ct mark, which the queues do not give".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::new(
        Exit::Usage,
        format_args!(
            "the new policy reads {what}, so live packets lack it: compare by a capture, and bring \
             it in by `fwctl upgrade`"
        ),
    ))
}

/// Parses the name of a connection state.
fn ct_state(name: &str) -> Option<u32> {
    symbol::find(symbol::symbols_of(Type::CtState), name)
}

fn nfproto(ethertype: u16) -> u8 {
    match i32::from(ethertype) {
        libc::ETH_P_IP => fields::IPV4,
        libc::ETH_P_IPV6 => fields::IPV6,
        _ => 0,
    }
}

fn facts_of(packet: &str, input: &Input, time_ns: u64) -> Option<Facts> {
    Some(Facts {
        bytes: STANDARD.decode(packet).ok()?,
        original: input.length,
        truncated: input.truncated,
        hook: input.hook,
        nfproto: nfproto(input.ethertype),
        mark: input.mark,
        iif: input.iifname.clone().into_bytes(),
        oif: input.oifname.clone().into_bytes(),
        uid: input.uid,
        gid: input.gid,
        ct_state: input.ct_state.as_deref().and_then(ct_state),
        ct_mark: input.ct_mark,
        time_ns,
    })
}

/// Compares the running firewall's verdicts with those of the new policy, for the packets of the next `seconds`
/// seconds, and adds them to `flips`. Returns the number of packets that came too fast to be compared.
pub fn compare(
    mut client: Client,
    status: &Status,
    seconds: u32,
    mut new: Engine,
    interfaces: &Interfaces,
    flips: &mut Flips,
) -> Result<u64, Failure> {
    check(status, &running::options(status)?, &new)?;
    tail::begin(&mut client, &[], true)?;
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds.into());
    let mut missed = 0;
    while Instant::now() < end && client.wait_until(end)? {
        let Some(line) = client.line()? else {
            tell("warning", "the firewall has ended, or ended the connection");
            break;
        };
        let event = Event::parse(&line)?;
        missed += event.missed();
        let (Some(packet), Some(input)) = (&event.packet, &event.input) else {
            continue;
        };
        let time_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Some(facts) = facts_of(packet, input, time_ns) else {
            continue;
        };
        let was = Decision {
            verdict: event.twinwall.verdict.clone().unwrap_or_default(),
            by: event.by(),
        };
        let (will, timed) = new.decide(&facts, interfaces);
        flips.note(FlowKey::of(&facts.bytes, facts.original), was, will, timed);
    }
    Ok(missed)
}
