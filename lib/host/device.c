/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - starts a device when a program first needs its engine, and ends the device when the
 * process ends or removes the device.
 *
 * When a process ends, its devices disconnect from their peers, as the kernel would: they send a
 * DREQ for each connection, and a REJ for each that is not established yet. They wait at most
 * DISCONNECT_MAX for the replies.
 *
 * The process then closes the port, so that the peer sees the link go down. Closing also removes
 * the files of the port, such as sockets. Closing is safe only after the service thread has ended,
 * and while no thread uses the device. A process may end in the middle of a call, by exit() in a
 * signal handler. The process waits at most EXIT_WAIT_NS for other threads.
 *
 * The last frames may still be in memory that is shared with the peer and is freed with the port.
 * Often the last frame is the ACK of the peer's last message. Therefore a process that ends right
 * after a send waits until its peer had time to read.
 */
#define _GNU_SOURCE /* pthread_setname_np, pthread_setaffinity_np, pthread_timedjoin_np */
#include <errno.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cancel/cancel.h"
#include "config/netdev.h"
#include "config/plugin.h"
#include "core/limits.h"
#include "core/shard.h"
#include "host/device.h"
#include "host/fork.h"
#include "host/report/pcap.h"
#include "io/engines/port.h"
#include "wire/ip.h"

#define CACHE_LINE   64u
#define THREAD_STACK (1024u * 1024u)

#define EXIT_WAIT_NS      300000000L    /* longest wait for other threads */
#define LINGER            URO_MS(50)    /* time in which Linux schedules a peer that can run */
#define DISCONNECT_MAX    URO_MS(300)   /* longest disconnect, with the resolution of next hops */
#define DISCONNECT_NAP_NS 100000L       /* pause between two rounds or checks of an ending device */
#define EXIT_TWICE_MAX    URO_MS(10000) /* longest wait of a second exit() for the first */

/* ---- ending -------------------------------------------------------------- */

/* Prints the counters of the engine, for verbose=yes. */
static void print_counters(const struct uro_device *device)
{
    const struct uro_counters *counters = uro_engine_counters(device->engine);

    for (unsigned i = 0; i < URO_COUNTER_COUNT; i++)
        if (counters->value[i] != 0)
            fprintf(stderr, "uroce: %s: %-22s %12llu  %s\n", device->config.name,
                    uro_counter_name((enum uro_counter)i), (unsigned long long)counters->value[i],
                    uro_counter_text((enum uro_counter)i));
}

static struct timespec exit_limit(bool waits)
{
    uro_time until = uro_host_wall_clock() + (waits ? EXIT_WAIT_NS : 0);

    return (struct timespec){ .tv_sec = (time_t)(until / 1000000000u),
                              .tv_nsec = (long)(until % 1000000000u) };
}

static void linger(const struct uro_device *device)
{
    uro_time until = atomic_load(&device->shared.sent_at) + LINGER;
    uro_time now = uro_device_now();
    struct timespec left = { .tv_nsec = (long)(until - now) };

    if (now < until)
        (void)nanosleep(&left, NULL);
}

/* Disconnects from the peers. Engine lock held. */
static void disconnect(struct uro_device *device)
{
    const struct timespec nap = { .tv_nsec = DISCONNECT_NAP_NS };
    uro_time now = uro_device_now();
    uro_time until = now + DISCONNECT_MAX;
    uint32_t received;

    while (!uro_engine_end_connections(device->engine, now) && device->link_up && now < until) {
        if (uro_round_run(device, true, now, &received) == 0)
            (void)nanosleep(&nap, NULL);
        now = uro_device_now();
    }
}

/* Sends the frames that the port delays. Engine lock held. */
static void drain(struct uro_device *device)
{
    const struct timespec nap = { .tv_nsec = DISCONNECT_NAP_NS };
    const uro_time until = uro_device_now() + DISCONNECT_MAX;
    uint32_t received;

    while (uro_port_next(device->port) != URO_TIME_NEVER && uro_device_now() < until)
        if (uro_round_run(device, true, uro_device_now(), &received) == 0)
            (void)nanosleep(&nap, NULL);
}

/* Ends the service thread, disconnects from the peers and closes the port. Returns false if a
 * thread still uses the device; then do not free it. @waits: gives the threads time. */
