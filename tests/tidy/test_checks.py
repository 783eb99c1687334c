#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the checks can fail. Each case adds one violation to a small clean tree."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
C = "/* SPDX-License-Identifier: BSD-3-Clause */\n/* {name} - a sample. */\n"
PY = "# SPDX-License-Identifier: BSD-3-Clause\n"
HEAD = "# Protocol\n\n"
MEASURED = "# script | rxe 6.1 | rxe 6.12\n"
DONE = HEAD + "- **RSP.A**: a rule [here]\n"
OPEN = HEAD + "- **RSP.A**: a rule (open: nobody needs it) [here]\n"
MARK = C.format(name="a.c") + 'void f(void)\n{\n    URO_MARK("RSP.A");\n}\n'
ASK = C.format(name="test_a.c") + 'void f(void)\n{\n    assert_true(uro_mark_hit("RSP.A"));\n}\n'
ENGINE = C.format(name="test_engine.c") + 'static const char *const unmarked[] = {\n    "RSP.B",\n};\n'
LONG = "void f(void)\n{\n" + "    g();\n" * 61 + "}\n"


def c(body: str, name: str = "a.c") -> str:
    return C.format(name=name) + body


# The clean tree, on which every check passes
CLEAN = {
    "docs/PROTOCOL.md": OPEN,
    "tests/interop/rxe-scripts.txt": MEASURED + "a | nothing comes | holds\n",
    "tests/interop/rxe-rules.txt": "# rule | rxe 6.1 | rxe 6.12\nRSP.A | differs: so [measured] | same [measured]\n",
    "tests/peer/a.peer": "title a script\nrule RSP.A\n",
    "README.md": "# Sample\n\nSee [the protocol](docs/PROTOCOL.md#protocol) and `lib/core/a.c`.\n",
    "lib/core/a.c": c('#include "base/a.h"\n\n/* malloc() may be named here */\n'),
    "lib/base/a.h": c("#pragma once\n\n#include <stdint.h>\n\nuint8_t f(void);\n", "a.h"),
    "include/uroce/a.h": c("#pragma once\n\nint uro_a(void);\n", "a.h"),
    "tests/unit/core/test_a.c": "/* SPDX-License-Identifier: BSD-3-Clause */\nint main(void);\n",
    "tools/a": "#!/usr/bin/env bash\n# SPDX-License-Identifier: BSD-3-Clause\nset -eu\n",
    "tests/tidy/standard-terms.txt": "# head\na\n",
    "docs/GLOSSARY.md": "# Words\n\n- **odd, odds**: strange.\n",
    "tools/a.py": PY + "print('a')\n",
}

