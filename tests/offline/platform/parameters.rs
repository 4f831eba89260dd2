// SPDX-License-Identifier: GPL-2.0-or-later
//! Number of parameters that a Rust function may have, given its C twin. The languages differ:
//!
//! - a slice is one parameter in Rust; in C it is a pointer, and a length or an end. A text is one parameter in Rust;
//!   in C it may be a format and its values;
//! - Rust returns a value that C writes through a pointer, and C returns a status;
//! - a failure is the error of a Result in Rust; in C it is the last parameter.

use std::ops::RangeInclusive;

use super::definitions::{is_word, parts, Function};

/// Names of C parameters that follow a pointer and contain its length or end.
const LENGTHS: [&str; 10] = [
    "bytes",
    "captured",
    "count",
    "end",
    "left",
    "length",
    "received",
    "value_bytes",
    "words",
    "written",
];

/// Returns the name of a parameter; for a Rust pattern, its first name.
pub fn name_of(parameter: &str) -> &str {
    let rust = parameter.split_once(": ").map(|(name, _)| name);
    let Some(name) = rust else {
        // C: the name is last, except for the bounds of an array; Rust's `self` has no type.
        let name = parameter.split('[').next().unwrap_or_default();
        let name = name.split(")(").next().unwrap_or_default();
        return name.rsplit(|c| !is_word(c)).next().unwrap_or_default();
    };
    let name = name.trim_start_matches("mut ").trim_start_matches('(');
    name.split(',').next().unwrap_or_default()
}

fn is_pointer(parameter: &str) -> bool {
    parameter.contains(['*', '['])
}

/// Returns true if a C parameter is the length or the end of the previous parameter's data.
fn is_length(before: &str, parameter: &str) -> bool {
    let name = name_of(parameter);
    let is_struct =
        before.contains("struct ") && !(name == "count" && name_of(before).ends_with('s'));
    let is_end = name == "end" && is_pointer(parameter);
    let is_number = !is_pointer(parameter) && !parameter.starts_with("uint64_t ");
    is_pointer(before) && LENGTHS.contains(&name) && (is_end || is_number) && !is_struct
}

/// Returns true if C may write through a parameter.
fn is_written(parameter: &str) -> bool {
    is_pointer(parameter) && (!parameter.starts_with("const ") || parameter.contains("**"))
}

/// Returns the number of output parameters that the C twin of a function may have in place of the Rust result
/// `returned`: none for a status (bool, fmt::Result, nothing), one for a value, one for each part of a tuple.
/// Result<Option<…>> adds one, because C returns a status, and may also write whether there is a value.
fn values(returned: &str) -> usize {
    if ["", "bool", "fmt::Result"].contains(&returned) {
        return 0;
    }
    let mut value = returned.to_owned();
    let has_value = returned.starts_with("Result<Option<");
    while let Some((head, inner)) = value.split_once('<') {
        let word = head.rsplit("::").next();
        if !["Option", "Result"].iter().any(|known| word == Some(known)) {
            break;
        }
        let inner = inner.strip_suffix('>').unwrap_or(inner);
        value = parts(inner).into_iter().next().unwrap_or_default();
    }
    let count = match value.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
        Some(tuple) => parts(tuple).len(),
        None => 1,
    };
    count + usize::from(has_value)
}

/// Returns the allowed number of parameters of a Rust function, given its twin in C.
/// - ignored: returns true if an exemption omits a parameter of C.
pub fn expected(
    c: &Function,
    rust: &Function,
    ignored: impl Fn(&str) -> bool,
) -> RangeInclusive<usize> {
    let fails = rust.returned.contains("Result") || rust.returned.contains("Failure");
    let mut inputs: Vec<&str> = Vec::new();
    for (index, parameter) in c.parameters.iter().enumerate() {
        let before = index.checked_sub(1).map_or("", |at| &c.parameters[at]);
        let is_text = parameter == "..." || parameter.starts_with("va_list");
        let is_failure = parameter.starts_with("struct failure *") && fails;
        let is_argc = name_of(parameter) == "argc";
        if !(is_text || is_failure || is_argc || is_length(before, parameter) || ignored(parameter))
        {
            inputs.push(parameter);
        }
    }
    let written = inputs.iter().filter(|one| is_written(one)).count();
    let most = values(&rust.returned).min(written);
    inputs.len() - most..=inputs.len()
}
