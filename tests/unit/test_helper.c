/* SPDX-License-Identifier: MIT */
/*
 * Helper processes: a stub that does what the request says: answers, dies, hangs, answers nonsense,
 * too much or nothing. links: fm_nvmetcp
 *
 * What must be waited for is waited for; a deadline is short only where nothing but the deadline
 * can happen.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/helper_calls.h"
#include "nvmetcp/process.h"
#include "tests/fm_test.h"

#define LONG_NS (60 * FM_NS_PER_S)
#define SHORT_NS (50 * FM_NS_PER_MS)
#define POINTS_MAX 50

/* -------------------------------------------------------------------------------- as the helper */

static void stub_say(const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		ssize_t wrote = write(1, text, left);

		if (wrote < 0)
			_exit(3);
		text += wrote;
		left -= (size_t)wrote;
	}
}

/* Descriptors beyond the standard ones. The listing has one of its own. */
static unsigned stub_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (dir && readdir(dir))
		count++;
	if (dir)
		closedir(dir);
	return count - 2 - 3 - 1;
}

static void stub_echo(struct fm_json *request)
{
	struct fm_json *whole =
		fm_json_pack("{s:i, s:{s:O, s:i, s:i}}", "code", 0, "answer", "request", request,
			     "fds", (int)stub_fds(), "group", getpgrp() == getpid());
	char *text = fm_json_dump(whole, FM_JSON_ONE_LINE);

	stub_say(text);
	free(text);
	fm_json_free(whole);
}

