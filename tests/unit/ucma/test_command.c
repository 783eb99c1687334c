/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests commands as librdmacm writes them, without a device. */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ucma/cm_event.h"
#include "ucma/newer.h"

/* A header, the command, and space for fields of a newer librdmacm. */
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

/* Runs a command with @in bytes of body and space for @out bytes of response. Returns 0 or the
 * errno. */
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

static void command__malformed_or_unknown__is_einval_or_enosys(void **state)
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

/* Each command that contains an identifier: its size, the offset of the identifier, and valid
 * values for the other fields. */
struct form {
    uint32_t command;
    uint16_t size;
    size_t id_at;
    size_t set_at; /* offset of a field that must not be 0; 0: there is none */
    uint16_t set_to;
    size_t more_at;
    uint16_t more_to;
};

#define FORM(name, fields)                                                                         \
    RDMA_USER_CM_CMD_##name, sizeof(struct fields), offsetof(struct fields, id)

static const struct form forms[] = {
    { FORM(DESTROY_ID, rdma_ucm_destroy_id), 0, 0, 0, 0 },
    { FORM(BIND_IP, rdma_ucm_bind_ip), offsetof(struct rdma_ucm_bind_ip, addr), AF_INET, 0, 0 },
    { FORM(RESOLVE_IP, rdma_ucm_resolve_ip), offsetof(struct rdma_ucm_resolve_ip, dst_addr),
      AF_INET, 0, 0 },
    { FORM(RESOLVE_ROUTE, rdma_ucm_resolve_route), 0, 0, 0, 0 },
    { FORM(QUERY_ROUTE, rdma_ucm_query), 0, 0, 0, 0 },
    { RDMA_USER_CM_CMD_CONNECT, offsetof(struct rdma_ucm_connect, ece),
      offsetof(struct rdma_ucm_connect, id),
      offsetof(struct rdma_ucm_connect, conn_param.rnr_retry_count), 0x0100, 0, 0 },
    { FORM(LISTEN, rdma_ucm_listen), 0, 0, 0, 0 },
    { RDMA_USER_CM_CMD_ACCEPT, offsetof(struct rdma_ucm_accept, ece),
      offsetof(struct rdma_ucm_accept, id), 0, 0, 0, 0 },
    { FORM(REJECT, rdma_ucm_reject), 0, 0, 0, 0 },
    { FORM(DISCONNECT, rdma_ucm_disconnect), 0, 0, 0, 0 },
    { FORM(INIT_QP_ATTR, rdma_ucm_init_qp_attr), 0, 0, 0, 0 },
    { FORM(SET_OPTION, rdma_ucm_set_option), 0, 0, 0, 0 },
    { FORM(NOTIFY, rdma_ucm_notify), 0, 0, 0, 0 },
    { FORM(JOIN_IP_MCAST, rdma_ucm_join_ip_mcast), offsetof(struct rdma_ucm_join_ip_mcast, addr),
      AF_INET, 0, 0 },
    { FORM(LEAVE_MCAST, rdma_ucm_destroy_id), 0, 0, 0, 0 },
    { FORM(QUERY, rdma_ucm_query), 0, 0, 0, 0 },
    { FORM(BIND, rdma_ucm_bind), offsetof(struct rdma_ucm_bind, addr), AF_INET,
      offsetof(struct rdma_ucm_bind, addr_size), sizeof(struct sockaddr_in) },
    { FORM(RESOLVE_ADDR, rdma_ucm_resolve_addr), offsetof(struct rdma_ucm_resolve_addr, dst_addr),
      AF_INET, offsetof(struct rdma_ucm_resolve_addr, dst_size), sizeof(struct sockaddr_in) },
    { FORM(JOIN_MCAST, rdma_ucm_join_mcast), offsetof(struct rdma_ucm_join_mcast, addr), AF_INET,
      offsetof(struct rdma_ucm_join_mcast, addr_size), sizeof(struct sockaddr_in) },
    { URO_NEWER_RESOLVE_IB_SERVICE, sizeof(struct uro_newer_resolve_ib_service),
      offsetof(struct uro_newer_resolve_ib_service, id), 0, 0, 0, 0 },
    { URO_NEWER_WRITE_CM_EVENT, sizeof(struct uro_newer_write_cm_event),
      offsetof(struct uro_newer_write_cm_event, id),
      offsetof(struct uro_newer_write_cm_event, event), URO_CM_EVENT_USER, 0, 0 },
};

