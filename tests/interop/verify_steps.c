/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_steps.c - runs the planned steps: posts, takes completions, compares areas. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "meet.h"
#include "support/patience.h"
#include "verify_plan.h"

enum direction { CLIENT_ASKS, SERVER_ASKS, BOTH_ASK, DIRECTION_COUNT };

/* ---- posting ---- */

/* Fills in two elements for every third message, one for other messages, and none for an empty
 * message. Returns their number. */
static int pieces(uint32_t message, const uint8_t *at, uint32_t size, uint32_t lkey,
                  struct ibv_sge sges[2])
{
    uint32_t first = message % 3 == 1 && size > 1 ? size / 2 + 1 : size;

    if (size == 0)
        return 0;
    sges[0] = (struct ibv_sge){ (uintptr_t)at, first, lkey };
    sges[1] = (struct ibv_sge){ (uintptr_t)at + first, size - first, lkey };
    return first < size ? 2 : 1;
}

static void post_receives(const struct verify_end *end, const struct step *step)
{
    for (uint32_t i = 0; i < step->count; i++) {
        const struct verb_kind *kind = verify_plan_kind(step, i);
        struct ibv_sge sges[2];
        struct ibv_recv_wr wr = { .wr_id = VERIFY_RECV_WRID | i, .sg_list = sges }, *bad;

        if (!kind->receives)
            continue;
        if (verify_plan_verb(step, i) != WRITE_IMM)
            wr.num_sge = pieces(i, end->target + verify_plan_slot(step, i), step->size,
                                end->target_mr->lkey, sges);
        int error = ibv_post_recv(end->qp, &wr, &bad);
        if (error != 0)
            meet_die("ibv_post_recv: %s", strerror(error));
    }
}

/* Returns whether the message is signalled. Some messages are not; the last message always is. */
static bool signaled(const struct step *step, uint32_t message)
{
    return message % 5 != 2 || message == step->count - 1;
}

/* Posts a message. @value: the word in the target before this message. */
static void post_message(const struct verify_end *end, const struct step *step, uint32_t message,
                         uint64_t value)
{
    const struct verb_kind *kind = verify_plan_kind(step, message);
    uint64_t remote = end->remote_target + verify_plan_remote_slot(step, message);
    uint32_t size = verify_plan_size(step, message);
    struct ibv_sge sges[2];
    struct ibv_send_wr wr = { .wr_id = message, .sg_list = sges, .opcode = kind->opcode }, *bad;
    bool outward = !kind->atomic && kind->opcode != IBV_WR_RDMA_READ;

    wr.num_sge = pieces(message, end->local + verify_plan_slot(step, message), size,
                        end->local_mr->lkey, sges);
    if (signaled(step, message))
        wr.send_flags |= IBV_SEND_SIGNALED;
    if (outward && size <= 64 && message % 4 == 2)
        wr.send_flags |= IBV_SEND_INLINE;
    if (kind->immediate)
        wr.imm_data = htonl(verify_plan_immediate(step, message));
    if (kind->atomic) {
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = end->remote_key;
        wr.wr.atomic.compare_add = verify_plan_verb(step, message) == FETCH_ADD
                                       ? verify_plan_operand(step, message)
                                       : verify_plan_compare(step, message, value);
        wr.wr.atomic.swap = verify_plan_operand(step, message);
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = end->remote_key;
    }
    int error = ibv_post_send(end->qp, &wr, &bad);
    if (error != 0)
        meet_die("ibv_post_send: %s", strerror(error));
}

static void post_messages(const struct verify_end *end, const struct step *step)
{
    for (uint32_t i = 0; i < step->count; i++) {
        uint64_t value = 0;

        if (verify_plan_kind(step, i)->atomic) /* an atomic returns the old value of the target */
            memcpy(&value, step->local.after + verify_plan_slot(step, i), 8);
        post_message(end, step, i, value);
    }
}

