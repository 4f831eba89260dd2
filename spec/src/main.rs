// SPDX-License-Identifier: GPL-2.0-or-later
//! Generates source files, and sections of pages, from the tables of this folder: `spec ROOT FOLDER` reads the pages below
//! ROOT and writes its output below FOLDER, with the same paths as in the repository. `spec/generate` formats and installs
//! the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use anyhow::Context;
use minijinja::Environment;

mod counters;
mod events;
mod fields;
mod filters;
mod letters;
mod metrics;
mod options;
mod tables;

use tables::Tables;

/// Templates of spec/templates, with the paths of their output.
const OUTPUTS: &[(&str, &str)] = &[
    ("field.h", "c-firewall/src/spec/field.h"),
    ("field.c", "c-firewall/src/spec/field.c"),
    ("field.rs", "rust-firewall/src/spec/field.rs"),
    ("group.h", "c-firewall/src/spec/group.h"),
    ("group.c", "c-firewall/src/spec/group.c"),
    ("group.rs", "rust-firewall/src/spec/group.rs"),
    ("symbols.h", "c-firewall/src/spec/symbols.h"),
    ("symbols.c", "c-firewall/src/spec/symbols.c"),
    ("symbols.rs", "rust-firewall/src/spec/symbols.rs"),
    ("refused.h", "c-firewall/src/spec/refused.h"),
    ("refused.c", "c-firewall/src/spec/refused.c"),
    ("refused.rs", "rust-firewall/src/spec/refused.rs"),
    ("status.h", "c-firewall/src/spec/status.h"),
    ("status.c", "c-firewall/src/spec/status.c"),
    ("status.rs", "rust-firewall/src/spec/status.rs"),
    ("count.h", "c-firewall/src/spec/count.h"),
    ("count.c", "c-firewall/src/spec/count.c"),
    ("count.rs", "rust-firewall/src/spec/count.rs"),
    ("counter.h", "c-firewall/src/spec/counter.h"),
    ("counter.c", "c-firewall/src/spec/counter.c"),
    ("counter.rs", "rust-firewall/src/spec/counter.rs"),
    ("family.rs", "exporter/src/family.rs"),
    ("option.h", "c-firewall/src/spec/option.h"),
    ("option.c", "c-firewall/src/spec/option.c"),
    ("option.rs", "rust-firewall/src/spec/option.rs"),
    ("event.h", "c-firewall/src/spec/event.h"),
    ("event.c", "c-firewall/src/spec/event.c"),
    ("event.rs", "rust-firewall/src/spec/event.rs"),
    ("exit.h", "c-firewall/src/spec/exit.h"),
    ("exit.rs", "rust-firewall/src/spec/exit.rs"),
    ("letter.h", "c-firewall/src/spec/letter.h"),
    ("letter.c", "c-firewall/src/spec/letter.c"),
    ("letter.rs", "rust-firewall/src/spec/letter.rs"),
    ("help.txt", "cli/help.txt"),
    ("twinwall.conf", "packaging/example/twinwall.conf"),
    ("completion.bash", "cli/completion.bash"),
    ("completion.fish", "cli/completion.fish"),
    ("completion.zsh", "cli/completion.zsh"),
];

/// Templates of spec/templates, with the pages that contain their output, between the lines `<!-- spec/generate writes
/// TEMPLATE from here -->` and `<!-- to here -->`.
const SECTIONS: &[(&str, &str)] = &[
    ("statuses.md", "docs/OBSERVE.md"),
    ("metrics.md", "docs/OBSERVE.md"),
    ("labels.md", "docs/OBSERVE.md"),
    ("exits.md", "docs/RUN.md"),
    ("events.md", "docs/EVENTS.md"),
    ("own_events.md", "docs/EVENTS.md"),
];

const SECTION_END: &str = "\n<!-- to here -->\n";

fn environment(here: &Path) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(true);
    // A name that a table lacks must not become an empty text.
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    environment.set_loader(minijinja::path_loader(here.join("templates")));
    filters::add(&mut environment);
    environment
}

fn render(environment: &Environment, template: &str, tables: &Tables) -> anyhow::Result<String> {
    environment
        .get_template(&format!("{template}.j2"))
        .and_then(|template| template.render(tables))
        .with_context(|| format!("spec/templates/{template}.j2"))
}

/// Replaces the section of a page. Fails if the page has no such section.
fn put_section(page: &str, template: &str, text: &str) -> anyhow::Result<String> {
    let begin = format!("<!-- spec/generate writes {template} from here -->\n");
    let missing = || format!("there is no section of {template}");
    let (before, rest) = page.split_once(&begin).with_context(missing)?;
    let (_, after) = rest.split_once(SECTION_END).with_context(missing)?;
    Ok(format!("{before}{begin}\n{text}{SECTION_END}{after}"))
}

/// Returns the pages below a root, by their paths, with their sections replaced.
fn pages(
    root: &Path,
    environment: &Environment,
    tables: &Tables,
) -> anyhow::Result<BTreeMap<&'static str, String>> {
    let mut pages = BTreeMap::new();
    for (template, path) in SECTIONS {
        let page = match pages.remove(path) {
            Some(page) => page,
            None => fs::read_to_string(root.join(path)).with_context(|| path.to_string())?,
        };
        let text = render(environment, template, tables)?;
        let page = put_section(&page, template, &text).with_context(|| path.to_string())?;
        pages.insert(*path, page);
    }
    Ok(pages)
}

fn write(folder: &Path, output: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(output);
    let parent = path.parent().expect("an output has a folder");
    fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("{output}");
    Ok(())
}

fn generate(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tables = tables::read(here)?;
    let environment = environment(here);
    for (template, output) in OUTPUTS {
        write(folder, output, &render(&environment, template, &tables)?)?;
    }
    for (page, text) in pages(root, &environment, &tables)? {
        write(folder, page, &text)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let done = match arguments.as_slice() {
        [root, folder] => generate(root, folder),
        _ => Err(anyhow::anyhow!("usage: spec ROOT FOLDER")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_nothing_else() {
        let page =
            "a\n<!-- spec/generate writes x.md from here -->\n\nold\n\n<!-- to here -->\nb\n";
        let made = put_section(page, "x.md", "new\n").expect("it has the section");
        assert_eq!(made, page.replace("old", "new"));
        assert_eq!(put_section(&made, "x.md", "new\n").expect("still"), made);
    }

    #[test]
    fn a_page_without_the_section_is_an_error() {
        assert!(put_section("a\n", "x.md", "").is_err());
        assert!(put_section("<!-- spec/generate writes x.md from here -->\n", "x.md", "").is_err());
    }
}
