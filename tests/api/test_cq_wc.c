/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- what a completion has ---------------------------------------------- */

struct talk {
    struct ibv_cq_ex *cq; /* CQ of both queue pairs */
    struct ibv_qp *from, *to;
    struct ibv_mr *mr;
    uint8_t buffer[64];
};

static void open_talk(const struct api *api, struct talk *talk, struct ibv_cq_ex *cq)
{
    talk->cq = cq;
    talk->from = api_qp(api, ibv_cq_ex_to_cq(cq));
    talk->to = api_qp(api, ibv_cq_ex_to_cq(cq));
    talk->mr = ibv_reg_mr(api->pd, talk->buffer, sizeof talk->buffer, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(talk->mr);
    api_connect(api, talk->from, talk->to->qp_num);
    api_connect(api, talk->to, talk->from->qp_num);
}

static void close_talk(struct talk *talk)
{
    assert_int_equal(ibv_destroy_qp(talk->from), 0);
    assert_int_equal(ibv_destroy_qp(talk->to), 0);
    assert_int_equal(ibv_dereg_mr(talk->mr), 0);
    api_destroy_cq_ex(talk->cq);
}

#define SENT     1
#define RECEIVED 2

/* Sends 20 bytes with the immediate data 0x11223344. */
static void say(struct talk *talk)
{
    struct ibv_sge from = { (uintptr_t)talk->buffer, 20, talk->mr->lkey };
    struct ibv_sge to = { (uintptr_t)talk->buffer + 32, 32, talk->mr->lkey };
    struct ibv_send_wr wr = api_send(IBV_WR_SEND_WITH_IMM, &from), *bad;
    struct ibv_recv_wr recv = { .wr_id = RECEIVED, .sg_list = &to, .num_sge = 1 }, *bad_recv;

    wr.imm_data = htobe32(0x11223344);
    assert_int_equal(ibv_post_recv(talk->to, &recv, &bad_recv), 0);
    assert_int_equal(ibv_post_send(talk->from, &wr, &bad), 0);
}

static void completion__of_a_receive__readers_return_its_fields(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *cq = api_cq_ex(api, 16, 0);
    struct talk talk;

    open_talk(api, &talk, cq);
    say(&talk);
    api_start_poll(cq); /* the send completion comes later, with the ACK */
    assert_int_equal(cq->wr_id, RECEIVED);
    assert_int_equal(cq->status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    assert_int_equal(ibv_wc_read_byte_len(cq), 20);
    assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
    assert_int_equal(be32toh(ibv_wc_read_imm_data(cq)), 0x11223344);
    assert_int_equal(ibv_wc_read_qp_num(cq), talk.to->qp_num);
    assert_int_equal(ibv_wc_read_src_qp(cq), talk.from->qp_num);
    assert_int_equal(ibv_wc_read_slid(cq), 0);
    assert_int_equal(ibv_wc_read_sl(cq), 0);
    assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
    assert_int_equal(ibv_wc_read_vendor_err(cq), 0);
    ibv_end_poll(cq);
    api_start_poll(cq);
    assert_int_equal(cq->wr_id, SENT);
    assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_SEND);
    assert_int_equal(ibv_wc_read_qp_num(cq), talk.from->qp_num);
    assert_int_equal(ibv_wc_read_wc_flags(cq), 0);
    ibv_end_poll(cq);
    close_talk(&talk);
}

/* A transfer of 1 MiB between two queue pairs: far more packets than a post sends. */
struct transfer {
    struct talk talk;
    struct ibv_mr *from_mr, *to_mr;
};
static uint8_t from[1 << 20], to[sizeof from];

static void open_transfer(const struct api *api, struct transfer *transfer)
{
    open_talk(api, &transfer->talk, api_cq_ex(api, 16, 0));
    transfer->from_mr = ibv_reg_mr(api->pd, from, sizeof from, 0);
    transfer->to_mr =
        ibv_reg_mr(api->pd, to, sizeof to, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(transfer->from_mr);
    assert_non_null(transfer->to_mr);
}

static void write_all(struct transfer *transfer, int octet)
{
    struct ibv_sge sge = { (uintptr_t)from, sizeof from, transfer->from_mr->lkey };
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &sge), *bad;

    memset(from, octet, sizeof from);
    wr.wr.rdma.remote_addr = (uintptr_t)to;
    wr.wr.rdma.rkey = transfer->to_mr->rkey;
    assert_int_equal(ibv_post_send(transfer->talk.from, &wr, &bad), 0);
}

static void expect_written(struct transfer *transfer)
{
    struct ibv_cq_ex *cq = transfer->talk.cq;

    assert_int_equal(cq->status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
    assert_int_equal(ibv_wc_read_byte_len(cq), sizeof from);
    assert_memory_equal(to, from, sizeof from);
}

static void close_transfer(struct transfer *transfer)
{
    close_talk(&transfer->talk);
    assert_int_equal(ibv_dereg_mr(transfer->from_mr), 0);
    assert_int_equal(ibv_dereg_mr(transfer->to_mr), 0);
}

static void start_poll__during_a_long_message__makes_progress(void **state)
{
    struct transfer transfer;

    open_transfer(*state, &transfer);
    write_all(&transfer, 0x5a);
    api_start_poll(transfer.talk.cq);
    expect_written(&transfer);
    ibv_end_poll(transfer.talk.cq);
    close_transfer(&transfer);
}

/* Calls ibv_next_poll() repeatedly, as the tests of rdma-core do. */
static void next_poll__repeated__makes_progress(void **state)
{
    struct transfer transfer;
    int error;

    open_transfer(*state, &transfer);
    write_all(&transfer, 0x5a);
    api_start_poll(transfer.talk.cq);
    write_all(&transfer, 0xa5);
    while ((error = ibv_next_poll(transfer.talk.cq)) == ENOENT)
        ;
    assert_int_equal(error, 0);
    expect_written(&transfer);
    ibv_end_poll(transfer.talk.cq);
    close_transfer(&transfer);
}

/* ---- time --------------------------------------------------------------- */

static uint64_t raw_clock(const struct api *api)
{
    struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };

    assert_int_equal(ibv_query_rt_values_ex(api->context, &values), 0);
    assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
    assert_int_equal(values.raw_clock.tv_sec, 0);
    return (uint64_t)values.raw_clock.tv_nsec;
}

static uint64_t wall_clock(void)
{
    struct timespec now;

    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void cq_timestamp__hardware_clock__has_the_frequency_of_the_device(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *cq = api_cq_ex(api, 16, 0);
    struct ibv_device_attr_ex attr;
    struct talk talk;
    uint64_t last = raw_clock(api);

    assert_int_equal(ibv_query_device_ex(api->context, NULL, &attr), 0);
    assert_true(attr.completion_timestamp_mask == UINT64_MAX);
    assert_int_equal(attr.hca_core_clock, 1000000); /* kHz; so a tick is a nanosecond */
    open_talk(api, &talk, cq);
    for (int i = 0; i < 20; i++) {
        say(&talk);
        for (int half = 0; half < 2; half++) {
            api_start_poll(cq);
            uint64_t at = ibv_wc_read_completion_ts(cq);
            assert_true(at >= last && at <= raw_clock(api));
            last = at;
            ibv_end_poll(cq);
        }
    }
    close_talk(&talk);
}

static void cq_timestamp__wall_clock__is_between_post_and_poll(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_ex *cq = api_cq_ex(api, 16, 0);
    struct talk talk;

    open_talk(api, &talk, cq);
    for (int i = 0; i < 20; i++) {
        uint64_t before = wall_clock();
        say(&talk);
        for (int half = 0; half < 2; half++) {
            api_start_poll(cq);
            uint64_t at = ibv_wc_read_completion_wallclock_ns(cq);
            assert_true(at >= before && at <= wall_clock());
            ibv_end_poll(cq);
        }
    }
    close_talk(&talk);
}

static void rt_values__of_an_unknown_kind__are_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_values_ex values = { .comp_mask = 2 };

    assert_int_equal(ibv_query_rt_values_ex(api->context, &values), EINVAL);
    values.comp_mask = 0;
    assert_int_equal(ibv_query_rt_values_ex(api->context, &values), 0);
    assert_int_equal(values.raw_clock.tv_nsec, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(completion__of_a_receive__readers_return_its_fields),
        API_TEST(start_poll__during_a_long_message__makes_progress),
        API_TEST(next_poll__repeated__makes_progress),
        API_TEST(cq_timestamp__hardware_clock__has_the_frequency_of_the_device),
        API_TEST(cq_timestamp__wall_clock__is_between_post_and_poll),
        API_TEST(rt_values__of_an_unknown_kind__are_einval),
    };
    /* With progress=caller, only calls of the program run the engine, such as ibv_start_poll(). */
    setenv("UROCE_DEVICES", "uroce0:net_ring0;ip=10.0.0.1/24;progress=caller", 1);
    return API_RUN(tests);
}
