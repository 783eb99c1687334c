# SPDX-License-Identifier: BSD-3-Clause
"""Parses the texts of `uroce --help` and `uroce COMMAND --help`, from which the manual pages and the completions are made."""
import dataclasses
import re
import subprocess

OPTION = re.compile(r"(?:-(?P<short>\w))?(?:, )?(?:--(?P<long>[\w-]+))?(?P<optional>\[)?[ =]?(?P<value>[A-Z][A-Z=]*)?\]?$")
NAMES = re.compile(r"\b[A-Z]{2,}\b(?!\.)")
NOT_ARGUMENTS = {"OPTIONS", "ARGUMENTS", "COMMAND"}


@dataclasses.dataclass
class Option:
    term: str  # as the help has it: "-p, --pid PID", or an argument such as "FILE"
    text: str

    def parts(self) -> dict[str, str | None]:
        """Returns the parts of an option: short, long, value and optional. Returns an empty map for an argument without a dash."""
        found = OPTION.fullmatch(self.term) if self.term.startswith("-") else None
        return found.groupdict() if found else {}


@dataclasses.dataclass
class Command:
    name: str
    summary: str
    usage: list[str] = dataclasses.field(default_factory=list)
    description: list[str] = dataclasses.field(default_factory=list)  # paragraphs
    options: list[Option] = dataclasses.field(default_factory=list)
    examples: list[str] = dataclasses.field(default_factory=list)
    exit_status: str = ""

    def arguments(self) -> list[str]:
        """Returns the names of the arguments that are not values of options: FILE, PROGRAM."""
        text = " ".join(self.usage)
        values = {option.parts().get("value") for option in self.options}
        for value in values - {None}:
            text = re.sub(rf"--?[\w-]+ {value}\b", "", text)
        return [name for name in dict.fromkeys(NAMES.findall(text)) if name not in NOT_ARGUMENTS]


def read_options(lines: list[str]) -> list[Option]:
    """Reads lines of two columns. The line of --help shows in which column the texts begin."""
    last = next(line for line in lines if line.lstrip().startswith("-h, --help"))
    column = last.index("print this help")
    found: list[Option] = []
    for line in lines:
        term, text = line[:column].strip(), line[column:].strip()
        if term:
            found.append(Option(term, text))
        else:
            found[-1].text += " " + text
    return found


def read_command(name: str, summary: str, text: str) -> Command:
    command = Command(name, summary)
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("Usage: "):
            command.usage = [line[len("Usage: "):].strip() for line in lines]
        elif lines[0] == "Examples:":
            command.examples = [line.strip() for line in lines[1:]]
        elif lines[0].startswith("Exit status: "):
            command.exit_status = " ".join(lines)[len("Exit status: "):]
        elif any(line.lstrip().startswith("-h, --help") for line in lines):
            command.options = read_options([line for line in lines if line != "OPTIONS:"])
        else:
            command.description.append(" ".join(lines))
    return command


def call(uroce: list[str], *arguments: str) -> str:
    """Returns the output of `uroce ARGUMENTS`, or nothing if this build does not have the command."""
    run = subprocess.run([*uroce, *arguments], capture_output=True, text=True, check=False)
    return run.stdout if run.returncode == 0 else ""


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments before "--", and the command after it: `uroce`, in a cross build with an emulator before it."""
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1:]


def read(uroce: list[str]) -> tuple[Command, list[Command]]:
    """Returns the program as a command, and its commands. @uroce runs it."""
    text = call(uroce, "--help")
    program = Command("uroce", "RDMA programs over RoCEv2 without an RDMA network card")
    commands = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        if lines[0].startswith("Usage: "):
            program.usage = [line[len("Usage: "):].strip() for line in lines]
        elif lines[0].startswith("COMMAND is"):
            for name, summary in (line.split(maxsplit=1) for line in lines[1:]):
                help_text = call(uroce, name, "--help") if name != "version" else ""
                commands.append(read_command(name, summary, help_text))
        else:
            program.description.append(" ".join(lines))
    return program, commands
