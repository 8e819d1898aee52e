/* SPDX-License-Identifier: MIT */
/* links: fm_api fm_transport fm_store */
/*
 * test_api - the local API against the clients it must expect: right ones, wrong ones, hostile
 * ones. The engine behind it is the real one, with a store and without peers; transfers between
 * nodes are for tests/cli.
 */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/un.h>

#include "mover/api/api.h"
#include "mover/api/api_event.h"
#include "mover/api/api_op.h"
#include "mover/base/json.h"
#include "mover/base/worker.h"
#include "mover/node/engine.h"
#include "mover/services/services.h"
#include "mover/queue/queue.h"
#include "mover/store/store.h"
#include "tests/unit/net_test.h"

#define ARENA (1u << 20)

/* One daemon, without its lanes' threads. */
struct node {
	struct fm_loop *loop;
	struct fm_worker *worker;
	struct fm_net *net;
	struct fm_engine *engine;
	struct fm_queue *queue;
	struct fm_api *api;
	void *arena;
	char socket[108];	/* as long as the path of a socket can be */
	bool is_stopped;
};

static void store_add(struct node *n)
{
	static const char *const all[] = { "*", NULL };
	struct fm_store_opts opts = { .name = "s", .read = all, .write = all };
	struct fm_store *store;
	struct fm_err err;
	char dir[128];

	(void)snprintf(dir, sizeof(dir), "%s/s", test_dir());
	(void)mkdir(dir, 0755);
	opts.directory = dir;
	if (fm_store_open(&opts, &store, &err) < 0 ||
	    fm_engine_set_store(n->engine, store, &err) < 0)
		abort();
}

static int node_api(struct node *n, struct fm_api **out, struct fm_err *err)
{
	struct fm_api_opts opts = {
		.socket_path = n->socket, .mode = 0600, .gid = (gid_t)-1, .queue = n->queue,
		.ops = fm_api_ops, .node = "n1", .buffer_bytes = 64u << 20
	};

	return fm_api_new(n->loop, &opts, n->engine, out, err);
}

static void queue_begin(struct node *n)
{
	struct fm_queue_config config = { .loop = n->loop,
					  .needs = &fm_queue_engine,
					  .engine = n->engine,
					  .worker = n->worker,
					  .random = &fm_random_real,
					  .node = "n1",
					  .running_max = 4 };
	struct fm_err err;
	char dir[128];

	(void)snprintf(dir, sizeof(dir), "%s/jobs", test_dir());
	config.directory = dir;
	if (fm_queue_new(&config, &n->queue, &err) < 0)
		abort();
}

/* Everything but the API. */
static void node_begin(struct node *n)
{
	struct fm_net_opts net = { .listen = "127.0.0.1:0",
				   .key_file = key_file(1),
				   .is_tcp_allowed = true };
	struct fm_engine_opts opts = { .node = "n1",
				       .lanes = 1,
				       .chunk_bytes = 65536,
				       .slab_bytes = 1u << 18,
				       .tcp_conns = 1,
				       .rdma_conns = 1,
				       .stall_ns = 10 * FM_NS_PER_S };
	struct fm_engine_env env = { .clock = &test_clock, .random = &fm_random_real,
				     .services = fm_services };
	struct fm_err err;

	*n = (struct node){ .loop = loop_new() };
	(void)snprintf(n->socket, sizeof(n->socket), "%s/fmoved.sock", test_dir());
	(void)unlink(n->socket);
	n->arena = aligned_alloc(4096, ARENA);
	env.loop = env.lane_loops[0] = n->loop;
	env.arena = n->arena;
	env.arena_len = ARENA;
	if (fm_worker_new(2, &n->worker, &err) < 0 || fm_net_new(n->loop, &net, &n->net, &err) < 0)
		abort();
	env.net = n->net;
	env.worker = n->worker;
	fm_net_key(n->net, opts.key);
	if (fm_engine_new(&opts, &env, &n->engine, &err) < 0)
		abort();
	store_add(n);
	if (fm_engine_start(n->engine, &err) < 0)
		abort();
	queue_begin(n);
}

static void node_up(struct node *n)
{
	struct fm_err err;

	node_begin(n);
	CU_ASSERT_EQUAL_FATAL(node_api(n, &n->api, &err), 0);
}

static void node_stopped(void *ctx)
{
	((struct node *)ctx)->is_stopped = true;
}

static void node_down(struct node *n)
{
	if (n->api)
		fm_api_stop(n->api);
	fm_queue_stop(n->queue);
	fm_engine_stop(n->engine, node_stopped, n);
	CU_ASSERT_TRUE(WAIT_FOR(n->loop, n->is_stopped));
	loop_idle(n->loop, 5);
	/* What it still has ends now, and its done() must run while those it belongs to are
	 * there. */
	fm_queue_worker_ends(n->queue);
	fm_worker_free(n->worker);
	while (fm_loop_step(n->loop, 0))
		;
	fm_api_free(n->api);
	fm_queue_free(n->queue);
	fm_engine_free(n->engine);
	fm_net_free(n->net);
	fm_loop_free(n->loop);
	free(n->arena);
}

/* ---- clients ---- */

static int client(const struct node *n)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", n->socket);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static ssize_t send_bytes(int fd, const void *text, size_t len, const int *fds, size_t fd_count)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(253 * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec iov = { (void *)(uintptr_t)text, len };
	struct msghdr hdr = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd_count > 0) {
		hdr.msg_control = &control;
		hdr.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		control.align = (struct cmsghdr){ CMSG_LEN(fd_count * sizeof(int)), SOL_SOCKET,
						  SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.align), fds, fd_count * sizeof(int));
	}
	return sendmsg(fd, &hdr, MSG_NOSIGNAL);
}

static void send_text(int fd, const char *text)
{
	CU_ASSERT_EQUAL(send_bytes(fd, text, strlen(text), NULL, 0), (ssize_t)strlen(text));
}

