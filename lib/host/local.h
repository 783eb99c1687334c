/* SPDX-License-Identifier: BSD-3-Clause */
/* local.h - the addresses that this machine has in its network namespace, for devices over UDP sockets. */
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/gid.h"

#define URO_LOCAL_MAX      128u /* addresses looked at; further ones are left out */
#define URO_LOCAL_TEXT_MAX 200u

struct uro_local {
    struct uro_gid gid;
    char interface[IF_NAMESIZE];
    bool running; /* the interface is up and has a carrier */
    bool global;  /* neither link-local nor loopback */
};

struct uro_local_list {
    uint32_t count;
    bool more; /* the machine has more addresses than this list */
    struct uro_local at[URO_LOCAL_MAX];
};

/* Reads the addresses of all interfaces, IPv4 first. IPv6 addresses that do not stay (temporary, deprecated) or
 * do not work (duplicate) are left out. */
void uro_local_read(struct uro_local_list *list);

/* Keeps the addresses of one interface. */
void uro_local_keep_interface(struct uro_local_list *list, const char *interface);

/* Keeps the addresses of a net: of the 128 bits of a GID the first @bits are those of @net. */
void uro_local_keep_net(struct uro_local_list *list, const struct uro_gid *net, unsigned bits);

/* Keeps the global addresses. Of these, those of interfaces that run, if there are any. */
void uro_local_keep_global(struct uro_local_list *list);

/* Of one version. */
uint32_t uro_local_count(const struct uro_local_list *list, bool ipv4);

bool uro_local_has(const struct uro_local_list *list, const struct uro_gid *gid);

/* Writes "10.0.0.1 (eth0), fd00::1 (eth0)" to @text, or "none". A long list ends with "...". Returns @text. */
char *uro_local_text(const struct uro_local_list *list, char text[static URO_LOCAL_TEXT_MAX]);
