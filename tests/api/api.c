/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PSN 0x123456u

const char *api_start_problem(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    const char *problem = "no device is configured";

    if (list != NULL && list[0] != NULL) {
        struct ibv_context *context = ibv_open_device(list[0]);
        struct ibv_cq *cq = context != NULL ? ibv_create_cq(context, 1, NULL, NULL, 0) : NULL;

        problem = cq != NULL ? "" : strerror(errno);
        if (cq != NULL)
            ibv_destroy_cq(cq);
        if (context != NULL)
            ibv_close_device(context);
    }
    ibv_free_device_list(list);
    return problem;
}

int api_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    const char *problem = api_start_problem();

    if (problem[0] != '\0') {
        printf("NOT TESTED: %s: the device does not start (%s); is DPDK installed?\n", name,
               problem);
        return API_SKIPPED;
    }
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

/* Writes an address of 127.0.0.0/8 that is derived from the process ID. */
const char *api_own_address(unsigned which, char text[API_ADDRESS])
{
    const unsigned pid = (unsigned)getpid();

    (void)snprintf(text, API_ADDRESS, "127.%u.%u.%u", 1 + 64 * which + (pid >> 16 & 63),
                   pid >> 8 & 255, pid & 255);
    return text;
}

int api_open(void **state)
{
    struct api *api = test_calloc(1, sizeof *api);
    struct ibv_device **list = ibv_get_device_list(NULL);

    assert_non_null(list);
    api->device = list[0];
    api->context = ibv_open_device(api->device);
    assert_non_null(api->context);
    ibv_free_device_list(list);
    api->pd = ibv_alloc_pd(api->context);
    assert_non_null(api->pd);
    *state = api;
    return 0;
}

int api_close(void **state)
{
    struct api *api = *state;

    api_close_device(api);
    test_free(api);
    return 0;
}

struct api api_open_device(const char *name)
{
    struct api api = { 0 };
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);

    assert_non_null(list);
    for (int i = 0; i < count; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            api.device = list[i];
    assert_non_null(api.device);
    api.context = ibv_open_device(api.device);
    if (api.context != NULL)
        api.pd = ibv_alloc_pd(api.context);
    const int error = errno;
    ibv_free_device_list(list);
    errno = error;
    return api;
}

void api_close_device(const struct api *api)
{
    assert_int_equal(ibv_dealloc_pd(api->pd), 0);
    assert_int_equal(ibv_close_device(api->context), 0);
}

struct ibv_cq *api_cq(const struct api *api, int cqe)
{
    struct ibv_cq *cq = ibv_create_cq(api->context, cqe, NULL, NULL, 0);

    assert_non_null(cq);
    return cq;
}

struct ibv_cq_ex *api_cq_ex(const struct api *api, uint32_t cqe, uint32_t flags)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = cqe,
                                        .wc_flags = API_READERS,
                                        .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                        .flags = flags };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(api->context, &attr);

    assert_non_null(cq);
    return cq;
}

void api_destroy_cq_ex(struct ibv_cq_ex *cq)
{
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

struct ibv_poll_cq_attr api_poll_attr;

void api_start_poll(struct ibv_cq_ex *cq)
{
    int error;

    while ((error = ibv_start_poll(cq, &api_poll_attr)) == ENOENT)
        ;
    assert_int_equal(error, 0);
}

struct ibv_qp_init_attr api_qp_attr(struct ibv_cq *cq)
{
    return (struct ibv_qp_init_attr){
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 4, .max_recv_sge = 4 },
        .qp_type = IBV_QPT_RC
    };
}

struct ibv_qp *api_qp(const struct api *api, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = api_qp_attr(cq);
    struct ibv_qp *qp = ibv_create_qp(api->pd, &attr);

    assert_non_null(qp);
    return qp;
}

struct ibv_qp_attr api_attr(const struct api *api, uint32_t peer)
{
    struct ibv_qp_attr attr = {
        .port_num = API_PORT,
        .qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer,
        .rq_psn = PSN,
        .sq_psn = PSN,
        .max_rd_atomic = 4,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .qkey = API_QKEY,
        .ah_attr = { .is_global = 1,
                     .port_num = API_PORT,
                     .grh = { .sgid_index = API_GID, .hop_limit = 64 } },
    };

    assert_int_equal(ibv_query_gid(api->context, API_PORT, API_GID, &attr.ah_attr.grh.dgid), 0);
    return attr;
}

/* Returns the attribute mask that a transition to @state needs. UC and UD need fewer attributes
 * than RC and XRC. */
static int needed(enum ibv_qp_type type, enum ibv_qp_state state)
{
    bool ud = type == IBV_QPT_UD;
    bool less = ud || type == IBV_QPT_UC;

    switch (state) {
    case IBV_QPS_INIT:
        return ud ? IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY : API_TO_INIT;
    case IBV_QPS_RTR:
        if (ud)
            return IBV_QP_STATE;
        return less ? API_TO_RTR & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) : API_TO_RTR;
    case IBV_QPS_RTS:
        return less ? IBV_QP_STATE | IBV_QP_SQ_PSN : API_TO_RTS;
    case IBV_QPS_SQD:
        return IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY;
    case IBV_QPS_RESET:
    case IBV_QPS_SQE:
    case IBV_QPS_ERR:
    case IBV_QPS_UNKNOWN:
        break;
    }
    return IBV_QP_STATE;
}

