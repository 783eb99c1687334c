/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests requests about devices and their answers, without a socket. tests/system/test_rdma_tool.py
 * tests with the `rdma` tool. */
#include "netlink/nldev.h"

#include "support/check.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQ     0x5eed
#define PORT_ID 4321
#define DUMP    (NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP)
#define ONE     (NLM_F_REQUEST | NLM_F_ACK)
#define OBJECTS 300u

struct fixture {
    struct uro_nldev_view view;
    struct uro_nldev_object qps[OBJECTS];
    struct uro_netlink_list request;
    struct uro_nldev_answer answer;
    size_t pos; /* offset of the next message of the answer */
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->view.count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct uro_nldev_device *device = &f->view.devices[i];
        device->index = i;
        (void)snprintf(device->name, sizeof device->name, "dev%u", i);
        (void)snprintf(device->firmware, sizeof device->firmware, "9.8.%u", i);
        device->node_guid = 0x0102030405060708 + i;
        device->port_state = 4;
        device->counters.value[URO_COUNT_TX_ROCE] = 1000 + i;
    }
    for (uint32_t i = 0; i < OBJECTS; i++) {
        uro_nldev_add_field(&f->qps[i], RDMA_NLDEV_ATTR_RES_LQPN, 4, 100 + i);
        uro_nldev_add_field(&f->qps[i], RDMA_NLDEV_ATTR_RES_STATE, 1, 3);
        uro_nldev_add_field(&f->qps[i], RDMA_NLDEV_ATTR_RES_USECNT, 8, UINT64_MAX);
    }
    f->view.devices[1].objects[URO_NLDEV_QP] =
        (struct uro_nldev_objects){ .known = true, .count = OBJECTS, .list = f->qps };
    f->view.devices[1].ndev_index = 7;
    (void)snprintf(f->view.devices[1].ndev_name, URO_NLDEV_NAME_MAX, "eth7");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    free(f->request.bytes);
    free(f->answer.messages.bytes);
    free(f);
    return 0;
}

/* ---- a request ---------------------------------------------------------------------- */

static void begin(struct fixture *f, uint16_t operation, uint16_t flags)
{
    f->request.used = 0;
    uro_netlink_begin(&f->request, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, operation), flags, SEQ, 0);
}

/* Sends the first @length bytes of the request, as memory of exactly that size. */
static void submit_part(struct fixture *f, size_t length)
{
    uint8_t *copy = malloc(length > 0 ? length : 1);

    assert_non_null(copy);
    memcpy(copy, f->request.bytes, length);
    f->answer.messages.used = f->pos = 0;
    f->answer.hint[0] = '\0';
    uro_nldev_answer(&f->view, copy, length, PORT_ID, &f->answer);
    free(copy);
}

static void submit(struct fixture *f)
{
    uro_netlink_end(&f->request);
    submit_part(f, f->request.used);
}

/* Sends a request with a device, and with a port if @port is not 0. */
static void ask(struct fixture *f, uint16_t operation, uint16_t flags, uint32_t device,
                uint32_t port)
{
    begin(f, operation, flags);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX, device);
    if (port != 0)
        uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_PORT_INDEX, port);
    submit(f);
}

/* ---- its answer --------------------------------------------------------------------- */

struct message {
    struct nlmsghdr header;
    const uint8_t *attrs;
    size_t length;
};

static bool at_end(const struct fixture *f)
{
    return f->pos == f->answer.messages.used;
}

static struct message next_message(struct fixture *f)
{
    struct message message;

    assert_true(f->answer.messages.used - f->pos >= sizeof message.header);
    memcpy(&message.header, f->answer.messages.bytes + f->pos, sizeof message.header);
    assert_true(message.header.nlmsg_len <= f->answer.messages.used - f->pos);
    assert_true(message.header.nlmsg_len <= URO_NLDEV_MESSAGE_MAX);
    assert_int_equal(message.header.nlmsg_seq, SEQ);
    assert_int_equal(message.header.nlmsg_pid, PORT_ID);
    message.attrs = f->answer.messages.bytes + f->pos + sizeof message.header;
    message.length = message.header.nlmsg_len - sizeof message.header;
    f->pos += NLMSG_ALIGN(message.header.nlmsg_len);
    return message;
}

