/* SPDX-License-Identifier: BSD-3-Clause */
/* memif.c - what DPDK's memif driver leaves to its user: connecting again, and a safe end.
 *
 * The driver connects a client once, when the port starts, and never again. And when the peer
 * goes, DPDK's interrupt thread unmaps the shared memory while another thread may be copying a
 * frame out of it. The linker lets us stand between the two objects of the driver (--wrap), so
 * that memory goes away only while no frame moves.
 */
#include "io/dpdk/memif.h"

#include <pthread.h>
#include <string.h>

#include "io/dpdk/dpdk.h"
#include "io/dpdk/link.h"

#define RETRY_MS     20   /* between attempts to reach a server */
#define HANDSHAKE_MS 1000 /* a server that accepted has so long to finish */

struct rte_eth_dev;

/* The driver's functions, and ours that the driver calls instead. */
int __real_memif_connect_client(struct rte_eth_dev *device);
int __real_memif_connect_server(struct rte_eth_dev *device);
int __real_memif_connect(struct rte_eth_dev *device);
void __real_memif_free_regions(struct rte_eth_dev *device);
int __wrap_memif_connect_client(struct rte_eth_dev *device);
int __wrap_memif_connect_server(struct rte_eth_dev *device);
int __wrap_memif_connect(struct rte_eth_dev *device);
void __wrap_memif_free_regions(struct rte_eth_dev *device);

/* Held while the driver's hooks use a port, so that it cannot be closed meanwhile. */
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct uro_memif *known;

/* The port this thread is starting: tells whose device the driver speaks of. */
static _Thread_local struct uro_memif *starting;

/* With known_lock held, and as long as the result is used. */
static struct uro_dpdk *find(const struct rte_eth_dev *device)
{
    for (struct uro_memif *memif = known; memif != NULL; memif = memif->next)
        if (memif->device == device)
            return URO_CONTAINER_OF(memif, struct uro_dpdk, memif);
    return NULL;
}

static void learn(struct rte_eth_dev *device)
{
    if (starting != NULL)
        starting->device = device;
}

int __wrap_memif_connect_client(struct rte_eth_dev *device)
{
    learn(device);
    return __real_memif_connect_client(device);
}

int __wrap_memif_connect_server(struct rte_eth_dev *device)
{
    learn(device);
    return __real_memif_connect_server(device);
}

int __wrap_memif_connect(struct rte_eth_dev *device)
{
    int status = __real_memif_connect(device);

    pthread_mutex_lock(&known_lock);
    struct uro_dpdk *dpdk = find(device);
    if (dpdk != NULL) {
        atomic_store(&dpdk->memif.connected, status == 0);
        uro_wait_news(dpdk);
    }
    pthread_mutex_unlock(&known_lock);
    return status;
}

void __wrap_memif_free_regions(struct rte_eth_dev *device)
{
    pthread_mutex_lock(&known_lock);
    struct uro_dpdk *dpdk = find(device);
    if (dpdk == NULL) {
        __real_memif_free_regions(device);
    } else {
        uro_memif_enter(&dpdk->memif);
        uro_memif_wake_gone(dpdk);
        __real_memif_free_regions(device);
        uro_memif_leave(&dpdk->memif);
        atomic_store(&dpdk->memif.connected, false);
        atomic_store(&dpdk->memif.refused, true);
        uro_wait_news(dpdk);
    }
    pthread_mutex_unlock(&known_lock);
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int start(struct uro_dpdk *dpdk)
{
    int status;

    starting = &dpdk->memif;
    atomic_store(&dpdk->memif.refused, false);
    status = rte_eth_dev_start(dpdk->id);
    starting = NULL;
    dpdk->started = status == 0;
    dpdk->memif.tried = true;
    dpdk->memif.since = now_ms();
    return status;
}

void uro_memif_init(struct uro_dpdk *dpdk, const struct uro_link *link)
{
    struct uro_memif *memif = &dpdk->memif;

    memif->client = link->client;
    memcpy(memif->socket, link->socket, sizeof memif->socket);
    memif->wake = (struct uro_memif_wake){ .retry = -1, .doorbell = -1 };
    rte_spinlock_init(&memif->lock);
    pthread_mutex_lock(&known_lock);
    memif->next = known;
    known = memif;
    pthread_mutex_unlock(&known_lock);
}

int uro_memif_start(struct uro_dpdk *dpdk)
{
    int status = start(dpdk);

    return dpdk->memif.client ? 0 : status;
}

void uro_memif_forget(struct uro_dpdk *dpdk)
{
    pthread_mutex_lock(&known_lock);
    for (struct uro_memif **at = &known; *at != NULL; at = &(*at)->next) {
        if (*at == &dpdk->memif) {
            *at = dpdk->memif.next;
            break;
        }
    }
    pthread_mutex_unlock(&known_lock);
}

void uro_memif_tend(struct uro_dpdk *dpdk)
{
    struct uro_memif *memif = &dpdk->memif;

    if (!memif->client)
        return;
    if (atomic_load(&memif->connected)) {
        memif->tried = false;
        return;
    }
    if (memif->tried) {
        int64_t patience = dpdk->started && !atomic_load(&memif->refused) ? HANDSHAKE_MS : RETRY_MS;
        if (now_ms() - memif->since < patience)
            return;
    }
    if (dpdk->started)
        rte_eth_dev_stop(dpdk->id);
    (void)start(dpdk);
}
