// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `fleet`.

use std::path::PathBuf;

use chrono::DateTime;
use clap::{Args, Subcommand};
use fleet::pointer::{is_name, VERSION};
use fleet::question::TRY_SECONDS_MAX;

#[derive(Subcommand)]
pub enum Fleet {
    /// Create users and roles in etcd, and the configuration of hosts
    ///
    /// Writes into a new folder: the operator's login, a key pair for signatures, and for each host its configuration
    /// and its login.
    Init(Init),
    /// Sign a policy and distribute it to the hosts of a channel, wave by wave
    ///
    /// A host keeps the policy only if it still reaches etcd, its ledger reconciles, and its drops are within the
    /// limit; otherwise it reverts by itself. The exit status is 1 if the rollout stopped.
    Push(Push),
    /// Continue an interrupted rollout
    Advance(Advance),
    /// Show the hosts: confirmed, applying, reverted, behind, waiting, silent
    ///
    /// The exit status is 1 if a host is reverted, behind or silent, or its
    /// ledger does not reconcile.
    Status(Status),
    /// Show what a policy would newly drop on each host, before it is applied
    ///
    /// A host that keeps a record (the unit twinwall-record) decides the packets of its last minute again. On other
    /// hosts the kernel counts the packets of the following minute, for policies without names. The policy drops and
    /// changes nothing. The exit status is 1 if a host would drop more packets, reports an error, or is alive and did
    /// not answer.
    Diff(Diff),
    /// Distribute an earlier generation again, to all hosts at once
    Rollback(Rollback),
    /// Replace the keys that hosts trust; the old keys sign the new ones
    Rotate(Rotate),
    /// Print a service-discovery file for Prometheus (file_sd_configs)
    Targets(Channel),
    /// Remove a host that no longer exists from etcd
    Forget {
        #[arg(value_name = "HOST", value_parser = name)]
        host: String,
        #[command(flatten)]
        servers: Servers,
    },
}

/// Options of the connection to etcd: servers, login, and certificates of authorities.
#[derive(Args)]
pub struct Servers {
    /// The servers of etcd: https://HOST:PORT, separated by commas
    #[arg(
        long,
        value_name = "URLS",
        env = "TWINWALL_FLEET_ETCD",
        value_delimiter = ','
    )]
    #[arg(default_value = "http://127.0.0.1:2379")]
    pub etcd: Vec<String>,
    /// A file with USER:PASSWORD for etcd
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_LOGIN")]
    pub login: Option<PathBuf>,
    /// Certificates of authorities, in PEM (default: the system's)
    #[arg(long, value_name = "FILE", env = "TWINWALL_FLEET_CA")]
    pub ca: Option<PathBuf>,
}

/// Options with keys: the secret keys that sign, and the keys that hosts trust.
#[derive(Args)]
pub struct Signing {
    /// A secret key of minisign; may be repeated. Its password, if it has one, is in TWINWALL_KEY_PASSWORD
    #[arg(long, value_name = "KEY", required = true)]
    pub sign: Vec<PathBuf>,
    /// The file of keys that the hosts trust, to verify the content of the store (default: the keys that sign)
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
}

/// Options that control when a rollout continues, and when it stops.
#[derive(Args)]
pub struct Waiting {
    /// Begin the first wave and end; `fwctl fleet advance` continues
    #[arg(long)]
    pub no_wait: bool,
    /// Number of hosts that may revert before the rollout stops
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_reverted: usize,
    /// Percentage of the reached hosts that must have confirmed before the next wave
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = percent)]
    pub enough: usize,
    /// Seconds without progress after which the command ends
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub patience: u64,
}

/// Options with the conditions under which a host applies a policy, and keeps it.
#[derive(Args)]
pub struct Careful {
    /// Seconds after which a host reverts unless it has confirmed the policy
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=86400))]
    pub confirm: u32,
    /// Seconds for which a host observes the policy before it confirms
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub observe: u32,
    /// Seconds for which a host evaluates the policy on its traffic before it applies it; --max-drops limits what a
    /// rule may newly drop
    #[arg(
        long = "try",
        value_name = "SECONDS",
        default_value_t = 0,
        requires = "max_drops"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(TRY_SECONDS_MAX)))]
    pub try_seconds: u32,
    /// Packets per second that any rule with a counter may drop during this time
    #[arg(long, value_name = "N")]
    pub max_drops: Option<u64>,
    /// Earliest time for hosts to apply the policy: seconds since 1970, or 2026-11-24T18:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub not_before: Option<u64>,
    /// Time after which hosts no longer apply the policy; hosts that have applied it keep it
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub expires: Option<u64>,
    /// Minimum version of a host
    #[arg(long, value_name = "VERSION", default_value = VERSION)]
    pub least_version: String,
}