static bool is_readable(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

/* The next message; "" if the connection was closed, "?" if none came. */
static const char *answer(struct node *n, int fd)
{
	static char text[FM_API_MSG_MAX + 1];
	ssize_t len;

	if (!WAIT_FOR(n->loop, is_readable(fd)))
		return "?";
	len = recv(fd, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	return text;
}

static const char *ask(struct node *n, int fd, const char *text)
{
	send_text(fd, text);
	return answer(n, fd);
}

static bool says(const char *text, const char *part)
{
	if (strstr(text, part))
		return true;
	printf("\n    \"%s\" does not say \"%s\"\n", text, part);
	return false;
}

static unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

/* ---- right ones ---- */

static void test_requests_about_our_own_store_are_answered(void)
{
	struct node n;
	int fd;

	node_up(&n);
	fd = client(&n);
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":7}"),
			    "{\"id\":7,\"event\":\"done\",\"version\":\"" FM_VERSION
			    "\",\"api\":1,\"node\":\"n1\"}"));
	CU_ASSERT_TRUE(
		says(ask(&n, fd, "{\"op\":\"mkdir\",\"id\":1,\"store\":\"s\",\"path\":\"d/e\"}"),
		     "\"event\":\"done\""));
	CU_ASSERT_TRUE(says(
		ask(&n, fd,
		    "{\"op\":\"mkdir\",\"id\":1,\"store\":\"s\",\"path\":{\"bytes\":\"ZC//\"}}"),
		"\"event\":\"done\""));
	CU_ASSERT_TRUE(says(ask(&n, fd,
				"{\"op\":\"move\",\"id\":1,\"store\":\"s\",\"path\":\"d/e\","
				"\"to\":\"d/f\"}"),
			    "\"event\":\"done\""));
	CU_ASSERT_TRUE(says(
		ask(&n, fd, "{\"op\":\"move\",\"id\":1,\"store\":\"s\",\"path\":\"d/f\"}"),
		"\"code\":\"EINVAL\""));
	CU_ASSERT_TRUE(says(ask(&n, fd,
				"{\"op\":\"move\",\"id\":1,\"store\":\"s\",\"path\":\"d/f\","
				"\"to\":\"d/e\",\"force\":true}"),
			    "\"event\":\"done\""));
	CU_ASSERT_TRUE(says(
		ask(&n, fd,
		    "{\"op\":\"list\",\"id\":2,\"node\":\"n1\",\"store\":\"s\",\"path\":\"d\"}"),
		"\"entries\":[{\"name\":\"e\",\"type\":\"directory\""));
	CU_ASSERT_TRUE(says(
		ask(&n, fd,
		    "{\"op\":\"list\",\"id\":2,\"store\":\"s\",\"path\":\"d\",\"after\":\"e\"}"),
		"\"entries\":[{\"name\":{\"bytes\":\"/w==\"}"));
	CU_ASSERT_TRUE(
		says(ask(&n, fd, "{\"op\":\"stat\",\"id\":3,\"store\":\"s\",\"path\":\"d\"}"),
		     "\"type\":\"directory\""));
	CU_ASSERT_TRUE(says(ask(&n, fd,
				"{\"op\":\"remove\",\"id\":4,\"store\":\"s\",\"path\":\"d\","
				"\"recursive\":true}"),
			    "done"));
	CU_ASSERT_TRUE(
		says(ask(&n, fd, "{\"op\":\"stat\",\"id\":5,\"store\":\"s\",\"path\":\"d\"}"),
		     "\"code\":\"ENOENT\",\"exit\":1"));
	CU_ASSERT_TRUE(
		says(ask(&n, fd, "{\"op\":\"status\",\"id\":6}"),
		     "\"stores\":[{\"name\":\"s\",\"durable\":false}],\"peers\":[],\"jobs\":[]"));
	(void)close(fd);
	node_down(&n);
}

/* Goal: a status that is too long leaves out what does not fit. Method: every size of the message
 * up to enough. */
static void test_a_status_that_is_too_long_leaves_out(void)
{
	static const char whole[] = "\"stores\":[{\"name\":\"s\",\"durable\":false}],\"peers\":[],"
				    "\"jobs\":[],\"idle\":true,\"left_out\":0}";
	static const char without[] = "\"stores\":[],\"peers\":[],\"jobs\":[],"
				      "\"idle\":true,\"left_out\":1}";
	unsigned refused = 0, left_out = 0;
	bool is_whole = false;
	struct node n;

	node_up(&n);
	for (size_t cap = 1; !is_whole && cap < 4096; cap++) {
		/* as long as it is said to be, for the address sanitizer */
		char *buf = malloc(cap);
		int len = fm_api_event_status(buf, cap, 6, n.engine, NULL, NULL);

		is_whole = len >= 0 && strstr(buf, whole);
		refused += len == -EMSGSIZE;
		left_out += len >= 0 && strstr(buf, without);
		CU_ASSERT_TRUE(len < (int)cap);
		free(buf);
	}
	CU_ASSERT_TRUE(is_whole && refused > 0 && left_out > 0);
	node_down(&n);
}

static void test_what_is_stored_is_verified(void)
{
	char path[160];
	struct node n;
	int fd, file;

	node_up(&n);
	fd = client(&n);
	(void)snprintf(path, sizeof(path), "%s/s/not-ours", test_dir());
	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CU_ASSERT_TRUE_FATAL(file >= 0 && write(file, "x", 1) == 1);
	(void)close(file);
	CU_ASSERT_TRUE(says(
		ask(&n, fd,
		    "{\"op\":\"verify\",\"id\":1,\"store\":\"s\",\"path\":\"\",\"progress_ms\":1}"),
		"\"event\":\"done\",\"files\":1,\"bytes\":0,\"corrupt\":0,\"unreadable\":0,"
		"\"changed\":0,\"missing\":0,\"swapped\":0,\"without\":1,\"unlisted\":0}"));
	CU_ASSERT_TRUE(says(ask(&n, fd,
				"{\"op\":\"verify\",\"id\":2,\"node\":\"n1\",\"store\":\"s\","
				"\"path\":\"none\"}"),
			    "ENOENT"));
	(void)unlink(path);
	(void)close(fd);
	node_down(&n);
}

/* A peer that never comes, and a file for it. */
static void peer_add(struct node *n)
{
	struct fm_peer_opts peer = { .name = "n2", .key = { 2 } };
	char path[160];
	int file;

	if (fm_engine_set_peer(n->engine, &peer, NULL) < 0)
		abort();
	(void)snprintf(path, sizeof(path), "%s/s/file", test_dir());
	file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)close(file);
}

/* Ask something about a job; before its id stands `text`. */
static const char *ask_job(struct node *n, int fd, const char *text, const char *job)
{
	char whole[256];

	(void)snprintf(whole, sizeof(whole), "%s,\"job\":\"%s\"}", text, job);
	return ask(n, fd, whole);
}

