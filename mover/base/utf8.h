/* SPDX-License-Identifier: MIT */
/*
 * utf8 - which bytes are characters (RFC 3629: no surrogates, shortest forms only). JSON can carry
 * nothing else. Any thread.
 */
#ifndef FM_BASE_UTF8_H
#define FM_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the character at text, 0 if there is none; len, at least 1, is what there is. */
size_t fm_utf8_len(const char *text, size_t len);

bool fm_is_utf8(const char *text, size_t len);

/* Bytes that are none, half a character at the end of a text that was cut for instance, become
 * question marks. */
void fm_utf8_mend(char *text);

#endif
