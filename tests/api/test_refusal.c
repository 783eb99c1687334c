/* SPDX-License-Identifier: BSD-3-Clause */
/* Each call that is refused says what is wrong with its arguments, to `uroce why` and on stderr. */
#include "api/api.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/reader.h"

static struct uro_stats_refusal last;

static void look(void *context, const struct uro_stats_file *file)
{
    (void)context;
    if (file->error == 0 && file->kind == URO_STATS_PROCESS && file->page->header.pid == getpid() &&
        strcmp(file->page->device, "uroce0") == 0)
        (void)uro_stats_refusal(file->page, file->page->refusal_count, &last);
}

/* Checks that the newest refusal is of @call and contains @wanted. */
static void expect(const char *call, int error, const char *wanted)
{
    last = (struct uro_stats_refusal){ 0 };
    assert_int_equal(uro_stats_read(geteuid(), look, NULL), 0);
    assert_string_equal(last.call, call);
    assert_int_equal(last.error, error);
    if (strstr(last.text, wanted) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", last.text, wanted);
}

static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void begin(const struct api *api, enum ibv_qp_state state)
{
    cq = api_cq(api, 16);
    qp = api_qp(api, cq);
    for (unsigned to = IBV_QPS_INIT; to <= (unsigned)state; to++)
        assert_int_equal(api_go(api, qp, (enum ibv_qp_state)to, qp->qp_num), 0);
}

static void end(void)
{
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void refuse_modify(struct ibv_qp_attr *attr, int mask, const char *wanted)
{
    assert_int_equal(ibv_modify_qp(qp, attr, mask), EINVAL);
    expect("ibv_modify_qp", EINVAL, wanted);
}

static void modify__to_rtr__says_which_attribute_is_wrong(void **state)
{
    const struct api *api = *state;

    begin(api, IBV_QPS_INIT);
    const struct ibv_qp_attr good = api_attr(api, qp->qp_num);
    struct ibv_qp_attr attr = good;
    attr.qp_state = IBV_QPS_RTR;

    attr.path_mtu = IBV_MTU_4096;
    refuse_modify(
        &attr, API_TO_RTR,
        "path_mtu 4096 is more than active_mtu 1024 of the port, whose link carries 1500");
    attr.path_mtu = (enum ibv_mtu)9;
    refuse_modify(&attr, API_TO_RTR, "path_mtu 9 is no enum ibv_mtu");
    attr.path_mtu = good.path_mtu;

    attr.ah_attr.grh.sgid_index = 99;
    refuse_modify(&attr, API_TO_RTR, "sgid_index 99 has no GID: the device has 3, 0 to 2");
    attr.ah_attr.grh.sgid_index = good.ah_attr.grh.sgid_index;

    attr.ah_attr.is_global = 0;
    refuse_modify(&attr, API_TO_RTR, "has no GRH");
    attr.ah_attr.is_global = 1;

    attr.ah_attr.port_num = 2;
    refuse_modify(&attr, API_TO_RTR, "ah_attr.port_num is 2; the only port is 1");
    attr.ah_attr.port_num = 1;

    assert_int_equal(inet_pton(AF_INET6, "fd00::2", attr.ah_attr.grh.dgid.raw), 1);
    refuse_modify(&attr, API_TO_RTR,
                  "the peer's GID fd00::2 is IPv6, but sgid_index 1 is 10.0.0.1");
    memset(attr.ah_attr.grh.dgid.raw, 0, 16);
    refuse_modify(&attr, API_TO_RTR, "dgid is zero");
    attr.ah_attr = good.ah_attr;

    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.9.9.9", attr.ah_attr.grh.dgid.raw), 1);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), ENETUNREACH);
    expect("ibv_modify_qp", ENETUNREACH, "the peer's GID 10.9.9.9 is in no subnet");
    attr.ah_attr = good.ah_attr;

    attr.min_rnr_timer = 32;
    refuse_modify(&attr, API_TO_RTR, "min_rnr_timer is 32; it must be at most 31");
    attr.min_rnr_timer = good.min_rnr_timer;
    attr.dest_qp_num = 1u << 24;
    refuse_modify(&attr, API_TO_RTR, "dest_qp_num is 16777216");
    attr.dest_qp_num = good.dest_qp_num;

    refuse_modify(&attr, API_TO_RTR & ~(IBV_QP_MIN_RNR_TIMER | IBV_QP_AV),
                  "INIT to RTR lacks IBV_QP_AV, IBV_QP_MIN_RNR_TIMER in the mask");
    refuse_modify(&attr, API_TO_RTR | IBV_QP_TIMEOUT,
                  "INIT to RTR does not take IBV_QP_TIMEOUT in the mask");
    end();
}

static void modify__other_transitions__say_what_is_wrong(void **state)
{
    const struct api *api = *state;

    begin(api, IBV_QPS_RESET);
    struct ibv_qp_attr attr = api_attr(api, qp->qp_num);
    attr.qp_state = IBV_QPS_RTS;
    refuse_modify(&attr, API_TO_RTS, "no transition leads from RESET to RTS");
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 2;
    refuse_modify(&attr, API_TO_INIT, "port_num is 2; the only port is 1");
    attr.port_num = 1;
    attr.pkey_index = 1;
    refuse_modify(&attr, API_TO_INIT, "pkey_index is 1; it must be at most 0");
    attr.pkey_index = 0;
    attr.qp_access_flags = 1 << 30;
    refuse_modify(&attr, API_TO_INIT, "unknown bit in qp_access_flags 0x40000000");
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, qp->qp_num), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, qp->qp_num), 0);
    attr = api_attr(api, qp->qp_num);
    attr.qp_state = IBV_QPS_RTS;
    attr.cur_qp_state = IBV_QPS_INIT;
    refuse_modify(&attr, API_TO_RTS | IBV_QP_CUR_STATE,
                  "cur_qp_state is INIT, but the state is RTR");
    attr.retry_cnt = 8;
    refuse_modify(&attr, API_TO_RTS, "retry_cnt is 8; it must be at most 7");
    end();
}

