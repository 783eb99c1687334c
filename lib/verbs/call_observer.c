/* SPDX-License-Identifier: BSD-3-Clause */
/* call_observer.c - see call_observer.h. */
#include "verbs/call_observer.h"

#include <stddef.h>

static void (*observer)(const void *caller);

void uro_ibv_set_observer(void (*to)(const void *caller))
{
    observer = to;
}

void uro_ibv_called_from(const void *caller)
{
    if (observer != NULL)
        observer(caller);
}
