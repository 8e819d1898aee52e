/* SPDX-License-Identifier: MIT */
/* cmd_nvme_up - fmove nvme up, connect, down, disconnect, ask, seal, unseal, forget: what is wanted
 * of a volume, and who counts. */
#include "client/cli/nvme.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/fields.h"
#include "mover/base/json.h"

enum { OPT_WAIT = FM_NVME_KEY, OPT_FORCE, OPT_ALL, OPT_FORCE_AFTER, OPT_FOR_UNIT };

#define WAIT_ROW { "wait", 0, OPT_WAIT, "TIME", "how long to wait for it (60s); 0: not at all", "" }
#define TIMEOUT_ROW                                                                                \
	{                                                                                          \
		"timeout", 0, OPT_WAIT, "TIME", "how long to wait for it (20s); 0: not at all", "" \
	}
#define FORCE_ROW                                                                                  \
	{                                                                                          \
		"force", 'f', OPT_FORCE, NULL,                                                     \
			"unmount even if it is in use: files that are open stay so, detached",     \
			NULL                                                                       \
	}

const struct fm_opt fm_opts_nvme_up[] = {
	WAIT_ROW,
	{"force", 'f', OPT_FORCE, NULL,
	 "once: mount it read-write without the word of nodes that do not answer", NULL},
	{"for-unit", 0, OPT_FOR_UNIT, NULL, "end when it may be mounted and systemd is asked to",
	 NULL},
	{"all", 0, OPT_ALL, NULL, "end what down --all began: every volume as it is wished", NULL},
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{NULL, 0, 0, NULL, NULL, NULL},
};