static bool find(const uint8_t *pos, size_t left, uint16_t type, struct uro_netlink_attr *attr)
{
    while (uro_netlink_next(&pos, &left, attr) == 1)
        if (attr->type == type)
            return true;
    return false;
}

static uint64_t number(const struct message *message, uint16_t type)
{
    struct uro_netlink_attr attr;
    uint64_t value = 0;

    assert_true(find(message->attrs, message->length, type, &attr));
    assert_true(attr.length <= sizeof value);
    memcpy(&value, attr.value, attr.length);
    return value;
}

static void expect_text(const struct message *message, uint16_t type, const char *wanted)
{
    struct uro_netlink_attr attr;
    char text[64];

    assert_true(find(message->attrs, message->length, type, &attr));
    assert_true(uro_netlink_get_string(&attr, text, sizeof text));
    assert_string_equal(text, wanted);
}

static void expect_ack(struct fixture *f, int error)
{
    struct message message = next_message(f);
    int32_t code;

    assert_int_equal(message.header.nlmsg_type, NLMSG_ERROR);
    memcpy(&code, message.attrs, sizeof code);
    assert_int_equal(code, error);
    assert_int_equal(message.length, sizeof code + sizeof(struct nlmsghdr));
    assert_true(at_end(f));
}

static void expect_done(struct fixture *f)
{
    struct message message = next_message(f);

    assert_int_equal(message.header.nlmsg_type, NLMSG_DONE);
    assert_int_equal(message.length, 4);
    assert_true(at_end(f));
}

/* ---- devices and ports ---------------------------------------------------------------- */

static void dump__of_devices__has_all_devices_and_an_end(void **state)
{
    struct fixture *f = *state;

    begin(f, RDMA_NLDEV_CMD_GET, DUMP);
    submit(f);
    for (uint32_t i = 0; i < 2; i++) {
        struct message message = next_message(f);
        assert_int_equal(message.header.nlmsg_type,
                         RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET));
        assert_int_equal(message.header.nlmsg_flags, NLM_F_MULTI);
        assert_int_equal(number(&message, RDMA_NLDEV_ATTR_DEV_INDEX), i);
        expect_text(&message, RDMA_NLDEV_ATTR_DEV_NAME, f->view.devices[i].name);
        expect_text(&message, RDMA_NLDEV_ATTR_FW_VERSION, f->view.devices[i].firmware);
        assert_int_equal(number(&message, RDMA_NLDEV_ATTR_NODE_GUID), 0x0102030405060708 + i);
        assert_int_equal(number(&message, RDMA_NLDEV_ATTR_PORT_INDEX), 1);
    }
    expect_done(f);
}

static void get__one_device__is_followed_by_an_acknowledgement(void **state)
{
    struct fixture *f = *state;

    ask(f, RDMA_NLDEV_CMD_GET, ONE, 1, 0);
    struct message message = next_message(f);
    assert_int_equal(message.header.nlmsg_flags, 0);
    expect_text(&message, RDMA_NLDEV_ATTR_DEV_NAME, "dev1");
    expect_ack(f, 0);
    ask(f, RDMA_NLDEV_CMD_GET, NLM_F_REQUEST, 1, 0);
    (void)next_message(f);
    assert_true(at_end(f));
}

static void port__with_and_without_interface__has_the_interface_or_none(void **state)
{
    struct fixture *f = *state;
    struct uro_netlink_attr attr;

    ask(f, RDMA_NLDEV_CMD_PORT_GET, ONE, 1, 1);
    struct message message = next_message(f);
    assert_int_equal(number(&message, RDMA_NLDEV_ATTR_PORT_STATE), 4);
    assert_int_equal(number(&message, RDMA_NLDEV_ATTR_NDEV_INDEX), 7);
    expect_text(&message, RDMA_NLDEV_ATTR_NDEV_NAME, "eth7");
    ask(f, RDMA_NLDEV_CMD_PORT_GET, DUMP, 0, 0);
    message = next_message(f);
    assert_false(find(message.attrs, message.length, RDMA_NLDEV_ATTR_NDEV_INDEX, &attr));
    expect_done(f);
}

