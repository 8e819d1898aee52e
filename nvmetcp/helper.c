/* SPDX-License-Identifier: MIT */
/*
 * The side of the supervisor.
 *
 * Happy path:  this process is forked; the helper has the request as we have it, and waits at its
 * end of a socket until we say that it is watched; its answer is collected from the other end until
 * its pidfd says that it has ended. Past its deadline it is killed; done() is called when it has
 * died or, at the latest, KILL_GRACE_NS later: then it is stuck, keeps its key, and is freed when
 * the kernel lets go of it.
 */
#include "nvmetcp/helper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "nvmetcp/process.h"

#define KILL_GRACE_NS FM_NS_PER_S	/* for a SIGKILL to take effect on a busy machine */
#define FREE_WAIT_MS 1000		/* fm_helpers_free(): for those that were killed */
#define KEY_MAX 512
#define ANSWER_FIRST 4096u		/* most are shorter */

struct fm_helper_run {
	struct fm_helpers *helpers;
	struct fm_helper *helper;	/* NULL: its owner has been told */
	struct fm_list link;
	struct fm_watch answer_watch, exit_watch;
	struct fm_timer timer;
	pid_t pid;
	int answer_fd, pid_fd;
	bool is_killed;			/* its deadline passed, or it said too much */
	bool is_stuck, is_freeing;
	int code;			/* of the kill */
	char key[KEY_MAX];
	char *answer;
	size_t answer_len, answer_room;
	struct fm_err err;
};

struct fm_helpers {
	struct fm_loop *loop;
	int (*run)(struct fm_json *request);
	struct fm_list runs;
	unsigned count, freeing, stuck;	/* freeing ones are not in count */
};

int fm_helpers_new(const struct fm_helpers_opts *opts, struct fm_helpers **out, struct fm_err *err)
{
	struct fm_helpers *helpers;

	assert(opts && opts->loop && opts->run && out);
	helpers = FM_FAULT("helpers.alloc") ? NULL : calloc(1, sizeof(*helpers));
	if (!helpers)
		return fm_err_set(err, -ENOMEM, "no memory for helper processes");
	helpers->loop = opts->loop;
	helpers->run = opts->run;
	fm_list_init(&helpers->runs);
	*out = helpers;
	return 0;
}

unsigned fm_helpers_stuck(const struct fm_helpers *helpers)
{
	return helpers->stuck;
}

/* -------------------------------------------------------------------------------------- its end */

/* {"code": 0, "answer": {...}} or {"code": -5, "text": "...", "answer": {...}}: what
 * fm_helper_main() writes. */
static struct fm_json *parse_answer(struct fm_helper_run *run, int *code, const char **text)
{
	struct fm_json *whole = NULL;
	const struct fm_json *answer = NULL;

	*text = "";
	if (fm_json_parse(run->answer, run->answer_len, &whole, NULL) < 0 ||
	    fm_json_unpack_strict(whole, NULL, "{s:i, s?s, s?o}", "code", code, "text", text,
				  "answer", &answer) < 0 ||
	    *code > 0 || (*code == 0 && !fm_json_is(answer, FM_JSON_OBJECT)) ||
	    (*code < 0 && !(*text)[0])) {
		fm_json_free(whole);
		*code = fm_err_set(&run->err, -EBADMSG,
				   "the helper process answered something that is no answer");
		*text = run->err.text;
		return NULL;
	}
	return whole;
}

static void free_run(struct fm_helper_run *run)
{
	struct fm_helpers *helpers = run->helpers;

	fm_timer_clear(helpers->loop, &run->timer);
	if (run->answer_watch.is_added)
		fm_watch_del(helpers->loop, &run->answer_watch);
	if (run->exit_watch.is_added)
		fm_watch_del(helpers->loop, &run->exit_watch);
	close(run->answer_fd);
	close(run->pid_fd);
	helpers->stuck -= run->is_stuck;
	helpers->count -= !run->is_freeing;
	helpers->freeing -= run->is_freeing;
	fm_list_del(&run->link);
	free(run->answer);
	free(run);
}

/* The owner is told; it may free its struct or start the next call from there. */
static void tell(struct fm_helper_run *run, int code, const char *text,
		 const struct fm_json *answer)
{
	struct fm_helper *helper = run->helper;

	run->helper = NULL;
	if (!helper)
		return;
	helper->run = NULL;
	helper->done(helper, code, text, answer);
}

static void take_answer(struct fm_helper_run *run);

