/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * test_client - the parts of fmove that need no daemon: names, arguments, what people read, the
 * part file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "client/cli/name.h"
#include "client/cli/outcome.h"
#include "client/cli/part.h"
#include "client/cli/progress.h"
#include "client/cli/show.h"
#include "client/cli/stage_line.h"
#include "client/cli/system.h"
#include "client/cli/turn.h"
#include "client/lib/tries.h"
#include "mover/journal/format.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

/* ---- trying again ---- */

/*
 * Goal: a try that ended behind the deadline says that the time is up, whatever kept it that long;
 * what cannot pass is said as it is.
 */
static void test_a_try_that_took_too_long(void)
{
	static const struct { int code; uint64_t retry_ms; int said; } cases[] = {
		{ -ECONNREFUSED, 60000, -ETIMEDOUT },
		{ -EEXIST, 60000, -EEXIST },
		{ -ECONNREFUSED, 0, -ECONNREFUSED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fmove_options opts = { .retry_ms = cases[i].retry_ms, .timeout_ms = 1 };
		struct fmove_error err = { .code = cases[i].code, .text = "why" };
		struct fm_tries t;

		fm_tries_begin(&t, &opts);
		t.deadline_ns = t.begun_ns;	/* it is over */
		CU_ASSERT_FALSE(fm_tries_again(&t, NULL, &err));
		CU_ASSERT_EQUAL(err.code, cases[i].said);
	}
}

/* ---- connecting ---- */

/* Nobody accepts; the backlog takes as many as it takes. */
static int listen_full(const char *path, int fds[], unsigned *count)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(fd, 1), 0);
	for (*count = 0; *count < 16; ++*count) {
		fds[*count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (connect(fds[*count], (struct sockaddr *)&address, sizeof(address)) < 0)
			break;
	}
	CU_ASSERT_TRUE_FATAL(*count < 16 && errno == EAGAIN);
	close(fds[*count]);
	return fd;
}

/* It has been said that it waits: one place is free then. */
static void accept_one(void *ctx, const char *text)
{
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "waiting: "));
	close(accept(*(int *)ctx, NULL, NULL));
}

/* Goal: where too many wait to be accepted, that is said, as something that passes; a command waits
 * for it. */
static void test_many_who_connect(void)
{
	char where[] = "/tmp/fm-client.XXXXXX", path[64];
	struct fm_turn turn;
	struct fmove_error err;
	struct fmove *c;
	unsigned count;
	int fds[16], fd;

	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(where));
	(void)snprintf(path, sizeof(path), "%s/sock", where);
	fd = listen_full(path, fds, &count);
	CU_ASSERT_EQUAL(fmove_connect(path, &c, &err), -EBUSY);
	CU_ASSERT_TRUE(err.is_full && strstr(err.text, "wait for fmoved"));
	CU_ASSERT_EQUAL(setenv("FMOVE_SOCKET", path, 1), 0);
	fm_turn_init(&turn, "put", false);
	turn.say = accept_one;
	turn.ctx = &fd;
	CU_ASSERT_EQUAL_FATAL(fm_turn_connect(&turn, &c, &err), 0);
	CU_ASSERT_TRUE(turn.is_said);
	fmove_close(c);
	while (count > 0)
		close(fds[--count]);
	close(fd);
	unlink(path);
	rmdir(where);
	unsetenv("FMOVE_SOCKET");
}

/* ---- results ---- */

static void test_a_result_says_what_carried_it(void)
{
	struct fmove_result r = {
		.transport = "rdma", .rdma_bytes = 5000, .why = "2 RDMA connections"};
	char text[FM_OUTCOME_TRANSPORT_MAX];

	CU_ASSERT_STRING_EQUAL(fm_outcome_transport(&r, text), "rdma (2 RDMA connections)");
	r.tcp_bytes = 1000;
	(void)strcpy(r.transport, "rdma+tcp");
	CU_ASSERT_STRING_EQUAL(
		fm_outcome_transport(&r, text),
		"rdma+tcp (5.00 kB over RDMA, 1.00 kB over TCP; 2 RDMA connections)");
	r.why[0] = '\0';
	CU_ASSERT_STRING_EQUAL(fm_outcome_transport(&r, text),
			       "rdma+tcp (5.00 kB over RDMA, 1.00 kB over TCP)");
	r.rdma_bytes = 0;
	(void)strcpy(r.transport, "tcp");
	CU_ASSERT_STRING_EQUAL(fm_outcome_transport(&r, text), "tcp");
}

