/* SPDX-License-Identifier: MIT */
/*
 * inventory - what NVMe the kernel has at this moment: controllers, subsystems, namespaces, paths,
 * as sysfs says it.
 *
 * Identity comes from here and from nowhere else: several versions of libnvme return wrong UUIDs
 * and NGUIDs. A snapshot is plain data, owned by who took it. Things come and go while it is taken:
 * what has vanished in between is left out, what is not filled in yet has empty strings (an
 * attribute may follow its directory by a second). A value that is too long for its field is ""
 * too: half an identity is a wrong one. Control bytes in a string are '?'; beyond that, names are
 * what the target sent. Blocking only as sysfs is: no attribute is read that asks the controller.
 * Any thread.
 */
#ifndef FM_NVMETCP_INVENTORY_H
#define FM_NVMETCP_INVENTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fm_err;

#define FM_INVENTORY_CONTROLLERS_MAX 1024
#define FM_INVENTORY_SUBSYSTEMS_MAX 1024
#define FM_INVENTORY_NAMESPACES_MAX 4096

/* A kernel's "off" or "-1" in a time; what could not be read, of these and of the counts. */
#define FM_INVENTORY_OFF (-1)
#define FM_INVENTORY_UNKNOWN (-2)

struct fm_inv_controller {
	char name[32];			/* "nvme1" */
	/* of the object in /sys; another one that gets this name has another. 0: not known */
	uint64_t id;
	/* the kernel's word: live, connecting, resetting, deleting, dead, new */
	char state[32];
	char transport[16];		/* "tcp", "pcie", ... */
	char subsysnqn[256];
	char hostnqn[256];
	/* where it connects to; "" where there is no such thing, as with PCIe */
	char traddr[64];
	char trsvcid[16];
	int cntlid;			/* 65535 before the first connect has ended */
	int subsystem;			/* index into subsystems; -1: none */
};

/*
 * The options that a controller was made with. They are shown to users, so they are not read with
 * each snapshot. FM_INVENTORY_UNKNOWN: the kernel does not say. No kernel says anything about
 * digests.
 */
struct fm_inv_settings {
	int queue_count;		/* the admin queue included */
	int keep_alive_s;
	int reconnect_delay_s;
	int ctrl_loss_s;
	int fast_io_fail_s;
	/* DH-HMAC-CHAP: this host proves itself, and the target in turn */
	bool has_secret, has_controller_secret;
	bool has_tls;
};

struct fm_inv_subsystem {
	char name[32];			/* "nvme-subsys0" */
	char nqn[256];
	char iopolicy[32];
};

struct fm_inv_path {
	int controller;			/* index into controllers */
	char ana_state[32];		/* "optimized", ...; "" where the target has none */
};

#define FM_INV_PATHS_MAX 16

#define FM_INV_PARTS_MAX 16

struct fm_inv_namespace {
	char name[32];			/* the block device: "nvme0n1" */
	uint32_t nsid;
	/* "uuid.…", "eui.…" or "nvme.…": what /dev/disk/by-id/nvme-WWID is made of */
	char wwid[160];
	char uuid[64];			/* lower case with hyphens, "" if it has none or all is 0 */
	/* 32 hexadecimal digits, lower case, no hyphens; "" if it has none or all are 0 */
	char nguid[64];
	uint64_t size_bytes;
	bool is_read_only;
	dev_t dev;			/* 0: no device node yet */
	int subsystem;			/* index into subsystems; -1: none */
	struct fm_inv_path path[FM_INV_PATHS_MAX];
	unsigned path_count;		/* 1 without native multipath */
	dev_t part[FM_INV_PARTS_MAX];	/* its partitions */
	unsigned part_count;
	/*
	 * A device that LVM, RAID or the like has made of it or of one of its partitions: "dm-0";
	 * "": none. For partitions beyond FM_INV_PARTS_MAX this is not known.
	 */
	char holder[32];
	/*
	 * multipathd's device of it, "" if it has none: the same namespace once more, and a part.
	 * As long as nothing is made of that one, it is no holder; what has it keeps others from
	 * opening the namespace exclusively.
	 */
	char mapper[32];
	dev_t mapper_dev;
};

struct fm_inventory {
	struct fm_inv_controller *controllers;
	unsigned controller_count;
	struct fm_inv_subsystem *subsystems;
	unsigned subsystem_count;
	struct fm_inv_namespace *namespaces;
	unsigned namespace_count;
	bool is_cut;			/* there was more than the limits above */
};

/*
 * root: "" or "/" for this machine's /sys, else a directory that has a sys/ below. A machine
 * without NVMe has an empty inventory, which is no error. -ENOMEM, or -errno of a /sys that cannot
 * be read.
 */
int fm_inventory_read(const char *root, struct fm_inventory **out, struct fm_err *err);

/* Of the controller with that name, as they are now; nothing is known of one that has gone. */
void fm_inventory_settings(const char *root, const char *controller, struct fm_inv_settings *out);

/* NULL is allowed. */
void fm_inventory_free(struct fm_inventory *inv);

/* Whether that controller, an index into the inventory, is a path to it. */
bool fm_inventory_is_path(const struct fm_inv_namespace *ns, int controller);

/* Whether writes can reach the target: it has a path whose controller is live. */
bool fm_inventory_is_live(const struct fm_inventory *inv, const struct fm_inv_namespace *ns);

/*
 * The same for one block device that is open: who it really is, by /sys/dev/block. Right before a
 * mount; a name may mean another device by now. Subsystem, paths, partitions and holder are not
 * filled in (-1, 0). -ENODEV if it is no NVMe namespace or has gone; a partition is none.
 */
int fm_inventory_identify(const char *root, dev_t dev, struct fm_inv_namespace *out,
			  struct fm_err *err);

#endif
