/* SPDX-License-Identifier: BSD-3-Clause */
/* broker_disconnect.c - disconnects the peers of a process that died, as the kernel does.
 *
 * The broker passes on the messages of connection management that peers send. So it knows the
 * connections without asking the processes. A peer that accepts a connection sends REP. A peer
 * whose REQ was accepted sends RTU. DREQ, DREP and REJ end a connection. Any host can forge these
 * messages. But a DREQ for a connection that does not exist changes nothing at the peer, and the
 * broker sends at most TIMES DREQs for each message of a peer.
 */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/table.h"
#include "io/udp/broker.h"
#include "wire/cm_msg.h"
#include "wire/ext.h"
#include "wire/icrc.h"
#include "wire/opcode.h"

#define BUCKETS         4096u
#define CONNECTIONS_MAX 100000u /* maximum number of connections of all members */
#define REQUESTS        1024u   /* size of the table of pending requests */
#define TIMES           3u      /* DREQs sent to a peer that does not answer */
#define INTERVAL_S      1
#define AT_BTH          (URO_IPV6_LEN + URO_UDP_LEN)
#define PACKET_MAX      (AT_BTH + URO_BTH_LEN + URO_DETH_LEN + URO_MAD_LEN + URO_ICRC_LEN)

/* A REQ from a peer whose RTU has not arrived yet. */
struct request {
    struct uro_gid peer;
    uint32_t peer_id;
    uint32_t peer_qpn; /* 0: no request */
};

struct connection {
    struct uro_table_node node; /* the member's communication ID */
    struct uro_link link;       /* in the list of its member, or in `over` */
    struct uro_gid peer;
    uint32_t peer_id;
    uint32_t peer_qpn;
    uint32_t sent; /* DREQs sent so far */
};

struct uro_broker_disconnect {
    struct uro_table_bucket buckets[BUCKETS];
    struct uro_table table;
    struct uro_list of[URO_QPN_PREFIXES]; /* connections of each member */
    struct uro_list over; /* connections of dead members whose peer has not answered */
    int64_t next;         /* time at which the next DREQs for `over` are due, seconds */
    struct request requests[REQUESTS];
};

struct uro_broker_disconnect *uro_broker_disconnect_open(void)
{
    struct uro_broker_disconnect *disconnect =
        aligned_alloc(_Alignof(struct uro_table_bucket), sizeof *disconnect);

    if (disconnect == NULL)
        return NULL;
    memset(disconnect, 0, sizeof *disconnect);
    disconnect->table.buckets = disconnect->buckets;
    disconnect->table.mask = BUCKETS - 1;
    uro_list_init(&disconnect->over);
    for (uint32_t prefix = 0; prefix < URO_QPN_PREFIXES; prefix++)
        uro_list_init(&disconnect->of[prefix]);
    return disconnect;
}

static void forget(struct uro_broker_disconnect *disconnect, struct connection *connection)
{
    uro_table_remove(&disconnect->table, &connection->node);
    uro_list_remove(&connection->link);
    free(connection);
}

static void forget_all(struct uro_broker_disconnect *disconnect, struct uro_list *list)
{
    while (!uro_list_empty(list))
        forget(disconnect, URO_CONTAINER_OF(list->head.next, struct connection, link));
}

void uro_broker_disconnect_close(struct uro_broker_disconnect *disconnect)
{
    if (disconnect == NULL)
        return;
    for (uint32_t prefix = 0; prefix < URO_QPN_PREFIXES; prefix++)
        forget_all(disconnect, &disconnect->of[prefix]);
    forget_all(disconnect, &disconnect->over);
    free(disconnect);
}

/* ---- the connections --------------------------------------------------- */

static struct request *request_of(struct uro_broker_disconnect *disconnect,
                                  const struct uro_gid *peer, uint32_t peer_id)
{
    uint64_t hash = uro_gid_hash(peer) ^ peer_id * UINT64_C(0x9e3779b97f4a7c15);

    return &disconnect->requests[(hash ^ hash >> 32) % REQUESTS];
}

static void learn(struct uro_broker_disconnect *disconnect, uint32_t prefix, uint32_t id,
                  const struct request *from)
{
    struct uro_table_node *known = uro_table_find(&disconnect->table, id);

    if (known != NULL)
        forget(disconnect, URO_CONTAINER_OF(known, struct connection, node));
    if (disconnect->table.count >= CONNECTIONS_MAX)
        return;
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL)
        return;
    connection->node.number = id;
    connection->peer = from->peer;
    connection->peer_id = from->peer_id;
    connection->peer_qpn = from->peer_qpn;
    uro_table_insert(&disconnect->table, &connection->node);
    uro_list_append(&disconnect->of[prefix], &connection->link);
}

static void end(struct uro_broker_disconnect *disconnect, const struct uro_gid *peer,
                uint32_t peer_id, uint32_t id)
{
    struct uro_table_node *node = uro_table_find(&disconnect->table, id);

    if (node == NULL)
        return;
    struct connection *connection = URO_CONTAINER_OF(node, struct connection, node);
    if (connection->peer_id == peer_id && uro_gid_equal(&connection->peer, peer))
        forget(disconnect, connection);
}

