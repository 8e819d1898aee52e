/* SPDX-License-Identifier: MIT */
/* byid - see byid.h. */
#include "client/byid.h"

#include <stdio.h>

#include "mover/api_json.h"

#define JSON_MAX 8192	/* an id (as typed, cut) and a text, each byte escaped as six */
#define ID_SHOWN_MAX 64

static void print_json(const char *job, const struct fmove_error *why, bool is_first)
{
	char buf[JSON_MAX], id[ID_SHOWN_MAX];
	struct fm_json_writer w;

	(void)snprintf(id, sizeof(id), "%.*s", ID_SHOWN_MAX - 1, job);
	fm_jw_begin(&w, buf, sizeof(buf));
	fm_jw_object(&w, NULL);
	fm_jw_text(&w, "job", id);
	fm_jw_u64(&w, "exit", why ? (uint64_t)fm_api_exit(why->code) : 0);
	if (why) {
		fm_jw_object(&w, "error");
		fm_jw_text(&w, "code", fm_api_errno_name(why->code));
		fm_jw_text(&w, "text", why->text);
		fm_jw_object_end(&w);
	}
	fm_jw_object_end(&w);
	if (fm_jw_end(&w) > 0)
		/* fm_stdout_end() looks for errors */
		(void)printf("%s%s", is_first ? "" : ",\n", buf);
}

int fm_byid_each(const struct fm_args *args, bool is_json,
		 int (*do_one)(struct fmove *c, const char *job, void *ctx, struct fmove_error *why), void *ctx)
{
	int failed = 0, status = FM_EXIT_DONE;
	struct fmove_error why;
	struct fmove *c;

	if (fm_ask_open(args->cmd->name, &c, &status) < 0)
		return status;
	if (is_json)
		(void)printf("{\"jobs\":[");
	for (int i = 0; i < args->count; i++) {
		int ret = do_one(c, args->operands[i], ctx, &why);

		if (ret < 0) {
			failed++;
			status = fm_ask_fail(args->cmd->name, args->operands[i], &why);
		}
		if (is_json)
			print_json(args->operands[i], ret < 0 ? &why : NULL, i == 0);
	}
	fmove_close(c);
	if (failed > 0 && failed < args->count)
		status = FM_EXIT_PARTLY;
	if (is_json)
		(void)printf("],\"exit\":%d}\n", status);
	return fm_stdout_end(args->cmd->name, status);
}
