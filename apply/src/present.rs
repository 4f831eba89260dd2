// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables as the kernel holds them, read once: each run of nft takes some milliseconds of CPU, which a fleet on one machine counts.

use crate::failure::Result;
use crate::nft;
use crate::outline::{outlines, Outline};
use crate::source::Table;

/// Tables of the kernel with their text, in the order in which they were made.
#[derive(Default)]
pub struct Present(Vec<(Table, String)>);

impl Present {
    fn listed(tables: &[Table], list: fn(&Table) -> Result<Option<String>>) -> Result<Present> {
        let mut present = Vec::new();
        for table in tables {
            let text = list(table)?;
            present.extend(text.map(|text| (table.clone(), text)));
        }
        // The order of two does not matter: one is ours, which has no chain.
        if present.len() > 2 {
            let all = nft::tables()?;
            present.sort_by_key(|(table, _)| all.iter().position(|one| one == table));
        }
        Ok(Present(present))
    }

    /// Reads those of some tables that are there, our own among them, with counters and elements.
    pub fn read(tables: &[Table]) -> Result<Present> {
        Present::listed(tables, nft::list)
    }

    /// Reads the same without the elements of sets.
    pub fn outline(tables: &[Table]) -> Result<Present> {
        Present::listed(tables, nft::outline)
    }

    pub fn has(&self, table: &Table) -> bool {
        self.0.iter().any(|(one, _)| one == table)
    }

    /// The tables with their texts.
    pub fn texts(&mut self) -> impl Iterator<Item = (&Table, &mut String)> {
        self.0.iter_mut().map(|(table, text)| (&*table, text))
    }

    /// The text that makes the tables again.
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// The chains and objects of those among some tables that were read.
    pub fn outlines(&self, tables: &[Table]) -> Vec<Outline> {
        let texts = self.0.iter().filter(|one| tables.contains(&one.0));
        texts.flat_map(|(_, text)| outlines(text)).collect()
    }
}
