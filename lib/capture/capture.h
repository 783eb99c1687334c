/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.h - a capture file in memory: its packets as plain values, and the flows they belong to.
 *
 * A flow is all packets from one address to one queue pair. The two flows of a connection are
 * paired when the capture shows that they belong together: by the messages of the connection
 * manager, because the responses of one have the PSNs of requests of the other, or because their
 * addresses have no other unpaired flows.
 */
#pragma once

#include "capture/index.h"
#include "io/pcap/pcap_read.h"
#include "wire/cm_msg.h"
#include "wire/gid.h"

#define URO_CAPTURE_NONE       URO_INDEX_NONE
#define URO_CAPTURE_FRAMES_MAX 20000000u /* about 2 GB of memory */

enum uro_capture_kind {
    URO_CAPTURE_OTHER, /* not RoCEv2 */
    URO_CAPTURE_ROCE,  /* a receiver accepts the packet */
    URO_CAPTURE_BAD,   /* a receiver drops the packet: see its flaws */
    URO_CAPTURE_CUT,   /* RoCEv2, but the capture does not have all headers */
    /* A packet of a joined frame (GSO, GRO), whose ICRC cannot be checked. As the result of
     * uro_capture_decode(): the joined frame itself. */
    URO_CAPTURE_JOINED,
};

/* Flaws of a single packet. A packet with one of the first seven is URO_CAPTURE_BAD. */
#define URO_FLAW_ICRC (1u << 0)
/* The ICRC is correct, but its most significant byte is first. */
#define URO_FLAW_ICRC_ORDER   (1u << 1)
#define URO_FLAW_ICRC_PAD     (1u << 2) /* the ICRC is correct for the packet without its pad */
#define URO_FLAW_OPCODE       (1u << 3)
#define URO_FLAW_LENGTH       (1u << 4)
#define URO_FLAW_VERSION      (1u << 5)
#define URO_FLAW_UDP_CHECKSUM (1u << 6)
/* The ICRC covers the headers twice, as Linux rxe does for FLUSH. */
#define URO_FLAW_ICRC_FLUSH (1u << 7)
#define URO_FLAW_RESERVED   (1u << 8)  /* a reserved bit, FECN or BECN is set */
#define URO_FLAW_BECN       (1u << 9)  /* a CNP without BECN */
#define URO_FLAW_PAD        (1u << 10) /* payload and pad are not a multiple of four bytes */
#define URO_FLAW_GSI        (1u << 11) /* a datagram to QP 1 of the wrong length or Q_Key */
#define URO_FLAW_GROUP      (1u << 12) /* a group address and another QPN than 0xffffff */

struct uro_capture_packet {
    uint64_t time;   /* ns since 1970 */
    uint64_t va;     /* field of RETH or AtomicETH */
    uint32_t frame;  /* number of its frame in the file, from 1 */
    uint32_t length; /* bytes on the wire */
    uint32_t source; /* position in uro_capture.addresses; NONE: no IP */
    uint32_t dest;
    uint32_t flow; /* position in uro_capture.flows; NONE: no flow */
    uint32_t dest_qpn;
    uint32_t psn;
    uint32_t msn;            /* field of AETH */
    uint32_t payload;        /* bytes without pad */
    uint32_t message_length; /* field of RETH */
    uint32_t rkey;
    uint32_t source_qpn; /* field of DETH */
    uint32_t icrc;
    uint32_t flaws; /* set of URO_FLAW_* */
    uint16_t source_port;
    uint16_t identification; /* field of IPv4 */
    uint8_t kind;            /* enum uro_capture_kind */
    uint8_t opcode;
    uint8_t aeth_kind; /* enum uro_aeth_kind */
    uint8_t aeth_value;
    bool ack_req;
    bool migrated;
    bool congestion; /* marked CE */
};

struct uro_capture_address {
    struct uro_gid gid;
    uint16_t vlan; /* 0: no VLAN */
};

enum uro_capture_pairing {
    URO_PAIRED_NOT,
    URO_PAIRED_BY_CM,   /* the capture has REQ and REP */
    URO_PAIRED_BY_PSN,  /* responses have the PSNs of requests */
    URO_PAIRED_BY_ONLY, /* no other unpaired flow between the addresses: probable, not certain */
};

struct uro_capture_flow {
    uint32_t source; /* positions of addresses */
    uint32_t dest;
    uint32_t dest_qpn;
    enum uro_service service; /* URO_CNP: all packets are CNPs */
    uint32_t first;           /* position of the first packet */
    uint32_t frames;
    uint32_t peer; /* position of the flow of the other direction; NONE: not known */
    enum uro_capture_pairing pairing;
    uint32_t pmtu; /* bytes of most FIRST and MIDDLE packets; 0: none seen */

