/* SPDX-License-Identifier: BSD-3-Clause */
/* xrcd.h - XRC domains: what the handles that opened one inode share. */
#pragma once

#include <sys/types.h>

#include "verbs/objects.h"

struct uro_ibv_domain {
    struct uro_link link; /* in the list of xrcd.c */
    const struct uro_device *device;
    int inode; /* descriptor that keeps the inode from being used again; -1: it has none */
    dev_t inode_device;
    ino_t inode_number;
    uint32_t number;         /* never 0, never reused; core/rq.h */
    uint32_t references;     /* handles */
    struct uro_list targets; /* struct uro_ibv_pair of XRC_RECV; engine lock */
};
