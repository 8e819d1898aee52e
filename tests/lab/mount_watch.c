/* SPDX-License-Identifier: MIT */
/*
 * mount_watch - tells the target what is mounted here, for tests/lab/judge.awk:
 *
 *   mount_watch NODE BOOT POINT...
 *
 * As long as something is mounted at a POINT, and once more whenever that changes, one block
 * behind the end of the file system is read past the page cache. Which one says who reads and
 * what it has, so the target's own trace of its commands has, in one order, who wrote and who had
 * what mounted. Nothing of fmove is asked. What is mounted to write is also written to, once a
 * second, to .beat. NODE is 0 to 7, BOOT how often the machine has started. Each change is a line
 * on standard output. Ends by a signal.
 *
 * A mark says: it was mounted when I asked for this. That it was still so when the target
 * answered is said by the next mark of the same mount.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* judge.awk and guard.sh know them too. */
#define MARKS_BYTES (UINT64_C(64) << 20)	/* at the end of each device */
#define MARK_BYTES 512				/* NODE: 3 bits, BOOT: 5, mount: 8, to write: 1 */

#define LOOK_MS 200
#define LOOKS_PER_WRITE 5
#define POINTS_MAX 16

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000U		/* Linux 6.8: a number that is never given again */
#endif

struct watched {
	const char *point;
	uint64_t mount;			/* 0: nothing is mounted there */
	bool is_read_write;
	char device[64];
};

static unsigned node, boot;

static void die(const char *what)
{
	fprintf(stderr, "mount_watch: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The last line for that point: what is mounted over it is what is seen there. */
static bool find_mount(const char *point, struct watched *w)
{
	char line[1024], at[256], options[256], device[64], super[256];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	bool is_there = false;

	if (!f)
		die("/proc/self/mountinfo");
	while (fgets(line, sizeof(line), f)) {
		const char *rest = strstr(line, " - ");

		if (sscanf(line, "%*s %*s %*s %*s %255s %255s", at, options) != 2 ||
		    strcmp(at, point) != 0)
			continue;
		if (!rest || sscanf(rest, " - %*s %63s %255s", device, super) != 2)
			continue;
		is_there = true;
		w->is_read_write = strncmp(options, "rw", 2) == 0 && strncmp(super, "rw", 2) == 0;
		memcpy(w->device, device, sizeof(device));
	}
	fclose(f);
	return is_there;
}

static uint64_t mount_number(const char *point)
{
	struct statx st;

	if (statx(AT_FDCWD, point, AT_STATX_DONT_SYNC, STATX_MNT_ID_UNIQUE, &st) < 0)
		return 0;
	if (!(st.stx_mask & STATX_MNT_ID_UNIQUE)) {
		fprintf(stderr,
			"mount_watch: this kernel gives a mount's number to another one later; "
			"6.8 or newer is needed\n");
		exit(77);
	}
	return st.stx_mnt_id;
}

/* What the table says is of this mount if the number is the same before and behind it. */
static void look(struct watched *w)
{
	struct watched now = { .point = w->point };

	do {
		now.mount = mount_number(w->point);
		if (!find_mount(w->point, &now))
			now.mount = 0;
	} while (now.mount != 0 && now.mount != mount_number(w->point));
	if (now.mount != w->mount || (now.mount != 0 && now.is_read_write != w->is_read_write)) {
		printf("%s %s\n", w->point,
		       now.mount == 0 ? "gone" : now.is_read_write ? "rw" : "ro");
		fflush(stdout);
	}
	*w = now;
}

/* Errors are the device's, which may be gone: then the target knows of no mark. */
static void mark(const struct watched *w)
{
	static _Alignas(4096) char buffer[MARK_BYTES];
	uint64_t mount = (((uint64_t)node << 5 | (boot & 31)) << 8) | (w->mount & 255);
	uint64_t slot = mount << 1 | w->is_read_write, size;
	int fd = open(w->device, O_RDONLY | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		return;
	if (ioctl(fd, BLKGETSIZE64, &size) == 0)
		(void)!pread(fd, buffer, sizeof(buffer),
			     (off_t)(size - MARKS_BYTES + slot * MARK_BYTES));
	close(fd);
}

/* To a file that is there: by now the directory below may be what is seen. */
static void write_some(const struct watched *w)
{
	char path[300];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/.beat", w->point);
	fd = open(path, O_WRONLY | O_CLOEXEC | O_SYNC);
	if (fd < 0)
		return;
	(void)!write(fd, path, strlen(path));
	close(fd);
}

/*
 * The kernel tells of each change of the table; what it does not tell of, as a file system that
 * turns read-only after an error, is seen within a second. The table is long for an emulated
 * processor.
 */
static void watch(struct watched *watched, unsigned count)
{
	struct pollfd changed = { .events = POLLPRI };

	changed.fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	if (changed.fd < 0)
		die("/proc/self/mountinfo");
	for (unsigned n = 0;; n++) {
		const bool writes = n % LOOKS_PER_WRITE == 0;
		const int told = poll(&changed, 1, n == 0 ? 0 : LOOK_MS);

		if (told < 0 && errno != EINTR)
			die("poll");
		for (unsigned i = 0; i < count; i++) {
			if (told != 0 || writes)
				look(&watched[i]);
			if (watched[i].mount == 0)
				continue;
			mark(&watched[i]);
			if (watched[i].is_read_write && writes)
				write_some(&watched[i]);
		}
	}
}

int main(int argc, char **argv)
{
	struct watched watched[POINTS_MAX] = { 0 };
	unsigned count = argc > 3 ? (unsigned)argc - 3 : 0;

	if (count == 0 || count > POINTS_MAX) {
		fprintf(stderr, "usage: mount_watch NODE BOOT POINT...   (%d points at most)\n",
			POINTS_MAX);
		return 2;
	}
	node = (unsigned)atoi(argv[1]) & 7;
	boot = (unsigned)atoi(argv[2]);
	for (unsigned i = 0; i < count; i++)
		watched[i].point = argv[i + 3];
	(void)mount_number("/");
	watch(watched, count);
}
