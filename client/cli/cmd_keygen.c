/* SPDX-License-Identifier: MIT */
/* cmd_keygen - fmove keygen: a node's key pair, and the public half of one. */
#include "client/cli/cmd.h"

#include <stdio.h>

#include "config/config.h"
#include "config/keys.h"
#include "mover/base/err.h"

enum { OPT_SHOW = 1 };

const struct fm_opt fm_opts_keygen[] = {
	{ "show", 0, OPT_SHOW, NULL, "print the public key of a file that is there", NULL },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

int fm_cmd_keygen(int argc, char **argv)
{
	uint8_t key[FM_VALUE_KEY_LEN];
	char text[FM_VALUE_KEY_TEXT_MAX];
	struct fm_err err = { 0 };
	struct fm_args args;
	bool is_shown = false;
	const char *file;
	int ret;

	fm_args_begin(&args, "keygen", argc, argv);
	while (fm_args_next(&args) > 0)
		is_shown = true;
	if (fm_args_end(&args, 0, 1) < 0)
		return args.status;
	file = args.count ? args.operands[0] : FM_CONFIG_DIR "/node.key";
	ret = is_shown ? fm_key_read(file, key, &err) : fm_key_generate(file, key, &err);
	if (ret < 0)
		return fm_fail("keygen", &err);
	fm_value_key_print(key, text);
	printf("%s\n", text);
	return fm_stdout_end("keygen", FM_EXIT_DONE);
}
