// SPDX-License-Identifier: GPL-2.0-or-later
//! Policy of the firewall. Its rules write the class of a packet's connection into the packet's mark, and accept the
//! packet. One more rule resets the second end of a rejected connection.

use std::cmp::Reverse;
use std::fmt::Write;

use crate::class::Classes;
use crate::marks::Layout;

/// Data from which the firewall's policy is made.
pub struct Daemon<'a> {
    pub classes: &'a Classes,
    /// Declarations of the sets of names (`class::declarations`).
    pub sets: &'a str,
    /// Hooks in which packets are queued for their names, or as RSTs of rejections.
    pub hooks: &'a [&'a str],
    pub layout: Layout,
    pub generation: u32,
    /// True if a rule of a table with names rejects packets.
    pub rejects: bool,
}

/// Returns the text of the firewall's policy, without the sets that learn; empty if no packet is queued for its names.
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
    // If all matches of one class also hold for another class, the other class must come first.
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
        // The packet is the kernel's RST to one end. The firewall resets the other end.
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