static void fill(const struct form *form, uint32_t number, uint8_t body[static 512])
{
    memset(body, 0, 512);
    if (form->set_at != 0)
        memcpy(body + form->set_at, &form->set_to, sizeof form->set_to);
    if (form->more_at != 0)
        memcpy(body + form->more_at, &form->more_to, sizeof form->more_to);
    memcpy(body + form->id_at, &number, sizeof number);
}

static void command__unknown_identifier__is_enoent(void **state)
{
    uint8_t body[512];

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(forms); i++) {
        fill(&forms[i], 4711, body);
        assert_int_equal(run(forms[i].command, body, forms[i].size, 512), ENOENT);
    }
}

/* A command that is shorter than its fields must have no effect. */
static void cut_command__is_einval__and_nothing_is_done(void **state)
{
    uint8_t body[512];
    uint32_t number;

    (void)state;
    assert_int_equal(create(RDMA_PS_TCP, &number), 0);
    for (size_t i = 0; i < URO_ARRAY_LEN(forms); i++) {
        fill(&forms[i], number, body);
        for (uint16_t size = 0; size < forms[i].size; size++)
            assert_int_equal(run(forms[i].command, body, size, 512), EINVAL);
    }
    assert_int_equal(destroy(number), 0);
    assert_true(uro_list_empty(&channel->events));
}

static void command__identifier_of_another_channel__is_einval(void **state)
{
    struct uro_channel *here = channel, *other;
    uint8_t body[512];
    uint32_t number;
    int fd = uro_channel_open(true);

    (void)state;
    other = channel = uro_channel_get(fd);
    assert_int_equal(create(RDMA_PS_TCP, &number), 0);
    channel = here;
    for (size_t i = 0; i < URO_ARRAY_LEN(forms); i++) {
        if (forms[i].command == RDMA_USER_CM_CMD_LEAVE_MCAST)
            continue; /* its identifier is that of a group */
        fill(&forms[i], number, body);
        assert_int_equal(run(forms[i].command, body, forms[i].size, 512), EINVAL);
    }
    channel = other;
    assert_int_equal(destroy(number), 0);
    close_channel(NULL);
    close(fd);
    channel = here;
}

static int migrate(uint32_t number, int from)
{
    struct rdma_ucm_migrate_resp out;
    const struct rdma_ucm_migrate_id in = { .response = (uintptr_t)&out,
                                            .id = number,
                                            .fd = (uint32_t)from };

    return run(RDMA_USER_CM_CMD_MIGRATE_ID, &in, sizeof in, sizeof out);
}

static void migrate__fd_is_no_channel__fails(void **state)
{
    uint32_t number;

    (void)state;
    assert_int_equal(create(RDMA_PS_TCP, &number), 0);
    assert_int_equal(migrate(number, -1), ENOENT);
    assert_int_equal(migrate(number, STDIN_FILENO), EINVAL);
    assert_int_equal(migrate(4711, uro_channel_fd(channel)), ENOENT);
    assert_int_equal(migrate(number, uro_channel_fd(channel)), 0);
}

static int fetch(struct rdma_ucm_event_resp *event)
{
    const struct rdma_ucm_get_event in = { .response = (uintptr_t)event };

    return run(RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof in, sizeof *event);
}

static int write_event(uint32_t number, uint32_t kind, uint64_t argument)
{
    const struct uro_newer_write_cm_event in = {
        .id = number, .event = kind, .status = 5, .param.argument = argument
    };

    return run(URO_NEWER_WRITE_CM_EVENT, &in, sizeof in, 0);
}

