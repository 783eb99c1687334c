#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the completions of `uroce` for a shell, from its help.

    gen_completions.py bash|zsh|fish OUT -- UROCE
"""
import pathlib
import sys

import help_text
from help_text import Command

KINDS = {"FILE": "file", "SCRIPT": "file", "DIRECTORY": "directory", "PROGRAM": "program"}
ORIGIN = "# Completions of uroce, made from `uroce COMMAND --help` when uroce was built.\n"


def flags(command: Command) -> list[tuple[list[str], str, bool, str]]:
    """Returns for each option its spellings, the name of its value or nothing, whether the value may be missing, and its text."""
    found = []
    for option in command.options:
        parts = option.parts()
        spellings = [f"-{parts['short']}"] if parts.get("short") else []
        spellings += [f"--{parts['long']}"] if parts.get("long") else []
        if spellings:
            found.append((spellings, parts["value"] or "", bool(parts["optional"]), option.text))
    return found


def kind_of_argument(command: Command) -> str:
    return next((KINDS[name] for name in command.arguments() if name in KINDS), "")


# ---- bash -------------------------------------------------------------------------------------------------------------------

BASH = r"""
_uroce_files() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen "$1" -- "$cur"); }

# Completes the words of a program of `uroce run`, which begins at word $1.
_uroce_program() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif [ "$COMP_CWORD" -eq "$1" ]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
        _uroce_files -f
    fi
}

_uroce() {
    local cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} at=2
    local options='' files='' directories='' values='' rest=''

    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W '@COMMANDS@ help --help --version' -- "$cur")
        return
    fi
    case ${COMP_WORDS[1]} in
@CASES@
    *) return ;;
    esac
    if [ "$rest" = program ]; then
        while [ "$at" -lt "$COMP_CWORD" ] && [[ ${COMP_WORDS[at]} == -?* ]]; do
            [ "${COMP_WORDS[at]}" != -- ] || { at=$((at + 1)); break; }
            [[ "$values $files $directories " != *" ${COMP_WORDS[at]} "* ]] || at=$((at + 1))
            at=$((at + 1))
        done
        if [ "$at" -lt "$COMP_CWORD" ] || { [ "$at" -eq "$COMP_CWORD" ] && [[ $cur != -* ]]; }; then
            _uroce_program "$at"
            return
        fi
    fi
    if [[ " $files " == *" $before "* ]]; then
        _uroce_files -f
    elif [[ " $directories " == *" $before "* ]]; then
        _uroce_files -d
    elif [[ " $values " == *" $before "* ]]; then
        return
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
    elif [ "$rest" = file ]; then
        _uroce_files -f
    fi
}
complete -F _uroce uroce
"""


def bash(commands: list[Command]) -> str:
    cases = []
    for command in commands:
        lists: dict[str, list[str]] = {"options": [], "files": [], "directories": [], "values": []}
        for spellings, value, optional, _ in flags(command):
            lists["options"] += spellings
            if value and not optional:
                lists[{"file": "files", "directory": "directories"}.get(KINDS.get(value, ""), "values")] += spellings
        words = " ".join(f"{name}='{' '.join(names)}'" for name, names in lists.items() if names)
        cases.append(f"    {command.name}) {words} rest='{kind_of_argument(command)}' ;;")
    return BASH.replace("@COMMANDS@", " ".join(command.name for command in commands)).replace("@CASES@", "\n".join(cases))


# ---- zsh --------------------------------------------------------------------------------------------------------------------

ZSH = {"file": "_files", "directory": "_files -/", "program": "_normal"}


def zsh_text(text: str) -> str:
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh(commands: list[Command]) -> str:
    names = "\n".join(f"        '{command.name}:{zsh_text(command.summary)}'" for command in commands)
    cases = []
    for command in commands:
        words = []
        for spellings, value, optional, text in flags(command):
            action = f":{':' if optional else ''}{value}:{ZSH.get(KINDS.get(value, ''), ' ')}" if value else ""
            for spelling in spellings:
                equals = "=-" if optional and spelling.startswith("--") else "-" if optional else ""
                words.append(f"'{spelling}{equals}[{zsh_text(text)}]{action}'")
        rest = kind_of_argument(command)
        if rest:
            words.append(f"'*::{command.arguments()[0]}:{ZSH[rest]}'" if rest == "program" else f"'*:FILE:{ZSH[rest]}'")
        cases.append(f"    {command.name}) _arguments {' '.join(words)} ;;" if words else f"    {command.name}) ;;")
    return f"""
_uroce() {{
    local -a commands
    if (( CURRENT == 2 )); then
        commands=(
{names}
        )
        _describe -t commands 'uroce command' commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
""" + "\n".join(cases) + '\n    esac\n}\n_uroce "$@"\n'


# ---- fish -------------------------------------------------------------------------------------------------------------------

def fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(commands: list[Command]) -> str:
    lines = ["complete -c uroce -f"]
    for command in commands:
        lines.append(f"complete -c uroce -n __fish_use_subcommand -a {command.name} -d {fish_text(command.summary)}")
        here = f"complete -c uroce -n '__fish_seen_subcommand_from {command.name}'"
        for spellings, value, optional, text in flags(command):
            words = [("-l " + s[2:]) if s.startswith("--") else ("-s " + s[1:]) for s in spellings]
            if value and not optional:
                words.append({"file": "-rF", "directory": "-xa '(__fish_complete_directories)'"}.get(KINDS.get(value, ""), "-x"))
            lines.append(f"{here} {' '.join(words)} -d {fish_text(text)}")
        rest = kind_of_argument(command)
        if rest == "file":
            lines.append(f"{here} -F")
        elif rest == "program":
            lines.append(f"{here} -xa '(__fish_complete_subcommand --fcs-skip=2)'")
    return "\n".join(lines) + "\n"


def main() -> int:
    (shell, out), uroce = help_text.split(sys.argv[1:])
    _, commands = help_text.read(uroce)
    first = "#compdef uroce\n" if shell == "zsh" else ""
    pathlib.Path(out).write_text(first + ORIGIN + {"bash": bash, "zsh": zsh, "fish": fish}[shell](commands))
    return 0


if __name__ == "__main__":
    sys.exit(main())
