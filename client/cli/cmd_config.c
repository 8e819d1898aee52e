/* SPDX-License-Identifier: MIT */
/* cmd_config - fmove config: check a configuration, print an example, list the options. */
#include "client/cli/cmd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/files.h"
#include "config/options.h"
#include "mover/base/err.h"
#include "mover/base/json.h"

const struct fm_opt fm_opts_config[] = {
	{ "json", 0, 1, NULL, "check: the answer as one JSON object on standard output", NULL },
	{ NULL, 0, 0, NULL, NULL, NULL },
};

/* Counts the stores that the configuration declares. The one of `bench = true` is not declared. */
static unsigned count_stores(const struct fm_config *cfg)
{
	unsigned count = 0;

	for (unsigned i = 0; i < cfg->store_count; i++)
		if (strcmp(cfg->stores[i].name, FM_CONFIG_BENCH_STORE) != 0)
			count++;
	return count;
}

/* fm_stdout_end() looks for errors, as of the other one. */
static void print_json(const char *file, const struct fm_config *cfg)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout);
	fm_jw_object(&w, NULL);
	fm_jw_name(&w, "file", file, strlen(file));
	fm_jw_text(&w, "node", cfg->node.name);
	fm_jw_name(&w, "socket", cfg->node.socket, strlen(cfg->node.socket));
	fm_jw_u64(&w, "stores", count_stores(cfg));
	fm_jw_u64(&w, "peers", cfg->peer_count);
	fm_jw_u64(&w, "volumes", cfg->volume_count);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

static void print_text(const char *file, const struct fm_config *cfg)
{
	unsigned stores = count_stores(cfg);

	(void)printf("%s: ok: node %s, %u store%s, %u peer%s, %u volume%s\n", file, cfg->node.name,
		     stores, stores == 1 ? "" : "s", cfg->peer_count,
		     cfg->peer_count == 1 ? "" : "s", cfg->volume_count,
		     cfg->volume_count == 1 ? "" : "s");
}

/* As fmoved does: where the configuration is says what no store may hold. */
static int make_absolute(const char *file, char out[static PATH_MAX], struct fm_err *err)
{
	char here[PATH_MAX] = "";

	if (file[0] != '/' && !getcwd(here, sizeof(here)))
		return fm_err_sys(err, -errno, "%s", file);
	if (file[0] == '/' || strcmp(here, "/") == 0)
		here[0] = '\0';
	return fm_path_join(here, file[0] == '/' ? file + 1 : file, out, err);
}

static int check(const char *file, bool is_json)
{
	char path[PATH_MAX];
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	if (make_absolute(file, path, &err) < 0 || fm_config_load(path, &cfg, &err) < 0)
		return fm_fail("config check", &err);
	(is_json ? print_json : print_text)(file, cfg);
	fm_config_free(cfg);
	return FM_EXIT_DONE;
}

static const struct printer {
	const char *word;
	void (*print)(FILE *to);
} printers[] = {
	{ "options", fm_options_print_help },
	{ "example", fm_options_print_example },
	{ "man", fm_options_print_man },
};

int fm_cmd_config(int argc, char **argv)
{
	struct fm_args args;
	bool is_json = false;

	fm_args_begin(&args, "config", argc, argv);
	while (fm_args_next(&args) > 0)
		is_json = true;
	if (fm_args_end(&args, 1, 2) < 0)
		return args.status;
	if (strcmp(args.operands[0], "check") == 0)
		return fm_stdout_end("config",
				     check(args.count == 2 ? args.operands[1]
							   : FM_CONFIG_DIR "/" FM_CONFIG_FILE,
					   is_json));
	if (is_json)
		return fm_usage(&args, "--json is for check");
	for (size_t i = 0; i < sizeof(printers) / sizeof(printers[0]); i++) {
		if (strcmp(args.operands[0], printers[i].word) != 0)
			continue;
		if (args.count > 1)
			return fm_usage(&args, "%s takes nothing more", printers[i].word);
		printers[i].print(stdout);
		return fm_stdout_end("config", FM_EXIT_DONE);
	}
	return fm_usage(&args, "%s: must be check, options or example", args.operands[0]);
}
