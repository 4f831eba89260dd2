// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks structs and constants in messages against the values of the kernel's interface (include/uapi/linux/netlink.h,
//! netfilter/nfnetlink.h, netfilter/nfnetlink_queue.h), which never change. bindgen's own asserts can't do this: they hold
//! for any header from which the bindings were generated.

use std::mem::{align_of, offset_of, size_of};

use sys_bindings::*;

/// Returns size and alignment in bytes.
fn shape<T>() -> (usize, usize) {
    (size_of::<T>(), align_of::<T>())
}

#[test]
fn netlink_headers() {
    assert_eq!(shape::<nlmsghdr>(), (16, 4));
    assert_eq!(offset_of!(nlmsghdr, nlmsg_len), 0);
    assert_eq!(offset_of!(nlmsghdr, nlmsg_type), 4);
    assert_eq!(offset_of!(nlmsghdr, nlmsg_flags), 6);
    assert_eq!(offset_of!(nlmsghdr, nlmsg_seq), 8);
    assert_eq!(offset_of!(nlmsghdr, nlmsg_pid), 12);
    assert_eq!(shape::<nlattr>(), (4, 2));
    assert_eq!(offset_of!(nlattr, nla_type), 2);
    assert_eq!(shape::<nlmsgerr>(), (20, 4));
    assert_eq!(offset_of!(nlmsgerr, msg), 4);
    assert_eq!(shape::<sockaddr_nl>(), (12, 4));
    assert_eq!(offset_of!(sockaddr_nl, nl_pid), 4);
}

#[test]
fn nfgenmsg_is_four_bytes() {
    assert_eq!(shape::<nfgenmsg>(), (4, 2));
    assert_eq!(offset_of!(nfgenmsg, version), 1);
    assert_eq!(offset_of!(nfgenmsg, res_id), 2);
}

#[test]
fn packet_header_is_packed_to_seven_bytes() {
    assert_eq!(shape::<nfqnl_msg_packet_hdr>(), (7, 1));
    assert_eq!(offset_of!(nfqnl_msg_packet_hdr, packet_id), 0);
    assert_eq!(offset_of!(nfqnl_msg_packet_hdr, hw_protocol), 4);
    assert_eq!(offset_of!(nfqnl_msg_packet_hdr, hook), 6);
}

#[test]
fn config_parameters_are_packed_to_five_bytes() {
    assert_eq!(shape::<nfqnl_msg_config_params>(), (5, 1));
    assert_eq!(offset_of!(nfqnl_msg_config_params, copy_range), 0);
    assert_eq!(offset_of!(nfqnl_msg_config_params, copy_mode), 4);
}

#[test]
fn other_queue_structs() {
    assert_eq!(shape::<nfqnl_msg_verdict_hdr>(), (8, 4));
    assert_eq!(offset_of!(nfqnl_msg_verdict_hdr, verdict), 0);
    assert_eq!(offset_of!(nfqnl_msg_verdict_hdr, id), 4);
    assert_eq!(shape::<nfqnl_msg_config_cmd>(), (4, 2));
    assert_eq!(offset_of!(nfqnl_msg_config_cmd, pf), 2);
    assert_eq!(shape::<nfqnl_msg_packet_hw>(), (12, 2));
    assert_eq!(shape::<nfqnl_msg_packet_timestamp>(), (16, 8));
}

#[test]
fn macros_that_bindgen_cannot_evaluate() {
    assert_eq!(NLMSG_HDRLEN as usize, size_of::<nlmsghdr>());
    assert_eq!(NLA_HDRLEN as usize, size_of::<nlattr>());
    assert_eq!(NLA_TYPE_MASK as u16, 0x3fff);
    assert_eq!(NFQA_MAX, __NFQA_MAX - 1);
    assert_eq!(NFQA_VLAN_MAX, __NFQA_VLAN_MAX - 1);
    assert_eq!(NFQA_CFG_MAX, __NFQA_CFG_MAX - 1);
}

#[test]
fn numbers_of_the_interface() {
    let subsystem_and_message = NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_VERDICT_BATCH;
    assert_eq!(subsystem_and_message, 0x0303);
    assert_eq!(
        [NFQA_PACKET_HDR, NFQA_PAYLOAD, NFQA_CAP_LEN, NFQA_PRIORITY],
        [1, 10, 13, 21]
    );
    assert_eq!([NF_DROP, NF_ACCEPT, NF_QUEUE, NF_REPEAT], [0, 1, 3, 4]);
    assert_eq!([NFQA_CFG_F_FAIL_OPEN, NFQA_CFG_F_GSO], [1, 4]);
    assert_eq!(NETLINK_NETFILTER, 12);
}

/// Calls one function of each library, so that the test fails to link or load without them.
#[test]
fn both_libraries_are_linked() {
    // SAFETY: the function reads its argument only.
    assert_eq!(unsafe { mnl_nlmsg_size(4) }, 20);
    let mut message = [0u32; 16];
    // SAFETY: the message is aligned to 4 bytes and larger than the 20 that are written.
    let header = unsafe { nfq_nlmsg_put(message.as_mut_ptr().cast(), NFQNL_MSG_CONFIG as i32, 7) };
    // SAFETY: the function returns the start of `message`.
    let header = unsafe { &*header };
    assert_eq!((header.nlmsg_len, header.nlmsg_type), (20, 0x0302));
}