/* ---- names ---- */

static void name_is(const char *text, const char *node, const char *store, const char *path,
		    bool is_dir)
{
	struct fm_name name;
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_name_parse(text, &name, &err), 0);
	CU_ASSERT_STRING_EQUAL(name.node, node);
	CU_ASSERT_STRING_EQUAL(name.store, store);
	CU_ASSERT_STRING_EQUAL(name.path, path);
	CU_ASSERT_EQUAL(name.is_dir, is_dir);
}

static void test_names_are_taken_apart(void)
{
	name_is("n2:s/a", "n2", "s", "a", false);
	name_is("n2:s", "n2", "s", "", true);
	name_is("n2:s/", "n2", "s", "", true);
	name_is("n2:s/a/b c/", "n2", "s", "a/b c", true);
	name_is("n2:s/a:b", "n2", "s", "a:b", false);
	name_is("n-1.lan:ck_pt/\xff\n", "n-1.lan", "ck_pt", "\xff\n", false);
	name_is("n2:s/../x", "n2", "s", "../x", false);		/* the node refuses it */
	name_is("n2:s//etc", "n2", "s", "/etc", false);		/* as well */
}

static void test_what_is_no_name_is_refused(void)
{
	static const char *const bad[] = { "",	  "n2",	  "n2/s",    ":s/a",	"n2:/a",
					   "n2:", "/a/b", "./a:b/c", "n 2:s/a", "n2:s t/a" };
	char text[5000];
	struct fm_name name;
	struct fm_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CU_ASSERT_EQUAL(fm_name_parse(bad[i], &name, &err), -EINVAL);
	memset(text, 'a', sizeof(text));
	memcpy(text, "n:s/", 4);
	text[4 + FMOVE_PATH_MAX] = '\0';
	CU_ASSERT_EQUAL(fm_name_parse(text, &name, &err), 0);
	CU_ASSERT_EQUAL(fm_name_append(&name, "b", &err), -ENAMETOOLONG);
	text[4 + FMOVE_PATH_MAX] = 'a';
	text[4 + FMOVE_PATH_MAX + 1] = '\0';
	CU_ASSERT_EQUAL(fm_name_parse(text, &name, &err), -ENAMETOOLONG);
	text[70] = '\0';
	memset(text, 'a', 70);
	text[65] = ':';
	CU_ASSERT_EQUAL(fm_name_parse(text, &name, &err), -EINVAL);
}

static void test_names_are_put_together(void)
{
	struct fm_name name;
	struct fm_err err;
	char text[64];

	CU_ASSERT_EQUAL(fm_name_parse("n:s", &name, &err), 0);
	CU_ASSERT_EQUAL(fm_name_append(&name, "a", &err), 0);
	CU_ASSERT_EQUAL(fm_name_append(&name, "b", &err), 0);
	CU_ASSERT_EQUAL(fm_name_text(&name, text, sizeof(text)), 7);
	CU_ASSERT_STRING_EQUAL(text, "n:s/a/b");
	CU_ASSERT_EQUAL(fm_name_text(&name, text, 4), 3);
	CU_ASSERT_STRING_EQUAL(fm_name_last("a/b/c"), "c");
	CU_ASSERT_STRING_EQUAL(fm_name_last("c"), "c");
}

/* ---- arguments ---- */

/*
 * Keys and operands in order, as text: "force limit=5 | a b". Standard error goes away meanwhile.
 */
