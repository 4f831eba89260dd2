// SPDX-License-Identifier: GPL-2.0-or-later
//! Draws the figures of a result folder, NAME.svg, from its saved data only.

mod axis;
mod columns;
mod data;
mod dots;
mod font;
mod frame;
mod growth;
mod lines;
mod loss;
mod palette;
mod panels;
mod percentile;
mod scale;
mod scene;
mod series;
mod text;

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::experiment::{ExperimentKind, Figure, FigureKind};
use crate::growth::Growth;
use crate::store::{CellName, Store};
use crate::summary::main_metric;

use data::Data;
use scene::Scene;

/// Plan of one figure.
#[derive(Clone, Debug, PartialEq)]
struct Plan {
    name: String,
    title: String,
    kind: FigureKind,
    metric: String,
    /// Loads in the figure, which differ only in their size (of the payload, the policy or the scanned network).
    cells: Vec<CellName>,
}

/// Draws the figures that the experiment lists, or all that the data allow if it lists none. Returns the written files;
/// a figure without data is omitted.
pub fn draw_all(folder: &Path) -> Result<Vec<PathBuf>> {
    let data = Data::read(folder)?;
    let store = Store::open(folder);
    let mut files = Vec::new();
    for plan in plans(&data) {
        let Some(scene) = draw(&data, &plan) else {
            continue;
        };
        let name = format!("{}.svg", plan.name);
        store.replace(&name, scene.svg().as_bytes())?;
        files.push(folder.join(name));
    }
    Ok(files)
}

fn draw(data: &Data, plan: &Plan) -> Option<Scene> {
    let cell = plan.cells.first()?;
    match plan.kind {
        FigureKind::Series => series::draw(data, cell, &plan.title),
        FigureKind::Panels => panels::draw(data, cell, &plan.title),
        FigureKind::Loss => loss::draw(data, &plan.cells, &plan.metric, &plan.title),
        FigureKind::Growth => growth::draw(data, &plan.cells, &plan.metric, &plan.title),
        FigureKind::Percentile => percentile::draw(data, cell, &plan.title),
        FigureKind::Dots if plan.cells.len() > 1 || several_queues(data) => {
            scale::draw(data, &plan.cells, &plan.metric, &plan.title)
        }
        FigureKind::Dots => dots::draw(data, cell, &plan.metric, &plan.title),
    }
}

fn several_queues(data: &Data) -> bool {
    let mut subjects = data.metadata.subjects.iter();
    subjects.any(|subject| palette::queues(subject) > 1)
}

fn plans(data: &Data) -> Vec<Plan> {
    let cells = data.cells();
    if data.metadata.kind == ExperimentKind::Scan {
        return plans_of_scans(&cells);
    }
    match data.metadata.figures.as_slice() {
        [] => plans_of_data(data, &cells),
        figures => figures
            .iter()
            .flat_map(|figure| plans_of(figure, &cells))
            .collect(),
    }
}

/// Plans a figure from the experiment. Figures of dots, growth or losses combine all sizes; the other kinds have one
/// figure per size: the first has the name in the experiment, and the names of the others end with their size.
fn plans_of(figure: &Figure, cells: &[CellName]) -> Vec<Plan> {
    let (workload, path) = (figure.workload.to_string(), figure.path.to_string());
    let wanted = |cell: &&CellName| {
        let size = figure
            .payload_bytes
            .is_none_or(|bytes| bytes == cell.payload_bytes);
        let policy = cell.policy.map(|policy| policy.kind) == figure.policy;
        cell.workload == workload && cell.path == path && size && policy
    };
    let cells: Vec<CellName> = cells.iter().filter(wanted).cloned().collect();
    let plan = |name: String, cells: Vec<CellName>| Plan {
        name,
        title: figure.title.clone(),
        kind: figure.kind,
        metric: figure
            .metric
            .clone()
            .unwrap_or(main_metric(&workload).into()),
        cells,
    };
    if matches!(
        figure.kind,
        FigureKind::Dots | FigureKind::Growth | FigureKind::Loss
    ) {
        return vec![plan(figure.name.clone(), cells)];
    }
    let name = |index: usize, cell: &CellName| match index {
        0 => figure.name.clone(),
        _ => format!("{}-{}", figure.name, cell.payload_bytes),
    };
    let numbered = cells.into_iter().enumerate();
    numbered
        .map(|(index, cell)| plan(name(index, &cell), vec![cell]))
        .collect()
}

/// Plans all figures that the data allow: growth for loads that differ only in the size of their policy; for the other
/// loads, per workload, path and policy, dots of all sizes, and series and percentiles of the first size.
fn plans_of_data(data: &Data, cells: &[CellName]) -> Vec<Plan> {
    let (single, growths) = Growth::divide(cells);
    let mut plans: Vec<Plan> = growths
        .into_iter()
        .map(|growth| growth_plan(data, growth))
        .collect();
    let cells = &single;
    for cell in cells {
        let (policy, counts) = match cell.policy {
            Some(policy) => {
                let counts = format!(", {} {}", policy.size, policy.kind.counts());
                (format!("-{policy}"), counts)
            }
            None => Default::default(),
        };
        let name = |kind: &str| format!("{}-{}{policy}-{kind}", cell.workload, cell.path);
        let sizes = |other: &&CellName| {
            other.workload == cell.workload
                && other.path == cell.path
                && other.policy == cell.policy
        };
        let sizes: Vec<CellName> = cells.iter().filter(sizes).cloned().collect();
        if sizes.first() != Some(cell) {
            continue;
        }
        let plan = |kind: FigureKind, word: &str, cells: Vec<CellName>| Plan {
            name: name(word),
            title: format!("{}: {}{counts}", data.metadata.title, cell.workload),
            kind,
            metric: main_metric(&cell.workload).into(),
            cells,
        };
        plans.push(plan(FigureKind::Dots, "dots", sizes.clone()));
        plans.push(plan(FigureKind::Series, "series", vec![cell.clone()]));
        plans.push(plan(
            FigureKind::Percentile,
            "percentile",
            vec![cell.clone()],
        ));
    }
    plans
}

/// Plans two figures over the number of targets: a scan's time and its CPU time, for the first scan that was measured
/// with several numbers. Returns none without such a scan.
fn plans_of_scans(cells: &[CellName]) -> Vec<Plan> {
    let over_targets = |cell: &CellName| {
        let same = |other: &&CellName| other.workload == cell.workload && other.path == cell.path;
        cells.iter().filter(same).cloned().collect::<Vec<_>>()
    };
    let Some(cells) = cells.iter().map(over_targets).find(|same| same.len() > 1) else {
        return Vec::new();
    };
    let plan = |metric: &str, title: &str| Plan {
        name: metric.into(),
        title: title.into(),
        kind: FigureKind::Growth,
        metric: metric.into(),
        cells: cells.clone(),
    };
    vec![
        plan("wall", "One closed port over loopback: time of a scan"),
        plan("cpu", "One closed port over loopback: CPU time of a scan"),
    ]
}

fn growth_plan(data: &Data, growth: Growth) -> Plan {
    let cell = &growth.cells[0];
    Plan {
        name: format!("{}-{}-{}", cell.workload, cell.path, growth.kind.name()),
        title: format!("{}: {}", data.metadata.title, growth.kind.counts()),
        kind: FigureKind::Growth,
        metric: main_metric(&cell.workload).into(),
        cells: growth.cells,
    }
}

#[cfg(test)]
mod tests;
