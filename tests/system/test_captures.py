#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests `uroce judge`, `uroce dump --html` and `uroce dump` with captures of all kinds, including damaged and hostile captures. Writes TAP.

    test_captures.py BUILD_DIRECTORY [--match REGEX]

The pages are opened in a headless Chromium. Without it, the cases that need it are skipped: `tools/setup-packages check` installs
chromium-headless-shell.
"""
import html
import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib

import uroce_case
from uroce_case import Case, Skip, equal, has
import patience  # from tools/lib/common, which uroce_case puts on the path

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "pcap-fixtures"
HEADER = struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1)  # nanoseconds, Ethernet
ETHER, IPV4, UDP = 14, 20, 8
SEEDS = range(1, 13)
# Parts of the simulator that violate rules on purpose or damage frames. The tests leave them out.
WITHOUT = "attacker,attacked,quirks,corrupt,truncate,inject"
SEND_FIRST, SEND_MIDDLE, SEND_LAST, ACK, CNP = 0x00, 0x01, 0x02, 0x11, 0x81


# ---- captures --------------------------------------------------------------------------------------------------------------

def read_frames(path: pathlib.Path) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Returns the header of a little-endian pcap file and its (frame header, bytes)."""
    octets, at, frames = path.read_bytes(), 24, []
    while at < len(octets):
        length = struct.unpack_from("<I", octets, at + 8)[0]
        frames.append((octets[at:at + 16], octets[at + 16:at + 16 + length]))
        at += 16 + length
    return octets[:24], frames


def joined(header: bytes, frames: list[tuple[bytes, bytes]]) -> bytes:
    return header + b"".join(head + octets for head, octets in frames)


def with_bytes(frame: tuple[bytes, bytes], octets: bytes, length: int | None = None) -> tuple[bytes, bytes]:
    """Returns the frame with other bytes; length is the length on the wire."""
    return frame[0][:8] + struct.pack("<II", len(octets), length or len(octets)), octets


def source_of(frame: tuple[bytes, bytes]) -> bytes:
    return frame[1][26:30] if frame[1][12:14] == b"\x08\x00" else frame[1][22:38]


