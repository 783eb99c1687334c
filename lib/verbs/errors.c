/* SPDX-License-Identifier: BSD-3-Clause */
/* errors.c - the public names of the verbs that return an error number; see errors.h. */
#include "verbs/errors.h"

#include "verbs/card.h"
#include "verbs/inject.h"
#include "verbs/objects.h"

/* Exported by lib/abi/symbols.txt. */
#define VERB(name, parameters, arguments)                                                          \
    int ibv_##name parameters                                                                      \
    {                                                                                              \
        return uro_errors_keep(uro_ibv_##name arguments);                                          \
    }

/* Defines such a function for a verb that fail= can make fail. @inject: uro_inject() or a function
 * like it. */
#define FAILING_VERB(name, parameters, arguments, inject, object, call)                            \
    int ibv_##name parameters                                                                      \
    {                                                                                              \
        const int error = inject(object, URO_INJECT_CALL_##call);                                  \
        return uro_errors_keep(error != 0 ? error : uro_ibv_##name arguments);                     \
    }

VERB(dealloc_pd, (struct ibv_pd * pd), (pd))
VERB(dereg_mr, (struct ibv_mr * mr), (mr))
VERB(destroy_ah, (struct ibv_ah * ah), (ah))
VERB(destroy_comp_channel, (struct ibv_comp_channel * channel), (channel))
VERB(destroy_cq, (struct ibv_cq * cq), (cq))
VERB(destroy_qp, (struct ibv_qp * qp), (qp))
VERB(destroy_srq, (struct ibv_srq * srq), (srq))
FAILING_VERB(resize_cq, (struct ibv_cq * cq, int cqe), (cq, cqe), uro_inject_cq, cq, RESIZE_CQ)
FAILING_VERB(modify_qp, (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask),
             uro_inject_qp, qp, MODIFY_QP)
FAILING_VERB(query_qp,
             (struct ibv_qp * qp, struct ibv_qp_attr *attr, int mask,
              struct ibv_qp_init_attr *init_attr),
             (qp, attr, mask, init_attr), uro_inject_qp, qp, QUERY_QP)
FAILING_VERB(modify_srq, (struct ibv_srq * srq, struct ibv_srq_attr *attr, int mask),
             (srq, attr, mask), uro_inject, srq->context, MODIFY_SRQ)
VERB(query_srq, (struct ibv_srq * srq, struct ibv_srq_attr *attr), (srq, attr))
FAILING_VERB(query_device, (struct ibv_context * context, struct ibv_device_attr *attr),
             (context, attr), uro_inject, context, QUERY_DEVICE)
FAILING_VERB(attach_mcast, (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid),
             (qp, gid, lid), uro_inject_qp, qp, ATTACH_MCAST)
VERB(detach_mcast, (struct ibv_qp * qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
VERB(set_ece, (struct ibv_qp * qp, struct ibv_ece *ece), (qp, ece))
VERB(query_ece, (struct ibv_qp * qp, struct ibv_ece *ece), (qp, ece))

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
    return uro_errors_keep(
        uro_ibv_query_gid_ex(context, port_num, gid_index, entry, flags, entry_size));
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t max_entries, uint32_t flags, size_t entry_size)
{
    ssize_t count = uro_ibv_query_gid_table(context, entries, max_entries, flags, entry_size);

    if (count < 0)
        errno = (int)-count;
    return count;
}

/* Serves programs that were built before the struct got the field port_cap_flags2. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                   struct _compat_ibv_port_attr *port_attr)
{
    const int error = uro_inject(context, URO_INJECT_CALL_QUERY_PORT);

    return uro_errors_keep(
        error != 0
            ? error
            : uro_ibv_query_port(context, port_num, (struct ibv_port_attr *)(void *)port_attr,
                                 offsetof(struct ibv_port_attr, port_cap_flags2)));
}

/* ---- operations of a context ---------------------------------------------------------------- */

#define OPERATION(name, parameters, arguments)                                                     \
    static int name parameters                                                                     \
    {                                                                                              \
        return uro_errors_keep(uro_ibv_##name arguments);                                          \
    }

OPERATION(query_port,
          (struct ibv_context * context, uint8_t port, struct ibv_port_attr *attr, size_t size),
          (context, port, attr, size))
OPERATION(query_device_ex,
          (struct ibv_context * context, const struct ibv_query_device_ex_input *input,
           struct ibv_device_attr_ex *attr, size_t size),
          (context, input, attr, size))
OPERATION(query_rt_values, (struct ibv_context * context, struct ibv_values_ex *values),
          (context, values))
OPERATION(get_srq_num, (struct ibv_srq * srq, uint32_t *number), (srq, number))
OPERATION(close_xrcd, (struct ibv_xrcd * xrcd), (xrcd))
OPERATION(advise_mr,
          (struct ibv_pd * pd, enum ibv_advise_mr_advice advice, uint32_t flags,
           struct ibv_sge *list, uint32_t count),
          (pd, advice, flags, list, count))
OPERATION(free_dm, (struct ibv_dm * dm), (dm))
OPERATION(dealloc_td, (struct ibv_td * td), (td))
OPERATION(dealloc_mw, (struct ibv_mw * mw), (mw))
OPERATION(bind_mw, (struct ibv_qp * qp, struct ibv_mw *mw, struct ibv_mw_bind *bind),
          (qp, mw, bind))
OPERATION(post_send, (struct ibv_qp * qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr),
          (qp, wr, bad_wr))
OPERATION(post_recv, (struct ibv_qp * qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr),
          (qp, wr, bad_wr))
OPERATION(post_srq_recv,
          (struct ibv_srq * srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr),
          (srq, wr, bad_wr))
OPERATION(req_notify_cq, (struct ibv_cq * cq, int solicited_only), (cq, solicited_only))

/* Returns the number of completions, or a negative error number. */
static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    int taken = uro_ibv_poll_cq(cq, max, wc);

    if (taken < 0)
        errno = -taken;
    return taken;
}

/* Checks the card of like= first. Used for contexts whose card needs the check, and with fail=. */
static int carded_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    return uro_errors_keep(uro_card_post_send(qp, wr, bad_wr));
}

/* ---- the same with fail=, for a context whose device has it ------------------------------- */

static int failing_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                              size_t size)
{
    const int error = uro_inject(context, URO_INJECT_CALL_QUERY_PORT);

    return error != 0 ? error : query_port(context, port, attr, size);
}

static int failing_query_device_ex(struct ibv_context *context,
                                   const struct ibv_query_device_ex_input *input,
                                   struct ibv_device_attr_ex *attr, size_t size)
{
    const int error = uro_inject(context, URO_INJECT_CALL_QUERY_DEVICE);

    return error != 0 ? error : query_device_ex(context, input, attr, size);
}

static int failing_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    const int error = uro_inject_qp(qp, URO_INJECT_CALL_BIND_MW);

    return error != 0 ? error : bind_mw(qp, mw, bind);
}

static int failing_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    const int error = uro_inject_qp(qp, URO_INJECT_CALL_POST_SEND);

    if (error == 0)
        return carded_post_send(qp, wr, bad_wr);
    *bad_wr = wr;
    return error;
}

