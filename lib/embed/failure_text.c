/* SPDX-License-Identifier: BSD-3-Clause */
/* failure_text.c - the texts of the reasons of failures (uroce/uroce.h). */
#include <uroce/uroce.h>

#include "core/cq.h"

static const char *const texts[URO_FAIL_REASON_COUNT] = {
#define X(id, text) text,
    URO_FAIL_REASONS(X)
#undef X
};

const char *uroce_failure_text(uint32_t vendor_err)
{
    return vendor_err < URO_FAIL_REASON_COUNT ? texts[vendor_err] : "unknown reason";
}
