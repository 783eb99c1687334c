#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the environment variables that `uroce run` sets, and the output of `uroce run` and `uroce devices`. Writes TAP.

    test_uroce.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import uroce_case
from uroce_case import LEFT, LIBRARY, LINKS, PATHS, PLUGIN, Case, Skip, equal, has

NOBODY = 65534
TOP = "liburoce-top.so"
WRONG = "wrong:net_null0;mtu=12"


# ---- run --------------------------------------------------------------------

def run__devices__are_one_line(case: Case) -> None:
    found = case.environment("--device", LEFT, "-d", "b:net_null0")
    equal(found["UROCE_DEVICES"], f"{LEFT} b:net_null0")


def run__device__overrides_the_environment(case: Case) -> None:
    found = case.environment("-d", LEFT, UROCE_DEVICES="old:net_null0")
    equal(found["UROCE_DEVICES"], LEFT)


def run__no_option__leaves_the_configuration_alone(case: Case) -> None:
    found = case.environment(UROCE_DEVICES="old:net_null0", UROCE_CONFIG="/some/where")
    equal((found["UROCE_DEVICES"], found["UROCE_CONFIG"]), ("old:net_null0", "/some/where"))


def run__config__is_an_absolute_path_and_the_only_source(case: Case) -> None:
    file = case.scratch / "a.ini"
    file.write_text("[a]\nlink=net_null0\n")
    found = case.environment("--config", os.path.relpath(file), UROCE_DEVICES="old:net_null0")
    equal(found["UROCE_CONFIG"], str(file.resolve()))
    assert "UROCE_DEVICES" not in found


def run__devices_and_config__are_refused_together(case: Case) -> None:
    file = case.scratch / "a.ini"
    file.write_text("[a]\nlink=net_null0\n")
    run = case.call("run", "-c", file, "-d", LEFT, "true")
    equal((run.returncode, run.stderr), (2, "uroce run: --device and --config exclude each other; see `uroce run --help`\n"))


def run__wrong_device__error_names_the_option(case: Case) -> None:
    case.environment()
    for command in ("run", "peer"):
        more = ("true",) if command == "run" else ("--peer", "10.0.0.1", "/dev/null")
        run = case.call(command, "-d", LEFT, "-d", WRONG, *more)
        equal((run.returncode, run.stdout), (2, ""))
        has(run.stderr, f"uroce {command}: --device 2 (wrong): mtu=12: must be a number from 576 to 9600\n")
        for spec in (f"{LEFT};pcap=/tmp/a b.pcap", f"{LEFT}; seed = 5", f"{LEFT} b:net_null0"):
            run = case.call(command, "-d", spec, *more)
            equal((run.returncode, run.stderr.count("\n")), (2, 1), run.stderr)
            has(run.stderr, f"uroce {command}: --device '{spec}': a space separates devices")


def run__configuration_without_a_device__is_reported(case: Case) -> None:
    case.environment()
    file = case.scratch / "a.ini"
    for content in (b"", "[a]\nlink=net_null0\n".encode("utf-16")):
        file.write_bytes(content)
        file.chmod(0o644)
        for source, setting in (("UROCE_CONFIG", str(file)), ("UROCE_DEVICES", "*;max_qp=10")):
            run = case.call("devices", **{source: setting})
            equal((run.returncode, run.stdout, run.stderr), (1, "", f"uroce devices: {source} names no device; see docs/CONFIGURATION.md\n"))
            run = case.call("run", "true", **{source: setting})
            equal((run.returncode, run.stderr), (0, f"uroce run: {source} names no device; see docs/CONFIGURATION.md\n"))
            has(case.call("info", **{source: setting}).stdout, f"{source} names no device")


def run__config_absent__fails_at_once(case: Case) -> None:
    run = case.call("run", "--config", "/no/such.ini", "--", "true")
    equal(run.returncode, 2)
    equal(run.stderr, "uroce run: --config /no/such.ini: No such file or directory\n")


def run__config_is_a_symbolic_link__is_not_followed(case: Case) -> None:
    file, link = case.scratch / "a.ini", case.scratch / "link.ini"
    file.write_text("[a]\nlink=net_null0\n")
    link.symlink_to(file)
    found = case.environment("--config", link)
    equal(found["UROCE_CONFIG"], str(link))
    run = case.call("devices", UROCE_CONFIG=str(link))
    equal(run.returncode, 1)
    has(run.stdout, "is a symbolic link; name the file itself")


