/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - see port.h.
 *
 * One lock protects all cables. It is held while a burst of frames is copied. An eventfd wakes a
 * sleeping receiver when a frame is sent to it. A timerfd wakes the receiver when a delayed frame
 * is due.
 */
#define _GNU_SOURCE /* clock_gettime, timerfd, MAP_NORESERVE */
#include "io/cable/port.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "impair/queue.h"
#include "io/cable/faults.h"

#define ETHER_OVERHEAD 18u /* Ethernet header and one VLAN tag */
#define NS_PER_S       1000000000u
#define DEVICE_MAX     32u

struct end {
    struct uro_port port;
    struct uro_link link; /* entry of `ends` */
    char device[DEVICE_MAX];
    struct uro_cable_faults faults; /* faults of the frames that this end sends */
    struct end *other;              /* NULL: the other device has not opened its end */
    struct uro_impair_plan plan;    /* plan made from `faults` */
    struct uro_impair_flow flow;    /* all frames that this end sends */
    struct uro_impair_queue queue;  /* frames to this end */
    struct uro_impair_entry ring[URO_CABLE_SLOTS]; /* entries of `queue` */
    uint64_t counts[URO_CABLE_COUNT];
    int wake, timer; /* file descriptors: eventfd, timerfd */
    bool armed;      /* the next frame must wake the receiver */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct uro_list ends; /* head.next is NULL before the first end exists */

static struct end *end_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct end, port);
}

static uro_time clock_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uro_time)now.tv_sec * NS_PER_S + (uro_time)now.tv_nsec;
}

static void wake(const struct end *end)
{
    const uint64_t one = 1;

    (void)!write(end->wake, &one, sizeof one);
}

static bool is_up(const struct end *end)
{
    return end->other != NULL && end->faults.plugged && end->other->faults.plugged;
}

/* ---- frames ------------------------------------------------------------- */

/* Lends at most @max frames that are due. Returns the number of frames. */
static uint32_t lend(struct uro_impair_queue *queue, uro_time now, struct uro_pkt *pkts,
                     uint32_t max)
{
    const uint32_t count = uro_impair_queue_ready(queue, now, max);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t length;
        const uint8_t *frame = uro_impair_queue_frame(queue, i, &length);
        pkts[i] = (struct uro_pkt){ .octets = frame, .length = length };
    }
    return count;
}

static uint32_t receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    struct end *end = end_of(port);
    uint32_t count = 0;

    (void)pthread_mutex_lock(&lock);
    if (end->queue.count > 0)
        count = lend(&end->queue, clock_now(), pkts, max);
    (void)pthread_mutex_unlock(&lock);
    return count;
}

static void release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)pkts;
    (void)pthread_mutex_lock(&lock);
    uro_impair_queue_drop(&end_of(port)->queue, count);
    (void)pthread_mutex_unlock(&lock);
}

/* Returns half of the free slots, because each frame may be duplicated. */
static uint32_t tx_free_count(struct uro_port *port)
{
    const struct end *end = end_of(port);
    uint32_t free_slots = URO_CABLE_SLOTS;

    (void)pthread_mutex_lock(&lock);
    if (is_up(end))
        free_slots -= end->other->queue.count;
    (void)pthread_mutex_unlock(&lock);
    return free_slots / 2 < URO_PORT_BURST ? free_slots / 2 : URO_PORT_BURST;
}

static void send(struct end *end, const struct uro_tx *tx, uro_time now)
{
    struct uro_impair_queue *queue = &end->other->queue;
    struct uro_impair_fate fate;

    uro_impair_fate_draw(&end->plan, &end->flow, &fate);
    end->counts[URO_CABLE_SENT]++;
    end->counts[URO_CABLE_LOST] += fate.lost;
    if (fate.lost)
        return;
    uro_tx_write(tx, uro_impair_queue_put(queue, uro_tx_length(tx), now + fate.delay));
    if (fate.duplicated)
        uro_impair_queue_repeat(queue);
    if (fate.overtaken)
        uro_impair_queue_hold(queue);
    end->counts[URO_CABLE_DUPLICATED] += fate.duplicated;
    end->counts[URO_CABLE_REORDERED] += fate.overtaken;
}

/* Returns whether the frame has space. The other end may have opened or closed since
 * tx_free_count(). */
static bool has_room(const struct end *end, const struct uro_tx *tx)
{
    return is_up(end) && end->other->queue.count + 2 <= URO_CABLE_SLOTS &&
           uro_tx_length(tx) <= end->other->queue.slot_size;
}

