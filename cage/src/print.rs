// SPDX-License-Identifier: GPL-2.0-or-later
//! Output of `fwctl run --print`: the namespaces, programs, rules and policy of a cage.

use crate::failure::Failure;
use crate::settings::Settings;
use crate::start::Plan;
use crate::{namespaces, queue_rules, sockets};

fn words(program: &std::path::Path, arguments: &[String]) -> String {
    format!("{} {}", program.display(), arguments.join(" "))
}

fn block(text: &mut String, head: &str, body: &str) {
    *text += &format!("# {head}\n");
    for line in body.lines() {
        *text += &format!("    {line}\n");
    }
    text.push('\n');
}

/// Returns the plan of a cage as text. Starts no process.
pub fn print(settings: &Settings) -> Result<String, Failure> {
    let plan = Plan::new(settings)?;
    let mut text = String::new();
    block(
        &mut text,
        "namespaces",
        &namespaces::describe(&plan.caller).join("\n"),
    );
    block(
        &mut text,
        "uplink",
        &words(
            &plan.uplink.program,
            &plan.uplink.arguments(settings.host_loopback),
        ),
    );
    block(
        &mut text,
        "resolver of the command",
        &plan.resolver.to_string(),
    );
    block(
        &mut text,
        "firewall",
        &words(&settings.firewall, &plan.firewall_arguments(settings)),
    );
    block(&mut text, "queue rules, by nft", &queue_rules::for_nft());
    let tables = [("iptables", false), ("ip6tables", true)];
    for (name, is_ipv6) in tables {
        block(
            &mut text,
            &format!("or by {name}"),
            &queue_rules::for_iptables(is_ipv6),
        );
    }
    let mut covered = sockets::covered(&plan.left_open);
    covered.extend(sockets::emptied(plan.caller.uid, &plan.left_open));
    let covered: Vec<String> = covered
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    block(&mut text, "covered for the command", &covered.join("\n"));
    if let Some(why) = &plan.queued {
        block(&mut text, "all packets are queued", why);
    }
    let policy = match &plan.text {
        Some(policy) => policy.clone(),
        None => {
            std::fs::read_to_string(&plan.policy).map_err(Failure::at(plan.policy.display()))?
        }
    };
    block(
        &mut text,
        &format!("policy {}", plan.policy.display()),
        &policy,
    );
    Ok(text)
}
