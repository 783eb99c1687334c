#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares frames of uroce with frames of scapy, in both directions. scapy shares no code with uroce.

    check_scapy.py WIRE_TOOL

scapy makes frames of every opcode, and uroce's decoder must decode them. uroce's encoders make frames of every opcode, and
scapy computes their ICRC. scapy has no ICRC over IPv6, so this script computes it from Annex A17. If scapy is not installed, the
script says so and exits with 77.
"""
import struct
import subprocess
import sys
import zlib

try:
    from scapy.all import IP, UDP, Ether, Raw
    from scapy.contrib.roce import BTH
except ImportError as missing:
    print(f"SKIPPED: {missing} (Debian: python3-scapy); frames were NOT compared with scapy's")
    sys.exit(77)

# Headers after the BTH in octets, typed from the opcode table of the specification.
RC = {0x00: 0, 0x01: 0, 0x02: 0, 0x03: 4, 0x04: 0, 0x05: 4, 0x06: 16, 0x07: 0, 0x08: 0, 0x09: 4,
      0x0a: 16, 0x0b: 20, 0x0c: 16, 0x0d: 4, 0x0e: 0, 0x0f: 4, 0x10: 4, 0x11: 4, 0x12: 12,
      0x13: 28, 0x14: 28, 0x16: 4, 0x17: 4, 0x1c: 20, 0x1d: 16}
RESPONSES = range(0x0d, 0x13)
NO_PAYLOAD = {0x0c, 0x11, 0x12, 0x13, 0x14, 0x1c}
HEADERS = {**RC, **{0x20 + op: n for op, n in RC.items() if op < 0x0c}, 0x64: 8, 0x65: 12, 0x81: 16,
           **{0xa0 + op: n + (0 if op in RESPONSES else 4) for op, n in RC.items()}}
ICRC = 4

ALL_SIZES = {0x04: 1, 0x0a: 5}  # opcode: step between the tested sizes; RC_SEND_ONLY is tested with all sizes
FEW_SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 63, 255, 1023, 4095, 4096)


def takes_payload(opcode: int) -> bool:
    return opcode != 0x81 and (opcode & 0x1f) not in NO_PAYLOAD


def octets(count: int, salt: int) -> bytes:
    return bytes((i * 31 + salt) & 0xff for i in range(count))


def scapy_frame(opcode: int, size: int, psn: int) -> bytes:
    pad = -size % 4
    bth = BTH(opcode=opcode, dqpn=0x1234, psn=psn, padcount=pad, ackreq=psn & 1, migreq=psn >> 1 & 1,
              becn=int(opcode == 0x81))
    rest = octets(HEADERS[opcode], opcode) + octets(size, psn) + bytes(pad)
    # without "chksum", scapy computes the checksum; with 0, the frame has no checksum. The test has both kinds of frames
    udp = UDP(sport=0xc000 | psn & 0xff, dport=4791, **({"chksum": 0} if psn % 3 else {}))
    return bytes(Ether(dst="02:00:00:00:00:01", src="02:00:00:00:00:02")
                 / IP(src="10.0.0.1", dst="10.0.0.2", tos=psn & 0xff, ttl=64 - psn % 8, id=psn & 0xffff)
                 / udp / bth / Raw(rest))


def our_reading(tool: str, frames: list[bytes]) -> list[str]:
    sent = b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)
    run = subprocess.run([tool, "read"], input=sent, capture_output=True, check=True)
    return run.stdout.decode().splitlines()


def check_reading(tool: str, problems: list[str]) -> int:
    frames, expected = [], []
    for opcode in sorted(HEADERS):
        sizes = range(0, 4097, ALL_SIZES[opcode]) if opcode in ALL_SIZES else FEW_SIZES
        for size in sizes if takes_payload(opcode) else (0,):
            psn = len(frames) * 7919 & 0xffffff
            frame = scapy_frame(opcode, size, psn)
            frames.append(frame)
            expected.append(f"ok {opcode:02x} {psn} {size}")
            if len(frames) % 5 == 0:  # the same frame with one bit changed after the flags of the BTH
                at = 14 + 20 + 8 + 5 + psn % (len(frame) - 47)
                damaged = bytearray(frame)
                damaged[at] ^= 1 << psn % 8
                damaged[14 + 20 + 6:14 + 20 + 8] = b"\0\0"  # the ICRC must detect it, not the UDP checksum
                frames.append(bytes(damaged))
                expected.append("icrc")
    lines = our_reading(tool, frames)
    if len(lines) != len(expected):
        problems.append(f"{len(lines)} lines for {len(expected)} frames")
    problems.extend(f"read {got!r}, scapy made {want!r}" for got, want in zip(lines, expected)
                    if got != want and not (want == "icrc" and got.startswith("icrc ")))
    return len(frames)


def our_frames(tool: str, version: str, sizes: list[int]) -> list[bytes]:
    run = subprocess.run([tool, "make", version, *map(str, sizes)], capture_output=True, check=True)
    frames, at = [], 0
    while at < len(run.stdout):
        (length,) = struct.unpack_from("<I", run.stdout, at)
        frames.append(run.stdout[at + 4:at + 4 + length])
        at += 4 + length
    return frames


def annex_a17(frame: bytes, header: int) -> bytes:
    """Computes the ICRC of a frame with a network header of @header octets."""
    masked = bytearray(frame[14:-ICRC])
    if header == 40:
        masked[0:4] = b"\x6f\xff\xff\xff"
        masked[7] = 0xff
    else:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xff
    masked[header + 6:header + 8] = b"\xff\xff"
    masked[header + 8 + 4] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def scapy_again(frame: bytes) -> bytes:
    """Returns scapy's encoding of the values that it decoded. scapy computes lengths, checksums and ICRC itself."""
    read = Ether(frame)
    bth = read[BTH]
    for layer, field in ((read[IP], "len"), (read[IP], "chksum"), (read[UDP], "len"), (bth, "icrc")):
        layer.setfieldval(field, None)
    return bytes(read)


def check_making(tool: str, problems: list[str]) -> int:
    seen = set()
    for frame in our_frames(tool, "4", list(FEW_SIZES)):
        opcode = frame[14 + 20 + 8]
        seen.add(opcode)
        if scapy_again(frame) != frame:
            problems.append(f"scapy encodes a frame of {len(frame)} octets with opcode {opcode:02x} differently")
    problems.extend(f"opcode {opcode:02x} was not made" for opcode in sorted(HEADERS.keys() - seen))
    problems.extend(f"opcode {opcode:02x} was made, but HEADERS does not list it"
                    for opcode in sorted(seen - HEADERS.keys()))

    count = 0
    for version, header in (("4", 20), ("6", 40)):
        for frame in our_frames(tool, version, list(range(0, 4097, 9))):
            count += 1
            if frame[-ICRC:] != annex_a17(frame, header):
                problems.append(f"IPv{version} opcode {frame[14 + header + 8]:02x}, "
                                f"{len(frame)} octets: the ICRC is not Annex A17's")
    return count


def main() -> int:
    problems: list[str] = []
    read = check_reading(sys.argv[1], problems)
    made = check_making(sys.argv[1], problems)
    print(f"uroce decoded {read} frames of scapy, the ICRC of {made} frames of uroce was checked, {len(problems)} problems")
    for problem in problems[:20]:
        print(problem)
    return 1 if problems or not read or not made else 0


if __name__ == "__main__":
    sys.exit(main())
