// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses the functions that both twins' source files define. It relies on the code being formatted (`make lint-format`).

/// A function definition.
pub struct Function {
    pub name: String,
    /// Rust: the type of a method; TRAIT::TYPE in a trait implementation, TRAIT:: in a trait; empty for a free
    /// function. C: empty.
    pub scope: String,
    pub is_public: bool,
    /// Parameters, each with its type, as written.
    pub parameters: Vec<String>,
    /// Return type; Rust: empty if there is none.
    pub returned: String,
}

impl Function {
    /// Returns the function's name in tests/exemptions-functions: NAME, or TRAIT::NAME for a method of a trait.
    pub fn known_as(&self) -> String {
        match self.scope.split_once("::") {
            Some((of_trait, _)) => format!("{of_trait}::{}", self.name),
            None => self.name.clone(),
        }
    }
}

pub fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Returns the text up to the first closing bracket that no bracket in the text opens, and the text after that bracket.
/// None if there is no such bracket.
fn up_to_closing(text: &str) -> Option<(&str, &str)> {
    let (mut depth, mut before) = (1, ' ');
    let end = text.find(|character| {
        let is_arrow = before == '-' && character == '>';
        depth += i32::from("([{<".contains(character));
        depth -= i32::from(")]}>".contains(character) && !is_arrow);
        before = character;
        depth == 0
    })?;
    Some((&text[..end], &text[end + 1..]))
}

/// Splits a text at commas outside brackets.
pub fn parts(text: &str) -> Vec<String> {
    let (mut depth, mut before) = (0, ' ');
    let split = text.split(|character| {
        let is_arrow = before == '-' && character == '>';
        depth += i32::from("([{<".contains(character));
        depth -= i32::from(")]}>".contains(character) && !is_arrow);
        before = character;
        depth == 0 && character == ','
    });
    let words = |part: &str| part.split_whitespace().collect::<Vec<_>>().join(" ");
    split.map(words).filter(|part| !part.is_empty()).collect()
}

fn without_attributes(head: &str) -> Option<String> {
    let mut head = head.to_owned();
    while let Some(start) = head.find("__attribute__((") {
        let (_, behind) = up_to_closing(&head[start + "__attribute__(".len()..])?;
        head = format!("{}{}", &head[..start], behind);
    }
    Some(head)
}

/// Parses the head of a C definition: its text up to the brace. Returns None if it defines no function.
fn c_function(head: &str) -> Option<Function> {
    let head = without_attributes(head)?;
    let (before, behind) = head.split_once('(')?;
    let name = before.rsplit(|character| !is_word(character)).next()?;
    let returned = before.strip_suffix(name)?;
    let mut parameters = parts(up_to_closing(behind)?.0);
    parameters.retain(|parameter| parameter != "void");
    (!name.is_empty()).then(|| Function {
        name: name.to_owned(),
        scope: String::new(),
        is_public: !head.trim_start().starts_with("static "),
        parameters,
        returned: returned
            .trim_start()
            .trim_start_matches("static ")
            .trim()
            .to_owned(),
    })
}

/// Returns the functions of a C file: definitions begin at the start of a line.
pub fn c_functions(text: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let mut head = String::new();
    for line in text.lines() {
        let code = line.split_once("//").map_or(line, |(code, _)| code);
        let begins = code.starts_with(|first: char| first.is_ascii_lowercase())
            || code.starts_with("__attribute__");
        if head.is_empty() && !begins {
            continue;
        }
        head.push_str(code);
        head.push(' ');
        let Some(end) = head.find(['{', ';', '=']) else {
            continue;
        };
        if head[end..].starts_with('{') {
            functions.extend(c_function(&head[..end]));
        }
        head.clear();
    }
    functions
}

/// Returns the scope that a line opens: the type of an impl block, as TRAIT::TYPE if it implements a trait, or TRAIT::
/// for a trait. None for other lines.
fn scope_of(line: &str) -> Option<String> {
    if let Some((_, of_trait)) = line.split_once("trait ") {
        let name: String = of_trait.chars().take_while(|c| is_word(*c)).collect();
        return Some(format!("{name}::"));
    }
    let line = line.strip_prefix("unsafe ").unwrap_or(line);
    let mut rest = line.strip_prefix("impl")?;
    if let Some(generic) = rest.strip_prefix('<') {
        rest = generic.split_once("> ")?.1;
    }
    let word = |text: &str| -> String { text.trim().chars().take_while(|c| is_word(*c)).collect() };
    Some(match rest.split_once(" for ") {
        Some((of_trait, of_type)) => format!("{}::{}", word(of_trait), word(of_type)),
        None => word(rest),
    })
}

/// Returns the function that begins on the first of these lines, or None.
fn rust_function(lines: &[&str], scope: &str) -> Option<Function> {
    let (before, behind) = lines.first()?.trim_start().split_once("fn ")?;
    let words = ["pub", "const", "unsafe", "extern", "\"C\"", "async"];
    let known = |word: &str| words.contains(&word) || word.starts_with("pub(");
    if !before.split_whitespace().all(known) {
        return None;
    }
    let head: Vec<&str> = lines[1..].iter().take(30).copied().collect();
    let head = format!("{behind} {}", head.join(" "));
    let name: String = head.chars().take_while(|c| is_word(*c)).collect();
    let mut rest = &head[name.len()..];
    if let Some(generic) = rest.strip_prefix('<') {
        rest = up_to_closing(generic)?.1;
    }
    let (parameters, rest) = up_to_closing(rest.strip_prefix('(')?)?;
    let end = rest.find([';', '{']).unwrap_or(rest.len());
    let returned = rest[..end].split(" where ").next()?;
    let returned = returned.trim().trim_start_matches("->").trim();
    Some(Function {
        name,
        scope: scope.to_owned(),
        is_public: before.starts_with("pub"),
        parameters: parts(parameters),
        returned: returned.to_owned(),
    })
}

/// Returns the functions of a Rust file and the methods of its impl blocks, without those of its tests.
pub fn rust_functions(text: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let mut scope = String::new();
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let next = lines.get(index + 1).unwrap_or(&"");
        if *line == "#[cfg(test)]" && next.starts_with("mod ") {
            break;
        }
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if *line == "}" {
            scope.clear();
        } else if indent == 0 && (code.starts_with("impl") || code.contains("trait ")) {
            scope = scope_of(code)
                .filter(|_| !code.starts_with("//"))
                .unwrap_or(scope);
        }
        if indent > 4 || (indent == 4 && scope.is_empty()) {
            continue;
        }
        functions.extend(rust_function(&lines[index..], &scope));
    }
    functions
}
