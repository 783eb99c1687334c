#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes every object of the verbs interface by pyverbs, and uses what it made; for a row of
docs/PROGRAMS.md.

    uroce run --device 'uroce0:net_null0;ip=10.0.0.1/24' -- /usr/bin/python3 pyverbs_objects.py
"""
import sys

try:
    import pyverbs.enums as e
except ImportError:
    print("pyverbs is not installed")
    sys.exit(77)
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

PORT, GID = 1, 1
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC)
TEXT = "there and back"


class Verbs:
    """What the others are made from."""

    def __init__(self) -> None:
        self.context = Context(name=get_device_list()[0].name.decode())
        self.pd = PD(self.context)
        self.channel = CompChannel(self.context)
        self.cq = CQ(self.context, 64, channel=self.channel)
        self.mr = MR(self.pd, 4096, ACCESS)
        self.gid = self.context.query_gid(PORT, GID)

    def route(self) -> GlobalRoute:
        return GlobalRoute(dgid=self.gid, sgid_index=GID)

    def to_us(self) -> AHAttr:
        return AHAttr(gr=self.route(), is_global=1, port_num=PORT)

    def attributes(self, kind: int) -> QPInitAttr:
        return QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=QPCap(8, 8, 2, 2, 64))

    def poll(self, wanted: int) -> list:
        """That many completions, all of them successes."""
        done = []
        while len(done) < wanted:
            done += self.cq.poll(wanted - len(done))[1]
        assert all(wc.status == e.IBV_WC_SUCCESS for wc in done), [wc.status for wc in done]
        return done


def connected(verbs: Verbs, peer: int) -> QPAttr:
    attr = QPAttr(port_num=PORT, cur_qp_state=e.IBV_QPS_INIT)
    attr.qp_access_flags = ACCESS
    attr.path_mtu = e.IBV_MTU_1024
    attr.dest_qp_num = peer
    attr.ah_attr = verbs.to_us()
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 7, 7, 12
    return attr


def send_to_ourselves(verbs: Verbs, qp: QP) -> None:
    """The second half of the MR gets what is in the first."""
    mr, half = verbs.mr, verbs.mr.length // 2
    mr.write(TEXT, len(TEXT), 0)
    qp.post_recv(RecvWR(sg=[SGE(mr.buf + half, half, mr.lkey)], num_sge=1))
    qp.post_send(SendWR(sg=[SGE(mr.buf, len(TEXT), mr.lkey)], num_sge=1))
    verbs.poll(2)
    assert mr.read(len(TEXT), half).decode() == TEXT


# ---- one function for each kind of object; its name is what is printed --------------------------

def device_list(_verbs: Verbs) -> None:
    assert len(get_device_list()) >= 1


def context(verbs: Verbs) -> None:
    assert verbs.context.query_device().max_qp > 0
    assert verbs.context.query_port(PORT).link_layer == e.IBV_LINK_LAYER_ETHERNET
    assert verbs.context.query_gid_table(16)[GID].gid_type == e.IBV_GID_TYPE_ROCE_V2


def completion_events(verbs: Verbs) -> None:
    qp = QP(verbs.pd, verbs.attributes(e.IBV_QPT_RC))
    qp.to_rts(connected(verbs, qp.qp_num))
    verbs.cq.req_notify()
    send_to_ourselves(verbs, qp)
    verbs.channel.get_cq_event(verbs.cq)
    verbs.cq.ack_events(1)


def extended_cq(verbs: Verbs) -> None:
    cq = CQEX(verbs.context, CqInitAttrEx(cqe=16))
    qp = QP(verbs.pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(8, 8, 1, 1, 0)))
    cq.close()
    qp.close()


def region(verbs: Verbs) -> None:
    with MR(verbs.pd, 64, ACCESS) as mr:
        mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, access=e.IBV_ACCESS_LOCAL_WRITE)


def address_handle(verbs: Verbs) -> None:
    AH(verbs.pd, attr=verbs.to_us()).close()


def rc_queue_pair(verbs: Verbs) -> None:
    qp = QP(verbs.pd, verbs.attributes(e.IBV_QPT_RC))
    qp.to_rts(connected(verbs, qp.qp_num))
    send_to_ourselves(verbs, qp)
    assert qp.query(e.IBV_QP_STATE)[0].qp_state == e.IBV_QPS_RTS


OBJECTS = [device_list, context, completion_events, extended_cq, region, address_handle,
           rc_queue_pair]


def main() -> int:
    verbs = Verbs()
    for check in OBJECTS:
        check(verbs)
        print(check.__name__, flush=True)
    verbs.context.close()
    print(f"all of {len(OBJECTS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
