/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - the devices of a process, for lib/verbs, lib/ucma and programs of uroce: configured
 * devices, their engines, and the threads that run them.
 *
 * A device opens its port in uro_device_start(). Before that, a program may list, open and query
 * the device.
 */
#pragma once

#include "config/device_config.h"
#include "config/fail_rules.h"
#include "engine/engine.h"
#include "engine/port.h"
#include "host/quota.h"

struct uro_device;

/* ---- devices --------------------------------------------------------------- */

/* Returns the devices with a correct configuration, in the order of the configuration, and then the
 * devices of uro_host_add(). The first call prints the errors of the configuration on stderr. The
 * result is NULL-terminated, and is never NULL. Thread: any. */
struct uro_device *const *uro_host_devices(void);

/* Returns the devices of uro_host_devices(), but does not read the configuration. Before another
 * function of this header has read the configuration, there are no devices. */
struct uro_device *const *uro_host_known(void);

/* Adds the device that @text describes in the syntax of UROCE_DEVICES. The device starts at its
 * first use. @where names the source of @text in messages. On failure @problem has a message of at
 * most @size bytes, and no device was added. Returns 0 or
 *   -EINVAL  the description is wrong
 *   -EEXIST  another device has the name
 *   -ENOSPC  URO_CONFIG_DEVICES_MAX devices exist already
 *   -ENOMEM  no memory
 * Thread: any. */
URO_NODISCARD int uro_host_add(const char *where, const char *text, char *problem, size_t size);

/* Removes the device, as if its network card were unplugged. Open contexts get
 * IBV_EVENT_DEVICE_FATAL. Identifiers of rdma_cm get RDMA_CM_EVENT_DEVICE_REMOVAL. After that,
 * programs can only free the remaining objects. Returns 0 or
 *   -ENODEV  no device has this name
 *   -EBUSY   the device has a queue pair, CQ, SRQ, memory region, memory window or address handle
 *   -ENOMEM  no memory
 * Thread: any, while no other thread uses the device. */
URO_NODISCARD int uro_host_remove(const char *name);

/* Returns the device with this name, or NULL. Thread: any. */
struct uro_device *uro_host_find(const char *name);

/* Returns all entries of the configuration, for the commands of `uroce`. An incorrect entry has a
 * text in `problem`. The list is NULL-terminated. */
const struct uro_device_config *const *uro_host_config(void);

/* Returns whether this process is a child that was created without the handlers of fork(). In such
 * a child, any lock may be held for ever by a thread that the child does not have. */
bool uro_host_cloned(void);

/* ---- start and state of a device ------------------------------------------- */

/* Opens the port and builds the engine. Does nothing if the device runs. Returns 0 or
 *   -ENODEV  the port, its faults (impair=) or the capture file cannot be opened, or engines= needs
 *            a broker
 *   -ENOMEM  no memory, file descriptor or thread is left
 *   -EIO     the device is dead, or the system has no random numbers
 * Unless the device is dead, stderr and uro_device_problem() have the reason. A call after a
 * failure tries again. A reason is printed again on stderr only after a different reason. Thread:
 * any. Blocks while the device starts. */
URO_NODISCARD int uro_device_start(struct uro_device *device);
/* Returns whether the device runs. */
bool uro_device_started(const struct uro_device *device);
/* Returns the reason why the last start failed, or "". */
const char *uro_device_problem(const struct uro_device *device);
const struct uro_device_config *uro_device_config(const struct uro_device *device);

/* Returns whether the link is up. Before the device is started, this is the state of the kernel's
 * interface or address, and a link without them counts as up. A link that awaits its peer also
 * counts as up before the peer appears for the first time. */
bool uro_device_link_up(const struct uro_device *device);

/* Returns the largest IP packet that the link carries, in bytes. This is the MTU of the
 * configuration, or the MTU of the running port if that is smaller. rule PORT.MTU */
uint32_t uro_device_mtu(struct uro_device *device);

/* Returns the speed of the port in Mb/s (netdev.h). It is read again when the link comes up. */
uint32_t uro_device_speed(const struct uro_device *device);

/* Returns the kernel's index of the interface that the link names, or 0. */
uint32_t uro_device_interface(const struct uro_device *device);

