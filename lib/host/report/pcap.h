/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap.h - pcap= of a device: writes its frames to a file. A file named *.pcapng also has the
 * faults of impair= and the events of queue pairs.
 *
 * All functions do nothing if the device has no file. While the device runs, the engine lock is
 * held.
 */
#pragma once

#include "engine/port.h"

struct uro_device;
struct uro_failure;
struct uro_impair_trace_line;

/* Creates the file that the configuration names, if any. Returns 0, or -errno with the reason in
 * device->problem. */
URO_NODISCARD int uro_pcap_open(struct uro_device *device);

/* Makes the engine report state changes of its queue pairs, and failed completions. Call when the
 * engine exists. */
void uro_pcap_observe(struct uro_device *device);

/* These functions add the frames that uro_port_receive() has just returned, and the frames that the
 * engine has sent to itself. */
void uro_pcap_received(struct uro_device *device, const struct uro_pkt *pkts, uint32_t count,
                       uro_time now);
void uro_pcap_looped(struct uro_device *device, const struct uro_pkt *pkts, uint32_t count,
                     uro_time now);

/* Adds the first @count frames of device->tx, which uro_port_transmit() has just taken. If their
 * memory has changed since, the file differs from the wire. */
void uro_pcap_sent(struct uro_device *device, uint32_t count, uro_time now);

/* Adds a frame that impair= has taken away. @context: the device. */
void uro_pcap_lost(void *context, const struct uro_pkt *pkt,
                   const struct uro_impair_trace_line *line);

/* Adds the reason why a queue pair has failed or waits. */
void uro_pcap_failure(struct uro_device *device, const struct uro_failure *failure);

/* Writes the buffered frames to the file. */
void uro_pcap_flush(struct uro_device *device);

/* Closes the file, and prints how many frames are missing, if any. */
void uro_pcap_close(struct uro_device *device);

/* In a forked child: closes the child's copy of the file. The parent writes the frames that are in
 * memory. */
void uro_pcap_abandon(struct uro_device *device);
