/* SPDX-License-Identifier: BSD-3-Clause */
/* remove.c - a device is gone: whoever is bound to it is told, and can do nothing more with it.
 *
 * A listener of every address is bound to no device and goes on with the others. Connections that
 * nobody accepted yet have no owner to be told; what is done with them fails.
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
        uro_bind_forget(id, device);
    for (uint32_t number = 0; (id = uro_id_next(&number)) != NULL; number++) /* no new ones now */
        if (id->device == device && !id->removed)
            cut_off(id);
    uro_command_unlock();
}
