// SPDX-License-Identifier: GPL-2.0-or-later
//! Parts of a policy for the kernel and a firewall: the unchanged text, or both texts of a policy with names.

use stage::{Options, Queue};

use crate::failure::{policy, Failure, Result};
use crate::firewall::{Naming, Orders, Twin};
use crate::marks;
use crate::nft;
use crate::source::Source;
use crate::state::State;

/// Parameters of the firewall for a policy with names, and settings for the expectations of any policy (comments with
/// expected verdicts).
#[derive(Clone, Debug)]
pub struct Wanted {
    pub twin: Twin,
    /// Options of the firewall, except policy, mask and control socket.
    pub options: Vec<String>,
    /// Options for splitting a policy with names into the kernel's rules and the firewall's policy, derived from
    /// `options`. The queue type and generation in them are ignored: `parts` determines both.
    pub split: Options,
    /// Settings for the policy's expectations (comments with expected verdicts), derived from `options`.
    pub expect: expect::Settings,
    /// True to load a policy with names although rules of other tables put connections into flowtables, past the
    /// policy.
    pub allows_flowtables: bool,
}

/// Texts and data of one generation of a policy: for the kernel, and for the firewall.
pub struct Parts {
    pub number: u64,
    /// Script for nft: the unchanged policy, or the kernel's rules of a policy with names.
    pub kernel: String,
    /// Name of the nft script `kernel` in nft's error messages: the policy's file, or `fwctl split FILE`.
    pub name: String,
    /// The firewall's policy and the data of its start (`Naming`); None: the policy reads no names, and has no sets
    /// that learn.
    pub naming: Option<(String, Naming)>,
    /// Warnings from splitting a policy with names, for the user: "FILE:LINE: …".
    pub warnings: Vec<String>,
    /// True if packets of forwarded connections are queued for the firewall. A flowtable takes such connections past
    /// the policy.
    pub is_forwarding: bool,
}

impl From<stage::Refusal> for Failure {
    fn from(refusal: stage::Refusal) -> Failure {
        policy(refusal)
    }
}

/// Returns the rules in a text for iptables-restore, in the form of `Naming::rules`: the table, then the rule without
/// `-A`.
fn rules(text: Option<&str>) -> Vec<String> {
    let (mut table, mut found) = ("", Vec::new());
    for line in text.unwrap_or_default().lines() {
        table = line.strip_prefix('*').unwrap_or(table);
        let rule = line.strip_prefix("-A ");
        found.extend(rule.map(|rule| format!("{table} {rule}")));
    }
    found
}

/// Splits a policy with names into the kernel's rules and the firewall's policy.
/// - number: number of the generation.
fn split(source: &Source, wanted: &Wanted, number: u64) -> Result<Parts> {
    let queue = match nft::has_queue()? {
        true => Queue::Nft,
        false => Queue::Iptables,
    };
    let options = Options {
        queue,
        // Truncated: only the remainder of this number selects the generation's value in marks.
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
        learned: split.learned.into_iter().map(Into::into).collect(),
    };
    Ok(Parts {
        number,
        kernel: split.kernel,
        name: format!("fwctl split {}", source.file.display()),
        naming: Some((split.daemon, naming)),
        warnings: split.warnings.iter().map(ToString::to_string).collect(),
        is_forwarding: split.is_forwarding,
    })
}

/// Returns the parts of a policy for the next generation. Skips numbers whose marks can be interpreted as those of the
/// applied generation, or the reverse; fails if no other number is left.
pub fn parts(source: &Source, wanted: &Wanted, state: &State) -> Result<Parts> {
    let number = state.next_number();
    if !stage::asks_for_names(&source.text)? {
        return Ok(Parts {
            number,
            kernel: source.text.text.clone(),
            name: source.file.display().to_string(),
            naming: None,
            warnings: Vec::new(),
            is_forwarding: false,
        });
    }
    let parts = split(source, wanted, number)?;
    let applied = state
        .applied()
        .and_then(|one| Some((one.number, one.naming.as_ref()?)));
    let (Some(applied), Some((_, naming))) = (applied, &parts.naming) else {
        return Ok(parts);
    };
    match marks::free_number(number, naming, applied) {
        Some(free) if free == number => Ok(parts),
        Some(free) => split(source, wanted, free),
        None => Err(policy(format_args!(
            "the policy's classes in marks can be taken for those of generation {}: leave both the same bits of marks \
             (MARKS in twinwall.conf), or run fwctl unapply first",
            applied.0
        ))),
    }
}
