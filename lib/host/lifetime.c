/* SPDX-License-Identifier: BSD-3-Clause */
/* lifetime.c - a device starts when the first CQ, QP or MR needs it, and ends with the process. */
#define _GNU_SOURCE /* pthread_setname_np, pthread_setaffinity_np */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "cancel/cancel.h"
#include "core/shard.h"
#include "host/capture.h"
#include "host/device.h"
#include "host/fork.h"
#include "host/plugin.h"
#include "host/unmapped.h"
#include "wire/ip.h"

#define CACHE_LINE   64u
#define THREAD_STACK (1024u * 1024u)

/* ---- the sink ----------------------------------------------------------- */

static void ignore_engine(struct uro_device *device, const struct uro_event *event)
{
    (void)device;
    (void)event;
}

static void ignore_port(struct uro_device *device, enum uro_port_event event)
{
    (void)device;
    (void)event;
}

static const struct uro_event_sink nobody = { ignore_engine, ignore_port };
static const struct uro_event_sink *_Atomic sink = &nobody;

void uro_host_set_sink(const struct uro_event_sink *to)
{
    atomic_store(&sink, to != NULL ? to : &nobody);
}

const struct uro_event_sink *uro_host_sink(void)
{
    return atomic_load_explicit(&sink, memory_order_acquire);
}

static const struct uro_conn_sink *_Atomic conn_sink;

void uro_host_set_conn_sink(const struct uro_conn_sink *to)
{
    atomic_store(&conn_sink, to);
}

const struct uro_conn_sink *uro_host_conn_sink(void)
{
    return atomic_load_explicit(&conn_sink, memory_order_acquire);
}

/* ---- starting ----------------------------------------------------------- */

static struct uro_port *open_port(struct uro_device *device, char error[static URO_PORT_ERROR_MAX])
{
    const struct uro_device_config *config = &device->config;
    const struct uro_port_config wanted = {
        .device = config->name,
        .link = config->link,
        .mtu = config->mtu,
        .has_mac = true,
        .mac = config->mac,
        .memory_mib = config->memory_mib,
        .addresses = config->gids,
        .address_count = config->gid_count,
        .forked = uro_fork_generation() > 1,
        .verbose = config->verbose,
    };
    uro_port_open_fn *open = uro_plugin_find(config->link, error);

    return open != NULL ? open(&wanted, error) : NULL;
}

/* Processes that were forked from each other draw different numbers, with seed=, too. */
static int seed(const struct uro_device_config *config, uint8_t out[static 32])
{
    const uint64_t child = uro_fork_generation() > 1 ? (uint64_t)getpid() : 0;

    memset(out, 0, 32);
    if (config->seed != 0) {
        memcpy(out, &config->seed, sizeof config->seed);
        memcpy(out + sizeof config->seed, &child, sizeof child);
        return 0;
    }
    return getrandom(out, 32, 0) == 32 ? 0 : -EIO;
}

static uint32_t most_connections(const struct uro_device *device)
{
    const uint64_t most = uro_quota_most(device, URO_QUOTA_CONN);

    return most != 0 ? (uint32_t)most : 1;
}

