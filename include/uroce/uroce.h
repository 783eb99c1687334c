/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce.h - adds RDMA devices in a program that links liburoce.
 *
 * Everything else is plain verbs: ibv_*() of <infiniband/verbs.h> (man 3 ibv_open_device) and
 * rdma_*() of <rdma/rdma_cma.h> (man 7 rdma_cm). The program needs no preloaded library, no
 * environment and no `uroce run`.
 *
 *     cc program.c $(pkg-config --cflags --libs uroce)
 *
 * How liburoce takes the place of libibverbs
 *   - liburoce.so exports every ibv_*() symbol of libibverbs.so.1, with the same symbol versions.
 *     The dynamic loader searches libraries in the order of the link command: liburoce must be in
 *     front of libibverbs. pkg-config prints `-luroce -lrdmacm`. A program that also links
 *     libibverbs uses `-luroce -libverbs -lrdmacm`. uroce_device_add() returns -ELIBACC when
 *     libibverbs is in front; ldd shows the order.
 *   - The program uses the librdmacm of the system. Its calls of ibv_*() reach liburoce for the
 *     same reason, and liburoce handles its commands to the kernel. The loader may also load the
 *     system's libibverbs.so.1, on which librdmacm depends. The program calls none of its functions
 *     and sees no real RDMA devices.
 *   - Add a device before the first rdma_*() call: rdma_create_event_channel() fails with ENODEV
 *     while there is no device.
 *   - A program that loads liburoce with dlopen() uses RTLD_GLOBAL and loads it before librdmacm.
 *   - Links over UDP, memif, packet sockets and DPDK are plug-ins in the directory uroce/ beside
 *     liburoce.so. UROCE_LIB_DIR names another directory. The link `cable` is built in.
 *   - UROCE_DEVICES and UROCE_CONFIG, when set, add devices to those of uroce_device_add().
 *
 * Threads: each function may be called from any thread, unless its comment restricts that.
 * Errors: a function that returns int returns 0 or a negated errno value. A function that fails
 * changes nothing.
 */
#ifndef UROCE_UROCE_H
#define UROCE_UROCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Size of a buffer in bytes that holds every error message of the functions below, with the
 * terminating NUL. */
#define UROCE_ERROR_MAX 512

/* Returns the version of the library, such as "0.1.0". */
const char *uroce_version(void);

/* Adds a device. @device describes it as UROCE_DEVICES does (docs/CONFIGURATION.md):
 * NAME:LINK[;key=value]..., for example
 *
 *     uroce0:udp,ip=auto                  over UDP sockets, at the address this machine sends from
 *     left:cable,name=c0;ip=10.0.0.1/24   one end of a cable between two devices of this process
 *
 * ibv_get_device_list() lists the device from now on. liburoce opens the link when the program
 * creates the first CQ, queue pair, SRQ, memory region, memory window or address handle, or first
 * calls rdma_listen() or rdma_resolve_addr(). If the link cannot be opened, that call fails and
 * stderr says why.
 *
 * @error: NULL, or a buffer of @size bytes for the error message; unchanged on success.
 * Returns 0 or
 *   -EINVAL   @device is NULL, or its description is wrong
 *   -EEXIST   another device has the name
 *   -ENOSPC   there are 64 devices already
 *   -ENOMEM   out of memory
 *   -ELIBACC  the program's ibv_*() calls reach another libibverbs (see above) */
int uroce_device_add(const char *device, char *error, size_t size);