/* ---- completions ---- */

struct progress {
    const struct step *asked, *answered; /* requests of this end and of the peer; NULL: none */
    uint32_t next_send, next_receive;    /* message numbers of the next completions */
};

static uint32_t next_signaled(const struct step *step, uint32_t from)
{
    while (from < step->count && !signaled(step, from))
        from++;
    return from;
}

static uint32_t next_received(const struct step *step, uint32_t from)
{
    while (from < step->count && !verify_plan_kind(step, from)->receives)
        from++;
    return from;
}

static bool only_answers(const struct progress *progress)
{
    return progress->asked == NULL || progress->next_send == progress->asked->count;
}

static bool finished(const struct progress *progress)
{
    return only_answers(progress) &&
           (progress->answered == NULL || progress->next_receive == progress->answered->count);
}

static void take_send(struct progress *progress, const struct ibv_wc *wc)
{
    const struct step *step = progress->asked;

    if (step == NULL || progress->next_send == step->count || wc->wr_id != progress->next_send)
        meet_die("got the completion of message %llu, expected %u", (unsigned long long)wc->wr_id,
                 progress->next_send);
    if (wc->opcode != verify_plan_kind(step, progress->next_send)->completes_as)
        meet_die("message %u completed as opcode %d", progress->next_send, (int)wc->opcode);
    progress->next_send = next_signaled(step, progress->next_send + 1);
}

static void take_receive(struct progress *progress, const struct ibv_wc *wc)
{
    const struct step *step = progress->answered;
    uint32_t message = progress->next_receive;

    if (step == NULL || message == step->count || wc->wr_id != (VERIFY_RECV_WRID | message))
        meet_die("got receive %llx, expected %u", (unsigned long long)wc->wr_id, message);
    enum ibv_wc_opcode want =
        verify_plan_verb(step, message) == WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    if (wc->opcode != want)
        meet_die("receive %u has opcode %d", message, (int)wc->opcode);
    if (wc->byte_len != step->size)
        meet_die("receive %u has %u bytes, expected %u", message, wc->byte_len, step->size);
    bool has = wc->wc_flags & IBV_WC_WITH_IMM;
    if (has != verify_plan_kind(step, message)->immediate ||
        (has && ntohl(wc->imm_data) != verify_plan_immediate(step, message)))
        meet_die("receive %u has a wrong immediate", message);
    progress->next_receive = next_received(step, message + 1);
}

/* Ends the program if there was no completion for too long. The queue pair of a requester reports a
 * lost peer. If this end only responds, this function checks the TCP connection instead. */
static void wait(const struct verify_end *end, const struct progress *progress, time_t *looked,
                 time_t until)
{
    time_t now = time(NULL);

    if (now > until)
        meet_die("no completion in %d s; next are send %u, receive %u", VERIFY_SECONDS,
                 progress->next_send, progress->next_receive);
    if (now != *looked && only_answers(progress) && !meet_is_there(end->peer))
        meet_die("the other end is gone");
    *looked = now;
}

static void complete(const struct verify_end *end, struct progress *progress)
{
    time_t looked = time(NULL), until = looked + patience(VERIFY_SECONDS);
    struct ibv_wc wc;

    if (progress->asked != NULL)
        progress->next_send = next_signaled(progress->asked, 0);
    if (progress->answered != NULL)
        progress->next_receive = next_received(progress->answered, 0);
    while (!finished(progress)) {
        int got = ibv_poll_cq(end->cq, 1, &wc);

        if (got < 0)
            meet_die("ibv_poll_cq: %d", got);
        if (got == 0) {
            wait(end, progress, &looked, until);
            continue;
        }
        if (wc.status != IBV_WC_SUCCESS)
            meet_die("%s %llu: %s", wc.wr_id & VERIFY_RECV_WRID ? "receive" : "message",
                     (unsigned long long)(wc.wr_id & ~VERIFY_RECV_WRID),
                     ibv_wc_status_str(wc.status));
        if (wc.wr_id & VERIFY_RECV_WRID)
            take_receive(progress, &wc);
        else
            take_send(progress, &wc);
    }
    if (ibv_poll_cq(end->cq, 1, &wc) != 0)
        meet_die("unexpected completion: %llx", (unsigned long long)wc.wr_id);
}