static void write_cm_event__event_of_the_program__is_fetched_with_its_argument(void **state)
{
    const uint64_t argument = UINT64_C(0x0123456789abcdef);
    struct rdma_ucm_event_resp event;
    uint32_t number;
    uint64_t got;

    (void)state;
    assert_int_equal(create(RDMA_PS_UDP, &number), 0);
    assert_int_equal(write_event(number, URO_CM_EVENT_ESTABLISHED, argument), EINVAL);
    assert_int_equal(write_event(number, URO_CM_EVENT_INTERNAL + 1, argument), EINVAL);
    assert_int_equal(fetch(&event), EAGAIN);
    assert_int_equal(write_event(number, URO_CM_EVENT_USER, argument), 0);
    assert_int_equal(write_event(number, URO_CM_EVENT_INTERNAL, 1), 0);
    assert_int_equal(fetch(&event), 0);
    assert_int_equal(event.event, 18);
    assert_int_equal(event.status, 5);
    assert_int_equal(event.id, number);
    assert_int_equal(event.uid, 7);
    memcpy(&got, &event.param, sizeof got);
    assert_true(got == argument);
    assert_int_equal(fetch(&event), 0);
    assert_int_equal(event.event, 19);
}

/* There is no subnet administrator on RoCE. */
static void resolve_ib_service__any_name__is_not_found(void **state)
{
    struct uro_newer_query_ib_service out;
    struct rdma_ucm_query in = { .response = (uintptr_t)&out,
                                 .option = URO_NEWER_QUERY_IB_SERVICE };
    struct uro_newer_resolve_ib_service asked = { .flags = 1 };

    (void)state;
    assert_int_equal(create(RDMA_PS_TCP, &in.id), 0);
    asked.id = in.id;
    assert_int_equal(run(URO_NEWER_RESOLVE_IB_SERVICE, &asked, sizeof asked, 0), EINVAL);
    assert_int_equal(run(RDMA_USER_CM_CMD_QUERY, &in, sizeof in, sizeof out - 1), ENOSPC);
    assert_int_equal(run(RDMA_USER_CM_CMD_QUERY, &in, sizeof in, sizeof out), ENODATA);
    in.option++;
    assert_int_equal(run(RDMA_USER_CM_CMD_QUERY, &in, sizeof in, sizeof out), ENOSYS);
}

static int share(uint32_t number, int on)
{
    const struct rdma_ucm_set_option in = { .optval = (uintptr_t)&on,
                                            .id = number,
                                            .level = RDMA_OPTION_ID,
                                            .optname = RDMA_OPTION_ID_REUSEADDR,
                                            .optlen = sizeof on };

    return run(RDMA_USER_CM_CMD_SET_OPTION, &in, sizeof in, 0);
}

static void reuse__port_is_bound__cannot_be_cleared(void **state)
{
    struct rdma_ucm_bind_ip in = { .addr.sin6_family = AF_INET6 };

    (void)state;
    assert_int_equal(create(RDMA_PS_TCP, &in.id), 0);
    assert_int_equal(share(in.id, 1), 0);
    assert_int_equal(share(in.id, 0), 0);
    assert_int_equal(run(RDMA_USER_CM_CMD_BIND_IP, &in, sizeof in, 0), 0);
    assert_int_equal(share(in.id, 1), 0);
    assert_int_equal(share(in.id, 0), EINVAL);
}

/* A failed resolution leaves no address in the identifier. */
static void resolve__source_address_of_no_device__leaves_the_identifier_unchanged(void **state)
{
    struct rdma_ucm_query_addr_resp out;
    struct rdma_ucm_query query = { .response = (uintptr_t)&out };
    struct rdma_ucm_resolve_ip in = { .timeout_ms = 10 };

    (void)state;
    in.src_addr.sin6_family = in.dst_addr.sin6_family = AF_INET6;
    in.src_addr.sin6_addr.s6_addr[0] = in.dst_addr.sin6_addr.s6_addr[0] = 0xfd;
    assert_int_equal(create(RDMA_PS_TCP, &in.id), 0);
    query.id = in.id;
    assert_int_equal(run(RDMA_USER_CM_CMD_RESOLVE_IP, &in, sizeof in, 0), EADDRNOTAVAIL);
    assert_int_equal(run(RDMA_USER_CM_CMD_QUERY, &query, sizeof query, sizeof out), 0);
    assert_int_equal(out.src_size, 0);
}