/* How the process ended, if that is all that is known. */
static void explain_end(struct fm_helper_run *run, const siginfo_t *how)
{
	if (how->si_code == CLD_EXITED)
		(void)fm_err_set(&run->err, -EPROTO,
				 "the helper process ended without an answer, with status %d",
				 how->si_status);
	else
		(void)fm_err_set(&run->err, -EPROTO,
				 "the helper process died of signal %d without an answer",
				 how->si_status);
}

static void finish(struct fm_helper_run *run, const siginfo_t *how)
{
	struct fm_err err = { 0 };
	struct fm_helper *helper = run->helper;
	struct fm_json *whole = NULL;
	const char *text = "";
	int code;

	if (run->is_killed) {
		code = run->code;
	} else if (run->answer_len == 0) {
		explain_end(run, how);
		code = run->err.code;
	} else {
		whole = parse_answer(run, &code, &text);
	}
	if (!whole) {
		err = run->err;
		text = err.text;
	}
	run->helper = NULL;
	/* Freed first: done() may start the next call for the same key. */
	free_run(run);
	if (helper) {
		helper->run = NULL;
		helper->done(helper, code, text, whole ? fm_json_get(whole, "answer") : NULL);
	}
	fm_json_free(whole);
}

static void exit_ready(struct fm_watch *watch, uint32_t events)
{
	struct fm_helper_run *run = fm_container_of(watch, struct fm_helper_run, exit_watch);
	siginfo_t how = { 0 };

	(void)events;
	/* Before it is reaped: an answer that is too long has its group killed, and then the number
	 * must still be its own. */
	if (run->answer_watch.is_added)
		take_answer(run);
	if (waitid(P_PIDFD, (id_t)run->pid_fd, &how, WEXITED | WNOHANG) < 0 && errno != ECHILD)
		return;
	finish(run, &how);
}

/*
 * Kills the helper and what it started (its process group). It is not reaped yet, so the number is
 * still its own.
 */
static void kill_run(struct fm_helper_run *run)
{
	if (FM_FAULT("helper.kill"))		/* as in the D state */
		return;
	(void)kill(-run->pid, SIGKILL);
	(void)pidfd_send_signal(run->pid_fd, SIGKILL, NULL, 0);
}

static void end_early(struct fm_helper_run *run, int code)
{
	run->is_killed = true;
	run->code = code;
	kill_run(run);
	if (run->answer_watch.is_added)
		fm_watch_del(run->helpers->loop, &run->answer_watch);
	fm_timer_set(run->helpers->loop, &run->timer,
		     fm_loop_now(run->helpers->loop) + KILL_GRACE_NS);
}

static void time_is_up(struct fm_timer *timer)
{
	struct fm_helper_run *run = fm_container_of(timer, struct fm_helper_run, timer);

	if (!run->is_killed) {
		end_early(run, fm_err_set(&run->err, -ETIMEDOUT, "no answer in time"));
		return;
	}
	run->is_stuck = true;
	run->helpers->stuck++;
	(void)fm_err_set(&run->err, run->code,
			 "no answer in time, and the call hangs in the kernel: it can be tried "
			 "again when that "
			 "lets go");
	tell(run, run->code, run->err.text, NULL);
}

void fm_helper_give_up(struct fm_helpers *helpers, struct fm_helper *helper)
{
	if (helper->run && !helper->run->is_killed)
		fm_timer_set(helpers->loop, &helper->run->timer, fm_loop_now(helpers->loop));
}

/* --------------------------------------------------------------------------------------- answer */

/* Grown as it comes: room for the longest, for all helpers at once, would be 16 MiB, and what
 * malloc() got it keeps. */
static int make_room(struct fm_helper_run *run)
{
	size_t want = run->answer_room ? 2 * run->answer_room : ANSWER_FIRST;
	char *grown;

	if (run->answer_len < run->answer_room)
		return 0;
	want = want > FM_HELPER_ANSWER_MAX ? FM_HELPER_ANSWER_MAX + 1 : want;
	grown = FM_FAULT("helper.answer") ? NULL : realloc(run->answer, want);
	if (!grown)
		return fm_err_set(&run->err, -ENOMEM,
				  "no memory for the answer of a helper process");
	run->answer = grown;
	run->answer_room = want;
	return 0;
}

/*
 * Reads what has come of the answer. One that is longer than the limit is a fault, and the helper
 * is killed.
 */
