/* SPDX-License-Identifier: BSD-3-Clause */
/* member_stage.c - see member_stage.h. */
#include "unit/engine/member_stage.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"
#include "wire/frame.h"
#include "wire/igmp.h"
#include "wire/mld.h"

static const struct uro_mac our_mac = { { 2, 0, 0, 0, 0, 1 } };

struct uro_gid gid(const char *text)
{
    struct uro_gid g;
    assert_true(uro_gid_parse(text, &g));
    return g;
}

struct stage *open_with(uint32_t mtu, const char *ip4)
{
    struct stage *s = calloc(1, sizeof *s);

    assert_non_null(s);
    s->config = (struct uro_engine_config){
        .mac = our_mac, .mtu = mtu, .address_count = 2, .table_bits = 4
    };
    s->config.addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&our_mac), 64 };
    s->config.addresses[1] = (struct uro_engine_address){ gid("fd00::1:2:3"), 64 };
    if (ip4 != NULL)
        s->config.addresses[s->config.address_count++] =
            (struct uro_engine_address){ gid(ip4), 24 };
    size_t size = (uro_engine_size(&s->config) + 63) & ~(size_t)63;
    s->memory = aligned_alloc(64, size);
    assert_non_null(s->memory);
    memset(s->memory, 0xa5, size); /* so that a field that is not written is detected */
    assert_int_equal(uro_engine_init(s->memory, &s->config, 0, &s->engine), 0);
    return s;
}

struct stage *open_stage(void)
{
    return open_with(1500, "10.0.0.1");
}

void close_stage(struct stage *s)
{
    free(s->memory);
    free(s);
}

void join(struct stage *s, const char *group, uro_time now)
{
    const struct uro_gid g = gid(group);
    assert_int_equal(uro_engine_join(s->engine, &g, now), 0);
}

void leave(struct stage *s, const char *group, uro_time now)
{
    const struct uro_gid g = gid(group);
    uro_engine_leave(s->engine, &g, now);
}

static void note(struct reports *reports, uint8_t type, bool v6, const uint8_t *group)
{
    assert_true(reports->count < RECORDS_MAX);
    reports->type[reports->count] = type;
    if (v6)
        memcpy(&reports->group[reports->count], group, 16);
    else
        reports->group[reports->count] = uro_gid_from_ipv4(group);
    reports->count++;
}

static void read_records(struct reports *reports, const struct uro_frame *frame)
{
    const bool v6 = frame->ip.v6;
    const struct uro_gid listeners = gid(v6 ? "ff02::16" : "224.0.0.22");
    const uint32_t count = uro_get_be16(frame->body + 6);
    const uint32_t size = v6 ? 20 : 8;

    assert_memory_equal(&frame->ip.dest, &listeners, sizeof listeners);
    assert_int_equal(frame->body_length, 8 + count * size);
    for (uint32_t i = 0; i < count; i++)
        note(reports, frame->body[8 + i * size], v6, frame->body + 8 + i * size + 4);
}

/* Parses the report in s->frame. Records the one group of a report of IGMPv1, IGMPv2 or MLDv1 with
 * the message type. Checks the router alert option, the hop limit, the checksum and the length. */
static void read_report(struct stage *s)
{
    struct reports *reports = &s->reports;
    struct uro_frame frame;
    struct uro_membership_query query;

    assert_int_equal(uro_frame_network(s->frame, s->length, &frame), URO_FRAME_OK);
    const bool v6 = frame.ip.v6;
    assert_true(frame.ip.router_alert);
    assert_int_equal(frame.ip.hop_limit, 1);
    assert_int_equal(v6 ? uro_mld_decode(&frame.ip, frame.body, frame.body_length, &query)
                        : uro_igmp_decode(frame.body, frame.body_length, &query),
                     URO_MEMBERSHIP_OTHER); /* the checksum is right */
    if (frame.body[0] == (v6 ? 143 : 0x22)) {
        read_records(reports, &frame);
    } else {
        assert_int_equal(frame.body_length, v6 ? 24 : 8);
        note(reports, frame.body[0], v6, frame.body + (v6 ? 8 : 4));
    }
    reports->frames++;
    if (s->length > reports->longest)
        reports->longest = s->length;
}

uint32_t listen_to(struct stage *s, uro_time now)
{
    struct uro_tx tx[3];

    memset(&s->reports, 0, sizeof s->reports);
    for (uint32_t count; (count = uro_engine_output(s->engine, tx, 3, now)) > 0;)
        for (uint32_t i = 0; i < count; i++) {
            s->length = uro_tx_length(&tx[i]);
            assert_true(s->length <= sizeof s->frame);
            uro_tx_write(&tx[i], s->frame);
            read_report(s);
        }
    return s->reports.count;
}

bool reported(const struct stage *s, unsigned what, const char *group)
{
    const struct uro_gid wanted = gid(group);

    for (uint32_t i = 0; i < s->reports.count; i++)
        if (s->reports.type[i] == what && uro_gid_equal(&s->reports.group[i], &wanted))
            return true;
    return false;
}

void expect_frame(const struct stage *s, const char *hex)
{
    static const char digits[] = "0123456789abcdef";

    assert_int_equal(s->length, strlen(hex) / 2);
    for (uint32_t i = 0; i < s->length; i++) {
        assert_int_equal(digits[s->frame[i] >> 4], hex[2 * i]);
        assert_int_equal(digits[s->frame[i] & 15], hex[2 * i + 1]);
    }
}

void ask_in(struct stage *s, bool v6, uint32_t length, const char *group, uint8_t code,
            uro_time now)
{
    const struct uro_gid wanted = group != NULL ? gid(group) : (struct uro_gid){ { 0 } };
    uint8_t out[128] = { 0 };
    const struct uro_ether ether = { .dest = { { 1, 0, 0x5e, 0, 0, 1 } },
                                     .source = { { 2, 0, 0, 0, 0, 9 } },
                                     .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    const struct uro_ip ip = { .v6 = v6,
                               .router_alert = true,
                               .hop_limit = 1,
                               .protocol = v6 ? URO_IPPROTO_ICMPV6 : URO_IPPROTO_IGMP,
                               .payload_length = (uint16_t)length,
                               .source = gid(v6 ? "fe80::9" : "10.0.0.9"),
                               .dest = gid(v6 ? "ff02::1" : "224.0.0.1") };
    uint8_t *at = out + uro_ether_put(out, &ether);
    at += uro_ip_put(at, &ip);
    at[0] = v6 ? 130 : 0x11;
    at[v6 ? 5 : 1] = code;
    memcpy(at + (v6 ? 8 : 4), wanted.octets + (v6 ? 0 : 12), v6 ? 16 : 4);
    uint32_t sum = v6 ? uro_ip_pseudo_sum(&ip, URO_IPPROTO_ICMPV6, length) : 0;
    uro_put_be16(at + 2, uro_ip_sum_finish(uro_ip_sum(sum, at, length)));
    const struct uro_pkt pkt = { .octets = out, .length = (uint32_t)(at - out) + length };
    uro_engine_input(s->engine, &pkt, 1, now);
}

void ask(struct stage *s, bool v6, const char *group, uint8_t code, uro_time now)
{
    ask_in(s, v6, v6 ? 28 : 12, group, code, now);
}

uint64_t counted(const struct stage *s, enum uro_counter counter)
{
    return uro_engine_counters(s->engine)->value[counter];
}

uro_time next(const struct stage *s)
{
    return uro_engine_next(s->engine);
}
