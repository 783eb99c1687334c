/* SPDX-License-Identifier: BSD-3-Clause */
/* nldev.c - see nldev.h. */
#include "netlink/nldev.h"

#include <errno.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <string.h>

#include "stats/kernel_names.h"

#define OPERATION_MASK 0x3ff
#define CLIENT_SHIFT   10
/* Largest number of messages in one datagram. */
#define REQUESTS_MAX 64u
/* No object is added to a message that is longer than this, bytes. */
#define MESSAGE_FULL    (URO_NLDEV_MESSAGE_MAX - 512u)
#define PORT            1u
#define NETNS_SHARED    1
#define HW_COUNTERS     "hw_counters/"
#define ALIGNED(length) (((length) + 3) & ~(size_t)3)

/* A request. Strings are "" and numbers UINT32_MAX if the request has no such attribute. */
struct request {
    struct nlmsghdr header;
    const uint8_t *attrs; /* all attributes of the request */
    size_t attrs_length;
    uint16_t operation;
    bool dump;
    uint32_t device, port, stat_resource;
    char device_name[URO_NLDEV_NAME_MAX], link_type[URO_NLDEV_NAME_MAX];
    char ndev_name[URO_NLDEV_NAME_MAX];
};

struct exchange {
    const struct uro_nldev_view *view;
    uint32_t port_id;
    struct uro_nldev_answer *answer;
};

/* ---- parsing ---------------------------------------------------------------------- */

static int parse_attr(struct request *request, const struct uro_netlink_attr *attr)
{
    uint32_t *number = NULL;
    char *text = NULL;

    if (attr->type == RDMA_NLDEV_ATTR_DEV_INDEX)
        number = &request->device;
    else if (attr->type == RDMA_NLDEV_ATTR_PORT_INDEX)
        number = &request->port;
    else if (attr->type == RDMA_NLDEV_ATTR_STAT_RES)
        number = &request->stat_resource;
    else if (attr->type == RDMA_NLDEV_ATTR_DEV_NAME)
        text = request->device_name;
    else if (attr->type == RDMA_NLDEV_ATTR_LINK_TYPE)
        text = request->link_type;
    else if (attr->type == RDMA_NLDEV_ATTR_NDEV_NAME)
        text = request->ndev_name;
    if (number != NULL)
        return uro_netlink_get_u32(attr, number) ? 0 : -EINVAL;
    return text == NULL || uro_netlink_get_string(attr, text, URO_NLDEV_NAME_MAX) ? 0 : -EINVAL;
}

static int parse(struct request *request)
{
    const uint8_t *pos = request->attrs;
    size_t left = request->attrs_length;
    struct uro_netlink_attr attr;
    int found;

    request->operation = request->header.nlmsg_type & OPERATION_MASK;
    request->dump = (request->header.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    request->device = request->port = request->stat_resource = UINT32_MAX;
    while ((found = uro_netlink_next(&pos, &left, &attr)) > 0) {
        const int error = parse_attr(request, &attr);
        if (error != 0)
            return error;
    }
    return found;
}

/* Reads the number @type of the request. Returns false if there is none. */
static bool find_number(const struct request *request, uint16_t type, uint32_t *value)
{
    const uint8_t *pos = request->attrs;
    size_t left = request->attrs_length;
    struct uro_netlink_attr attr;

    while (uro_netlink_next(&pos, &left, &attr) > 0)
        if (attr.type == type)
            return uro_netlink_get_u32(&attr, value);
    return false;
}

/* Returns the device of the request, or NULL. */
static const struct uro_nldev_device *find_device(const struct exchange *exchange,
                                                  const struct request *request)
{
    for (uint32_t i = 0; i < exchange->view->count; i++)
        if (exchange->view->devices[i].index == request->device)
            return &exchange->view->devices[i];
    return NULL;
}

/* ---- messages --------------------------------------------------------------------- */

static struct uro_netlink_list *begin(struct exchange *exchange, const struct request *request)
{
    struct uro_netlink_list *list = &exchange->answer->messages;

    uro_netlink_begin(list, request->header.nlmsg_type, request->dump ? NLM_F_MULTI : 0,
                      request->header.nlmsg_seq, exchange->port_id);
    return list;
}

/* Adds the end of a dump. */
static void put_done(struct exchange *exchange, const struct request *request)
{
    static const int32_t result;
    struct uro_netlink_list *list = &exchange->answer->messages;

    uro_netlink_begin(list, NLMSG_DONE, NLM_F_MULTI, request->header.nlmsg_seq, exchange->port_id);
    uro_netlink_put_raw(list, &result, sizeof result);
    uro_netlink_end(list);
}

/* Adds the acknowledgement, which repeats the header of the request. */
static void put_ack(struct exchange *exchange, const struct request *request, int error)
{
    struct uro_netlink_list *list = &exchange->answer->messages;
    const int32_t code = error;

    uro_netlink_begin(list, NLMSG_ERROR, NLM_F_CAPPED, request->header.nlmsg_seq,
                      exchange->port_id);
    uro_netlink_put_raw(list, &code, sizeof code);
    uro_netlink_put_raw(list, &request->header, sizeof request->header);
    uro_netlink_end(list);
}

static void put_handle(struct uro_netlink_list *list, const struct uro_nldev_device *device)
{
    uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_DEV_INDEX, device->index);
    uro_netlink_put_string(list, RDMA_NLDEV_ATTR_DEV_NAME, device->name);
}

