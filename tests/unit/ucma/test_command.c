/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands as librdmacm writes them, without any device. */
#include "support/check.h"

#include <errno.h>
#include <string.h>

#include "ucma/command.h"

/* A header, the command, and what a newer librdmacm might add. */
struct packet {
    struct rdma_ucm_cmd_hdr header;
    uint8_t body[512];
};

static struct uro_channel *channel;

static int open_channel(void **state)
{
    int fd = uro_channel_open(true);

    (void)state;
    assert_true(fd >= 0);
    channel = uro_channel_get(fd);
    assert_non_null(channel);
    return 0;
}

static int close_channel(void **state)
{
    int fd = uro_channel_fd(channel);

    (void)state;
    while (!uro_list_empty(&channel->ids))
        (void)uro_id_destroy(URO_CONTAINER_OF(channel->ids.head.next, struct uro_id, channel_link));
    assert_ptr_equal(uro_channel_forget(fd), channel);
    assert_null(uro_channel_get(fd));
    uro_channel_put(channel);
    uro_channel_put(channel);
    return 0;
}

/* 0 or the errno of a command with @in octets of body and @out octets of room. */
static int run(uint32_t command, const void *body, uint16_t in, uint16_t out)
{
    struct packet packet = { .header = { .cmd = command, .in = in, .out = out } };
    ssize_t size = (ssize_t)(sizeof packet.header + in);

    memcpy(packet.body, body, in);
    errno = 0;
    ssize_t written = uro_command_write(channel, &packet, (size_t)size);
    assert_true(written == size || written == -1);
    return written == size ? 0 : errno;
}

static int create(uint16_t space, uint32_t *number)
{
    struct rdma_ucm_create_id_resp out = { .id = UINT32_MAX };
    const struct rdma_ucm_create_id in = { .uid = 7, .response = (uintptr_t)&out, .ps = space };
    int error = run(RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in, sizeof out);

    *number = out.id;
    return error;
}

static int destroy(uint32_t number)
{
    struct rdma_ucm_destroy_id_resp out;
    const struct rdma_ucm_destroy_id in = { .response = (uintptr_t)&out, .id = number };

    return run(RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof in, sizeof out);
}

