/* SPDX-License-Identifier: MIT */
/* nvme - see nvme.h. */
#include "client/cli/nvme.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/show.h"
#include "config/value.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

#define TIME_MAX_NS (UINT64_C(24) * 3600 * FM_NS_PER_S)

int fm_nvme_ask(const char *verb, const struct fm_nvmed_request *request, uint64_t wait_ms,
		bool is_json, void (*show)(const struct fm_json *done, void *ctx), void *ctx)
{
	return fm_nvme_ask_and_judge(verb, request, wait_ms, is_json, show, ctx, NULL);
}

/* In force it is all the same. */
static void warn_of_restart(const struct fm_nvmed *nvmed)
{
	const char *why = fm_nvmed_not_remembered(nvmed);

	if (*why)
		fm_say("warning: %s", why);
}

int fm_nvme_ask_and_judge(const char *verb, const struct fm_nvmed_request *request,
			  uint64_t wait_ms, bool is_json,
			  void (*show)(const struct fm_json *done, void *ctx), void *ctx,
			  int (*judge)(const struct fm_json *done))
{
	int status = FM_EXIT_DONE;
	struct fm_nvmed *nvmed;
	struct fm_json *done;
	struct fm_err err;

	if (fm_nvmed_connect(fm_socket_path(), &nvmed, &err) < 0)
		return fm_fail(verb, &err);
	if (fm_nvmed_ask(nvmed, request, wait_ms, &done, &err) < 0) {
		status = fm_fail(verb, &err);
		warn_of_restart(nvmed);
		fm_nvmed_close(nvmed);
		return status;
	}
	if (is_json)
		/* fm_stdout_end() looks for errors */
		(void)printf("%s\n", fm_nvmed_answer(nvmed));
	else
		show(done, ctx);
	warn_of_restart(nvmed);
	if (judge)
		status = judge(done);
	fm_json_free(done);
	fm_nvmed_close(nvmed);
	return fm_stdout_end(verb, status);
}

int fm_nvme_take_time(const struct fm_args *args, const char *option, uint64_t *ms)
{
	uint64_t ns = 0;

	if (strcmp(args->value, "0") != 0 && (fm_value_time_typed(args->value, &ns) < 0 ||
					      ns > TIME_MAX_NS || (ns > 0 && ns < FM_NS_PER_MS))) {
		(void)fm_usage(args, "--%s %s: must be " FM_VALUE_TIME_FORM ", up to a day, or 0",
			       option, args->value);
		return -1;
	}
	*ms = ns / FM_NS_PER_MS;
	return 0;
}

void fm_nvme_put(const char *text)
{
	fm_nvme_put_column(text, 0);
}

void fm_nvme_put_column(const char *text, int width)
{
	char shown[8192];

	fm_show(text, strlen(text), shown, sizeof(shown));
	(void)printf("%-*s", width, shown);
}
