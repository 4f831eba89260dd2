// SPDX-License-Identifier: GPL-2.0-or-later
//! The command lines of `apply`, `confirm`, `revert`, `unapply`, `history` and `boot`.

use std::path::PathBuf;

use clap::Args;

use crate::paths::{CONFIG, POLICY};

/// Options with the place of the generations of `apply`, and of the firewall for the applied policy.
#[derive(Args, Clone)]
pub struct StatePlace {
    /// The folder of the generations; only root may be able to change it
    #[arg(long, value_name = "FOLDER", default_value = apply::store::FOLDER)]
    pub state: PathBuf,
    /// The folder of the firewall's control socket; only root may be able to change it
    #[arg(long, value_name = "FOLDER", default_value = super::firewall::RUN)]
    pub run: PathBuf,
    /// The options of the firewall
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub config: PathBuf,
}

/// Returns a parser for the seconds until a generation is reverted.
pub fn confirm_seconds() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=86400)
}

#[derive(Args)]
pub struct Apply {
    /// The policy, in the syntax of `nft -f`
    #[arg(value_name = "POLICY", default_value = POLICY)]
    pub policy: PathBuf,
    /// Seconds until the policy is reverted unless it is confirmed
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = confirm_seconds())]
    pub confirm: u32,
    /// Keep the policy without a confirmation
    #[arg(long, conflicts_with = "confirm")]
    pub now: bool,
    #[command(flatten)]
    pub place: StatePlace,
}

#[derive(Args)]
pub struct Revert {
    /// The generation to apply again (default: revert the policy that waits
    /// for `confirm`)
    #[arg(value_name = "N")]
    pub generation: Option<u64>,
    /// Seconds until the generation is reverted unless it is confirmed
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = confirm_seconds())]
    pub confirm: u32,
    /// Keep the generation without a confirmation
    #[arg(long, conflicts_with = "confirm", requires = "generation")]
    pub now: bool,
    /// Run by the timer at the deadline of generation N
    #[arg(long, hide = true)]
    pub pending: bool,
    /// Used by the process that waits for the deadline where there is no systemd
    #[arg(long, hide = true)]
    pub at_deadline: bool,
    #[command(flatten)]
    pub place: StatePlace,
}

#[derive(Args)]
pub struct Boot {
    /// The policy
    #[arg(value_name = "POLICY", default_value = POLICY)]
    pub policy: PathBuf,
    #[command(flatten)]
    pub place: StatePlace,
}
