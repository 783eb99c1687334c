#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs one side of rdma-core's own tests of rdma_cm. test_rdma_core.py starts this program.

    rdmacm_side.py passive|active OWN_ADDRESS PASSIVE_ADDRESS --dev DEVICE --gid INDEX -v

The tests are in ./tests. They start both sides as two processes of one host with one address. With uroce, each process is a
separate host. So this program runs only one half of every test, and another process runs the other half. The program replaces
the barrier and the queue of the tests by a barrier and a queue at the socket ./meeting.
"""
import signal
import sys
import unittest
from multiprocessing import managers

STUCK_SECONDS = 3


class Meeting(managers.BaseManager):
    """A barrier and a queue for each name. Both sides use the same barriers and queues."""


Meeting.register("barrier", proxytype=managers.BarrierProxy)
Meeting.register("queue")


class Stuck(BaseException):
    """The end of a wait without a result. It is not a subclass of Exception, so that handlers of the tests do not catch it."""


def give_up(_number: int, _frame: object) -> None:
    raise Stuck


def divide(test_case: type, role: str, own: str, passive: str) -> None:
    """Makes each test of the class run the half of one side."""
    meeting = Meeting(address="meeting", authkey=b"uroce")
    meeting.connect()
    from tests import base_rdmacm
    from tests.base import RDMATestCase
    address_info = base_rdmacm.AddrInfo

    def address_of_peer(dst=None, **others) -> object:
        """Makes the active side connect to the other side, not to itself."""
        return address_info(dst=None if dst is None else passive, **others)

    def set_up(self) -> None:
        RDMATestCase.setUp(self)
        meeting.barrier("before " + self.id()).wait()

    def one_node(self, connection_resources, test_flow, bad_flow=False, **arguments) -> None:
        self.ip_addr = own
        self.syncer = meeting.barrier(self.id())
        self.notifier = meeting.queue(self.id())
        arguments |= {"connection_resources": connection_resources, "passive": role == "passive"}
        if not bad_flow:
            test_flow(**arguments)
            return
        signal.signal(signal.SIGALRM, give_up)
        signal.alarm(STUCK_SECONDS)
        with self.assertRaises(Stuck):  # no peer receives the messages
            test_flow(**arguments)

    base_rdmacm.AddrInfo = address_of_peer
    test_case.setUp = set_up
    test_case.two_nodes_rdmacm_traffic = one_node


def main() -> None:
    role, own, passive = sys.argv[1:4]
    del sys.argv[1:4]
    sys.path[:0] = [".", "tests"]
    from args_parser import parser
    parser.parse_args()
    from tests import test_rdmacm
    divide(test_rdmacm.CMTestCase, role, own, passive)
    unittest.main(module=test_rdmacm)


if __name__ == "__main__":
    main()
