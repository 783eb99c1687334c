/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - see memory.h. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "io/memif/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Offsets have 32 bits, so a larger region would only waste address space. */
#define REGION_MAX ((uint64_t)1 << 32)

/* The client can free huge pages of the file at any time. If the pool of huge pages is then empty,
 * an access ends the process with SIGBUS, even after populating the mapping. */
#define HUGE_PAGES 0x958458f6ul /* HUGETLBFS_MAGIC */

static bool map(struct uro_memif_region *region, int fd, size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (at == MAP_FAILED)
        return false;
    region->at = at;
    region->size = size;
    return true;
}

bool uro_memif_region_make(struct uro_memif_region *region, size_t size)
{
    *region = (struct uro_memif_region){ .fd = memfd_create("uroce-memif",
                                                            MFD_CLOEXEC | MFD_ALLOW_SEALING) };
    if (region->fd >= 0 && ftruncate(region->fd, (off_t)size) == 0 &&
        fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
        map(region, region->fd, size))
        return true;
    uro_memif_region_drop(region);
    return false;
}

const char *uro_memif_region_map(struct uro_memif_region *region, int fd, uint64_t size)
{
    struct statfs system;
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);

    *region = (struct uro_memif_region){ .fd = -1 };
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return "memory must be a memfd that is sealed against shrinking";
    if (fstatfs(fd, &system) != 0 || (unsigned long)system.f_type == HUGE_PAGES)
        return "memory must not be of huge pages";
    if (size > REGION_MAX)
        return "a region is too large for descriptors";
    if (size == 0 || fstat(fd, &status) != 0 || status.st_size < 0 ||
        (uint64_t)status.st_size < size)
        return "a region is longer than its file";
    return map(region, fd, (size_t)size) ? NULL : "a region could not be mapped";
}

/* Many times the memory of a link with default rings. */
#define POPULATED_MAX ((size_t)32 << 20)

void uro_memif_region_populate(const struct uro_memif_region *region)
{
    /* since Linux 5.14; on failure only the first frames are slower */
    if (region->size <= POPULATED_MAX)
        (void)madvise(region->at, region->size, MADV_POPULATE_WRITE);
}

void uro_memif_region_drop(struct uro_memif_region *region)
{
    if (region->at != NULL)
        (void)munmap(region->at, region->size);
    if (region->fd >= 0)
        (void)close(region->fd);
    *region = (struct uro_memif_region){ .fd = -1 };
}
