/* SPDX-License-Identifier: BSD-3-Clause */
/* xrcd.c - opens XRC domains: new domains, or the domain of an inode. See man ibv_open_xrcd.
 *
 * Processes do not share domains, since a queue pair of uroce belongs to one process.
 */
#include "verbs/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/card.h"
#include "verbs/fork.h"
#include "verbs/inject.h"
#include "verbs/refusal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all variables of this file */
static struct uro_list named = { { &named.head, &named.head } }; /* domains with an inode */
static uint32_t last_number;

void uro_ibv_xrcds_lock(void)
{
    pthread_mutex_lock(&lock);
}

void uro_ibv_xrcds_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* Finds the domain of the inode. Returns NULL if there is none. */
static struct uro_ibv_domain *find(const struct uro_device *device, const struct stat *inode)
{
    for (struct uro_link *link = named.head.next; link != &named.head; link = link->next) {
        struct uro_ibv_domain *domain = URO_CONTAINER_OF(link, struct uro_ibv_domain, link);
        if (domain->device == device && domain->inode_device == inode->st_dev &&
            domain->inode_number == inode->st_ino)
            return domain;
    }
    return NULL;
}

/* Creates a domain without an inode. Returns NULL with errno on failure. */
static struct uro_ibv_domain *make(struct ibv_context *context)
{
    struct uro_ibv_domain *domain = uro_ibv_new(context, sizeof *domain);

    if (domain == NULL)
        return NULL;
    domain->device = uro_ibv_host(context);
    domain->inode = -1;
    domain->number = ++last_number;
    uro_list_init(&domain->targets);
    return domain;
}

static void drop(struct uro_ibv_domain *domain)
{
    if (--domain->references > 0)
        return;
    uro_list_remove(&domain->link);
    if (domain->inode >= 0)
        close(domain->inode);
    free(domain);
}

/* Finds or creates the domain that the attributes name. Returns NULL with errno on failure. The
 * errors are those of the kernel. */
static struct uro_ibv_domain *obtain(struct ibv_context *context, int fd, int flags)
{
    struct stat inode;

    if (fd == -1)
        return make(context);
    if (fstat(fd, &inode) != 0)
        return NULL;
    struct uro_ibv_domain *domain = find(uro_ibv_host(context), &inode);
    if (domain != NULL && (flags & O_EXCL)) {
        errno = EINVAL;
        return NULL;
    }
    if (domain != NULL)
        return domain;
    if (!(flags & O_CREAT)) {
        errno = EAGAIN;
        return NULL;
    }
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return NULL;
    domain = make(context);
    if (domain == NULL) {
        close(copy);
        return NULL;
    }
    domain->inode = copy;
    domain->inode_device = inode.st_dev;
    domain->inode_number = inode.st_ino;
    uro_list_append(&named, &domain->link);
    return domain;
}

struct ibv_xrcd *uro_ibv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
    const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;

    if (uro_inject(context, URO_INJECT_CALL_OPEN_XRCD) != 0)
        return NULL;
    if (uro_card_lacks(uro_ibv_host(context), URO_CARD_NO_XRC, "ibv_open_xrcd"))
        return NULL;
    if (attr->comp_mask != needed) {
        errno = uro_refuse_xrcd(context, attr, attr->comp_mask & ~needed ? EOPNOTSUPP : EINVAL);
        return NULL;
    }
    struct uro_ibv_xrcd *xrcd = uro_ibv_new(context, sizeof *xrcd);
    if (xrcd == NULL)
        return NULL;
    pthread_mutex_lock(&lock);
    xrcd->domain = obtain(context, attr->fd, attr->oflags);
    if (xrcd->domain != NULL)
        xrcd->domain->references++;
    pthread_mutex_unlock(&lock);
    if (xrcd->domain == NULL) {
        free(xrcd);
        errno = uro_refuse_xrcd(context, attr, errno);
        return NULL;
    }
    xrcd->ibv.context = context;
    uro_object_add(&xrcd->object, context, NULL);
    return &xrcd->ibv;
}

int uro_ibv_close_xrcd(struct ibv_xrcd *ibv)
{
    struct uro_ibv_xrcd *xrcd = uro_ibv_xrcd(ibv);

    const unsigned users = atomic_load(&xrcd->users);
    if (users != 0)
        return uro_refuse_busy(xrcd->object.device, "ibv_close_xrcd", "XRC domain", users,
                               "SRQs or queue pairs");
    uro_object_remove(&xrcd->object);
    if (!uro_host_cloned()) { /* a thread of the parent may hold the lock for ever */
        pthread_mutex_lock(&lock);
        drop(xrcd->domain);
        pthread_mutex_unlock(&lock);
    }
    free(xrcd);
    return 0;
}
