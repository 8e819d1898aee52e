/* SPDX-License-Identifier: MIT */
/* addr - see addr.h. */
#include "mover/transport/addr.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/network.h"
#include "mover/transport/rdma.h"

#define SYSFS_VALUE_MAX (INT32_MAX / 2)
#define SYSFS_PATH_MAX 320		/* a name in it is at most NAME_MAX long */
#define LOWER_DEPTH_MAX 8		/* the kernel stacks no more interfaces on each other */

/* ---- one address ---- */

static const struct sockaddr_in *as_in(const struct sockaddr_storage *sa)
{
	return (const struct sockaddr_in *)(const void *)sa;
}

static const struct sockaddr_in6 *as_in6(const struct sockaddr_storage *sa)
{
	return (const struct sockaddr_in6 *)(const void *)sa;
}

void fm_addr_text(const struct sockaddr_storage *sa, char out[FM_ADDR_TEXT_MAX])
{
	char ip[INET6_ADDRSTRLEN] = "?";
	char name[IF_NAMESIZE] = "";
	uint32_t scope;

	if (sa->ss_family == AF_INET) {
		inet_ntop(AF_INET, &as_in(sa)->sin_addr, ip, sizeof(ip));
	} else if (sa->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &as_in6(sa)->sin6_addr, ip, sizeof(ip));
		scope = as_in6(sa)->sin6_scope_id;
		if (scope && !if_indextoname(scope, name))
			snprintf(name, sizeof(name), "%u", scope);
	}
	snprintf(out, FM_ADDR_TEXT_MAX, "%s%s%s", ip, name[0] ? "%" : "", name);
}

void fm_addr_port_text(const struct sockaddr_storage *sa, char out[FM_ADDR_PORT_TEXT_MAX])
{
	char text[FM_ADDR_TEXT_MAX];
	bool is_six = sa->ss_family == AF_INET6;

	fm_addr_text(sa, text);
	snprintf(out, FM_ADDR_PORT_TEXT_MAX, "%s%s%s:%u", is_six ? "[" : "", text,
		 is_six ? "]" : "", (unsigned)fm_addr_port(sa));
}

socklen_t fm_addr_len(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		return sizeof(struct sockaddr_in);
	if (sa->ss_family == AF_INET6)
		return sizeof(struct sockaddr_in6);
	return 0;
}

uint16_t fm_addr_port(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		return ntohs(as_in(sa)->sin_port);
	if (sa->ss_family == AF_INET6)
		return ntohs(as_in6(sa)->sin6_port);
	return 0;
}

void fm_addr_set_port(struct sockaddr_storage *sa, uint16_t port)
{
	if (sa->ss_family == AF_INET)
		((struct sockaddr_in *)(void *)sa)->sin_port = htons(port);
	else if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = htons(port);
}

bool fm_addr_is_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return as_in(a)->sin_addr.s_addr == as_in(b)->sin_addr.s_addr;
	if (a->ss_family == AF_INET6)
		return memcmp(&as_in6(a)->sin6_addr, &as_in6(b)->sin6_addr,
			      sizeof(struct in6_addr)) == 0 &&
		       as_in6(a)->sin6_scope_id == as_in6(b)->sin6_scope_id;
	return false;
}

bool fm_addr_is_link_local(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		return IN6_IS_ADDR_LINKLOCAL(&as_in6(sa)->sin6_addr);
	/* 169.254/16 */
	return sa->ss_family == AF_INET && (ntohl(as_in(sa)->sin_addr.s_addr) >> 16) == 0xa9fe;
}

void fm_addr_unmap(struct sockaddr_storage *sa)
{
	struct sockaddr_in in = { .sin_family = AF_INET };

	if (sa->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&as_in6(sa)->sin6_addr))
		return;
	memcpy(&in.sin_addr, &as_in6(sa)->sin6_addr.s6_addr[12], sizeof(in.sin_addr));
	in.sin_port = as_in6(sa)->sin6_port;
	memset(sa, 0, sizeof(*sa));
	memcpy(sa, &in, sizeof(in));
}

int fm_addr_of_socket(int fd, struct sockaddr_storage *local, struct sockaddr_storage *remote)
{
	socklen_t local_len = sizeof(*local), remote_len = sizeof(*remote);

	memset(local, 0, sizeof(*local));
	memset(remote, 0, sizeof(*remote));
	if (FM_FAULT("addr.of_socket"))
		return -ENOTCONN;
	if (getsockname(fd, (struct sockaddr *)local, &local_len) < 0 ||
	    getpeername(fd, (struct sockaddr *)remote, &remote_len) < 0)
		return -errno;
	fm_addr_unmap(local);
	fm_addr_unmap(remote);
	return 0;
}

int fm_addr_connect_err(struct fm_err *err, int code)
{
	assert(code < 0);
	switch (-code) {
	case ECONNREFUSED:
		return fm_err_set(err, code, "connection refused: is fmoved running there?");
	case EHOSTUNREACH:
	case ENETUNREACH:
		return fm_err_set(err, code, "no route to it, or nobody has that address");
	case ETIMEDOUT:
		return fm_err_set(err, code,
				  "no answer: is it up, is the port open in its firewall?");
	case EADDRNOTAVAIL:
		return fm_err_set(
			err, code,
			"the local address is not one of this node's (or no port of it is free)");
	default:
		return fm_err_sys(err, code, "connect");
	}
}

