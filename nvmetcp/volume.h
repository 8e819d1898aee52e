/* SPDX-License-Identifier: MIT */
/*
 * volume - what one shared volume is wanted to be: plain options, made of the configuration and
 * never changed after.
 *
 * A volume is one namespace of one NVMe-TCP subsystem, with the file system on it. Strings are the
 * owner's and outlive whoever is handed a volume; "" means "not said". Any thread.
 */
#ifndef FM_NVMETCP_VOLUME_H
#define FM_NVMETCP_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#define FM_VOLUME_NAME_MAX 64
/* bytes; NVM Express Base Specification, "NVMe Qualified Names" */
#define FM_VOLUME_NQN_MAX 223
#define FM_VOLUME_PATHS_MAX 8		/* addresses of one volume */
#define FM_VOLUMES_MAX 256
#define FM_VOLUME_NODES_MAX 64

/*
 * Which nodes may write. The configuration alone decides, so that a split network does not make two
 * writers. What other nodes say can only refuse.
 */
enum fm_volume_mode {
	FM_VOLUME_EXCLUSIVE,		/* one node has it, read-write: `writer` */
	FM_VOLUME_READ_ONLY,		/* nobody writes */
	/* `writer` writes and seals, the others read what is sealed */
	FM_VOLUME_SHARED_READ,
};

/* Seconds that stand for "never": a kernel's -1. */
#define FM_VOLUME_NEVER (-1)

struct fm_volume_address {
	const char *host;		/* a literal IPv4 or IPv6 address, or a name */
	const char *port;		/* decimal */
};

struct fm_volume {
	/* a file name and a unit's instance: letters, digits, '.', '_', '-' */
	const char *name;

	/* Where it is. */
	/* NQN, or whatever the target calls it: RouterOS uses the name of a slot */
	const char *subsystem;
	struct fm_volume_address address[FM_VOLUME_PATHS_MAX];
	unsigned address_count;		/* 1 and more */
	/* the addresses are of discovery controllers, which are asked for the real ones */
	bool is_discovered;
	const char *host_address;	/* source address of the connections */
	const char *host_interface;

	/* How it is reached. */
	unsigned queues;		/* I/O queues; 0: as many as cores, 8 at most */
	unsigned queue_size;		/* entries; 0: the kernel's default */
	int keep_alive_s;
	int reconnect_delay_s;
	int ctrl_loss_s;		/* or FM_VOLUME_NEVER */
	int fast_io_fail_s;		/* or FM_VOLUME_NEVER: off */
	bool has_header_digest, has_data_digest;
	const char *secret_file;	/* DH-HMAC-CHAP, of this host */
	const char *controller_secret_file;	/* and what the controller must know */
	bool has_tls;
	const char *iopolicy;		/* "numa", "round-robin", "queue-depth" */

	/* Which namespace it must be. With neither nsid nor uuid nor nguid: the only one that there
	 * is. */
	uint32_t nsid;			/* 0: not said */
	const char *uuid;		/* as sysfs writes it, lower case */
	/* as sysfs writes it, lower case, with or without hyphens */
	const char *nguid;

	/* The file system; without a mount point it is only connected. */
	const char *mount_point;	/* absolute */
	const char *fs_type;		/* "ext4", "xfs", ...; "": what is there */
	const char *mount_options;	/* of mount(8), comma-separated, without ro and rw */
	enum fm_volume_mode mode;
	/* node name; "" only with FM_VOLUME_READ_ONLY or without a mount point */
	const char *writer;
	bool has_nodes;			/* only `node` are waited for; else every peer */
	/* names of those that reach it; this one among them or not */
	const char *node[FM_VOLUME_NODES_MAX];
	unsigned node_count;
};

#endif
