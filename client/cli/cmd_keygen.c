/* SPDX-License-Identifier: MIT */
/* cmd_keygen - fmove keygen: a node's key pair, and the public half of one. */
#include "client/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/keys.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

enum { OPT_SHOW = 1, OPT_JSON };

const struct fm_opt fm_opts_keygen[] = {
	{ "show", 0, OPT_SHOW, NULL, "print the public key of a file that is there", NULL },
	{ "json", 0, OPT_JSON, NULL, "the answer as one JSON object on standard output", NULL },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

static void print_json(const char *file, const char *key)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout);	/* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "file", file, strlen(file));
	fm_jw_text(&w, "key", key);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

int fm_cmd_keygen(int argc, char **argv)
{
	uint8_t public_key[FM_VALUE_KEY_LEN];
	char text[FM_VALUE_KEY_TEXT_MAX];
	struct fm_err err = { 0 };
	struct fm_args args;
	bool is_shown = false, is_json = false;
	const char *file;
	int key, ret;

	fm_args_begin(&args, "keygen", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		is_shown |= key == OPT_SHOW;
		is_json |= key == OPT_JSON;
	}
	if (fm_args_end(&args, 0, 1) < 0)
		return args.status;
	file = args.count ? args.operands[0] : FM_CONFIG_DIR "/node.key";
	ret = is_shown ? fm_key_read(file, public_key, &err)
		       : fm_key_generate(file, public_key, &err);
	if (ret < 0)
		return fm_fail("keygen", &err);
	fm_value_key_print(public_key, text);
	if (is_json)
		print_json(file, text);
	else
		(void)printf("%s\n", text);
	return fm_stdout_end("keygen", FM_EXIT_DONE);
}
