# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A machine in QEMU: its start, its output, and its end.

# Sets the common arguments of all machines. Without hardware virtualisation, so that it runs wherever QEMU does.
machine_arguments() {
    machine=(qemu-system-x86_64 -machine pc -m "$memory" -nodefaults -no-user-config -no-reboot -display none
        -kernel "$kernel" -serial "file:$work/console")
    if [ -n "$icount" ]; then
        # Each byte of a `rep movsb` would count as an instruction; without these features the kernel copies eight bytes
        # at a time.
        machine+=(-cpu "max,-erms,-fsrm" -accel "tcg,thread=single" -smp 1 -icount "shift=0,sleep=off")
    else
        machine+=(-cpu max -accel "tcg,thread=multi" -smp "$cpus")
    fi
    # A kernel error ends the machine; it does not continue partially. On a busy host the kernel's test of the timer
    # may miss the timer's interrupts, and panic (check_timer).
    kernel_line="console=ttyS0 panic=-1 oops=panic no_timer_check"
    # While identify_cpu() detects the processor's features again, KASAN does not know of five-level page tables, and
    # reports accesses by interrupts repeatedly.
    [ "$flavour" != debug ] || kernel_line+=" no5lvl"
}

# Makes the folder of a run; it and the machine are removed when this script ends.
begin_work() {
    work=$(mktemp -d "$KEPT/run.XXXXXX")
    machine_pid=""
    trap end_work EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

end_work() {
    [ -z "$machine_pid" ] || kill "$machine_pid" 2>/dev/null || true
    [ ! -e "$work/console" ] || mv "$work/console" "$console"
    rm -rf "$work"
}

# follow FILE OFFSET FD PID: copies new data of a file until a process has ended.
follow() {
    tail --bytes=+$(($2 + 1)) --follow --sleep-interval=0.05 --pid="$4" "$1" >&"$3" 2>/dev/null &
    followers+=($!)
}

# quoted WORD...: prints the words quoted for bash and busybox.
quoted() {
    local word
    for word in "$@"; do
        printf "'%s' " "${word//\'/\'\\\'\'}"
    done
    echo
}

# Exits with the code from the machine, or prints why there is none. Needs the exit code of the machine's process.
finish() {
    local ended=$1 told=$2 panic
    case $told in
        [0-9]*) exit "$told" ;;
        broken) fail "$BROKEN" "a module can't be loaded (insmod's words stand above; the kernel's: $console)" ;;
    esac
    if panic=$(grep --text -m 1 -o 'Kernel panic - not syncing: .*' "$work/console"); then
        fail "$BROKEN" "${panic%%[[:cntrl:]]*}: the console is in $console"
    fi
    [ "$ended" -ne "$TIMED_OUT" ] || fail "$TIMED_OUT" "not finished after $limit s (--timeout): the console is in $console"
    cat "$work/qemu" >&2
    fail "$BROKEN" "the machine ended (QEMU's exit code: $ended) before the command did: the console is in $console"
}

run_in_initramfs() {
    need vm qemu-system-x86_64 busybox cpio
    find_kernel
    begin_work
    local tree=$work/tree
    mkdir -p "$tree/bin" "$tree/vm"
    cp "$(command -v busybox)" "$tree/bin/busybox"
    [ -z "$(libraries_of "$tree/bin/busybox")" ] || fail "$BROKEN" "busybox is linked to libraries: run deps/install vm, which puts busybox-static in its place"
    install "$VM/guest/init" "$tree/init"
    put_files "$tree"
    put_modules "$tree" "${modules[@]}"
    # The command runs in the same folder as here.
    { printf 'mkdir -p '; quoted "$PWD"; printf 'cd '; quoted "$PWD"; } >"$tree/vm/folder"
    quoted "${command[@]}" >"$tree/vm/command"
    archive "$tree" "$work/initrd"
    rm -r "$tree"

    local name followers=() ended=0
    machine_arguments
    for name in out err code; do
        : >"$work/$name"
        machine+=(-serial "file:$work/$name")
    done
    timeout --kill-after=2 "$limit" "${machine[@]}" -initrd "$work/initrd" -append "$kernel_line $append" </dev/null >"$work/qemu" 2>&1 &
    machine_pid=$!
    follow "$work/out" 0 1 "$machine_pid"
    follow "$work/err" 0 2 "$machine_pid"
    wait "$machine_pid" || ended=$?
    machine_pid=""
    wait "${followers[@]}" || true
    finish "$ended" "$(<"$work/code")"
}