URO_NODISCARD static bool finish(struct uro_device *device, bool waits)
{
    linger(device);
    struct timespec until = exit_limit(waits);

    atomic_store(&device->stopping, true);
    uro_service_wake_all(device);
    if (pthread_equal(pthread_self(), device->thread) ||
        pthread_timedjoin_np(device->thread, NULL, &until) != 0)
        return false;
    if (!uro_progress_lock_until(device, &until))
        return false;
    if (uro_engine_rung(device->engine))
        (void)uro_round_send(device, uro_device_now());
    disconnect(device);
    drain(device);
    linger(device);
    if (device->config.verbose)
        print_counters(device);
    uro_log_failures(device);
    uro_log_end(device);
    uro_pcap_close(device);
    uro_port_close(device->port);
    uro_stats_end(&device->stats);
    device->closed = true; /* the engine stays, since programs may free objects later */
    (void)pthread_mutex_unlock(&device->mutex);
    return true;
}

/* Finishes all engines but the first. Returns false if finish() returned false for one of them.
 * After such an engine of a common port, none of the others gets more time. */
URO_NODISCARD static bool finish_others(struct uro_device *device)
{
    bool finished = true;

    for (struct uro_device *other = device->next_engine; other != NULL; other = other->next_engine)
        if (uro_device_started(other) &&
            !finish(other, finished || !uro_device_shares_port(device)))
            finished = false;
    return finished;
}

URO_NODISCARD static bool finish_engines(struct uro_device *device)
{
    const bool finished = finish_others(device);

    return finish(device, finished || !uro_device_shares_port(device)) && finished;
}

static atomic_bool all_finished;

static void finish_all(void)
{
    int unused;

    if (uro_host_cloned()) /* the running devices are the parent's */
        return;
    /* await_finish() may wait for this thread. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
    uro_host_set_event_handlers(NULL);
    uro_host_set_conn_handlers(NULL);
    for (struct uro_device *const *device = uro_host_known(); *device != NULL; device++)
        if (uro_device_started(*device))
            (void)!finish_engines(*device);
    atomic_store(&all_finished, true);
}

/* Runs after finish_all() was called. If two threads call exit() at the same time, the C library
 * calls each handler once, in one of the threads. Without this wait, the other thread would end the
 * process while finish_all() runs. */
static void await_finish(void)
{
    const struct timespec nap = { .tv_nsec = DISCONNECT_NAP_NS };
    const uro_time until = uro_device_now() + EXIT_TWICE_MAX;

    if (uro_host_cloned())
        return;
    while (!atomic_load(&all_finished) && uro_device_now() < until)
        (void)nanosleep(&nap, NULL);
}

static void register_finish(void)
{
    /* Exit handlers run in reverse order. The plug-in was loaded before, so its own exit handlers
     * run last. */
    (void)atexit(await_finish);
    (void)atexit(finish_all);
}

static void finish_at_exit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, register_finish);
}

/* ---- starting ----------------------------------------------------------- */

/* Fills in the seed. Processes that were forked from each other get different seeds, even with
 * seed=. */
static int choose_seed(const struct uro_device_config *config, uint8_t out[static 32])
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

static uint32_t connections_max(const struct uro_device *device)
{
    const uint64_t most = uro_quota_most(device, URO_QUOTA_CONN);

    return most != 0 ? (uint32_t)most : 1;
}