static void get__wrong_device_or_port__is_an_error(void **state)
{
    struct fixture *f = *state;

    ask(f, RDMA_NLDEV_CMD_GET, ONE, 2, 0);
    expect_ack(f, -ENODEV);
    ask(f, RDMA_NLDEV_CMD_PORT_GET, ONE, 2, 1);
    expect_ack(f, -ENODEV);
    ask(f, RDMA_NLDEV_CMD_PORT_GET, ONE, 0, 2);
    expect_ack(f, -EINVAL);
    ask(f, RDMA_NLDEV_CMD_PORT_GET, ONE, 0, 0);
    expect_ack(f, -EINVAL);
    ask(f, RDMA_NLDEV_CMD_RES_QP_GET, DUMP, 2, 0);
    expect_ack(f, -ENODEV);
    ask(f, RDMA_NLDEV_CMD_RES_QP_GET, DUMP, 1, 2);
    expect_ack(f, -EINVAL);
    static const uint16_t operations[] = { RDMA_NLDEV_CMD_GET, RDMA_NLDEV_CMD_PORT_GET,
                                           RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_STAT_GET };
    for (size_t i = 0; i < URO_ARRAY_LEN(operations); i++) {
        begin(f, operations[i], NLM_F_REQUEST); /* errors are reported without NLM_F_ACK, too */
        submit(f);
        expect_ack(f, -EINVAL);
    }
}

static void system__show__netns_mode_is_shared(void **state)
{
    struct fixture *f = *state;

    begin(f, RDMA_NLDEV_CMD_SYS_GET, ONE);
    submit(f);
    struct message message = next_message(f);
    assert_int_equal(number(&message, RDMA_NLDEV_SYS_ATTR_NETNS_MODE), 1);
    expect_ack(f, 0);
}

/* ---- objects and counters --------------------------------------------------------------- */

static void summary__some_kinds_known__has_the_known_kinds(void **state)
{
    struct fixture *f = *state;
    struct uro_netlink_attr all, one, attr;
    uint64_t count;

    begin(f, RDMA_NLDEV_CMD_RES_GET, DUMP);
    submit(f);
    struct message message = next_message(f);
    assert_true(find(message.attrs, message.length, RDMA_NLDEV_ATTR_RES_SUMMARY, &all));
    assert_int_equal(all.length, 0);
    message = next_message(f);
    assert_true(find(message.attrs, message.length, RDMA_NLDEV_ATTR_RES_SUMMARY, &all));
    assert_true(find(all.value, all.length, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY, &one));
    assert_true(find(one.value, one.length, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, &attr));
    assert_memory_equal(attr.value, "qp", sizeof "qp");
    assert_true(find(one.value, one.length, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, &attr));
    memcpy(&count, attr.value, sizeof count);
    assert_int_equal(count, OBJECTS);
    expect_done(f);
}

static void dump__objects_in_many_messages__is_complete(void **state)
{
    struct fixture *f = *state;
    struct uro_netlink_attr all, one, attr;
    uint32_t wanted = 100, messages = 0, qpn;

    ask(f, RDMA_NLDEV_CMD_RES_QP_GET, DUMP, 1, 1);
    while (wanted < 100 + OBJECTS) {
        struct message message = next_message(f);
        assert_true(find(message.attrs, message.length, RDMA_NLDEV_ATTR_RES_QP, &all));
        for (; uro_netlink_next(&all.value, &all.length, &one) == 1; wanted++) {
            assert_int_equal(one.type, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
            assert_true(find(one.value, one.length, RDMA_NLDEV_ATTR_RES_LQPN, &attr));
            assert_true(uro_netlink_get_u32(&attr, &qpn));
            assert_int_equal(qpn, wanted);
            assert_true(find(one.value, one.length, RDMA_NLDEV_ATTR_RES_STATE, &attr));
            assert_int_equal(attr.length, 1);
        }
        messages++;
    }
    assert_true(messages > 1);
    expect_done(f);
}

static void dump__kind_without_objects__is_empty(void **state)
{
    struct fixture *f = *state;

    ask(f, RDMA_NLDEV_CMD_RES_QP_GET, DUMP, 0, 0);
    expect_done(f);
    ask(f, RDMA_NLDEV_CMD_RES_SRQ_GET, DUMP, 1, 0);
    expect_done(f);
}

static void get__object_by_number__is_found_or_an_error(void **state)
{
    struct fixture *f = *state;

    begin(f, RDMA_NLDEV_CMD_RES_QP_GET, ONE);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_RES_LQPN, 250);
    submit(f);
    struct message message = next_message(f);
    assert_int_equal(number(&message, RDMA_NLDEV_ATTR_RES_LQPN), 250);
    assert_true(number(&message, RDMA_NLDEV_ATTR_RES_USECNT) == UINT64_MAX);
    expect_ack(f, 0);

    begin(f, RDMA_NLDEV_CMD_RES_QP_GET, ONE);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_RES_LQPN, 99);
    submit(f);
    expect_ack(f, -ENOENT);
    ask(f, RDMA_NLDEV_CMD_RES_QP_GET, ONE, 1, 0);
    expect_ack(f, -EINVAL);
}