# (the check, {file: text with a violation}, text that the finding must contain)
CASES = [
    ("check_keys.py", {"lib/config/a.c": c('{ "window", set_window }\n')}, "key or option window of lib/config/a.c"),
    ("check_keys.py", {"lib/io/udp/a.c": c('{ "iface", "name" },\n')}, "key or option iface of"),
    ("check_keys.py", {"lib/config/card.h": c('X(A, "max_a", 0, 1)\n')}, "key or option max_a of lib/config/card.h"),
    ("check_keys.py", {"lib/core/a.h": c('/* vendor_err */\nX(NONE, "no reason")\nX(A, "a reason")\n')}, '"1 a reason"'),
    ("check_messages.py", {"lib/host/a.c": c('const char *a = "somebody has " /* who */ "the port";\n')}, '"somebody" in a message'),
    ("check_layers.py", {"lib/base/a.c": c('#include "core/qp.h"\n')}, "layer base may not"),
    ("check_layers.py", {"lib/wire/a.c": c("#include <stdlib.h>\n")}, "layer wire may not"),
    ("check_layers.py", {"lib/host/a.c": c("#include <rte_mbuf.h>\n")}, "layer host may not"),
    ("check_layers.py", {"lib/core/b.c": c("#include <infiniband/verbs.h>\n")}, "layer core may"),
    ("check_layers.py", {"lib/base/b.c": c("#include <immintrin.h>\n")}, "layer base may not"),
    ("check_layers.py", {"lib/new/a.c": c("")}, "belongs to no layer"),
    ("check_private_includes.py", {"tests/scenario/a.c": c('#include "core/qp.h"\n')}, "core/qp.h is private"),
    ("check_private_includes.py", {"tests/tidy/private-includes.txt": "lib/sim core/qp.h\n"}, "does not include core/qp.h any more"),
    ("check_sizes.py", {"lib/core/a.c": c("int a;\n" * 800)}, "at most 800"),
    ("check_sizes.py", {"lib/core/a.h": c("int a;\n" * 500)}, "at most 500"),
    ("check_sizes.py", {"tools/b.py": PY + "a = 1\n" * 500}, "at most 500"),
    ("check_sizes.py", {"lib/core/a.c": c(LONG)}, "f has 61 lines"),
    ("check_words.py", {"lib/core/a.c": c("int *p = malloc(4);\n")}, "memory is an argument"),
    ("check_words.py", {"lib/engine/a.c": c("void f(void *p)\n{\n    free(p);\n}\n")}, "a.c:5: free"),
    ("check_words.py", {"lib/verbs/a.c": c('void f(void)\n{\n    printf("a");\n}\n')}, "printf"),
    ("check_words.py", {"lib/core/a.c": c("int a = htons(4);\n")}, "uro_get_be16"),
    ("check_words.py", {"lib/core/a.c": c("int a = clock_gettime(0, 0);\n")}, "time is an arg"),
    ("check_words.py", {"lib/host/a.c": c("int a = __rdtsc();\n")}, "time is an argument"),
    ("check_words.py", {"tests/a.c": c("int a = rand();\n")}, "uro_rng_u32"),
    ("check_words.py", {"lib/core/a.c": c("int a = getrandom(0, 0, 0);\n")}, "seeded by the host"),
    ("check_words.py", {"lib/host/a.c": c("volatile int a;\n")}, "_Atomic"),
    ("check_words.py", {"lib/wire/a.h": c("struct __attribute__((packed)) a;\n")}, "packed"),
    ("check_words.py", {"lib/wire/a.h": c("#pragma pack(1)\n")}, "pragma pack"),
    ("check_words.py", {"lib/wire/a.h": c("struct a {\n    uint8_t b : 4;\n};\n")}, "plain field"),
    ("check_words.py", {"lib/core/a.c": c("int *p = (struct bth *)pkt->octets;\n")}, "never a str"),
    ("check_words.py", {"app/a.c": c("int a = atoi(b);\n")}, "strtoul"),
    ("check_words.py", {"tests/a.c": c("#include <cmocka.h>\n")}, "support/check.h"),
    ("check_words.py", {"app/a.c": c("#include <rte_eal.h>\n")}, "only lib/io/dpdk"),
    ("check_words.py", {"lib/core/a.c": c("/* TODO later */\n")}, "a name and a date"),
    ("check_words.py", {"lib/core/a.c": "int a;\n"}, "SPDX"),
    ("check_words.py", {"lib/core/a.c": "/* SPDX-License-Identifier: BSD-3-Clause */\nint a;\n"},
     "what the file is for"),
    ("check_words.py", {"tools/b.py": "a = 1\n"}, "SPDX"),
    ("check_headers.py", {"lib/base/a.h": c("#pragma once\nuint8_t f(void);\n")}, "compile alone"),
    ("check_headers.py", {"lib/sim/a.h": c("#pragma once\nuint8_t f(void);\n")}, "lib/sim"),
    ("check_headers.py --cxx", {"include/uroce/a.h": c("#pragma once\nint f(int class);\n")},
     "as C++"),
    ("check_conformance.py", {"docs/PROTOCOL.md": DONE}, 'no URO_MARK("RSP.A")'),
    ("check_conformance.py", {"docs/PROTOCOL.md": DONE, "lib/core/a.c": MARK}, "no test asserts that its line ran"),
    ("check_conformance.py", {"docs/PROTOCOL.md": DONE, "lib/core/a.c": MARK,
                              "tests/peer/test_engine.c": ENGINE.replace("RSP.B", "RSP.A")}, "no test asserts that its line ran"),
    ("check_conformance.py", {"tests/unit/core/test_a.c": ASK}, "no line of lib/ has this mark"),
    ("check_conformance.py", {"lib/core/a.c": MARK.replace("RSP.A", "RSP.B")}, "has no row"),
    ("check_conformance.py", {"docs/PROTOCOL.md": OPEN + "- **RSP.B**: no source\n"},
     "a rule is"),
    ("check_conformance.py", {"docs/PROTOCOL.md": OPEN + OPEN.splitlines()[-1] + "\n"}, "twice"),
    ("check_conformance.py", {"docs/PROTOCOL.md": OPEN + "- **B01**: a bug\n"}, "no test is below"),
    ("check_conformance.py", {"docs/PROTOCOL.md": OPEN + "- **B01**: a bug\n",
                              "tests/unit/core/test_a.c": "/* bug B01: text */\nint a;\n"}, "no test is below"),
    ("check_conformance.py", {"tests/peer/a.peer": "title a script\nrule RSP.A\n# bug B02\n"}, "B02 has no row"),
    ("check_conformance.py", {"docs/PROTOCOL.md": OPEN.replace("(open: nobody needs it)", "(open)")},
     "(open: why)"),
    ("check_conformance.py", {"docs/PROTOCOL.md": OPEN.replace("RSP.A", "NEW.A")}, "in no family"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "RSP.A | differs | same [measured]\n"}, "a line is"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "RSP.A | same | same [measured]\n"}, "a line is"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "RSP.A | same [measured]\n"}, "a line is"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": 2 * "RSP.A | not known | not known\n"}, "has two lines"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "RSP.B | not known | not known\n"}, "RSP.B is not a rule"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "RSP.A | same [source] | same [source]\n"},
     "rxe 6.1 differs in the script a; say how"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": ""}, "rxe 6.1 differs in the script a; say how"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "RSP.A | differs: so [measured] | not known\n"},
     "rxe played the script a, so do not write"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "RSP.A | same [source] | same [source]\n",
                              "tests/interop/rxe-scripts.txt": MEASURED + "a | holds | holds\n"},
     "already shows that rxe keeps the rule"),
    ("check_conformance.py", {"tests/interop/rxe-rules.txt": "", "tests/interop/rxe-scripts.txt": MEASURED},
     "add a line about rxe"),
    ("check_conformance.py", {"tests/peer/a.peer": "title a script\nrule RSP.B\n"},
     "tests/peer/a.peer: RSP.B is not a rule"),
    ("check_links.py", {"README.md": "[a](docs/GONE.md)\n"}, "no such file"),
    ("check_links.py", {"README.md": "[a](docs/PROTOCOL.md#gone)\n"}, "no such heading"),
    ("check_links.py", {"README.md": "Read `lib/core/gone.c`.\n"}, "no such file"),
    ("check_links.py", {"README.md": "[a](../)\n"}, "outside the project"),
    ("check_scripts.py", {"tools/README.md": "| `a` | does it |\n"}, "a.py has no row"),
    ("check_scripts.py", {"tools/README.md": "| `a` | |\n| `a.py` | |\n| `b` | |\n"}, "b: no such command"),
    ("check_scripts.py", {"tools/a.py": PY + "def f(:\n"}, "Python"),
    ("check_scripts.py", {"tools/a": "#!/bin/sh\nset -eu\nif true; then\n"}, "sh:"),
    ("check_scripts.py", {"tools/a": "#!/bin/sh\ntrue\n"}, "set -eu"),
    ("check_scripts.py", {"tools/a": "#!/bin/sh\nset -eu\n/usr/bin/python3 x\ntools/setup-packages demo\n"}, "runs python3 before"),
    ("check_glossary.py", {"lib/core/a_new.c": c("")}, 'lib/core/a_new.c: "new" is in neither docs/GLOSSARY.md nor'),
    ("check_glossary.py", {"docs/GLOSSARY.md": "- **a**: the letter.\n"}, "a: docs/GLOSSARY.md defines it, too"),
    ("format --check", {"lib/core/a.c": c("int  a ;\n")}, "not laid out"),
]