def run__library__is_preloaded_and_found_by_name(case: Case) -> None:
    found = case.environment("-d", LEFT)
    where = (case.build / "lib").resolve()
    equal(found["LD_LIBRARY_PATH"], str(where / "abi"))
    equal(found["LD_PRELOAD"], f"{where / 'paths' / PATHS} {where / 'abi' / LIBRARY}")


def run__no_paths__does_not_preload_the_paths_library(case: Case) -> None:
    found = case.environment("--no-paths", "-d", LEFT)
    equal(found["LD_PRELOAD"], str((case.build / "lib" / "abi" / LIBRARY).resolve()))
    assert "UROCE_TREE" not in found


def run__no_device__adds_a_device_over_udp(case: Case) -> None:
    found = case.environment()
    has(found["UROCE_DEVICES"], "uroce0:udp,ip=")
    assert os.path.isdir(f"{found['UROCE_TREE']}/class/infiniband/uroce0")
    has(case.environment(UROCE_DEVICES=" ")["UROCE_DEVICES"], "uroce0:udp,ip=")


def run__loader_variables__keep_their_values(case: Case) -> None:
    found = case.environment("-d", LEFT, LD_LIBRARY_PATH="/before", LD_PRELOAD="libm.so.6")
    where = (case.build / "lib").resolve()
    equal(found["LD_LIBRARY_PATH"], f"{where / 'abi'}:/before")
    equal(found["LD_PRELOAD"],
          f"{where / 'paths' / PATHS} {where / 'abi' / LIBRARY} libm.so.6")


def run__exit_status__is_that_of_the_program(case: Case) -> None:
    case.environment()
    equal(case.call("run", "--", "sh", "-c", "exit 7").returncode, 7)


def run__options_after_the_program__belong_to_the_program(case: Case) -> None:
    case.environment()
    run = case.call("run", "echo", "--config", "-d", "--help")
    equal((run.returncode, run.stdout), (0, "--config -d --help\n"))


def run__program_not_found__status_127(case: Case) -> None:
    case.environment()
    run = case.call("run", "--", "no-such-program")
    equal(run.returncode, 127)
    has(run.stderr, "uroce run: no-such-program: there is no such program in PATH\n")


def run__path_to_a_missing_file__PATH_is_not_searched(case: Case) -> None:
    case.environment()
    run = case.call("run", "--", "./no-such-program")
    equal(run.returncode, 127)
    has(run.stderr, "uroce run: ./no-such-program: No such file or directory\n")


def run__file_not_executable__status_126(case: Case) -> None:
    case.environment()
    file = case.scratch / "text"
    file.write_text("no program\n")
    equal(case.call("run", "--", file).returncode, 126)


def run__no_program__usage(case: Case) -> None:
    run = case.call("run", "-d", LEFT)
    equal(run.returncode, 2)
    equal(run.stderr, "uroce run: no program is given; name the PROGRAM to run; see `uroce run --help`\n")


def run__libraries_missing__error_has_the_reason(case: Case) -> None:
    lone = case.scratch / "uroce"
    shutil.copy(case.uroce, lone)
    run = case.call("run", "--", "true", uroce=lone)
    equal(run.returncode, 126)
    has(run.stderr, LIBRARY)


def run__library_path_with_a_space__error_has_the_reason(case: Case) -> None:
    tree = case.scratch / "a b"
    (tree / "app").mkdir(parents=True)
    (tree / "lib" / "abi").mkdir(parents=True)
    shutil.copy(case.build / "lib" / "abi" / LIBRARY, tree / "lib" / "abi")
    shutil.copy(case.uroce, tree / "app" / "uroce")
    run = case.call("run", "--", "true", uroce=tree / "app" / "uroce")
    equal(run.returncode, 126)
    has(run.stderr, "allows no space and no colon")


def copy_of(case: Case, program: str, *changes: tuple[bytes, bytes]) -> pathlib.Path:
    """Makes a copy of a program with some bytes changed. The copy need not run."""
    found = shutil.which(program)
    if found is None:
        raise Skip(f"{program} is not installed")
    octets = pathlib.Path(found).read_bytes()
    for before, after in changes:
        assert before in octets, f"no {before!r} in {found}"
        octets = octets.replace(before, after, 1)
    copy = case.scratch / program
    copy.write_bytes(octets)
    copy.chmod(0o755)
    return copy


