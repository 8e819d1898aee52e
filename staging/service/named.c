/* SPDX-License-Identifier: MIT */
/* named - see named.h. */
#include "staging/service/named.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "staging/service/wire_text.h"

#define CODE_MAX 4095

_Static_assert(8 + FM_WIRE_NAME_MAX + FM_STAGE_NAMED_MAX * (3 + FM_STAGE_NAMED_LEN) <=
		       FM_WIRE_STAGE_MAX,
	       "the longest answer fits a message");

void fm_stage_named_add(void *named, enum fm_access_kind kind, uint32_t id, const char *name)
{
	struct fm_stage_named *n = named;

	(void)id;
	if (n->count == FM_STAGE_NAMED_MAX || strlen(name) > FM_STAGE_NAMED_LEN)
		return;
	n->at[n->count].kind = (uint8_t)kind;
	(void)snprintf(n->at[n->count].name, sizeof(n->at[0].name), "%s", name);
	n->count++;
}

static bool is_store(const char *store)
{
	return fm_wire_is_good_name(store, strlen(store));
}

static bool is_sound(const struct fm_stage_named *n)
{
	if (n->code > 0 || n->code < -CODE_MAX || !is_store(n->store) ||
	    n->count > FM_STAGE_NAMED_MAX || (n->code && n->count > 0))
		return false;
	for (unsigned i = 0; i < n->count; i++)
		if (n->at[i].kind >= FM_ACCESS_KINDS ||
		    (n->at[i].kind == FM_ACCESS_ALL) != (n->at[i].name[0] == '\0'))
			return false;
	return true;
}

size_t fm_stage_who_encode(const char *store, uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (!is_store(store))
		return 0;
	fm_stage_put_text(&w, store);
	return (size_t)(w.at - buf);
}

int fm_stage_who_decode(const uint8_t *buf, size_t len, char store[static FM_WIRE_NAME_MAX + 1])
{
	struct fm_reader r = { buf, buf + len, false };

	fm_stage_get_text(&r, store, FM_WIRE_NAME_MAX + 1);
	return r.failed || fm_reader_left(&r) > 0 || !is_store(store) ? -EBADMSG : 0;
}

size_t fm_stage_named_encode(const struct fm_stage_named *n, uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (!is_sound(n))
		return 0;
	fm_put_le32(&w, (uint32_t)-n->code);
	fm_stage_put_text(&w, n->store);
	fm_put_le16(&w, (uint16_t)n->count);
	for (unsigned i = 0; i < n->count; i++) {
		fm_put_u8(&w, n->at[i].kind);
		fm_stage_put_text(&w, n->at[i].name);
	}
	return w.failed ? 0 : (size_t)(w.at - buf);
}

int fm_stage_named_decode(const uint8_t *buf, size_t len, struct fm_stage_named *out)
{
	struct fm_reader r = { buf, buf + len, false };
	uint32_t code = fm_get_le32(&r);

	fm_stage_get_text(&r, out->store, sizeof(out->store));
	out->count = fm_get_le16(&r);
	if (code > CODE_MAX || out->count > FM_STAGE_NAMED_MAX)
		return -EBADMSG;
	out->code = -(int)code;
	for (unsigned i = 0; i < out->count; i++) {
		out->at[i].kind = fm_get_u8(&r);
		fm_stage_get_text(&r, out->at[i].name, sizeof(out->at[i].name));
	}
	return r.failed || fm_reader_left(&r) > 0 || !is_sound(out) ? -EBADMSG : 0;
}
