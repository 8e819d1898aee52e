/* SPDX-License-Identifier: MIT */
/* links: fm_cli */
/*
 * test_nvmed_client - fmove nvme against a server of this file: a real socket and messages as
 * fmove-nvmed's API has them.
 *
 * The verb runs in a child, as the program would, with its output in files; this process is the
 * server and plays what each test says, so that nothing depends on time.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/discovered.h"
#include "client/cli/nvmed.h"
#include "config/config.h"
#include "mover/base/json.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"

#define TEXT_MAX 16384
#define ANSWER_WAIT_MS (FM_TEST_HANG_S * 1000)

struct talk {
	char dir[64];
	char path[96];
	int listener;
	int fd;			/* the client's connection */
	pid_t child;
	int out_fd, err_fd;
	char request[TEXT_MAX];
	char out[TEXT_MAX], err[TEXT_MAX];
	int status;
};

/* ---- the server ---- */

static void serve(struct talk *t)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memset(t, 0, sizeof(*t));
	t->fd = -1;
	strcpy(t->dir, "/tmp/fm-nvmed.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(t->dir));
	snprintf(t->path, sizeof(t->path), "%s/sock", t->dir);
	strcpy(address.sun_path, t->path);
	t->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CU_ASSERT_TRUE_FATAL(t->listener >= 0);
	CU_ASSERT_EQUAL_FATAL(bind(t->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(t->listener, 4), 0);
	CU_ASSERT_EQUAL(setenv("FMOVE_NVMED_SOCKET", t->path, 1), 0);
}

static void wait_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CU_ASSERT_EQUAL_FATAL(poll(&p, 1, ANSWER_WAIT_MS), 1);
}

/* The next request, on the connection that is there or on a new one. */
static void hear(struct talk *t)
{
	ssize_t len;

	if (t->fd < 0) {
		wait_readable(t->listener);
		t->fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC);
		CU_ASSERT_TRUE_FATAL(t->fd >= 0);
	}
	wait_readable(t->fd);
	len = recv(t->fd, t->request, sizeof(t->request) - 1, 0);
	CU_ASSERT_TRUE_FATAL(len > 0);
	t->request[len] = '\0';
}

