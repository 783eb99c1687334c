/* SPDX-License-Identifier: BSD-3-Clause */
/* failure.c - the public functions that return the reason of a failure as text. */
#include <uroce/uroce.h>

#include "core/why.h"
#include "verbs/objects.h"

static const char *const texts[URO_WHY_COUNT] = {
#define X(id, text) text,
    URO_WHYS(X)
#undef X
};

const char *uroce_failure_text(uint32_t vendor_err)
{
    return vendor_err < URO_WHY_COUNT ? texts[vendor_err] : "unknown reason";
}

const char *uroce_qp_failure(struct ibv_qp *ibv)
{
    enum uro_why why;

    if (ibv == NULL || uro_object_dead(&uro_ibv_qp(ibv)->object))
        return NULL;
    struct uro_ibv_qp *qp = uro_ibv_qp(ibv);
    uro_device_lock(qp->object.device);
    why = uro_qp_failure(qp->core);
    uro_device_unlock(qp->object.device);
    return why != URO_WHY_NONE ? texts[why] : NULL;
}
