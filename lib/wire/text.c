/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c - one line per frame; see text.h. */
#include "wire/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire/arp.h"
#include "wire/icmp.h"
#include "wire/icrc.h"
#include "wire/igmp.h"
#include "wire/mld.h"

struct line {
    char *text;
    size_t used; /* characters written, without the NUL; text that does not fit is left out */
};

/* A macro, because the format must be a literal for the compiler to check it. */
#define ADD(line, ...)                                                                             \
    added((line),                                                                                  \
          snprintf((line)->text + (line)->used, URO_TEXT_LINE_MAX - (line)->used, __VA_ARGS__))

static void added(struct line *line, int length)
{
    if (length > 0)
        line->used += (size_t)length;
    if (line->used >= URO_TEXT_LINE_MAX)
        line->used = URO_TEXT_LINE_MAX - 1;
}

static void add_addresses(struct line *line, const struct uro_ip *ip)
{
    char source[URO_GID_TEXT_MAX], dest[URO_GID_TEXT_MAX];

    ADD(line, "%s > %s", uro_gid_text(&ip->source, source), uro_gid_text(&ip->dest, dest));
}

static void add_mac(struct line *line, const struct uro_mac *mac)
{
    ADD(line, "%02x:%02x:%02x:%02x:%02x:%02x", mac->octets[0], mac->octets[1], mac->octets[2],
        mac->octets[3], mac->octets[4], mac->octets[5]);
}

static void add_bth(struct line *line, const struct uro_frame *frame)
{
    const struct uro_bth *bth = &frame->bth;

    if (frame->op == NULL)
        ADD(line, " opcode 0x%02x", bth->opcode);
    else
        ADD(line, " %s", frame->op->name);
    ADD(line, " qp 0x%06" PRIx32 " psn %" PRIu32, bth->dest_qpn, bth->psn);
    if (bth->ack_req)
        ADD(line, " ack");
    if (bth->solicited)
        ADD(line, " solicited");
    if (bth->migrated)
        ADD(line, " migrated");
    if (bth->fecn)
        ADD(line, " fecn");
    if (bth->becn)
        ADD(line, " becn");
    if (bth->pkey != URO_PKEY_DEFAULT)
        ADD(line, " pkey 0x%04x", bth->pkey);
    if (frame->ip.traffic_class % 4 == 3)
        ADD(line, " ce");
}

static void add_aeth(struct line *line, const struct uro_aeth *aeth)
{
    static const char *const naks[] = {
        [URO_NAK_PSN_SEQUENCE] = "psn-sequence",
        [URO_NAK_INVALID_REQ] = "invalid-request",
        [URO_NAK_ACCESS] = "remote-access",
        [URO_NAK_OPERATIONAL] = "remote-operational",
    };

    ADD(line, " msn %" PRIu32, aeth->msn);
    switch (aeth->kind) {
    case URO_AETH_ACK:
        if (aeth->value != URO_CREDITS_UNLIMITED)
            ADD(line, " credits %u", aeth->value);
        break;
    case URO_AETH_RNR:
        ADD(line, " rnr-nak timer %u", aeth->value);
        break;
    case URO_AETH_NAK:
        if (aeth->value < URO_ARRAY_LEN(naks))
            ADD(line, " nak %s", naks[aeth->value]);
        else
            ADD(line, " nak %u", aeth->value);
        break;
    case URO_AETH_RESERVED:
        ADD(line, " reserved-syndrome %u", aeth->value);
        break;
    }
}

static void add_atomic(struct line *line, const struct uro_frame *frame)
{
    const struct uro_atomic_eth *atomic = &frame->atomic;

    ADD(line, " va 0x%" PRIx64 " rkey 0x%08" PRIx32, atomic->va, atomic->rkey);
    if (frame->op->operation == URO_CMP_SWAP)
        ADD(line, " compare 0x%" PRIx64 " swap 0x%" PRIx64, atomic->compare, atomic->swap_add);
    else
        ADD(line, " add 0x%" PRIx64, atomic->swap_add);
}

