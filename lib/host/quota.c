/* SPDX-License-Identifier: BSD-3-Clause */
/* quota.c - see quota.h for the contract. */
#include "host/quota.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cm/cm.h"
#include "engine/neigh.h"
#include "host/device.h"

/* ---- quotas ------------------------------------------------------------ */

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
static struct uro_quota_use process; /* use by all devices together */

void uro_quota_set_process(const uint64_t most[URO_QUOTA_COUNT])
{
    memcpy(process_most, most, sizeof process_most);
}

uint64_t uro_quota_most(const struct uro_device *device, enum uro_quota quota)
{
    uint64_t own = device->config.most[quota];

    return own < process_most[quota] ? own : process_most[quota];
}

/* Prints the message once. @name: device name, or "*". @raise: entry of the configuration whose key
 * must be larger. */
static void warn(struct uro_quota_use *use, const char *name, uint64_t most, enum uro_quota quota,
                 const char *raise)
{
    if (atomic_exchange(&use->warned[quota], true))
        return;
    fprintf(stderr,
            "uroce: %s: the limit of %" PRIu64
            " %s%s is reached, so requests for more fail (ENOMEM); destroy some in the program, or "
            "raise %s= of %s\n",
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

/* Counts the amount first for the process, then for the device. Near the quota of the process, a
 * call of another thread may therefore fail, too. */
bool uro_quota_take(struct uro_device *device, enum uro_quota quota, uint64_t amount)
{
    uint64_t most = device->config.most[quota];

    if (!take(&process, process_most[quota], quota, amount)) {
        warn(&process, "*", process_most[quota], quota, "*");
        errno = ENOMEM;
        return false;
    }
    if (!take(&device->quota_use, most, quota, amount)) {
        atomic_fetch_sub(&process.used[quota], amount);
        warn(&device->quota_use, device->config.name, most, quota,
             device->config.card.name[0] == '\0'
                 ? "the device"
                 : "the device, up to the limit of the card in like=");
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

void uro_quota_warn(struct uro_device *device, enum uro_quota quota)
{
    const bool own = device->config.most[quota] <= process_most[quota];

    warn(&device->quota_use, device->config.name, uro_quota_most(device, quota), quota,
         own ? "the device" : "*");
}

/* ---- bounds ------------------------------------------------------------ */

void uro_quota_warn_bound(struct uro_device *device, enum uro_bound bound, uint64_t most)
{
    const char *name = device->config.name;

    if (atomic_exchange(&device->bound_warned[bound], true))
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

void uro_quota_check_bounds(struct uro_device *device)
{
    if (uro_engine_cm(device->engine)->full)
        uro_quota_warn(device, URO_QUOTA_CONN);
    if (uro_engine_cm(device->engine)->services_full)
        uro_quota_warn_bound(device, URO_BOUND_SERVICES, URO_PORT_SERVICES_MAX);
    if (uro_engine_hops_refused(device->engine))
        uro_quota_warn_bound(device, URO_BOUND_NEXT_HOPS, URO_NEIGH_HOPS_MAX);
}

/* ---- guesses ----------------------------------------------------------- */

static const struct {
    enum uro_counter counter;
    const char *description;
    const char *causes;
} kinds[] = {
    { URO_COUNT_DROP_ADDRESS,
      "packets for queue pairs from addresses of other hosts than their peers",
      "an attacker forges packets, or a program connected to a wrong queue pair number" },
    { URO_COUNT_DROP_QPN, "packets for queue pairs that do not exist",
      "peers still send to destroyed queue pairs, or an attacker guesses numbers" },
    { URO_COUNT_DROP_GHOST_ACK, "responses to requests that were never sent",
      "an attacker forges responses, or a peer is faulty" },
    { URO_COUNT_RX_FAR, "requests with PSNs far from the expected PSN",
      "a peer restarted, or an attacker guesses PSNs" },
    { URO_COUNT_ACCESS_REFUSED, "requests with wrong keys, addresses or rights",
      "a peer uses wrong keys, or an attacker guesses keys" },
    { URO_COUNT_DROP_PKEY, "packets of other partitions",
      "a host is misconfigured, or an attacker guesses partition keys" },
    { URO_COUNT_DROP_QKEY, "datagrams with wrong Q_Keys",
      "a peer is misconfigured, or an attacker guesses Q_Keys" },
    { URO_COUNT_CM_DROP_UNEXPECTED, "connection messages that fit no connection",
      "peers restarted, or an attacker forges messages" },
    { URO_COUNT_CM_REFUSED, "connection requests that were refused",
      "clients connect to a service without a listener, or too many clients connect" },
    { URO_COUNT_CM_DROP_BUSY, "connection messages that this program did not accept in time",
      "more clients at once than this program accepts, or a flood" },
};
static_assert(URO_ARRAY_LEN(kinds) == URO_GUESS_KINDS, "one description for each kind");

static bool is_muted(const struct uro_guesses *guesses, unsigned kind, uro_time now)
{
    return guesses->warned_at[kind] != 0 && now - guesses->warned_at[kind] < URO_GUESS_MUTED;
}

bool uro_quota_check_guesses(struct uro_guesses *guesses, const struct uro_counters *counters,
                             uro_time now, char text[static URO_GUESS_TEXT_MAX])
{
    for (unsigned i = 0; i < URO_GUESS_KINDS; i++) {
        uint64_t count = counters->value[kinds[i].counter];
        if (count - guesses->before[i] < URO_GUESS_MAX || is_muted(guesses, i, now))
            continue;
        guesses->warned_at[i] = now;
        snprintf(text, URO_GUESS_TEXT_MAX, "WARNING: %" PRIu64 " %s (%s): %s; see docs/SECURITY.md",
                 count, kinds[i].description, uro_counter_name(kinds[i].counter), kinds[i].causes);
        return true;
    }
    if (guesses->since == 0 || now - guesses->since >= URO_GUESS_INTERVAL) {
        guesses->since = now;
        for (unsigned i = 0; i < URO_GUESS_KINDS; i++)
            guesses->before[i] = counters->value[kinds[i].counter];
    }
    return false;
}
