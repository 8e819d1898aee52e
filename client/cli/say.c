/* SPDX-License-Identifier: MIT */
/*
 * say - what fmove says to people: one line each on standard error, nothing in it that could move a
 * terminal's cursor. See cmd.h.
 */
#include "client/cli/cmd.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/next_step.h"
#include "client/cli/show.h"
#include "client/lib/fmove.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/plain.h"

#define LINE_MAX_BYTES 8192

/* For fm_stdout_error(): the last error, and until there is one the last line. */
static char said[LINE_MAX_BYTES / 4];
static int said_code;			/* 0: it was no error's */

typedef const char *step_of(int code, const char *text);

static void say(int code, step_of *step, const char *fmt, va_list list)
	__attribute__((format(printf, 3, 0)));

static void say(int code, step_of *step, const char *fmt, va_list list)
{
	char text[sizeof(said)], line[LINE_MAX_BYTES];
	size_t len;

	(void)vsnprintf(text, sizeof(text), fmt, list);	/* cut if it is too long */
	len = strlen(text);
	if (code < 0)
		(void)snprintf(text + len, sizeof(text) - len, "%s", step(code, text));
	if (code != 0 || said_code == 0) {
		memcpy(said, text, sizeof(said));
		said_code = code;
	}
	fm_show(text, strlen(text), line, sizeof(line));
	/* if even that fails there is nobody to tell */
	(void)fprintf(stderr, "fmove: %s\n", line);
}

void fm_say(const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	say(0, NULL, fmt, list);
	va_end(list);
}

int fm_fail_text(int code, const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	say(code, fm_next_step, fmt, list);
	va_end(list);
	return (int)fm_api_exit(code);
}

int fm_fail_told(int code, const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	say(code, fm_next_step_told, fmt, list);
	va_end(list);
	return (int)fm_api_exit(code);
}

int fm_found_wrong(struct fmove_error *why, int code, const char *text)
{
	*why = (struct fmove_error){.code = code, .exit = (int)fm_api_exit(code)};
	(void)snprintf(why->text, sizeof(why->text), "%s", text);
	return code;
}

int fm_fail(const char *verb, const struct fm_err *err)
{
	return fm_fail_text(err->code, "%s: %s", verb, err->text);
}

/* ---- standard output ---- */

static bool is_stdout_raw;
static volatile sig_atomic_t has_output;
static char half[4];		/* of a character whose rest comes with the next write */
static size_t half_len;

static bool write_all(const char *at, size_t len)
{
	while (len > 0) {
		ssize_t n = write(STDOUT_FILENO, at, len);

		if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

/* Lines and columns are ours; all else that is not plain came from somebody. */
static bool write_plain(const char *at, const char *end)
{
	char out[1024];
	size_t n = 0;

	while (at < end) {
		if (*at == '\n' || *at == '\t')
			out[n++] = *at++;
		else
			n += fm_plain_next(&at, end, out + n);
		if (n + FM_PLAIN_MAX > sizeof(out)) {
			if (!write_all(out, n))
				return false;
			n = 0;
		}
	}
	return write_all(out, n);
}

/* Bytes at the end that may be the beginning of a character. */
static size_t half_at_end(const char *text, size_t len)
{
	for (size_t n = 1; n < sizeof(half) && n <= len; n++) {
		uint8_t byte = (uint8_t)text[len - n];

		if (byte >= 0xc0)
			return byte >= (n == 1 ? 0xc0 : n == 2 ? 0xe0 : 0xf0) ? n : 0;
		if (byte < 0x80)
			return 0;
	}
	return 0;
}

static ssize_t stdout_write(void *cookie, const char *text, size_t len)
{
	char first[2 * sizeof(half)];
	size_t took = 0, rest;

	(void)cookie;
	has_output = true;
	if (is_stdout_raw)
		return write_all(text, len) ? (ssize_t)len : 0;
	if (half_len > 0) {
		memcpy(first, half, half_len);
		while (took < len && half_len + took < sizeof(half) &&
		       ((uint8_t)text[took] & 0xc0) == 0x80)
			took++;
		memcpy(first + half_len, text, took);
		if (!write_plain(first, first + half_len + took))
			return 0;
	}
	rest = half_at_end(text + took, len - took);
	half_len = rest;
	memcpy(half, text + len - rest, rest);
	return write_plain(text + took, text + len - rest) ? (ssize_t)len : 0;
}

void fm_stdout_begin(void)
{
	static char room[64u << 10];
	FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = stdout_write });

	if (!f)
		return;
	(void)setvbuf(f, room, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, sizeof(room));
	stdout = f;
}

void fm_stdout_raw(void)
{
	is_stdout_raw = true;
}

int fm_stdout_end(const char *verb, int status)
{
	struct fm_err err;

	if (!ferror(stdout) && fflush(stdout) == 0 && write_plain(half, half + half_len))
		return status;
	/* Who reads no further, as `| head` does, knows it: no line for that. */
	if (errno == EPIPE)
		return status != FM_EXIT_DONE ? status : FM_EXIT_FAILED;
	(void)fm_err_sys(&err, errno ? -errno : -EIO, "standard output");
	(void)fm_fail(verb, &err);
	return status != FM_EXIT_DONE ? status : FM_EXIT_FAILED;
}

static char cancelled[128];		/* what a signal prints, made beforehand */
static size_t cancelled_len;

void fm_end_cancelled(void)
{
	if (!has_output && cancelled_len > 0)
		(void)!write(STDOUT_FILENO, cancelled, cancelled_len);
	_exit(FM_EXIT_CANCELLED);
}

static void on_signal(int number)
{
	(void)number;
	fm_end_cancelled();
}

static void cancelled_make(void)
{
	struct fm_json_writer w;
	int len;

	fm_jw_begin(&w, cancelled, sizeof(cancelled) - 1);
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, "exit", FM_EXIT_CANCELLED);
	fm_jw_object(&w, "error");
	fm_jw_text(&w, "code", fm_api_errno_name(ECANCELED));
	fm_jw_text(&w, "text", "cancelled");
	fm_jw_object_end(&w);
	fm_jw_object_end(&w);
	len = fm_jw_end(&w);
	assert(len > 0);
	cancelled[len] = '\n';
	cancelled_len = (size_t)len + 1;
}

void fm_stdout_json(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = on_signal };
	struct sigaction before;

	cancelled_make();
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			/* these signals can be caught */
			(void)sigaction(signals[i], &action, NULL);
}

static const char *code_of(int status)
{
	if (said_code != 0)
		return fm_api_errno_name(said_code);
	return status == FM_EXIT_USAGE ? "EINVAL" : "EIO";
}

static void error_json(struct fm_json_writer *w, const char *code)
{
	char line[LINE_MAX_BYTES];

	fm_show(said, strlen(said), line, sizeof(line));
	fm_jw_object(w, "error");
	fm_jw_text(w, "code", code);
	fm_jw_text(w, "text", line);
	fm_jw_object_end(w);
}

void fm_said_json(struct fm_json_writer *w)
{
	if (said_code != 0)
		error_json(w, fm_api_errno_name(said_code));
}

int fm_stdout_error(int status)
{
	struct fm_json_writer w;

	(void)fflush(stdout);	/* what is left of it was the verb's */
	if (status == FM_EXIT_DONE || has_output)
		return status;
	fm_jw_stream(&w, stdout);
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, "exit", (uint64_t)status);
	error_json(&w, code_of(status));
	fm_jw_object_end(&w);
	(void)printf("\n");
	return fm_stdout_end("json", status);
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