static int stub_main(struct fm_json *request)
{
	const char *what = fm_json_as_text(fm_json_get(request, "call"));

	if (!what)
		return 4;
	if (strcmp(what, "echo") == 0)
		stub_echo(request);
	else if (strcmp(what, "error") == 0)
		stub_say("{\"code\": -5, \"text\": \"the disk is gone\", \"answer\": {\"trouble\": "
			 "\"other\"}}");
	else if (strcmp(what, "say") == 0)
		stub_say(fm_json_as_text(fm_json_get(request, "text")));
	else if (strcmp(what, "flood") == 0)
		for (;;)
			stub_say("0123456789012345678901234567890123456789");
	else if (strcmp(what, "die") == 0)
		(void)raise(SIGKILL);
	else if (strcmp(what, "exit") == 0)
		_exit(7);
	else if (strcmp(what, "touch") == 0)
		close(open(fm_json_as_text(fm_json_get(request, "text")),
			   O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	else if (strcmp(what, "hang") == 0)
		for (;;)
			pause();
	return 0;
}

/* -------------------------------------------------------------------------------------- fixture */

static struct fm_loop *loop;
static struct fm_helpers *helpers;
static struct fm_err err;

struct call {
	struct fm_helper helper;
	unsigned done;
	int code;
	char text[FM_ERR_TEXT_MAX];
	struct fm_json *answer;
};

static void call_done(struct fm_helper *helper, int code, const char *text,
		      const struct fm_json *answer)
{
	struct call *c = fm_container_of(helper, struct call, helper);

	c->done++;
	c->code = code;
	(void)snprintf(c->text, sizeof(c->text), "%s", text);
	c->answer = fm_json_share(answer);
}

static void set_up(int (*run)(struct fm_json *request))
{
	int ret = fm_loop_new(&(struct fm_loop_opts){ 0 }, &loop, &err);

	CU_ASSERT_EQUAL_FATAL(ret, 0);
	ret = fm_helpers_new(&(struct fm_helpers_opts){ .loop = loop, .run = run }, &helpers, &err);
	CU_ASSERT_EQUAL_FATAL(ret, 0);
}

static void tear_down(void)
{
	fm_helpers_free(helpers);
	fm_loop_free(loop);
	helpers = NULL;
	loop = NULL;
	/* no child is left, not even a dead one */
	CU_ASSERT_EQUAL(waitpid(-1, NULL, WNOHANG), -1);
	CU_ASSERT_EQUAL(errno, ECHILD);
}

static int start(struct call *c, const char *key, struct fm_json *request, uint64_t timeout_ns)
{
	int ret;

	*c = (struct call){ .helper = { .done = call_done } };
	fm_err_clear(&err);
	ret = fm_helper_start(helpers, &c->helper, key, request, timeout_ns, &err);
	fm_json_free(request);
	return ret;
}

static int start_call(struct call *c, const char *key, const char *what, uint64_t timeout_ns)
{
	return start(c, key, fm_json_pack("{s:s}", "call", what), timeout_ns);
}

static void wait_done(struct call *c)
{
	while (!c->done)
		(void)fm_loop_step(loop, FM_NS_PER_S);
}

static void run_call(struct call *c, const char *what)
{
	CU_ASSERT_EQUAL_FATAL(start_call(c, "k", what, LONG_NS), 0);
	wait_done(c);
	CU_ASSERT_EQUAL(c->done, 1);
}

/* ---------------------------------------------------------------------------------------- tests */

static void test_answer(void)
{
	struct call c;
	struct fm_json *request = fm_json_pack("{s:s, s:s}", "call", "echo", "name", "b\xc3\xa4r");

	set_up(stub_main);
	CU_ASSERT_EQUAL_FATAL(start(&c, "k", fm_json_share(request), LONG_NS), 0);
	CU_ASSERT_EQUAL(c.done, 0);
	wait_done(&c);
	CU_ASSERT_EQUAL(c.code, 0);
	CU_ASSERT_TRUE(fm_json_is_equal(fm_json_get(c.answer, "request"), request));
	CU_ASSERT_EQUAL(fm_json_as_i64(fm_json_get(c.answer, "fds")), 0);
	CU_ASSERT_EQUAL(fm_json_as_i64(fm_json_get(c.answer, "group")), 1);
	CU_ASSERT_EQUAL(fm_helpers_stuck(helpers), 0);
	fm_json_free(c.answer);
	fm_json_free(request);
	tear_down();
}

static void test_error(void)
{
	struct call c;

	set_up(stub_main);
	run_call(&c, "error");
	CU_ASSERT_EQUAL(c.code, -EIO);
	CU_ASSERT_STRING_EQUAL(c.text, "the disk is gone");
	CU_ASSERT_STRING_EQUAL(fm_json_as_text(fm_json_get(c.answer, "trouble")), "other");
	fm_json_free(c.answer);
	tear_down();
}

/* The largest answer is taken, which is more than a socket holds, one byte more is not. */
static void test_largest(void)
{
	static const char head[] = "{\"code\":0,\"answer\":{\"x\":\"", tail[] = "\"}}";
	char *text = malloc(FM_HELPER_ANSWER_MAX + 2);
	struct call c;

	CU_ASSERT_PTR_NOT_NULL_FATAL(text);
	set_up(stub_main);
	for (unsigned more = 0; more < 2; more++) {
		memset(text, 'x', FM_HELPER_ANSWER_MAX + more);
		memcpy(text, head, strlen(head));
		strcpy(text + FM_HELPER_ANSWER_MAX + more - strlen(tail), tail);
		CU_ASSERT_EQUAL_FATAL(start(&c, "k",
					    fm_json_pack("{s:s, s:s}", "call", "say", "text", text),
					    LONG_NS),
				      0);
		wait_done(&c);
		CU_ASSERT_EQUAL(c.code, more ? -EMSGSIZE : 0);
		fm_json_free(c.answer);
	}
	free(text);
	tear_down();
}

static void test_end_without_answer(void)
{
	struct call c;

	set_up(stub_main);
	run_call(&c, "die");
	CU_ASSERT_EQUAL(c.code, -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "signal 9"));
	CU_ASSERT_PTR_NULL(c.answer);
	run_call(&c, "exit");
	CU_ASSERT_EQUAL(c.code, -EPROTO);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "status 7"));
	tear_down();
}

static void test_nonsense(void)
{
	static const char *const texts[] = {
		"{",
		"[]",
		"{}",
		"{\"code\": 0}",
		"{\"code\": 0, \"answer\": []}",
		"{\"code\": 1, \"answer\": {}}",
		"{\"code\": -5}",
		"{\"code\": -5, \"text\": \"\"}",
		"{\"code\": -5, \"text\": 3}",
		"{\"code\": \"0\", \"answer\": {}}",
		"{\"code\": 0, \"answer\": {}, \"more\": 1}",
		"{\"code\": 0, \"answer\": {}} x",
		"{\"code\": 0, \"code\": 0, \"answer\": {}}",
	};
	struct call c;

	set_up(stub_main);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		CU_ASSERT_EQUAL_FATAL(
			start(&c, "k", fm_json_pack("{s:s, s:s}", "call", "say", "text", texts[i]),
			      LONG_NS),
			0);
		wait_done(&c);
		CU_ASSERT_EQUAL(c.code, -EBADMSG);
		CU_ASSERT_PTR_NULL(c.answer);
		CU_ASSERT_TRUE(strlen(c.text) > 10);
	}
	tear_down();
}

