// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `top`.

use clap::Args;

#[derive(Args)]
pub struct Top {
    /// Seconds between samples, 0.1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub interval: f64,
    /// Leave out the top talkers; the firewall then writes no line for each packet
    #[arg(long)]
    pub no_talkers: bool,
    /// With --json: end after this number of lines
    #[arg(long, value_name = "N", requires = "json")]
    pub count: Option<u64>,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0.1 to 60".to_owned()),
    }
}
