/* SPDX-License-Identifier: MIT */
/* cores - see cores.h. */
#include "mover/base/cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GROUP_MAX 1024			/* a longer name limits nothing */

/* The line "0::/user.slice/a" names the group of version 2; lines of version 1 have other
 * numbers. */
static bool read_group(const char *membership, char group[GROUP_MAX])
{
	FILE *f = fopen(membership, "re");
	char line[GROUP_MAX];
	bool is_found = false;

	while (f && !is_found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		is_found = strncmp(line, "0::/", 4) == 0 && !strstr(line, "/..");
		if (is_found)
			snprintf(group, GROUP_MAX, "%s", line + 3);
	}
	if (f)
		fclose(f);
	return is_found;
}

/* "max 100000": no limit; "150000 100000": one and a half processors. */
static unsigned read_quota(const char *root, const char *group)
{
	char path[PATH_MAX];
	unsigned long long quota, period, cores = 0;
	FILE *f;

	if (snprintf(path, sizeof(path), "%s%s/cpu.max", root, group) >= (int)sizeof(path))
		return 0;
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%19llu %9llu", &quota, &period) == 2 && quota > 0 && period > 0)
		cores = quota / period + (quota % period != 0);
	fclose(f);
	return cores < UINT_MAX ? (unsigned)cores : UINT_MAX;
}

static unsigned smaller(unsigned a, unsigned b)
{
	return a && (a < b || !b) ? a : b;
}

unsigned fm_cores_quota(const char *membership, const char *root)
{
	char group[GROUP_MAX];
	unsigned least = 0;
	char *end;

	if (!read_group(membership, group))
		return 0;
	/* The limit of each group counts for those below it. */
	do {
		least = smaller(least, read_quota(root, group));
		end = strrchr(group, '/');
		if (end)
			*end = '\0';
	} while (end);
	return least;
}

void fm_cores_join(unsigned online, unsigned allowed, unsigned quota, struct fm_cores *out)
{
	*out = (struct fm_cores){ .online = online ? online : 1, .limit = FM_CORES_ALL };
	out->usable = out->online;
	if (allowed && allowed < out->usable) {
		out->usable = allowed;
		out->limit = FM_CORES_AFFINITY;
	}
	if (quota && quota < out->usable) {
		out->usable = quota;
		out->limit = FM_CORES_CGROUP;
	}
}

void fm_cores_read(struct fm_cores *out)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;
	unsigned allowed =
		sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 0;

	fm_cores_join(online > 0 ? (unsigned)online : 1, allowed,
		      fm_cores_quota("/proc/self/cgroup", "/sys/fs/cgroup"), out);
}