static void test_a_detached_job_is_everybodys_who_may(void)
{
	char job[FM_QUEUE_ID_LEN + 1], wait[96];
	const char *text;
	struct node n;
	int fd, other;

	node_up(&n);
	peer_add(&n);
	fd = client(&n);
	text = ask(&n, fd,
		   "{\"op\":\"put\",\"id\":1,\"node\":\"n2\",\"store\":\"s\",\"path\":\"x\","
		   "\"local_store\":\"s\","
		   "\"local_path\":\"file\",\"detach\":true,\"priority\":\"high\"}");
	CU_ASSERT_TRUE_FATAL(says(text, "{\"id\":1,\"event\":\"done\",\"job\":\""));
	memcpy(job, strstr(text, "\"job\":\"") + 7, FM_QUEUE_ID_LEN);
	job[FM_QUEUE_ID_LEN] = '\0';
	(void)close(fd);
	loop_idle(n.loop, 5);
	fd = client(&n);
	text = ask(&n, fd, "{\"op\":\"jobs\",\"id\":2}");
	CU_ASSERT_TRUE(says(text, job));
	CU_ASSERT_TRUE(says(
		text,
		"\"op\":\"put\",\"state\":\"running\",\"priority\":\"high\",\"detached\":true"));
	CU_ASSERT_TRUE(
		says(text, "\"local_node\":\"n1\",\"local_store\":\"s\",\"local_path\":\"file\""));
	CU_ASSERT_TRUE(says(text, "\"more\":false}"));
	CU_ASSERT_TRUE(says(ask_job(&n, fd, "{\"op\":\"jobs\",\"id\":3", job), "\"seq\":1"));
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"jobs\",\"id\":4,\"seq\":1}"),
			    "\"jobs\":[],\"more\":false}"));
	CU_ASSERT_TRUE(says(ask_job(&n, fd, "{\"op\":\"resume\",\"id\":5", job), "EALREADY"));
	/* Who waits sees how far it is, and may stop waiting. */
	text = ask_job(&n, fd, "{\"op\":\"wait\",\"id\":6,\"progress_ms\":20", job);
	/* its file is opened first */
	while (strstr(text, "\"progress\"") && !strstr(text, "\"connecting\""))
		text = answer(&n, fd);
	CU_ASSERT_TRUE(says(text, "{\"id\":6,\"event\":\"progress\",\"state\":\"connecting\""));
	send_text(fd, "{\"op\":\"cancel\",\"id\":7,\"job\":6}");
	do {
		text = answer(&n, fd);
	} while (strstr(text, "progress"));
	CU_ASSERT_TRUE(says(text, "\"id\":6,\"event\":\"error\",\"code\":\"ECANCELED\""));
	CU_ASSERT_TRUE(says(answer(&n, fd), "\"id\":7,\"event\":\"done\""));
	/* Cancelled by one, told to the other. */
	other = client(&n);
	(void)snprintf(wait, sizeof(wait), "{\"op\":\"wait\",\"id\":8,\"job\":\"%s\"}", job);
	send_text(other, wait);
	loop_idle(n.loop, 5);
	CU_ASSERT_TRUE(says(ask_job(&n, fd, "{\"op\":\"cancel\",\"id\":9", job),
			    "\"id\":9,\"event\":\"done\""));
	CU_ASSERT_TRUE(says(answer(&n, other),
			    "\"id\":8,\"event\":\"error\",\"code\":\"ECANCELED\",\"exit\":130"));
	CU_ASSERT_TRUE(
		says(ask_job(&n, fd, "{\"op\":\"jobs\",\"id\":3", job), "\"state\":\"cancelled\""));
	CU_ASSERT_TRUE(says(ask_job(&n, fd, "{\"op\":\"resume\",\"id\":5", job), "done"));
	(void)close(other);
	(void)close(fd);
	node_down(&n);
}

/* ---- wrong ones ---- */

