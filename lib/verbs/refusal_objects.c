/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal_objects.c - why calls with access rights, and calls on multicast groups, device memory,
 * XRC domains and shared receive queues are refused. */
#include <errno.h>
#include <fcntl.h>

#include "core/limits.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

int uro_refuse_busy(struct uro_device *device, const char *call, const char *object, unsigned count,
                    const char *users)
{
    return uro_refuse(device, EBUSY, call, "%u %s still use the %s: destroy them first", count,
                      users, object);
}

int uro_refuse_access(struct uro_device *device, const char *call, unsigned access)
{
    const unsigned unknown = uro_ibv_access_unknown(access);

    if (unknown != 0)
        return uro_refuse(device, EINVAL, call, "access 0x%x has unknown bits: 0x%x", access,
                          unknown);
    return uro_refuse(device, EINVAL, call,
                      "access 0x%x has %s without IBV_ACCESS_LOCAL_WRITE, which it needs", access,
                      access & IBV_ACCESS_REMOTE_WRITE ? "IBV_ACCESS_REMOTE_WRITE"
                                                       : "IBV_ACCESS_REMOTE_ATOMIC");
}

/* ---- multicast ------------------------------------------------------------------------- */

int uro_refuse_group(struct uro_ibv_qp *qp, const char *call, const struct uro_gid *group)
{
    char text[URO_GID_TEXT_MAX];

    if (qp->type != URO_QPT_UD)
        return uro_refuse(qp->object.device, EINVAL, call,
                          "only queue pairs of type IBV_QPT_UD join multicast groups");
    return uro_refuse(
        qp->object.device, EINVAL, call,
        "%s is not a multicast address: use 224.0.0.0/4 as ::ffff:224.x.x.x, or ff00::/8",
        uro_gid_text(group, text));
}

int uro_refuse_detach(struct uro_ibv_qp *qp, const struct uro_gid *group)
{
    char text[URO_GID_TEXT_MAX];

    return uro_refuse(qp->object.device, EINVAL, "ibv_detach_mcast",
                      "the queue pair is not attached to %s: use the GID of ibv_attach_mcast",
                      uro_gid_text(group, text));
}

/* ---- device memory --------------------------------------------------------------------- */

int uro_refuse_dm(struct ibv_context *context, const struct ibv_alloc_dm_attr *attr)
{
    struct uro_device *device = uro_ibv_host(context);
    const char *call = "ibv_alloc_dm";

    if (attr->length == 0)
        return uro_refuse(device, EINVAL, call, "length is 0; it must be at least 1");
    if (attr->log_align_req > URO_DM_LOG_ALIGN_MAX)
        return uro_refuse(device, EINVAL, call, "log_align_req is %u; the limit is %u",
                          attr->log_align_req, URO_DM_LOG_ALIGN_MAX);
    return uro_refuse(device, EINVAL, call, "comp_mask is 0x%x; it must be 0", attr->comp_mask);
}

int uro_refuse_dm_copy(const struct uro_ibv_dm *dm, const char *call, uint64_t offset,
                       size_t length, int error)
{
    if (error == EFAULT)
        return uro_refuse(dm->object.device, EFAULT, call,
                          "offset %llu and length %zu exceed the %zu bytes of the device memory",
                          (unsigned long long)offset, length, dm->origin->length);
    return error == 0 ? 0
                      : uro_refuse(dm->object.device, error, call,
                                   "offset %llu and length %zu must be multiples of 4",
                                   (unsigned long long)offset, length);
}

int uro_refuse_dm_region(struct ibv_pd *pd, const struct uro_ibv_dm *dm, uint64_t offset,
                         size_t length, unsigned access, int error)
{
    const char *call = "ibv_reg_dm_mr";
    struct uro_device *device = uro_ibv_host(pd->context);

    if (error != EINVAL)
        return error;
    if (!(access & IBV_ACCESS_ZERO_BASED))
        return uro_refuse(device, error, call,
                          "access 0x%x lacks IBV_ACCESS_ZERO_BASED: addresses in device memory are "
                          "offsets",
                          access);
    if (access & IBV_ACCESS_ON_DEMAND)
        return uro_refuse(
            device, error, call,
            "access 0x%x has IBV_ACCESS_ON_DEMAND, which device memory does not support", access);
    if (pd->context != dm->ibv.context)
        return uro_refuse(device, error, call,
                          "the device memory is of another context than the PD");
    if (offset > dm->origin->length || length > dm->origin->length - offset)
        return uro_refuse(device, error, call,
                          "offset %llu and length %zu exceed the %zu bytes of the device memory",
                          (unsigned long long)offset, length, dm->origin->length);
    return uro_refuse_access(device, call, access);
}

/* ---- XRC domains ------------------------------------------------------------------------ */

int uro_refuse_xrcd(struct ibv_context *context, const struct ibv_xrcd_init_attr *attr, int error)
{
    const char *call = "ibv_open_xrcd";
    struct uro_device *device = uro_ibv_host(context);
    const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

    if (attr->comp_mask & ~needed)
        return uro_refuse_probe(device, error, call, "comp_mask 0x%x has an unknown bit",
                                attr->comp_mask);
    if (attr->comp_mask != needed)
        return uro_refuse(device, error, call,
                          "comp_mask is 0x%x: both IBV_XRCD_INIT_ATTR_FD and _OFLAGS are needed; "
                          "fd -1 makes a domain without a file",
                          attr->comp_mask);
    if (error == EBADF)
        return uro_refuse(device, error, call, "fd %d is not an open file; -1 stands for no file",
                          attr->fd);
    if (error == EINVAL)
        return uro_refuse(device, error, call,
                          "O_EXCL is set, but this process has a domain of that file already: open "
                          "it without O_EXCL");
    if (error == EAGAIN)
        return uro_refuse(device, error, call,
                          "this process has no domain of that file: open it with O_CREAT; uroce "
                          "does not share domains between processes");
    return error;
}

/* ---- shared receive queues -------------------------------------------------------------- */

int uro_refuse_srq(struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
    const char *call = "ibv_create_srq_ex";
    struct uro_device *device = uro_ibv_host(context);

    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || attr->pd == NULL)
        return uro_refuse(device, EINVAL, call,
                          "there is no PD: set pd, and IBV_SRQ_INIT_ATTR_PD in comp_mask");
    if (attr->pd->context != context)
        return uro_refuse(device, EINVAL, call, "the PD is of another context");
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || attr->xrcd == NULL)
        return uro_refuse(device, EINVAL, call,
                          "IBV_SRQT_XRC needs an XRC domain: set xrcd from ibv_open_xrcd, and "
                          "IBV_SRQ_INIT_ATTR_XRCD in comp_mask");
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || attr->cq == NULL)
        return uro_refuse(device, EINVAL, call,
                          "IBV_SRQT_XRC needs a CQ: set cq, and IBV_SRQ_INIT_ATTR_CQ in comp_mask");
    return uro_refuse(device, EINVAL, call, "the %s is of another context",
                      attr->xrcd->context != context ? "XRC domain" : "CQ");
}
