/* SPDX-License-Identifier: MIT */
/*
 * nvmed_api: the local API of fmove-nvmed over its real socket, with a supervisor whose machine has
 * nothing and whose helper processes never come to an end.
 *
 * links: fm_nvmed
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "nvmetcp/daemon/api.h"
#include "nvmetcp/daemon/host.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/supervisor.h"
#include "tests/fm_test.h"

#define WAIT_MS (FM_TEST_HANG_S * 1000)

static struct fm_loop *loop;
static struct fm_helpers *helpers;
static struct fm_supervisor *sup;
static struct fm_nvmed_api *api;
static char dir[64], path[96];
static char reply[1u << 18];
static struct fm_err err;
static const struct fm_host host = { "nqn.host", "11111111-2222-3333-4444-555555555555" };

#define UUID "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
/* what is configured, and connected; else the machine has nothing */
static bool is_mounted, is_shared;
/* the unmount that a seal has begun; is_shared: it can begin */
static struct fm_helper *unmounting;
/* no file of state can be written */
static bool is_full;
/* it is asked whether a device is free; is_freed: it can be */
static struct fm_helper *asking;
static bool is_freed;

static int one_namespace(struct fm_inventory *inv)
{
	inv->controllers = calloc(1, sizeof(*inv->controllers));
	inv->subsystems = calloc(1, sizeof(*inv->subsystems));
	inv->namespaces = calloc(1, sizeof(*inv->namespaces));
	inv->controller_count = inv->subsystem_count = inv->namespace_count = 1;
	inv->controllers[0] = (struct fm_inv_controller){.name = "nvme0",
							 .id = 1,
							 .state = "live",
							 .transport = "tcp",
							 .subsysnqn = "disk1",
							 .hostnqn = "nqn.host",
							 .traddr = "10.0.0.1",
							 .trsvcid = "4420"};
	inv->subsystems[0] = (struct fm_inv_subsystem){ .name = "nvme-subsys0", .nqn = "disk1" };
	inv->namespaces[0] = (struct fm_inv_namespace){.name = "nvme0n1",
						       .nsid = 1,
						       .wwid = "uuid." UUID,
						       .uuid = UUID,
						       .size_bytes = 1u << 30,
						       .dev = makedev(259, 1),
						       .path_count = 1};
	return 0;
}

static int no_inventory(void *ctx, struct fm_inventory **out, struct fm_err *e)
{
	(void)ctx;
	(void)e;
	*out = calloc(1, sizeof(**out));
	return is_mounted ? one_namespace(*out) : 0;
}

static void no_settings(void *ctx, const char *controller, struct fm_inv_settings *out)
{
	(void)ctx;
	(void)controller;
	*out = (struct fm_inv_settings){ 0 };
}

static int no_mounts(void *ctx, struct fm_mounts *out, struct fm_err *e)
{
	static const char text[] = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 259:1 / /srv/data rw - "
				   "ext4 /dev/nvme0n1 rw\n";
	const char *end = is_mounted ? text + sizeof(text) - 1 : strchr(text, '\n') + 1;

	(void)ctx;
	return fm_mounts_parse(text, (size_t)(end - text), out, e);
}

static int no_start(void *ctx, struct fm_helper *helper, const char *key, struct fm_json *request,
		    uint64_t timeout_ns, struct fm_err *e)
{
	(void)ctx;
	(void)key;
	(void)timeout_ns;
	if (is_shared &&
	    strcmp(fm_json_as_text(fm_json_get(request, "call")), "unmount") == 0) {
		unmounting = helper;
		return 0;
	}
	if (is_freed && strcmp(fm_json_as_text(fm_json_get(request, "call")), "unused") == 0) {
		asking = helper;
		return 0;
	}
	return fm_err_set(e, -EAGAIN, "no process can be started");
}

static bool no_helper(void *ctx, const char *key)
{
	(void)ctx;
	(void)key;
	return false;
}

static int no_iopolicy(void *ctx, const char *subsystem, const char *policy, struct fm_err *e)
{
	(void)ctx;
	(void)subsystem;
	(void)policy;
	return fm_err_set(e, -EINVAL, "not known");
}

static void no_rescan(void *ctx, const char *controller)
{
	(void)ctx;
	(void)controller;
}

static int no_file(void *ctx, const char *name, char **text, struct fm_err *e)
{
	(void)ctx;
	(void)name;
	(void)text;
	(void)e;
	return -ENOENT;
}