static void take_answer(struct fm_helper_run *run)
{
	ssize_t got;
	int ret;

	for (;;) {
		ret = make_room(run);
		if (ret < 0) {
			end_early(run, ret);
			return;
		}
		got = read(run->answer_fd, run->answer + run->answer_len,
			   run->answer_room - run->answer_len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got <= 0) {
			fm_watch_del(run->helpers->loop, &run->answer_watch);
			return;
		}
		run->answer_len += (size_t)got;
		if (run->answer_len > FM_HELPER_ANSWER_MAX) {
			end_early(run, fm_err_set(&run->err, -EMSGSIZE,
						  "the helper process answered more than %u bytes",
						  FM_HELPER_ANSWER_MAX));
			return;
		}
	}
}

static void answer_ready(struct fm_watch *watch, uint32_t events)
{
	(void)events;
	take_answer(fm_container_of(watch, struct fm_helper_run, answer_watch));
}

/* ------------------------------------------------------------------------------------- starting */

/* A signal that is ignored stays so in what is forked, and one that was blocked stays blocked.
 * Handlers go on: sanitizers have some. */
static void reset_signals(void)
{
	struct sigaction old;
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
			(void)signal(sig, SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/*
 * The start of a helper. It keeps only memory, standard input and standard error; standard output
 * is its end of the socket. It dies with the supervisor, even before it begins.
 */
static _Noreturn void be_helper(int (*run)(struct fm_json *request), struct fm_json *request,
				int end, pid_t supervisor)
{
	char go;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != supervisor)
		_exit(EXIT_FAILURE);
	reset_signals();
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_NAME, FM_HELPER_NAME);
	fm_fault_arm(NULL, 0);		/* what a test makes fail is the supervisor's */
	if (dup2(end, STDOUT_FILENO) < 0 || close_range(STDERR_FILENO + 1, ~0u, 0) < 0)
		_exit(EXIT_FAILURE);
	/* The end of the file instead: we could not watch it. */
	if (read(STDOUT_FILENO, &go, 1) != 1)
		_exit(EXIT_FAILURE);
	_exit(run(request));
}

static int start_process(struct fm_helper_run *run, struct fm_json *request, struct fm_err *err)
{
	pid_t self = getpid();
	int ret, ends[2];

	ret = FM_FAULT("helper.socket") ? (errno = EMFILE, -1)
					: socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
	if (ret < 0)
		return fm_err_sys(err, -errno, "make a socket for a helper process");
	assert(ends[1] > STDERR_FILENO);
	run->pid = FM_FAULT("helper.fork") ? (errno = EAGAIN, -1) : fork();
	if (run->pid == 0)
		be_helper(run->helpers->run, request, ends[1], self);
	if (run->pid < 0) {
		ret = fm_err_sys(err, -errno, "start a helper process");
		close(ends[1]);
		goto close_socket;
	}
	close(ends[1]);
	/* whoever is first: its group may be killed from now on */
	(void)setpgid(run->pid, run->pid);
	/* Ours and not reaped, so the number cannot mean another process. */
	run->pid_fd = FM_FAULT("helper.pidfd") ? (errno = EMFILE, -1) : pidfd_open(run->pid, 0);
	if (run->pid_fd < 0) {
		ret = fm_err_sys(err, -errno, "watch a helper process");
		(void)kill(run->pid, SIGKILL);
		(void)waitpid(run->pid, NULL, 0);	/* it waits for us */
		goto close_socket;
	}
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	run->answer_fd = ends[0];
	return 0;

close_socket:
	close(ends[0]);
	return ret;
}

static int watch_process(struct fm_helper_run *run, struct fm_err *err)
{
	struct fm_loop *loop = run->helpers->loop;
	int ret;

	run->answer_watch =
		(struct fm_watch){.ready = answer_ready, .fd = run->answer_fd, .events = EPOLLIN};
	run->exit_watch =
		(struct fm_watch){.ready = exit_ready, .fd = run->pid_fd, .events = EPOLLIN};
	ret = fm_watch_add(loop, &run->answer_watch, err);
	if (ret < 0)
		return ret;
	ret = fm_watch_add(loop, &run->exit_watch, err);
	if (ret < 0)
		fm_watch_del(loop, &run->answer_watch);
	return ret;
}

bool fm_helper_is_any(const struct fm_helpers *helpers, const char *key)
{
	for (const struct fm_list *at = helpers->runs.next; at != &helpers->runs; at = at->next)
		if (strncmp(fm_container_of(at, struct fm_helper_run, link)->key, key,
			    strlen(key)) == 0)
			return true;
	return false;
}

/*
 * A mount that hangs ends when its controller is removed. So that is never refused because too many
 * hang.
 */
