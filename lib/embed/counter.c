/* SPDX-License-Identifier: BSD-3-Clause */
/* counter.c - the public functions that read counters of a device by name: first engine counters,
 * then cable counters. */
#include <errno.h>
#include <string.h>

#include <uroce/uroce.h>

#include "host/host.h"
#include "io/cable/port.h"

static const struct {
    const char *name, *text;
} cable_counts[URO_CABLE_COUNT] = {
#define X(id, name, text) { name, text },
    URO_CABLE_COUNTS(X)
#undef X
};

#define COUNT ((unsigned)URO_COUNTER_COUNT + (unsigned)URO_CABLE_COUNT)

const char *uroce_counter_name(unsigned index)
{
    if (index < URO_COUNTER_COUNT)
        return uro_counter_name((enum uro_counter)index);
    return index < COUNT ? cable_counts[index - URO_COUNTER_COUNT].name : NULL;
}

const char *uroce_counter_text(unsigned index)
{
    if (index < URO_COUNTER_COUNT)
        return uro_counter_text((enum uro_counter)index);
    return index < COUNT ? cable_counts[index - URO_COUNTER_COUNT].text : NULL;
}

int uroce_device_counter(const char *device, const char *counter, uint64_t *value)
{
    if (device == NULL || counter == NULL || value == NULL)
        return -EINVAL;
    struct uro_device *host = uro_host_find(device);
    if (host == NULL)
        return -ENODEV;
    for (unsigned i = 0; i < COUNT; i++) {
        if (strcmp(counter, uroce_counter_name(i)) != 0)
            continue;
        *value = 0; /* for a device without a cable */
        if (i < URO_COUNTER_COUNT)
            *value = uro_device_counter(host, (enum uro_counter)i);
        else
            (void)!uro_cable_port_count(device, (enum uro_cable_count)(i - URO_COUNTER_COUNT),
                                        value);
        return 0;
    }
    return -ENOENT;
}