/* ---- a step ---- */

static void compare(const struct step *step, const uint8_t *is, const uint8_t *should,
                    const char *what)
{
    if (memcmp(is, should, step->span) == 0)
        return;
    size_t at = 0;
    while (is[at] == should[at])
        at++;
    uint32_t message = 0;
    while (message + 1 < step->count && verify_plan_slot(step, message + 1) <= at)
        message++;
    meet_die("%s area: byte %zu is %02x, not %02x (message %u begins at %zu, %u bytes)", what, at,
             is[at], should[at], message, verify_plan_slot(step, message),
             verify_plan_size(step, message));
}

/* Runs a step. @asked, @answered: the requests and responses of this end; either may be NULL. */
static void run(struct verify_end *end, const struct step *asked, const struct step *answered)
{
    struct progress progress = { .asked = asked, .answered = answered };
    bool late = (asked != NULL ? asked : answered)->operation->late;

    if (asked != NULL)
        memcpy(end->local, asked->local.before, asked->span);
    if (answered != NULL)
        memcpy(end->target, answered->target.before, answered->span);
    if (answered != NULL && !late)
        post_receives(end, answered);
    verify_end_barrier(end);
    if (asked != NULL)
        post_messages(end, asked);
    if (late)
        verify_end_barrier(end);
    if (answered != NULL && late)
        post_receives(end, answered);
    complete(end, &progress);
    verify_end_barrier(end);
    if (asked != NULL)
        compare(asked, end->local, asked->local.after, "local");
    if (answered != NULL)
        compare(answered, end->target, answered->target.after, "target");
    verify_end_barrier(end);
}

static bool wanted(const struct operation *operation, uint32_t which,
                   const struct verify_options *options)
{
    if (which == MAX_SIZES || operation->turns[which] == 0)
        return false;
    return options->only == NULL || strcmp(options->only, operation->name) == 0;
}

/* Returns whether a size is left out: too large, or a READ of 0 bytes unless requested. */
static bool left_out(const struct operation *operation, uint32_t which,
                     const struct verify_options *options)
{
    if (operation->sizes[which] > options->largest)
        return true;
    return operation->verbs[0] == READ && operation->sizes[which] == 0 && !options->zero_read;
}

void verify_steps_run(struct verify_end *end, const struct verify_options *options, uint32_t round)
{
    static const char *const names[DIRECTION_COUNT] = { "client asks", "server asks", "both ask" };
    struct step *asked = verify_plan_new(), *answered = verify_plan_new();
    uint32_t client = options->meet.host != NULL;

    for (uint32_t i = 0; i < DIRECTION_COUNT * verify_operation_count; i++) {
        uint32_t d = i / verify_operation_count, o = i % verify_operation_count;
        const struct operation *operation = &verify_operations[o];
        bool asks = d == BOTH_ASK || (d == CLIENT_ASKS) == client;
        bool answers = d == BOTH_ASK || (d == CLIENT_ASKS) != client;
        uint64_t salt = (uint64_t)options->seed << 32 | round << 4 | d << 1;

        for (uint32_t s = 0; wanted(operation, s, options); s++) {
            if (left_out(operation, s, options))
                continue;
            verify_plan(asked, o, s, salt | client);
            verify_plan(answered, o, s, salt | !client);
            printf("%s, %s of %u octets, %u messages\n", names[d], operation->name, asked->size,
                   asked->count);
            run(end, asks ? asked : NULL, answers ? answered : NULL);
        }
    }
    verify_plan_free(asked);
    verify_plan_free(answered);
}
