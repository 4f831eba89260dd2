// SPDX-License-Identifier: GPL-2.0-or-later
//! options.toml: the command line. Placeholders are filled in here, so that templates get the texts as printed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{ensure, Context};
use serde::{Deserialize, Serialize};

use crate::filters;

/// Maximum number of characters per line of a help text.
const HELP_WIDTH: usize = 54;
/// Columns in a help text at which the values of the profiles fast and paper begin.
const PROFILE_COLUMNS: [usize; 2] = [33, 43];

/// The command line, as the templates see it.
#[derive(Serialize)]
pub struct CommandLine {
    pub limits: BTreeMap<String, u32>,
    pub choices: Vec<Choice>,
    pub commands: Vec<Command>,
    pub sections: Vec<Section>,
    pub gone: Vec<Gone>,
}

/// Contents of options.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    limit: BTreeMap<String, u32>,
    choice: Vec<Choice>,
    command: Vec<Command>,
    section: Vec<Section>,
    #[serde(default)]
    gone: Vec<Gone>,
}

/// An option of older releases.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Gone {
    pub name: String,
    /// Program or option that replaces it, as an instruction to the user.
    pub instead: String,
}

/// Named values of an option.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    pub name: String,
    /// Description of the choice for the generated code; "" if the code needs no function that returns a value's name.
    #[serde(default)]
    pub about: String,
    /// Name of the enum of the choice in the generated code; "" for a bool.
    #[serde(default)]
    pub r#type: String,
    #[serde(default)]
    pub prefix: String,
    /// Values with their descriptions, "" if described elsewhere.
    pub values: Vec<(String, String)>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    pub name: String,
    pub usage: String,
    pub about: String,
    #[serde(default)]
    pub words: u32,
    #[serde(default)]
    pub needs: String,
}

/// Options under a title in the help text.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    pub title: String,
    #[serde(rename(deserialize = "option"))]
    pub options: Vec<CommandOption>,
}

/// Value of a key in an option's entry: a number, the name of a limit or of a choice's value, or a default that is only
/// text.
#[derive(Clone, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Value {
    Number(u32),
    Name(String),
}

