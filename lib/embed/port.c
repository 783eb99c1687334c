/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - registers the program's drivers (uroce/port.h) with the host, and opens their ports. */
#include <uroce/port.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/plugin.h"
#include "embed/embed.h"

#define NAME_MAX_LENGTH 15u
#define DRIVERS         (URO_PLUGIN_ADDED_MAX - 1u)

static_assert(UROCE_PORT_BURST == URO_PORT_BURST, "the bursts have the same size");

struct driver {
    char name[NAME_MAX_LENGTH + 1];
    struct uro_port_driver of_host;
    struct uroce_port_ops ops;
    struct uro_port_ops port_ops; /* NULL where `ops` is NULL: engine/port.h has the defaults */
    void *user;
};

struct port {
    struct uro_port port;
    const struct driver *driver;
    void *handle; /* handle of the driver */
    struct uroce_packet lent[URO_PORT_BURST];
    uint32_t frame_max;
    uint8_t *frames; /* memory for URO_PORT_BURST frames to send */
};

static struct driver drivers[DRIVERS];
static unsigned driver_count; /* protected by `adding` */
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

static struct port *port_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct port, port);
}

/* ---- the port ----------------------------------------------------------- */

static void close_port(struct uro_port *uro)
{
    struct port *port = port_of(uro);

    port->driver->ops.close(port->handle);
    free(port->frames);
    free(port);
}

static uint32_t receive(struct uro_port *uro, struct uro_pkt *pkts, uint32_t max)
{
    struct port *port = port_of(uro);
    const uint32_t most = max < URO_PORT_BURST ? max : URO_PORT_BURST;
    const uint32_t count = port->driver->ops.receive(port->handle, port->lent, most);

    URO_ASSERT(count <= most);
    for (uint32_t i = 0; i < count; i++)
        pkts[i] = (struct uro_pkt){ .octets = port->lent[i].bytes, .length = port->lent[i].length };
    return count;
}

static void release(struct uro_port *uro, struct uro_pkt *pkts, uint32_t count)
{
    struct port *port = port_of(uro);

    (void)pkts;
    port->driver->ops.release(port->handle, port->lent, count);
}

static uint32_t tx_free_count(struct uro_port *uro)
{
    const struct port *port = port_of(uro);
    const uint32_t count = port->driver->ops.tx_free_count(port->handle);

    return count < URO_PORT_BURST ? count : URO_PORT_BURST;
}

static void transmit(struct uro_port *uro, const struct uro_tx *tx, uint32_t count)
{
    struct port *port = port_of(uro);
    struct uroce_packet packets[URO_PORT_BURST];

    for (uint32_t i = 0; i < count; i++) {
        uint8_t *frame = port->frames + (size_t)i * port->frame_max;
        packets[i] = (struct uroce_packet){ .bytes = frame, .length = uro_tx_length(&tx[i]) };
        URO_ASSERT(packets[i].length <= port->frame_max);
        uro_tx_write(&tx[i], frame);
    }
    port->driver->ops.transmit(port->handle, packets, count);
}

static uint32_t wait_fds(struct uro_port *uro, int fds[static URO_PORT_FDS_MAX])
{
    const struct port *port = port_of(uro);

    fds[0] = port->driver->ops.wait_fd(port->handle);
    return fds[0] >= 0 ? 1 : 0;
}

static bool link_up(struct uro_port *uro)
{
    const struct port *port = port_of(uro);

    return port->driver->ops.link_up(port->handle) != 0;
}

static struct uro_port_ops port_ops_of(const struct uroce_port_ops *ops)
{
    return (struct uro_port_ops){
        .datapath = { .receive = receive,
                      .release = ops->release != NULL ? release : NULL,
                      .tx_free_count = ops->tx_free_count != NULL ? tx_free_count : NULL,
                      .transmit = transmit },
        .sleep = { .wait_fds = ops->wait_fd != NULL ? wait_fds : NULL },
        .control = { .close = close_port, .link_up = ops->link_up != NULL ? link_up : NULL },
    };
}

