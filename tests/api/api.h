/* SPDX-License-Identifier: BSD-3-Clause */
/* api.h - shared parts of the tests of the verbs API: a device, and two connected queue pairs. The
 * tests use the library as a program does: through <infiniband/verbs.h> and the shared object. The
 * device's link returns every frame to the device (UROCE_DEVICES in meson.build), so that one
 * process has both ends.
 */
#pragma once

#include "support/check.h"

#include <errno.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#define API_PORT    1
#define API_GID     1 /* the first IPv4 address */
#define API_SKIPPED 77
#define API_QKEY    0x11111111u

/* Returns the reason why no engine can be started, or "" if an engine can be started. */
const char *api_start_problem(void);

/* Runs @tests. Returns 77 when no engine can be started. */
int api_run(const char *name, const struct CMUnitTest *tests, size_t count);
#define API_RUN(tests) api_run(__FILE__, tests, sizeof(tests) / sizeof((tests)[0]))

/* Writes loopback address number @which, 0 to 2, of this test process to @text. Returns @text. */
#define API_ADDRESS 16
const char *api_own_address(unsigned which, char text[API_ADDRESS]);

struct api {
    struct ibv_device *device;
    struct ibv_context *context;
    struct ibv_pd *pd;
};

/* Fixtures of API_TEST: open and close the objects above. api_close() asserts that no object is
 * left. */
int api_open(void **state);
int api_close(void **state);
#define API_TEST(name) cmocka_unit_test_setup_teardown(name, api_open, api_close)

/* Opens the device of this name, and allocates a PD. Asserts that the device exists. If a call
 * fails, .context or .pd is NULL. */
struct api api_open_device(const char *name);
void api_close_device(const struct api *api);

/* Creates a CQ without a channel. */
struct ibv_cq *api_cq(const struct api *api, int cqe);

/* Creates an extended CQ with every reader that uroce has. @flags are of enum
 * ibv_create_cq_attr_flags. */
#define API_READERS                                                                                \
    (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                                 \
     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
struct ibv_cq_ex *api_cq_ex(const struct api *api, uint32_t cqe, uint32_t flags);
void api_destroy_cq_ex(struct ibv_cq_ex *cq);
extern struct ibv_poll_cq_attr api_poll_attr; /* all zero */
/* Calls ibv_start_poll() until there is a completion. */
void api_start_poll(struct ibv_cq_ex *cq);

/* Returns attributes of an RC queue pair with 16 sends and 16 receives of 4 elements. The caller
 * may change them. */
struct ibv_qp_init_attr api_qp_attr(struct ibv_cq *cq);
struct ibv_qp *api_qp(const struct api *api, struct ibv_cq *cq);

/* Returns the attributes for the transitions to RTS, connected to @peer; both PSNs are 0x123456. */
struct ibv_qp_attr api_attr(const struct api *api, uint32_t peer);
#define API_TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define API_TO_RTR                                                                                 \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define API_TO_RTS                                                                                 \
    (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |         \
     IBV_QP_MAX_QP_RD_ATOMIC)

/* Modifies to @state with exactly the attributes that the transition of the type needs. Returns the
 * result of ibv_modify_qp(). */
int api_go(const struct api *api, struct ibv_qp *qp, enum ibv_qp_state state, uint32_t peer);
/* Modifies to INIT, RTR and RTS. Asserts success. */
void api_connect(const struct api *api, struct ibv_qp *qp, uint32_t peer);

#define API_BUFFER 8192

/* Two connected queue pairs, each with a CQ and a registered buffer. */
struct pair {
    struct side {
        struct ibv_cq *cq;
        struct ibv_qp *qp;
        struct ibv_mr *mr;
        uint8_t buffer[API_BUFFER];
    } a, b;
};
/* Opens a side that is not connected yet, of any type that ibv_create_qp() supports. */
void api_side_open(const struct api *api, struct side *side, struct ibv_comp_channel *channel,
                   enum ibv_qp_type type, struct ibv_srq *srq);
void api_side_close(struct side *side);
/* Opens a side with CQs of the caller. side->cq is the CQ of its receives. */
void api_side_open_with(const struct api *api, struct side *side, struct ibv_cq *send_cq,
                        struct ibv_cq *recv_cq, enum ibv_qp_type type, struct ibv_srq *srq);
/* Moves both sides to RTS, connected to each other. */
void api_pair_join(const struct api *api, struct pair *pair);
/* Opens both sides as RC and connects them. */
void api_pair_open(const struct api *api, struct pair *pair, struct ibv_comp_channel *channel);
void api_pair_close(struct pair *pair);

/* Return an element of a side's buffer, and a signaled send request with one element. */
struct ibv_sge api_sge(const struct side *side, size_t offset, uint32_t length);
struct ibv_send_wr api_send(enum ibv_wr_opcode opcode, struct ibv_sge *sge);
/* Posts a send request. Asserts that *bad_wr is the request if the post fails. */
int api_post_send(struct side *side, struct ibv_send_wr *wr);
int api_post_srq(struct ibv_srq *srq, uint64_t id, struct ibv_sge *sge);
int api_post_recv(struct side *side, uint64_t id, struct ibv_sge *sge);

/* Polls until there is a completion. If none comes, meson's timeout ends the test. */
struct ibv_wc api_wait(struct ibv_cq *cq);
void api_expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status);

/* Waits for the next asynchronous event and acknowledges it. */
void api_expect_async(const struct api *api, enum ibv_event_type type, const void *element);

/* Returns a queue pair in ERR: a request that is posted to it is flushed at once. */
struct ibv_qp *api_flushing_qp(const struct api *api, struct ibv_cq *cq);
int api_post_id(struct ibv_qp *qp, uint64_t id);
/* Adds the completions @first to @first + @count - 1 to the CQ of @qp, whatever thread drives the
 * engine. */
void api_flush(const struct api *api, struct ibv_qp *qp, uint64_t first, uint64_t count);
