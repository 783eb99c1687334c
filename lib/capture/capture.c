/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.c - reads a capture file into memory; see capture.h. */
#include "capture/capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QPN_GSI 1u

/* Maximum number of bytes whose ICRC is computed to find joined packets. Computing the ICRC of so
 * many bytes takes some seconds. */
#define JOINED_BUDGET (UINT64_C(4) << 30)

static uint32_t address_hash(const struct uro_capture_address *address)
{
    return uro_index_hash(uro_gid_hash(&address->gid) + address->vlan);
}

static bool address_equal(const void *objects, uint32_t position, const void *key)
{
    const struct uro_capture_address *a = (const struct uro_capture_address *)objects + position;
    const struct uro_capture_address *b = key;

    return a->vlan == b->vlan && uro_gid_equal(&a->gid, &b->gid);
}

/* Returns the position of the address, which is added if it is new. Returns URO_CAPTURE_NONE when
 * out of memory. */
static uint32_t address_of(struct uro_capture *capture, const struct uro_gid *gid, uint16_t vlan)
{
    const struct uro_capture_address address = { *gid, vlan };
    const uint32_t hash = address_hash(&address);
    const uint32_t found =
        uro_index_find(&capture->address_index, hash, address_equal, capture->addresses, &address);

    if (found != URO_INDEX_NONE)
        return found;
    void *moved = uro_index_grow(capture->addresses, capture->address_count, &capture->address_room,
                                 sizeof address);
    if (moved == NULL)
        return URO_CAPTURE_NONE;
    capture->addresses = moved;
    capture->addresses[capture->address_count] = address;
    if (!uro_index_add(&capture->address_index, hash, capture->address_count))
        return URO_CAPTURE_NONE;
    return capture->address_count++;
}

struct flow_key {
    uint32_t source;
    uint32_t dest;
    uint32_t dest_qpn;
};

static uint32_t flow_hash(struct flow_key key)
{
    return uro_index_hash(((uint64_t)key.source << 40) ^ ((uint64_t)key.dest << 24) ^ key.dest_qpn);
}

static bool flow_equal(const void *objects, uint32_t position, const void *key)
{
    const struct uro_capture_flow *flow = (const struct uro_capture_flow *)objects + position;
    const struct flow_key *wanted = key;

    return flow->source == wanted->source && flow->dest == wanted->dest &&
           flow->dest_qpn == wanted->dest_qpn;
}

uint32_t uro_capture_find_flow(const struct uro_capture *capture, uint32_t source, uint32_t dest,
                               uint32_t dest_qpn)
{
    const struct flow_key key = { source, dest, dest_qpn };

    return uro_index_find(&capture->flow_index, flow_hash(key), flow_equal, capture->flows, &key);
}

static uint32_t add_flow(struct uro_capture *capture, const struct uro_capture_packet *packet)
{
    const struct flow_key key = { packet->source, packet->dest, packet->dest_qpn };
    void *moved = uro_index_grow(capture->flows, capture->flow_count, &capture->flow_room,
                                 sizeof *capture->flows);

    if (moved == NULL)
        return URO_CAPTURE_NONE;
    capture->flows = moved;
    capture->flows[capture->flow_count] =
        (struct uro_capture_flow){ .source = key.source,
                                   .dest = key.dest,
                                   .dest_qpn = key.dest_qpn,
                                   .service = uro_capture_op(packet)->service,
                                   .first = capture->count,
                                   .peer = URO_CAPTURE_NONE,
                                   .start_psn = URO_CAPTURE_NONE,
                                   .read_depth = URO_CAPTURE_NONE,
                                   .cm_pmtu = URO_CAPTURE_NONE };
    if (!uro_index_add(&capture->flow_index, flow_hash(key), capture->flow_count))
        return URO_CAPTURE_NONE;
    return capture->flow_count++;
}

/* Puts the packet into its flow. Returns false when out of memory. */
static bool assign_flow(struct uro_capture *capture, struct uro_capture_packet *packet)
{
    uint32_t position =
        uro_capture_find_flow(capture, packet->source, packet->dest, packet->dest_qpn);

    if (position == URO_CAPTURE_NONE)
        position = add_flow(capture, packet);
    if (position == URO_CAPTURE_NONE)
        return false;
    struct uro_capture_flow *flow = &capture->flows[position];
    if (flow->service == URO_CNP)
        flow->service = uro_capture_op(packet)->service;
    flow->frames++;
    packet->flow = position;
    return true;
}

