# SPDX-License-Identifier: BSD-3-Clause
"""Forwards frames between two interfaces, for machines without netem. Drops some frames, and sends others after the next frame.

    lossy_link.py IF1 IF2 LOST SEED [LATE]      LOST and LATE: frames per mille
"""
import random
import select
import signal
import socket
import sys

SOL_PACKET = 263
PACKET_VNET_HDR = 15  # each frame has a virtio header, which marks a missing checksum or segmentation
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3
RING = 8 << 20  # size of a socket buffer, bytes


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
    lose, rng = float(sys.argv[3]) / 1000, random.Random(int(sys.argv[4]))
    late = float(sys.argv[5]) / 1000 if len(sys.argv) > 5 else 0.0
    held: dict[socket.socket, bytes] = {}
    other = {first: second, second: first}
    carried = lost = overtaken = 0

    def print_counts(_number: int, _frame: object) -> None:
        print(f"carried {carried}, lost {lost}, overtaken {overtaken}", flush=True)
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, print_counts)
    print("ready", flush=True)
    while True:
        for ready in select.select([first, second], [], [])[0]:
            for _ in range(64):
                try:
                    frame = ready.recv(65536)
                except BlockingIOError:
                    break
                if rng.random() < lose:
                    lost += 1
                    continue
                if ready not in held and rng.random() < late:
                    held[ready] = frame  # sent after the next frame
                    overtaken += 1
                    continue
                for each in [frame, *([held.pop(ready)] if ready in held else [])]:
                    carried += 1
                    try:
                        other[ready].send(each)
                    except OSError:  # the socket buffer is full
                        lost += 1


if __name__ == "__main__":
    main()
