# SPDX-License-Identifier: BSD-3-Clause
"""Carries every frame between two interfaces, but loses some: for machines without netem.

    lossy_link.py IF1 IF2 PER_MILLE SEED
"""
import random
import select
import signal
import socket
import sys

SOL_PACKET = 263
PACKET_VNET_HDR = 15  # what the kernel has left to do for a frame goes with it
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3
RING = 8 << 20  # octets that may wait in a socket


def opened(interface: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    made.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RING)
    made.bind((interface, 0))
    made.setblocking(False)
    return made


def main() -> None:
    first, second = opened(sys.argv[1]), opened(sys.argv[2])
    share, rng = int(sys.argv[3]), random.Random(int(sys.argv[4]))
    other = {first: second, second: first}
    carried = lost = 0

    def tell(_number: int, _frame: object) -> None:
        print(f"carried {carried}, lost {lost}", flush=True)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, tell)
    print("ready", flush=True)
    while True:
        for ready in select.select([first, second], [], [])[0]:
            for _ in range(64):
                try:
                    frame = ready.recv(65536)
                except BlockingIOError:
                    break
                if rng.randrange(1000) < share:
                    lost += 1
                    continue
                carried += 1
                try:
                    other[ready].send(frame)
                except OSError:  # a full ring loses, too
                    lost += 1


if __name__ == "__main__":
    main()