static void test_too_much(void)
{
	struct call c;

	set_up(stub_main);
	run_call(&c, "flood");
	CU_ASSERT_EQUAL(c.code, -EMSGSIZE);
	CU_ASSERT_PTR_NULL(c.answer);
	tear_down();
}

static void test_deadline(void)
{
	struct call c;

	set_up(stub_main);
	CU_ASSERT_FALSE(fm_helper_is_any(helpers, "k"));
	CU_ASSERT_EQUAL_FATAL(start_call(&c, "k", "hang", SHORT_NS), 0);
	CU_ASSERT_TRUE(fm_helper_is_any(helpers, "k"));
	CU_ASSERT_FALSE(fm_helper_is_any(helpers, "k:"));
	wait_done(&c);
	CU_ASSERT_EQUAL(c.code, -ETIMEDOUT);
	CU_ASSERT_EQUAL(c.done, 1);
	CU_ASSERT_FALSE(fm_helper_is_any(helpers, "k"));
	run_call(&c, "error");			/* the key is free again */
	fm_json_free(c.answer);
	tear_down();
}

static void test_give_up(void)
{
	struct call c;

	set_up(stub_main);
	CU_ASSERT_EQUAL_FATAL(start_call(&c, "k", "hang", LONG_NS), 0);
	fm_helper_give_up(helpers, &c.helper);
	CU_ASSERT_EQUAL(c.done, 0);
	wait_done(&c);
	CU_ASSERT_EQUAL(c.code, -ETIMEDOUT);
	CU_ASSERT_EQUAL(c.done, 1);
	fm_helper_give_up(helpers, &c.helper);	/* it has ended */
	run_call(&c, "error");
	fm_json_free(c.answer);
	tear_down();
}

static void test_keys(void)
{
	struct call a, b, c;

	set_up(stub_main);
	CU_ASSERT_EQUAL_FATAL(start_call(&a, "a", "hang", LONG_NS), 0);
	CU_ASSERT_EQUAL(start_call(&b, "a", "error", LONG_NS), -EBUSY);
	CU_ASSERT_EQUAL(err.code, -EBUSY);
	CU_ASSERT_EQUAL_FATAL(start_call(&c, "b", "error", LONG_NS), 0);
	wait_done(&c);
	CU_ASSERT_EQUAL(c.code, -EIO);
	fm_json_free(c.answer);
	CU_ASSERT_EQUAL(a.done, 0);
	tear_down();
	CU_ASSERT_EQUAL(a.done, 1);
	CU_ASSERT_EQUAL(a.code, -ECANCELED);
}

static void test_many(void)
{
	static struct call calls[FM_HELPERS_MAX], more, freeing;
	struct fm_json *request;
	char key[16];

	set_up(stub_main);
	for (unsigned i = 0; i < FM_HELPERS_MAX; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		CU_ASSERT_EQUAL_FATAL(start_call(&calls[i], key, "hang", LONG_NS), 0);
	}
	CU_ASSERT_EQUAL(start_call(&more, "more", "hang", LONG_NS), -EAGAIN);
	/* What ends them is not refused, and takes no place of theirs. */
	freeing = (struct call){.helper = {.done = call_done, .is_freeing = true}};
	request = fm_json_pack("{s:s}", "call", "error");
	CU_ASSERT_EQUAL_FATAL(fm_helper_start(helpers, &freeing.helper, "freeing", request,
					      LONG_NS, &err), 0);
	fm_json_free(request);
	wait_done(&freeing);
	CU_ASSERT_EQUAL(freeing.code, -EIO);
	fm_json_free(freeing.answer);
	CU_ASSERT_EQUAL(start_call(&more, "more", "hang", LONG_NS), -EAGAIN);
	fm_helper_give_up(helpers, &calls[0].helper);
	wait_done(&calls[0]);
	CU_ASSERT_EQUAL_FATAL(start_call(&calls[0], "again", "hang", LONG_NS), 0);
	CU_ASSERT_EQUAL(start_call(&more, "more", "hang", LONG_NS), -EAGAIN);
	tear_down();
	for (unsigned i = 0; i < FM_HELPERS_MAX; i++)
		CU_ASSERT_EQUAL(calls[i].done, 1);
}

