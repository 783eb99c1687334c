#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Prints the largest payload of a packet on the first device's port, once for each line that it reads. Each time, it also
creates a queue pair. Then each queue pair created so far sends a datagram of that length to itself.

    uroce run --device 'uroce0:udp,ip=127.0.0.1' -- /usr/bin/python3 port_mtu.py
"""
import sys

try:
    import pyverbs.enums as e
except ImportError:
    print("pyverbs is not installed")
    sys.exit(77)
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

QKEY = 0x11111111

context = Context(name=get_device_list()[0].name.decode())
pd, cq, pairs = PD(context), CQ(context, 64), []
mr = MR(pd, 4096, e.IBV_ACCESS_LOCAL_WRITE)
handle = AH(pd, attr=AHAttr(gr=GlobalRoute(dgid=context.query_gid(1, 1), sgid_index=1), is_global=1, port_num=1))
for line in sys.stdin:
    payload = 128 << context.query_port(1).active_mtu
    attr = QPAttr(port_num=1)
    attr.qkey = QKEY
    pairs.append(QP(pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=cq, rcq=cq, cap=QPCap(8, 8, 1, 1, 0)), attr))
    for pair in pairs:
        request = SendWR(sg=[SGE(mr.buf, payload, mr.lkey)], num_sge=1)
        request.set_wr_ud(handle, pair.qp_num, QKEY)
        pair.post_send(request)
        while cq.poll(1)[0] == 0:
            pass
    print(payload, flush=True)
