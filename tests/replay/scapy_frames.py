#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of every opcode and every payload size, held against scapy's own idea of RoCEv2.

Scapy (scapy.contrib.roce) builds the BTH and computes the ICRC; the table below, written from the
specification's list and not from lib/wire, says how long the headers behind the BTH are. Both ways:
what scapy builds must decode, what lib/wire encodes must read back and carry scapy's ICRC.
"""
import subprocess
import sys

try:
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import Ether
    from scapy.packet import Raw
except ImportError:
    print("1..0 # SKIP SKIPPED: scapy.contrib.roce is not installed (apt install python3-scapy)")
    sys.exit(0)

RETH, ATOMIC, AETH, ATOMIC_ACK, IMM, INV, DETH, XRC, FLUSH, CNP = 16, 28, 4, 8, 4, 4, 8, 4, 4, 16
# operation: (name, octets of headers after the BTH, payload follows)
RC = {
    0x00: ("SEND_FIRST", 0, True), 0x01: ("SEND_MIDDLE", 0, True), 0x02: ("SEND_LAST", 0, True),
    0x03: ("SEND_LAST_IMM", IMM, True), 0x04: ("SEND_ONLY", 0, True),
    0x05: ("SEND_ONLY_IMM", IMM, True), 0x06: ("WRITE_FIRST", RETH, True),
    0x07: ("WRITE_MIDDLE", 0, True), 0x08: ("WRITE_LAST", 0, True),
    0x09: ("WRITE_LAST_IMM", IMM, True), 0x0A: ("WRITE_ONLY", RETH, True),
    0x0B: ("WRITE_ONLY_IMM", RETH + IMM, True), 0x0C: ("READ_REQUEST", RETH, False),
    0x0D: ("READ_RESPONSE_FIRST", AETH, True), 0x0E: ("READ_RESPONSE_MIDDLE", 0, True),
    0x0F: ("READ_RESPONSE_LAST", AETH, True), 0x10: ("READ_RESPONSE_ONLY", AETH, True),
    0x11: ("ACK", AETH, False), 0x12: ("ATOMIC_ACK", AETH + ATOMIC_ACK, False),
    0x13: ("CMP_SWAP", ATOMIC, False), 0x14: ("FETCH_ADD", ATOMIC, False),
    0x16: ("SEND_LAST_INV", INV, True), 0x17: ("SEND_ONLY_INV", INV, True),
    0x1D: ("ATOMIC_WRITE", RETH, True),
}
RESPONSES = {0x0D, 0x0E, 0x0F, 0x10, 0x11, 0x12}  # carry no XRCETH
OPCODES = {op: ("RC_" + name, ext, payload) for op, (name, ext, payload) in RC.items()}
OPCODES |= {0x20 + op: ("UC_" + name, ext, payload) for op, (name, ext, payload) in RC.items()
            if op <= 0x0B}
OPCODES |= {0x64: ("UD_SEND_ONLY", DETH, True), 0x65: ("UD_SEND_ONLY_IMM", DETH + IMM, True)}
OPCODES |= {0xA0 + op: ("XRC_" + name, ext + (0 if op in RESPONSES else XRC), payload)
            for op, (name, ext, payload) in RC.items()}
OPCODES[0x81] = ("CNP", CNP, False)
# 0x1C FLUSH: its two ICRCs are a case of tests/unit/wire; scapy would know only one of them.
SIZES = (0, 1, 2, 3, 4, 5, 31, 64, 255, 1023, 1024, 4095, 4096)
ETHER, NETWORK = 14, 20 + 8  # before the BTH


def ask(tool: str, lines: list[str]) -> list[str]:
    done = subprocess.run([tool], input="\n".join(lines) + "\n", text=True, check=True,
                          stdout=subprocess.PIPE)
    return done.stdout.split("\n")[:-1]


def octets(length: int, seed: int) -> bytes:
    return bytes((seed + i * 13) & 0xFF for i in range(length))


def scapy_frame(opcode: int, ext: int, length: int) -> bytes:
    psn = (opcode << 16 | length) & 0xFFFFFF
    pad = -length % 4
    packet = (Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01") /
              IP(src="10.0.0.2", dst="10.0.0.1", flags="DF", ttl=7, tos=0x42, id=psn & 0xFFFF) /
              UDP(sport=0xC123, dport=4791, chksum=0) /
              BTH(opcode=opcode, padcount=pad, dqpn=0x123456, psn=psn, ackreq=length & 1,
                  migreq=1) /
              Raw(octets(ext + length, opcode) + bytes(pad)))
    return bytes(packet)


def decode_lines(opcode: int, length: int) -> list[str]:
    frame = scapy_frame(opcode, OPCODES[opcode][1], length)
    broken = bytearray(frame)
    broken[-5 if len(frame) > 60 else -1] ^= 0x10
    return ["decode " + frame.hex(), "decode " + broken.hex()]


def judge_decode(opcode: int, length: int, answers: list[str]) -> str:
    name, ext, _ = OPCODES[opcode]
    psn = (opcode << 16 | length) & 0xFFFFFF
    want = f"0 {name} {psn} {0x123456} {length & 1} {ext} {length}"
    if answers[0] != want:
        return f"opcode {opcode:#04x} size {length}: decoded as '{answers[0]}', not '{want}'"
    if answers[1].startswith("0"):
        return f"opcode {opcode:#04x} size {length}: a flipped bit is not seen"
    return ""


def encode_lines(opcode: int, length: int) -> list[str]:
    return [f"encode {opcode} {(length << 8 | opcode) & 0xFFFFFF} {0xABCDEF} {length}"]


def judge_encode(opcode: int, length: int, answers: list[str]) -> str:
    _, ext, _ = OPCODES[opcode]
    psn = (length << 8 | opcode) & 0xFFFFFF
    frame = bytes.fromhex(answers[0])
    bth = Ether(frame)[BTH]
    body = frame[ETHER + NETWORK + 12:-4]
    again = Ether(frame[:ETHER + NETWORK]) / BTH(
        opcode=bth.opcode, solicited=bth.solicited, migreq=bth.migreq, padcount=bth.padcount,
        pkey=bth.pkey, fecn=bth.fecn, becn=bth.becn, dqpn=bth.dqpn, ackreq=bth.ackreq,
        psn=bth.psn) / Raw(body)
    fields = (bth.opcode, bth.psn, bth.dqpn, bth.padcount, len(body))
    if fields != (opcode, psn, 0xABCDEF, -length % 4, ext + length + (-length % 4)):
        return f"opcode {opcode:#04x} size {length}: scapy reads {fields}"
    if bytes(again) != frame:
        return f"opcode {opcode:#04x} size {length}: scapy's octets or ICRC differ"
    return ""


def sizes_of(opcode: int) -> tuple[int, ...]:
    if not OPCODES[opcode][2]:
        return (0,)
    return (8,) if opcode & 0x1F == 0x1D else SIZES


def run(tool: str, number: int, name: str, lines_of, judge, cases) -> bool:
    lines = [lines_of(*case) for case in cases]
    answers = iter(ask(tool, [line for group in lines for line in group]))
    complaints = []
    for case, group in zip(cases, lines):
        text = judge(*case, [next(answers) for _ in group])
        if text:
            complaints.append(text)
    print(f"{'not ok' if complaints else 'ok'} {number} - {name}")
    for text in complaints[:5]:
        print("# " + text)
    return not complaints


def main() -> int:
    every_opcode = [(op, size) for op in OPCODES for size in sizes_of(op)]
    every_size = [(0x04, size) for size in range(4097)]
    tests = (
        ("every_opcode__built_by_scapy__decodes", decode_lines, judge_decode, every_opcode),
        ("every_payload_size__built_by_scapy__decodes", decode_lines, judge_decode, every_size),
        ("every_opcode__built_by_us__is_what_scapy_builds", encode_lines, judge_encode,
         every_opcode),
        ("every_payload_size__built_by_us__is_what_scapy_builds", encode_lines, judge_encode,
         every_size),
    )
    print(f"1..{len(tests)}")
    results = [run(sys.argv[1], i + 1, *test) for i, test in enumerate(tests)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
