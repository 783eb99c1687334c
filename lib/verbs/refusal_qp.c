/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal_qp.c - why ibv_modify_qp, ibv_create_qp and ibv_create_ah refuse their attributes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "core/shard.h"
#include "verbs/card.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

#define CALL_MODIFY "ibv_modify_qp"
#define CALL_CREATE "ibv_create_qp"
#define BITS_MAX    224u

/* ---- names --------------------------------------------------------------------------- */

/* Writes the names of the attribute bits. Returns @text. */
static const char *bit_names(unsigned bits, char text[static BITS_MAX])
{
    static const char *const names[] = { "STATE",
                                         "CUR_STATE",
                                         "EN_SQD_ASYNC_NOTIFY",
                                         "ACCESS_FLAGS",
                                         "PKEY_INDEX",
                                         "PORT",
                                         "QKEY",
                                         "AV",
                                         "PATH_MTU",
                                         "TIMEOUT",
                                         "RETRY_CNT",
                                         "RNR_RETRY",
                                         "RQ_PSN",
                                         "MAX_QP_RD_ATOMIC",
                                         "ALT_PATH",
                                         "MIN_RNR_TIMER",
                                         "SQ_PSN",
                                         "MAX_DEST_RD_ATOMIC",
                                         "PATH_MIG_STATE",
                                         "CAP",
                                         "DEST_QPN" };
    size_t used = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < 32 && used < BITS_MAX; i++)
        if (bits >> i & 1u)
            used +=
                (size_t)snprintf(text + used, BITS_MAX - used, "%sIBV_QP_%s", used > 0 ? ", " : "",
                                 i < URO_ARRAY_LEN(names) ? names[i] : "(unknown)");
    return text;
}

/* ---- addresses ------------------------------------------------------------------------ */

int uro_refuse_address(struct ibv_context *context, const char *call,
                       const struct ibv_ah_attr *attr)
{
    struct uro_device *device = uro_ibv_host(context);
    const struct uro_device_config *config = uro_device_config(device);
    char text[URO_GID_TEXT_MAX], own[URO_GID_TEXT_MAX];
    struct uro_gid dest;

    memcpy(dest.octets, attr->grh.dgid.raw, sizeof dest.octets);
    if (!attr->is_global)
        return uro_refuse(device, EINVAL, call,
                          "the address has no GRH (ah_attr.is_global is 0), which RoCE needs: set "
                          "is_global 1 and ah_attr.grh; with ibv_rc_pingpong use -g, with perftest "
                          "-x");
    if (attr->port_num != URO_PORT)
        return uro_refuse(device, EINVAL, call, "ah_attr.port_num is %u; the only port is 1",
                          attr->port_num);
    if (attr->grh.sgid_index >= uro_gid_index_count(config))
        return uro_refuse(
            device, EINVAL, call,
            "sgid_index %u has no GID: the device has %u, 0 to %u; see `uroce devices`",
            attr->grh.sgid_index, uro_gid_index_count(config), uro_gid_index_count(config) - 1);
    if (uro_gid_index_is_v1(config, attr->grh.sgid_index))
        return uro_refuse(
            device, EINVAL, call,
            "like=%s: sgid_index %u is for RoCE v1, which uroce does not support: use %u, the "
            "same address for RoCE v2 (ibv_rc_pingpong -g %u, perftest -x %u)",
            config->card.name, attr->grh.sgid_index, attr->grh.sgid_index + 1u,
            attr->grh.sgid_index + 1u, attr->grh.sgid_index + 1u);
    if (uro_gid_is_zero(&dest))
        return uro_refuse(device, EINVAL, call,
                          "ah_attr.grh.dgid is zero: set the GID of the peer");
    const struct uro_gid *source = &config->gids[uro_gid_index_own(config, attr->grh.sgid_index)];
    if (uro_gid_is_ipv4(&dest) != uro_gid_is_ipv4(source))
        return uro_refuse(
            device, EINVAL, call,
            "the peer's GID %s is IPv%u, but sgid_index %u is %s: choose a sgid_index "
            "of the same IP version",
            uro_gid_text(&dest, text), uro_gid_is_ipv4(&dest) ? 4u : 6u, attr->grh.sgid_index,
            uro_gid_text(source, own));
    return 0;
}

