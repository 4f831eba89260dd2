// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel and a firewall get of a policy: its text as it is, or both parts of a policy with names.

use stage::{Options, Queue};

use crate::failure::{policy, Failure, Result};
use crate::firewall::{Naming, Orders, Twin};
use crate::marks;
use crate::nft;
use crate::source::Source;
use crate::state::State;

/// The orders for the firewall of a policy with names.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub twin: Twin,
    /// Its options, but for its policy, its mask and its control socket.
    pub options: Vec<String>,
    /// Settings of the kernel's text that follow from these options. The kind of queue and the generation are filled in here.
    pub split: Options,
    /// These options for the decision of expectations.
    pub expect: expect::Settings,
}

/// A policy in its parts.
pub struct Parts {
    pub number: u64,
    /// For nft.
    pub kernel: String,
    /// The name of that text in nft's messages.
    pub name: String,
    /// The firewall's policy, and what else its names need.
    pub naming: Option<(String, Naming)>,
    /// To tell: "FILE:LINE: …".
    pub warnings: Vec<String>,
}

impl From<stage::Refusal> for Failure {
    fn from(refusal: stage::Refusal) -> Failure {
        policy(refusal)
    }
}

/// The rules in the text of iptables-restore, without the command.
fn rules(text: Option<&str>) -> Vec<String> {
    let lines = text.unwrap_or_default().lines();
    lines
        .filter_map(|line| line.strip_prefix("-A "))
        .map(str::to_owned)
        .collect()
}

/// Splits a policy with names for a generation.
fn split(source: &Source, wanted: &Wanted, number: u64) -> Result<Parts> {
    let queue = match nft::has_queue()? {
        true => Queue::Nft,
        false => Queue::Iptables,
    };
    let options = Options {
        queue,
        // Its bits are its remainder.
        generation: (number % (1 << 31)) as u32,
        ..wanted.split
    };
    let split = stage::split(&source.text, &options)?;
    let naming = Naming {
        orders: Orders {
            twin: wanted.twin,
            options: wanted.options.clone(),
            mask: split.mask,
        },
        generations: split.generations,
        settled: split.settled,
        rules: rules(split.iptables.as_deref()),
    };
    Ok(Parts {
        number,
        kernel: split.kernel,
        name: format!("fwctl split {}", source.file.display()),
        naming: Some((split.daemon, naming)),
        warnings: split.warnings.iter().map(ToString::to_string).collect(),
    })
}

/// Makes the parts of a policy for the next generation. Its number leaves one out if the applied one has the same bits.
pub fn parts(source: &Source, wanted: &Wanted, state: &State) -> Result<Parts> {
    let number = state.next_number();
    if !stage::asks_for_names(&source.text)? {
        return Ok(Parts {
            number,
            kernel: source.text.text.clone(),
            name: source.file.display().to_string(),
            naming: None,
            warnings: Vec::new(),
        });
    }
    let parts = split(source, wanted, number)?;
    let applied = state
        .applied()
        .and_then(|one| Some((one.number, one.naming.as_ref()?)));
    let is_taken = |(_, naming): &(String, Naming)| {
        applied.is_some_and(|applied| marks::are_alike(applied, (number, naming)))
    };
    match parts.naming.as_ref().is_some_and(is_taken) {
        true => split(source, wanted, number + 1),
        false => Ok(parts),
    }
}
