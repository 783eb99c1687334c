/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_write.h - writes frames to a capture file that Wireshark, tcpdump and `uroce dump` read.
 *
 * Classic pcap with nanoseconds, link type Ethernet. Written without libpcap: the format is 24
 * octets a file and 16 a frame, and a verbs program that captures should not load libpcap.
 *
 * A capture must never disturb what it watches: when the disk is full frames are left out and
 * counted, the file stays readable, and writing goes on as soon as there is room again.
 */
#pragma once

#include "base/time.h"
#include "core/pkt.h"
#include "core/tx.h"

#define URO_PCAP_FRAME_MAX 65535u /* longer frames are cut */

struct uro_pcap_write;

/* Creates or replaces the regular file @path (not through a symbolic link); a new one is
 * readable by its owner only. @origin is what the clock of the frames calls 0, in ns since 1970.
 * Returns 0 or
 *   -EINVAL  not a regular file
 *   -ENOMEM
 *   another -errno of open(2) or fstat(2) */
URO_NODISCARD int uro_pcap_write_open(const char *path, uint64_t origin,
                                      struct uro_pcap_write **writer);

/* Appends a frame seen at @now. Returns 0, or once in the writer's life the -errno of the first
 * write that failed; frames are left out from there until writing works again. */
URO_NODISCARD int uro_pcap_write_pkt(struct uro_pcap_write *writer, const struct uro_pkt *pkt,
                                     uro_time now);
URO_NODISCARD int uro_pcap_write_tx(struct uro_pcap_write *writer, const struct uro_tx *tx,
                                    uro_time now);

/* Room for a frame of @length octets, to be filled before the next call; @result is what the other
 * two return. */
uint8_t *uro_pcap_write_room(struct uro_pcap_write *writer, uint32_t length, uro_time now,
                             int *result);

/* Hands what is buffered to the kernel, so that others see it. Returns like
 * uro_pcap_write_pkt(). */
URO_NODISCARD int uro_pcap_write_flush(struct uro_pcap_write *writer);

/* Frames left out so far. */
uint64_t uro_pcap_write_lost(const struct uro_pcap_write *writer);

/* Closes and frees without a flush: the file is another process's, too. NULL does nothing. */
void uro_pcap_write_abandon(struct uro_pcap_write *writer);

/* Flushes, closes, frees. NULL does nothing. */
void uro_pcap_write_close(struct uro_pcap_write *writer);