def write_tree(top: pathlib.Path, tree: dict[str, str]) -> None:
    for name, text in tree.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if text.startswith("#!"):
            path.chmod(0o755)


def run_check(check: str, top: pathlib.Path) -> tuple[int, str]:
    name, *options = check.split()
    folder = {"check_conformance.py": "lib/conformance", "format": "."}.get(name, "lib/check")
    tool = ROOT / "tools" / folder / name
    command = [sys.executable, str(tool)] if name.endswith(".py") else [str(tool)]
    run = subprocess.run([*command, *options, str(top)], capture_output=True, text=True,
                         env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, check=False)
    return run.returncode, run.stdout + run.stderr


def judge(check: str, tree: dict[str, str], message: str | None) -> str:
    """Returns "" if the check behaves as expected, else the error."""
    with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as name:
        top = pathlib.Path(name)
        write_tree(top, CLEAN)
        shutil.copy(ROOT / ".clang-format", top)
        write_tree(top, tree)
        status, output = run_check(check, top)
    if status == 77:
        return "SKIP"
    if message is None:
        return "" if status == 0 else f"refuses the clean tree: {output}"
    if status != 1:
        return f"exit {status}, not 1: {output}"
    return "" if message in output else f"does not print '{message}': {output}"


def main() -> int:
    checks = list(dict.fromkeys(check for check, _, _ in CASES))
    cases = [(check, {}, None) for check in checks] + CASES
    failed = 0
    print(f"1..{len(cases)}")
    for number, (check, tree, message) in enumerate(cases, 1):
        problem = judge(check, tree, message)
        skip = " # SKIP its tool is not installed" if problem == "SKIP" else ""
        bad = bool(problem) and not skip
        failed += bad
        about = f"complains: {message}" if message else "passes a clean tree"
        print(f"{'not ok' if bad else 'ok'} {number} - {check} {about}{skip}".replace("#!", "#"))
        if bad:
            print("\n".join("# " + line for line in problem.splitlines()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