static void put_device(struct uro_netlink_list *list, const struct uro_nldev_device *device)
{
    put_handle(list, device);
    /* For a device, this attribute is the number of ports. */
    uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
    uro_netlink_put_string(list, RDMA_NLDEV_ATTR_FW_VERSION, device->firmware);
    uro_netlink_put_u64(list, RDMA_NLDEV_ATTR_NODE_GUID, device->node_guid);
    uro_netlink_put_u64(list, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, device->sys_image_guid);
    uro_netlink_put_u8(list, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, device->node_type);
    uro_netlink_put_string(list, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
}

static void put_port(struct uro_netlink_list *list, const struct uro_nldev_device *device)
{
    put_handle(list, device);
    uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
    uro_netlink_put_u64(list, RDMA_NLDEV_ATTR_CAP_FLAGS, device->port_cap_mask);
    uro_netlink_put_u8(list, RDMA_NLDEV_ATTR_PORT_STATE, device->port_state);
    uro_netlink_put_u8(list, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, device->port_phys_state);
    if (device->ndev_index != 0) {
        uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_NDEV_INDEX, device->ndev_index);
        uro_netlink_put_string(list, RDMA_NLDEV_ATTR_NDEV_NAME, device->ndev_name);
    }
}

static void put_counters(struct uro_netlink_list *list, const struct uro_nldev_device *device)
{
    const size_t skipped = sizeof HW_COUNTERS - 1;

    put_handle(list, device);
    uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
    const size_t all = uro_netlink_nest(list, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
    for (uint32_t i = 0; i < uro_kernel_counter_count; i++) {
        const struct uro_kernel_counter *counter = &uro_kernel_counters[i];
        if (strncmp(counter->name, HW_COUNTERS, skipped) != 0)
            continue;
        const size_t one = uro_netlink_nest(list, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);
        uro_netlink_put_string(list, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME,
                               counter->name + skipped);
        uro_netlink_put_u64(list, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE,
                            uro_kernel_counter_value(counter, &device->counters));
        uro_netlink_nest_end(list, one);
    }
    uro_netlink_nest_end(list, all);
}

/* ---- objects ------------------------------------------------------------------------ */

struct kind {
    const char *name;
    /* The command, and the attributes of the list, of an entry and of the number. */
    uint16_t operation, list, entry, id;
};

/* In the order of enum uro_nldev_kind. */
static const struct kind kinds[] = {
    { "qp", RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY,
      RDMA_NLDEV_ATTR_RES_LQPN },
    { "cq", RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_ATTR_RES_CQ, RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
      RDMA_NLDEV_ATTR_RES_CQN },
    { "pd", RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_ATTR_RES_PD, RDMA_NLDEV_ATTR_RES_PD_ENTRY,
      RDMA_NLDEV_ATTR_RES_PDN },
    { "cm_id", RDMA_NLDEV_CMD_RES_CM_ID_GET, RDMA_NLDEV_ATTR_RES_CM_ID,
      RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, RDMA_NLDEV_ATTR_RES_CM_IDN },
    { "mr", RDMA_NLDEV_CMD_RES_MR_GET, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY,
      RDMA_NLDEV_ATTR_RES_MRN },
    { "ctx", RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
      RDMA_NLDEV_ATTR_RES_CTXN },
    { "srq", RDMA_NLDEV_CMD_RES_SRQ_GET, RDMA_NLDEV_ATTR_RES_SRQ, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
      RDMA_NLDEV_ATTR_RES_SRQN },
};
static_assert(URO_ARRAY_LEN(kinds) == URO_NLDEV_KINDS, "a row for each kind");

void uro_nldev_add_field(struct uro_nldev_object *object, uint16_t attr, uint16_t size,
                         uint64_t value)
{
    URO_ASSERT(object->field_count < URO_NLDEV_FIELDS_MAX);
    object->fields[object->field_count++] = (struct uro_nldev_field){ attr, size, value };
}

static void put_summary(struct uro_netlink_list *list, const struct uro_nldev_device *device)
{
    put_handle(list, device);
    const size_t all = uro_netlink_nest(list, RDMA_NLDEV_ATTR_RES_SUMMARY);
    for (size_t i = 0; i < URO_ARRAY_LEN(kinds); i++) {
        if (!device->objects[i].known)
            continue;
        const size_t one = uro_netlink_nest(list, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);
        uro_netlink_put_string(list, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kinds[i].name);
        uro_netlink_put_u64(list, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, device->objects[i].count);
        uro_netlink_nest_end(list, one);
    }
    uro_netlink_nest_end(list, all);
}

static void put_object(struct uro_netlink_list *list, const struct uro_nldev_object *object)
{
    for (uint32_t i = 0; i < object->field_count; i++) {
        const struct uro_nldev_field *field = &object->fields[i];
        if (field->size == sizeof(uint8_t))
            uro_netlink_put_u8(list, field->attr, (uint8_t)field->value);
        else if (field->size == sizeof(uint32_t))
            uro_netlink_put_u32(list, field->attr, (uint32_t)field->value);
        else
            uro_netlink_put_u64(list, field->attr, field->value);
    }
    uro_netlink_put_raw(list, object->more, object->more_length);
}

/* Returns the object with the number @id, or NULL. */
static const struct uro_nldev_object *find_object(const struct uro_nldev_objects *objects,
                                                  uint16_t attr, uint32_t id)
{
    for (uint32_t i = 0; i < objects->count; i++)
        for (uint32_t j = 0; j < objects->list[i].field_count; j++)
            if (objects->list[i].fields[j].attr == attr && objects->list[i].fields[j].value == id)
                return &objects->list[i];
    return NULL;
}

/* Returns whether the object fits into the open message. The message has at least one object. */
static bool has_room(const struct uro_netlink_list *list, const struct uro_nldev_object *object)
{
    return uro_netlink_length(list) + object->more_length < MESSAGE_FULL;
}

/* Lists all objects of a kind. A message has as many as fit. */
static void dump_objects(struct exchange *exchange, const struct request *request,
                         const struct kind *kind, const struct uro_nldev_device *device)
{
    const struct uro_nldev_objects *objects = &device->objects[kind - kinds];

    for (uint32_t i = 0; i < objects->count;) {
        struct uro_netlink_list *list = begin(exchange, request);
        put_handle(list, device);
        const size_t all = uro_netlink_nest(list, kind->list);
        for (bool first = true; i < objects->count && (first || has_room(list, &objects->list[i]));
             first = false) {
            const size_t one = uro_netlink_nest(list, kind->entry);
            put_object(list, &objects->list[i++]);
            uro_netlink_nest_end(list, one);
        }
        uro_netlink_nest_end(list, all);
        uro_netlink_end(list);
    }
}

static int answer_objects(struct exchange *exchange, const struct request *request,
                          const struct kind *kind)
{
    const struct uro_nldev_device *device = find_device(exchange, request);
    const struct uro_nldev_object *object;
    uint32_t id;

    if (request->device == UINT32_MAX)
        return -EINVAL;
    if (device == NULL)
        return -ENODEV;
    if (request->port != UINT32_MAX && request->port != PORT)
        return -EINVAL;
    if (request->dump) {
        dump_objects(exchange, request, kind, device);
        return 0;
    }
    if (!find_number(request, kind->id, &id))
        return -EINVAL;
    object = find_object(&device->objects[kind - kinds], kind->id, id);
    if (object == NULL)
        return -ENOENT;
    struct uro_netlink_list *list = begin(exchange, request);
    put_handle(list, device);
    put_object(list, object);
    uro_netlink_end(list);
    return 0;
}

/* ---- commands --------------------------------------------------------------------- */

typedef void put_function(struct uro_netlink_list *list, const struct uro_nldev_device *device);

static void answer_one(struct exchange *exchange, const struct request *request,
                       const struct uro_nldev_device *device, put_function *put)
{
    struct uro_netlink_list *list = begin(exchange, request);

    put(list, device);
    uro_netlink_end(list);
}

/* Describes the device of the request. A dump without a device describes all devices. */
static int answer_devices(struct exchange *exchange, const struct request *request,
                          put_function *put)
{
    const struct uro_nldev_device *device = find_device(exchange, request);

    if (request->device == UINT32_MAX && request->dump) {
        for (uint32_t i = 0; i < exchange->view->count; i++)
            answer_one(exchange, request, &exchange->view->devices[i], put);
        return 0;
    }
    if (request->device == UINT32_MAX)
        return -EINVAL;
    if (device == NULL)
        return -ENODEV;
    answer_one(exchange, request, device, put);
    return 0;
}

/* Describes the port of the request. A dump describes all ports of the device. */
static int answer_port(struct exchange *exchange, const struct request *request, put_function *put)
{
    if (request->device == UINT32_MAX || (!request->dump && request->port == UINT32_MAX) ||
        (request->port != UINT32_MAX && request->port != PORT))
        return -EINVAL;
    return answer_devices(exchange, request, put);
}

static void answer_system(struct exchange *exchange, const struct request *request)
{
    struct uro_netlink_list *list = begin(exchange, request);

    uro_netlink_put_u8(list, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, NETNS_SHARED);
    uro_netlink_put_u8(list, RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, 1);
    uro_netlink_end(list);
}

/* Answers that no counter is bound to a queue pair. */
static void put_counter_mode(struct uro_netlink_list *list, const struct uro_nldev_device *device)
{
    put_handle(list, device);
    uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
    uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_NONE);
}