def without_loader(case: Case) -> pathlib.Path:
    """Makes a copy of env in which no program header names a loader, as in a static program."""
    copy = copy_of(case, "env")
    octets = bytearray(copy.read_bytes())
    if octets[4] != 2:
        raise Skip("programs here are not of 64 bits")
    start, size, count = (*struct.unpack_from("=Q", octets, 32), *struct.unpack_from("=HH", octets, 54))
    for at in range(start, start + size * count, size):
        if struct.unpack_from("=I", octets, at)[0] == 3:  # PT_INTERP
            struct.pack_into("=I", octets, at, 0)
    copy.write_bytes(octets)
    return copy


def run__static_program__warning(case: Case) -> None:
    case.environment()
    program = without_loader(case)
    has(case.call("run", "-q", "-d", LEFT, "--", program).stderr,
        f"uroce run: WARNING: {program} is linked statically, so uroce cannot be loaded into it")
    run = case.call("run", "-d", LEFT, "--", program.name, PATH=f"/nowhere:{case.scratch}")
    has(run.stderr, f"{program} is linked statically")


def run__program_with_address_sanitizer__warning(case: Case) -> None:
    case.environment()
    program = copy_of(case, "ibv_devices", (b"\0libibverbs.so.1\0", b"\0libasan.so.8\0\0\0\0"))
    has(case.call("run", "-d", LEFT, "--", program).stderr,
        f"uroce run: WARNING: {program} is built with AddressSanitizer",
        "set ASAN_OPTIONS=verify_asan_link_order=0")
    run = case.call("run", "-d", LEFT, "--", program, ASAN_OPTIONS="a=1:verify_asan_link_order=0")
    assert "WARNING" not in run.stderr, run.stderr


def run__set_user_id_program__warning(case: Case) -> None:
    case.environment()
    if os.geteuid() != 0:
        raise Skip("only root can give a program to another user")
    program = copy_of(case, "true")
    for owner, group, mode, kind in ((NOBODY, 0, 0o4755, "set-user-ID"), (0, NOBODY, 0o2755, "set-group-ID")):
        os.chown(program, owner, group)
        program.chmod(mode)
        run = case.call("run", "-d", LEFT, "--", program)
        equal(run.returncode, 0, run.stderr)
        if os.statvfs(program).f_flag & os.ST_NOSUID:
            raise Skip(f"{case.scratch} is on a file system without set-user-ID")
        has(run.stderr, f"uroce run: WARNING: {program} is {kind}, so the system does not load uroce into it")
    program.chmod(0o755)
    equal(case.call("run", "-d", LEFT, "--", program).stderr, "")


def run__ordinary_program_or_script__no_warning(case: Case) -> None:
    case.environment()
    script = case.scratch / "script"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    for program in ("true", script, sys.executable):
        run = case.call("run", "-d", LEFT, "--", program, "-V")
        equal((run.returncode, run.stderr), (0, ""), str(program))


# ---- devices ----------------------------------------------------------------

def devices__none__shows_the_default_device_of_run(case: Case) -> None:
    run = case.call("devices")
    equal(run.stderr, "")
    has(run.stdout, "No device is configured. `uroce run` uses this default:\nuroce0  ")
    assert run.returncode == 0 or "uroce0  not usable: " in run.stdout, run.stdout


def devices__configured__all_values_are_shown(case: Case) -> None:
    run = case.call("devices", UROCE_DEVICES=LEFT)
    equal((run.returncode, run.stderr), (0, ""))
    equal(run.stdout, "left  configured\n"
                      "  link  net_memif0,role=server,socket=/tmp/x.sock\n"
                      "  mac   02:00:00:00:00:01\n"
                      "  mtu   4500, IB MTU 4096\n"
                      "  rate  100 Gb/sec (4X EDR)\n"
                      "  gid 0   fe80::ff:fe00:1/64\n"
                      "  gid 1   10.0.0.1/24\n"
                      "  gid 2   fd00::1/64\n")