static int parse(int argc, char **argv, char *out, size_t cap)
{
	int saved = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
	struct fm_args args;
	size_t at = 0;
	int key;

	(void)dup2(null, STDERR_FILENO);
	fm_args_begin(&args, "put", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		for (const struct fm_opt *o = fm_opts_put; o->name; o++)
			if (o->key == key)
				at += (size_t)snprintf(out + at, cap - at, "%s%s%s ", o->name,
						       o->arg ? "=" : "", o->arg ? args.value : "");
	}
	key = fm_args_end(&args, 1, 3);
	at += (size_t)snprintf(out + at, cap - at, "|");
	for (int i = 0; i < args.count; i++)
		at += (size_t)snprintf(out + at, cap - at, " %s", args.operands[i]);
	(void)dup2(saved, STDERR_FILENO);
	(void)close(saved);
	(void)close(null);
	return key < 0 ? args.status : 0;
}

static void args_are(const char *line, int status, const char *wanted)
{
	char words[256], out[512];
	char *argv[16];
	int argc = 0;

	(void)snprintf(words, sizeof(words), "put %s", line);
	for (char *at = strtok(words, " "); at; at = strtok(NULL, " "))
		argv[argc++] = at;
	CU_ASSERT_EQUAL(parse(argc, argv, out, sizeof(out)), status);
	if (wanted)
		CU_ASSERT_STRING_EQUAL(out, wanted);
}

static void test_options_and_operands_are_told_apart(void)
{
	args_are("a b", 0, "| a b");
	args_are("--force a --limit 5 b", 0, "force limit=5 | a b");
	args_are("--limit=5 a", 0, "limit=5 | a");
	args_are("-fq a", 0, "force quiet | a");
	args_are("a -- --force -q", 0, "| a --force -q");
	args_are("- a", 0, "| - a");
	args_are("--socket /x a", 0, "| a");
	args_are("", 2, NULL);
	args_are("a b c d", 2, NULL);
	args_are("--forse a", 2, NULL);
	args_are("--force=1 a", 2, NULL);
	args_are("a --limit", 2, NULL);
	args_are("-x a", 2, NULL);
	args_are("-fx a", 2, NULL);
}

static void test_the_nearest_word_is_suggested(void)
{
	static const char *const words[] = { "put", "get", "status", "stat", NULL };

	CU_ASSERT_STRING_EQUAL(fm_nearest("stauts", words), "status");
	CU_ASSERT_STRING_EQUAL(fm_nearest("puut", words), "put");
	CU_ASSERT_STRING_EQUAL(fm_nearest("sta", words), "stat");
	CU_ASSERT_PTR_NULL(fm_nearest("frobnicate", words));
	CU_ASSERT_PTR_NULL(fm_nearest("xyz", words));
	CU_ASSERT_PTR_NULL(fm_nearest("a-word-that-is-much-longer-than-any-of-them", words));
}

/* What is said for the words of other tools names commands that there are. */
static void test_the_words_of_other_tools_are_known(void)
{
	static const char *const words[] = {"cp", "push", "fetch", "cat", "du", "find", "rmdir",
					    "rename", "symlink", "ps", "stop", "nodes", "stores"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *says = fm_other_word(words[i]);
		bool is_there = false;

		CU_ASSERT_PTR_NOT_NULL_FATAL(says);
		for (const struct fm_cmd *c = fm_cmds; c->name; c++)
			is_there |= strlen(says) > strlen("fmove ") + strlen(c->name) &&
				    strncmp(says + strlen("fmove "), c->name, strlen(c->name)) == 0;
		CU_ASSERT_TRUE(is_there);
	}
	CU_ASSERT_PTR_NULL(fm_other_word("frobnicate"));
	CU_ASSERT_PTR_NULL(fm_other_word(""));
	CU_ASSERT_PTR_NULL(fm_other_word("cp copy"));
	CU_ASSERT_PTR_NULL(fm_other_word("a-word-that-is-much-longer-than-any-of-them"));
}

