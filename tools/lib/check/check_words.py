#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if code has a word, for example a function name, that is not allowed in its folder. Each message names the replacement."""
import re
import sys

import sources

PURE = r"lib/(base|wire|impair|core|cm|engine)/"
CALL = r"(?<![\w.>])(?:%s)\s*\("

# (words, files that are checked, exceptions among these files, what to do instead). The files are regular expressions for the path
# from the root. Comments and strings are not checked.
CODE_RULES = [
    (CALL % r"malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|strdup|alloca",
     PURE, None, "memory is an argument here: uro_x_size() and uro_x_init(memory)"),
    (CALL % r"printf|vprintf|puts|putchar|perror",
     r"lib/", None, "a library does not print: a counter, an error string, or snprintf"),
    (CALL % r"fprintf|vfprintf|dprintf|fputs|fputc|fwrite",
     r"lib/", r"lib/(host|abi|io/(memif|packet|pcap|sim|udp))/|lib/(ucma/attach|io/dpdk/xdp_socket)\.c",
     "a library does not print: a counter, an error string, or snprintf"),
    (CALL % r"hton[sl]|ntoh[sl]|htobe\d+|be\d+toh|htole\d+|le\d+toh|bswap_\d+|__builtin_bswap\d+",
     r"(lib|app)/", r"lib/wire/bytes\.h", "uro_get_be16() or a similar function of wire/bytes.h"),
    (CALL % r"clock_gettime|gettimeofday|time|clock|__?rdtsc|rte_rdtsc\w*|rte_get_\w*cycles",
     r"lib/", r"lib/host/clock\.[ch]|lib/io/(memif/control|cable/port)\.c|lib/paths/wait_calls\.c",
     "time is an argument; uro_device_now() reads the clock"),
    (CALL % r"rand|srand|rand_r|random|srandom|[del]rand48",
     r"(lib|app|tests)/", None, "uro_rng_u32() of base/rng.h, with a seed that is printed"),
    (CALL % r"getrandom|getentropy",
     r"lib/", r"lib/host/", "randomness is seeded by the host: base/rng.h"),
    (CALL % r"sprintf|vsprintf|strcpy|strcat|strncpy|strncat|gets|strtok|atoi|atol|atof",
     r"(lib|app|tests)/", None, "snprintf, memcpy with a known length, or strtoul with its checks"),
    (r"(?<!asm )(?<!__asm__ )\bvolatile\b",
     r"lib/", None, "_Atomic with a stated memory order"),
    (r"\bpacked\b|#\s*pragma\s+pack",
     r"(lib|app|include)/", None, "offsets and uro_get/uro_put of wire/bytes.h"),
    (r"__attribute__",
     r"(lib|app)/", r"lib/base/(defs\.h|crc32_(arm64|sparse|x86)\.c)|lib/(abi|embed|verbs|ucma|paths|io/(dpdk|memif|packet|udp))/",
     "a macro of base/defs.h"),
    (r"^\s+(?:unsigned|u?int\d*_t|int|bool)\s+\w+\s*:\s*\d+\s*;",
     r"(lib|include)/", None, "a plain field; only wire/ splits bytes into bit fields"),
    (r"\(\s*(?:const\s+)?struct\s+\w+\s*\*\s*\)\s*&?(?:\w+(?:->|\.))*"
     r"(?:octets|payload|body|network|head)\b(?!\()",
     r"lib/", None, "decode with wire/: packet memory is octets, never a struct"),
    (r"#\s*include\s*<cmocka\.h>",
     r"tests/", r"tests/support/check\.h", '#include "support/check.h"'),
    (r"#\s*include\s*<rte_",
     r"(lib|app|tests)/", r"lib/io/dpdk/|tests/", "only lib/io/dpdk uses DPDK: engine/port.h"),
]
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(\w[\w .-]*, \d{4}-\d\d-\d\d\))")
SPDX = "SPDX-License-Identifier: BSD-3-Clause"
FIRST_SENTENCE = re.compile(r"\A/\* SPDX[^\n]*\*/\n/\*\*? ?\n? ?\*? ?\w[\w./-]* - \S")


def check_start(report: sources.Report, rel: str, text: str) -> None:
    if SPDX not in "\n".join(text.split("\n", 3)[:3]):
        report.add(rel, 1, f"the first lines must hold {SPDX}")
    elif rel.endswith((".c", ".h")) and not rel.startswith("tests/") \
            and not FIRST_SENTENCE.match(text):
        report.add(rel, 2, 'the second line must begin with "/* NAME - " and say in one sentence what the file is for')


def check_code(report: sources.Report, rel: str, text: str, rules: list) -> None:
    code = sources.code_only(text)
    for words, where, right, instead in rules:
        if not where.match(rel) or (right and right.match(rel)):
            continue
        for match in words.finditer(code):
            word = match.group(0).strip().rstrip("(")
            report.add(rel, sources.line_of(code, match.start() + len(match.group(0))
                                            - len(match.group(0).lstrip())),
                       f"{word}: write instead {instead}")


def check_todo(report: sources.Report, rel: str, text: str) -> None:
    for match in TODO.finditer(text):
        report.add(rel, sources.line_of(text, match.start()),
                   f"{match.group(1)} needs a name and a date: {match.group(1)}(name, 2026-01-31)")


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    rules = [(re.compile(words, re.M), re.compile(where), right and re.compile(right), instead)
             for words, where, right, instead in CODE_RULES]
    for path in sources.files(root, "*.c", "*.h", "*.py", "*.build"):
        rel = path.relative_to(root).as_posix()
        if not rel.startswith(("lib/", "app/", "tests/", "tools/", "include/")):
            continue
        text = path.read_text()
        if rel.endswith((".c", ".h")):
            check_code(report, rel, text, rules)
        if not rel.endswith(".build"):
            check_start(report, rel, text)
        if not rel.endswith(("check_words.py", "tidy/test_checks.py")):
            check_todo(report, rel, text)
    return report.finish("words")


if __name__ == "__main__":
    sys.exit(main())