def devices__on_a_vlan__vlan_is_shown(case: Case) -> None:
    has(case.call("devices", UROCE_DEVICES=LEFT + ";vlan=10").stdout, "  rate  100 Gb/sec (4X EDR)\n  vlan  10\n")


def devices__one_wrong__error_and_the_other_device_is_shown(case: Case) -> None:
    run = case.call("devices", UROCE_DEVICES=f"{WRONG} {LEFT}")
    equal(run.returncode, 1)
    has(run.stdout, "wrong  not usable: UROCE_DEVICES, device 1 (wrong): mtu=12: must be a number "
                    "from 576 to 9600\n", "left  configured\n")
    equal(run.stderr, "")


def devices__link_that_does_not_exist__is_refused_without_a_probe(case: Case) -> None:
    for link in ("upd", "net_rign0", "eth0"):
        run = case.call("devices", UROCE_DEVICES=f"uroce0:{link}")
        equal((run.returncode, run.stderr), (1, ""))
        has(run.stdout, f"link={link}: there is no such kind of link; uroce knows udp, net_memif0, ")
    run = case.call("devices", UROCE_DEVICES="uroce0:net_af_packet0")
    equal(run.returncode, 1)
    has(run.stdout, "the interface is missing; add iface=NAME")


def devices__unknown_link_option__error_names_the_known_options(case: Case) -> None:
    run = case.call("devices", UROCE_DEVICES="uroce0:udp,gsa=no")
    equal((run.returncode, run.stderr), (1, ""))
    has(run.stdout, 'link udp: unknown option "gsa"; udp knows ip=, iface=, gso=, gro=, ident=, hub=, busy-poll=')
    run = case.call("devices", UROCE_DEVICES="uroce0:net_memif0,role=both")
    has(run.stdout, "link net_memif0: role=both: must be server or client")


def devices__links__lists_drivers_and_options(case: Case) -> None:
    run = case.call("devices", "--links")
    equal((run.returncode, run.stderr), (0, ""))
    has(run.stdout, "udp               UDP sockets", "  busy-poll=", "(a number of microseconds from 0 to 10000)",
        "net_memif0        memory", "net_af_packet0    a packet socket", "PCI address       a network card")


def devices__file_writable_by_others__error(case: Case) -> None:
    file = case.scratch / "open.ini"
    file.write_text("[a]\nlink=net_null0\n")
    file.chmod(0o666)
    run = case.call("devices", UROCE_CONFIG=str(file))
    equal(run.returncode, 1)
    has(run.stdout, "can be written by others")


def devices__probe__opens_the_port(case: Case) -> None:
    case.plugin()
    run = case.call("devices", "--probe", UROCE_DEVICES="a:net_ring0;ip=10.0.0.1/24")
    equal(run.returncode, 0, run.stderr)
    has(run.stdout, "a  link up\n")


def devices__probe_fails__error_has_the_reason(case: Case) -> None:
    case.plugin()
    run = case.call("devices", "--probe", UROCE_DEVICES="a:net_virtio_user0,path=/no/such.sock")
    equal(run.returncode, 1)
    has(run.stdout, "a  not usable: ", "net_virtio_user0")


def devices__probe_without_plug_in__error_has_the_remedy(case: Case) -> None:
    lone = case.scratch / "uroce-alone"
    shutil.copy(case.uroce, lone)
    run = case.call("devices", "--probe", uroce=lone, UROCE_DEVICES="a:net_ring0")
    equal(run.returncode, 1)
    has(run.stdout, f"liburoce-udp.so, liburoce-memif.so, liburoce-packet.so, {LINKS} are not beside the library; ",
        "UROCE_LIB_DIR")
    here = case.scratch / "plug-ins"
    here.mkdir(mode=0o755)
    shutil.copy(case.build / "lib" / "io" / "dpdk" / LINKS, here)
    run = case.call("devices", "--probe", uroce=lone, UROCE_DEVICES="a:net_ring0", UROCE_LIB_DIR=str(here))
    equal(run.returncode, 1)
    has(run.stdout, PLUGIN, "-Ddpdk=enabled", "UROCE_LIB_DIR")


# ---- uroce ------------------------------------------------------------------

