/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

static void device_list__read_twice__has_the_same_devices(void **state)
{
    int count = 0;
    struct ibv_device **one = ibv_get_device_list(&count);
    struct ibv_device **two = ibv_get_device_list(NULL);

    (void)state;
    assert_non_null(one);
    assert_int_equal(count, 2);
    /* The pointers must not change, because librdmacm sorts devices by them. */
    assert_ptr_equal(one[0], two[0]);
    assert_ptr_equal(one[1], two[1]);
    assert_null(one[2]);
    struct ibv_device *device = one[0];
    ibv_free_device_list(one);
    ibv_free_device_list(two);
    assert_string_equal(ibv_get_device_name(device), "uroce0");
    assert_int_equal(ibv_get_device_index(device), -1); /* the kernel has assigned no index */
    assert_int_equal(device->node_type, IBV_NODE_CA);
    assert_int_equal(device->transport_type, IBV_TRANSPORT_IB);
    assert_string_equal(device->dev_name, "uverbs0");
    assert_string_equal(device->dev_path, "/sys/class/infiniband_verbs/uverbs0");
    assert_string_equal(device->ibdev_path, "/sys/class/infiniband/uroce0");
}

/* The EUI-64 of a MAC address has ff:fe in its middle. GID 0 ends with the EUI-64. */
static void guid__of_a_device__is_the_interface_part_of_gid_0(void **state)
{
    const struct api *api = *state;
    union ibv_gid gid;
    __be64 guid = ibv_get_device_guid(api->device);
    const uint8_t *octets = (const uint8_t *)&guid;

    assert_int_equal(ibv_query_gid(api->context, API_PORT, 0, &gid), 0);
    assert_int_equal(gid.raw[0], 0xfe);
    assert_int_equal(gid.raw[1], 0x80);
    assert_memory_equal(octets, &gid.raw[8], 8);
    assert_int_equal(octets[3], 0xff);
    assert_int_equal(octets[4], 0xfe);
}

static void query_device__limits_and_features__have_the_expected_values(void **state)
{
    const struct api *api = *state;
    struct ibv_device_attr attr;

    memset(&attr, 0xff, sizeof attr);
    assert_int_equal(ibv_query_device(api->context, &attr), 0);
    assert_true(attr.fw_ver[0] != '\0');
    assert_true(attr.vendor_id != 0 && attr.vendor_id != 0xffffff && attr.vendor_id != 0x02c9);
    assert_int_equal(attr.vendor_part_id, 4119);
    assert_int_equal(attr.phys_port_cnt, 1);
    assert_int_equal(attr.atomic_cap, IBV_ATOMIC_HCA);
    assert_true(attr.max_qp_wr >= 16384 && attr.max_cqe >= 32767 && attr.max_sge >= 32);
    assert_true(attr.max_qp >= 1048560 && attr.max_mr >= 524287 && attr.max_pd >= 1048576);
    assert_true(attr.max_qp_rd_atom >= 128 && attr.max_qp_init_rd_atom >= 128);
    assert_true(attr.max_qp_wr >= 1048576 && attr.max_cqe >= 32767 && attr.max_ah >= 32767);
    assert_true(attr.max_sge >= 32 && attr.max_sge_rd >= 32);
    assert_true(attr.max_qp_rd_atom >= 128 && attr.max_qp_init_rd_atom >= 128);
    assert_true(attr.max_res_rd_atom >= 258048);
    assert_true(attr.max_srq >= 917503 && attr.max_srq_wr >= 1048576 && attr.max_srq_sge >= 27);
    const unsigned had = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                         IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_SYS_IMAGE_GUID |
                         IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC;
    assert_int_equal(attr.device_cap_flags & had, had);
    assert_true(attr.max_mw >= 524287);
    assert_int_equal(attr.max_mcast_grp, 8192);
    assert_int_equal(attr.max_mcast_qp_attach, 56);
    assert_int_equal(attr.max_total_mcast_qp_attach, 458752);
    assert_int_equal(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A, 0);
    assert_true(attr.node_guid == ibv_get_device_guid(api->device));
    assert_true(attr.sys_image_guid == attr.node_guid);
}

/* Later versions of rdma-core added members to the struct. Only the members of the caller's version
 * are written. */
