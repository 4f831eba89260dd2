// SPDX-License-Identifier: GPL-2.0-or-later
//! Prints the bindings of `wrapper.h`, unformatted. `./regenerate` runs it, formats its output and prepends the head of
//! `src/bindings.rs`.

use std::process::exit;

/// Regular expressions of the functions of libnetfilter_queue and libmnl that a queue backend may call. Functions that
/// print, look up interface names (`nfq_get_*_name`) or dissect packets (`packet` does that) are excluded. Functions
/// with an argument of type FILE, timeval or socklen_t are excluded, too.
const FUNCTIONS: [&str; 8] = [
    "nfq_(open|close|fd|bind_pf|unbind_pf|create_queue|destroy_queue|handle_packet)",
    "nfq_set_(mode|queue_maxlen|queue_flags|verdict|verdict2|verdict_batch|verdict_batch2)",
    "nfq_get_(msg_packet_hdr|nfmark|indev|physindev|outdev|physoutdev|skbinfo|uid|gid|payload)",
    "nfq_nlmsg_(cfg_put_cmd|cfg_put_params|cfg_put_qmaxlen|parse|put)",
    "nfq_nlmsg_(verdict_put|verdict_put_mark|verdict_put_pkt)",
    "mnl_socket_(open|open2|fdopen|bind|close|get_fd|get_portid|sendto|recvfrom)",
    "mnl_nlmsg_(size|ok|next|put_header|put_extra_header|get_payload|get_payload_len)",
    "mnl_attr_(get_(type|len|payload_len|payload|u8|u16|u32|u64)|put(_u8|_u16|_u32|_u64)?|ok|next|parse)",
];

/// Regular expressions of the types to bind: types in netlink messages, and the socket's address.
const TYPES: [&str; 7] = [
    "nlmsghdr|nlmsgerr|nlattr|sockaddr_nl",
    "nfgenmsg",
    "nfqnl_msg_.*",
    "nfqnl_(attr_type|attr_config|config_mode|vlan_attr|attr_limit)",
    "netlink_header_length|nfnetlink_groups",
    "nf_inet_hooks",
    "ctattr_type",
];

/// Regular expressions of the constants to bind, by the kernel's prefixes.
const CONSTANTS: [&str; 9] = [
    "NFQNL_.*",
    "NFQA_.*",
    "NFNL_(SUBSYS|MSG)_.*",
    "NFNETLINK_.*",
    "NF_(DROP|ACCEPT|STOLEN|QUEUE|REPEAT|STOP|MAX_VERDICT|VERDICT_.*|INET_.*)",
    "NLM_F_.*",
    "NLMSG_.*",
    "NLA_.*",
    "NETLINK_(NETFILTER|NO_ENOBUFS|CAP_ACK|EXT_ACK|BROADCAST_ERROR)",
];

fn main() {
    match generate() {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("error: the bindings can't be made: {error}");
            exit(1);
        }
    }
}

fn generate() -> Result<String, Box<dyn std::error::Error>> {
    let oldest_rust = bindgen::RustTarget::stable(85, 0).map_err(|error| error.to_string())?;
    let mut builder = bindgen::Builder::default()
        .header("wrapper.h")
        .rust_target(oldest_rust)
        .rust_edition(bindgen::RustEdition::Edition2021)
        .use_core()
        .prepend_enum_name(false)
        .merge_extern_blocks(true)
        .generate_comments(false)
        .disable_header_comment()
        .formatter(bindgen::Formatter::None);
    for pattern in FUNCTIONS {
        builder = builder.allowlist_function(pattern);
    }
    for pattern in TYPES {
        builder = builder.allowlist_type(pattern);
    }
    for pattern in CONSTANTS {
        builder = builder.allowlist_var(pattern);
    }
    Ok(builder.generate()?.to_string())
}
