/* SPDX-License-Identifier: BSD-3-Clause */
/* call_observer.h - which library calls us: librdmacm makes itself known by its first call, of
 * ibv_get_sysfs_path() or ibv_get_device_list(), before it opens its own device.
 */
#pragma once

/* Told the address that each such call returns to. Set once, before any call. */
void uro_ibv_set_observer(void (*observer)(const void *caller));
void uro_ibv_called_from(const void *caller);
