/* SPDX-License-Identifier: MIT */
/*
 * plain - what a text from outside becomes on its way to a terminal, a log or JSON: the one place
 * that knows which characters show as themselves and do nothing else.
 *
 * Not plain are bytes that are no UTF-8, controls (C0, DEL, C1: a terminal obeys them), line and
 * paragraph separators, and the marks that turn the direction of the text around them. Any thread.
 */
#ifndef FM_BASE_PLAIN_H
#define FM_BASE_PLAIN_H

#include <stddef.h>

#define FM_PLAIN_MAX 4 /* bytes that one step writes */

/* Bytes of the plain character at text, 0 if there is none; len, at least 1, is what there is. */
size_t fm_plain_len(const char *text, size_t len);

/* The plain character at *text, or else one byte as \xNN, into out. Moves *text; returns the bytes
 * written. */
size_t fm_plain_next(const char **text, const char *end, char out[static FM_PLAIN_MAX]);

/* All of it, cut to cap with its terminator; no half character. Returns out. */
char *fm_plain(const char *text, size_t len, char *out, size_t cap);

#endif
