/* SPDX-License-Identifier: MIT */
/* The side of the helper process: one request, one call, one answer. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/utf8.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/helper_calls.h"

static const struct call {
	const char *name;
	int (*run)(struct fm_json *request, struct fm_json *answer, struct fm_err *err);
} calls[] = {
	{"connect", fm_helper_connect},
	{"discover", fm_helper_discover},
	{"disconnect", fm_helper_disconnect},
	{"probe", fm_helper_probe},
	{"prepare", fm_helper_prepare},
	{"xfs_state", fm_helper_xfs_state},
	{"mount", fm_helper_mount},
	{"unmount", fm_helper_unmount},
	{"restore", fm_helper_restore},
	{"resolve", fm_helper_resolve},
	{"keep", fm_helper_keep},
	{"unused", fm_helper_unused},
};

int fm_helper_unpack(const struct fm_json *request, struct fm_err *err, const char *format, ...)
{
	va_list ap;
	int ret;

	va_start(ap, format);
	ret = fm_json_vunpack_strict(request, err, format, ap);
	va_end(ap);
	if (ret < 0)
		fm_err_wrap(err, "the request to the helper process is wrong");
	return ret;
}

struct fm_json *fm_helper_rdev(dev_t dev)
{
	return fm_json_pack("[i, i]", (int)major(dev), (int)minor(dev));
}

int fm_helper_put(struct fm_json *answer, const char *key, struct fm_json *value,
		  struct fm_err *err)
{
	if (!value || fm_json_set(answer, key, value) < 0)
		return fm_err_set(err, -ENOMEM, "no memory for the answer");
	return 0;
}

static int run_call(struct fm_json *request, struct fm_json *answer, struct fm_err *err)
{
	const char *name = fm_json_as_text(fm_json_get(request, "call"));

	for (size_t i = 0; name && i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(calls[i].name, name) != 0)
			continue;
		/* Each call reads its keys strictly. */
		(void)fm_json_delete(request, "call");
		return calls[i].run(request, answer, err);
	}
	return fm_err_set(err, -EINVAL, "the helper process knows no call \"%.64s\"",
			  name ? name : "");
}

static int write_answer(const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		ssize_t wrote = write(STDOUT_FILENO, text, left);

		if (wrote < 0 && errno != EINTR)
			return -errno;
		text += wrote > 0 ? wrote : 0;
		left -= wrote > 0 ? (size_t)wrote : 0;
	}
	return 0;
}

static int answer_with(int code, const char *text, const struct fm_json *answer)
{
	struct fm_json *whole =
		fm_json_pack("{s:i, s:s, s:O}", "code", code, "text", text, "answer", answer);
	char *line = whole ? fm_json_dump(whole, FM_JSON_ONE_LINE) : NULL;
	int ret = line ? write_answer(line) : -ENOMEM;

	free(line);
	fm_json_free(whole);
	return ret;
}

int fm_helper_main(struct fm_json *request)
{
	struct fm_err err = { 0 };
	struct fm_json *answer = fm_json_object();
	sigset_t all;
	int code;

	/* A signal would break off the connect in the kernel. SIGKILL comes through, from the
	 * supervisor or with its death. */
	sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, NULL);
	(void)setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });	/* it may hold secrets */
	if (!answer)
		return EXIT_FAILURE;
	code = run_call(request, answer, &err);
	fm_utf8_mend(err.text);		/* JSON takes nothing else; it may quote a target */
	code = answer_with(code, code < 0 && !err.text[0] ? fm_err_name(code) : err.text, answer);
	fm_json_free(answer);
	return code < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
