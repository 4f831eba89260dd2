// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses that sets have learned from DNS: a transaction that makes the same set again has them, too.

use serde::{Deserialize, Serialize};

use crate::failure::Result;
use crate::nft;
use crate::present::Present;
use crate::source::Table;
use crate::store::{Store, KEPT};
use crate::swap;

/// A set that learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Learned {
    pub table: Table,
    pub set: String,
    /// Its statement, with the names.
    pub learns: String,
}

impl From<stage::LearnedSet> for Learned {
    fn from(set: stage::LearnedSet) -> Learned {
        Learned {
            table: Table {
                family: set.family,
                name: set.table,
            },
            set: set.name,
            learns: set.learns,
        }
    }
}

/// The elements in nft's list of a set that have not expired, as nft reads them.
fn elements(listed: &str) -> Vec<&str> {
    let inner = listed
        .split_once("elements = {")
        .and_then(|(_, rest)| rest.split_once('}'));
    let all = inner.map_or("", |(inner, _)| inner).split(',');
    all.map(str::trim)
        .filter(|element| !element.is_empty() && !element.ends_with("expires 0s"))
        .collect()
}

/// The commands that add what sets hold that both generations have.
fn kept(before: &[Learned], after: &[Learned]) -> Result<String> {
    let mut text = String::new();
    for set in after.iter().filter(|set| before.contains(set)) {
        let listed = nft::set(&set.table, &set.set)?.unwrap_or_default();
        let elements = elements(&listed);
        if !elements.is_empty() {
            let elements = elements.join(", ");
            text += &format!("add element {} {} {{ {elements} }}\n", set.table, set.set);
        }
    }
    Ok(text)
}

/// Loads a transaction of a generation, with the addresses that its sets have learned.
/// - present: the tables that the transaction removes, as for [`swap::load`].
pub fn load(
    store: &Store,
    number: u64,
    name: &str,
    before: &[Learned],
    after: &[Learned],
    present: &Present,
) -> Result<()> {
    let kept = kept(before, after)?;
    if kept.is_empty() {
        return swap::load(store, number, name, present);
    }
    store.write(
        number,
        KEPT,
        &format!("{}\n{kept}", store.text(number, name)?),
    )?;
    swap::load(store, number, KEPT, present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_list() {
        let listed = "table inet f {\n\tset s {\n\t\ttype ipv4_addr\n\t\tsize 65536\n\t\tflags timeout\n\t\telements = { 10.0.0.1 timeout 5m expires 4m59s996ms,\n\t\t\t     10.0.0.2 timeout 1m expires 0s, 10.0.0.3 timeout 1m expires 2s }\n\t}\n}\n";
        assert_eq!(
            elements(listed),
            [
                "10.0.0.1 timeout 5m expires 4m59s996ms",
                "10.0.0.3 timeout 1m expires 2s"
            ]
        );
        assert!(elements("table inet f {\n\tset s {\n\t\ttype ipv4_addr\n\t}\n}\n").is_empty());
    }
}
