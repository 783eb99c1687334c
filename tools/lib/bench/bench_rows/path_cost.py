# SPDX-License-Identifier: BSD-3-Clause
"""P6: the cost of a message of 64 bytes in both engines together, for each part of the code. callgrind counts the instructions;
its counts are the same in each run. The time comes from the samples of perf."""
import pathlib
import re
import shutil
import subprocess
import tempfile

from bench_rows import limits
from bench_rows.figure import Bench, Figure, NotRun, by_turns
from bench_rows.messages import engine_ns

AIM_CYCLES = 400
PROGRAM = "engine_parts"  # engine_rate, built so that the linker does not merge identical functions
MESSAGES = 10_000  # messages of the first run; the second run has twice as many
# A function belongs to the first pattern that matches its name. part_of() puts uro_FILE_ before the name of a static function.
PARTS = (
    (r"uro_crc32_|uro_icrc", "ICRC, with the payload's copy"),
    (r"uro_(tx|copy)_|^mem(cpy|move|set)|_mem(cpy|move|set)_", "writing frames and memory"),
    (r"uro_req_(next|send|plan|sent|gather|is)|uro_(path|sgl)_|_encode", "encode"),
    (r"uro_(req|cq)_", "complete"),
    (r"uro_(frame|ether|ip|udp|bth|ext|opcode|gid|demux|receive)(_|$)|_decode", "decode"),
    (r"uro_rsp_(judge|verdict)", "judge"),
    (r"uro_(rsp|rq|srq|key)_", "serve"),
    (r"uro_(engine|schedule|wheel|doorbell|neigh|loop|member|resolver?|qp|shard|cm|gsi|work)(_|$)",
     "rounds, doorbells, timers"),
    (r"^(sides_|post_|main|run|carry)|clock_gettime|vdso", "the program that posts and polls"),
)
REST = "other"
LIB = pathlib.Path(__file__).resolve().parents[4] / "lib"
LAYERS = ("base", "wire", "core", "cm", "engine")
STATIC = re.compile(r"^(?:\w+ )*static [^\n;=(]*?\b(\w+)\(", re.M)
NAMED = re.compile(r"^c?fn=\((\d+)\)(?: (.*))?$")
SAMPLES = re.compile(r"^ *([\d.]+)% +\[.\] (\S+)", re.M)


def part_of(function: str, where: dict[str, str]) -> str:
    name = function.split(".", maxsplit=1)[0]
    if name in where and not name.startswith("uro_"):
        name = f"uro_{where[name]}_{name}"
    return next((part for pattern, part in PARTS if re.search(pattern, name)), REST)


def static_functions(sources: dict[str, str]) -> dict[str, str]:
    """Returns the file stem of each static function. @sources maps the stem of each file to its text."""
    found: dict[str, str] = {}
    # Two static functions may have the same name. Then the files of the packet path win.
    for stem in sorted(sources, key=lambda stem: (not stem.startswith(("req_", "rsp_")), stem)):
        for function in STATIC.findall(sources[stem]):
            found.setdefault(function, stem)
    return found


def files() -> dict[str, str]:
    return static_functions({path.stem: path.read_text() for layer in LAYERS
                             for path in sorted((LIB / layer).glob("*.c"))})


def callgrind(text: str) -> dict[str, int]:
    """Reads from callgrind's output how many instructions each function ran, without the functions that it called."""
    names: dict[str, str] = {}
    counted: dict[str, int] = {}
    current, called = "", False
    for line in text.splitlines():
        named = NAMED.match(line)
        if named:
            name = names.setdefault(named[1], named[2] or "")
            current = current if line.startswith("c") else name
        elif line.startswith("calls="):
            called = True  # the next line has the cost of the called function, which is not counted here
        elif line[:1].isdigit():
            if not called:
                counted[current] = counted.get(current, 0) + int(line.split()[1])
            called = False
    return counted


def by_part(functions: dict[str, float], where: dict[str, str]) -> dict[str, float]:
    parts = {part: 0.0 for _, part in PARTS} | {REST: 0.0}
    for function, cost in functions.items():
        parts[part_of(function, where)] += cost
    return parts


def counted(bench: Bench, kind: str, messages: int) -> dict[str, int]:
    if shutil.which("valgrind") is None:
        raise NotRun("valgrind is not installed")
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as where:
        out = pathlib.Path(where) / "callgrind.out"
        limits.said(bench.build, PROGRAM, kind, "64", "1", "0", str(messages),
                    prefix=("valgrind", "-q", "--tool=callgrind", "--compress-pos=no",
                            f"--callgrind-out-file={out}"))
        return callgrind(out.read_text())


def instructions(bench: Bench, kind: str) -> list[float]:
    """Returns the instructions for one message: the total, then each part. The difference of two runs excludes the start and
    the end of the program."""
    few, many = (by_part(counted(bench, kind, n * MESSAGES), files()) for n in (1, 2))
    # engine_rate adds a tenth of the messages as warm-up
    parts = {part: (many[part] - few[part]) / (MESSAGES * 1.1) for part in many}
    return [sum(parts.values()), *parts.values()]


def shares(report: str) -> dict[str, float]:
    """Returns the fraction of the time that each function takes, from the output of `perf report`."""
    return {function: float(share) / 100 for share, function in SAMPLES.findall(report)}


def times(bench: Bench, kind: str) -> list[float]:
    if shutil.which("perf") is None:
        raise NotRun("perf (linux-perf) is not installed")
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as where:
        data = f"{where}/perf.data"
        said = limits.said(bench.build, PROGRAM, kind, "64", "1", "0",
                           str(bench.count(5_000_000)),
                           prefix=("perf", "record", "-q", "-e", "cpu-clock:u", "-o", data, "--"))
        report = subprocess.run(["perf", "report", "-i", data, "--stdio", "--sort", "symbol"],
                                capture_output=True, text=True, check=False)
    found = shares(report.stdout)
    if not found:
        raise NotRun("perf has no samples: " + (report.stderr.strip().splitlines() or ["?"])[-1])
    whole = float(re.match(r"([\d.]+) ns", said)[1])
    return [whole, *(share * whole for share in by_part(found, files()).values())]


def ghz() -> float:
    """Returns the rate of the time stamp counter in GHz. The clock rate of a core may be higher."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^bogomips\s*: ([\d.]+)$", text, re.M)
    if not found:
        raise NotRun("/proc/cpuinfo does not say how fast this machine is")
    return float(found[1]) / 2000


def rows(bench: Bench) -> list[Figure]:
    cycles = [Figure(f"{what} 64, whole path, cycles at {ghz():.2f} GHz", "cycles", less=True,
                     aim=AIM_CYCLES) for what in ("WRITE", "SEND")]
    by_turns(bench.runs, *((row, lambda kind=kind: engine_ns(bench, kind, "64") * ghz())
                           for row, kind in zip(cycles, ("write", "rc"))))
    names = ["whole path", *by_part({}, {})]
    counts = [Figure(f"WRITE 64, {name}, instructions", "", less=True) for name in names]
    by_turns(1, (counts, lambda: instructions(bench, "write")))
    spent = [Figure(f"WRITE 64, {name}, time", "ns", less=True) for name in names]
    by_turns(bench.runs, (spent, lambda: times(bench, "write")))
    return cycles + counts + spent
