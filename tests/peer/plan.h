/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h - the parameters that a script sends to the endpoint in the private data of its REQ or
 * SIDR REQ: words NAME=NUMBER, e.g. "recv=1 size=64 send=3".
 *
 * The endpoint sends these words in the private data of its REP:
 *   va=0x.. rkey=0x.. length=65536   memory for WRITE, READ and atomics, filled with the pattern
 *   ro=0x..                          key of the same memory that allows only READ
 *   other=0x..                       key of the same memory in another protection domain
 * This header includes no other header of uroce, because target.c is also built on other machines.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_REGION   65536u
#define PLAN_RECV_MAX 128u
#define PLAN_SEND_MAX 16u
#define PLAN_BYTES    65536u /* maximum bytes of a receive, and of a message that is sent */
/* Remote address and key in the WRITEs, READs and atomics of the endpoint. */
#define PLAN_REMOTE_VA   0x10000u
#define PLAN_REMOTE_RKEY 0x1234u
#define PLAN_QKEY        0x01234567u /* Q_Key of datagram services, as in rdma_cm */

struct plan {
    uint32_t recv; /* receives posted */
    uint32_t size; /* length of each receive, bytes */
    uint32_t late; /* delay in ms after which one more receive is posted; 0: none */
    uint32_t send; /* number of requests of each kind that the endpoint posts, in this order */
    uint32_t write;
    uint32_t read;
    uint32_t faa;
    uint32_t bytes; /* length of each SEND, WRITE and READ, bytes */
    uint32_t echo;  /* maximum bytes of a receive that are sent back; 0: nothing is sent back */
    uint32_t skip;  /* number of first bytes that are not sent back */
    uint32_t qkey;  /* Q_Key of the datagrams that are sent back */
    uint32_t srq;   /* 1: receives are in a shared receive queue */
    uint32_t group; /* datagrams: joins the group 239.192.0.N; 0: no group */
};

static inline void plan_read(struct plan *plan, const char *words, size_t length)
{
    const struct {
        const char *name;
        uint32_t *number;
        uint32_t most;
    } rows[] = { { "recv=", &plan->recv, PLAN_RECV_MAX },
                 { "size=", &plan->size, PLAN_BYTES },
                 { "late=", &plan->late, 10000 },
                 { "send=", &plan->send, PLAN_SEND_MAX },
                 { "write=", &plan->write, 16 },
                 { "read=", &plan->read, 16 },
                 { "faa=", &plan->faa, 16 },
                 { "bytes=", &plan->bytes, PLAN_BYTES },
                 { "echo=", &plan->echo, PLAN_BYTES },
                 { "skip=", &plan->skip, PLAN_BYTES },
                 { "qkey=", &plan->qkey, UINT32_MAX },
                 { "srq=", &plan->srq, 1 },
                 { "group=", &plan->group, 255 } };
    char text[256];

    *plan = (struct plan){ .recv = 16, .size = 4096, .bytes = 64, .qkey = PLAN_QKEY };
    if (length > sizeof text - 1)
        length = sizeof text - 1;
    memcpy(text, words, length);
    text[length] = '\0';
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *at = strstr(text, rows[i].name);
        if (at == NULL || (at > text && at[-1] != ' '))
            continue;
        unsigned long number = strtoul(at + strlen(rows[i].name), NULL, 0);
        *rows[i].number = number < rows[i].most ? (uint32_t)number : rows[i].most;
    }
}

/* Returns the number of bytes that are sent back for a completed receive: those behind the skipped
 * bytes, at most plan->echo. A WRITE with immediate sends back the first plan->echo bytes of the
 * memory. */
static inline uint32_t plan_echo(const struct plan *plan, uint32_t received, bool written)
{
    const uint32_t length = received > plan->skip ? received - plan->skip : 0;

    return written || length > plan->echo ? plan->echo : length;
}

/* Writes the private data of the REP. Returns its length. */
static inline int plan_answer(char *out, size_t room, uint64_t va, const uint32_t keys[3])
{
    return snprintf(out, room, "va=0x%llx rkey=0x%x ro=0x%x other=0x%x length=%u",
                    (unsigned long long)va, keys[0], keys[1], keys[2], PLAN_REGION);
}

/* Returns the byte of the pattern at a position. fill= in scripts has the same pattern. */
static inline uint8_t plan_byte(uint32_t position)
{
    return (uint8_t)(position * 31 + position / 256);
}
