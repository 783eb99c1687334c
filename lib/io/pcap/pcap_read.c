/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_read.c - see pcap_read.h for the contract. */
#include "io/pcap/pcap_read.h"

#include <dlfcn.h>
#include <errno.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ether.h"

#define NS_PER_SECOND UINT64_C(1000000000)

/* Link headers of captures on the device "any", and of captures of raw IP, which have none. */
#define SLL_LEN       16u
#define SLL_TYPE      14u /* offset of the protocol number */
#define SLL2_LEN      20u
#define SLL2_TYPE     0u
#define CONVERTED_MAX 262144u /* libpcap's own limit of a frame */

struct uro_pcap_read {
    pcap_t *file;
    int link;
    uint8_t *converted; /* the last frame, with an Ethernet header; NULL: not needed */
};

/* ---- libpcap --------------------------------------------------------------- */

/* The functions of libpcap. libpcap is loaded when the first capture is opened, because it loads
 * further libraries, such as libdbus. Most commands of `uroce` read no capture. */
static struct {
    __typeof__(pcap_open_offline_with_tstamp_precision) *open;
    __typeof__(pcap_close) *close;
    __typeof__(pcap_datalink) *datalink;
    __typeof__(pcap_datalink_val_to_name) *datalink_name;
    __typeof__(pcap_next_ex) *next;
    __typeof__(pcap_geterr) *error;
    bool loaded;
} libpcap;

/* Writes the address of the function @name of @library to the pointer at @function. */
static bool look_up(void *library, const char *name, void *function)
{
    void *const symbol = dlsym(library, name);

    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool look_up_all(void *library)
{
    return look_up(library, "pcap_open_offline_with_tstamp_precision", &libpcap.open) &&
           look_up(library, "pcap_close", &libpcap.close) &&
           look_up(library, "pcap_datalink", &libpcap.datalink) &&
           look_up(library, "pcap_datalink_val_to_name", &libpcap.datalink_name) &&
           look_up(library, "pcap_next_ex", &libpcap.next) &&
           look_up(library, "pcap_geterr", &libpcap.error);
}

/* Loads libpcap, unless it is loaded. Returns false with a sentence in @error. */
static bool load_libpcap(const char *path, char error[static URO_PCAP_ERROR_MAX])
{
    /* File names in Debian and in other distributions. */
    static const char *const names[] = { "libpcap.so.0.8", "libpcap.so.1" };

    for (size_t i = 0; i < URO_ARRAY_LEN(names) && !libpcap.loaded; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        libpcap.loaded = library != NULL && look_up_all(library);
    }
    if (!libpcap.loaded)
        snprintf(error, URO_PCAP_ERROR_MAX,
                 "%s: captures are read by libpcap, which cannot be loaded; install the Debian "
                 "package libpcap0.8",
                 path);
    return libpcap.loaded;
}

/* ---- reading --------------------------------------------------------------- */

/* Opens the file. On failure, writes a message with the file name; most messages of libpcap do not
 * contain it. */
static pcap_t *open_file(const char *path, char error[static URO_PCAP_ERROR_MAX])
{
    char reason[PCAP_ERRBUF_SIZE];
    pcap_t *file = libpcap.open(path, PCAP_TSTAMP_PRECISION_NANO, reason);

    if (file == NULL) {
        snprintf(error, URO_PCAP_ERROR_MAX, "%s: the file cannot be read as a capture: %s", path,
                 reason);
        return NULL;
    }
    int link = libpcap.datalink(file);
    if (link == DLT_EN10MB || link == DLT_LINUX_SLL || link == DLT_LINUX_SLL2 || link == DLT_RAW)
        return file;
    const char *name = libpcap.datalink_name(link);
    snprintf(
        error, URO_PCAP_ERROR_MAX,
        "%s: the capture has link type %d (%s), and only Ethernet, Linux cooked and raw IP can "
        "be read",
        path, link, name != NULL ? name : "unknown");
    libpcap.close(file);
    return NULL;
}

struct uro_pcap_read *uro_pcap_read_open(const char *path, char error[static URO_PCAP_ERROR_MAX])
{
    pcap_t *file = load_libpcap(path, error) ? open_file(path, error) : NULL;
    if (file == NULL)
        return NULL;

    struct uro_pcap_read *reader = malloc(sizeof *reader);
    if (reader == NULL) {
        snprintf(error, URO_PCAP_ERROR_MAX, "%s: out of memory", path);
        libpcap.close(file);
        return NULL;
    }
    *reader = (struct uro_pcap_read){ .file = file, .link = libpcap.datalink(file) };
    if (reader->link != DLT_EN10MB)
        reader->converted = malloc(CONVERTED_MAX);
    if (reader->link == DLT_EN10MB || reader->converted != NULL)
        return reader;
    snprintf(error, URO_PCAP_ERROR_MAX, "%s: out of memory", path);
    uro_pcap_read_close(reader);
    return NULL;
}

/* Returns the length of the link header of the file, and the type of the header behind it. */
static uint32_t link_header(const struct uro_pcap_read *reader, const uint8_t *octets,
                            uint32_t length, uint16_t *type)
{
    const uint32_t header = reader->link == DLT_RAW         ? 0
                            : reader->link == DLT_LINUX_SLL ? SLL_LEN
                                                            : SLL2_LEN;

    *type = 0; /* 0 is no known protocol */
    if (length <= header)
        return length;
    if (reader->link == DLT_RAW)
        *type = octets[0] >> 4 == 6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4;
    else
        *type = uro_get_be16(octets + (reader->link == DLT_LINUX_SLL ? SLL_TYPE : SLL2_TYPE));
    return header;
}

/* Replaces the link header of the file by an Ethernet header without addresses. */
static void convert(struct uro_pcap_read *reader, struct uro_pcap_read_frame *frame)
{
    struct uro_ether ether = { .tagged = false };
    const uint32_t header = link_header(reader, frame->pkt.octets, frame->pkt.length, &ether.type);
    const size_t put = uro_ether_put(reader->converted, &ether);
    uint32_t rest = frame->pkt.length - header;

    if (rest > CONVERTED_MAX - URO_ETHER_LEN_MAX)
        rest = CONVERTED_MAX - URO_ETHER_LEN_MAX;
    memcpy(reader->converted + put, frame->pkt.octets + header, rest);
    frame->pkt.octets = reader->converted;
    frame->pkt.length = (uint32_t)put + rest;
    frame->length = (frame->length > header ? frame->length - header : 0) + (uint32_t)put;
}

int uro_pcap_read_next(struct uro_pcap_read *reader, struct uro_pcap_read_frame *frame)
{
    struct pcap_pkthdr *header;
    const u_char *octets;
    int result = libpcap.next(reader->file, &header, &octets);

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
    if (reader->converted != NULL)
        convert(reader, frame);
    return 1;
}

const char *uro_pcap_read_problem(struct uro_pcap_read *reader)
{
    return libpcap.error(reader->file);
}

void uro_pcap_read_close(struct uro_pcap_read *reader)
{
    if (reader == NULL)
        return;
    libpcap.close(reader->file);
    free(reader->converted);
    free(reader);
}