static void counters__of_a_port__have_the_names_of_hw_counters(void **state)
{
    struct fixture *f = *state;
    struct uro_netlink_attr all, one, attr;
    uint64_t value;

    ask(f, RDMA_NLDEV_CMD_STAT_GET, ONE, 1, 1);
    struct message message = next_message(f);
    assert_true(find(message.attrs, message.length, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, &all));
    assert_true(find(all.value, all.length, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY, &one));
    assert_true(find(one.value, one.length, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, &attr));
    assert_memory_equal(attr.value, "sent_pkts", sizeof "sent_pkts");
    assert_true(find(one.value, one.length, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, &attr));
    memcpy(&value, attr.value, sizeof value);
    assert_int_equal(value, 1001);
    expect_ack(f, 0);
}

/* Asks for statistics of an object. @counter: 0, or the number of a counter. */
static void ask_statistics(struct fixture *f, uint16_t flags, uint32_t resource, uint32_t counter)
{
    begin(f, RDMA_NLDEV_CMD_STAT_GET, flags);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX, 0);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_PORT_INDEX, 1);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_STAT_RES, resource);
    if (counter != 0)
        uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter);
    submit(f);
}

static void counters__of_objects__do_not_exist(void **state)
{
    struct fixture *f = *state;
    struct uro_netlink_attr attr;

    ask_statistics(f, DUMP, RDMA_NLDEV_ATTR_RES_QP, 0);
    expect_done(f);
    ask_statistics(f, ONE, RDMA_NLDEV_ATTR_RES_QP, 3);
    expect_ack(f, -ENOENT);
    ask_statistics(f, ONE, RDMA_NLDEV_ATTR_RES_MR, 0);
    expect_ack(f, -EOPNOTSUPP);
    ask_statistics(f, ONE, RDMA_NLDEV_ATTR_RES_QP, 0);
    struct message message = next_message(f);
    assert_int_equal(number(&message, RDMA_NLDEV_ATTR_STAT_MODE), RDMA_COUNTER_MODE_NONE);
    ask(f, RDMA_NLDEV_CMD_STAT_GET_STATUS, ONE, 0, 1);
    message = next_message(f);
    assert_true(find(message.attrs, message.length, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, &attr));
    assert_int_equal(attr.length, 0);
    expect_ack(f, 0);
}

static void request__about_objects__is_distinguished_from_other_requests(void **state)
{
    static const struct {
        uint16_t operation;
        bool needed;
    } rows[] = {
        { RDMA_NLDEV_CMD_GET, false },       { RDMA_NLDEV_CMD_PORT_GET, false },
        { RDMA_NLDEV_CMD_STAT_GET, false },  { RDMA_NLDEV_CMD_RES_GET, true },
        { RDMA_NLDEV_CMD_RES_QP_GET, true }, { RDMA_NLDEV_CMD_RES_SRQ_GET, true },
    };
    struct fixture *f = *state;
    const uint32_t too_long = 17;

    for (size_t i = 0; i < URO_ARRAY_LEN(rows); i++) {
        begin(f, RDMA_NLDEV_CMD_SYS_GET, ONE); /* the first of two requests */
        uro_netlink_end(&f->request);
        uro_netlink_begin(&f->request, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, rows[i].operation), ONE, SEQ,
                          0);
        uro_netlink_end(&f->request);
        assert_int_equal(uro_nldev_needs_objects(f->request.bytes, f->request.used),
                         rows[i].needed);
        assert_false(uro_nldev_needs_objects(f->request.bytes, f->request.used - 1));
        assert_false(uro_nldev_needs_objects(f->request.bytes, 0));
        memcpy(f->request.bytes + sizeof(struct nlmsghdr), &too_long, sizeof too_long);
        assert_false(uro_nldev_needs_objects(f->request.bytes, f->request.used));
    }
}

