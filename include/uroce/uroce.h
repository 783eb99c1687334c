/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce.h - RDMA devices made in code, in a program that links liburoce.
 *
 * Everything else is plain verbs: ibv_*() of <infiniband/verbs.h> (man 7 rdma_cm, man 3 ibv_open_device and their
 * neighbours) and rdma_*() of <rdma/rdma_cma.h>. The program needs no preloaded library, no environment and no `uroce run`.
 *
 *     cc program.c $(pkg-config --cflags --libs uroce)
 *
 * How it works, and what to watch
 *   - liburoce.so exports every ibv_*() symbol of libibverbs.so.1, with the same symbol versions. The dynamic loader searches
 *     libraries in the order of the link command: liburoce must stand in front of libibverbs, as pkg-config has it:
 *     `-luroce -lrdmacm`, or `-luroce -libverbs -lrdmacm`. uroce_device_add() returns -ELIBACC when another libibverbs
 *     stands in front; ldd shows the order.
 *   - rdma_*() are those of the system's librdmacm, which needs no replacement: its calls of ibv_*() reach liburoce for the
 *     same reason, and its commands to the kernel are answered by liburoce. The system's libibverbs.so.1 may be loaded, too,
 *     because librdmacm names it. None of its functions is called, and real RDMA devices are not visible.
 *   - librdmacm wants to see a device from the first: rdma_create_event_channel() fails with ENODEV before one was added.
 *   - A program that loads liburoce with dlopen() uses RTLD_GLOBAL and loads it before librdmacm.
 *   - Links over UDP, memif, packet sockets and DPDK are plug-ins in the directory uroce/ beside liburoce.so.
 *     UROCE_LIB_DIR names another directory. The link `cable` is built in.
 *   - UROCE_DEVICES and UROCE_CONFIG, when set, configure devices beside those of uroce_device_add().
 *
 * Threads: each function may be called from any thread, unless its comment restricts that.
 * Errors: a function that returns int returns 0 or a negated errno value, and has changed nothing when it failed.
 */
#ifndef UROCE_UROCE_H
#define UROCE_UROCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A buffer of this many bytes, the terminating NUL included, holds every sentence that a function below writes. */
#define UROCE_ERROR_MAX 512

/* Returns the version of the library, such as "0.1.0". */
const char *uroce_version(void);

/* Adds a device. @device describes it as UROCE_DEVICES does (docs/CONFIGURATION.md): NAME:LINK[;key=value]..., for example
 *
 *     uroce0:udp,ip=auto                       over UDP sockets, at the address this machine sends from
 *     left:cable,name=c0;ip=10.0.0.1/24        one end of a cable between two devices of this process
 *
 * ibv_get_device_list() lists the device from now on. Its link is opened when a program creates the first CQ, queue pair or
 * memory region, or binds an rdma_cm identifier. A link that cannot be opened then makes that call fail and prints the reason on stderr.
 *
 * @error: NULL, or a buffer of @size bytes for a sentence that says what is wrong; unchanged on success.
 * Returns 0 or
 *   -EINVAL   @device is NULL, or its description is wrong
 *   -EEXIST   another device has the name
 *   -ENOSPC   there are 64 devices already
 *   -ENOMEM   out of memory
 *   -ELIBACC  the program's ibv_*() calls reach another libibverbs (see above) */
int uroce_device_add(const char *device, char *error, size_t size);

/* Removes a device, as if its network card were unplugged. ibv_get_device_list() does not list it any more. Open contexts get
 * IBV_EVENT_DEVICE_FATAL (man 3 ibv_get_async_event). Identifiers of rdma_cm that are bound to it get
 * RDMA_CM_EVENT_DEVICE_REMOVAL (man 3 rdma_get_cm_event). Contexts and protection domains may stay open, because
 * librdmacm keeps its own for the life of the process: they can only be closed, other calls fail with EIO.
 * Peers of open connections are told; that takes up to 0.4 seconds. A new device may have the name. About 5 KiB of a removed
 * device stay allocated.
 *
 * Threads: no other thread uses the device meanwhile.
 * Returns 0 or
 *   -EINVAL  @name is NULL
 *   -ENODEV  no device has this name
 *   -EBUSY   a queue pair, CQ, SRQ, memory region, memory window or address handle of the device exists
 *   -ENOMEM  out of memory */