/* Answers that no counters can be switched on. */
static void put_optional_counters(struct uro_netlink_list *list,
                                  const struct uro_nldev_device *device)
{
    put_handle(list, device);
    uro_netlink_put_u32(list, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
    uro_netlink_nest_end(list, uro_netlink_nest(list, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS));
}

/* A device has the counters of its port, but no counters that are bound to a queue pair or to a
 * memory region. */
static int answer_statistics(struct exchange *exchange, const struct request *request)
{
    uint32_t counter;

    if (request->stat_resource == UINT32_MAX)
        return answer_port(exchange, request, put_counters);
    if (request->dump)
        return 0;
    if (request->stat_resource != RDMA_NLDEV_ATTR_RES_QP)
        return -EOPNOTSUPP;
    if (find_number(request, RDMA_NLDEV_ATTR_STAT_COUNTER_ID, &counter))
        return -ENOENT;
    return answer_port(exchange, request, put_counter_mode);
}

/* ---- refusals --------------------------------------------------------------------- */

/* Copies @name without characters that have an effect in a terminal or a shell. "" becomes
 * @otherwise. */
static const char *printable(const char *name, const char *otherwise,
                             char out[static URO_NLDEV_NAME_MAX])
{
    size_t used = 0;

    for (; *name != '\0' && used + 1 < URO_NLDEV_NAME_MAX; name++) {
        out[used] = *name;
        if (*name <= ' ' || *name == 127 || strchr("'\"\\;$`&|<>", *name) != NULL)
            out[used] = '?';
        used++;
    }
    out[used] = '\0';
    return used > 0 ? out : otherwise;
}

/* Returns whether the operation changes a device or the system. */
static bool is_change(uint16_t operation)
{
    return operation == RDMA_NLDEV_CMD_SET || operation == RDMA_NLDEV_CMD_SYS_SET ||
           operation == RDMA_NLDEV_CMD_STAT_SET || operation == RDMA_NLDEV_CMD_STAT_DEL;
}

static bool is_raw(uint16_t operation)
{
    return operation == RDMA_NLDEV_CMD_RES_QP_GET_RAW ||
           operation == RDMA_NLDEV_CMD_RES_CQ_GET_RAW || operation == RDMA_NLDEV_CMD_RES_MR_GET_RAW;
}

/* Writes the hint for a refused request. The hint for an earlier request stays. Requests of
 * libraries get no hint: librdmacm first asks for a character device, and continues without it. */
static void explain(struct exchange *exchange, const struct request *request)
{
    const struct uro_nldev_device *device = find_device(exchange, request);
    char *hint = exchange->answer->hint, name[URO_NLDEV_NAME_MAX], ndev[URO_NLDEV_NAME_MAX];

    if (hint[0] != '\0')
        return;
    if (request->operation == RDMA_NLDEV_CMD_NEWLINK)
        (void)snprintf(hint, URO_NLDEV_HINT_MAX,
                       "uroce: `rdma link add` cannot add a device, because a device of uroce "
                       "exists inside the programs that use it. Name the device in their "
                       "environment: export UROCE_DEVICES=%s:udp,iface=%s",
                       printable(request->device_name, "uroce0", name),
                       printable(request->ndev_name, "eth0", ndev));
    else if (request->operation == RDMA_NLDEV_CMD_DELLINK)
        (void)snprintf(hint, URO_NLDEV_HINT_MAX,
                       "uroce: `rdma link del` cannot remove a device, because a device of uroce "
                       "ends with the programs that use it. To start none with %s, remove it from "
                       "UROCE_DEVICES, or from the file that UROCE_CONFIG names",
                       device != NULL ? device->name : "the device");
    else if (is_change(request->operation))
        (void)snprintf(hint, URO_NLDEV_HINT_MAX,
                       "uroce: `rdma` can show a device of uroce but not change it. The device is "
                       "set up by UROCE_DEVICES, or by the file that UROCE_CONFIG names");
    else if (is_raw(request->operation))
        (void)snprintf(hint, URO_NLDEV_HINT_MAX,
                       "uroce: `rdma -r` shows data of a card's hardware, and uroce has none. Use "
                       "`rdma resource show` without -r");
}

/* ---- requests --------------------------------------------------------------------- */

static int answer_operation(struct exchange *exchange, const struct request *request)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(kinds); i++)
        if (request->operation == kinds[i].operation)
            return answer_objects(exchange, request, &kinds[i]);
    switch (request->operation) {
    case RDMA_NLDEV_CMD_GET:
        return answer_devices(exchange, request, put_device);
    case RDMA_NLDEV_CMD_PORT_GET:
        return answer_port(exchange, request, put_port);
    case RDMA_NLDEV_CMD_RES_GET:
        return answer_devices(exchange, request, put_summary);
    case RDMA_NLDEV_CMD_STAT_GET:
        return answer_statistics(exchange, request);
    case RDMA_NLDEV_CMD_STAT_GET_STATUS:
        return answer_port(exchange, request, put_optional_counters);
    case RDMA_NLDEV_CMD_SYS_GET:
        answer_system(exchange, request);
        return 0;
    default:
        return -EOPNOTSUPP;
    }
}

