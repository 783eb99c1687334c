/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the process with an exit status if the condition fails. cmocka's assertions work only in the
 * parent. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ % 250 + 1);                                                             \
    } while (0)

/* Forks a child that runs @body and must end normally. */
static void in_child(void (*body)(void *argument), void *argument)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        body(argument);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

struct all {
    const struct api *api;
    struct pair pair;
    struct ibv_comp_channel *channel;
    struct ibv_cq_ex *cq_ex;
    struct ibv_srq *srq;
    struct ibv_xrcd *xrcd;
    struct ibv_qp *target;
    struct ibv_ah *ah;
    struct ibv_ah_attr address;
};

static const struct ibv_xrcd_init_attr xrcd_attr = {
    .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
    .fd = -1,
    .oflags = O_CREAT,
};

static void every_call(void *argument)
{
    struct all *all = argument;
    struct side *side = &all->pair.a;
    struct ibv_context *context = all->api->context;
    struct ibv_sge sge = api_sge(side, 0, 8);
    struct ibv_send_wr send = api_send(IBV_WR_SEND, &sge), *bad_send = NULL;
    struct ibv_recv_wr recv = { 0 }, *bad_recv = NULL;
    struct ibv_qp_init_attr init = api_qp_attr(side->cq);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_async_event event;
    struct ibv_cq_init_attr_ex cq_attr = { .cqe = 1 };
    struct ibv_poll_cq_attr poll_attr = { 0 };
    struct ibv_values_ex values = { 0 };
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *nothing;

    errno = 0;
    MUST(ibv_open_device(all->api->device) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_alloc_pd(context) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_reg_mr(all->api->pd, side->buffer, 8, 0) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_create_comp_channel(context) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_create_cq(context, 1, NULL, NULL, 0) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_create_cq_ex(context, &cq_attr) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_create_qp(all->api->pd, &init) == NULL && errno == EIO);
    MUST(ibv_modify_qp(side->qp, &attr, IBV_QP_STATE) == EIO);
    MUST(ibv_query_qp(side->qp, &attr, 0, &init) == EIO);
    MUST(ibv_post_send(side->qp, &send, &bad_send) == EIO && bad_send == &send);
    MUST(ibv_post_recv(side->qp, &recv, &bad_recv) == EIO && bad_recv == &recv);
    MUST(ibv_poll_cq(side->cq, 1, &wc) < 0);
    MUST(ibv_start_poll(all->cq_ex, &poll_attr) == EIO);
    MUST(ibv_next_poll(all->cq_ex) == EIO);
    MUST(ibv_resize_cq(side->cq, 100) == EIO);
    MUST(ibv_req_notify_cq(side->cq, 0) == EIO);
    errno = 0;
    MUST(ibv_get_cq_event(all->channel, &cq, &nothing) == -1 && errno == EIO);
    errno = 0;
    MUST(ibv_get_async_event(context, &event) == -1 && errno == EIO);
    MUST(ibv_query_device(context, &device) == EIO);
    MUST(ibv_query_port(context, API_PORT, &port) == EIO);
    MUST(ibv_query_rt_values_ex(context, &values) == EIO);
}

static void every_call_of_shared_queues(void *argument)
{
    struct all *all = argument;
    struct ibv_context *context = all->api->context;
    struct ibv_xrcd_init_attr domain = xrcd_attr;
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
    struct ibv_qp_open_attr open = {
        .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
        .qp_num = all->target->qp_num,
        .xrcd = all->xrcd,
        .qp_type = IBV_QPT_XRC_RECV,
    };
    struct ibv_recv_wr recv = { 0 }, *bad = NULL;
    struct ibv_srq_attr attr = { .max_wr = 2, .srq_limit = 1 };

    errno = 0;
    MUST(ibv_create_srq(all->api->pd, &init) == NULL && errno == EIO);
    MUST(ibv_modify_srq(all->srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EIO);
    MUST(ibv_query_srq(all->srq, &attr) == EIO);
    MUST(ibv_post_srq_recv(all->srq, &recv, &bad) == EIO && bad == &recv);
    errno = 0;
    MUST(ibv_open_xrcd(context, &domain) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_open_qp(context, &open) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_create_ah(all->api->pd, &all->address) == NULL && errno == EIO);
}

static void free_all(void *argument)
{
    struct all *all = argument;

    MUST(ibv_destroy_qp(all->pair.a.qp) == 0);
    MUST(ibv_destroy_qp(all->pair.b.qp) == 0);
    MUST(ibv_destroy_cq(all->pair.a.cq) == 0);
    MUST(ibv_destroy_cq(all->pair.b.cq) == 0);
    MUST(ibv_destroy_cq(ibv_cq_ex_to_cq(all->cq_ex)) == 0);
    MUST(ibv_destroy_qp(all->target) == 0);
    MUST(ibv_destroy_srq(all->srq) == 0);
    MUST(ibv_close_xrcd(all->xrcd) == 0);
    MUST(ibv_destroy_ah(all->ah) == 0);
    MUST(ibv_dereg_mr(all->pair.a.mr) == 0);
    MUST(ibv_dereg_mr(all->pair.b.mr) == 0);
    MUST(ibv_destroy_comp_channel(all->channel) == 0);
    MUST(ibv_dealloc_pd(all->api->pd) == 0);
    MUST(ibv_close_device(all->api->context) == 0);
}

static void open_all(struct all *all, const struct api *api)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = 1 };

    all->api = api;
    all->channel = ibv_create_comp_channel(api->context);
    all->cq_ex = ibv_create_cq_ex(api->context, &attr);
    assert_non_null(all->cq_ex);
    api_pair_open(api, &all->pair, all->channel);
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
    all->srq = ibv_create_srq(api->pd, &srq);
    assert_non_null(all->srq);
    struct ibv_xrcd_init_attr domain = xrcd_attr;
    all->xrcd = ibv_open_xrcd(api->context, &domain);
    struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV,
                                          .comp_mask = IBV_QP_INIT_ATTR_XRCD,
                                          .xrcd = all->xrcd };
    all->target = ibv_create_qp_ex(api->context, &target);
    assert_non_null(all->target);
    all->address = api_attr(api, 0).ah_attr;
    all->ah = ibv_create_ah(api->pd, &all->address);
    assert_non_null(all->ah);
}

