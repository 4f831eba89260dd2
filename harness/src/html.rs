// SPDX-License-Identifier: GPL-2.0-or-later
//! Renders a result as one self-contained HTML page: figures, tables, findings and metadata.

use std::fmt::Write;

use crate::metadata::Metadata;
use crate::table::Table;

const STYLE: &str = "\
body { font: 15px/1.5 'Noto Sans', 'DejaVu Sans', sans-serif; color: #222; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.7em; margin-bottom: 0.2em; } h2 { font-size: 1.25em; margin-top: 2em; } h3 { font-size: 1.05em; }
.question { font-size: 1.1em; color: #555; margin-top: 0; }
figure { margin: 1.5em 0; } svg { max-width: 100%; height: auto; border: 1px solid #e2e2e2; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.92em; }
th, td { padding: 0.25em 0.8em; text-align: right; border-bottom: 1px solid #e2e2e2; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: #666; font-weight: normal; border-color: #999; }
.plain td { text-align: left; white-space: normal; } .small { color: #666; font-size: 0.9em; }
pre { background: #f6f6f6; padding: 0.8em; overflow-x: auto; font-size: 0.85em; }
";

/// Contents of a page, in this order.
pub struct Page<'a> {
    pub metadata: &'a Metadata,
    /// Measuring method, in words.
    pub how: String,
    /// Title and SVG of each figure.
    pub figures: Vec<(String, String)>,
    pub tables: Vec<Table>,
    /// Titles (a load, or "claims"), each with lines: comparison or claim, and its result.
    pub findings: Vec<(String, Vec<(String, String)>)>,
    pub notes: Vec<String>,
    /// Facts about the run as (name, value): machine, commit, start, end, and versions of tools.
    pub facts: Vec<(String, String)>,
}

impl Page<'_> {
    /// Returns the whole page.
    pub fn html(&self) -> String {
        let title = escape(&self.metadata.title);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p class=\"question\">{}</p>\n<p>{}</p>\n",
            escape(&self.metadata.question),
            escape(&self.how)
        );
        for (title, svg) in &self.figures {
            let title = escape(title);
            let _ = write!(
                html,
                "<figure role=\"img\" aria-label=\"{title}\">\n{svg}</figure>\n"
            );
        }
        html.push_str("<h2>Tables</h2>\n");
        for table in &self.tables {
            write_table(&mut html, table);
        }
        if !self.findings.is_empty() {
            html.push_str("<h2>Findings</h2>\n");
        }
        for (about, lines) in &self.findings {
            let _ = writeln!(html, "<h3>{}</h3>", escape(about));
            write_pairs(&mut html, lines);
        }
        if !self.notes.is_empty() {
            html.push_str("<h2>Notes</h2>\n<ul>\n");
            for note in &self.notes {
                let _ = writeln!(html, "<li>{}</li>", escape(note));
            }
            html.push_str("</ul>\n");
        }
        html.push_str("<h2>Where and with what</h2>\n");
        write_pairs(&mut html, &self.facts);
        html.push_str("<details><summary>Command lines</summary>\n<pre>");
        html.push_str(&escape(&self.metadata.commands.join("\n")));
        html.push_str("</pre></details>\n</body>\n</html>\n");
        html
    }
}

fn write_table(html: &mut String, table: &Table) {
    let _ = writeln!(
        html,
        "<h3>{}</h3>\n<div class=\"wide\"><table>",
        escape(&table.title)
    );
    let cells = |tag: &str, cells: &[String]| -> String {
        let cell = |text: &String| format!("<{tag}>{}</{tag}>", escape(text));
        cells.iter().map(cell).collect()
    };
    let _ = writeln!(html, "<tr>{}</tr>", cells("th", &table.head));
    for row in &table.rows {
        let _ = writeln!(html, "<tr>{}</tr>", cells("td", row));
    }
    html.push_str("</table></div>\n");
    for line in &table.copies {
        let _ = writeln!(html, "<p class=\"small\">{}</p>", escape(line));
    }
}

/// Writes a table of two columns without a header row.
fn write_pairs(html: &mut String, pairs: &[(String, String)]) {
    html.push_str("<table class=\"plain\">\n");
    for (name, words) in pairs {
        let (name, words) = (escape(name), escape(words));
        let _ = writeln!(html, "<tr><td>{name}</td><td>{words}</td></tr>");
    }
    html.push_str("</table>\n");
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_html_takes_for_its_own_is_written_otherwise() {
        assert_eq!(escape("a < b & \"c\""), "a &lt; b &amp; &quot;c&quot;");
    }
}
