/* SPDX-License-Identifier: MIT */
/* wire_text - see wire_text.h. */
#include "staging/service/wire_text.h"

#include <string.h>

#include "mover/base/bytes.h"

void fm_stage_put_text(struct fm_writer *w, const char *text)
{
	size_t len = strlen(text);

	fm_put_le16(w, (uint16_t)len);
	fm_put_bytes(w, text, len);
}

void fm_stage_get_text(struct fm_reader *r, char *out, size_t cap)
{
	size_t len = fm_get_le16(r);
	const uint8_t *at = fm_get_span(r, len);

	out[0] = '\0';
	if (!at || len >= cap || memchr(at, '\0', len)) {
		r->failed = true;
		return;
	}
	memcpy(out, at, len);
	out[len] = '\0';
}
