/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.h - shared parts of the tests of shared receive queues. */
#pragma once

#include "api/api.h"

struct ibv_srq *srq_create(const struct api *api, uint32_t max_wr);

/* Two connections whose receiving ends share one SRQ of four receives. */
struct srq_stand {
    struct ibv_srq *srq;
    struct pair one, two;
};
void srq_stand_open(struct srq_stand *stand, const struct api *api, enum ibv_qp_type type);
void srq_stand_close(struct srq_stand *stand);

/* Sends 16 bytes from a to b. */
void srq_send(struct pair *pair);
