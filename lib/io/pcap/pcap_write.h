/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_write.h - writes frames to a capture file that Wireshark, tcpdump and `uroce dump` read.
 *
 * Classic pcap with nanoseconds, link type Ethernet. Written without libpcap: the format is 24
 * bytes a file and 16 a frame, and a verbs program that captures should not load libpcap.
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

/* Creates or replaces the regular file @path, but not through a symbolic link. Only its owner can
 * read a new file. @origin: time 0 of the frames' clock, in ns since 1970. Returns 0 or
 *   -EINVAL  not a regular file
 *   -ENOMEM
 *   another -errno of open(2) or fstat(2) */
URO_NODISCARD int uro_pcap_write_open(const char *path, uint64_t origin,
                                      struct uro_pcap_write **writer);

/* Appends a frame seen at @now. Returns 0, or once in the writer's life the -errno of the first
 * write that failed. Drops frames from then on until writing works again. */
URO_NODISCARD int uro_pcap_write_pkt(struct uro_pcap_write *writer, const struct uro_pkt *pkt,
                                     uro_time now);
URO_NODISCARD int uro_pcap_write_tx(struct uro_pcap_write *writer, const struct uro_tx *tx,
                                    uro_time now);

/* Returns memory for a frame of @length bytes, which the caller fills before its next call.
 * *@result: the result, as of uro_pcap_write_pkt(). */
uint8_t *uro_pcap_write_reserve(struct uro_pcap_write *writer, uint32_t length, uro_time now,
                                int *result);

/* Writes the buffered frames to the file, so that other processes see them. Returns like
 * uro_pcap_write_pkt(). */
URO_NODISCARD int uro_pcap_write_flush(struct uro_pcap_write *writer);

/* Returns the number of frames dropped so far. */
uint64_t uro_pcap_write_lost(const struct uro_pcap_write *writer);

/* Closes and frees without a flush, because the file belongs to another process, too. NULL does
 * nothing. */
void uro_pcap_write_abandon(struct uro_pcap_write *writer);

/* Flushes, closes, frees. NULL does nothing. */
void uro_pcap_write_close(struct uro_pcap_write *writer);
