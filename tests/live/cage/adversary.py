# SPDX-License-Identifier: GPL-2.0-or-later
"""Attempts of a command to leave its cage. Prints a line for each way: its name, and `through` or the error.

Arguments: the pids of fwctl and the firewall on the host, the name of an abstract socket of the host, the paths of three Unix sockets of the host
(bound by this path, renamed to this path, bound by a relative path), a port at the host's loopback address. The same script outside any cage
shows which ways work there."""
import ctypes
import errno
import fcntl
import glob
import os
import socket
import struct
import subprocess
import sys

FWCTL, FIREWALL, ABSTRACT, PATH, RENAMED, RELATIVE, PORT = sys.argv[1:8]
libc = ctypes.CDLL(None, use_errno=True)


def call(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise OSError(done.returncode, (done.stderr.strip().splitlines() or ["failed"])[-1])


def netfilter_message(subsystem, kind, payload):
    """Sends a message of nfnetlink (include/uapi/linux/netfilter/nfnetlink.h). Raises the kernel's error."""
    own = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_NETFILTER if hasattr(socket, "NETLINK_NETFILTER") else 12)
    body = struct.pack("=BBH", 0, 0, 0) + payload
    own.send(struct.pack("=IHHII", 16 + len(body), (subsystem << 8) | kind, 0x1 | 0x4, 1, 0) + body)
    own.settimeout(10)
    error = struct.unpack("=i", own.recv(4096)[16:20])[0]
    if error:
        raise OSError(-error, os.strerror(-error))


def queue_message(kind, payload):
    # include/uapi/linux/netfilter/nfnetlink_queue.h
    netfilter_message(3, kind, payload)


def unbind_queue():
    # NFQNL_MSG_CONFIG with NFQA_CFG_CMD: NFQNL_CFG_CMD_UNBIND.
    queue_message(2, struct.pack("=HHBBH", 8, 1, 2, 0, 0))


def give_verdict():
    # NFQNL_MSG_VERDICT with NFQA_VERDICT_HDR: NF_ACCEPT for packet 1. ENOENT: permitted, but the packet does not exist.
    try:
        queue_message(1, struct.pack("=HHII", 12, 2, socket.htonl(1), socket.htonl(1)))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENODEV):
            raise


def other_networks():
    own = os.stat("/proc/self/ns/net").st_ino
    for path in glob.glob("/proc/[0-9]*/ns/net"):
        try:
            if os.stat(path).st_ino != own:
                with open(path) as file:
                    return call(libc.setns(file.fileno(), 0x40000000))
        except (FileNotFoundError, PermissionError):
            continue
    raise OSError(errno.ENOENT, "no other network namespace is seen")


def trace(pid):
    call(libc.ptrace(0x4206, int(pid), 0, 0))  # PTRACE_SEIZE


def signal(pid):
    os.kill(int(pid), 0)


def look_into(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        file.read()


def memory(pid):
    with open(f"/proc/{pid}/mem", "r+b"):
        pass


def abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0" + ABSTRACT)


def path_socket(path):
    socket.socket(socket.AF_UNIX).connect(path)


def loopback(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as own:
        own.settimeout(10)
        own.connect((address, int(PORT)))


def vsock():
    socket.socket(40, socket.SOCK_STREAM)


def io_uring():
    os.close(call(libc.syscall(425, 8, ctypes.create_string_buffer(120))))


def type_into_terminal():
    _, slave = os.openpty()
    os.setsid()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
    fcntl.ioctl(slave, 0x5412, b"x")  # TIOCSTI


def mark():
    # SO_MARK: the mark of settled connections.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as own:
        own.setsockopt(socket.SOL_SOCKET, 36, struct.pack("=I", 0xA0000000))


def mark_in_namespace():
    # The socket belongs to the cage, the capability to a child namespace.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as own:
        call(libc.unshare(0x10000000))  # CLONE_NEWUSER
        own.setsockopt(socket.SOL_SOCKET, 36, struct.pack("=I", 0xA0000000))


def in_child(way):
    """Returns a way that runs `way` in a child process, since `way` changes its process."""

    def forked():
        pid = os.fork()
        if pid == 0:
            try:
                way()
                os._exit(0)
            except OSError as error:
                os._exit(error.errno)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            raise OSError(code, os.strerror(code))

    return forked


def connections():
    # Deletes all tracked connections: NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE.
    netfilter_message(1, 2, b"")


def raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


def packet_socket():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


WAYS = {
    "rules, by nft": lambda: run("nft", "flush", "ruleset"),
    "rules, by nft in a user namespace": lambda: run("unshare", "-Ur", "nft", "flush", "ruleset"),
    "rules, by iptables": lambda: run("iptables", "-F"),
    "route": lambda: run("ip", "route", "add", "192.0.2.0/24", "dev", "lo"),
    "address": lambda: run("ip", "address", "add", "192.0.2.1/32", "dev", "lo"),
    "tap": lambda: run("ip", "tuntap", "add", "evil", "mode", "tap"),
    "queue: unbind": unbind_queue,
    "queue: verdict": give_verdict,
    "setns": other_networks,
    "ptrace fwctl": lambda: trace(FWCTL),
    "ptrace the firewall": lambda: trace(FIREWALL),
    "signal fwctl": lambda: signal(FWCTL),
    "signal the firewall": lambda: signal(FIREWALL),
    "/proc of fwctl": lambda: look_into(FWCTL),
    "memory of the firewall": lambda: memory(FIREWALL),
    "abstract socket": abstract_socket,
    "Unix socket": lambda: path_socket(PATH),
    "Unix socket, renamed": lambda: path_socket(RENAMED),
    "Unix socket, bound by a relative path": lambda: path_socket(RELATIVE),
    "loopback, IPv4": lambda: loopback(socket.AF_INET, "127.0.0.1"),
    "loopback, IPv6": lambda: loopback(socket.AF_INET6, "::1"),
    "loopback, by the gateway": lambda: loopback(socket.AF_INET, "10.77.0.2"),
    "loopback, by the host's address": lambda: loopback(socket.AF_INET, "10.77.0.1"),
    "vsock": vsock,
    "io_uring": io_uring,
    "terminal": in_child(type_into_terminal),
    "mark": mark,
    "mark, by a nested namespace": in_child(mark_in_namespace),
    "connection tracking": connections,
    "raw socket": raw_socket,
    "packet socket": packet_socket,
    "resolv.conf: unmount": lambda: run("umount", "/etc/resolv.conf"),
    "resolv.conf: unmount in namespaces": lambda: run("unshare", "-Urm", "umount", "/etc/resolv.conf"),
    "control socket": lambda: [os.stat(path) for path in ("/mnt/control", "/mnt/policy.nft")],
}

for name, way in WAYS.items():
    try:
        way()
        print(f"{name}: through")
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{name}: {error}")
