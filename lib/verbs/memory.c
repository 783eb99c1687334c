/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - may this process read, or write, all of a range? Asked before a range is registered,
 * or, when it was registered ON_DEMAND, before each packet's octets are touched.
 *
 * An access that faults later would kill the program inside our engine, so what a kernel finds
 * out by pinning pages is found out here, without touching what they hold:
 *
 *   madvise(MADV_POPULATE_READ or _WRITE), Linux 5.14, faults every page in as an access would.
 *   It is right for private, shared, file and stack memory and past the end of a file, and spares
 *   the datapath the faults. It reads and writes nothing, so another thread may write meanwhile;
 *   process_vm_writev() of what was just read could not promise that.
 *
 *   /proc/self/maps decides where that is not offered: older kernels and memory of devices. Only
 *   mappings and rights are seen.
 *
 * Ordinary memory that is unmapped while it is registered is host/unmapped.c's matter, and so is
 * on-demand memory that another thread unmaps between the question and the copy.
 */
#include "verbs/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* True when mappings with the right cover start to end without a gap. */
static bool mapped(uintptr_t start, uintptr_t end, bool write)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;

    while (maps != NULL && start < end && getline(&line, &size, maps) > 0) {
        unsigned long from, to;
        char rights[5];

        if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || to <= start)
            continue;
        if (from > start || rights[0] != 'r' || (write && rights[1] != 'w'))
            break;
        start = to;
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    return start >= end;
}

/* 0 or errno of faulting the pages in. */
static int populate(uintptr_t start, uintptr_t end, bool write)
{
    void *at = (void *)start; /* a page of the caller's range */
    int result;

    do
        result = madvise(at, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    while (result < 0 && errno == EINTR);
    return result < 0 ? errno : 0;
}

bool uro_memory_usable(const uint8_t *at, uint64_t length, bool write)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)at & ~(page - 1);
    uintptr_t end = (uintptr_t)at + length;

    if (length == 0)
        return true;
    if (end > UINTPTR_MAX - (page - 1)) {
        errno = EFAULT;
        return false;
    }
    end = (end + page - 1) & ~(page - 1);
    int error = populate(start, end, write);
    if (error == 0)
        return true;
    bool covered = error != EFAULT && mapped(start, end, write);
    if (covered && error == EINVAL)
        return true;
    errno = covered ? ENOMEM : EFAULT;
    return false;
}
