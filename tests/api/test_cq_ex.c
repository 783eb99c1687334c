/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

/* Reads a batch of exactly the completions @first to @first + @count - 1, which have all
 * arrived. */
static void expect_batch(struct ibv_cq_ex *cq, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(i == 0 ? ibv_start_poll(cq, &api_poll_attr) : ibv_next_poll(cq), 0);
        assert_int_equal(cq->wr_id, first + i);
        assert_int_equal(cq->status, IBV_WC_WR_FLUSH_ERR);
    }
    assert_int_equal(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
}

/* ---- creating ----------------------------------------------------------- */

static void cq_ex__used_as_a_cq__works(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct ibv_cq_init_attr_ex attr = { .cqe = 100, .cq_context = &attr, .channel = channel };
    struct ibv_cq_ex *ex = ibv_create_cq_ex(api->context, &attr);
    struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);

    assert_true(cq->cqe >= 100);
    assert_int_equal(ex->cqe, cq->cqe);
    assert_ptr_equal(cq->context, api->context);
    assert_ptr_equal(cq->channel, channel);
    assert_ptr_equal(cq->cq_context, &attr);
    assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
    struct ibv_qp *qp = api_qp(api, cq);
    assert_int_equal(ibv_destroy_cq(cq), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void cq_ex__wrong_arguments__is_einval(void **state)
{
    const struct api *api = *state;
    const struct ibv_cq_init_attr_ex wrong[] = {
        { .cqe = 0 },
        { .cqe = 4194304 },
        { .cqe = 1, .comp_vector = 1 },
        { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = api->pd },
        { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct ibv_cq_init_attr_ex attr = wrong[i];
        errno = 0;
        assert_null(ibv_create_cq_ex(api->context, &attr));
        assert_int_equal(errno, EINVAL);
    }
}

/* Programs create a plain CQ instead only after this errno. */
static void cq_ex__unsupported_fields__is_eopnotsupp(void **state)
{
    const struct api *api = *state;
    static const struct ibv_cq_init_attr_ex unknown[] = {
        { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_CVLAN },
        { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_FLOW_TAG },
        { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_TM_INFO },
        { .cqe = 1, .wc_flags = UINT64_C(1) << 40 },
        { .cqe = 1, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = 4 },
        { .cqe = 1, .comp_mask = 4 },
    };

    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct ibv_cq_init_attr_ex attr = unknown[i];
        errno = 0;
        assert_null(ibv_create_cq_ex(api->context, &attr));
        assert_int_equal(errno, EOPNOTSUPP);
    }
}

static void cq_ex__flags_without_their_mask__are_ignored(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_init_attr_ex attr = { .cqe = 1, .flags = 0xffffffff };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(api->context, &attr);

    assert_non_null(cq);
    api_destroy_cq_ex(cq);
}

static void cq_ex__each_flag__adds_one_read_function(void **state)
{
    const struct api *api = *state;

    for (uint64_t flag = 1; flag <= API_READERS; flag <<= 1) {
        struct ibv_cq_init_attr_ex attr = { .cqe = 1, .wc_flags = flag };
        if (!(flag & API_READERS))
            continue;
        struct ibv_cq_ex *cq = ibv_create_cq_ex(api->context, &attr);
        assert_non_null(cq);
#define ONLY(name, reader) assert_int_equal(cq->reader != NULL, flag == IBV_WC_EX_WITH_##name)
        ONLY(BYTE_LEN, read_byte_len);
        ONLY(IMM, read_imm_data);
        ONLY(QP_NUM, read_qp_num);
        ONLY(SRC_QP, read_src_qp);
        ONLY(SLID, read_slid);
        ONLY(SL, read_sl);
        ONLY(DLID_PATH_BITS, read_dlid_path_bits);
        ONLY(COMPLETION_TIMESTAMP, read_completion_ts);
        ONLY(CVLAN, read_cvlan);
        ONLY(FLOW_TAG, read_flow_tag);
        ONLY(TM_INFO, read_tm_info);
        ONLY(COMPLETION_TIMESTAMP_WALLCLOCK, read_completion_wallclock_ns);
        assert_non_null(cq->read_opcode);
        assert_non_null(cq->read_vendor_err);
        assert_non_null(cq->read_wc_flags);
        api_destroy_cq_ex(cq);
    }
}

/* ---- polling ------------------------------------------------------------ */

static void start_poll__empty_cq__is_enoent_and_no_batch(void **state)
{
    struct ibv_cq_ex *cq = api_cq_ex(*state, 4, 0);

    assert_int_equal(ibv_start_poll(cq, &api_poll_attr), ENOENT);
    assert_int_equal(ibv_start_poll(cq, &api_poll_attr), ENOENT);
    api_destroy_cq_ex(cq);
}

static void start_poll__unknown_attribute__is_einval(void **state)
{
    struct ibv_cq_ex *cq = api_cq_ex(*state, 4, 0);
    struct ibv_poll_cq_attr attr = { .comp_mask = 1 };

    assert_int_equal(ibv_start_poll(cq, &attr), EINVAL);
    assert_int_equal(ibv_start_poll(cq, &api_poll_attr), ENOENT);
    api_destroy_cq_ex(cq);
}

static void batch__pending_completions__are_in_order(void **state)
{
    const struct api *api = *state;
    static const uint32_t flags[] = { 0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED };

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        struct ibv_cq_ex *cq = api_cq_ex(api, 20, flags[i]);
        struct ibv_qp *qp = api_flushing_qp(api, ibv_cq_ex_to_cq(cq));
        for (uint64_t round = 0; round < 10; round++) {
            api_flush(api, qp, round * 16, 16);
            expect_batch(cq, round * 16, 16);
        }
        assert_int_equal(ibv_start_poll(cq, &api_poll_attr), ENOENT);
        assert_int_equal(ibv_destroy_qp(qp), 0);
        api_destroy_cq_ex(cq);
    }
}