static int no_save(void *ctx, const char *name, const char *text, bool is_durable, struct fm_err *e)
{
	(void)ctx;
	(void)name;
	(void)text;
	(void)is_durable;
	return is_full ? fm_err_set(e, -ENOSPC, "no space left") : 0;
}

static uint64_t no_time(void *ctx)
{
	(void)ctx;
	return 1000;
}

static bool no_stray(void *ctx)
{
	(void)ctx;
	return false;
}

static int no_publish(void *ctx, const char *text, struct fm_err *e)
{
	(void)ctx;
	(void)text;
	(void)e;
	return 0;
}

static void no_peers(void *ctx)
{
	(void)ctx;
}

static const struct fm_supervisor_world world = {
	.read_inventory = no_inventory,
	.read_settings = no_settings,
	.read_mounts = no_mounts,
	.start = no_start,
	.has_helper = no_helper,
	.may_stray = no_stray,
	.set_iopolicy = no_iopolicy,
	.rescan = no_rescan,
	.load = no_file,
	.save = no_save,
	.publish = no_publish,
	.ask_peers = no_peers,
	.wall_ms = no_time,
	.boot = "boot",
};

static void changed(void *ctx)
{
	(void)ctx;
	fm_nvmed_api_changed(api);
}

static void begin(void)
{
	struct fm_volume volume = {.name = "data",
				   .subsystem = "disk1",
				   .address = {{"10.0.0.1", "4420"}},
				   .address_count = 1,
				   .host_address = "",
				   .host_interface = "",
				   .uuid = "",
				   .nguid = "",
				   .mount_point = "/srv/data",
				   .mode = is_shared ? FM_VOLUME_SHARED_READ : FM_VOLUME_EXCLUSIVE,
				   .fs_type = "",
				   .mount_options = "",
				   .writer = "n1",
				   .secret_file = "",
				   .controller_secret_file = "",
				   .iopolicy = "numa"};
	struct fm_supervisor_config config = {.node = "n1",
					      .host_nqn = host.nqn,
					      .host_id = host.id,
					      .volumes = &volume,
					      .count = 1};
	struct fm_loop_opts loop_opts = { 0 };
	struct fm_helpers_opts helper_opts = { .run = fm_helper_main };
	struct fm_nvmed_api_opts api_opts = {
		.socket_path = path, .mode = 0600, .gid = (gid_t)-1, .host = &host};
	struct fm_supervisor_opts opts = {
		.world = &world, .random = &fm_random_real, .changed = changed};

	strcpy(dir, "/tmp/fm-nvmed.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&loop_opts, &loop, &err), 0);
	api_opts.loop = helper_opts.loop = opts.loop = loop;
	CU_ASSERT_EQUAL_FATAL(fm_helpers_new(&helper_opts, &helpers, &err), 0);
	api_opts.helpers = helpers;
	CU_ASSERT_EQUAL_FATAL(fm_nvmed_api_new(&api_opts, &api, &err), 0);
	CU_ASSERT_EQUAL_FATAL(fm_supervisor_new(&opts, &sup, &err), 0);
	fm_nvmed_api_set_supervisor(api, sup);
	CU_ASSERT_EQUAL_FATAL(fm_supervisor_set(sup, &config, &err), 0);
}

static void drain(void)
{
	for (unsigned i = 0; i < 1000 && fm_loop_step(loop, 0); i++)
		;
}

static void end(void)
{
	fm_supervisor_stop(sup);
	fm_nvmed_api_stop(api);
	fm_helpers_free(helpers);
	drain();
	fm_nvmed_api_free(api);
	fm_supervisor_free(sup);
	fm_loop_free(loop);
	CU_ASSERT_EQUAL(rmdir(dir), 0);		/* the socket is gone */
}

static int dial(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(to.sun_path, path);
	CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	drain();
	return fd;
}

/* What the daemon says next; "" if it hung up. */
static const char *hear(int fd)
{
	ssize_t got = -1;

	for (unsigned i = 0; i < WAIT_MS && got < 0; i++) {
		fm_loop_step(loop, FM_NS_PER_MS);
		got = recv(fd, reply, sizeof(reply) - 1, MSG_DONTWAIT);
	}
	CU_ASSERT_TRUE_FATAL(got >= 0);
	reply[got] = '\0';
	return reply;
}

static void tell(int fd, const char *text)
{
	CU_ASSERT_EQUAL_FATAL(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static bool has(const char *what)
{
	if (strstr(reply, what))
		return true;
	printf("\nno %s in %.300s\n", what, reply);
	return false;
}

static void test_looking(void)
{
	int fd;

	begin();
	fd = dial();
	tell(fd, "{\"id\": 1, \"op\": \"ping\"}");
	hear(fd);
	CU_ASSERT_TRUE(has("\"id\":1") && has("\"event\":\"done\"") && has("\"api\":1"));
	tell(fd, "{\"id\": 2, \"op\": \"status\"}");
	hear(fd);
	CU_ASSERT_TRUE(has("\"name\":\"data\"") && has("\"state\":\"waiting\"") &&
		       has("no process can be started") && has("\"stuck\":0") &&
		       has("\"second_owner\":") && has("\"built\":"));
	tell(fd, "{\"id\": 3, \"op\": \"status\", \"volume\": \"data\"}");
	hear(fd);
	CU_ASSERT_TRUE(has("\"wanted\":\"up\"") && has("\"controllers\":[]"));
	close(fd);
	end();
}

static void test_bad_requests(void)
{
#define BAD_REQUEST "a request is an object with an integer \\\"id\\\" and a text \\\"op\\\""
#define WISH(more) "{\"id\": 1, \"op\": \"up\", \"volume\": \"data\"" more "}"
	static const struct { const char *text, *code, *why; } cases[] = {
		{ "nonsense", "EINVAL", "" },
		{ "[]", "EINVAL", "" },
		{ "{}", "EINVAL", BAD_REQUEST },
		{ "{\"id\": \"1\", \"op\": \"ping\"}", "EINVAL", BAD_REQUEST },
		{ "{\"id\": 1, \"op\": 2}", "EINVAL", BAD_REQUEST },
		{ "{\"id\": 1, \"id\": 2, \"op\": \"ping\"}", "EINVAL", "duplicate object key" },
		{ "{\"id\": 1, \"op\": \"ping\", \"more\": 1}", "EINVAL",
		  "\"ping: 1 object item(s) left unpacked: more\"" },
		{ "{\"b\": 1, \"id\": 1, \"op\": \"status\", \"a\": 1}", "EINVAL",
		  "\"status: 2 object item(s) left unpacked: b, a\"" },
		{ "{\"id\": 1, \"op\": \"ping\"} ", "", "" },
		{ "{\"id\": 1, \"op\": \"status\", \"volume\": 1}", "EINVAL",
		  "\"status: Expected string, got integer\"" },
		{ "{\"id\": 1, \"op\": \"status\", \"volume\": null}", "EINVAL",
		  "\"status: Expected string, got null\"" },
		{ "{\"id\": 1, \"op\": \"status\", \"volume\": \"none\"}", "ENOENT", "" },
		{ "{\"id\": 1, \"op\": \"format\", \"volume\": \"data\"}", "EINVAL", "" },
		{ "{\"id\": 1, \"op\": \"discover\"}", "EINVAL",
		  "\"discover: Object item not found: address\"" },
		{ "{\"id\": 1, \"op\": \"discover\", \"address\": \"a.example\"}", "EINVAL", "" },
		{ WISH(", \"timeout_ms\": 1.5"), "EINVAL", "\"up: Expected integer, got real\"" },
		{ WISH(", \"force\": 1"), "EINVAL", "\"up: Expected true or false, got integer\"" },
		{ WISH(", \"timeout_ms\": -1"), "EINVAL",
		  "\"up: timeout_ms is 0 to 86400000\"" },
		/* beyond an int, where it would be 0 or 1 */
		{ WISH(", \"timeout_ms\": 4294967296"), "EINVAL",
		  "\"up: timeout_ms is 0 to 86400000\"" },
		{ WISH(", \"timeout_ms\": -4294967295"), "EINVAL",
		  "\"up: timeout_ms is 0 to 86400000\"" },
		{ "{\"id\": 1, \"op\": \"down\", \"all\": true, \"force_ms\": 4294967297}",
		  "EINVAL", "\"down: timeout_ms and force_ms are 0 to 86400000\"" },
		{ "{\"id\": 1, \"op\": \"seal\", \"volume\": \"data\", \"for_unit\": true}",
		  "EINVAL", "\"seal: 1 object item(s) left unpacked: for_unit\"" },
		{ "{\"id\": 1, \"op\": \"ask\", \"volume\": \"data\", \"force\": true}", "EINVAL",
		  "\"ask: 1 object item(s) left unpacked: force\"" },
		{ WISH(", \"all\": true"), "EINVAL",
		  "\"up: 1 object item(s) left unpacked: volume\"" },
		{ "{\"id\": 1, \"op\": \"status\", \"volume\": \"da\\u0000ta\"}", "EINVAL", "" },
	};
	int fd;

	begin();
	fd = dial();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char code[64];

		tell(fd, cases[i].text);
		hear(fd);
		snprintf(code, sizeof(code), "\"code\":\"%s\"", cases[i].code);
		CU_ASSERT_TRUE(has(cases[i].code[0] ? code : "\"done\"") && has(cases[i].why));
	}
#undef WISH
#undef BAD_REQUEST
	close(fd);
	end();
}

static void test_wishes(void)
{
	static const struct { const char *text, *code;
	} cases[] = {
		{"{\"id\": 1, \"op\": \"up\"}", "EINVAL"},
		{"{\"id\": 1, \"op\": \"up\", \"volume\": \"none\"}", "ENOENT"},
		{"{\"id\": 1, \"op\": \"connect\", \"volume\": \"data\", \"force\": true}",
		 "EINVAL"},
		{"{\"id\": 1, \"op\": \"forget\", \"node\": \"n9\"}", "ENOENT"},
		{"{\"id\": 1, \"op\": \"up\", \"volume\": \"data\", \"timeout_ms\": -1}", "EINVAL"},
		{"{\"id\": 1, \"op\": \"ask\", \"volume\": \"none\"}", "ENOENT"},
		{"{\"id\": 1, \"op\": \"ask\", \"volume\": \"data\", \"timeout_ms\": 1}",
		 "ETIMEDOUT"},
		{"{\"id\": 1, \"op\": \"up\", \"volume\": \"data\", \"timeout_ms\": 1}",
		 "ETIMEDOUT"},
	};
	bool is_root = geteuid() == 0;
	int fd, other;

	begin();
	fd = dial();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char code[64];

		tell(fd, cases[i].text);
		hear(fd);
		snprintf(code, sizeof(code), "\"code\":\"%s\"",
			 is_root || i == 0 ? cases[i].code : "EPERM");
		CU_ASSERT_TRUE(has(code));
	}
	if (is_root) {
		tell(fd, "{\"id\": 2, \"op\": \"up\", \"volume\": \"data\", \"timeout_ms\": 0}");
		hear(fd);
		CU_ASSERT_TRUE(has("\"done\"") && has("\"volume\":{"));
		/* Who waits for one thing is told when another is wished. */
		tell(fd, "{\"id\": 3, \"op\": \"up\", \"volume\": \"data\"}");
		drain();
		other = dial();
		tell(other, "{\"id\": 4, \"op\": \"down\", \"volume\": \"data\", \"force\": true}");
		CU_ASSERT_TRUE(hear(other) && has("\"done\"") && has("\"state\":\"down\""));
		CU_ASSERT_TRUE(hear(fd) && has("\"id\":3") && has("ECANCELED"));
		/* So is who will not find it after a restart. */
		is_full = true;
		tell(other, "{\"id\": 5, \"op\": \"connect\", \"volume\": \"data\", "
			    "\"timeout_ms\": 0}");
		CU_ASSERT_TRUE(hear(other) && has("\"done\"") &&
			       has("\"not_remembered\":\"the wish is in force, but would not "
				   "survive a restart: no space left\""));
		tell(other, "{\"id\": 7, \"op\": \"up\", \"volume\": \"data\", "
			    "\"timeout_ms\": 1}");
		CU_ASSERT_TRUE(hear(other) && has("\"id\":7") && has("ETIMEDOUT") &&
			       has("\"not_remembered\":\"the wish is in force, but would not "
				   "survive a restart: no space left\""));
		is_full = false;
		tell(other, "{\"id\": 6, \"op\": \"down\", \"volume\": \"data\"}");
		CU_ASSERT_TRUE(hear(other) && has("\"done\""));
		CU_ASSERT_PTR_NULL(strstr(reply, "not_remembered"));
		/* Who asks wishes nothing. */
		tell(fd, "{\"id\": 5, \"op\": \"ask\", \"volume\": \"data\"}");
		CU_ASSERT_TRUE(hear(fd) && has("\"id\":5") && has("EACCES") &&
			       has("fmove nvme up data"));
		tell(fd, "{\"id\": 6, \"op\": \"status\"}");
		CU_ASSERT_TRUE(hear(fd) && has("\"wanted\":\"down\""));
		close(other);
	}
	close(fd);
	end();
}

/* Who forces what is mounted already is told that nothing is forced; who does not is told nothing
 * of it. */
static void test_nothing_forced(void)
{
	static const struct { const char *text; bool is_said; } cases[] = {
		{ "{\"id\": 1, \"op\": \"up\", \"volume\": \"data\", \"force\": true}", true },
		{ "{\"id\": 1, \"op\": \"up\", \"volume\": \"data\"}", false },
	};
	int fd;

	if (geteuid() != 0)
		return;
	is_mounted = true;
	begin();
	fd = dial();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tell(fd, cases[i].text);
		hear(fd);
		CU_ASSERT_TRUE(has("\"done\"") && has("\"state\":\"mounted\""));
		CU_ASSERT_EQUAL(strstr(reply, "\"nothing_forced\":true") != NULL, cases[i].is_said);
	}
	close(fd);
	end();
	is_mounted = false;
}

