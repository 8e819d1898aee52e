/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * Goal:   what a newer daemon says in words that this library does not know is not taken for what
 *         it does know. Nor does one that lies keep it asking for ever.
 * Method: a daemon of our own that answers the first request, or each one, with what is given.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lib/fmove.h"
#include "tests/fm_test.h"

static char path[64];
static int listener;
static pid_t child;

static bool answers_all;	/* not the first request alone */

/* "@@@@@@@@" in an answer becomes a number that is larger each time. */
static void count_up(char *text)
{
	static unsigned count;
	char digits[9];

	for (char *at = text; (at = strstr(at, "@@@@@@@@"));) {
		(void)snprintf(digits, sizeof(digits), "%08u", count++);
		memcpy(at, digits, 8);
	}
}

/* The id that the request has goes in front. False: it was closed. */
static bool answer_one(int fd, const char *const *answers)
{
	static char text[200 << 10];
	char request[4096];
	unsigned long long id = 0;
	const char *at;
	ssize_t n = recv(fd, request, sizeof(request) - 1, 0);

	request[n > 0 ? n : 0] = '\0';
	at = strstr(request, "\"id\":");
	if (!at || sscanf(at, "\"id\":%llu", &id) != 1)
		return false;
	for (; *answers; answers++) {
		int len = snprintf(text, sizeof(text), "{\"id\":%llu,%s}", id, *answers);

		count_up(text);
		(void)!send(fd, text, (size_t)len, MSG_NOSIGNAL);
	}
	return true;
}

static void answer_with(const char *const *answers)
{
	int fd = accept(listener, NULL, NULL);
	char more;

	while (answer_one(fd, answers) && answers_all)
		;
	(void)recv(fd, &more, sizeof(more), 0);	/* until it is closed */
}

static struct fmove *daemon_begin(const char *const *answers)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct fmove_error err;
	struct fmove *c;

	(void)snprintf(path, sizeof(path), "/tmp/fm-newer.%d", (int)getpid());
	(void)unlink(path);
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL_FATAL(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(listener, 1), 0);
	child = fork();
	if (child == 0) {
		answer_with(answers);
		_exit(0);
	}
	CU_ASSERT_EQUAL_FATAL(fmove_connect(path, &c, &err), 0);
	return c;
}

static void daemon_end(struct fmove *c)
{
	fmove_close(c);
	(void)waitpid(child, NULL, 0);
	(void)close(listener);
	(void)unlink(path);
}

struct found {
	unsigned count;
	enum fmove_finding_kind kinds[4];
};

static void on_finding(void *ctx, const struct fmove_finding *f)
{
	struct found *found = ctx;

	found->kinds[found->count++ % 4] = f->kind;
}

static void verify_finds(const struct fmove_verify_options *opts)
{
	static const char *const answers[] = {
		"\"event\":\"finding\",\"kind\":\"bent\",\"path\":\"a\",\"offset\":0,\"length\":1",
		"\"event\":\"finding\",\"path\":\"b\",\"offset\":0,\"length\":1",
		"\"event\":\"finding\",\"kind\":\"corrupt\",\"path\":\"c\",\"offset\":0,\"length\":"
		"1",
		"\"event\":\"done\",\"files\":3,\"bytes\":3,\"corrupt\":1", NULL};
	const struct fmove_name name = { "n", "s", "" };
	struct fmove *c = daemon_begin(answers);
	struct fmove_verified out = {.struct_size = sizeof(out)};
	struct fmove_error err;

	CU_ASSERT_EQUAL(fmove_verify(c, &name, opts, &out, &err), 0);
	CU_ASSERT_EQUAL(out.corrupt, 1);
	CU_ASSERT_EQUAL(out.other, 2);
	daemon_end(c);
}

static void test_findings(void)
{
	struct found found = { .count = 0 };
	const struct fmove_verify_options opts = {
		.struct_size = sizeof(opts), .finding = on_finding, .ctx = &found};

	verify_finds(&opts);
	CU_ASSERT_EQUAL(found.count, 3);
	CU_ASSERT_EQUAL(found.kinds[0], FMOVE_FINDING_OTHER);
	CU_ASSERT_EQUAL(found.kinds[1], FMOVE_FINDING_OTHER);
	CU_ASSERT_EQUAL(found.kinds[2], FMOVE_CORRUPT);
	verify_finds(NULL);
}

/* A page of so many entries that are the same, behind which there are more. */
static const char *make_page(const char *list, const char *entry, unsigned count)
{
	static char page[200 << 10];
	size_t len = (size_t)snprintf(page, sizeof(page),
				      "\"event\":\"done\",\"more\":true,\"%s\":[", list);

	for (unsigned i = 0; i < count; i++)
		len += (size_t)snprintf(page + len, sizeof(page) - len, "%s%s", i > 0 ? "," : "",
					entry);
	(void)snprintf(page + len, sizeof(page) - len, "]");
	return page;
}

