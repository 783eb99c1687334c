#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that uroce does not load a library that another user puts into the current directory. Writes TAP.

    test_planted.py BUILD_DIRECTORY [--match REGEX]

The library is build/tests/system/libstranger.so. A case copies it to a directory that only a wrong search path contains. The
copy has the name of a plug-in of uroce.
"""
import os
import pathlib
import shutil
import sys

import uroce_case
from uroce_case import LIBRARY, Case, Skip, equal, has

STRANGER = "the stranger's library was loaded"
PLUGIN = "liburoce-memif.so"
SERVER = "a:net_memif0,role=server,socket={}/m.sock,socket-abstract=no;ip=10.0.0.1/24"
NOBODY = 65534

# Changes the current directory, so that it differs from the directory in which the library was loaded. Then opens a device, and
# creates a completion queue, which starts the device.
CHANGES_DIRECTORY = """
import ctypes, os, sys
verbs = ctypes.CDLL(None)
os.chdir(sys.argv[1])
for name in ("ibv_get_device_list", "ibv_open_device", "ibv_create_cq"):
    getattr(verbs, name).restype = ctypes.c_void_p
devices = verbs.ibv_get_device_list(None)
context = verbs.ibv_open_device(ctypes.c_void_p(ctypes.c_void_p.from_address(devices).value))
cq = verbs.ibv_create_cq(ctypes.c_void_p(context), 8, None, None, 0)
print("cq" if cq else "no cq")
"""


def stranger(case: Case) -> pathlib.Path:
    library = case.build / "tests" / "system" / "libstranger.so"
    if not library.exists():
        raise Skip("libstranger.so is not built")
    return library


def plant(case: Case, *where: str) -> pathlib.Path:
    """Puts the planted plug-in into a directory below scratch, next to empty files with the names of uroce and its library."""
    directory = case.scratch.joinpath(*where)
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copy(stranger(case), directory / PLUGIN)
    (directory / "uroce").touch()
    (directory / LIBRARY).touch()
    return directory


def server(case: Case) -> str:
    return SERVER.format(case.scratch)


def not_loaded(run, status: int = 0) -> None:
    assert STRANGER not in run.stderr, run.stderr
    equal(run.returncode, status, run.stdout + run.stderr)


def path_of_uroce(case: Case) -> str:
    return f"{case.build / 'app'}:{os.environ['PATH']}"


def path__devices_probe_called_by_name__loads_the_plug_in_of_uroce(case: Case) -> None:
    here = plant(case, "here")
    run = case.call("uroce", "devices", "--probe", uroce="env", cwd=here, PATH=path_of_uroce(case),
                    UROCE_DEVICES=server(case))
    not_loaded(run)
    has(run.stdout, "a  link ")


def path__peer_called_by_name__loads_the_plug_in_of_uroce(case: Case) -> None:
    here = plant(case, "here")
    script = here / "a.peer"
    script.write_text("title \"nothing\"\n")
    wrong = server(case).replace("role=server", "role=client,bsize=128,rsize=5") # uroce's plug-in refuses this link
    run = case.call("uroce", "peer", "--peer", "10.0.0.2", "-d", wrong, script, uroce="env", cwd=here,
                    PATH=path_of_uroce(case))
    not_loaded(run, 77)
    has(run.stderr, "a ring would not hold a frame")


def argv_0__chosen_by_the_caller__is_not_used(case: Case) -> None:
    here = plant(case, "here")
    for name in ("uroce", str(here / "uroce"), "./uroce", ""):
        run = case.call("-c", 'exec -a "$0" "$@"', name, case.uroce, "devices", "--probe",
                        uroce=shutil.which("bash"), cwd=here, UROCE_DEVICES=server(case))
        not_loaded(run)


def library__loaded_by_a_relative_name__loads_the_plug_in_of_uroce_after_chdir(case: Case) -> None:
    abi = case.build / "lib" / "abi"
    if not (abi / LIBRARY).exists():
        raise Skip(f"{LIBRARY} is not built: the headers of libibverbs are missing")
    elsewhere = plant(case, "elsewhere")
    run = case.call("-c", CHANGES_DIRECTORY, elsewhere, uroce=sys.executable, cwd=abi,
                    LD_PRELOAD=f"./{LIBRARY}", UROCE_DEVICES=server(case))
    not_loaded(run)
    equal(run.stdout, "cq\n")


def installed__without_a_plug_in__does_not_look_above_its_prefix(case: Case) -> None:
    program = case.scratch / "prefix" / "bin" / "uroce"
    program.parent.mkdir(parents=True)
    shutil.copy(case.uroce, program)
    for where in (("prefix", "bin"), ("lib", "io", "memif"), ("prefix", "lib", "io", "memif"),
                  ("prefix", "io", "memif"), ("prefix", "lib", "abi")):
        plant(case, *where)
    shutil.copy(case.uroce, program)
    run = case.call("devices", "--probe", uroce=program, UROCE_DEVICES=server(case))
    not_loaded(run, 1)
    has(run.stdout, PLUGIN, " not beside the library; install uroce as a whole, or set UROCE_LIB_DIR")
    not_loaded(case.call("run", "-d", server(case), "--", "true", uroce=program), 126)


def lib_dir__relative__is_refused(case: Case) -> None:
    here = plant(case, "here")
    for chosen in (".", "here/..", "../here"):
        run = case.call("devices", "--probe", cwd=here, UROCE_DEVICES=server(case),
                        UROCE_LIB_DIR=chosen)
        not_loaded(run, 1)
        has(run.stdout, f"UROCE_LIB_DIR={chosen}: must be an absolute path")


def lib_dir__writable_by_others__is_refused(case: Case) -> None:
    here = plant(case, "here")
    here.chmod(0o777)
    run = case.call("devices", "--probe", UROCE_DEVICES=server(case), UROCE_LIB_DIR=str(here))
    not_loaded(run, 1)
    has(run.stdout, "the directory can be written by others")
    here.chmod(0o1777) # the mode of /tmp
    (here / PLUGIN).chmod(0o666)
    run = case.call("devices", "--probe", UROCE_DEVICES=server(case), UROCE_LIB_DIR=str(here))
    not_loaded(run, 1)
    has(run.stdout, "the file can be written by others")


def lib_dir__with_the_file_of_another_user__is_refused(case: Case) -> None:
    if os.geteuid() != 0:
        raise Skip("only root can give a file to another user")
    here = plant(case, "here")
    here.chmod(0o1777)
    os.chown(here / PLUGIN, NOBODY, NOBODY)
    run = case.call("devices", "--probe", UROCE_DEVICES=server(case), UROCE_LIB_DIR=str(here))
    not_loaded(run, 1)
    has(run.stdout, "the file belongs to another user")


def lib_dir__owned_by_the_user__is_accepted(case: Case) -> None:
    here = plant(case, "here")
    shutil.copy(case.build / "lib" / "io" / "memif" / PLUGIN, here)
    lone = case.scratch / "uroce"
    shutil.copy(case.uroce, lone)
    run = case.call("devices", "--probe", uroce=lone, UROCE_DEVICES=server(case),
                    UROCE_LIB_DIR=str(here))
    not_loaded(run)


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
