/* SPDX-License-Identifier: BSD-3-Clause */
/* top_missing.c - `uroce top` of a build without ncurses. */
#include <stdio.h>

#include "app.h"

int uro_app_top(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    (void)fprintf(stderr, "uroce top: this uroce was built without ncurses; install libncurses-dev "
                          "and build uroce again, or use `uroce stat --watch`\n");
    return 1;
}
