#compdef rust-firewall c-firewall
# SPDX-License-Identifier: GPL-2.0-or-later
# Made by spec/generate from spec/options.toml: what zsh completes for rust-firewall and c-firewall.

case ${words[2]} in
    check)
        _arguments '(- *)'{-h,--help}'[print this text]' '1: :(check)' '*:FILE:_files' \
            '--print[print the parsed policy instead]'
        ;;
    explain)
        _arguments '(- *)'{-h,--help}'[print this text]' '1: :(explain)' '*:FILE:_files' \
            '--default=[accept or drop\: for every well-formed packet that no]:VERDICT:(accept drop)' \
            '--malformed=[who decides on malformed packets\: fail (the --fail]:HOW:(fail policy)' \
            '--undecided=[accept\[\:BYTES\] or drop\: packets at a rule that reads]:VERDICT: ' \
            '--fail=[open or closed, in every situation; or a list like]:MODE: ' \
            '--json[print start, ledger and exit as JSON, an object a line]' \
            '--hook=[input, output, forward, prerouting or postrouting]:HOOK: ' \
            '--iif=:NAME: ' \
            '--oif=[the interfaces]:NAME: ' \
            '--mark=[the packet'\''s mark, as 0x hexadecimal or decimal]:N: ' \
            '--uid=:N: ' \
            '--gid=[the owner of the socket]:N: ' \
            '--ct-state=[new, established, related, invalid or untracked]:STATE: ' \
            '--ct-mark=[the mark of the connection]:N: ' \
            '--expect[end with exit code 1 if a verdict is not the one that]'
        ;;
    *)
        _arguments '(- *)'{-h,--help}'[print this text]' '(- *)'{-V,--version}'[print the version]' '1: :(check explain)' \
            '--queue=[queue number, or a range with a worker thread for each]:N[:M]: ' \
            '--pin[bind each worker to a CPU of its own, in turn]' \
            '--backend=[classic\: the callback API of libnetfilter_queue]:NAME:(classic mnl raw)' \
            '--profile=[fast\:  sleep when idle, receive and answer in batches]:NAME:(fast paper)' \
            '--copy-bytes=[bytes of a packet to copy;]:N: ' \
            '--batch=[packets a receive call, and]:N: ' \
            '--receive-buffer=[bytes of the socket'\''s buffer;]:N: ' \
            '--queue-length=[packets that may wait in the]:N: ' \
            '--gso=[take packets before the kernel]:on|off:(off on)' \
            '--spin=[microseconds to look for further]:N: ' \
            '--coalesce=[microseconds to let packets]:N: ' \
            '--policy=[decide by the policy in FILE, which nft -f loads too]:FILE:_files' \
            '--default=[accept or drop\: for every well-formed packet that no]:VERDICT:(accept drop)' \
            '--malformed=[who decides on malformed packets\: fail (the --fail]:HOW:(fail policy)' \
            '--conntrack=[where ct state comes from\: attribute (of the queue'\''s]:FROM:(auto attribute mark)' \
            '--undecided=[accept\[\:BYTES\] or drop\: packets at a rule that reads]:VERDICT: ' \
            '--connections=[connections that a worker follows at a time,]:N: ' \
            '--hello-memory=[bytes per worker for incomplete messages with names,]:N: ' \
            '--hello-timeout=[seconds that a client may take to send its name,]:SECONDS: ' \
            '--learned=[addresses that sets learn from DNS answers and keep]:N: ' \
            '--stage=[only write the class of a connection'\''s name into]:MASK: ' \
            '--settled=[bits that the policy sets in packets'\'' marks only once]:MASK: ' \
            '--fail=[open or closed, in every situation; or a list like]:MODE: ' \
            '--deadline=[milliseconds without a verdict that are a stall,]:MS: ' \
            '--stats=[print the loss ledger every SECONDS, 1..86400; it is]:SECONDS: ' \
            '--json[print start, ledger and exit as JSON, an object a line]' \
            '--events=[write what was dropped, rejected and logged, as JSON]:WHERE:_files' \
            '--events-rate=[events a second, 1..1000000; the excess is counted]:N: ' \
            '--log-level=[lowest level on stderr\: error, warning, info or debug]:LEVEL:(error warning info debug)' \
            '--control=[Unix socket for fwctl (docs/CONTROL.md)]:PATH:_files' \
            '--control-mode=[its mode, octal (default 0600)]:MODE: ' \
            '--control-owner=[its owner (default\: who starts the firewall)]:USER[:GROUP]: ' \
            '--take-over=[take queues, counters and sockets over from the]:PATH:_files' \
            '--user=[user to run as if root starts it\: a name, or]:NAME: ' \
            '--sandbox=[keep CAP_NET_ADMIN only (for reject\: CAP_NET_RAW too),]:on|off:(off on)'
        ;;
esac
