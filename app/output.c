/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c - see output.h. */
#include "output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int first_error; /* errno of the first failed write; 0: none is known */

bool uro_output_flush(void)
{
    if (fflush(stdout) != 0 && first_error == 0)
        first_error = errno;
    return ferror(stdout) == 0;
}

/* Finds the reason why stdio could not write: stdio keeps only a flag. Writes one more byte, which
 * does no harm to output that is incomplete already. */
static void find_reason(void)
{
    clearerr(stdout);
    (void)putchar('\n');
    (void)uro_output_flush();
}

int uro_output_end(int status)
{
    bool good = uro_output_flush();

    if (!good && first_error == 0)
        find_reason();
    /* The caller may have started this program without stdout. This is an error only if the program
     * has printed something, and then the flush has failed. */
    if (fclose(stdout) != 0 && errno != EBADF && good) {
        first_error = errno;
        good = false;
    }
    if (good || first_error == EPIPE)
        return status;
    (void)fprintf(stderr, "uroce: cannot write the output%s%s\n", first_error != 0 ? ": " : "",
                  first_error != 0 ? strerror(first_error) : "");
    return URO_OUTPUT_STATUS;
}
