# SPDX-License-Identifier: GPL-2.0-or-later
"""Accepts every packet of a queue by NetfilterQueue, as its documentation shows it: accept.py QUEUE [tuned]."""

import sys

from netfilterqueue import COPY_PACKET, NetfilterQueue

queue = NetfilterQueue()
accept = lambda packet: packet.accept()
if sys.argv[2:] == ["tuned"]:
    queue.bind(int(sys.argv[1]), accept, max_len=131072, mode=COPY_PACKET, range=128, sock_len=64 << 20)
else:
    queue.bind(int(sys.argv[1]), accept)
queue.run()
