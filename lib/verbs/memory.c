/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - checks whether this process may read or write all of a range.
 *
 * uroce checks a range at registration. For an ON_DEMAND region, the engine checks the bytes of
 * each packet before it accesses them. A later fault would kill the program inside the engine. For
 * a network card, the kernel does this check when it pins pages. There are two methods. Neither
 * changes the content of the memory:
 *
 *   madvise(MADV_POPULATE_READ or _WRITE), since Linux 5.14, faults pages in as an access would.
 *   Its result is correct for private, shared, file and stack memory, and past the end of a file.
 *   The advice also avoids faults on the datapath. Another thread may write to the memory at the
 *   same time.
 *
 *   /proc/self/maps shows mappings and rights, for older kernels.
 *
 * Memory of devices, such as that of a GPU or the registers of a network card, is refused. A load
 * or store may have side effects there, and the kernel never pins such memory. madvise() fails with
 * EINVAL for such memory. On an older kernel, the name of a file in /dev identifies such memory.
 *
 * host/unmapped.c handles memory that the program unmaps after the check.
 */
#include "verbs/objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Returns whether a line of /proc/self/maps describes memory of a device. Files in /dev/shm,
 * /dev/hugepages and /dev/zero are memory. */
static bool is_device(const char *line)
{
    static const char *const memory[] = { "/dev/shm/", "/dev/hugepages", "/dev/zero" };
    const char *name = strstr(line, " /dev/");

    for (size_t i = 0; name != NULL && i < URO_ARRAY_LEN(memory); i++)
        if (strncmp(name + 1, memory[i], strlen(memory[i])) == 0)
            name = NULL;
    return name != NULL;
}

/* Returns whether readable (and with @write, writable) mappings cover the range without a gap. */
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
        if (from > start || rights[0] != 'r' || (write && rights[1] != 'w') || is_device(line))
            break;
        start = to;
    }
    free(line);
    if (maps != NULL)
        fclose(maps);
    return start >= end;
}

/* Faults the pages in. Returns 0 or an error number. */
static int populate(uintptr_t start, uintptr_t end, bool write)
{
    void *first = (void *)start; /* address of a page in the caller's range */
    int result;

    do
        result = madvise(first, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    while (result < 0 && errno == EINTR);
    return result < 0 ? errno : 0;
}

/* Returns whether the kernel supports the advice. If it does, EINVAL means memory of a device. */
static bool can_populate(void)
{
    static char octet; /* a variable, so its page is present */
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = (uintptr_t)&octet & ~(page - 1);

    return populate(start, start + page, false) != EINVAL;
}

bool uro_memory_usable(const uint8_t *memory, uint64_t length, bool write)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)memory & ~(page - 1);
    uintptr_t end = (uintptr_t)memory + length;

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
    bool covered =
        error != EFAULT && !(error == EINVAL && can_populate()) && mapped(start, end, write);
    if (covered && error == EINVAL)
        return true;
    errno = covered ? ENOMEM : EFAULT;
    return false;
}
