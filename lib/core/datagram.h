/* SPDX-License-Identifier: BSD-3-Clause */
/* datagram.h - UD: one packet a message, to and from anybody. */
#pragma once

#include "core/pair.h"

/* The top bit of a work request's Q_Key: the queue pair's own is meant (IBTA Vol. 1, "Q_Key"). */
#define URO_QKEY_PRIVILEGED 0x80000000u

/* Describes the next datagram; false when there is none now. */
bool uro_datagram_next(struct uro_qp *qp, struct uro_tx *tx);

/* A datagram that passed the checks of receive.c. */
void uro_datagram_receive(struct uro_qp *qp, const struct uro_frame *frame);
