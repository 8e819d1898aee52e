/* SPDX-License-Identifier: MIT */
/*
 * background - see background.h.
 *
 * Happy path: fork; the new process leaves the session, connects and asks; accepted: it writes a
 * report into a pipe; the command reads that and ends; the transfer goes on. While it waits for a
 * place: that is a report too, which the command says. Failure modes: before it is accepted: the
 * report has the error, which the command says as its own. Later: the daemon keeps what became of
 * the job, and nobody is told here.
 */
#include "client/cli/background.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "client/cli/part.h"
#include "client/cli/transfer.h"
#include "mover/base/err.h"

#define PIPE_FD 3		/* of the new process, which has no others then */
#define DAEMON_TRIES 60		/* a second apart, when it is being restarted */
#define GOES_MAX 10

/* Of the new process to the command. One write. */
struct report {
	int code;			/* 0: accepted */
	bool is_kept;
	bool is_told;			/* as of an outcome */
	/* neither accepted nor failed: the text is to be said, and another report comes */
	bool is_waiting;
	char job[FMOVE_JOB_MAX];
	char text[FM_ERR_TEXT_MAX];
};
_Static_assert(sizeof(struct report) <= PIPE_BUF, "a report is written at once");

struct fm_background {
	char job[FMOVE_JOB_MAX];	/* "": not accepted yet */
	struct fm_part *part;
	bool is_over;			/* the part is closed ... */
	bool is_published;		/* ... and has its name */
};

/* ---- in the new process ---- */

static void say_report(const struct report *w)
{
	(void)!write(PIPE_FD, w, sizeof(*w));	/* the command may have been killed */
	(void)close(PIPE_FD);
}

static void accepted(void *ctx, const char *job)
{
	struct fm_background *b = ((struct fm_transfer *)ctx)->background;
	struct report w = { .code = 0 };

	if (b->job[0])		/* once more, with another daemon */
		return;
	(void)snprintf(b->job, sizeof(b->job), "%.*s", FMOVE_JOB_MAX - 1, job);
	memcpy(w.job, b->job, sizeof(w.job));
	(void)prctl(PR_SET_PDEATHSIG, 0);
	fm_interrupt_stop();
	say_report(&w);
}

static void say_waiting(void *ctx, const char *text)
{
	struct report w = { .is_waiting = true };

	if (((struct fm_transfer *)ctx)->background->job[0])	/* nobody listens any more */
		return;
	(void)snprintf(w.text, sizeof(w.text), "%s", text);	/* cut if it is too long */
	(void)!write(PIPE_FD, &w, sizeof(w));			/* as above */
}

static int publish(void *ctx, const struct fmove_result *r, struct fmove_error *why)
{
	const struct fm_part_attr attr = { r->mode, r->mtime_ns, r->is_durable };
	struct fm_background *b = ((struct fm_transfer *)ctx)->background;
	struct fm_err err;
	int ret = fm_part_publish(b->part, &attr, &err);

	b->is_over = true;
	b->is_published = ret == 0;
	if (ret == 0)
		return 0;
	why->code = ret;
	why->exit = (int)fm_api_exit(ret);
	(void)snprintf(why->text, sizeof(why->text), "%s", err.text);
	return ret;
}

/*
 * Lets go of everything of the command: its terminal, and pipes that somebody reads to their end.
 */
static void let_go(int pipe_fd)
{
	int null = open("/dev/null", O_RDWR);

	(void)setsid();		/* a process just made leads no group */
	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		(void)dup2(null, fd);
	if (pipe_fd != PIPE_FD) {
		(void)dup2(pipe_fd, PIPE_FD);
		(void)fcntl(PIPE_FD, F_SETFD, FD_CLOEXEC);
	}
	(void)close_range(PIPE_FD + 1, ~0U, 0);
}

static int begin(struct fm_transfer *t, int pipe_fd, struct fm_background *b, struct fm_err *err)
{
	int ret;

	fmove_close(t->conn);
	t->conn = NULL;
	let_go(pipe_fd);
	ret = fm_transfer_open(t, err);
	/* a command that was killed is to leave nobody who waits for a place */
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	t->outcomes.is_quiet = true;
	t->background = b;
	t->turn.say = say_waiting;
	t->turn.ctx = t;
	t->opts.is_attended = true;
	t->opts.accepted = accepted;
	t->opts.publish = publish;
	t->opts.progress = NULL;
	t->opts.ctx = t;
	return ret;
}

/*
 * The daemon has gone. Waits a while for another one, and asks whether it has the job, as a paused
 * one.
 */
static bool is_paused_there(struct fm_transfer *t)
{
	static struct fmove_job job = {.struct_size = sizeof(job)};	/* large */
	const struct timespec second = { .tv_sec = 1 };
	struct fmove_error why;

	fmove_close(t->conn);
	t->conn = NULL;
	for (unsigned i = 0; i < DAEMON_TRIES; i++) {
		(void)nanosleep(&second, NULL);		/* a signal ends us */
		if (fm_turn_connect(&t->turn, &t->conn, &why) == 0)
			return fmove_find_job(t->conn, t->background->job, &job, &why) == 0 &&
			       job.state == FMOVE_JOB_PAUSED;
	}
	return false;
}

