/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_write.c - see pcap_write.h for the contract.
 *
 * Only whole frames are buffered, and the buffer is written as a whole. `stored` is the length of
 * the valid part of the file. A write that fails half way is truncated again.
 */
#include "io/pcap/pcap_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/ether.h"
#include "wire/text.h"

#define MAGIC_NS      0xa1b23c4du
#define VERSION_MAJOR 2u
#define VERSION_MINOR 4u
#define LINK_ETHERNET 1u
#define BUFFER_SIZE   131072u
#define NS_PER_SECOND 1000000000u

/* All headers are in the byte order of the writing machine, as the magic numbers show. */
struct file_header {
    uint32_t magic;
    uint16_t version_major;
    uint16_t version_minor;
    uint32_t zone;
    uint32_t accuracy;
    uint32_t frame_max;
    uint32_t link;
};
static_assert(sizeof(struct file_header) == 24, "no padding in the file header");

struct frame_header {
    uint32_t seconds;
    uint32_t nanoseconds;
    uint32_t length_stored;
    uint32_t length;
};
static_assert(sizeof(struct frame_header) == 16, "no padding in the frame header");

/* ---- pcapng: blocks of words; each ends with its length ------------------------- */

#define NG_SECTION         0x0a0d0d0au
#define NG_MAGIC           0x1a2b3c4du
#define NG_INTERFACE       1u
#define NG_PACKET          6u
#define NG_OPTION_COMMENT  1u
#define NG_OPTION_NAME     2u
#define NG_OPTION_ACCURACY 9u
#define NG_NANOSECONDS     9u /* exponent of the accuracy */

struct ng_section {
    uint32_t type, length;
    uint32_t magic;
    uint16_t version_major, version_minor;
    uint32_t section_length[2]; /* all ones: unknown */
    uint32_t length_again;
};
static_assert(sizeof(struct ng_section) == 28, "no padding in the section header");

struct ng_interface {
    uint32_t type, length;
    uint16_t link, reserved;
    uint32_t frame_max;
};
static_assert(sizeof(struct ng_interface) == 16, "no padding in an interface");

struct ng_packet {
    uint32_t type, length;
    uint32_t interface;
    uint32_t time_high, time_low;
    uint32_t length_stored;
    uint32_t wire_length;
};
static_assert(sizeof(struct ng_packet) == 28, "no padding in a packet");

struct ng_option {
    uint16_t code, length;
};

#define NG_OPTION_SIZE(length) ((uint32_t)sizeof(struct ng_option) + (((length) + 3u) & ~3u))
#define NG_PACKET_MAX                                                                              \
    (sizeof(struct ng_packet) + URO_PCAP_FRAME_MAX + 3u + NG_OPTION_SIZE(URO_PCAP_COMMENT_MAX) +   \
     sizeof(struct ng_option) + sizeof(uint32_t))
static_assert(BUFFER_SIZE >= NG_PACKET_MAX, "a frame fits the buffer");

struct uro_pcap_write {
    int fd;
    bool error_returned; /* the first error was returned */
    off_t stored;        /* bytes of the valid part of the file */
    uint64_t lost;       /* frames left out */
    uint64_t origin;
    uint32_t used;   /* bytes in the buffer */
    uint32_t frames; /* frames in the buffer */
    uint32_t header; /* bytes of the header of the file */
    bool ng;
    enum uro_pcap_interface interface; /* interface of the next frame */
    const char *comment;               /* comment on the next frame, or NULL */
    uint8_t buffer[BUFFER_SIZE];
};

static int write_all(int fd, const uint8_t *pos, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, pos, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -errno;
        pos += written;
        length -= (size_t)written;
    }
    return 0;
}

/* Restores the file as it was before the write that failed. If that fails, the next write
 * overwrites the rest. */
static void take_back(struct uro_pcap_write *writer)
{
    if (lseek(writer->fd, writer->stored, SEEK_SET) == writer->stored)
        while (ftruncate(writer->fd, writer->stored) != 0 && errno == EINTR)
            ;
}

int uro_pcap_write_flush(struct uro_pcap_write *writer)
{
    int result = write_all(writer->fd, writer->buffer, writer->used);

    if (result == 0) {
        writer->stored += writer->used;
    } else {
        take_back(writer);
        writer->lost += writer->frames;
    }
    if (result == 0 || writer->stored > 0)
        writer->used = 0;
    else
        writer->used = writer->header; /* a file without its header is not a capture */
    writer->frames = 0;

    if (result != 0 && writer->error_returned)
        return 0;
    writer->error_returned |= result != 0;
    return result;
}

/* ---- frames --------------------------------------------------------------------- */

