# SPDX-License-Identifier: BSD-3-Clause
"""Writes the texts of the built-in cards as a C table.   gen_cards.py OUTPUT CARD..."""
import pathlib
import sys


def quoted(line: str) -> str:
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def main() -> None:
    output, *cards = sys.argv[1:]
    lines = ["/* Made by gen_cards.py. */", '#include "config/card.h"', "", "const struct uro_card_text uro_card_texts[] = {"]
    for path in sorted(map(pathlib.Path, cards), key=lambda path: path.stem):
        lines.append(f'    {{ "{path.stem}",')
        lines += ["      " + quoted(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines.append("    },")
    lines += ["};", f"const unsigned uro_card_text_count = {len(cards)};", ""]
    pathlib.Path(output).write_text("\n".join(lines), encoding="utf-8")


main()