void uro_broker_disconnect_note(struct uro_broker_disconnect *disconnect, uint32_t prefix,
                                const struct uro_gid *peer, const struct uro_cm_msg *msg)
{
    const uint32_t id = (uint32_t)msg->value[URO_CM_REMOTE_ID];
    const uint32_t peer_id = (uint32_t)msg->value[URO_CM_LOCAL_ID];
    const struct request accepted = { *peer, peer_id, (uint32_t)msg->value[URO_CM_LOCAL_QPN] };
    struct request *request = request_of(disconnect, peer, peer_id);
    const bool is_members = prefix != 0 && id >> (32 - URO_QPN_PREFIX_BITS) == prefix;

    switch (msg->kind) {
    case URO_CM_REQ:
        *request = accepted;
        break;
    case URO_CM_REP:
        if (is_members)
            learn(disconnect, prefix, id, &accepted);
        break;
    case URO_CM_RTU:
        if (is_members && request->peer_qpn != 0 && request->peer_id == peer_id &&
            uro_gid_equal(&request->peer, peer)) {
            learn(disconnect, prefix, id, request);
            request->peer_qpn = 0;
        }
        break;
    case URO_CM_DREQ:
    case URO_CM_DREP:
    case URO_CM_REJ:
        end(disconnect, peer, peer_id, id);
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

/* ---- DREQ ---------------------------------------------------------------- */

/* Writes the UDP payload of a DREQ at AT_BTH. Writes the IP and UDP headers that the ICRC covers in
 * front of it. Returns the number of bytes from the BTH on. */
static uint32_t write_dreq(const struct uro_broker *broker, const struct connection *connection,
                           uint8_t packet[static PACKET_MAX])
{
    const bool v6 = !uro_gid_is_ipv4(&broker->address);
    const uint32_t length = URO_BTH_LEN + URO_DETH_LEN + URO_MAD_LEN + URO_ICRC_LEN;
    const struct uro_ip ip = { .v6 = v6,
                               .dont_fragment = !v6,
                               .hop_limit = URO_SOCK_HOP_LIMIT,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = (uint16_t)(URO_UDP_LEN + length),
                               .source = broker->address,
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
    uint8_t *dreq = packet + AT_BTH;
    uint8_t *network = dreq - URO_UDP_LEN - (v6 ? URO_IPV6_LEN : URO_IPV4_LEN);

    (void)uro_ip_put(network, &ip);
    uro_udp_encode(dreq - URO_UDP_LEN, &udp);
    uro_bth_encode(dreq, &bth);
    uro_deth_encode(dreq + URO_BTH_LEN, &deth);
    uro_cm_encode(dreq + URO_BTH_LEN + URO_DETH_LEN, &msg);
    uint8_t *icrc = dreq + length - URO_ICRC_LEN;
    uro_put_le32(icrc, uro_icrc(network, v6, (size_t)(icrc - network)));
    return length;
}

static void send_dreq(const struct uro_broker *broker, struct connection *connection)
{
    const union uro_sock_address to = uro_sock_address_of(&connection->peer, URO_ROCE_PORT);
    uint8_t packet[PACKET_MAX];
    const uint32_t length = write_dreq(broker, connection, packet);

    connection->sent++;
    if (sendto(broker->socks[0], packet + AT_BTH, length, MSG_DONTWAIT, &to.any,
               uro_sock_address_length(&to)) < 0)
        (void)sendto(broker->socks[0], packet + AT_BTH, length, MSG_DONTWAIT, &to.any,
                     /* sends twice, because the first error may have been that of an earlier
                      * packet */
                     uro_sock_address_length(&to));
}

static void send_dreqs_again(const struct uro_broker *broker)
{
    struct uro_broker_disconnect *disconnect = broker->disconnect;
    struct uro_link *link = disconnect->over.head.next;

    while (link != &disconnect->over.head) {
        struct connection *connection = URO_CONTAINER_OF(link, struct connection, link);
        link = link->next;
        if (connection->sent == TIMES)
            forget(disconnect, connection);
        else
            send_dreq(broker, connection);
    }
    disconnect->next = broker->clock_s() + INTERVAL_S;
}

void uro_broker_disconnect_begin(const struct uro_broker *broker, uint32_t prefix)
{
    struct uro_broker_disconnect *disconnect = broker->disconnect;

    while (!uro_list_empty(&disconnect->of[prefix])) {
        struct uro_link *link = uro_list_pop(&disconnect->of[prefix]);
        uro_list_append(&disconnect->over, link);
        send_dreq(broker, URO_CONTAINER_OF(link, struct connection, link));
    }
    disconnect->next = broker->clock_s() + INTERVAL_S;
}

int uro_broker_disconnect_wait_ms(const struct uro_broker *broker)
{
    if (uro_list_empty(&broker->disconnect->over))
        return -1;
    const int64_t left = broker->disconnect->next - broker->clock_s();
    return left > 0 ? (int)left * 1000 : 0;
}

void uro_broker_disconnect_repeat(const struct uro_broker *broker)
{
    if (uro_broker_disconnect_wait_ms(broker) == 0)
        send_dreqs_again(broker);
}
