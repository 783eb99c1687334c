#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Sends a forged ICMP message "fragmentation needed" to HOST. The message quotes a packet that HOST seems to have sent to PEER.

    say_narrow.py HOST PEER MTU [PROTOCOL]      PROTOCOL of the quoted packet: udp, or icmp (an echo reply)
"""
import socket
import struct
import sys

PORT = 4791


def checksum(octets: bytes) -> int:
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def quoted(host: str, peer: str, protocol: str) -> bytes:
    number, payload = (17, struct.pack("!HHHH", PORT, PORT, 1000, 0)) if protocol == "udp" else (1, struct.pack("!BBHHH", 0, 0, 0, 1, 1))
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 1020, 0, 0x4000, 64, number, 0, socket.inet_aton(host), socket.inet_aton(peer))
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def main(host: str, peer: str, mtu: str, protocol: str = "udp") -> None:
    message = struct.pack("!BBHHH", 3, 4, 0, 0, int(mtu)) + quoted(host, peer, protocol)
    message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.sendto(message, (host, 0))


if __name__ == "__main__":
    main(*sys.argv[1:])
