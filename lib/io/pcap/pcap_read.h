/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_read.h - reads the frames of a capture file in any format of libpcap.
 *
 * The link type is Ethernet, Linux cooked (the device "any"), or raw IP. Frames of the latter two
 * get an Ethernet header without addresses. */
#pragma once

#include "base/time.h"
#include "core/pkt.h"

#define URO_PCAP_ERROR_MAX 320u

struct uro_pcap_read;

/* Opens @path ("-" is standard input). Returns NULL with a sentence in @error that names the
 * file. */
struct uro_pcap_read *uro_pcap_read_open(const char *path, char error[static URO_PCAP_ERROR_MAX]);

struct uro_pcap_read_frame {
    struct uro_pkt pkt; /* stored bytes; valid until the next call */
    uint32_t length;    /* length on the wire: more than pkt.length if the capture cut the frame */
    uint64_t time;      /* ns since 1970 */
};

/* Takes the next frame. Returns 1, 0 at the end, or
 *   -EBADMSG  the file is damaged from here on: see uro_pcap_read_problem() */
URO_NODISCARD int uro_pcap_read_next(struct uro_pcap_read *reader,
                                     struct uro_pcap_read_frame *frame);

/* Returns the reason for the last -EBADMSG. */
const char *uro_pcap_read_problem(struct uro_pcap_read *reader);

/* Closes @reader. NULL does nothing. */
void uro_pcap_read_close(struct uro_pcap_read *reader);
