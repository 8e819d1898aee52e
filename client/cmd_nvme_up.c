/* SPDX-License-Identifier: MIT */
/* cmd_nvme_up - fmove nvme up, connect, down, disconnect: what is wanted of a volume. */
#include "client/nvme.h"

#include <stdio.h>
#include <string.h>

#include "client/fields.h"
#include "mover/api_json.h"

enum { OPT_WAIT = FM_NVME_KEY, OPT_FORCE };

const struct fm_opt fm_opts_nvme_up[] = {
	{ "wait", 0, OPT_WAIT, "TIME", "how long to wait for it (60s); 0: not at all", "" },
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

const struct fm_opt fm_opts_nvme_down[] = {
	{ "timeout", 0, OPT_WAIT, "TIME", "how long to wait for it (20s); 0: not at all", "" },
	{ "force", 'f', OPT_FORCE, NULL, "unmount even if it is in use: files that are open stay so, detached", NULL },
	FM_NVME_JSON,
	FM_NVME_SOCKET,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define UP_MS 60000
#define DOWN_MS 20000
#define GRACE_MS 15000	/* beyond what fmove-nvmed was told to wait: it may be busy with other volumes */

/* "data: mounted at /srv/data", "data: connecting: ..." */
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
	if (*text) {
		(void)printf("; ");
		fm_nvme_put(text);
	}
	(void)putchar('\n');
}

static int wish(const char *verb, uint64_t wait_ms, int argc, char **argv)
{
	/* Behind "nvme ": what the API calls it. */
	struct fm_nvmed_request r = { .op = strchr(verb, ' ') + 1, .has_timeout = true, .timeout_ms = wait_ms };
	struct fm_args args;
	bool is_json = false;
	int key;

	fm_args_begin(&args, verb, argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		if (key == FM_NVME_KEY_SOCKET)
			fm_socket_set(args.value);
		else if (key == OPT_WAIT && fm_nvme_take_time(&args, args.cmd->opts[0].name, &r.timeout_ms) < 0)
			return FM_EXIT_USAGE;
		is_json |= key == FM_NVME_KEY_JSON;
		r.is_forced |= key == OPT_FORCE;
	}
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	r.volume = args.operands[0];
	return fm_nvme_ask(verb, &r, r.timeout_ms + GRACE_MS, is_json, show_volume, NULL);
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
