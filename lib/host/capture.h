/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.h - pcap=FILE: every frame of a device, as it is sent and as it arrives. */
#pragma once

#include "host/device.h"

/* Opens the file that the configuration names, if any. Returns 0, or -errno with a sentence in
 * device->problem. */
URO_NODISCARD int uro_capture_open(struct uro_device *device);

/* Engine lock held. */
void uro_capture_received(struct uro_device *device, const struct uro_pkt *pkts, uint32_t count,
                          uro_time now);
void uro_capture_sent(struct uro_device *device, const struct uro_tx *tx, uint32_t count,
                      uro_time now);

/* What was captured so far is in the file: a program that hangs is killed. Engine lock held. */
void uro_capture_flush(struct uro_device *device);

/* Says how many frames are missing, if any. */
void uro_capture_close(struct uro_device *device);
/* In a forked child: closes the child's copy of the file. The parent writes what it has in memory. */
void uro_capture_forked(struct uro_device *device);
