/* SPDX-License-Identifier: MIT */
/*
 * helper_calls - what a helper process can do. Each call reads its request strictly (an unknown key
 * is an error), works, and fills the answer; 0 or a negative errno with one line. Private to
 * helper*.c; a helper has one thread.
 *
 * A device is named by its path and, as "rdev", by [major, minor]: a name may mean another device
 * by the time it is used. It is opened first and its number compared, and held open until the end:
 * as long as it is open the kernel gives neither name nor number to another.
 */
#ifndef FM_NVMETCP_HELPER_CALLS_H
#define FM_NVMETCP_HELPER_CALLS_H

#include <stdbool.h>
#include <sys/types.h>

#include "mover/base/json.h"


struct fm_err;

/*
 * "connect": {"subsystem", "address", "port", "host_nqn", "host_id", ["host_address",
 * "host_interface", "queues", "queue_size", "keep_alive_s", "reconnect_delay_s", "ctrl_loss_s",
 * "fast_io_fail_s", "header_digest", "data_digest", "tls", "secret_file",
 * "controller_secret_file"]} answers {"controller", "cntlid", "was_there"}; an error answers
 * {"trouble"}, a word of connection.h. Secrets are read by the helper and go from there into the
 * kernel: no message, argument or environment has them.
 */
int fm_helper_connect(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "discover": as "connect", without a subsystem. Answers {"entries": [{"subsystem", "address",
 * "port", "family", "secure"}], "left_out", "cut"}. The discovery controller that it makes is
 * removed before it answers; an error answers {"left"} if that went wrong.
 */
int fm_helper_discover(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "resolve": {"host"} answers {"addresses": [...]}, each once, as fm_connection_address() writes
 * them, in the resolver's order. -ENOENT: there is no such name; -EAGAIN: nobody could be asked.
 */
int fm_helper_resolve(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "disconnect": {"controller", "subsystem", "wait_ms", ["unused"]} answers {}. See
 * fm_connection_close(). unused:
 * [{"device", "rdev"}]: -EBUSY if one of these is in use, by a file system for instance that is not
 * mounted any more but still being written out.
 */
int fm_helper_disconnect(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "probe": {"device", ["rdev", "wwid"]} reads the first FM_SUPERBLOCK_BYTES from the device itself,
 * not from the page cache. Answers {"superblock": BASE64, "rdev", "size", "read_only", "wwid",
 * "uuid", "nguid", "nsid"}. -ESTALE: the device is another one.
 */
int fm_helper_probe(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/* "xfs_state": {"device", ["rdev"]} answers {"clean": bool}, as xfs_logprint says. -ENOENT: it is
 * not installed. */
int fm_helper_xfs_state(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "prepare": {"device", "rdev", "point", ["wwid", "read_only_device", "xfs", "target"]}: what is
 * done before a mount. The point is a directory, empty, no mount point, without a symbolic link on
 * the way there. -EBUSY: the device is mounted, or somebody has it for himself, in whatever mount
 * namespace; nobody else can have it while this works. What the page cache has of it is dropped.
 * read_only_device: sets it read-only (true) or writable (false). Answers {"set_read_only"}:
 * whether it was writable and is read-only now, and "superblock" as "probe" does, read when all
 * this is done. xfs: it is XFS; answers {"clean"} as "xfs_state" does, unless nobody can say. After
 * an error it is as it was, but for what the target has done.
 *
 * target: {["reserve_as", "write_protect"]}, what the target is asked for, if it offers that.
 * reserve_as: our host id, for which it keeps the namespace; answers {"reserved"}, -EBADE: it keeps
 * it for another host. write_protect: nobody can write to it (true), which answers
 * {"write_protected"} or, if that went wrong, {"unprotected"}, a text; or everybody can again
 * (false).
 */
int fm_helper_prepare(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "keep": {"device", "rdev", "target", ["wwid"]}: "target" of "prepare", of a device that is
 * mounted and whose target may have lost what it kept. One that is to be protected is set read-only
 * here as well. Answers what "prepare" does of that, and {["missed"]}: another host may have had it
 * reserved meanwhile, and left, also with an error; -EBADE as there.
 */
int fm_helper_keep(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "restore": {"device", "rdev", ["read_write_device", "release_as"]}: of a device that was prepared
 * and is not mounted. -EBUSY as above. Answers {}.
 */
int fm_helper_restore(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "mount": {"device", "rdev", "point", "type", "options", ["wwid"]}, after "prepare". Where systemd
 * has a unit for the point that says the same, it is asked to start that. If the device is mounted
 * at the point already, that is a success. Answers {"device", ["unit_unfit"]}: the name that was
 * asked for, and what was wrong with a unit.
 */
int fm_helper_mount(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "unmount": {"point", ["rdev", "force", "lazy", "sync", "keep_unsynced", "shutdown", "device",
 * "device_rdev", "read_write_device", "release_as"]}: what is mounted at the point, if it is of
 * that device (-ESTALE else), by the number that its mount has: for btrfs that is not the device's
 * (device_rdev; the same if it is not said). Nothing mounted there is a success. sync: write out
 * what is dirty first, which can hang. keep_unsynced: what cannot be written out stays mounted,
 * which is the error of that and answers {"sync_error"}; one that comes only after the unmount is
 * in the answer alone; and that nothing was mounted there, so that nobody asked for errors, answers
 * {"not_mounted"}. Without it the unmount goes on. shutdown: instead, have it write nothing any
 * more, though a file is open on it: answers {"shut_down"} or {"still_writes"}, why that is not
 * known to be so, also with -EBUSY. read_write_device: the device, which was set read-only here, is
 * writable afterwards. release_as: our host id, for which the target kept it. Answers
 * {["sync_error", "still_read_only", "still_reserved"]}: texts, what of these went wrong though it
 * is unmounted. -EBUSY: in use. Where systemd has a unit for the point, that is stopped, unless it
 * is unmounted lazily.
 */
int fm_helper_unmount(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/*
 * "unused": {["device", "rdev", "wwid", "unit_of"]}, of what is not mounted any more: whether
 * nothing has the device for itself, in whatever mount namespace and written out or not. -EBUSY:
 * something has. One that the kernel has no more, or whose number is another namespace's (wwid) by
 * now, is unused. Any other error says nothing. unit_of: a mount point; -EBUSY if systemd's unit
 * for it starts or stops, or is to. Answers {}.
 */
int fm_helper_unused(struct fm_json *request, struct fm_json *answer, struct fm_err *err);

/* ------------------------------------------------------------------------------- shared by them */

/*
 * Opens a block device read-only (flags: O_DIRECT and the like beside) and checks what was asked
 * about it. rdev and wwid may be NULL. A descriptor, or -ESTALE, -ENOTBLK, -errno.
 */
int fm_helper_open_device(const char *path, const struct fm_json *rdev, const char *wwid, int flags,
			  struct fm_err *err);

/* Whether nobody has the device for himself: 0, -EBUSY, -errno. One that has gone is unused. */
int fm_helper_check_unused(const char *path, const struct fm_json *rdev, struct fm_err *err);

/*
 * Finds what is mounted at a point, from the table of mounts: the root of a dead file system
 * answers EIO, or never. *dev is 0 if nothing is mounted.
 */
int fm_helper_find_mounted(const char *point, bool *is_mounted, dev_t *dev, struct fm_err *err);

/* A descriptor of a directory as "prepare" wants it; -errno. */
int fm_helper_open_free_point(const char *point, struct fm_err *err);

/*
 * Makes a device writable again, unless somebody still has it (-EBUSY). The write protection of the
 * target stays.
 */
int fm_helper_make_writable(const char *path, const struct fm_json *rdev, struct fm_err *err);

/* The "target" of "prepare", of a device that is nobody else's; NULL: nothing. */
int fm_helper_target_prepare(int device, const struct fm_json *target, struct fm_json *answer,
			     struct fm_err *err);

/* The "target" of "keep"; "missed" is answered with an error, too. */
int fm_helper_target_keep(int device, const struct fm_json *target, struct fm_json *answer,
			  struct fm_err *err);

/* A device that is in use is left alone: -EBUSY. One that was not reserved is a success. */
int fm_helper_target_release(const char *path, const struct fm_json *rdev, const char *host_id,
			     struct fm_err *err);

/* "superblock" and "clean" of "prepare"; fd: of the device, opened with O_DIRECT for the first. */
int fm_helper_put_start(int fd, struct fm_json *answer, struct fm_err *err);
int fm_helper_put_xfs_state(int fd, struct fm_json *answer, struct fm_err *err);

/* "/dev/nvme0n1": the kernel's own name of an open block device, checked to be it. */
int fm_helper_device_name(int fd, char out[static 64], struct fm_err *err);

/* The request's keys by a format of fm_json_unpack(); "call" is no longer among them. What it gives
 * is the request's. -EINVAL. */
int fm_helper_unpack(const struct fm_json *request, struct fm_err *err, const char *format, ...);

/* A number pair for the answer. */
struct fm_json *fm_helper_rdev(dev_t dev);

/* Adds to the answer; -ENOMEM. value is taken over, NULL is no memory. */
int fm_helper_put(struct fm_json *answer, const char *key, struct fm_json *value,
		  struct fm_err *err);

#endif
