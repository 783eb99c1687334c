/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - the public functions of uroce/uroce.h that add and remove devices. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <uroce/uroce.h>

#include "base/defs.h"
#include "host/host.h"

/* The library that has this function is the one that the program's verbs calls reach. librdmacm
 * calls this function, and programs do not take its address. If a program takes the address of a
 * function, dlsym() may find an entry of the program itself. */
#define PROBED_FUNCTION "ibv_get_sysfs_path"

const char *uroce_version(void)
{
    return URO_VERSION;
}

/* The address of this variable shows which library contains this code. */
static const char own_mark;

/* Returns false, and writes @error, if the program's ibv_*() calls reach another library. */
static bool verbs_are_ours(char *error, size_t size)
{
    Dl_info theirs, ours;
    void *symbol = dlsym(RTLD_DEFAULT, PROBED_FUNCTION);

    if (symbol == NULL || dladdr(symbol, &theirs) == 0 || dladdr(&own_mark, &ours) == 0 ||
        theirs.dli_fbase == ours.dli_fbase)
        return true;
    (void)snprintf(
        error, size,
        "uroce_device_add: the program's verbs calls reach %.300s; link -luroce in front of "
        "-libverbs, and do not use `uroce run`",
        theirs.dli_fname);
    return false;
}

int uroce_device_add(const char *device, char *error, size_t size)
{
    char text[UROCE_ERROR_MAX] =
        "uroce_device_add: the description is missing; give one such as uroce0:udp";
    int result = -EINVAL;

    static_assert(sizeof(((struct uro_device_config *)0)->problem) <= UROCE_ERROR_MAX,
                  "the text of every problem of an entry fits");
    if (!verbs_are_ours(text, sizeof text))
        result = -ELIBACC;
    else if (device != NULL)
        result = uro_host_add("uroce_device_add", device, text, sizeof text);
    if (result != 0 && error != NULL && size > 0)
        (void)snprintf(error, size, "%s", text);
    return result;
}

int uroce_device_remove(const char *name)
{
    return name != NULL ? uro_host_remove(name) : -EINVAL;
}
