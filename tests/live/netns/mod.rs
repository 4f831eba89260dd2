// SPDX-License-Identifier: GPL-2.0-or-later
//! Each twin with each backend, between real hosts in network namespaces.

use testbed::firewall::PATIENT_GUARD;
use testbed::twin::{Twin, BACKENDS, TWINS};
use twinwall_tests::case::Case;

mod beyond;
mod failure;
mod losses;
mod malformed;
mod policy;
mod reject;
mod traffic;

/// Subject of a case: a twin and its backend.
#[derive(Clone, Copy)]
pub struct Subject {
    pub twin: Twin,
    pub backend: &'static str,
}

impl Subject {
    /// Returns the arguments of a firewall: the backend, a guard that drops no packet on a busy machine, and more
    /// arguments, which may be others for the guard.
    pub fn with<'a>(&self, more: &[&'a str]) -> Vec<&'a str>
    where
        'static: 'a,
    {
        // The profile paper has no guard.
        let guard = match more.contains(&"paper") {
            true => &[][..],
            false => &PATIENT_GUARD[..],
        };
        [&["--backend", self.backend][..], guard, more].concat()
    }
}

/// Case that runs with every subject: name, body.
pub type Row = (&'static str, fn(&Subject) -> anyhow::Result<()>);

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    let rows = [
        traffic::ROWS,
        losses::ROWS,
        failure::ROWS,
        malformed::ROWS,
        policy::ROWS,
        reject::ROWS,
        beyond::ROWS,
    ]
    .concat();
    let mut cases = Vec::new();
    for twin in TWINS {
        for backend in BACKENDS {
            let subject = Subject { twin, backend };
            for (name, body) in &rows {
                let body = *body;
                let name = format!("{}/{backend}/{name}", twin.name());
                cases.push(Case::new(name, move || body(&subject)));
            }
        }
    }
    cases
}
