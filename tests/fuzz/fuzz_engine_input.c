/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_engine_input.c - runs any sequence of frames, posts and time steps on an engine with
 * connected queue pairs of every kind.
 *
 * The input is a sequence of steps. Each step has a byte for the kind, a byte for the argument, and
 * further bytes that the kind needs:
 *
 *   0 raw      argument * 8 bytes are a frame as they are
 *   1 packet   argument bytes from the BTH on; addresses, lengths, QPN and ICRC are made right
 *   2 time     argument^2 microseconds pass
 *   3 recv     a receive of argument * 16 bytes is posted
 *   4 send     opcode argument & 7, length argument * 24 (atomics: 8; LOCAL_INV: none); a
 *              datagram goes to address handle argument >> 3 & 3
 *   5 output   everything that is due is sent, and completions are polled
 *   6 modify   to state argument % 7
 *   7 choose   recv, send, more and modify are about queue pair argument % 5 from now on; before
 *              the first choose, they are about RC
 *   8 more     as send: a window bound or invalidated, SEND with invalidate, FLUSH, ATOMIC_WRITE,
 *              or an unknown opcode
 *   9 long     as packet, argument * 4 bytes
 *   10 message argument bytes make a message of the connection manager, see fuzz_manager.h
 *   11 manage  the application connects, accepts, rejects, leaves ...; argument selects the action
 *
 * Nothing outside the registered ranges may change. The invariants of the queue pairs must hold
 * after each output. A call that never returns is a failure, too.
 */
#include <string.h>

#include "fuzz_manager.h"
#include "wire/frame.h"

#define BODY  1100u
#define KINDS 12u
/* If the first byte of a field has one of these values, the field gets a valid value that a fuzzer
 * cannot guess. */
#define REAL        0xfeu /* R_Key of the region, Q_Key, XRC SRQ */
#define REAL_WINDOW 0xfdu
#define REAL_BOUND  0xfcu /* the window of type 2 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Returns the queue pair that a packet is for. */
static const struct uroce_qp *addressee(const struct stage *stage, const struct uro_opcode *op)
{
    if (op->name == NULL)
        return stage->qps[STAGE_RC];
    switch (op->service) {
    case URO_UC:
        return stage->qps[STAGE_UC];
    case URO_UD:
        return stage->qps[STAGE_UD];
    case URO_XRC:
        return stage->qps[op->role == URO_REQUEST ? STAGE_TGT : STAGE_INI];
    case URO_RC:
    case URO_CNP:
    case URO_SERVICE_COUNT:
        break;
    }
    return stage->qps[STAGE_RC];
}

static void mend_key(const struct stage *stage, uint8_t *key)
{
    if (key[0] == REAL)
        uro_put_be32(key, uroce_mr_key(stage->mr));
    else if (key[0] == REAL_WINDOW)
        uro_put_be32(key, uroce_mw_key(stage->windows[0]));
    else if (key[0] == REAL_BOUND)
        uro_put_be32(key, uroce_mw_key(stage->windows[1]));
}

static void mend_ext(const struct stage *stage, unsigned ext, uint8_t *at)
{
    if (ext & URO_EXT_XRCETH) {
        if (at[0] == REAL)
            uro_put_be32(at, uroce_srq_number(stage->xrc_srq));
        at += URO_XRCETH_LEN;
    }
    if ((ext & URO_EXT_DETH) && at[0] == REAL)
        uro_put_be32(at, STAGE_QKEY);
    if (ext & URO_EXT_FETH)
        at += URO_FETH_LEN;
    if (ext & (URO_EXT_RETH | URO_EXT_ATOMIC)) {
        if (at[8] >= REAL_BOUND && at[8] <= REAL) {
            mend_key(stage, at + 8);
            memset(at, 0, 6);
        }
    } else if (ext & URO_EXT_INV) {
        mend_key(stage, at);
    }
}

/* Corrects the fields of a packet. Returns true when the packet goes to the group. */
static bool mend(const struct stage *stage, uint8_t *bth, uint32_t length)
{
    const struct uro_opcode *op = &uro_opcodes[bth[0]];
    const bool group =
        op->name != NULL && op->service == URO_UD && uro_get_be24(bth + 5) == 0xffffff;

    if (!group)
        uro_put_be24(bth + 5, uroce_qp_number(addressee(stage, op)));
    if (op->name != NULL && length >= URO_BTH_LEN + uro_ext_length(op->ext))
        mend_ext(stage, op->ext, bth + URO_BTH_LEN);
    return group;
}

static void packet(struct stage *stage, const uint8_t *from, uint32_t length)
{
    uint8_t body[BODY];

    if (length < URO_BTH_LEN)
        return;
    memcpy(body, from, length);
    const bool group = mend(stage, body, length);
    stage_packet(stage, body, length, group ? &stage_group : &stage_gid);
}

/* Posts a receive. The engine refuses requests that the queue pair or its state does not allow. */
static void post_recv(struct stage *stage, uint8_t argument)
{
    const struct uroce_sge sge = { STAGE_BASE, argument * 16u, uroce_mr_key(stage->mr) };

    if (stage->chosen == STAGE_UD)
        (void)!uroce_srq_receive(stage->srq, argument, &sge, 1);
    else if (stage->chosen == STAGE_TGT)
        (void)!uroce_srq_receive(stage->xrc_srq, argument, &sge, 1);
    else
        (void)!uroce_qp_receive(stage->qps[stage->chosen], argument, &sge, 1);
}