/* ---- interfaces ---- */

/* Whether the want of descriptors or memory kept us from reading: that says nothing of what is
 * there. */
static bool is_want(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/*
 * What /sys/class/net says of an interface; 0 when it says nothing, which for speed is common
 * (virtual links, link down). A negative errno: it could not be read for want of something.
 */
static int sysfs_value(const char *interface, const char *what)
{
	char path[SYSFS_PATH_MAX];
	long long value = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/%s", interface, what);
	f = FM_FAULT("addr.value") ? (errno = EMFILE, NULL) : fopen(path, "re");
	if (!f)
		return is_want(errno) ? -errno : 0;
	if (fscanf(f, "%lld", &value) != 1 || value < 0 || value > SYSFS_VALUE_MAX)
		value = 0;
	fclose(f);
	return (int)value;
}

/*
 * 1: it is, or stands on some: a VLAN, a bond, a bridge, one of these on another. 0: it does not.
 * A negative errno: it could not be found out for want of something.
 */
static int is_hardware(const char *interface, unsigned depth)
{
	char path[SYSFS_PATH_MAX];
	const struct dirent *entry;
	int ret = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device", interface);
	if (access(path, F_OK) == 0)
		return 1;
	if (depth == LOWER_DEPTH_MAX)
		return 0;
	snprintf(path, sizeof(path), "/sys/class/net/%s", interface);
	dir = opendir(path);
	if (!dir)
		return is_want(errno) ? -errno : 0;
	while (ret == 0 && (entry = readdir(dir)))
		if (strncmp(entry->d_name, "lower_", strlen("lower_")) == 0)
			ret = is_hardware(entry->d_name + strlen("lower_"), depth + 1);
	closedir(dir);
	return ret;
}

/* A second IPv4 address may carry a label, "eth0:1", in place of the interface's name. */
static void interface_name(const struct ifaddrs *ifa, char name[FM_RAIL_NAME_MAX])
{
	snprintf(name, FM_RAIL_NAME_MAX, "%s", ifa->ifa_name);
	name[strcspn(name, ":")] = '\0';
}

static uint8_t prefix_of(const struct sockaddr *mask)
{
	const uint8_t *at = NULL;
	size_t len = 0;
	uint8_t bits = 0;

	if (mask && mask->sa_family == AF_INET) {
		at = (const uint8_t *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
		len = 4;
	} else if (mask && mask->sa_family == AF_INET6) {
		at = (const uint8_t *)&((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr;
		len = 16;
	}
	for (size_t i = 0; i < len; i++)
		bits = (uint8_t)(bits + __builtin_popcount(at[i]));
	return bits;
}

static bool address_of(const struct ifaddrs *ifa, struct sockaddr_storage *out)
{
	size_t len;

	if (!ifa->ifa_addr)
		return false;
	if (ifa->ifa_addr->sa_family == AF_INET)
		len = sizeof(struct sockaddr_in);
	else if (ifa->ifa_addr->sa_family == AF_INET6)
		len = sizeof(struct sockaddr_in6);
	else
		return false;
	memset(out, 0, sizeof(*out));
	memcpy(out, ifa->ifa_addr, len);
	return true;
}

/*
 * addr->sa is set; the rest is what the interface and the RDMA device behind it say. A negative
 * errno: the speed could not be read for want of something, and is 0.
 */
static int describe(struct fm_addr *addr, const struct ifaddrs *ifa, struct fm_rdma *rdma)
{
	char rail[FM_RAIL_NAME_MAX] = "";
	uint32_t speed = 0;
	int value;

	interface_name(ifa, addr->name);
	addr->prefix_len = prefix_of(ifa->ifa_netmask);
	value = sysfs_value(addr->name, "speed");
	addr->speed_mbps = value > 0 ? (uint32_t)value : 0;
	addr->is_rdma = rdma && fm_rdma_is_rail(rdma, addr, rail, &speed);
	if (!addr->is_rdma)
		return value < 0 ? value : 0;
	snprintf(addr->name, sizeof(addr->name), "%s", rail);
	if (speed)
		addr->speed_mbps = speed;
	return value < 0 && !speed ? value : 0;
}

void fm_addr_describe(struct fm_addr *addr, struct fm_rdma *rdma, uint32_t *mtu)
{
	struct sockaddr_storage sa;
	struct ifaddrs *all;
	char name[FM_RAIL_NAME_MAX];
	int value;

	if (mtu)
		*mtu = 0;
	if (FM_FAULT("addr.describe") || getifaddrs(&all) < 0)
		return;		/* only a description: a connection works without */
	for (struct ifaddrs *ifa = all; ifa; ifa = ifa->ifa_next) {
		if (!address_of(ifa, &sa) || !fm_addr_is_equal(&sa, &addr->sa))
			continue;
		interface_name(ifa, name);
		value = mtu ? sysfs_value(name, "mtu") : 0;
		if (value > 0)
			*mtu = (uint32_t)value;
		(void)describe(addr, ifa, rdma);
		break;
	}
	freeifaddrs(all);
}

bool fm_addr_find_dead(const struct sockaddr_storage *to, struct fm_addr *out)
{
	const unsigned wanted = IFF_UP | IFF_RUNNING;
	bool is_found = false, is_alive = false, is_itself = false, is_running;
	struct fm_addr at;
	struct ifaddrs *all;

	if (FM_FAULT("addr.find_dead") || getifaddrs(&all) < 0)
		return false;
	for (struct ifaddrs *ifa = all; ifa && !is_itself; ifa = ifa->ifa_next) {
		if (!address_of(ifa, &at.sa) ||
		    !fm_network_is_shared(&at.sa, to, prefix_of(ifa->ifa_netmask)))
			continue;
		is_itself = fm_addr_is_equal(&at.sa, to);
		is_running = (ifa->ifa_flags & wanted) == wanted;
		is_alive = is_running || (is_alive && !is_itself);
		(void)describe(&at, ifa, NULL);
		*out = at;
		is_found = true;
	}
	freeifaddrs(all);
	return is_found && !is_alive;
}

unsigned fm_addr_interface(const struct sockaddr_storage *wanted)
{
	char name[FM_RAIL_NAME_MAX];
	struct sockaddr_storage sa;
	unsigned index = 0;
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return 0;
	for (struct ifaddrs *ifa = all; ifa && !index; ifa = ifa->ifa_next) {
		if (!address_of(ifa, &sa) || !fm_addr_is_equal(&sa, wanted))
			continue;
		interface_name(ifa, name);
		index = if_nametoindex(name);
	}
	freeifaddrs(all);
	return index;
}

/* ---- the list ---- */

struct candidate {
	struct fm_addr addr;
	char interface[FM_RAIL_NAME_MAX];
	bool is_hardware;
	unsigned rank;		/* less is better */
};

static unsigned rank_of(const struct candidate *c)
{
	unsigned rank = c->addr.is_rdma ? 0 : c->is_hardware ? 2 : 4;

	return rank + (fm_addr_is_link_local(&c->addr.sa) ? 1 : 0);
}

/* Fills in the candidate seen[at], whose address is set. Its interface is looked at once, however
 * many addresses it has. */
static int fill_candidate(struct candidate *seen, size_t at, const struct ifaddrs *ifa,
			  struct fm_rdma *rdma)
{
	struct candidate *c = &seen[at];
	size_t same = 0;
	int ret = describe(&c->addr, ifa, rdma);

	if (ret < 0)
		return ret;
	interface_name(ifa, c->interface);
	while (strcmp(seen[same].interface, c->interface) != 0)
		same++;
	ret = same < at ? seen[same].is_hardware : is_hardware(c->interface, 0);
	if (ret < 0)
		return ret;
	c->is_hardware = ret;
	c->rank = rank_of(c);
	return 0;
}

static int compare(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->addr.speed_mbps != b->addr.speed_mbps)
		return a->addr.speed_mbps > b->addr.speed_mbps ? -1 : 1;
	if (strcmp(a->addr.name, b->addr.name) != 0)
		return strcmp(a->addr.name, b->addr.name);
	return memcmp(&a->addr.sa, &b->addr.sa, sizeof(a->addr.sa));
}

/* The candidates among all; how many, or a negative errno. */
static int find_candidates(const struct ifaddrs *all, struct fm_rdma *rdma,
			   struct candidate seen[static FM_ADDR_SEEN_MAX])
{
	const unsigned wanted = IFF_UP | IFF_RUNNING;
	size_t count = 0;

	for (const struct ifaddrs *ifa = all; ifa && count < FM_ADDR_SEEN_MAX;
	     ifa = ifa->ifa_next) {
		int ret;

		if ((ifa->ifa_flags & wanted) != wanted || (ifa->ifa_flags & IFF_LOOPBACK) ||
		    !address_of(ifa, &seen[count].addr.sa))
			continue;
		ret = fill_candidate(seen, count, ifa, rdma);
		if (ret < 0)
			return ret;
		count++;
	}
	return (int)count;
}

int fm_addr_list(struct fm_rdma *rdma, struct fm_addr *out, size_t max)
{
	struct candidate *seen;
	struct ifaddrs *all;
	int count = -ENOMEM;

	if ((FM_FAULT("addr.list") ? (errno = EMFILE, -1) : getifaddrs(&all)) < 0)
		return -errno;
	seen = calloc(FM_ADDR_SEEN_MAX, sizeof(*seen));
	if (seen)
		count = find_candidates(all, rdma, seen);
	freeifaddrs(all);
	if (count > 0)
		qsort(seen, (size_t)count, sizeof(*seen), compare);
	if (count > 0 && (size_t)count > max)
		count = (int)max;
	for (int i = 0; i < count; i++)
		out[i] = seen[i].addr;
	free(seen);
	return count;
}