static void refuse_send(struct ibv_send_wr *wr, const char *wanted)
{
    struct ibv_send_wr *bad;

    assert_int_equal(ibv_post_send(qp, wr, &bad), EINVAL);
    expect("ibv_post_send", EINVAL, wanted);
}

static void post__says_what_is_wrong_with_the_request(void **state)
{
    const struct api *api = *state;
    struct ibv_sge sges[5] = { { .length = 4 } };
    struct ibv_send_wr wr = { .sg_list = sges, .num_sge = 1, .opcode = IBV_WR_SEND };
    struct ibv_recv_wr recv = { .sg_list = sges, .num_sge = 5 }, *bad;

    begin(api, IBV_QPS_RTR);
    refuse_send(&wr, "the queue pair is in RTR: sends need RTS");
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, qp->qp_num), 0);
    wr.num_sge = 5;
    refuse_send(&wr, "num_sge is 5, but the queue pair has max_send_sge 4");
    wr.num_sge = 1;
    wr.opcode = (enum ibv_wr_opcode)77;
    refuse_send(&wr, "opcode 77 is unknown");
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    refuse_send(&wr, "an atomic needs a buffer of 8 bytes, not of 4");
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_INLINE;
    sges[0].length = 1000;
    refuse_send(&wr, "IBV_SEND_INLINE with 1000 bytes, but the queue pair has max_inline_data");
    wr.send_flags = 1u << 20;
    refuse_send(&wr, "send_flags 0x100000 is not possible");
    assert_int_equal(ibv_post_recv(qp, &recv, &bad), EINVAL);
    expect("ibv_post_recv", EINVAL, "num_sge is 5, but the queue has max 4");
    end();
}

/* A full queue is no mistake: programs post until it is full. */
static void post__to_a_full_queue__is_not_recorded(void **state)
{
    const struct api *api = *state;
    struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
    int error;

    begin(api, IBV_QPS_RESET);
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
    expect("ibv_post_recv", EINVAL, "the queue pair is in RESET: receives need INIT");
    const uint64_t number = last.number;
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, qp->qp_num), 0);
    while ((error = ibv_post_recv(qp, &wr, &bad)) == 0)
        ;
    assert_int_equal(error, ENOMEM);
    expect("ibv_post_recv", EINVAL, "the queue pair is in RESET");
    assert_int_equal(last.number, number);
    end();
}

