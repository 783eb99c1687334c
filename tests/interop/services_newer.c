/* SPDX-License-Identifier: BSD-3-Clause */
/* services_newer.c - tests ATOMIC_WRITE and FLUSH, which the client requests.
 *
 * Linux rxe of 6.12 has both operations, but its user library in Debian 12 does not support FLUSH.
 * There the test posts a WRITE, and changes it into a FLUSH in the queue that library and kernel
 * share, before it rings the doorbell.
 */
#include <inttypes.h>
#include <rdma/rdma_user_rxe.h>
#include <stdio.h>
#include <string.h>

#include "services.h"

#define TARGET       SERVICES_ROOM /* offset in the peer's memory */
#define WORDS        20u
#define WORD_ID      100u
#define FLUSH_ID     0x666c757368000000u /* wr_id by which the test finds the request in memory */
#define OPCODE_FLUSH 14u

enum { FLUSH_GLOBAL = 1, FLUSH_PERSISTENT = 2 };
enum { FLUSH_RANGE = 0, FLUSH_REGION = 1 };

/* <infiniband/verbs.h> has wr_flush since rdma-core 45. */
#ifdef URO_HAS_IBV_WR_FLUSH
#define wr_flush_of(qp) ((qp)->wr_flush)
#else
struct newer_qp_ex {
    struct ibv_qp_ex older;
    void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t length,
                     uint8_t type, uint8_t level);
};
#define wr_flush_of(qp) (((struct newer_qp_ex *)(qp))->wr_flush)
#endif

/* Layout of a FLUSH in kernels since 6.2, in place of the address and key of a WRITE. */
struct rxe_flush {
    uint64_t remote_addr;
    uint32_t length;
    uint32_t rkey;
    uint8_t type;
    uint8_t level;
};

static struct ibv_qp_ex *begin(struct services_end *end, uint64_t id)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(end->qps[0]);

    ibv_wr_start(qp);
    qp->wr_id = id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

static void complete(struct ibv_qp_ex *qp)
{
    int error = ibv_wr_complete(qp);

    if (error != 0)
        meet_die("ibv_wr_complete: %s", strerror(error));
}

/* Expects that the last request of this end fails with @status. */
static void expect_failure(struct services_end *end, uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc;

    services_wait(end, &wc);
    if (wc.wr_id != id || wc.status != status)
        meet_die("completion of %" PRIu64 ": %s, expected %s", wc.wr_id,
                 ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
}

/* ---- ATOMIC_WRITE -------------------------------------------------------- */

static uint64_t word(uint32_t number)
{
    return 0x0102030405060708u * (number + 1);
}

/* Writes every other word of the target, and then one word with an invalid key. */
static void write_words(struct services_end *end)
{
    struct ibv_wc wc;

    for (uint32_t i = 0; i < WORDS; i++) {
        struct ibv_qp_ex *qp = begin(end, WORD_ID + i);
        uint64_t value = word(i);
        ibv_wr_atomic_write(qp, end->theirs.rkey, end->theirs.address + TARGET + 16 * i, &value);
        complete(qp);
        services_expect(end, WORD_ID + i, &wc);
        if (wc.opcode != IBV_WC_ATOMIC_WRITE)
            meet_die("ATOMIC_WRITE completed as %d", wc.opcode);
    }
    meet_barrier(end->peer);
    meet_barrier(end->peer);
    struct ibv_qp_ex *qp = begin(end, 1);
    ibv_wr_atomic_write(qp, end->theirs.rkey ^ 0x80u, end->theirs.address + TARGET, "12345678");
    complete(qp);
    expect_failure(end, 1, IBV_WC_REM_ACCESS_ERR);
}

static void compare_words(struct services_end *end)
{
    meet_barrier(end->peer);
    for (uint32_t i = 0; i < 2 * WORDS; i++) {
        uint64_t expected = i % 2 == 0 ? word(i / 2) : 0, found;
        memcpy(&found, end->memory + TARGET + 8u * i, sizeof found);
        if (found != expected)
            meet_die("word %u is %" PRIx64 ", expected %" PRIx64, i, found, expected);
    }
    meet_barrier(end->peer);
}

void services_run_atomic_write(struct services_end *end)
{
    end->operations = IBV_QP_EX_WITH_ATOMIC_WRITE;
    services_open(end, IBV_QPT_RC, 1, false);
    if (end->client)
        write_words(end);
    else
        compare_words(end);
    services_close(end);
}

/* ---- FLUSH --------------------------------------------------------------- */

/* Returns the request with @id in the send queue of rxe, which is mapped from its device. */
static struct rxe_send_wqe *shared_request(uint64_t id)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    struct rxe_send_wqe *found = NULL;
    char line[512];

    while (maps != NULL && found == NULL && fgets(line, sizeof line, maps) != NULL) {
        uintptr_t from, to;
        if (strstr(line, "/uverbs") == NULL ||
            sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2)
            continue;
        for (; from + sizeof *found <= to && found == NULL; from += sizeof(uint64_t))
            if (*(const uint64_t *)from == id)       // NOLINT(performance-no-int-to-ptr)
                found = (struct rxe_send_wqe *)from; // NOLINT(performance-no-int-to-ptr)
    }
    if (maps != NULL)
        (void)fclose(maps);
    if (found == NULL)
        meet_die("the library has no FLUSH, and rxe's send queue was not found");
    return found;
}

