/* SPDX-License-Identifier: BSD-3-Clause */
/* link_options.c - the driver of memif links: their name and their options. All options except
 * user= are the same as in DPDK. */
#include "io/common/link_options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/memif/memif.h"

#define SLOTS_LOG2_DEFAULT 10u
#define LINE               64u
#define BUFFER_MIN         128u
#define BUFFER_MAX         65536u

static bool read_user(const char *value, void *member)
{
    uint32_t *user = member;

    *user = URO_MEMIF_ANY_USER;
    return strcmp(value, "any") == 0 ||
           uro_link_options_number(value, 0, URO_MEMIF_ANY_USER - 1, 1, user);
}

static bool read_mac(const char *value, void *member)
{
    struct uro_mac *mac = member;

    return uro_mac_parse(value, mac) && (mac->octets[0] & 1) == 0;
}

enum { ROLE, SOCKET, ABSTRACT, ID, BUFFER, SLOTS, MAC, SECRET, USER, ZERO_COPY };

/* Choices of role=: odd numbers are the client. */
#define ROLES                                                                                      \
    {                                                                                              \
        "server", "client", "master", "slave"                                                      \
    }

static const struct uro_link_option options[] = {
    [ROLE] = { "role", "this device's side of the memif", URO_OPTION_CHOICE, .choices = ROLES,
               .expects = "server or client", .member = offsetof(struct uro_memif_options, role) },
    [SOCKET] = { "socket", "path or abstract name of the socket", URO_OPTION_TEXT, .min = 1,
                 .max = URO_MEMIF_PATH_MAX - 2,
                 .member = offsetof(struct uro_memif_options, path) },
    [ABSTRACT] = { "socket-abstract", "the socket has no file", URO_OPTION_YES_NO,
                   .member = offsetof(struct uro_memif_options, abstract) },
    [ID] = { "id", "number of the interface at the socket", URO_OPTION_NUMBER, .max = UINT32_MAX,
             .member = offsetof(struct uro_memif_options, id) },
    [BUFFER] = { "bsize", "size of a client's buffer", URO_OPTION_NUMBER, .min = BUFFER_MIN,
                 .max = BUFFER_MAX, .unit = "bytes",
                 .member = offsetof(struct uro_memif_options, buffer) },
    [SLOTS] = { "rsize", "binary logarithm of the slots of a client's ring", URO_OPTION_NUMBER,
                .min = 5, .max = URO_MEMIF_SLOTS_LOG2,
                .member = offsetof(struct uro_memif_options, slots_log2) },
    [MAC] = { "mac", "MAC address of this side", URO_OPTION_OTHER, .read = read_mac,
              .expects = "a unicast address such as 02:00:00:00:00:01",
              .member = offsetof(struct uro_memif_options, mac) },
    [SECRET] = { "secret", "secret that both sides know", URO_OPTION_TEXT, .max = URO_MEMIF_SECRET,
                 .member = offsetof(struct uro_memif_options, secret), .secret = true },
    [USER] = { "user", "user whose process may be the other side", URO_OPTION_OTHER,
               .read = read_user, .expects = "any, or the number of a user",
               .member = offsetof(struct uro_memif_options, user) },
    [ZERO_COPY] = { "zero-copy", "accepted for DPDK; frames are written in place anyway",
                    URO_OPTION_YES_NO, .member = URO_OPTION_NOT_KEPT },
};

static const struct uro_port_driver driver = {
    .prefix = "net_memif",
    .text = "memory shared with another process of this machine",
    .flags = URO_DRIVER_NUMBERED,
    .default_mtu = URO_PORT_MTU_MEMORY,
    .option_count = URO_ARRAY_LEN(options),
    .options = options,
    .open = uro_memif_open,
};

const struct uro_port_plugin uro_port_plugin = { URO_PORT_PLUGIN_VERSION, 1, &driver };

/* Refuses a ring that cannot hold the longest frame, because the ring would stay full for ever. */
static int check_ring(const struct uro_memif_options *with, uint32_t frame_max,
                      char error[static URO_PORT_ERROR_MAX])
{
    if (with->server || (with->buffer << with->slots_log2) >= frame_max)
        return 0;
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link net_memif: bsize=%u and rsize=%u: a ring would not hold a frame of %u "
                   "bytes; make one of them larger",
                   with->buffer, with->slots_log2, frame_max);
    return -1;
}

int uro_memif_options_read(const char *link, uint32_t frame_max, struct uro_memif_options *into,
                           char error[static URO_PORT_ERROR_MAX])
{
    uint32_t given = 0;

    *into = (struct uro_memif_options){ .role = 1,
                                        .abstract = true,
                                        .buffer = (frame_max + LINE - 1) / LINE * LINE,
                                        .slots_log2 = SLOTS_LOG2_DEFAULT,
                                        .path = "/run/memif.sock" };
    if (uro_link_options_read(&driver, link, into, &given, error) != 0)
        return -1;
    into->server = into->role % 2 == 0;
    into->has_mac = (given >> MAC & 1) != 0;
    into->has_user = (given >> USER & 1) != 0;
    into->buffer = into->buffer / LINE * LINE;
    /* Without user=, the file permissions of a socket decide which users may connect. An abstract
     * socket has no file. */
    if (!into->has_user)
        into->user = into->server && !into->abstract ? URO_MEMIF_ANY_USER : geteuid();
    return check_ring(into, frame_max, error);
}
