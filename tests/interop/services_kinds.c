/* SPDX-License-Identifier: BSD-3-Clause */
/* services_kinds.c - the kinds of the services tests. Both ends run the same kind. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "services.h"

#define RECV_ID(number) (1000u + (number))
#define AFTER_LEAVE     64 /* length of the datagrams after a leave */
#define RXE_WC_WITH_INV 4  /* Linux rxe 6.1 returns the kernel's number of this flag */

static const uint32_t sizes[] = { 0, 1, 3, 255, 1023, 1024, 1025, 4095, 4096, 4097, 20001, 65536 };
#define SIZES (sizeof sizes / sizeof sizes[0])

/* ---- messages over connections ------------------------------------------ */

/* Sends each size as SEND, SEND with immediate, and WRITE with immediate. Both ends send in
 * turn. */
static void send_all(struct services_end *end)
{
    struct ibv_wc wc;

    for (uint32_t i = 0; i < 3 * SIZES; i++) {
        uint32_t length = sizes[i / 3];
        struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND, .imm_data = htonl(i) };
        if (i % 3 == 1)
            wr.opcode = IBV_WR_SEND_WITH_IMM;
        if (i % 3 == 2) {
            wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            wr.wr.rdma.remote_addr = end->theirs.address + SERVICES_ROOM;
            wr.wr.rdma.rkey = end->theirs.rkey;
        }
        services_fill(end->memory, length, i);
        meet_barrier(end->peer); /* the receive is posted */
        services_post_send(end, i % end->qp_count, &wr, 0, length);
        services_expect(end, i, &wc);
        meet_barrier(end->peer); /* the other end has received and compared the message */
    }
}

static void receive_all(struct services_end *end)
{
    struct ibv_wc wc;

    for (uint32_t i = 0; i < 3 * SIZES; i++) {
        uint32_t length = sizes[i / 3];
        uint8_t *arrived = end->memory + SERVICES_ROOM;
        memset(arrived, 0xee, SERVICES_ROOM);
        services_post_recv(end, i % end->qp_count, RECV_ID(i), 0, SERVICES_ROOM);
        meet_barrier(end->peer);
        services_expect(end, RECV_ID(i), &wc);
        if (wc.byte_len != length || wc.qp_num != end->qps[i % end->qp_count]->qp_num)
            meet_die("message %u: %u octets on queue pair %u", i, wc.byte_len, wc.qp_num);
        if ((i % 3 != 0) != ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) ||
            (i % 3 != 0 && ntohl(wc.imm_data) != i))
            meet_die("message %u: wrong immediate", i);
        services_compare(arrived, length, i);
        if (arrived[length] != 0xee)
            meet_die("message %u wrote beyond its end", i);
        meet_barrier(end->peer);
    }
}

static void both_ways(struct services_end *end, enum ibv_qp_type type, uint32_t qps, bool srq)
{
    services_open(end, type, qps, srq);
    if (end->client) {
        send_all(end);
        receive_all(end);
    } else {
        receive_all(end);
        send_all(end);
    }
    services_close(end);
}

static void run_uc(struct services_end *end)
{
    both_ways(end, IBV_QPT_UC, 1, false);
}

static void run_srq(struct services_end *end)
{
    both_ways(end, IBV_QPT_RC, SERVICES_QPS, true);
}

/* ---- datagrams ----------------------------------------------------------- */

static struct ibv_ah *handle(struct services_end *end, const void *gid)
{
    struct ibv_ah_attr attr = { .is_global = 1,
                                .port_num = 1,
                                .grh = { .hop_limit = 64,
                                         .sgid_index = end->options->meet.gid_index } };

    memcpy(attr.grh.dgid.raw, gid, sizeof attr.grh.dgid);
    struct ibv_ah *ah = ibv_create_ah(end->pd, &attr);
    if (ah == NULL)
        meet_die("ibv_create_ah: %s", strerror(errno));
    return ah;
}

static void send_datagrams(struct services_end *end, struct ibv_ah *ah, uint32_t qpn)
{
    struct ibv_wc wc;

    for (uint32_t i = 0; i < SIZES && sizes[i] <= end->options->meet.mtu; i++) {
        struct ibv_send_wr wr = { .wr_id = i,
                                  .opcode = i % 2 == 0 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
                                  .imm_data = htonl(i) };
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = qpn;
        wr.wr.ud.remote_qkey = SERVICES_QKEY;
        services_fill(end->memory, sizes[i], i);
        meet_barrier(end->peer);
        services_post_send(end, 0, &wr, 0, sizes[i]);
        services_expect(end, i, &wc);
        meet_barrier(end->peer);
    }
}

