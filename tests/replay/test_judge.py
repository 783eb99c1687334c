#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs `uroce judge` over every capture of pcap-fixtures/ and over changed copies of some; writes TAP.

    test_judge.py build/app/uroce pcap-fixtures

In a capture of Linux rxe, `uroce judge` finds only the known deviations of rxe. In a copy with one changed packet, it
finds the broken rule in that packet.
"""
import json
import pathlib
import struct
import subprocess
import sys
import zlib

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "common"))
import patience  # noqa: E402

FILE_HEADER, FRAME_HEADER = 24, 16
ETHER, IPV4, UDP, BTH = 14, 20, 8, 12
AT_BTH = ETHER + IPV4 + UDP
AT_EXT = AT_BTH + BTH

# Rules that captures of rxe violate. MigReq is 0 in all connected services. Some captures have another deviation.
MIGREQ = {"TX.MIGREQ"}
SPECIAL = {
    "made_flush": set(),
    "nic_frames": set(),
    "rxe612_rc_flush": {"TX.MIGREQ", "ICRC.FLUSH"},
    "rxe61_rnr_behind": {"TX.MIGREQ", "RSP.RNR"},
    "rxe61_read_loss": {"TX.MIGREQ", "RSP.DUP.READ"},
    "rxe61_rdmacm_reject": set(),
    "rxe61_rdmacm_udaddy": set(),
    "rxe61_ud_bad_qkey": set(),
    "rxe61_ud_mcast": set(),
    "rxe61_ud_send": set(),
    "rxe61_ud_send_ipv6": set(),
}


class Capture:
    """The frames of a capture in memory, as [time in ns, bytes]."""

    def __init__(self, path: pathlib.Path):
        octets = path.read_bytes()
        self.header = octets[:FILE_HEADER]
        self.unit = 1000 if self.header[:4] == b"\xd4\xc3\xb2\xa1" else 1
        self.frames: list[list] = []
        at = FILE_HEADER
        while at < len(octets):
            seconds, fraction, length, _ = struct.unpack_from("<IIII", octets, at)
            at += FRAME_HEADER
            self.frames.append([seconds * 10**9 + fraction * self.unit, bytearray(octets[at:at + length])])
            at += length

    def bytes(self) -> bytes:
        parts = [self.header]
        for time, frame in self.frames:
            parts += [struct.pack("<IIII", time // 10**9, time % 10**9 // self.unit, len(frame), len(frame)), frame]
        return b"".join(parts)

    def change(self, number: int, at: int, octets: bytes) -> None:
        """Writes bytes into IPv4 frame @number, and corrects its checksum and its ICRC. The first frame is 1."""
        frame = self.frames[number - 1][1]
        frame[at:at + len(octets)] = octets
        frame[ETHER + 10:ETHER + 12] = b"\0\0"
        total = sum(struct.unpack(">10H", frame[ETHER:ETHER + IPV4]))
        total = (total & 0xffff) + (total >> 16)
        struct.pack_into(">H", frame, ETHER + 10, ~total & 0xffff)
        frame[-4:] = struct.pack("<I", icrc(frame))


def icrc(frame: bytearray) -> int:
    masked = bytearray(b"\xff" * 8 + frame[ETHER:-4])
    for at in (8 + 1, 8 + 8, 8 + 10, 8 + 11, 8 + IPV4 + 6, 8 + IPV4 + 7, 8 + IPV4 + UDP + 4):
        masked[at] = 0xff
    return zlib.crc32(masked)


def judge(uroce: str, octets: bytes) -> tuple[int, dict]:
    run = subprocess.run([uroce, "judge", "--json", "-"], input=octets, capture_output=True, check=False,
                         timeout=patience.seconds(60))
    if run.returncode not in (0, 1):
        raise AssertionError(f"exit status {run.returncode}: {run.stderr.decode()}")
    return run.returncode, json.loads(run.stdout)


def fixture(uroce: str, path: pathlib.Path) -> str:
    status, said = judge(uroce, path.read_bytes())
    found = {finding["rule"] for finding in said["findings"]}
    wanted = SPECIAL.get(path.stem, MIGREQ)
    if found != wanted or status != (1 if wanted else 0):
        return f"status {status}, rules {sorted(found)}, wanted {sorted(wanted)}"
    return ""


def psn(value: int) -> bytes:
    return (value & 0xffffff).to_bytes(3, "big")


# ---- changed copies: each returns the capture, and (frame, rule) of the finding that it must have ----------------------

def wrong_icrc(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_send.pcap")
    capture.frames[3][1][-1] ^= 1
    return capture, (4, "ICRC.CHECK")


def icrc_of_the_other_byte_order(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_send.pcap")
    frame = capture.frames[3][1]
    frame[-4:] = frame[-4:][::-1]
    return capture, (4, "ICRC.ORDER")


def icrc_without_the_pad(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_send.pcap")
    frame = capture.frames[2][1]  # has one byte of payload and three pad bytes
    assert frame[AT_BTH + 1] >> 4 & 3 == 3
    frame[-4:] = struct.pack("<I", icrc(frame[:-7] + frame[-4:]))
    return capture, (3, "ICRC.PAD")


def reserved_bit(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_send.pcap")
    capture.change(3, AT_BTH + 8, b"\x81")
    return capture, (3, "WIRE.RESERVED")


def ack_of_an_unsent_psn(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_send.pcap")  # frame 4 acknowledges PSN 257, frame 5 sends 258
    capture.change(4, AT_BTH + 9, psn(258))
    return capture, (4, "REQ.ACK.GHOST")


def msn_that_counts_a_duplicate(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_psn_nak.pcap")  # frame 10: ACK of PSN 257 with MSN 2
    capture.change(10, AT_EXT + 1, psn(9))
    capture.frames.append([capture.frames[-1][0] + 1000, bytearray(capture.frames[8][1])])
    capture.change(13, AT_BTH + 9, psn(260))
    return capture, (10, "RSP.MSN")


def message_without_its_first_packet(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_mtu4096_send.pcap")  # frame 3: SEND FIRST of PSN 257
    capture.change(3, AT_BTH, b"\x01")
    return capture, (3, "RSP.SEQUENCE")


def write_with_another_length(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_mtu4096_write.pcap")  # frame 1: WRITE FIRST, 10000 bytes
    capture.change(1, AT_EXT + 12, (10001).to_bytes(4, "big"))
    return capture, (3, "RSP.LENGTH")


def first_packet_that_is_not_full(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_mtu4096_send.pcap")
    frame = capture.frames[2][1]
    del frame[-104:-4]  # 100 bytes of payload
    struct.pack_into(">H", frame, ETHER + 2, len(frame) - ETHER)
    struct.pack_into(">H", frame, ETHER + IPV4 + 4, len(frame) - ETHER - IPV4)
    capture.change(3, AT_BTH, b"\x00")
    return capture, (3, "REQ.SEGMENT")


def read_response_with_the_wrong_opcode(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_mtu4096_read.pcap")
    # Frame 2 is a FIRST and becomes a MIDDLE. A MIDDLE has no AETH, so its payload is also four bytes too long.
    capture.change(2, AT_BTH, b"\x0e")
    return capture, (2, "RSP.READ.FORM")


def ack_instead_of_data(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_read.pcap")  # frame 6: READ RESPONSE ONLY of PSN 258
    ack = bytearray(Capture(folder / "rxe61_rc_send.pcap").frames[1][1])
    ack[AT_BTH + 5:AT_BTH + 8] = capture.frames[5][1][AT_BTH + 5:AT_BTH + 8]
    capture.frames[5][1] = ack
    capture.change(6, AT_BTH + 9, psn(258))
    capture.change(6, AT_EXT + 1, psn(3))
    return capture, (6, "REQ.ACK.READ")


def nak_for_an_acknowledged_psn(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_send.pcap")  # frame 8 acknowledges PSN 259
    capture.change(8, AT_EXT, b"\x60")
    capture.change(8, AT_BTH + 9, psn(257))
    return capture, (8, "RSP.GAP.NAK")


def request_inside_a_read(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_psn_wrap.pcap")  # frame 5: READ of PSN 1 with three responses
    send = [capture.frames[7][0] + 1000, bytearray(Capture(folder / "rxe61_rc_send.pcap").frames[2][1])]
    send[1][AT_BTH + 5:AT_BTH + 8] = capture.frames[4][1][AT_BTH + 5:AT_BTH + 8]
    capture.frames.append(send)
    capture.change(9, AT_BTH + 9, psn(2))
    return capture, (9, "REQ.READ.PSN")


def retry_before_the_rnr_wait_has_ended(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rnr_exceeded.pcap")
    start = capture.frames[0][0]
    for frame, after_us in zip(capture.frames, (0, 100, 250, 350, 500, 600)):
        frame[0] = start + after_us * 1000
    return capture, (3, "REQ.RNR.WAIT")


def gap_nak_after_an_rnr_nak(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rnr_exceeded.pcap")
    nak = [capture.frames[1][0] + 100000, bytearray(capture.frames[1][1])]
    capture.frames.insert(2, nak)
    capture.change(3, AT_EXT, b"\x60")
    return capture, (3, "RSP.RNR")


def repeated_request_that_differs(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_timeout_retry.pcap")  # frame 4 repeats PSN 257
    other = bytearray(Capture(folder / "rxe61_rc_write.pcap").frames[4][1])
    other[AT_BTH + 5:AT_BTH + 8] = capture.frames[3][1][AT_BTH + 5:AT_BTH + 8]
    capture.frames[3][1] = other
    capture.change(4, AT_BTH + 9, psn(257))
    return capture, (4, "REQ.SEGMENT")


def reserved_syndrome(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rc_send.pcap")
    capture.change(2, AT_EXT, b"\x40")
    return capture, (2, "REQ.SYNDROME")


def too_many_cnps(folder: pathlib.Path):
    capture = Capture(folder / "nic_frames.pcap")
    time, cnp = capture.frames[0]
    capture.frames = [[time + i * 4000, bytearray(cnp)] for i in range(60)]
    for number in range(1, 61):  # distinct IP identifications, so that the judge sees different packets
        capture.change(number, ETHER + 4, (100 + number).to_bytes(2, "big"))
    return capture, (23, "CNP.SEND")


def first_psn_other_than_in_the_cm_exchange(folder: pathlib.Path):
    capture = Capture(folder / "rxe61_rdmacm_rping.pcap")
    for number, (_, frame) in enumerate(capture.frames, 1):
        if frame[AT_BTH] < 0x60:
            old = int.from_bytes(frame[AT_BTH + 9:AT_BTH + 12], "big")
            capture.change(number, AT_BTH + 9, psn(old - 1))
            first = number
            break
    return capture, (first, "CM.REQ")


CHANGED = [wrong_icrc, icrc_of_the_other_byte_order, icrc_without_the_pad, reserved_bit, ack_of_an_unsent_psn,
           msn_that_counts_a_duplicate, message_without_its_first_packet, write_with_another_length,
           first_packet_that_is_not_full, read_response_with_the_wrong_opcode, ack_instead_of_data,
           nak_for_an_acknowledged_psn, request_inside_a_read, retry_before_the_rnr_wait_has_ended, gap_nak_after_an_rnr_nak,
           repeated_request_that_differs, reserved_syndrome, too_many_cnps, first_psn_other_than_in_the_cm_exchange]


def changed(uroce: str, folder: pathlib.Path, make) -> str:
    capture, wanted = make(folder)
    _, said = judge(uroce, capture.bytes())
    found = [(finding["frame"], finding["rule"]) for finding in said["findings"]]
    return "" if wanted in found else f"found {found}, wanted {wanted}"


def report(number: int, name: str, problem: str) -> bool:
    print(f"{'not ok' if problem else 'ok'} {number} - {name}", flush=True)
    for line in problem.splitlines():
        print(f"# {line}")
    return not problem


def rules_exist(uroce: str, folder: pathlib.Path) -> str:
    """Checks that docs/PROTOCOL.md has every rule of the judge."""
    del uroce
    root = folder.resolve().parent
    header = (root / "lib" / "capture" / "judge.h").read_text()
    page = (root / "docs" / "PROTOCOL.md").read_text()
    rules = {line.split('"')[1] for line in header.splitlines() if line.startswith("    X(")}
    missing = sorted(rule for rule in rules if f"**{rule}**" not in page)
    return f"not in docs/PROTOCOL.md: {missing}" if missing or len(rules) < 25 else ""


def main() -> int:
    uroce, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    captures = sorted(folder.glob("*.pcap"))
    cases = [(f"judge of {path.stem}", fixture, path) for path in captures]
    cases += [(f"judge finds {make.__name__}", None, make) for make in CHANGED]
    print(f"1..{len(cases) + 1}")
    good = bool(captures)
    for number, (name, run, argument) in enumerate(cases, 1):
        try:
            problem = run(uroce, argument) if run else changed(uroce, folder, argument)
        except (AssertionError, subprocess.TimeoutExpired) as why:
            problem = str(why)
        good &= report(number, name, problem)
    good &= report(len(cases) + 1, "the rules are those of docs/PROTOCOL.md", rules_exist(uroce, folder))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
