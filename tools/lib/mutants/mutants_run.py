# SPDX-License-Identifier: BSD-3-Clause
"""Builds each mutant of tests/mutants/ in a copy of the tree, and runs checks until a check detects the mutant.

The copy and its build stay in build-mutants/, so that each mutant compiles only the files that depend on the file it changes.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

import mutants_results
import mutants_rules
import patience

ROOT = pathlib.Path(__file__).resolve().parents[3]
TABLES = ROOT / "tests" / "mutants"
COPY = ROOT / "build-mutants" / "tree"
BUILD = ROOT / "build-mutants" / "build"
KEYS = ("mutant", "file", "after", "old", "new", "by")
CATCHERS = ("sim", "storm", "fuzz", "tests")
PROGRAMS = ["app/uroce", "tests/sim/test_cm_storm", "tests/fuzz/replay_verbs"]
CHUNK = 20       # seeds of one process
PATIENCE = 120.0  # time limit of a process, seconds


@dataclasses.dataclass
class Mutant:
    place: str  # file and line of the mutant's table
    mutant: str = ""
    file: str = ""
    after: str = ""
    old: str = ""
    new: str = ""
    by: str = ""

    def problem(self) -> str:
        """Returns the error in the table's entry for this mutant, or an empty string."""
        missing = [key for key in KEYS if key != "after" and not getattr(self, key)]
        if missing:
            return f"has no {', '.join(missing)}"
        if self.by not in CATCHERS:
            return f"by must be one of {', '.join(CATCHERS)}"
        path = ROOT / self.file
        if not path.is_file():
            return f"there is no {self.file}"
        return self.find(path.read_text())[1]

    def find(self, text: str) -> tuple[int, str]:
        """Returns (position of `old`, ""), or (any number, the reason why `old` has no unique position)."""
        start = 0
        if self.after:
            start = text.find(self.after)
            if start < 0:
                return -1, f"{self.file} has no \"{self.after}\""
            start += len(self.after)
        elif text.count(self.old) > 1:
            return -1, f"{self.file} has \"{self.old}\" more than once: add an \"after\" line"
        at = text.find(self.old, start)
        return at, "" if at >= 0 else f"{self.file} has no \"{self.old}\""

    def apply(self, text: str) -> str:
        at, _ = self.find(text)
        return text[:at] + self.new + text[at + len(self.old):]


def read_table(path: pathlib.Path) -> list[Mutant]:
    mutants: list[Mutant] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        key, _, value = line.partition(" ")
        if not line.strip() or line.startswith("#"):
            continue
        if key == "mutant":
            mutants.append(Mutant(f"{path.relative_to(ROOT)}:{number}"))
        if key not in KEYS or not mutants:
            sys.exit(f"{path.relative_to(ROOT)}:{number}: \"{key}\" is not a key of this table, "
                     "or stands before the first \"mutant\" line")
        setattr(mutants[-1], key, value.strip())
    return mutants


def check(mutants: list[Mutant]) -> int:
    bad = 0
    for mutant in mutants:
        problem = mutant.problem()
        if problem:
            print(f"{mutant.place}: {mutant.mutant}: {problem}")
            bad += 1
    names = [mutant.mutant for mutant in mutants]
    for name in sorted({name for name in names if names.count(name) > 1}):
        print(f"two mutants have the name \"{name}\"")
        bad += 1
    for problem in mutants_rules.problems(ROOT):
        print(problem)
        bad += 1
    print(f"{bad} to mend (mutants)" if bad else
          f"fine: {len(mutants)} mutants fit the code, and each failure message has a rule")
    return 1 if bad else 0


# ---- building ----------------------------------------------------------------------------------