/* Keeps a message of the connection manager. Returns false when out of memory. */
static bool keep_cm(struct uro_capture *capture, const uint8_t *payload)
{
    struct uro_cm_msg *msg = malloc(sizeof *msg);
    void *moved =
        uro_index_grow(capture->cms, capture->cm_count, &capture->cm_room, sizeof *capture->cms);

    if (moved != NULL)
        capture->cms = moved;
    if (msg == NULL || moved == NULL) {
        free(msg);
        return false;
    }
    if (uro_cm_decode(payload, msg) != URO_CM_OK) {
        free(msg);
        return true;
    }
    capture->cms[capture->cm_count++] = (struct uro_capture_cm){ capture->count, msg };
    return true;
}

/* Appends a decoded packet. Returns false when out of memory. */
static bool add_packet(struct uro_capture *capture, struct uro_capture_packet *packet,
                       const struct uro_capture_link *link, bool has_addresses)
{
    void *moved =
        uro_index_grow(capture->packets, capture->count, &capture->packet_room, sizeof *packet);

    if (moved == NULL)
        return false;
    capture->packets = moved;
    packet->frame = capture->frame_count;
    if (has_addresses) {
        packet->source = address_of(capture, &link->source, link->vlan);
        packet->dest = address_of(capture, &link->dest, link->vlan);
        if (packet->source == URO_CAPTURE_NONE || packet->dest == URO_CAPTURE_NONE)
            return false;
    }
    if (packet->kind == URO_CAPTURE_ROCE && !assign_flow(capture, packet))
        return false;
    if (link->payload != NULL && packet->dest_qpn == QPN_GSI && packet->payload == URO_MAD_LEN &&
        !keep_cm(capture, link->payload))
        return false;
    capture->roce_count += packet->kind != URO_CAPTURE_OTHER;
    capture->cut_count += packet->kind == URO_CAPTURE_CUT;
    capture->joined_count += packet->kind == URO_CAPTURE_JOINED;
    capture->packets[capture->count++] = *packet;
    return true;
}

/* The destination of the packets. */
struct sink {
    struct uro_capture *capture;
    uro_capture_each *each; /* may be NULL */
    void *context;
};

/* Appends one packet, and reports it. Returns false when out of memory. */
static bool append(const struct sink *sink, const struct uro_pcap_read_frame *frame,
                   struct uro_capture_packet *packet, struct uro_capture_link *link,
                   bool has_addresses)
{
    if (!add_packet(sink->capture, packet, link, has_addresses))
        return false;
    if (sink->each != NULL)
        sink->each(sink->context, frame, packet);
    return true;
}

/* One packet of a joined frame. */
struct part {
    struct uro_pcap_read_frame frame;
    struct uro_capture_packet packet;
    struct uro_capture_link link;
    uint8_t octets[URO_CAPTURE_PACKET_MAX];
};

/* Decodes packet @index of a joined frame. Most kernels increment the IPv4 identification for each
 * packet, and some repeat it. The ICRC shows which case applies. Returns false after the last
 * packet. */
static bool decode_part(const struct uro_pcap_read_frame *whole,
                        const struct uro_capture_link *joined, uint32_t index, struct part *part)
{
    for (uint16_t attempt = 0; attempt < 2; attempt++) {
        const uint16_t step = attempt == 0 ? 1 : 0;
        const uint32_t length = uro_capture_split(whole, joined, index, step, part->octets);
        if (length == 0)
            return false;
        part->frame = *whole;
        part->frame.length = part->frame.pkt.length = length;
        part->frame.pkt.octets = part->octets;
        part->link = (struct uro_capture_link){ .joined = joined->joined };
        (void)uro_capture_decode(&part->frame, &part->packet, &part->link);
        if (part->packet.kind == URO_CAPTURE_ROCE)
            return true;
    }
    /* the packet's identification is lost, so its ICRC cannot be checked */
    part->packet.kind = URO_CAPTURE_JOINED;
    part->packet.flaws = 0;
    return true;
}

