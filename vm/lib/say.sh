# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Errors of vm/run.

# fail CODE TEXT
fail() {
    echo "error: $2" >&2
    exit "$1"
}

# need GROUP PROGRAM...: exits with the code of a test that can't run here if a program of deps/debian.txt is missing.
need() {
    local group=$1 program
    shift
    for program in "$@"; do
        command -v "$program" >/dev/null ||
            fail "$CANNOT_RUN" "there is no $program here: run deps/install $group"
    done
}