int uro_refuse_route(struct uro_device *device, const char *call, const struct ibv_ah_attr *attr)
{
    char text[URO_GID_TEXT_MAX];
    struct uro_gid dest;

    memcpy(dest.octets, attr->grh.dgid.raw, sizeof dest.octets);
    return uro_refuse(device, ENETUNREACH, call,
                      "the peer's GID %s is in no subnet of sgid_index %u, and the device has no "
                      "gateway: give it the right prefix in ip=, or gateway=",
                      uro_gid_text(&dest, text), attr->grh.sgid_index);
}

/* ---- modify --------------------------------------------------------------------------- */

/* Returns 0 if the state and the mask are right. */
static int refuse_transition(struct uro_device *device, enum uro_qp_type type, unsigned from,
                             unsigned to, unsigned mask)
{
    char bits[BITS_MAX];
    unsigned required, allowed;

    if (!uro_qp_state_masks(type, (enum uro_qp_state)from, (enum uro_qp_state)to, &required,
                            &allowed))
        return uro_refuse(
            device, EINVAL, CALL_MODIFY,
            "no transition leads from %s to %s: a queue pair goes from RESET to INIT, "
            "RTR and RTS, and to RESET or ERR from every state",
            uro_qp_state_name(from), uro_qp_state_name(to));
    if ((required & ~mask) != 0)
        return uro_refuse(device, EINVAL, CALL_MODIFY, "%s to %s lacks %s in the mask",
                          uro_qp_state_name(from), uro_qp_state_name(to),
                          bit_names(required & ~mask, bits));
    if ((mask & ~allowed) != 0)
        return uro_refuse(device, EINVAL, CALL_MODIFY, "%s to %s does not take %s in the mask",
                          uro_qp_state_name(from), uro_qp_state_name(to),
                          bit_names(mask & ~allowed, bits));
    return 0;
}

static int refuse_path_mtu(struct uro_ibv_qp *qp, const struct ibv_qp_attr *attr)
{
    struct uro_device *device = qp->object.device;
    const uint32_t most = uro_shard_path_mtu(qp->shard);

    if (attr->path_mtu < IBV_MTU_256 || attr->path_mtu > IBV_MTU_4096)
        return uro_refuse(device, EINVAL, CALL_MODIFY,
                          "path_mtu %d is not in enum ibv_mtu: use a value such as IBV_MTU_1024",
                          (int)attr->path_mtu);
    const uint32_t wanted = 128u << attr->path_mtu;
    if (wanted > most)
        return uro_refuse(device, EINVAL, CALL_MODIFY,
                          "path_mtu %u is more than active_mtu %u of the port, whose link carries "
                          "%u bytes: choose at most %u (perftest and ibv_rc_pingpong: -m %u), or "
                          "raise the MTU of the link",
                          wanted, most, uro_shard_mtu(qp->shard), most, most);
    return 0;
}

