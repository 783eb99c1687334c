/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.h - sleeping until a frame arrives: one descriptor per port, whatever wakes it inside. */
#pragma once

#include "base/defs.h"

struct uro_dpdk;

enum uro_wait_source {
    URO_WAIT_NONE,      /* the driver can only be polled */
    URO_WAIT_LEVEL,     /* a descriptor that is readable while frames wait in it */
    URO_WAIT_INTERRUPT, /* a descriptor that DPDK makes readable once per request */
};

struct uro_wait {
    enum uro_wait_source source;
    int epoll; /* what the host waits on; -1 when source is URO_WAIT_NONE */
    int fd;    /* what is inside; not ours */
    int news;  /* an eventfd: the link came or went, so what was armed may be no longer */
};

#define URO_WAIT_INIT                                                                              \
    (struct uro_wait)                                                                              \
    {                                                                                              \
        .source = URO_WAIT_NONE, .epoll = -1, .fd = -1, .news = -1                                 \
    }

/* After the port was started. Ports that cannot wait stay as they are: polled. */
void uro_wait_start(struct uro_dpdk *dpdk);
void uro_wait_stop(struct uro_dpdk *dpdk);

bool uro_wait_arm(struct uro_dpdk *dpdk);
void uro_wait_disarm(struct uro_dpdk *dpdk);