/* Fills in the fields of @request that the opcode needs beside an address and a length. */
static void complete_request(const struct stage *stage, struct uroce_send *request,
                             uint8_t argument)
{
    struct uroce_mw *window = stage->windows[argument >> 3 & 1];

    request->remote_srqn = uroce_srq_number(stage->xrc_srq);
    if (request->opcode == UROCE_BIND_MW) {
        request->mw = window;
        request->mr = stage->mr;
        request->rkey = (uroce_mw_key(window) & ~0xffu) | argument;
        request->remote_address = STAGE_BASE + argument;
        request->bind_length = argument * 8u;
        request->bind_access = 0xe;
    } else if (request->opcode == UROCE_LOCAL_INV || request->opcode == UROCE_SEND_WITH_INV) {
        request->imm = uroce_mw_key(window);
    } else if (request->opcode == UROCE_FLUSH) {
        request->flush_placement = 1;
        request->flush_selectivity = argument >> 3 & 1;
        request->flush_length = argument * 24u;
    }
    if (stage->chosen == STAGE_UD) {
        const uint32_t which = argument >> 3 & 3; /* the last value selects no handle */
        request->ah = which < STAGE_AHS ? stage->ahs[which] : NULL;
        request->remote_qpn =
            which == STAGE_AH_GROUP ? 0xffffff : uroce_qp_number(stage->qps[STAGE_UD]);
        request->remote_qkey = STAGE_QKEY | (uint32_t)argument << 31;
    }
}

static void post_send(struct stage *stage, uint8_t opcode, uint8_t argument)
{
    const bool local =
        opcode == UROCE_BIND_MW || opcode == UROCE_LOCAL_INV || opcode == UROCE_FLUSH;
    const bool word =
        opcode == UROCE_COMPARE_SWAP || opcode == UROCE_FETCH_ADD || opcode == UROCE_ATOMIC_WRITE;
    const struct uroce_sge sge = { STAGE_BASE, word ? 8 : argument * 24u, uroce_mr_key(stage->mr) };
    struct uroce_send request = { .wr_id = argument,
                                  .opcode = (enum uroce_opcode)opcode,
                                  .flags = UROCE_SIGNALED,
                                  .sges = &sge,
                                  .sge_count = local ? 0 : 1,
                                  .remote_address = 0x9000 };

    complete_request(stage, &request, argument);
    (void)!uroce_qp_send(stage->qps[stage->chosen], &request);
}

static void post_more(struct stage *stage, uint8_t argument)
{
    static const uint8_t opcodes[8] = { UROCE_BIND_MW,       UROCE_LOCAL_INV,
                                        UROCE_SEND_WITH_INV, UROCE_FLUSH,
                                        UROCE_ATOMIC_WRITE,  UROCE_BIND_MW,
                                        UROCE_FLUSH,         13 /* unknown opcode */ };

    post_send(stage, opcodes[argument & 7], argument);
}

static struct managed managed;

/* Runs one step. Returns the number of input bytes that it used. */
static size_t step(struct stage *stage, uint8_t kind, uint8_t argument, const uint8_t *rest,
                   size_t left)
{
    static const size_t units[KINDS] = { [0] = 8, [1] = 1, [9] = 4, [10] = 1 };
    size_t length = argument * units[kind % KINDS];
    struct uroce_completion completions[16];

    if (length > left)
        length = left;
    switch (kind % KINDS) {
    case 0:
        stage_input(stage, rest, (uint32_t)length);
        break;
    case 1:
    case 9:
        packet(stage, rest, (uint32_t)length);
        break;
    case 2:
        stage->now += (uro_time)argument * argument * 1000;
        stage_output(stage);
        break;
    case 3:
        post_recv(stage, argument);
        break;
    case 4:
        post_send(stage, argument & 7, argument);
        break;
    case 5:
        stage_output(stage);
        (void)!uroce_engine_deliver(stage->engine);
        (void)uroce_cq_poll(stage->cq, completions, 16);
        break;
    case 6:
        stage_modify(stage, stage->chosen, (enum uroce_qp_state)(argument % 7));
        break;
    case 7:
        stage->chosen = (enum stage_qp)(argument % STAGE_QPS);
        break;
    case 10:
        fuzz_manager_message(&managed, stage, rest, (uint32_t)length);
        break;
    case 11:
        fuzz_manager_act(&managed, stage, argument);
        break;
    default:
        post_more(stage, argument);
        break;
    }
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stage stage = { .now = 0 };
    size_t at = 0;

    stage_open(&stage);
    fuzz_manager_open(&managed, &stage);
    while (at + 2 <= size) {
        uint8_t kind = data[at];
        uint8_t argument = data[at + 1];
        at += 2;
        at += step(&stage, kind, argument, data + at, size - at);
        fuzz_manager_listen(&managed, &stage);
    }
    stage_output(&stage);
    fuzz_manager_close(&managed, &stage);
    stage_close(&stage);
    return 0;
}
