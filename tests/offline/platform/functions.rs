// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests that files of both twins contain the same functions in the same order, with the same number of parameters.
//! tests/exemptions-functions lists exactly the differences, with their reasons.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;

use anyhow::{ensure, Context};
use testbed::twin::root;
use twinwall_tests::case::Case;
use twinwall_tests::sources;

use super::definitions::{c_functions, rust_functions, Function};
use super::parameters;

pub fn cases() -> Vec<Case> {
    vec![Case::new(
        "functions/same-names-order-and-parameters",
        same_names_order_and_parameters,
    )]
}

/// Line of tests/exemptions-functions: FILE TWIN NAME REASON. FILE and NAME may have `*` for any text. A NAME of the
/// form C=RUST contains a C function's name and its Rust name. The TWIN `order` exempts a function from the order;
/// `c()` and `rust()` omit parameters, where NAME is FUNCTION(PARAMETER).
struct Exemption {
    line: String,
    file: String,
    twin: String,
    name: String,
    is_used: Cell<bool>,
}

fn exemptions() -> anyhow::Result<Vec<Exemption>> {
    let text = fs::read_to_string(root().join("tests/exemptions-functions"))?;
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let exemption = |line: &str| {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let &[file, twin, name, _reason] = &words[..] else {
            anyhow::bail!("not FILE TWIN NAME REASON: {line}");
        };
        ensure!(
            ["c", "rust", "order", "c()", "rust()"].contains(&twin),
            "of neither twin: {line}"
        );
        Ok(Exemption {
            line: line.to_owned(),
            file: file.to_owned(),
            twin: twin.to_owned(),
            name: name.to_owned(),
            is_used: Cell::new(false),
        })
    };
    lines.map(exemption).collect()
}

/// Returns true if a text matches a pattern, in which `*` is any text.
fn is_like(text: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        None => text == pattern,
        Some((start, rest)) => text
            .strip_prefix(start)
            .is_some_and(|left| (0..=left.len()).any(|at| is_like(&left[at..], rest))),
    }
}

/// Returns the text that the `*` of a pattern matches, "" for a pattern without `*`. None if the text does not match.
fn behind_star<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    match pattern.split_once('*') {
        None => (text == pattern).then_some(""),
        Some((start, end)) => text.strip_prefix(start)?.strip_suffix(end),
    }
}

/// Returns a type's name as names of C functions contain it: in snake case.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}

/// Returns the possible Rust names of a C function: its name, with and without names of its folders and file at the
/// beginning.
fn short_names(name: &str, file: &str) -> BTreeSet<String> {
    let parts: Vec<&str> = file.split('/').collect();
    let mut names = BTreeSet::from([name.to_owned()]);
    for first in 0..parts.len() {
        for last in first..parts.len() {
            let prefix = format!("{}_", parts[first..=last].join("_"));
            names.extend(name.strip_prefix(&prefix).map(str::to_owned));
        }
    }
    names
}

/// Returns true if the set contains the name of a Rust function, either alone or with its type's name as a prefix.
fn is_named(function: &Function, names: &BTreeSet<String>) -> bool {
    let of_type = snake(function.scope.rsplit("::").next().unwrap_or_default());
    let long = format!("{of_type}_{}", function.name);
    names.contains(&function.name)
        || !of_type.is_empty()
            && names
                .iter()
                .any(|name| *name == long || name.ends_with(&format!("_{long}")))
}

/// File that both twins have, with its functions.
struct Pair<'a> {
    file: &'a str,
    /// Functions of the C source file (`in_code` of them), then those of its header.
    c: Vec<Function>,
    in_code: usize,
    rust: Vec<Function>,
    /// Index in `rust` of each C function's twin; None if it has none.
    twins: Vec<Option<usize>>,
}

