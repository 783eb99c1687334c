#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests devices that imitate a card: what ibv_devinfo and /sys show of each built-in card. Writes TAP.

    test_cards.py BUILD_DIRECTORY [--match REGEX]
"""
import pathlib
import re
import shutil
import sys

import uroce_case
from uroce_case import LEFT, Case, Skip, equal, has

FOLDER = pathlib.Path(__file__).parents[2] / "lib/config/cards"
CARDS = sorted(path.stem for path in FOLDER.glob("*.card"))
SHOWN = ("vendor_id", "vendor_part_id", "hw_ver", "page_size_cap", "max_mr_size", "local_ca_ack_delay", "firmware", "board_id")
# uroce's own limits over this link
LIMITS = {"max_qp": 1048560, "max_qp_wr": 1048576, "max_sge_rd": 32, "max_cq": 1048576, "max_cqe": 4194303, "max_mr": 1048576,
          "max_mw": 1048576, "max_pd": 1048576, "max_ah": 1048576, "max_srq": 1048576, "max_qp_rd_atom": 128,
          "max_qp_init_rd_atom": 128, "max_mcast_grp": 8192, "max_mcast_qp_attach": 56}


def values(name: str) -> dict[str, str]:
    """Returns the known values of a card. The lines of `lacks` are joined."""
    known = {}
    for line in (FOLDER / f"{name}.card").read_text(encoding="utf-8").splitlines():
        key, equals, value = line.partition("#")[0].strip().partition(" = ")
        if equals and value != "unknown":
            known[key] = f"{known[key]} {value}" if key in known else value
    return known


def devinfo(case: Case, card: str) -> dict[str, str]:
    if shutil.which("ibv_devinfo") is None:
        raise Skip("ibv_devinfo is not installed")
    run = case.call("run", "-d", f"{LEFT};like={card}", "--", "ibv_devinfo", "-v", "-d", "left")
    equal(run.returncode, 0, run.stderr)
    return dict(re.findall(r"^\s*([\w\[\] ]+):\s+(.*)$", run.stdout, re.M))


def devinfo__each_card__has_the_values_of_the_card(case: Case) -> None:
    for card in CARDS:
        said, known = devinfo(case, card), values(card)
        missing = re.split(r"[ ,]+", known.get("lacks", ""))
        for key in SHOWN:
            if key in known:
                shown = said["fw_ver" if key == "firmware" else key]
                assert shown == known[key] or int(shown, 0) == int(known[key], 0), f"{card}: {key} is {shown}, not {known[key]}"
        for key, own in LIMITS.items():
            wanted = min(own, int(known.get(key, str(own)), 0))
            if key in ("max_srq", "max_mw") and key.removeprefix("max_") in missing:
                wanted = 0
            equal(int(said[key]), wanted, f"{card}: {key}")
        sges = [int(known.get(key, known.get("max_sge", "32"))) for key in ("max_send_sge", "max_recv_sge")]
        equal(int(said["max_sge"]), min(32, *sges), f"{card}: max_sge")
        equal(said["atomic_cap"], "ATOMIC_NONE (0)" if "atomics" in known.get("lacks", "") else "ATOMIC_HCA (1)", card)
        if "guid_prefix" in known:
            equal(said["node_guid"].replace(":", "")[:10], known["guid_prefix"][2:], card)


def devinfo__card_of_two_kinds_of_roce__has_gids_of_both(case: Case) -> None:
    said = devinfo(case, "connectx7")
    has(said["GID[  0]"], ", RoCE v1")
    has(said["GID[  1]"], ", RoCE v2")
    has(said["GID[  2]"], ", RoCE v1")
    has(said["GID[  5]"], ", RoCE v2")
    assert "GID[  6]" not in said


def tree__of_a_card__has_the_texts_and_gid_types_of_the_card(case: Case) -> None:
    def read(card: str, *names: str) -> list[str]:
        paths = [f"/sys/class/infiniband/left/{name}" for name in names]
        run = case.call("run", "-d", f"{LEFT};like={card}", "--", "cat", *paths)
        equal((run.returncode, run.stderr), (0, ""))
        return run.stdout.splitlines()

    equal(read("connectx5", "fw_ver", "hca_type", "board_id", "hw_rev"), ["16.23.1020", "MT4119", "MT_0000000008", "0x0"])
    equal(read("connectx5", *(f"ports/1/gid_attrs/types/{i}" for i in range(4))), ["IB/RoCE v1", "RoCE v2"] * 2)
    gids = read("connectx5", *(f"ports/1/gids/{i}" for i in range(7)))
    assert gids[0] == gids[1] != gids[2] == gids[3], gids
    equal(gids[6], "0000:0000:0000:0000:0000:0000:0000:0000")
    equal(read("e810", "ports/1/gid_attrs/types/1"), ["RoCE v2"])
    equal(read("ionic", "ports/1/rate"), ["400 Gb/sec (4X NDR)"])
    run = case.call("run", "-d", f"{LEFT};like=e810", "--", "cat", "/sys/class/infiniband/left/board_id")
    has(run.stderr, "No such file")


def devices__cards__are_listed_and_printed(case: Case) -> None:
    run = case.call("devices", "--cards")
    equal([line.split()[0] for line in run.stdout.splitlines()], CARDS)
    has(run.stdout, "Intel E810")
    run = case.call("devices", "--card", "e810")
    equal((run.returncode, run.stdout), (0, (FOLDER / "e810.card").read_text(encoding="utf-8")))
    equal(case.call("devices", "--card", "irdma").stdout, run.stdout)  # like=irdma is the same card
    run = case.call("devices", "--card", "e8100")
    equal((run.returncode, run.stdout), (2, ""))
    has(run.stderr, "no such card: e8100; see `uroce devices --cards`")


def devices__like_a_changed_copy__shows_card_and_lowered_limits(case: Case) -> None:
    text = case.call("devices", "--card", "connectx5").stdout
    path = case.scratch / "my.card"
    path.write_text(text.replace("max_send_sge = 30", "max_send_sge = 40"), encoding="utf-8")
    run = case.call("devices", UROCE_DEVICES=f"{LEFT};like=@{path}")
    equal(run.returncode, 0, run.stdout)
    has(run.stdout, "  like  my.card, ConnectX-5\n")
    has(run.stdout, "max_send_sge is 32, which is uroce's limit; the card has 40")
    has(run.stdout, "max_cq is 1048576, which is uroce's limit; the card has 16777216")
    has(run.stdout, "  gid 2   10.0.0.1/24  RoCE v1, not usable\n")
    has(run.stdout, "  gid 3   10.0.0.1/24\n")
    path.write_text(text.replace("max_qp_wr", "max_qp_rw"), encoding="utf-8")
    run = case.call("devices", UROCE_DEVICES=f"{LEFT};like=@{path}")
    equal(run.returncode, 1)
    has(run.stdout, 'my.card:22: unknown key "max_qp_rw"; did you mean max_qp_wr?')


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
