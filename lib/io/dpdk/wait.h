/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.h - sleeps until a frame arrives: one epoll descriptor for each port. */
#pragma once

#include "base/defs.h"

struct uro_dpdk;

enum uro_wait_source {
    URO_WAIT_NONE,      /* the driver can only be polled */
    URO_WAIT_LEVEL,     /* a descriptor that is readable while frames wait in it */
    URO_WAIT_INTERRUPT, /* a descriptor that DPDK makes readable once for each request */
};

struct uro_wait {
    enum uro_wait_source source;
    int epoll; /* the host waits on it; -1 when source is URO_WAIT_NONE */
    int fd;    /* the driver's descriptor inside the epoll set */
    int news;  /* eventfd, signalled when the link changes, because that may undo arming */
};

#define URO_WAIT_INIT                                                                              \
    (struct uro_wait)                                                                              \
    {                                                                                              \
        .source = URO_WAIT_NONE, .epoll = -1, .fd = -1, .news = -1                                 \
    }

/* Sets up waiting, after the port was started. Ports that cannot wait are polled. */
void uro_wait_start(struct uro_dpdk *dpdk);
void uro_wait_stop(struct uro_dpdk *dpdk);

bool uro_wait_arm(struct uro_dpdk *dpdk);
void uro_wait_disarm(struct uro_dpdk *dpdk);
