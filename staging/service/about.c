/* SPDX-License-Identifier: MIT */
/* about - see about.h. */
#include "staging/service/about.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/base/hub_name.h"
#include "staging/cache.h"
#include "staging/key.h"
#include "staging/service/hub.h"
#include "staging/service/wire_text.h"
#include "staging/sha256.h"

#define CODE_MAX 4095
#define FLAG_IN	  1u
#define FLAG_HUB  2u
#define FLAG_FILE 4u

/* ---- ABOUT ---- */

static bool is_name(const char *name)
{
	return fm_wire_is_good_name(name, strlen(name));
}

static bool is_dataset_name(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len <= FM_CACHE_NAME_MAX && name[0] != '.' && !strchr(name, '/');
}

/* Whether the path is of one commit of a repository. A branch is another one tomorrow. */
static bool is_commit(const struct fm_stage_about *a)
{
	struct fm_hub_name name;

	return fm_hub_path_parse(a->path, &name) == 0 && fm_hub_is_commit(name.revision);
}

static bool is_sound(const struct fm_stage_about *a)
{
	if (a->extents == 0 || a->extents > FM_RUN_EXTENTS_MAX || a->bytes > FM_STAGE_BYTES_MAX ||
	    a->entries > FM_STAGE_ENTRIES_MAX || a->count == 0 || a->source >= a->count ||
	    !fm_wire_is_good_job(a->job) || !is_name(a->store) || !is_dataset_name(a->name) ||
	    (a->shared[0] && !is_name(a->shared)) ||
	    !fm_wire_is_good_path(a->path, strlen(a->path)) ||
	    (a->is_hub && (a->shared[0] || !is_commit(a))) ||
	    (a->is_file && (a->is_hub || a->entries != 1)))
		return false;
	for (unsigned i = 0; i < a->count; i++)
		if (!is_name(a->node[i]) || (i > 0 && strcmp(a->node[i - 1], a->node[i]) >= 0))
			return false;
	return true;
}

size_t fm_stage_about_encode(const struct fm_stage_about *a, uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (a->count > FM_RUN_NODES_MAX || !is_sound(a))
		return 0;
	fm_put_bytes(&w, a->listing, sizeof(a->listing));
	fm_put_le64(&w, a->entries);
	fm_put_le64(&w, a->bytes);
	fm_put_le32(&w, a->extents);
	fm_put_le32(&w, a->uid);
	fm_put_le32(&w, a->gid);
	fm_put_le64(&w, a->wanted);
	fm_put_le64(&w, a->may_read);
	fm_put_u8(&w, (a->is_in ? FLAG_IN : 0) | (a->is_hub ? FLAG_HUB : 0) |
			      (a->is_file ? FLAG_FILE : 0));
	fm_put_u8(&w, (uint8_t)a->source);
	fm_put_le16(&w, (uint16_t)a->count);
	fm_put_bytes(&w, a->job, FM_WIRE_JOB_LEN);
	fm_stage_put_text(&w, a->store);
	fm_stage_put_text(&w, a->path);
	fm_stage_put_text(&w, a->name);
	fm_stage_put_text(&w, a->shared);
	for (unsigned i = 0; i < a->count; i++)
		fm_stage_put_text(&w, a->node[i]);
	return w.failed ? 0 : (size_t)(w.at - buf);
}

