/* SPDX-License-Identifier: BSD-3-Clause */
/* model.c - see model.h for the contract. */
#include "sim/oracle/model.h"

#include <stdio.h>
#include <string.h>

#include "sim/oracle/memory.h"
#include "wire/arp.h"
#include "wire/icmp.h"

#define HEADERS_MAX 160u
#define LRH_LEN     8u /* the ICRC begins with ones in place of this InfiniBand header */

/* ---- operations ------------------------------------------------------------------------------ */

const struct sim_operation sim_operations[] = {
    [UROCE_RDMA_WRITE] = { UROCE_DONE_RDMA_WRITE, URO_WRITE, SIM_WRITE | SIM_DATA },
    [UROCE_RDMA_WRITE_WITH_IMM] = { UROCE_DONE_RDMA_WRITE, URO_WRITE,
                                    SIM_WRITE | SIM_IMM | SIM_MESSAGE | SIM_DATA },
    [UROCE_SEND] = { UROCE_DONE_SEND, URO_SEND, SIM_TAKES | SIM_MESSAGE | SIM_DATA },
    [UROCE_SEND_WITH_IMM] = { UROCE_DONE_SEND, URO_SEND,
                              SIM_TAKES | SIM_IMM | SIM_MESSAGE | SIM_DATA },
    [UROCE_RDMA_READ] = { UROCE_DONE_RDMA_READ, URO_READ, SIM_ANSWERED },
    [UROCE_COMPARE_SWAP] = { UROCE_DONE_COMPARE_SWAP, URO_CMP_SWAP, SIM_ATOMIC | SIM_ANSWERED },
    [UROCE_FETCH_ADD] = { UROCE_DONE_FETCH_ADD, URO_FETCH_ADD, SIM_ATOMIC | SIM_ANSWERED },
    [UROCE_LOCAL_INV] = { UROCE_DONE_LOCAL_INV, URO_WRITE, SIM_LOCAL },
    [UROCE_BIND_MW] = { UROCE_DONE_BIND_MW, URO_WRITE, SIM_LOCAL },
    [UROCE_SEND_WITH_INV] = { UROCE_DONE_SEND, URO_SEND, SIM_TAKES | SIM_MESSAGE | SIM_DATA },
    [UROCE_FLUSH] = { UROCE_DONE_FLUSH, URO_FLUSH, SIM_ANSWERED },
    [UROCE_ATOMIC_WRITE] = { UROCE_DONE_ATOMIC_WRITE, URO_ATOMIC_WRITE, SIM_ANSWERED | SIM_DATA },
};

uint32_t sim_model_packets(uint32_t length, uint32_t mtu)
{
    return length == 0 ? 1 : (length + mtu - 1) / mtu;
}

enum uro_position sim_model_position(uint32_t index, uint32_t count)
{
    if (count == 1)
        return URO_ONLY;
    return index == 0 ? URO_FIRST : index + 1 == count ? URO_LAST : URO_MIDDLE;
}

static bool is_part(const uint8_t *bytes, uint32_t from, uint32_t length, uint64_t seed)
{
    uint8_t message[UROCE_PATH_MTU_MAX];

    sim_memory_message(message, from, length, seed);
    return memcmp(bytes, message, length) == 0;
}

bool sim_model_carries(const struct uro_frame *frame, uint32_t from, uint32_t length, uint64_t seed)
{
    return frame->payload_length == length && is_part(frame->payload, from, length, seed);
}

