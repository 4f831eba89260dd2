// SPDX-License-Identifier: GPL-2.0-or-later
// Made by ./regenerate from wrapper.h: don't edit.
// bindgen 0.73.2
// libnetfilter-queue-dev 1.0.5-3
// libmnl-dev 1.0.4-3
// linux-libc-dev 6.1.187-1

pub const NETLINK_NETFILTER: u32 = 12;
pub const NLM_F_REQUEST: u32 = 1;
pub const NLM_F_MULTI: u32 = 2;
pub const NLM_F_ACK: u32 = 4;
pub const NLM_F_ECHO: u32 = 8;
pub const NLM_F_DUMP_INTR: u32 = 16;
pub const NLM_F_DUMP_FILTERED: u32 = 32;
pub const NLM_F_ROOT: u32 = 256;
pub const NLM_F_MATCH: u32 = 512;
pub const NLM_F_ATOMIC: u32 = 1024;
pub const NLM_F_DUMP: u32 = 768;
pub const NLM_F_REPLACE: u32 = 256;
pub const NLM_F_EXCL: u32 = 512;
pub const NLM_F_CREATE: u32 = 1024;
pub const NLM_F_APPEND: u32 = 2048;
pub const NLM_F_NONREC: u32 = 256;
pub const NLM_F_BULK: u32 = 512;
pub const NLM_F_CAPPED: u32 = 256;
pub const NLM_F_ACK_TLVS: u32 = 512;
pub const NLMSG_ALIGNTO: u32 = 4;
pub const NLMSG_NOOP: u32 = 1;
pub const NLMSG_ERROR: u32 = 2;
pub const NLMSG_DONE: u32 = 3;
pub const NLMSG_OVERRUN: u32 = 4;
pub const NLMSG_MIN_TYPE: u32 = 16;
pub const NETLINK_BROADCAST_ERROR: u32 = 4;
pub const NETLINK_NO_ENOBUFS: u32 = 5;
pub const NETLINK_CAP_ACK: u32 = 10;
pub const NETLINK_EXT_ACK: u32 = 11;
pub const NLA_F_NESTED: u32 = 32768;
pub const NLA_F_NET_BYTEORDER: u32 = 16384;
pub const NLA_TYPE_MASK: i32 = -49153;
pub const NLA_ALIGNTO: u32 = 4;
pub const NF_DROP: u32 = 0;
pub const NF_ACCEPT: u32 = 1;
pub const NF_STOLEN: u32 = 2;
pub const NF_QUEUE: u32 = 3;
pub const NF_REPEAT: u32 = 4;
pub const NF_STOP: u32 = 5;
pub const NF_MAX_VERDICT: u32 = 5;
pub const NF_VERDICT_MASK: u32 = 255;
pub const NF_VERDICT_FLAG_QUEUE_BYPASS: u32 = 32768;
pub const NF_VERDICT_QMASK: u32 = 4294901760;
pub const NF_VERDICT_QBITS: u32 = 16;
pub const NF_VERDICT_BITS: u32 = 16;
pub const NFNETLINK_V0: u32 = 0;
pub const NFNL_SUBSYS_NONE: u32 = 0;
pub const NFNL_SUBSYS_CTNETLINK: u32 = 1;
pub const NFNL_SUBSYS_CTNETLINK_EXP: u32 = 2;
pub const NFNL_SUBSYS_QUEUE: u32 = 3;
pub const NFNL_SUBSYS_ULOG: u32 = 4;
pub const NFNL_SUBSYS_OSF: u32 = 5;
pub const NFNL_SUBSYS_IPSET: u32 = 6;
pub const NFNL_SUBSYS_ACCT: u32 = 7;
pub const NFNL_SUBSYS_CTNETLINK_TIMEOUT: u32 = 8;
pub const NFNL_SUBSYS_CTHELPER: u32 = 9;
pub const NFNL_SUBSYS_NFTABLES: u32 = 10;
pub const NFNL_SUBSYS_NFT_COMPAT: u32 = 11;
pub const NFNL_SUBSYS_HOOK: u32 = 12;
pub const NFNL_SUBSYS_COUNT: u32 = 13;
pub const NFNL_MSG_BATCH_BEGIN: u32 = 16;
pub const NFNL_MSG_BATCH_END: u32 = 17;
pub const NFQA_CFG_F_FAIL_OPEN: u32 = 1;
pub const NFQA_CFG_F_CONNTRACK: u32 = 2;
pub const NFQA_CFG_F_GSO: u32 = 4;
pub const NFQA_CFG_F_UID_GID: u32 = 8;
pub const NFQA_CFG_F_SECCTX: u32 = 16;
pub const NFQA_CFG_F_MAX: u32 = 32;
pub const NFQA_SKB_CSUMNOTREADY: u32 = 1;
pub const NFQA_SKB_GSO: u32 = 2;
pub const NFQA_SKB_CSUM_NOTVERIFIED: u32 = 4;
pub type __kernel_sa_family_t = ::core::ffi::c_ushort;
pub type __u8 = ::core::ffi::c_uchar;
pub type __u16 = ::core::ffi::c_ushort;
pub type __u32 = ::core::ffi::c_uint;
pub type __u64 = ::core::ffi::c_ulonglong;
pub type __be16 = __u16;
pub type __be32 = __u32;
pub type __be64 = __u64;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct sockaddr_nl {
    pub nl_family: __kernel_sa_family_t,
    pub nl_pad: ::core::ffi::c_ushort,
    pub nl_pid: __u32,
    pub nl_groups: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of sockaddr_nl"][::core::mem::size_of::<sockaddr_nl>() - 12usize];
    ["Alignment of sockaddr_nl"][::core::mem::align_of::<sockaddr_nl>() - 4usize];
    ["Offset of field: sockaddr_nl::nl_family"]
        [::core::mem::offset_of!(sockaddr_nl, nl_family) - 0usize];
    ["Offset of field: sockaddr_nl::nl_pad"][::core::mem::offset_of!(sockaddr_nl, nl_pad) - 2usize];
    ["Offset of field: sockaddr_nl::nl_pid"][::core::mem::offset_of!(sockaddr_nl, nl_pid) - 4usize];
    ["Offset of field: sockaddr_nl::nl_groups"]
        [::core::mem::offset_of!(sockaddr_nl, nl_groups) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nlmsghdr {
    pub nlmsg_len: __u32,
    pub nlmsg_type: __u16,
    pub nlmsg_flags: __u16,
    pub nlmsg_seq: __u32,
    pub nlmsg_pid: __u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nlmsghdr"][::core::mem::size_of::<nlmsghdr>() - 16usize];
    ["Alignment of nlmsghdr"][::core::mem::align_of::<nlmsghdr>() - 4usize];
    ["Offset of field: nlmsghdr::nlmsg_len"][::core::mem::offset_of!(nlmsghdr, nlmsg_len) - 0usize];
    ["Offset of field: nlmsghdr::nlmsg_type"]
        [::core::mem::offset_of!(nlmsghdr, nlmsg_type) - 4usize];
    ["Offset of field: nlmsghdr::nlmsg_flags"]
        [::core::mem::offset_of!(nlmsghdr, nlmsg_flags) - 6usize];
    ["Offset of field: nlmsghdr::nlmsg_seq"][::core::mem::offset_of!(nlmsghdr, nlmsg_seq) - 8usize];
    ["Offset of field: nlmsghdr::nlmsg_pid"]
        [::core::mem::offset_of!(nlmsghdr, nlmsg_pid) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nlmsgerr {
    pub error: ::core::ffi::c_int,
    pub msg: nlmsghdr,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nlmsgerr"][::core::mem::size_of::<nlmsgerr>() - 20usize];
    ["Alignment of nlmsgerr"][::core::mem::align_of::<nlmsgerr>() - 4usize];
    ["Offset of field: nlmsgerr::error"][::core::mem::offset_of!(nlmsgerr, error) - 0usize];
    ["Offset of field: nlmsgerr::msg"][::core::mem::offset_of!(nlmsgerr, msg) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nlattr {
    pub nla_len: __u16,
    pub nla_type: __u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nlattr"][::core::mem::size_of::<nlattr>() - 4usize];
    ["Alignment of nlattr"][::core::mem::align_of::<nlattr>() - 2usize];
    ["Offset of field: nlattr::nla_len"][::core::mem::offset_of!(nlattr, nla_len) - 0usize];
    ["Offset of field: nlattr::nla_type"][::core::mem::offset_of!(nlattr, nla_type) - 2usize];
};
pub const NF_INET_PRE_ROUTING: nf_inet_hooks = 0;
pub const NF_INET_LOCAL_IN: nf_inet_hooks = 1;
pub const NF_INET_FORWARD: nf_inet_hooks = 2;
pub const NF_INET_LOCAL_OUT: nf_inet_hooks = 3;
pub const NF_INET_POST_ROUTING: nf_inet_hooks = 4;
pub const NF_INET_NUMHOOKS: nf_inet_hooks = 5;
pub const NF_INET_INGRESS: nf_inet_hooks = 5;
pub type nf_inet_hooks = ::core::ffi::c_uint;
pub const NFNLGRP_NONE: nfnetlink_groups = 0;
pub const NFNLGRP_CONNTRACK_NEW: nfnetlink_groups = 1;
pub const NFNLGRP_CONNTRACK_UPDATE: nfnetlink_groups = 2;
pub const NFNLGRP_CONNTRACK_DESTROY: nfnetlink_groups = 3;
pub const NFNLGRP_CONNTRACK_EXP_NEW: nfnetlink_groups = 4;
pub const NFNLGRP_CONNTRACK_EXP_UPDATE: nfnetlink_groups = 5;
pub const NFNLGRP_CONNTRACK_EXP_DESTROY: nfnetlink_groups = 6;
pub const NFNLGRP_NFTABLES: nfnetlink_groups = 7;
pub const NFNLGRP_ACCT_QUOTA: nfnetlink_groups = 8;
pub const NFNLGRP_NFTRACE: nfnetlink_groups = 9;
pub const __NFNLGRP_MAX: nfnetlink_groups = 10;
pub type nfnetlink_groups = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nfgenmsg {
    pub nfgen_family: __u8,
    pub version: __u8,
    pub res_id: __be16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nfgenmsg"][::core::mem::size_of::<nfgenmsg>() - 4usize];
    ["Alignment of nfgenmsg"][::core::mem::align_of::<nfgenmsg>() - 2usize];
    ["Offset of field: nfgenmsg::nfgen_family"]
        [::core::mem::offset_of!(nfgenmsg, nfgen_family) - 0usize];
    ["Offset of field: nfgenmsg::version"][::core::mem::offset_of!(nfgenmsg, version) - 1usize];
    ["Offset of field: nfgenmsg::res_id"][::core::mem::offset_of!(nfgenmsg, res_id) - 2usize];
};
pub const CTA_UNSPEC: ctattr_type = 0;
pub const CTA_TUPLE_ORIG: ctattr_type = 1;
pub const CTA_TUPLE_REPLY: ctattr_type = 2;
pub const CTA_STATUS: ctattr_type = 3;
pub const CTA_PROTOINFO: ctattr_type = 4;
pub const CTA_HELP: ctattr_type = 5;
pub const CTA_NAT_SRC: ctattr_type = 6;
pub const CTA_TIMEOUT: ctattr_type = 7;
pub const CTA_MARK: ctattr_type = 8;
pub const CTA_COUNTERS_ORIG: ctattr_type = 9;
pub const CTA_COUNTERS_REPLY: ctattr_type = 10;
pub const CTA_USE: ctattr_type = 11;
pub const CTA_ID: ctattr_type = 12;
pub const CTA_NAT_DST: ctattr_type = 13;
pub const CTA_TUPLE_MASTER: ctattr_type = 14;
pub const CTA_SEQ_ADJ_ORIG: ctattr_type = 15;
pub const CTA_NAT_SEQ_ADJ_ORIG: ctattr_type = 15;
pub const CTA_SEQ_ADJ_REPLY: ctattr_type = 16;
pub const CTA_NAT_SEQ_ADJ_REPLY: ctattr_type = 16;
pub const CTA_SECMARK: ctattr_type = 17;
pub const CTA_ZONE: ctattr_type = 18;
pub const CTA_SECCTX: ctattr_type = 19;
pub const CTA_TIMESTAMP: ctattr_type = 20;
pub const CTA_MARK_MASK: ctattr_type = 21;
pub const CTA_LABELS: ctattr_type = 22;
pub const CTA_LABELS_MASK: ctattr_type = 23;
pub const CTA_SYNPROXY: ctattr_type = 24;
pub const CTA_FILTER: ctattr_type = 25;
pub const CTA_STATUS_MASK: ctattr_type = 26;
pub const __CTA_MAX: ctattr_type = 27;
pub type ctattr_type = ::core::ffi::c_uint;
pub const NFQNL_MSG_PACKET: nfqnl_msg_types = 0;
pub const NFQNL_MSG_VERDICT: nfqnl_msg_types = 1;
pub const NFQNL_MSG_CONFIG: nfqnl_msg_types = 2;
pub const NFQNL_MSG_VERDICT_BATCH: nfqnl_msg_types = 3;
pub const NFQNL_MSG_MAX: nfqnl_msg_types = 4;
pub type nfqnl_msg_types = ::core::ffi::c_uint;
#[repr(C, packed)]
#[derive(Debug, Copy, Clone)]
pub struct nfqnl_msg_packet_hdr {
    pub packet_id: __be32,
    pub hw_protocol: __be16,
    pub hook: __u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nfqnl_msg_packet_hdr"][::core::mem::size_of::<nfqnl_msg_packet_hdr>() - 7usize];
    ["Alignment of nfqnl_msg_packet_hdr"][::core::mem::align_of::<nfqnl_msg_packet_hdr>() - 1usize];
    ["Offset of field: nfqnl_msg_packet_hdr::packet_id"]
        [::core::mem::offset_of!(nfqnl_msg_packet_hdr, packet_id) - 0usize];
    ["Offset of field: nfqnl_msg_packet_hdr::hw_protocol"]
        [::core::mem::offset_of!(nfqnl_msg_packet_hdr, hw_protocol) - 4usize];
    ["Offset of field: nfqnl_msg_packet_hdr::hook"]
        [::core::mem::offset_of!(nfqnl_msg_packet_hdr, hook) - 6usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nfqnl_msg_packet_hw {
    pub hw_addrlen: __be16,
    pub _pad: __u16,
    pub hw_addr: [__u8; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nfqnl_msg_packet_hw"][::core::mem::size_of::<nfqnl_msg_packet_hw>() - 12usize];
    ["Alignment of nfqnl_msg_packet_hw"][::core::mem::align_of::<nfqnl_msg_packet_hw>() - 2usize];
    ["Offset of field: nfqnl_msg_packet_hw::hw_addrlen"]
        [::core::mem::offset_of!(nfqnl_msg_packet_hw, hw_addrlen) - 0usize];
    ["Offset of field: nfqnl_msg_packet_hw::_pad"]
        [::core::mem::offset_of!(nfqnl_msg_packet_hw, _pad) - 2usize];
    ["Offset of field: nfqnl_msg_packet_hw::hw_addr"]
        [::core::mem::offset_of!(nfqnl_msg_packet_hw, hw_addr) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nfqnl_msg_packet_timestamp {
    pub sec: __be64,
    pub usec: __be64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nfqnl_msg_packet_timestamp"]
        [::core::mem::size_of::<nfqnl_msg_packet_timestamp>() - 16usize];
    ["Alignment of nfqnl_msg_packet_timestamp"]
        [::core::mem::align_of::<nfqnl_msg_packet_timestamp>() - 8usize];
    ["Offset of field: nfqnl_msg_packet_timestamp::sec"]
        [::core::mem::offset_of!(nfqnl_msg_packet_timestamp, sec) - 0usize];
    ["Offset of field: nfqnl_msg_packet_timestamp::usec"]
        [::core::mem::offset_of!(nfqnl_msg_packet_timestamp, usec) - 8usize];
};
pub const NFQA_VLAN_UNSPEC: nfqnl_vlan_attr = 0;
pub const NFQA_VLAN_PROTO: nfqnl_vlan_attr = 1;
pub const NFQA_VLAN_TCI: nfqnl_vlan_attr = 2;
pub const __NFQA_VLAN_MAX: nfqnl_vlan_attr = 3;
pub type nfqnl_vlan_attr = ::core::ffi::c_uint;
pub const NFQA_UNSPEC: nfqnl_attr_type = 0;
pub const NFQA_PACKET_HDR: nfqnl_attr_type = 1;
pub const NFQA_VERDICT_HDR: nfqnl_attr_type = 2;
pub const NFQA_MARK: nfqnl_attr_type = 3;
pub const NFQA_TIMESTAMP: nfqnl_attr_type = 4;
pub const NFQA_IFINDEX_INDEV: nfqnl_attr_type = 5;
pub const NFQA_IFINDEX_OUTDEV: nfqnl_attr_type = 6;
pub const NFQA_IFINDEX_PHYSINDEV: nfqnl_attr_type = 7;
pub const NFQA_IFINDEX_PHYSOUTDEV: nfqnl_attr_type = 8;
pub const NFQA_HWADDR: nfqnl_attr_type = 9;
pub const NFQA_PAYLOAD: nfqnl_attr_type = 10;
pub const NFQA_CT: nfqnl_attr_type = 11;
pub const NFQA_CT_INFO: nfqnl_attr_type = 12;
pub const NFQA_CAP_LEN: nfqnl_attr_type = 13;
pub const NFQA_SKB_INFO: nfqnl_attr_type = 14;
pub const NFQA_EXP: nfqnl_attr_type = 15;
pub const NFQA_UID: nfqnl_attr_type = 16;
pub const NFQA_GID: nfqnl_attr_type = 17;
pub const NFQA_SECCTX: nfqnl_attr_type = 18;
pub const NFQA_VLAN: nfqnl_attr_type = 19;
pub const NFQA_L2HDR: nfqnl_attr_type = 20;
pub const NFQA_PRIORITY: nfqnl_attr_type = 21;
pub const __NFQA_MAX: nfqnl_attr_type = 22;
pub type nfqnl_attr_type = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nfqnl_msg_verdict_hdr {
    pub verdict: __be32,
    pub id: __be32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nfqnl_msg_verdict_hdr"][::core::mem::size_of::<nfqnl_msg_verdict_hdr>() - 8usize];
    ["Alignment of nfqnl_msg_verdict_hdr"]
        [::core::mem::align_of::<nfqnl_msg_verdict_hdr>() - 4usize];
    ["Offset of field: nfqnl_msg_verdict_hdr::verdict"]
        [::core::mem::offset_of!(nfqnl_msg_verdict_hdr, verdict) - 0usize];
    ["Offset of field: nfqnl_msg_verdict_hdr::id"]
        [::core::mem::offset_of!(nfqnl_msg_verdict_hdr, id) - 4usize];
};
pub const NFQNL_CFG_CMD_NONE: nfqnl_msg_config_cmds = 0;
pub const NFQNL_CFG_CMD_BIND: nfqnl_msg_config_cmds = 1;
pub const NFQNL_CFG_CMD_UNBIND: nfqnl_msg_config_cmds = 2;
pub const NFQNL_CFG_CMD_PF_BIND: nfqnl_msg_config_cmds = 3;
pub const NFQNL_CFG_CMD_PF_UNBIND: nfqnl_msg_config_cmds = 4;
pub type nfqnl_msg_config_cmds = ::core::ffi::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nfqnl_msg_config_cmd {
    pub command: __u8,
    pub _pad: __u8,
    pub pf: __be16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nfqnl_msg_config_cmd"][::core::mem::size_of::<nfqnl_msg_config_cmd>() - 4usize];
    ["Alignment of nfqnl_msg_config_cmd"][::core::mem::align_of::<nfqnl_msg_config_cmd>() - 2usize];
    ["Offset of field: nfqnl_msg_config_cmd::command"]
        [::core::mem::offset_of!(nfqnl_msg_config_cmd, command) - 0usize];
    ["Offset of field: nfqnl_msg_config_cmd::_pad"]
        [::core::mem::offset_of!(nfqnl_msg_config_cmd, _pad) - 1usize];
    ["Offset of field: nfqnl_msg_config_cmd::pf"]
        [::core::mem::offset_of!(nfqnl_msg_config_cmd, pf) - 2usize];
};
pub const NFQNL_COPY_NONE: nfqnl_config_mode = 0;
pub const NFQNL_COPY_META: nfqnl_config_mode = 1;
pub const NFQNL_COPY_PACKET: nfqnl_config_mode = 2;
pub type nfqnl_config_mode = ::core::ffi::c_uint;
#[repr(C, packed)]
#[derive(Debug, Copy, Clone)]
pub struct nfqnl_msg_config_params {
    pub copy_range: __be32,
    pub copy_mode: __u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nfqnl_msg_config_params"][::core::mem::size_of::<nfqnl_msg_config_params>() - 5usize];
    ["Alignment of nfqnl_msg_config_params"]
        [::core::mem::align_of::<nfqnl_msg_config_params>() - 1usize];
    ["Offset of field: nfqnl_msg_config_params::copy_range"]
        [::core::mem::offset_of!(nfqnl_msg_config_params, copy_range) - 0usize];
    ["Offset of field: nfqnl_msg_config_params::copy_mode"]
        [::core::mem::offset_of!(nfqnl_msg_config_params, copy_mode) - 4usize];
};
pub const NFQA_CFG_UNSPEC: nfqnl_attr_config = 0;
pub const NFQA_CFG_CMD: nfqnl_attr_config = 1;
pub const NFQA_CFG_PARAMS: nfqnl_attr_config = 2;
pub const NFQA_CFG_QUEUE_MAXLEN: nfqnl_attr_config = 3;
pub const NFQA_CFG_MASK: nfqnl_attr_config = 4;
pub const NFQA_CFG_FLAGS: nfqnl_attr_config = 5;
pub const __NFQA_CFG_MAX: nfqnl_attr_config = 6;
pub type nfqnl_attr_config = ::core::ffi::c_uint;
pub type __pid_t = ::core::ffi::c_int;
pub type pid_t = __pid_t;
#[repr(C)]
#[derive(Debug)]
pub struct mnl_socket {
    _unused: [u8; 0],
}
pub type mnl_attr_cb_t = ::core::option::Option<
    unsafe extern "C" fn(attr: *const nlattr, data: *mut ::core::ffi::c_void) -> ::core::ffi::c_int,
>;
#[repr(C)]
#[derive(Debug)]
pub struct nfq_handle {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct nfq_q_handle {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug)]
pub struct nfq_data {
    _unused: [u8; 0],
}
pub type nfq_callback = ::core::option::Option<
    unsafe extern "C" fn(
        gh: *mut nfq_q_handle,
        nfmsg: *mut nfgenmsg,
        nfad: *mut nfq_data,
        data: *mut ::core::ffi::c_void,
    ) -> ::core::ffi::c_int,
>;
pub const NLMSG_HDRLEN: netlink_header_length = 16;
pub const NLA_HDRLEN: netlink_header_length = 4;
pub type netlink_header_length = ::core::ffi::c_uint;
pub const NFQA_MAX: nfqnl_attr_limit = 21;
pub const NFQA_VLAN_MAX: nfqnl_attr_limit = 2;
pub const NFQA_CFG_MAX: nfqnl_attr_limit = 5;
pub type nfqnl_attr_limit = ::core::ffi::c_uint;
unsafe extern "C" {
    pub fn mnl_socket_open(bus: ::core::ffi::c_int) -> *mut mnl_socket;
    pub fn mnl_socket_open2(bus: ::core::ffi::c_int, flags: ::core::ffi::c_int) -> *mut mnl_socket;
    pub fn mnl_socket_fdopen(fd: ::core::ffi::c_int) -> *mut mnl_socket;
    pub fn mnl_socket_bind(
        nl: *mut mnl_socket,
        groups: ::core::ffi::c_uint,
        pid: pid_t,
    ) -> ::core::ffi::c_int;
    pub fn mnl_socket_close(nl: *mut mnl_socket) -> ::core::ffi::c_int;
    pub fn mnl_socket_get_fd(nl: *const mnl_socket) -> ::core::ffi::c_int;
    pub fn mnl_socket_get_portid(nl: *const mnl_socket) -> ::core::ffi::c_uint;
    pub fn mnl_socket_sendto(
        nl: *const mnl_socket,
        req: *const ::core::ffi::c_void,
        siz: usize,
    ) -> isize;
    pub fn mnl_socket_recvfrom(
        nl: *const mnl_socket,
        buf: *mut ::core::ffi::c_void,
        siz: usize,
    ) -> isize;
    pub fn mnl_nlmsg_size(len: usize) -> usize;
    pub fn mnl_nlmsg_get_payload_len(nlh: *const nlmsghdr) -> usize;
    pub fn mnl_nlmsg_put_header(buf: *mut ::core::ffi::c_void) -> *mut nlmsghdr;
    pub fn mnl_nlmsg_put_extra_header(nlh: *mut nlmsghdr, size: usize) -> *mut ::core::ffi::c_void;
    pub fn mnl_nlmsg_ok(nlh: *const nlmsghdr, len: ::core::ffi::c_int) -> bool;
    pub fn mnl_nlmsg_next(nlh: *const nlmsghdr, len: *mut ::core::ffi::c_int) -> *mut nlmsghdr;
    pub fn mnl_nlmsg_get_payload(nlh: *const nlmsghdr) -> *mut ::core::ffi::c_void;
    pub fn mnl_attr_get_type(attr: *const nlattr) -> u16;
    pub fn mnl_attr_get_len(attr: *const nlattr) -> u16;
    pub fn mnl_attr_get_payload_len(attr: *const nlattr) -> u16;
    pub fn mnl_attr_get_payload(attr: *const nlattr) -> *mut ::core::ffi::c_void;
    pub fn mnl_attr_get_u8(attr: *const nlattr) -> u8;
    pub fn mnl_attr_get_u16(attr: *const nlattr) -> u16;
    pub fn mnl_attr_get_u32(attr: *const nlattr) -> u32;
    pub fn mnl_attr_get_u64(attr: *const nlattr) -> u64;
    pub fn mnl_attr_put(
        nlh: *mut nlmsghdr,
        type_: u16,
        len: usize,
        data: *const ::core::ffi::c_void,
    );
    pub fn mnl_attr_put_u8(nlh: *mut nlmsghdr, type_: u16, data: u8);
    pub fn mnl_attr_put_u16(nlh: *mut nlmsghdr, type_: u16, data: u16);
    pub fn mnl_attr_put_u32(nlh: *mut nlmsghdr, type_: u16, data: u32);
    pub fn mnl_attr_put_u64(nlh: *mut nlmsghdr, type_: u16, data: u64);
    pub fn mnl_attr_ok(attr: *const nlattr, len: ::core::ffi::c_int) -> bool;
    pub fn mnl_attr_next(attr: *const nlattr) -> *mut nlattr;
    pub fn mnl_attr_parse(
        nlh: *const nlmsghdr,
        offset: ::core::ffi::c_uint,
        cb: mnl_attr_cb_t,
        data: *mut ::core::ffi::c_void,
    ) -> ::core::ffi::c_int;
    pub fn nfq_fd(h: *mut nfq_handle) -> ::core::ffi::c_int;
    pub fn nfq_open() -> *mut nfq_handle;
    pub fn nfq_close(h: *mut nfq_handle) -> ::core::ffi::c_int;
    pub fn nfq_bind_pf(h: *mut nfq_handle, pf: u16) -> ::core::ffi::c_int;
    pub fn nfq_unbind_pf(h: *mut nfq_handle, pf: u16) -> ::core::ffi::c_int;
    pub fn nfq_create_queue(
        h: *mut nfq_handle,
        num: u16,
        cb: nfq_callback,
        data: *mut ::core::ffi::c_void,
    ) -> *mut nfq_q_handle;
    pub fn nfq_destroy_queue(qh: *mut nfq_q_handle) -> ::core::ffi::c_int;
    pub fn nfq_handle_packet(
        h: *mut nfq_handle,
        buf: *mut ::core::ffi::c_char,
        len: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
    pub fn nfq_set_mode(
        qh: *mut nfq_q_handle,
        mode: u8,
        len: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
    pub fn nfq_set_queue_maxlen(qh: *mut nfq_q_handle, queuelen: u32) -> ::core::ffi::c_int;
    pub fn nfq_set_queue_flags(qh: *mut nfq_q_handle, mask: u32, flags: u32) -> ::core::ffi::c_int;
    pub fn nfq_set_verdict(
        qh: *mut nfq_q_handle,
        id: u32,
        verdict: u32,
        data_len: u32,
        buf: *const ::core::ffi::c_uchar,
    ) -> ::core::ffi::c_int;
    pub fn nfq_set_verdict2(
        qh: *mut nfq_q_handle,
        id: u32,
        verdict: u32,
        mark: u32,
        datalen: u32,
        buf: *const ::core::ffi::c_uchar,
    ) -> ::core::ffi::c_int;
    pub fn nfq_set_verdict_batch(
        qh: *mut nfq_q_handle,
        id: u32,
        verdict: u32,
    ) -> ::core::ffi::c_int;
    pub fn nfq_set_verdict_batch2(
        qh: *mut nfq_q_handle,
        id: u32,
        verdict: u32,
        mark: u32,
    ) -> ::core::ffi::c_int;
    pub fn nfq_get_msg_packet_hdr(nfad: *mut nfq_data) -> *mut nfqnl_msg_packet_hdr;
    pub fn nfq_get_nfmark(nfad: *mut nfq_data) -> u32;
    pub fn nfq_get_indev(nfad: *mut nfq_data) -> u32;
    pub fn nfq_get_physindev(nfad: *mut nfq_data) -> u32;
    pub fn nfq_get_outdev(nfad: *mut nfq_data) -> u32;
    pub fn nfq_get_physoutdev(nfad: *mut nfq_data) -> u32;
    pub fn nfq_get_skbinfo(nfad: *mut nfq_data) -> u32;
    pub fn nfq_get_uid(nfad: *mut nfq_data, uid: *mut u32) -> ::core::ffi::c_int;
    pub fn nfq_get_gid(nfad: *mut nfq_data, gid: *mut u32) -> ::core::ffi::c_int;
    pub fn nfq_get_payload(
        nfad: *mut nfq_data,
        data: *mut *mut ::core::ffi::c_uchar,
    ) -> ::core::ffi::c_int;
    pub fn nfq_nlmsg_cfg_put_cmd(nlh: *mut nlmsghdr, pf: u16, cmd: u8);
    pub fn nfq_nlmsg_cfg_put_params(nlh: *mut nlmsghdr, mode: u8, range: ::core::ffi::c_int);
    pub fn nfq_nlmsg_cfg_put_qmaxlen(nlh: *mut nlmsghdr, qmaxlen: u32);
    pub fn nfq_nlmsg_verdict_put(
        nlh: *mut nlmsghdr,
        id: ::core::ffi::c_int,
        verdict: ::core::ffi::c_int,
    );
    pub fn nfq_nlmsg_verdict_put_mark(nlh: *mut nlmsghdr, mark: u32);
    pub fn nfq_nlmsg_verdict_put_pkt(
        nlh: *mut nlmsghdr,
        pkt: *const ::core::ffi::c_void,
        pktlen: u32,
    );
    pub fn nfq_nlmsg_parse(nlh: *const nlmsghdr, attr: *mut *mut nlattr) -> ::core::ffi::c_int;
    pub fn nfq_nlmsg_put(
        buf: *mut ::core::ffi::c_char,
        type_: ::core::ffi::c_int,
        queue_num: u32,
    ) -> *mut nlmsghdr;
}