static void create__says_which_limit_is_exceeded(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 0, .max_sge = 1 } };

    begin(api, IBV_QPS_RESET);
    struct ibv_qp_init_attr attr = api_qp_attr(cq);
    attr.cap.max_send_sge = 33;
    assert_null(ibv_create_qp(api->pd, &attr));
    expect("ibv_create_qp", EINVAL, "max_send_sge is 33; max_sge is 32");
    attr = api_qp_attr(NULL);
    assert_null(ibv_create_qp(api->pd, &attr));
    expect("ibv_create_qp", EINVAL, "send_cq is NULL");
    attr = api_qp_attr(cq);
    attr.qp_type = IBV_QPT_RAW_PACKET; /* probes are not recorded */
    assert_null(ibv_create_qp(api->pd, &attr));
    attr = api_qp_attr(cq);
    attr.cap.max_inline_data = 1u << 20;
    assert_null(ibv_create_qp(api->pd, &attr));
    expect("ibv_create_qp", EINVAL, "send_cq is NULL");
    assert_null(ibv_create_cq(api->context, 0, NULL, NULL, 0));
    expect("ibv_create_cq", EINVAL, "cqe is 0 (1 to max_cqe");
    assert_null(ibv_create_srq(api->pd, &srq));
    expect("ibv_create_srq", EINVAL, "max_wr is 0");
    struct ibv_ah_attr ah = api_attr(api, 1).ah_attr;
    ah.is_global = 0;
    assert_null(ibv_create_ah(api->pd, &ah));
    expect("ibv_create_ah", EINVAL, "has no GRH");
    end();
}

static void reg_mr__says_what_the_memory_or_the_rights_lack(void **state)
{
    const struct api *api = *state;
    static char memory[8];
    struct ibv_cq *start = api_cq(api, 1);

    assert_null(ibv_reg_mr(api->pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE));
    expect("ibv_reg_mr", EINVAL, "without IBV_ACCESS_LOCAL_WRITE");
    char *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(nothing, MAP_FAILED);
    assert_int_equal(munmap(nothing, 4096), 0);
    assert_null(ibv_reg_mr(api->pd, nothing, 4096, IBV_ACCESS_LOCAL_WRITE));
    expect("ibv_reg_mr", EFAULT, "not all of the 4096 bytes");
    assert_int_equal(ibv_destroy_cq(start), 0);
}

/* The same mistake in a loop is one line, and does not replace other refusals. */
static void refusal__repeated__is_one_line(void **state)
{
    const struct api *api = *state;
    static char printed[4096];
    FILE *kept = tmpfile();
    const int before = dup(STDERR_FILENO);
    unsigned lines = 0;

    begin(api, IBV_QPS_RESET);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQE };
    assert_non_null(kept);
    assert_true(dup2(fileno(kept), STDERR_FILENO) >= 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    (void)fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_true(pread(fileno(kept), printed, sizeof printed - 1, 0) > 0);
    for (const char *at = printed; *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 1);
    assert_non_null(strstr(printed, "uroce: uroce0: ibv_modify_qp: no transition leads from RESET "
                                    "to SQE"));
    expect("ibv_modify_qp", EINVAL, "no transition leads from RESET to SQE");
    assert_int_equal(last.repeats, 999);
    (void)close(before);
    (void)fclose(kept);
    end();
}

/* Removes the files that the process below has left. */
static void remove_all(const char *directory)
{
    DIR *list = opendir(directory);
    char path[512];

    for (const struct dirent *entry = list != NULL ? readdir(list) : NULL; entry != NULL;
         entry = readdir(list)) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        (void)unlink(path);
    }
    if (list != NULL)
        (void)closedir(list);
    (void)rmdir(directory);
}

int main(void)
{
    int status = 1 << 8;
    char directory[] = "/tmp/uroce-test-refusal-XXXXXX";
    const struct CMUnitTest tests[] = {
        API_TEST(refusal__repeated__is_one_line),
        API_TEST(modify__to_rtr__says_which_attribute_is_wrong),
        API_TEST(modify__other_transitions__say_what_is_wrong),
        API_TEST(post__says_what_is_wrong_with_the_request),
        API_TEST(post__to_a_full_queue__is_not_recorded),
        API_TEST(create__says_which_limit_is_exceeded),
        API_TEST(reg_mr__says_what_the_memory_or_the_rights_lack),
    };

    if (mkdtemp(directory) == NULL || setenv("UROCE_STATE_DIR", directory, 1) != 0)
        return 1;
    const pid_t child = fork(); /* its device ends with it */
    if (child == 0)
        exit(API_RUN(tests));
    (void)waitpid(child, &status, 0);
    remove_all(directory);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