static int build_engine(struct uro_device *device)
{
    const struct uro_device_config *config = &device->config;
    struct uro_engine_config wanted = {
        .mac = device->port->mac,
        .mtu = device->port->mtu,
        .vlan = (uint16_t)config->vlan,
        .address_count = config->gid_count,
        .gateway4 = config->gateway4,
        .gateway6 = config->gateway6,
        .window = config->window != 0 ? config->window : device->port->window,
        .early = URO_EARLY_DEFAULT,
        .retry_7_forever = config->retry_7_forever,
        .timeout_least = URO_TIMEOUT_LEAST,
        .share = device->port->share,
        .connections = most_connections(device),
        .services = device->port->ops->services != NULL ? URO_PORT_SERVICES_MAX : 0,
        .groups = uro_device_groups_max(device),
        .source_port = uro_plugin_is_udp(config->link) ? URO_ROCE_PORT : 0,
        .link_routes = uro_plugin_is_udp(config->link),
    };

    for (uint32_t i = 0; i < config->gid_count; i++)
        wanted.addresses[i] = (struct uro_engine_address){ config->gids[i], config->prefix[i] };
    int error = seed(config, wanted.seed);
    if (error != 0)
        return error;
    size_t size = (uro_engine_size(&wanted) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    /* Room for all connections there may be: the kernel gives a page when it is used. */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    device->engine_memory = memory != MAP_FAILED ? memory : NULL;
    device->engine_size = size;
    device->tx = calloc(URO_PORT_BURST, sizeof *device->tx);
    device->macs = calloc(URO_ENGINE_MACS_MAX, sizeof *device->macs);
    if (device->engine_memory == NULL || device->tx == NULL || device->macs == NULL)
        return -ENOMEM;
    error = uro_engine_init(device->engine_memory, &wanted, uro_device_now(), &device->engine);
    if (error == 0)
        uro_engine_shard(device->engine)->attempt = uro_unmapped_attempt;
    return error;
}

static int bring_up(struct uro_device *device)
{
    device->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (device->doorbell < 0) {
        (void)snprintf(device->problem, sizeof device->problem, "no file descriptor left: %s",
                       strerror(errno));
        return -ENOMEM;
    }
    if (uro_capture_open(device) != 0)
        return -ENODEV;
    device->port = open_port(device, device->problem);
    if (device->port == NULL)
        return -ENODEV;
    device->sched =
        uro_sched_init(device->config.progress, uro_port_has(device->port, URO_PORT_CALL_PER_SEND));
    device->awaits_peer = uro_port_has(device->port, URO_PORT_AWAITS_PEER);
    device->link_up = device->link_was_up = device->port->ops->link_up(device->port);
    int error = build_engine(device);
    if (error != 0) {
        (void)snprintf(device->problem, sizeof device->problem, "the engine could not be built: %s",
                       strerror(-error));
        return error;
    }
    uro_round_multicast(device);
    uro_engine_link(device->engine, device->link_up, uro_device_now());
    return 0;
}

static void pin(const struct uro_device *device)
{
    cpu_set_t cpus;

    if (device->config.cpu < 0)
        return;
    CPU_ZERO(&cpus);
    CPU_SET((unsigned)device->config.cpu, &cpus);
    if (pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0)
        fprintf(stderr, "uroce: %s: cpu=%d is not available to this process; not pinned\n",
                device->config.name, device->config.cpu);
}

/* After a failed start nothing is left open. The thread is the only one that saw any of it. */
static void take_down(struct uro_device *device)
{
    if (device->port != NULL)
        device->port->ops->close(device->port);
    device->port = NULL;
    uro_capture_close(device);
    if (device->engine_memory != NULL)
        (void)munmap(device->engine_memory, device->engine_size);
    free(device->tx);
    free(device->macs);
    device->engine = NULL;
    device->engine_memory = NULL;
    device->tx = NULL;
    device->macs = NULL;
    if (device->doorbell >= 0)
        (void)close(device->doorbell);
    device->doorbell = -1;
}

/* Prints why the device does not start. A program may try for ever: it reads each reason once. Start lock held. */
static void complain(struct uro_device *device)
{
    if (strcmp(device->problem, device->printed) == 0)
        return;
    fprintf(stderr, "uroce: %s: %s\n", device->config.name, device->problem);
    memcpy(device->printed, device->problem, sizeof device->printed);
}

/* EAL pins whoever initialises it, so the port is opened here and not in the caller. */
static void *thread_main(void *argument)
{
    struct uro_device *device = argument;
    char name[16];

    (void)snprintf(name, sizeof name, "uroce:%.9s", device->config.name);
    (void)pthread_setname_np(pthread_self(), name);
    (void)uro_cancel_off(); /* programs may cancel every thread they find */
    int error = bring_up(device);
    pin(device);
    if (error == 0)
        uro_finish_watch();
    else
        take_down(device);

    (void)pthread_mutex_lock(&device->start_lock);
    device->start_error = error;
    if (error != 0) {
        complain(device);
        (void)pthread_detach(pthread_self()); /* the next start makes another thread */
    }
    atomic_store(&device->life, error == 0 ? URO_DEVICE_RUNNING : URO_DEVICE_FAILED);
    (void)pthread_cond_broadcast(&device->start_done);
    (void)pthread_mutex_unlock(&device->start_lock);
    if (error == 0)
        uro_service_run(device);
    return NULL;
}

/* Programs use signals; ours is not a thread to handle them. Its own faults are: of unmapped memory, and a
 * program that reports crashes hears of the others. */
static int create_thread(struct uro_device *device)
{
    sigset_t others, before;
    pthread_attr_t attr;

    (void)sigfillset(&others);
    (void)sigdelset(&others, SIGSEGV);
    (void)sigdelset(&others, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &others, &before);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, THREAD_STACK);
    int error = pthread_create(&device->thread, &attr, thread_main, device);
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Begins a start, the first one or one after a failure. Start lock held. */
static void begin(struct uro_device *device)
{
    device->problem[0] = '\0';
    atomic_store(&device->life, URO_DEVICE_STARTING);
    uro_unmapped_watch();
    if (create_thread(device) == 0)
        return;
    (void)snprintf(device->problem, sizeof device->problem, "no thread could be created");
    complain(device);
    device->start_error = -ENOMEM;
    atomic_store(&device->life, URO_DEVICE_FAILED);
}

int uro_device_start(struct uro_device *device)
{
    if (uro_device_refusal(device) != 0)
        return -EIO;
    if (atomic_load_explicit(&device->life, memory_order_acquire) == URO_DEVICE_RUNNING)
        return 0;

    (void)pthread_mutex_lock(&device->start_lock);
    int life = atomic_load(&device->life);
    if (life == URO_DEVICE_IDLE || life == URO_DEVICE_FAILED)
        begin(device);
    while (atomic_load(&device->life) == URO_DEVICE_STARTING)
        (void)pthread_cond_wait(&device->start_done, &device->start_lock);
    int error = atomic_load(&device->life) == URO_DEVICE_RUNNING ? 0 : device->start_error;
    (void)pthread_mutex_unlock(&device->start_lock);
    return error;
}

static bool is_running(struct uro_device *device)
{
    (void)pthread_mutex_lock(&device->start_lock);
    while (atomic_load(&device->life) == URO_DEVICE_STARTING)
        (void)pthread_cond_wait(&device->start_done, &device->start_lock);
    const bool running = atomic_load(&device->life) == URO_DEVICE_RUNNING;
    (void)pthread_mutex_unlock(&device->start_lock);
    return running;
}

void uro_device_end(struct uro_device *device)
{
    const bool running = is_running(device);
    const struct uro_conn_sink *connections = uro_host_conn_sink();

    if (connections != NULL)
        connections->removed(device);
    atomic_store(&device->gone, true);
    uro_host_sink()->port_event(device, URO_PORT_GONE);
    const bool ended = !running || uro_finish_device(device);
    device->generation = URO_FORK_NEVER;
    const bool in_use = uro_quota_in_use(device);
    uro_quota_removed(device);
    atomic_store(&device->life, URO_DEVICE_FAILED);
    if (!running || !ended || in_use)
        return;
    device->port = NULL; /* closed by uro_finish_device() */
    take_down(device);
}

bool uro_device_started(const struct uro_device *device)
{
    return atomic_load_explicit(&device->life, memory_order_acquire) == URO_DEVICE_RUNNING;
}

const char *uro_device_problem(const struct uro_device *device)
{
    return device->problem;
}

const struct uro_device_config *uro_device_config(const struct uro_device *device)
{
    return &device->config;
}

struct uro_engine *uro_device_engine(struct uro_device *device)
{
    URO_ASSERT(uro_device_started(device));
    return device->engine;
}

struct uro_shard *uro_device_shard(struct uro_device *device)
{
    return uro_engine_shard(uro_device_engine(device));
}

uint32_t uro_device_mtu(struct uro_device *device)
{
    uint32_t most = device->config.mtu;

    if (!uro_device_started(device))
        return most;
    uint32_t now = uro_shard_mtu(uro_device_shard(device));
    return now < most ? now : most;
}

bool uro_device_gone(const struct uro_device *device)
{
    return atomic_load_explicit(&device->gone, memory_order_acquire);
}

/* Programs make a queue pair and then look for an active port; the one that comes first on a link
 * of two processes would find none. */
bool uro_device_link_up(const struct uro_device *device)
{
    if (!uro_device_started(device) || device->link_up)
        return true;
    return !device->closed && device->awaits_peer && !device->link_was_up;
}
