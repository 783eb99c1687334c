/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/srq.h"

#include <string.h>

struct ibv_srq *srq_create(const struct api *api, uint32_t max_wr)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = max_wr, .max_sge = 2 } };
    struct ibv_srq *srq = ibv_create_srq(api->pd, &init);

    assert_non_null(srq);
    return srq;
}

void srq_stand_open(struct srq_stand *stand, const struct api *api, enum ibv_qp_type type)
{
    stand->srq = srq_create(api, 4);
    struct pair *pairs[] = { &stand->one, &stand->two };
    for (int i = 0; i < 2; i++) {
        api_side_open(api, &pairs[i]->a, NULL, type, NULL);
        api_side_open(api, &pairs[i]->b, NULL, type, stand->srq);
        api_pair_join(api, pairs[i]);
        memset(pairs[i]->a.buffer, 'a' + i, 16);
    }
}

void srq_stand_close(struct srq_stand *stand)
{
    api_pair_close(&stand->one);
    api_pair_close(&stand->two);
    assert_int_equal(ibv_destroy_srq(stand->srq), 0);
}

void srq_send(struct pair *pair)
{
    struct ibv_sge from = api_sge(&pair->a, 0, 16);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);

    assert_int_equal(api_post_send(&pair->a, &wr), 0);
}