_Noreturn static void stay(struct fm_transfer *t, int pipe_fd,
			   int (*run)(struct fm_transfer *t, void *ctx, struct fm_outcome *one),
			   void *ctx, struct fm_outcome *one)
{
	struct fm_background b = { .part = NULL };
	struct report w = { .code = 0 };
	int ret = begin(t, pipe_fd, &b, &one->err);

	for (unsigned i = 0; ret == 0 || (i > 0 && i < GOES_MAX); i++) {
		fm_err_clear(&one->err);
		b.part = NULL;
		b.is_over = b.is_published = false;
		ret = run(t, ctx, one);
		if (ret != -ECONNRESET || !b.job[0] || !is_paused_there(t))
			break;
		if (b.is_published) {
			/* what became of it is the job's to say */
			(void)fm_background_found(t->conn, b.job, t->opts.file, &one->err);
			break;
		}
		t->opts.again = b.job;
	}
	if (!b.job[0]) {
		w.code = one->err.code < 0 ? one->err.code : -EPROTO;
		w.is_kept = one->is_kept;
		w.is_told = one->is_told;
		(void)snprintf(w.text, sizeof(w.text), "%s",
			       one->err.code < 0 ? one->err.text
						 : "fmoved did not say which job it is");
		say_report(&w);
	}
	_exit(0);	/* buffers that were the command's stay unwritten */
}

int fm_background_found(struct fmove *c, const char *job, const char *path, struct fm_err *err)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC), ret;
	struct fmove_error why;

	if (fd < 0)
		return fm_err_sys(err, -errno, "%s", path);
	ret = fmove_resume(c, job, fd, &why);
	(void)close(fd);	/* only read */
	return ret < 0 ? fm_err_set(err, ret, "%s", why.text) : 0;
}

void fm_background_part(struct fm_transfer *t, struct fm_part *part)
{
	if (t->background)
		t->background->part = part;
}

bool fm_background_is_over(const struct fm_transfer *t, bool *is_published)
{
	if (!t->background || !t->background->is_over)
		return false;
	*is_published = t->background->is_published;
	return true;
}

/* ---- in the command ---- */

/* Waits for the report of the new process. A signal is passed on to it. */
static int hear(int fd, pid_t pid, struct report *w, struct fm_err *err)
{
	struct pollfd fds[2] = { { fd, POLLIN, 0 }, { fm_interrupt_fd(), POLLIN, 0 } };
	ssize_t n;

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return fm_err_sys(err, -errno, "wait for the process in the background");
		if (fds[1].revents) {
			(void)kill(pid, SIGTERM);	/* it cancels, and says so */
			fds[1].fd = -1;
			fds[1].revents = 0;
		}
		if (!fds[0].revents)
			continue;
		n = read(fd, w, sizeof(*w));
		if (n == (ssize_t)sizeof(*w) && w->is_waiting) {
			fm_say("%s", w->text);
			continue;
		}
		if (n == (ssize_t)sizeof(*w))
			return 0;
		if (n >= 0 || errno != EINTR)
			return fm_err_set(err, -EIO,
					  "the process in the background ended before fmoved had "
					  "accepted the job");
	}
}

static int take_report(const struct report *w, struct fm_outcome *one)
{
	one->is_kept = w->is_kept;
	one->is_told = w->is_told;
	if (w->code < 0)
		return fm_err_set(&one->err, fm_is_interrupted() ? -ECANCELED : w->code, "%s",
				  w->text);
	memcpy(one->job, w->job, sizeof(one->job));
	one->is_handed_over = true;
	return 0;
}

/* Makes the path absolute. The last part of a target need not exist. */
static int whole_path(const char *path, bool is_target, char out[static PATH_MAX],
		      struct fm_err *err)
{
	const char *last = fm_name_last(path);
	char dir[PATH_MAX];
	int len;

	if (!is_target)
		return realpath(path, out) ? 0 : fm_err_sys(err, -errno, "%s", path);
	if (snprintf(dir, sizeof(dir), "%.*s", (int)(last - path), path) >= (int)sizeof(dir))
		return fm_err_set(err, -ENAMETOOLONG, "the target's path is longer than %d bytes",
				  PATH_MAX);
	if (!realpath(dir[0] ? dir : ".", out))
		return fm_err_sys(err, -errno, "directory %s", dir[0] ? dir : ".");
	len = (int)strlen(out);
	if (snprintf(out + len, (size_t)(PATH_MAX - len), "%s%s", len > 1 ? "/" : "", last) >=
	    PATH_MAX - len)
		return fm_err_set(err, -ENAMETOOLONG, "the target's path is longer than %d bytes",
				  PATH_MAX);
	return 0;
}

int fm_background_run(struct fm_transfer *t, const char *path, bool is_target,
		      int (*run)(struct fm_transfer *t, void *ctx, struct fm_outcome *one),
		      void *ctx, struct fm_outcome *one)
{
	char whole[PATH_MAX];
	struct report w;
	int fds[2], ret = whole_path(path, is_target, whole, &one->err);
	pid_t pid;

	if (ret < 0)
		return ret;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return fm_err_sys(&one->err, -errno, "make a pipe");
	/* many of us would wait for each other: the new process needs one, and we wait for it */
	fmove_disconnect(t->conn);
	t->opts.file = whole;
	pid = fork();
	if (pid == 0)
		stay(t, fds[1], run, ctx, one);
	t->opts.file = NULL;
	(void)close(fds[1]);
	ret = pid < 0 ? fm_err_sys(&one->err, -errno, "start a process")
		      : hear(fds[0], pid, &w, &one->err);
	(void)close(fds[0]);	/* only read */
	if (pid < 0)
		return ret;
	if (ret == 0)
		ret = take_report(&w, one);
	if (ret < 0)
		(void)waitpid(pid, NULL, 0);	/* it has ended, or is about to */
	return ret;
}
