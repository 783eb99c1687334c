/* SPDX-License-Identifier: BSD-3-Clause */
/* test_share.c - tests an address that processes share. The upper bits of a QPN identify the
 * process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"
#include "core/shard.h"
#include "engine/engine.h"
#include "engine/neigh.h"
#include "support/check.h"

static struct uro_neigh_entry entries[URO_NEIGH_HOPS_MAX];

#define SHARE 0x2au

static struct uro_gid gid(const char *text)
{
    struct uro_gid g;
    assert_true(uro_gid_parse(text, &g));
    return g;
}

static struct uro_engine_config config_of(uint8_t share)
{
    struct uro_engine_config config = { .mac = { { 2, 0, 0, 0, 0, 1 } },
                                        .mtu = 1500,
                                        .address_count = 1,
                                        .source_port = 4791,
                                        .link_routes = true,
                                        .qpn_prefix = share };
    config.addresses[0] = (struct uro_engine_address){ gid("10.0.0.1"), 0 };
    return config;
}

static struct uro_engine *open_with(const struct uro_engine_config *wanted)
{
    const struct uro_engine_config config = *wanted;
    size_t size = (uro_engine_size(&config) + 63) & ~(size_t)63;
    void *memory = aligned_alloc(64, size);
    struct uro_engine *engine;

    assert_non_null(memory);
    assert_int_equal(uro_engine_init(memory, &config, 0, &engine), 0);
    return engine;
}

static struct uro_engine *open_engine(uint8_t share)
{
    const struct uro_engine_config config = config_of(share);

    return open_with(&config);
}

static uint32_t some_qpn(struct uro_engine *engine)
{
    struct uro_cq *cq =
        uro_cq_init(aligned_alloc(64, (uro_cq_size(8) + 63) & ~(size_t)63), 8, NULL);
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = 1,
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .send_capacity = 1,
                                      .send_sge_max = 1 };
    void *memory = aligned_alloc(64, (uro_qp_size(&init) + 63) & ~(size_t)63);
    struct uro_qp *qp = uro_qp_create(uro_engine_shard(engine), &init, memory);
    uint32_t number = uro_qp_number(qp);

    uro_engine_qp_destroy(engine, qp);
    uro_cq_fini(cq);
    free(cq);
    free(memory);
    return number;
}

static void qpn_prefix__of_an_engine__all_qpns_have_the_prefix(void **state)
{
    (void)state;
    struct uro_engine *engine = open_engine(SHARE);
    uint32_t first = some_qpn(engine);
    bool differ = false;

    for (int i = 0; i < 50; i++) {
        uint32_t number = some_qpn(engine);
        assert_int_equal(number >> (URO_QPN_OWN_BITS), SHARE);
        differ |= number != first;
    }
    assert_true(differ);
    free(engine);
}

static struct uro_engine *open_with_one_prefix(uint8_t seed)
{
    struct uro_engine_config config = config_of(0);

    config.one_qpn_prefix = true;
    config.seed[0] = seed;
    return open_with(&config);
}

static void one_qpn_prefix__of_an_engine__all_qpns_have_the_prefix(void **state)
{
    (void)state;
    struct uro_engine *engine = open_with_one_prefix(1), *other = open_with_one_prefix(2);
    const uint32_t first = some_qpn(engine), prefix = first >> URO_QPN_OWN_BITS;
    bool differ = false;

    for (int i = 0; i < 50; i++) {
        const uint32_t number = some_qpn(engine);
        assert_int_equal(number >> URO_QPN_OWN_BITS, prefix);
        differ |= number != first;
    }
    assert_true(differ);
    assert_int_not_equal(some_qpn(other) >> URO_QPN_OWN_BITS, prefix);
    free(engine);
    free(other);
}

static void one_qpn_prefix__all_qpns_are_used__other_prefixes_follow(void **state)
{
    (void)state;
    struct uro_engine *engine = open_with_one_prefix(1);
    struct uro_shard *shard = uro_engine_shard(engine);
    const uint32_t first = uro_shard_unused_qpn(shard) >> URO_QPN_OWN_BITS << URO_QPN_OWN_BITS;
    struct uro_table_node *used = test_calloc(1u << URO_QPN_OWN_BITS, sizeof *used);

    for (uint32_t i = 0; i < 1u << URO_QPN_OWN_BITS; i++) {
        used[i].number = first | i;
        uro_table_insert(&shard->qps, &used[i]);
    }
    for (int i = 0; i < 50; i++)
        assert_int_not_equal(some_qpn(engine) >> URO_QPN_OWN_BITS, first >> URO_QPN_OWN_BITS);
    test_free(used);
    free(engine);
}

/* A process on a shared address has a 64th of the QPNs, and uses 15 in 16 of them. */
static void qpn_prefix__of_an_engine__limits_the_number_of_queue_pairs(void **state)
{
    (void)state;
    struct uro_engine *shared = open_engine(SHARE), *alone = open_engine(0);

    assert_int_equal(uro_qp_most(uro_engine_shard(shared)), 245760);
    assert_int_equal(uro_qp_most(uro_engine_shard(alone)), UINT32_MAX);
    free(shared);
    free(alone);
}

