// SPDX-License-Identifier: GPL-2.0-or-later
//! Findings of the doctor.

use serde::Serialize;
use serde_json::json;

use crate::units::count;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Packets are lost, accepted or dropped against the intention.
    Error,
    /// Packets will be lost, accepted or dropped against the intention, sooner or later.
    Warning,
    /// Useful information; not counted as a finding.
    Note,
    /// Facts that could not be read, with the reason; not counted as a finding.
    Unseen,
    Ok,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Severity,
    pub what: String,
    /// Command or option of the firewall that solves the problem, to copy.
    pub cure: Option<String>,
}

/// All findings of `doctor`, in the order of the checks.
#[derive(Debug, Default)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, what: String, cure: Option<String>) {
        let finding = Finding {
            severity,
            what,
            cure,
        };
        // Two queues may have the same rule.
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    pub fn error(&mut self, what: impl Into<String>, cure: impl Into<String>) {
        self.add(Severity::Error, what.into(), Some(cure.into()));
    }

    pub fn warning(&mut self, what: impl Into<String>, cure: impl Into<String>) {
        self.add(Severity::Warning, what.into(), Some(cure.into()));
    }

    pub fn note(&mut self, what: impl Into<String>, cure: impl Into<String>) {
        self.add(Severity::Note, what.into(), Some(cure.into()));
    }

    pub fn unseen(&mut self, what: impl Into<String>) {
        self.add(Severity::Unseen, what.into(), None);
    }

    pub fn ok(&mut self, what: impl Into<String>) {
        self.add(Severity::Ok, what.into(), None);
    }

    fn number(&self, severity: Severity) -> usize {
        let of_it = self.0.iter().filter(|finding| finding.severity == severity);
        of_it.count()
    }

    /// Returns true if there is an error or a warning.
    pub fn any(&self) -> bool {
        self.number(Severity::Error) + self.number(Severity::Warning) > 0
    }

    /// Returns the findings, the most severe first.
    fn sorted(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self.0.iter().collect();
        all.sort_by_key(|finding| finding.severity);
        all
    }

    /// Formats the findings for --json: a line each, then a line with the numbers of errors, warnings, notes and unseen
    /// facts.
    pub fn json(&self) -> Vec<String> {
        let lines = self
            .sorted()
            .into_iter()
            .map(|finding| json!(finding).to_string());
        let sums = json!({
            "errors": self.number(Severity::Error),
            "warnings": self.number(Severity::Warning),
            "notes": self.number(Severity::Note),
            "unseen": self.number(Severity::Unseen),
        });
        lines.chain([sums.to_string()]).collect()
    }

    /// Formats the findings for people.
    pub fn text(&self) -> Vec<String> {
        let mut out = Vec::new();
        for finding in self.sorted() {
            let name = match finding.severity {
                Severity::Error => "ERROR",
                Severity::Warning => "WARNING",
                Severity::Note => "note",
                Severity::Unseen => "unseen",
                Severity::Ok => "ok",
            };
            out.push(format!("{name:<8} {}", finding.what));
            if let Some(cure) = &finding.cure {
                out.push(format!("{:<8} -> {cure}", ""));
            }
        }
        let number = |severity, one| count(self.number(severity) as u64, one);
        out.push(format!(
            "{}, {}, {}",
            number(Severity::Error, "error"),
            number(Severity::Warning, "warning"),
            number(Severity::Note, "note")
        ));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_notes_are_no_findings() {
        let mut findings = Findings::default();
        findings.ok("a");
        findings.note("b", "do b");
        assert!(!findings.any());
        findings.error("c", "do c");
        findings.error("c", "do c");
        assert!(findings.any());
        assert_eq!(
            findings.text().join("\n"),
            "ERROR    c\n         -> do c\nnote     b\n         -> do b\nok       a\n\
             1 error, 0 warnings, 1 note"
        );
    }
}