impl Pair<'_> {
    /// Returns the index of a C function's Rust twin. Ignores Rust functions that are already twins.
    /// - same: the twin must have the same visibility.
    fn find(&self, index: usize, exemptions: &[Exemption], same: bool) -> Option<usize> {
        let function = &self.c[index];
        let find = |names: &BTreeSet<String>| {
            (0..self.rust.len()).find(|place| {
                let rust = &self.rust[*place];
                !self.twins.contains(&Some(*place))
                    && (!same || rust.is_public == function.is_public)
                    && is_named(rust, names)
            })
        };
        let names = short_names(&function.name, self.file);
        let otherwise = |exemption: &Exemption| {
            let (pattern, rust) = exemption.name.split_once('=')?;
            let renamed = |name: &String| Some(rust.replace('*', behind_star(name, pattern)?));
            let found = find(&names.iter().filter_map(renamed).collect())?;
            exemption.is_used.set(true);
            Some(found)
        };
        let mut here = exemptions
            .iter()
            .filter(|exemption| is_like(self.file, &exemption.file));
        find(&names).or_else(|| here.find_map(otherwise))
    }

    fn find_twins(&mut self, exemptions: &[Exemption]) {
        for same in [true, false] {
            for index in 0..self.c.len() {
                if self.twins[index].is_none() {
                    self.twins[index] = self.find(index, exemptions, same);
                }
            }
        }
    }

    fn is_exempt(&self, twin: &str, name: &str, exemptions: &[Exemption]) -> bool {
        let found = exemptions.iter().find(|exemption| {
            exemption.twin == twin
                && is_like(self.file, &exemption.file)
                && is_like(name, &exemption.name)
        });
        found.inspect(|found| found.is_used.set(true)).is_some()
    }

    /// Returns a message for each function without a twin and without an exemption.
    fn alone(&self, exemptions: &[Exemption]) -> Vec<String> {
        let c = (0..self.c.len())
            .filter(|index| self.twins[*index].is_none())
            .map(|index| ("c", &self.c[index]));
        let rust = (0..self.rust.len())
            .filter(|place| !self.twins.contains(&Some(*place)))
            .map(|place| ("rust", &self.rust[place]));
        let text = |(twin, function): (&str, &Function)| {
            format!("{} {twin} {} has no twin", self.file, function.known_as())
        };
        c.chain(rust)
            .filter(|(twin, function)| !self.is_exempt(twin, &function.known_as(), exemptions))
            .map(text)
            .collect()
    }

    /// Returns a message for each pair of functions whose order differs between the twins. Methods are compared with
    /// methods of the same type, free functions with free functions. Ignores methods of traits, and functions in C
    /// headers.
    fn disordered(&self, exemptions: &[Exemption]) -> Vec<String> {
        let scopes: BTreeSet<&str> = self.rust.iter().map(|found| &found.scope[..]).collect();
        let mut texts = Vec::new();
        for scope in scopes.into_iter().filter(|scope| !scope.contains("::")) {
            let twins = self.twins[..self.in_code].iter().flatten();
            let mut places: Vec<usize> = twins
                .copied()
                .filter(|place| self.rust[*place].scope == scope)
                .collect();
            let is_ordered = |places: &[usize]| places.windows(2).all(|both| both[0] < both[1]);
            if !is_ordered(&places) {
                let name = |place: &usize| self.rust[*place].known_as();
                places.retain(|place| !self.is_exempt("order", &name(place), exemptions));
            }
            for both in places.windows(2).filter(|both| both[0] > both[1]) {
                let (first, second) = (&self.rust[both[0]].name, &self.rust[both[1]].name);
                texts.push(format!(
                    "{}: {first} stands before {second} in C, behind it in Rust",
                    self.file
                ));
            }
        }
        texts
    }

    /// Returns a message for each function with more or fewer parameters than its twin.
    fn unequal(&self, exemptions: &[Exemption]) -> Vec<String> {
        let mut texts = Vec::new();
        for (c, place) in self.c.iter().zip(&self.twins) {
            let Some(rust) = place.map(|place| &self.rust[place]) else {
                continue;
            };
            let fits = |exempt: bool| {
                let is_out = |twin: &str, function: &Function, parameter: &str| {
                    let name = parameters::name_of(parameter);
                    let name = format!("{}({name})", function.name);
                    exempt && self.is_exempt(twin, &name, exemptions)
                };
                let expected = parameters::expected(c, rust, |one| is_out("c()", c, one));
                let counted = rust.parameters.iter();
                expected.contains(&counted.filter(|one| !is_out("rust()", rust, one)).count())
            };
            if !fits(false) && !fits(true) {
                let (c_all, rust_all) = (c.parameters.join(", "), rust.parameters.join(", "));
                let (file, returned) = (self.file, &rust.returned);
                texts.push(format!(
                    "{file}: {}({c_all}) and {}({rust_all}) -> {returned} have not as many parameters",
                    c.name, rust.name
                ));
            }
        }
        texts
    }
}

fn same_names_order_and_parameters() -> anyhow::Result<()> {
    let exemptions = exemptions()?;
    let folder = root().join("c-firewall/src");
    let (mut wrong, mut twins) = (Vec::new(), 0);
    for path in sources::files(&folder)? {
        let stem = path.strip_prefix(&folder)?.with_extension("");
        let file = stem.to_str().context("a name that is no UTF-8")?;
        let rust = root().join(format!("rust-firewall/src/{file}.rs"));
        if path.extension().is_none_or(|ending| ending != "c") || !rust.exists() {
            continue; // tests/exemptions says why
        }
        let mut c = c_functions(&fs::read_to_string(&path)?);
        let in_code = c.len();
        let header = path.with_extension("h");
        if header.exists() {
            let inline = c_functions(&fs::read_to_string(header)?).into_iter();
            c.extend(inline.map(|function| Function {
                is_public: true,
                ..function
            }));
        }
        let mut pair = Pair {
            file,
            twins: vec![None; c.len()],
            c,
            in_code,
            rust: rust_functions(&fs::read_to_string(rust)?),
        };
        pair.find_twins(&exemptions);
        twins += pair.twins.iter().flatten().count();
        wrong.extend(pair.alone(&exemptions));
        wrong.extend(pair.disordered(&exemptions));
        wrong.extend(pair.unequal(&exemptions));
    }
    let idle = exemptions
        .iter()
        .filter(|exemption| !exemption.is_used.get());
    wrong.extend(idle.map(|exemption| format!("exempts nothing: {}", exemption.line)));
    ensure!(twins > 1000, "only {twins} functions have twins");
    ensure!(
        wrong.is_empty(),
        "{} found:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    Ok(())
}