static void add_ext(struct line *line, const struct uro_frame *frame)
{
    const unsigned ext = frame->op->ext;

    if (ext & URO_EXT_XRCETH)
        ADD(line, " srq 0x%06" PRIx32, frame->xrc_srqn);
    if (ext & URO_EXT_DETH)
        ADD(line, " qkey 0x%08" PRIx32 " from 0x%06" PRIx32, frame->deth.qkey,
            frame->deth.source_qpn);
    if (ext & URO_EXT_FETH)
        ADD(line, " placement %u selectivity %u", frame->feth.placement, frame->feth.selectivity);
    if (ext & URO_EXT_RETH)
        ADD(line, " va 0x%" PRIx64 " rkey 0x%08" PRIx32 " len %" PRIu32, frame->reth.va,
            frame->reth.rkey, frame->reth.length);
    if (ext & URO_EXT_ATOMIC)
        add_atomic(line, frame);
    if (ext & URO_EXT_AETH)
        add_aeth(line, &frame->aeth);
    if (ext & URO_EXT_ATOMIC_ACK)
        ADD(line, " original 0x%" PRIx64, frame->atomic_ack);
    if (ext & URO_EXT_IMM)
        ADD(line, " imm 0x%08" PRIx32, uro_get_be32((const uint8_t *)&frame->imm));
    if (ext & URO_EXT_INV)
        ADD(line, " invalidate 0x%08" PRIx32, frame->inv_rkey);
    if (frame->op->payload)
        ADD(line, " pay %" PRIu32, frame->payload_length);
}

static bool describe_roce(struct line *line, struct uro_frame *frame)
{
    const enum uro_frame_result result = uro_frame_roce(frame);

    if (frame->body_length < URO_BTH_LEN + URO_ICRC_LEN) {
        ADD(line, " roce !%s", uro_frame_result_text(result));
        return false;
    }
    add_bth(line, frame);
    if (frame->payload != NULL)
        add_ext(line, frame);
    if (result == URO_FRAME_ICRC) {
        const uint8_t *icrc = frame->body + frame->body_length - URO_ICRC_LEN;
        uint8_t right[URO_ICRC_LEN];

        uro_put_le32(right,
                     uro_icrc(frame->network, frame->ip.v6, (size_t)(icrc - frame->network)));
        ADD(line, " !ICRC is %08" PRIx32 ", should be %08" PRIx32, uro_get_be32(icrc),
            uro_get_be32(right));
    } else if (result != URO_FRAME_OK) {
        ADD(line, " !%s", uro_frame_result_text(result));
    }
    return result == URO_FRAME_OK;
}

static bool describe_arp(struct line *line, const struct uro_frame *frame)
{
    char sender[URO_GID_TEXT_MAX], target[URO_GID_TEXT_MAX];
    struct uro_arp arp;

    if (!uro_arp_decode(frame->body, frame->body_length, &arp)) {
        ADD(line, "ARP !malformed");
        return false;
    }
    uro_gid_text(&arp.sender, sender);
    uro_gid_text(&arp.target, target);
    if (arp.request) {
        ADD(line, "ARP who has %s? tell %s at ", target, sender);
    } else {
        ADD(line, "ARP %s is at ", sender);
    }
    add_mac(line, &arp.sender_mac);
    return true;
}

static bool describe_icmp(struct line *line, const struct uro_frame *frame)
{
    char target[URO_GID_TEXT_MAX];
    struct uro_icmp icmp;

    ADD(line, frame->ip.v6 ? " ICMPv6" : " ICMP");
    if (!uro_icmp_decode(&frame->ip, frame->body, frame->body_length, &icmp)) {
        ADD(line, " !malformed");
        return false;
    }
    switch (icmp.kind) {
    case URO_ICMP_OTHER:
        ADD(line, " type %u", frame->body[0]);
        break;
    case URO_ICMP_ECHO_REQUEST:
        ADD(line, " echo request id %u seq %u", icmp.echo_id, icmp.echo_seq);
        break;
    case URO_ICMP_ECHO_REPLY:
        ADD(line, " echo reply id %u seq %u", icmp.echo_id, icmp.echo_seq);
        break;
    case URO_ICMP_NO_PORT:
        ADD(line, " port unreachable at %s", uro_gid_text(&icmp.dest, target));
        break;
    case URO_ICMP_NEIGHBOR_SOLICIT:
        ADD(line, " who has %s?", uro_gid_text(&icmp.target, target));
        break;
    case URO_ICMP_NEIGHBOR_ADVERT:
        ADD(line, " %s is here", uro_gid_text(&icmp.target, target));
        break;
    }
    if (icmp.has_mac) {
        ADD(line, " at ");
        add_mac(line, &icmp.mac);
    }
    return true;
}