/* ---- refusals -------------------------------------------------------------------------- */

static void ask_for_link(struct fixture *f, const char *name, const char *ndev)
{
    begin(f, RDMA_NLDEV_CMD_NEWLINK, ONE);
    uro_netlink_put_string(&f->request, RDMA_NLDEV_ATTR_DEV_NAME, name);
    uro_netlink_put_string(&f->request, RDMA_NLDEV_ATTR_LINK_TYPE, "rxe");
    uro_netlink_put_string(&f->request, RDMA_NLDEV_ATTR_NDEV_NAME, ndev);
    submit(f);
    expect_ack(f, -EOPNOTSUPP);
}

static void new_link__requested__hint_has_the_line_that_makes_the_device(void **state)
{
    struct fixture *f = *state;

    ask_for_link(f, "rxe0", "eth2");
    assert_non_null(strstr(f->answer.hint, "export UROCE_DEVICES=rxe0:udp,iface=eth2"));
    ask_for_link(f, "a\n\x1b[0m$(x)'", "b;c");
    assert_non_null(strstr(f->answer.hint, "export UROCE_DEVICES=a??[0m?(x)?:udp,iface=b?c"));
    ask_for_link(f, "", "");
    assert_non_null(strstr(f->answer.hint, "export UROCE_DEVICES=uroce0:udp,iface=eth0"));
}

static void del_link__requested__hint_has_the_name_of_the_device(void **state)
{
    struct fixture *f = *state;

    ask(f, RDMA_NLDEV_CMD_DELLINK, ONE, 1, 0);
    expect_ack(f, -EOPNOTSUPP);
    assert_non_null(strstr(f->answer.hint, "To start none with dev1,"));
    begin(f, RDMA_NLDEV_CMD_DELLINK, ONE);
    submit(f);
    assert_non_null(strstr(f->answer.hint, "To start none with the device,"));
}

static void request__change_or_raw_data__is_refused(void **state)
{
    static const struct {
        uint16_t operation;
        const char *hint;
    } rows[] = {
        { RDMA_NLDEV_CMD_SET, "not change it" },
        { RDMA_NLDEV_CMD_SYS_SET, "not change it" },
        { RDMA_NLDEV_CMD_STAT_SET, "not change it" },
        { RDMA_NLDEV_CMD_STAT_DEL, "not change it" },
        { RDMA_NLDEV_CMD_RES_QP_GET_RAW, "without -r" },
        { RDMA_NLDEV_CMD_RES_CQ_GET_RAW, "without -r" },
        { RDMA_NLDEV_CMD_RES_MR_GET_RAW, "without -r" },
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < URO_ARRAY_LEN(rows); i++) {
        ask(f, rows[i].operation, ONE, 0, 1);
        expect_ack(f, -EOPNOTSUPP);
        assert_non_null(strstr(f->answer.hint, rows[i].hint));
    }
}

static void request__of_a_library__is_refused_without_a_hint(void **state)
{
    static const uint16_t operations[] = { RDMA_NLDEV_CMD_GET_CHARDEV, RDMA_NLDEV_CMD_UNSPEC, 999 };
    struct fixture *f = *state;

    for (size_t i = 0; i < URO_ARRAY_LEN(operations); i++) {
        ask(f, operations[i], ONE, 0, 1);
        expect_ack(f, -EOPNOTSUPP);
        assert_string_equal(f->answer.hint, "");
    }
}

static void request__other_client_of_the_family__is_refused(void **state)
{
    struct fixture *f = *state;

    f->request.used = 0;
    uro_netlink_begin(&f->request, RDMA_NL_GET_TYPE(RDMA_NL_LS, 0), ONE, SEQ, 0);
    submit(f);
    expect_ack(f, -EINVAL);
    assert_string_equal(f->answer.hint, "");
}

/* ---- hostile requests -------------------------------------------------------------------- */

