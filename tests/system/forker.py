#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Uses a device by pyverbs, in this process and in worker processes of multiprocessing. test_fork.py runs this program."""
import multiprocessing
import sys

from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
import pyverbs.enums as enums

WORKERS = 3


def work() -> None:
    context = Context(name=get_device_list()[0].name.decode())
    domain = PD(context)
    region = MR(domain, 4096, enums.IBV_ACCESS_LOCAL_WRITE)
    queue = CQ(context, 16)
    queue.close()
    region.close()
    domain.close()
    context.close()


def main() -> int:
    fork = multiprocessing.get_context("fork")
    failed = 0
    for _ in range(2):  # before and after the parent uses the device itself
        workers = [fork.Process(target=work) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            failed += worker.exitcode != 0
        work()
    return failed


if __name__ == "__main__":
    sys.exit(main())