/* Returns the number of multicast groups that the device can join. The device need not run. */
uint32_t uro_device_groups_max(const struct uro_device *device);

/* Returns whether the interface of the port, or the device, was removed. The device then does
 * nothing more. */
bool uro_device_gone(const struct uro_device *device);

/* Returns whether the program removed the device. Programs may still read the events in its
 * queues. */
bool uro_device_removed(const struct uro_device *device);

/* Returns whether the device is dead: it belongs to the process from which this process was forked
 * (fork.h), or it was removed. Its objects may be freed. Every other call must fail with EIO. Only
 * compares two numbers, because each post and each poll calls it. */
bool uro_device_dead(const struct uro_device *device);

/* Returns 0, or -EIO if the device is dead. Prints the reason for the first dead device of the
 * process. */
URO_NODISCARD int uro_device_refusal(const struct uro_device *device);

/* Returns the device of the parent process that this device replaces after a fork(), else NULL. */
struct uro_device *uro_device_of_parent(const struct uro_device *device);

/* ---- several engines --------------------------------------------------------- */

/* With engines=, a device has several engines, so that threads can use different queue pairs at the
 * same time. Each engine has a struct uro_device of its own, with a port, a lock and a service
 * thread. A function that needs an engine lock works on the engine whose struct is its argument.
 * All engines have the same registered memory.
 *
 * The first engine is the device of uro_host_devices(). It starts and ends the others, and has the
 * connections of rdma_cm and the events of the port. */

/* Returns the next engine of the device, or NULL after the last engine. Thread: any. */
struct uro_device *uro_device_next_engine(const struct uro_device *engine);
/* Returns the first engine of the device. Thread: any. */
struct uro_device *uro_device_first_engine(struct uro_device *engine);
/* Returns the number of engines of the device @device that run. With engines=auto, these may be
 * fewer than its completion vectors. The device must run. Thread: any. */
uint32_t uro_device_engines_running(const struct uro_device *device);
/* Returns the engine that a completion vector chooses. The device must run. Thread: any. */
struct uro_device *uro_device_engine_of_vector(struct uro_device *device, uint32_t vector);
/* Returns a counter of the device @device: the sum over all of its engines, or 0 before the device
 * starts. Takes the lock of each engine. Thread: any. */
uint64_t uro_device_counter(struct uro_device *device, enum uro_counter counter);
/* Returns the index of the engine in its device, from 0. Thread: any. */
uint32_t uro_device_engine_index(const struct uro_device *engine);

/* Take and release the locks of all engines of the device whose first engine is @device. While the
 * caller has the locks, it may change the registered memory, and move an SRQ to another engine. */
void uro_device_lock_all(struct uro_device *device);
void uro_device_unlock_all(struct uro_device *device);

/* ---- the engine ------------------------------------------------------------ */

/* Takes the engine lock. While the caller has the lock, it may use the object functions of
 * lib/core. Hold the lock only briefly, because no frame is sent or received in this time. */
void uro_device_lock(struct uro_device *device);
void uro_device_unlock(struct uro_device *device);
/* Returns the engine. The device must run. */
struct uro_engine *uro_device_engine(struct uro_device *device);
struct uro_shard *uro_device_shard(struct uro_device *device);

/* Returns the monotonic clock in ns. */
uro_time uro_device_now(void);

/* Returns the wall clock, in ns since 1970, at the time @now of uro_device_now(). The caller keeps
 * *@offset between calls, and sets it to 0 before the first call. A call corrects *@offset if the
 * clock was set, or if this call measures the difference of the clocks more exactly. Between two
 * corrections, the results differ by exactly as much as the times @now. */
uint64_t uro_host_wall_time(uro_time now, uint64_t *offset);

/* Runs rounds of limited length in the calling thread, unless another thread runs the engine. Holds
 * a post back if a later call is expected to send it. @posted: called after a post or a change of a
 * queue pair or CQ. Otherwise called by a poll of an empty CQ. */
void uro_device_progress(struct uro_device *device, bool posted);

/* Records that a poll found a completion without running a round. Runs a round if posts were held
 * back, or if no poll has run a round recently. */
void uro_device_polled(struct uro_device *device);

