/* SPDX-License-Identifier: BSD-3-Clause */
/* capture.c - keeps the pcap file of a device. A frame that is sent is written to the file from the
 * same description as to the port; memory that changes in between may differ between the two. */
#include "host/capture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/fork.h"
#include "io/pcap/pcap_write.h"

int uro_capture_open(struct uro_device *device)
{
    const char *path = device->config.pcap;

    if (path[0] == '\0')
        return 0;
    char own[sizeof device->config.pcap + 16];
    /* A forked child must not empty the file that its parent writes. */
    if (uro_fork_generation() > 1)
        (void)snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    else
        (void)snprintf(own, sizeof own, "%s", path);
    int error =
        uro_pcap_write_open(own, uro_host_wall_clock() - uro_device_now(), &device->capture);
    if (error != 0)
        (void)snprintf(device->problem, sizeof device->problem, "pcap=%.120s: %s", path,
                       strerror(-error));
    return error;
}

/* The capture goes on without the frames it had no room for; that is said once. */
static void complain(const struct uro_device *device, int error)
{
    if (error != 0)
        fprintf(stderr, "uroce: %s: pcap=%s: %s; frames are missing from here on\n",
                device->config.name, device->config.pcap, strerror(-error));
}

void uro_capture_received(struct uro_device *device, const struct uro_pkt *pkts, uint32_t count,
                          uro_time now)
{
    for (uint32_t i = 0; i < count; i++)
        complain(device, uro_pcap_write_pkt(device->capture, &pkts[i], now));
}

void uro_capture_sent(struct uro_device *device, const struct uro_tx *tx, uint32_t count,
                      uro_time now)
{
    for (uint32_t i = 0; i < count; i++)
        complain(device, uro_pcap_write_tx(device->capture, &tx[i], now));
}

void uro_capture_flush(struct uro_device *device)
{
    if (device->capture != NULL)
        complain(device, uro_pcap_write_flush(device->capture));
}

void uro_capture_forked(struct uro_device *device)
{
    uro_pcap_write_abandon(device->capture);
    device->capture = NULL;
}

void uro_capture_close(struct uro_device *device)
{
    if (device->capture == NULL)
        return;
    uint64_t lost = uro_pcap_write_lost(device->capture);
    if (lost != 0)
        fprintf(stderr, "uroce: %s: pcap=%s: %llu frames are missing\n", device->config.name,
                device->config.pcap, (unsigned long long)lost);
    uro_pcap_write_close(device->capture);
    device->capture = NULL;
}