class Maker:
    """Writes a capture of four connections with lost packets, NAKs, RNR NAKs and CNPs, without a simulation."""

    def __init__(self, path: pathlib.Path, frames: int):
        self.rng = random.Random(7)
        self.now, self.count, self.ident = 1700000000 * 10**9, 0, 0
        self.pairs = [[0x100 + i, 0x200 + i, self.rng.randrange(1 << 24), 0] for i in range(4)]
        with path.open("wb") as self.file:
            self.file.write(HEADER)
            while self.count < frames:
                self.message(self.rng.choice(self.pairs))

    def frame(self, back: bool, qpn: int, opcode: int, psn: int, rest: bytes, ack: bool = False, becn: bool = False) -> None:
        self.ident = self.ident % 0xffff + 1
        body = struct.pack(">BBHIB3s", opcode, 0x40, 0xffff, qpn | becn << 30, ack << 7,
                           (psn & 0xffffff).to_bytes(3, "big")) + rest
        addresses = (b"\x0a\0\0\2\x0a\0\0\1", b"\x0a\0\0\1\x0a\0\0\2")[not back]
        network = bytearray(struct.pack(">BBHHHBBH", 0x45, 0, IPV4 + UDP + len(body) + 4, self.ident, 0x4000, 64, 17, 0))
        network += addresses
        total = sum(struct.unpack(">10H", network))
        total = (total & 0xffff) + (total >> 16)
        struct.pack_into(">H", network, 10, ~total & 0xffff)
        udp = struct.pack(">HHHH", 0xc123, 4791, UDP + len(body) + 4, 0)
        masked = bytearray(b"\xff" * 8 + network + udp + body)
        for at in (9, 16, 18, 19, 34, 35, 40):
            masked[at] = 0xff
        octets = bytes(12) + b"\x08\x00" + network + udp + body + struct.pack("<I", zlib.crc32(masked))
        self.file.write(struct.pack("<IIII", self.now // 10**9, self.now % 10**9, len(octets), len(octets)) + octets)
        self.count += 1

    def send(self, pair: list, first: int, last: int, count: int) -> None:
        for i in range(first, last):
            self.now += self.rng.randrange(300, 900)
            opcode = SEND_FIRST if i == 0 else SEND_LAST if i == count - 1 else SEND_MIDDLE
            self.frame(False, pair[1], opcode, pair[2] + i, bytes(64 if opcode == SEND_LAST else 256), ack=opcode == SEND_LAST)

    def respond(self, pair: list, psn: int, syndrome: int, after_ns: int) -> None:
        self.now += after_ns
        self.frame(True, pair[0], ACK, psn, bytes([syndrome]) + (pair[3] & 0xffffff).to_bytes(3, "big"))

    def message(self, pair: list) -> None:
        count, kind = self.rng.randrange(4, 40), self.rng.random()
        if kind < .03:  # a lost packet
            lost = self.rng.randrange(count - 1)
            self.send(pair, 0, lost, count)
            self.send(pair, lost + 1, count, count)
            self.respond(pair, pair[2] + lost, 0x60, 4000)
            self.now += 3000
            self.send(pair, lost, count, count)
        elif kind < .05:  # the responder has no receive
            self.send(pair, 0, count, count)
            self.respond(pair, pair[2], 0x20 | 12, 3000)
            self.now += 650000
            self.send(pair, 0, count, count)
        else:
            self.send(pair, 0, count, count)
        if kind > .95:
            self.now += 60000
            self.frame(True, pair[0], CNP, 0, bytes(16), becn=True)
        pair[3] += 1
        self.respond(pair, pair[2] + count - 1, 31, self.rng.randrange(3000, 9000))
        pair[2] += count


def judge(case: Case, octets: bytes) -> tuple[int, list, str, str]:
    """Returns the exit status, the findings, the rest of the output, and stderr."""
    run = subprocess.run([case.uroce, "judge", "-"], input=octets, capture_output=True, check=False,
                         timeout=patience.seconds(60))
    lines = run.stdout.decode().splitlines()
    return (run.returncode, [line for line in lines if "; wanted: " in line],
            "\n".join(line for line in lines if "; wanted: " not in line), run.stderr.decode())


def simulated(case: Case, seed: int) -> pathlib.Path:
    path = case.scratch / f"{seed}.pcap"
    run = case.call("sim", "--seed", seed, "--quiet", "--without", WITHOUT, "--pcap", path)
    equal(run.returncode, 0, run.stdout + run.stderr)
    return path


# ---- no false finding ------------------------------------------------------------------------------------------------------

def clean(case: Case, octets: bytes, what: str) -> None:
    status, findings, words, errors = judge(case, octets)
    assert status == 0 and not findings, f"{what}: status {status}\n" + "\n".join(findings[:5]) + words + errors


def judge__network_with_all_faults__no_finding(case: Case) -> None:
    for seed in SEEDS:
        clean(case, simulated(case, seed).read_bytes(), f"seed {seed}")


def judge__capture_that_lacks_frames__no_finding(case: Case) -> None:
    for seed in SEEDS:
        header, frames = read_frames(simulated(case, seed))
        rng = random.Random(seed)
        for loss in (.01, .05, .5):
            clean(case, joined(header, [frame for frame in frames if rng.random() >= loss]), f"seed {seed}, loss {loss}")
        at = rng.randrange(len(frames))
        clean(case, joined(header, frames[:at] + frames[at + rng.randrange(1, 30):]), f"seed {seed}, a burst")


def judge__capture_that_begins_in_the_middle__no_finding(case: Case) -> None:
    for seed in SEEDS:
        header, frames = read_frames(simulated(case, seed))
        for begin in (len(frames) // 10, len(frames) // 3, len(frames) // 2):
            clean(case, joined(header, frames[begin:]), f"seed {seed} from {begin}")


def judge__one_direction_only__no_finding_and_a_note(case: Case) -> None:
    for seed in SEEDS:
        header, frames = read_frames(simulated(case, seed))
        first = source_of(frames[0])
        clean(case, joined(header, [frame for frame in frames if source_of(frame) == first]), f"seed {seed}")
    header, frames = read_frames(FIXTURES / "rxe61_psn_nak.pcap")
    _, findings, words, _ = judge(case, joined(header, [frame for frame in frames if source_of(frame)[-1] == 2]))
    equal([line.split(": ")[0].split()[-1] for line in findings], ["TX.MIGREQ"])
    has(words, "1 of 1 flows have no known other direction; their responses were not judged, nor what their requests must do after")


def judge__every_frame_twice__no_finding(case: Case) -> None:
    for seed in SEEDS:
        header, frames = read_frames(simulated(case, seed))
        clean(case, joined(header, [copy for frame in frames for copy in (frame, frame)]), f"seed {seed}")


def judge__made_capture__no_finding(case: Case) -> None:
    path = case.scratch / "made.pcap"
    Maker(path, 3000)
    clean(case, path.read_bytes(), "made")


# ---- formats and bad input -------------------------------------------------------------------------------------------------

def cooked(frames: list, version: int) -> list:
    """Returns the frames with the headers of a capture on the interface "any"."""
    found = []
    for frame in frames:
        kind = frame[1][12:14]
        link = bytes(14) + kind if version == 1 else kind + bytes(18)
        found.append(with_bytes(frame, link + frame[1][ETHER:]))
    return found


def judge__capture_on_any__same_findings(case: Case) -> None:
    header, frames = read_frames(FIXTURES / "rxe61_read_loss.pcap")
    wanted = [re.sub(r"^.*? qp", "qp", line) for line in judge(case, joined(header, frames))[1]]
    for version, link in ((1, 113), (2, 276)):
        octets = joined(header[:20] + struct.pack("<I", link), cooked(frames, version))
        status, findings, _, _ = judge(case, octets)
        equal((status, [re.sub(r"^.*? qp", "qp", line) for line in findings]), (1, wanted))
        doubled = [copy for frame in cooked(frames, version) for copy in (frame, frame)]
        findings = judge(case, joined(header[:20] + struct.pack("<I", link), doubled))[1]
        equal(len(findings), len(wanted))


def judge__vlan__same_findings_with_the_vlan(case: Case) -> None:
    header, frames = read_frames(FIXTURES / "rxe61_read_loss.pcap")
    tagged = [with_bytes(frame, frame[1][:12] + b"\x81\x00\x20\x0a" + frame[1][12:]) for frame in frames]
    status, findings, _, _ = judge(case, joined(header, tagged))
    equal((status, len(findings)), (1, 3))
    has(findings[-1], "10.77.0.3 vlan 10 qp 0x00002c RSP.DUP.READ")


def judge__pcapng__is_read(case: Case) -> None:
    header, frames = read_frames(FIXTURES / "rxe61_read_loss.pcap")
    del header
    blocks = struct.pack("<IIIHHqI", 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, -1, 28) + struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20)
    for head, octets in frames:
        seconds, micro, length, whole = struct.unpack("<IIII", head)
        time, pad = seconds * 10**6 + micro, -length % 4
        size = 32 + length + pad
        blocks += struct.pack("<IIIIIII", 6, size, 0, time >> 32, time & 0xffffffff, length, whole) + octets + bytes(pad)
        blocks += struct.pack("<I", size)
    status, findings, _, _ = judge(case, blocks)
    equal((status, len(findings)), (1, 3))


def offloaded(frames: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Joins successive packets of a flow into one frame, as GRO does. All payloads have the same length, except the last, which
    may be shorter."""
    head, result = ETHER + 20 + 8, []
    sizes, steps = [], []  # of the packets that the last frame in the result consists of

    def ident(frame: tuple[bytes, bytes]) -> int:
        return struct.unpack_from(">H", frame[1], 18)[0]

    previous = None
    for frame in frames:
        size = len(frame[1]) - head
        step = ident(frame) - ident(previous) if previous else -1
        if (previous and previous[1][26:38] == frame[1][26:38] and step in (0, 1) and set(steps) <= {step}
                and set(sizes) == {sizes[0]} and size <= sizes[0]):
            whole = bytearray(result[-1][1] + frame[1][head:])
            struct.pack_into(">H", whole, 16, len(whole) - ETHER)
            struct.pack_into(">H", whole, 38, len(whole) - ETHER - 20)
            struct.pack_into(">H", whole, 24, 0)
            words = struct.unpack(">10H", whole[ETHER:ETHER + 20])
            struct.pack_into(">H", whole, 24, 0xffff - (sum(words) - 1) % 0xffff - 1)
            result[-1] = with_bytes(result[-1], bytes(whole))
            sizes.append(size)
            steps.append(step)
        else:
            result.append(frame)
            sizes, steps = [size], []
        previous = frame
    return result


def judge__frames_that_a_kernel_joined__same_findings(case: Case) -> None:
    for name in ("rxe61_read_loss", "rxe61_psn_nak", "rxe61_rnr_behind"):
        header, frames = read_frames(FIXTURES / f"{name}.pcap")
        status, wanted, _, _ = judge(case, joined(header, frames))
        fewer = offloaded(frames)
        assert len(fewer) <= len(frames) - 4, name
        again, findings, words, _ = judge(case, joined(header, fewer))
        equal(again, status, name)
        equal([line.split(";")[0].split(": ", 1)[1].split(" (frame")[0] for line in findings],
              [line.split(";")[0].split(": ", 1)[1].split(" (frame")[0] for line in wanted], name)
        has(words, f"{len(fewer)} frames, ", "frames have several packets", "each packet was judged")


def judge__cut_frames__judges_their_headers(case: Case) -> None:
    header, frames = read_frames(FIXTURES / "rxe61_read_loss.pcap")
    cut = [with_bytes(frame, frame[1][:96], len(frame[1])) for frame in frames]
    status, findings, words, _ = judge(case, joined(header, cut))
    equal((status, len(findings)), (1, 3), words)
    cut = [with_bytes(frame, frame[1][:50], len(frame[1])) for frame in frames]
    status, findings, words, _ = judge(case, joined(header, cut))
    equal((status, findings), (0, []))
    has(words, "9 frames are cut before the end of their headers", "-s 128")


def every_command(case: Case, path: pathlib.Path, status: int, *words: str) -> None:
    for command in (("judge",), ("judge", "--json"), ("dump", "--html"), ("dump",)):
        run = case.call(*command, path)
        equal(run.returncode, status, " ".join(command) + "\n" + run.stderr)
        has(run.stderr, f"uroce {command[0]}: ", str(path), *words)


def all__file_other_than_a_capture__is_an_error(case: Case) -> None:
    for name, octets in (("empty", b""), ("garbage", random.Random(1).randbytes(3000)), ("text", b"no capture\n" * 9)):
        path = case.scratch / name
        path.write_bytes(octets)
        every_command(case, path, 2, "cannot be read as a capture")
    every_command(case, case.scratch / "absent", 2, "No such file")
    every_command(case, case.scratch, 2)


def all__other_link_type__error_has_the_type(case: Case) -> None:
    path = case.scratch / "other.pcap"
    path.write_bytes(HEADER[:20] + struct.pack("<I", 247))
    every_command(case, path, 2, "INFINIBAND", "only Ethernet, Linux cooked and raw IP")


def all__file_cut_in_a_frame__judges_the_rest_with_an_error(case: Case) -> None:
    path = case.scratch / "cut.pcap"
    path.write_bytes((FIXTURES / "rxe61_read_loss.pcap").read_bytes()[:-100])
    every_command(case, path, 2, "damaged after frame 8")
    equal(case.call("judge", path).stdout.count("; wanted: "), 3)


def judge__no_frame__reports_an_empty_capture(case: Case) -> None:
    path = case.scratch / "none.pcap"
    path.write_bytes(HEADER)
    run = case.call("judge", path)
    equal(run.returncode, 0)
    has(run.stdout, "0 frames", "nothing to judge")
    equal(json.loads(case.call("judge", "--json", path).stdout)["findings"], [])


def judge__changed_bytes__no_crash(case: Case) -> None:
    """Changes random bytes. The judge may report any finding, but its output stays valid JSON."""
    rng = random.Random(5)
    for name in ("rxe61_rdmacm_rping", "rxe61_psn_wrap", "rxe612_rc_flush"):
        octets = bytearray((FIXTURES / f"{name}.pcap").read_bytes())
        for _ in range(20):
            changed = bytearray(octets)
            for _ in range(rng.randrange(1, 40)):
                changed[rng.randrange(24, len(changed))] = rng.randrange(256)
            path = case.scratch / "changed.pcap"
            path.write_bytes(changed)
            run = case.call("judge", "--json", path)
            assert run.returncode in (0, 1, 2), run.stderr
            json.loads(run.stdout)
            assert case.call("dump", "--html", path).returncode in (0, 2)


def dump__device_sends_to_itself__names_the_sending_qp(case: Case) -> None:
    header, frames = read_frames(FIXTURES / "rxe61_psn_nak.pcap")
    own = []
    for frame in frames:
        octets = bytearray(frame[1])
        octets[26:34] = bytes([10, 77, 0, 2] * 2)
        octets[24:26] = b"\0\0"
        total = sum(struct.unpack(">10H", octets[ETHER:ETHER + IPV4]))
        total = (total & 0xffff) + (total >> 16)
        struct.pack_into(">H", octets, 24, ~total & 0xffff)
        if source_of(frame)[-1] == 2:
            octets[47:50] = b"\0\0\x2a"  # both queue pairs have the number 0x29 in the capture of two machines
        masked = bytearray(b"\xff" * 8 + octets[ETHER:-4])
        for at in (9, 16, 18, 19, 34, 35, 40):
            masked[at] = 0xff
        octets[-4:] = struct.pack("<I", zlib.crc32(masked))
        own.append(with_bytes(frame, bytes(octets)))
    path = case.scratch / "own.pcap"
    path.write_bytes(joined(header, own))
    lines = [line for line in case.call("dump", path).stdout.splitlines() if " RC_" in line]
    assert lines and all(" from 0x0000" in line for line in lines), "\n".join(lines)
    for line in lines:
        to, sender = re.search(r" qp 0x0000(\w\w) ", line)[1], re.search(r" from 0x0000(\w\w)", line)[1]
        equal({to, sender}, {"29", "2a"})


# ---- pages -----------------------------------------------------------------------------------------------------------------

def browse(case: Case, page: pathlib.Path, state: str = "") -> str:
    """Opens a page. Returns its elements, without the data and the scripts."""
    browser = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if browser is None:
        raise Skip("no browser: tools/setup-packages check installs chromium-headless-shell")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,800",
               f"--user-data-dir={case.scratch / 'browser'}", "--dump-dom", f"{page.as_uri()}#{state}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience.seconds(120))
    body = re.search(r"<body([^>]*)>", run.stdout)
    assert body, f"no page: {run.stdout[:300]}\n{run.stderr[-2000:]}"
    assert "data-error" not in body[1], html.unescape(body[0])
    assert "data-frames" in body[1], f"the script did not end: {body[0]}"
    return re.sub(r"<script.*?</script>", "", run.stdout, flags=re.S)


def page_of(case: Case, capture: pathlib.Path) -> pathlib.Path:
    page = case.scratch / f"{capture.stem}.html"
    with page.open("wb") as file:
        run = subprocess.run([case.uroce, "dump", "--html", capture], stdout=file, stderr=subprocess.PIPE, check=False,
                             timeout=patience.seconds(60))
    equal(run.returncode, 0, run.stderr.decode())
    return page


def page__each_fixture__opens_without_an_error(case: Case) -> None:
    browse_kinds = ["rxe61_read_loss", "rxe61_psn_nak", "rxe61_rnr_nak", "rxe61_rdmacm_ucmatose", "nic_frames",
                    "rxe61_ud_mcast", "rxe61_uc_write", "rxe612_rc_flush"]
    for name in browse_kinds:
        capture = FIXTURES / f"{name}.pcap"
        frames = len(read_frames(capture)[1])
        text = browse(case, page_of(case, capture))
        has(text, f'data-frames="{frames}"', f'data-rows="{frames}"', f"{name}.pcap: {frames} frames")


def page__frame_in_the_address__is_shown_decoded(case: Case) -> None:
    page = page_of(case, FIXTURES / "rxe61_read_loss.pcap")
    text = browse(case, page, "frame=7")
    has(text, 'data-frame="7"', "Frame 7 · RC_READ_RESPONSE_MIDDLE", "RSP.DUP.READ", "answers frame 6",
        "<td>PSN</td><td><span>257</span></td>", "10.77.0.3 qp 0x00002c")


def page__search__shows_only_frames_with_the_words(case: Case) -> None:
    page = page_of(case, FIXTURES / "rxe61_psn_nak.pcap")
    has(browse(case, page, "search=nak"), 'data-rows="1"')
    has(browse(case, page, "search=no+such+words"), 'data-rows="0"')


def page__hundred_thousand_frames__opens(case: Case) -> None:
    capture = case.scratch / "large.pcap"
    Maker(capture, 100000)
    text = browse(case, page_of(case, capture), "frame=99999&connection=2")
    frames = len(read_frames(capture)[1])
    has(text, f'data-frames="{frames}"', "Frame 99999")


def page__frames_that_a_kernel_joined__show_each_packet(case: Case) -> None:
    header, frames = read_frames(FIXTURES / "rxe61_psn_nak.pcap")
    capture, fewer = case.scratch / "offloaded.pcap", offloaded(frames)
    capture.write_bytes(joined(header, fewer))
    at = next(i for i, frame in enumerate(fewer) if len(frame[1]) > 2 * 1024)
    text = browse(case, page_of(case, capture), f"frame={at + 1}")
    has(text, f'data-frames="{len(frames)}"', f"{len(fewer)} frames, {len(frames)} packets of RoCEv2", f"Frame {at + 1} ·")


def page__hostile_name_and_damaged_frames__are_shown_as_text(case: Case) -> None:
    name = "<script>document.body.dataset.error='ran'<"
    capture = case.scratch / f"{name}!--\"\\.pcap"
    octets = bytearray((FIXTURES / "rxe61_psn_nak.pcap").read_bytes())
    octets[200] ^= 0xff
    capture.write_bytes(octets)
    has(html.unescape(browse(case, page_of(case, capture))), name)


MARKUP = "</script><script>document.body.dataset.error='ran'</script><!--<script> \\u003c \\"


def capture_of_sentence(path: pathlib.Path, text: bytes) -> pathlib.Path:
    """Writes a capture of one frame with the EtherType of the sentences of pcap=."""
    octets = bytes(12) + b"\x88\xb5uroce: " + text
    path.write_bytes(HEADER + struct.pack("<IIII", 1, 0, len(octets), len(octets)) + octets)
    return path


def dump__sentence_with_markup__adds_no_element_to_the_page(case: Case) -> None:
    pages = [page_of(case, capture_of_sentence(case.scratch / f"{name}.pcap", text)).read_text()
             for name, text in (("plain", b"plain"), ("markup", MARKUP.encode()))]
    for mark in ("<script", "</script", "<!--"):
        equal(pages[1].lower().count(mark), pages[0].lower().count(mark), mark)
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', pages[1], re.S)[1]
    equal(json.loads(data)["lines"], [f"-- {MARKUP}"])


def page__sentence_with_markup__is_shown_as_text(case: Case) -> None:
    capture = capture_of_sentence(case.scratch / "sentence.pcap", MARKUP.encode())
    has(html.unescape(browse(case, page_of(case, capture))), f"<code>-- {MARKUP}</code>")


def dump__control_characters_of_a_frame__are_not_printed(case: Case) -> None:
    capture = capture_of_sentence(case.scratch / "controls.pcap", b"a\x1b]0;b\x07\x9b\xc2\x9bc\n")
    has(case.call("dump", capture).stdout, " -- a?]0;b????c?\n")


def page__capture_without_frames__opens(case: Case) -> None:
    capture = case.scratch / "none.pcap"
    capture.write_bytes(HEADER)
    has(browse(case, page_of(case, capture)), 'data-frames="0"')


CASES = uroce_case.named_cases(globals())

if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