const struct fm_opt fm_opts_nvme_connect[] = {
	WAIT_ROW,
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_nvme_down[] = {
	TIMEOUT_ROW,
	FORCE_ROW,
	{"all", 0, OPT_ALL, NULL,
	 "every volume, until up --all; not remembered: for the end of the machine", NULL},
	{"force-after", 0, OPT_FORCE_AFTER, "TIME",
	 "with --all: --force for what is still in use then", ""},
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{NULL, 0, 0, NULL, NULL, NULL},
};

const struct fm_opt fm_opts_nvme_disconnect[] = {
	TIMEOUT_ROW,
	FORCE_ROW,
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_nvme_ask[] = {
	WAIT_ROW,
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_nvme_seal[] = {
	WAIT_ROW,
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_nvme_unseal[] = {
	WAIT_ROW,
	{"force", 'f', OPT_FORCE, NULL, "even if nodes do not answer, and may have it mounted",
	 NULL},
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{NULL, 0, 0, NULL, NULL, NULL},
};

const struct fm_opt fm_opts_nvme_forget[] = {
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define UP_MS 60000
#define DOWN_MS 20000
#define FORGET_MS 15000
/* beyond what fmove-nvmed was told to wait: it may be busy with other volumes */
#define GRACE_MS 15000

/* Shows a volume: "data: mounted at /srv/data", "data: connecting: ...". */
static void show_volume(const struct fm_json *done, void *ctx)
{
	const struct fm_json *v = fm_json_get(done, "volume");
	const char *state = fm_field_text(v, "state"), *text = fm_field_text(v, "text");

	(void)ctx;
	fm_nvme_put(fm_field_text(v, "name"));
	(void)printf(": ");
	fm_nvme_put(state);
	if (strcmp(state, "mounted") == 0 && *fm_field_text(v, "mount_point")) {
		(void)printf(" at ");
		fm_nvme_put(fm_field_text(v, "mount_point"));
		(void)printf(", %s", fm_field_is(v, "is_read_write") ? "read-write" : "read-only");
	} else if (*fm_field_text(v, "device")) {
		(void)printf(", ");
		fm_nvme_put(fm_field_text(v, "device"));
	}
	if (fm_field_is(v, "is_sealed"))
		(void)printf("; sealed, epoch %" PRIu64, fm_field_u64(v, "epoch"));
	if (*text) {
		(void)printf("; ");
		fm_nvme_put(text);
	}
	if (fm_field_is(done, "nothing_forced"))
		(void)printf("; it was mounted already, and nothing is forced");
	(void)putchar('\n');
}

static void show_all(const struct fm_json *done, void *ctx)
{
	(void)done;
	(void)printf("all volumes: %s\n", (const char *)ctx);
}

/* Checks the options that only --all has, and those that it does not have. */
static const char *check_all(const struct fm_nvmed_request *r)
{
	if (r->has_force_after && !r->is_all)
		return "--force-after goes with --all";
	if (r->is_for_unit && r->is_all)
		return "--for-unit is for one volume";
	if (r->is_forced && r->is_all)
		return "--all takes --force-after, not --force";
	return NULL;
}

/* Warns of what is lost if the other writer still runs. */
static void warn_of_loss(const char *whom)
{
	fm_say("warning: if %s is running and writes to a volume that this node writes to, the "
	       "file system is destroyed, and all that "
	       "is in it is lost: see that it is off",
	       whom);
}

static int ask_all(const char *verb, struct fm_nvmed_request *r, bool is_json)
{
	bool is_down = strcmp(r->op, "down") == 0;

	r->has_timeout = is_down;	/* up is not waited for */
	return fm_nvme_ask(verb, r, r->timeout_ms + GRACE_MS, is_json, show_all,
			   is_down ? "down" : "as wished");
}

static int wish(const char *verb, uint64_t wait_ms, int argc, char **argv)
{
	/* Behind "nvme ": what the API calls it. */
	struct fm_nvmed_request r = {
		.op = strchr(verb, ' ') + 1, .has_timeout = true, .timeout_ms = wait_ms};
	struct fm_args args;
	bool is_json = false;
	int key;

	fm_args_begin(&args, verb, argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == FM_NVME_KEY_SOCKET)
			fm_socket_set(args.value);
		else if (key == OPT_WAIT &&
			 fm_nvme_take_time(&args, args.cmd->opts[0].name, &r.timeout_ms) < 0)
			return FM_EXIT_USAGE;
		is_json |= key == FM_NVME_KEY_JSON;
		r.is_forced |= key == OPT_FORCE;
		r.is_all |= key == OPT_ALL;
		r.is_for_unit |= key == OPT_FOR_UNIT;
		if (key == OPT_FORCE_AFTER &&
		    fm_nvme_take_time(&args, "force-after", &r.force_after_ms) < 0)
			return FM_EXIT_USAGE;
		r.has_force_after |= key == OPT_FORCE_AFTER;
	}
	if (fm_args_end(&args, r.is_all ? 0 : 1, r.is_all ? 0 : 1) < 0)
		return args.status;
	if (check_all(&r))
		return fm_usage(&args, "%s", check_all(&r));
	if (r.is_all)
		return ask_all(verb, &r, is_json);
	r.volume = args.operands[0];
	if (r.is_forced && (strcmp(r.op, "up") == 0 || strcmp(r.op, "unseal") == 0))
		warn_of_loss("a node that does not answer");
	return fm_nvme_ask(verb, &r, r.timeout_ms + GRACE_MS, is_json, show_volume, NULL);
}

static void show_forgotten(const struct fm_json *done, void *ctx)
{
	(void)ctx;
	fm_nvme_put(fm_field_text(done, "node"));
	(void)printf(": forgotten, until it speaks\n");
}

int fm_cmd_nvme_forget(int argc, char **argv)
{
	struct fm_nvmed_request r = { .op = "forget" };
	struct fm_args args;
	bool is_json = false;
	int key, status;

	fm_args_begin(&args, "nvme forget", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == FM_NVME_KEY_SOCKET)
			fm_socket_set(args.value);
		is_json |= key == FM_NVME_KEY_JSON;
	}
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	r.node = args.operands[0];
	status = fm_nvme_ask("nvme forget", &r, FORGET_MS, is_json, show_forgotten, NULL);
	if (status == FM_EXIT_DONE)
		warn_of_loss(r.node);
	return status;
}

int fm_cmd_nvme_up(int argc, char **argv)
{
	return wish("nvme up", UP_MS, argc, argv);
}

int fm_cmd_nvme_connect(int argc, char **argv)
{
	return wish("nvme connect", UP_MS, argc, argv);
}

int fm_cmd_nvme_down(int argc, char **argv)
{
	return wish("nvme down", DOWN_MS, argc, argv);
}

int fm_cmd_nvme_disconnect(int argc, char **argv)
{
	return wish("nvme disconnect", DOWN_MS, argc, argv);
}

int fm_cmd_nvme_ask(int argc, char **argv)
{
	return wish("nvme ask", UP_MS, argc, argv);
}

int fm_cmd_nvme_seal(int argc, char **argv)
{
	return wish("nvme seal", UP_MS, argc, argv);
}

int fm_cmd_nvme_unseal(int argc, char **argv)
{
	return wish("nvme unseal", UP_MS, argc, argv);
}
