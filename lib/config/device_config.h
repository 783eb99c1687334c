/* SPDX-License-Identifier: BSD-3-Clause */
/* device_config.h - the configuration of one device: the result of config.h, with everything that
 * lib/host needs to start the device.
 */
#pragma once

#include "config/card.h"
#include "config/fail_rules.h"
#include "engine/engine.h"
#include "engine/port.h"

#define URO_ENGINES_MAX        16u /* engines of a device */
#define URO_CONFIG_DEVICES_MAX 64u /* devices of a process at the same time */

/* X(enumerator, "key", "what is counted") */
#define URO_QUOTAS(X)                                                                              \
    X(QP, "max_qp", "queue pairs")                                                                 \
    X(CQ, "max_cq", "completion queues")                                                           \
    X(SRQ, "max_srq", "shared receive queues")                                                     \
    X(MR, "max_mr", "memory regions")                                                              \
    X(MW, "max_mw", "memory windows")                                                              \
    X(PD, "max_pd", "protection domains")                                                          \
    X(AH, "max_ah", "address handles")                                                             \
    X(CONN, "max_conn", "connections of rdma_cm")                                                  \
    X(MEMORY, "max_registered", "bytes of registered memory")

enum uro_quota {
#define X(id, key, text) URO_QUOTA_##id,
    URO_QUOTAS(X)
#undef X
        URO_QUOTA_COUNT
};

enum uro_progress_mode {
    URO_PROGRESS_HYBRID, /* callers run the engine; a service thread takes over when they do not */
    URO_PROGRESS_THREAD, /* the service thread spins, on processor `cpu` if given */
    URO_PROGRESS_CALLER, /* only callers run the engine; for programs that poll all the time */
};

enum uro_log_level {
    URO_LOG_NONE,   /* no line about failures and refused calls */
    URO_LOG_ERRORS, /* each failure, and refused calls that are errors of the program */
    URO_LOG_ALL,    /* also refused calls that probe for features */
};

/* One device as configured. */
struct uro_device_config {
    char name[32];
    char link[256];                                /* "net_memif0,role=server,socket=/run/a.sock" */
    const struct uro_port_driver *driver;          /* driver of the link; NULL: the link is wrong */
    struct uro_gid gids[URO_ENGINE_ADDRESSES_MAX]; /* 0: link-local, or a copy of 1; then ip= */
    uint8_t prefix[URO_ENGINE_ADDRESSES_MAX];
    uint32_t gid_count;
    uint32_t
        ip_nets;   /* bit i: gids[i] is a net such as 10.44.0.0/24; UDP replaces it by an address */
    bool ip_auto;  /* ip=auto was given */
    bool loopback; /* the machine has no global address, and ip= names none */
    bool left_out; /* the interface or the machine has more addresses than uroce uses */
    struct uro_gid gateway4, gateway6;
    struct uro_mac mac; /* always set: configured, the interface's, or derived */
    uint64_t guid;  /* from mac and card; other middle bytes if an earlier device has the GUID */
    uint32_t mtu;   /* largest IP packet, bytes */
    uint32_t speed; /* speed of the port from rate= or like=, Mb/s; 0: as the interface */
    uint32_t vlan;  /* 802.1Q tag of every frame; 0: none */
    uint32_t vendor_part_id;
    uint32_t window;   /* packets in flight per queue pair; 0: the port's default */
    uint32_t engines;  /* engines of the device, 1 .. URO_ENGINES_MAX */
    bool engines_auto; /* engines=auto: one engine is enough if the link cannot have more */
    bool retry_7_forever;
    enum uro_progress_mode progress;
    int cpu;           /* processor of the service thread; -1: any */
    char pcap[256];    /* capture file; "": none */
    char impair[1024]; /* plan of the faults of the link, @FILE or replay:FILE; "": none */
    char trace[256];   /* file for the fates of packets; "": none */
    struct uro_inject_plan fail; /* calls that fail on purpose */
    struct uro_card card;        /* the card that the device is like; without a name: none */
    uint64_t seed;               /* 0: from the system's random numbers */
    uint32_t memory_mib;
    bool verbose;
    bool telemetry;             /* DPDK opens its telemetry socket */
    char eal[URO_PORT_EAL_MAX]; /* arguments for DPDK's EAL, separated by spaces */
    enum uro_port_hugepages hugepages;
    enum uro_log_level log;
    uint64_t most[URO_QUOTA_COUNT];
    char problem[448];    /* reason, with file and line, why the device cannot be used, or "" */
    bool problem_may_end; /* another state of the machine would not have the problem */
};

/* ---- GID indexes ------------------------------------------------------------ */

/* With like=, a card may have RoCE v1 and v2. Programs then see each address at an even index for
 * v1, and at the next index for v2. The engine has each address once. */

/* Returns the number of GIDs that programs see. */
static inline uint32_t uro_gid_index_count(const struct uro_device_config *config)
{
    return config->card.roce_v1 ? config->gid_count * 2 : config->gid_count;
}

/* Returns the index that programs see for the engine's @index: that of RoCE v2. */
static inline uint32_t uro_gid_index_shown(const struct uro_device_config *config, uint32_t index)
{
    return config->card.roce_v1 ? index * 2 + 1 : index;
}

/* Returns the engine's index for @shown. */
static inline uint32_t uro_gid_index_own(const struct uro_device_config *config, uint32_t shown)
{
    return config->card.roce_v1 ? shown / 2 : shown;
}

static inline bool uro_gid_index_is_v1(const struct uro_device_config *config, uint32_t shown)
{
    return config->card.roce_v1 && shown % 2 == 0;
}
