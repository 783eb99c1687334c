/* SPDX-License-Identifier: BSD-3-Clause */
/* igmp_mld.h - writes one frame of a report, record after record. */
#pragma once

#include "engine/multicast.h"

struct uro_member_writer {
    const struct uro_engine_config *config;
    bool v6;
    uint8_t version; /* version of IGMP or MLD */
    uint8_t *octets; /* bytes of the frame */
    uint16_t count;  /* records so far */
    bool member;     /* older version: the message is a report of `group`, not a leave */
    struct uro_gid group;
};

/* Begins a frame in @octets, which has URO_MEMBER_FRAME_BYTES bytes. */
void uro_member_writer_init(struct uro_member_writer *writer,
                            const struct uro_engine_config *config, bool v6, uint8_t version,
                            uint8_t *octets);
/* Adds a record. Returns false when the frame is full. A frame of an older version has one group.
 * IGMPv1 has no message for a group that was left. */
URO_NODISCARD bool uro_member_writer_add(struct uro_member_writer *writer,
                                         enum uro_membership record_type,
                                         const struct uro_gid *group);
/* Completes the frame and describes it in @tx. Returns false when it has no record. */
URO_NODISCARD bool uro_member_writer_finish(struct uro_member_writer *writer, struct uro_tx *tx);