static void batch__ended_before_the_last_completion__leaves_the_rest(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *cq = api_cq_ex(api, 20, 0);
    struct ibv_qp *qp = api_flushing_qp(api, ibv_cq_ex_to_cq(cq));

    api_flush(api, qp, 0, 5);
    assert_int_equal(ibv_start_poll(cq, &api_poll_attr), 0);
    ibv_end_poll(cq);
    api_expect(ibv_cq_ex_to_cq(cq), 1,
               IBV_WC_WR_FLUSH_ERR); /* ibv_poll_cq continues after the batch */
    expect_batch(cq, 2, 3);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    api_destroy_cq_ex(cq);
}

static void cq_ex__failed_completion__has_request_and_reason(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *cq = api_cq_ex(api, 20, 0);
    struct ibv_qp *qp = api_flushing_qp(api, ibv_cq_ex_to_cq(cq));

    api_flush(api, qp, 77, 1);
    api_start_poll(cq);
    assert_int_equal(cq->wr_id, 77);
    assert_int_equal(cq->status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_wc_read_qp_num(cq), qp->qp_num);
    assert_int_not_equal(ibv_wc_read_vendor_err(cq), 0);
    ibv_end_poll(cq);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    api_destroy_cq_ex(cq);
}

/* A program may make any call inside a batch, and no call may wait for the end of the batch. */
static void batch__other_verbs_during_a_batch__do_not_wait(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *ex = api_cq_ex(api, 20, 0);
    struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
    struct ibv_qp *qp = api_flushing_qp(api, cq), *other = api_flushing_qp(api, cq);
    struct ibv_wc wc;

    api_flush(api, qp, 0, 3);
    api_flush(api, other, 3, 3);
    assert_int_equal(ibv_start_poll(ex, &api_poll_attr), 0);
    api_flush(api, qp, 6, 2);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    assert_int_equal(ibv_resize_cq(cq, 100), 0);
    assert_int_equal(ibv_destroy_qp(other), 0); /* also removes its completions 3, 4 and 5 */
    assert_int_equal(ibv_next_poll(ex), 0);
    assert_int_equal(ex->wr_id, 1);
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(ibv_next_poll(ex), 0);
    assert_int_equal(ex->wr_id, 6);
    assert_int_equal(api_go(api, qp, IBV_QPS_RESET, 0), 0);
    assert_int_equal(ibv_next_poll(ex), ENOENT);
    ibv_end_poll(ex);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    api_destroy_cq_ex(ex);
}

/* ---- threads ------------------------------------------------------------ */

#define SHARED  20000u
#define IN_CQ   100u /* maximum number of completions that wait in the CQ */
#define READERS 2

struct shared {
    struct ibv_cq_ex *cq;
    struct ibv_qp *qp;
    atomic_uint seen;
    atomic_uchar times[SHARED];
};

/* Posts inside the batch, too, as programs do that refill their receive queues. */
static void *run_batches(void *argument)
{
    struct shared *shared = argument;

    while (atomic_load(&shared->seen) < SHARED) {
        if (ibv_start_poll(shared->cq, &api_poll_attr) != 0)
            continue;
        do {
            uint64_t id = shared->cq->wr_id;
            if (id == SHARED)
                continue;
            (void)api_post_id(shared->qp, SHARED); /* refused when the queue is full */
            if (id ==
                shared->cq
                    ->wr_id) /* the CQ is still locked, because the batch of this thread is open */
                atomic_fetch_add(&shared->times[id], 1);
            atomic_fetch_add(&shared->seen, 1);
        } while (ibv_next_poll(shared->cq) == 0);
        ibv_end_poll(shared->cq);
    }
    return NULL;
}

