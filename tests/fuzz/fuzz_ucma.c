/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_ucma.c - runs any commands that a program can write to the rdma_cm device. There are two
 * connected devices, and time passes. At the end all identifiers are destroyed, and no object may
 * remain.
 *
 * The input is a sequence of steps. A step has a byte for its kind, then its arguments. A command
 * gets valid values, and then some bytes are changed. The pointers of the command point to memory
 * of exactly the size in the command, so that a sanitizer detects accesses past its end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "fuzz_host.h"
#include "ucma/cm_event.h"
#include "ucma/command.h"
#include "ucma/newer.h"
#include "wire/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEPS      160u
#define CHANNELS   3u
#define BODY_MAX   600u
#define COMMANDS   27u /* two more than the number of commands */
#define OPTION_MAX 512u
#define PORT       4711u
#define NUMBERS    24u /* a new identifier gets the lowest free number */
#define TIMEOUT    1000u
#define REMOVED    0x80u /* a device is removed; otherwise the link goes down or up */

enum step { COMMAND, COMMAND_TOO, TIME, SETTLE, CHANNEL, LOSE, LINK, RAW, STEP_COUNT };

static const uint8_t *at, *end;
static struct uro_channel *channels[CHANNELS];

static uint8_t next(void)
{
    return at < end ? *at++ : 0;
}

/* ---- layout of commands -------------------------------------------------- */

#define NONE         UINT16_MAX
#define OF(of, what) offsetof(struct rdma_ucm_##of, what)