#[derive(Args)]
pub struct Init {
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: String,
    /// A host; may be repeated
    #[arg(long, value_name = "HOST", value_parser = name)]
    pub host: Vec<String>,
    /// The folder to write, which must not exist yet
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    /// Make etcd require passwords from now on; the password of etcd's user root is written to the folder, too
    #[arg(long)]
    pub enable_auth: bool,
    #[command(flatten)]
    pub servers: Servers,
}

#[derive(Args)]
pub struct Push {
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: String,
    #[arg(value_name = "POLICY")]
    pub policy: PathBuf,
    /// Shares of the hosts, one for each wave; a share includes the earlier waves; the last is 100%
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        default_value = "1%,10%,100%"
    )]
    #[arg(value_parser = share)]
    pub waves: Vec<u16>,
    /// Write into a folder that is served over https or mounted, instead of etcd; there are then no waves
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["waves", "bundle"])]
    pub into: Option<PathBuf>,
    /// Write a bundle that is too large for etcd into this file, to be served at --url
    #[arg(long, value_name = "FILE", requires = "url")]
    pub bundle: Option<PathBuf>,
    /// Address of the bundle, for the hosts
    #[arg(long, value_name = "URL", requires = "bundle")]
    pub url: Option<String>,
    #[command(flatten)]
    pub careful: Careful,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub waiting: Waiting,
    #[command(flatten)]
    pub servers: Servers,
}

#[derive(Args)]
pub struct Advance {
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: String,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub waiting: Waiting,
    #[command(flatten)]
    pub servers: Servers,
}

#[derive(Args)]
pub struct Status {
    /// A channel (default: all channels)
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: Option<String>,
    /// Show the hosts again after each change, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub servers: Servers,
}

#[derive(Args)]
pub struct Diff {
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: String,
    #[arg(value_name = "POLICY")]
    pub policy: PathBuf,
    /// Seconds of traffic
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(TRY_SECONDS_MAX)))]
    pub seconds: u32,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub servers: Servers,
}

#[derive(Args)]
pub struct Rollback {
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: String,
    /// The generation to distribute (default: the latest with another policy that has reached its last wave)
    #[arg(value_name = "GENERATION")]
    pub generation: Option<u64>,
    #[command(flatten)]
    pub careful: Careful,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub waiting: Waiting,
    #[command(flatten)]
    pub servers: Servers,
}

#[derive(Args)]
pub struct Rotate {
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: String,
    /// The new keys file
    #[arg(value_name = "KEYS")]
    pub new: PathBuf,
    /// Serial number, larger than that of the previous rotation (default: the time)
    #[arg(long, value_name = "N")]
    pub serial: Option<u64>,
    #[command(flatten)]
    pub signing: Signing,
    #[command(flatten)]
    pub servers: Servers,
}

#[derive(Args)]
pub struct Channel {
    #[arg(value_name = "CHANNEL", value_parser = name)]
    pub channel: String,
    #[command(flatten)]
    pub servers: Servers,
}

fn name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 64 of a-z, A-Z, 0-9, -, _ and .".to_owned()),
    }
}

fn percent(text: &str) -> Result<usize, String> {
    let read = text.trim_end_matches('%').parse().ok();
    let read = read.filter(|percent| (1..=100).contains(percent));
    read.ok_or_else(|| "expected 1 to 100".to_owned())
}

/// Parses a share of hosts as a percentage: "12.5%". Returns thousandths.
fn share(text: &str) -> Result<u16, String> {
    let read: Option<f64> = text.strip_suffix('%').and_then(|text| text.parse().ok());
    match read.map(|percent| percent * 10.0) {
        Some(share) if (1.0..=1000.0).contains(&share) => Ok(share as u16),
        _ => Err("expected 0.1% to 100%".to_owned()),
    }
}

fn time(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse() {
        return Ok(seconds);
    }
    let read = DateTime::parse_from_rfc3339(text).map_err(|error| error.to_string())?;
    u64::try_from(read.timestamp()).map_err(|_| "expected a time after 1970".to_owned())
}