static void batches__of_two_threads_while_a_third_modifies__each_completion_once(void **state)
{
    const struct api *api = *state;
    static struct shared shared;
    pthread_t threads[READERS];

    shared.cq = api_cq_ex(api, 200, 0);
    shared.qp = api_flushing_qp(api, ibv_cq_ex_to_cq(shared.cq));
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_batches, &shared), 0);
    for (uint64_t id = 0; id < SHARED; id++) {
        while (id - atomic_load(&shared.seen) >= IN_CQ || api_post_id(shared.qp, id) == ENOMEM)
            ;
        assert_int_equal(api_go(api, shared.qp, IBV_QPS_ERR, 0), 0);
    }
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    for (uint64_t id = 0; id < SHARED; id++)
        assert_int_equal(atomic_load(&shared.times[id]), 1);
    assert_int_equal(ibv_destroy_qp(shared.qp), 0);
    api_destroy_cq_ex(shared.cq);
}

/* ---- events and errors -------------------------------------------------- */

static bool readable(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    return poll(&wait, 1, 0) == 1;
}

static void *acknowledge(void *argument)
{
    ibv_ack_cq_events(argument, 1);
    return NULL;
}

static void cq_ex__armed__one_event_and_destroy_waits_for_its_acknowledgement(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct ibv_cq_init_attr_ex attr = { .cqe = 16, .cq_context = &attr, .channel = channel };
    struct ibv_cq_ex *ex = ibv_create_cq_ex(api->context, &attr);
    struct ibv_cq *cq = ibv_cq_ex_to_cq(ex), *notified;
    struct ibv_qp *qp = api_flushing_qp(api, cq);
    pthread_t thread;
    void *context;

    api_flush(api, qp, 0, 1);
    assert_false(readable(channel->fd));
    assert_int_equal(ibv_req_notify_cq(cq, 1), 0); /* an error counts as a solicited completion */
    api_flush(api, qp, 1, 2);
    assert_int_equal(ibv_get_cq_event(channel, &notified, &context), 0);
    assert_false(readable(channel->fd));
    assert_ptr_equal(notified, cq);
    assert_ptr_equal(context, &attr);
    expect_batch(ex, 0, 3);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(pthread_create(&thread, NULL, acknowledge, cq), 0);
    api_destroy_cq_ex(ex); /* waits for the acknowledgement */
    pthread_join(thread, NULL);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* bug B10 */
static void cq_ex__overrun__raises_event_and_keeps_completions(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *cq = api_cq_ex(api, 3, 0);
    struct ibv_qp *qp = api_flushing_qp(api, ibv_cq_ex_to_cq(cq));
    struct ibv_async_event event;

    api_flush(api, qp, 0, (uint64_t)cq->cqe + 1);
    assert_int_equal(ibv_get_async_event(api->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, ibv_cq_ex_to_cq(cq));
    ibv_ack_async_event(&event);
    expect_batch(cq, 0, (uint64_t)cq->cqe);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    api_destroy_cq_ex(cq);
}

static void cq_ex__ignore_overrun__drops_the_newest_and_works(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *cq = api_cq_ex(api, 3, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
    struct ibv_qp *qp = api_flushing_qp(api, ibv_cq_ex_to_cq(cq));

    for (uint64_t first = 0; first < 30; first += 10) {
        api_flush(api, qp, first, 10);
        expect_batch(cq, first, (uint64_t)cq->cqe);
    }
    assert_false(readable(api->context->async_fd));
    assert_int_equal(ibv_destroy_qp(qp), 0);
    api_destroy_cq_ex(cq);
}

static void modify_cq__moderation__is_refused(void **state)
{
    const struct api *api = *state;
    struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { 4, 10 } };
    struct ibv_device_attr_ex device;
    struct ibv_cq *cq = api_cq(api, 4);

    assert_int_equal(ibv_query_device_ex(api->context, NULL, &device), 0);
    assert_int_equal(device.cq_mod_caps.max_cq_count, 0);
    assert_int_equal(device.cq_mod_caps.max_cq_period, 0);
    assert_int_equal(ibv_modify_cq(cq, &attr), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(cq_ex__used_as_a_cq__works),
        API_TEST(cq_ex__wrong_arguments__is_einval),
        API_TEST(cq_ex__unsupported_fields__is_eopnotsupp),
        API_TEST(cq_ex__flags_without_their_mask__are_ignored),
        API_TEST(cq_ex__each_flag__adds_one_read_function),
        API_TEST(start_poll__empty_cq__is_enoent_and_no_batch),
        API_TEST(start_poll__unknown_attribute__is_einval),
        API_TEST(batch__pending_completions__are_in_order),
        API_TEST(batch__ended_before_the_last_completion__leaves_the_rest),
        API_TEST(cq_ex__failed_completion__has_request_and_reason),
        API_TEST(batch__other_verbs_during_a_batch__do_not_wait),
        API_TEST(batches__of_two_threads_while_a_third_modifies__each_completion_once),
        API_TEST(cq_ex__armed__one_event_and_destroy_waits_for_its_acknowledgement),
        API_TEST(cq_ex__overrun__raises_event_and_keeps_completions),
        API_TEST(cq_ex__ignore_overrun__drops_the_newest_and_works),
        API_TEST(modify_cq__moderation__is_refused),
    };
    return API_RUN(tests);
}
