/* SPDX-License-Identifier: BSD-3-Clause */
/* top.h - the function of liburoce-top.so. */
#pragma once

#define URO_TOP_LIBRARY "liburoce-top.so"
#define URO_TOP_SYMBOL  "uroce_top"

/* Runs `uroce top`. Returns the exit status. */
int uroce_top(int argc, char **argv);
