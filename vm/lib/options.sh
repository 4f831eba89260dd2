# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Options of vm/run, as variables. A machine's defaults depend on its mode.
# shellcheck disable=SC2034 # Others read these.

usage() {
    cat <<'TEXT'
vm/run [OPTION]... -- COMMAND [ARGUMENT]...   runs COMMAND on a Debian kernel in QEMU, as if it ran here
An initramfs of busybox, within seconds:
  --module NAME          loads a module of the kernel, with what it depends on; repeatable
  --ko FILE              loads a module of your own after those, with what it depends on; repeatable
  --flavour cloud        Debian's kernel: cloud, or generic, which has more drivers
  --debug                a kernel with KASAN, lockdep, kmemleak and fault injection, built once of Debian's sources
  --kernel FILE          another kernel (bzImage) ...
  --modules FOLDER       ... and its modules: a folder lib/modules/VERSION
  --icount               a nanosecond is an instruction (QEMU -icount shift=0,sleep=off); one CPU
A Debian 12 with systemd and the packages of build/deb:
  --system               boots it, afresh each time
  --keep                 (instead of a command) boots it and leaves it running, for --exec
  --exec                 runs COMMAND in the one that was kept
  --reboot               reboots the one that was kept, with its disk as it is now, and waits for its start
  --stop                 ends the one that was kept
  --name NAME            names the one that is kept, to keep several at the same time
Both:
  --file HERE[:THERE]    puts a file or a folder in, at the same path or at THERE, with the shared libraries it needs
  --memory MIB           256, or 1024 for --system
  --cpus N               2
  --append TEXT          more of the kernel's command line
  --timeout SECONDS      ends the machine: 60, or 300 for --system
  --console FILE         where the kernel's messages go: build/vm/console.log
  --headers              prints the folder of the kernel's headers (make -C $(vm/run --headers) M=$PWD), and runs nothing
Exit codes: COMMAND's; 124 after --timeout; 125 if the kernel panicked or the machine broke; 77 if it can't run here; 2 usage
TEXT
}

mode=initramfs
flavour=cloud
kernel="" modules_folder=""
memory="" cpus=2 append="" limit="" icount="" console="" name=""
files=() modules=() ko_files=() command=()

# Prints the value of an option, given its name and the next argument.
value() {
    [ $# -ge 2 ] || fail 2 "$1 needs a value: vm/run --help"
    printf '%s' "$2"
}

number() {
    [[ ${2:-} =~ ^[1-9][0-9]{0,6}$ ]] || fail 2 "$1 needs a number of 1 or more: vm/run --help"
    printf '%s' "$2"
}

word() {
    [[ ${2:-} =~ ^[a-z0-9]+$ ]] || fail 2 "$1 needs a name of small letters and digits: vm/run --help"
    printf '%s' "$2"
}

existing() {
    [ -e "${2:-}" ] || fail 2 "$1 ${2:-}: there is no such file"
    realpath "$2"
}

read_options() {
    while [ $# -gt 0 ]; do
        case $1 in
            --module) modules+=("$(value "$@")"); shift ;;
            --ko) ko_files+=("$(existing "$@")"); shift ;;
            --file) files+=("$(value "$@")"); shift ;;
            --flavour) flavour=$(value "$@"); shift ;;
            --kernel) kernel=$(existing "$@"); shift ;;
            --modules) modules_folder=$(existing "$@"); shift ;;
            --name) name=$(word "$@"); shift ;;
            --memory) memory=$(number "$@"); shift ;;
            --cpus) cpus=$(number "$@"); shift ;;
            --append) append=$(value "$@"); shift ;;
            --timeout) limit=$(number "$@"); shift ;;
            --console) console=$(value "$@"); shift ;;
            --debug) flavour=debug ;;
            --icount) icount=yes ;;
            --headers | --system | --keep | --exec | --reboot | --stop) mode=${1#--} ;;
            --help | -h) usage; exit 0 ;;
            --) shift; command=("$@"); break ;;
            *) fail 2 "unknown option $1: vm/run --help, and -- before the command" ;;
        esac
        shift
    done
    check_options
}

check_options() {
    case $flavour in
        cloud | generic) ;;
        debug) [ "$mode" = initramfs ] || [ "$mode" = headers ] || fail 2 "--debug is for the initramfs only" ;;
        *) fail 2 "--flavour $flavour: choose of cloud, generic" ;;
    esac
    case $mode in
        initramfs | system | exec)
            [ ${#command[@]} -gt 0 ] || fail 2 "there is no command: vm/run [OPTION]... -- COMMAND [ARGUMENT]..." ;;
        *)
            [ ${#command[@]} -eq 0 ] || fail 2 "--$mode takes no command" ;;
    esac
    [ -z "$kernel" ] || [ "$mode" = initramfs ] || fail 2 "--kernel is for the initramfs only"
    case $mode in
        initramfs) : "${memory:=256}" "${limit:=60}" ;;
        *) : "${memory:=1024}" "${limit:=300}" ;;
    esac
    KEPT_MACHINE=$KEPT/kept${name:+-$name}
    : "${console:=$KEPT/console${name:+-$name}.log}"
    mkdir -p "$KEPT" "$(dirname "$console")"
}