static void test_every_mistake_is_named(void)
{
	static const char *const cases[][2] = {
		{"{\"op\":\"ping\"}", "\\\"id\\\""},
		{"{\"op\":\"ping\",\"id\":-1}", "\\\"id\\\""},
		{"{\"op\":\"ping\",\"id\":9007199254740992}", "\\\"id\\\""},
		{"{\"op\":\"ping\",\"id\":\"1\"}", "\"id\":null"},
		{"{\"id\":1}", "\\\"op\\\""},
		{"{\"op\":\"pong\",\"id\":1}", "unknown operation \\\"pong\\\""},
		{"{\"op\":\"ping\",\"id\":1,\"x\":2}", "unknown key \\\"x\\\""},
		{"{\"op\":\"ping\",\"id\":1,\"path\":\"a\"}",
		 "\\\"path\\\" has no meaning for ping"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"force\":true}",
		 "\\\"force\\\" has no meaning for get without"},
		{"{\"op\":\"put\",\"id\":1,\"store\":\"s\",\"path\":\"a\"}",
		 "put needs \\\"node\\\""},
		{"{\"op\":\"stat\",\"id\":1,\"path\":\"a\"}", "stat needs \\\"store\\\""},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\"s\"}", "stat needs \\\"path\\\""},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\".staging.lent\",\"path\":\"a\"}",
		 "'.staging.lent' is no name of a store"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"local_store\":\".staging.lent\",\"local_path\":\"a\"}",
		 "'.staging.lent' is no name of a store"},
		{"{\"op\":\"cancel\",\"id\":1}", "cancel needs \\\"job\\\""},
		{"{\"op\":\"wait\",\"id\":1}", "wait needs \\\"job\\\""},
		{"{\"op\":\"wait\",\"id\":1,\"job\":7}", "\\\"job\\\": not the id of a job"},
		{"{\"op\":\"wait\",\"id\":1,\"job\":\"\"}", "\\\"job\\\": not the id of a job"},
		{"{\"op\":\"wait\",\"id\":1,\"job\":\"abcdefgh\"}", "you have no job abcdefgh"},
		{"{\"op\":\"wait\",\"id\":1,\"job\":\"abcdefghi\"}", "is no id of a job"},
		{"{\"op\":\"cancel\",\"id\":1,\"job\":\"abcdefgh\"}", "you have no job abcdefgh"},
		{"{\"op\":\"resume\",\"id\":1,\"job\":\"abcdefgh\"}", "you have no job abcdefgh"},
		{"{\"op\":\"jobs\",\"id\":1,\"job\":\"abcdefgh\"}", "you have no job abcdefgh"},
		{"{\"op\":\"jobs\",\"id\":1,\"seq\":-1}", "\\\"seq\\\""},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1,\"priority\":\"urgent\"}",
		 "\\\"priority\\\": not one of normal, low, high"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1,\"detach\":true}",
		 "leave out --detach"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1,\"local_store\":\"s\",\"local_path\":\"a\"}",
		 "leaves no room"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1,\"local_path\":\"a\"}",
		 "needs \\\"local_store\\\""},
		{"{\"op\":\"cancel\",\"id\":1,\"job\":5}", "no transfer with the id 5"},
		{"{\"op\":\"stat\",\"id\":1,\"store\":3,\"path\":\"a\"}", "\\\"store\\\""},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\"s\",\"path\":\"a\\u0000b\"}", "NUL"},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\"s\",\"path\":{\"bytes\":\"AA==\"}}", "NUL"},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\"s\",\"path\":{\"bytes\":\"A\"}}", "BASE64"},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\"s\",\"path\":{}}", "BASE64"},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\"s\",\"path\":\"../x\"}", "\\\"..\\\""},
		{"{\"op\":\"stat\",\"id\":1,\"store\":\"none\",\"path\":\"x\"}", "none"},
		{"{\"op\":\"verify\",\"id\":1,\"store\":\"none\",\"path\":\"x\"}", "none"},
		{"{\"op\":\"verify\",\"id\":1,\"store\":\"s\"}", "needs \\\"path\\\""},
		{"{\"op\":\"verify\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\"}",
		 "n9"},
		{"{\"op\":\"verify\",\"id\":1,\"store\":\"s\",\"path\":\"../x\"}", "\\\"..\\\""},
		{"{\"op\":\"put\",\"id\":1,\"verify\":\"twice\",\"node\":\"n9\",\"store\":\"s\","
		 "\"path\":\"x\"}",
		 "not one of none, readback"},
		{"{\"op\":\"get\",\"id\":1,\"hold\":true,\"node\":\"n9\",\"store\":\"s\",\"path\":"
		 "\"x\"}",
		 "no meaning"},
		{"{\"op\":\"commit\",\"id\":1,\"job\":5}", "the id 5"},
		{"{\"op\":\"commit\",\"id\":1,\"job\":5,\"code\":\"EEXIST\",\"text\":7}",
		 "\\\"text\\\""},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"job\":\"abcdefgh\"}",
		 "\\\"job\\\" needs \\\"attended\\\""},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"attended\":true}",
		 "\\\"attended\\\" is for a file or directory of the client"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":[]}",
		 "\\\"ranges\\\": not an array of 1 to 1024 ranges"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":7}",
		 "not an array"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":[[]]}",
		 "range 1 is neither [OFFSET, LENGTH] nor [OFFSET]"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":[[1,2],[1,2,3]]}",
		 "range 2 is neither"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":[[1,-2]]}",
		 "range 1 is neither"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":[[9223372036854775807,1]]}",
		 "range 1 is neither"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":[[0,9223372036854775807],[0,1]]}",
		 "more bytes than a file may have"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"ranges\":[[0,1],[5]]}",
		 "n9"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"whole_blocks\":true}",
		 "\\\"whole_blocks\\\" needs \\\"ranges\\\""},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"local_store\":\"s\",\"local_path\":\"x\",\"ranges\":[[0,1]]}",
		 "\\\"ranges\\\" come into a file or pipe"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"local_store\":\"s\",\"local_path\":\"x\",\"bytes\":1}",
		 "\\\"bytes\\\" is for a file that comes into one of the client"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1,\"bytes\":1}",
		 "\\\"bytes\\\" has no meaning for put"},
		{"{\"op\":\"commit\",\"id\":1,\"job\":\"abcdefgh\"}", "not a whole number"},
		{"{\"op\":\"stat\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\"}", "n9"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1}",
		 "n9"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1,\"device\":\"mlx5_0\",\"local\":\"10.0.0.1\","
		 "\"remote\":\"10.0.0.2\",\"connections\":64}",
		 "n9"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":1,\"connections\":65}",
		 "\\\"connections\\\": not a whole number of 0 to 64"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"local_store\":\"s\",\"local_path\":\"x\",\"device\":\"mlx5_0\"}",
		 "they need \\\"generate\\\""},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"local_store\":\"s\",\"local_path\":\"x\",\"connections\":1}",
		 "they need \\\"generate\\\" or \\\"discard\\\""},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"local_store\":\"s\",\"local_path\":\"x\",\"remote\":\"10.0.0.2\"}",
		 "they need \\\"generate\\\" or \\\"discard\\\""},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"connections\":1}",
		 "n9"},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true,\"device\":\"mlx5_0\",\"ranges\":[[0,1]]}",
		 "leave no room for \\\"ranges\\\""},
		{"{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"discard\":true}",
		 "n9"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"generate\":-1}",
		 "\\\"generate\\\""},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"transport\":\"ip\"}",
		 "auto, rdma, tcp"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\","
		 "\"force\":1}",
		 "neither true nor false"},
		{"{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\"}",
		 "0 descriptors came with this request, it takes 1"},
		{"{", "not a JSON object"},
		{"[]", "not a JSON object"},
		{"\xff\xfe", "not a JSON object"},
		{"{\"op\":\"ping\",\"id\":1}{}", "not a JSON object"},
		{"{\"op\":\"ping\",\"op\":\"ping\",\"id\":1}", "duplicate"},
	};
	struct node n;
	int fd;

	node_up(&n);
	fd = client(&n);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *text;

		text = ask(&n, fd, cases[i][0]);
		CU_ASSERT_TRUE(says(text, "\"event\":\"error\""));
		CU_ASSERT_TRUE(says(text, cases[i][1]));
	}
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":1}"), "done"));
	CU_ASSERT_EQUAL(send(fd, "", 0, 0), 0);
	CU_ASSERT_STRING_EQUAL(answer(&n, fd), "");
	(void)close(fd);
	node_down(&n);
}

static void test_names_that_are_too_long_are_named(void)
{
	static char text[40000];
	struct node n;
	size_t len;
	int fd;

	node_up(&n);
	fd = client(&n);
	for (unsigned max = FM_PATH_LEN_MAX; max <= FM_PATH_LEN_MAX + 1; max++) {
		len = (size_t)snprintf(text, sizeof(text),
				       "{\"op\":\"stat\",\"id\":1,\"store\":\"s\",\"path\":\"");
		/* as long as a text can get: each byte is escaped */
		for (unsigned i = 0; i < max; i++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "\\u0001");
		(void)snprintf(text + len, sizeof(text) - len, "\"}");
		CU_ASSERT_TRUE(says(ask(&n, fd, text), "ENAMETOOLONG"));
	}
	CU_ASSERT_TRUE(says(ask(&n, fd,
				"{\"op\":\"stat\",\"id\":1,\"path\":\"\",\"store\":"
				"\"0123456789012345678901234567890123456789"
				"0123456789012345678901234\"}"),
			    "longer than 64"));
	(void)close(fd);
	node_down(&n);
}

/* ---- hostile ones ---- */