static void request__truncated__is_ignored(void **state)
{
    struct fixture *f = *state;

    begin(f, RDMA_NLDEV_CMD_GET, ONE);
    uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
    uro_netlink_end(&f->request);
    for (size_t length = 0; length < f->request.used; length++) {
        submit_part(f, length);
        assert_true(at_end(f));
    }
    const uint32_t lengths[] = { 0, 1, 15, 25, UINT32_MAX };
    for (size_t i = 0; i < URO_ARRAY_LEN(lengths); i++) {
        memcpy(f->request.bytes, &lengths[i], sizeof lengths[i]);
        submit_part(f, f->request.used);
        assert_true(at_end(f));
    }
}

static void request__attribute_past_the_end__is_an_error(void **state)
{
    static const uint16_t lengths[] = { 0, 3, 9, 100, UINT16_MAX };
    struct fixture *f = *state;

    for (size_t i = 0; i < URO_ARRAY_LEN(lengths); i++) {
        begin(f, RDMA_NLDEV_CMD_GET, ONE);
        uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX, 1);
        memcpy(f->request.bytes + sizeof(struct nlmsghdr), &lengths[i], sizeof lengths[i]);
        submit(f);
        expect_ack(f, -EINVAL);
    }
    begin(f, RDMA_NLDEV_CMD_GET, ONE);
    uro_netlink_put_u8(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX,
                       1); /* an attribute of the wrong size */
    submit(f);
    expect_ack(f, -EINVAL);
    char name[2 * URO_NLDEV_NAME_MAX];
    memset(name, 'x', sizeof name);
    begin(f, RDMA_NLDEV_CMD_NEWLINK, ONE);
    uro_netlink_put(&f->request, RDMA_NLDEV_ATTR_DEV_NAME, name, sizeof name); /* too long */
    submit(f);
    expect_ack(f, -EINVAL);
}

static void message__no_request__is_acknowledged_only_if_requested(void **state)
{
    struct fixture *f = *state;

    begin(f, RDMA_NLDEV_CMD_GET, NLM_F_ACK);
    submit(f);
    expect_ack(f, 0);
    f->request.used = 0;
    uro_netlink_begin(&f->request, NLMSG_NOOP, NLM_F_REQUEST, SEQ, 0);
    submit(f);
    assert_true(at_end(f));
}

static void requests__several_in_a_datagram__get_answers_in_order(void **state)
{
    struct fixture *f = *state;

    f->request.used = 0;
    for (uint32_t i = 0; i < 100; i++) {
        uro_netlink_begin(&f->request, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
                          NLM_F_REQUEST, SEQ, 0);
        uro_netlink_put_u32(&f->request, RDMA_NLDEV_ATTR_DEV_INDEX, i % 2);
        uro_netlink_end(&f->request);
    }
    submit_part(f, f->request.used);
    uint32_t answers = 0;
    for (; !at_end(f); answers++) {
        struct message message = next_message(f);
        assert_int_equal(number(&message, RDMA_NLDEV_ATTR_DEV_INDEX), answers % 2);
    }
    assert_int_equal(answers, 64); /* the largest number of requests in one datagram */
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(dump__of_devices__has_all_devices_and_an_end),
        CASE(get__one_device__is_followed_by_an_acknowledgement),
        CASE(port__with_and_without_interface__has_the_interface_or_none),
        CASE(get__wrong_device_or_port__is_an_error),
        CASE(system__show__netns_mode_is_shared),
        CASE(summary__some_kinds_known__has_the_known_kinds),
        CASE(dump__objects_in_many_messages__is_complete),
        CASE(dump__kind_without_objects__is_empty),
        CASE(get__object_by_number__is_found_or_an_error),
        CASE(counters__of_a_port__have_the_names_of_hw_counters),
        CASE(counters__of_objects__do_not_exist),
        CASE(request__about_objects__is_distinguished_from_other_requests),
        CASE(new_link__requested__hint_has_the_line_that_makes_the_device),
        CASE(del_link__requested__hint_has_the_name_of_the_device),
        CASE(request__change_or_raw_data__is_refused),
        CASE(request__of_a_library__is_refused_without_a_hint),
        CASE(request__other_client_of_the_family__is_refused),
        CASE(request__truncated__is_ignored),
        CASE(request__attribute_past_the_end__is_an_error),
        CASE(message__no_request__is_acknowledged_only_if_requested),
        CASE(requests__several_in_a_datagram__get_answers_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