/* ---- opening ------------------------------------------------------------ */

static const struct driver *find(const char *link)
{
    const size_t length = strcspn(link, ",");
    const struct driver *found = NULL;

    (void)pthread_mutex_lock(&adding);
    for (unsigned i = 0; i < driver_count; i++)
        if (strlen(drivers[i].name) == length && memcmp(drivers[i].name, link, length) == 0)
            found = &drivers[i];
    (void)pthread_mutex_unlock(&adding);
    return found;
}

static bool open_driver(struct port *port, const struct uro_port_config *config,
                        char error[static URO_PORT_ERROR_MAX])
{
    struct uroce_port_config wanted = {
        .size = sizeof wanted, .device = config->device, .link = config->link, .mtu = config->mtu
    };

    memcpy(wanted.mac, config->mac.octets, sizeof wanted.mac);
    const int result = port->driver->ops.open(port->driver->user, &wanted, &port->handle, error,
                                              URO_PORT_ERROR_MAX);
    error[URO_PORT_ERROR_MAX - 1] = '\0';
    if (result != 0 && error[0] == '\0')
        (void)snprintf(error, URO_PORT_ERROR_MAX, "link %s: %s", port->driver->name,
                       strerror(-result));
    return result == 0;
}

static struct uro_port *open_port(const struct uro_port_config *config,
                                  char error[static URO_PORT_ERROR_MAX])
{
    struct port *port = uro_embed_memory(sizeof *port);

    error[0] = '\0';
    if (port != NULL) {
        port->frame_max = config->mtu + UROCE_FRAME_OVERHEAD;
        port->frames = uro_embed_memory((size_t)URO_PORT_BURST * port->frame_max);
    }
    if (port == NULL || port->frames == NULL) {
        (void)snprintf(error, URO_PORT_ERROR_MAX, "out of memory");
        free(port);
        return NULL;
    }
    port->driver = find(config->link);
    if (port->driver != NULL && open_driver(port, config, error)) {
        port->port = (struct uro_port){ .ops = &port->driver->port_ops,
                                        .mac = config->mac,
                                        .mtu = config->mtu };
        return &port->port;
    }
    free(port->frames);
    free(port);
    return NULL;
}

/* ---- adding ------------------------------------------------------------- */

static bool is_name(const char *name)
{
    const size_t length = strlen(name);

    return length > 0 && length <= NAME_MAX_LENGTH &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* Registers the driver. `adding` is held. */
static int add(const char *name, const struct uroce_port_ops *with, void *user)
{
    struct driver *driver = &drivers[driver_count];

    char text[URO_PORT_ERROR_MAX];

    if (driver_count == DRIVERS)
        return -ENOSPC;
    if (uro_plugin_find(name, text) != NULL)
        return -EEXIST;
    *driver = (struct driver){ .of_host = { .prefix = driver->name,
                                            .text = "a driver of the program",
                                            .interface = "iface",
                                            .flags = URO_DRIVER_OTHER_OPTIONS,
                                            .default_mtu = URO_PORT_MTU_DEFAULT,
                                            .open = open_port },
                               .ops = *with,
                               .port_ops = port_ops_of(with),
                               .user = user };
    memcpy(driver->name, name, strlen(name) + 1);
    const int error = uro_plugin_add(&driver->of_host);
    driver_count += error == 0;
    return error;
}

int uroce_port_add(const char *name, const struct uroce_port_ops *from, void *user)
{
    struct uroce_port_ops taken;

    if (name == NULL || from == NULL || !is_name(name))
        return -EINVAL;
    int error = uro_embed_take(&taken, sizeof taken, from, sizeof taken);
    if (error != 0)
        return error;
    if (taken.open == NULL || taken.close == NULL || taken.receive == NULL ||
        taken.transmit == NULL)
        return -EINVAL;
    (void)pthread_mutex_lock(&adding);
    error = add(name, &taken, user);
    (void)pthread_mutex_unlock(&adding);
    return error;
}