/* What is no longer configured can be taken down, and nothing else. */
static void test_former(void)
{
	static const struct fm_supervisor_config nothing = {
		.node = "n1", .host_nqn = "nqn.host", .host_id = "id"};
	struct fm_json *answer = fm_json_object();
	struct fm_helper *helper;
	int fd;

	if (geteuid() == 0) {
		is_mounted = is_freed = true;
		begin();
		fd = dial();
		tell(fd, "{\"id\": 1, \"op\": \"up\", \"volume\": \"data\"}");
		CU_ASSERT_TRUE(hear(fd) && has("\"state\":\"mounted\""));
		CU_ASSERT_EQUAL(fm_supervisor_set(sup, &nothing, &err), 0);
		tell(fd, "{\"id\": 2, \"op\": \"up\", \"volume\": \"data\"}");
		CU_ASSERT_TRUE(hear(fd) && has("\"id\":2") && has("ENOENT"));
		tell(fd, "{\"id\": 3, \"op\": \"down\", \"volume\": \"data\", \"force\": true, "
			 "\"timeout_ms\": 1}");
		CU_ASSERT_TRUE(hear(fd) && has("\"id\":3") && has("ETIMEDOUT"));
		tell(fd, "{\"id\": 4, \"op\": \"down\", \"volume\": \"data\"}");
		drain();
		is_mounted = false;
		for (unsigned i = 0; i < WAIT_MS && fm_supervisor_count(sup).volumes > 0; i++) {
			fm_supervisor_wake(sup);
			fm_loop_step(loop, FM_NS_PER_MS);
			helper = asking;
			asking = NULL;
			if (helper)
				helper->done(helper, 0, "", answer);
		}
		CU_ASSERT_TRUE(hear(fd) && has("\"id\":4") && has("\"done\"") &&
			       has("\"name\":\"data\"") && has("\"state\":\"down\""));
		close(fd);
		end();
		is_mounted = is_freed = false;
	}
	fm_json_free(answer);
}