def uroce__version_and_help__status_0(case: Case) -> None:
    run = case.call("version")
    equal(run.returncode, 0)
    assert re.fullmatch(r"uroce \d+\.\d+\.\d+\n", run.stdout), run.stdout
    for words in (["help"], ["--help"], ["run", "--help"], ["devices", "--help"]):
        run = case.call(*words)
        equal((run.returncode, run.stderr), (0, ""), " ".join(words))
        has(run.stdout, "Usage: uroce")


def with_output(case: Case, *words: object, output: str) -> tuple[int, str]:
    """Runs `uroce` with an output that cannot be written. Returns its exit status and what it writes to stderr."""
    run = case.call("-c", f'exec "$@" {output}', "sh", case.uroce, *words, uroce="/bin/sh", UROCE_DEVICES=LEFT)
    return run.returncode, run.stderr


def uroce__output_cannot_be_written__is_reported(case: Case) -> None:
    capture = case.scratch / "a.pcap"
    equal(case.call("sim", "--seed", "1", "--quiet", "--pcap", capture).returncode, 0)
    for words in (["--help"], ["version"], ["devices"], ["devices", "--links"], ["devices", "--cards"], ["devices", "--card", "mana"],
                  ["info"], ["info", "--json"], ["stat", "--json"], ["why", "0x9"], ["sim", "--parts"], ["sim", "--seed", "3"],
                  ["dump", capture], ["dump", "--html", capture], ["judge", capture], ["run", "--help"], ["peer", "--help"]):
        equal(with_output(case, *words, output=">/dev/full"),
              (2, "uroce: cannot write the output: No space left on device\n"), str(words))
    equal(with_output(case, "version", output=">&-"), (2, "uroce: cannot write the output: Bad file descriptor\n"))


def uroce__no_output__needs_no_stdout(case: Case) -> None:
    equal(with_output(case, "sim", "--seed", "1", "--quiet", output=">&-"), (0, ""))


def uroce__wrong_command_line__one_line_says_what_is_wrong(case: Case) -> None:
    for words, wanted in (
            ("run --divice x true", "the option --divice does not exist"), ("run -x true", "the option -x does not exist"),
            ("run -q --device", "the option --device needs a value"), ("run -d", "the option -d needs a value"),
            ("run --quiet=3 true", "the option --quiet has no value"), ("run --c x true", "the option --c is the beginning of several"),
            ("dump --htlm f", "the option --htlm does not exist"), ("dump", "no FILE is given"), ("dump a b", '"b": only one FILE'),
            ("dump --html", "no FILE is given"), ("judge --foo", "the option --foo"), ("judge", "no FILE"), ("judge a b", '"b": only one'),
            ("info foo", '"foo": only options can be given'), ("sim --seed 1 foo", '"foo": only options'), ("sim", "no seed is given"),
            ("hub foo", '"foo": only options'), ("hub", "no address is given"), ("why a b", '"b": only one process or device'),
            ("impair", "no DEVICE is given"), ("impair d a b", '"b": only one plan'), ("impair -p 0 d", "--pid 0 is not the number"),
            ("devices blah", '"blah": only options'), ("devices --links --cards", "exclude each other"), ("devices --card", "needs a value"),
            ("devices --probe --card mana", "exclude each other"), ("stat --prometheus --json", "exclude each other"),
            ("shrink -t x", "the command is missing"), ("shrink --foo", "the option --foo"), ("peer", "no script is given"),
            ("peer script", "no endpoint is given"), ("peer --foo", "the option --foo"), ("stat -p 4294967297", "--pid 4294967297 is not"),
            ("version blah", '"blah": no more words'), ("help run blah", '"blah": no more words')):
        run = case.call(*words.split())
        equal((run.returncode, run.stdout, run.stderr.count("\n")), (2, "", 1), words + "\n" + run.stderr)
        command = words.split()[0]
        plain = command in ("version", "help")
        has(run.stderr, "uroce: " if plain else f"uroce {command}: ", wanted, f"see `uroce {'' if plain else command + ' '}--help`\n")


