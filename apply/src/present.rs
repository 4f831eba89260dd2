// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables of the kernel, read once: each run of nft takes some milliseconds of CPU time, which add up if many hosts of
//! a fleet run on one machine.

use crate::failure::Result;
use crate::nft;
use crate::outline::{outlines, Outline};
use crate::source::Table;

/// Tables of the kernel with their texts, in the order of their creation.
#[derive(Default)]
pub struct Present(Vec<(Table, String)>);

impl Present {
    fn listed(tables: &[Table], list: fn(&Table) -> Result<Option<String>>) -> Result<Present> {
        let mut present = Vec::new();
        for table in tables {
            let text = list(table)?;
            present.extend(text.map(|text| (table.clone(), text)));
        }
        // The order of two tables does not matter: one of them identifies the generation, and has no chain.
        if present.len() > 2 {
            let all = nft::tables()?;
            present.sort_by_key(|(table, _)| all.iter().position(|one| one == table));
        }
        Ok(Present(present))
    }

    /// Reads those tables of a list that exist in the kernel, with counters and elements.
    /// - tables: must include the table that identifies the generation.
    pub fn read(tables: &[Table]) -> Result<Present> {
        Present::listed(tables, nft::list)
    }

    /// Reads those tables of a list that exist in the kernel, without the elements of sets.
    pub fn outline(tables: &[Table]) -> Result<Present> {
        Present::listed(tables, nft::outline)
    }

    pub fn has(&self, table: &Table) -> bool {
        self.text_of(table).is_some()
    }

    /// Returns the text of a table; None if the table does not exist.
    pub fn text_of(&self, table: &Table) -> Option<&str> {
        let found = self.0.iter().find(|(one, _)| one == table);
        found.map(|(_, text)| text.as_str())
    }

    /// Returns the tables with their texts.
    pub fn texts(&mut self) -> impl Iterator<Item = (&Table, &mut String)> {
        self.0.iter_mut().map(|(table, text)| (&*table, text))
    }

    /// Returns the text that creates the tables again.
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// Returns the chains and objects of these tables. Leaves out tables that are not in the kernel.
    pub fn outlines(&self, tables: &[Table]) -> Vec<Outline> {
        let texts = self.0.iter().filter(|one| tables.contains(&one.0));
        texts.flat_map(|(_, text)| outlines(text)).collect()
    }
}
