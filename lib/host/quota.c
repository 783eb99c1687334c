/* SPDX-License-Identifier: BSD-3-Clause */
/* quota.c - see quota.h for the contract. */
#include "host/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "host/device.h"

static const char *const keys[URO_QUOTA_COUNT] = {
#define X(id, key, text) key,
    URO_QUOTAS(X)
#undef X
};

static const char *const texts[URO_QUOTA_COUNT] = {
#define X(id, key, text) text,
    URO_QUOTAS(X)
#undef X
};

static void complain(struct uro_device *device, enum uro_quota quota)
{
    if (atomic_exchange(&device->quota_told[quota], true))
        return;
    fprintf(stderr,
            "uroce: %s: more than %" PRIu64
            " %s are refused (ENOMEM); the program has to give some "
            "back, or %s= of the device must be larger\n",
            device->config.name, device->config.most[quota], texts[quota], keys[quota]);
}

bool uro_quota_take(struct uro_device *device, enum uro_quota quota, uint64_t amount)
{
    uint64_t most = device->config.most[quota];
    uint64_t used = atomic_load(&device->quota_used[quota]);

    do {
        if (amount > most || used > most - amount) {
            complain(device, quota);
            errno = ENOMEM;
            return false;
        }
    } while (!atomic_compare_exchange_weak(&device->quota_used[quota], &used, used + amount));
    return true;
}

void uro_quota_give(struct uro_device *device, enum uro_quota quota, uint64_t amount)
{
    atomic_fetch_sub(&device->quota_used[quota], amount);
}