/* done() may start the next call, for the same key. */
static void again_done(struct fm_helper *helper, int code, const char *text,
		       const struct fm_json *answer)
{
	struct call *c = fm_container_of(helper, struct call, helper);
	struct fm_json *request = fm_json_pack("{s:s}", "call", "error");

	(void)text;
	(void)answer;
	c->done++;
	CU_ASSERT_EQUAL(code, -EIO);
	if (c->done < 3)
		CU_ASSERT_EQUAL(fm_helper_start(helpers, helper, "k", request, LONG_NS, &err), 0);
	fm_json_free(request);
}

static void test_next_from_done(void)
{
	struct call c;

	set_up(stub_main);
	CU_ASSERT_EQUAL_FATAL(start_call(&c, "k", "error", LONG_NS), 0);
	c.helper.done = again_done;
	while (c.done < 3)
		(void)fm_loop_step(loop, FM_NS_PER_S);
	tear_down();
}

#ifdef FM_FAULTS
/* What systemd did not know as a kind of device when the unit started stays forbidden. */
static void test_forbidden_device(void)
{
	fm_fault_arm("helper.open", 1);
	CU_ASSERT_EQUAL(fm_helper_open_device("/dev/dm-0", NULL, NULL, 0, &err), -EPERM);
	fm_fault_arm(NULL, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "open /dev/dm-0"));
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "systemctl restart fmove-nvmed"));
}

/* The only child of this process. */
static pid_t only_child(void)
{
	FILE *f = fopen("/proc/thread-self/children", "r");
	int pid = 0;

	if (f) {
		if (fscanf(f, "%d", &pid) != 1)
			pid = 0;
		fclose(f);
	}
	return pid;
}

/* Goal: one that does not die is counted, keeps its key, and gives it back when it goes. Method:
 * the kill is left out, as the D state does. */
static void test_stuck(void)
{
	struct call c, second;
	pid_t pid;

	set_up(stub_main);
	fm_fault_arm("helper.kill", 1);
	CU_ASSERT_EQUAL_FATAL(start_call(&c, "k", "hang", SHORT_NS), 0);
	wait_done(&c);
	CU_ASSERT_TRUE(fm_fault_fired());
	CU_ASSERT_EQUAL(c.code, -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "hangs in the kernel"));
	CU_ASSERT_EQUAL(fm_helpers_stuck(helpers), 1);
	CU_ASSERT_TRUE(fm_helper_is_any(helpers, "k"));
	CU_ASSERT_EQUAL(start_call(&second, "k", "error", LONG_NS), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "hangs in the kernel"));
	pid = only_child();
	CU_ASSERT_TRUE_FATAL(pid > 1);
	CU_ASSERT_EQUAL(kill(pid, SIGKILL), 0);
	while (fm_helpers_stuck(helpers) > 0)
		(void)fm_loop_step(loop, FM_NS_PER_S);
	CU_ASSERT_EQUAL(c.done, 1);
	run_call(&second, "error");
	fm_json_free(second.answer);
	tear_down();
}

