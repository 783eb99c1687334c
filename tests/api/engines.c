/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/engines.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/own_runtime.h"

char engines_broken_address[API_ADDRESS];

bool engines_has_broker(const char *address)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool connected = false;
    char pattern[128];
    glob_t found;

    assert_true(fd >= 0);
    (void)snprintf(pattern, sizeof pattern, "%s/uroce/hub-*-%s", own_runtime, address);
    if (glob(pattern, 0, NULL, &found) == 0) {
        (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", found.gl_pathv[0]);
        connected = connect(fd, (const struct sockaddr *)&name, sizeof name) == 0;
        globfree(&found);
    }
    (void)close(fd);
    return connected;
}

void engines_close_side(struct side *side)
{
    assert_int_equal(ibv_destroy_qp(side->qp), 0);
    assert_int_equal(ibv_dereg_mr(side->mr), 0);
}

struct ibv_cq *engines_cq_of(const struct api *api, int vector)
{
    struct ibv_cq *cq = ibv_create_cq(api->context, 64, NULL, NULL, vector);

    assert_non_null(cq);
    return cq;
}

void engines_destroy_cq(struct ibv_cq *cq)
{
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

void engines_send_once(struct side *from, struct ibv_cq *send_cq, struct side *to, uint8_t octet)
{
    struct ibv_sge source = api_sge(from, 0, 3000), target = api_sge(to, 4096, 3000);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);

    memset(from->buffer, octet, 3000);
    assert_int_equal(api_post_recv(to, 2, &target), 0);
    assert_int_equal(api_post_send(from, &wr), 0);
    api_expect(to->cq, 2, IBV_WC_SUCCESS);
    api_expect(send_cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(to->buffer[4096], octet);
    assert_int_equal(to->buffer[4096 + 2999], octet);
}

uint32_t engines_prefix_of(const struct ibv_qp *qp)
{
    return qp->qp_num >> 18; /* URO_QPN_OWN_BITS */
}

void engines_move(struct side *from, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
                  enum ibv_wc_status status)
{
    struct ibv_sge source = api_sge(from, 0, 10);
    struct ibv_send_wr wr = api_send(opcode, &source);

    wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
    wr.wr.rdma.rkey = mr->rkey;
    assert_int_equal(api_post_send(from, &wr), 0);
    api_expect(from->cq, 1, status);
}

void engines_write_to(struct side *from, const struct ibv_mr *mr)
{
    engines_move(from, IBV_WR_RDMA_WRITE, mr, IBV_WC_SUCCESS);
}
int engines_run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    char address[API_ADDRESS], alone[API_ADDRESS], two[API_ADDRESS], half[API_ADDRESS], text[512];
    char link[64];

    if (own_runtime_make(NULL) != 0)
        return 1;
    (void)api_own_address(0, address);
    (void)api_own_address(1, alone);
    (void)api_own_address(2, two);
    (void)snprintf(half, sizeof half, "127.250%s", strchr(alone + 4, '.'));
    (void)snprintf(engines_broken_address, sizeof engines_broken_address, "127.251%s",
                   strchr(alone + 4, '.'));
    (void)snprintf(text, sizeof text, "'%s' hub --address %s --idle 2 --background", API_UROCE,
                   address);
    if (system(text) != 0)
        return 1;
    if (getenv("ENGINES_LINK") != NULL)
        (void)snprintf(link, sizeof link, "%s;ip=10.1.0.1/24", getenv("ENGINES_LINK"));
    else
        (void)snprintf(link, sizeof link, "udp,ip=%s", address);
    (void)snprintf(
        text, sizeof text,
        "uroce0:%s;engines=%u auto:udp,ip=%s;engines=auto two:udp,ip=%s;engines=2 "
        "half:udp;ip=%s,%s;engines=auto later:udp,ip=%s;engines=3 broken:udp,ip=%s;engines=3",
        link, ENGINES, alone, two, address, half, address, engines_broken_address);
    (void)setenv("UROCE_DEVICES", text, 1);
    const int result = api_run(name, tests, count);
    (void)own_runtime_remove(NULL);
    return result;
}