int uroce_device_remove(const char *name);

/* Cables
 *
 * The link `cable` joins two devices of one process that give the same name. A test of an RDMA application so fits into one
 * process, which needs no network and no privileges. Each end describes what happens to the frames that it sends:
 *
 *     cable,name=TEXT[,loss=P][,duplicate=P][,reorder=P][,delay_us=N][,seed=N][,plugged=yes|no]
 *
 *   loss       probability that a frame is lost, a decimal fraction from 0 to 1 such as 0.01; also of the next two
 *   duplicate  ... that it arrives twice
 *   reorder    ... that the next frame overtakes it; it waits at most 1 ms for that one
 *   delay_us   microseconds that every frame takes, 0 to 10000000
 *   seed       a number of 32 bits, 1 when not given
 *   plugged    no: the link is down, and every frame is lost
 *
 * The fate of a frame depends on the seed and on the number of frames that this end sent before, on nothing else. Time is
 * real: which packet is the hundredth may differ from run to run. (The engine of uroce/engine.h has virtual time.)
 * A cable holds 1024 frames in each direction; a sender waits while it is full. Its counters are cable_sent, cable_lost,
 * cable_duplicated, cable_reordered and cable_nowhere. */

/* Changes what happens to the frames that @device sends from now on. @faults has the words above without "cable" and name=,
 * such as "loss=0.5,seed=7"; what is not named stays as it is. With seed= the count of frames begins again at 0.
 * @error, @size: as of uroce_device_add().
 * Returns 0 or
 *   -EINVAL  @device or @faults is NULL, or a word is wrong
 *   -ENODEV  the device does not exist, has not been started (see uroce_device_add()), or has another link */
int uroce_cable_set(const char *device, const char *faults, char *error, size_t size);

/* Counters
 *
 * Each device counts what it sends, receives, refuses and repeats. A counter is known by its name, such as "tx_roce"; names
 * that are here stay, and there may be more in a later version. docs/TROUBLESHOOTING.md explains how to read them. */

/* Returns the name of counter number @index, 0, 1, 2 and so on, or NULL when there are no more. */
const char *uroce_counter_name(unsigned index);

/* Returns what that counter counts, for a person, or NULL likewise. */
const char *uroce_counter_text(unsigned index);

/* Writes the counter @counter of the device @device to @value: events since the device was started, 0 before. Waits until the engine of the device
 * is free for a moment.
 * Returns 0 or
 *   -EINVAL  an argument is NULL
 *   -ENODEV  no device has this name
 *   -ENOENT  no counter has this name */
int uroce_device_counter(const char *device, const char *counter, uint64_t *value);

/* Failures */

struct ibv_qp;

/* Returns the reason why @qp failed, a sentence such as "the peer refused the remote key, address range or right"; NULL when
 * it did not fail since it was created or moved to RESET. The first reason stays. A responder can fail without any
 * completion that is not a flush (IBV_WC_WR_FLUSH_ERR): the sentence then is the only trace of the reason. Waits as
 * uroce_device_counter() does.
 * Threads: no other thread destroys @qp meanwhile. */
const char *uroce_qp_failure(struct ibv_qp *qp);

/* Returns the reason behind a completion of which ibv_wc.status is not IBV_WC_SUCCESS: the sentence for its
 * ibv_wc.vendor_err (man 3 ibv_poll_cq). Never NULL. */
const char *uroce_failure_text(uint32_t vendor_err);

#ifdef __cplusplus
}
#endif

#endif