static void test_descriptors_are_never_kept(void)
{
	const char *ping = "{\"op\":\"ping\",\"id\":1}";
	int fds[253], fd;
	struct node n;
	unsigned before;

	node_up(&n);
	fd = client(&n);
	CU_ASSERT_TRUE(says(ask(&n, fd, ping), "done"));
	for (unsigned i = 0; i < 253; i++)
		fds[i] = STDIN_FILENO;
	before = open_fds();
	for (unsigned count = 1; count <= 253; count += count < 20 ? 1 : 58) {
		CU_ASSERT_TRUE(send_bytes(fd, ping, strlen(ping), fds, count) > 0);
		CU_ASSERT_TRUE(says(answer(&n, fd), count <= FM_API_FDS_MAX
							    ? "it takes 0"
							    : "too many descriptors"));
	}
	CU_ASSERT_TRUE(send_bytes(fd, "garbage", 7, fds, 3) > 0);
	CU_ASSERT_TRUE(says(answer(&n, fd), "not a JSON object"));
	ping = "{\"op\":\"put\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\"}";
	CU_ASSERT_TRUE(send_bytes(fd, ping, strlen(ping), fds, 1) > 0);
	CU_ASSERT_TRUE(says(answer(&n, fd), "\"event\":\"error\""));
	CU_ASSERT_TRUE(send_bytes(fd, ping, strlen(ping), fds, 2) > 0);
	CU_ASSERT_TRUE(says(answer(&n, fd), "it takes 1"));
	ping = "{\"op\":\"get\",\"id\":1,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\"}";
	CU_ASSERT_TRUE(send_bytes(fd, ping, strlen(ping), fds, 1) > 0);
	CU_ASSERT_TRUE(says(answer(&n, fd), "\"event\":\"error\""));
	loop_idle(n.loop, 20);
	CU_ASSERT_EQUAL(open_fds(), before);
	(void)close(fd);
	node_down(&n);
}

static void test_messages_that_are_too_long_are_refused(void)
{
	static char text[FM_API_REQUEST_BYTES_MAX + 1];
	struct node n;
	int fd;

	node_up(&n);
	fd = client(&n);
	memset(text, ' ', sizeof(text));
	memcpy(text, "{\"op\":\"ping\",\"id\":1}", 20);
	CU_ASSERT_EQUAL(send_bytes(fd, text, sizeof(text) - 1, NULL, 0), (ssize_t)sizeof(text) - 1);
	CU_ASSERT_TRUE(says(answer(&n, fd), "done"));
	CU_ASSERT_EQUAL(send_bytes(fd, text, sizeof(text), NULL, 0), (ssize_t)sizeof(text));
	CU_ASSERT_TRUE(says(answer(&n, fd), "longer than 64 KiB"));
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":1}"), "done"));
	(void)close(fd);
	node_down(&n);
}

/*
 * Goal: any bytes at all are answered or ignored. Method: mutations of right messages, from a fixed
 * seed.
 */
static void test_random_bytes_do_no_harm(void)
{
	static const char *const seeds[] = {
		"{\"op\":\"list\",\"id\":2,\"node\":\"n1\",\"store\":\"s\",\"path\":\"d\","
		"\"after\":\"e\"}",
		"{\"op\":\"put\",\"id\":1,\"node\":\"n1\",\"store\":\"s\",\"path\":{\"bytes\":\"//"
		"4=\"},\"generate\":100,\"force\":true}",
	};
	struct node n;
	char text[256];
	int fd;

	node_up(&n);
	fd = client(&n);
	srand(1);
	for (unsigned i = 0; i < 3000; i++) {
		size_t len = strlen(seeds[i % 2]);

		memcpy(text, seeds[i % 2], len);
		for (int m = rand() % 4; m >= 0; m--)
			text[(size_t)rand() % len] = (char)rand();
		if (rand() % 4 == 0)
			len = (size_t)rand() % len + 1;
		if (send_bytes(fd, text, len, NULL, 0) < 0 || !*answer(&n, fd)) {
			(void)close(fd);
			fd = client(&n);
		}
	}
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":77}"), "{"));
	(void)close(fd);
	node_down(&n);
}

/*
 * Goal: who does not read costs bounded memory for a bounded time, and nobody else notices. Method:
 * one asks and never reads.
 */
static void test_a_client_that_does_not_read_is_closed(void)
{
	static const char status[] = "{\"op\":\"status\",\"id\":1}";
	unsigned waits_in_vain = 0;	/* in a row: it is not read from any more either */
	struct node n;
	int deaf, fd;
	char buf[16];

	node_up(&n);
	deaf = client(&n);
	fd = client(&n);
	while (waits_in_vain < 20) {
		(void)fm_loop_step(n.loop, 0);
		waits_in_vain = send(deaf, status, sizeof(status) - 1, MSG_NOSIGNAL) < 0
					? waits_in_vain + 1
					: 0;
	}
	CU_ASSERT_EQUAL(errno, EAGAIN);
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":1}"), "done"));
	/* While this process stands still, as on a machine that is paused, nobody can read. */
	clock_skip((FM_API_UNREAD_MS + 5000) * FM_NS_PER_MS);
	for (unsigned i = 0; i < 20; i++)
		(void)fm_loop_step(n.loop, 0);
	CU_ASSERT_TRUE(send(deaf, status, sizeof(status) - 1, MSG_NOSIGNAL) < 0 && errno == EAGAIN);
	clock_skip(5100 * FM_NS_PER_MS);
	/* What was sent before can still be read; behind it is the end. */
	while (send(deaf, status, sizeof(status) - 1, MSG_NOSIGNAL) < 0 && errno == EAGAIN)
		(void)fm_loop_step(n.loop, 10);
	CU_ASSERT_TRUE(errno == EPIPE || errno == ECONNRESET);
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":2}"), "done"));
	CU_ASSERT_TRUE(recv(deaf, buf, sizeof(buf), 0) > 0);
	(void)close(deaf);
	(void)close(fd);
	node_down(&n);
}

/* As many connections as the daemon gives to that user (which only root can choose); the one after
 * them is refused. */
static unsigned connect_as(struct node *n, uid_t uid, int *fds)
{
	const char *got;
	unsigned count = 0;
	bool is_refused = false;

	CU_ASSERT_EQUAL_FATAL(seteuid(uid), 0);
	while (!is_refused) {
		fds[count] = client(n);
		CU_ASSERT_TRUE_FATAL(fds[count] >= 0);
		loop_idle(n->loop, 2);
		is_refused = is_readable(fds[count]);	/* nobody else is told anything */
		count += !is_refused;
	}
	got = answer(n, fds[count]);
	CU_ASSERT_TRUE(says(got, "connections to this daemon are"));
	CU_ASSERT_TRUE(says(got, "\"full\":true"));
	CU_ASSERT_STRING_EQUAL(answer(n, fds[count]), "");
	(void)close(fds[count]);
	CU_ASSERT_EQUAL_FATAL(seteuid(getuid()), 0);
	return count;
}