static void test_every_row_is_whole(void)
{
	bool has_verbs;

	for (const struct fm_cmd *c = fm_cmds; c->name; c++) {
		CU_ASSERT_PTR_EQUAL(fm_cmd_find(c->name), c);
		CU_ASSERT_TRUE(c->args && c->summary && c->opts);
		has_verbs = false;
		for (const struct fm_cmd *v = fm_cmds; v->name; v++)
			has_verbs |= fm_cmd_word(v, c->name) != NULL;
		CU_ASSERT_EQUAL(has_verbs, !c->run);
		for (const struct fm_opt *o = c->opts; o->name; o++) {
			CU_ASSERT_TRUE(o->key > 0 && o->help && strlen(o->help) > 0);
			for (const struct fm_opt *p = c->opts; p != o; p++)
				CU_ASSERT_TRUE(p->key != o->key && strcmp(p->name, o->name) != 0 &&
					       (p->letter == 0 || p->letter != o->letter));
		}
	}
	CU_ASSERT_PTR_NULL(fm_cmd_find("frobnicate"));
	CU_ASSERT_PTR_NULL(fm_cmd_word(fm_cmd_find("nvme status"), ""));
	CU_ASSERT_PTR_NULL(fm_cmd_word(fm_cmd_find("nvme status"), "nv"));
	CU_ASSERT_STRING_EQUAL(fm_cmd_word(fm_cmd_find("nvme status"), "nvme"), "status");
	CU_ASSERT_STRING_EQUAL(fm_cmd_word(fm_cmd_find("nvme"), ""), "nvme");
}

/* ---- what people read ---- */

