/* SPDX-License-Identifier: MIT */
/*
 * plan - from what is wanted and what is present to what is to be done next. One pure function: it
 * reads no clock, no file and remembers nothing, so every situation can be written down as a test.
 *
 * It is asked again after each step and each event, and says at most one step per volume: the first
 * that is missing on the way to the wanted state, or to the absence of it. Backoff is the
 * supervisor's: what failed a moment ago it marks as held, and the plan goes on with what else
 * there is to do. Any thread.
 *
 * A controller is the volume's path if its subsystem, its address and its host NQN are the
 * volume's, whoever made it: one path never gets two. Only owned ones are ever disconnected.
 */
#ifndef FM_NVMETCP_PLAN_H
#define FM_NVMETCP_PLAN_H

#include <stdbool.h>
#include <sys/types.h>

#include "nvmetcp/inventory.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/volume.h"

#define FM_PLAN_WHY_MAX 256

enum fm_plan_want {
	FM_WANT_DOWN,			/* neither mounted nor connected, as far as it is ours */
	FM_WANT_CONNECTED,		/* connected, not mounted */
	FM_WANT_UP,			/* connected, and mounted if it has a mount point */
};

/* A namespace's block device: its number and its name, which may be another's when it is gone. */
struct fm_plan_device {
	dev_t dev;
	char name[32];
};

/* What the supervisor knows of a volume that the kernel does not. */
struct fm_plan_volume {
	const struct fm_volume *volume;
	enum fm_plan_want want;
	const char *host_nqn;
	/* to be mounted read-write: fm_guard_is_writer(), and not sealed */
	bool is_writable;
	/* a controller of it must not be used: why; NULL: all may */
	const char *unfit_why;
	/* what is mounted read-only must be unmounted first: why; NULL: it may stay */
	const char *leave_why;
	/* the same of what is mounted read-write: another host is to write to it */
	const char *taken_why;
	/*
	 * Where it is: the volume's own addresses, whatever the target advertises; with
	 * is_discovered what discovery found. Literal: names are resolved by the caller. None as
	 * long as nothing is known; what was known stays while discovery or names cannot be asked,
	 * because an owned path that is not among them is disconnected.
	 */
	const struct fm_volume_address *address;
	unsigned address_count;
	/* by address: a connect failed a moment ago. NULL: none is held */
	const bool *is_held;
	bool is_mount_held;		/* the same for the mount */
	/*
	 * Names of controllers that we made ("nvme3") and that no other volume needs; others are
	 * used, never removed. A name can be another's by now: it counts only where subsystem and
	 * host NQN are the volume's.
	 */
	const char (*owned)[32];
	unsigned owned_count;
	/*
	 * Devices that were seen to be the volume's, and are not known to be free since. What is
	 * mounted of one that is gone is unmounted; of any other that is gone it is somebody's.
	 */
	const struct fm_plan_device *had;
	unsigned had_count;
};

enum fm_plan_step {
	FM_STEP_NONE,			/* as wanted */
	/* the kernel is at it: connecting, deleting, namespaces not there yet */
	FM_STEP_WAIT,
	FM_STEP_CONNECT,		/* `address`, a path that is missing */
	FM_STEP_MOUNT,			/* `ns` */
	/* the topmost mount at volume->mount_point: of the volume, or of a device of it that is
	 * gone */
	FM_STEP_UNMOUNT,
	FM_STEP_DISCONNECT,		/* `controller` */
	/* `why`: nothing can be done until somebody changes something */
	FM_STEP_REFUSE,
};

struct fm_plan {
	enum fm_plan_step step;
	int address;			/* index; -1: none */
	int controller;			/* index into the inventory; -1: none */
	/* Live paths behind which the kernel has nothing that may be the volume: it is not there,
	 * or was missed. */
	int blind[FM_VOLUME_PATHS_MAX];	/* indexes into the inventory */
	unsigned blind_count;
	/* index into the inventory, the volume's namespace if it is there; -1: none */
	int ns;
	/* of the addresses, those with a controller in state live */
	unsigned paths_live;
	unsigned paths_wanted;
	bool is_mounted;		/* the right namespace at the right place */
	bool is_read_write;		/* that mount */
	char why[FM_PLAN_WHY_MAX];	/* one line: what is waited for, or what is wrong */
};

/*
 * mounts must have been read before inv: what is mounted then and has no device is gone, not new.
 */
void fm_plan_make(const struct fm_plan_volume *pv, const struct fm_inventory *inv,
		  const struct fm_mounts *mounts, struct fm_plan *plan);

#endif
