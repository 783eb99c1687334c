/* SPDX-License-Identifier: BSD-3-Clause */
/* scene_wire.h - encodes packets of a scene, and compares frames with packets. */
#pragma once

#include "scene.h"

#define SCENE_FRAME_MAX 9618u

extern const struct uro_mac scene_mac;
extern const struct uro_mac scene_peer_mac;

uint32_t scene_arp_reply(const struct uro_mac *to, const struct uro_mac *from, const char *who,
                         uint8_t *out);

/* Builds the frame of @packet, in which every field is set. Returns its length in bytes. */
uint32_t scene_wire_build(const struct scene_packet *packet, const struct uro_mac *to,
                          const struct uro_mac *from, uint8_t *out);

/* Fails the test unless @frame is the packet. Fields of @packet that are 0 and optional (va, rkey,
 * dma of requests) are compared too; syndrome 0 means 0x1f. */
void scene_wire_compare(const struct scene_packet *packet, const uint8_t *frame, uint32_t length);

void scene_wire_fail(const char *why, const uint8_t *frame, uint32_t length);
