/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_objects.c - see fuzz_objects.h. Memory that was not registered contains a secret. The secret
 * must not change and must not be sent. Ranges are set to zero before they are registered.
 */
#include "fuzz_objects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define ARENA       65536u
#define UNIT        64u /* registered ranges are multiples of this */
#define SECRET      0xee
#define SECRET_RUN  24u
#define OBJECTS_MAX 64u
#define ALL_ACCESS  0x11fu
#define EX_OPS      UINT64_C(0x7ff)

static const uint8_t *at, *end;
static struct ibv_context *contexts[FUZZ_DEVICES];
static struct object objects[OBJECTS_MAX];
static uint32_t object_count;
static uint8_t arena[ARENA];
static bool open_to_all[ARENA / UNIT]; /* true for a unit that was ever registered */
uint8_t fuzz_inline[FUZZ_INLINE];

uint8_t fuzz_next(void)
{
    return at < end ? *at++ : 0;
}

bool fuzz_more(void)
{
    return at < end;
}

void fuzz_feed(const uint8_t *data, size_t size)
{
    at = data;
    end = data + size;
}

struct ibv_context *fuzz_context(uint8_t side)
{
    return contexts[side % FUZZ_DEVICES];
}

/* ---- the secret ---------------------------------------------------------- */

static void look_for_secret(const uint8_t *octets, uint32_t length)
{
    uint32_t run = 0;

    for (uint32_t i = 0; i < length; i++) {
        run = octets[i] == SECRET ? run + 1 : 0;
        fuzz_demand(run < SECRET_RUN);
    }
}

static void check_arena(void)
{
    for (uint32_t i = 0; i < ARENA; i++)
        fuzz_demand(open_to_all[i / UNIT] || arena[i] == SECRET);
}

uint8_t *fuzz_choose_range(uint32_t *length)
{
    uint32_t first = fuzz_next() * 4u, units = fuzz_next();

    if (first + units > ARENA / UNIT)
        units = ARENA / UNIT - first;
    *length = units * UNIT;
    memset(arena + first * UNIT, 0, *length);
    memset(open_to_all + first, true, units);
    return arena + first * UNIT;
}

/* ---- making -------------------------------------------------------------- */

static uint32_t count_of(enum kind kind)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < object_count; i++)
        count += objects[i].kind == kind;
    return count;
}

struct object *fuzz_pick(enum kind kind)
{
    uint32_t count = count_of(kind);
    uint32_t number = fuzz_next();

    if (count == 0)
        return NULL;
    number %= count;
    for (uint32_t i = 0; i < object_count; i++)
        if (objects[i].kind == kind && number-- == 0)
            return &objects[i];
    return NULL;
}

struct ibv_cq *fuzz_pick_cq(void)
{
    bool extended = fuzz_next() & 1;
    struct object *object = fuzz_pick(extended ? CQ_EX : CQ);

    if (object == NULL)
        return NULL;
    return extended ? ibv_cq_ex_to_cq(object->cq_ex) : object->cq;
}

static void *make_mr(struct ibv_pd *pd)
{
    const uint8_t how = fuzz_next();
    const unsigned access = how & 0x80 ? fuzz_next() * 0x11u : ALL_ACCESS;
    const uint8_t where = fuzz_next();
    struct object *dm;
    uint32_t length;

    switch (how & 7) {
    case 0: /* memory that is not mapped */
        return ibv_reg_mr(pd, (void *)(uintptr_t)16, (size_t)where << 20, access);
    case 1:
        return ibv_alloc_null_mr(pd);
    case 2:
        dm = fuzz_pick(DM);
        return dm == NULL ? NULL
                          : ibv_reg_dm_mr(pd, dm->dm, where * 4u, how * 4u,
                                          access | IBV_ACCESS_ZERO_BASED);
    case 3: {
        uint8_t *memory = fuzz_choose_range(&length);
        return ibv_reg_mr_iova2(pd, memory, length, where * UINT64_C(0x100000000000100), access);
    }
    default: {
        uint8_t *memory = fuzz_choose_range(&length);
        return ibv_reg_mr(pd, memory, length, access);
    }
    }
}

static void *make_ah(struct ibv_pd *pd)
{
    struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };
    const uint8_t how = fuzz_next();

    attr.grh.sgid_index = how & 3;
    attr.grh.traffic_class = how;
    (void)ibv_query_gid(fuzz_context(how >> 2), 1, how & 3, &attr.grh.dgid);
    if (how & 0x40) /* a multicast group or any address */
        memset(attr.grh.dgid.raw, fuzz_next(), how & 0x80 ? 2 : 16);
    return ibv_create_ah(pd, &attr);
}