/* Appends @length bytes and zeros up to a whole word. Returns their address. */
static uint8_t *append(struct uro_pcap_write *writer, const void *bytes, uint32_t length)
{
    static const uint8_t zeros[4];
    uint8_t *pos = writer->buffer + writer->used;

    if (bytes != NULL)
        memcpy(pos, bytes, length);
    memcpy(pos + length, zeros, -length & 3u);
    writer->used += (length + 3u) & ~3u;
    return pos;
}

static void append_option(struct uro_pcap_write *writer, uint16_t code, const void *value,
                          uint32_t length)
{
    const struct ng_option option = { .code = code, .length = (uint16_t)length };

    (void)append(writer, &option, sizeof option);
    (void)append(writer, value, length);
}

static uint32_t comment_length(const char *comment)
{
    return comment != NULL ? (uint32_t)strnlen(comment, URO_PCAP_COMMENT_MAX) : 0;
}

/* Appends the block of a frame, without the bytes of the frame. Returns where these belong. */
static uint8_t *append_block(struct uro_pcap_write *writer, uint32_t length, uint32_t stored,
                             uint64_t time)
{
    const uint32_t comment = comment_length(writer->comment);
    const uint32_t options =
        comment > 0 ? NG_OPTION_SIZE(comment) + (uint32_t)sizeof(struct ng_option) : 0;
    const struct ng_packet packet = {
        .type = NG_PACKET,
        .length =
            (uint32_t)(sizeof packet + ((stored + 3u) & ~3u) + options + sizeof packet.length),
        .interface = (uint32_t)writer->interface,
        .time_high = (uint32_t)(time >> 32),
        .time_low = (uint32_t)time,
        .length_stored = stored,
        .wire_length = length,
    };

    (void)append(writer, &packet, sizeof packet);
    uint8_t *pos = append(writer, NULL, stored);
    if (comment > 0) {
        append_option(writer, NG_OPTION_COMMENT, writer->comment, comment);
        append_option(writer, 0, NULL, 0);
    }
    (void)append(writer, &packet.length, sizeof packet.length);
    return pos;
}

uint8_t *uro_pcap_write_reserve(struct uro_pcap_write *writer, uint32_t length, uro_time now,
                                int *result)
{
    const uint32_t stored = length < URO_PCAP_FRAME_MAX ? length : URO_PCAP_FRAME_MAX;
    const uint64_t time = writer->origin + now;
    const struct frame_header header = { .seconds = (uint32_t)(time / NS_PER_SECOND),
                                         .nanoseconds = (uint32_t)(time % NS_PER_SECOND),
                                         .length_stored = stored,
                                         .length = length };
    uint8_t *pos;

    *result = 0;
    if (writer->used + NG_PACKET_MAX - URO_PCAP_FRAME_MAX + stored > BUFFER_SIZE)
        *result = uro_pcap_write_flush(writer);
    if (writer->ng) {
        pos = append_block(writer, length, stored, time);
    } else {
        memcpy(writer->buffer + writer->used, &header, sizeof header);
        pos = writer->buffer + writer->used + sizeof header;
        writer->used += (uint32_t)sizeof header + stored;
    }
    writer->frames++;
    writer->interface = URO_PCAP_FRAMES;
    writer->comment = NULL;
    return pos;
}

void uro_pcap_write_comment(struct uro_pcap_write *writer, const char *comment)
{
    writer->comment = comment;
}

int uro_pcap_write_pkt(struct uro_pcap_write *writer, const struct uro_pkt *pkt, uro_time now)
{
    int result;
    uint8_t *pos = uro_pcap_write_reserve(writer, pkt->length, now, &result);
    uro_pkt_copy(pkt, pos, pkt->length < URO_PCAP_FRAME_MAX ? pkt->length : URO_PCAP_FRAME_MAX);
    return result;
}

int uro_pcap_write_tx(struct uro_pcap_write *writer, const struct uro_tx *tx, uro_time now)
{
    int result;

    URO_ASSERT(uro_tx_length(tx) <= URO_PCAP_FRAME_MAX);
    uro_tx_write(tx, uro_pcap_write_reserve(writer, uro_tx_length(tx), now, &result));
    return result;
}

int uro_pcap_write_lost_pkt(struct uro_pcap_write *writer, const struct uro_pkt *pkt, uro_time now)
{
    if (!writer->ng) {
        writer->comment = NULL;
        return 0;
    }
    writer->interface = URO_PCAP_LOST;
    return uro_pcap_write_pkt(writer, pkt, now);
}