static void query_device_ex__struct_of_another_release__common_fields_are_filled(void **state)
{
    const struct api *api = *state;
    struct verbs_context *verbs = verbs_get_ctx(api->context);
    struct {
        struct ibv_device_attr_ex attr;
        uint8_t more[64];
    } room;
    size_t old = offsetof(struct ibv_device_attr_ex, tso_caps);

    memset(&room, 0xaa, sizeof room);
    assert_int_equal(verbs->query_device_ex(api->context, NULL, &room.attr, old), 0);
    assert_int_equal(room.attr.orig_attr.phys_port_cnt, 1);
    assert_int_equal(((uint8_t *)&room)[old], 0xaa);
    assert_int_equal(verbs->query_device_ex(api->context, NULL, &room.attr, sizeof room), 0);
    assert_int_equal(room.attr.phys_port_cnt_ex, 1);
    assert_int_equal(room.attr.tso_caps.max_tso, 0);
    assert_int_equal(room.more[0], 0);
    assert_int_equal(room.more[63], 0);
    assert_int_equal(verbs->query_device_ex(api->context, NULL, &room.attr, 8), EINVAL);
}

static void query_device_ex__unknown_input__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_query_device_ex_input input = { .comp_mask = 1 };
    struct ibv_device_attr_ex attr;

    assert_int_equal(ibv_query_device_ex(api->context, &input, &attr), EINVAL);
}

static void query_port__device_started__is_an_active_ethernet_port(void **state)
{
    const struct api *api = *state;
    struct ibv_port_attr attr;

    memset(&attr, 0xff, sizeof attr);
    assert_int_equal(ibv_query_port(api->context, API_PORT, &attr), 0);
    assert_int_equal(attr.state, IBV_PORT_ACTIVE);
    assert_int_equal(attr.phys_state, 5);
    assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(attr.max_mtu, IBV_MTU_4096);
    assert_int_equal(attr.active_mtu, IBV_MTU_1024); /* for a link MTU of 1500 bytes */
    assert_int_equal(attr.gid_tbl_len, 16);
    assert_int_equal(attr.pkey_tbl_len, 1);
    assert_int_equal(attr.lid, 0);
    assert_true(attr.max_msg_sz == UINT32_C(1) << 31);
    assert_int_equal(attr.port_cap_flags, IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS);
    assert_int_equal(attr.port_cap_flags2, 0);
}

/* A packet of MTU 1024 with all its headers would have 1104 bytes. */
static void query_port__of_a_link_that_cannot_carry_1024__has_mtu_512(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *small = ibv_open_device(list[1]);
    struct ibv_port_attr attr;

    (void)state;
    assert_int_equal(ibv_query_port(small, API_PORT, &attr), 0);
    assert_int_equal(attr.active_mtu, IBV_MTU_512);
    ibv_close_device(small);
    ibv_free_device_list(list);
}

static void query_port__no_such_port__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_port_attr attr;

    assert_int_equal(ibv_query_port(api->context, 0, &attr), EINVAL);
    assert_int_equal(ibv_query_port(api->context, 2, &attr), EINVAL);
}

/* Programs that were built before the struct got its last member provide a smaller struct. */
#undef ibv_query_port
static void query_port__from_an_old_program__does_not_write_past_its_struct(void **state)
{
    const struct api *api = *state;
    size_t old = offsetof(struct ibv_port_attr, port_cap_flags2);
    struct ibv_port_attr attr;

    memset(&attr, 0xaa, sizeof attr);
    assert_int_equal(
        ibv_query_port(api->context, API_PORT, (struct _compat_ibv_port_attr *)(void *)&attr), 0);
    assert_int_equal(attr.state, IBV_PORT_ACTIVE);
    assert_int_equal(((uint8_t *)&attr)[old], 0xaa);
}

static void gid_table__empty_slots__are_zero_or_no_data(void **state)
{
    static const union ibv_gid zero;
    const struct api *api = *state;
    struct ibv_gid_entry entry;
    union ibv_gid gid;

    for (int i = 3; i < 16; i++) {
        memset(&gid, 0xff, sizeof gid);
        assert_int_equal(ibv_query_gid(api->context, API_PORT, i, &gid), 0);
        assert_memory_equal(&gid, &zero, sizeof gid);
        assert_int_equal(ibv_query_gid_ex(api->context, API_PORT, (uint32_t)i, &entry, 0), ENODATA);
    }
}

static void gid_table__addresses__follow_the_link_local_gid(void **state)
{
    static const uint8_t ipv4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
    const struct api *api = *state;
    struct ibv_gid_entry entries[16];
    union ibv_gid gid;

    assert_int_equal(ibv_query_gid(api->context, API_PORT, 1, &gid), 0);
    assert_memory_equal(gid.raw, ipv4, sizeof ipv4);
    assert_int_equal(ibv_query_gid_table(api->context, entries, 16, 0), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(entries[i].gid_index, i);
        assert_int_equal(entries[i].port_num, 1);
        assert_int_equal(entries[i].gid_type, IBV_GID_TYPE_ROCE_V2);
    }
    assert_memory_equal(entries[1].gid.raw, ipv4, sizeof ipv4);
}

