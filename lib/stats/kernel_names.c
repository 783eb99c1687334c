/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_names.c - the table of kernel_names.h.
 *
 * A counter of the kernel for which uroce has no event, such as symbol_error, is always 0. The file
 * of the counter exists, because monitors expect all files of counters/.
 */
#include "stats/kernel_names.h"

#define COUNTER(id) URO_COUNT_##id

/* A counter of the kernel is the sum of one to three counters of uroce. */
#define SUM1(name, a)                                                                              \
    {                                                                                              \
        name, 1, 1,                                                                                \
        {                                                                                          \
            COUNTER(a)                                                                             \
        }                                                                                          \
    }
#define SUM2(name, a, b)                                                                           \
    {                                                                                              \
        name, 1, 2,                                                                                \
        {                                                                                          \
            COUNTER(a), COUNTER(b)                                                                 \
        }                                                                                          \
    }
#define SUM3(name, a, b, c)                                                                        \
    {                                                                                              \
        name, 1, 3,                                                                                \
        {                                                                                          \
            COUNTER(a), COUNTER(b), COUNTER(c)                                                     \
        }                                                                                          \
    }
#define WORDS(name, a)                                                                             \
    {                                                                                              \
        name, 4, 1,                                                                                \
        {                                                                                          \
            COUNTER(a)                                                                             \
        }                                                                                          \
    } /* in units of 4 bytes */
#define ZERO(name)                                                                                 \
    {                                                                                              \
        name, 0, 0,                                                                                \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

const struct uro_kernel_counter uro_kernel_counters[] = {
    WORDS("counters/port_xmit_data", TX_BYTES),
    WORDS("counters/port_rcv_data", RX_BYTES),
    SUM1("counters/port_xmit_packets", TX_ROCE),
    SUM1("counters/port_rcv_packets", RX_ROCE),
    SUM3("counters/port_rcv_errors", DROP_ICRC, DROP_LENGTH, DROP_OPCODE),
    SUM2("counters/port_xmit_discards", TX_NO_NEIGHBOR, TX_STUCK),
    SUM1("counters/port_rcv_constraint_errors", DROP_PKEY),
    SUM1("counters/link_downed", LINK_DOWNED),
    ZERO("counters/VL15_dropped"),
    ZERO("counters/excessive_buffer_overrun_errors"),
    ZERO("counters/link_error_recovery"),
    ZERO("counters/local_link_integrity_errors"),
    ZERO("counters/port_rcv_remote_physical_errors"),
    ZERO("counters/port_rcv_switch_relay_errors"),
    ZERO("counters/port_xmit_constraint_errors"),
    ZERO("counters/port_xmit_wait"),
    ZERO("counters/symbol_error"),

    SUM1("hw_counters/sent_pkts", TX_ROCE),
    SUM1("hw_counters/rcvd_pkts", RX_ROCE),
    SUM1("hw_counters/duplicate_request", RX_DUPLICATE),
    SUM1("hw_counters/out_of_seq_request", RX_OUT_OF_SEQ),
    SUM1("hw_counters/rcvd_rnr_err", RNR_RECEIVED),
    SUM1("hw_counters/send_rnr_err", RNR_SENT),
    SUM1("hw_counters/rcvd_seq_err", SEQ_NAK_RECEIVED),
    SUM1("hw_counters/retry_exceeded_err", RETRY_EXCEEDED),
    SUM1("hw_counters/retry_rnr_exceeded_err", RNR_EXCEEDED),
    SUM1("hw_counters/completer_retry_err", RETRY_ROUNDS),
    SUM2("hw_counters/send_err", TX_NO_NEIGHBOR, TX_STUCK),
    SUM1("hw_counters/link_downed", LINK_DOWNED),

    SUM1("hw_counters/rx_write_requests", RX_WRITES),
    SUM1("hw_counters/rx_read_requests", RX_READS),
    SUM1("hw_counters/rx_atomic_requests", RX_ATOMICS),
    SUM1("hw_counters/out_of_buffer", RNR_SENT),
    SUM1("hw_counters/out_of_sequence", RX_OUT_OF_SEQ),
    SUM1("hw_counters/packet_seq_err", SEQ_NAK_RECEIVED),
    SUM1("hw_counters/local_ack_timeout_err", TIMEOUTS),
    SUM1("hw_counters/rnr_nak_retry_err", RNR_RECEIVED),
    SUM1("hw_counters/req_transport_retries_exceeded", RETRY_EXCEEDED),
    SUM1("hw_counters/req_rnr_retries_exceeded", RNR_EXCEEDED),
    SUM1("hw_counters/resp_remote_access_errors", ACCESS_REFUSED),
    SUM1("hw_counters/rx_icrc_encapsulated", DROP_ICRC),
    SUM1("hw_counters/np_ecn_marked_roce_packets", RX_MARKED),
    SUM1("hw_counters/np_cnp_sent", CNP_SENT),
    SUM1("hw_counters/rp_cnp_handled", CNP_RECEIVED),
};

const uint32_t uro_kernel_counter_count = URO_ARRAY_LEN(uro_kernel_counters);

uint64_t uro_kernel_counter_value(const struct uro_kernel_counter *counter,
                                  const struct uro_counters *counters)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < counter->source_count; i++)
        sum += counters->value[counter->sources[i]];
    return counter->divisor > 1 ? sum / counter->divisor : sum;
}
