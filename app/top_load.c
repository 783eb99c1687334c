/* SPDX-License-Identifier: BSD-3-Clause */
/* top_load.c - `uroce top`: loads the library that draws the screen with ncurses. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "library.h"
#include "top.h"

int uro_app_top(int argc, char **argv)
{
    struct uro_library library = { .name = URO_TOP_LIBRARY, .in_build = "." };
    char error[URO_LIBRARY_ERROR_MAX];
    __typeof__(uroce_top) *top = NULL;

    if (!uro_library_find(&library, error)) {
        (void)fprintf(stderr,
                      "uroce top: %s (a build needs libncurses-dev for it), or use "
                      "`uroce stat --watch`\n",
                      error);
        return 1;
    }
    void *const loaded = dlopen(library.path, RTLD_NOW | RTLD_LOCAL);
    void *const symbol = loaded != NULL ? dlsym(loaded, URO_TOP_SYMBOL) : NULL;
    if (symbol == NULL) {
        (void)fprintf(stderr,
                      "uroce top: %s; install the Debian package libncursesw6, or use "
                      "`uroce stat --watch`\n",
                      dlerror());
        return 1;
    }
    memcpy(&top, &symbol, sizeof top);
    return top(argc, argv);
}