static int check_room(const struct fm_helpers *helpers, bool is_freeing, struct fm_err *err)
{
	if (is_freeing ? helpers->freeing < FM_HELPERS_FREEING_MAX :
			 helpers->count < FM_HELPERS_MAX)
		return 0;
	return fm_err_set(err, -EAGAIN, "%u helper processes are under way, %u of them stuck",
			  helpers->count + helpers->freeing, helpers->stuck);
}

static int check_key(const struct fm_helpers *helpers, const char *key, struct fm_err *err)
{
	if (strlen(key) >= KEY_MAX)
		return fm_err_set(err, -EINVAL,
				  "the name of what a helper process is for is too long");
	for (const struct fm_list *at = helpers->runs.next; at != &helpers->runs; at = at->next) {
		const struct fm_helper_run *run = fm_container_of(at, struct fm_helper_run, link);

		if (strcmp(run->key, key) == 0)
			return fm_err_set(err, -EBUSY,
					  run->is_stuck
						  ? "%s: an earlier call still hangs in the kernel"
						  : "%s: an earlier call is still under "
						    "way",
					  key);
	}
	return 0;
}

static int announce(pid_t pid, struct fm_helper *helper, struct fm_err *err)
{
	struct fm_process process;
	int ret = helper->begins ? fm_process_read("", pid, &process, err) : 0;

	return ret == 0 && helper->begins ? helper->begins(helper, &process, err) : ret;
}

int fm_helper_start(struct fm_helpers *helpers, struct fm_helper *helper, const char *key,
		    struct fm_json *request, uint64_t timeout_ns, struct fm_err *err)
{
	struct fm_helper_run *run;
	int ret;

	assert(helpers && helper && helper->done && !helper->run && key && request &&
	       timeout_ns > 0);
	ret = check_key(helpers, key, err);
	if (ret == 0)
		ret = check_room(helpers, helper->is_freeing, err);
	if (ret < 0)
		return ret;
	run = FM_FAULT("helper.alloc") ? NULL : calloc(1, sizeof(*run));
	if (!run)
		return fm_err_set(err, -ENOMEM, "no memory for a helper process");
	run->helpers = helpers;
	(void)snprintf(run->key, sizeof(run->key), "%s", key);
	ret = start_process(run, request, err);
	if (ret < 0)
		goto free_memory;
	ret = watch_process(run, err);
	if (ret < 0)
		goto end_process;
	ret = announce(run->pid, helper, err);
	if (ret < 0)
		goto unwatch;
	/* If it died meanwhile, its pidfd says so. */
	(void)send(run->answer_fd, "", 1, MSG_NOSIGNAL);
	run->helper = helper;
	run->timer.fire = time_is_up;
	fm_timer_set(helpers->loop, &run->timer, fm_loop_now(helpers->loop) + timeout_ns);
	fm_list_append(&helpers->runs, &run->link);
	run->is_freeing = helper->is_freeing;
	helpers->count += !run->is_freeing;
	helpers->freeing += run->is_freeing;
	helper->run = run;
	return 0;

unwatch:
	fm_watch_del(helpers->loop, &run->answer_watch);
	fm_watch_del(helpers->loop, &run->exit_watch);
end_process:
	(void)kill(-run->pid, SIGKILL);
	/* it waits for us */
	(void)waitid(P_PIDFD, (id_t)run->pid_fd, &(siginfo_t){ 0 }, WEXITED);
	close(run->answer_fd);
	close(run->pid_fd);
free_memory:
	free(run);
	return ret;
}

/* -------------------------------------------------------------------------------------- the end */

void fm_helpers_free(struct fm_helpers *helpers)
{
	struct fm_list *at;
	int left_ms = FREE_WAIT_MS;

	if (!helpers)
		return;
	for (at = helpers->runs.next; at != &helpers->runs; at = at->next)
		kill_run(fm_container_of(at, struct fm_helper_run, link));
	while (!fm_list_is_empty(&helpers->runs)) {
		struct fm_helper_run *run =
			fm_container_of(helpers->runs.next, struct fm_helper_run, link);
		struct pollfd pfd = { .fd = run->pid_fd, .events = POLLIN };

		/* One that does not die is left to whoever inherits it. */
		while (!run->is_stuck && left_ms > 0 && poll(&pfd, 1, 10) == 0)
			left_ms -= 10;
		(void)waitid(P_PIDFD, (id_t)run->pid_fd, &(siginfo_t){ 0 }, WEXITED | WNOHANG);
		tell(run, -ECANCELED, "cancelled", NULL);
		free_run(run);
	}
	free(helpers);
}
