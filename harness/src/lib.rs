// SPDX-License-Identifier: GPL-2.0-or-later
//! Measuring harness. It is independent of the twins, so that no twin measures itself.
//!
//! An experiment (TOML) defines subjects and workloads. `run` measures them in slices or in interleaved rounds,
//! `statistics` turns samples into intervals and words, `report` and `plot` present them.

pub mod advice;
pub mod capturing;
pub mod commands;
pub mod cost;
pub mod count;
pub mod exchange;
pub mod experiment;
pub mod finding;
pub mod flows;
pub mod growth;
pub mod html;
pub mod instructions;
pub mod interrupt;
pub mod load;
pub mod measure;
pub mod metadata;
pub mod micro;
pub mod plan;
pub mod plot;
pub mod program;
pub mod progress;
pub mod recording;
pub mod report;
pub mod results;
pub mod run;
pub mod runner;
pub mod schedule;
pub mod slices;
pub mod staged;
pub mod statistics;
pub mod steering;
pub mod store;
pub mod subject;
pub mod summary;
pub mod synthetic;
pub mod table;
pub mod verify;
