# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Made by spec/generate from spec/options.toml: what bash completes for rust-firewall and c-firewall.

_twinwall_firewall() {
    local current=$2 previous=$3 command=${COMP_WORDS[1]-}
    # Bash takes --option=value as three words.
    if [ "$current" = = ]; then
        current=
    elif [ "$previous" = = ]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    COMPREPLY=()
    case $previous in
        --queue)
            return
            ;;
        --backend)
            mapfile -t COMPREPLY < <(compgen -W "classic mnl raw" -- "$current")
            return
            ;;
        --profile)
            mapfile -t COMPREPLY < <(compgen -W "fast paper" -- "$current")
            return
            ;;
        --copy-bytes)
            return
            ;;
        --batch)
            return
            ;;
        --receive-buffer)
            return
            ;;
        --queue-length)
            return
            ;;
        --gso)
            mapfile -t COMPREPLY < <(compgen -W "off on" -- "$current")
            return
            ;;
        --spin)
            return
            ;;
        --coalesce)
            return
            ;;
        --policy)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        --default)
            mapfile -t COMPREPLY < <(compgen -W "accept drop" -- "$current")
            return
            ;;
        --malformed)
            mapfile -t COMPREPLY < <(compgen -W "fail policy" -- "$current")
            return
            ;;
        --conntrack)
            mapfile -t COMPREPLY < <(compgen -W "auto attribute mark" -- "$current")
            return
            ;;
        --undecided)
            return
            ;;
        --connections)
            return
            ;;
        --hello-memory)
            return
            ;;
        --hello-timeout)
            return
            ;;
        --learned)
            return
            ;;
        --stage)
            return
            ;;
        --settled)
            return
            ;;
        --fail)
            return
            ;;
        --deadline)
            return
            ;;
        --stats)
            return
            ;;
        --events)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        --events-rate)
            return
            ;;
        --log-level)
            mapfile -t COMPREPLY < <(compgen -W "error warning info debug" -- "$current")
            return
            ;;
        --control)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        --control-mode)
            return
            ;;
        --control-owner)
            return
            ;;
        --take-over)
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        --user)
            return
            ;;
        --sandbox)
            mapfile -t COMPREPLY < <(compgen -W "off on" -- "$current")
            return
            ;;
        --hook)
            return
            ;;
        --iif)
            return
            ;;
        --oif)
            return
            ;;
        --mark)
            return
            ;;
        --uid)
            return
            ;;
        --gid)
            return
            ;;
        --ct-state)
            return
            ;;
        --ct-mark)
            return
            ;;
    esac
    case $command:$current in
        check:-*) mapfile -t COMPREPLY < <(compgen -W "--help --print" -- "$current") ;;
        check:*)
            if [ "$COMP_CWORD" -gt 1 ]; then
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            else
                COMPREPLY=(check)
            fi
            ;;
        explain:-*) mapfile -t COMPREPLY < <(compgen -W "--help --default --malformed --undecided --fail --json --hook --iif --oif --mark --uid --gid --ct-state --ct-mark --expect" -- "$current") ;;
        explain:*)
            if [ "$COMP_CWORD" -gt 1 ]; then
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
            else
                COMPREPLY=(explain)
            fi
            ;;
        *:-*) mapfile -t COMPREPLY < <(compgen -W "--help --version --queue --pin --backend --profile --copy-bytes --batch --receive-buffer --queue-length --gso --spin --coalesce --policy --default --malformed --conntrack --undecided --connections --hello-memory --hello-timeout --learned --stage --settled --fail --deadline --stats --json --events --events-rate --log-level --control --control-mode --control-owner --take-over --user --sandbox" -- "$current") ;;
        *) [ "$COMP_CWORD" -gt 1 ] || mapfile -t COMPREPLY < <(compgen -W "check explain" -- "$current") ;;
    esac
}
complete -F _twinwall_firewall rust-firewall c-firewall