static int build_engine(struct uro_device *device)
{
    const struct uro_device_config *config = &device->config;
    const bool of_kernel = uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES);
    struct uro_engine_config wanted = {
        .mac = device->port->mac,
        .mtu = device->port->mtu,
        .vlan = (uint16_t)config->vlan,
        .address_count = config->gid_count,
        .gateway4 = config->gateway4,
        .gateway6 = config->gateway6,
        .window = config->window != 0 ? config->window : device->port->window,
        .reorder_buffer = URO_REORDER_DEFAULT,
        .retry_7_forever = config->retry_7_forever,
        .timeout_least = URO_TIMEOUT_LEAST,
        .qpn_prefix = device->port->qpn_prefix,
        .one_qpn_prefix = uro_port_has(device->port, URO_PORT_ONE_QPN_PREFIX),
        .connections = connections_max(device),
        .services = uro_port_takes_services(device->port) ? URO_PORT_SERVICES_MAX : 0,
        .groups = uro_device_groups_max(device),
        .source_port = of_kernel ? URO_ROCE_PORT : 0,
        .link_routes = of_kernel,
    };

    for (uint32_t i = 0; i < config->gid_count; i++)
        wanted.addresses[i] = (struct uro_engine_address){ config->gids[i], config->prefix[i] };
    int error = choose_seed(config, wanted.seed);
    if (error != 0)
        return error;
    uro_show_open(device);
    if (device->stats.page != NULL)
        wanted.record = &device->stats.page->record;
    if (device->first_engine != device)
        wanted.keys = uro_engine_shard(device->first_engine->engine)->keys;
    size_t size = (uro_engine_size(&wanted) + CACHE_LINE - 1) & ~(size_t)(CACHE_LINE - 1);
    /* The memory has space for the greatest number of connections. The kernel allocates a page at
     * its first use. */
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    device->engine_memory = memory != MAP_FAILED ? memory : NULL;
    device->engine_size = size;
    device->tx = calloc(URO_PORT_BURST, sizeof *device->tx);
    device->macs = calloc(URO_ENGINE_MACS_MAX, sizeof *device->macs);
    if (device->engine_memory == NULL || device->tx == NULL || device->macs == NULL)
        return -ENOMEM;
    error = uro_engine_init(device->engine_memory, &wanted, uro_device_now(), &device->engine);
    memset(&device->failures_seen, 0, sizeof device->failures_seen);
    if (error != 0)
        return error;
    uro_engine_shard(device->engine)->attempt = uro_unmapped_attempt;
    uro_pcap_observe(device);
    for (uint32_t i = 0; i < device->config.fail.count; i++)
        if (device->config.fail.rules[i].call == URO_INJECT_CALL_RNR)
            uro_engine_hide_receives(device->engine, device->config.fail.rules[i].first,
                                     device->config.fail.rules[i].every);
    return 0;
}

/* Opens the port of the engine. The engines of a device have one link, unless the driver gives each
 * of them a port. */
static struct uro_port *open_port(struct uro_device *device)
{
    const struct uro_device_config *config = &device->config;
    const bool forked = uro_fork_generation() > 1;
    const bool shared = uro_device_shares_port(device);

    if (shared && device->engine_index > 0)
        return uro_engines_port_join(device->first_engine->port, device->engine_index);
    struct uro_port *inner = uro_plugin_open(config, forked, device->problem);
    if (inner == NULL || !shared)
        return inner;
    struct uro_port *port = uro_engines_port_open(inner, config->engines);
    if (port == NULL) {
        (void)snprintf(device->problem, sizeof device->problem,
                       "engines=%u: no memory or file descriptor is left: %s", config->engines,
                       strerror(errno));
        uro_port_close(inner);
    }
    return port;
}

static int bring_up(struct uro_device *device)
{
    (void)sigemptyset(&device->ignored);
    device->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    device->waiter_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    device->signal_fd = uro_waiter_signal_fd(device);
    if (device->wake_fd < 0 || device->waiter_fd < 0 || device->signal_fd < 0) {
        (void)snprintf(device->problem, sizeof device->problem,
                       "no file descriptor is left: %s; raise `ulimit -n`", strerror(errno));
        return -ENOMEM;
    }
    if (uro_pcap_open(device) != 0)
        return -ENODEV;
    device->port = open_port(device);
    if (device->port == NULL)
        return -ENODEV;
    if (uro_impair_open(device) != 0)
        return -ENODEV;
    device->sched =
        uro_sched_init(device->config.progress, uro_port_has(device->port, URO_PORT_CALL_PER_SEND));
    device->awaits_peer = uro_port_has(device->port, URO_PORT_AWAITS_PEER);
    device->link_up = device->link_was_up = uro_port_link_up(device->port);
    device->link_down_since = uro_device_now();
    (void)uro_round_link_changed(device, device->link_up);
    device->speed = uro_netdev_speed(&device->config);
    int error = build_engine(device);
    if (error != 0) {
        (void)snprintf(device->problem, sizeof device->problem,
                       "cannot create the protocol engine: %s", strerror(-error));
        return error;
    }
    uro_round_multicast(device);
    uro_engine_link(device->engine, device->link_up, uro_device_now());
    uro_show_state(device, URO_STATS_RUNNING);
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
        fprintf(stderr,
                "uroce: %s: cpu=%d is not available to this process, so the service thread is not "
                "pinned; see `taskset -cp $$`\n",
                device->config.name, device->config.cpu);
}