static void answer(struct talk *t, const char *text)
{
	CU_ASSERT_EQUAL(send(t->fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void hang_up(struct talk *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

static void serve_end(struct talk *t)
{
	hang_up(t);
	close(t->listener);
	CU_ASSERT_EQUAL(unlink(t->path), 0);
	CU_ASSERT_EQUAL(rmdir(t->dir), 0);
}

/* ---- the client ---- */

/* fmove nvme WORDS, which are cut at blanks. */
static void client(struct talk *t, const char *words)
{
	char copy[256], *argv[16] = { NULL }, *rest;
	int argc = 0;

	CU_ASSERT_TRUE_FATAL((size_t)snprintf(copy, sizeof(copy), "nvme %s", words) < sizeof(copy));
	for (char *w = strtok_r(copy, " ", &rest); w && argc < 15; w = strtok_r(NULL, " ", &rest))
		argv[argc++] = w;
	t->out_fd = memfd_create("out", MFD_CLOEXEC);
	t->err_fd = memfd_create("err", MFD_CLOEXEC);
	CU_ASSERT_TRUE_FATAL(t->out_fd >= 0 && t->err_fd >= 0);
	fflush(stdout);
	t->child = fork();
	CU_ASSERT_TRUE_FATAL(t->child >= 0);
	if (t->child == 0) {
		int status;

		(void)dup2(t->out_fd, STDOUT_FILENO);
		(void)dup2(t->err_fd, STDERR_FILENO);
		status = fm_dispatch("", argc, argv);
		fflush(stdout);
		_exit(status);
	}
}

static void slurp(int fd, char out[static TEXT_MAX])
{
	ssize_t len = pread(fd, out, TEXT_MAX - 1, 0);

	CU_ASSERT_TRUE_FATAL(len >= 0);
	out[len] = '\0';
	close(fd);
}

/* What it said, and its exit status. */
static void client_end(struct talk *t)
{
	int status;

	CU_ASSERT_EQUAL_FATAL(waitpid(t->child, &status, 0), t->child);
	CU_ASSERT_TRUE(WIFEXITED(status));
	t->status = WEXITSTATUS(status);
	slurp(t->out_fd, t->out);
	slurp(t->err_fd, t->err);
	hang_up(t);
}

static void is_text(const char *is, const char *wanted)
{
	if (strcmp(is, wanted) != 0)
		printf("is:\n%s\nwanted:\n%s\n", is, wanted);
	CU_ASSERT_STRING_EQUAL(is, wanted);
}

/* One verb, its request and one answer. */
static void play(struct talk *t, const char *words, const char *request, const char *reply)
{
	client(t, words);
	hear(t);
	is_text(t->request, request);
	answer(t, reply);
	client_end(t);
}

/* ---- what is shown ---- */

#define UUID "5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b"
/* clang-format off */
#define LIVE \
	"{\"name\":\"nvme1\",\"state\":\"live\",\"address\":\"10.0.0.9\",\"port\":\"4420\"," \
	"\"is_ours\":true,\"keep_alive_s\":5," \
	"\"reconnect_delay_s\":2,\"ctrl_loss_s\":-1,\"fast_io_fail_s\":-1,\"queues\":8," \
	"\"ana\":\"optimized\"}"
#define LOST \
	"{\"name\":\"nvme2\",\"state\":\"connecting\",\"address\":\"fd00::9\",\"port\":\"4420\"," \
	"\"is_ours\":false,\"keep_alive_s\":5," \
	"\"reconnect_delay_s\":2,\"ctrl_loss_s\":600,\"fast_io_fail_s\":30,\"queues\":1," \
	"\"ana\":\"\"}"
#define DATA \
	"{\"name\":\"data\",\"wanted\":\"up\",\"state\":\"mounted\",\"since_ms\":1767225600000," \
	"\"text\":\"\"," \
	"\"error\":\"connection refused\",\"error_ms\":1767225590000,\"tries\":3," \
	"\"next_try_ms\":0," \
	"\"subsystem\":\"nqn.2026-01.org.example:data\",\"mode\":\"shared-read\"," \
	"\"writer\":\"n1\",\"is_writer\":true," \
	"\"controllers\":[" LIVE "," \
	LOST "],\"paths_live\":1,\"paths_wanted\":2,\"device\":\"/dev/nvme1n1\"," \
	"\"by_id\":\"/dev/disk/by-id/nvme-uuid." UUID "\",\"wwid\":\"uuid." UUID "\",\"uuid\":\"" \
	UUID "\",\"nguid\":\"\",\"nsid\":1," \
	"\"size_bytes\":256000000000,\"is_read_only\":false,\"mount_point\":\"/srv/data\"," \
	"\"is_mounted\":true," \
	"\"is_read_write\":true,\"fs_type\":\"ext4\"," \
	"\"fs_uuid\":\"aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee\"}"
#define ARCHIVE \
	"{\"name\":\"archive\",\"wanted\":\"up\",\"state\":\"refused\",\"since_ms\":0," \
	"\"text\":\"it is \\u001b[2J exclusive\"," \
	"\"error\":\"\",\"tries\":1,\"next_try_ms\":6500,\"subsystem\":\"disk2\"," \
	"\"mode\":\"read-only\",\"writer\":\"\"," \
	"\"is_writer\":false,\"controllers\":[],\"paths_live\":0,\"paths_wanted\":1," \
	"\"device\":\"\",\"mount_point\":\"/srv/archive\"," \
	"\"is_mounted\":false}"
/* clang-format on */
#define DONE(more) "{\"id\":1,\"event\":\"done\"," more "}"
#define WELL "\"stuck\":0,\"second_owner\":\"\",\"libnvme\":{\"built\":\"1.3\",\"running\":\"1.3\"}"

	static void
	test_status_says_all_of_a_volume(void)
{
	struct talk t;

	serve(&t);
	CU_ASSERT_EQUAL(setenv("TZ", "UTC", 1), 0);
	play(&t, "status data", "{\"id\":1,\"op\":\"status\",\"volume\":\"data\"}",
	     DONE("\"volumes\":[" DATA "]," WELL));
	CU_ASSERT_EQUAL(t.status, 0);
	is_text(t.err, "");
	is_text(t.out, "data: mounted since 2026-01-01 00:00:00, wanted up\n"
		       "  last error  connection refused (2025-12-31 23:59:50)\n"
		       "  tries       3\n"
		       "  subsystem   nqn.2026-01.org.example:data\n"
		       "  paths       1 live of 2 wanted\n"
		       "              nvme1 live to 10.0.0.9 port 4420, 8 queues, ANA optimized\n"
		       "                keep-alive 5 s, tries again every 2 s, gives up after "
		       "never, I/O fails after never\n"
		       "              nvme2 connecting to fd00::9 port 4420, 1 queue, connected by "
		       "somebody else\n"
		       "                keep-alive 5 s, tries again every 2 s, gives up after 600 "
		       "s, I/O fails after 30 s\n"
		       "  device      /dev/nvme1n1, namespace 1, 256 GB\n"
		       "  by id       "
		       "/dev/disk/by-id/nvme-uuid.5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b\n"
		       "  wwid        uuid.5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b\n"
		       "  uuid        5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b\n"
		       "  mode        shared-read, writer n1 (this node)\n"
		       "  mount       /srv/data, mounted read-write, ext4 "
		       "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee\n");
	serve_end(&t);
}

static void test_status_of_all_with_warnings(void)
{
	struct talk t;

	serve(&t);
	play(&t, "status", "{\"id\":1,\"op\":\"status\"}",
	     DONE("\"volumes\":[" ARCHIVE "," ARCHIVE
		  "],\"stuck\":2,\"second_owner\":\"nvmf-autoconnect.service\","
		  "\"libnvme\":{\"built\":\"1.3\",\"running\":\"1.16\"}"));
	CU_ASSERT_EQUAL(t.status, 0);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(t.out, "warning: 2 helper processes of fmove-nvmed hang in the kernel\n"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(t.out, "warning: nvmf-autoconnect.service connects volumes too"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t.out, "built with libnvme 1.3 and runs with 1.16;"));
	CU_ASSERT_PTR_NOT_NULL(strstr(
		t.out, "\narchive: refused, wanted up\n  because     it is \\x1b[2J exclusive\n"
		       "  tries       1, the next in 0:07\n"));
	CU_ASSERT_PTR_NOT_NULL(
		strstr(t.out, "  mount       /srv/archive, not mounted\n\narchive: "));
	play(&t, "status", "{\"id\":1,\"op\":\"status\"}", DONE("\"volumes\":[]," WELL));
	is_text(t.out, "no volumes are configured\n");
	serve_end(&t);
}

/* For a program that watches: the worst of all volumes. What is forgotten or forced is said on
 * standard error. */
static void test_status_check(void)
{
#define UP                                                                                         \
	"{\"name\":\"a\",\"wanted\":\"up\",\"state\":\"mounted\",\"mount_point\":\"/"              \
	"a\",\"is_mounted\":true}"
#define DOWN "{\"name\":\"b\",\"wanted\":\"down\",\"state\":\"down\"}"
#define WAITING "{\"name\":\"c\",\"wanted\":\"up\",\"state\":\"waiting\",\"text\":\"waits for n2\"}"
#define HALF                                                                                       \
	"{\"name\":\"h\",\"wanted\":\"up\",\"state\":\"degraded\",\"mount_point\":\"/"             \
	"h\",\"is_mounted\":false}"
#define REFUSED "{\"name\":\"d\",\"wanted\":\"up\",\"state\":\"refused\"}"
#define ALARM                                                                                      \
	"{\"name\":\"e\",\"wanted\":\"up\",\"state\":\"mounted\",\"alarm\":\"n2 writes as well\"}"
	static const struct { const char *volumes; int status; } cases[] = {
		{ DONE("\"volumes\":[" UP "," DOWN "]," WELL), 0 },
		{ DONE("\"volumes\":[" WAITING "," UP "]," WELL), 4 },
		{ DONE("\"volumes\":[" HALF "]," WELL), 4 },
		{ DONE("\"volumes\":[" REFUSED "," WAITING "]," WELL), 6 },
		{ DONE("\"volumes\":[" UP "," ALARM "," REFUSED "]," WELL), 5 },
	};
	struct talk t;

	serve(&t);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		play(&t, "status --check", "{\"id\":1,\"op\":\"status\"}", cases[i].volumes);
		CU_ASSERT_EQUAL(t.status, cases[i].status);
		play(&t, "status --check --json", "{\"id\":1,\"op\":\"status\"}", cases[i].volumes);
		CU_ASSERT_EQUAL(t.status, cases[i].status);
	}
	play(&t, "status", "{\"id\":1,\"op\":\"status\"}", cases[4].volumes);
	CU_ASSERT_EQUAL(t.status, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(t.out, "\n  ALARM       n2 writes as well\n"));
	play(&t, "forget n2", "{\"id\":1,\"op\":\"forget\",\"node\":\"n2\"}",
	     DONE("\"node\":\"n2\""));
	CU_ASSERT_EQUAL(t.status, 0);
	is_text(t.out, "n2: forgotten, until it speaks\n");
	CU_ASSERT_PTR_NOT_NULL(strstr(t.err, "warning: if n2 is running"));
	serve_end(&t);
}

static void test_an_answer_of_wrong_types_is_shown_empty(void)
{
	struct talk t;

	serve(&t);
	play(&t, "status", "{\"id\":1,\"op\":\"status\"}",
	     DONE("\"volumes\":[{\"name\":7,\"controllers\":{},\"tries\":-1},3,null],\"libnvme\":["
		  "]"));
	CU_ASSERT_EQUAL(t.status, 0);
	play(&t, "list", "{\"id\":1,\"op\":\"status\"}", DONE("\"volumes\":{\"a\":1}"));
	is_text(t.out, "NAME  STATE  DEVICE  SIZE  MOUNT  MODE\n");
	serve_end(&t);
}

static void test_list_is_a_table(void)
{
	struct talk t;

	serve(&t);
	play(&t, "list", "{\"id\":1,\"op\":\"status\"}",
	     DONE("\"volumes\":[" DATA "," ARCHIVE "]," WELL));
	CU_ASSERT_EQUAL(t.status, 0);
	is_text(t.out, "NAME     STATE    DEVICE        SIZE    MOUNT           MODE\n"
		       "data     mounted  /dev/nvme1n1  256 GB  /srv/data       shared-read rw\n"
		       "archive  refused  -             -       (/srv/archive)  read-only\n");
	play(&t, "list -q", "{\"id\":1,\"op\":\"status\"}",
	     DONE("\"volumes\":[" DATA "," ARCHIVE "]," WELL));
	is_text(t.out, "data\narchive\n");
	play(&t, "list --json", "{\"id\":1,\"op\":\"status\"}",
	     DONE("\"volumes\":[" ARCHIVE "]," WELL));
	is_text(t.out, DONE("\"volumes\":[" ARCHIVE "]," WELL) "\n");
	serve_end(&t);
}

/* ---- what is wanted ---- */

static void test_up_and_down_say_how_long_they_wait(void)
{
	struct talk t;

	serve(&t);
	play(&t, "up data", "{\"id\":1,\"op\":\"up\",\"volume\":\"data\",\"timeout_ms\":60000}",
	     DONE("\"volume\":" DATA));
	CU_ASSERT_EQUAL(t.status, 0);
	is_text(t.out, "data: mounted at /srv/data, read-write\n");
	play(&t, "connect data --wait 1500ms",
	     "{\"id\":1,\"op\":\"connect\",\"volume\":\"data\",\"timeout_ms\":1500}",
	     DONE("\"volume\":{\"name\":\"data\",\"state\":\"connected\",\"device\":\"/dev/"
		  "nvme1n1\"}"));
	is_text(t.out, "data: connected, /dev/nvme1n1\n");
	play(&t, "up --wait=0 data",
	     "{\"id\":1,\"op\":\"up\",\"volume\":\"data\",\"timeout_ms\":0}",
	     DONE("\"volume\":{\"name\":\"data\",\"state\":\"waiting\",\"text\":\"no answer from "
		  "10.0.0.9\"}"));
	is_text(t.out, "data: waiting; no answer from 10.0.0.9\n");
	play(&t, "up --force data",
	     "{\"id\":1,\"op\":\"up\",\"volume\":\"data\",\"timeout_ms\":60000,\"force\":true}",
	     DONE("\"volume\":" DATA ",\"nothing_forced\":true"));
	is_text(t.out, "data: mounted at /srv/data, read-write; it was mounted already, and "
		       "nothing is forced\n");
	play(&t, "ask data", "{\"id\":1,\"op\":\"ask\",\"volume\":\"data\",\"timeout_ms\":60000}",
	     DONE("\"volume\":" DATA));
	is_text(t.out, "data: mounted at /srv/data, read-write\n");
	play(&t, "down data", "{\"id\":1,\"op\":\"down\",\"volume\":\"data\",\"timeout_ms\":20000}",
	     DONE("\"volume\":{\"name\":\"data\",\"state\":\"down\"}"));
	is_text(t.out, "data: down\n");
	CU_ASSERT_STRING_EQUAL(t.err, "");
	play(&t, "down data", "{\"id\":1,\"op\":\"down\",\"volume\":\"data\",\"timeout_ms\":20000}",
	     DONE("\"volume\":{\"name\":\"data\",\"state\":\"down\"},\"not_remembered\":"
		  "\"no space\""));
	CU_ASSERT_EQUAL(t.status, 0);
	is_text(t.out, "data: down\n");
	is_text(t.err, "fmove: warning: no space\n");
	play(&t, "down data", "{\"id\":1,\"op\":\"down\",\"volume\":\"data\",\"timeout_ms\":20000}",
	     "{\"id\":1,\"event\":\"error\",\"code\":\"ETIMEDOUT\",\"text\":\"not yet\","
	     "\"not_remembered\":\"no space\"}");
	CU_ASSERT_NOT_EQUAL(t.status, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(t.err, "not yet"));
	CU_ASSERT_PTR_NOT_NULL(strstr(t.err, "\nfmove: warning: no space\n"));
	play(&t, "disconnect -f --timeout 2min data --json",
	     "{\"id\":1,\"op\":\"disconnect\",\"volume\":\"data\",\"timeout_ms\":120000,\"force\":"
	     "true}",
	     DONE("\"volume\":{\"name\":\"data\",\"state\":\"down\"}"));
	is_text(t.out, DONE("\"volume\":{\"name\":\"data\",\"state\":\"down\"}") "\n");
	serve_end(&t);
}

static void test_a_wrong_command_line_asks_nobody(void)
{
	static const char *const wrong[] = {"up",
					    "up a b",
					    "up a --wait x",
					    "up a --wait 2h --wait 25h",
					    "down a --wait 1s",
					    "list a",
					    "status a b",
					    "discover",
					    "discover a:b",
					    "discover a:99999",
					    "discover [::1",
					    "units x",
					    "units --remove --stdout",
					    "--json list",
					    "frobnicate"};
	struct talk t;

	serve(&t);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		client(&t, wrong[i]);
		client_end(&t);
		CU_ASSERT_EQUAL(t.status, FM_EXIT_USAGE);
		CU_ASSERT_TRUE(strncmp(t.err, "fmove: nvme", 11) == 0 &&
			       strchr(t.err, '\n') == t.err + strlen(t.err) - 1);
	}
	serve_end(&t);
}

/* ---- what goes wrong ---- */

static void fails(struct talk *t, const char *reply, int status, const char *says)
{
	play(t, "up data --wait 0", "{\"id\":1,\"op\":\"up\",\"volume\":\"data\",\"timeout_ms\":0}",
	     reply);
	CU_ASSERT_EQUAL(t->status, status);
	is_text(t->out, "");
	if (!strstr(t->err, says))
		printf("\"%s\" is not in: %s\n", says, t->err);
	CU_ASSERT_PTR_NOT_NULL(strstr(t->err, says));
	CU_ASSERT_TRUE(strchr(t->err, '\n') == t->err + strlen(t->err) - 1);
}

#define ERROR(code, text)                                                                          \
	"{\"id\":1,\"event\":\"error\",\"code\":\"" code "\",\"text\":\"" text "\"}"

static void test_errors_have_their_status(void)
{
	struct talk t;

	serve(&t);
	fails(&t, ERROR("ENOENT", "no volume is called data"), FM_EXIT_FAILED,
	      "fmove: nvme up: no volume is called data\n");
	fails(&t, ERROR("EBUSY", "it is mounted"), FM_EXIT_FAILED, "it is mounted");
	fails(&t, ERROR("EPERM", "only root may"), FM_EXIT_REFUSED, "only root may");
	fails(&t, ERROR("EACCES", "exclusive to n1"), FM_EXIT_REFUSED, "exclusive to n1");
	fails(&t, ERROR("ETIMEDOUT", "waits for 10.0.0.9"), FM_EXIT_UNREACHABLE,
	      "waits for 10.0.0.9");
	fails(&t, ERROR("EWHATEVER", "a\\u001b[2Jb\\nc"), FM_EXIT_FAILED, "a\\x1b[2Jb\\x0ac");
	fails(&t, "{\"id\":1,\"event\":\"error\"}", FM_EXIT_FAILED, "gives no reason");
	fails(&t, "{\"event\":\"error\",\"code\":\"EINVAL\",\"text\":\"not understood\"}",
	      FM_EXIT_FAILED, "not understood");
	fails(&t, "{\"id\":1,\"event\":\"progress\"}", FM_EXIT_FAILED,
	      "is not known here; is it of another version?");
	fails(&t, "{\"id\":1,", FM_EXIT_FAILED, "is no JSON object; is it of another version?");
	fails(&t, "[]", FM_EXIT_FAILED, "is no JSON object");
	serve_end(&t);
}

static void test_answers_to_others_are_skipped(void)
{
	struct talk t;

	serve(&t);
	client(&t, "list");
	hear(&t);
	answer(&t, "{\"id\":7,\"event\":\"error\",\"code\":\"EIO\",\"text\":\"late\"}");
	answer(&t, "{\"id\":0,\"event\":\"done\"}");
	answer(&t, DONE("\"volumes\":[]"));
	client_end(&t);
	CU_ASSERT_EQUAL(t.status, 0);
	is_text(t.err, "");
	serve_end(&t);
}

static void test_a_daemon_that_goes_away(void)
{
	struct talk t;

	serve(&t);
	client(&t, "status");
	hear(&t);
	hang_up(&t);
	client_end(&t);
	CU_ASSERT_EQUAL(t.status, FM_EXIT_UNREACHABLE);
	CU_ASSERT_PTR_NOT_NULL(strstr(t.err, "fmove-nvmed closed the connection"));
	serve_end(&t);
}

static void test_an_answer_that_is_too_long(void)
{
	int size = 1 << 20;
	struct talk t;
	char *large = malloc(FM_NVMED_MESSAGE_MAX + 2);

	CU_ASSERT_PTR_NOT_NULL_FATAL(large);
	serve(&t);
	client(&t, "status");
	hear(&t);
	CU_ASSERT_EQUAL(setsockopt(t.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	memset(large, ' ', FM_NVMED_MESSAGE_MAX + 1);
	large[FM_NVMED_MESSAGE_MAX + 1] = '\0';
	answer(&t, large);
	client_end(&t);
	CU_ASSERT_EQUAL(t.status, FM_EXIT_FAILED);
	CU_ASSERT_PTR_NOT_NULL(strstr(t.err, "longer than 262144 bytes"));
	client(&t, "list");
	hear(&t);
	CU_ASSERT_EQUAL(setsockopt(t.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	memcpy(large, DONE("\"volumes\":[]"), strlen(DONE("\"volumes\":[]")));
	large[FM_NVMED_MESSAGE_MAX] = '\0';
	answer(&t, large);
	client_end(&t);
	CU_ASSERT_EQUAL(t.status, 0);
	free(large);
	serve_end(&t);
}

/* Nobody accepts: the request is taken by the socket, and no answer comes. */
static void test_a_silent_daemon_is_waited_for_no_longer_than_said(void)
{
	const struct fm_nvmed_request r = { .op = "ping" };
	struct fm_nvmed *nvmed;
	struct fm_json *done;
	struct fm_err err;
	struct talk t;

	serve(&t);
	CU_ASSERT_EQUAL_FATAL(fm_nvmed_connect(NULL, &nvmed, &err), 0);
	CU_ASSERT_EQUAL(fm_nvmed_ask(nvmed, &r, 0, &done, &err), -ETIMEDOUT);
	CU_ASSERT_EQUAL(fm_nvmed_ask(nvmed, &r, 20, &done, &err), -ETIMEDOUT);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "does not answer"));
	fm_nvmed_close(nvmed);
	fm_nvmed_close(NULL);
	serve_end(&t);
}

static void test_too_many_wait_already(void)
{
	struct fm_nvmed *nvmed[64];
	unsigned count = 0;
	struct fm_err err;
	struct talk t;
	int ret = 0;

	serve(&t);
	while (count < 64 && (ret = fm_nvmed_connect(NULL, &nvmed[count], &err)) == 0)
		count++;
	CU_ASSERT_EQUAL(ret, -EBUSY);
	while (count > 0)
		fm_nvmed_close(nvmed[--count]);
	serve_end(&t);
}

static void test_nobody_is_there(void)
{
	static char longer[200];
	struct fm_nvmed *nvmed;
	struct fm_err err;
	struct talk t;

	serve(&t);
	close(t.listener);		/* the name stays, as after a crash */
	client(&t, "status");
	client_end(&t);
	CU_ASSERT_EQUAL(t.status, FM_EXIT_UNREACHABLE);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(t.err, "is fmove-nvmed running? systemctl start fmove-nvmed"));
	client(&t, "discover 10.0.0.9 --socket /nonexistent/sock");
	client_end(&t);
	CU_ASSERT_EQUAL(t.status, FM_EXIT_UNREACHABLE);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(t.err, "nobody listens at /nonexistent/sock: is fmove-nvmed running?"));
	memset(longer, 'a', sizeof(longer) - 1);
	CU_ASSERT_EQUAL(fm_nvmed_connect(longer, &nvmed, &err), -ENAMETOOLONG);
	unlink(t.path);
	rmdir(t.dir);
}

static void test_a_request_that_is_too_long(void)
{
	static char name[20000];
	const struct fm_nvmed_request r = { .op = "up", .volume = name };
	struct fm_nvmed *nvmed;
	struct fm_json *done;
	struct fm_err err;
	struct talk t;

	serve(&t);
	memset(name, 'a', sizeof(name) - 1);
	CU_ASSERT_EQUAL_FATAL(fm_nvmed_connect(t.path, &nvmed, &err), 0);
	CU_ASSERT_EQUAL(fm_nvmed_ask(nvmed, &r, ANSWER_WAIT_MS, &done, &err), -EMSGSIZE);
	fm_nvmed_close(nvmed);
	serve_end(&t);
}

/* ---- discovery ---- */

#define ENTRY(subsystem, address, port, is_same)                                                   \
	"{\"subsystem\":\"" subsystem "\",\"address\":\"" address "\",\"port\":\"" port            \
	"\",\"family\":\"ipv4\","                                                                  \
	"\"treq\":\"not required\",\"is_same_address\":" is_same "}"

static void test_discover_asks_and_prints(void)
{
	struct talk t;

	serve(&t);
	play(&t, "discover 10.0.0.9 --host-address 10.0.0.1 --interface eth1",
	     "{\"id\":1,\"op\":\"discover\",\"address\":\"10.0.0.9\",\"port\":\"8009\",\"host_"
	     "address\":\"10.0.0.1\","
	     "\"host_interface\":\"eth1\"}",
	     DONE("\"entries\":[" ENTRY("disk1", "10.155.166.7", "4420", "false") "]"));
	CU_ASSERT_EQUAL(t.status, 0);
	is_text(t.out, "ADDRESS                      FAMILY SECURE        SUBSYSTEM\n"
		       "10.155.166.7:4420            ipv4   not required  disk1  (not the address "
		       "that was dialled)\n"
		       "\n"
		       "# For fmove.conf; where it is mounted, and who writes, is yours to say "
		       "(fmove.conf(5)).\n"
		       "volumes = ( {\n"
		       "\tname = \"disk1\";\n"
		       "\tsubsystem = \"disk1\";\n"
		       "\t# The target advertises 10.155.166.7:4420; below is the address that was "
		       "dialled.\n"
		       "\taddress = \"10.0.0.9:4420\";\n"
		       "\t#mount = \"/srv/disk1\";\n"
		       "\t#mode = \"exclusive\";\n"
		       "\t#writer = \"NODE\";\n"
		       "} );\n");
	play(&t, "discover [fd00::9]:4420",
	     "{\"id\":1,\"op\":\"discover\",\"address\":\"fd00::9\",\"port\":\"4420\"}",
	     DONE("\"entries\":[]"));
	is_text(t.out, "the target offers nothing to this host\n");
	play(&t, "discover fd00::9",
	     "{\"id\":1,\"op\":\"discover\",\"address\":\"fd00::9\",\"port\":\"8009\"}",
	     DONE("\"entries\":[]"));
	play(&t, "discover [fd00::9]",
	     "{\"id\":1,\"op\":\"discover\",\"address\":\"fd00::9\",\"port\":\"8009\"}",
	     DONE("\"entries\":[]"));
	play(&t, "discover store.lan:4420",
	     "{\"id\":1,\"op\":\"discover\",\"address\":\"store.lan\",\"port\":\"4420\"}",
	     DONE("\"entries\":[]"));
	serve_end(&t);
}

/* The lines, loaded as a part of a configuration. */
static struct fm_config *lines_of(const char *entries, const char *dialled)
{
	static const char head[] = "node = { name = \"n1\"; };\n";
	struct fm_config *cfg = NULL;
	struct fm_json *json;
	struct fm_err err = { 0 };
	size_t len = 0;
	char *text = NULL;
	FILE *to = open_memstream(&text, &len);

	CU_ASSERT_PTR_NOT_NULL_FATAL(to);
	CU_ASSERT_EQUAL_FATAL(fm_json_parse(entries, strlen(entries), &json, &err), 0);
	fputs(head, to);
	fm_discovered_print(to, fm_json_get(json, "entries"), dialled);
	fclose(to);
	if (fm_config_load_string(text, len, "f", &cfg, &err) < 0)
		printf("%s\n%s\n", err.text, text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(cfg);
	free(text);
	fm_json_free(json);
	return cfg;
}

static void test_lines_are_a_configuration(void)
{
	struct fm_config *cfg = lines_of("{\"entries\":["
		ENTRY("nqn.2014-08.org.nvmexpress.discovery", "10.0.0.9", "8009", "true") ","
		ENTRY("nqn.2026-01.org.example:data", "10.0.1.9", "4420", "false") ","
		ENTRY("nqn.2026-01.org.example:data", "10.0.0.9", "4420", "true") ","
		ENTRY("nqn.2026-01.org.example:data", "10.0.1.9", "4420", "false") ","
		ENTRY("nqn.2026-01.org.example:data", "not an address", "4420", "false") ","
		ENTRY("nqn.2026-02.org.example:data", "fd00::9", "4420", "true") ","
		ENTRY("data-2", "10.0.0.9", "4420", "true") ","
		ENTRY("\\\"; }; # \\\\", "10.0.0.9", "4420", "true") ","
		ENTRY("nqn:._-\xc3\xbc", "10.0.0.9", "4421", "true") ","
		ENTRY("with,comma\\nnode = {", "10.0.0.9", "4420", "true") ","
		ENTRY("bad-port", "10.0.0.9", "0\\\"", "true") ","
		ENTRY("elsewhere", "192.168.1.1\\n}", "4420", "false") ","
		ENTRY("", "10.0.0.9", "4420", "true") ",7,{}]}", "target.lan");
	static const struct { const char *name, *subsystem, *address; } wanted[] = {
		{ "data", "nqn.2026-01.org.example:data", "10.0.0.9:4420" },
		{ "data-2", "nqn.2026-02.org.example:data", "[fd00::9]:4420" },
		{ "data-2-2", "data-2", "10.0.0.9:4420" },
		{ "volume", "\"; }; # \\", "10.0.0.9:4420" },
		{ "volume-2", "nqn:._-\xc3\xbc", "10.0.0.9:4421" },
		{ "elsewhere", "elsewhere", "target.lan:4420" },
	};

	CU_ASSERT_EQUAL_FATAL(cfg->volume_count, sizeof(wanted) / sizeof(wanted[0]));
	for (unsigned i = 0; i < cfg->volume_count; i++) {
		CU_ASSERT_STRING_EQUAL(cfg->volumes[i].name, wanted[i].name);
		CU_ASSERT_STRING_EQUAL(cfg->volumes[i].subsystem, wanted[i].subsystem);
		CU_ASSERT_STRING_EQUAL(cfg->volumes[i].address, wanted[i].address);
		CU_ASSERT_EQUAL(cfg->volumes[i].paths[0] != NULL, i == 0);
	}
	CU_ASSERT_STRING_EQUAL(cfg->volumes[0].paths[0], "10.0.1.9:4420");
	CU_ASSERT_PTR_NULL(cfg->volumes[0].paths[1]);
	fm_config_free(cfg);
}

/* More than a configuration holds of volumes and of paths; names as long as they may be, all
 * alike. */
static void test_lines_are_bounded(void)
{
	static char text[200000];
	struct fm_config *cfg;
	size_t len = (size_t)sprintf(text, "{\"entries\":[");

	for (unsigned i = 0; i < 400; i++)
		len += (size_t)sprintf(text + len,
				       ENTRY("%u:%080d", "10.0.0.9", "4420", "true") ",", i, 7);
	for (unsigned i = 0; i < 20; i++)
		len += (size_t)sprintf(text + len,
				       "%s" ENTRY("0:%080d", "10.0.1.%u", "4420", "false"),
				       i > 0 ? "," : "", 7, i);
	strcpy(text + len, "]}");
	cfg = lines_of(text, "10.0.0.9");
	CU_ASSERT_EQUAL(cfg->volume_count, FM_CONFIG_VOLUMES_MAX);
	CU_ASSERT_PTR_NOT_NULL(cfg->volumes[0].paths[FM_CONFIG_PATHS_MAX - 1]);
	fm_config_free(cfg);
	fm_config_free(lines_of("{\"entries\":[]}", "10.0.0.9"));
	fm_config_free(lines_of("{\"entries\":{}}", "10.0.0.9"));
}

static const struct fm_test tests[] = {
	{"status says all of a volume", test_status_says_all_of_a_volume},
	{"status of all, with what is not as it should be", test_status_of_all_with_warnings},
	{"status --check says by its exit status whether all is well", test_status_check},
	{"an answer of wrong types is shown empty", test_an_answer_of_wrong_types_is_shown_empty},
	{"list is a table, names or JSON", test_list_is_a_table},
	{"up and down say how long they wait", test_up_and_down_say_how_long_they_wait},
	{"a wrong command line asks nobody", test_a_wrong_command_line_asks_nobody},
	{"errors have their exit status", test_errors_have_their_status},
	{"answers to others are skipped", test_answers_to_others_are_skipped},
	{"a daemon that goes away", test_a_daemon_that_goes_away},
	{"an answer that is too long", test_an_answer_that_is_too_long},
	{"a silent daemon is waited for no longer than said",
	 test_a_silent_daemon_is_waited_for_no_longer_than_said},
	{"too many wait already", test_too_many_wait_already},
	{"nobody is there", test_nobody_is_there},
	{"a request that is too long", test_a_request_that_is_too_long},
	{"discover asks and prints", test_discover_asks_and_prints},
	{"discovered lines are a configuration", test_lines_are_a_configuration},
	{"discovered lines are bounded", test_lines_are_bounded},
};
FM_TEST_MAIN("nvmed_client", tests)