/* Who waits for a seal hears why there is none. */
static void test_unwritten(void)
{
	struct fm_json *answer = fm_json_pack("{s:s}", "sync_error", "Input/output error");
	int fd;

	if (geteuid() == 0) {
		is_mounted = is_shared = true;
		begin();
		fd = dial();
		tell(fd, "{\"id\": 1, \"op\": \"seal\", \"volume\": \"data\"}");
		for (unsigned i = 0; i < WAIT_MS && !unmounting; i++)
			fm_loop_step(loop, FM_NS_PER_MS);
		CU_ASSERT_PTR_NOT_NULL_FATAL(unmounting);
		unmounting->done(unmounting, -EIO, "left mounted: Input/output error", answer);
		CU_ASSERT_TRUE(hear(fd) && has("\"EIO\"") && has("not sealed: "));
		close(fd);
		end();
		is_mounted = is_shared = false;
	}
	fm_json_free(answer);
}

/* Of what is mounted, and is to stay so. */
static void test_ask(void)
{
	int fd;

	if (geteuid() != 0)
		return;
	is_mounted = true;
	begin();
	fd = dial();
	tell(fd, "{\"id\": 1, \"op\": \"ask\", \"volume\": \"data\"}");
	CU_ASSERT_TRUE(hear(fd) && has("\"done\"") && has("\"state\":\"mounted\""));
	/* What was seen before is not what is so now. */
	is_mounted = false;
	tell(fd, "{\"id\": 2, \"op\": \"ask\", \"volume\": \"data\", \"timeout_ms\": 1}");
	CU_ASSERT_TRUE(hear(fd) && has("ETIMEDOUT"));
	close(fd);
	end();
}