static void transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    struct end *end = end_of(port);
    const uro_time now = clock_now();

    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++)
        if (has_room(end, &tx[i]))
            send(end, &tx[i], now);
        else
            end->counts[URO_CABLE_NOWHERE]++;
    if (end->other != NULL && end->other->armed) {
        end->other->armed = false;
        wake(end->other);
    }
    (void)pthread_mutex_unlock(&lock);
}

/* ---- sleeping ----------------------------------------------------------- */

static uint32_t wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    fds[0] = end_of(port)->wake;
    fds[1] = end_of(port)->timer;
    return 2;
}

/* Sets the timer, or stops it with URO_TIME_NEVER. Both discard an expiration that was not read. */
static void set_timer(const struct end *end, uro_time due)
{
    const struct itimerspec when = { .it_value = { .tv_sec = (time_t)(due / NS_PER_S),
                                                   .tv_nsec = (long)(due % NS_PER_S) } };
    const struct itimerspec never = { .it_value = { 0 } };

    (void)timerfd_settime(end->timer, TFD_TIMER_ABSTIME, due == URO_TIME_NEVER ? &never : &when,
                          NULL);
}

static bool arm(struct uro_port *port)
{
    struct end *end = end_of(port);

    (void)pthread_mutex_lock(&lock);
    const uro_time due = uro_impair_queue_due(&end->queue);
    end->armed = due == URO_TIME_NEVER || due > clock_now();
    if (end->armed && due != URO_TIME_NEVER)
        set_timer(end, due);
    const bool armed = end->armed;
    (void)pthread_mutex_unlock(&lock);
    return armed;
}

static void disarm(struct uro_port *port)
{
    struct end *end = end_of(port);
    uint64_t count;

    (void)pthread_mutex_lock(&lock);
    end->armed = false;
    (void)!read(end->wake, &count, sizeof count);
    set_timer(end, URO_TIME_NEVER);
    (void)pthread_mutex_unlock(&lock);
}

static bool link_up(struct uro_port *port)
{
    (void)pthread_mutex_lock(&lock);
    const bool up = is_up(end_of(port));
    (void)pthread_mutex_unlock(&lock);
    return up;
}

/* ---- opening and closing ------------------------------------------------ */

static void close_descriptors(struct end *end)
{
    if (end->wake >= 0)
        (void)close(end->wake);
    if (end->timer >= 0)
        (void)close(end->timer);
    end->wake = end->timer = -1;
}

static void free_end(struct end *end)
{
    close_descriptors(end);
    if (end->queue.memory != NULL)
        (void)munmap(end->queue.memory, (size_t)URO_CABLE_SLOTS * end->queue.slot_size);
    free(end);
}

static void close_port(struct uro_port *port)
{
    struct end *end = end_of(port);

    (void)pthread_mutex_lock(&lock);
    uro_list_remove(&end->link);
    if (end->other != NULL) {
        end->other->other = NULL;
        wake(end->other);
    }
    (void)pthread_mutex_unlock(&lock);
    free_end(end);
}

/* Removes all ends from the list, because the child opens its own ends. The lock is initialized
 * again, because a thread of the parent may have held it. */
static void forked(struct uro_port *port)
{
    close_descriptors(end_of(port));
    (void)pthread_mutex_init(&lock, NULL);
    uro_list_init(&ends);
}

static const struct uro_port_ops ops = {
    .datapath = { .receive = receive,
                  .release = release,
                  .tx_free_count = tx_free_count,
                  .transmit = transmit },
    .sleep = { .wait_fds = wait_fds, .arm = arm, .disarm = disarm },
    .control = { .close = close_port, .forked = forked, .link_up = link_up },
};

/* Connects @end to the other end with the same name. Returns false when that cable has two ends
 * already. The lock is held. */
static bool join(struct end *end)
{
    if (ends.head.next == NULL)
        uro_list_init(&ends);
    for (struct uro_link *link = ends.head.next; link != &ends.head; link = link->next) {
        struct end *other = URO_CONTAINER_OF(link, struct end, link);
        if (strcmp(other->faults.name, end->faults.name) != 0)
            continue;
        if (other->other != NULL)
            return false;
        other->other = end;
        end->other = other;
        wake(other);
        break;
    }
    uro_list_append(&ends, &end->link);
    return true;
}

