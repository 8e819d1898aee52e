/* SPDX-License-Identifier: MIT */
/*
 * hang_fs - a file system (FUSE) that stops answering, for tests:
 * hang_fs DIRECTORY FILES BYTES UID [READ]
 *
 * It speaks to /dev/fuse itself, as fuse(4) and linux/fuse.h have it. In DIRECTORY there are files
 * "0" to FILES - 1 of so many bytes of a pattern, that belong to UID and are for everybody to read
 * and write. Files and directories can be made, renamed and removed; of what is written the first
 * 1 MiB of a file that was made is kept, the rest is read as the pattern. "mounted" is printed when
 * it answers. From SIGUSR1 on, or when READ bytes were read, requests are taken and none is
 * answered, closing included, until it is killed. Each question about its room and each read that
 * waits then is told on standard error ("statfs", "read"). Once it is killed the kernel answers in
 * its place. From SIGUSR2 on it answers again, also what came meanwhile (KEPT_REQUESTS at most).
 *
 * Exit status: 77 and why, if there can be no such file system here.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
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

#define NODES_MAX 4096u		/* of those that were removed, too */
#define NAME_BYTES 256
#define KEPT_BYTES (1u << 20)
#define KEPT_REQUESTS 256u

/* Number n is node n + 1 of FUSE: the first is the directory. */
struct node {
	unsigned parent;		/* where its name is; 0: it was removed */
	uint32_t mode;
	uid_t uid;
	uint64_t size;
	char *kept;			/* its first KEPT_BYTES; NULL: the pattern */
	char name[NAME_BYTES];
};

static struct node nodes[NODES_MAX];
static unsigned node_count;
static uid_t owner;
static volatile sig_atomic_t is_hanging;
static uint64_t read_left = UINT64_MAX;	/* until it hangs by itself */

