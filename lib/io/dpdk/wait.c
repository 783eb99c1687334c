/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.c - sleeps until a frame arrives: one epoll descriptor for each port.
 *
 * The host waits on an epoll descriptor, which never changes, while the descriptors inside it
 * change with peers. A descriptor is inside only while the port is armed, so that the kernel does
 * not report every frame of a busy port.
 *
 *   af_xdp, tap              the socket or the character device itself; af_xdp: also control.c's
 *   vhost, network cards     DPDK's receive interrupts
 *   ring, null, pcap         no descriptor: -1
 */
#include "io/dpdk/dpdk.h"

#include <unistd.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>

static void find_source(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    wait->source = URO_WAIT_NONE;
    wait->fd = dpdk->source.fd;
    if (wait->fd >= 0) {
        wait->source = URO_WAIT_LEVEL;
    } else if (dpdk->interrupts) {
        wait->fd = rte_eth_dev_rx_intr_ctl_q_get_fd(dpdk->id, 0);
        if (wait->fd >= 0)
            wait->source = URO_WAIT_INTERRUPT;
    }
}

static bool add(const struct uro_wait *wait, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events };

    return fd >= 0 && epoll_ctl(wait->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Removes edge-triggered events that are pending. */
static void drain(const struct uro_wait *wait)
{
    struct epoll_event events[4];
    uint64_t count;

    (void)!read(wait->news, &count, sizeof count);
    (void)epoll_wait(wait->epoll, events, URO_ARRAY_LEN(events), 0);
}

/* Signals a change of the link or of a queue. Called in DPDK's own thread. */
static int on_event(uint16_t id, enum rte_eth_event_type event, void *context, void *unused)
{
    const struct uro_dpdk *dpdk = context;
    uint64_t one = 1;

    (void)id;
    (void)event;
    (void)unused;
    if (dpdk->wait.news >= 0)
        (void)!write(dpdk->wait.news, &one, sizeof one);
    return 0;
}

static bool start_source(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    switch (wait->source) {
    case URO_WAIT_NONE:
    case URO_WAIT_LEVEL:
        return true;
    case URO_WAIT_INTERRUPT:
        /* Interrupts come only on request. Their counters are not read, so each interrupt is one
         * edge. */
        return add(wait, wait->fd, EPOLLIN | EPOLLET) &&
               rte_eth_dev_callback_register(dpdk->id, RTE_ETH_EVENT_INTR_LSC, on_event, dpdk) ==
                   0 &&
               rte_eth_dev_callback_register(dpdk->id, RTE_ETH_EVENT_QUEUE_STATE, on_event, dpdk) ==
                   0;
    }
    return false;
}

void uro_wait_start(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    find_source(dpdk);
    if (wait->source == URO_WAIT_NONE)
        return;
    wait->epoll = epoll_create1(EPOLL_CLOEXEC);
    wait->news = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (!add(wait, wait->news, EPOLLIN) || !start_source(dpdk))
        uro_wait_stop(dpdk);
}

void uro_wait_stop(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    if (wait->source == URO_WAIT_INTERRUPT) {
        rte_eth_dev_callback_unregister(dpdk->id, RTE_ETH_EVENT_INTR_LSC, on_event, dpdk);
        rte_eth_dev_callback_unregister(dpdk->id, RTE_ETH_EVENT_QUEUE_STATE, on_event, dpdk);
    }
    if (wait->news >= 0)
        close(wait->news);
    if (wait->epoll >= 0)
        close(wait->epoll);
    *wait = URO_WAIT_INIT;
}

bool uro_wait_arm(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    if (uro_queue_peek(dpdk))
        return false;
    switch (wait->source) {
    case URO_WAIT_NONE:
        return true;
    case URO_WAIT_LEVEL:
        return add(wait, wait->fd, EPOLLIN) &&
               (dpdk->control.fd < 0 || add(wait, dpdk->control.fd, EPOLLIN));
    case URO_WAIT_INTERRUPT:
        if (rte_eth_dev_rx_intr_enable(dpdk->id, 0) != 0)
            return false;
        return !uro_queue_peek(dpdk);
    }
    return false;
}

void uro_wait_disarm(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    switch (wait->source) {
    case URO_WAIT_NONE:
        return;
    case URO_WAIT_LEVEL:
        epoll_ctl(wait->epoll, EPOLL_CTL_DEL, wait->fd, NULL);
        if (dpdk->control.fd >= 0)
            epoll_ctl(wait->epoll, EPOLL_CTL_DEL, dpdk->control.fd, NULL);
        return;
    case URO_WAIT_INTERRUPT:
        rte_eth_dev_rx_intr_disable(dpdk->id, 0);
        drain(wait);
        return;
    }
}
