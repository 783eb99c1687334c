/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_link.h - the link of `uroce peer`: a port that the calling thread polls while it plays a
 * script. */
#pragma once

#include "host/host.h"
#include "script/play.h"

struct uro_pcap_write;

struct uro_peer_link {
    struct uro_port *port;
    struct uro_engine *engine;
    void *engine_memory;
    struct uro_pcap_write *capture; /* capture file, or NULL */
    uint32_t multicast_version;
    struct uro_mac macs[URO_ENGINE_MACS_MAX];
    struct uro_tx tx[URO_PORT_BURST];
};

/* Opens the port. @pcap is a file for all frames, or NULL. On failure returns false with a sentence
 * in @error. */
bool uro_peer_link_open(struct uro_peer_link *link, const struct uro_device_config *config,
                        const char *pcap, char error[static URO_PORT_ERROR_MAX]);
void uro_peer_link_close(struct uro_peer_link *link);

/* Waits until the link is up, but not longer than @patience. Returns false if it is still down. */
bool uro_peer_link_wait(struct uro_peer_link *link, uro_time patience);

/* Runs the play until it has a result and all its packets are sent. */
void uro_peer_link_play(struct uro_peer_link *link, struct uro_play *play);
