/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_error.c - tests the errors of rdma_cm for impossible requests. */
#include "api/api.h"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "support/stderr_text.h"

#define WAIT_MS 60000 /* a guard against hanging */

struct stage {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
};

static int open_stage(void **state)
{
    static struct stage stage;

    stage.channel = rdma_create_event_channel();
    assert_non_null(stage.channel);
    assert_int_equal(rdma_create_id(stage.channel, &stage.id, NULL, RDMA_PS_TCP), 0);
    *state = &stage;
    return 0;
}

static int close_stage(void **state)
{
    struct stage *stage = *state;

    assert_int_equal(rdma_destroy_id(stage->id), 0);
    rdma_destroy_event_channel(stage->channel);
    return 0;
}

#define assert_fails(call, error)                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal(call, -1);                                                                \
        assert_int_equal(errno, error);                                                            \
    } while (0)

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static int bind_id(struct rdma_cm_id *id, const char *text, uint16_t port)
{
    struct sockaddr_in address = address_of(text, port);

    return rdma_bind_addr(id, (struct sockaddr *)&address);
}

static void expect(struct stage *stage, enum rdma_cm_event_type type, int status)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(stage->channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    assert_int_equal(event->status, status);
    rdma_ack_cm_event(event);
}

static void resolve(struct stage *stage, uint16_t port)
{
    struct sockaddr_in address = address_of("10.0.0.1", port);

    assert_int_equal(rdma_resolve_addr(stage->id, NULL, (struct sockaddr *)&address, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(stage->id, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static struct rdma_cm_id *another(struct stage *stage, enum rdma_port_space space)
{
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(stage->channel, &id, NULL, space), 0);
    return id;
}

static void bind__foreign_address_or_second_bind__fails(void **state)
{
    struct stage *stage = *state;

    assert_fails(bind_id(stage->id, "10.7.7.7", 0), EADDRNOTAVAIL);
    assert_int_equal(bind_id(stage->id, "10.0.0.1", 4000), 0);
    assert_fails(bind_id(stage->id, "10.0.0.1", 4001), EINVAL);
}

static void port__in_use__is_refused_unless_all_identifiers_share_it(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *same = another(stage, RDMA_PS_TCP), *any = another(stage, RDMA_PS_TCP);
    struct rdma_cm_id *other = another(stage, RDMA_PS_UDP), *shared = another(stage, RDMA_PS_TCP);
    struct rdma_cm_id *sharing = another(stage, RDMA_PS_TCP);
    int on = 1;

    assert_int_equal(bind_id(stage->id, "10.0.0.1", 4000), 0);
    assert_fails(bind_id(same, "10.0.0.1", 4000), EADDRINUSE);
    assert_fails(bind_id(any, "0.0.0.0", 4000), EADDRNOTAVAIL);
    assert_int_equal(bind_id(other, "10.0.0.1", 4000), 0);
    assert_int_equal(
        rdma_set_option(shared, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(
        rdma_set_option(sharing, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind_id(shared, "10.0.0.1", 4001), 0);
    assert_int_equal(bind_id(sharing, "10.0.0.1", 4001), 0);
    assert_fails(rdma_listen(shared, 1), EADDRINUSE);
    rdma_destroy_id(sharing);
    assert_int_equal(rdma_listen(shared, 1), 0);
    rdma_destroy_id(shared);
    rdma_destroy_id(other);
    rdma_destroy_id(any);
    rdma_destroy_id(same);
}

/* Two identifiers can share a port only until one of them listens. */
static void port__with_a_listener__is_not_shared(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *first = another(stage, RDMA_PS_TCP), *second = another(stage, RDMA_PS_TCP);
    int on = 1;

    assert_int_equal(
        rdma_set_option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(
        rdma_set_option(second, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind_id(first, "10.0.0.1", 4001), 0);
    assert_int_equal(rdma_listen(first, 1), 0);
    assert_fails(bind_id(second, "10.0.0.1", 4001), EADDRINUSE);
    assert_fails(bind_id(second, "0.0.0.0", 4001), EADDRNOTAVAIL);
    rdma_destroy_id(first);
    assert_int_equal(bind_id(second, "10.0.0.1", 4001), 0);
    rdma_destroy_id(second);
}

static void resolve__no_route_or_no_answer__fails(void **state)
{
    struct stage *stage = *state;
    struct sockaddr_in away = address_of("192.168.99.1", 1), silent = address_of("10.0.0.77", 1);

    assert_fails(rdma_resolve_addr(stage->id, NULL, (struct sockaddr *)&away, WAIT_MS),
                 ENETUNREACH);
    assert_int_equal(rdma_resolve_addr(stage->id, NULL, (struct sockaddr *)&silent, 50), 0);
    expect(stage, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    resolve(stage, 1);
}

static void calls__out_of_order__fail(void **state)
{
    struct stage *stage = *state;
    struct rdma_conn_param param = { .retry_count = 1 };

    assert_fails(rdma_reject(stage->id, NULL, 0), EINVAL);
    assert_fails(rdma_notify(stage->id, IBV_EVENT_COMM_EST), EINVAL);
    resolve(stage, 1);
    assert_fails(rdma_disconnect(stage->id), EINVAL);
    assert_fails(rdma_listen(stage->id, 1), EINVAL);
    assert_int_equal(rdma_connect(stage->id, &param), 0);
    assert_fails(rdma_connect(stage->id, &param), EINVAL);
    expect(stage, RDMA_CM_EVENT_REJECTED, 8);
}

static void private_data__too_long_for_the_request__is_refused(void **state)
{
    struct stage *stage = *state;
    uint8_t data[57] = { 0 };
    struct rdma_conn_param param = { .private_data = data, .private_data_len = sizeof data };

    resolve(stage, 1);
    assert_fails(rdma_connect(stage->id, &param), EINVAL);
    param.private_data_len--;
    assert_int_equal(rdma_connect(stage->id, &param), 0);
    expect(stage, RDMA_CM_EVENT_REJECTED, 8);
}

/* rule CM.IP.JUDGE: a client that connects by GID sends no addresses in the private data. */
static void request__without_addresses__is_rejected_with_reason_28(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *listener = another(stage, RDMA_PS_TCP);
    struct rdma_conn_param param = { .retry_count = 1 };
    struct sockaddr_in at = address_of("10.0.0.1", 4000);
    struct sockaddr_ib to = { .sib_family = AF_IB,
                              .sib_pkey = htons(0xffff),
                              .sib_sid = htobe64((uint64_t)RDMA_PS_TCP << 16 | 4000),
                              .sib_sid_mask = UINT64_MAX };
    union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

    memcpy(gid.raw + 12, &at.sin_addr, sizeof at.sin_addr);
    memcpy(&to.sib_addr, &gid, sizeof gid);
    assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&at), 0);
    assert_int_equal(rdma_listen(listener, 1), 0);
    assert_int_equal(rdma_resolve_addr(stage->id, NULL, (struct sockaddr *)&to, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(stage->id, WAIT_MS), 0);
    expect(stage, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    assert_int_equal(rdma_connect(stage->id, &param), 0);
    expect(stage, RDMA_CM_EVENT_REJECTED, 28);
    rdma_destroy_id(listener);
}

static int set(struct rdma_cm_id *id, int level, int name, size_t size)
{
    uint8_t value[256] = { 7 };

    return rdma_set_option(id, level, name, value, size);
}

static void option__wrong_size_or_name__is_refused(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *datagrams = another(stage, RDMA_PS_UDP);

    assert_int_equal(set(stage->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1), 0);
    assert_int_equal(set(stage->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), 0);
    assert_int_equal(set(stage->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4), 0);
    assert_fails(set(stage->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4), EINVAL);
    assert_fails(set(stage->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), EINVAL);
    assert_fails(set(datagrams, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1), EINVAL);
    assert_fails(set(stage->id, RDMA_OPTION_ID, 77, 4), ENOSYS);
    assert_fails(set(stage->id, 77, 0, 4), ENOSYS);
    assert_fails(set(stage->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 71), EINVAL);
    assert_fails(set(stage->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 72), EINVAL);
    assert_int_equal(bind_id(stage->id, "10.0.0.1", 0), 0);
    assert_int_equal(rdma_listen(stage->id, 1), 0);
    assert_fails(set(stage->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4), EINVAL);
    assert_fails(set(stage->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4), EINVAL);
    rdma_destroy_id(datagrams);
}

static void join__no_multicast_address_or_no_device__fails(void **state)
{
    struct stage *stage = *state;
    struct rdma_cm_id *datagrams = another(stage, RDMA_PS_UDP);
    struct sockaddr_in group = address_of("239.1.2.3", 0), host = address_of("10.0.0.9", 0);
    struct rdma_cm_event *event;

    assert_fails(rdma_join_multicast(datagrams, (struct sockaddr *)&group, NULL), EINVAL);
    assert_int_equal(bind_id(datagrams, "10.0.0.1", 0), 0);
    assert_fails(rdma_join_multicast(datagrams, (struct sockaddr *)&host, NULL), EINVAL);
    assert_int_equal(bind_id(stage->id, "10.0.0.1", 0), 0);
    assert_fails(rdma_join_multicast(stage->id, (struct sockaddr *)&group, NULL), EINVAL);
    assert_int_equal(rdma_join_multicast(datagrams, (struct sockaddr *)&group, stage), 0);
    assert_int_equal(rdma_get_cm_event(stage->channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
    assert_ptr_equal(event->param.ud.private_data, stage);
    assert_int_equal(event->param.ud.qkey, 0x01234567);
    assert_int_equal(event->param.ud.qp_num, 0xffffff);
    assert_int_equal(event->param.ud.ah_attr.grh.dgid.raw[12], 239);
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_leave_multicast(datagrams, (struct sockaddr *)&group), 0);
    rdma_destroy_id(datagrams);
}

/* rdma_destroy_id() drops the events that the program has not fetched, and waits for no
 * acknowledgement. */
static void destroy_id__unfetched_events__frees_the_events(void **state)
{
    struct stage *stage = *state;
    struct sockaddr_in address = address_of("10.0.0.1", 1);
    struct rdma_cm_id *id = another(stage, RDMA_PS_TCP);

    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, WAIT_MS), 0);
    assert_int_equal(rdma_destroy_id(id), 0);
    resolve(stage, 1);
}

#define HOPS     32768u
#define GID_IPV6 2

static void resolve__next_hop_table_is_full__enomem_and_a_message(void **state)
{
    const struct sockaddr_in far = address_of("10.0.0.77", 4000);
    struct stage *stage = *state;
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_ah **handles = calloc(HOPS, sizeof(struct ibv_ah *));
    struct ibv_pd *pd = ibv_alloc_pd(context);

    ibv_free_device_list(list);
    assert_true(pd != NULL && handles != NULL);
    for (uint32_t i = 0; i < HOPS; i++) {
        struct ibv_ah_attr attr = { .is_global = 1, .port_num = API_PORT };
        attr.grh.sgid_index = GID_IPV6;
        attr.grh.dgid = (union ibv_gid){
            .raw = { 0xfd, [13] = 1, [14] = (uint8_t)(i >> 8), [15] = (uint8_t)i }
        };
        assert_non_null(handles[i] = ibv_create_ah(pd, &attr));
    }
    struct stderr_capture capture = capture_stderr_begin();
    const int result = rdma_resolve_addr(stage->id, NULL, (struct sockaddr *)&far, WAIT_MS);
    const int error = errno;
    const bool printed = strstr(capture_stderr_text(capture), "uroce0: 32768 next hops") != NULL;
    capture_stderr_end(capture);
    assert_true(result == -1 && error == ENOMEM && printed);
    for (uint32_t i = 0; i < HOPS; i++)
        assert_int_equal(ibv_destroy_ah(handles[i]), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
    free(handles);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_stage, close_stage)
    const struct CMUnitTest tests[] = {
        TEST(bind__foreign_address_or_second_bind__fails),
        TEST(port__in_use__is_refused_unless_all_identifiers_share_it),
        TEST(port__with_a_listener__is_not_shared),
        TEST(resolve__no_route_or_no_answer__fails),
        TEST(calls__out_of_order__fail),
        TEST(private_data__too_long_for_the_request__is_refused),
        TEST(request__without_addresses__is_rejected_with_reason_28),
        TEST(option__wrong_size_or_name__is_refused),
        TEST(join__no_multicast_address_or_no_device__fails),
        TEST(resolve__next_hop_table_is_full__enomem_and_a_message),
        TEST(destroy_id__unfetched_events__frees_the_events),
    };
    return API_RUN(tests);
}
