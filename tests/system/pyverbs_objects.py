#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Creates objects of each kind that uroce supports, by pyverbs. A row of programs.txt runs this program.

    uroce run --device 'uroce0:net_null0,no-rx=1;ip=10.0.0.1/24' -- /usr/bin/python3 pyverbs_objects.py
"""
import os
import sys

try:
    import pyverbs.enums as e
except ImportError:
    print("pyverbs is not installed")
    sys.exit(77)
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx
from pyverbs.device import DM, AllocDmAttr, Context, get_device_list
from pyverbs.mr import DMMR, MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD, ParentDomain, ParentDomainInitAttr
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr

PORT, GID = 1, 1
GRH = 40  # bytes before a datagram (GRH)
QKEY = 0x11111111
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_MW_BIND)
TEXT = "there, and back."  # its length is a multiple of 4, because device memory is copied by words


class Verbs:
    """The objects that the other objects need: context, PD, CQ and MR."""

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
        """Polls @wanted completions, and checks that they are successful."""
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


def send_to_ourselves(verbs: Verbs, qp: QP, receiver: object = None, to: AH = None) -> None:
    """Sends TEXT from the first half of the MR to the second half. If @to is given, sends a datagram."""
    mr, half = verbs.mr, verbs.mr.length // 2
    mr.write(TEXT, len(TEXT), 0)
    (receiver or qp).post_recv(RecvWR(sg=[SGE(mr.buf + half, half, mr.lkey)], num_sge=1))
    request = SendWR(sg=[SGE(mr.buf, len(TEXT), mr.lkey)], num_sge=1)
    if to is not None:
        request.set_wr_ud(to, qp.qp_num, QKEY)
    qp.post_send(request)
    verbs.poll(2)
    assert mr.read(len(TEXT), half + (GRH if to is not None else 0)).decode() == TEXT


# ---- one function for each kind of object; the program prints its name --------------------------

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


def uc_queue_pair(verbs: Verbs) -> None:
    qp = QP(verbs.pd, verbs.attributes(e.IBV_QPT_UC))
    qp.to_rts(connected(verbs, qp.qp_num))
    send_to_ourselves(verbs, qp)


def ud_queue_pair(verbs: Verbs) -> None:
    attr = QPAttr(port_num=PORT)
    attr.qkey = QKEY
    qp = QP(verbs.pd, verbs.attributes(e.IBV_QPT_UD), attr)
    send_to_ourselves(verbs, qp, to=AH(verbs.pd, attr=verbs.to_us()))


def shared_receive_queue(verbs: Verbs) -> None:
    srq = SRQ(verbs.pd, SrqInitAttr(SrqAttr(max_wr=8, max_sge=1)))
    attributes = verbs.attributes(e.IBV_QPT_RC)
    attributes.srq = srq
    qp = QP(verbs.pd, attributes)
    qp.to_rts(connected(verbs, qp.qp_num))
    send_to_ourselves(verbs, qp, srq)
    srq.modify(SrqAttr(max_wr=16), e.IBV_SRQ_MAX_WR)
    assert srq.query().max_wr >= 16


def xrc_objects(verbs: Verbs) -> None:
    """Creates an XRC domain, an SRQ in it, and the two queue pairs of a connection."""
    flags = e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS
    domain = XRCD(verbs.context, XRCDInitAttr(flags, os.O_CREAT, -1))
    attributes = SrqInitAttrEx(max_wr=8, max_sge=1)
    attributes.srq_type = e.IBV_SRQT_XRC
    attributes.xrcd, attributes.pd, attributes.cq = domain, verbs.pd, verbs.cq
    attributes.comp_mask = (e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD
                            | e.IBV_SRQ_INIT_ATTR_CQ | e.IBV_SRQ_INIT_ATTR_XRCD)
    srq = SRQ(verbs.context, attributes)
    receiver = QP(verbs.context, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_RECV, xrcd=domain,
                                              comp_mask=e.IBV_QP_INIT_ATTR_XRCD))
    sender = QP(verbs.context, QPInitAttrEx(qp_type=e.IBV_QPT_XRC_SEND, pd=verbs.pd, scq=verbs.cq,
                                            cap=QPCap(8, 0, 1, 0, 0),
                                            comp_mask=e.IBV_QP_INIT_ATTR_PD))
    receiver.to_rts(connected(verbs, sender.qp_num))
    sender.to_rts(connected(verbs, receiver.qp_num))
    assert srq.get_srq_num() > 0


def extended_queue_pair(verbs: Verbs) -> None:
    attributes = QPInitAttrEx(
        qp_type=e.IBV_QPT_RC, pd=verbs.pd, scq=verbs.cq, rcq=verbs.cq, cap=QPCap(8, 8, 1, 1, 64),
        comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        send_ops_flags=e.IBV_QP_EX_WITH_SEND)
    qp = QPEx(verbs.context, attributes)
    qp.to_rts(connected(verbs, qp.qp_num))
    mr, half = verbs.mr, verbs.mr.length // 2
    mr.write(TEXT, len(TEXT), 0)
    qp.post_recv(RecvWR(sg=[SGE(mr.buf + half, half, mr.lkey)], num_sge=1))
    qp.wr_start()
    qp.wr_id, qp.wr_flags = 1, e.IBV_SEND_SIGNALED
    qp.wr_send()
    qp.wr_set_sge(SGE(mr.buf, len(TEXT), mr.lkey))
    qp.wr_complete()
    verbs.poll(2)
    assert mr.read(len(TEXT), half).decode() == TEXT


def memory_window(verbs: Verbs) -> None:
    qp = QP(verbs.pd, verbs.attributes(e.IBV_QPT_RC))
    qp.to_rts(connected(verbs, qp.qp_num))
    window = MW(verbs.pd, e.IBV_MW_TYPE_1)
    before = window.rkey
    part = MWBindInfo(verbs.mr, verbs.mr.buf, 64, e.IBV_ACCESS_REMOTE_WRITE)
    qp.bind_mw(window, MWBind(part, 1, e.IBV_SEND_SIGNALED))
    verbs.poll(1)
    assert window.rkey != before


def device_memory(verbs: Verbs) -> None:
    with DM(verbs.context, AllocDmAttr(length=4096)) as memory:
        memory.copy_to_dm(0, TEXT.encode(), len(TEXT))
        assert memory.copy_from_dm(0, len(TEXT)) == TEXT.encode()
        DMMR(verbs.pd, 4096, e.IBV_ACCESS_ZERO_BASED | e.IBV_ACCESS_LOCAL_WRITE, memory, 0).close()


def parent_domain(verbs: Verbs) -> None:
    with ParentDomain(verbs.context, ParentDomainInitAttr(pd=verbs.pd)) as parent:
        MR(parent, 64, e.IBV_ACCESS_LOCAL_WRITE).close()


def imported_objects(verbs: Verbs) -> None:
    """Imports the context, the protection domain and the memory region of this process by their numbers."""
    context = Context(cmd_fd=os.dup(verbs.context.cmd_fd))
    pd = PD(context, handle=verbs.pd.handle)
    mr = MR(pd, handle=verbs.mr.handle)
    assert mr.lkey == verbs.mr.lkey
    mr.unimport()
    pd.unimport()
    context.close()


OBJECTS = [device_list, context, completion_events, extended_cq, region, address_handle,
           rc_queue_pair, uc_queue_pair, ud_queue_pair, shared_receive_queue, xrc_objects,
           extended_queue_pair, memory_window, device_memory, parent_domain, imported_objects]


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