/* At the end of the machine; and as root else. */
static void test_all(void)
{
	static const struct { const char *text, *code;
	} cases[] = {
		{"{\"id\": 1, \"op\": \"down\", \"all\": false}", "EINVAL"},
		{"{\"id\": 1, \"op\": \"down\", \"all\": true, \"volume\": \"data\"}", "EINVAL"},
		{"{\"id\": 1, \"op\": \"connect\", \"all\": true}", "EINVAL"},
		{"{\"id\": 1, \"op\": \"disconnect\", \"all\": true}", "EINVAL"},
		{"{\"id\": 1, \"op\": \"down\", \"all\": true, \"force_ms\": -1}", "EINVAL"},
		{"{\"id\": 1, \"op\": \"down\", \"all\": true, \"timeout_ms\": 5000, \"force_ms\": "
		 "1000}",
		 NULL},
		{"{\"id\": 1, \"op\": \"up\", \"volume\": \"data\", \"timeout_ms\": 0}", "EBUSY"},
		{"{\"id\": 1, \"op\": \"up\", \"all\": true}", NULL},
		{"{\"id\": 1, \"op\": \"up\", \"volume\": \"data\", \"timeout_ms\": 0, "
		 "\"for_unit\": true}",
		 NULL},
	};
	char code[64];
	int fd;

	begin();
	fd = dial();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tell(fd, cases[i].text);
		hear(fd);
		snprintf(code, sizeof(code), "\"code\":\"%s\"", cases[i].code ? cases[i].code : "");
		CU_ASSERT_TRUE(geteuid() == 0 ? has(cases[i].code ? code : "\"done\"")
					      : has("EPERM") || has("EINVAL"));
	}
	close(fd);
	end();
}