static void flush(struct services_end *end, struct ibv_qp_ex *qp, uint64_t id, uint32_t length,
                  uint8_t type, uint8_t level)
{
    uint64_t address = end->theirs.address + TARGET;

    qp->wr_id = id;
    if (!end->flush_unknown) {
        wr_flush_of(qp)(qp, end->theirs.rkey, address, length, type, level);
        return;
    }
    ibv_wr_rdma_write(qp, end->theirs.rkey, address);
    ibv_wr_set_sge(qp, end->mr->lkey, (uintptr_t)end->memory, length);
    struct rxe_send_wqe *wqe = shared_request(id);
    struct rxe_flush request = { address, length, end->theirs.rkey, type, level };
    wqe->wr.opcode = OPCODE_FLUSH;
    memcpy(&wqe->wr.wr, &request, sizeof request);
}

static const uint32_t lengths[] = { 1, 8, 1000, 5000, 65536 };
#define LENGTHS (sizeof lengths / sizeof lengths[0])

/* Posts a WRITE and a FLUSH behind it, of the written range or of the whole region. */
static void write_and_flush(struct services_end *end)
{
    struct ibv_wc wc;

    for (uint32_t i = 0; i < LENGTHS; i++) {
        services_fill(end->memory, lengths[i], i);
        struct ibv_qp_ex *qp = begin(end, i);
        ibv_wr_rdma_write(qp, end->theirs.rkey, end->theirs.address + TARGET);
        ibv_wr_set_sge(qp, end->mr->lkey, (uintptr_t)end->memory, lengths[i]);
        flush(end, qp, FLUSH_ID + i, lengths[i], FLUSH_GLOBAL,
              i % 2 == 0 ? FLUSH_RANGE : FLUSH_REGION);
        complete(qp);
        services_expect(end, i, &wc);
        services_expect(end, FLUSH_ID + i, &wc);
        meet_barrier(end->peer);
        meet_barrier(end->peer);
    }
    struct ibv_qp_ex *qp = begin(end, 0); /* an operation that the queue pair does not allow */
    flush(end, qp, FLUSH_ID + LENGTHS, 8, FLUSH_PERSISTENT, FLUSH_RANGE);
    complete(qp);
    expect_failure(end, FLUSH_ID + LENGTHS, IBV_WC_REM_INV_REQ_ERR);
}

static void compare_written(struct services_end *end)
{
    for (uint32_t i = 0; i < LENGTHS; i++) {
        meet_barrier(end->peer);
        services_compare(end->memory + TARGET, lengths[i], i);
        meet_barrier(end->peer);
    }
}

void services_run_flush(struct services_end *end)
{
    end->operations = IBV_QP_EX_WITH_RDMA_WRITE | SERVICES_WITH_FLUSH;
    end->access = SERVICES_ACCESS_FLUSH_GLOBAL;
    services_open(end, IBV_QPT_RC, 1, false);
    if (end->client)
        write_and_flush(end);
    else
        compare_written(end);
    services_close(end);
}
