/* SPDX-License-Identifier: MIT */
/*
 * nvme_helper - runs calls of nvmetcp/helper.h one after the other, as the supervisor does, and
 * prints a line for each: nvme_helper [--timeout SECONDS] [--linger] JSON...
 *
 * A call is what helper_calls.h says, with "key" (default "k") beside. The line is {"code", "text",
 * "answer", "stuck"}. With
 * --linger it stays until no helper is stuck and says so: {"stuck": 0}. Exit status: 0 if the last
 * call was a success.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/list.h"
#include "mover/base/loop.h"
#include "nvmetcp/helper.h"

struct call {
	struct fm_helper helper;
	struct fm_helpers *helpers;
	int code;
	bool is_done;
};

static void print_line(const struct call *c, int code, const char *text,
		       const struct fm_json *answer)
{
	struct fm_json *line =
		fm_json_pack("{s:i, s:s, s:O*, s:i}", "code", code, "text", text, "answer", answer,
			     "stuck", (int)fm_helpers_stuck(c->helpers));
	char *shown = fm_json_dump(line, FM_JSON_ONE_LINE);

	(void)printf("%s\n", shown ? shown : "(no memory)");
	free(shown);
	fm_json_free(line);
	fflush(stdout);
}

static void call_done(struct fm_helper *helper, int code, const char *text,
		      const struct fm_json *answer)
{
	struct call *c = fm_container_of(helper, struct call, helper);

	c->code = code;
	c->is_done = true;
	print_line(c, code, text, answer);
}

static int run_call(struct fm_loop *loop, struct fm_helpers *helpers, const char *text,
		    uint64_t timeout_ns)
{
	struct call c = { .helper = { .done = call_done }, .helpers = helpers };
	struct fm_json *request = fm_json_load(text),
		       *key = fm_json_share(fm_json_get(request, "key"));
	struct fm_err err = { 0 };

	(void)fm_json_delete(request, "key");
	c.code = fm_helper_start(helpers, &c.helper, key ? fm_json_as_text(key) : "k", request,
				 timeout_ns, &err);
	if (c.code < 0)
		print_line(&c, c.code, err.text, NULL);
	while (c.code == 0 && !c.is_done)
		(void)fm_loop_step(loop, FM_NS_PER_S);
	fm_json_free(key);
	fm_json_free(request);
	return c.code;
}

static void linger(struct fm_loop *loop, struct fm_helpers *helpers)
{
	while (fm_helpers_stuck(helpers) > 0)
		(void)fm_loop_step(loop, FM_NS_PER_S);
	printf("{\"stuck\":0}\n");
}

int main(int argc, char **argv)
{
	struct fm_helpers *helpers = NULL;
	struct fm_loop *loop = NULL;
	uint64_t timeout_ns = 20 * FM_NS_PER_S;
	bool lingers = false;
	struct fm_err err;
	int code = 0;

	if (fm_loop_new(&(struct fm_loop_opts){0}, &loop, &err) < 0 ||
	    fm_helpers_new(&(struct fm_helpers_opts){.loop = loop, .run = fm_helper_main}, &helpers,
			   &err) < 0) {
		fprintf(stderr, "nvme_helper: %s\n", err.text);
		return EXIT_FAILURE;
	}
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--timeout") == 0 && i + 1 < argc)
			timeout_ns = strtoull(argv[++i], NULL, 10) * FM_NS_PER_S;
		else if (strcmp(argv[i], "--linger") == 0)
			lingers = true;
		else
			code = run_call(loop, helpers, argv[i], timeout_ns);
	}
	if (lingers)
		linger(loop, helpers);
	fm_helpers_free(helpers);
	fm_loop_free(loop);
	return code == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
