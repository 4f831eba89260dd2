// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy of a running program: read, compiled, with its state, before anything else is opened.

use crate::compile::{self, CompileSettings, Compiled};
use crate::flow::{self, Flow};
use crate::interface;
use crate::log::Failure;
use crate::options::{self, Options};
use crate::parse;
use crate::policy::Policy;
use crate::reject::{self, Reject};
use crate::requirement::Requirement;

/// What all workers share.
pub struct Loaded {
    /// For reports.
    pub policy: Policy,
    pub compiled: Compiled,
    pub flow: Flow,
    /// Open if the policy can ask for answers.
    pub reject: Option<Reject>,
}

/// What the policy reads.
pub fn requirement(loaded: &Loaded) -> &Requirement {
    compile::requirement(&loaded.compiled)
}

fn compile(policy: &Policy) -> Result<Compiled, Failure> {
    let settings = CompileSettings {
        linear: false,
        interface_index: &|name| interface::index(name.as_bytes()),
        interfaces_must_exist: true,
    };
    compile::policy(policy, &settings)
}

/// Loads options.policy, if there is one, and adapts the options to it. Fails for what is wrong with
/// the policy, an interface that it names and that is not there, --copy-bytes that are too few,
/// CAP_NET_RAW that is missing.
pub fn load(options: &mut Options) -> Result<Option<Loaded>, Failure> {
    let Some(path) = &options.policy else {
        return Ok(None);
    };
    let policy = parse::file(path)?;
    let compiled = compile(&policy)?;
    let requirement = compile::requirement(&compiled);
    options::require(options, requirement)?;
    let reject = requirement.reject.then(reject::open).transpose()?;
    Ok(Some(Loaded {
        flow: flow::make(&compiled),
        policy,
        compiled,
        reject,
    }))
}
