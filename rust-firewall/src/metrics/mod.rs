// SPDX-License-Identifier: GPL-2.0-or-later
//! Metrics for Prometheus.

#[allow(clippy::module_inception)]
mod metrics;
pub mod plain;
pub mod text;

pub use metrics::*;
