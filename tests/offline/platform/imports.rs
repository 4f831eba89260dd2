// SPDX-License-Identifier: GPL-2.0-or-later
//! Imports between source files: includes in C, paths in Rust.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;
use syn::visit::{self, Visit};
use syn::{Item, UseTree};
use testbed::twin::root;
use twinwall_tests::sources;

/// Files by their path from the program's src folder, without the ending, each with the files that it imports.
pub type Imports = BTreeMap<String, BTreeSet<String>>;

fn stem(folder: &Path, path: &Path) -> anyhow::Result<String> {
    let stem = path.strip_prefix(folder)?.with_extension("");
    Ok(stem.to_string_lossy().into_owned())
}

/// Returns the imports of a C program: FILE imports the program's own headers that FILE.c and FILE.h include, except
/// FILE.h.
pub fn of_c(program: &str) -> anyhow::Result<Imports> {
    let folder = root().join(program).join("src");
    let mut imports = Imports::new();
    for path in sources::files(&folder)? {
        let name = stem(&folder, &path)?;
        let text = fs::read_to_string(&path)?;
        let included = text
            .lines()
            .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix(".h\""))
            .filter(|included| {
                *included != name && folder.join(included).with_extension("h").exists()
            })
            .map(str::to_owned);
        imports.entry(name.clone()).or_default().extend(included);
    }
    Ok(imports)
}

/// Returns the module path of a crate's file: `a/b` and `a/b/mod` are ["a", "b"], `lib` and `main` are [].
fn module_path(stem: &str) -> Vec<String> {
    let mut path: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if matches!(
        path.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        path.pop();
    }
    path
}

/// A module: its file, its definitions, and the paths of its re-exports (`*` for everything).
#[derive(Default)]
struct Module {
    file: String,
    defines: BTreeSet<String>,
    gives: Vec<Vec<String>>,
}

/// All modules of a crate by their paths: `a::b` is ["a", "b"], the crate itself is [].
type Modules = BTreeMap<Vec<String>, Module>;

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Name that a `use` imports: its path, and its name in the file. `*` is valid as a segment and as a name.
struct Used {
    path: Vec<String>,
    name: String,
}

fn flatten(tree: &UseTree, before: &[String], used: &mut Vec<Used>) {
    let mut add = |last: Option<String>, name: String| {
        let path = before.iter().cloned().chain(last).collect();
        used.push(Used { path, name });
    };
    match tree {
        UseTree::Path(path) => {
            let before = [before, &[path.ident.to_string()]].concat();
            flatten(&path.tree, &before, used);
        }
        UseTree::Name(name) if name.ident == "self" => {
            add(None, before.last().cloned().unwrap_or_default());
        }
        UseTree::Name(name) => add(Some(name.ident.to_string()), name.ident.to_string()),
        UseTree::Rename(name) => add(Some(name.ident.to_string()), name.rename.to_string()),
        UseTree::Glob(_) => add(Some("*".to_owned()), "*".to_owned()),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, before, used);
            }
        }
    }
}

/// Returns the path from the crate's root for a path that begins with crate, self or super. None for other paths, and
/// for a path to the crate itself.
/// - module: module that contains the path.
fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let up = path.iter().take_while(|part| *part == "super").count();
    let (start, rest) = match path.first()?.as_str() {
        "crate" => (&module[..0], &path[1..]),
        "self" => (module, &path[1..]),
        "super" => (&module[..module.len().checked_sub(up)?], &path[up..]),
        _ => return None,
    };
    // A path to the crate itself, as in `pub(crate)`, is no import.
    let path = [start, rest].concat();
    (!path.is_empty()).then_some(path)
}

/// Returns the module whose file defines the item at a path from the root.
fn resolve(modules: &Modules, path: &[String]) -> Option<Vec<String>> {
    let known = (0..=path.len()).rev();
    let known = known
        .into_iter()
        .find(|&end| modules.contains_key(&path[..end]))?;
    let (module, rest) = path.split_at(known);
    let here = &modules[module];
    let given = rest
        .first()
        .filter(|item| !here.defines.contains(*item))
        .and_then(|item| {
            here.gives.iter().find_map(|given| {
                let (last, from) = given.split_last()?;
                let inner = [from, std::slice::from_ref(item)].concat();
                let found = (last == "*" || last == item).then(|| resolve(modules, &inner))??;
                modules[&found].defines.contains(item).then_some(found)
            })
        });
    Some(given.unwrap_or_else(|| module.to_vec()))
}

/// Collects the paths and imports of a file.
#[derive(Default)]
struct Names {
    paths: Vec<Vec<String>>,
    used: Vec<Used>,
}

impl Visit<'_> for Names {
    fn visit_path(&mut self, path: &syn::Path) {
        let segments = path.segments.iter().map(|part| part.ident.to_string());
        self.paths.push(segments.collect());
        visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        flatten(&item.tree, &[], &mut self.used);
    }

    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Returns the imports of a file: the paths from the root, named directly or through a `use`.
fn imported(names: &Names, modules: &Modules, module: &[String]) -> Vec<Vec<String>> {
    let mut aliases = BTreeMap::new();
    let mut paths = Vec::new();
    for used in &names.used {
        let Some(path) = absolute(&used.path, module) else {
            continue;
        };
        // A `use` of a module imports nothing by itself: the file imports the module where it names one of its items.
        if modules.contains_key(&path) {
            aliases.insert(used.name.as_str(), path);
        } else {
            paths.push(path);
        }
    }
    for path in &names.paths {
        let alias = path.first().and_then(|first| aliases.get(first.as_str()));
        match alias {
            Some(start) if path.len() > 1 => paths.push([start, &path[1..]].concat()),
            _ => paths.extend(absolute(path, module)),
        }
    }
    paths
}

/// Returns the imports of a crate: the modules whose items a file names. Omits relative paths, by which a module names
/// items of its submodules: submodules may use the module's shared items.
pub fn of_rust(package: &str) -> anyhow::Result<Imports> {
    let folder = root().join(package).join("src");
    let mut modules = Modules::new();
    let mut files = Vec::new();
    for path in sources::files(&folder)? {
        if path.extension().is_none_or(|ending| ending != "rs") || path.ends_with("tests.rs") {
            continue;
        }
        let name = stem(&folder, &path)?;
        let text = fs::read_to_string(&path)?;
        let file = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        let module = module_path(&name);
        let mut names = Names::default();
        names.visit_file(&file);
        let here = modules.entry(module.clone()).or_default();
        here.defines.extend(file.items.iter().filter_map(name_of));
        if name.ends_with("mod") || name == "lib" {
            // A list of modules names its re-exports as relative paths.
            here.gives.extend(names.used.iter().map(|used| {
                absolute(&used.path, &module).unwrap_or_else(|| [&module[..], &used.path].concat())
            }));
        }
        here.file.clone_from(&name);
        files.push((name, module, names));
    }
    let mut imports = Imports::new();
    for (name, module, names) in &files {
        let paths = imported(names, &modules, module);
        let of = imports.entry(name.clone()).or_default();
        let found = paths.iter().filter_map(|path| resolve(&modules, path));
        of.extend(
            found
                .filter(|found| found != module)
                .map(|found| modules[&found].file.clone()),
        );
    }
    Ok(imports)
}
