/* SPDX-License-Identifier: BSD-3-Clause */
/* info.h - the parts of `uroce info`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "engine/port.h"

#define URO_INFO_TEXT_MAX  512u
#define URO_INFO_FACTS_MAX 16u

/* A property of the kernel, or a right of this user. */
struct uro_info_fact {
    const char *key;   /* name in the JSON output */
    const char *title; /* name in the text output */
    bool good;
    char text[URO_INFO_TEXT_MAX]; /* the value, or what is missing and what to do */
};

/* Reads the facts from the kernel. Returns their number. */
uint32_t uro_info_facts(struct uro_info_fact facts[static URO_INFO_FACTS_MAX]);

/* Returns the fact with this key, or NULL. */
const struct uro_info_fact *uro_info_fact_of(const struct uro_info_fact *facts, uint32_t count,
                                             const char *key);

enum uro_info_result {
    URO_INFO_OK,
    URO_INFO_FAILED,    /* should work, but does not */
    URO_INFO_NOT_TRIED, /* lacks a right, a library, an interface, a card or another program */
};

/* The result of the check of a kind of links. */
struct uro_info_check {
    const char *link; /* name of the link in `uroce devices --links` */
    enum uro_info_result result;
    char text[URO_INFO_TEXT_MAX]; /* how much data was moved, or the reason why none was */
};

/* The rights and addresses that a check needs. */
struct uro_info_means {
    bool packet_sockets;       /* whether this user may open packet sockets */
    const struct uro_gid *udp; /* address for UDP, or NULL */
    const char *no_udp;        /* reason, if there is no address for UDP */
};

/* If the link of @driver can be tried here, starts two processes that move a megabyte over it. A
 * link within a process needs only one process. */
void uro_info_check(const struct uro_port_driver *driver, const struct uro_info_means *means,
                    struct uro_info_check *check);

/* Runs one side of a transfer in this process, a child of uro_info_check(). UROCE_DEVICES has the
 * device. @library is the path of libibverbs.so.1. @peer is a socket to the other side, or -1 if
 * the device transfers to itself. Prints the reason of a failure on stderr. Returns the exit
 * status. */
int uro_info_side(const char *library, int peer, bool sends);
