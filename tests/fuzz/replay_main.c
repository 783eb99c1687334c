/* SPDX-License-Identifier: BSD-3-Clause */
/* replay_main.c - runs a fuzz target over the files it is given, for compilers without libFuzzer.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define INPUT_MAX 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t octets[INPUT_MAX];

    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (file == NULL) {
            printf("not ok %d - %s cannot be read\n", i, argv[i]);
            return 1;
        }
        size_t size = fread(octets, 1, sizeof octets, file);
        (void)fclose(file);
        (void)LLVMFuzzerTestOneInput(octets, size);
        printf("ok %d - %s\n", i, argv[i]);
    }
    return 0;
}