int uro_pcap_write_text(struct uro_pcap_write *writer, const char *text, uro_time now)
{
    static const struct uro_ether ether = { .type = URO_TEXT_SENTENCE_TYPE };
    static const char begin[] = URO_TEXT_SENTENCE_BEGIN;
    uint8_t head[URO_ETHER_LEN_MAX];
    const uint32_t length = (uint32_t)strnlen(text, URO_PCAP_COMMENT_MAX);
    const size_t put = uro_ether_put(head, &ether);
    int result;

    if (!writer->ng)
        return 0;
    writer->interface = URO_PCAP_EVENTS;
    writer->comment = text;
    uint8_t *pos =
        uro_pcap_write_reserve(writer, (uint32_t)(put + sizeof begin - 1 + length), now, &result);
    memcpy(pos, head, put);
    memcpy(pos + put, begin, sizeof begin - 1);
    memcpy(pos + put + sizeof begin - 1, text, length);
    return result;
}

uint64_t uro_pcap_write_lost(const struct uro_pcap_write *writer)
{
    return writer->lost;
}

/* Opens the file. Does not wait for the reader of a FIFO, and truncates only a regular file. */
static int open_file(const char *path)
{
    struct stat status;
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

    if (fd < 0)
        return -errno;
    int result = fstat(fd, &status) != 0 ? -errno : 0;
    if (result == 0 && !S_ISREG(status.st_mode))
        result = -EINVAL;
    if (result == 0 && ftruncate(fd, 0) != 0)
        result = -errno;
    if (result == 0)
        return fd;
    close(fd);
    return result;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Appends an interface of the name "@name @suffix". */
static void append_interface(struct uro_pcap_write *writer, const char *name, const char *suffix)
{
    static const uint8_t accuracy = NG_NANOSECONDS;
    char full[64];
    const int made = snprintf(full, sizeof full, "%.48s%s", name, suffix);
    const uint32_t name_length = made > 0 ? (uint32_t)made : 0;
    const struct ng_interface interface = {
        .type = NG_INTERFACE,
        .length = (uint32_t)(sizeof interface + NG_OPTION_SIZE(name_length) + NG_OPTION_SIZE(1) +
                             NG_OPTION_SIZE(0) + sizeof interface.length),
        .link = LINK_ETHERNET,
        .frame_max = URO_PCAP_FRAME_MAX,
    };

    (void)append(writer, &interface, sizeof interface);
    append_option(writer, NG_OPTION_NAME, full, name_length);
    append_option(writer, NG_OPTION_ACCURACY, &accuracy, sizeof accuracy);
    append_option(writer, 0, NULL, 0);
    (void)append(writer, &interface.length, sizeof interface.length);
}

static void append_pcapng_header(struct uro_pcap_write *writer, const char *name)
{
    static const char *const suffixes[URO_PCAP_INTERFACES] = {
        [URO_PCAP_FRAMES] = "", [URO_PCAP_LOST] = " lost", [URO_PCAP_EVENTS] = " events"
    };
    const struct ng_section section = { .type = NG_SECTION,
                                        .length = sizeof section,
                                        .magic = NG_MAGIC,
                                        .version_major = 1,
                                        .section_length = { UINT32_MAX, UINT32_MAX },
                                        .length_again = sizeof section };

    (void)append(writer, &section, sizeof section);
    for (unsigned i = 0; i < URO_PCAP_INTERFACES; i++)
        append_interface(writer, name, suffixes[i]);
}

static void append_pcap_header(struct uro_pcap_write *writer)
{
    const struct file_header header = { .magic = MAGIC_NS,
                                        .version_major = VERSION_MAJOR,
                                        .version_minor = VERSION_MINOR,
                                        .frame_max = URO_PCAP_FRAME_MAX,
                                        .link = LINK_ETHERNET };

    (void)append(writer, &header, sizeof header);
}

int uro_pcap_write_open(const char *path, const char *name, uint64_t origin,
                        struct uro_pcap_write **writer)
{
    int fd = open_file(path);
    if (fd < 0)
        return fd;

    struct uro_pcap_write *made = malloc(sizeof *made);
    if (made == NULL) {
        close(fd);
        return -ENOMEM;
    }
    made->fd = fd;
    made->error_returned = false;
    made->stored = 0;
    made->lost = 0;
    made->origin = origin;
    made->frames = 0;
    made->used = 0;
    made->ng = ends_with(path, ".pcapng");
    made->interface = URO_PCAP_FRAMES;
    made->comment = NULL;
    if (made->ng)
        append_pcapng_header(made, name);
    else
        append_pcap_header(made);
    made->header = made->used;
    *writer = made;
    return 0;
}

bool uro_pcap_write_is_pcapng(const struct uro_pcap_write *writer)
{
    return writer->ng;
}

void uro_pcap_write_abandon(struct uro_pcap_write *writer)
{
    if (writer == NULL)
        return;
    close(writer->fd);
    free(writer);
}

void uro_pcap_write_close(struct uro_pcap_write *writer)
{
    if (writer == NULL)
        return;
    int unreported = uro_pcap_write_flush(writer);
    (void)unreported;
    close(writer->fd);
    free(writer);
}
