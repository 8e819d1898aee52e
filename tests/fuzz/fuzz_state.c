/* SPDX-License-Identifier: MIT */
/*
 * fuzz_state - any bytes as what the supervisor of volumes reads back: its files of state (the
 * first byte is 'o' for owned.json alone, 's' for all of them at once), and the kernel's events
 * ('u').
 *
 * A list of connections that was accepted is the same when written and read again. Whatever the
 * files hold, the supervisor starts, looks, and what it shows is JSON. links: fm_nvmetcp
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/owned.h"
#include "nvmetcp/process.h"
#include "nvmetcp/supervisor.h"
#include "nvmetcp/uevent.h"

#define BOOT "b"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

/* ---- owned.json ---- */

static void try_owned(const char *text)
{
	struct fm_owned_list list, again;
	struct fm_err err = { 0 };
	int ret = fm_owned_read(&list, text, BOOT, &err);
	char *first, *second;

	check(ret == 0 || ret == -EINVAL);
	check(ret == err.code && (ret == 0) == (err.text[0] == '\0'));
	first = fm_owned_write(&list, BOOT);
	check(first && fm_owned_read(&again, first, BOOT, &err) == 0 && again.count == list.count);
	second = fm_owned_write(&again, BOOT);
	check(second && strcmp(first, second) == 0);
	free(first);
	free(second);
	fm_owned_clear(&list);
	fm_owned_clear(&again);
}

/* ---- all files ---- */

static uint64_t now(void *ctx)
{
	(void)ctx;
	return FM_NS_PER_S;
}

static void fill(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	memset(buf, 1, len);
}

static int no_inventory(void *ctx, struct fm_inventory **out, struct fm_err *err)
{
	(void)ctx;
	(void)err;
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

static int no_mounts(void *ctx, struct fm_mounts *out, struct fm_err *err)
{
	(void)ctx;
	return fm_mounts_parse("", 0, out, err);
}

static int no_start(void *ctx, struct fm_helper *helper, const char *key, struct fm_json *request,
		    uint64_t timeout_ns, struct fm_err *err)
{
	(void)ctx;
	(void)helper;
	(void)key;
	(void)request;
	(void)timeout_ns;
	return fm_err_set(err, -EAGAIN, "none");
}

static void no_give_up(void *ctx, struct fm_helper *helper)
{
	(void)ctx;
	(void)helper;
}

static int no_iopolicy(void *ctx, const char *subsystem, const char *policy, struct fm_err *err)
{
	(void)ctx;
	(void)subsystem;
	(void)policy;
	return fm_err_set(err, -EINVAL, "none");
}

static void no_rescan(void *ctx, const char *controller)
{
	(void)ctx;
	(void)controller;
}

static void no_settings(void *ctx, const char *controller, struct fm_inv_settings *out)
{
	(void)ctx;
	(void)controller;
	*out = (struct fm_inv_settings){ 0 };
}

static int load(void *ctx, const char *name, char **text, struct fm_err *err)
{
	(void)name;
	(void)err;
	*text = strdup(ctx);
	return *text ? 0 : -ENOMEM;
}

static int save(void *ctx, const char *name, const char *text, bool is_durable, struct fm_err *err)
{
	(void)ctx;
	(void)name;
	(void)is_durable;
	(void)err;
	check(strlen(text) > 0);
	return 0;
}

static bool no_helper(void *ctx, const char *key)
{
	(void)ctx;
	(void)key;
	return false;
}

static bool no_process(void *ctx, const struct fm_process *process)
{
	(void)ctx;
	return process->pid % 2;
}

static bool no_stray(void *ctx)
{
	(void)ctx;
	return false;
}

static int publish(void *ctx, const char *text, struct fm_err *err)
{
	(void)ctx;
	(void)err;
	check(strlen(text) > 0);
	return 0;
}

static void no_peers(void *ctx)
{
	(void)ctx;
}

static const struct fm_volume volume = {
	.name = "v",
	.subsystem = "q",
	.address = {{"10.0.0.1", "4420"}},
	.address_count = 1,
	.host_address = "",
	.host_interface = "",
	.keep_alive_s = 5,
	.reconnect_delay_s = 2,
	.ctrl_loss_s = 30,
	.fast_io_fail_s = -1,
	.secret_file = "",
	.controller_secret_file = "",
	.iopolicy = "numa",
	.uuid = "",
	.nguid = "",
	.mount_point = "/v",
	.fs_type = "",
	.mount_options = "",
	.mode = FM_VOLUME_SHARED_READ,
	.writer = "n1",
};

static void try_supervisor(char *text)
{
	const struct fm_clock clock = { now, NULL };
	const struct fm_random chance = { fill, NULL };
	const struct fm_loop_opts loop_opts = { .clock = &clock, .is_simulated = true };
	const struct fm_supervisor_world world = {
		.read_inventory = no_inventory,
		.read_settings = no_settings,
		.read_mounts = no_mounts,
		.start = no_start,
		.give_up = no_give_up,
		.has_helper = no_helper,
		.may_live = no_process,
		.may_stray = no_stray,
		.set_iopolicy = no_iopolicy,
		.rescan = no_rescan,
		.load = load,
		.save = save,
		.publish = publish,
		.ask_peers = no_peers,
		.wall_ms = now,
		.boot = BOOT,
		.ctx = text,
	};
	const struct fm_supervisor_config config = {
		.node = "n1", .host_nqn = "h", .host_id = "i", .volumes = &volume, .count = 1};
	struct fm_supervisor_opts opts = { .world = &world, .random = &chance };
	struct fm_supervisor *sup;
	struct fm_err err = { 0 };
	struct fm_json *shown;
	char *line;

	check(fm_loop_new(&loop_opts, &opts.loop, &err) == 0);
	check(fm_supervisor_new(&opts, &sup, &err) == 0);
	check(fm_supervisor_set(sup, &config, &err) == 0);
	while (fm_loop_step(opts.loop, 0))
		;
	shown = fm_supervisor_show(sup, NULL);
	line = fm_json_dump(shown, FM_JSON_ONE_LINE);
	check(line && fm_json_count(shown) == 1);
	free(line);
	fm_json_free(shown);
	(void)fm_supervisor_wish(sup, "v", FM_WANT_CONNECTED, false, &err);
	while (fm_loop_step(opts.loop, 0))
		;
	fm_supervisor_stop(sup);
	fm_supervisor_free(sup);
	fm_loop_free(opts.loop);
}

/* ---- the kernel's events ---- */

static void try_uevent(const char *text, size_t len)
{
	if (fm_uevent_is_nvme(text, len))
		check(memmem(text, len, "SUBSYSTEM=", 10) && memmem(text, len, "nvme", 4));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size == 0)
		return 0;
	fm_log_set_level(FM_LOG_ERROR);
	if (data[0] == 'u') {
		try_uevent((const char *)data + 1, size - 1);
		return 0;
	}
	text = calloc(1, size);
	check(text != NULL);
	memcpy(text, data + 1, size - 1);
	if (data[0] == 'o')
		try_owned(text);
	else
		try_supervisor(text);
	free(text);
	return 0;
}
