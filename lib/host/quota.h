/* SPDX-License-Identifier: BSD-3-Clause */
/* quota.h - limits of the objects and the memory of a device that programs and peers use, and the
 * warnings on stderr about these limits.
 *
 *   quotas   objects and memory of a program: max_qp= and so on, of a device and of "*"
 *   bounds   limits that no key of the configuration sets
 *   guesses  rates of packets that a correct peer rarely sends
 *
 * Queries of a device return the lesser of the device's and the process's quota. To add a kind of
 * quota, add a line to URO_QUOTAS in config/device_config.h, and a default and a key in
 * config/entry_keys.c. To add a bound, add a line to URO_BOUNDS and a row in docs/CONFIGURATION.md.
 */
#pragma once

#include "base/counters.h"
#include "base/time.h"
#include "config/device_config.h"

struct uro_device;

/* ---- quotas ---------------------------------------------------------------- */

/* Sets the quotas of all devices together. host.c calls this before any device is used. */
void uro_quota_set_process(const uint64_t most[URO_QUOTA_COUNT]);
/* Returns the lesser of the device's and the process's quota. */
uint64_t uro_quota_most(const struct uro_device *device, enum uro_quota quota);

/* Adds @amount to the use of a quota. If that exceeds the quota of the device or of the process,
 * adds nothing, sets errno to ENOMEM, prints a message for the first time, and returns false.
 * Thread: any. */
URO_NODISCARD bool uro_quota_take(struct uro_device *device, enum uro_quota quota, uint64_t amount);
/* Subtracts @amount, unless the device is dead. */
void uro_quota_give(struct uro_device *device, enum uro_quota quota, uint64_t amount);

/* In a forked child: subtracts the objects of the parent from the use of the process. */
void uro_quota_forked(void);
/* Subtracts the objects of a removed device from the use of the process. */
void uro_quota_removed(struct uro_device *device);

/* Returns whether the device has objects other than PDs and connections. Thread: any. */
bool uro_quota_in_use(const struct uro_device *device);

/* Prints once on stderr that the device has reached a quota. For objects that each engine counts
 * itself. The quota of "*" then applies to each device separately. */
void uro_quota_warn(struct uro_device *device, enum uro_quota quota);

/* ---- bounds ---------------------------------------------------------------- */

/* X(enumerator, "text"): the text says which bound was reached, with its value as PRIu64, and what
 * to do */
#define URO_BOUNDS(X)                                                                              \
    X(NEXT_HOPS, "%" PRIu64 " next hops, one for each peer address, are in use: requests for "     \
                 "more fail (ENOMEM); destroy unused address handles, queue pairs or rdma_cm "     \
                 "identifiers")                                                                    \
    X(GROUPS, "%" PRIu64 " multicast groups are joined: requests for more fail (ENOMEM); detach "  \
              "queue pairs from unused groups")                                                    \
    X(MEMBERS, "%" PRIu64 " queue pairs are attached to one multicast group: requests for more "   \
               "fail (ENOMEM); detach unused queue pairs, or use several processes")               \
    X(SHARED_QPS, "%" PRIu64 " queue pairs exist, the most at an address that several processes "  \
                  "share: requests for more fail (ENOMEM); destroy unused queue pairs, or write "  \
                  "hub=no if no other process uses the address")                                   \
    X(SERVICES, "%" PRIu64 " services have listeners at one address: requests for more fail "      \
                "(ENOMEM); destroy unused listeners, or use several processes")                    \
    X(DEVICE_MEMORY, "the device has %" PRIu64 " bytes of device memory: requests for more fail "  \
                     "(ENOMEM); free unused device memory, or register ordinary memory")

enum uro_bound {
#define X(id, text) URO_BOUND_##id,
    URO_BOUNDS(X)
#undef X
        URO_BOUND_COUNT
};

/* Prints the message of @bound, whose value is @most, unless it was printed for this device before.
 * Thread: any. */
void uro_quota_warn_bound(struct uro_device *device, enum uro_bound bound, uint64_t most);

/* Prints the messages of the quotas and bounds that made the engine refuse a request of a program
 * or a peer. Engine lock held. */
void uro_quota_check_bounds(struct uro_device *device);

/* ---- guesses --------------------------------------------------------------- */

/* Counters count wrong guesses of QPNs, PSNs and keys. The user also gets a warning, because a host
 * that continues to guess finally succeeds. See docs/SECURITY.md. */
#define URO_GUESS_KINDS    10u
#define URO_GUESS_INTERVAL URO_MS(10000) /* interval in which packets of a kind are counted */
#define URO_GUESS_MAX      1000u /* packets that cause a warning; failing honest peers send fewer */
#define URO_GUESS_MUTED    URO_MS(600000) /* minimum time between two warnings about a kind */
#define URO_GUESS_TEXT_MAX 256u

struct uro_guesses {
    uro_time since;                      /* start of the interval; 0: none has begun */
    uint64_t before[URO_GUESS_KINDS];    /* values of the counters at that time */
    uro_time warned_at[URO_GUESS_KINDS]; /* time of the last warning; 0: none */
};

/* Checks the counters. May be called at any time. Returns true with one line of warning in @text.
 * Then the caller must call again, because there may be more warnings. */
bool uro_quota_check_guesses(struct uro_guesses *guesses, const struct uro_counters *counters,
                             uro_time now, char text[static URO_GUESS_TEXT_MAX]);
