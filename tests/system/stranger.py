#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Uses names before the tested processes do, as another user of the machine could. Runs until it is killed.

    stranger.py abstract NAME...        abstract Unix sockets that listen, with a full backlog
    stranger.py directory PATH...       directories, open to everybody
"""
import os
import socket
import sys
import time


def abstract(name: str) -> list[socket.socket]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\0" + name)
    listener.listen(0)
    held = [listener]
    while True:
        held.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        held[-1].setblocking(False)
        try:
            held[-1].connect("\0" + name)
        except BlockingIOError:
            return held


def main(kind: str, *names: str) -> None:
    held = []
    for name in names:
        if kind == "abstract":
            held.append(abstract(name))
        else:
            os.mkdir(name)
            os.chmod(name, 0o777)
    print("ready", flush=True)
    time.sleep(1e6)


if __name__ == "__main__":
    main(*sys.argv[1:])
