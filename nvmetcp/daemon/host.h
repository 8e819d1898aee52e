/* SPDX-License-Identifier: MIT */
/*
 * host - who this node is for targets: an NQN and a UUID, as a pair that belongs together. May
 * block on files.
 */
#ifndef FM_NVMETCP_DAEMON_HOST_H
#define FM_NVMETCP_DAEMON_HOST_H

struct fm_config_nvme;
struct fm_err;

struct fm_host {
	char nqn[224];
	char id[37];
};

/*
 * The name is the configuration's, else the file's; the UUID is the configuration's, else the one
 * in the name, else the file's. -EINVAL, -ENOENT with what to do: one is missing, or the UUID is
 * not that of the name: newer kernels refuse one name with two UUIDs.
 */
int fm_host_read(const struct fm_config_nvme *cfg, struct fm_host *out, struct fm_err *err);

#endif