int fm_stage_about_decode(const uint8_t *buf, size_t len, struct fm_stage_about *out)
{
	struct fm_reader r = { buf, buf + len, false };
	uint8_t flags;

	memset(out, 0, sizeof(*out));
	fm_get_bytes(&r, out->listing, sizeof(out->listing));
	out->entries = fm_get_le64(&r);
	out->bytes = fm_get_le64(&r);
	out->extents = fm_get_le32(&r);
	out->uid = fm_get_le32(&r);
	out->gid = fm_get_le32(&r);
	out->wanted = fm_get_le64(&r);
	out->may_read = fm_get_le64(&r);
	flags = fm_get_u8(&r);
	out->is_in = flags & FLAG_IN;
	out->is_hub = flags & FLAG_HUB;
	out->is_file = flags & FLAG_FILE;
	out->source = fm_get_u8(&r);
	out->count = fm_get_le16(&r);
	fm_get_bytes(&r, out->job, FM_WIRE_JOB_LEN);
	fm_stage_get_text(&r, out->store, sizeof(out->store));
	fm_stage_get_text(&r, out->path, sizeof(out->path));
	fm_stage_get_text(&r, out->name, sizeof(out->name));
	fm_stage_get_text(&r, out->shared, sizeof(out->shared));
	if (out->count > FM_RUN_NODES_MAX || flags > (FLAG_IN | FLAG_HUB | FLAG_FILE))
		return -EBADMSG;
	for (unsigned i = 0; i < out->count; i++)
		fm_stage_get_text(&r, out->node[i], sizeof(out->node[i]));
	return r.failed || fm_reader_left(&r) > 0 || !is_sound(out) ? -EBADMSG : 0;
}

void fm_stage_about_source(const struct fm_stage_about *a,
			   char out[static FM_CACHE_SOURCE_MAX + 1])
{
	if (a->is_hub)
		fm_hub_source(a->node[a->source], a->store, a->path, out, FM_CACHE_SOURCE_MAX + 1);
	else
		fm_stage_source(a->shared, a->node[a->source], a->store, a->path, out,
				FM_CACHE_SOURCE_MAX + 1);
}

int fm_stage_about_key(const struct fm_stage_about *a, struct fm_cache_key *key,
		       uint8_t run[FM_WIRE_STAGE_RUN_LEN])
{
	char source[FM_CACHE_SOURCE_MAX + 1];
	uint8_t totals[20];
	struct fm_writer w = { totals, totals + sizeof(totals), false };
	struct fm_sha256 *s;
	int ret;

	fm_stage_about_source(a, source);
	ret = fm_stage_key(source, a->listing, a->is_file, key);
	s = ret < 0 ? NULL : fm_sha256_new();
	if (!s)
		return -ENOMEM;
	fm_put_le64(&w, a->entries);
	fm_put_le64(&w, a->bytes);
	fm_put_le32(&w, a->extents);
	fm_sha256_add(s, key->bytes, sizeof(key->bytes));
	fm_sha256_add(s, totals, sizeof(totals));
	for (unsigned i = 0; i < a->count; i++)
		fm_sha256_add(s, a->node[i], strlen(a->node[i]) + 1);
	fm_sha256_end(s, run);
	fm_sha256_free(s);
	return 0;
}

/* ---- IS ---- */

size_t fm_stage_is_encode(const struct fm_stage_is *is, uint8_t buf[static FM_WIRE_STAGE_MAX])
{
	struct fm_writer w = { buf, buf + FM_WIRE_STAGE_MAX, false };

	if (is->place >= FM_RUN_PLACES || is->code > 0 || is->code < -CODE_MAX)
		return 0;
	fm_put_u8(&w, is->place);
	fm_put_le32(&w, (uint32_t)-is->code);
	fm_put_le64(&w, is->done);
	fm_put_le64(&w, is->read);
	fm_put_u8(&w, is->is_over);
	fm_stage_put_text(&w, is->path);
	fm_stage_put_text(&w, is->text);
	return w.failed ? 0 : (size_t)(w.at - buf);
}

int fm_stage_is_decode(const uint8_t *buf, size_t len, struct fm_stage_is *out)
{
	struct fm_reader r = { buf, buf + len, false };
	uint32_t code;
	uint8_t is_over;

	memset(out, 0, sizeof(*out));
	out->place = fm_get_u8(&r);
	code = fm_get_le32(&r);
	out->done = fm_get_le64(&r);
	out->read = fm_get_le64(&r);
	is_over = fm_get_u8(&r);
	out->is_over = is_over == 1;
	fm_stage_get_text(&r, out->path, sizeof(out->path));
	fm_stage_get_text(&r, out->text, sizeof(out->text));
	if (r.failed || fm_reader_left(&r) > 0 || out->place >= FM_RUN_PLACES || code > CODE_MAX ||
	    is_over > 1)
		return -EBADMSG;
	out->code = -(int)code;
	return 0;
}
