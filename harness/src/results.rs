// SPDX-License-Identifier: GPL-2.0-or-later
//! Derives medians, pairs and claims from the samples of a folder.

use std::path::Path;

use anyhow::Result;

use crate::growth;
use crate::metadata::Metadata;
use crate::store::{PairRow, Sample, Store, Summary};
use crate::summary::{compare, summarize};

/// Result of an experiment without its figures: metadata, medians, pairs and claims.
pub struct Results {
    pub metadata: Metadata,
    pub summaries: Vec<Summary>,
    pub pairs: Vec<PairRow>,
    /// Claims in words, each with its result in words.
    pub claims: Vec<(String, String)>,
}

impl Results {
    /// Recomputes summary.csv and pairs.csv from the samples of a folder. Fails if the folder holds no result.
    pub fn work_out(folder: &Path) -> Result<Results> {
        let metadata = Metadata::read(folder)?;
        let store = Store::open(folder);
        let samples: Vec<Sample> = store.read()?;
        let summaries = summarize(&samples, &metadata.baseline);
        let pairs = compare(&samples, &metadata.compare, &metadata.subjects);
        store.rewrite(&summaries)?;
        store.rewrite(&pairs)?;
        let claims = growth::claims(&samples, &metadata.claims);
        Ok(Results {
            metadata,
            summaries,
            pairs,
            claims,
        })
    }
}