int api_go(const struct api *api, struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer)
{
    struct ibv_qp_attr attr = api_attr(api, peer);

    attr.qp_state = state;
    attr.en_sqd_async_notify = 1; /* allowed only with SQD */
    return ibv_modify_qp(qp, &attr, needed(qp->qp_type, state));
}

void api_connect(const struct api *api, struct ibv_qp *qp, uint32_t peer)
{
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, peer), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, peer), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, peer), 0);
}

void api_side_open(const struct api *api, struct side *side, struct ibv_comp_channel *channel,
                   enum ibv_qp_type type, struct ibv_srq *srq)
{
    struct ibv_cq *cq = ibv_create_cq(api->context, 64, side, channel, 0);

    assert_non_null(cq);
    api_side_open_with(api, side, cq, cq, type, srq);
}

void api_side_open_with(const struct api *api, struct side *side, struct ibv_cq *send_cq,
                        struct ibv_cq *recv_cq, enum ibv_qp_type type, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = api_qp_attr(send_cq);

    memset(side->buffer, 0, sizeof side->buffer);
    side->cq = recv_cq;
    attr.recv_cq = recv_cq;
    attr.qp_type = type;
    attr.srq = srq;
    side->qp = ibv_create_qp(api->pd, &attr);
    assert_non_null(side->qp);
    side->mr = ibv_reg_mr(api->pd, side->buffer, sizeof side->buffer,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(side->mr);
}

void api_side_close(struct side *side)
{
    assert_int_equal(ibv_destroy_qp(side->qp), 0);
    assert_int_equal(ibv_destroy_cq(side->cq), 0);
    assert_int_equal(ibv_dereg_mr(side->mr), 0);
}

void api_pair_join(const struct api *api, struct pair *pair)
{
    api_connect(api, pair->a.qp, pair->b.qp->qp_num);
    api_connect(api, pair->b.qp, pair->a.qp->qp_num);
}

void api_pair_open(const struct api *api, struct pair *pair, struct ibv_comp_channel *channel)
{
    api_side_open(api, &pair->a, channel, IBV_QPT_RC, NULL);
    api_side_open(api, &pair->b, channel, IBV_QPT_RC, NULL);
    api_pair_join(api, pair);
}

void api_pair_close(struct pair *pair)
{
    api_side_close(&pair->a);
    api_side_close(&pair->b);
}

struct ibv_sge api_sge(const struct side *side, size_t offset, uint32_t length)
{
    return (struct ibv_sge){ .addr = (uintptr_t)side->buffer + offset,
                             .length = length,
                             .lkey = side->mr->lkey };
}

struct ibv_send_wr api_send(enum ibv_wr_opcode opcode, struct ibv_sge *sge)
{
    return (struct ibv_send_wr){ .wr_id = 1,
                                 .sg_list = sge,
                                 .num_sge = sge != NULL,
                                 .opcode = opcode,
                                 .send_flags = IBV_SEND_SIGNALED };
}

int api_post_send(struct side *side, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad = NULL;
    int error = ibv_post_send(side->qp, wr, &bad);

    assert_true(error == 0 || bad == wr);
    return error;
}

int api_post_srq(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge)
{
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = sge != NULL };
    struct ibv_recv_wr *bad = NULL;
    int error = ibv_post_srq_recv(srq, &wr, &bad);

    assert_true(error == 0 || bad == &wr);
    return error;
}

int api_post_recv(struct side *side, uint64_t id, struct ibv_sge *sge)
{
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = sge != NULL };
    struct ibv_recv_wr *bad;

    return ibv_post_recv(side->qp, &wr, &bad);
}

struct ibv_wc api_wait(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    int count;

    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    assert_int_equal(count, 1);
    return wc;
}

void api_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc = api_wait(cq);

    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, status);
}

struct ibv_qp *api_flushing_qp(const struct api *api, struct ibv_cq *cq)
{
    struct ibv_qp *qp = api_qp(api, cq);

    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, 0), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_ERR, 0), 0);
    return qp;
}

int api_post_id(struct ibv_qp *qp, uint64_t id)
{
    struct ibv_recv_wr wr = { .wr_id = id }, *bad;

    return ibv_post_recv(qp, &wr, &bad);
}

void api_flush(const struct api *api, struct ibv_qp *qp, uint64_t first, uint64_t count)
{
    for (uint64_t id = first; id < first + count; id++)
        while (api_post_id(qp, id) == ENOMEM)
            ;
    /* When the modify to ERR returns, all requests are flushed. */
    assert_int_equal(api_go(api, qp, IBV_QPS_ERR, 0), 0);
}

void api_expect_async(const struct api *api, enum ibv_event_type type, const void *element)
{
    struct ibv_async_event event;

    assert_int_equal(ibv_get_async_event(api->context, &event), 0);
    assert_int_equal(event.event_type, type);
    assert_ptr_equal(event.element.qp, element);
    ibv_ack_async_event(&event);
}
