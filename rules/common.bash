# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# What load and unload share. A "tool" is the name of an iptables program, such as ip6tables-legacy.
#
# No state is kept in a file. What load had to make with the nft backend so that the rules could be there (the base
# chains, the whole table) stands in comments inside our own chain, and unload removes exactly that.

PATH=$PATH:/usr/sbin:/sbin
OUR_CHAIN=TWINWALL
MADE_CHAIN="rules/load made the chain"
MADE_TABLE="rules/load made the table"
unloaded=()

fail() {
    echo "error: $1" >&2
    exit "${2:-1}"
}

need_root() {
    [ "$EUID" -eq 0 ] || fail "only root may change packet filter rules: run it with sudo"
}

installed() {
    command -v "$1" >/dev/null
}

# iptables-legacy -> ip6tables-legacy where the fragment asks for ip6tables.
tool_of_family() {
    local chosen=$1 family_tool=$2
    if [ "$family_tool" = ip6tables ]; then
        echo "${chosen/iptables/ip6tables}"
    else
        echo "$chosen"
    fi
}

is_nft() {
    [[ $("$1" --version 2>/dev/null) == *nf_tables* ]]
}

nft_family() {
    case ${1##*/} in
        ip6tables*) echo ip6 ;;
        *) echo ip ;;
    esac
}

# The filter table as TOOL sees it, as iptables-save prints it. Reading this way registers no table in the kernel,
# which `iptables-legacy --list` would do.
saved() {
    "$1-save" 2>/dev/null | sed -n '/^\*filter$/,/^COMMIT$/p'
}

# (No `grep -q`: it stops reading, and a long table then ends in SIGPIPE, which pipefail takes for "not loaded".)
loaded() {
    saved "$1" | grep "^:$OUR_CHAIN " >/dev/null
}

# The base chains in which a jump to our chain stands.
jumping_chains() {
    saved "$1" | sed -n "s/^-A \([^ ]*\) -j $OUR_CHAIN\$/\1/p"
}

run() {
    local words
    words=$("$@" 2>&1) || fail "$* failed: ${words//$'\n'/ }"
}

# Removes the chains that load made beside our own chain, if no rule has used them since.
remove_made() {
    local tool=$1 made=$2 chain family
    if [[ $made != *$MADE_CHAIN* ]] || ! installed nft; then
        return
    fi
    chain=${made##*"$MADE_CHAIN" }
    chain=${chain%%[^A-Z]*}
    # A chain's policy that was set since counts as a rule. A rule added in this very moment is safe too: iptables asks the
    # kernel not to delete a chain that has any (NLM_F_NONREC), where `nft delete chain` would take them along.
    if [ "$("$tool" --list-rules "$chain" 2>/dev/null)" = "-P $chain ACCEPT" ]; then
        "$tool" --delete-chain "$chain" 2>/dev/null || true
    fi
    family=$(nft_family "$tool")
    if [[ $made == *$MADE_TABLE* && $(nft list table "$family" filter 2>/dev/null) == "table $family filter {"$'\n}' ]]; then
        nft delete table "$family" filter
    fi
}

unload_tool() {
    local tool=$1 made note chain
    loaded "$tool" || return 0
    made=$(saved "$tool" | grep "^-A $OUR_CHAIN .*$MADE_CHAIN" || true)
    for chain in $(jumping_chains "$tool"); do
        run "$tool" -w 10 -D "$chain" -j "$OUR_CHAIN"
    done
    run "$tool" -w 10 -F "$OUR_CHAIN"
    run "$tool" -w 10 -X "$OUR_CHAIN"
    if is_nft "$tool"; then
        while read -r note; do
            remove_made "$tool" "$note"
        done <<<"$made"
    fi
    unloaded+=("$tool")
}

# Unloads wherever our chain is (a machine may have both backends, and either may have been used) and sets `unloaded`
# to the tools that had it.
unload_all() {
    local tool
    unloaded=()
    for tool in "${IPTABLES:-iptables}" "$(tool_of_family "${IPTABLES:-iptables}" ip6tables)" \
        {iptables,ip6tables}{-nft,-legacy}; do
        if installed "$tool" && installed "$tool-save"; then
            unload_tool "$tool"
        fi
    done
}