/* A file that somebody sends is nothing to wait for, nor to end of. */
static void test_descriptor(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	char text[] = "{\"id\": 1, \"op\": \"ping\"}";
	struct iovec iov = { text, strlen(text) };
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	struct pollfd p = { .fd = -1 };
	int fd, ends[2];

	begin();
	fd = dial();
	CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
	memcpy(CMSG_DATA(&control.head), &ends[1], sizeof(ends[1]));
	CU_ASSERT_EQUAL(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)iov.iov_len);
	(void)close(ends[1]);
	CU_ASSERT_STRING_EQUAL(hear(fd), "");
	close(fd);
	p.fd = ends[0];
	for (unsigned i = 0; i < WAIT_MS && poll(&p, 1, 0) == 0; i++)
		fm_loop_step(loop, FM_NS_PER_MS);
	CU_ASSERT_TRUE(p.revents & POLLHUP);
	close(ends[0]);
	fd = dial();
	tell(fd, text);
	CU_ASSERT_TRUE(hear(fd) && has("\"done\""));
	close(fd);
	end();
}

/* The kernel says who asks: who may open the socket and is not root may look, and nothing else. */
static void test_another_user(void)
{
	static const char *const ops[] = {
		"up\", \"volume\": \"data", "connect\", \"volume\": \"data",
		"down\", \"volume\": \"data", "disconnect\", \"volume\": \"data",
		"discover\", \"address\": \"127.0.0.1"};
	char text[128];
	int fd;

	begin();
	CU_ASSERT_EQUAL(chmod(dir, 0755), 0);
	CU_ASSERT_EQUAL(chmod(path, 0666), 0);
	if (geteuid() == 0)
		CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	fd = dial();
	if (getuid() == 0)
		CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		snprintf(text, sizeof(text), "{\"id\": 1, \"op\": \"%s\"}", ops[i]);
		tell(fd, text);
		CU_ASSERT_TRUE(hear(fd) && has("\"EPERM\""));
	}
	tell(fd, "{\"id\": 1, \"op\": \"status\"}");
	CU_ASSERT_TRUE(hear(fd) && has("\"done\""));
	close(fd);
	end();
}

