/* SPDX-License-Identifier: BSD-3-Clause */
/* card.c - see card.h. */
#include "verbs/card.h"

#include <errno.h>

#include "core/limits.h"
#include "verbs/objects.h"
#include "verbs/refusal.h"

#define CALL_POST        "ibv_post_send"
#define QP_EX_WITH_FLUSH (UINT64_C(1) << 11) /* an older <infiniband/verbs.h> lacks this flag */

static const struct uro_card *card_of(const struct uro_device *device)
{
    return &uro_device_config(device)->card;
}

int uro_card_refuses(struct uro_device *device, enum uro_card_missing what, const char *call)
{
    const struct uro_card *card = card_of(device);

    if (card->missing[what] == 0)
        return 0;
    return uro_refuse_probe(device, card->missing[what], call, "like=%s: this card has no %s",
                            card->name, uro_card_missing_name(what));
}

/* ---- queue pairs ------------------------------------------------------------------------ */

static int refuses_type(struct uro_device *device, enum ibv_qp_type type)
{
    const char *call = "ibv_create_qp";

    if (type == IBV_QPT_UC)
        return uro_card_refuses(device, URO_CARD_NO_UC, call);
    if (type == IBV_QPT_UD)
        return uro_card_refuses(device, URO_CARD_NO_UD, call);
    if (type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV)
        return uro_card_refuses(device, URO_CARD_NO_XRC, call);
    return 0;
}

/* Checks the operations of ibv_wr_*(). */
static int refuses_operations(struct uro_device *device, uint64_t send_ops)
{
    static const struct {
        uint64_t flags;
        enum uro_card_missing what;
    } operations[] = {
        { IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
          URO_CARD_NO_ATOMICS },
        { IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, URO_CARD_NO_WRITE_IMM },
        { IBV_QP_EX_WITH_SEND_WITH_INV, URO_CARD_NO_SEND_INV },
        { IBV_QP_EX_WITH_LOCAL_INV, URO_CARD_NO_LOCAL_INV },
        { IBV_QP_EX_WITH_BIND_MW, URO_CARD_NO_MW },
        { IBV_QP_EX_WITH_ATOMIC_WRITE, URO_CARD_NO_ATOMIC_WRITE },
        { QP_EX_WITH_FLUSH, URO_CARD_NO_FLUSH },
    };
    int error = uro_card_refuses(device, URO_CARD_NO_WR_API, "ibv_create_qp_ex");

    for (size_t i = 0; i < URO_ARRAY_LEN(operations) && error == 0; i++)
        if ((send_ops & operations[i].flags) != 0 &&
            uro_card_refuses(device, operations[i].what, "ibv_create_qp_ex") != 0)
            error = EOPNOTSUPP;
    return error;
}

int uro_card_refuses_qp(struct uro_device *device, const struct ibv_qp_init_attr_ex *attr)
{
    int error = refuses_type(device, attr->qp_type);

    if (error == 0 && attr->srq != NULL)
        error = uro_card_refuses(device, URO_CARD_NO_SRQ, "ibv_create_qp");
    if (error == 0 && (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
        error = refuses_operations(device, attr->send_ops_flags);
    return error;
}

/* ---- memory ----------------------------------------------------------------------------- */

int uro_card_refuses_mr(struct uro_device *device, uint64_t length, unsigned access)
{
    const struct uro_card *card = card_of(device);
    const uint64_t most = uro_card_value(card, URO_CARD_MAX_MR_SIZE, UINT64_MAX);

    if (length > most)
        return uro_refuse(
            device, card->long_mr == URO_CARD_LONG_MR_ENOMEM ? ENOMEM : EINVAL, "ibv_reg_mr",
            "like=%s: the region has %llu bytes; max_mr_size of this card is %llu: register parts",
            card->name, (unsigned long long)length, (unsigned long long)most);
    return access & IBV_ACCESS_ON_DEMAND ? uro_card_refuses(device, URO_CARD_NO_ODP, "ibv_reg_mr")
                                         : 0;
}

/* ---- posts ------------------------------------------------------------------------------ */

/* Returns what an operation of ibv_post_send() needs, or URO_CARD_MISSING if each card has it. */
static enum uro_card_missing needed(enum ibv_wr_opcode opcode)
{
    switch ((int)opcode) {
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return URO_CARD_NO_ATOMICS;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return URO_CARD_NO_WRITE_IMM;
    case IBV_WR_SEND_WITH_INV:
        return URO_CARD_NO_SEND_INV;
    case IBV_WR_LOCAL_INV:
        return URO_CARD_NO_LOCAL_INV;
    case IBV_WR_BIND_MW:
        return URO_CARD_NO_MW;
    case IBV_WR_ATOMIC_WRITE:
        return URO_CARD_NO_ATOMIC_WRITE;
    default:
        return URO_CARD_MISSING;
    }
}

bool uro_card_checks_posts(const struct uro_card *card)
{
    static const enum uro_card_missing operations[] = {
        URO_CARD_NO_ATOMICS,   URO_CARD_NO_WRITE_IMM, URO_CARD_NO_SEND_INV,
        URO_CARD_NO_LOCAL_INV, URO_CARD_NO_MW,        URO_CARD_NO_ATOMIC_WRITE
    };
    const uint64_t sges = uro_card_limit(card, URO_CARD_MAX_SEND_SGE, URO_SGE_MAX);

    for (size_t i = 0; i < URO_ARRAY_LEN(operations); i++)
        if (card->missing[operations[i]] != 0)
            return true;
    return uro_card_limit(card, URO_CARD_MAX_SGE_RD, sges) < sges;
}

/* Returns 0, or the errno of a request that the card refuses. */
static int refuses_request(struct uro_device *device, const struct ibv_send_wr *wr)
{
    const struct uro_card *card = card_of(device);
    const uint32_t sges = uro_card_most(device, URO_CARD_MAX_SGE_RD, URO_SGE_MAX);
    const enum uro_card_missing what = needed(wr->opcode);

    if (what != URO_CARD_MISSING)
        return uro_card_refuses(device, what, CALL_POST);
    if (wr->opcode == IBV_WR_RDMA_READ && wr->num_sge > (int)sges)
        return uro_refuse(device, EINVAL, CALL_POST,
                          "like=%s: the READ has %d elements; max_sge_rd of this card is %u",
                          card->name, wr->num_sge, sges);
    return 0;
}

int uro_card_post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct uro_device *device = uro_ibv_qp(ibv)->object.device;
    struct ibv_send_wr *before = NULL, *refused = wr;
    int error = 0;

    while (refused != NULL && (error = refuses_request(device, refused)) == 0) {
        before = refused;
        refused = refused->next;
    }
    if (error != 0 && before == NULL) {
        *bad_wr = refused;
        return error;
    }
    if (error != 0)
        before->next = NULL;
    const int earlier = uro_ibv_post_send(ibv, wr, bad_wr);
    if (error == 0)
        return earlier;
    before->next = refused;
    if (earlier == 0)
        *bad_wr = refused;
    return earlier != 0 ? earlier : error;
}
