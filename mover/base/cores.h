/* SPDX-License-Identifier: MIT */
/*
 * cores - how many processors this process may use: what the machine has, less what its affinity
 * and its control group take away. A container sees all of the machine's processors and may use a
 * few of them.
 */
#ifndef FM_BASE_CORES_H
#define FM_BASE_CORES_H

enum fm_cores_limit { FM_CORES_ALL, FM_CORES_AFFINITY, FM_CORES_CGROUP };

struct fm_cores {
	unsigned online;		/* of the machine, at least 1 */
	unsigned usable;		/* 1 .. online */
	enum fm_cores_limit limit;	/* what makes them fewer */
};

/* What cannot be found out limits nothing. */
void fm_cores_read(struct fm_cores *out);

/*
 * What cpu.max of a control group (version 2) and of those above it allows, in processors, rounded
 * up; 0: no limit. `membership` is /proc/self/cgroup or a file like it, `root` where the groups are
 * mounted. Names of groups that lead out of root are not followed.
 */
unsigned fm_cores_quota(const char *membership, const char *root);

/* The three put together; allowed and quota are 0 where nothing is known. */
void fm_cores_join(unsigned online, unsigned allowed, unsigned quota, struct fm_cores *out);

#endif