/* Goal: one user leaves room for others, and all of them together leave root's. */
static void test_connections_are_limited(void)
{
	static int fds[FM_API_CONNS_MAX + 1];
	bool is_root = getuid() == 0;
	unsigned count;
	struct node n;

	node_up(&n);
	CU_ASSERT_EQUAL(chmod(test_dir(), 0755), 0);
	CU_ASSERT_EQUAL(chmod(n.socket, 0666), 0);
	count = connect_as(&n, is_root ? 60000 : getuid(), fds);
	CU_ASSERT_EQUAL(count, (FM_API_CONNS_MAX - FM_API_CONNS_ROOT) / 2);
	(void)close(fds[--count]);
	loop_idle(n.loop, 5);
	fds[count] = client(&n);
	CU_ASSERT_TRUE(says(ask(&n, fds[count++], "{\"op\":\"ping\",\"id\":1}"), "done"));
	for (uid_t uid = 60001; is_root && uid < 60020; uid++)
		count += connect_as(&n, uid, fds + count);
	if (is_root) {
		CU_ASSERT_TRUE(count <= FM_API_CONNS_MAX - FM_API_CONNS_ROOT + 1);
		count += connect_as(&n, 0, fds + count);
		CU_ASSERT_TRUE(count >= FM_API_CONNS_MAX - 1);
	}
	while (count > 0)
		(void)close(fds[--count]);
	loop_idle(n.loop, 5);
	node_down(&n);
}

/*
 * Goal: a connection's share is bounded. Method: more requests at once than it may have; every one
 * is answered, late ones refused.
 */
static void test_many_requests_at_once_are_all_answered(void)
{
	unsigned sent = 0, done = 0, busy = 0;
	struct node n;
	char text[128];
	int fd;

	node_up(&n);
	fd = client(&n);
	while (done + busy < 2000) {
		if (sent < 2000) {
			(void)snprintf(text, sizeof(text),
				       "{\"op\":\"stat\",\"id\":%u,\"store\":\"s\",\"path\":\"\"}",
				       sent);
			sent += send(fd, text, strlen(text), MSG_NOSIGNAL) > 0;
		}
		(void)fm_loop_step(n.loop, 0);
		while (is_readable(fd)) {
			const char *got = answer(&n, fd);

			done += strstr(got, "\"event\":\"done\"") != NULL;
			busy += strstr(got, "\"code\":\"EBUSY\"") && strstr(got, "\"full\":true");
		}
	}
	CU_ASSERT_EQUAL(done + busy, 2000);
	CU_ASSERT_TRUE(done >= FM_API_REQUESTS_MAX);
	(void)close(fd);
	node_down(&n);
}

/* In this process; of the sanitizer's allocator, where there is one. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated(void)
{
	return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes()
						       : mallinfo2().uordblks;
}

/* Goal: what waits costs what it needs, not the largest request there could be. */
static void test_transfers_that_wait_are_small(void)
{
	size_t before, after;
	struct node n;
	char text[160];
	int fd;

	node_up(&n);
	peer_add(&n);
	fd = client(&n);
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":0}"), "done"));
	before = allocated();
	for (unsigned i = 1; i <= 200; i++) {
		(void)snprintf(text, sizeof(text),
			       "{\"op\":\"put\",\"id\":%u,\"node\":\"n2\",\"store\":\"s\",\"path\":"
			       "\"x%u\",\"generate\":9}",
			       i, i);
		send_text(fd, text);
		loop_idle(n.loop, 1);
	}
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":0}"), "done"));
	after = allocated();
	CU_ASSERT_TRUE(says(ask(&n, fd,
				"{\"op\":\"put\",\"id\":200,\"node\":\"n2\",\"store\":\"s\","
				"\"path\":\"x\",\"generate\":9}"),
			    "under way"));
	CU_ASSERT_TRUE(after > before && after - before < 200 * 8192);
	(void)close(fd);
	node_down(&n);
}

/* ---- the socket ---- */