static void hang(int signal)
{
	is_hanging = signal == SIGUSR1;
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

static struct node *node_of(uint64_t id)
{
	return &nodes[id - 1];
}

/* The node of that name; 0: none. */
static unsigned find(uint64_t parent, const char *name)
{
	for (unsigned i = 1; i < node_count; i++)
		if (nodes[i].parent == parent && strcmp(nodes[i].name, name) == 0)
			return i + 1;
	return 0;
}

/* 0: there are too many. */
static unsigned make(uint64_t parent, const char *name, uint32_t mode, uid_t uid, uint64_t size)
{
	struct node *n = &nodes[node_count];

	if (node_count == NODES_MAX)
		return 0;
	*n = (struct node){ .parent = (unsigned)parent, .mode = mode, .uid = uid, .size = size };
	(void)snprintf(n->name, sizeof(n->name), "%s", name);
	return ++node_count;
}

static void fill_attr(uint64_t id, struct fuse_attr *attr)
{
	const struct node *n = node_of(id);

	*attr = (struct fuse_attr){.ino = id,
				   .nlink = n->parent > 0,
				   .uid = n->uid,
				   .mode = n->mode,
				   .size = n->size,
				   .blocks = n->size / 512,
				   .blksize = 4096};
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

static struct fuse_entry_out entry_of(uint64_t id)
{
	struct fuse_entry_out out = {
		.nodeid = id, .generation = 1, .entry_valid = FOREVER };

	fill_attr(id, &out.attr);
	return out;
}

static void do_lookup(int fd, const struct fuse_in_header *in, const char *name)
{
	unsigned id = find(in->nodeid, name);
	struct fuse_entry_out out;

	if (id == 0) {
		reply(fd, in, -ENOENT, NULL, 0);
		return;
	}
	out = entry_of(id);
	reply(fd, in, 0, &out, sizeof(out));
}

static void do_getattr(int fd, const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr_valid = 0 };

	fill_attr(in->nodeid, &out.attr);
	reply(fd, in, 0, &out, sizeof(out));
}

static void do_setattr(int fd, const struct fuse_in_header *in, const struct fuse_setattr_in *set)
{
	struct node *n = node_of(in->nodeid);

	if (set->valid & FATTR_SIZE)
		n->size = set->size;
	if (set->valid & FATTR_MODE)
		n->mode = (n->mode & S_IFMT) | (set->mode & 07777);
	do_getattr(fd, in);
}

static void do_create(int fd, const struct fuse_in_header *in, const struct fuse_create_in *c)
{
	unsigned id = make(in->nodeid, (const char *)(c + 1), S_IFREG | (c->mode & 07777), in->uid,
			   0);
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out;

	if (id == 0) {
		reply(fd, in, -ENOSPC, NULL, 0);
		return;
	}
	node_of(id)->kept = calloc(1, KEPT_BYTES);
	out.entry = entry_of(id);
	out.open = (struct fuse_open_out){ .open_flags = FOPEN_DIRECT_IO };
	reply(fd, in, 0, &out, sizeof(out));
}

static void do_mkdir(int fd, const struct fuse_in_header *in, const struct fuse_mkdir_in *m)
{
	unsigned id = make(in->nodeid, (const char *)(m + 1), S_IFDIR | (m->mode & 07777), in->uid,
			   0);
	struct fuse_entry_out out;

	if (id == 0) {
		reply(fd, in, -ENOSPC, NULL, 0);
		return;
	}
	out = entry_of(id);
	reply(fd, in, 0, &out, sizeof(out));
}

/* A directory that is not empty is refused by nobody: no test removes one. */
static void do_remove(int fd, const struct fuse_in_header *in, const char *name)
{
	unsigned id = find(in->nodeid, name);

	if (id > 0)
		node_of(id)->parent = 0;
	reply(fd, in, id > 0 ? 0 : -ENOENT, NULL, 0);
}

static void do_rename(int fd, const struct fuse_in_header *in, uint64_t newdir, unsigned flags,
		      const char *from)
{
	const char *to = from + strlen(from) + 1;
	unsigned id = find(in->nodeid, from), there = find(newdir, to);
	int ret = 0;

	if (id == 0)
		ret = -ENOENT;
	else if (flags & ~(unsigned)RENAME_NOREPLACE)
		ret = -EINVAL;
	else if (flags & RENAME_NOREPLACE && there > 0)
		ret = -EEXIST;
	if (ret == 0) {
		if (there > 0)
			node_of(there)->parent = 0;
		node_of(id)->parent = (unsigned)newdir;
		(void)snprintf(node_of(id)->name, NAME_BYTES, "%s", to);
	}
	reply(fd, in, ret, NULL, 0);
}

/* All names of a directory that fit, from the offset on. */
static void do_readdir(int fd, const struct fuse_in_header *in, const struct fuse_read_in *r)
{
	static _Alignas(8) char data[1 << 16];
	size_t len = 0;

	for (unsigned i = (unsigned)r->offset > 0 ? (unsigned)r->offset : 1; i < node_count; i++) {
		struct fuse_dirent *d = (void *)(data + len);
		size_t name_len = strlen(nodes[i].name);
		size_t size = FUSE_DIRENT_ALIGN(FUSE_NAME_OFFSET + name_len);

		if (nodes[i].parent != in->nodeid)
			continue;
		if (len + size > r->size || len + size > sizeof(data))
			break;
		memset(d, 0, size);
		d->ino = i + 1;
		d->off = i + 1;
		d->namelen = (uint32_t)name_len;
		d->type = nodes[i].mode >> 12;
		memcpy(d->name, nodes[i].name, name_len);
		len += size;
	}
	reply(fd, in, 0, data, len);
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
	const char *kept = node_of(in->nodeid)->kept;
	uint64_t bytes = node_of(in->nodeid)->size;
	uint64_t left = r->offset < bytes ? bytes - r->offset : 0;
	size_t len = r->size < left ? r->size : left;

	if (len > sizeof(data))
		len = sizeof(data);
	for (size_t i = 0; i < len; i++)
		data[i] = kept && r->offset + i < KEPT_BYTES
				  ? kept[r->offset + i]
				  : (char)((r->offset + i) / 4096);
	reply(fd, in, 0, data, len);
	if (len >= read_left)
		is_hanging = 1;
	read_left -= len < read_left ? len : read_left;
}

static void do_write(int fd, const struct fuse_in_header *in, const struct fuse_write_in *w)
{
	const struct fuse_write_out written = { .size = w->size };
	struct node *n = node_of(in->nodeid);

	for (size_t i = 0; n->kept && i < w->size && w->offset + i < KEPT_BYTES; i++)
		n->kept[w->offset + i] = ((const char *)(w + 1))[i];
	if (w->offset + w->size > n->size)
		n->size = w->offset + w->size;
	reply(fd, in, 0, &written, sizeof(written));
}

static void answer(int fd, const struct fuse_in_header *in, const void *body)
{
	const struct fuse_open_out opened = { .open_flags = FOPEN_DIRECT_IO };

	switch (in->opcode) {
	case FUSE_INIT:
		do_init(fd, in);
		break;
	case FUSE_LOOKUP:
		do_lookup(fd, in, body);
		break;
	case FUSE_GETATTR:
		do_getattr(fd, in);
		break;
	case FUSE_SETATTR:
		do_setattr(fd, in, body);
		break;
	case FUSE_CREATE:
		do_create(fd, in, body);
		break;
	case FUSE_MKDIR:
		do_mkdir(fd, in, body);
		break;
	case FUSE_UNLINK:
	case FUSE_RMDIR:
		do_remove(fd, in, body);
		break;
	case FUSE_RENAME:
		do_rename(fd, in, ((const struct fuse_rename_in *)body)->newdir, 0,
			  (const char *)body + sizeof(struct fuse_rename_in));
		break;
	case FUSE_RENAME2:
		do_rename(fd, in, ((const struct fuse_rename2_in *)body)->newdir,
			  ((const struct fuse_rename2_in *)body)->flags,
			  (const char *)body + sizeof(struct fuse_rename2_in));
		break;
	case FUSE_READDIR:
		do_readdir(fd, in, body);
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
		do_write(fd, in, body);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;		/* wants no answer */
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FSYNC:
	case FUSE_FSYNCDIR:
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

static void make_nodes(unsigned files, uint64_t bytes)
{
	char name[NAME_BYTES];

	(void)make(1, "", S_IFDIR | 0777, owner, 0);
	for (unsigned i = 0; i < files; i++) {
		(void)snprintf(name, sizeof(name), "%u", i);
		(void)make(1, name, S_IFREG | 0666, owner, bytes);
	}
}

static void *kept[KEPT_REQUESTS];	/* that came while it hung */
static unsigned kept_count;

static void keep(const void *request, size_t len)
{
	if (kept_count < KEPT_REQUESTS && (kept[kept_count] = malloc(len)))
		memcpy(kept[kept_count++], request, len);
}

static void answer_kept(int fd)
{
	for (unsigned i = 0; i < kept_count; i++) {
		answer(fd, kept[i], (char *)kept[i] + sizeof(struct fuse_in_header));
		free(kept[i]);
	}
	kept_count = 0;
}

/* Says what waits, for who must know that something does. */
static void tell(uint32_t opcode)
{
	static const char *const lines[] = {
		[FUSE_STATFS] = "statfs\n", [FUSE_READ] = "read\n"};

	if (opcode < sizeof(lines) / sizeof(lines[0]) && lines[opcode])
		(void)fputs(lines[opcode], stderr);
}

/* Takes a signal that was sent before what was read just now was asked for: poll() says of both
 * only that there is something to read. */
static void take_sent(void)
{
	sigset_t none, both;

	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, &both);
	(void)sigprocmask(SIG_SETMASK, &both, NULL);
}

/* Waits for a request. The two signals come only here and in take_sent(). */
static void await(int fd)
{
	struct pollfd poll = {.fd = fd, .events = POLLIN};
	sigset_t none;

	sigemptyset(&none);
	(void)ppoll(&poll, 1, NULL, &none);
}

static void take_signals(void)
{
	const struct sigaction hanging = { .sa_handler = hang };
	sigset_t both;

	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	(void)sigprocmask(SIG_BLOCK, &both, NULL);
	(void)sigaction(SIGUSR1, &hanging, NULL);
	(void)sigaction(SIGUSR2, &hanging, NULL);
}

int main(int argc, char **argv)
{
	static _Alignas(8) char buf[(1 << 20) + 4096];
	const struct fuse_in_header *in = (const void *)buf;
	ssize_t n;
	int fd;

	if (argc < 5 || argc > 6)
		return 2;
	if (argc == 6)
		read_left = strtoull(argv[5], NULL, 10);
	owner = (uid_t)strtoul(argv[4], NULL, 10);
	make_nodes((unsigned)strtoul(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	fd = mount_at(argv[1]);
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	take_signals();
	puts("mounted");
	(void)fflush(stdout);
	/* Requests are still taken when none is answered: who waits for one that was not taken can
	 * be killed. */
	while ((n = read(fd, buf, sizeof(buf))) > 0 ||
	       (n < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN))) {
		take_sent();
		if (!is_hanging)
			answer_kept(fd);
		if (n < 0)
			await(fd);
		else if (!is_hanging || in->opcode == FUSE_INIT)
			answer(fd, in, buf + sizeof(*in));
		else
			keep(in, (size_t)n);
		if (n > 0 && is_hanging)
			tell(in->opcode);
	}
	return 0;
}
