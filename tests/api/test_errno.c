/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests errno after a failed verb. errno is the number that the verb returned. If the verb returned
 * -1 or NULL, errno has the cause. */
#include "api/api.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 128

/* Not declared in verbs.h, because only rdma-core's own libraries call it. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

/* Exported verbs whose failure a test has seen. */
static const char *seen[NAMES_MAX];
static unsigned seen_count;

static void note(const char *name)
{
    assert_in_range(seen_count, 0, NAMES_MAX - 1);
    seen[seen_count++] = name;
}

/* Asserts that @call returns an error number, or its negative. */
#define FAILS(name, call)                                                                          \
    do {                                                                                           \
        errno = 0;                                                                                 \
        int result_ = (int)(call);                                                                 \
        int kept_ = errno;                                                                         \
        if (result_ == 0 || kept_ != abs(result_))                                                 \
            fail_msg("%s returned %d, errno is %d", name, result_, kept_);                         \
        note(name);                                                                                \
    } while (0)

/* Asserts that @failed is true (the call returned -1 or NULL), and that errno is set. */
#define REFUSES(name, failed)                                                                      \
    do {                                                                                           \
        errno = 0;                                                                                 \
        if (!(failed) || errno == 0)                                                               \
            fail_msg("%s: errno is %d", name, errno);                                              \
        note(name);                                                                                \
    } while (0)

struct stage {
    const struct api *api;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t memory[64];
};

static void open_stage(struct stage *stage, const struct api *api)
{
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };

    stage->api = api;
    stage->channel = ibv_create_comp_channel(api->context);
    stage->cq = ibv_create_cq(api->context, 16, NULL, stage->channel, 0);
    stage->srq = ibv_create_srq(api->pd, &srq);
    struct ibv_qp_init_attr init = api_qp_attr(stage->cq);
    init.srq = stage->srq;
    stage->qp = ibv_create_qp(api->pd, &init);
    stage->mr = ibv_reg_mr(api->pd, stage->memory, sizeof stage->memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND);
    assert_non_null(stage->qp);
    assert_non_null(stage->mr);
}

