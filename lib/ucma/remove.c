/* SPDX-License-Identifier: BSD-3-Clause */
/* remove.c - handles the removal of a device: reports the removal to the identifiers that are bound
 * to the device.
 *
 * An identifier that listens at a wildcard is bound to no device, and continues to listen on the
 * other devices. New connections that the program has not accepted get no event; commands on them
 * fail.
 */
#include "ucma/bind.h"
#include "ucma/cm_event.h"

static void cut_off(struct uro_id *id)
{
    if (!id->known) {
        (void)uro_id_destroy(id);
        return;
    }
    uro_id_cut_off(id);
    if (id->uid != 0)
        (void)!uro_cm_event_simple(id, URO_CM_EVENT_DEVICE_REMOVAL, 0);
}

void uro_remove_device(struct uro_device *device)
{
    struct uro_id *id;

    uro_command_lock();
    for (uint32_t number = 0; (id = uro_id_next(&number)) != NULL; number++)
        uro_bind_forget_device(id, device);
    for (uint32_t number = 0; (id = uro_id_next(&number)) != NULL;
         number++) /* no new identifier uses the device: no listener, no command */
        if (id->device == device && !id->removed)
            cut_off(id);
    uro_command_unlock();
}
