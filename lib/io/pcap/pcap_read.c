/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_read.c - see pcap_read.h for the contract. */
#include "io/pcap/pcap_read.h"

#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>

#define NS_PER_SECOND UINT64_C(1000000000)

struct uro_pcap_read {
    pcap_t *file;
};

/* Opens the file, and adds its name to libpcap's message, which has the name only when the file
 * cannot be opened. */
static pcap_t *open_file(const char *path, char error[static URO_PCAP_ERROR_MAX])
{
    char reason[PCAP_ERRBUF_SIZE];
    pcap_t *file =
        pcap_open_offline_with_tstamp_precision(path, PCAP_TSTAMP_PRECISION_NANO, reason);

    if (file == NULL) {
        snprintf(error, URO_PCAP_ERROR_MAX, "%s: the file cannot be read as a capture: %s", path,
                 reason);
        return NULL;
    }
    int link = pcap_datalink(file);
    if (link == DLT_EN10MB)
        return file;
    const char *name = pcap_datalink_val_to_name(link);
    snprintf(error, URO_PCAP_ERROR_MAX,
             "%s: the capture has link type %d (%s), and only Ethernet can be read", path, link,
             name != NULL ? name : "unknown");
    pcap_close(file);
    return NULL;
}

struct uro_pcap_read *uro_pcap_read_open(const char *path, char error[static URO_PCAP_ERROR_MAX])
{
    pcap_t *file = open_file(path, error);
    if (file == NULL)
        return NULL;

    struct uro_pcap_read *reader = malloc(sizeof *reader);
    if (reader == NULL) {
        snprintf(error, URO_PCAP_ERROR_MAX, "%s: out of memory", path);
        pcap_close(file);
        return NULL;
    }
    reader->file = file;
    return reader;
}

int uro_pcap_read_next(struct uro_pcap_read *reader, struct uro_pcap_read_frame *frame)
{
    struct pcap_pkthdr *header;
    const u_char *octets;
    int result = pcap_next_ex(reader->file, &header, &octets);

    if (result == PCAP_ERROR_BREAK)
        return 0;
    if (result != 1)
        return -EBADMSG;
    /* With nanosecond precision tv_usec holds nanoseconds. */
    *frame = (struct uro_pcap_read_frame){
        .pkt = { .octets = octets, .length = header->caplen },
        .length = header->len,
        .time = (uint64_t)header->ts.tv_sec * NS_PER_SECOND + (uint64_t)header->ts.tv_usec,
    };
    return 1;
}

const char *uro_pcap_read_problem(struct uro_pcap_read *reader)
{
    return pcap_geterr(reader->file);
}

void uro_pcap_read_close(struct uro_pcap_read *reader)
{
    if (reader == NULL)
        return;
    pcap_close(reader->file);
    free(reader);
}