/* Appends the packets of a joined frame. Returns false when out of memory. */
static bool add_parts(const struct sink *sink, const struct uro_pcap_read_frame *frame,
                      const struct uro_capture_link *joined)
{
    static _Thread_local struct part part;

    for (uint32_t i = 0; decode_part(frame, joined, i, &part); i++)
        if (!append(sink, &part.frame, &part.packet, &part.link, true))
            return false;
    sink->capture->split_count++;
    return true;
}

/* Appends the packets of a frame. Returns false when out of memory. */
static bool add_frame(const struct sink *sink, const struct uro_pcap_read_frame *frame)
{
    struct uro_capture_link link = { .joined = &sink->capture->joined };
    struct uro_capture_packet packet;
    const bool has_addresses = uro_capture_decode(frame, &packet, &link);

    sink->capture->frame_count++;
    if (packet.kind == URO_CAPTURE_JOINED)
        return add_parts(sink, frame, &link);
    return append(sink, frame, &packet, &link, has_addresses);
}

/* Reads all frames. Returns false with a sentence in @error when there are too many frames, or when
 * out of memory. */
static bool read_frames(const struct sink *sink, struct uro_pcap_read *reader, const char *path,
                        char error[static URO_PCAP_ERROR_MAX])
{
    struct uro_capture *capture = sink->capture;
    struct uro_pcap_read_frame frame;
    int result;

    while ((result = uro_pcap_read_next(reader, &frame)) == 1) {
        if (capture->count >= URO_CAPTURE_FRAMES_MAX) {
            snprintf(error, URO_PCAP_ERROR_MAX,
                     "%s: the capture has more than %u frames; split it with editcap -c", path,
                     URO_CAPTURE_FRAMES_MAX);
            return false;
        }
        if (!add_frame(sink, &frame)) {
            snprintf(error, URO_PCAP_ERROR_MAX,
                     "%s: out of memory after frame %u; split the capture with editcap -c", path,
                     capture->frame_count);
            return false;
        }
    }
    if (result != 0) {
        capture->damaged = true;
        snprintf(capture->problem, sizeof capture->problem,
                 "the file is damaged after frame %u: %.200s", capture->frame_count,
                 uro_pcap_read_problem(reader));
    }
    return true;
}

struct uro_capture *uro_capture_load(const char *path, uro_capture_each *each, void *context,
                                     char error[static URO_PCAP_ERROR_MAX])
{
    struct uro_pcap_read *reader = uro_pcap_read_open(path, error);
    if (reader == NULL)
        return NULL;

    struct uro_capture *capture = calloc(1, sizeof *capture);
    if (capture != NULL)
        capture->joined.budget = JOINED_BUDGET;
    const struct sink sink = { capture, each, context };
    bool good = capture != NULL && read_frames(&sink, reader, path, error);
    uro_pcap_read_close(reader);
    if (capture == NULL || (good && !uro_capture_pair(capture))) {
        snprintf(error, URO_PCAP_ERROR_MAX, "%s: out of memory", path);
        good = false;
    }
    if (good)
        return capture;
    uro_capture_free(capture);
    return NULL;
}

void uro_capture_free(struct uro_capture *capture)
{
    if (capture == NULL)
        return;
    for (uint32_t i = 0; i < capture->cm_count; i++)
        free(capture->cms[i].msg);
    uro_index_free(&capture->flow_index);
    uro_index_free(&capture->address_index);
    free(capture->packets);
    free(capture->flows);
    free(capture->addresses);
    free(capture->cms);
    free(capture);
}

uint32_t uro_capture_source_qpn(const struct uro_capture *capture,
                                const struct uro_capture_packet *packet)
{
    if (packet->source_qpn != URO_CAPTURE_NONE || packet->flow == URO_CAPTURE_NONE)
        return packet->source_qpn;
    const uint32_t peer = capture->flows[packet->flow].peer;
    return peer == URO_CAPTURE_NONE ? URO_CAPTURE_NONE : capture->flows[peer].dest_qpn;
}