static void *make_cq(struct ibv_context *context, bool extended)
{
    struct object *channel = fuzz_pick(CHANNEL);
    const uint8_t how = fuzz_next();
    struct ibv_cq_init_attr_ex attr = { .cqe = how & 0x3f,
                                        .channel = how & 0x40 && channel ? channel->channel : NULL,
                                        .wc_flags = IBV_WC_STANDARD_FLAGS | 0x880,
                                        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                        .flags =
                                            how & 0x80 ? IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN : 0 };

    if (extended)
        return ibv_create_cq_ex(context, &attr);
    return ibv_create_cq(context, how & 0x3f, NULL, attr.channel, 0);
}

static void *make_srq(struct ibv_context *context, struct ibv_pd *pd)
{
    const uint8_t how = fuzz_next();
    struct object *xrcd = fuzz_pick(XRCD);
    struct ibv_srq_init_attr_ex attr = {
        .attr = { .max_wr = how & 0x1f, .max_sge = 1 + (how >> 5 & 1) },
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
        .srq_type = IBV_SRQT_BASIC,
        .pd = pd,
    };

    if (how & 0x80) {
        attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        attr.srq_type = IBV_SRQT_XRC;
        attr.xrcd = xrcd != NULL ? xrcd->xrcd : NULL;
        attr.cq = fuzz_pick_cq();
    }
    return ibv_create_srq_ex(context, &attr);
}

static void *make_qp(struct ibv_context *context, struct ibv_pd *pd)
{
    static const enum ibv_qp_type types[8] = { IBV_QPT_RC,         IBV_QPT_UC,       IBV_QPT_UD,
                                               IBV_QPT_XRC_SEND,   IBV_QPT_XRC_RECV, IBV_QPT_RC,
                                               IBV_QPT_RAW_PACKET, IBV_QPT_UD };
    const uint8_t how = fuzz_next(), size = fuzz_next();
    struct object *srq = how & 8 ? fuzz_pick(SRQ) : NULL;
    struct object *xrcd = fuzz_pick(XRCD);
    struct ibv_cq *send_cq = fuzz_pick_cq();
    struct ibv_cq *recv_cq = how & 0x80 ? send_cq : fuzz_pick_cq();
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = send_cq,
        .recv_cq = recv_cq,
        .srq = srq != NULL ? srq->srq : NULL,
        .cap = { .max_send_wr = size & 0x1f,
                 .max_recv_wr = size & 0x1f,
                 .max_send_sge = size >> 5,
                 .max_recv_sge = size >> 6,
                 .max_inline_data = size },
        .qp_type = types[how & 7],
        .sq_sig_all = how >> 4 & 1,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };

    if (how & 0x20) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = how & 0x40 ? EX_OPS : IBV_QP_EX_WITH_SEND;
    }
    if (attr.qp_type == IBV_QPT_XRC_RECV) {
        attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        attr.xrcd = xrcd != NULL ? xrcd->xrcd : NULL;
    }
    return ibv_create_qp_ex(context, &attr);
}

static void *open_again(struct ibv_context *context)
{
    struct object *xrcd = fuzz_pick(XRCD);
    struct object *qp = fuzz_pick(QP);
    struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
                                                  IBV_QP_OPEN_ATTR_TYPE,
                                     .xrcd = xrcd != NULL ? xrcd->xrcd : NULL,
                                     .qp_num = qp != NULL ? qp->qp->qp_num : 0,
                                     .qp_type = IBV_QPT_XRC_RECV };

    return ibv_open_qp(context, &attr);
}

/* Allocates device memory. It must not contain data of earlier users. */
static struct ibv_dm *make_dm(struct ibv_context *context)
{
    struct ibv_alloc_dm_attr attr = { .length = FUZZ_DM };
    struct ibv_dm *dm = ibv_alloc_dm(context, &attr);
    uint8_t octets[FUZZ_DM];

    fuzz_demand(dm != NULL && ibv_memcpy_from_dm(octets, dm, 0, FUZZ_DM) == 0);
    for (uint32_t i = 0; i < FUZZ_DM; i++)
        fuzz_demand(octets[i] == 0);
    return dm;
}

static void *make(enum kind kind, struct ibv_context *context, struct ibv_pd *pd)
{
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT
    };

    switch (kind) {
    case PD:
        return ibv_alloc_pd(context);
    case MR:
        return make_mr(pd);
    case MW:
        return ibv_alloc_mw(pd, fuzz_next() & 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    case DM:
        return make_dm(context);
    case AH:
        return make_ah(pd);
    case CHANNEL:
        return ibv_create_comp_channel(context);
    case CQ:
    case CQ_EX:
        return make_cq(context, kind == CQ_EX);
    case XRCD:
        return ibv_open_xrcd(context, &domain);
    case SRQ:
        return make_srq(context, pd);
    case QP:
        return fuzz_next() & 0x80 ? open_again(context) : make_qp(context, pd);
    case KIND_COUNT:
        break;
    }
    return NULL;
}

