/* SPDX-License-Identifier: BSD-3-Clause */
/* hub_goodbye.c - tells the peers of a process that died that its connections are over, as a kernel
 * does.
 *
 * The broker passes on what peers send to make and end connections, so it knows the connections
 * without asking the processes: the accepting side sends REP, the other side sends REQ and RTU, and
 * DREQ, DREP and REJ end a connection. This knowledge may be forged or out of date. A DREQ for a
 * connection that does not exist changes nothing at the peer, and each DREQ follows from a message
 * of that peer.
 */
#define _GNU_SOURCE /* CLOCK_MONOTONIC */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/list.h"
#include "base/table.h"
#include "hub.h"
#include "wire/cm_msg.h"
#include "wire/ext.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

#define BUCKETS         4096u
#define CONNECTIONS_MAX 100000u /* of all members */
#define REQUESTS        1024u   /* of those that came last */
#define TIMES           3u      /* that a DREQ is sent, unless it is answered */
#define INTERVAL_S      1
#define AT_BTH          (URO_IPV6_LEN + URO_UDP_LEN)
#define PACKET_MAX      (AT_BTH + URO_BTH_LEN + URO_DETH_LEN + URO_MAD_LEN + URO_ICRC_LEN)

/* Somebody asked for a connection with an RTU to come. */
struct request {
    struct uro_gid peer;
    uint32_t peer_id;
    uint32_t peer_qpn; /* 0: no request */
};

struct connection {
    struct uro_table_node node; /* the member's communication ID */
    struct uro_link link;       /* of its member's, or of those whose member is dead */
    struct uro_gid peer;
    uint32_t peer_id;
    uint32_t peer_qpn;
    uint32_t sent; /* DREQs */
};

struct hub_goodbye {
    struct uro_table_bucket buckets[BUCKETS];
    struct uro_table table;
    struct uro_list of[URO_SHARES]; /* by member */
    struct uro_list over;           /* their member is dead, and the peer has not answered */
    time_t next;                    /* s; when these are told again */
    struct request requests[REQUESTS];
};

struct hub_goodbye *hub_goodbye_open(void)
{
    struct hub_goodbye *goodbye = aligned_alloc(_Alignof(struct uro_table_bucket), sizeof *goodbye);

    if (goodbye == NULL)
        return NULL;
    memset(goodbye, 0, sizeof *goodbye);
    goodbye->table.buckets = goodbye->buckets;
    goodbye->table.mask = BUCKETS - 1;
    uro_list_init(&goodbye->over);
    for (uint32_t share = 0; share < URO_SHARES; share++)
        uro_list_init(&goodbye->of[share]);
    return goodbye;
}

static void forget(struct hub_goodbye *goodbye, struct connection *connection)
{
    uro_table_remove(&goodbye->table, &connection->node);
    uro_list_remove(&connection->link);
    free(connection);
}

static void forget_all(struct hub_goodbye *goodbye, struct uro_list *list)
{
    while (!uro_list_empty(list))
        forget(goodbye, URO_CONTAINER_OF(list->head.next, struct connection, link));
}

void hub_goodbye_close(struct hub_goodbye *goodbye)
{
    if (goodbye == NULL)
        return;
    for (uint32_t share = 0; share < URO_SHARES; share++)
        forget_all(goodbye, &goodbye->of[share]);
    forget_all(goodbye, &goodbye->over);
    free(goodbye);
}

/* ---- what connections there are ----------------------------------------- */

static struct request *request_of(struct hub_goodbye *goodbye, const struct uro_gid *peer,
                                  uint32_t peer_id)
{
    uint64_t hash = uro_gid_hash(peer) ^ peer_id * UINT64_C(0x9e3779b97f4a7c15);

    return &goodbye->requests[(hash ^ hash >> 32) % REQUESTS];
}

static void learn(struct hub_goodbye *goodbye, uint32_t share, uint32_t id,
                  const struct request *from)
{
    struct uro_table_node *known = uro_table_find(&goodbye->table, id);

    if (known != NULL)
        forget(goodbye, URO_CONTAINER_OF(known, struct connection, node));
    if (goodbye->table.count >= CONNECTIONS_MAX)
        return;
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return;
    connection->node.number = id;
    connection->peer = from->peer;
    connection->peer_id = from->peer_id;
    connection->peer_qpn = from->peer_qpn;
    uro_table_insert(&goodbye->table, &connection->node);
    uro_list_append(&goodbye->of[share], &connection->link);
}

static void end(struct hub_goodbye *goodbye, const struct uro_gid *peer, uint32_t peer_id,
                uint32_t id)
{
    struct uro_table_node *node = uro_table_find(&goodbye->table, id);

    if (node == NULL)
        return;
    struct connection *connection = URO_CONTAINER_OF(node, struct connection, node);
    if (connection->peer_id == peer_id && uro_gid_equal(&connection->peer, peer))
        forget(goodbye, connection);
}

