/* SPDX-License-Identifier: BSD-3-Clause */
/* failure.c - the public function that returns the reason why a queue pair of a device failed. */
#include <uroce/uroce.h>

#include "verbs/objects.h"

const char *uroce_qp_failure(struct ibv_qp *ibv)
{
    enum uro_fail_reason fail_reason;

    if (ibv == NULL || uro_object_dead(&uro_ibv_qp(ibv)->object))
        return NULL;
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    uro_device_lock(qp->object.device);
    fail_reason = uro_qp_failure(qp->core);
    uro_device_unlock(qp->object.device);
    return fail_reason != URO_FAIL_NONE ? uroce_failure_text(fail_reason) : NULL;
}