static void test_numbers_read_well(void)
{
	char text[FM_SHOW_MAX];

	CU_ASSERT_STRING_EQUAL(fm_show_bytes(0, text), "0 B");
	CU_ASSERT_STRING_EQUAL(fm_show_bytes(999, text), "999 B");
	CU_ASSERT_STRING_EQUAL(fm_show_bytes(1000, text), "1.00 kB");
	CU_ASSERT_STRING_EQUAL(fm_show_bytes(12345, text), "12.3 kB");
	CU_ASSERT_STRING_EQUAL(fm_show_bytes(999999, text), "1.00 MB");
	CU_ASSERT_STRING_EQUAL(fm_show_bytes(123456789, text), "123 MB");
	CU_ASSERT_STRING_EQUAL(fm_show_bytes(UINT64_MAX, text), "18447 PB");
	CU_ASSERT_STRING_EQUAL(fm_show_rate(24.5e9, text), "24.5 GB/s");
	CU_ASSERT_STRING_EQUAL(fm_show_rate(1.23e6, text), "1.23 MB/s");
	CU_ASSERT_STRING_EQUAL(fm_show_rate(45.6e3, text), "45.6 kB/s");
	CU_ASSERT_STRING_EQUAL(fm_show_rate(7, text), "7 B/s");
	CU_ASSERT_STRING_EQUAL(fm_show_time(7, text), "0:07");
	CU_ASSERT_STRING_EQUAL(fm_show_time(3723, text), "1:02:03");
	CU_ASSERT_STRING_EQUAL(fm_show_count(0, text), "0");
	CU_ASSERT_STRING_EQUAL(fm_show_count(999, text), "999");
	CU_ASSERT_STRING_EQUAL(fm_show_count(1073741824, text), "1,073,741,824");
	CU_ASSERT_STRING_EQUAL(fm_show_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

static void test_nothing_shown_moves_the_cursor(void)
{
	char out[64];

	CU_ASSERT_STRING_EQUAL(fm_show("a b", 3, out, sizeof(out)), "a b");
	CU_ASSERT_STRING_EQUAL(fm_show("a\nb\tc", 5, out, sizeof(out)), "a\\nb\\tc");
	CU_ASSERT_STRING_EQUAL(fm_show("\033[2J", 4, out, sizeof(out)), "\\x1b[2J");
	CU_ASSERT_STRING_EQUAL(fm_show("\xc2\x9b" "2J", 4, out, sizeof(out)), "\\xc2\\x9b2J");
	CU_ASSERT_STRING_EQUAL(fm_show("caf\xc3\xa9\xff", 6, out, sizeof(out)), "caf\xc3\xa9\\xff");
	CU_ASSERT_STRING_EQUAL(fm_show("abcdefgh", 8, out, 9), "abcd");	/* cut, and terminated */
}

static void test_the_progress_line_says_what_is_known(void)
{
	struct fmove_progress p = {
		.state = "copying", .size = 50000000000, .bytes = 12300000000, .connections = 2
	};
	char line[256];

	fm_progress_line("ckpt.bin", &p, 6.2e9, 80, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line,
			       "ckpt.bin  12.3 GB of 50.0 GB   25%  6.20 GB/s  0:06 left  "
			       "2 connections");
	p.size = UINT64_MAX;
	p.connections = 1;
	fm_progress_line("-", &p, 6.2e9, 80, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line, "-  12.3 GB  6.20 GB/s  1 connection");
	p = (struct fmove_progress){
		.state = "copying", .size = 5000000000, .bytes = 1200000000, .files = 120};
	fm_progress_line("d", &p, 1e8, 80, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line, "d  120 files, 1.20 GB of 5.00 GB   24%  100 MB/s  0:38 left  "
				     "0 connections");
	p.bytes = p.size + 1;	/* the tree is larger than it was measured to be */
	fm_progress_line("d", &p, 1e8, 80, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line, "d  120 files, 5.00 GB  100 MB/s  0 connections");
	p = (struct fmove_progress){ .state = "queued", .size = UINT64_MAX, .before = 3 };
	fm_progress_line("a", &p, 0, 80, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line, "a  0 B  waiting, 3 before it");
	p = (struct fmove_progress){.state = "waiting",
				    .size = UINT64_MAX,
				    .again_ms = 11500,
				    .text = "n2 is\nnot connected"};
	fm_progress_line("a", &p, 0, 80, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line, "a  0 B  waiting, again in 0:12: n2 is\\nnot connected");
	p = (struct fmove_progress){
		.state = "committing", .size = UINT64_MAX, .bytes = 12300000000};
	fm_progress_line("ckpt.bin", &p, 0, 29, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line, "ckpt.bi  12.3 GB  committing");
}

static void report(struct fm_stage_line *l, uint64_t bytes, uint64_t size, unsigned s, int width,
		   char line[static 256])
{
	const struct fm_stage_report r = { .what = "set\n", .bytes = bytes, .size = size,
					   .phase = size > 0 ? "staging" : "listing",
					   .now_ns = s * FM_NS_PER_S };

	fm_stage_line_text(l, &r, width, line, 256);
}

static void test_the_line_of_a_dataset_says_rate_and_time_left(void)
{
	struct fm_stage_line l = { .is_begun = false };
	char line[256];

	report(&l, 0, 0, 5, 80, line);
	CU_ASSERT_STRING_EQUAL(line, "set\\n: listing");
	report(&l, 0, 0, 90, 80, line);	/* takes no part in the rate */
	report(&l, 1000000, 60000000, 100, 80, line);
	report(&l, 21000000, 60000000, 110, 80, line);
	CU_ASSERT_STRING_EQUAL(line, "set\\n: staging 21.0 MB of 60.0 MB  1.05 MB/s  0:37 left");
	report(&l, 60000000, 60000000, 150, 80, line);
	CU_ASSERT_STRING_EQUAL(line, "set\\n: staging 60.0 MB of 60.0 MB  1.00 MB/s");
}

static void test_the_line_of_several_nodes_names_who_is_not_ready(void)
{
	const struct fmove_stage_node nodes[] = {
		{ .node = "n1", .state = "ready", .bytes = 60000000, .is_wanted = true },
		{ .node = "n2", .state = "fetching", .bytes = 20000000, .is_wanted = true },
		{ .node = "n3", .state = "silent", .is_wanted = true },
		{ .node = "source", .state = "ready", .bytes = 60000000 },
	};
	struct fm_stage_line l = { .is_begun = false };
	char line[256];

	report(&l, 0, 60000000, 1, 80, line);
	for (int n = 0; n < 4; n++)
		fm_stage_line_node(&l, &nodes[n]);
	report(&l, 0, 60000000, 9, 200, line);
	CU_ASSERT_STRING_EQUAL(line, "set\\n: staging 80.0 MB of 180 MB  10.0 MB/s  0:10 left  "
				     "1 of 3 ready, n3 silent, n2 fetching 20.0 MB");
	for (int n = 0; n < 4; n++)
		fm_stage_line_node(&l, &nodes[n]);
	report(&l, 0, 60000000, 10, 40, line);
	CU_ASSERT_EQUAL(strlen(line), 39);
}

/* What cuts it then knows where a character ends. */
static void test_the_longest_line_is_not_cut(void)
{
	char line[FM_STAGE_LINE_MAX], what[256];
	struct fm_stage_line l = { .nodes = UINT32_MAX, .ready = UINT32_MAX };
	const struct fm_stage_report r = { .what = what, .phase = "reading into memory",
					   .size = UINT64_MAX };

	memset(what, 'w', sizeof(what) - 1);
	memset(l.bad, 'b', sizeof(l.bad) - 1);
	memset(l.others, 'o', sizeof(l.others) - 1);
	what[sizeof(what) - 1] = l.bad[sizeof(l.bad) - 1] = l.others[sizeof(l.others) - 1] = '\0';
	fm_stage_line_text(&l, &r, (int)sizeof(line), line, sizeof(line));
	CU_ASSERT_TRUE(strlen(line) < sizeof(line) - 2 * FM_SHOW_MAX);
	CU_ASSERT_EQUAL(strspn(strstr(line, "bo") ? strstr(line, "bo") + 1 : "", "o"), 255);
}

/* ---- the part file ---- */

static char dir[64];

static void path_of(const char *name, char *out, size_t cap)
{
	(void)snprintf(out, cap, "%s/%s", dir, name);
}

static unsigned files_in_dir(void)
{
	char command[128];
	unsigned n = 0;
	FILE *f;

	(void)snprintf(command, sizeof(command), "ls -A %s | wc -l", dir);
	f = popen(command, "r");
	if (!f || fscanf(f, "%u", &n) != 1)
		n = 999;
	if (f)
		(void)pclose(f);
	return n;
}

static void dir_make(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/fm-test-client.XXXXXX");
	if (!mkdtemp(dir))
		abort();
}

static void dir_remove(void)
{
	remove_all(dir);
}

static const struct fm_part_opts replacing = {.may_replace = true},
				 careful = {.may_replace = false};
static const struct fm_part_opts impatient = { .lock_wait_ms = 1 };

static void test_a_part_appears_only_when_published(void)
{
	struct fm_part_attr attr = { 0640, -1500000000, true };	/* before 1970 */
	struct fm_part part;
	struct fm_err err;
	char path[128];
	struct stat st;

	dir_make();
	path_of("a", path, sizeof(path));
	CU_ASSERT_EQUAL(fm_part_open(path, &careful, &part, &err), 0);
	CU_ASSERT_EQUAL(stat(path, &st), -1);
	CU_ASSERT_EQUAL(files_in_dir(), 2);	/* a journal is beside it */
	CU_ASSERT_EQUAL(write(part.file.fd, "abc", 3), 3);
	CU_ASSERT_EQUAL(fm_part_publish(&part, &attr, &err), 0);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 3);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0640);
	CU_ASSERT_EQUAL(st.st_mtim.tv_sec, -2);
	CU_ASSERT_EQUAL(st.st_mtim.tv_nsec, 500000000);
	CU_ASSERT_EQUAL(files_in_dir(), 1);

	CU_ASSERT_EQUAL(fm_part_open(path, &careful, &part, &err), -EEXIST);
	CU_ASSERT_EQUAL(fm_part_open(path, &replacing, &part, &err), 0);
	fm_part_discard(&part);
	CU_ASSERT_EQUAL(files_in_dir(), 1);
	CU_ASSERT_EQUAL(fm_part_open(path, &replacing, &part, &err), 0);
	CU_ASSERT_EQUAL(fm_part_publish(&part, &attr, &err), 0);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 0);
	dir_remove();
}