/* The positions of values in commands that a fuzzer cannot guess. */
static const struct shape {
    uint16_t size;
    uint16_t id;
    uint16_t response;
    uint16_t address;      /* struct sockaddr_storage or _in6 */
    uint16_t address_size; /* 16 bits */
    uint16_t param;        /* struct rdma_ucm_conn_param */
} shapes[] = {
#define SHAPE(command, of, ...)                                                                    \
    [RDMA_USER_CM_CMD_##command] = { sizeof(struct rdma_ucm_##of), __VA_ARGS__ }
    SHAPE(CREATE_ID, create_id, NONE, OF(create_id, response), NONE, NONE, NONE),
    SHAPE(DESTROY_ID, destroy_id, OF(destroy_id, id), OF(destroy_id, response), NONE, NONE, NONE),
    SHAPE(BIND_IP, bind_ip, OF(bind_ip, id), NONE, OF(bind_ip, addr), NONE, NONE),
    SHAPE(RESOLVE_IP, resolve_ip, OF(resolve_ip, id), NONE, OF(resolve_ip, dst_addr), NONE, NONE),
    SHAPE(RESOLVE_ROUTE, resolve_route, OF(resolve_route, id), NONE, NONE, NONE, NONE),
    SHAPE(QUERY_ROUTE, query, OF(query, id), OF(query, response), NONE, NONE, NONE),
    SHAPE(CONNECT, connect, OF(connect, id), NONE, NONE, NONE, OF(connect, conn_param)),
    SHAPE(LISTEN, listen, OF(listen, id), NONE, NONE, NONE, NONE),
    SHAPE(ACCEPT, accept, OF(accept, id), NONE, NONE, NONE, OF(accept, conn_param)),
    SHAPE(REJECT, reject, OF(reject, id), NONE, NONE, NONE, NONE),
    SHAPE(DISCONNECT, disconnect, OF(disconnect, id), NONE, NONE, NONE, NONE),
    SHAPE(INIT_QP_ATTR, init_qp_attr, OF(init_qp_attr, id), OF(init_qp_attr, response), NONE, NONE,
          NONE),
    SHAPE(GET_EVENT, get_event, NONE, OF(get_event, response), NONE, NONE, NONE),
    SHAPE(SET_OPTION, set_option, OF(set_option, id), NONE, NONE, NONE, NONE),
    SHAPE(NOTIFY, notify, OF(notify, id), NONE, NONE, NONE, NONE),
    SHAPE(JOIN_IP_MCAST, join_ip_mcast, OF(join_ip_mcast, id), OF(join_ip_mcast, response),
          OF(join_ip_mcast, addr), NONE, NONE),
    SHAPE(LEAVE_MCAST, destroy_id, OF(destroy_id, id), OF(destroy_id, response), NONE, NONE, NONE),
    SHAPE(MIGRATE_ID, migrate_id, OF(migrate_id, id), OF(migrate_id, response), NONE, NONE, NONE),
    SHAPE(QUERY, query, OF(query, id), OF(query, response), NONE, NONE, NONE),
    SHAPE(BIND, bind, OF(bind, id), NONE, OF(bind, addr), OF(bind, addr_size), NONE),
    SHAPE(RESOLVE_ADDR, resolve_addr, OF(resolve_addr, id), NONE, OF(resolve_addr, dst_addr),
          OF(resolve_addr, dst_size), NONE),
    SHAPE(JOIN_MCAST, join_mcast, OF(join_mcast, id), OF(join_mcast, response),
          OF(join_mcast, addr), OF(join_mcast, addr_size), NONE),
#undef SHAPE
    [URO_NEWER_RESOLVE_IB_SERVICE] = { sizeof(struct uro_newer_resolve_ib_service), 0, NONE, NONE,
                                       NONE, NONE },
    [URO_NEWER_WRITE_CM_EVENT] = { sizeof(struct uro_newer_write_cm_event), 0, NONE, NONE, NONE,
                                   NONE },
};

struct command {
    uint32_t number;
    const struct shape *shape; /* NULL: unknown command */
    uint8_t body[BODY_MAX];
    uint16_t in, out;
    uint8_t *answer; /* `out` bytes */
    uint8_t *option;
};

static void put(struct command *command, size_t where, const void *value, size_t size)
{
    if (where != NONE && where + size <= BODY_MAX)
        memcpy(command->body + where, value, size);
}

static void put_address(struct command *command, uint8_t which)
{
    static const char *const texts[] = { "10.0.0.1",  "10.0.0.2", "fd00::1",  "fd00::2",
                                         "0.0.0.0",   "::",       "10.0.0.9", "10.9.9.9",
                                         "239.1.2.3", "ff0e::77", "fd00::9" };
    const struct shape *shape = command->shape;
    struct uro_sock sock;
    struct uro_gid gid;

    fuzz_demand(uro_gid_parse(texts[which % URO_ARRAY_LEN(texts)], &gid));
    bool v6 = strchr(texts[which % URO_ARRAY_LEN(texts)], ':') != NULL;
    uro_sock_make(&sock,
                  which >= 128 && shape->address_size != NONE ? AF_IB
                  : v6                                        ? AF_INET6
                                                              : AF_INET,
                  &gid, which & 64 ? 0 : PORT);
    const uint16_t size = (uint16_t)uro_sock_size(&sock);
    put(command, shape->address, &sock, size);
    put(command, shape->address_size, &size, sizeof size);
}

static void put_param(struct command *command, uint8_t length)
{
    struct rdma_ucm_conn_param param = { .qp_num = 17,
                                         .private_data_len = length,
                                         .responder_resources = 4,
                                         .initiator_depth = 4,
                                         .retry_count = 7,
                                         .rnr_retry_count = 7,
                                         .valid = 1 };

    memset(param.private_data, 0x5a, sizeof param.private_data);
    put(command, command->shape->param, &param, sizeof param);
}

static void fill_create(struct command *command, uint8_t choice)
{
    static const uint16_t spaces[4] = { RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB };
    static const uint8_t types[4] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND };
    const struct rdma_ucm_create_id in = { .uid = 77,
                                           .ps = spaces[choice & 3],
                                           .qp_type = types[choice >> 2 & 3] };

    put(command, 0, &in, sizeof in);
}

static void fill_option(struct command *command, uint8_t choice)
{
    static const struct {
        uint8_t level, name, size;
    } options[] = {
        { 0, 0, 1 }, { 0, 1, 4 }, { 0, 2, 4 }, { 0, 3, 1 }, { 1, 1, 72 }, { 1, 1, 144 }
    };
    const struct rdma_ucm_set_option in = {
        .level = options[choice % URO_ARRAY_LEN(options)].level,
        .optname = options[choice % URO_ARRAY_LEN(options)].name,
        .optlen = options[choice % URO_ARRAY_LEN(options)].size,
    };

    put(command, 0, &in, sizeof in);
}

