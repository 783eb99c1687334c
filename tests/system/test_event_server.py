#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that an epoll server with one thread (tests/bench/event_server.c) answers every request of its clients, over TCP, memif
and UDP. Writes TAP.

    test_event_server.py BUILD [--match REGEX]
"""
import functools
import json
import sys

import apart  # noqa: F401 pylint: disable=unused-import; puts tools/lib/common on the path
import test_udp
import uroce_case
from uroce_case import Case, Skip, equal, has
import pairs

SECONDS = "0.3"
FIELDS = {"server": {"requests", "switches", "waits", "cpu_us"}}
FIELDS["client"] = FIELDS["server"] | {"per_s", "median_us", "p99_us"}
# Key: name. Value: transport, kind of pair, address of the server
LINKS = {"tcp": ("tcp", functools.partial(pairs.Pair, bare=True), "127.0.0.1"),
         "memif": ("rdma", pairs.Pair, "10.0.0.1"), "udp": ("rdma", test_udp.Pair, test_udp.ADDRESSES["server"])}
# Key: name. Value: number of clients, bytes of a request, mode
SHAPES = {"one_client": (1, 64, ()), "many_clients": (50, 64, ()), "long_messages": (4, 65536, ()),
          "one_client_that_blocks": (1, 64, ("wait",))}


def program(case: Case) -> str:
    path = case.build / "tests" / "bench" / "event_server"
    if not path.exists():
        raise Skip("event_server is not built: libibverbs or librdmacm is missing")
    return str(path)


def answered(link: str, shape: str, case: Case) -> None:
    transport, kind, address = LINKS[link]
    clients, length, mode = SHAPES[shape]
    with kind(case.uroce) as pair:
        port = str(pairs.free_port())
        served, serving = pair.start("server", [program(case), "server", address, port, transport, *mode])
        assert pairs.wait_for(lambda: "ready" in pair.said("server") or served.poll() is not None, 20)
        asked, asking = pair.start("client", [program(case), "client", address, port, transport, str(clients),
                                              str(length), SECONDS, *mode])
        pair.finish("client", asked, asking, 30)
        pair.finish("server", served, serving, 10)
    for side, output in ("client", asking), ("server", serving):
        equal(output.status, 0, asking.text + serving.text)
        said = json.loads(output.text.splitlines()[-1])
        equal(set(said), FIELDS[side])
        assert said["requests"] > 0, output.text


def client__no_server__error_has_the_reason(case: Case) -> None:
    run = case.call("client", "127.0.0.1", str(pairs.free_port()), "tcp", "1", "64", SECONDS, uroce=program(case))
    equal(run.returncode, 1)
    has(run.stderr, "Connection refused", "Start the server first")


def cases() -> list:
    for link in LINKS:
        for shape in SHAPES:
            run = functools.partial(answered, link, shape)
            run.__name__ = f"{shape}__over_{link}__every_request_is_answered"
            yield run
    yield from uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, list(cases())))