static int answer_request(struct exchange *exchange, struct request *request)
{
    int error;

    if (request->header.nlmsg_type >> CLIENT_SHIFT != RDMA_NL_NLDEV)
        return -EINVAL;
    error = parse(request);
    if (error == 0)
        error = answer_operation(exchange, request);
    if (error == -EOPNOTSUPP)
        explain(exchange, request);
    if (error == 0 && request->dump)
        put_done(exchange, request);
    return error;
}

static bool is_about_objects(uint16_t type)
{
    const uint16_t operation = type & OPERATION_MASK;

    for (size_t i = 0; i < URO_ARRAY_LEN(kinds); i++)
        if (operation == kinds[i].operation)
            return true;
    return operation == RDMA_NLDEV_CMD_RES_GET;
}

bool uro_nldev_needs_objects(const uint8_t *request, size_t length)
{
    struct nlmsghdr header;

    for (unsigned i = 0; i < REQUESTS_MAX && length >= sizeof header; i++) {
        memcpy(&header, request, sizeof header);
        if (header.nlmsg_len < sizeof header || header.nlmsg_len > length)
            return false;
        if (is_about_objects(header.nlmsg_type))
            return true;
        const size_t step = ALIGNED((size_t)header.nlmsg_len);
        request += step < length ? step : length;
        length -= step < length ? step : length;
    }
    return false;
}

void uro_nldev_answer(const struct uro_nldev_view *view, const uint8_t *request, size_t length,
                      uint32_t port_id, struct uro_nldev_answer *answer)
{
    struct exchange exchange = { view, port_id, answer };

    for (unsigned i = 0; i < REQUESTS_MAX && length >= sizeof(struct nlmsghdr); i++) {
        struct request one = { 0 };
        int error = 0;
        memcpy(&one.header, request, sizeof one.header);
        const size_t whole = one.header.nlmsg_len, step = ALIGNED(whole);
        if (whole < sizeof one.header || whole > length)
            return;
        one.attrs = request + sizeof one.header;
        one.attrs_length = whole - sizeof one.header;
        const bool asks = (one.header.nlmsg_flags & NLM_F_REQUEST) != 0 &&
                          one.header.nlmsg_type >= NLMSG_MIN_TYPE;
        if (asks)
            error = answer_request(&exchange, &one);
        if (error != 0 || (!one.dump && (one.header.nlmsg_flags & NLM_F_ACK) != 0))
            put_ack(&exchange, &one, error);
        request += step < length ? step : length;
        length -= step < length ? step : length;
    }
}
