/* SPDX-License-Identifier: MIT */
/* cpu_watch - see cpu_watch.h. */
#include "client/bench/cpu_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "config/config.h"
#include "mover/api/api.h"

/* The library keeps its descriptor to itself, so this is a connection of its own. */
pid_t fm_cpu_daemon(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *path = fm_socket_path() ? fm_socket_path() : getenv("FMOVE_SOCKET");
	struct ucred peer = {.pid = 0};
	socklen_t len = sizeof(peer);
	int fd;

	if (!path || !*path)
		path = FM_API_SOCKET;
	if (strlen(path) >= sizeof(address.sun_path))
		return 0;
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return 0;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		peer.pid = 0;
	(void)close(fd);
	return peer.pid;
}

/* Until its end, or out is full. The length. */
static int read_pipe(int fd, char *out, size_t cap)
{
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < cap) {
		n = read(fd, out + len, cap - len);
		len += n > 0 ? (size_t)n : 0;
	}
	return n < 0 && errno != EAGAIN ? -errno : (int)len;
}

/*
 * Into a pipe, of which nothing is read before the end: a peer that has more to say than fits waits
 * until the time is over, while a file would take all of it.
 */
int fm_cpu_ask(struct fmove *conn, const char *peer, struct fm_cpu_time *out, uint64_t *bytes,
	       struct fm_err *err)
{
	const struct fmove_name name = {peer, FM_CONFIG_BENCH_STORE, "cpu"};
	const struct fmove_options opts = {
		.struct_size = sizeof(opts), .timeout_ms = FM_CPU_ASK_MS};
	char text[FM_CPU_TEXT_MAX];
	struct fmove_result result = {.struct_size = sizeof(result)};
	struct fmove_error why;
	int ends[2], ret;

	*bytes = 0;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return fm_err_sys(err, -errno, "make a pipe");
	ret = fmove_get(conn, ends[1], &name, &opts, &result, &why);
	if (ret < 0) {
		(void)fm_err_set(err, ret, "%s", why.text);
	} else {
		*bytes = result.bytes;
		ret = read_pipe(ends[0], text, sizeof(text));
		if (ret >= 0)
			ret = fm_cpu_time_parse(text, (size_t)ret, out);
		if (ret < 0)
			(void)fm_err_set(err, ret, "%s tells nothing that is understood here",
					 peer);
	}
	(void)close(ends[0]);
	(void)close(ends[1]);
	return ret;
}

static void ask(struct fm_cpu_watch *w, struct fm_cpu_time *out)
{
	uint64_t bytes;

	(void)fm_cpu_ask(w->conn, w->peer, out, &bytes, &w->why_there);
	w->asked_bytes += bytes;
}

void fm_cpu_watch_begin(struct fm_cpu_watch *w)
{
	fm_err_clear(&w->why_here);
	fm_err_clear(&w->why_there);
	w->asked_bytes = 0;
	if (w->conn)
		ask(w, &w->there);
	if (w->pid == 0)
		(void)fm_err_set(&w->why_here, -ESRCH, "which process fmoved is was not said");
	else
		(void)fm_cpu_time_read("/proc", w->pid, &w->here, &w->why_here);
}

/* An end that was not known once is not known: a part of it would look like the whole. */
static void add(struct fm_bench_cpu *to, const struct fm_cpu_time *before,
		const struct fm_cpu_time *after, const struct fm_err *why)
{
	struct fm_cpu_used used = {0};

	if (to->why[0])
		return;
	if (why->code == 0 && fm_cpu_time_used(before, after, &used) == 0) {
		to->is_known = true;
		to->process_s += used.process_s;
		to->kernel_s += used.kernel_s;
		to->softirq_s += used.softirq_s;
		to->busiest = used.busiest > to->busiest ? used.busiest : to->busiest;
		to->allowed = used.allowed;
		to->watched_s += used.seconds;
		to->wait_s += used.wait_s;
		to->allowed_busy_s += used.allowed_busy * used.seconds;
		to->thread_s += used.thread_wanted * used.seconds;
		to->core_softirq_s += used.core_softirq * used.seconds;
		return;
	}
	to->is_known = false;
	(void)snprintf(to->why, sizeof(to->why), "%s",
		       why->code ? why->text : "two looks at its processors do not fit together");
}

void fm_cpu_watch_end(struct fm_cpu_watch *w, struct fm_bench_path *path)
{
	static struct fm_cpu_time now;

	if (w->why_here.code == 0)
		(void)fm_cpu_time_read("/proc", w->pid, &now, &w->why_here);
	add(&path->here, &w->here, &now, &w->why_here);
	if (!w->conn)
		return;
	if (w->why_there.code == 0)
		ask(w, &now);
	path->asked_bytes += w->asked_bytes;
	add(&path->there, &w->there, &now, &w->why_there);
}