static bool describe_membership(struct line *line, const struct uro_frame *frame)
{
    const bool v6 = frame->ip.v6;
    struct uro_membership_query query;
    char group[URO_GID_TEXT_MAX];

    ADD(line, v6 ? " MLD" : " IGMP");
    switch (v6 ? uro_mld_decode(&frame->ip, frame->body, frame->body_length, &query)
               : uro_igmp_decode(frame->body, frame->body_length, &query)) {
    case URO_MEMBERSHIP_BAD:
        ADD(line, " !malformed");
        return false;
    case URO_MEMBERSHIP_OTHER:
        ADD(line, " type %u", frame->body[0]);
        break;
    case URO_MEMBERSHIP_QUERY:
        ADD(line, "v%u query for %s within %" PRIu32 " ms", query.version,
            uro_gid_is_zero(&query.group) ? "all groups" : uro_gid_text(&query.group, group),
            query.max_response_ms);
        break;
    }
    return true;
}

static bool is_membership(const struct uro_frame *frame)
{
    if (!frame->ip.v6)
        return frame->ip.protocol == URO_IPPROTO_IGMP;
    return frame->ip.protocol == URO_IPPROTO_ICMPV6 && frame->body_length > 0 &&
           uro_mld_is(frame->body[0]);
}

bool uro_text_is_sentence(const uint8_t *octets, uint32_t length)
{
    static const char begin[] = URO_TEXT_SENTENCE_BEGIN;

    return length >= URO_ETHER_LEN + sizeof begin - 1 &&
           uro_get_be16(octets + URO_ETHER_LEN - 2) == URO_TEXT_SENTENCE_TYPE &&
           memcmp(octets + URO_ETHER_LEN, begin, sizeof begin - 1) == 0;
}

static bool describe_sentence(struct line *line, const uint8_t *octets, uint32_t length)
{
    ADD(line, "-- ");
    for (uint32_t i = URO_ETHER_LEN + sizeof URO_TEXT_SENTENCE_BEGIN - 1; i < length; i++)
        ADD(line, "%c", octets[i] >= ' ' && octets[i] <= '~' ? octets[i] : '?');
    return true;
}

bool uro_text_line(const uint8_t *octets, uint32_t length, char line[static URO_TEXT_LINE_MAX])
{
    struct line out = { .text = line };
    struct uro_frame frame;

    line[0] = '\0';
    if (uro_text_is_sentence(octets, length))
        return describe_sentence(&out, octets, length);
    const enum uro_frame_result result = uro_frame_network(octets, length, &frame);
    if (result != URO_FRAME_OK) {
        ADD(&out, "%" PRIu32 " bytes !%s", length, uro_frame_result_text(result));
        return false;
    }
    if (frame.ether.tagged)
        ADD(&out, "vlan %u priority %u ", frame.ether.tag & 0xfffu,
            (unsigned)frame.ether.tag >> 13);
    if (frame.ether.type == URO_ETHERTYPE_ARP)
        return describe_arp(&out, &frame);

    add_addresses(&out, &frame.ip);
    if (is_membership(&frame))
        return describe_membership(&out, &frame);
    if (frame.ip.protocol == (frame.ip.v6 ? URO_IPPROTO_ICMPV6 : URO_IPPROTO_ICMP))
        return describe_icmp(&out, &frame);
    if (frame.ip.protocol != URO_IPPROTO_UDP)
        ADD(&out, " protocol %u", frame.ip.protocol);
    else if (frame.udp.dest_port == URO_ROCE_PORT)
        return describe_roce(&out, &frame);
    else
        ADD(&out, " UDP %u > %u len %" PRIu32, frame.udp.source_port, frame.udp.dest_port,
            frame.body_length);
    return true;
}