/* Leaves the engine to the service thread, because the program is about to wait for events. Wakes
 * the service thread if frames do not wake it, or if posts are held back. Does nothing while a
 * waiting thread runs the engine. Called by ibv_req_notify_cq, ibv_get_cq_event and
 * rdma_get_cm_event. */
void uro_device_hand_over(struct uro_device *device);

/* ---- calls that fail on purpose --------------------------------------------- */

/* Returns whether the device has fail=. */
bool uro_device_injects(const struct uro_device *device);

/* Counts a call. If the call must fail, returns the rule of fail= that says so, and writes the
 * number of the call to *@count. Otherwise returns NULL. Thread: any. */
const struct uro_inject_rule *uro_device_count_call(struct uro_device *device,
                                                    enum uro_inject_call call, uint32_t *count);

/* ---- events ---------------------------------------------------------------- */

enum uro_port_event {
    URO_PORT_ACTIVE,
    URO_PORT_ERR,
    URO_PORT_SPEED, /* after ACTIVE: the link has another speed than before it went down */
    URO_PORT_GIDS,  /* only from fail=, because the GIDs of a device never change */
    URO_PORT_GONE   /* the interface of the port, or the device, was removed */
};

/* Handlers of the events of engines and ports. lib/verbs installs them once. Rounds call them with
 * the engine lock held, so they may only queue the event and wake a thread. */
struct uro_event_handlers {
    void (*engine_event)(struct uro_device *device, const struct uro_event *event);
    void (*port_event)(struct uro_device *device, enum uro_port_event event);
};
void uro_host_set_event_handlers(const struct uro_event_handlers *handlers);

/* Handlers of the events of connections. lib/ucma installs them. Rounds call conn_event and
 * resolved with the engine lock held. These two handlers may queue the event, wake a thread, and
 * call the functions of cm/conn.h and uro_engine_resolve_end(). */
struct uro_snapshot_id;

struct uro_conn_handlers {
    void (*conn_event)(struct uro_device *device, const struct uro_conn_event *event);
    void (*resolved)(struct uro_device *device, struct uro_resolve *resolve);
    /* Called without the engine lock after the interface or the device was removed. */
    void (*removed)(struct uro_device *device);
    /* Copies the identifiers of the device to @rows, at most @capacity of them. Only counts them if
     * @rows is NULL. Returns the number of identifiers, or -EAGAIN if another thread changes them
     * now. */
    int (*list)(const struct uro_device *device, struct uro_snapshot_id *rows, uint32_t capacity);
};
void uro_host_set_conn_handlers(const struct uro_conn_handlers *handlers);

/* ---- refused calls ---------------------------------------------------------- */

/* Records and prints that the call @call was refused with the errno @error. @probe: a call by which
 * correct programs find out what the device supports. Only log=all prints probes; without log=all
 * and like= they are not recorded either. Thread: any. */
void uro_log_refusal(struct uro_device *device, bool probe, int error, const char *call,
                     const char *text);

/* Records that the operation which @call started has failed with the errno @error. Prints it only
 * with log=all, or if @print. Thread: any. */
void uro_log_late_failure(struct uro_device *device, bool print, int error, const char *call,
                          const char *text);

/* ---- requests to the port, with the engine lock held -------------------------- */

/* Locks a service for which this process listens. Returns 0. Returns -EADDRINUSE if another process
 * listens for the service at that address. Returns another -errno if the lock cannot be taken. */
URO_NODISCARD int uro_device_lock_service(struct uro_device *device,
                                          const struct uro_listened *service);
/* Releases the lock. */
void uro_device_unlock_service(struct uro_device *device, const struct uro_listened *service);

/* Returns the largest IP packet that the route from @from, an address of the device, to @to
 * carries, in bytes. Returns 0 if it is unknown. The value may exceed the MTU of the link. */
uint32_t uro_device_route_mtu(struct uro_device *device, const struct uro_gid *from,
                              const struct uro_gid *to);

/* Prints a warning, once for the device, if the kernel's route from the GID number @from to @to
 * carries no packets with @payload bytes, the path MTU of a queue pair. */
void uro_device_check_path(struct uro_device *device, uint32_t from, const struct uro_gid *to,
                           uint32_t payload);