/* Fills in valid values for the other fields of the command. */
static void fill(struct command *command, uint8_t choice)
{
    const uint32_t user = URO_CM_EVENT_USER;
    const uint32_t timeout = TIMEOUT, comm_est = IBV_EVENT_COMM_EST, state = choice % 8;
    const uint64_t uid = 78;

    switch (command->number) {
    case RDMA_USER_CM_CMD_CREATE_ID:
        fill_create(command, choice);
        break;
    case RDMA_USER_CM_CMD_SET_OPTION:
        fill_option(command, choice);
        break;
    case RDMA_USER_CM_CMD_RESOLVE_IP:
        put(command, OF(resolve_ip, timeout_ms), &timeout, sizeof timeout);
        break;
    case RDMA_USER_CM_CMD_RESOLVE_ADDR:
        put(command, OF(resolve_addr, timeout_ms), &timeout, sizeof timeout);
        break;
    case RDMA_USER_CM_CMD_ACCEPT:
        put(command, OF(accept, uid), &uid, sizeof uid);
        break;
    case RDMA_USER_CM_CMD_REJECT:
        put(command, OF(reject, private_data_len), &choice, sizeof choice);
        break;
    case RDMA_USER_CM_CMD_NOTIFY:
        put(command, OF(notify, event), &comm_est, sizeof comm_est);
        break;
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
        put(command, OF(init_qp_attr, qp_state), &state, sizeof state);
        break;
    case URO_NEWER_WRITE_CM_EVENT:
        put(command, offsetof(struct uro_newer_write_cm_event, event), &user, sizeof user);
        break;
    case RDMA_USER_CM_CMD_QUERY:
        put(command, OF(query, option), &state, sizeof state);
        break;
    case RDMA_USER_CM_CMD_MIGRATE_ID:
        if (channels[choice % CHANNELS] != NULL) {
            const uint32_t fd = (uint32_t)uro_channel_fd(channels[choice % CHANNELS]);
            put(command, OF(migrate_id, fd), &fd, sizeof fd);
        }
        break;
    }
}

/* Sets the pointers of the changed command to allocated memory. */
static void point(struct command *command)
{
    const struct shape *shape = command->shape;
    struct rdma_ucm_set_option option;

    command->answer = malloc(command->out > 0 ? command->out : 1);
    command->option = calloc(1, OPTION_MAX);
    fuzz_demand(command->answer != NULL && command->option != NULL);
    const uint64_t answer = (uintptr_t)command->answer;
    if (shape != NULL)
        put(command, shape->response, &answer, sizeof answer);
    if (command->number != RDMA_USER_CM_CMD_SET_OPTION)
        return;
    memcpy(&option, command->body, sizeof option);
    if (option.optlen > OPTION_MAX)
        option.optlen = OPTION_MAX;
    free(command->option);
    command->option = malloc(option.optlen > 0 ? option.optlen : 1);
    fuzz_demand(command->option != NULL);
    for (uint32_t i = 0; i < option.optlen; i++)
        command->option[i] = i < 4 ? next() : 0x0d;
    option.optval = (uintptr_t)command->option;
    memcpy(command->body, &option, sizeof option);
}

static void send_to(struct uro_channel *channel, struct command *command)
{
    const struct rdma_ucm_cmd_hdr header = { .cmd = command->number,
                                             .in = command->in,
                                             .out = command->out };
    const size_t size = sizeof header + command->in;
    uint8_t *octets = malloc(size);

    fuzz_demand(octets != NULL && command->in <= BODY_MAX);
    point(command);
    memcpy(octets, &header, sizeof header);
    memcpy(octets + sizeof header, command->body, command->in);
    errno = 0;
    ssize_t written = uro_command_write(channel, octets, size);
    fuzz_demand(written == (ssize_t)size || (written == -1 && errno > 0));
    free(octets);
    free(command->answer);
    free(command->option);
}

static void run_command(struct uro_channel *channel)
{
    struct command command = { .number = next() % COMMANDS };
    const uint32_t id = next() % NUMBERS;
    const uint8_t choice = next(), room = next(), extra = next();

    if (command.number < URO_ARRAY_LEN(shapes) && shapes[command.number].size > 0)
        command.shape = &shapes[command.number];
    if (command.shape != NULL) {
        command.in = command.shape->size;
        fill(&command, choice);
        put(&command, command.shape->id, &id, sizeof id);
        if (command.shape->address != NONE)
            put_address(&command, choice);
        if (command.shape->param != NONE)
            put_param(&command, choice);
    }
    command.out = room == 0 ? UINT16_C(512) : room * UINT16_C(4);
    command.in = (uint16_t)(command.in + (extra >> 3));
    for (uint32_t changes = extra & 7; changes > 0; changes--) {
        const uint32_t page = next(), where = next();
        command.body[(page * 256 + where) % BODY_MAX] = next();
    }
    send_to(channel, &command);
}

