/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h - verbs objects in a forked child. There, contexts and objects of the parent's devices are
 * dead (uro_device_dead()): the child can only free them.
 */
#pragma once

#include "verbs/objects.h"

/* Installs the handlers of fork(). Called once, after the devices were read. */
void uro_ibv_watch_fork(void);

/* Mark the context and the PD that librdmacm creates once for each device and gives to all
 * connections. Both stay usable in a forked child, because librdmacm continues to use them. Other
 * objects that were created from them are dead. */
void uro_ibv_keep_context(struct ibv_context *context);
void uro_ibv_keep_pd(struct ibv_pd *pd);

/* In a forked child: resets the context to the state of a newly opened context of @device. */
void uro_ibv_reset_context(struct uro_ibv_context *context, struct uro_device *device);
/* In a forked child: moves the kept PDs to the new devices of their contexts. No lock is held. */
void uro_ibv_reset_pds(void);

/* Locks that fork.c holds while the address space is copied. No other code holds two of them. */
void uro_ibv_pds_lock(void);
void uro_ibv_pds_unlock(void);
void uro_ibv_dms_lock(void);
void uro_ibv_dms_unlock(void);
void uro_ibv_xrcds_lock(void);
void uro_ibv_xrcds_unlock(void);

/* device.c: in a forked child, replaces the devices of the parent by new devices. No lock is
 * held. */
void uro_ibv_replace_devices(void);
/* In a forked child: initializes the lock that replaces the locks of dead contexts, which threads
 * of the parent may hold. */
void uro_ibv_renew_dead_lock(void);