static void gid_table__wrong_arguments__fails_as_each_verb_specifies(void **state)
{
    const struct api *api = *state;
    struct ibv_gid_entry entries[16];
    union ibv_gid gid;

    errno = 0;
    assert_int_equal(ibv_query_gid(api->context, API_PORT, 16, &gid), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_query_gid(api->context, API_PORT, -1, &gid), -1);
    assert_int_equal(ibv_query_gid(api->context, 2, 0, &gid), -1);
    assert_int_equal(ibv_query_gid_ex(api->context, 2, 0, entries, 0), EINVAL);
    assert_int_equal(ibv_query_gid_ex(api->context, API_PORT, 16, entries, 0), EINVAL);
    assert_int_equal(ibv_query_gid_ex(api->context, API_PORT, 0, entries, 1), EINVAL);
    assert_int_equal(ibv_query_gid_table(api->context, entries, 2, 0), -EINVAL);
    assert_int_equal(ibv_query_gid_table(api->context, entries, 16, 1), -EINVAL);
}

static void query_pkey__each_index__only_the_default_key_exists(void **state)
{
    const struct api *api = *state;
    __be16 pkey = 0;

    assert_int_equal(ibv_query_pkey(api->context, API_PORT, 0, &pkey), 0);
    assert_int_equal(pkey, 0xffff);
    assert_int_equal(ibv_get_pkey_index(api->context, API_PORT, pkey), 0);
    assert_int_equal(ibv_get_pkey_index(api->context, API_PORT, 0x1234), -1);
    errno = 0;
    assert_int_equal(ibv_query_pkey(api->context, API_PORT, 1, &pkey), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_query_pkey(api->context, 2, 0, &pkey), -1);
}

static void contexts__of_one_device__have_descriptors_of_their_own(void **state)
{
    const struct api *api = *state;
    struct ibv_context *other = ibv_open_device(api->device);
    struct stat one, two;

    assert_non_null(other);
    assert_int_equal(fstat(api->context->cmd_fd, &one), 0);
    assert_int_equal(fstat(other->cmd_fd, &two), 0);
    assert_true(one.st_ino != two.st_ino);
    assert_int_not_equal(api->context->async_fd, other->async_fd);
    assert_true(fcntl(other->cmd_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(other->async_fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(ibv_close_device(other), 0);
}

static void async_events__none_pending__eagain_and_not_readable(void **state)
{
    const struct api *api = *state;
    struct ibv_async_event event;
    struct pollfd wait = { .fd = api->context->async_fd, .events = POLLIN };

    assert_int_equal(poll(&wait, 1, 0), 0);
    assert_int_equal(fcntl(wait.fd, F_SETFL, fcntl(wait.fd, F_GETFL) | O_NONBLOCK), 0);
    errno = 0;
    assert_int_equal(ibv_get_async_event(api->context, &event), -1);
    assert_int_equal(errno, EAGAIN);
}

/* libmlx5 and libefa read the word behind struct ibv_device to decide whether a device is
 * theirs. */
static void device__word_behind_the_public_struct__can_be_read(void **state)
{
    const struct api *api = *state;
    const void *const *ops = (const void *const *)(const void *)(api->device + 1);

    assert_non_null(*ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_list__read_twice__has_the_same_devices),
        API_TEST(guid__of_a_device__is_the_interface_part_of_gid_0),
        API_TEST(query_device__limits_and_features__have_the_expected_values),
        API_TEST(query_device_ex__struct_of_another_release__common_fields_are_filled),
        API_TEST(query_device_ex__unknown_input__is_einval),
        API_TEST(query_port__device_started__is_an_active_ethernet_port),
        API_TEST(query_port__of_a_link_that_cannot_carry_1024__has_mtu_512),
        API_TEST(query_port__no_such_port__is_einval),
        API_TEST(query_port__from_an_old_program__does_not_write_past_its_struct),
        API_TEST(gid_table__empty_slots__are_zero_or_no_data),
        API_TEST(gid_table__addresses__follow_the_link_local_gid),
        API_TEST(gid_table__wrong_arguments__fails_as_each_verb_specifies),
        API_TEST(query_pkey__each_index__only_the_default_key_exists),
        API_TEST(contexts__of_one_device__have_descriptors_of_their_own),
        API_TEST(async_events__none_pending__eagain_and_not_readable),
        API_TEST(device__word_behind_the_public_struct__can_be_read),
    };
    return API_RUN(tests);
}