static void test_a_part_never_replaces_unasked(void)
{
	struct fm_part_attr attr = { 0644, 0, false };
	struct fm_part part;
	struct fm_err err;
	char path[128], bad[128];
	struct stat st;
	int fd;

	dir_make();
	path_of("a", path, sizeof(path));
	CU_ASSERT_EQUAL(fm_part_open(path, &careful, &part, &err), 0);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);	/* somebody was faster */
	CU_ASSERT_EQUAL(write(fd, "x", 1), 1);
	CU_ASSERT_EQUAL(close(fd), 0);
	CU_ASSERT_EQUAL(fm_part_publish(&part, &attr, &err), -EEXIST);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_size, 1);
	CU_ASSERT_EQUAL(files_in_dir(), 1);
	CU_ASSERT_EQUAL(fm_part_open(dir, &replacing, &part, &err), -EISDIR);
	path_of("none/a", bad, sizeof(bad));
	CU_ASSERT_EQUAL(fm_part_open(bad, &replacing, &part, &err), -ENOENT);
	CU_ASSERT_EQUAL(fm_part_open("/dev/null", &replacing, &part, &err), -EINVAL);
	dir_remove();
}

/* Goal: what somebody gave the name of the part is not what a get leaves under the final one. */
static void test_a_part_is_known_by_its_inode(void)
{
	struct fm_part_attr attr = { 0644, 0, true };
	struct fm_part part;
	struct fm_err err;
	char path[128], theirs[128];

	dir_make();
	path_of("a", path, sizeof(path));
	path_of("theirs", theirs, sizeof(theirs));
	CU_ASSERT_EQUAL(fm_part_open(path, &replacing, &part, &err), 0);
	CU_ASSERT_EQUAL(renameat(part.file.dir, part.file.name, AT_FDCWD, theirs), 0);
	CU_ASSERT_EQUAL(symlinkat("/etc/passwd", part.file.dir, part.file.name), 0);
	CU_ASSERT_EQUAL(fm_part_publish(&part, &attr, &err), -ESTALE);
	CU_ASSERT_EQUAL(files_in_dir(), 1);
	dir_remove();
}