static void response_buffer_too_small__is_enospc__and_creates_nothing(void **state)
{
    struct rdma_ucm_create_id_resp out;
    const struct rdma_ucm_create_id in = { .response = (uintptr_t)&out, .ps = RDMA_PS_TCP };
    const struct rdma_ucm_get_event wait = { 0 };

    (void)state;
    const struct rdma_ucm_create_id wrong = { .ps = 0x7777 };
    const struct rdma_ucm_query nobody = { .id = 4711 };
    const struct rdma_ucm_join_ip_mcast join = { .id = 4711 };

    assert_int_equal(run(RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof in, 3), ENOSPC);
    assert_int_equal(run(RDMA_USER_CM_CMD_CREATE_ID, &wrong, sizeof wrong, 3), ENOSPC);
    assert_int_equal(run(RDMA_USER_CM_CMD_QUERY_ROUTE, &nobody, sizeof nobody, 100), ENOSPC);
    assert_int_equal(run(RDMA_USER_CM_CMD_JOIN_IP_MCAST, &join, sizeof join, 3), ENOSPC);
    assert_true(uro_list_empty(&channel->ids));
    assert_int_equal(run(RDMA_USER_CM_CMD_GET_EVENT, &wait, sizeof wait, 100), ENOSPC);
    assert_int_equal(run(RDMA_USER_CM_CMD_GET_EVENT, &wait, sizeof wait, 512), EAGAIN);
}

/* librdmacm has a table of 65536 entries that these numbers index. */
static void numbers__some_freed__lowest_free_number_is_next(void **state)
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

static void longer_command__of_a_newer_library__is_accepted(void **state)
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
                     EINVAL); /* a valid command, but there is no connection */
}

static uint16_t port_of(uint32_t number)
{
    struct rdma_ucm_query_addr_resp out;
    struct uro_sock source;
    const struct rdma_ucm_query in = { .response = (uintptr_t)&out, .id = number };

    assert_int_equal(run(RDMA_USER_CM_CMD_QUERY, &in, sizeof in, sizeof out), 0);
    assert_int_equal(uro_sock_read(&source, &out.src_addr, out.src_size), 0);
    return uro_sock_port(&source);
}

/* A fuzzer found this bug: each failure bound the identifier again. uroce used the remaining
 * binding after the identifier was freed. */
static void resolve__fails__identifier_stays_bound_until_destroy(void **state)
{
    const struct sockaddr_in here = { .sin_family = AF_INET,
                                      .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    struct rdma_ucm_resolve_addr in = { .dst_size = sizeof here };
    struct rdma_ucm_bind_ip again = { 0 };
    uint32_t number;

    (void)state;
    assert_int_equal(create(RDMA_PS_TCP, &number), 0);
    in.id = number;
    memcpy(&in.dst_addr, &here, sizeof here);
    assert_int_equal(run(RDMA_USER_CM_CMD_RESOLVE_ADDR, &in, sizeof in, 0), ENODEV);
    uint16_t port = port_of(number);
    assert_int_equal(run(RDMA_USER_CM_CMD_RESOLVE_ADDR, &in, sizeof in, 0), ENODEV);
    assert_int_equal(port_of(number), port);
    assert_int_equal(destroy(number), 0);

    assert_int_equal(create(RDMA_PS_TCP, &again.id), 0);
    const struct sockaddr_in same = { .sin_family = AF_INET, .sin_port = htons(port) };
    memcpy(&again.addr, &same, sizeof same);
    assert_int_equal(run(RDMA_USER_CM_CMD_BIND_IP, &again, sizeof again, 0), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)
    const struct CMUnitTest tests[] = {
        TEST(command__malformed_or_unknown__is_einval_or_enosys),
        TEST(command__unknown_identifier__is_enoent),
        TEST(cut_command__is_einval__and_nothing_is_done),
        TEST(command__identifier_of_another_channel__is_einval),
        TEST(migrate__fd_is_no_channel__fails),
        TEST(write_cm_event__event_of_the_program__is_fetched_with_its_argument),
        TEST(resolve_ib_service__any_name__is_not_found),
        TEST(reuse__port_is_bound__cannot_be_cleared),
        TEST(resolve__source_address_of_no_device__leaves_the_identifier_unchanged),
        TEST(response_buffer_too_small__is_enospc__and_creates_nothing),
        TEST(numbers__some_freed__lowest_free_number_is_next),
        TEST(longer_command__of_a_newer_library__is_accepted),
        TEST(resolve__fails__identifier_stays_bound_until_destroy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
