// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `certify`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use testbed::twin::Twin;

use crate::subject::Who;

pub struct Options {
    /// Seconds for random policies; 0 means none.
    pub seconds: u64,
    pub seed: u64,
    /// True to compare whole policies with split policies (see `split`), instead of the twins with the kernel.
    pub split: bool,
    /// Kind of the rules that send packets of split policies to the queue: nft or iptables.
    pub queue: stage::Queue,
    /// Number of packets for each policy and way (path through the cell). With `split`: five times the number of single
    /// packets for each policy and way.
    pub packets: usize,
    pub who: Vec<Who>,
    pub files: Vec<PathBuf>,
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut options = Options {
        seconds: 60,
        seed: now,
        split: false,
        queue: stage::Queue::Iptables,
        packets: 150,
        who: Vec::new(),
        files: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let value = arguments
                .next()
                .ok_or(format!("{argument} needs a value"))?;
            value
                .parse()
                .map_err(|_| format!("{argument}: {value} is no number"))
        };
        match argument.as_str() {
            "--seconds" => options.seconds = number()?,
            "--seed" => options.seed = number()?,
            "--packets" => options.packets = number()?.clamp(1, 10_000) as usize,
            "--split" => options.split = true,
            "--queue" => {
                options.queue = match arguments.next().as_deref() {
                    Some("nft") => stage::Queue::Nft,
                    Some("iptables") => stage::Queue::Iptables,
                    _ => return Err("--queue: nft or iptables".to_owned()),
                }
            }
            "--only" => {
                let name = arguments.next().unwrap_or_default();
                let all = [Who::Kernel, Who::Twin(Twin::Rust), Who::Twin(Twin::C)];
                let found = all.into_iter().find(|who| who.name() == name);
                options
                    .who
                    .push(found.ok_or(format!("--only {name}: kernel, rust or c"))?);
            }
            _ if argument.starts_with('-') => return Err(format!("unknown option {argument}")),
            _ => options.files.push(argument.into()),
        }
    }
    if options.who.is_empty() {
        options.who = vec![Who::Kernel, Who::Twin(Twin::Rust), Who::Twin(Twin::C)];
    }
    Ok(options)
}
