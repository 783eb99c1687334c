/* SPDX-License-Identifier: BSD-3-Clause */
/* dpdk_memif.c - opens the other end of a memif with DPDK's own driver, and returns every frame.
 *
 *   dpdk_memif DEVARGS server|client      such as net_memif0,role=server,socket=/name
 *
 * It ends when its parent process ends.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define BURST 32u
#define SLOTS 1024u

static void end(const char *what)
{
    printf("Bail out! %s\n", what);
    exit(1);
}

static void start(struct rte_mempool *pool)
{
    const struct rte_eth_conf conf = { 0 };

    if (rte_eth_dev_configure(0, 1, 1, &conf) != 0 ||
        rte_eth_rx_queue_setup(0, 0, SLOTS, 0, NULL, pool) != 0 ||
        rte_eth_tx_queue_setup(0, 0, SLOTS, 0, NULL) != 0)
        end("the port cannot be set up");
    /* The start of a client fails until its server runs. */
    (void)rte_eth_dev_start(0);
}

/* Restarts a client that is not connected: DPDK connects a client only once, when it starts. */
static void look_after(bool client)
{
    struct rte_eth_link link;

    if (!client || (rte_eth_link_get_nowait(0, &link) == 0 && link.link_status == RTE_ETH_LINK_UP))
        return;
    (void)rte_eth_dev_stop(0);
    (void)rte_eth_dev_start(0);
    rte_delay_us_sleep(20000);
}

int main(int argc, char **argv)
{
    char words[][256] = { "dpdk_memif", "--no-huge",           "--no-shconf",
                          "--no-pci",   "--no-telemetry",      "--iova-mode=va",
                          "-m64",       "--log-level=*:error", "--vdev=" };
    char *eal[RTE_DIM(words)];

    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0; i < RTE_DIM(words); i++)
        eal[i] = words[i];
    snprintf(words[RTE_DIM(words) - 1], sizeof words[0], "--vdev=%s", argv[1]);
    if (rte_eal_init((int)RTE_DIM(eal), eal) < 0)
        end("DPDK does not start");
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create("frames", 8 * SLOTS - 1, 32, 0, 2048 + 128, 0);
    if (pool == NULL)
        end("no memory for frames");
    start(pool);

    for (unsigned idle = 0;; idle++) {
        struct rte_mbuf *frames[BURST];
        uint16_t count = rte_eth_rx_burst(0, 0, frames, BURST), sent = 0;

        while (sent < count)
            sent =
                (uint16_t)(sent + rte_eth_tx_burst(0, 0, frames + sent, (uint16_t)(count - sent)));
        if (count == 0 && idle % 4096 == 0)
            look_after(argv[2][0] == 'c');
    }
}