void uro_device_close_fds(struct uro_device *device)
{
    int *const fds[] = { &device->wake_fd, &device->waiter_fd, &device->signal_fd };

    for (size_t i = 0; i < URO_ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            (void)close(*fds[i]);
        *fds[i] = -1;
    }
}

/* Closes and frees everything after a failed start or at the end of a device. No other thread uses
 * the device. */
static void take_down(struct uro_device *device)
{
    (void)uro_round_link_changed(device, true);
    if (device->port != NULL)
        uro_port_close(device->port);
    device->port = NULL;
    device->impaired = false;
    uro_pcap_close(device);
    if (device->engine_memory != NULL)
        (void)munmap(device->engine_memory, device->engine_size);
    uro_stats_end(&device->stats);
    uro_stats_table_unmap(&device->table);
    uro_stats_unmap(&device->stats);
    free(device->tx);
    free(device->macs);
    device->engine = NULL;
    device->engine_memory = NULL;
    device->tx = NULL;
    device->macs = NULL;
    uro_device_close_fds(device);
}

/* Prints the reason why the device does not start. Some programs try again without end, so a reason
 * that equals the last one is not printed. The first engine also prints the reasons of the others.
 * Start lock held. */
static void complain(struct uro_device *device)
{
    if (device->first_engine != device)
        return;
    if (strcmp(device->problem, device->printed_problem) == 0)
        return;
    fprintf(stderr, "uroce: %s: %s\n", device->config.name, device->problem);
    memcpy(device->printed_problem, device->problem, sizeof device->printed_problem);
}

/* Stops the engines but the first after a failure, so that they can start again. */
static void stop_others(struct uro_device *device)
{
    device->engine_stuck = !finish_others(device);
    for (struct uro_device *other = device->next_engine; other != NULL && !device->engine_stuck;
         other = other->next_engine) {
        const bool ran = atomic_exchange(&other->life, URO_DEVICE_FAILED) == URO_DEVICE_RUNNING;
        other->stopping = other->closed = false;
        if (!ran)
            continue;
        other->port = NULL; /* finish() has closed it */
        take_down(other);
    }
}

/* Starts the other engines after the first engine has opened its port. On failure, stops those that
 * were started. With engines=auto, the device has only the engines that can run. */
static int start_others(struct uro_device *device)
{
    const bool all = !device->config.engines_auto;
    struct uro_device *other = device->next_engine;
    uint32_t running = 1;
    int error = 0;

    if (other != NULL && device->port->qpn_prefix == 0 && all) {
        (void)snprintf(device->problem, sizeof device->problem,
                       "engines=%u: several engines need the broker of each address; start the "
                       "program with `uroce run`, which starts `uroce hub`, or use engines=1",
                       device->config.engines);
        return -ENODEV;
    }
    for (; other != NULL && device->port->qpn_prefix != 0; other = other->next_engine) {
        error = uro_device_start(other);
        if (error != 0)
            break;
        running++;
    }
    if (error != 0 && all) {
        (void)snprintf(device->problem, sizeof device->problem, "engine %u of %u: %.220s",
                       running + 1, device->config.engines, other->problem);
        stop_others(device);
        return error;
    }
    atomic_store(&device->engines_running, running);
    return 0;
}

/* Starts the device, then runs as its service thread. The port is opened in this thread, not in the
 * caller, because DPDK pins the thread that initializes it. */
static void *thread_main(void *argument)
{
    struct uro_device *device = argument;
    char name[16];

    (void)snprintf(name, sizeof name, "uroce:%.9s", device->config.name);
    (void)pthread_setname_np(pthread_self(), name);
    (void)uro_cancel_off(); /* some programs cancel all threads that they find */
    int error = bring_up(device);
    if (error == 0 && device->first_engine == device)
        error = start_others(device);
    pin(device); /* not earlier, because the threads of the other engines would inherit the CPU */
    if (error == 0)
        finish_at_exit();
    else if (!device->engine_stuck) /* a stuck engine uses the keys of this engine */
        take_down(device);

    (void)pthread_mutex_lock(&device->start_lock);
    device->start_error = error;
    if (error != 0) {
        complain(device);
        (void)pthread_detach(pthread_self()); /* the next start creates another thread */
    }
    atomic_store(&device->life, error == 0 ? URO_DEVICE_RUNNING : URO_DEVICE_FAILED);
    (void)pthread_cond_broadcast(&device->start_done);
    (void)pthread_mutex_unlock(&device->start_lock);
    if (error == 0)
        uro_service_run(device);
    return NULL;
}