/* What a daemon writes into a journal, as far as a part is concerned. */
static void journal_something(const struct fm_part *part)
{
	struct fm_journal_head head = { .name = "a" };
	uint8_t bytes[FM_JOURNAL_HEAD_LEN];
	struct stat st;

	CU_ASSERT_EQUAL(write(part->file.fd, "abc", 3), 3);
	CU_ASSERT_EQUAL(fstat(part->file.fd, &st), 0);
	head.ino = st.st_ino;
	fm_journal_head_put(&head, bytes);
	CU_ASSERT_EQUAL(write(part->file.journal, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
}

/* Goal: a part with something in its journal is there for the next get, which it takes from nobody
 * that is alive. */
static void test_a_part_is_gone_on_with(void)
{
	struct fm_part_attr attr = { 0400, 0, true };
	struct fm_part part, other;
	struct fm_err err;
	char path[128];
	struct stat st;
	int fd;

	dir_make();
	path_of("a", path, sizeof(path));
	CU_ASSERT_EQUAL(fm_part_open(path, &careful, &part, &err), 0);
	CU_ASSERT_FALSE(fm_part_leave(&part));		/* nothing in the journal */
	CU_ASSERT_EQUAL(files_in_dir(), 0);
	CU_ASSERT_EQUAL(fm_part_open(path, &careful, &part, &err), 0);
	CU_ASSERT_FALSE(part.file.has_content);
	journal_something(&part);
	CU_ASSERT_EQUAL(fm_part_open(path, &impatient, &other, &err), 0);
	CU_ASSERT_TRUE(other.file.journal < 0 && !other.file.has_content);
	fm_part_discard(&other);
	CU_ASSERT_EQUAL(unlinkat(part.file.dir, part.file.name, 0), 0);
	CU_ASSERT_FALSE(fm_part_leave(&part));		/* somebody removed it */
	CU_ASSERT_EQUAL(files_in_dir(), 0);
	CU_ASSERT_EQUAL(fm_part_open(path, &careful, &part, &err), 0);
	journal_something(&part);
	CU_ASSERT_TRUE(fm_part_leave(&part));
	CU_ASSERT_EQUAL(files_in_dir(), 2);

	CU_ASSERT_EQUAL(fm_part_open(path, &careful, &part, &err), 0);
	CU_ASSERT_TRUE(part.file.has_content);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);	/* somebody was faster */
	CU_ASSERT_EQUAL(fm_part_publish(&part, &attr, &err), -EEXIST);
	CU_ASSERT_EQUAL(close(fd), 0);
	CU_ASSERT_EQUAL(files_in_dir(), 3);
	CU_ASSERT_EQUAL(fm_part_open(path, &replacing, &part, &err), 0);
	CU_ASSERT_TRUE(part.file.has_content);
	CU_ASSERT_EQUAL(fm_part_publish(&part, &attr, &err), 0);
	CU_ASSERT_EQUAL(files_in_dir(), 1);
	CU_ASSERT_TRUE(stat(path, &st) == 0 && st.st_size == 3 && (st.st_mode & 07777) == 0400);
	dir_remove();
}

/*
 * Goal: the second Ctrl-C ends at once and leaves nothing. Method: a child that sends both to
 * itself.
 */
static void test_the_second_signal_removes_the_part(void)
{
	int status = 0;
	char path[128];
	pid_t child;

	dir_make();
	path_of("a", path, sizeof(path));
	child = fork();
	if (child == 0) {
		struct fm_part part;
		struct fm_err err;

		if (fm_interrupt_start(&err) < 0 || fm_part_open(path, &careful, &part, &err) < 0)
			_exit(1);
		(void)raise(SIGINT);
		if (!fm_is_interrupted())
			_exit(2);
		(void)raise(SIGINT);
		_exit(3);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130);
	CU_ASSERT_EQUAL(files_in_dir(), 0);
	dir_remove();
}

/* Goal: a pipe that nobody reads ends what we start, as it does elsewhere, and never us. */
static void test_what_we_start_has_the_signal_of_pipes(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct fm_err err;

		(void)signal(SIGPIPE, SIG_DFL);
		fm_pipe_signal_ignore();
		if (fm_system_run("kill -PIPE $$; exit 7", &err) == 0)
			_exit(1);
		if (!strstr(err.text, "status 141"))	/* 128 and the signal */
			_exit(2);
		_exit(raise(SIGPIPE) == 0 ? 3 : 4);
	}
	CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
	CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

static const struct fm_test tests[] = {
	{ "a try that took too long says that the time is up", test_a_try_that_took_too_long },
	{ "who finds too many before him at the socket waits", test_many_who_connect },
	{ "a result says what carried it", test_a_result_says_what_carried_it },
	{ "names are taken apart", test_names_are_taken_apart },
	{ "what is no name is refused", test_what_is_no_name_is_refused },
	{ "names are put together", test_names_are_put_together },
	{ "options and operands are told apart", test_options_and_operands_are_told_apart },
	{ "the nearest word is suggested", test_the_nearest_word_is_suggested },
	{ "the words of other tools are known", test_the_words_of_other_tools_are_known },
	{ "every row of the table is whole", test_every_row_is_whole },
	{ "numbers read well", test_numbers_read_well },
	{ "nothing shown moves the cursor", test_nothing_shown_moves_the_cursor },
	{ "the progress line says what is known", test_the_progress_line_says_what_is_known },
	{ "the line of a dataset says rate and time left",
	  test_the_line_of_a_dataset_says_rate_and_time_left },
	{ "the line of several nodes names who is not ready",
	  test_the_line_of_several_nodes_names_who_is_not_ready },
	{ "the longest line is not cut", test_the_longest_line_is_not_cut },
	{ "a part appears under its name only when published",
	  test_a_part_appears_only_when_published },
	{ "a part never replaces a file unasked", test_a_part_never_replaces_unasked },
	{ "a part is known by its inode, not by its name", test_a_part_is_known_by_its_inode },
	{ "a part is gone on with", test_a_part_is_gone_on_with },
	{ "what we start has the signal of pipes", test_what_we_start_has_the_signal_of_pipes },
	{ "the second signal ends at once and removes the part",
	  test_the_second_signal_removes_the_part },
};
FM_TEST_MAIN("client", tests)