def copy_tree() -> None:
    """Copies the files that git tracks, and new files that git does not ignore. Writes only files that differ, so that few files
    are compiled again."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True,
                            capture_output=True, check=True).stdout.splitlines()
    wanted = {name for name in listed if (ROOT / name).is_file()}
    for name in wanted:
        source, to = ROOT / name, COPY / name
        if to.is_file() and to.read_bytes() == source.read_bytes():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to)
    for path in [p for p in COPY.rglob("*") if p.is_file()]:
        if str(path.relative_to(COPY)) not in wanted:
            path.unlink()


def setup() -> None:
    copy_tree()
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(BUILD), str(COPY), "-Ddpdk=disabled", "-Dwerror=false",
                        "-Dbuildtype=plain", "-Doptimization=1"], check=True,
                       stdout=subprocess.DEVNULL)


def introspect(what: str) -> list[dict]:
    return json.loads(subprocess.run(["meson", "introspect", f"--{what}", str(BUILD)], text=True,
                                     capture_output=True, check=True).stdout)


def programs_of(suites: set[str]) -> list[str]:
    """Returns the programs to build for the tests of these suites."""
    files = {target["id"]: target["filename"] for target in introspect("targets")}
    wanted: set[str] = set()
    for test in introspect("tests"):
        if suites & {suite.split(":")[-1] for suite in test["suite"]}:
            wanted.update(word for word in test["cmd"] if word.startswith(str(BUILD)))
            wanted.update(name for one in test["depends"] for name in files[one])
    built = {name for names in files.values() for name in names}
    return [str(pathlib.Path(name).relative_to(BUILD)) for name in sorted(wanted & built)]


def ninja(names: list[str]) -> str:
    """Runs ninja. Returns the end of its output if it fails, else ""."""
    run = subprocess.run(["ninja", "-C", str(BUILD), "-j2", *names], text=True, capture_output=True,
                         check=False)
    return "" if run.returncode == 0 else "\n".join(run.stdout.splitlines()[-8:])


# ---- running tests -----------------------------------------------------------------------------


def ran(command: list[str]) -> tuple[int | None, str]:
    """Runs a command. Returns its status (None: timeout) and output."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", cwd=BUILD)
    try:
        said, _ = process.communicate(timeout=patience.seconds(PATIENCE))
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        return None, said
    return process.returncode, said


def ending(status: int | None) -> str:
    if status is None:
        return "it did not end within the time limit"
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"


def by_seeds(command: list[str], seeds: int, pattern: str) -> str:
    """Runs @command (the simulator or test_cm_storm) with @seeds seeds. Returns the message of the first failure, or an empty
    string."""
    for first in range(1, seeds + 1, CHUNK):
        status, said = ran([word.format(first=first, count=CHUNK) for word in command])
        if status == 0:
            continue
        reasons = re.findall(pattern, said, re.M)
        asserted = re.findall(r"assertion failed.*|Assertion.*failed.*", said)
        return (asserted or reasons or [ending(status)])[0].strip()
    return ""


def by_sim(seeds: int) -> str:
    return by_seeds(["app/uroce", "sim", "--seed", "{first}", "--count", "{count}", "--quiet"], seeds,
                    r"^seed \d+: FAILED: (.*)")


def by_storm(seeds: int) -> str:
    return by_seeds(["tests/sim/test_cm_storm", "{first}", "{count}"], seeds, r"^not ok - (.*)")


def by_corpus(_seeds: int) -> str:
    """Runs the fuzz target of the verbs on its corpus. Returns its failure, or an empty string."""
    status, said = ran(["tests/fuzz/replay_verbs", str(COPY / "tests" / "fuzz" / "corpus" / "verbs")])
    return "" if status == 0 else f"{ending(status)} after {len(re.findall('^ok ', said, re.M))} inputs"


def by_tests() -> str:
    problem = ninja(programs_of({"scenario", "unit"}))
    if problem:
        raise RuntimeError(f"the tests do not build:\n{problem}")
    run = subprocess.run(["meson", "test", "-C", str(BUILD), "--no-rebuild", "--suite", "scenario",
                          "--suite", "unit"], text=True, capture_output=True, check=False)
    if not re.search(r"^Ok: +\d", run.stdout, re.M):
        raise RuntimeError(f"the tests did not run:\n{run.stdout[-1000:]}{run.stderr[-1000:]}")
    failed = re.findall(r"^ *\d+/\d+ (?:\S+ / )?(\S+) +(?:FAIL|TIMEOUT|ERROR)", run.stdout, re.M)
    return ", ".join(dict.fromkeys(failed))