/* Removes a device, as if its network card were unplugged. ibv_get_device_list() does not list it
 * any more. Open contexts get IBV_EVENT_DEVICE_FATAL (man 3 ibv_get_async_event). Identifiers of
 * rdma_cm that are bound to it get RDMA_CM_EVENT_DEVICE_REMOVAL (man 3 rdma_get_cm_event). Contexts
 * and protection domains may stay open, because librdmacm keeps its own until the process ends.
 * They can only be closed, and their events read: other calls fail with EIO. liburoce sends a
 * disconnect request to the peers of open connections, which takes up to 0.4 seconds. A new device
 * may have the same name. About 5 KiB of a removed device stay allocated.
 *
 * Threads: no other thread uses the device meanwhile.
 * Returns 0 or
 *   -EINVAL  @name is NULL
 *   -ENODEV  no device has this name
 *   -EBUSY   a queue pair, CQ, SRQ, memory region, memory window or address handle of the device
 *            exists
 *   -ENOMEM  out of memory */
int uroce_device_remove(const char *name);

/* Cables
 *
 * The link `cable` joins the two devices of one process whose descriptions have the same name=. A
 * test of an RDMA application then needs one process, no network and no privileges. The description
 * of each device sets the faults of the frames that it sends:
 *
 *     cable,name=TEXT[,loss=P][,duplicate=P][,reorder=P][,delay_us=N][,seed=N][,plugged=yes|no]
 *
 *   loss       probability that a frame is lost, a decimal fraction from 0 to 1 such as 0.01
 *   duplicate  probability that a frame arrives twice
 *   reorder    probability that a frame is held back until the next frame has passed it, for at
 *              most 1 ms
 *   delay_us   one-way delay of every frame in microseconds, 0 to 10000000
 *   seed       seed of the faults, 32 bits; 1 by default
 *   plugged    no: the link is down, and every frame is lost
 *
 * The faults of a frame depend only on the seed and on the number of frames that this end sent
 * before. Time is real, so the hundredth frame may be a different packet in each run. (The engine
 * of uroce/engine.h has virtual time.) A cable holds 1024 frames in each direction; a sender waits
 * while the cable is full. The counters of a cable are cable_sent, cable_lost, cable_duplicated,
 * cable_reordered and cable_nowhere. */

/* Changes the faults of the frames that @device sends from now on. @faults has options as above
 * without "cable" and name=, such as "loss=0.5,seed=7". Other options keep their values. With seed=
 * the count of frames restarts at 0. @error, @size: as for uroce_device_add(). Returns 0 or
 *   -EINVAL  @device or @faults is NULL, or an option is wrong
 *   -ENODEV  the device does not exist, its link is not open yet, or its link is not a cable */
int uroce_cable_set(const char *device, const char *faults, char *error, size_t size);

/* Counters
 *
 * Each device counts the packets that it sends, receives, drops and retransmits. Each counter has a
 * name, such as "tx_roce". Later versions may add names, but do not change any.
 * uroce_counter_text() describes each counter. */

/* Returns the name of counter number @index, 0, 1, 2 and so on, or NULL when there are no more. */
const char *uroce_counter_name(unsigned index);

/* Returns a description of counter number @index, or NULL when there are no more. */
const char *uroce_counter_text(unsigned index);

/* Writes the counter @counter of the device @device to @value. The counter is 0 until the device
 * starts. Waits for the engine lock of the device. Returns 0 or
 *   -EINVAL  an argument is NULL
 *   -ENODEV  no device has this name
 *   -ENOENT  no counter has this name */
int uroce_device_counter(const char *device, const char *counter, uint64_t *value);

/* Failures */

struct ibv_qp;

/* Returns the first reason why @qp failed, such as "the peer refused the remote key, address range
 * or right". Returns NULL if @qp has not failed since its creation or its last RESET. When a
 * responder fails, all its completions may be flushed (IBV_WC_WR_FLUSH_ERR). Only this function
 * then returns the reason. Waits for the engine lock of the device.
 * Threads: no other thread destroys @qp meanwhile. */
const char *uroce_qp_failure(struct ibv_qp *qp);

/* Returns the reason of a failed completion: the message for its ibv_wc.vendor_err (man 3
 * ibv_poll_cq). Never returns NULL. */
const char *uroce_failure_text(uint32_t vendor_err);

#ifdef __cplusplus
}
#endif

#endif
