/* SPDX-License-Identifier: BSD-3-Clause */
/* object_memory.c - measures the memory that an object needs.
 *
 *   object_memory qp DEPTH COUNT    connected, idle RC queue pairs with queues of DEPTH requests
 *   object_memory mr 0 COUNT        memory regions
 *
 * Prints one line of JSON: bytes of malloc and resident bytes of one object.
 */
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "one.h"

static char octets[4096];

static double given(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)(info.uordblks + info.hblkhd);
}

static double resident(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    ONE_MUST(file != NULL);
    ONE_MUST(fscanf(file, "%*d %ld", &pages) == 1);
    (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    union ibv_gid peer = { .raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 } };

    if (argc != 4 || (strcmp(argv[1], "qp") != 0 && strcmp(argv[1], "mr") != 0)) {
        (void)fprintf(stderr, "usage: object_memory qp|mr DEPTH COUNT\n");
        return 2;
    }
    bool is_qp = strcmp(argv[1], "qp") == 0;
    uint32_t depth = (uint32_t)strtoul(argv[2], NULL, 0);
    unsigned long count = strtoul(argv[3], NULL, 0);
    struct ibv_context *context = one_open();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    ONE_MUST(pd != NULL && cq != NULL);
    double given_before = 0, resident_before = 0;
    for (unsigned long i = 0; i <= count; i++) {
        if (i == 1) { /* the first object also creates what all objects share */
            given_before = given();
            resident_before = resident();
        }
        if (is_qp)
            one_connect(one_qp(pd, cq, depth), &peer, 7);
        else
            ONE_MUST(ibv_reg_mr(pd, octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE) != NULL);
    }
    printf("{\"given\": %.1f, \"resident\": %.1f}\n", (given() - given_before) / (double)count,
           (resident() - resident_before) / (double)count);
    (void)fflush(stdout);
    _exit(0);
}
