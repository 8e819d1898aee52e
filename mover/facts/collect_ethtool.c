/* SPDX-License-Identifier: MIT */
/*
 * collect_ethtool - statistics that a driver has no file for: alarms of a card, which stalls on
 * PCIe, has no buffers, or pauses the other end for long. See collect_priv.h.
 *
 * Names are the driver's. Those of mlx5 are in the kernel's documentation.
 */
#include "mover/facts/collect_priv.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATISTICS_MAX 16384u /* a card with many queues has thousands */

static int ask(int fd, const char *interface, void *data)
{
	struct ifreq request = {.ifr_data = data};

	if (strlen(interface) >= sizeof(request.ifr_name))
		return -ENAMETOOLONG;
	strcpy(request.ifr_name, interface);
	return ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
}

/* How many there are. */
static int count_of(int fd, const char *interface)
{
	union {
		struct ethtool_sset_info head;
		uint32_t words[sizeof(struct ethtool_sset_info) / sizeof(uint32_t) + 1];
	} info = {.head = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1u << ETH_SS_STATS}};
	const uint32_t *count = &info.words[sizeof(info.head) / sizeof(uint32_t)];
	int ret = ask(fd, interface, &info);

	if (ret < 0)
		return ret;
	if (info.head.sset_mask == 0 || *count == 0)
		return -EOPNOTSUPP;
	return *count > STATISTICS_MAX ? -E2BIG : (int)*count;
}

static int take_all(int fd, const char *interface, unsigned count, fm_ethtool_take *take, void *ctx)
{
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + count * ETH_GSTRING_LEN);
	struct ethtool_stats *values = calloc(1, sizeof(*values) + count * sizeof(uint64_t));
	char name[ETH_GSTRING_LEN + 1] = "";
	int ret = names && values ? 0 : -ENOMEM;

	if (ret == 0) {
		names->cmd = ETHTOOL_GSTRINGS;
		names->string_set = ETH_SS_STATS;
		names->len = count;
		values->cmd = ETHTOOL_GSTATS;
		values->n_stats = count;
		ret = ask(fd, interface, names);
	}
	if (ret == 0)
		ret = ask(fd, interface, values);
	/* It writes no more than there was room for; another number means other names. */
	if (ret == 0 && (names->len != count || values->n_stats != count))
		ret = -EAGAIN;
	for (unsigned i = 0; ret == 0 && i < count; i++) {
		memcpy(name, names->data + i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
		take(ctx, name, values->data[i]);
	}
	free(names);
	free(values);
	return ret;
}

int fm_collect_ethtool(const char *interface, fm_ethtool_take *take, void *ctx)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -errno;
	ret = count_of(fd, interface);
	if (ret > 0)
		ret = take_all(fd, interface, (unsigned)ret, take, ctx);
	(void)close(fd); /* nothing was sent */
	return ret;
}
