/* SPDX-License-Identifier: BSD-3-Clause */
/* quota.h - how many objects of a kind, and how much memory, a process may have of a device, and of
 * all its devices together.
 *
 * The bounds are those of the configuration (max_qp= and so on, of a device and of "*"); the lesser
 * one is what a program is told when it asks the device. To add a kind: a line below, a default and a key in entry.c.
 */
#pragma once

#include "base/defs.h"

struct uro_device;

/* X(enumerator, "key", "what there are so many of") */
#define URO_QUOTAS(X)                                                                              \
    X(QP, "max_qp", "queue pairs")                                                                 \
    X(CQ, "max_cq", "completion queues")                                                           \
    X(SRQ, "max_srq", "shared receive queues")                                                     \
    X(MR, "max_mr", "memory regions")                                                              \
    X(MW, "max_mw", "memory windows")                                                              \
    X(PD, "max_pd", "protection domains")                                                          \
    X(AH, "max_ah", "address handles")                                                             \
    X(CONN, "max_conn", "connections of rdma_cm")                                                  \
    X(OCTETS, "max_registered", "octets of registered memory")

enum uro_quota {
#define X(id, key, text) URO_QUOTA_##id,
    URO_QUOTAS(X)
#undef X
        URO_QUOTA_COUNT
};

/* For devices.c, before any device is used: what all of them together may have. */
void uro_quota_set_process(const uint64_t most[URO_QUOTA_COUNT]);
uint64_t uro_quota_most(const struct uro_device *device, enum uro_quota quota);

/* Counts @amount more, unless that is more than the device or the process may have: then false, with
 * errno ENOMEM, and the first time stderr says which bound it was. Thread: any. */
URO_NODISCARD bool uro_quota_take(struct uro_device *device, enum uro_quota quota, uint64_t amount);
/* In a forked child: what the parent has counts no more. */
void uro_quota_forked(void);
/* Nothing happens when the device is dead. */
void uro_quota_give(struct uro_device *device, enum uro_quota quota, uint64_t amount);

/* Returns whether the device has objects other than PDs and connections. Thread: any. */
bool uro_quota_in_use(const struct uro_device *device);

/* Subtracts the objects of a removed device from the totals of the process. */
void uro_quota_removed(struct uro_device *device);

/* Prints once on stderr that the device has reached a quota. For objects that the engine counts for each device: the bound
 * of "*" then applies to each device. */
void uro_quota_say(struct uro_device *device, enum uro_quota quota);
