/* SPDX-License-Identifier: BSD-3-Clause */
/* output.h - reports output that cannot be written, for all subcommands. */
#pragma once

#include <stdbool.h>

#define URO_OUTPUT_STATUS 2 /* exit status if the output cannot be written */

/* Writes buffered output to stdout. Keeps the first error for uro_output_end(). Returns false if
 * some output could not be written. */
bool uro_output_flush(void);

/* Closes stdout before the program ends. If some output could not be written, prints the reason and
 * returns URO_OUTPUT_STATUS. Otherwise returns @status. A closed pipe is not an error: its reader
 * wants no more output. */
int uro_output_end(int status);
