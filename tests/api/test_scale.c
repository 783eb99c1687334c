/* SPDX-License-Identifier: BSD-3-Clause */
/* test_scale.c - 65536 queue pairs on one device: creates them, sends between two of them, destroys
 * all. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>

#define QPS      65536u
#define BYTES_QP 16384 /* maximum memory of an idle queue pair with queues of 16 requests */

static long resident_kib(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[128];
    long kib = 0;

    assert_non_null(status);
    while (fgets(line, sizeof line, status) != NULL && sscanf(line, "VmRSS: %ld", &kib) != 1)
        ;
    (void)fclose(status);
    return kib;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void assert_all_different(struct ibv_qp *const *qps)
{
    uint32_t *numbers = calloc(QPS, sizeof *numbers);

    assert_non_null(numbers);
    for (uint32_t i = 0; i < QPS; i++)
        numbers[i] = qps[i]->qp_num;
    qsort(numbers, QPS, sizeof *numbers, by_number);
    for (uint32_t i = 1; i < QPS; i++)
        assert_true(numbers[i] != numbers[i - 1]);
    free(numbers);
}

static void queue_pairs__64_ki__two_of_them_exchange_data(void **state)
{
    const struct api *api = *state;
    struct ibv_qp **qps = calloc(QPS, sizeof *qps);
    struct ibv_cq *cq = api_cq(api, 64);
    uint8_t octet[2] = { 7, 0 };
    struct ibv_mr *mr = ibv_reg_mr(api->pd, octet, sizeof octet, IBV_ACCESS_LOCAL_WRITE);
    long before = resident_kib();

    assert_non_null(qps);
    assert_non_null(mr);
    for (uint32_t i = 0; i < QPS; i++)
        qps[i] = api_qp(api, cq);
    assert_all_different(qps);
#ifndef __SANITIZE_ADDRESS__
    assert_true((resident_kib() - before) * 1024 / QPS < BYTES_QP);
#else
    (void)before;
#endif
    struct ibv_qp *one = qps[17], *other = qps[QPS - 1];
    api_connect(api, one, other->qp_num);
    api_connect(api, other, one->qp_num);
    struct ibv_sge to = { (uintptr_t)&octet[1], 1, mr->lkey };
    struct ibv_sge from = { (uintptr_t)&octet[0], 1, mr->lkey };
    struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &to, .num_sge = 1 }, *bad_recv;
    struct ibv_send_wr send = api_send(IBV_WR_SEND, &from), *bad_send;
    assert_int_equal(ibv_post_recv(other, &recv, &bad_recv), 0);
    assert_int_equal(ibv_post_send(one, &send, &bad_send), 0);
    assert_int_equal(api_wait(cq).status, IBV_WC_SUCCESS);
    assert_int_equal(api_wait(cq).status, IBV_WC_SUCCESS);
    assert_int_equal(octet[1], 7);

    for (uint32_t i = 0; i < QPS; i++)
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    free(qps);
}

int main(void)
{
    const struct CMUnitTest tests[] = { API_TEST(queue_pairs__64_ki__two_of_them_exchange_data) };

    return API_RUN(tests);
}
