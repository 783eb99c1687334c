/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_peer.c - see memif_peer.h. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */
#include "support/memif_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FDS_MAX 8u

/* ---- messages ----------------------------------------------------------- */

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
    const size_t length = strlen(name);

    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    URO_ASSERT(length < sizeof address->sun_path);
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

int memif_peer_connect(const char *name)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    URO_ASSERT(fd >= 0);
    if (connect(fd, (const void *)&address, length) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

int memif_peer_listen(const char *name)
{
    struct sockaddr_un address;
    const socklen_t length = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    URO_ASSERT(fd >= 0 && bind(fd, (const void *)&address, length) == 0 && listen(fd, 4) == 0);
    return fd;
}

bool memif_peer_send(int control, const void *octets, size_t length, const int *fds, unsigned count)
{
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(FDS_MAX * sizeof(int))];
    } beside = { { 0 } };
    struct iovec part = { (void *)(uintptr_t)octets, length };
    struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

    URO_ASSERT(count <= FDS_MAX);
    if (count > 0) {
        header.msg_control = &beside;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        beside.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
                                          .cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&beside.header), fds, count * sizeof(int));
    }
    return sendmsg(control, &header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

/* Receives a message. Returns its length, 0 at the end of the connection or on an error, or -1 if
 * no message waits. */
static ssize_t receive(int control, struct uro_memif_message *message, int *fd)
{
    union {
        struct cmsghdr header;
        uint8_t octets[CMSG_SPACE(sizeof(int))];
    } beside;
    struct iovec part = { message, sizeof *message };
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &beside, .msg_controllen = sizeof beside
    };
    int came = -1;
    ssize_t length = recvmsg(control, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (length < 0)
        return errno == EAGAIN ? -1 : 0;
    if (CMSG_FIRSTHDR(&header) != NULL)
        memcpy(&came, CMSG_DATA(&beside.header), sizeof came);
    if (fd != NULL)
        *fd = came;
    else if (came >= 0)
        (void)close(came);
    return length;
}

bool memif_peer_receive(int control, struct uro_memif_message *message, int *fd)
{
    return receive(control, message, fd) == (ssize_t)sizeof *message;
}

bool memif_peer_ended(int control, char reason[static URO_MEMIF_REASON + 1])
{
    struct uro_memif_message message;
    ssize_t length;

    memset(reason, 0, URO_MEMIF_REASON + 1);
    while ((length = receive(control, &message, NULL)) > 0)
        if (uro_memif_type_of(&message) == URO_MEMIF_DISCONNECT)
            memcpy(reason, message.octets + URO_MEMIF_DISCONNECT_REASON, URO_MEMIF_REASON);
    return length == 0;
}

struct uro_memif_message memif_peer_hello(void)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_HELLO);

    uro_memif_put16(&message, URO_MEMIF_HELLO_MIN_VERSION, URO_MEMIF_VERSION);
    uro_memif_put16(&message, URO_MEMIF_HELLO_MAX_VERSION, URO_MEMIF_VERSION);
    uro_memif_put8(&message, URO_MEMIF_HELLO_MAX_SLOTS_LOG2, URO_MEMIF_SLOTS_LOG2);
    return message;
}

struct uro_memif_message memif_peer_init(uint32_t id, const char *secret)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_INIT);

    uro_memif_put16(&message, URO_MEMIF_INIT_VERSION, URO_MEMIF_VERSION);
    uro_memif_put32(&message, URO_MEMIF_INIT_ID, id);
    URO_ASSERT(strlen(secret) <= URO_MEMIF_SECRET);
    memcpy(message.octets + URO_MEMIF_INIT_SECRET, secret, strlen(secret));
    return message;
}

struct uro_memif_message memif_peer_region(uint16_t index, uint64_t size)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_ADD_REGION);

    uro_memif_put16(&message, URO_MEMIF_REGION_INDEX, index);
    uro_memif_put64(&message, URO_MEMIF_REGION_SIZE, size);
    return message;
}

struct uro_memif_message memif_peer_ring(bool to_server, uint32_t offset)
{
    struct uro_memif_message message = uro_memif_message(URO_MEMIF_ADD_RING);

    uro_memif_put16(&message, URO_MEMIF_RING_FLAGS, to_server ? URO_MEMIF_TO_SERVER : 0);
    uro_memif_put32(&message, URO_MEMIF_RING_OFFSET, offset);
    uro_memif_put8(&message, URO_MEMIF_RING_SLOTS_LOG2, PEER_SLOTS_LOG2);
    return message;
}

/* ---- memory ------------------------------------------------------------- */

int memif_peer_file(size_t size, int seals)
{
    int fd = memfd_create("peer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    URO_ASSERT(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    URO_ASSERT(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

void memif_peer_map(struct memif_peer *peer, int memory, uint64_t size)
{
    peer->memory = memory;
    peer->size = (size_t)size;
    peer->base = mmap(NULL, peer->size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    URO_ASSERT(peer->base != MAP_FAILED);
}

uint32_t memif_peer_buffer(bool to_server, unsigned slot)
{
    return PEER_BUFFERS + ((to_server ? 0 : PEER_SLOTS) + slot % PEER_SLOTS) * PEER_BUFFER;
}

void memif_peer_put(struct uro_memif_ring *ring, unsigned slot, struct uro_memif_desc desc)
{
    uro_memif_slot_put(&ring->slots[slot % PEER_SLOTS], desc);
}

struct memif_peer memif_peer_make(void)
{
    struct memif_peer peer = { .control = -1,
                               .wakes_server = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                               .wakes_client = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };

    memif_peer_map(&peer, memif_peer_file(PEER_MEMORY, F_SEAL_SHRINK), PEER_MEMORY);
    peer.to_server = (void *)(peer.base + PEER_TO_SERVER);
    peer.to_client = (void *)(peer.base + PEER_TO_CLIENT);
    peer.to_server->cookie = peer.to_client->cookie = URO_MEMIF_COOKIE;
    atomic_store(&peer.to_client->flags, URO_MEMIF_NO_INTERRUPT);
    for (unsigned i = 0; i < PEER_SLOTS; i++)
        memif_peer_put(peer.to_client, i,
                       (struct uro_memif_desc){ .length = PEER_BUFFER,
                                                .offset = memif_peer_buffer(false, i) });
    atomic_store(&peer.to_client->head, PEER_SLOTS);
    return peer;
}

static void close_if(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

void memif_peer_drop(struct memif_peer *peer)
{
    if (peer->base != NULL)
        (void)munmap(peer->base, peer->size);
    close_if(peer->control);
    close_if(peer->memory);
    close_if(peer->wakes_server);
    close_if(peer->wakes_client);
    *peer = (struct memif_peer){ -1, -1, NULL, 0, NULL, NULL, -1, -1 };
}
