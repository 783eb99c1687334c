/* SPDX-License-Identifier: BSD-3-Clause */
/* peer_link.h - the link of `uroce peer`: a port, driven by whoever plays a script on it. */
#pragma once

#include "host/host.h"
#include "script/play.h"

struct uro_pcap_write;

struct uro_peer_link {
    struct uro_port *port;
    struct uro_engine *engine;
    void *engine_memory;
    struct uro_pcap_write *capture; /* or NULL */
    uint32_t multicast_version;
    struct uro_mac macs[URO_ENGINE_MACS_MAX];
    struct uro_tx tx[URO_PORT_BURST];
};

/* @pcap: a file for all frames, or NULL. False with a sentence in @error. */
bool uro_peer_link_open(struct uro_peer_link *link, const struct uro_device_config *config,
                        const char *pcap, char error[static URO_PORT_ERROR_MAX]);
void uro_peer_link_close(struct uro_peer_link *link);

/* False: it is not up after @patience. */
bool uro_peer_link_wait(struct uro_peer_link *link, uro_time patience);

/* Until the play has a result, and everything it had to say is sent. */
void uro_peer_link_play(struct uro_peer_link *link, struct uro_play *play);
