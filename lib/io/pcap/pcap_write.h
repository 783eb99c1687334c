/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_write.h - writes frames to a capture file that Wireshark, tcpdump and `uroce dump` read.
 *
 * The format is pcapng if the name of the file ends with ".pcapng", else pcap with nanoseconds. The
 * link type is Ethernet. The writer does not need libpcap.
 *
 * A pcapng file has three interfaces, so that Wireshark can tell the frames apart:
 *     NAME         frames that were sent and received, with comments
 *     NAME lost    frames that were lost before they were received, by a simulated fault
 *     NAME events  sentences, each in a frame as wire/text.h describes
 * In a pcap file the comments, the lost frames and the sentences are left out.
 * Source: the Internet-Draft "PCAP Now Generic (pcapng) Capture File Format".
 *
 * A capture must never disturb the program. When the disk is full, frames are left out and counted,
 * and the file stays readable. Writing continues when the disk has space again.
 */
#pragma once

#include "base/time.h"
#include "core/pkt.h"
#include "core/tx.h"

#define URO_PCAP_FRAME_MAX   65535u /* longer frames are cut */
#define URO_PCAP_COMMENT_MAX 1024u  /* bytes of a comment or a sentence; the rest is cut */

enum uro_pcap_interface { URO_PCAP_FRAMES, URO_PCAP_LOST, URO_PCAP_EVENTS, URO_PCAP_INTERFACES };

struct uro_pcap_write;

/* Creates or replaces the regular file @path, but not through a symbolic link. Only its owner can
 * read a new file. @name: name of the interfaces. @origin: time 0 of the frames' clock, in ns since
 * 1970. Returns 0 or
 *   -EINVAL  not a regular file
 *   -ENOMEM
 *   another -errno of open(2), fstat(2) or ftruncate(2) */
URO_NODISCARD int uro_pcap_write_open(const char *path, const char *name, uint64_t origin,
                                      struct uro_pcap_write **writer);

/* Returns whether the file has the format pcapng. */
bool uro_pcap_write_is_pcapng(const struct uro_pcap_write *writer);

/* Gives the next frame a comment. The writer does not copy it. */
void uro_pcap_write_comment(struct uro_pcap_write *writer, const char *comment);

/* Appends a frame that was lost before it was received. Like uro_pcap_write_pkt(). */
URO_NODISCARD int uro_pcap_write_lost_pkt(struct uro_pcap_write *writer, const struct uro_pkt *pkt,
                                          uro_time now);

/* Appends a sentence. Like uro_pcap_write_pkt(). */
URO_NODISCARD int uro_pcap_write_text(struct uro_pcap_write *writer, const char *text,
                                      uro_time now);

/* Appends a frame seen at @now. Returns 0, or once in the writer's life the -errno of the first
 * write that failed. Drops frames from then on until writing works again. */
URO_NODISCARD int uro_pcap_write_pkt(struct uro_pcap_write *writer, const struct uro_pkt *pkt,
                                     uro_time now);
URO_NODISCARD int uro_pcap_write_tx(struct uro_pcap_write *writer, const struct uro_tx *tx,
                                    uro_time now);

/* Returns memory for a frame of @length bytes, which the caller fills before its next call.
 * *@result: see uro_pcap_write_pkt(). */
uint8_t *uro_pcap_write_reserve(struct uro_pcap_write *writer, uint32_t length, uro_time now,
                                int *result);

/* Writes the buffered frames to the file, so that other processes see them. Returns like
 * uro_pcap_write_pkt(). */
URO_NODISCARD int uro_pcap_write_flush(struct uro_pcap_write *writer);

/* Returns the number of frames dropped so far. */
uint64_t uro_pcap_write_lost(const struct uro_pcap_write *writer);

/* Closes and frees the writer without a flush: the parent process writes to the same file. NULL
 * does nothing. */
void uro_pcap_write_abandon(struct uro_pcap_write *writer);

/* Flushes, closes and frees the writer. NULL does nothing. */
void uro_pcap_write_close(struct uro_pcap_write *writer);
