// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall's policy: it gives each packet the mark of its connection's class, and accepts it.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::class::Classes;
use crate::marks::Layout;

/// Parts of the policy.
pub struct Daemon<'a> {
    pub classes: &'a Classes,
    /// As `class::declarations` gives them.
    pub sets: &'a str,
    /// Hooks in which packets are queued.
    pub hooks: &'a [&'a str],
    pub layout: Layout,
    pub generation: u32,
    /// The kernel's rules reject.
    pub rejects: bool,
}

/// Writes the policy; nothing if no packet is queued for its names.
pub fn policy(daemon: &Daemon) -> String {
    let Daemon {
        classes,
        sets,
        layout,
        ..
    } = daemon;
    if daemon.hooks.is_empty() {
        return String::new();
    }
    let mut numbers: Vec<u32> = (1..).take(classes.vectors.len()).collect();
    // If all matches of one class also hold for another, the other comes first.
    numbers.sort_by_key(|number| Reverse(classes.holding(*number).len()));
    let generation = layout.generation(daemon.generation);
    let mut text = format!("# Made by fwctl split: the classes of names.\n{sets}table inet names {{\n\tchain classes {{\n");
    let mut rule = |number: u32, matches: &str| {
        let mark = generation | layout.class(number);
        let _ = writeln!(text, "\t\t{matches}meta mark set {mark:#010x} accept");
    };
    for number in numbers {
        let holding: String = classes
            .holding(number)
            .iter()
            .map(|text| format!("{text} "))
            .collect();
        rule(number, &holding);
    }
    if !classes.holding(1).is_empty() {
        rule(1, "");
    }
    text += "\t}\n";
    for hook in daemon.hooks {
        // The RST of the kernel to one end: the firewall resets the other one.
        let refused = match *hook == "output" && daemon.rejects {
            true => format!(
                "\t\tmeta mark & {:#010x} == {:#010x} reject with tcp reset\n",
                layout.mask(),
                layout.refused()
            ),
            false => String::new(),
        };
        let _ = writeln!(text, "\n\tchain {hook} {{\n\t\ttype filter hook {hook} priority 0; policy accept;\n{refused}\t\tjump classes\n\t}}");
    }
    text + "}\n"
}
