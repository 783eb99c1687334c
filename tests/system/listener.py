#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Listens by rdma_cm. Reads commands, one on each line, and answers each command with "ok" or the name of the error. An
identifier that cannot listen is destroyed.

    listen NAME ADDRESS PORT tcp|udp
    stop NAME
    fork                                starts a child that does nothing until its process group is killed

    uroce run --device 'uroce0:udp,ip=127.0.0.1' -- /usr/bin/python3 listener.py
"""
import ctypes
import errno
import os
import signal
import socket
import struct
import sys

SPACES = {"tcp": 0x0106, "udp": 0x0111}

rdmacm = ctypes.CDLL("librdmacm.so.1", use_errno=True)
rdmacm.rdma_create_event_channel.restype = ctypes.c_void_p
channel = ctypes.c_void_p(rdmacm.rdma_create_event_channel())
ids: dict[str, ctypes.c_void_p] = {}


def must(status: int) -> None:
    if status != 0:
        raise OSError(ctypes.get_errno(), "")


def stop(name: str) -> None:
    must(rdmacm.rdma_destroy_id(ids.pop(name)))


def listen(name: str, address: str, port: str, space: str) -> None:
    made = ctypes.c_void_p()
    must(rdmacm.rdma_create_id(channel, ctypes.byref(made), None, SPACES[space]))
    ids[name] = made
    where = struct.pack("=H", socket.AF_INET) + struct.pack("!H", int(port)) + socket.inet_aton(address) + bytes(8)
    try:
        must(rdmacm.rdma_bind_addr(made, where))
        must(rdmacm.rdma_listen(made, 4))
    except OSError:
        stop(name)
        raise


def fork() -> None:
    if os.fork() == 0:
        while True:
            signal.pause()


for line in sys.stdin:
    command, *words = line.split()
    try:
        {"listen": listen, "stop": stop, "fork": fork}[command](*words)
    except OSError as why:
        print(errno.errorcode[why.errno], flush=True)
    else:
        print("ok", flush=True)