static void close_stage(struct stage *stage)
{
    assert_int_equal(ibv_dereg_mr(stage->mr), 0);
    assert_int_equal(ibv_destroy_qp(stage->qp), 0);
    assert_int_equal(ibv_destroy_srq(stage->srq), 0);
    assert_int_equal(ibv_destroy_cq(stage->cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(stage->channel), 0);
}

/* ---- objects in use ------------------------------------------------------ */

static void window_keeps_region(struct stage *stage)
{
    struct pair pair;
    struct ibv_mw *mw = ibv_alloc_mw(stage->api->pd, IBV_MW_TYPE_1);
    struct ibv_mw_bind bind = { .bind_info = { .mr = stage->mr,
                                               .addr = (uintptr_t)stage->memory,
                                               .length = sizeof stage->memory,
                                               .mw_access_flags = IBV_ACCESS_REMOTE_WRITE },
                                .send_flags = IBV_SEND_SIGNALED };

    assert_non_null(mw);
    FAILS("ibv_bind_mw", ibv_bind_mw(stage->qp, mw, &bind)); /* the queue pair is in RESET */
    api_pair_open(stage->api, &pair, NULL);
    assert_int_equal(ibv_bind_mw(pair.a.qp, mw, &bind), 0);
    api_expect(pair.a.cq, 0, IBV_WC_SUCCESS);
    FAILS("ibv_dereg_mr", ibv_dereg_mr(stage->mr));
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    api_pair_close(&pair);
}

static void group_keeps_queue_pair(struct stage *stage)
{
    const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
    struct ibv_qp_init_attr init = api_qp_attr(stage->cq);

    init.qp_type = IBV_QPT_UD;
    struct ibv_qp *qp = ibv_create_qp(stage->api->pd, &init);
    assert_non_null(qp);
    FAILS("ibv_attach_mcast", ibv_attach_mcast(stage->qp, &group, 0)); /* an RC queue pair */
    FAILS("ibv_detach_mcast", ibv_detach_mcast(qp, &group, 0));
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    FAILS("ibv_destroy_qp", ibv_destroy_qp(qp));
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void queue_keeps_domain(struct stage *stage)
{
    struct ibv_xrcd_init_attr init = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT
    };
    struct ibv_xrcd *xrcd = ibv_open_xrcd(stage->api->context, &init);
    struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV,
                                          .comp_mask = IBV_QP_INIT_ATTR_XRCD,
                                          .xrcd = xrcd };
    struct ibv_qp *qp = ibv_create_qp_ex(stage->api->context, &target);

    assert_non_null(qp);
    FAILS("ibv_close_xrcd", ibv_close_xrcd(xrcd));
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void region_keeps_device_memory(struct stage *stage)
{
    struct ibv_alloc_dm_attr init = { .length = 64 };
    struct ibv_dm *dm = ibv_alloc_dm(stage->api->context, &init);
    struct ibv_mr *mr = ibv_reg_dm_mr(stage->api->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
    uint32_t word = 0;

    assert_non_null(mr);
    FAILS("ibv_free_dm", ibv_free_dm(dm));
    FAILS("ibv_memcpy_to_dm", ibv_memcpy_to_dm(dm, 64, &word, sizeof word));
    FAILS("ibv_memcpy_from_dm", ibv_memcpy_from_dm(&word, dm, 64, sizeof word));
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static void parent_keeps_thread_domain(struct stage *stage)
{
    struct ibv_td_init_attr init = { 0 };
    struct ibv_td *td = ibv_alloc_td(stage->api->context, &init);
    struct ibv_parent_domain_init_attr attr = { .pd = stage->api->pd, .td = td };
    struct ibv_pd *parent = ibv_alloc_parent_domain(stage->api->context, &attr);

    assert_non_null(parent);
    FAILS("ibv_dealloc_td", ibv_dealloc_td(td));
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
}

static void fail_in_use(struct stage *stage)
{
    FAILS("ibv_dealloc_pd", ibv_dealloc_pd(stage->api->pd));
    FAILS("ibv_destroy_cq", ibv_destroy_cq(stage->cq));
    FAILS("ibv_destroy_srq", ibv_destroy_srq(stage->srq));
    FAILS("ibv_destroy_comp_channel", ibv_destroy_comp_channel(stage->channel));
    window_keeps_region(stage);
    group_keeps_queue_pair(stage);
    queue_keeps_domain(stage);
    region_keeps_device_memory(stage);
    parent_keeps_thread_domain(stage);
}

/* ---- wrong arguments ----------------------------------------------------- */

static void fail_posts(struct stage *stage)
{
    struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
    struct ibv_recv_wr recv = { .num_sge = 9 }, *bad_recv;
    struct ibv_qp_init_attr_ex init = { .send_cq = stage->cq,
                                        .recv_cq = stage->cq,
                                        .cap = { 4, 4, 1, 1, 0 },
                                        .qp_type = IBV_QPT_RC,
                                        .comp_mask =
                                            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                        .pd = stage->api->pd,
                                        .send_ops_flags = IBV_QP_EX_WITH_SEND };
    struct ibv_qp *qp = ibv_create_qp_ex(stage->api->context, &init);
    struct ibv_wc wc;

    assert_non_null(qp);
    FAILS("ibv_post_send", ibv_post_send(stage->qp, &send, &bad_send));
    FAILS("ibv_post_recv", ibv_post_recv(stage->qp, &recv, &bad_recv));
    FAILS("ibv_post_srq_recv", ibv_post_srq_recv(stage->srq, &recv, &bad_recv));
    FAILS("ibv_poll_cq", ibv_poll_cq(stage->cq, -1, &wc));
    ibv_wr_start(ibv_qp_to_qp_ex(qp));
    ibv_wr_send(ibv_qp_to_qp_ex(qp));
    FAILS("ibv_wr_complete", ibv_wr_complete(ibv_qp_to_qp_ex(qp)));
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void fail_polls(struct stage *stage)
{
    struct ibv_cq_ex *cq = api_cq_ex(stage->api, 4, 0);
    struct ibv_poll_cq_attr attr = { .comp_mask = 1 };

    FAILS("ibv_start_poll", ibv_start_poll(cq, &attr));
    attr.comp_mask = 0;
    errno = ENOTTY; /* an empty queue is not an error */
    assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
    assert_int_equal(errno, ENOTTY);
    api_destroy_cq_ex(cq);
}

static void fail_changes(struct stage *stage)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    struct ibv_srq_attr srq = { .max_wr = 0 };
    struct ibv_ece ece = { 0 };

    FAILS("ibv_modify_qp", ibv_modify_qp(stage->qp, &attr, IBV_QP_STATE));
    FAILS("ibv_modify_srq", ibv_modify_srq(stage->srq, &srq, IBV_SRQ_MAX_WR));
    FAILS("ibv_resize_cq", ibv_resize_cq(stage->cq, 0));
    FAILS("ibv_set_ece", ibv_set_ece(stage->qp, &ece));
    FAILS("ibv_query_ece", ibv_query_ece(stage->qp, &ece));
    FAILS("ibv_advise_mr",
          ibv_advise_mr(stage->api->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0));
    REFUSES("ibv_rereg_mr", ibv_rereg_mr(stage->mr, 0x40, NULL, NULL, 0, 0) == -1);
}

static void fail_queries(struct stage *stage)
{
    struct ibv_context *context = stage->api->context;
    struct ibv_port_attr port;
    struct ibv_values_ex values = { .comp_mask = 1u << 31 };
    struct ibv_gid_entry entry;
    union ibv_gid gid;
    __be16 pkey;
    uint32_t number;

    FAILS("ibv_query_port", ibv_query_port(context, 9, &port));
    FAILS("ibv_query_port", (ibv_query_port)(context, 9, (struct _compat_ibv_port_attr *)&port));
    FAILS("ibv_query_rt_values_ex", ibv_query_rt_values_ex(context, &values));
    FAILS("_ibv_query_gid_ex", ibv_query_gid_ex(context, 9, 0, &entry, 0));
    FAILS("_ibv_query_gid_table", ibv_query_gid_table(context, &entry, 0, 0));
    FAILS("ibv_get_srq_num", ibv_get_srq_num(stage->srq, &number));
    REFUSES("ibv_query_gid", ibv_query_gid(context, 9, 0, &gid) == -1);
    REFUSES("ibv_query_pkey", ibv_query_pkey(context, 9, 0, &pkey) == -1);
}

static void refuse_new_objects(struct stage *stage)
{
    const struct api *api = stage->api;
    struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RAW_PACKET };
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 0 } };
    struct ibv_ah_attr address = { .port_num = 9 };
    struct ibv_wc wc = { 0 };
    uint16_t vid;
    uint8_t mac[6];
    char text[8];

    REFUSES("ibv_create_cq", ibv_create_cq(api->context, 0, NULL, NULL, 0) == NULL);
    REFUSES("ibv_create_qp", ibv_create_qp(api->pd, &qp) == NULL);
    REFUSES("ibv_create_srq", ibv_create_srq(api->pd, &srq) == NULL);
    REFUSES("ibv_create_ah", ibv_create_ah(api->pd, &address) == NULL);
    REFUSES("ibv_create_ah_from_wc", ibv_create_ah_from_wc(api->pd, &wc, NULL, 1) == NULL);
    REFUSES("ibv_init_ah_from_wc", ibv_init_ah_from_wc(api->context, 1, &wc, NULL, &address) == -1);
    REFUSES("ibv_reg_mr", (ibv_reg_mr)(api->pd, text, 8, IBV_ACCESS_REMOTE_WRITE) == NULL);
    REFUSES("ibv_reg_mr_iova",
            (ibv_reg_mr_iova)(api->pd, text, 8, 0, IBV_ACCESS_REMOTE_WRITE) == NULL);
    REFUSES("ibv_reg_mr_iova2",
            ibv_reg_mr_iova2(api->pd, text, 8, 0, IBV_ACCESS_REMOTE_WRITE) == NULL);
    REFUSES("ibv_reg_dmabuf_mr", ibv_reg_dmabuf_mr(api->pd, 0, 8, 0, -1, 0) == NULL);
    REFUSES("ibv_import_device", ibv_import_device(-1) == NULL);
    REFUSES("ibv_import_pd", ibv_import_pd(api->context, UINT32_MAX) == NULL);
    REFUSES("ibv_import_mr", ibv_import_mr(api->pd, UINT32_MAX) == NULL);
    REFUSES("ibv_import_dm", ibv_import_dm(api->context, UINT32_MAX) == NULL);
    REFUSES("ibv_resolve_eth_l2_from_gid",
            ibv_resolve_eth_l2_from_gid(api->context, &address, mac, &vid) == -1);
    REFUSES("ibv_read_sysfs_file", ibv_read_sysfs_file("/nowhere", "at_all", text, 8) == -1);
}

