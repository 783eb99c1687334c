/* SPDX-License-Identifier: BSD-3-Clause */
/* import.c - creates further handles of objects of this process, from the object numbers that
 * programs exchange.
 *
 * A copy of a context's cmd_fd identifies the context by its inode. Objects of another process
 * cannot be imported, since their engine and memory are in that process.
 */
#include <errno.h>
#include <sys/stat.h>

#include "verbs/objects.h"

/* Returns whether an open context of @device has the inode. */
static bool has_context(struct uro_ibv_device *device, uint64_t inode)
{
    bool found = false;

    uro_ibv_contexts_lock();
    for (struct uro_link *link = device->contexts.head.next; link != &device->contexts.head;
         link = link->next)
        found |= URO_CONTAINER_OF(link, struct uro_ibv_context, link)->inode == inode;
    uro_ibv_contexts_unlock();
    return found;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
    struct ibv_device **list;
    struct ibv_device *device = NULL;
    struct stat status;

    if (fstat(cmd_fd, &status) != 0 || (list = ibv_get_device_list(NULL)) == NULL)
        return NULL;
    for (int i = 0; list[i] != NULL && device == NULL; i++)
        if (has_context(uro_ibv_device(list[i]), status.st_ino))
            device = list[i];
    ibv_free_device_list(list);
    if (device == NULL) {
        errno = ENODEV;
        return NULL;
    }
    return uro_ibv_context_open(device, cmd_fd);
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
    return uro_ibv_mr_import(pd, mr_handle);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
    uro_ibv_mr_drop(uro_ibv_mr(mr));
}
