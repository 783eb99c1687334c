/* SPDX-License-Identifier: BSD-3-Clause */
/* wait.c - sleeps until a frame arrives: one epoll descriptor for each port.
 *
 * The host waits on an epoll descriptor, which never changes, while the descriptors inside it
 * change with peers. The descriptors of af_xdp and tap are inside only while the port is armed, so
 * that the kernel does not report every frame of a busy port.
 *
 *   af_xdp, tap              the socket or the character device itself; af_xdp: also that of
 *                            kernel_copies.c
 *   vhost-user, virtio-user, DPDK's receive interrupts; polled while they do not arrive
 *   cards, others
 *   ring, null, pcap         no descriptor: -1
 */
#include "io/dpdk/dpdk.h"

#include <unistd.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rte_log.h>

static void print_state(const struct uro_dpdk *dpdk, const char *state)
{
    char name[RTE_ETH_NAME_MAX_LEN] = "";

    (void)rte_eth_dev_get_name_by_port(dpdk->id, name);
    rte_log(RTE_LOG_INFO, RTE_LOGTYPE_USER1, "uroce: %s: %s\n", name, state);
}

static void print_interrupt(const struct uro_dpdk *dpdk)
{
    print_state(dpdk, dpdk->wait.interrupt.polled
                          ? "the device is polled, because receive interrupts do not arrive"
                          : "receive interrupts wake the device");
}

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
    struct epoll_event event = { .events = events, .data.fd = fd };

    return fd >= 0 && epoll_ctl(wait->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The events of a port with interrupts. */
struct reported {
    bool interrupt;
    bool news; /* the link or a queue changed */
};

/* Takes the events that are pending, which are edge-triggered. */
static struct reported take_events(const struct uro_wait *wait)
{
    struct reported reported = { 0 };
    struct epoll_event events[4];
    uint64_t count;
    const int pending = epoll_wait(wait->epoll, events, URO_ARRAY_LEN(events), 0);

    for (int i = 0; i < pending; i++) {
        if (events[i].data.fd == wait->news)
            reported.news = read(wait->news, &count, sizeof count) > 0;
        else
            reported.interrupt |= events[i].data.fd == wait->fd;
    }
    return reported;
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

static bool start_interrupt(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    /* Interrupts come only on request. Their counters are not read, so each interrupt is one
     * edge. */
    return add(wait, wait->fd, EPOLLIN | EPOLLET) &&
           rte_eth_dev_callback_register(dpdk->id, RTE_ETH_EVENT_INTR_LSC, on_event, dpdk) == 0 &&
           rte_eth_dev_callback_register(dpdk->id, RTE_ETH_EVENT_QUEUE_STATE, on_event, dpdk) == 0;
}

void uro_wait_start(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    find_source(dpdk);
    if (wait->source != URO_WAIT_NONE) {
        wait->epoll = epoll_create1(EPOLL_CLOEXEC);
        wait->news = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (!add(wait, wait->news, EPOLLIN) ||
            (wait->source == URO_WAIT_INTERRUPT && !start_interrupt(dpdk)))
            uro_wait_stop(dpdk);
    }
    if (wait->source == URO_WAIT_NONE)
        print_state(dpdk, "the device is polled, because its driver has no receive interrupts");
    else if (wait->source == URO_WAIT_INTERRUPT)
        print_interrupt(dpdk);
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

int uro_wait_descriptor(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;

    if (!wait->interrupt.polled)
        return wait->epoll;
    /* The host polls. A late interrupt shows that it can sleep again. */
    const struct reported reported = take_events(wait);
    if (!reported.interrupt && !reported.news) {
        (void)rte_eth_dev_rx_intr_enable(dpdk->id, 0);
        return -1;
    }
    if (uro_interrupt_slept(&wait->interrupt, true, false))
        print_interrupt(dpdk);
    return wait->epoll;
}

/* Requests an interrupt, and then looks for frames again. A frame that arrived before the request
 * causes no interrupt. */
static bool arm_interrupt(struct uro_dpdk *dpdk)
{
    if (rte_eth_dev_rx_intr_enable(dpdk->id, 0) != 0) {
        if (uro_interrupt_refused(&dpdk->wait.interrupt))
            print_interrupt(dpdk);
        return false;
    }
    if (!uro_queue_peek(dpdk))
        return true;
    rte_eth_dev_rx_intr_disable(dpdk->id, 0);
    return false;
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
        return arm_interrupt(dpdk);
    }
    return false;
}

/* Records whether an interrupt came for the frames that arrived during the sleep. */
static void disarm_interrupt(struct uro_dpdk *dpdk)
{
    struct uro_wait *wait = &dpdk->wait;
    struct reported reported = take_events(wait);
    const bool frames = !reported.interrupt && uro_queue_peek(dpdk);

    if (frames)
        reported = take_events(wait); /* an interrupt may come shortly after its frame */
    if (uro_interrupt_slept(&wait->interrupt, reported.interrupt, frames))
        print_interrupt(dpdk);
    rte_eth_dev_rx_intr_disable(dpdk->id, 0);
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
        disarm_interrupt(dpdk);
        return;
    }
}
