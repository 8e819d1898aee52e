/* SPDX-License-Identifier: MIT */
/* wire_text - a string in the body of STAGE: a 16-bit length and that many bytes, none NUL. */
#ifndef FM_STAGE_WIRE_TEXT_H
#define FM_STAGE_WIRE_TEXT_H

#include <stddef.h>

struct fm_reader;
struct fm_writer;

void fm_stage_put_text(struct fm_writer *w, const char *text);

/* Of less than cap bytes, else the reader has failed. */
void fm_stage_get_text(struct fm_reader *r, char *out, size_t cap);

#endif
