/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h - what the objects of a program are in a forked child. All objects and contexts of the
 * parent's device are dead there (uro_device_dead()), and can only be freed.
 */
#pragma once

#include "verbs/objects.h"

/* Watches fork(). Once, after the devices were read. */
void uro_ibv_watch_forks(void);

/* librdmacm opens a device once and hands the context, and a PD of it, to whoever connects. In a
 * forked child it goes on to do so: those two are the child's then, and what else was made of them
 * is dead. */
void uro_ibv_keep_context(struct ibv_context *context);
void uro_ibv_keep_pd(struct ibv_pd *pd);

/* In a forked child: the device is a new one, @device, and the context is as if it had just been
 * opened. */
void uro_ibv_context_again(struct uro_ibv_context *context, struct uro_device *device);
/* In a forked child, no lock is held: those that stay belong to their contexts' devices. */
void uro_ibv_pds_again(void);

/* Locks that fork.c holds while the address space is copied; none is held while another is
 * taken. */
void uro_ibv_pds_lock(void);
void uro_ibv_pds_unlock(void);
void uro_ibv_dms_lock(void);
void uro_ibv_dms_unlock(void);
void uro_ibv_xrcds_lock(void);
void uro_ibv_xrcds_unlock(void);

/* device.c: in a forked child, no lock is held: devices that were the parent's are new ones. */
void uro_ibv_devices_again(void);
/* A lock in place of those of dead contexts, which threads that are not here may hold. */
void uro_ibv_context_forked(void);