static void on_aside(void *ctx, const struct fmove_aside *aside)
{
	(void)aside;
	++*(unsigned *)ctx;
}

/* Goal: a node that always tells of one more is found out. */
static void test_pages_without_end(void)
{
	const char *const answers[] = {
		make_page("aside", "{\"path\":\"a\",\"bytes\":1,\"since_ns\":1}", 256), NULL};
	const struct fmove_name name = { "n", "s", "" };
	struct fmove_error err;

	answers_all = true;
	for (int is_dry = 0; is_dry <= 1; is_dry++) {
		struct fmove *c = daemon_begin(answers);
		unsigned count = 0;

		CU_ASSERT_EQUAL(fmove_purge(c, &name, is_dry, on_aside, &count, &err), -EPROTO);
		CU_ASSERT_EQUAL(count, FMOVE_ASIDE_MAX);
		daemon_end(c);
	}
	answers_all = false;
}

static bool on_store(void *ctx, const struct fmove_space *space)
{
	(void)space;
	return ++*(unsigned *)ctx > 0;
}

static bool on_group(void *ctx, const struct fmove_group *group)
{
	(void)group;
	return ++*(unsigned *)ctx > 0;
}

/* Goal: so is one that has a further store, or a further group, whenever it is asked. */
static void test_names_without_end(void)
{
	static const char *const stores[] = {"\"event\":\"done\",\"store\":\"s@@@@@@@@\"", NULL};
	const char *const groups[] = {make_page("groups", "{\"path\":\"@@@@@@@@\"}", 256), NULL};
	const struct fmove_name node = {"n", "", ""}, store = {"n", "s", ""};
	unsigned count = 0;
	struct fmove_error err;
	struct fmove *c;

	answers_all = true;
	c = daemon_begin(stores);
	CU_ASSERT_EQUAL(fmove_space(c, &node, on_store, &count, &err), -EPROTO);
	CU_ASSERT_EQUAL(count, FMOVE_STORES_MAX);
	daemon_end(c);
	count = 0;
	c = daemon_begin(groups);
	CU_ASSERT_EQUAL(fmove_groups(c, &store, on_group, &count, &err), -EPROTO);
	CU_ASSERT_EQUAL(count, FMOVE_GROUPS_MAX);
	daemon_end(c);
	answers_all = false;
}

static bool on_entry(void *ctx, const struct fmove_entry *entry)
{
	(void)entry;
	return ++*(unsigned *)ctx > 0;
}

/* Goal: so is one whose directory has a further name whenever it is asked; some come at a time. */
static void test_entries_without_end(void)
{
	const char *const entries[] = {make_page("entries", "{}", 16384), NULL};
	const struct fmove_name dir = {"n", "s", "d"};
	struct fmove_error err;
	unsigned count = 0;
	struct fmove *c;

	answers_all = true;
	c = daemon_begin(entries);
	CU_ASSERT_EQUAL(fmove_list(c, &dir, "", on_entry, &count, &err), -EPROTO);
	CU_ASSERT_EQUAL(count, FMOVE_ENTRIES_MAX);
	daemon_end(c);
	answers_all = false;
}

struct states {
	unsigned count;
	enum fmove_job_state states[2];
};

static bool on_job(void *ctx, const struct fmove_job *job)
{
	struct states *s = ctx;

	s->states[s->count++ % 2] = job->state;
	return true;
}

static void test_states_of_jobs(void)
{
	static const char *const answers[] = {
		"\"event\":\"done\",\"jobs\":[{\"job\":\"1\",\"seq\":1,\"state\":\"dreaming\"},{"
		"\"job\":\"2\",\"seq\":2,\"state\":\"queued\"}]",
		NULL};
	struct fmove *c = daemon_begin(answers);
	struct states s = { .count = 0 };
	struct fmove_error err;

	CU_ASSERT_EQUAL(fmove_jobs(c, false, on_job, &s, &err), 0);
	CU_ASSERT_EQUAL(s.count, 2);
	CU_ASSERT_EQUAL(s.states[0], FMOVE_JOB_OTHER);
	CU_ASSERT_EQUAL(s.states[1], FMOVE_JOB_QUEUED);
	daemon_end(c);
}

static const struct fm_test tests[] = {
	{ "a node that always tells of one more is found out", test_pages_without_end },
	{ "and one that always has a further store or group", test_names_without_end },
	{ "and one whose directory always has a further name", test_entries_without_end },
	{ "a finding of a kind that is not known is none that is, and counts", test_findings },
	{ "a job in a state that is not known is in none that is", test_states_of_jobs },
};
FM_TEST_MAIN("newer", tests)
