# SPDX-License-Identifier: GPL-2.0-or-later
# Made by spec/generate from spec/options.toml: what fish completes for rust-firewall and c-firewall.

for program in rust-firewall c-firewall
    complete --command $program --no-files
    complete --command $program --condition __fish_use_subcommand --arguments check
    complete --command $program --condition '__fish_seen_subcommand_from check' --force-files
    complete --command $program --condition __fish_use_subcommand --arguments explain
    complete --command $program --condition '__fish_seen_subcommand_from explain' --force-files
    complete --command $program --short-option h --long-option help
    complete --command $program --short-option V --long-option version --condition __fish_use_subcommand
    complete --command $program --long-option queue \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'queue number, or a range with a worker thread for each'
    complete --command $program --long-option pin \
        --condition '__fish_use_subcommand' \
        --description 'bind each worker to a CPU of its own, in turn'
    complete --command $program --long-option backend \
        --condition '__fish_use_subcommand' \
        --exclusive --arguments 'classic mnl raw' \
        --description 'classic: the callback API of libnetfilter_queue'
    complete --command $program --long-option profile \
        --condition '__fish_use_subcommand' \
        --exclusive --arguments 'fast paper' \
        --description 'fast:  sleep when idle, receive and answer in batches'
    complete --command $program --long-option copy-bytes \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'bytes of a packet to copy;'
    complete --command $program --long-option batch \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'packets a receive call, and'
    complete --command $program --long-option receive-buffer \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'bytes of the socket\'s buffer;'
    complete --command $program --long-option queue-length \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'packets that may wait in the'
    complete --command $program --long-option gso \
        --condition '__fish_use_subcommand' \
        --exclusive --arguments 'off on' \
        --description 'take packets before the kernel'
    complete --command $program --long-option spin \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'microseconds to look for further'
    complete --command $program --long-option coalesce \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'microseconds to let packets'
    complete --command $program --long-option policy \
        --condition '__fish_use_subcommand' \
        --require-parameter --force-files \
        --description 'decide by the policy in FILE, which nft -f loads too'
    complete --command $program --long-option default \
        --condition '__fish_use_subcommand; or __fish_seen_subcommand_from explain' \
        --exclusive --arguments 'accept drop' \
        --description 'accept or drop: for every well-formed packet that no'
    complete --command $program --long-option malformed \
        --condition '__fish_use_subcommand; or __fish_seen_subcommand_from explain' \
        --exclusive --arguments 'fail policy' \
        --description 'who decides on malformed packets: fail (the --fail'
    complete --command $program --long-option conntrack \
        --condition '__fish_use_subcommand' \
        --exclusive --arguments 'auto attribute mark' \
        --description 'where ct state comes from: attribute (of the queue\'s'
    complete --command $program --long-option undecided \
        --condition '__fish_use_subcommand; or __fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'accept[:BYTES] or drop: packets at a rule that reads'
    complete --command $program --long-option connections \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'connections that a worker follows at a time,'
    complete --command $program --long-option hello-memory \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'bytes per worker for incomplete messages with names,'
    complete --command $program --long-option hello-timeout \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'seconds that a client may take to send its name,'
    complete --command $program --long-option learned \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'addresses that sets learn from DNS answers and keep'
    complete --command $program --long-option stage \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'only write the class of a connection\'s name into'
    complete --command $program --long-option settled \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'bits that the policy sets in packets\' marks only once'
    complete --command $program --long-option fail \
        --condition '__fish_use_subcommand; or __fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'open or closed, in every situation; or a list like'
    complete --command $program --long-option deadline \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'milliseconds without a verdict that are a stall,'
    complete --command $program --long-option stats \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'print the loss ledger every SECONDS, 1..86400; it is'
    complete --command $program --long-option json \
        --condition '__fish_use_subcommand; or __fish_seen_subcommand_from explain' \
        --description 'print start, ledger and exit as JSON, an object a line'
    complete --command $program --long-option events \
        --condition '__fish_use_subcommand' \
        --require-parameter --force-files \
        --description 'write what was dropped, rejected and logged, as JSON'
    complete --command $program --long-option events-rate \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'events a second, 1..1000000; the excess is counted'
    complete --command $program --long-option log-level \
        --condition '__fish_use_subcommand' \
        --exclusive --arguments 'error warning info debug' \
        --description 'lowest level on stderr: error, warning, info or debug'
    complete --command $program --long-option control \
        --condition '__fish_use_subcommand' \
        --require-parameter --force-files \
        --description 'Unix socket for fwctl (docs/CONTROL.md)'
    complete --command $program --long-option control-mode \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'its mode, octal (default 0600)'
    complete --command $program --long-option control-owner \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'its owner (default: who starts the firewall)'
    complete --command $program --long-option take-over \
        --condition '__fish_use_subcommand' \
        --require-parameter --force-files \
        --description 'take queues, counters and sockets over from the'
    complete --command $program --long-option user \
        --condition '__fish_use_subcommand' \
        --exclusive \
        --description 'user to run as if root starts it: a name, or'
    complete --command $program --long-option sandbox \
        --condition '__fish_use_subcommand' \
        --exclusive --arguments 'off on' \
        --description 'keep CAP_NET_ADMIN only (for reject: CAP_NET_RAW too),'
    complete --command $program --long-option print \
        --condition '__fish_seen_subcommand_from check' \
        --description 'print the parsed policy instead'
    complete --command $program --long-option hook \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'input, output, forward, prerouting or postrouting'
    complete --command $program --long-option iif \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive
    complete --command $program --long-option oif \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'the interfaces'
    complete --command $program --long-option mark \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'the packet\'s mark, as 0x hexadecimal or decimal'
    complete --command $program --long-option uid \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive
    complete --command $program --long-option gid \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'the owner of the socket'
    complete --command $program --long-option ct-state \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'new, established, related, invalid or untracked'
    complete --command $program --long-option ct-mark \
        --condition '__fish_seen_subcommand_from explain' \
        --exclusive \
        --description 'the mark of the connection'
    complete --command $program --long-option expect \
        --condition '__fish_seen_subcommand_from explain' \
        --description 'end with exit code 1 if a verdict is not the one that'
end
