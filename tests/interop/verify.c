/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.c - the main program of verify.
 *
 * usage: verify [options]        waits for the other end
 *        verify [options] HOST   connects to the other end at HOST
 *
 *   -p PORT    TCP port at which the ends connect (default 18515)
 *   -d DEVICE  name of the device (default: the first device)
 *   -x INDEX   GID index (default 1)
 * Options only for the end with a HOST:
 *   -m MTU     IB path MTU (default 1024)
 *   -r N       rounds (default 1)
 *   -s SEED    seed of the content (default 1)
 *   -o NAME    only this operation
 *   -l OCTETS  largest message
 *   -z         also READs of 0 bytes
 * Option for both ends:
 *   -t N       ACK timeout of 4.096 us * 2^N (default 14, 67 ms)
 *
 * If everything was right, the program prints a last line "verified" and ends with status 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "meet.h"
#include "verify.h"

static void parse(int argc, char **argv, struct verify_options *options)
{
    int opt;

    while ((opt = getopt(argc, argv, MEET_OPTIONS "r:s:o:l:zt:")) != -1) {
        if (meet_option(&options->meet, opt, optarg))
            continue;
        switch (opt) {
        case 'r':
            options->rounds = meet_number(optarg, 1000000);
            break;
        case 's':
            options->seed = meet_number(optarg, UINT32_MAX);
            break;
        case 'o':
            options->only = optarg;
            break;
        case 'l':
            options->largest = meet_number(optarg, UINT32_MAX);
            break;
        case 't':
            options->timeout = (uint8_t)meet_number(optarg, 31);
            break;
        case 'z':
            options->zero_read = true;
            break;
        default:
            meet_die("usage: verify [-p port] [-d device] [-x gid] [-m mtu] [-r rounds] "
                     "[-s seed] [-o operation] [-l octets] [-z] [-t timeout] [host]");
        }
    }
    if (optind < argc)
        options->meet.host = argv[optind];
}

int main(int argc, char **argv)
{
    struct verify_options options = {
        .meet = MEET_DEFAULTS, .rounds = 1, .seed = 1, .largest = UINT32_MAX, .timeout = 14
    };
    struct verify_end end = { .peer = -1 };

    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(argc, argv, &options);
    verify_end_open(&end, &options);
    for (uint32_t round = 0; round < options.rounds; round++)
        verify_steps_run(&end, &options, round);
    verify_end_close(&end);
    printf("verified\n");
    return 0;
}