/* Allocates the queue. The kernel allocates each page at its first use. */
static bool make_queue(struct end *end, uint32_t frame_max)
{
    void *memory = mmap(NULL, (size_t)URO_CABLE_SLOTS * frame_max, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    uro_impair_queue_init(&end->queue, end->ring, memory, URO_CABLE_SLOTS, frame_max);
    return true;
}

/* Uses the faults from now on. @restart: frames are counted from 0 again. */
static void use_faults(struct end *end, const struct uro_cable_faults *faults, bool restart)
{
    const uint64_t count = restart ? 0 : end->flow.count;

    end->faults = *faults;
    uro_cable_faults_plan(faults, &end->plan);
    uro_cable_faults_flow(&end->plan, &end->flow);
    end->flow.count = count;
}

static struct end *make(const struct uro_port_config *config, char error[static URO_PORT_ERROR_MAX])
{
    struct end *end = calloc(1, sizeof *end);
    uint32_t mtu = config->mtu == 0 ? URO_PORT_MTU_MEMORY : config->mtu;

    if (end == NULL)
        return NULL;
    mtu = mtu < URO_PORT_MTU_MAX ? mtu : URO_PORT_MTU_MAX;
    end->port = (struct uro_port){ .ops = &ops,
                                   .mac = config->mac,
                                   .mtu = mtu,
                                   .flags = URO_PORT_AWAITS_PEER | URO_PORT_WAKES_DOWN };
    (void)snprintf(end->device, sizeof end->device, "%s", config->device);
    uro_cable_faults_init(&end->faults);
    end->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    end->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (end->wake >= 0 && end->timer >= 0 && make_queue(end, mtu + ETHER_OVERHEAD))
        return end;
    (void)snprintf(error, URO_PORT_ERROR_MAX,
                   "link cable: no memory or no file descriptor is left");
    free_end(end);
    return NULL;
}

struct uro_port *uro_cable_port_open(const struct uro_port_config *config,
                                     char error[static URO_PORT_ERROR_MAX])
{
    (void)snprintf(error, URO_PORT_ERROR_MAX, "link cable: out of memory");
    struct end *end = make(config, error);
    bool joined = false;

    if (end == NULL)
        return NULL;
    struct uro_cable_faults faults = end->faults;
    if (uro_cable_faults_read(&faults, config->link, error) != 0) {
        free_end(end);
        return NULL;
    }
    use_faults(end, &faults, true);
    if (end->faults.name[0] == '\0') {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link cable: name=TEXT is missing; give both ends the same name");
    } else {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link cable: name=%s: two other devices use this cable; choose another name",
                       end->faults.name);
        (void)pthread_mutex_lock(&lock);
        joined = join(end);
        (void)pthread_mutex_unlock(&lock);
    }
    if (joined)
        return &end->port;
    free_end(end);
    return NULL;
}

/* ---- from outside ------------------------------------------------------- */

/* Returns the end of @device, or NULL. The lock is held. */
static struct end *find(const char *device)
{
    for (struct uro_link *link = ends.head.next; link != NULL && link != &ends.head;
         link = link->next)
        if (strcmp(URO_CONTAINER_OF(link, struct end, link)->device, device) == 0)
            return URO_CONTAINER_OF(link, struct end, link);
    return NULL;
}

static int set(struct end *end, const char *link, char error[static URO_PORT_ERROR_MAX])
{
    struct uro_cable_faults faults = end->faults;

    faults.name[0] = '\0';
    if (uro_cable_faults_read(&faults, link, error) != 0)
        return -EINVAL;
    if (faults.name[0] != '\0') {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link cable: the name of a cable cannot be changed; leave out name=");
        return -EINVAL;
    }
    memcpy(faults.name, end->faults.name, sizeof faults.name);
    use_faults(end, &faults, strstr(link, ",seed=") != NULL);
    wake(end);
    if (end->other != NULL)
        wake(end->other);
    return 0;
}

int uro_cable_port_set(const char *device, const char *options,
                       char error[static URO_PORT_ERROR_MAX])
{
    char whole[URO_PORT_ERROR_MAX];
    int result = -ENODEV;

    const int length = snprintf(whole, sizeof whole, "cable,%s", options);
    (void)snprintf(
        error, URO_PORT_ERROR_MAX,
        "device %.31s has no open cable; use a device with link cable after its first CQ exists",
        device);
    (void)pthread_mutex_lock(&lock);
    struct end *end = find(device);
    if (end != NULL && (size_t)length >= sizeof whole) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link cable: the description is too long");
        result = -EINVAL;
    } else if (end != NULL) {
        result = set(end, whole, error);
    }
    (void)pthread_mutex_unlock(&lock);
    return result;
}

int uro_cable_port_count(const char *device, enum uro_cable_count which, uint64_t *value)
{
    (void)pthread_mutex_lock(&lock);
    const struct end *end = find(device);
    if (end != NULL)
        *value = end->counts[which];
    (void)pthread_mutex_unlock(&lock);
    return end != NULL ? 0 : -ENODEV;
}
