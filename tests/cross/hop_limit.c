/* SPDX-License-Identifier: BSD-3-Clause */
/* hop_limit.c - a library for LD_PRELOAD that makes every connected queue pair send with hop limit
 * 64, the default of sockets. The hop limit of datagrams is in the address handle, and is not
 * changed.
 *
 * A datagram with another hop limit needs a control message. An emulator of a processor with the
 * other byte order may give the hop limit in that message to the kernel in the wrong order
 * (emulator_probes.c: control-message). The programs of Debian choose hop limit 1 or 255. */
#include <dlfcn.h>
#include <infiniband/verbs.h>

#define HOP_LIMIT 64

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int);

    *(void **)&next = dlsym(RTLD_NEXT, "ibv_modify_qp");
    if ((mask & IBV_QP_AV) != 0)
        attr->ah_attr.grh.hop_limit = HOP_LIMIT;
    return next(qp, attr, mask);
}
