/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_write_tx.c - captures frames that are sent. This is the only part of the writer that needs
 * lib/core. */
#include "io/pcap/pcap_write.h"

int uro_pcap_write_tx(struct uro_pcap_write *writer, const struct uro_tx *tx, uro_time now)
{
    int result;

    URO_ASSERT(uro_tx_length(tx) <= URO_PCAP_FRAME_MAX);
    uro_tx_write(tx, uro_pcap_write_room(writer, uro_tx_length(tx), now, &result));
    return result;
}
