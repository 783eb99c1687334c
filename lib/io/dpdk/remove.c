/* SPDX-License-Identifier: BSD-3-Clause */
/* remove.c - detects that the machine removes a card.
 *
 * The driver vfio-pci does not release a card that a process uses. The kernel asks the process to
 * close the card, and waits. DPDK passes this request on as an event, in its own thread. From then
 * on, the port reports that it is gone.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_dev_event_callback_register */
#include "io/dpdk/dpdk.h"

#include <errno.h>
#include <unistd.h>

#include <rte_dev.h>

static void on_event(const char *name, enum rte_dev_event_type event, void *context)
{
    struct uro_dpdk *dpdk = context;
    const uint64_t one = 1;

    (void)name;
    if (event != RTE_DEV_EVENT_REMOVE)
        return;
    atomic_store(&dpdk->removed, true);
    if (dpdk->wait.news >= 0)
        (void)!write(dpdk->wait.news, &one, sizeof one);
}

/* Returns the name that the events of the card's device have. This differs from the name of a port
 * if the device has several ports. */
static const char *name_of(const struct uro_dpdk *dpdk)
{
    struct rte_eth_dev_info info;

    if (dpdk->kind != URO_DPDK_PCI || rte_eth_dev_info_get(dpdk->id, &info) != 0)
        return NULL;
    return rte_dev_name(info.device);
}

void uro_remove_start(struct uro_dpdk *dpdk)
{
    const char *name = name_of(dpdk);

    if (name != NULL)
        (void)rte_dev_event_callback_register(name, on_event, dpdk);
}

void uro_remove_stop(struct uro_dpdk *dpdk)
{
    const char *name = name_of(dpdk);

    if (name == NULL)
        return;
    while (rte_dev_event_callback_unregister(name, on_event, dpdk) == -EAGAIN)
        ; /* the callback runs at the moment, and is short */
}
