/* SPDX-License-Identifier: BSD-3-Clause */
/* bound.c - see bound.h for the contract. */
#include "host/bound.h"

#include <inttypes.h>
#include <stdio.h>

#include "cm/cm.h"
#include "engine/neigh.h"
#include "host/device.h"

void uro_bound_say(struct uro_device *device, enum uro_bound bound, uint64_t most)
{
    const char *name = device->config.name;

    if (atomic_exchange(&device->bound_said[bound], true))
        return;
    switch (bound) {
#define X(id, text)                                                                                \
    case URO_BOUND_##id:                                                                           \
        fprintf(stderr, "uroce: %s: " text "\n", name, most);                                      \
        break;
        URO_BOUNDS(X)
#undef X
    case URO_BOUND_COUNT:
        break;
    }
}

void uro_bound_look(struct uro_device *device)
{
    if (uro_engine_cm(device->engine)->full)
        uro_quota_say(device, URO_QUOTA_CONN);
    if (uro_engine_cm(device->engine)->services_full)
        uro_bound_say(device, URO_BOUND_SERVICES, URO_PORT_SERVICES_MAX);
    if (uro_engine_hops_refused(device->engine))
        uro_bound_say(device, URO_BOUND_NEXT_HOPS, URO_NEIGH_HOPS_MAX);
}
