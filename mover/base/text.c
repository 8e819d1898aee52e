/* SPDX-License-Identifier: MIT */
/* text - see text.h. */
#include "mover/base/text.h"

#include <stdarg.h>
#include <stdio.h>

void fm_text_add(struct fm_text *t, const char *fmt, ...)
{
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(t->at, t->left, fmt, args);
	va_end(args);
	t->is_full |= len < 0 || (size_t)len >= t->left;
	len = t->is_full ? (int)t->left - 1 : len;
	t->at += len;
	t->left -= (size_t)len;
}
