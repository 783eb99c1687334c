/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_write.c - see pcap_write.h for the contract.
 *
 * Only whole frames are buffered, and the buffer is written as a whole. `stored` is the length of
 * the valid part of the file. A write that fails half way is truncated again.
 */
#include "io/pcap/pcap_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC_NS      0xa1b23c4du
#define VERSION_MAJOR 2u
#define VERSION_MINOR 4u
#define LINK_ETHERNET 1u
#define BUFFER_SIZE   131072u
#define NS_PER_SECOND 1000000000u

/* Both headers are in the byte order of the writing machine, as the magic number shows. */
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
static_assert(BUFFER_SIZE >= sizeof(struct frame_header) + URO_PCAP_FRAME_MAX,
              "a frame fits the buffer");

struct uro_pcap_write {
    int fd;
    bool error_returned; /* the first error was returned */
    off_t stored;        /* bytes of the valid part of the file */
    uint64_t lost;       /* frames left out */
    uint64_t origin;
    uint32_t used;   /* bytes in the buffer */
    uint32_t frames; /* frames in the buffer */
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
        writer->used = sizeof(struct file_header); /* a file without its header is no capture */
    writer->frames = 0;

    if (result != 0 && writer->error_returned)
        return 0;
    writer->error_returned |= result != 0;
    return result;
}

uint8_t *uro_pcap_write_reserve(struct uro_pcap_write *writer, uint32_t length, uro_time now,
                                int *result)
{
    uint32_t stored = length < URO_PCAP_FRAME_MAX ? length : URO_PCAP_FRAME_MAX;
    uint64_t time = writer->origin + now;
    struct frame_header header = { .seconds = (uint32_t)(time / NS_PER_SECOND),
                                   .nanoseconds = (uint32_t)(time % NS_PER_SECOND),
                                   .length_stored = stored,
                                   .length = length };

    *result = 0;
    if (writer->used + sizeof header + stored > BUFFER_SIZE)
        *result = uro_pcap_write_flush(writer);
    memcpy(writer->buffer + writer->used, &header, sizeof header);
    uint8_t *pos = writer->buffer + writer->used + sizeof header;
    writer->used += (uint32_t)sizeof header + stored;
    writer->frames++;
    return pos;
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

uint64_t uro_pcap_write_lost(const struct uro_pcap_write *writer)
{
    return writer->lost;
}

/* Opens the file without waiting, as a FIFO would, and without truncating what is not a regular
 * file. */
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

int uro_pcap_write_open(const char *path, uint64_t origin, struct uro_pcap_write **writer)
{
    const struct file_header header = { .magic = MAGIC_NS,
                                        .version_major = VERSION_MAJOR,
                                        .version_minor = VERSION_MINOR,
                                        .frame_max = URO_PCAP_FRAME_MAX,
                                        .link = LINK_ETHERNET };
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
    made->used = sizeof header;
    memcpy(made->buffer, &header, sizeof header);
    *writer = made;
    return 0;
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
    int untold = uro_pcap_write_flush(writer);
    (void)untold;
    close(writer->fd);
    free(writer);
}