static int failing_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    const int error = uro_inject_qp(qp, URO_INJECT_CALL_POST_RECV);

    if (error == 0)
        return post_recv(qp, wr, bad_wr);
    *bad_wr = wr;
    return error;
}

static int failing_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                                 struct ibv_recv_wr **bad_wr)
{
    const int error = uro_inject(srq->context, URO_INJECT_CALL_POST_SRQ_RECV);

    if (error == 0)
        return post_srq_recv(srq, wr, bad_wr);
    *bad_wr = wr;
    return error;
}

static int failing_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    const int error = uro_inject_cq(cq, URO_INJECT_CALL_REQ_NOTIFY_CQ);

    return error != 0 ? error : req_notify_cq(cq, solicited_only);
}

static int failing_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    const int error = uro_inject_cq(cq, URO_INJECT_CALL_POLL_CQ);

    return error != 0 ? -error : poll_cq(cq, max, wc);
}

static void fill_failing(struct verbs_context *verbs)
{
    verbs->query_port = failing_query_port;
    verbs->query_device_ex = failing_query_device_ex;
    verbs->context.ops.bind_mw = failing_bind_mw;
    verbs->context.ops.post_send = failing_post_send;
    verbs->context.ops.post_recv = failing_post_recv;
    verbs->context.ops.post_srq_recv = failing_post_srq_recv;
    verbs->context.ops.req_notify_cq = failing_req_notify_cq;
    verbs->context.ops.poll_cq = failing_poll_cq;
}

void uro_errors_fill(struct verbs_context *verbs, const struct uro_device *device)
{
    verbs->query_port = query_port;
    verbs->query_device_ex = query_device_ex;
    verbs->query_rt_values = query_rt_values;
    verbs->get_srq_num = get_srq_num;
    verbs->close_xrcd = close_xrcd;
    verbs->advise_mr = advise_mr;
    verbs->free_dm = free_dm;
    verbs->dealloc_td = dealloc_td;
    verbs->context.ops.dealloc_mw = dealloc_mw;
    verbs->context.ops.bind_mw = bind_mw;
    verbs->context.ops.post_send = post_send;
    verbs->context.ops.post_recv = post_recv;
    verbs->context.ops.post_srq_recv = post_srq_recv;
    verbs->context.ops.req_notify_cq = req_notify_cq;
    verbs->context.ops.poll_cq = poll_cq;
    if (uro_card_checks_posts(&uro_device_config(device)->card))
        verbs->context.ops.post_send = carded_post_send;
    if (uro_device_injects(device))
        fill_failing(verbs);
}