void hub_goodbye_note(struct hub_goodbye *goodbye, uint32_t share, const struct uro_gid *peer,
                      const struct uro_cm_msg *msg)
{
    const uint32_t id = (uint32_t)msg->value[URO_CM_REMOTE_ID];
    const uint32_t peer_id = (uint32_t)msg->value[URO_CM_LOCAL_ID];
    const struct request accepted = { *peer, peer_id, (uint32_t)msg->value[URO_CM_LOCAL_QPN] };
    struct request *request = request_of(goodbye, peer, peer_id);
    const bool is_members = share != 0 && id >> (32 - URO_SHARE_BITS) == share;

    switch (msg->kind) {
    case URO_CM_REQ:
        *request = accepted;
        break;
    case URO_CM_REP:
        if (is_members)
            learn(goodbye, share, id, &accepted);
        break;
    case URO_CM_RTU:
        if (is_members && request->peer_qpn != 0 && request->peer_id == peer_id &&
            uro_gid_equal(&request->peer, peer)) {
            learn(goodbye, share, id, request);
            request->peer_qpn = 0;
        }
        break;
    case URO_CM_DREQ:
    case URO_CM_DREP:
    case URO_CM_REJ:
        end(goodbye, peer, peer_id, id);
        break;
    case URO_CM_MRA:
    case URO_CM_SIDR_REQ:
    case URO_CM_SIDR_REP:
    case URO_CM_LAP:
    case URO_CM_APR:
    case URO_CM_KIND_COUNT:
        break;
    }
}

/* ---- telling ------------------------------------------------------------ */

/* Writes what comes behind the UDP header, and before it what the ICRC goes over. Returns the
 * octets from the BTH on. */
static uint32_t write_dreq(const struct hub *hub, const struct connection *connection,
                           uint8_t packet[static PACKET_MAX])
{
    const bool v6 = !uro_gid_is_ipv4(&hub->address);
    const uint32_t length = URO_BTH_LEN + URO_DETH_LEN + URO_MAD_LEN + URO_ICRC_LEN;
    const struct uro_ip ip = { .v6 = v6,
                               .dont_fragment = !v6,
                               .hop_limit = URO_SOCK_HOP_LIMIT,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = (uint16_t)(URO_UDP_LEN + length),
                               .source = hub->address,
                               .dest = connection->peer };
    const struct uro_udp udp = { .source_port = URO_ROCE_PORT,
                                 .dest_port = URO_ROCE_PORT,
                                 .length = (uint16_t)(URO_UDP_LEN + length) };
    const struct uro_bth bth = {
        .opcode = (uint8_t)uro_opcode_find(URO_UD, URO_REQUEST, URO_SEND, URO_ONLY, 0),
        .migrated = true,
        .pkey = URO_PKEY_DEFAULT,
        .dest_qpn = URO_CM_MAD_QPN,
    };
    const struct uro_deth deth = { .qkey = URO_CM_QKEY, .source_qpn = URO_CM_MAD_QPN };
    const struct uro_cm_msg msg = { .kind = URO_CM_DREQ,
                                    .tid = (uint64_t)connection->node.number << 32 |
                                           connection->peer_id,
                                    .value = { [URO_CM_LOCAL_ID] = connection->node.number,
                                               [URO_CM_REMOTE_ID] = connection->peer_id,
                                               [URO_CM_REMOTE_QPN] = connection->peer_qpn } };
    uint8_t *at = packet + AT_BTH;
    uint8_t *network = at - URO_UDP_LEN - (v6 ? URO_IPV6_LEN : URO_IPV4_LEN);

    (void)uro_ip_put(network, &ip);
    uro_udp_encode(at - URO_UDP_LEN, &udp);
    uro_bth_encode(at, &bth);
    uro_deth_encode(at + URO_BTH_LEN, &deth);
    uro_cm_encode(at + URO_BTH_LEN + URO_DETH_LEN, &msg);
    uint8_t *icrc = at + length - URO_ICRC_LEN;
    uro_put_le32(icrc, uro_icrc(network, v6, (size_t)(icrc - network)));
    return length;
}

static void tell(const struct hub *hub, struct connection *connection)
{
    const union uro_sock_address to = uro_sock_address_of(&connection->peer, URO_ROCE_PORT);
    uint8_t packet[PACKET_MAX];
    const uint32_t length = write_dreq(hub, connection, packet);

    connection->sent++;
    if (sendto(hub->socks[0], packet + AT_BTH, length, MSG_DONTWAIT, &to.any,
               uro_sock_address_length(&to)) < 0)
        (void)sendto(hub->socks[0], packet + AT_BTH, length, MSG_DONTWAIT, &to.any,
                     uro_sock_address_length(&to)); /* that may have been an earlier one's error */
}

static time_t now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void tell_again(const struct hub *hub)
{
    struct hub_goodbye *goodbye = hub->goodbye;
    struct uro_link *at = goodbye->over.head.next;

    while (at != &goodbye->over.head) {
        struct connection *connection = URO_CONTAINER_OF(at, struct connection, link);
        at = at->next;
        if (connection->sent == TIMES)
            forget(goodbye, connection);
        else
            tell(hub, connection);
    }
    goodbye->next = now_s() + INTERVAL_S;
}

void hub_goodbye_say(const struct hub *hub, uint32_t share)
{
    struct hub_goodbye *goodbye = hub->goodbye;

    while (!uro_list_empty(&goodbye->of[share])) {
        struct uro_link *link = uro_list_pop(&goodbye->of[share]);
        uro_list_append(&goodbye->over, link);
        tell(hub, URO_CONTAINER_OF(link, struct connection, link));
    }
    goodbye->next = now_s() + INTERVAL_S;
}

int hub_goodbye_wait_ms(const struct hub *hub)
{
    if (uro_list_empty(&hub->goodbye->over))
        return -1;
    const time_t left = hub->goodbye->next - now_s();
    return left > 0 ? (int)left * 1000 : 0;
}

void hub_goodbye_go_on(const struct hub *hub)
{
    if (hub_goodbye_wait_ms(hub) == 0)
        tell_again(hub);
}