/* Checks that the IP header in the first 40 bytes names the sender. */
static void compare_grh(const struct services_end *end, const uint8_t *grh)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    bool v4 = memcmp(end->theirs.gid, mapped, sizeof mapped) == 0;

    if (v4 && (grh[20] != 0x45 || memcmp(grh + 32, end->theirs.gid + 12, 4) != 0))
        meet_die("the IPv4 header before a datagram is not the sender's");
    if (!v4 && (grh[0] >> 4 != 6 || memcmp(grh + 8, end->theirs.gid, 16) != 0))
        meet_die("the IPv6 header before a datagram is not the sender's");
}

static void receive_datagrams(struct services_end *end)
{
    struct ibv_wc wc;

    for (uint32_t i = 0; i < SIZES && sizes[i] <= end->options->meet.mtu; i++) {
        const uint8_t *arrived = end->memory + SERVICES_ROOM;
        services_post_recv(end, 0, RECV_ID(i), 0, sizes[i] + SERVICES_GRH);
        meet_barrier(end->peer);
        services_expect(end, RECV_ID(i), &wc);
        if (wc.byte_len != sizes[i] + SERVICES_GRH || !(wc.wc_flags & IBV_WC_GRH) ||
            wc.src_qp != end->theirs.qpn[0])
            meet_die("datagram %u: %u octets, flags %x, from %u", i, wc.byte_len, wc.wc_flags,
                     wc.src_qp);
        if (i % 2 == 1 && ntohl(wc.imm_data) != i)
            meet_die("datagram %u: wrong immediate", i);
        compare_grh(end, arrived);
        services_compare(arrived + SERVICES_GRH, sizes[i], i);
        meet_barrier(end->peer);
    }
}

static void run_ud(struct services_end *end)
{
    services_open(end, IBV_QPT_UD, 1, false);
    struct ibv_ah *ah = handle(end, end->theirs.gid);
    if (end->client) {
        send_datagrams(end, ah, end->theirs.qpn[0]);
        receive_datagrams(end);
    } else {
        receive_datagrams(end);
        send_datagrams(end, ah, end->theirs.qpn[0]);
    }
    ibv_destroy_ah(ah);
    services_close(end);
}

/* ---- groups -------------------------------------------------------------- */

static union ibv_gid group_gid(const struct services_options *options)
{
    union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

    if (inet_pton(AF_INET, options->group, gid.raw + 12) != 1 &&
        inet_pton(AF_INET6, options->group, gid.raw) != 1)
        meet_die("no group: %s", options->group);
    return gid;
}

/* Sends a datagram to the group, then one to the queue pair of the peer. */
static void send_after_leave(struct services_end *end, struct ibv_ah *group)
{
    struct ibv_ah *peer = handle(end, end->theirs.gid);
    struct ibv_wc wc;

    meet_barrier(end->peer); /* the peer has left the group */
    for (uint32_t i = 0; i < 2; i++) {
        struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND };
        wr.wr.ud.ah = i == 0 ? group : peer;
        wr.wr.ud.remote_qpn = i == 0 ? 0xffffff : end->theirs.qpn[0];
        wr.wr.ud.remote_qkey = SERVICES_QKEY;
        services_fill(end->memory, AFTER_LEAVE, i);
        services_post_send(end, 0, &wr, 0, AFTER_LEAVE);
        services_expect(end, i, &wc);
    }
    meet_barrier(end->peer);
    ibv_destroy_ah(peer);
}

/* Checks that the datagram to the group does not arrive, and that the other datagram does. */
static void receive_after_leave(struct services_end *end)
{
    struct ibv_wc wc;

    services_post_recv(end, 0, RECV_ID(0), 0, AFTER_LEAVE + SERVICES_GRH);
    meet_barrier(end->peer);
    services_expect(end, RECV_ID(0), &wc);
    services_compare(end->memory + SERVICES_ROOM + SERVICES_GRH, AFTER_LEAVE, 1);
    meet_barrier(end->peer);
}

