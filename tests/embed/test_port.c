/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port.c - tests plain verbs over a driver of the test program. The frames of two devices go
 * through queues of this test. */
#include "support/check.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <uroce/port.h>
#include <uroce/uroce.h>

#include "embed/side.h"

#define SLOTS 256u
#define ROOM  1518u

/* The frames in flight to one side. */
struct lane {
    uint8_t bytes[SLOTS][ROOM];
    uint32_t lengths[SLOTS];
    unsigned head, tail;
    int fd; /* readable while a frame waits */
};

static struct lane lanes[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned opened, closed, carried;
static uint32_t mtu; /* MTU argument of the last open() */

/* "toy,lane=0": receives from that lane and sends into the other lane. */
static int open_port(void *user, const struct uroce_port_config *config, void **port, char *error,
                     size_t error_size)
{
    const char *lane = strstr(config->link, "lane=");

    assert_ptr_equal(user, lanes);
    mtu = config->mtu;
    if (lane == NULL || (lane[5] != '0' && lane[5] != '1')) {
        (void)snprintf(error, error_size, "link toy: lane=0 or lane=1 is missing");
        return -EINVAL;
    }
    *port = &lanes[lane[5] - '0'];
    opened++;
    return 0;
}

static void close_port(void *port)
{
    (void)port;
    closed++;
}

static uint32_t receive(void *port, struct uroce_packet *packets, uint32_t max)
{
    struct lane *lane = port;
    uint32_t count = 0;

    (void)pthread_mutex_lock(&lock);
    for (; count < max && lane->head + count != lane->tail; count++)
        packets[count] =
            (struct uroce_packet){ .bytes = lane->bytes[(lane->head + count) % SLOTS],
                                   .length = lane->lengths[(lane->head + count) % SLOTS] };
    (void)pthread_mutex_unlock(&lock);
    return count;
}

static void release(void *port, const struct uroce_packet *packets, uint32_t count)
{
    struct lane *lane = port;
    uint64_t rings;

    (void)packets;
    (void)pthread_mutex_lock(&lock);
    lane->head += count;
    if (lane->head == lane->tail)
        (void)!read(lane->fd, &rings, sizeof rings);
    (void)pthread_mutex_unlock(&lock);
}

/* Receives for a driver without release(). The slots are used again only much later. */
static uint32_t receive_and_release(void *port, struct uroce_packet *packets, uint32_t max)
{
    const uint32_t count = receive(port, packets, max);

    release(port, packets, count);
    return count;
}

static struct lane *other(void *port)
{
    return port == &lanes[0] ? &lanes[1] : &lanes[0];
}

static uint32_t tx_free_count(void *port)
{
    (void)pthread_mutex_lock(&lock);
    const uint32_t left = SLOTS - (other(port)->tail - other(port)->head);
    (void)pthread_mutex_unlock(&lock);
    return left;
}

static void transmit(void *port, const struct uroce_packet *packets, uint32_t count)
{
    struct lane *lane = other(port);
    const uint64_t one = 1;

    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < count; i++, lane->tail++) {
        memcpy(lane->bytes[lane->tail % SLOTS], packets[i].bytes, packets[i].length);
        lane->lengths[lane->tail % SLOTS] = packets[i].length;
    }
    carried += count;
    (void)!write(lane->fd, &one, sizeof one);
    (void)pthread_mutex_unlock(&lock);
}

static int wait_fd(void *port)
{
    return ((struct lane *)port)->fd;
}

static const struct uroce_port_ops ops = { .size = sizeof ops,
                                           .open = open_port,
                                           .close = close_port,
                                           .receive = receive,
                                           .release = release,
                                           .tx_free_count = tx_free_count,
                                           .transmit = transmit,
                                           .wait_fd = wait_fd };

/* A driver with only the functions that each driver needs. */
static const struct uroce_port_ops least_ops = { .size = sizeof least_ops,
                                                 .open = open_port,
                                                 .close = close_port,
                                                 .receive = receive_and_release,
                                                 .transmit = transmit };

static void add_device(const char *name, const char *driver, unsigned lane)
{
    char device[64], error[UROCE_ERROR_MAX];

    (void)snprintf(device, sizeof device, "%s:%s,lane=%u;ip=10.0.0.%u/24", name, driver, lane,
                   lane + 1);
    assert_int_equal(uroce_device_add(device, error, sizeof error), 0);
}