/* ---- calls that fail only in a forked child ------------------------------ */

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(__LINE__ % 250 + 1);                                                             \
    } while (0)
#define MUST_FAIL(call)                                                                            \
    do {                                                                                           \
        errno = 0;                                                                                 \
        MUST((call) == EIO && errno == EIO);                                                       \
    } while (0)

static void in_child(const struct stage *stage)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_srq_attr srq;
    struct ibv_device_attr device;
    struct ibv_device_attr_ex more;
    struct ibv_async_event event;
    struct ibv_cq *cq;
    void *user;

    MUST_FAIL(ibv_query_qp(stage->qp, &attr, IBV_QP_STATE, &init));
    MUST_FAIL(ibv_query_srq(stage->srq, &srq));
    MUST_FAIL(ibv_query_device(stage->api->context, &device));
    MUST_FAIL(ibv_query_device_ex(stage->api->context, NULL, &more));
    MUST_FAIL(ibv_req_notify_cq(stage->cq, 0));
    errno = 0;
    MUST(ibv_get_cq_event(stage->channel, &cq, &user) == -1 && errno == EIO);
    errno = 0;
    MUST(ibv_get_async_event(stage->api->context, &event) == -1 && errno == EIO);
    errno = 0;
    MUST(ibv_alloc_pd(stage->api->context) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_create_comp_channel(stage->api->context) == NULL && errno == EIO);
    _exit(0);
}