    /* From the connection manager; URO_CAPTURE_NONE when the capture has no REQ and REP for the
     * queue pair. start_psn and read_depth are also NONE when it has several. */
    uint32_t start_psn;   /* first PSN of the requests in this flow */
    uint32_t read_depth;  /* maximum number of READs and atomics outstanding in this flow */
    uint32_t cm_pmtu;     /* bytes */
    uint32_t connections; /* number of connections with REQ and REP */
    uint32_t cm_packet;   /* position of the first REP; valid if `connections` is not 0 */
};

/* State for the recognition of joined packets: the ICRC shows the length of the first packet. */
struct uro_capture_joined {
    uint64_t budget; /* bytes whose ICRC may still be computed */
    /* lengths that were found last; the next length replaces lengths[number % 8] */
    uint32_t lengths[8];
    uint32_t number;
};

/* A message of the connection manager. */
struct uro_capture_cm {
    uint32_t packet;
    struct uro_cm_msg *msg;
};

struct uro_capture {
    struct uro_capture_packet *packets;
    struct uro_capture_flow *flows;
    struct uro_capture_address *addresses;
    struct uro_capture_cm *cms;
    uint32_t count;       /* packets: a frame has one, or several if the kernel joined them */
    uint32_t frame_count; /* frames in the file */
    uint32_t split_count; /* frames that were split into packets */
    uint32_t flow_count;
    uint32_t address_count;
    uint32_t cm_count;
    uint32_t roce_count; /* packets whose kind is not URO_CAPTURE_OTHER */
    uint32_t cut_count;
    uint32_t joined_count; /* packets of kind URO_CAPTURE_JOINED */
    bool damaged;          /* the file ends with a part that cannot be read: see problem */
    char problem[URO_PCAP_ERROR_MAX];

    struct uro_capture_joined joined;
    uint32_t packet_room; /* capacities of the arrays */
    uint32_t flow_room;
    uint32_t address_room;
    uint32_t cm_room;
    struct uro_index flow_index;
    struct uro_index address_index;
};

/* Called for each packet while the file is read, because its bytes are not kept. A packet that the
 * kernel joined with other packets is passed as a frame of its own. */
typedef void uro_capture_each(void *context, const struct uro_pcap_read_frame *frame,
                              const struct uro_capture_packet *packet);

/* Reads @path ("-": standard input) and pairs its flows. @each may be NULL. Returns NULL with a
 * sentence in @error when the file cannot be read, is not a capture or is too large, or when out of
 * memory. */
struct uro_capture *uro_capture_load(const char *path, uro_capture_each *each, void *context,
                                     char error[static URO_PCAP_ERROR_MAX]);

/* Frees @capture. NULL does nothing. */
void uro_capture_free(struct uro_capture *capture);

/* Returns the QPN that sent @packet, or URO_CAPTURE_NONE when the capture does not show it. */
uint32_t uro_capture_source_qpn(const struct uro_capture *capture,
                                const struct uro_capture_packet *packet);

/* Returns the entry of the opcode table. The packet is RoCE. */
static inline const struct uro_opcode *uro_capture_op(const struct uro_capture_packet *packet)
{
    return &uro_opcodes[packet->opcode];
}

/* Decodes one frame into @packet, without the positions of addresses and flow. When the result is
 * true, @link has the addresses. Returns false when the frame is not IP, or a header up to UDP is
 * malformed. capture_decode.c */
struct uro_capture_link {
    struct uro_capture_joined *joined; /* updated */
    struct uro_gid source;
    struct uro_gid dest;
    uint16_t vlan;
    const uint8_t *payload; /* payload of a datagram, valid as long as the frame; else NULL */
    uint32_t first_length;  /* URO_CAPTURE_JOINED: bytes of UDP payload of the first packet */
    uint32_t network;       /* URO_CAPTURE_JOINED: bytes before the IP header */
    bool v6;                /* URO_CAPTURE_JOINED */
};
bool uro_capture_decode(const struct uro_pcap_read_frame *frame, struct uro_capture_packet *packet,
                        struct uro_capture_link *link);

/* Writes packet @index of a frame of several packets, as it was or will be on the wire, to @out.
 * All packets have link->first_length bytes of UDP payload, but the last may have fewer. @step is
 * the difference of the IPv4 identifications of successive packets. Returns the length, or 0 behind
 * the last packet. capture_gso.c */
#define URO_CAPTURE_PACKET_MAX 9216u
uint32_t uro_capture_split(const struct uro_pcap_read_frame *frame,
                           const struct uro_capture_link *link, uint32_t index, uint16_t step,
                           uint8_t out[static URO_CAPTURE_PACKET_MAX]);

/* Finds the other direction of each flow. Returns false when out of memory. capture_pairing.c */
URO_NODISCARD bool uro_capture_pair(struct uro_capture *capture);

/* Returns the position of a flow, or URO_CAPTURE_NONE. */
uint32_t uro_capture_find_flow(const struct uro_capture *capture, uint32_t source, uint32_t dest,
                               uint32_t dest_qpn);
