/* SPDX-License-Identifier: MIT */
/*
 * 04-async - send several files at the same time from one thread, which could do something else
 * meanwhile: ./04-async NODE STORE DIRECTORY FILE... Those that are not there after a minute are
 * cancelled.
 *
 * fmove_op_start() runs a function of ours beside us. What it makes is up to it: here a put, but it
 * could be several calls of any kind. What it uses must stay until the op is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fmove.h>

#define FILES_MAX 64

struct file {
	const char *from;
	struct fmove_name to;
	char path[FMOVE_PATH_MAX + 1];
	struct fmove_result result;
	struct fmove_op *op;
};

/* In a thread of the library. */
static int put(struct fmove *c, void *ctx, struct fmove_error *err)
{
	struct file *f = ctx;
	int fd = open(f->from, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	f->result.struct_size = sizeof(f->result);
	ret = fmove_put(c, fd, &f->to, NULL, &f->result, err);
	close(fd);
	return ret;
}

static int start(struct fmove *c, struct file *f, char **argv, const char *from,
		 struct fmove_error *err)
{
	const char *slash = strrchr(from, '/');

	f->from = from;
	snprintf(f->path, sizeof(f->path), "%s/%s", argv[3], slash ? slash + 1 : from);
	f->to = (struct fmove_name){.node = argv[1], .store = argv[2], .path = f->path};
	return fmove_op_start(c, put, f, &f->op, err);
}

/* Prints what became of one, and frees it. */
static int finish(struct file *f)
{
	struct fmove_error err = {.exit = 0};

	if (fmove_op_result(f->op, &err) < 0)
		fprintf(stderr, "%s: %s\n", f->from, err.text);
	else
		printf("%s: %" PRIu64 " bytes\n", f->from, f->result.bytes);
	fmove_op_free(f->op);
	return err.exit;
}

int main(int argc, char **argv)
{
	static struct file files[FILES_MAX];
	struct pollfd fds[FILES_MAX];
	struct fmove_error err;
	struct fmove *c;
	int count = 0, left, ret = 0;

	if (argc < 5 || argc > 4 + FILES_MAX || fmove_connect(NULL, &c, &err) < 0) {
		fprintf(stderr, "usage: %s NODE STORE DIRECTORY FILE... (and a running fmoved)\n",
			argv[0]);
		return 2;
	}
	for (; count < argc - 4; count++) {
		if (start(c, &files[count], argv, argv[4 + count], &err) < 0)
			break;
		fds[count] = (struct pollfd){fmove_op_fd(files[count].op), POLLIN, 0};
	}
	for (left = count; left > 0;) {
		if (poll(fds, (nfds_t)count, 60000) == 0)
			for (int i = 0; i < count; i++)
				if (fds[i].fd >= 0)
					fmove_op_cancel(files[i].op);
		for (int i = 0; i < count; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			ret |= finish(&files[i]);
			fds[i].fd = -1; /* poll() leaves it out */
			left--;
		}
	}
	fmove_close(c);
	if (count < argc - 4)
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
	return count < argc - 4 ? err.exit : ret;
}
