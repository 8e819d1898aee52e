/* SPDX-License-Identifier: MIT */
/*
 * err - one error with its story: a code for programs, one line for people.
 *
 * The lowest layer sets it, each layer that knows more wraps it with a prefix, and exactly one
 * place prints or sends it: "put a.dat: connect to node7: resolve address: timed out". Any thread;
 * a struct fm_err belongs to its caller.
 */
#ifndef FM_BASE_ERR_H
#define FM_BASE_ERR_H

#ifdef NDEBUG
#error "assertions stay on in release builds, too: they tell our own mistakes from what others send"
#endif

#include <stdbool.h>

#define FM_ERR_TEXT_MAX 512

struct fm_err {
	int code;			/* 0 or a negative errno */
	/* no place is free now, or too many are this one's: nothing was begun, and the same may be
	 * granted later */
	bool is_full;
	/* -EACCES: the rules of a store do not let whoever asked. It takes away what he had of it
	 * elsewhere, too. What refused for any other reason knows nothing of him. */
	bool is_rule;
	/* always terminated, and plain (plain.h); cut with "..." when too long */
	char text[FM_ERR_TEXT_MAX];
};

/* Set code (a negative errno) and text. Returns code, so that `return fm_err_set(...)` reads well.
 * err may be NULL. */
int fm_err_set(struct fm_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* As fm_err_set(), of -EBUSY, with is_full. */
int fm_err_full(struct fm_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As fm_err_set(), of -EACCES, with is_rule: for who asked the rules of a store, and nobody
 * else. */
int fm_err_rule(struct fm_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * The code by which another node is told of it: -EACCES is that of a rule alone, so that of
 * anything else becomes -EPERM.
 */
int fm_err_told(const struct fm_err *err);

/*
 * Of what was not begun: that no descriptor is left passes as others give theirs back, so it is one
 * more place that is not free: -EBUSY, with is_full, and what to do about it. All else stays as it
 * is. Returns err's code.
 */
int fm_err_not_begun(struct fm_err *err);

/*
 * As fm_err_sys(), of what could not be made or written in the file system of dir: whether it is
 * full, or has no inodes, which is one errno.
 */
int fm_err_making(struct fm_err *err, int code, int dir, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* As fm_err_set(), with ": " and the text of the errno appended. */
int fm_err_sys(struct fm_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Put a prefix and ": " before the text that is there. Returns err's code. err may be NULL (returns
 * 0). */
int fm_err_wrap(struct fm_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

void fm_err_clear(struct fm_err *err);

/* The text of an errno, positive or negative, without the state of strerror(). Never NULL. */
const char *fm_err_name(int code);

#endif