def sim__value_that_does_not_fit__error_has_option_and_values(case: Case) -> None:
    for words, wanted in (("--without lose,foo", "--without foo: no part has this name; `uroce sim --parts` lists the names"),
                          ("--count 0", "--count 0: must be a number from 1 to"), ("--count x", "--count x: must be"),
                          ("--less 32", "--less 32: must be a number from 0 to 31"), ("--seed -1", "--seed -1: must be a number from 0"),
                          ("--pcap /nope/x", "--pcap /nope/x: the file cannot be written: No such file or directory"),
                          ("--pcap /dev/null", "--pcap /dev/null: the file cannot be written: not a regular file")):
        run = case.call("sim", "--seed", "1", *words.split())
        equal((run.returncode, run.stdout, run.stderr.count("\n")), (2, "", 1), words + "\n" + run.stderr)
        has(run.stderr, f"uroce sim: {wanted}")


def uroce__help_and_a_command__help_of_the_command(case: Case) -> None:
    for command in ("run", "stat", "dump"):
        equal(case.call("help", command).stdout, case.call(command, "--help").stdout)
    has(case.call("help", "foo").stderr, 'no command "foo"')


def uroce__unknown_word__error_has_the_word(case: Case) -> None:
    run = case.call("devcies")
    equal((run.returncode, run.stdout), (2, ""))
    equal(run.stderr, 'uroce: there is no command "devcies"; see `uroce --help`\n')


def uroce__program_and_its_library__need_only_the_c_library_and_inih(case: Case) -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        raise Skip("readelf is not installed (binutils)")
    case.environment()
    for file in (case.uroce, case.build / "lib" / "abi" / LIBRARY, case.build / "lib" / "paths" / PATHS):
        run = subprocess.run([readelf, "-d", file], capture_output=True, text=True, check=True)
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run.stdout)
        more = [name for name in needed if not re.match(r"libc\.|ld-linux|ld64|libdl\.|libinih\.|lib[aut][a-z]*san\.", name)]
        equal(more, [], str(file))


def damaged(case: Case, *names: str) -> str:
    """Returns a directory for LD_LIBRARY_PATH in which the loader finds only damaged libraries with these names."""
    directory = case.scratch / "damaged"
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).touch()
    return str(directory)


def uroce__libpcap_missing__error_names_the_package(case: Case) -> None:
    where = damaged(case, "libpcap.so.0.8", "libpcap.so.1")
    capture = case.scratch / "a.pcap"
    equal(case.call("sim", "--seed", "1", "--quiet", "--pcap", capture).returncode, 0)
    for command in ("dump", "judge"):
        run = case.call(command, capture, LD_LIBRARY_PATH=where)
        equal((run.returncode, run.stdout), (2, ""))
        has(run.stderr, f"uroce {command}: {capture}: captures are read by libpcap, which cannot be loaded; "
                        "install the Debian package libpcap0.8\n")
        equal(run.stderr.count("\n"), 1)


def uroce__ncurses_missing__error_names_the_package(case: Case) -> None:
    if not (case.build / "app" / TOP).exists():
        raise Skip(f"{TOP} is not built: the headers of ncurses are missing")
    run = case.call("top", LD_LIBRARY_PATH=damaged(case, "libncursesw.so.6"))
    equal((run.returncode, run.stdout), (1, ""))
    has(run.stderr, "uroce top: ", "libncursesw.so.6: ", "install the Debian package libncursesw6, or use `uroce stat --watch`\n")
    equal(run.stderr.count("\n"), 1)


def installed__under_a_prefix__finds_its_libraries(case: Case) -> None:
    case.environment()
    case.plugin()
    meson = shutil.which("meson")
    if meson is None:
        raise Skip("meson is not on PATH")
    root = case.scratch / "root"
    done = subprocess.run([meson, "install", "-C", case.build, "--no-rebuild", "--destdir", root],
                          capture_output=True, text=True, check=False)
    equal(done.returncode, 0, done.stdout + done.stderr)
    uroce = next(root.rglob("bin/uroce"))
    where = next(root.rglob(f"uroce/{LIBRARY}")).parent
    assert (where / "libibverbs.so").exists() and (where / PLUGIN).exists(), list(where.iterdir())
    run = case.call("run", "-d", LEFT, "--", "env", uroce=uroce)
    where = where.resolve()
    has(run.stdout, f"LD_PRELOAD={where / PATHS} {where / LIBRARY}\n", f"UROCE_DEVICES={LEFT}\n")
    run = case.call("devices", "--probe", uroce=uroce, UROCE_DEVICES="a:net_ring0")
    equal(run.returncode, 0, run.stdout + run.stderr)


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