static void fail_in_child(struct stage *stage)
{
    int status = -1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        in_child(stage);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    note("ibv_query_qp");
    note("ibv_query_srq");
    note("ibv_query_device");
    note("ibv_get_cq_event");
    note("ibv_get_async_event");
    note("ibv_alloc_pd");
    note("ibv_create_comp_channel");
}

/* ---- every exported verb ------------------------------------------------- */

/* Verbs whose errno is not tested: most return no error, or only errors about memory or
 * descriptors. */
static const char *const never_fail[] = {
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_copy_ah_attr_from_kern",
    "ibv_get_sysfs_path",
    "ibv_rate_to_mult",
    "mult_to_ibv_rate",
    "ibv_rate_to_mbps",
    "mbps_to_ibv_rate",
    "ibv_ack_async_event",
    "ibv_ack_cq_events",
    "ibv_close_device",
    "ibv_destroy_ah",
    "ibv_dofork_range",
    "ibv_dontfork_range",
    "ibv_event_type_str",
    "ibv_fork_init",
    "ibv_free_device_list",
    "ibv_get_device_guid",
    "ibv_get_device_list",
    "ibv_get_device_name",
    "ibv_get_device_index",
    "ibv_node_type_str",
    "ibv_open_device",
    "ibv_port_state_str",
    "ibv_wc_status_str",
    "ibv_get_pkey_index",
    "ibv_qp_to_qp_ex",
    "ibv_unimport_mr",
    "ibv_unimport_pd",
    "ibv_unimport_dm",
    "ibv_is_fork_initialized",
    "ibv_query_qp_data_in_order",
};

static bool listed(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

/* A new verb of symbols.txt needs a call above that fails, or a line in never_fail. */
static void assert_all_seen(void)
{
    char line[256], name[128], nodes[64], kind[32];
    FILE *table = fopen(API_SYMBOLS, "r");
    unsigned verbs = 0;

    assert_non_null(table);
    while (fgets(line, sizeof line, table) != NULL) {
        if (line[0] == '#' || sscanf(line, "%127s %63s %31s", name, nodes, kind) != 3 ||
            strcmp(kind, "api") != 0)
            continue;
        verbs++;
        if (!listed(name, seen, seen_count) &&
            !listed(name, never_fail, sizeof never_fail / sizeof never_fail[0]))
            fail_msg("%s failed in no test", name);
    }
    (void)fclose(table);
    assert_in_range(verbs, 70, NAMES_MAX);
}

static void errno__after_every_verb_that_failed__is_the_error(void **state)
{
    struct stage stage = { 0 };

    seen_count = 0;
    open_stage(&stage, *state);
    fail_in_use(&stage);
    fail_posts(&stage);
    fail_polls(&stage);
    fail_changes(&stage);
    fail_queries(&stage);
    refuse_new_objects(&stage);
    fail_in_child(&stage);
    close_stage(&stage);
    assert_all_seen();
}

static void errno__after_verbs_that_succeeded__is_as_before(void **state)
{
    struct stage stage = { 0 };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_wc wc;

    open_stage(&stage, *state);
    errno = ENOTTY;
    assert_int_equal(ibv_query_qp(stage.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(ibv_poll_cq(stage.cq, 1, &wc), 0);
    assert_int_equal(errno, ENOTTY);
    close_stage(&stage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(errno__after_every_verb_that_failed__is_the_error),
        API_TEST(errno__after_verbs_that_succeeded__is_as_before),
    };

    return API_RUN(tests);
}
