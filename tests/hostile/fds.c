/* SPDX-License-Identifier: MIT */
/* fds - descriptors of every kind, to pass to the daemon. See client.c. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/hostile/client.h"

#define KEPT 24 /* other ends that stay open for a while: whoever reads there waits */

static int kept[KEPT];
static unsigned kept_next;
static bool has_kept;

static void keep(int fd)
{
	if (!has_kept)
		for (unsigned i = 0; i < KEPT; i++)
			kept[i] = -1;
	has_kept = true;
	if (kept[kept_next] >= 0)
		(void)close(kept[kept_next]);
	kept[kept_next] = fd;
	kept_next = (kept_next + 1) % KEPT;
}

static int memory_file(struct odds *o, bool is_sealed)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	(void)!ftruncate(fd, (off_t)below(o, 1u << 20));
	if (is_sealed)
		(void)fcntl(fd, F_ADD_SEALS,
			    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
	return fd;
}

/* An end of a pipe or a pair; the other one is closed, or stays, and is perhaps full. */
static int one_end(struct odds *o, bool is_socket)
{
	int ends[2], which = (int)below(o, 2);
	char bytes[3000] = "";

	if ((is_socket ? socketpair(AF_UNIX, one_in(o, 2) ? SOCK_STREAM : SOCK_SEQPACKET, 0, ends)
		       : pipe(ends)) < 0)
		return -1;
	if (one_in(o, 2))
		(void)!write(ends[1], bytes, below(o, sizeof(bytes)));
	if (one_in(o, 2))
		(void)close(ends[1 - which]);
	else
		keep(ends[1 - which]);
	return ends[which];
}

static int by_name(struct odds *o)
{
	static const struct {
		const char *name;
		int flags;
	} names[] = {
		{"/dev/null", O_RDWR},
		{"/dev/zero", O_RDWR},
		{"/dev/full", O_RDWR},
		{".", O_RDONLY},
		{".", O_PATH},
		{"/", O_PATH},
		{"/proc/self/maps", O_RDONLY},
		{"/proc/self/mem", O_RDWR},
		{"source", O_PATH},
		{"source", O_WRONLY},
		{"source", O_RDONLY | O_DIRECT},
		{"/proc", O_RDONLY},
		{"fifo", O_RDWR | O_NONBLOCK},
		{"/proc/self/fd", O_RDONLY},
		{"/dev/random", O_RDONLY},
		{"source", O_APPEND | O_RDWR},
	};
	unsigned i = (unsigned)below(o, sizeof(names) / sizeof(names[0]));

	return open(names[i].name, names[i].flags | O_CLOEXEC);
}

int fd_any(struct odds *o, int api)
{
	switch (below(o, 10)) {
	case 0:
		return memory_file(o, one_in(o, 2));
	case 1:
	case 2:
		return one_end(o, false);
	case 3:
		return one_end(o, true);
	case 4:
		return eventfd((unsigned)below(o, 3), 0);
	case 5:
		return epoll_create1(0);
	case 6:
		return dup(api);
	case 7:
		return fd_target(o);
	default:
		return by_name(o);
	}
}

int fd_buffer(struct odds *o)
{
	int fd = memfd_create("hostile buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	(void)!ftruncate(fd, BUFFER_BYTES - one_in(o, 30));
	(void)fallocate(fd, 0, 0, one_in(o, 30) ? 4096 : BUFFER_BYTES);
	(void)fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | (one_in(o, 30) ? 0 : F_SEAL_SHRINK) |
					     (one_in(o, 30) ? F_SEAL_WRITE : 0));
	return fd;
}

int fd_source(struct odds *o)
{
	(void)mkfifo("fifo", 0600);
	return open(one_in(o, 4) ? "sparse" : "source", O_RDONLY | O_CLOEXEC);
}

int fd_target(struct odds *o)
{
	return one_in(o, 8) ? memory_file(o, false)
			    : open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}