static void malformed__is_einval__not_there__enosys(void **state)
{
    const uint8_t nothing[512] = { 0 };
    struct packet cut = { .header = { .cmd = RDMA_USER_CM_CMD_LISTEN, .in = 100 } };

    (void)state;
    assert_int_equal(uro_command_write(channel, &cut, 7), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(uro_command_write(channel, &cut, sizeof cut.header + 99), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(run(RDMA_USER_CM_CMD_LISTEN, nothing, 7, 0), EINVAL);
    assert_int_equal(run(1000, nothing, 64, 64), EINVAL);
    assert_int_equal(run(RDMA_USER_CM_CMD_GET_OPTION, nothing, 64, 64), ENOSYS);
}

/* Every command that names an identifier, with what it has at least. */
static void unknown_identifier__is_enoent(void **state)
{
    static const struct {
        uint32_t command;
        uint16_t size;
        size_t id_at;
    } all[] = {
        { RDMA_USER_CM_CMD_DESTROY_ID, sizeof(struct rdma_ucm_destroy_id),
          offsetof(struct rdma_ucm_destroy_id, id) },
        { RDMA_USER_CM_CMD_RESOLVE_ROUTE, sizeof(struct rdma_ucm_resolve_route),
          offsetof(struct rdma_ucm_resolve_route, id) },
        { RDMA_USER_CM_CMD_QUERY_ROUTE, sizeof(struct rdma_ucm_query),
          offsetof(struct rdma_ucm_query, id) },
        { RDMA_USER_CM_CMD_LISTEN, sizeof(struct rdma_ucm_listen),
          offsetof(struct rdma_ucm_listen, id) },
        { RDMA_USER_CM_CMD_ACCEPT, offsetof(struct rdma_ucm_accept, ece),
          offsetof(struct rdma_ucm_accept, id) },
        { RDMA_USER_CM_CMD_REJECT, sizeof(struct rdma_ucm_reject),
          offsetof(struct rdma_ucm_reject, id) },
        { RDMA_USER_CM_CMD_DISCONNECT, sizeof(struct rdma_ucm_disconnect),
          offsetof(struct rdma_ucm_disconnect, id) },
        { RDMA_USER_CM_CMD_INIT_QP_ATTR, sizeof(struct rdma_ucm_init_qp_attr),
          offsetof(struct rdma_ucm_init_qp_attr, id) },
        { RDMA_USER_CM_CMD_SET_OPTION, sizeof(struct rdma_ucm_set_option),
          offsetof(struct rdma_ucm_set_option, id) },
        { RDMA_USER_CM_CMD_NOTIFY, sizeof(struct rdma_ucm_notify),
          offsetof(struct rdma_ucm_notify, id) },
        { RDMA_USER_CM_CMD_LEAVE_MCAST, sizeof(struct rdma_ucm_destroy_id),
          offsetof(struct rdma_ucm_destroy_id, id) },
        { RDMA_USER_CM_CMD_QUERY, sizeof(struct rdma_ucm_query),
          offsetof(struct rdma_ucm_query, id) },
    };
    const uint32_t nobody = 4711;

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(all); i++) {
        uint8_t body[512] = { 0 };
        memcpy(body + all[i].id_at, &nobody, sizeof nobody);
        assert_int_equal(run(all[i].command, body, all[i].size, 512), ENOENT);
    }
}

static void no_room_for_the_answer__is_enospc__and_makes_nothing(void **state)
{
    struct rdma_ucm_create_id_resp out;
    const struct rdma_ucm_create_id in = { .response = (uintptr_t)&out, .ps = RDMA_PS_TCP };
    const struct rdma_ucm_get_event wait = { 0 };

    (void)state;
    assert_int_equal(run(RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in, 3), ENOSPC);
    assert_true(uro_list_empty(&channel->ids));
    assert_int_equal(run(RDMA_USER_CM_CMD_GET_EVENT, &wait, sizeof wait, 100), ENOSPC);
    assert_int_equal(run(RDMA_USER_CM_CMD_GET_EVENT, &wait, sizeof wait, 512), EAGAIN);
}

/* librdmacm keeps a table of 65536 by them. */
static void numbers__are_the_lowest_that_are_free(void **state)
{
    uint32_t number, other;

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(create(RDMA_PS_TCP, &number), 0);
        assert_int_equal(number, i);
    }
    assert_int_equal(destroy(150), 0);
    assert_int_equal(destroy(9), 0);
    assert_int_equal(destroy(9), ENOENT);
    assert_int_equal(create(RDMA_PS_UDP, &other), 0);
    assert_int_equal(other, 9);
    assert_int_equal(create(RDMA_PS_IB, &other), 0);
    assert_int_equal(other, 150);
    assert_int_equal(create(0x7777, &other), EINVAL);
}

static void longer_command__of_a_newer_library__is_taken(void **state)
{
    uint8_t body[512] = { 0 };
    uint32_t number;
    const uint32_t all = 4;

    (void)state;
    assert_int_equal(create(RDMA_PS_TCP, &number), 0);
    memcpy(body, &number, sizeof number);
    memset(body + sizeof(struct rdma_ucm_notify), 0xff, 64);
    memcpy(body + offsetof(struct rdma_ucm_notify, event), &all, sizeof all);
    assert_int_equal(run(RDMA_USER_CM_CMD_NOTIFY, body, sizeof(struct rdma_ucm_notify) + 64, 0),
                     EINVAL); /* understood: there is no connection */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)
    const struct CMUnitTest tests[] = {
        TEST(malformed__is_einval__not_there__enosys),
        TEST(unknown_identifier__is_enoent),
        TEST(no_room_for_the_answer__is_enospc__and_makes_nothing),
        TEST(numbers__are_the_lowest_that_are_free),
        TEST(longer_command__of_a_newer_library__is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