/* Returns 0 if all values are in their ranges. */
static int refuse_values(struct uro_ibv_qp *qp, const struct ibv_qp_attr *attr, unsigned mask)
{
    struct uro_device *device = qp->object.device;
    const uint32_t initiator_depth =
        uro_card_most(device, URO_CARD_MAX_QP_INIT_RD_ATOM, URO_RD_ATOMIC_MAX);
    const uint32_t responder = uro_card_most(device, URO_CARD_MAX_QP_RD_ATOM, URO_RD_ATOMIC_MAX);
    const struct {
        unsigned bit;
        const char *name;
        unsigned value, most;
    } ranges[] = {
        { URO_ATTR_PKEY_INDEX, "pkey_index", attr->pkey_index, 0 },
        { URO_ATTR_TIMEOUT, "timeout", attr->timeout, 31 },
        { URO_ATTR_RETRY_CNT, "retry_cnt", attr->retry_cnt, 7 },
        { URO_ATTR_RNR_RETRY, "rnr_retry", attr->rnr_retry, 7 },
        { URO_ATTR_MIN_RNR, "min_rnr_timer", attr->min_rnr_timer, 31 },
        { URO_ATTR_RD_ATOMIC, "max_rd_atomic", attr->max_rd_atomic, initiator_depth },
        { URO_ATTR_DEST_RD, "max_dest_rd_atomic", attr->max_dest_rd_atomic, responder },
        { URO_ATTR_DEST_QPN, "dest_qp_num", attr->dest_qp_num, 0xffffff },
    };

    if ((mask & URO_ATTR_PORT) && attr->port_num != URO_PORT)
        return uro_refuse(device, EINVAL, CALL_MODIFY, "port_num is %u; the only port is 1",
                          attr->port_num);
    for (size_t i = 0; i < URO_ARRAY_LEN(ranges); i++)
        if ((mask & ranges[i].bit) && ranges[i].value > ranges[i].most)
            return uro_refuse(device, EINVAL, CALL_MODIFY, "%s is %u; it must be at most %u",
                              ranges[i].name, ranges[i].value, ranges[i].most);
    if (mask & URO_ATTR_PATH_MTU)
        return refuse_path_mtu(qp, attr);
    return 0;
}

int uro_refuse_modify(struct uro_ibv_qp *qp, const struct ibv_qp_attr *attr, unsigned mask)
{
    struct uro_device *device = qp->object.device;
    const unsigned from = uro_qp_state_now(qp->core);
    const unsigned to = mask & URO_ATTR_STATE ? (unsigned)attr->qp_state : from;
    int error = refuse_transition(device, qp->type, from, to, mask);

    if (error == 0 && (mask & URO_ATTR_CUR_STATE) && attr->cur_qp_state != (enum ibv_qp_state)from)
        error = uro_refuse(device, EINVAL, CALL_MODIFY, "cur_qp_state is %s, but the state is %s",
                           uro_qp_state_name(attr->cur_qp_state), uro_qp_state_name(from));
    if (error == 0)
        error = refuse_values(qp, attr, mask);
    if (error == 0 && (mask & URO_ATTR_AV))
        error = uro_refuse_address(qp->ibv.context, CALL_MODIFY, &attr->ah_attr);
    if (error == 0 && (mask & (URO_ATTR_ALT_PATH | URO_ATTR_CAP)) != 0)
        error = uro_refuse(device, EINVAL, CALL_MODIFY,
                           "uroce supports no alternate path, and no new size of the queues");
    if (error == 0 && from == URO_QPS_SQD)
        error = uro_refuse(device, EINVAL, CALL_MODIFY,
                           "the send queue is not drained yet: wait for IBV_EVENT_SQ_DRAINED");
    return error != 0 ? error
                      : uro_refuse(device, EINVAL, CALL_MODIFY,
                                   "%s to %s: an attribute is out of its range, such as an unknown "
                                   "bit in qp_access_flags 0x%x, or a multicast GID as the peer",
                                   uro_qp_state_name(from), uro_qp_state_name(to),
                                   mask & URO_ATTR_ACCESS ? attr->qp_access_flags : 0);
}

/* ---- create ---------------------------------------------------------------------------- */

