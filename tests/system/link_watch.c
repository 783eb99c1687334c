/* SPDX-License-Identifier: BSD-3-Clause */
/* link_watch.c - prints the state of port 1 of the first device, and each event of the device. A CQ
 * makes uroce start the device. After DEVICE_FATAL, the program frees its objects and ends with
 * status 0.
 *
 *     uroce run --device DEVICE -- link_watch
 */
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

static struct ibv_context *context;
static struct ibv_cq *cq;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

static void print_state(const char *why)
{
    struct ibv_port_attr port;

    must(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
    printf("%s: %s\n", why, ibv_port_state_str(port.state));
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_async_event event;

    setvbuf(stdout, NULL, _IOLBF, 0);
    must(list != NULL && list[0] != NULL, "no device");
    context = ibv_open_device(list[0]);
    must(context != NULL, "ibv_open_device");
    cq = ibv_create_cq(context, 1, NULL, NULL, 0);
    must(cq != NULL, "ibv_create_cq");
    print_state("started");
    do {
        must(ibv_get_async_event(context, &event) == 0, "ibv_get_async_event");
        print_state(ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
    } while (event.event_type != IBV_EVENT_DEVICE_FATAL);
    must(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
    must(ibv_close_device(context) == 0, "ibv_close_device");
    ibv_free_device_list(list);
    printf("closed\n");
    return 0;
}
