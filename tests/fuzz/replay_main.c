/* SPDX-License-Identifier: BSD-3-Clause */
/* replay_main.c - runs a fuzz target once with each file of a directory, in any build.
 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Runs one file from memory of exactly its size, so that a sanitizer detects reads beyond its
 * end. */
static int run(const char *folder, const char *name)
{
    static uint8_t octets[INPUT_MAX];
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return -1;
    size_t size = fread(octets, 1, sizeof octets, file);
    (void)fclose(file);
    uint8_t *exact = malloc(size > 0 ? size : 1);
    if (exact == NULL)
        return -1;
    for (size_t i = 0; i < size; i++)
        exact[i] = octets[i];
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

int main(int argc, char **argv)
{
    struct dirent **inputs;
    int failed = 0;
    int count = argc == 2 ? scandir(argv[1], &inputs, is_input, alphasort) : -1;

    if (count <= 0) {
        (void)fprintf(stderr, "usage: %s DIRECTORY-WITH-INPUTS\n", argv[0]);
        return 2;
    }
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        int problem = run(argv[1], inputs[i]->d_name);
        printf("%s %d - %s\n", problem == 0 ? "ok" : "not ok", i + 1, inputs[i]->d_name);
        (void)fflush(stdout); /* the next call may crash */
        failed += problem != 0;
        free(inputs[i]);
    }
    free(inputs);
    return failed != 0;
}
