/* SPDX-License-Identifier: MIT */
/*
 * reservation - a device that its target keeps for the one host that writes to it, where the target
 * offers that: a write of any other host fails there, whatever that host believes. Others may read.
 *
 * By the kernel's interface for all block devices that have persistent reservations (linux/pr.h).
 * The key is the beginning of the host's id, so a host finds its own reservation again after a
 * crash, and people see in `nvme resv-report` whose it is. Nothing here takes a reservation away
 * from another host. Needs CAP_SYS_ADMIN. Blocking: for a helper process.
 */
#ifndef FM_NVMETCP_RESERVATION_H
#define FM_NVMETCP_RESERVATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fm_err;

/* host_id: a UUID. Never 0. -EINVAL: it is none. */
int fm_reservation_key(const char *host_id, uint64_t *key, struct fm_err *err);

/*
 * For this host, by an open block device; again and again, it may have it already. 1: it has it; 0:
 * the target does not offer reservations, and nothing is changed. -EBADE: another host has it, err
 * says which, if the target does; -errno.
 */
int fm_reservation_take(int fd, uint64_t key, struct fm_err *err);

/*
 * Whether another host may have had it, and left, since this one had it: the target has forgotten
 * this one's, which it says by that nobody has it, and counts somebody who made himself known
 * since: all that are known are this host only if each has its key, and its id where one is said.
 * 1; 0: none had it, or the target does not tell; -errno: it could not be asked.
 */
int fm_reservation_is_missed(int fd, uint64_t key, const char *host_id, struct fm_err *err);

/* Given back, and this host is no longer known by its key. A success where there was none. */
int fm_reservation_release(int fd, uint64_t key, struct fm_err *err);

/* ---- for tests ---- */

enum fm_reservation_status {
	FM_RESERVATION_OK,
	FM_RESERVATION_CONFLICT,	/* with what another host has */
	FM_RESERVATION_NOT_OFFERED,
	FM_RESERVATION_NO_PATH,		/* the target was not reached; try again */
	FM_RESERVATION_FAILED,
};

/*
 * The meaning of what an IOC_PR_* ioctl() returned, or of -errno. Kernels before 6.3 return the
 * status of the device itself.
 */
enum fm_reservation_status fm_reservation_status(int ret);

/* The host id of who has it, from an NVMe reservation report (extended data structure). false:
 * nobody, or it is cut; out is "" then. */
#define FM_RESERVATION_HOLDER_MAX 37
bool fm_reservation_holder(const uint8_t *report, size_t len,
			   char out[static FM_RESERVATION_HOLDER_MAX]);

/* The same of fm_reservation_is_missed(). */
bool fm_reservation_tells_missed(const uint8_t *report, size_t len, uint64_t key,
				 const char *host_id);

#endif
