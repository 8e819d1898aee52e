/* SPDX-License-Identifier: MIT */
/*
 * say - what fmove says to people: one line each on standard error, nothing in it that could move a
 * terminal's cursor. See cmd.h.
 */
#include "client/cmd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/show.h"
#include "mover/base/err.h"

#define LINE_MAX_BYTES 8192

void fm_say(const char *fmt, ...)
{
	char text[LINE_MAX_BYTES / 4], line[LINE_MAX_BYTES];
	va_list list;

	va_start(list, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, list);	/* cut if it is too long */
	va_end(list);
	fm_show(text, strlen(text), line, sizeof(line));
	/* if even that fails there is nobody to tell */
	(void)fprintf(stderr, "fmove: %s\n", line);
}

int fm_fail(const char *verb, const struct fm_err *err)
{
	fm_say("%s: %s", verb, err->text);
	return (int)fm_api_exit(err->code);
}

int fm_stdout_end(const char *verb, int status)
{
	struct fm_err err;

	if (!ferror(stdout) && fflush(stdout) == 0)
		return status;
	/* Who reads no further, as `| head` does, knows it: no line for that. */
	if (errno == EPIPE)
		return status != FM_EXIT_DONE ? status : FM_EXIT_FAILED;
	(void)fm_err_sys(&err, errno ? -errno : -EIO, "standard output");
	(void)fm_fail(verb, &err);
	return status != FM_EXIT_DONE ? status : FM_EXIT_FAILED;
}

static const char *socket_path;

const char *fm_socket_path(void)
{
	return socket_path;
}

void fm_socket_set(const char *path)
{
	socket_path = path;
}
