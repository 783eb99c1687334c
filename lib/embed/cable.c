/* SPDX-License-Identifier: BSD-3-Clause */
/* cable.c - registers the link "cable" with the host; the public function that changes the faults
 * of a cable. */
#include <errno.h>
#include <stdio.h>

#include <uroce/uroce.h>

#include "config/plugin.h"
#include "io/cable/port.h"

__attribute__((constructor)) static void begin(void)
{
    (void)!uro_plugin_add(&uro_cable_driver);
}

int uroce_cable_set(const char *device, const char *faults, char *error, size_t size)
{
    char text[URO_PORT_ERROR_MAX] =
        "uroce_cable_set: the device or the faults are missing; give both";
    const int result =
        device != NULL && faults != NULL ? uro_cable_port_set(device, faults, text) : -EINVAL;

    if (result != 0 && error != NULL && size > 0)
        (void)snprintf(error, size, "%s", text);
    return result;
}
