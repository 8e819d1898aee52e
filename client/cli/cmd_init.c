/* SPDX-License-Identifier: MIT */
/* cmd_init - fmove init: the first node's configuration and key, and the line for the next node. */
#include "client/cli/cmd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cables.h"
#include "client/cli/interrupt.h"
#include "client/cli/invitation.h"
#include "client/cli/setup.h"
#include "client/cli/system.h"
#include "client/cli/undo.h"
#include "config/address.h"
#include "config/config.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

const struct fm_opt fm_opts_init[] = {
	FM_SETUP_OPTS,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

/* Asks on the terminal until an address was given. */
static int ask_address(struct fm_addresses *out, struct fm_err *err)
{
	char line[FM_ADDRESS_TEXT_MAX];

	for (;;) {
		(void)fprintf(stderr, "Where do other nodes reach this one (HOST or HOST:PORT)? ");
		if (!fgets(line, sizeof(line), stdin))
			return fm_err_set(err, -EADDRNOTAVAIL,
					  "no address was said: say --address HOST:PORT");
		line[strcspn(line, "\n")] = '\0';
		if (fm_address_complete(line, FM_SETUP_PORT, out->text[0]) == 0) {
			out->count = 1;
			return 0;
		}
		fm_say("\"%s\" is no address: one is such as 10.0.0.1", line);
	}
}

/* Finds an address before anything is written: the invitation at the end needs one. */
static int find_address(struct fm_setup *setup, struct fm_err *err)
{
	char none[] = "", listen[] = "[::]:7471";
	const struct fm_config_node node = { .listen = listen, .address = none };
	struct fm_addresses found;
	int ret;

	if (setup->addresses.count > 0)
		return 0;
	ret = fm_address_of_node(&node, &found, err);
	if (ret < 0 && isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
		fm_say("init: %s", err->text);
		ret = ask_address(&setup->addresses, err);
	}
	return ret;
}

static void say_what_next(const struct fm_setup *setup, const struct fm_config *cfg)
{
	char start[PATH_MAX + 128];
	struct fm_networks cables;

	fm_say("Wrote %s and %s.", cfg->file, cfg->node.key_file);
	fm_cables_find(&cables);
	if (cables.count > 0)
		fm_say("It proposes private_networks: the cables of RDMA ports, where TCP need not "
		       "be encrypted if both nodes say so.");
	fm_setup_start_line(cfg, start, sizeof(start));
	if (!fm_setup_is_started(setup))
		fm_say("Start the daemon: %s", start);
	fm_setup_say_group(cfg);
}

static void print_json(const struct fm_config *cfg, const struct fm_invitation *invitation)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout);	/* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_text(&w, "node", cfg->node.name);
	fm_jw_name(&w, "config", cfg->file, strlen(cfg->file));
	fm_jw_name(&w, "key_file", cfg->node.key_file, strlen(cfg->node.key_file));
	fm_invitation_json(&w, invitation);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

static int finish(const struct fm_setup *setup, struct fm_system *sys, const struct fm_config *cfg,
		  struct fm_err *err)
{
	struct fm_invitation invitation;
	int ret = setup->is_system ? fm_system_start(sys, cfg->node.listen, err) : 0;

	if (ret == 0)
		ret = fm_interrupt_check(err);
	if (ret < 0)
		return ret;
	say_what_next(setup, cfg);
	ret = fm_invitation_make(cfg->dir, &setup->addresses, &invitation, err);
	if (ret < 0)
		return ret;
	if (setup->is_json)
		print_json(cfg, &invitation);
	else
		fm_invitation_print(&invitation);
	return 0;
}

static int init(struct fm_setup *setup, struct fm_err *err)
{
	uint8_t key[FM_CONFIG_KEY_LEN];
	struct fm_system sys = { 0 };
	struct fm_undo undo = { 0 };
	struct fm_config *cfg;
	int ret = find_address(setup, err);

	if (ret == 0)
		ret = fm_interrupt_start(err);
	if (ret == 0 && setup->is_system) {
		fm_system_plan(setup, stderr);
		ret = fm_system_begin(&sys, err);
	}
	if (ret == 0)
		ret = fm_interrupt_check(err);
	if (ret == 0)
		ret = fm_setup_write(setup, &undo, &cfg, key, err);
	if (ret == 0) {
		ret = fm_interrupt_check(err);
		if (ret == 0)
			ret = finish(setup, &sys, cfg, err);
		fm_config_free(cfg);
	}
	if (ret < 0) {
		fm_system_undo(&sys);
		fm_undo_all(&undo);
	}
	fm_undo_forget(&undo);
	return ret;
}

int fm_cmd_init(int argc, char **argv)
{
	struct fm_setup setup = { 0 };
	struct fm_err err = { 0 };
	struct fm_args args;
	int ret;

	fm_args_begin(&args, "init", argc, argv);
	if (fm_setup_parse(&setup, &args, 0, 0) < 0)
		return args.status;
	ret = setup.is_dry ? fm_system_print_plan(&setup, &err) : init(&setup, &err);
	if (ret < 0)
		return fm_fail("init", &err);
	return fm_stdout_end("init", FM_EXIT_DONE);
}