# Checks that run before the tests. Key: folder of the file that the mutant changes. For other folders, only `sim` runs. lib/verbs
# has no `sim`, because the simulator does not use lib/verbs.
ORACLES = {"cm": {"storm": by_storm, "sim": by_sim}, "verbs": {"fuzz": by_corpus}}


def judge(mutant: Mutant, seeds: int) -> tuple[str, str]:
    """Returns the check that detects the mutant, and its message. "compiler": the mutant does not compile. "nobody": no check
    detects it."""
    path = COPY / mutant.file
    whole = path.read_text()
    path.write_text(mutant.apply(whole))
    try:
        problem = ninja(PROGRAMS)
        if problem:
            return "compiler", problem
        oracles = ORACLES.get(pathlib.PurePath(mutant.file).parent.name, {"sim": by_sim})
        for name, oracle in oracles.items():
            said = oracle(seeds)
            if said:
                return name, said
        said = by_tests()
        return ("tests", said) if said else ("nobody", "")
    finally:
        path.write_text(whole)


def tell_rules(complaints: list[str]) -> list[str]:
    """Prints how many mutants broke each rule. Returns the rules that no mutant broke."""
    rules = mutants_rules.broken(ROOT, complaints)
    print("rules of the oracle, and how many mutants broke each:")
    for rule, count in rules.items():
        print(f"  {count or 'none':>4}  {rule}")
    return [rule for rule, count in rules.items() if count == 0]


def run_all(mutants: list[Mutant], seeds: int, record: bool, whole: bool) -> int:
    bad: list[str] = []
    noticed: dict[str, tuple[str, str]] = {}
    begin = time.monotonic()
    setup()
    problem = ninja(PROGRAMS)
    said = problem or by_sim(seeds) or by_storm(seeds) or by_corpus(seeds) or by_tests()
    if said:
        print(f"without any mutant: {said}")
        return 1
    for mutant in mutants:
        who, said = judge(mutant, seeds)
        noticed[mutant.mutant] = who, said
        weaker = who == "tests" and mutant.by != "tests"
        if weaker or who in ("nobody", "compiler"):
            bad.append(mutant.mutant)
        note = f"  MUST BE {mutant.by}" if weaker else ""
        print(f"{who:<8} {mutant.file.removeprefix('lib/'):<22} {mutant.mutant}: {said}{note}",
              flush=True)
    whose = [who for who, _ in noticed.values()]
    print(", ".join(f"{whose.count(who)} by {who}" for who in sorted(set(whose))) +
          f"; {len(mutants)} mutants in {time.monotonic() - begin:.0f} s")
    unbroken = tell_rules([said for who, said in noticed.values() if who in ("sim", "storm")])
    if whole:  # a run with only some mutants does not break all rules
        bad += [f"no mutant breaks \"{rule}\"" for rule in unbroken]
    if record:
        mutants_results.record(ROOT, noticed)
        print(f"{mutants_results.RESULTS} is written; now tools/conformance --write")
    for name in bad:
        print(f"to mend: {name}")
    return 1 if bad else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only check that each mutant applies to the code, without a build")
    parser.add_argument("--seeds", type=int, default=600, help="seeds that the simulator runs for each mutant (default 600)")
    parser.add_argument("--record", action="store_true", help="also write the results to tests/mutants/oracle.results")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only mutants with one of these words in their title or file name")
    options = parser.parse_intermixed_args()
    os.chdir(ROOT)
    mutants = [m for table in sorted(TABLES.glob("*.txt")) for m in read_table(table)]
    wrong = check(mutants)
    if options.check or wrong:
        return wrong
    chosen = [m for m in mutants
              if not options.words or any(w in m.mutant or w in m.file for w in options.words)]
    return run_all(chosen, options.seeds, options.record, not options.words)


if __name__ == "__main__":
    sys.exit(main())
