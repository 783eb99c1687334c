/* SPDX-License-Identifier: BSD-3-Clause */
/* failure.c - the public functions that return the reason of a failure as text. */
#include <uroce/uroce.h>

#include "core/cq.h"
#include "verbs/objects.h"

static const char *const texts[URO_FAIL_REASON_COUNT] = {
#define X(id, text) text,
    URO_FAIL_REASONS(X)
#undef X
};

const char *uroce_failure_text(uint32_t vendor_err)
{
    return vendor_err < URO_FAIL_REASON_COUNT ? texts[vendor_err] : "unknown reason";
}

const char *uroce_qp_failure(struct ibv_qp *ibv)
{
    enum uro_fail_reason fail_reason;

    if (ibv == NULL || uro_object_dead(&uro_ibv_qp(ibv)->object))
        return NULL;
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    uro_device_lock(qp->object.device);
    fail_reason = uro_qp_failure(qp->core);
    uro_device_unlock(qp->object.device);
    return fail_reason != URO_FAIL_NONE ? texts[fail_reason] : NULL;
}
