/* SPDX-License-Identifier: MIT */
/*
 * hang_fs - a file system (FUSE) that stops answering, for tests: hang_fs DIRECTORY FILES BYTES UID
 *
 * It speaks to /dev/fuse itself, as fuse(4) and linux/fuse.h have it. In DIRECTORY there are files
 * "0" to FILES - 1 of so many bytes of a pattern, that belong to UID and are for everybody to read
 * and write. "mounted" is printed when it answers. From SIGUSR1 on requests are taken and none is
 * answered, closing included, until it is killed. Then the kernel answers in its place.
 *
 * Exit status: 77 and why, if there can be no such file system here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FOREVER 1000000u	/* seconds that the kernel believes what it heard */

static unsigned files;
static uint64_t bytes;
static uid_t owner;
static volatile sig_atomic_t is_hanging;

static void hang(int signal)
{
	(void)signal;
	is_hanging = 1;
}

static void reply(int fd, const struct fuse_in_header *in, int error, const void *data, size_t len)
{
	struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + len), .error = error, .unique = in->unique};
	struct iovec iov[] = { { &out, sizeof(out) }, { (void *)(uintptr_t)data, len } };

	/* ENOENT: who asked is gone */
	if (writev(fd, iov, len > 0 ? 2 : 1) < 0 && errno != ENOENT)
		perror("hang_fs: answer");
}

/* Node 1 is the directory, i + 2 is file i. */
static void fill_attr(uint64_t node, struct fuse_attr *attr)
{
	*attr = (struct fuse_attr){ .ino = node, .nlink = 1, .uid = owner, .blksize = 4096 };
	if (node == 1) {
		attr->mode = S_IFDIR | 0777;
		return;
	}
	attr->mode = S_IFREG | 0666;
	attr->size = bytes;
	attr->blocks = bytes / 512;
}

static void do_init(int fd, const struct fuse_in_header *in)
{
	struct fuse_init_out out = {.major = FUSE_KERNEL_VERSION,
				    .minor = 31,
				    .max_readahead = 1 << 17,
				    .max_background = 64,
				    .congestion_threshold = 48,
				    .max_write = 1 << 17,
				    .time_gran = 1,
				    .max_pages = 32};

	reply(fd, in, 0, &out, sizeof(out));
}

static void do_lookup(int fd, const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out out = { .generation = 1, .entry_valid = FOREVER, .attr_valid = 0 };
	unsigned long n = strtoul(name, NULL, 10);

	if (name[0] < '0' || name[0] > '9' || n >= files) {
		reply(fd, in, -ENOENT, NULL, 0);
		return;
	}
	out.nodeid = n + 2;
	fill_attr(out.nodeid, &out.attr);
	reply(fd, in, 0, &out, sizeof(out));
}

static void do_getattr(int fd, const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr_valid = 0 };

	fill_attr(in->nodeid, &out.attr);
	reply(fd, in, 0, &out, sizeof(out));
}

static void do_statfs(int fd, const struct fuse_in_header *in)
{
	const struct fuse_statfs_out out = {.st = {.blocks = 1 << 20,
						   .bfree = 1 << 20,
						   .bavail = 1 << 20,
						   .bsize = 4096,
						   .frsize = 4096,
						   .namelen = 255}};

	reply(fd, in, 0, &out, sizeof(out));
}

static void do_read(int fd, const struct fuse_in_header *in, const struct fuse_read_in *r)
{
	static char data[1 << 20];
	uint64_t left = r->offset < bytes ? bytes - r->offset : 0;
	size_t len = r->size < left ? r->size : left;

	if (len > sizeof(data))
		len = sizeof(data);
	for (size_t i = 0; i < len; i++)
		data[i] = (char)((r->offset + i) / 4096);
	reply(fd, in, 0, data, len);
}

static void answer(int fd, const struct fuse_in_header *in, const void *body)
{
	const struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO };
	struct fuse_write_out written;

	switch (in->opcode) {
	case FUSE_INIT:
		do_init(fd, in);
		break;
	case FUSE_LOOKUP:
		do_lookup(fd, in, body);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		do_getattr(fd, in);
		break;
	case FUSE_STATFS:
		do_statfs(fd, in);
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		reply(fd, in, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		do_read(fd, in, body);
		break;
	case FUSE_WRITE:
		written =
			(struct fuse_write_out){.size = ((const struct fuse_write_in *)body)->size};
		reply(fd, in, 0, &written, sizeof(written));
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;		/* wants no answer */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FSYNC:
	case FUSE_ACCESS:
		reply(fd, in, 0, NULL, 0);
		break;
	default:
		reply(fd, in, -ENOSYS, NULL, 0);
	}
}

static int mount_at(const char *directory)
{
	char options[128];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		printf("SKIP: /dev/fuse: %s\n", strerror(errno));
		exit(77);
	}
	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40000,user_id=%u,group_id=0,allow_other", fd,
		       (unsigned)owner);
	if (mount("hang_fs", directory, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		printf("SKIP: mount: %s\n", strerror(errno));
		exit(77);
	}
	return fd;
}

int main(int argc, char **argv)
{
	static _Alignas(8) char buf[(1 << 20) + 4096];
	const struct fuse_in_header *in = (const void *)buf;
	const struct sigaction hanging = { .sa_handler = hang };
	ssize_t n;
	int fd;

	if (argc != 5)
		return 2;
	files = (unsigned)strtoul(argv[2], NULL, 10);
	bytes = strtoull(argv[3], NULL, 10);
	owner = (uid_t)strtoul(argv[4], NULL, 10);
	fd = mount_at(argv[1]);
	(void)sigaction(SIGUSR1, &hanging, NULL);
	puts("mounted");
	(void)fflush(stdout);
	/* Requests are still taken when none is answered: who waits for one that was not taken can
	 * be killed. */
	while ((n = read(fd, buf, sizeof(buf))) > 0 ||
	       (n < 0 && (errno == EINTR || errno == ENOENT))) {
		if (n > 0 && !is_hanging)
			answer(fd, in, buf + sizeof(*in));
	}
	return 0;
}