#define CONNS_OF_A_USER ((FM_NVMED_CONNS_MAX - FM_NVMED_CONNS_ROOT) / 2)

static void test_room_for_root(void)
{
	int fds[CONNS_OF_A_USER], fd;

	begin();
	CU_ASSERT_EQUAL(chmod(dir, 0755), 0);
	CU_ASSERT_EQUAL(chmod(path, 0666), 0);
	if (geteuid() == 0)
		CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
	for (unsigned i = 0; i < CONNS_OF_A_USER; i++)
		fds[i] = dial();
	fd = dial();
	CU_ASSERT_TRUE(hear(fd) && has("EBUSY"));
	close(fd);
	if (getuid() == 0) {
		CU_ASSERT_EQUAL_FATAL(seteuid(0), 0);
		fd = dial();
		tell(fd, "{\"id\": 1, \"op\": \"ping\"}");
		CU_ASSERT_TRUE(hear(fd) && has("\"done\""));
		close(fd);
	}
	for (unsigned i = 0; i < CONNS_OF_A_USER; i++)
		close(fds[i]);
	end();
}

static void test_limits(void)
{
	static char longest[(64u << 10) + 1];
	const unsigned most =
		(geteuid() == 0 ? FM_NVMED_CONNS_MAX : FM_NVMED_CONNS_MAX - FM_NVMED_CONNS_ROOT) /
		2;
	int fds[FM_NVMED_CONNS_MAX], fd;

	begin();
	fd = dial();
	memset(longest, ' ', sizeof(longest));
	CU_ASSERT_EQUAL(send(fd, longest, sizeof(longest), MSG_NOSIGNAL), (ssize_t)sizeof(longest));
	CU_ASSERT_TRUE(hear(fd) && has("EMSGSIZE"));
	for (int i = 0; geteuid() == 0 && i < FM_NVMED_REQUESTS_MAX; i++)
		tell(fd, "{\"id\": 5, \"op\": \"up\", \"volume\": \"data\"}");
	if (geteuid() == 0) {
		tell(fd, "{\"id\": 6, \"op\": \"up\", \"volume\": \"data\"}");
		CU_ASSERT_TRUE(hear(fd) && has("\"id\":6") && has("EBUSY"));
	}
	/* It goes with all that it waits for. */
	close(fd);
	drain();
	for (unsigned i = 0; i < most; i++)
		fds[i] = dial();
	fd = dial();
	CU_ASSERT_TRUE(hear(fd) && has("EBUSY"));
	close(fd);
	for (unsigned i = 0; i < most; i++)
		close(fds[i]);
	drain();
	fd = dial();
	tell(fd, "{\"id\": 1, \"op\": \"ping\"}");
	CU_ASSERT_TRUE(hear(fd) && has("\"done\""));
	close(fd);
	end();
}

static void test_second_daemon(void)
{
	struct fm_nvmed_api_opts opts = {
		.socket_path = path, .mode = 0600, .gid = (gid_t)-1, .host = &host};
	struct fm_nvmed_api *second;
	struct stat st;

	begin();
	opts.loop = loop;
	opts.helpers = helpers;
	CU_ASSERT_EQUAL(fm_nvmed_api_new(&opts, &second, &err), -EADDRINUSE);
	CU_ASSERT_EQUAL(stat(path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 07777, 0600);
	end();
}

int main(void)
{
	static const struct fm_test tests[] = {
		{"ping and status", test_looking},
		{"bad requests", test_bad_requests},
		{"wishes: refused, late, undone by others", test_wishes},
		{"who asks whether it may be mounted has it looked at anew", test_ask},
		{"who forces what is mounted is told that nothing is forced", test_nothing_forced},
	{"a seal of what could not be written says why it is none", test_unwritten},
		{"what is no longer configured can be taken down", test_former},
		{"all volumes down, and up again", test_all},
		{"who sends a descriptor is closed, and others are answered", test_descriptor},
		{"another user may look and nothing else", test_another_user},
		{"however many others ask, root gets in", test_room_for_root},
		{"limits of messages, requests and connections", test_limits},
		{"a second daemon leaves the first one's socket", test_second_daemon},
	};

	fm_log_set_level(FM_LOG_ERROR);
	return fm_test_main("nvmed_api", tests, sizeof(tests) / sizeof(tests[0]));
}
