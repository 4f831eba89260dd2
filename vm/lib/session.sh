# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A Debian under systemd: its start, commands in it, its end. Its folder has `pid` (of QEMU), `command.in` (a fifo to
# the agent) and the files `out`, `err` and `code`, which grow with each command; `sent` has a line for each boot and
# each command. `monitor.in` and `monitor.out` are QEMU's monitor (QMP).

BOOT_SECONDS=1200

# Starts a machine with the folder $work, which remains after this script.
start_system() {
    need vm qemu-system-x86_64 busybox cpio
    find_kernel
    find_image
    local tree=$work/tree port
    mkdir -p "$tree/bin" "$tree/vm" "$tree/put"
    cp "$(command -v busybox)" "$tree/bin/busybox"
    install "$VM/guest/initrd" "$tree/init"
    put_files "$tree/put"
    put_modules "$tree" virtio_pci virtio_blk virtio_console
    archive "$tree" "$work/initrd"
    rm -r "$tree"
    machine_arguments
    # Each boot begins with the original disk; its writes go to an unnamed file.
    machine+=(-drive "file=$image,format=raw,if=virtio,snapshot=on" -device virtio-serial-pci)
    mkfifo "$work"/{command,monitor}.{in,out}
    machine+=(-chardev "pipe,id=monitor,path=$work/monitor" -mon "chardev=monitor,mode=control")
    machine+=(-chardev "pipe,id=command,path=$work/command" -device "virtserialport,chardev=command,name=command")
    for port in out err code; do
        : >"$work/$port"
        machine+=(-chardev "file,id=$port,path=$work/$port" -device "virtserialport,chardev=$port,name=$port")
    done
    setsid timeout --kill-after=2 "$limit" "${machine[@]}" -initrd "$work/initrd" \
        -append "$kernel_line root=/dev/vda rw $append" </dev/null >"$work/qemu" 2>&1 &
    machine_pid=$!
    echo "$machine_pid" >"$work/pid"
    echo boot >"$work/sent"
}

# Waits until the agent has reported more than this number of lines. Fails when the machine has ended, or after some
# seconds.
await_line() {
    local lines=$1 end=$((SECONDS + ${2:-1000000})) pid
    pid=$(<"$work/pid")
    until [ "$(wc -l <"$work/code")" -gt "$lines" ]; do
        kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# send SECONDS WORD...: sends a command to the agent of the machine.
send() {
    {
        printf '%s ' "$1"
        { printf 'mkdir -p '; quoted "$PWD"; printf 'cd '; quoted "$PWD"; quoted "${@:2}"; } | base64 --wrap=0
        echo
    } >"$work/command.in"
}

# Runs the command in the machine of $work, and exits with its code.
run_command() {
    local seconds=$1 lines out err waiter followers=() ended=0 told=""
    # If its vm/run was killed, a command runs until its time limit: its code must be skipped.
    lines=$(wc -l <"$work/sent")
    await_line $((lines - 1)) || true
    out=$(stat --format=%s "$work/out")
    err=$(stat --format=%s "$work/err")
    await_line "$lines" &
    waiter=$!
    follow "$work/out" "$out" 1 "$waiter"
    follow "$work/err" "$err" 2 "$waiter"
    if [ "$(wc -l <"$work/code")" -eq "$lines" ]; then
        echo command >>"$work/sent"
        send "$seconds" "${command[@]}"
    fi
    if wait "$waiter"; then
        told=$(sed -n "$((lines + 1))p" "$work/code")
    elif [ -n "$machine_pid" ]; then
        wait "$machine_pid" || ended=$?
        machine_pid=""
    fi
    wait "${followers[@]}" || true
    finish "$ended" "$told"
}

run_in_system() {
    begin_work
    start_system
    run_command "$limit"
}

start_kept() {
    [ ! -e "$KEPT_MACHINE/pid" ] || ! kill -0 "$(<"$KEPT_MACHINE/pid")" 2>/dev/null ||
        fail 2 "one is running already: vm/run --stop ends it"
    begin_work
    start_system
    await_line 0 $BOOT_SECONDS ||
        fail "$BROKEN" "it has not booted within $BOOT_SECONDS s: the console is in $console"
    rm -rf "$KEPT_MACHINE"
    mv "$work" "$KEPT_MACHINE"
    trap - EXIT
}

# Selects the kept machine, for one command at a time.
enter_kept() {
    work=$KEPT_MACHINE
    [ -e "$work/pid" ] || fail 2 "no machine was kept: vm/run --keep starts one"
    machine_pid=""
    console=$work/console
    exec {lock}>"$work/lock"
    flock "$lock"
    # Otherwise a write to its fifo would wait for a reader.
    kill -0 "$(<"$work/pid")" 2>/dev/null || finish 0 ""
}

run_in_kept() {
    enter_kept
    run_command "$limit"
}

# Sets QEMU's action for a reset by the guest: `shutdown`, as -no-reboot does, or `reset`.
on_reset() {
    # Needed once; QEMU answers a repetition by an error, without effect.
    echo '{"execute": "qmp_capabilities"}'
    echo '{"execute": "set-action", "arguments": {"reboot": "'"$1"'"}}'
} >&"$monitor"

# Prints the number of kernels that have started in the machine.
starts() {
    grep --text -c 'Linux version' "$work/console"
}

# Waits until another kernel than the first ones starts. Fails when the machine has ended, or after some seconds.
await_start() {
    local end=$((SECONDS + BOOT_SECONDS)) pid
    pid=$(<"$work/pid")
    until [ "$(starts)" -gt "$1" ]; do
        kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}

# Reboots the machine of $work. Only the requested reset continues with a boot: a panic before it shows in the console,
# and one after it ends the machine.
reboot_machine() {
    local monitor lines started
    exec {monitor}<>"$work/monitor.in"
    lines=$(wc -l <"$work/sent")
    await_line $((lines - 1)) || return
    started=$(starts)
    on_reset reset
    echo boot >>"$work/sent"
    # The shutdown ends the agent while it waits, so that its next line is that of the boot.
    send $BOOT_SECONDS bash -c 'systemctl reboot && sleep infinity'
    # The firmware resets the machine once more before it loads the kernel.
    await_start "$started" || return
    on_reset shutdown
    await_line "$lines" $BOOT_SECONDS && [ "$(sed -n "$((lines + 1))p" "$work/code")" = ready ] &&
        ! grep --text -q 'Kernel panic' "$work/console"
}

reboot_kept() {
    enter_kept
    reboot_machine || {
        kill "$(<"$work/pid")" 2>/dev/null || true
        finish 0 ""
    }
}

stop_kept() {
    work=$KEPT_MACHINE
    [ -e "$work/pid" ] || return 0
    machine_pid=$(<"$work/pid")
    end_work
}