impl Default for Value {
    fn default() -> Value {
        Value::Number(0)
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CommandOption {
    pub name: String,
    /// Name of the value in the help text; "" if the option has none.
    #[serde(default)]
    pub value: String,
    #[serde(default = "run")]
    pub commands: Vec<String>,
    /// Name of the choice (list of named values) that the option has; "" if it has none.
    #[serde(default)]
    pub choice: String,
    #[serde(default)]
    pub min: Value,
    pub max: Option<Value>,
    #[serde(default)]
    pub zero: bool,
    #[serde(default)]
    pub octal: bool,
    #[serde(default)]
    pub bytes: Value,
    /// Description of the value in a sentence; "" if the option has no value, or accepts any.
    #[serde(default)]
    pub expected: String,
    pub default: Option<Value>,
    pub paper: Option<Value>,
    #[serde(default)]
    pub shown: String,
    #[serde(default)]
    pub help: String,
    /// Numbers of `min`, `max` (limits of a number) and `bytes` (maximum length of a text); 0 if absent.
    #[serde(skip_deserializing)]
    pub range: [u32; 3],
    /// Defaults of the profiles fast and paper: a number, or the index of a choice's value.
    #[serde(skip_deserializing)]
    pub defaults: [u32; 2],
    /// Default of the profile fast as it is written on a command line; "" if the option has none.
    #[serde(skip_deserializing)]
    pub written: String,
    /// Left column of the help, e.g. "--iif NAME, --oif NAME": this option, after the options that share its text. ""
    /// if this option has no text of its own: then it shares the text of a later option.
    #[serde(skip_deserializing)]
    pub terms: String,
}

fn run() -> Vec<String> {
    vec!["run".to_owned()]
}

/// Returns names as a list in a sentence: "a, b or c".
fn list(names: &[&str]) -> String {
    match names {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        _ => names.concat(),
    }
}

/// Formats the values of a choice, each on a new line, with their descriptions wrapped in a separate column.
fn choice_lines(choice: &Choice, indent: usize) -> String {
    let named = choice.values.iter().map(|(name, _)| name.chars().count());
    let column = indent + named.max().unwrap_or(0) + 2;
    let lines = choice.values.iter().map(|(name, about)| {
        let about = filters::wrap(about.clone(), HELP_WIDTH - column);
        filters::beside(about, format!("{:indent$}{name}:", ""), column)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a text with the values of the profiles at its end.
fn in_columns(text: &str, values: [&str; 2]) -> String {
    let [fast, paper] = PROFILE_COLUMNS;
    let between = paper - fast;
    format!("{text:fast$}{:between$}{}", values[0], values[1])
}

impl CommandOption {
    /// Returns the number of a value: the number itself, the index of a choice's value, or a limit; 0 for a default
    /// that is only text.
    fn resolve(&self, value: &Value, file: &File) -> anyhow::Result<u32> {
        let name = match value {
            Value::Number(number) => return Ok(*number),
            Value::Name(name) => name,
        };
        let choice = file.choice.iter().find(|choice| choice.name == self.choice);
        let place = match choice {
            Some(choice) => choice.values.iter().position(|(known, _)| known == name),
            // The default of an option with neither a choice nor a number is only text.
            None if self.max.is_none() => Some(0),
            None => file.limit.get(name).map(|limit| *limit as usize),
        };
        let place = place.with_context(|| format!("there is no value {name}"))?;
        Ok(u32::try_from(place)?)
    }

    /// Returns a default as it is written on a command line.
    /// - number: number of the default, from `resolve`.
    fn show(&self, value: Option<&Value>, number: u32) -> String {
        match value {
            Some(Value::Name(name)) if self.max.is_none() => name.clone(),
            _ => self.digits(number),
        }
    }

    fn digits(&self, number: u32) -> String {
        match self.octal && number > 0 {
            true => format!("0{number:o}"),
            false => number.to_string(),
        }
    }

    /// Returns the description of the option's expected value: its choices or its range; empty if it has neither.
    fn expectation(&self, choices: &[Choice]) -> String {
        let choice = choices.iter().find(|choice| choice.name == self.choice);
        if let Some(choice) = choice {
            let names: Vec<&str> = choice
                .values
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            return list(&names);
        }
        match (&self.max, self.zero) {
            (None, _) => String::new(),
            (_, false) => "a whole number from {min} to {max}".to_owned(),
            (_, true) => "0 or a whole number from {min} to {max}".to_owned(),
        }
    }

    /// Returns a text with its placeholders replaced by the option's values.
    fn fill(&self, text: &str, file: &File) -> anyhow::Result<String> {
        let [min, max, bytes] = self.range;
        let shown = [
            self.show(self.default.as_ref(), self.defaults[0]),
            self.show(
                self.paper.as_ref().or(self.default.as_ref()),
                self.defaults[1],
            ),
        ];
        let mut marks: Vec<(&str, String)> = vec![
            ("expected", self.expected.clone()),
            ("min", self.digits(min)),
            ("max", self.digits(max)),
            ("bytes", bytes.to_string()),
            ("default", shown[0].clone()),
            ("paper", shown[1].clone()),
        ];
        marks.extend(
            file.limit
                .iter()
                .map(|(name, limit)| (name.as_str(), limit.to_string())),
        );
        let mut lines = Vec::new();
        for line in text.lines() {
            let mut line = line.to_owned();
            for (name, value) in &marks {
                line = line.replace(&format!("{{{name}}}"), value);
            }
            for choice in &file.choice {
                let mark = format!("{{{}.values}}", choice.name);
                if let Some(indent) = line.strip_suffix(&mark) {
                    line = choice_lines(choice, indent.len());
                }
            }
            if let Some(text) = line.strip_suffix("{profiles}") {
                let paper = if self.shown.is_empty() {
                    &shown[1]
                } else {
                    &self.shown
                };
                line = in_columns(text, [&shown[0], paper]);
            }
            line = line.replace("{columns}", &in_columns("", ["fast", "paper"]));
            ensure!(!line.contains('{'), "there is no such mark: {line}");
            lines.push(line);
        }
        Ok(lines.join("\n"))
    }

    /// Completes the option's entry for the templates. Fails if it has an unknown name, or a line of help that is too
    /// long.
    fn complete(&mut self, file: &File) -> anyhow::Result<()> {
        ensure!(
            self.choice.is_empty() || file.choice.iter().any(|choice| choice.name == self.choice),
            "there is no choice {}",
            self.choice
        );
        for command in &self.commands {
            let is_known = |known: &Command| {
                known.name == *command || known.name.is_empty() && command == "run"
            };
            ensure!(
                file.command.iter().any(is_known),
                "there is no command {command}"
            );
        }
        let number = |value: &Value| match value {
            Value::Number(number) => Ok(*number),
            Value::Name(name) => {
                let limit = file.limit.get(name).copied();
                limit.with_context(|| format!("there is no limit {name}"))
            }
        };
        let max = self.max.clone().unwrap_or_default();
        self.range = [number(&self.min)?, number(&max)?, number(&self.bytes)?];
        let default = self.default.clone().unwrap_or_default();
        let paper = self.paper.clone().unwrap_or_else(|| default.clone());
        self.defaults = [self.resolve(&default, file)?, self.resolve(&paper, file)?];
        self.written = match &self.default {
            Some(_) => self.show(self.default.as_ref(), self.defaults[0]),
            None => String::new(),
        };
        if self.expected.is_empty() {
            self.expected = self.expectation(&file.choice);
        }
        self.expected = self.fill(&self.expected, file)?;
        self.help = self.fill(&self.help, file)?;
        for line in self.help.lines() {
            let length = line.chars().count();
            ensure!(
                length <= HELP_WIDTH,
                "a line of {length} characters: {line}"
            );
        }
        Ok(())
    }

    fn term(&self) -> String {
        let blank = if self.value.is_empty() { "" } else { " " };
        format!("--{}{blank}{}", self.name, self.value)
    }
}

/// Stores with each help text the terms of its options: of the option itself, and of the options without a text before
/// it.
fn join_terms(options: &mut [CommandOption]) {
    let mut terms = String::new();
    for option in options {
        terms.push_str(&option.term());
        if option.help.is_empty() {
            terms.push_str(", ");
        } else {
            option.terms = std::mem::take(&mut terms);
        }
    }
}

/// Parses and completes options.toml. Errors name the option.
pub fn read(folder: &Path) -> anyhow::Result<CommandLine> {
    let mut file: File = crate::tables::parse(folder, "options.toml")?;
    let mut sections = std::mem::take(&mut file.section);
    for section in &mut sections {
        for option in &mut section.options {
            let told = || format!("spec/options.toml: option {}", option.name);
            let told = told();
            option.complete(&file).context(told)?;
        }
        join_terms(&mut section.options);
    }
    let options = sections.iter().flat_map(|section| &section.options);
    crate::tables::check_unique("options.toml", options.map(|option| &option.name))?;
    Ok(CommandLine {
        limits: file.limit,
        choices: file.choice,
        commands: file.command,
        sections,
        gone: file.gone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [limit]
        most = 7
        [[choice]]
        name = "kind"
        values = [["a", "the first"], ["bcd", "the last"]]
        [[command]]
        name = ""
        usage = ""
        about = ""
        [[section]]
        title = "Title:"
        [[section.option]]
        name = "kind"
        value = "KIND"
        choice = "kind"
        default = "bcd"
        help = "of {expected}:\n  {kind.values}"
        [[section.option]]
        name = "x"
        value = "N"
        min = 1
        max = "most"
        default = 2
        paper = 3
        [[section.option]]
        name = "y"
        max = 5
        help = "0 to {max}{profiles}"
    "#;

    fn made(text: &str) -> anyhow::Result<CommandLine> {
        let folder = std::env::temp_dir().join(format!(
            "spec-options-{}-{}",
            std::process::id(),
            text.len()
        ));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("options.toml"), text)?;
        let made = read(&folder);
        std::fs::remove_dir_all(&folder)?;
        made
    }

    #[test]
    fn an_entry_is_completed() {
        let line = made(FILE).expect("it is sound");
        let [kind, x, y] = &line.sections[0].options[..] else {
            panic!("three options");
        };
        assert_eq!(kind.help, "of a or bcd:\n  a:   the first\n  bcd: the last");
        assert_eq!(kind.defaults, [1, 1]);
        assert_eq!(x.expected, "a whole number from 1 to 7");
        assert_eq!(
            (x.range, x.defaults, x.terms.as_str()),
            ([1, 7, 0], [2, 3], "")
        );
        assert_eq!(y.terms, "--x N, --y");
        assert_eq!(y.help, format!("{:33}{:10}0", "0 to 5", "0"));
    }

    #[test]
    fn an_unsound_entry_is_told_by_its_name() {
        for (from, to, cause) in [
            (
                "choice = \"kind\"",
                "choice = \"other\"",
                "there is no choice other",
            ),
            (
                "default = \"bcd\"",
                "default = \"e\"",
                "there is no value e",
            ),
            (
                "max = \"most\"",
                "max = \"least\"",
                "there is no limit least",
            ),
            ("{max}", "{maximum}", "there is no such mark"),
            ("name = \"y\"", "name = \"x\"", "x is there twice"),
            (
                "0 to {max}",
                "a text that is longer than what stands in a line of it",
                "a line of",
            ),
        ] {
            let error = made(&FILE.replacen(from, to, 1)).err().expect(cause);
            assert!(format!("{error:#}").contains(cause), "{error:#}");
        }
    }
}