int uro_refuse_cap(struct uro_device *device, const char *call, const struct ibv_qp_cap *cap)
{
    const uint32_t requests = uro_card_most(device, URO_CARD_MAX_QP_WR, URO_WR_MAX);
    const uint32_t octets = uro_card_most(device, URO_CARD_MAX_INLINE, URO_INLINE_MAX);
    const struct {
        const char *name, *limit;
        uint32_t value, most;
    } caps[] = {
        { "max_send_wr", "max_qp_wr", cap->max_send_wr, requests },
        { "max_recv_wr", "max_qp_wr", cap->max_recv_wr, requests },
        { "max_send_sge", "max_sge", cap->max_send_sge,
          uro_card_most(device, URO_CARD_MAX_SEND_SGE, URO_SGE_MAX) },
        { "max_recv_sge", "max_sge", cap->max_recv_sge,
          uro_card_most(device, URO_CARD_MAX_RECV_SGE, URO_SGE_MAX) },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(caps); i++)
        if (caps[i].value > caps[i].most)
            return uro_refuse(device, EINVAL, call, "%s is %u; the limit %s is %u", caps[i].name,
                              caps[i].value, caps[i].limit, caps[i].most);
    if (cap->max_inline_data > octets)
        return uro_refuse_probe(device, EINVAL, call, "max_inline_data is %u; the limit is %u",
                                cap->max_inline_data, octets);
    return 0;
}

/* Returns the capacities of the queues that the queue pair will have. Others are ignored. */
static struct ibv_qp_cap cap_of(const struct ibv_qp_init_attr_ex *attr)
{
    struct ibv_qp_cap cap = attr->cap;

    if (attr->qp_type == IBV_QPT_XRC_RECV)
        return (struct ibv_qp_cap){ 0 };
    if (attr->qp_type == IBV_QPT_XRC_SEND || attr->srq != NULL)
        cap.max_recv_wr = cap.max_recv_sge = 0;
    return cap;
}

/* Returns the name of an object of another context, or NULL. All needed objects must be set. */
static const char *other_context(const struct ibv_context *context,
                                 const struct ibv_qp_init_attr_ex *attr)
{
    if (attr->qp_type == IBV_QPT_XRC_RECV)
        return attr->xrcd->context != context ? "XRC domain" : NULL;
    if (attr->pd->context != context)
        return "PD";
    if (attr->send_cq->context != context)
        return "send CQ";
    if (attr->qp_type == IBV_QPT_XRC_SEND)
        return NULL;
    if (attr->recv_cq->context != context)
        return "receive CQ";
    return attr->srq != NULL && attr->srq->context != context ? "SRQ" : NULL;
}

int uro_refuse_create(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
    struct uro_device *device = uro_ibv_host(context);
    const bool target = attr->qp_type == IBV_QPT_XRC_RECV;
    const bool initiator = attr->qp_type == IBV_QPT_XRC_SEND;
    const struct ibv_qp_cap cap = cap_of(attr);
    int error = uro_refuse_cap(device, CALL_CREATE, &cap);

    if (error != 0)
        return error;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags != 0 &&
        attr->qp_type != IBV_QPT_UD)
        return uro_refuse(device, EINVAL, CALL_CREATE,
                          "create_flags 0x%x are only for queue pairs of type IBV_QPT_UD",
                          attr->create_flags);
    if (!target && (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd == NULL))
        return uro_refuse(device, EINVAL, CALL_CREATE, "there is no PD");
    if (!target && attr->send_cq == NULL)
        return uro_refuse(device, EINVAL, CALL_CREATE, "send_cq is NULL: create a CQ first");
    if (!target && !initiator && attr->recv_cq == NULL)
        return uro_refuse(device, EINVAL, CALL_CREATE, "recv_cq is NULL: create a CQ first");
    if (target && (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || attr->xrcd == NULL))
        return uro_refuse(device, EINVAL, CALL_CREATE, "IBV_QPT_XRC_RECV needs an XRC domain");
    if (!target && (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD))
        return uro_refuse(device, EINVAL, CALL_CREATE,
                          "IBV_QP_INIT_ATTR_XRCD is only for queue pairs of type IBV_QPT_XRC_RECV");
    const char *object = other_context(context, attr);
    if (object != NULL)
        return uro_refuse(device, EINVAL, CALL_CREATE, "the %s is of another context", object);
    return uro_refuse(device, EINVAL, CALL_CREATE,
                      "the SRQ is of type IBV_SRQT_XRC: only XRC queue pairs of peers use it");
}