static unsigned fds_open(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Whatever call fails, there is one error with a text, no descriptor, no child, and the next call
 * works. */
static void test_faults(void)
{
	struct call c;
	unsigned fds;
	bool has_fired = true;
	int ret;

	set_up(stub_main);
	fds = fds_open();
	for (unsigned n = 1; has_fired; n++) {
		CU_ASSERT_TRUE_FATAL(n < POINTS_MAX);
		errno = 0;
		fm_fault_arm(NULL, n);
		ret = start_call(&c, "k", "error", LONG_NS);
		if (ret == 0)
			wait_done(&c);
		has_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		if (ret == 0) {
			fm_json_free(c.answer);
		} else {
			CU_ASSERT_EQUAL(err.code, ret);
			CU_ASSERT_TRUE(strlen(err.text) > 10);
			CU_ASSERT_EQUAL(c.done, 0);
		}
		CU_ASSERT_EQUAL(fds_open(), fds);
		CU_ASSERT_EQUAL(waitpid(-1, NULL, WNOHANG), -1);
	}
	tear_down();
}

#endif

/* The real helper, in this process' place: what is no request is answered, not met with silence. */
static void test_real(void)
{
	struct call c;

	set_up(fm_helper_main);
	run_call(&c, "no such call");
	CU_ASSERT_EQUAL(c.code, -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "no such call"));
	fm_json_free(c.answer);
	CU_ASSERT_EQUAL_FATAL(start(&c, "k",
				    fm_json_pack("{s:s, s:s, s:i}", "call", "probe", "device",
						 "/dev/null", "x", 1),
				    LONG_NS),
			      0);
	wait_done(&c);
	CU_ASSERT_EQUAL(c.code, -EINVAL);	/* a key that it does not know */
	fm_json_free(c.answer);
	CU_ASSERT_EQUAL_FATAL(
		start(&c, "k",
		      fm_json_pack("{s:s, s:s}", "call", "xfs_state", "device", "/dev/null"),
		      LONG_NS),
		0);
	wait_done(&c);
	CU_ASSERT_EQUAL(c.code, -ENOTBLK);
	fm_json_free(c.answer);
	tear_down();
}

static void run_json(struct call *c, const char *text)
{
	CU_ASSERT_EQUAL_FATAL(start(c, "k", fm_json_load(text), LONG_NS), 0);
	wait_done(c);
}

/* What is mounted is looked up by the name that the kernel gives it, so it must be written like
 * that. */
static void test_points(void)
{
	static const char *const bad[] = {
		"", "/", "x", "/tmp/", "//tmp", "/tmp/../tmp", "/./tmp", "/tmp/..", "/tmp/."};
	struct call c;
	char text[128];

	set_up(fm_helper_main);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		(void)snprintf(text, sizeof(text), "{\"call\": \"unmount\", \"point\": \"%s\"}",
			       bad[i]);
		run_json(&c, text);
		CU_ASSERT_EQUAL(c.code, -EINVAL);
		fm_json_free(c.answer);
	}
	run_json(&c, "{\"call\": \"unmount\", \"point\": \"/nonexistent/.hidden/..x\"}");
	CU_ASSERT_EQUAL(c.code, 0);	/* nothing is mounted there */
	fm_json_free(c.answer);
	tear_down();
}

static void test_resolve(void)
{
	struct call c;

	set_up(fm_helper_main);
	run_json(&c, "{\"call\": \"resolve\", \"host\": \"FD00:0::1\"}");
	CU_ASSERT_EQUAL(c.code, 0);
	CU_ASSERT_EQUAL(fm_json_count(fm_json_get(c.answer, "addresses")), 1);
	CU_ASSERT_STRING_EQUAL(fm_json_as_text(fm_json_at(fm_json_get(c.answer, "addresses"), 0)),
			       "fd00::1");
	fm_json_free(c.answer);
	run_json(&c, "{\"call\": \"resolve\", \"host\": \"no such name\"}");
	CU_ASSERT_TRUE(c.code == -ENOENT || c.code == -EAGAIN);
	CU_ASSERT_PTR_NOT_NULL(strstr(c.text, "no such name: "));
	fm_json_free(c.answer);
	tear_down();
}

/* Connect with a secret in a file of that mode; nothing is sent in any of these cases. */
static void check_secret(const char *content, mode_t mode, int want)
{
	char path[] = "/tmp/fm-secret-XXXXXX", text[512];
	int fd = mkstemp(path);
	struct call c;

	CU_ASSERT_TRUE_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(write(fd, content, strlen(content)), (ssize_t)strlen(content));
	CU_ASSERT_EQUAL(fchmod(fd, mode), 0);
	close(fd);
	(void)snprintf(text, sizeof(text),
		       "{\"call\": \"connect\", \"subsystem\": \"s\", \"address\": \"127.0.0.1\", "
		       "\"port\": \"1\", "
		       "\"host_nqn\": \"nqn.h\", \"host_id\": \"id\", \"secret_file\": "
		       "\"%s\"}",
		       path);
	run_json(&c, text);
	CU_ASSERT_EQUAL(c.code, want);
	CU_ASSERT_STRING_EQUAL(fm_json_as_text(fm_json_get(c.answer, "trouble")), "value");
	CU_ASSERT_PTR_NULL(strstr(c.text, "geheim"));
	fm_json_free(c.answer);
	(void)unlink(path);
}