/* Creates the service thread with all signals blocked except SIGSEGV and SIGBUS. unmapped.c handles
 * faults on unmapped memory, and the program's own handlers get other faults. */
static int create_thread(struct uro_device *device)
{
    sigset_t blocked, before;
    pthread_attr_t attr;

    (void)sigfillset(&blocked);
    (void)sigdelset(&blocked, SIGSEGV);
    (void)sigdelset(&blocked, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &blocked, &before);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, THREAD_STACK);
    int error = pthread_create(&device->thread, &attr, thread_main, device);
    (void)pthread_attr_destroy(&attr);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Begins the first start, or another start after a failure. Start lock held. */
static void begin(struct uro_device *device)
{
    device->problem[0] = '\0';
    atomic_store(&device->life, URO_DEVICE_STARTING);
    uro_unmapped_watch();
    if (create_thread(device) == 0)
        return;
    (void)snprintf(device->problem, sizeof device->problem,
                   "cannot create the service thread; see `ulimit -u`");
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
    if ((life == URO_DEVICE_IDLE || life == URO_DEVICE_FAILED) && !device->engine_stuck)
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
    const struct uro_conn_handlers *connections = uro_host_conn_handlers();

    if (connections != NULL)
        connections->removed(device);
    if (!atomic_exchange(&device->gone, true))
        uro_host_event_handlers()->port_event(device, URO_PORT_GONE);
    const bool ended = !running || finish_engines(device);
    bool in_use = uro_quota_in_use(device);
    for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine) {
        engine->generation = URO_FORK_NEVER;
        in_use |= atomic_load(&engine->shared.waiters) > 0;
    }
    uro_quota_removed(device);
    for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine) {
        const bool ran = atomic_exchange(&engine->life, URO_DEVICE_FAILED) == URO_DEVICE_RUNNING;
        if (!ran || !ended || in_use)
            continue;
        engine->port = NULL; /* finish() has closed it */
        take_down(engine);
    }
}

/* ---- state ------------------------------------------------------------------ */

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

uint32_t uro_device_speed(const struct uro_device *device)
{
    return uro_device_started(device) ? device->speed : uro_netdev_speed(&device->config);
}

bool uro_device_gone(const struct uro_device *device)
{
    return atomic_load_explicit(&device->gone, memory_order_acquire);
}

/* A link that awaits its peer counts as up before the peer comes for the first time. Otherwise the
 * first program on a link of two processes would find no active port. */
bool uro_device_link_up(const struct uro_device *device)
{
    if (!uro_device_started(device))
        return uro_netdev_is_up(&device->config);
    if (atomic_load(&device->engines_down) == 0)
        return true;
    return !device->closed && device->awaits_peer && !device->link_was_up;
}

struct uro_device *uro_device_of_parent(const struct uro_device *device)
{
    return device->parent_device;
}

struct uro_device *uro_device_next_engine(const struct uro_device *engine)
{
    return engine->next_engine;
}

struct uro_device *uro_device_first_engine(struct uro_device *engine)
{
    return engine->first_engine;
}

struct uro_device *uro_device_engine_of_vector(struct uro_device *device, uint32_t vector)
{
    for (uint32_t i = vector % uro_device_engines_running(device); i > 0; i--)
        device = device->next_engine;
    return device;
}

uint32_t uro_device_engines_running(const struct uro_device *device)
{
    return atomic_load_explicit(&device->engines_running, memory_order_relaxed);
}

uint64_t uro_device_counter(struct uro_device *device, enum uro_counter counter)
{
    uint64_t sum = 0;

    for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine) {
        if (!uro_device_started(engine))
            continue;
        uro_device_lock(engine);
        sum += uro_engine_counters(uro_device_engine(engine))->value[counter];
        uro_device_unlock(engine);
    }
    return sum;
}

