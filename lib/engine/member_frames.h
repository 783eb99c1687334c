/* SPDX-License-Identifier: BSD-3-Clause */
/* member_frames.h - writes one frame of a report, record after record. */
#pragma once

#include "engine/member.h"

struct uro_member_writer {
    const struct uro_engine_config *config;
    bool v6;
    uint8_t version; /* of IGMP or MLD */
    uint8_t *octets; /* of the frame */
    uint16_t count;  /* records so far */
    bool member;     /* of one in an older version: what it says of ... */
    struct uro_gid group;
};

/* @octets: URO_MEMBER_FRAME_OCTETS. */
void uro_member_writer_init(struct uro_member_writer *writer,
                            const struct uro_engine_config *config, bool v6, uint8_t version,
                            uint8_t *octets);
/* False when the frame is full. In an older version it has one group, and IGMPv1 has nothing to say
 * of a group that was left. */
URO_NODISCARD bool uro_member_writer_add(struct uro_member_writer *writer, enum uro_membership what,
                                         const struct uro_gid *group);
/* Completes the frame and describes it in @tx; false when it has no record. */
URO_NODISCARD bool uro_member_writer_finish(struct uro_member_writer *writer, struct uro_tx *tx);