/* The server joins the group, the client sends. Then the server leaves the group. */
static void run_group(struct services_end *end)
{
    union ibv_gid gid = group_gid(end->options);

    services_open(end, IBV_QPT_UD, 1, false);
    if (end->client) {
        struct ibv_ah *ah = handle(end, gid.raw);
        meet_barrier(end->peer);
        send_datagrams(end, ah, 0xffffff);
        send_after_leave(end, ah);
        ibv_destroy_ah(ah);
    } else {
        int error = ibv_attach_mcast(end->qps[0], &gid, 0);
        if (error != 0)
            meet_die("ibv_attach_mcast: %s", strerror(error));
        meet_barrier(end->peer);
        receive_datagrams(end);
        error = ibv_detach_mcast(end->qps[0], &gid, 0);
        if (error != 0)
            meet_die("ibv_detach_mcast: %s", strerror(error));
        receive_after_leave(end);
    }
    services_close(end);
}

/* ---- windows ------------------------------------------------------------- */

#define WINDOW_AT     4096u
#define WINDOW_LENGTH 10000u

/* The server binds a window to a part of its memory. The client uses the window and invalidates the
 * key of the window. */
static void offer_window(struct services_end *end)
{
    struct ibv_mw *mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2);
    struct ibv_wc wc;

    if (mw == NULL)
        meet_die("ibv_alloc_mw: %s", strerror(errno));
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_BIND_MW };
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info.mr = end->mr;
    wr.bind_mw.bind_info.addr = (uintptr_t)end->memory + WINDOW_AT;
    wr.bind_mw.bind_info.length = WINDOW_LENGTH;
    wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    services_post_send(end, 0, &wr, 0, 0);
    services_expect(end, 1, &wc);
    services_post_recv(end, 0, RECV_ID(0), 0, 64);
    meet_send(end->peer, &rkey, sizeof rkey);

    services_expect(end, RECV_ID(0), &wc);
    if (!(wc.wc_flags & (IBV_WC_WITH_INV | RXE_WC_WITH_INV)) || wc.invalidated_rkey != rkey)
        meet_die("no key was invalidated: flags %x, key %x", wc.wc_flags, wc.invalidated_rkey);
    services_compare(end->memory + WINDOW_AT, WINDOW_LENGTH, 7);
    meet_barrier(end->peer);
    meet_barrier(end->peer);
    int error = ibv_dealloc_mw(mw);
    if (error != 0)
        meet_die("ibv_dealloc_mw: %s", strerror(error));
}

static void use_window(struct services_end *end)
{
    uint64_t address = end->theirs.address + WINDOW_AT;
    struct ibv_wc wc;
    uint32_t rkey;

    meet_receive(end->peer, &rkey, sizeof rkey);
    services_fill(end->memory, WINDOW_LENGTH, 7);
    struct ibv_send_wr write = { .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE };
    write.wr.rdma.remote_addr = address;
    write.wr.rdma.rkey = rkey;
    services_post_send(end, 0, &write, 0, WINDOW_LENGTH);
    services_expect(end, 1, &wc);

    memset(end->memory, 0, WINDOW_LENGTH);
    struct ibv_send_wr read = { .wr_id = 2, .opcode = IBV_WR_RDMA_READ };
    read.wr.rdma = write.wr.rdma;
    services_post_send(end, 0, &read, 0, WINDOW_LENGTH);
    services_expect(end, 2, &wc);
    services_compare(end->memory, WINDOW_LENGTH, 7);

    struct ibv_send_wr invalidate = { .wr_id = 3,
                                      .opcode = IBV_WR_SEND_WITH_INV,
                                      .invalidate_rkey = rkey };
    services_post_send(end, 0, &invalidate, 0, 8);
    services_expect(end, 3, &wc);
    meet_barrier(end->peer);

    write.wr_id = 4;
    services_post_send(end, 0, &write, 0, 8);
    services_wait(end, &wc);
    if (wc.wr_id != 4 || wc.status != IBV_WC_REM_ACCESS_ERR)
        meet_die("a WRITE to an invalidated key: %s", ibv_wc_status_str(wc.status));
    meet_barrier(end->peer);
}

static void run_window(struct services_end *end)
{
    services_open(end, IBV_QPT_RC, 1, false);
    if (end->client)
        use_window(end);
    else
        offer_window(end);
    services_close(end);
}

const struct services_kind services_kinds[] = {
    { "uc", run_uc },
    { "ud", run_ud },
    { "srq", run_srq },
    { "group", run_group },
    { "window", run_window },
    { "atomic_write", services_run_atomic_write },
    { "flush", services_run_flush },
};
const unsigned services_kind_count = sizeof services_kinds / sizeof services_kinds[0];