uint32_t uro_device_engine_index(const struct uro_device *engine)
{
    return engine->engine_index;
}

/* Takes all locks before an engine sends, so that a thread holds them only briefly. */
void uro_device_lock_all(struct uro_device *device)
{
    for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine)
        uro_progress_lock(engine);
    for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine) {
        engine->sent_posts = uro_device_started(engine) && uro_engine_rung(engine->engine);
        if (engine->sent_posts)
            (void)uro_round_send(engine, uro_device_now());
    }
}

/* A change of the registered memory queues no packet. So an engine is woken only if threads have
 * posted requests, which may need a timer or may have completed. */
void uro_device_unlock_all(struct uro_device *device)
{
    for (struct uro_device *engine = device; engine != NULL; engine = engine->next_engine) {
        const bool runs = uro_device_started(engine);
        const bool sent_posts = engine->sent_posts;
        if (sent_posts)
            uro_engine_deliver(engine->engine);
        (void)pthread_mutex_unlock(&engine->mutex);
        if (sent_posts || (runs && uro_engine_rung(engine->engine)))
            uro_service_wake(engine);
    }
}

uint32_t uro_device_interface(const struct uro_device *device)
{
    const char *option = strstr(device->config.link, ",iface=");
    char name[IF_NAMESIZE] = "";

    if (option == NULL || sscanf(option, ",iface=%15[^,]", name) != 1)
        return 0;
    return if_nametoindex(name);
}

/* ---- calls that fail on purpose ---------------------------------------------- */

bool uro_device_injects(const struct uro_device *device)
{
    return device->config.fail.count > 0;
}

const struct uro_inject_rule *uro_device_count_call(struct uro_device *device,
                                                    enum uro_inject_call call, uint32_t *count)
{
    const struct uro_inject_plan *plan = &device->config.fail;
    const struct uro_inject_rule *found = NULL;

    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->rules[i].call != call)
            continue;
        const uint32_t number = atomic_fetch_add(&device->fail_calls[i], 1) + 1;
        if (found == NULL && uro_inject_matches(&plan->rules[i], number)) {
            found = &plan->rules[i];
            *count = number;
        }
    }
    return found;
}

/* ---- requests to the port ---------------------------------------------------- */

int uro_device_lock_service(struct uro_device *device, const struct uro_listened *service)
{
    if (device->closed)
        return 0;
    return uro_port_lock_service(device->port, service);
}

/* A program may destroy a listener after its devices have ended. */
void uro_device_unlock_service(struct uro_device *device, const struct uro_listened *service)
{
    if (!device->closed)
        uro_port_unlock_service(device->port, service);
}

uint32_t uro_device_route_mtu(struct uro_device *device, const struct uro_gid *from,
                              const struct uro_gid *to)
{
    if (device->closed)
        return 0;
    return uro_port_route_mtu(device->port, from, to);
}

uint32_t uro_device_groups_max(const struct uro_device *device)
{
    const uint32_t own = uro_port_driver_has(device->config.driver, URO_DRIVER_KERNEL_ADDRESSES)
                             ? URO_PORT_GROUPS_MAX
                             : URO_MCAST_GROUPS_MAX;

    return (uint32_t)uro_card_limit(&device->config.card, URO_CARD_MAX_MCAST_GRP, own);
}

void uro_device_check_path(struct uro_device *device, uint32_t from, const struct uro_gid *to,
                           uint32_t payload)
{
    char text[URO_GID_TEXT_MAX];

    /* A query of the kernel takes 10 us, and most connections have the same peer as the previous
     * connection. */
    if (device->path_warned || uro_gid_equal(&device->path_checked, to))
        return;
    device->path_checked = *to;
    uint32_t mtu = uro_device_route_mtu(device, &device->config.gids[from], to);
    if (mtu == 0 || mtu >= payload + URO_ROCE_OVERHEAD)
        return;
    device->path_warned = true;
    fprintf(stderr,
            "uroce: %s: the path to %s carries IP packets of at most %u bytes; set mtu=%u, or "
            "choose a smaller path MTU in the program\n",
            device->config.name, uro_gid_text(to, text), mtu, mtu);
}