/* Runs a command of raw bytes, which is too short or has no pointers. */
static void run_raw(struct uro_channel *channel)
{
    static const uint8_t harmless[] = { RDMA_USER_CM_CMD_LISTEN, RDMA_USER_CM_CMD_RESOLVE_ROUTE,
                                        RDMA_USER_CM_CMD_DISCONNECT, RDMA_USER_CM_CMD_NOTIFY };
    uint32_t size = next() % 64u;
    uint8_t *octets = malloc(size > 0 ? size : 1);

    fuzz_demand(octets != NULL);
    for (uint32_t i = 0; i < size; i++)
        octets[i] = next();
    if (size >= 4)
        memcpy(octets, &(uint32_t){ harmless[octets[0] % sizeof harmless] }, 4);
    ssize_t written = uro_command_write(channel, octets, size);
    fuzz_demand(written == (ssize_t)size || (written == -1 && errno > 0));
    free(octets);
}

/* ---- channels ------------------------------------------------------------ */

static void open_channel(uint32_t which)
{
    int fd = uro_channel_open(true);

    fuzz_demand(fd >= 0);
    channels[which] = uro_channel_get(fd);
    fuzz_demand(channels[which] != NULL);
    uro_channel_put(
        channels[which]); /* drops one of the two references; the opener has the other */
}

/* Closes a channel as attach.c does. */
static void close_channel(uint32_t which)
{
    struct uro_channel *channel = channels[which];

    if (channel == NULL)
        return;
    int fd = uro_channel_fd(channel);
    fuzz_demand(uro_channel_forget(fd) == channel);
    uro_command_lock();
    while (!uro_list_empty(&channel->ids))
        (void)uro_id_destroy(URO_CONTAINER_OF(channel->ids.head.next, struct uro_id, channel_link));
    uro_command_unlock();
    fuzz_demand(uro_list_empty(&channel->events));
    uro_channel_put(channel);
    (void)close(fd);
    channels[which] = NULL;
}

/* ---- steps --------------------------------------------------------------- */

static void change_link(uint8_t what)
{
    if (what & REMOVED)
        fuzz_host_remove(what & 1);
    else
        fuzz_host_link(what & 1);
}

static void take_step(void)
{
    const uint8_t kind = next();
    const uint32_t which = kind / STEP_COUNT % CHANNELS;

    if (channels[which] == NULL)
        open_channel(which);
    switch ((enum step)(kind % STEP_COUNT)) {
    case COMMAND:
    case COMMAND_TOO:
        run_command(channels[which]);
        break;
    case RAW:
        run_raw(channels[which]);
        break;
    case TIME:
        fuzz_host_pass(URO_MS(1) << next() % 14);
        fuzz_host_settle();
        break;
    case SETTLE:
        fuzz_host_settle();
        break;
    case CHANNEL:
        close_channel(which);
        break;
    case LOSE:
        fuzz_host_lose(next() * 0x01010101u);
        break;
    case LINK:
        change_link(next());
        break;
    case STEP_COUNT:
        break;
    }
}

static void prepare(void)
{
    static bool prepared;

    if (prepared)
        return;
    prepared = true;
    fuzz_demand(fuzz_host_devices()[FUZZ_DEVICES - 1] != NULL);
    ibv_free_device_list(ibv_get_device_list(NULL));
    uro_host_set_conn_handlers(&uro_cm_event_handlers);
    for (uint32_t i = 0; i < FUZZ_DEVICES; i++)
        fuzz_demand(uro_device_start(fuzz_host_devices()[i]) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    prepare();
    at = data;
    end = data + size;
    for (uint32_t i = 0; i < STEPS && at < end; i++)
        take_step();
    for (uint32_t i = 0; i < CHANNELS; i++)
        close_channel(i);
    fuzz_host_lose(0);
    fuzz_host_link(true);
    fuzz_host_restore();
    fuzz_host_forget_connections();
    return 0;
}
