/* SPDX-License-Identifier: BSD-3-Clause */
/* afl_main.c - runs a fuzz target under AFL++, many inputs in one process; built by afl-clang-fast.
 */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define INPUTS_OF_A_PROCESS 1000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

__AFL_FUZZ_INIT();

int main(void)
{
    __AFL_INIT();
    const uint8_t *data = __AFL_FUZZ_TESTCASE_BUF;
    while (__AFL_LOOP(INPUTS_OF_A_PROCESS)) {
        size_t size = (size_t)__AFL_FUZZ_TESTCASE_LEN;
        (void)LLVMFuzzerTestOneInput(data, size);
    }
    return 0;
}
