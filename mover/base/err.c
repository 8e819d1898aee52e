/* SPDX-License-Identifier: MIT */
/*
 * err - one error with its story.
 */
#include "mover/base/err.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/call.h"
#include "mover/base/plain.h"

/* A text that grows at its end and is cut with "..." where it would not fit. */
struct text {
	char buf[FM_ERR_TEXT_MAX];
	size_t len;
	bool is_cut;
};

/* End in "...", without leaving half of a UTF-8 character before it: the text may travel in
 * JSON. */
static void text_cut(struct text *t)
{
	size_t len = sizeof(t->buf) - sizeof("...");

	while (len > 0 && ((unsigned char)t->buf[len] & 0xc0) == 0x80)
		len--;
	memcpy(t->buf + len, "...", sizeof("..."));
	t->len = len + 3;
	t->is_cut = true;
}

__attribute__((format(printf, 2, 0))) static void text_vadd(struct text *t, const char *fmt,
							    va_list args)
{
	size_t room = sizeof(t->buf) - t->len;
	int n;

	if (t->is_cut)
		return;
	n = vsnprintf(t->buf + t->len, room, fmt, args);
	/* a wide character that the locale cannot show; what is there so far must do */
	if (n < 0)
		t->buf[t->len] = '\0';
	else if ((size_t)n >= room)
		text_cut(t);
	else
		t->len += (size_t)n;
}

__attribute__((format(printf, 2, 3))) static void text_add(struct text *t, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	text_vadd(t, fmt, args);
	va_end(args);
}

/*
 * The text is made elsewhere and copied last, since the arguments may point into err->text. Peers
 * and targets have said parts of it: what is stored is plain.
 */
static void err_put(struct fm_err *err, int code, const struct text *t)
{
	err->code = code;
	err->is_full = err->is_rule = false;
	(void)fm_plain(t->buf, strlen(t->buf), err->text, sizeof(err->text));
}

int fm_err_set(struct fm_err *err, int code, const char *fmt, ...)
{
	struct text t = { .len = 0 };
	va_list args;

	assert(code < 0);
	if (!err)
		return code;
	va_start(args, fmt);
	text_vadd(&t, fmt, args);
	va_end(args);
	err_put(err, code, &t);
	return code;
}

int fm_err_full(struct fm_err *err, const char *fmt, ...)
{
	struct text t = { .len = 0 };
	va_list args;

	if (!err)
		return -EBUSY;
	va_start(args, fmt);
	text_vadd(&t, fmt, args);
	va_end(args);
	err_put(err, -EBUSY, &t);
	err->is_full = true;
	return -EBUSY;
}

int fm_err_rule(struct fm_err *err, const char *fmt, ...)
{
	struct text t = { .len = 0 };
	va_list args;

	if (!err)
		return -EACCES;
	va_start(args, fmt);
	text_vadd(&t, fmt, args);
	va_end(args);
	err_put(err, -EACCES, &t);
	err->is_rule = true;
	return -EACCES;
}

int fm_err_told(const struct fm_err *err)
{
	return err->code == -EACCES && !err->is_rule ? -EPERM : err->code;
}

int fm_err_not_begun(struct fm_err *err)
{
	if (err->code == -EMFILE)
		return fm_err_full(
			err, "%s; fewer at a time, or more descriptors for fmoved (LimitNOFILE=)",
			err->text);
	if (err->code == -ENFILE)
		return fm_err_full(err, "%s; the whole machine has no more (fs.file-max)",
				   err->text);
	return err->code;
}

/* What was done, and why it failed. */
__attribute__((format(printf, 4, 0)))
static void err_vsys(struct fm_err *err, int code, const char *why, const char *fmt, va_list args)
{
	struct text t = { .len = 0 };

	assert(code < 0);
	if (!err)
		return;
	text_vadd(&t, fmt, args);
	text_add(&t, ": %s", why);
	err_put(err, code, &t);
}

int fm_err_sys(struct fm_err *err, int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	err_vsys(err, code, fm_err_name(code), fmt, args);
	va_end(args);
	return code;
}

int fm_err_making(struct fm_err *err, int code, int dir, const char *fmt, ...)
{
	bool is_inodes = code == -ENOSPC && fm_call_lacks_inodes(dir);
	va_list args;

	va_start(args, fmt);
	err_vsys(err, code,
		 is_inodes ? "no inodes left on its file system, though it has room; remove files "
			     "there (df -i shows how many it takes)"
			   : fm_err_name(code),
		 fmt, args);
	va_end(args);
	return code;
}

int fm_err_wrap(struct fm_err *err, const char *fmt, ...)
{
	struct text t = { .len = 0 };
	bool is_full, is_rule;
	va_list args;

	if (!err)
		return 0;
	is_full = err->is_full;
	is_rule = err->is_rule;
	va_start(args, fmt);
	text_vadd(&t, fmt, args);
	va_end(args);
	text_add(&t, ": %s", err->text);
	err_put(err, err->code, &t);
	err->is_full = is_full;
	err->is_rule = is_rule;
	return err->code;
}

void fm_err_clear(struct fm_err *err)
{
	if (!err)
		return;
	err->code = 0;
	err->is_full = err->is_rule = false;
	err->text[0] = '\0';
}

const char *fm_err_name(int code)
{
	const char *text = NULL;

	if (code != INT_MIN)
		text = strerrordesc_np(code < 0 ? -code : code);
	return text ? text : "unknown error";
}