static void qpn_prefix__of_an_engine__all_communication_ids_have_the_prefix(void **state)
{
    (void)state;
    struct uro_engine *engine = open_engine(SHARE);
    const struct uro_conn_target target = { .route = { .local = gid("10.0.0.1"),
                                                       .remote = gid("10.0.0.2") },
                                            .service_id = 7,
                                            .path_mtu = 3,
                                            .response_timeout = 20,
                                            .retries = 3 };
    const struct uro_conn_param param = { 0 };

    for (int i = 0; i < 50; i++) {
        struct uro_conn *conn;
        assert_int_equal(uro_conn_connect(uro_engine_cm(engine), &target, &param, 0, &conn), 0);
        assert_int_equal(conn->node.number >> (32 - URO_QPN_PREFIX_BITS), SHARE);
    }
    free(engine);
}

static void qpn_prefix__last_value__is_refused(void **state)
{
    (void)state;
    struct uro_engine_config config = config_of(URO_QPN_PREFIXES - 1);
    struct uro_engine *engine;
    void *memory = aligned_alloc(64, (uro_engine_size(&config) + 63) & ~(size_t)63);

    assert_int_equal(uro_engine_init(memory, &config, 0, &engine), -EINVAL);
    free(memory);
}

/* A frame to the engine's own address may be for another process that shares the address. So the
 * engine sends the frame if it has a QPN prefix, and loops the frame otherwise. */
static void own_address__shared_or_not__sent_or_looped(void **state)
{
    (void)state;
    static struct uro_counters counters;
    const struct uro_gid own = gid("10.0.0.1");
    struct uro_neigh *neigh = malloc(sizeof *neigh);
    struct uro_hop *hop;

    for (uint8_t share = 0; share < 2; share++) {
        struct uro_engine_config config = config_of(share);
        uro_neigh_init(neigh, &config, &counters, entries);
        assert_int_equal(uro_neigh_get(neigh, 0, &own, 0, &hop), 0);
        assert_int_equal(hop->way, share == 0 ? URO_TX_LOCAL : URO_TX_SHARED);
        assert_int_equal(hop->state, URO_HOP_KNOWN);
    }
    free(neigh);
}

static void services__list_the_listeners__and_changes_show(void **state)
{
    (void)state;
    struct uro_engine *engine = open_engine(SHARE);
    struct uro_listener here = { .service_id = 5, .address = gid("10.0.0.1"), .backlog = 1 };
    struct uro_listener anywhere = { .service_id = 6, .any_address = true, .backlog = 1 };
    struct uro_listened found[4];
    uint32_t version = uro_engine_services_version(engine);

    assert_int_equal(uro_engine_services(engine, found, 4), 0);
    assert_int_equal(uro_conn_listen(uro_engine_cm(engine), &here), 0);
    assert_int_equal(uro_conn_listen(uro_engine_cm(engine), &anywhere), 0);
    assert_int_not_equal(uro_engine_services_version(engine), version);
    assert_int_equal(uro_engine_services(engine, found, 4), 2);
    assert_int_equal(found[0].id, 5);
    assert_memory_equal(&found[0].address, &here.address, sizeof here.address);
    assert_int_equal(found[1].id, 6);
    assert_true(uro_gid_is_zero(&found[1].address));
    assert_int_equal(uro_engine_services(engine, found, 1), 1);
    version = uro_engine_services_version(engine);
    uro_conn_unlisten(uro_engine_cm(engine), &here);
    assert_int_not_equal(uro_engine_services_version(engine), version);
    assert_int_equal(uro_engine_services(engine, found, 4), 1);
    uro_conn_unlisten(uro_engine_cm(engine), &anywhere);
    free(engine);
}

/* The link uses one source port, and no next hop is resolved. */
static void link_routes__any_destination__is_known_at_once(void **state)
{
    (void)state;
    static struct uro_counters counters;
    static const char *const dests[] = { "10.0.0.2", "192.0.2.99", "8.8.8.8" };
    struct uro_engine_config config = config_of(0);
    struct uro_neigh *neigh = malloc(sizeof *neigh);
    struct uro_hop *hop;

    config.addresses[0].prefix = 24;
    uro_neigh_init(neigh, &config, &counters, entries);
    for (size_t i = 0; i < URO_ARRAY_LEN(dests); i++) {
        const struct uro_gid dest = gid(dests[i]);
        assert_int_equal(uro_neigh_get(neigh, 0, &dest, 0, &hop), 0);
        assert_int_equal(hop->state, URO_HOP_KNOWN);
    }
    uro_neigh_forget(neigh, 1);
    assert_int_equal(uro_neigh_next(neigh, 1), URO_TIME_NEVER);
    free(neigh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qpn_prefix__of_an_engine__all_qpns_have_the_prefix),
        cmocka_unit_test(one_qpn_prefix__of_an_engine__all_qpns_have_the_prefix),
        cmocka_unit_test(one_qpn_prefix__all_qpns_are_used__other_prefixes_follow),
        cmocka_unit_test(qpn_prefix__of_an_engine__limits_the_number_of_queue_pairs),
        cmocka_unit_test(qpn_prefix__of_an_engine__all_communication_ids_have_the_prefix),
        cmocka_unit_test(qpn_prefix__last_value__is_refused),
        cmocka_unit_test(own_address__shared_or_not__sent_or_looped),
        cmocka_unit_test(services__list_the_listeners__and_changes_show),
        cmocka_unit_test(link_routes__any_destination__is_known_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
