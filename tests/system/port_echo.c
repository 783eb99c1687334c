/* SPDX-License-Identifier: BSD-3-Clause */
/* port_echo.c - opens the other end of a link, and returns every frame of port_kit. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "system/port_kit.h"

int main(int argc, char **argv)
{
    uint32_t sequence;
    uint32_t slept = 0;

    if (argc != 5)
        return 2;
    if (strcmp(argv[3], "plain") == 0)
        kit_become_plain(argv[1]);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* again, because kit_become_plain() removed it */

    struct uro_port *port = kit_open(argv[1], (uint32_t)strtoul(argv[2], NULL, 10));
    bool asleep = strcmp(argv[4], "asleep") == 0;
    for (;;) {
        uint32_t length = asleep ? kit_sleep_receive(port, &sequence, 1, &slept)
                                 : kit_receive(port, &sequence, 60);
        if (length == 0)
            uro_port_link_up(port);
        if (length != 0)
            kit_send(port, sequence, length);
    }
}