static void test_the_socket_of_a_dead_daemon_is_replaced(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct fm_api *second = NULL;
	struct node n;
	struct fm_err err;
	struct stat st;
	int fd;

	node_begin(&n);
	/* Left over: nobody listens. */
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", n.socket);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CU_ASSERT_EQUAL(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	(void)close(fd);
	CU_ASSERT_EQUAL(node_api(&n, &n.api, &err), 0);
	CU_ASSERT_EQUAL(stat(n.socket, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	/* A living one keeps it. */
	CU_ASSERT_EQUAL(node_api(&n, &second, &err), -EADDRINUSE);
	CU_ASSERT_TRUE(says(err.text, "another fmoved"));
	fd = client(&n);
	CU_ASSERT_TRUE(says(ask(&n, fd, "{\"op\":\"ping\",\"id\":1}"), "done"));
	(void)close(fd);
	fm_api_stop(n.api);
	CU_ASSERT_EQUAL(stat(n.socket, &st), -1);
	CU_ASSERT_EQUAL(client(&n), -1);
	/* What is no socket stays. */
	fd = open(n.socket, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)close(fd);
	CU_ASSERT_EQUAL(node_api(&n, &second, &err), -EADDRINUSE);
	CU_ASSERT_EQUAL(stat(n.socket, &st), 0);
	(void)unlink(n.socket);
	node_down(&n);
}

static void test_a_stop_in_the_middle_leaves_nothing(void)
{
	struct node n;
	int fds[8];

	node_up(&n);
	for (unsigned i = 0; i < 8; i++) {
		fds[i] = client(&n);
		loop_idle(n.loop, 1);
		for (unsigned k = 0; k < 20; k++) {
			char text[128];

			(void)snprintf(text, sizeof(text),
				       "{\"op\":\"list\",\"id\":%u,\"store\":\"s\",\"path\":\"\"}",
				       k);
			send_text(fds[i], text);
		}
		send_text(fds[i], "{\"op\":\"verify\",\"id\":100,\"store\":\"s\",\"path\":\"\"}");
	}
	(void)fm_loop_step(n.loop, 0);
	(void)fm_loop_step(n.loop, 0);
	node_down(&n);	/* asserts that nothing is under way */
	for (unsigned i = 0; i < 8; i++)
		(void)close(fds[i]);
}

/* ---- buffers ---- */

#define BUFFER (1u << 20)
#define OPEN_BUFFER "{\"op\":\"buffer\",\"id\":1,\"bytes\":1048576}"
#define PUT_TO_N2 "\"node\":\"n2\",\"store\":\"s\",\"path\":\"x\""

static int memory_file(size_t bytes)
{
	int fd = memfd_create("test buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CU_ASSERT_EQUAL_FATAL(ftruncate(fd, (off_t)bytes), 0);
	CU_ASSERT_EQUAL_FATAL(fallocate(fd, 0, 0, (off_t)bytes), 0);
	CU_ASSERT_EQUAL_FATAL(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
	return fd;
}

/* How many of them are mapped by this process. */
static unsigned mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:test buffer") != NULL;
	if (f)
		(void)fclose(f);
	return n;
}

/* Hands a descriptor over, which is closed here. */
static const char *ask_with(struct node *n, int client_fd, const char *text, int fd)
{
	CU_ASSERT_TRUE(send_bytes(client_fd, text, strlen(text), &fd, 1) > 0);
	(void)close(fd);
	return answer(n, client_fd);
}

static uint64_t buffer_open(struct node *n, int client_fd)
{
	const char *said = ask_with(n, client_fd, OPEN_BUFFER, memory_file(BUFFER));
	const char *at = strstr(said, "\"event\":\"done\",\"buffer\":");

	CU_ASSERT_TRUE_FATAL(at != NULL);
	return strtoull(strrchr(at, ':') + 1, NULL, 10);
}

/* rest: what follows the number of the buffer. */
static const char *ask_of(struct node *n, int client_fd, const char *op, uint64_t number,
			  const char *rest)
{
	char text[512];

	(void)snprintf(text, sizeof(text), "{\"op\":\"%s\",\"id\":2,\"buffer\":[%" PRIu64 "%s}",
		       op, number, rest);
	return ask(n, client_fd, text);
}

/*
 * Goal: a buffer is mapped once, as long as somebody has it: its connection, or a transfer, whoever
 * of the two ends first.
 */
static void test_a_buffer_is_mapped_as_long_as_it_is_used(void)
{
	unsigned before;
	uint64_t number;
	struct node n;
	int fd, other;

	node_up(&n);
	peer_add(&n);
	before = open_fds();
	fd = client(&n);
	other = client(&n);
	number = buffer_open(&n, fd);
	CU_ASSERT_EQUAL(mapped(), 1);
	/* Any connection of the same user may name it. */
	CU_ASSERT_TRUE(says(ask_of(&n, other, "put", number,
				   ",5,100]," PUT_TO_N2 ",\"progress_ms\":20"),
			    "accepted"));
	CU_ASSERT_TRUE(says(ask_of(&n, fd, "buffer_free", number, "]"), "done"));
	CU_ASSERT_TRUE(says(ask_of(&n, fd, "buffer_free", number, "]"), "EBADF"));
	CU_ASSERT_TRUE(says(ask_of(&n, fd, "put", number, "]," PUT_TO_N2), "EBADF"));
	loop_idle(n.loop, 5);
	CU_ASSERT_EQUAL(mapped(), 1);
	(void)close(other);
	loop_idle(n.loop, 50);
	CU_ASSERT_EQUAL(mapped(), 0);
	number = buffer_open(&n, fd);
	CU_ASSERT_EQUAL(mapped(), 1);
	(void)close(fd);
	loop_idle(n.loop, 5);
	CU_ASSERT_EQUAL(mapped(), 0);
	CU_ASSERT_EQUAL(open_fds(), before);
	/* What is there at the end is unmapped, too. */
	fd = client(&n);
	(void)buffer_open(&n, fd);
	node_down(&n);
	CU_ASSERT_EQUAL(mapped(), 0);
	(void)close(fd);
}

static void test_a_wrong_buffer_is_refused(void)
{
	static const char *const parts[][2] = {
		{",0,1048577]," PUT_TO_N2, "not all in a buffer of 1048576"},
		{",1048577,0]," PUT_TO_N2, "not all in"},
		{",9223372036854775807,9223372036854775807]," PUT_TO_N2, "not all in"},
		{",9223372036854775808,0]," PUT_TO_N2, "too big integer"},
		{",0,-1]," PUT_TO_N2, "neither [NUMBER, OFFSET, LENGTH]"},
		{",0]," PUT_TO_N2, "neither [NUMBER, OFFSET, LENGTH]"},
		{",0,1,2]," PUT_TO_N2, "neither [NUMBER, OFFSET, LENGTH]"},
		{",\"0\",1]," PUT_TO_N2, "neither [NUMBER, OFFSET, LENGTH]"},
		{"]," PUT_TO_N2 ",\"detach\":true", "leaves no room"},
		{"]," PUT_TO_N2 ",\"generate\":5", "leaves no room"},
		{"]," PUT_TO_N2 ",\"tree\":true", "leaves no room"},
		{"]," PUT_TO_N2 ",\"local_store\":\"s\",\"local_path\":\"a\"", "leaves no room"},
		{"]," PUT_TO_N2 ",\"attended\":true", "leaves no room"},
	};
	uint64_t number;
	struct node n;
	int fd, ends[2];

	node_up(&n);
	peer_add(&n);
	fd = client(&n);
	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	CU_ASSERT_TRUE(says(ask_with(&n, fd, OPEN_BUFFER, ends[0]), "memory file"));
	(void)close(ends[1]);
	CU_ASSERT_TRUE(says(ask(&n, fd, OPEN_BUFFER), "0 descriptors came"));
	CU_ASSERT_TRUE(
		says(ask_with(&n, fd, OPEN_BUFFER, memory_file(2 * BUFFER)), "has 2097152 bytes"));
	CU_ASSERT_TRUE(says(ask_with(&n, fd, "{\"op\":\"buffer\",\"id\":1}", memory_file(BUFFER)),
			    "buffer needs \\\"bytes\\\""));
	/* More than there are for all: it never has a place. */
	CU_ASSERT_TRUE(says(ask_with(&n, fd,
				     "{\"op\":\"buffer\",\"id\":1,\"bytes\":68719476736}",
				     memory_file(BUFFER)),
			    "EBUSY"));
	CU_ASSERT_EQUAL(mapped(), 0);
	number = buffer_open(&n, fd);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		CU_ASSERT_TRUE(says(ask_of(&n, fd, "put", number, parts[i][0]), parts[i][1]));
	CU_ASSERT_TRUE(says(ask_of(&n, fd, "buffer_free", number, ",0,1]"), "takes all of"));
	CU_ASSERT_TRUE(says(ask_of(&n, fd, "put", number ^ 1, "]," PUT_TO_N2), "EBADF"));
	CU_ASSERT_EQUAL(mapped(), 1);
	(void)close(fd);
	node_down(&n);
	CU_ASSERT_EQUAL(mapped(), 0);
}

/* Somebody else, who may connect. */
static int client_of_nobody(const struct node *n)
{
	int fd;

	CU_ASSERT_EQUAL_FATAL(chmod(test_dir(), 0755), 0);
	CU_ASSERT_EQUAL_FATAL(chmod(n->socket, 0666), 0);
	CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	fd = client(n);
	CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	return fd;
}

/* Goal: a buffer is its user's, even if another one knows its number. */
static void test_a_buffer_is_of_its_user(void)
{
	uint64_t number;
	struct node n;
	int fd, other;

	if (geteuid() != 0)
		return;	/* nobody else can be played */
	node_up(&n);
	peer_add(&n);
	fd = client(&n);
	number = buffer_open(&n, fd);
	other = client_of_nobody(&n);
	CU_ASSERT_TRUE(says(ask(&n, other, "{\"op\":\"ping\",\"id\":7}"), "done"));
	CU_ASSERT_TRUE(says(ask_of(&n, other, "put", number, "]," PUT_TO_N2), "EBADF"));
	CU_ASSERT_TRUE(says(ask_of(&n, other, "get", number, "]," PUT_TO_N2), "EBADF"));
	CU_ASSERT_TRUE(says(ask_of(&n, other, "buffer_free", number, "]"), "EBADF"));
	CU_ASSERT_EQUAL(mapped(), 1);
	(void)close(other);
	(void)close(fd);
	node_down(&n);
}

/* Goal: there are at most so many bytes of buffers, and at most FM_API_BUFFERS_MAX, and all of them
 * come back. */
static void test_buffers_have_a_limit(void)
{
	struct node n;
	int fd;

	node_up(&n);
	fd = client(&n);
	for (unsigned round = 0; round < 2; round++) {
		unsigned count = 0;
		const char *said = "done";

		while (count <= 64 && strstr(said, "done"))
			count += strstr(said = ask_with(&n, fd, OPEN_BUFFER, memory_file(BUFFER)),
					"done") != NULL;
		/* One user has seven eighths of what is free, root too. */
		CU_ASSERT_TRUE(count > 40 && count < 64 && mapped() == count);
		CU_ASSERT_TRUE(says(said, "memory.buffers"));
		CU_ASSERT_TRUE(says(said, "\"full\":true"));
		(void)close(fd);
		loop_idle(n.loop, 20);
		CU_ASSERT_EQUAL(mapped(), 0);
		fd = client(&n);
	}
	for (unsigned count = 0; count <= 1024; count++)
		if (!strstr(ask_with(&n, fd, "{\"op\":\"buffer\",\"id\":1,\"bytes\":4096}",
				     memory_file(4096)),
			    "done"))
			break;
	CU_ASSERT_TRUE(mapped() > 512 && mapped() < 1024);
	(void)close(fd);
	node_down(&n);
}

/* ---- the n-th failure ---- */

/* A client's whole visit; what fails is only ever said, or the connection ends. */
static void visit(struct node *n)
{
	int fd = client(n);

	if (fd < 0)
		return;
	for (unsigned i = 0; i < 4 && fd >= 0; i++) {
		static const char *const texts[] = {
			"{\"op\":\"ping\",\"id\":1}",
			"{\"op\":\"list\",\"id\":2,\"store\":\"s\",\"path\":\"\"}",
			"{\"op\":\"put\",\"id\":3,\"node\":\"n9\",\"store\":\"s\",\"path\":\"x\"}",
			OPEN_BUFFER
		};
		int source = i == 3 ? memory_file(BUFFER) :
				      open("/dev/null", O_RDONLY | O_CLOEXEC);

		if (send_bytes(fd, texts[i], strlen(texts[i]), &source, i >= 2 ? 1 : 0) < 0 ||
		    !*answer(n, fd)) {
			(void)close(fd);
			fd = -1;
		}
		(void)close(source);
	}
	if (fd >= 0)
		(void)close(fd);
	loop_idle(n->loop, 2);
}

static void fail_each_point(void)
{
	unsigned fired = 0, before;
	struct node n;
	struct fm_err err;

	node_begin(&n);
	before = open_fds();
	for (unsigned i = 1; i < 1000; i++) {
		struct fm_api *api = NULL;
		bool was_fired;
		int ret;

		fm_fault_arm(NULL, i);
		ret = node_api(&n, &api, &err);
		CU_ASSERT_TRUE(ret == 0 || (api == NULL && strlen(err.text) > 0));
		if (ret == 0) {
			visit(&n);
			fm_api_stop(api);
			loop_idle(n.loop, 5);
			fm_api_free(api);
		}
		was_fired = fm_fault_fired();
		fm_fault_arm(NULL, 0);
		CU_ASSERT_EQUAL(open_fds(), before);
		CU_ASSERT_EQUAL(mapped(), 0);
		if (!was_fired)
			break;
		fired++;
	}
	CU_ASSERT_TRUE(fired > 5);
	node_down(&n);
}

static void test_the_nth_failure_costs_nothing_but_itself(void)
{
	if (!fm_test_lacks_faults())
		fail_each_point();
	test_dir_remove();	/* the last test */
}

static void test_a_result_says_what_carried_it(void)
{
	struct fm_job_result r = {.kind = FM_KIND_TCP,
				  .data_bytes = 6000,
				  .kind_bytes = {[FM_KIND_TCP] = 1000, [FM_KIND_RDMA] = 5000}};
	char buf[4096];

	CU_ASSERT_TRUE(fm_api_event_job(buf, sizeof(buf), 7, &r) > 0);
	CU_ASSERT_TRUE(
		says(buf, "\"transport\":\"rdma+tcp\",\"rdma_bytes\":5000,\"tcp_bytes\":1000"));
	r.kind_bytes[FM_KIND_RDMA] = 0;
	CU_ASSERT_TRUE(fm_api_event_job(buf, sizeof(buf), 7, &r) > 0);
	CU_ASSERT_TRUE(says(buf, "\"transport\":\"tcp\",\"rdma_bytes\":0,\"tcp_bytes\":1000"));
}

static const struct fm_test tests[] = {
	{"a result says what carried it", test_a_result_says_what_carried_it},
	{"requests about our own store are answered",
	 test_requests_about_our_own_store_are_answered},
	{"a status that is too long leaves out what does not fit",
	 test_a_status_that_is_too_long_leaves_out},
	{"what is stored is verified", test_what_is_stored_is_verified},
	{"a detached job is everybody's who may", test_a_detached_job_is_everybodys_who_may},
	{"every mistake is named, and the connection goes on", test_every_mistake_is_named},
	{"names that are too long are named", test_names_that_are_too_long_are_named},
	{"descriptors that came for nothing are never kept", test_descriptors_are_never_kept},
	{"messages that are too long are refused", test_messages_that_are_too_long_are_refused},
	{"random bytes do no harm", test_random_bytes_do_no_harm},
	{"a client that does not read is closed", test_a_client_that_does_not_read_is_closed},
	{"connections are limited for each user", test_connections_are_limited},
	{"many requests at once are all answered", test_many_requests_at_once_are_all_answered},
	{"transfers that wait hold no more than they need", test_transfers_that_wait_are_small},
	{"the socket of a dead daemon is replaced, that of a living one is not",
	 test_the_socket_of_a_dead_daemon_is_replaced},
	{"a buffer is mapped as long as it is used",
	 test_a_buffer_is_mapped_as_long_as_it_is_used},
	{"a wrong buffer is refused", test_a_wrong_buffer_is_refused},
	{"a buffer is of its user", test_a_buffer_is_of_its_user},
	{"buffers have a limit, and come back", test_buffers_have_a_limit},
	{"a stop in the middle leaves nothing", test_a_stop_in_the_middle_leaves_nothing},
	{"the n-th failure costs nothing but itself",
	 test_the_nth_failure_costs_nothing_but_itself},
};
FM_TEST_MAIN("api", tests)
