#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the captures of pcap-fixtures/ that nobody captured: frames known octet for octet from
publications, and FLUSH as the standard and as Linux rxe sum its ICRC. Needs nothing but Python."""
import pathlib
import struct
import sys
import zlib

LRH = b"\xff" * 8  # absent in RoCEv2, counted as ones


def masked(packet: bytes) -> bytes:
    """IPv4 header to payload with everything that may change on the way as ones."""
    octets = bytearray(packet)
    for at in (1, 8, 10, 11, 26, 27, 32):  # TOS, TTL, checksums of IP and UDP, congestion bits
        octets[at] = 0xFF
    return bytes(octets)


def icrc(packet: bytes, twice_from: int | None = None) -> bytes:
    crc = zlib.crc32(LRH + masked(packet))
    if twice_from is not None:
        crc = zlib.crc32(packet[twice_from:], crc)
    return struct.pack("<I", crc)


def ip_sum(header: bytes) -> int:
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(source: bytes, dest: bytes, body: int, tos: int = 0, ident: int = 0) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, tos, 20 + body, ident, 0x4000, 64, 17, 0) + source + dest
    return head[:10] + struct.pack(">H", ip_sum(head)) + head[12:]


def udp(source_port: int, body: int) -> bytes:
    return struct.pack(">HHHH", source_port, 4791, 8 + body, 0)


def bth(opcode: int, flags: int, qpn: int, psn: int, ack: bool = False) -> bytes:
    return struct.pack(">BBHII", opcode, flags, 0xFFFF, qpn, psn | ack << 31)


def connectx4_cnp() -> bytes:
    return bytes.fromhex(
        "e41d2dab2bc27cfe90643b320800" "45c2003c718c4000401191610a0011010a001201"
        "000012b700280000" "8100ffff4000011800000000" + "00" * 16 + "82fd002a")


def uc_send_loopback() -> bytes:
    """UC SEND ONLY from a NIC to itself; the publication gives fields, payload and ICRC."""
    mac = bytes.fromhex("248a07a8fa22")
    address = bytes((192, 168, 0, 7))
    payload = bytes.fromhex("4630818be28935d90e9a95505401be885e500000")
    packet = ipv4(address, address, 44, tos=1, ident=1144) + udp(49152, 36)
    packet += bth(0x24, 0x60, 211, 13571856) + payload
    if packet[10:12] != b"\xb4\xd5" or icrc(packet) != bytes.fromhex("78f353f3"):
        sys.exit("the frame does not match the checksums of its publication")
    return mac + mac + b"\x08\x00" + packet + icrc(packet)


def flush(as_rxe: bool) -> bytes:
    macs = bytes.fromhex("020000000002" "020000000001")
    body = bth(0x1C, 0x40, 0x12, 300, ack=True) + struct.pack(">I", 0x01)  # FETH: global, range
    body += struct.pack(">QII", 0x7F0000001000, 0x20B, 4096)  # RETH
    packet = ipv4(b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02", 8 + len(body) + 4)
    packet += udp(50000, len(body) + 4) + body
    return macs + b"\x08\x00" + packet + icrc(packet, 28 if as_rxe else None)


def write(path: pathlib.Path, frames: list[bytes]) -> None:
    out = struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    for number, frame in enumerate(frames):
        out += struct.pack("<IIII", 1700000000, number, len(frame), len(frame)) + frame
    path.write_bytes(out)


def main() -> None:
    folder = pathlib.Path(__file__).resolve().parent.parent / "pcap-fixtures"
    write(folder / "nic_frames.pcap", [connectx4_cnp(), uc_send_loopback()])
    write(folder / "made_flush.pcap", [flush(False), flush(True)])


if __name__ == "__main__":
    main()