bool sim_model_holds(const uint8_t *bytes, uint32_t length, uint64_t seed)
{
    return is_part(bytes, 0, length, seed);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool bad(struct sim_codec *result, const char *problem)
{
    snprintf(result->problem, sizeof result->problem, "%s", problem);
    return false;
}

/* CRC-32 of one byte, one bit at a time. */
static uint32_t bits(uint32_t crc)
{
    for (unsigned i = 0; i < 8; i++)
        crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    return crc;
}

/* ahead[k][v] is the CRC of a byte v that is followed by k bytes of zero. */
static uint32_t ahead[4][256];

static void make_tables(void)
{
    if (ahead[0][1] == 0)
        for (unsigned k = 0; k < 4; k++)
            for (uint32_t v = 0; v < 256; v++)
                ahead[k][v] =
                    k == 0 ? bits(v) : bits(ahead[k - 1][v] & 0xff) ^ ahead[k - 1][v] >> 8;
}

static uint32_t feed_all(uint32_t crc, const uint8_t *bytes, size_t length)
{
    for (; length >= 4; bytes += 4, length -= 4) {
        crc ^= uro_get_le32(bytes);
        crc = ahead[3][crc & 0xff] ^ ahead[2][crc >> 8 & 0xff] ^ ahead[1][crc >> 16 & 0xff] ^
              ahead[0][crc >> 24];
    }
    for (; length > 0; bytes++, length--)
        crc = ahead[0][(uint8_t)(crc ^ *bytes)] ^ crc >> 8;
    return crc;
}

/* Offsets of the bytes of an IP header that routers may change. IPv4: TOS, TTL and checksum. IPv6:
 * the second half of the class, the flow label and the hop limit. */
static const uint8_t changing4[] = { 1, 8, 10, 11 };
static const uint8_t changing6[] = { 1, 2, 3, 7 };

/* Copies the headers from IP to the BTH. Bytes that routers may change are replaced by ones (IBTA
 * Annex A17): those of the IP header, the UDP checksum and the first reserved byte of the BTH. */
static void put_constant(uint8_t *out, const uint8_t *network, bool v6, size_t udp)
{
    memcpy(out, network, udp + URO_UDP_LEN + URO_BTH_LEN);
    for (unsigned i = 0; i < sizeof changing4; i++)
        out[v6 ? changing6[i] : changing4[i]] = 0xff;
    if (v6)
        out[0] |= 0x0f; /* the version in the same byte does not change */
    out[udp + 6] = out[udp + 7] = out[udp + URO_UDP_LEN + 4] = 0xff;
}

/* Returns the ICRC of @length bytes from the IP header on. @twice: the headers from the BTH on are
 * included twice, as Linux rxe does for FLUSH. */
static uint32_t icrc(const uint8_t *network, bool v6, size_t length, bool twice)
{
    uint8_t constant[LRH_LEN + URO_IPV6_LEN + URO_UDP_LEN + URO_BTH_LEN];
    size_t udp = v6 ? URO_IPV6_LEN : URO_IPV4_LEN, headers = udp + URO_UDP_LEN + URO_BTH_LEN;

    make_tables();
    memset(constant, 0xff, LRH_LEN);
    put_constant(constant + LRH_LEN, network, v6, udp);
    uint32_t crc = feed_all(0xffffffff, constant, LRH_LEN + headers);
    crc = feed_all(crc, network + headers, length - headers);
    if (twice)
        crc = feed_all(crc, network + udp + URO_UDP_LEN, length - udp - URO_UDP_LEN);
    return ~crc;
}

static uint8_t *encode_ext(uint8_t *out, const struct uro_frame *frame, unsigned one)
{
    if (one == URO_EXT_XRCETH)
        uro_put_be32(out, frame->xrc_srqn);
    else if (one == URO_EXT_DETH)
        uro_deth_encode(out, &frame->deth);
    else if (one == URO_EXT_FETH)
        uro_feth_encode(out, &frame->feth);
    else if (one == URO_EXT_RETH)
        uro_reth_encode(out, &frame->reth);
    else if (one == URO_EXT_ATOMIC)
        uro_atomic_eth_encode(out, &frame->atomic);
    else if (one == URO_EXT_AETH)
        uro_aeth_encode(out, &frame->aeth);
    else if (one == URO_EXT_ATOMIC_ACK)
        uro_put_be64(out, frame->atomic_ack);
    else if (one == URO_EXT_IMM)
        memcpy(out, &frame->imm, URO_IMM_LEN);
    else if (one == URO_EXT_INV)
        uro_put_be32(out, frame->inv_rkey);
    else if (one == URO_EXT_CNP)
        memset(out, 0, URO_CNP_LEN);
    return out + uro_ext_length(one);
}

/* Encodes all headers of a frame, from Ethernet on. Returns their length. */
static size_t encode(const struct uro_frame *frame, bool roce, uint8_t *out)
{
    const uint8_t *start = out;

    out += uro_ether_put(out, &frame->ether);
    out += uro_ip_put(out, &frame->ip);
    if (frame->ip.protocol == URO_IPPROTO_UDP) {
        uro_udp_encode(out, &frame->udp);
        out += URO_UDP_LEN;
    }
    if (roce) {
        uro_bth_encode(out, &frame->bth);
        out += URO_BTH_LEN;
        for (unsigned i = 0; i < URO_EXT_COUNT; i++)
            if (frame->op->ext & 1u << i)
                out = encode_ext(out, frame, 1u << i);
    }
    return (size_t)(out - start);
}

static bool check_arp(const struct uro_frame *frame, struct sim_codec *result)
{
    struct uro_arp arp;
    uint8_t encoded[URO_ARP_LEN];

    if (!uro_arp_decode(frame->body, frame->body_length, &arp))
        return bad(result, "malformed ARP");
    uro_arp_encode(encoded, &arp);
    if (memcmp(encoded, frame->body, URO_ARP_LEN) != 0)
        return bad(result, "encoding this ARP message again gives other bytes");
    return true;
}

/* Checks the bytes after the headers: payload, zero padding, ICRC. */
static bool check_tail(const struct uro_frame *frame, struct sim_codec *result)
{
    static const uint8_t zeros[3];
    const uint8_t *pad = frame->payload + frame->payload_length;
    const uint8_t *crc = pad + frame->bth.pad_count;
    bool flush = frame->op->operation == URO_FLUSH;
    size_t covered = (size_t)(crc - frame->network);

    if (memcmp(pad, zeros, frame->bth.pad_count) != 0)
        return bad(result, "padding is not zero");
    if (((frame->payload_length + frame->bth.pad_count) & 3) != 0)
        return bad(result, "the length of payload and padding is not a multiple of 4");
    if (crc + URO_ICRC_LEN != frame->body + frame->body_length)
        return bad(result, "there are bytes between padding and ICRC");

    uint32_t stored = uro_get_le32(crc);
    uint32_t right = icrc(frame->network, frame->ip.v6, covered, false);
    result->rxe_flush =
        flush && stored != right && stored == icrc(frame->network, frame->ip.v6, covered, true);
    if (stored == right || result->rxe_flush)
        return true;
    snprintf(result->problem, sizeof result->problem, "ICRC is %08x, should be %08x", stored,
             right);
    return false;
}

bool sim_codec_check(const uint8_t *bytes, uint32_t length, struct sim_codec *result)
{
    struct uro_frame frame;
    uint8_t headers[HEADERS_MAX];
    struct uro_icmp icmp;

    *result = (struct sim_codec){ .roce = false };
    enum uro_frame_result decoded = uro_frame_network(bytes, length, &frame);
    if (decoded != URO_FRAME_OK)
        return bad(result, uro_frame_result_text(decoded));
    if (frame.ether.type == URO_ETHERTYPE_ARP)
        return check_arp(&frame, result);
    if (frame.ip.protocol == URO_IPPROTO_ICMPV6 &&
        !uro_icmp_decode(&frame.ip, frame.body, frame.body_length, &icmp))
        return bad(result, "malformed ICMPv6");
    result->roce = frame.ip.protocol == URO_IPPROTO_UDP && frame.udp.dest_port == URO_ROCE_PORT;
    if (result->roce) {
        decoded = uro_frame_roce(&frame);
        if (decoded != URO_FRAME_OK)
            return bad(result, uro_frame_result_text(decoded));
        result->read_response = frame.op->operation == URO_READ && frame.op->role == URO_RESPONSE;
    }

    size_t encoded = encode(&frame, result->roce, headers);
    for (size_t i = 0; i < encoded; i++) {
        if (headers[i] == bytes[i])
            continue;
        snprintf(result->problem, sizeof result->problem,
                 "byte %zu of the headers is %02x, but encoding the headers again gives %02x", i,
                 bytes[i], headers[i]);
        return false;
    }
    return !result->roce || check_tail(&frame, result);
}