static void test_secret_files(void)
{
	set_up(fm_helper_main);
	check_secret("geheim\n", 0640, -EACCES);
	check_secret("geheim\n", 0602, -EACCES);
	check_secret("geheim\n", 0600, -EINVAL);
	check_secret("", 0600, -EINVAL);
	tear_down();
}

/* ---- what is done between the process and its work ---- */

static char touched[64];		/* what the helper makes if it begins */
static int begins_ret;
static bool was_there;

static int begins(struct fm_helper *helper, const struct fm_process *process, struct fm_err *why)
{
	(void)helper;
	was_there = fm_process_may_live("", process);
	return begins_ret < 0 ? fm_err_set(why, begins_ret, "it is not noted") : 0;
}

static int begins_and_dies(struct fm_helper *helper, const struct fm_process *process,
			   struct fm_err *why)
{
	(void)helper;
	(void)process;
	(void)why;
	_exit(0);
}

static int start_touch(struct call *c,
		       int (*noted)(struct fm_helper *, const struct fm_process *, struct fm_err *))
{
	struct fm_json *request = fm_json_pack("{s:s, s:s}", "call", "touch", "text", touched);
	int ret;

	*c = (struct call){ .helper = { .begins = noted, .done = call_done } };
	fm_err_clear(&err);
	ret = fm_helper_start(helpers, &c->helper, "k", request, LONG_NS, &err);
	fm_json_free(request);
	return ret;
}

/* It begins when it is noted: not if that fails, and not if the supervisor dies meanwhile. */
static void test_begins(void)
{
	struct call c;
	int ends[2];
	pid_t pid;

	(void)snprintf(touched, sizeof(touched), "/tmp/fm-helper-begins-%d", (int)getpid());
	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		/* the helper's, too: its end is that of the pipe */
		(void)dup2(ends[1], STDERR_FILENO);
		set_up(stub_main);
		(void)start_touch(&c, begins_and_dies);
		_exit(1);
	}
	close(ends[1]);
	CU_ASSERT_EQUAL(read(ends[0], &(char){ 0 }, 1), 0);
	close(ends[0]);
	waitpid(pid, NULL, 0);
	CU_ASSERT_NOT_EQUAL(access(touched, F_OK), 0);

	set_up(stub_main);
	begins_ret = -ENOSPC;
	CU_ASSERT_EQUAL(start_touch(&c, begins), -ENOSPC);
	CU_ASSERT_STRING_EQUAL(err.text, "it is not noted");
	CU_ASSERT_TRUE(was_there && !c.done && !fm_helper_is_any(helpers, "k"));
	CU_ASSERT_EQUAL(waitpid(-1, NULL, WNOHANG), -1);
	CU_ASSERT_NOT_EQUAL(access(touched, F_OK), 0);

	begins_ret = 0;
	CU_ASSERT_EQUAL(start_touch(&c, begins), 0);
	wait_done(&c);
	CU_ASSERT_EQUAL(unlink(touched), 0);
	tear_down();
}

static const struct fm_test tests[] = {
	{"a call is answered, by a process with nothing of ours", test_answer},
	{"an error comes with its text", test_error},
	{"the largest answer is taken, a larger one is none", test_largest},
	{"a helper that ends without an answer is an error that says how", test_end_without_answer},
	{"nonsense is no answer", test_nonsense},
	{"a helper that does not stop talking is ended", test_too_much},
	{"a helper past its deadline is ended", test_deadline},
	{"a helper that is given up is ended at once", test_give_up},
	{"one call for one thing at a time; the end cancels what is under way", test_keys},
	{"there are no more than may be", test_many},
	{"done() may start the next call", test_next_from_done},
	{"a helper begins when that is noted, or not at all", test_begins},
	{"the real helper answers a bad request", test_real},
	{"a mount point must be written as the kernel writes it", test_points},
	{"a name is resolved, or the error names it", test_resolve},
	{"a secret is taken from a private file only, and not shown", test_secret_files},
#ifdef FM_FAULTS
	{"a device that the unit may not open: how it may", test_forbidden_device},
	{"a helper that does not die is counted until it has gone", test_stuck},
	{"each failure is one error and leaves nothing", test_faults},
#endif
};

int main(void)
{
	return fm_test_main("helper", tests, sizeof(tests) / sizeof(tests[0]));
}
