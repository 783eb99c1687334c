/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - the parts of `uroce run`. */
#pragma once

/* When the environment names no device: one over UDP, at the address this machine sends from; a line says so. */
void uro_run_default_device(void);

/* Starts the brokers of the addresses that devices over UDP have. */
void uro_run_brokers(void);