/* Sends a message between two devices of the driver, while the receiver sleeps. */
static void exchange(const char *driver)
{
    struct side *one = calloc(1, sizeof *one), *two = calloc(1, sizeof *two);
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    opened = closed = carried = 0;
    add_device("one", driver, 0);
    add_device("two", driver, 1);
    side_open(one, "one", IBV_QPT_UC);
    side_open(two, "two", IBV_QPT_UC);
    side_connect(one, two);
    side_connect(two, one);
    struct ibv_sge from = { (uintptr_t)one->buffer, sizeof one->buffer, one->mr->lkey };
    struct ibv_sge to = { (uintptr_t)two->buffer, sizeof two->buffer, two->mr->lkey };
    struct ibv_send_wr send = { .sg_list = &from,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad;
    struct ibv_recv_wr receive_wr = { .sg_list = &to, .num_sge = 1 }, *bad_receive;

    memset(one->buffer, 'x', sizeof one->buffer);
    assert_int_equal(ibv_req_notify_cq(two->cq, 0), 0);
    assert_int_equal(ibv_post_recv(two->qp, &receive_wr, &bad_receive), 0);
    assert_int_equal(ibv_post_send(one->qp, &send, &bad), 0);
    assert_int_equal(ibv_get_cq_event(two->channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(ibv_poll_cq(two->cq, 1, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, sizeof one->buffer);
    assert_memory_equal(one->buffer, two->buffer, sizeof one->buffer);
    assert_true(carried >= 4);
    side_close(one);
    side_close(two);
    assert_int_equal(opened, 2);
    assert_int_equal(mtu, 1500);
    assert_int_equal(uroce_device_remove("one"), 0);
    assert_int_equal(uroce_device_remove("two"), 0);
    assert_int_equal(closed, 2);
    free(one);
    free(two);
}

/* A frame wakes the device of the receiver through the descriptor of the driver. */
static void port__message__goes_through_the_driver(void **state)
{
    (void)state;
    exchange("toy");
}

static void port__only_mandatory_operations__others_have_defaults(void **state)
{
    (void)state;
    exchange("least");
}

static void port__open_fails__the_verb_fails(void **state)
{
    (void)state;
    assert_int_equal(uroce_device_add("three:toy;ip=10.0.0.3/24", NULL, 0), 0);
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    assert_null(ibv_create_cq(context, 4, NULL, NULL, 0));
    assert_int_equal(errno, ENODEV);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(uroce_device_remove("three"), 0);
}

/* A driver of the program may have a name that begins like the name of a driver of uroce. */
static void port__name_similar_to_a_built_in_link__is_accepted(void **state)
{
    static const char *const names[] = { "net_af_toy", "cable_toy" };
    char device[64], error[UROCE_ERROR_MAX];

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(uroce_port_add(names[i], &ops, lanes), 0);
        (void)snprintf(device, sizeof device, "four:%s,lane=0;ip=10.0.0.4/24", names[i]);
        assert_int_equal(uroce_device_add(device, error, sizeof error), 0);
        struct ibv_context *context = side_open_device("four");
        struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
        assert_non_null(cq);
        assert_int_equal(mtu, 1500);
        assert_int_equal(ibv_destroy_cq(cq), 0);
        assert_int_equal(ibv_close_device(context), 0);
        assert_int_equal(uroce_device_remove("four"), 0);
    }
}

static void port_add__wrong_argument__refused(void **state)
{
    struct uroce_port_ops wrong = ops;
    char name[] = "toy0";

    (void)state;
    assert_int_equal(uroce_port_add(NULL, &ops, NULL), -EINVAL);
    assert_int_equal(uroce_port_add("toy2", NULL, NULL), -EINVAL);
    assert_int_equal(uroce_port_add("", &ops, NULL), -EINVAL);
    assert_int_equal(uroce_port_add("Toy", &ops, NULL), -EINVAL);
    assert_int_equal(uroce_port_add("toy,x", &ops, NULL), -EINVAL);
    assert_int_equal(uroce_port_add("toy4567890123456", &ops, NULL), -EINVAL);
    wrong.transmit = NULL;
    assert_int_equal(uroce_port_add("toy2", &wrong, NULL), -EINVAL);
    wrong = ops;
    wrong.size = 16;
    assert_int_equal(uroce_port_add("toy2", &wrong, NULL), -EINVAL);
    assert_int_equal(uroce_port_add("toy", &ops, NULL), -EEXIST);
    assert_int_equal(uroce_port_add("udp", &ops, NULL), -EEXIST);
    assert_int_equal(uroce_port_add("cable", &ops, NULL), -EEXIST);
    assert_int_equal(uroce_port_add("net_memif", &ops, NULL), -EEXIST);
    for (; name[3] < '4'; name[3]++)
        assert_int_equal(uroce_port_add(name, &ops, NULL), 0);
    assert_int_equal(uroce_port_add(name, &ops, NULL), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(port__message__goes_through_the_driver),
        cmocka_unit_test(port__only_mandatory_operations__others_have_defaults),
        cmocka_unit_test(port__open_fails__the_verb_fails),
        cmocka_unit_test(port__name_similar_to_a_built_in_link__is_accepted),
        cmocka_unit_test(port_add__wrong_argument__refused),
    };

    for (unsigned i = 0; i < 2; i++)
        lanes[i].fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (uroce_port_add("toy", &ops, lanes) != 0 || uroce_port_add("least", &least_ops, lanes) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
