/* SPDX-License-Identifier: BSD-3-Clause */
/* quota.c - see quota.h for the contract. */
#include "host/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static uint64_t process_most[URO_QUOTA_COUNT];
static struct uro_quota_use process; /* of all devices */

void uro_quota_set_process(const uint64_t most[URO_QUOTA_COUNT])
{
    memcpy(process_most, most, sizeof process_most);
}

uint64_t uro_quota_most(const struct uro_device *device, enum uro_quota quota)
{
    uint64_t own = device->config.most[quota];

    return own < process_most[quota] ? own : process_most[quota];
}

/* Prints the message. @name: device name, or "*". @raise: the entry whose key must be larger. */
static void complain(struct uro_quota_use *use, const char *name, uint64_t most,
                     enum uro_quota quota, const char *raise)
{
    if (atomic_exchange(&use->told[quota], true))
        return;
    fprintf(stderr,
            "uroce: %s: more than %" PRIu64 " %s%s are refused (ENOMEM); the program has to give "
            "some back, or %s= of %s must be larger\n",
            name, most, texts[quota], use == &process ? " of all devices together" : "",
            keys[quota], raise);
}

static bool take(struct uro_quota_use *use, uint64_t most, enum uro_quota quota, uint64_t amount)
{
    uint64_t used = atomic_load(&use->used[quota]);

    do {
        if (amount > most || used > most - amount)
            return false;
    } while (!atomic_compare_exchange_weak(&use->used[quota], &used, used + amount));
    return true;
}

/* What the device then refuses is counted for the process meanwhile: near its bound somebody else may
 * be refused as well. */
bool uro_quota_take(struct uro_device *device, enum uro_quota quota, uint64_t amount)
{
    uint64_t most = device->config.most[quota];

    if (!take(&process, process_most[quota], quota, amount)) {
        complain(&process, "*", process_most[quota], quota, "*");
        errno = ENOMEM;
        return false;
    }
    if (!take(&device->quota_use, most, quota, amount)) {
        atomic_fetch_sub(&process.used[quota], amount);
        complain(&device->quota_use, device->config.name, most, quota, "the device");
        errno = ENOMEM;
        return false;
    }
    return true;
}

void uro_quota_give(struct uro_device *device, enum uro_quota quota, uint64_t amount)
{
    if (uro_device_dead(device))
        return;
    atomic_fetch_sub(&device->quota_use.used[quota], amount);
    atomic_fetch_sub(&process.used[quota], amount);
}

void uro_quota_forked(void)
{
    for (unsigned i = 0; i < URO_QUOTA_COUNT; i++) {
        uint64_t used = 0;
        for (struct uro_device *const *device = uro_host_known(); *device != NULL; device++)
            if (!uro_device_dead(*device))
                used += atomic_load(&(*device)->quota_use.used[i]);
        atomic_store(&process.used[i], used);
    }
}

bool uro_quota_in_use(const struct uro_device *device)
{
    bool used = false;

    for (unsigned i = 0; i < URO_QUOTA_COUNT; i++)
        if (i != URO_QUOTA_PD && i != URO_QUOTA_CONN)
            used |= atomic_load(&device->quota_use.used[i]) != 0;
    return used;
}

void uro_quota_removed(struct uro_device *device)
{
    for (unsigned i = 0; i < URO_QUOTA_COUNT; i++)
        atomic_fetch_sub(&process.used[i], atomic_exchange(&device->quota_use.used[i], 0));
}

void uro_quota_say(struct uro_device *device, enum uro_quota quota)
{
    const bool own = device->config.most[quota] <= process_most[quota];

    complain(&device->quota_use, device->config.name, uro_quota_most(device, quota), quota,
             own ? "the device" : "*");
}
