/* SPDX-License-Identifier: BSD-3-Clause */
/* attach.c - replaces the kernel for librdmacm: redirects its calls of open, fstat, write and
 * close, and handles the calls on /dev/infiniband/rdma_cm. All other calls go to the C library.
 * Some of librdmacm's calls of libibverbs are redirected, too. Calls of other libraries are not
 * changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/fork.h"
#include "ucma/bind.h"
#include "ucma/cm_event.h"
#include "ucma/command.h"
#include "ucma/plt_hook.h"
#include "verbs/fork.h"
#include "verbs/objects.h"

#define LIBRARY "librdmacm.so"
#define DEVICE  "/dev/infiniband/rdma_cm"

/* ---- four calls of the C library ------------------------------------------------------------ */

static int open_device(int flags)
{
    int fd = uro_host_cloned() ? -EIO : uro_channel_open((flags & O_NONBLOCK) != 0);

    if (fd >= 0)
        return fd;
    errno = -fd;
    return -1;
}

static int hook_open(const char *path, int flags, ...)
{
    mode_t mode = 0;

    if (strcmp(path, DEVICE) == 0)
        return open_device(flags);
    /* O_TMPFILE contains the bit of O_DIRECTORY. */
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
        va_list more;
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    return open(path, flags, mode);
}

static ssize_t hook_write(int fd, const void *octets, size_t size)
{
    struct uro_channel *channel = uro_channel_get(fd);

    if (channel == NULL)
        return write(fd, octets, size);
    ssize_t written = uro_command_write(channel, octets, size);
    uro_channel_put(channel);
    return written;
}

/* Describes a character device. If the kernel has rdma_cm, the device number is the kernel's,
 * because librdmacm checks the number. */
static int hook_fstat(int fd, struct stat *stat_of)
{
    struct uro_channel *channel = uro_channel_get(fd);

    if (channel == NULL)
        return fstat(fd, stat_of);
    uro_channel_put(channel);
    if (stat(DEVICE, stat_of) != 0 || !S_ISCHR(stat_of->st_mode)) {
        memset(stat_of, 0, sizeof *stat_of);
        stat_of->st_mode = S_IFCHR | S_IRUSR | S_IWUSR;
    }
    return 0;
}

/* Replaces __fxstat(), which programs call for fstat() with a C library before 2.33. */
static int hook_fxstat(int version, int fd, struct stat *stat_of)
{
    (void)version;
    return hook_fstat(fd, stat_of);
}

/* Closes a channel. Destroys its remaining identifiers, as the kernel does. */
static int hook_close(int fd)
{
    struct uro_channel *channel = uro_channel_forget(fd);

    if (channel == NULL)
        return close(fd);
    if (!uro_host_cloned() && !uro_channel_dead(channel)) {
        uro_command_lock();
        while (!uro_list_empty(&channel->ids))
            (void)uro_id_destroy(
                URO_CONTAINER_OF(channel->ids.head.next, struct uro_id, channel_link));
        uro_command_unlock();
    }
    uro_channel_put(channel);
    return close(fd);
}

/* ---- three calls of libibverbs ------------------------------------------------------------- */

/* Returns whether the attributes name the local port by LID 0 alone, as the datagram sockets of
 * rsockets do on InfiniBand. RoCE has no LIDs, so other attributes without a GID are an error. */
static bool means_itself(const struct ibv_ah_attr *attr)
{
    return !attr->is_global && attr->dlid == 0 && attr->port_num == URO_PORT;
}

/* Returns the index for RoCE v2 of the address at @index, which may be for RoCE v1. */
static uint32_t usable_index(struct ibv_context *context, uint32_t index)
{
    const struct uro_device_config *config = uro_device_config(uro_ibv_host(context));

    return uro_gid_index_shown(config, uro_gid_index_own(config, index));
}

static struct ibv_ah *hook_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ibv_ah_attr own = *attr;

    if (!means_itself(attr))
        return ibv_create_ah(pd, attr);
    own.is_global = 1;
    own.grh.sgid_index = (uint8_t)usable_index(pd->context, attr->grh.sgid_index);
    if (ibv_query_gid(pd->context, URO_PORT, own.grh.sgid_index, &own.grh.dgid) != 0)
        return NULL;
    return ibv_create_ah(pd, &own);
}

/* Opens a device, and keeps its context for forked children. librdmacm opens a device only once,
 * and also uses the context in a forked child. */
static struct ibv_context *hook_open_device(struct ibv_device *device)
{
    struct ibv_context *context = ibv_open_device(device);

    if (context != NULL)
        uro_ibv_keep_context(context);
    return context;
}

static struct ibv_pd *hook_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);

    if (pd != NULL)
        uro_ibv_keep_pd(pd);
    return pd;
}

/* ---- redirection --------------------------------------------------------------------------- */

typedef void function(void);

static int redirect(const void *caller)
{
    const struct uro_plt_hook now[] = {
        { { "open", "open64" }, (function *)hook_open },
        { { "write" }, (function *)hook_write },
        { { "close" }, (function *)hook_close },
        { { "fstat", "fstat64" }, (function *)hook_fstat },
    };
    const struct uro_plt_hook before[] = {
        now[0],
        now[1],
        now[2],
        { { "__fxstat", "__fxstat64" }, (function *)hook_fxstat },
    };
    const struct uro_plt_hook verbs[] = {
        { { "ibv_create_ah" }, (function *)hook_create_ah },
        { { "ibv_open_device" }, (function *)hook_open_device },
        { { "ibv_alloc_pd" }, (function *)hook_alloc_pd },
    };
    int error = uro_plt_hook_install(caller, now, sizeof now / sizeof now[0]);

    if (error == -ENOENT) /* librdmacm was built with an older C library */
        error = uro_plt_hook_install(caller, before, sizeof before / sizeof before[0]);
    if (error != 0)
        return error;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        error = uro_plt_hook_install(caller, &verbs[i], 1);
        if (error != 0 && error != -ENOENT) /* an old librdmacm has no datagram sockets */
            return error;
    }
    return 0;
}

/* Releases the ports and addresses of the parent's identifiers, so that the child's identifiers can
 * get them. */
static void abandon(void)
{
    if (uro_fork_abandoned()) {
        uro_channel_abandon();
        uro_bind_abandon();
    }
    uro_command_unlock();
}

/* Installs the handlers of fork(). Without them, a child that was forked during a command would
 * find the locks held for ever. */
static void watch_forks(void)
{
    static const struct uro_fork_part commands = { uro_command_lock, uro_command_unlock, abandon };
    static const struct uro_fork_part channels = { uro_channel_lock, uro_channel_unlock,
                                                   uro_channel_unlock };

    (void)uro_host_devices();
    uro_fork_join(URO_FORK_OUTER, &commands);
    uro_fork_join(URO_FORK_INNER, &channels);
    uro_host_set_conn_handlers(&uro_cm_event_handlers);
}

static void report(const char *library, int error)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static bool reported;

    (void)pthread_mutex_lock(&once);
    if (!reported)
        fprintf(stderr,
                "uroce: cannot redirect the calls of %s to uroce (%s), so rdma_cm does not work in "
                "this process\n",
                library, strerror(-error));
    reported = true;
    (void)pthread_mutex_unlock(&once);
}

static void observe(const void *caller)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *library = uro_plt_hook_object(caller);

    if (library == NULL || strstr(library, LIBRARY) == NULL)
        return;
    (void)pthread_once(&once, watch_forks);
    int error = redirect(caller);
    if (error != 0)
        report(library, error);
}

__attribute__((constructor)) static void begin(void)
{
    uro_ibv_set_call_observer(observe);
}
