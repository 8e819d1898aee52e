/* SPDX-License-Identifier: MIT */
/*
 * What fmove-nvmed asks fmoved, with a socket of ours in the place of fmoved's.
 *
 * links: fm_nvmed
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "nvmetcp/daemon/fmoved.h"
#include "nvmetcp/peers.h"
#include "tests/fm_test.h"

#define WAIT_MS (FM_TEST_HANG_S * 1000)

static struct fm_loop *loop;
static struct fm_fmoved *fmoved;
static char dir[64], path[96], nvmed_path[96];
static int listener, peer;
static unsigned answers;
static struct fm_peers said;

/* It goes on where a test says so, and an answer is never too late. */
static uint64_t now_ns = FM_NS_PER_S;

static uint64_t tell_time(void *ctx)
{
	(void)ctx;
	return now_ns;
}

static const struct fm_clock slow_clock = { tell_time, NULL };

static void answered(void *ctx, struct fm_peers *peers)
{
	(void)ctx;
	fm_peers_clear(&said);
	said = *peers;
	answers++;
}

static void begin(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct fm_loop_opts loop_opts = { .clock = &slow_clock };
	struct fm_fmoved_opts opts = {
		.socket_path = path, .nvmed_socket_path = nvmed_path, .answered = answered};
	struct fm_err err;

	answers = 0;
	strcpy(dir, "/tmp/fm-asked.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/node", dir);
	snprintf(nvmed_path, sizeof(nvmed_path), "%s/nvmed", dir);
	strcpy(at.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&loop_opts, &loop, &err), 0);
	opts.loop = loop;
	CU_ASSERT_EQUAL_FATAL(fm_fmoved_new(&opts, &fmoved, &err), 0);
	fm_fmoved_ask(fmoved);
	peer = accept(listener, NULL, NULL);
	CU_ASSERT_TRUE_FATAL(peer >= 0);
}

static void end(void)
{
	fm_fmoved_stop(fmoved);
	while (fm_loop_step(loop, 0))
		;
	fm_fmoved_free(fmoved);
	fm_loop_free(loop);
	fm_peers_clear(&said);
	(void)close(peer);
	(void)close(listener);
	CU_ASSERT_EQUAL(unlink(path), 0);
	CU_ASSERT_EQUAL(rmdir(dir), 0);
}

/* With the writing end of a pipe, which nobody else has then. Returns the reading end. */
static int say_with_pipe(const char *text)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int ends[2];

	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	memcpy(CMSG_DATA(&control.head), &ends[1], sizeof(ends[1]));
	CU_ASSERT_EQUAL(sendmsg(peer, &msg, MSG_NOSIGNAL), (ssize_t)iov.iov_len);
	(void)close(ends[1]);
	return ends[0];
}

static void say(const char *text)
{
	CU_ASSERT_EQUAL(send(peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static bool has_ended(int in)
{
	struct pollfd p = { .fd = in };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

static void step_until_ended(int in)
{
	now_ns += FM_NS_PER_S;
	for (unsigned i = 0; i < WAIT_MS && !has_ended(in); i++)
		(void)fm_loop_step(loop, FM_NS_PER_MS);
	CU_ASSERT_TRUE(has_ended(in));
	(void)close(in);
}

static void step_until_answered(void)
{
	for (unsigned i = 0; i < WAIT_MS && answers == 0; i++)
		(void)fm_loop_step(loop, FM_NS_PER_MS);
	CU_ASSERT_EQUAL(answers, 1);
}

/* It is tried again a moment later. */
static void step_until_fault(void)
{
	now_ns += FM_NS_PER_S;
	for (unsigned i = 0; i < WAIT_MS && !fm_fault_fired(); i++)
		(void)fm_loop_step(loop, FM_NS_PER_MS);
	CU_ASSERT_TRUE(fm_fault_fired());
	fm_fault_arm(NULL, 0);
}

#define VOLUMES "{\"id\": 1, \"event\": \"volumes\", \"node\": \"n2\", \"volumes\": []}"
#define DONE "{\"id\": 1, \"event\": \"done\"}"

static void test_answer(void)
{
	begin();
	say(VOLUMES);
	say(DONE);
	step_until_answered();
	CU_ASSERT_EQUAL(said.node_count, 1);
	CU_ASSERT_STRING_EQUAL(said.why, "");
	end();
}

/*
 * Goal: nobody waits here until a file is closed that somebody puts beside an answer. Method: a
 * fault that is armed where a process is made for closing it tells that one is. What was never read
 * goes that way, too.
 */
static void test_descriptors(void)
{
	int first, second;

	if (fm_test_lacks_faults())
		return;
	begin();
	fm_fault_arm("packet.fork", 1);
	say(VOLUMES);
	first = say_with_pipe(VOLUMES);
	second = say_with_pipe(DONE);
	step_until_answered();
	CU_ASSERT_EQUAL(said.node_count, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(said.why, "not understood"));
	CU_ASSERT_FALSE(has_ended(first));
	step_until_fault();
	CU_ASSERT_FALSE(has_ended(first));
	step_until_ended(first);
	step_until_ended(second);
	end();

	begin();
	say(VOLUMES);
	say(DONE);
	first = say_with_pipe(VOLUMES);
	step_until_answered();
	CU_ASSERT_STRING_EQUAL(said.why, "");
	fm_fault_arm("packet.fork", 1);
	step_until_fault();
	step_until_ended(first);
	end();
}

int main(void)
{
	static const struct fm_test tests[] = {
		{ "an answer is heard", test_answer },
		{ "a descriptor ends it, and nobody waits for its file", test_descriptors },
	};

	return fm_test_main("nvmed_fmoved", tests, sizeof(tests) / sizeof(tests[0]));
}
