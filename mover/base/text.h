/* SPDX-License-Identifier: MIT */
/* text - a text that is put together piece by piece, in a room of fixed size. Any thread. */
#ifndef FM_BASE_TEXT_H
#define FM_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Begins as { .at = room, .left = its size, at least 1 }. */
struct fm_text {
	char *at;		/* its end, where the next piece goes */
	size_t left;		/* the terminator's byte included */
	bool is_full;		/* a piece was cut, and nothing is added any more */
};

__attribute__((format(printf, 2, 3)))
void fm_text_add(struct fm_text *text, const char *fmt, ...);

#endif