bool fuzz_keep(struct object object)
{
    if (object_count == OBJECTS_MAX)
        return false;
    objects[object_count++] = object;
    return true;
}

void fuzz_make(void)
{
    const uint8_t what = fuzz_next();
    const enum kind kind = (enum kind)(what % KIND_COUNT);
    struct object object = { .kind = kind, .side = what / KIND_COUNT & 1 };
    const struct object *pd =
        kind == PD || kind == CHANNEL || kind == CQ || kind == CQ_EX || kind == XRCD || kind == DM
            ? NULL
            : fuzz_pick(PD);
    const bool needs_pd = kind == MR || kind == MW || kind == AH || kind == SRQ || kind == QP;

    if (object_count == OBJECTS_MAX || (needs_pd && pd == NULL))
        return;
    if (pd != NULL)
        object.side = pd->side;
    errno = 0;
    object.any = make(kind, fuzz_context(object.side), pd != NULL ? pd->pd : NULL);
    if (object.any != NULL)
        objects[object_count++] = object;
    else
        fuzz_demand(errno != 0 || kind == MR);
}

/* ---- destroying ---------------------------------------------------------- */

static int destroy(const struct object *object)
{
    switch (object->kind) {
    case PD:
        return ibv_dealloc_pd(object->pd);
    case MR:
        return ibv_dereg_mr(object->mr);
    case MW:
        return ibv_dealloc_mw(object->mw);
    case DM:
        return ibv_free_dm(object->dm);
    case AH:
        return ibv_destroy_ah(object->ah);
    case CHANNEL:
        return ibv_destroy_comp_channel(object->channel);
    case CQ:
        return ibv_destroy_cq(object->cq);
    case CQ_EX:
        return ibv_destroy_cq(ibv_cq_ex_to_cq(object->cq_ex));
    case XRCD:
        return ibv_close_xrcd(object->xrcd);
    case SRQ:
        return ibv_destroy_srq(object->srq);
    case QP:
        fuzz_leave_groups(object->qp);
        return ibv_destroy_qp(object->qp);
    case KIND_COUNT:
        break;
    }
    return EINVAL;
}

static bool destroy_at(uint32_t index)
{
    int error = destroy(&objects[index]);

    fuzz_demand(error == 0 || error == EBUSY);
    if (error == 0)
        objects[index] = objects[--object_count];
    return error == 0;
}

void fuzz_destroy(void)
{
    uint32_t number = fuzz_next();

    if (object_count > 0)
        (void)destroy_at(number % object_count);
}

/* Destroys all objects. An object that another object uses is destroyed after that object. */
static void destroy_all(void)
{
    bool moved = true;

    while (object_count > 0 && moved) {
        moved = false;
        for (uint32_t i = object_count; i-- > 0;)
            moved |= destroy_at(i);
    }
    fuzz_demand(object_count == 0);
}

static void open_contexts(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    fuzz_demand(list != NULL);
    for (uint32_t i = 0; i < FUZZ_DEVICES; i++) {
        contexts[i] = ibv_open_device(list[i]);
        fuzz_demand(contexts[i] != NULL);
    }
    ibv_free_device_list(list);
}

static void close_contexts(void)
{
    for (uint32_t i = 0; i < FUZZ_DEVICES; i++)
        fuzz_demand(ibv_close_device(contexts[i]) == 0);
}

/* Closes all contexts. Checks that their regions cannot be reregistered, destroys all objects,
 * and opens the contexts again. */
void fuzz_reopen(void)
{
    close_contexts();
    for (uint32_t i = 0; i < object_count; i++)
        if (objects[i].kind == MR)
            fuzz_change_nothing(objects[i].mr);
    destroy_all();
    open_contexts();
}

void fuzz_objects_open(void)
{
    fuzz_demand(fuzz_host_devices()[FUZZ_DEVICES - 1] != NULL);
    memset(arena, SECRET, sizeof arena);
    memset(open_to_all, false, sizeof open_to_all);
    memset(fuzz_inline, 0x11, sizeof fuzz_inline);
    fuzz_host_watch(look_for_secret);
    open_contexts();
}

void fuzz_objects_close(bool contexts_first)
{
    if (contexts_first)
        close_contexts();
    destroy_all();
    if (!contexts_first)
        close_contexts();
    check_arena();
    fuzz_check_unused();
}