static void close_all(struct all *all)
{
    api_pair_close(&all->pair);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(all->cq_ex)), 0);
    assert_int_equal(ibv_destroy_qp(all->target), 0);
    assert_int_equal(ibv_destroy_srq(all->srq), 0);
    assert_int_equal(ibv_close_xrcd(all->xrcd), 0);
    assert_int_equal(ibv_destroy_ah(all->ah), 0);
    assert_int_equal(ibv_destroy_comp_channel(all->channel), 0);
}

static void child_of_a_process_with_an_engine__every_call__is_eio(void **state)
{
    struct all all;

    open_all(&all, *state);
    in_child(every_call, &all);
    in_child(every_call_of_shared_queues, &all);
    close_all(&all);
}

/* In the child, freeing an object must not wait for a lock of a thread that exists only in the
 * parent, and must not wait for acknowledgements. It must not take events of the parent. */
static void child_of_a_process_with_an_engine__frees_objects__parent_is_unaffected(void **state)
{
    struct all all;
    struct ibv_cq *cq;
    void *side;

    open_all(&all, *state);
    assert_int_equal(ibv_req_notify_cq(all.pair.b.cq, 0), 0);
    struct ibv_sge from = api_sge(&all.pair.a, 0, 8), to = api_sge(&all.pair.b, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from), *bad;
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(api_post_recv(&all.pair.b, i, &to), 0);
    assert_int_equal(ibv_post_send(all.pair.a.qp, &wr, &bad), 0);
    api_expect(all.pair.b.cq, 0, IBV_WC_SUCCESS);
    in_child(free_all, &all);
    assert_int_equal(fcntl(all.channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(ibv_get_cq_event(all.channel, &cq, &side), 0);
    in_child(free_all,
             &all); /* events are not acknowledged, and the child must not wait for that */
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(ibv_post_send(all.pair.a.qp, &wr, &bad), 0);
    api_expect(all.pair.b.cq, 1, IBV_WC_SUCCESS);
    close_all(&all);
}

/* ---- memory --------------------------------------------------------------------------------- */

struct memory {
    const struct api *api;
    struct pair pair;
    struct ibv_mr *mr, *null, *on_dm, *imported;
    struct ibv_mw *mw; /* bound to mr */
    struct ibv_dm *dm, *imported_dm;
    struct ibv_td *td;
    struct ibv_pd *parent;
    struct api there; /* the imported context and PD */
    uint8_t octets[64];
};

static void open_memory(struct memory *memory, const struct api *api)
{
    struct ibv_alloc_dm_attr dm = { .length = 64 };
    struct ibv_td_init_attr td = { 0 };
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

    memory->api = api;
    api_pair_open(api, &memory->pair, NULL);
    memory->mr = ibv_reg_mr(api->pd, memory->octets, sizeof memory->octets, access);
    memory->null = ibv_alloc_null_mr(api->pd);
    memory->dm = ibv_alloc_dm(api->context, &dm);
    memory->on_dm = ibv_reg_dm_mr(api->pd, memory->dm, 0, 64, IBV_ACCESS_ZERO_BASED);
    memory->mw = ibv_alloc_mw(api->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = {
        .wr_id = 1,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = { .mr = memory->mr,
                       .addr = (uintptr_t)memory->octets,
                       .length = 8,
                       .mw_access_flags = IBV_ACCESS_REMOTE_READ },
    };
    assert_int_equal(ibv_bind_mw(memory->pair.a.qp, memory->mw, &bind), 0);
    api_expect(memory->pair.a.cq, 1, IBV_WC_SUCCESS);
    memory->td = ibv_alloc_td(api->context, &td);
    struct ibv_parent_domain_init_attr parent = { .pd = api->pd, .td = memory->td };
    memory->parent = ibv_alloc_parent_domain(api->context, &parent);
    memory->there = (struct api){ .context = ibv_import_device(dup(api->context->cmd_fd)) };
    memory->there.pd = ibv_import_pd(memory->there.context, api->pd->handle);
    memory->imported = ibv_import_mr(memory->there.pd, memory->mr->handle);
    memory->imported_dm = ibv_import_dm(memory->there.context, memory->dm->handle);
    assert_true(memory->null && memory->on_dm && memory->parent && memory->imported);
    assert_non_null(memory->imported_dm);
}

#define MUST_EIO(call)                                                                             \
    errno = 0;                                                                                     \
    MUST((call) == NULL && errno == EIO)

static void every_call_of_memory(void *argument)
{
    struct memory *memory = argument;
    const struct api *api = memory->api;
    struct ibv_alloc_dm_attr dm = { .length = 64 };
    struct ibv_td_init_attr td = { 0 };
    struct ibv_parent_domain_init_attr parent = { .pd = api->pd };
    struct ibv_mw_bind bind = { 0 };
    struct ibv_sge sge = { (uintptr_t)memory->octets, 8, memory->mr->lkey };

    MUST_EIO(ibv_alloc_mw(api->pd, IBV_MW_TYPE_1));
    MUST_EIO(ibv_alloc_null_mr(api->pd));
    MUST_EIO(ibv_alloc_dm(api->context, &dm));
    MUST_EIO(ibv_reg_dm_mr(api->pd, memory->dm, 0, 64, IBV_ACCESS_ZERO_BASED));
    MUST_EIO(ibv_alloc_td(api->context, &td));
    MUST_EIO(ibv_alloc_parent_domain(api->context, &parent));
    MUST_EIO(ibv_import_device(api->context->cmd_fd));
    MUST_EIO(ibv_import_pd(api->context, api->pd->handle));
    MUST_EIO(ibv_import_mr(api->pd, memory->mr->handle));
    MUST_EIO(ibv_import_dm(api->context, memory->dm->handle));
    MUST(ibv_bind_mw(memory->pair.a.qp, memory->mw, &bind) == EIO);
    MUST(ibv_advise_mr(api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1) == EIO);
    errno = 0;
    MUST(ibv_rereg_mr(memory->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0) ==
             IBV_REREG_MR_ERR_INPUT &&
         errno == EIO);
}

/* Frees the objects of open_memory(), except the pair. */
static void free_memory(void *argument)
{
    struct memory *memory = argument;

    ibv_unimport_mr(memory->imported);
    ibv_unimport_dm(memory->imported_dm); /* does not free the memory, because an MR uses it */
    MUST(ibv_dereg_mr(memory->on_dm) == 0);
    MUST(ibv_free_dm(memory->dm) == 0);
    ibv_unimport_dm(memory->imported_dm);
    MUST(ibv_dereg_mr(memory->null) == 0);
    MUST(ibv_dealloc_pd(memory->parent) == 0);
    MUST(ibv_dealloc_td(memory->td) == 0);
    ibv_unimport_pd(memory->there.pd);
    MUST(ibv_close_device(memory->there.context) == 0);
    MUST(ibv_dealloc_mw(memory->mw) == 0);
    MUST(ibv_dereg_mr(memory->mr) == 0);
}

static void fork__child_destroys_memory_objects__objects_of_the_parent_remain(void **state)
{
    struct memory memory;

    open_memory(&memory, *state);
    in_child(every_call_of_memory, &memory);
    in_child(free_memory, &memory);
    struct ibv_sge local = api_sge(&memory.pair.b, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_READ, &local), *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory.octets;
    wr.wr.rdma.rkey = memory.mw->rkey;
    assert_int_equal(ibv_post_send(memory.pair.b.qp, &wr, &bad),
                     0); /* the window still exists in the parent */
    api_expect(memory.pair.b.cq, 1, IBV_WC_SUCCESS);
    free_memory(&memory);
    api_pair_close(&memory.pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(child_of_a_process_with_an_engine__every_call__is_eio),
        API_TEST(child_of_a_process_with_an_engine__frees_objects__parent_is_unaffected),
        API_TEST(fork__child_destroys_memory_objects__objects_of_the_parent_remain),
    };
    return API_RUN(tests);
}
