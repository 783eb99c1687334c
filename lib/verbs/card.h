/* SPDX-License-Identifier: BSD-3-Clause */
/* card.h - refuses calls that the card of like= does not support. Without like=, the check costs
 * a few comparisons with 0 for each new object. Posts are checked only in a context whose card
 * needs the check (uro_card_checks_posts()), or that has fail=.
 */
#pragma once

#include <errno.h>

#include <infiniband/verbs.h>

#include "host/host.h"

/* Returns 0. If the card lacks @what, records the failure and returns the errno of @call. */
URO_NODISCARD int uro_card_refuses(struct uro_device *device, enum uro_card_missing what,
                                   const char *call);

/* Does the same for a call that returns a pointer: sets errno and returns true if the card lacks
 * @what. */
URO_NODISCARD static inline bool uro_card_lacks(struct uro_device *device,
                                                enum uro_card_missing what, const char *call)
{
    const int error = uro_card_refuses(device, what, call);

    if (error != 0)
        errno = error;
    return error != 0;
}

/* Does the same for everything that a queue pair needs: its type, an SRQ, and the operations of
 * ibv_wr_*(). */
URO_NODISCARD int uro_card_refuses_qp(struct uro_device *device,
                                      const struct ibv_qp_init_attr_ex *attr);

/* Does the same for a memory region of this length and access. */
URO_NODISCARD int uro_card_refuses_mr(struct uro_device *device, uint64_t length, unsigned access);

/* Returns whether posts need uro_card_post_send(). */
bool uro_card_checks_posts(const struct uro_card *card);

/* Posts the requests before the first request that the card does not support. Returns the same
 * values as ibv_post_send(). */
int uro_card_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/* Returns the lower of two limits: the card's, and uroce's own limit @own. */
static inline uint32_t uro_card_most(const struct uro_device *device, enum uro_card_number number,
                                     uint32_t own)
{
    return (uint32_t)uro_card_limit(&uro_device_config(device)->card, number, own);
}
