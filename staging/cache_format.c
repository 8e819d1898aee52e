/* SPDX-License-Identifier: MIT */
/* cache_format - see cache_format.h. */
#include "staging/cache_format.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/base/component.h"
#include "mover/base/crc32c.h"
#include "mover/base/fault.h"
#include "mover/base/plain.h"

#define MAGIC	  "FMOVECCH"
#define MAGIC_LEN 8u
#define KIND_AT	  10u
#define LENGTH_AT 12u

/* ---- the frame ---- */

static struct fm_writer begin(enum fm_cache_kind kind, uint8_t *out, size_t len)
{
	struct fm_writer w = {.at = out, .end = out + len};

	fm_put_bytes(&w, MAGIC, MAGIC_LEN);
	fm_put_le16(&w, FM_CACHE_VERSION);
	fm_put_u8(&w, (uint8_t)kind);
	fm_put_u8(&w, 0);
	fm_put_le32(&w, 0); /* the length, when it is known */
	return w;
}

static size_t end(struct fm_writer *w, uint8_t *out)
{
	size_t len = (size_t)(w->at - out) + FM_CACHE_CRC_LEN;
	struct fm_writer length = {.at = out + LENGTH_AT, .end = out + FM_CACHE_FRAME_LEN};

	fm_put_le32(&length, (uint32_t)len);
	fm_put_le32(w, fm_crc32c(0, out, len - FM_CACHE_CRC_LEN));
	assert(!w->failed);
	return len;
}

/*
 * Checks frame and CRC, and returns a reader of what is between them. `failed` is set if it is no
 * such file.
 */
static struct fm_reader open_frame(enum fm_cache_kind kind, const uint8_t *in, size_t len)
{
	struct fm_reader r = {.at = in, .end = in + len};
	size_t body = len - FM_CACHE_CRC_LEN;
	const uint8_t *magic;
	struct fm_reader crc;

	if (len < FM_CACHE_HEAD_LEN || len > FM_CACHE_FILE_MAX)
		return (struct fm_reader){.failed = true};
	magic = fm_get_span(&r, MAGIC_LEN);
	r.failed |= memcmp(magic, MAGIC, MAGIC_LEN) != 0;
	r.failed |= fm_get_le16(&r) != FM_CACHE_VERSION;
	r.failed |= fm_get_u8(&r) != (uint8_t)kind;
	r.failed |= fm_get_u8(&r) != 0;
	r.failed |= fm_get_le32(&r) != len;
	crc = (struct fm_reader){.at = in + body, .end = in + len};
	r.failed |= fm_get_le32(&crc) != fm_crc32c(0, in, body);
	r.end = in + body;
	return r;
}

/* Whether everything was read and no byte is left. */
static bool is_whole(const struct fm_reader *r)
{
	return !r->failed && fm_reader_left(r) == 0;
}

/* ---- values ---- */

static bool is_plain(const char *text, size_t len)
{
	size_t took = 1;

	for (; len > 0 && took > 0; text += took, len -= took)
		took = fm_plain_len(text, len);
	return len == 0;
}

bool fm_cache_is_name(const char *name)
{
	size_t len = strnlen(name, FM_CACHE_NAME_MAX + 1);

	return len <= FM_CACHE_NAME_MAX && fm_is_component(name) && name[0] != '.' &&
	       is_plain(name, len);
}

void fm_cache_key_print(const struct fm_cache_key *key, char out[static FM_CACHE_HEX_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < sizeof(key->bytes); i++) {
		out[2 * i] = digits[key->bytes[i] >> 4];
		out[2 * i + 1] = digits[key->bytes[i] & 15];
	}
	out[FM_CACHE_HEX_LEN] = '\0';
}

static void put_stamp(struct fm_writer *w, const struct fm_cache_stamp *in)
{
	fm_put_le64(w, (uint64_t)in->wall_ns);
	fm_put_le64(w, in->boot_ns);
}

static bool get_stamp(struct fm_reader *r, struct fm_cache_stamp *out)
{
	out->wall_ns = (int64_t)fm_get_le64(r);
	out->boot_ns = fm_get_le64(r);
	return out->wall_ns >= 0 && (out->wall_ns > 0 || out->boot_ns == 0);
}

/* Reads a text of len bytes, none of which may be zero. */
static bool get_text(struct fm_reader *r, size_t len, char *out)
{
	fm_get_bytes(r, out, len);
	out[len] = '\0';
	return !memchr(out, '\0', len);
}

/* ---- one pair for each kind ---- */

size_t fm_cache_put_head(uint8_t *out, size_t len)
{
	struct fm_writer w = begin(FM_CACHE_KIND_HEAD, out, len);

	return end(&w, out);
}

int fm_cache_get_head(const uint8_t *in, size_t len)
{
	struct fm_reader r = open_frame(FM_CACHE_KIND_HEAD, in, len);

	return is_whole(&r) ? 0 : -EBADMSG;
}

size_t fm_cache_put_dataset(const struct fm_cache_dataset *in, uint8_t *out, size_t len)
{
	struct fm_writer w = begin(FM_CACHE_KIND_DATASET, out, len);
	size_t name_len = strlen(in->name), source_len = strlen(in->source);

	fm_put_le64(&w, in->id);
	fm_put_le64(&w, in->base);
	fm_put_le64(&w, in->bytes);
	fm_put_le64(&w, in->shared);
	fm_put_le64(&w, in->files);
	fm_put_le64(&w, (uint64_t)in->created_ns);
	fm_put_le32(&w, in->extents);
	fm_put_le32(&w, in->cost);
	fm_put_bytes(&w, in->listing.bytes, sizeof(in->listing.bytes));
	fm_put_bytes(&w, in->version.bytes, sizeof(in->version.bytes));
	fm_put_le16(&w, (uint16_t)name_len);
	fm_put_le16(&w, (uint16_t)source_len);
	fm_put_bytes(&w, in->name, name_len);
	fm_put_bytes(&w, in->source, source_len);
	return end(&w, out);
}

static bool is_sound_dataset(const struct fm_cache_dataset *d)
{
	return d->id != 0 && d->base != d->id && d->bytes <= INT64_MAX && d->shared <= d->bytes &&
	       d->files <= INT64_MAX / 4096 && d->created_ns >= 0 &&
	       d->extents <= FM_CACHE_EXTENTS_MAX && d->cost > 0;
}

static bool get_dataset_fields(struct fm_reader *r, struct fm_cache_dataset *d, size_t *name_len,
			       size_t *source_len)
{
	d->id = fm_get_le64(r);
	d->base = fm_get_le64(r);
	d->bytes = fm_get_le64(r);
	d->shared = fm_get_le64(r);
	d->files = fm_get_le64(r);
	d->created_ns = (int64_t)fm_get_le64(r);
	d->extents = fm_get_le32(r);
	d->cost = fm_get_le32(r);
	fm_get_bytes(r, d->listing.bytes, sizeof(d->listing.bytes));
	fm_get_bytes(r, d->version.bytes, sizeof(d->version.bytes));
	*name_len = fm_get_le16(r);
	*source_len = fm_get_le16(r);
	return !r->failed && is_sound_dataset(d) && *name_len <= FM_CACHE_NAME_MAX &&
	       *source_len <= FM_CACHE_SOURCE_MAX && fm_reader_left(r) == *name_len + *source_len;
}

int fm_cache_get_dataset(const uint8_t *in, size_t len, struct fm_cache_dataset *out)
{
	struct fm_reader r = open_frame(FM_CACHE_KIND_DATASET, in, len);
	struct fm_cache_dataset d = {.source = NULL};
	size_t name_len, source_len;

	if (!get_dataset_fields(&r, &d, &name_len, &source_len) ||
	    !get_text(&r, name_len, d.name) || !fm_cache_is_name(d.name))
		return -EBADMSG;
	d.source = FM_FAULT("cache.alloc") ? NULL : malloc(source_len + 1);
	if (!d.source)
		return -ENOMEM;
	if (!get_text(&r, source_len, d.source)) {
		free(d.source);
		return -EBADMSG;
	}
	*out = d;
	return 0;
}

static void put_node(struct fm_writer *w, const char *node)
{
	size_t len = strlen(node);

	fm_put_u8(w, (uint8_t)len);
	fm_put_bytes(w, node, len);
}

static bool get_node(struct fm_reader *r, char out[static FM_CACHE_NODE_MAX + 1])
{
	size_t len = fm_get_u8(r);

	return !r->failed && len > 0 && len <= FM_CACHE_NODE_MAX && fm_reader_left(r) >= len &&
	       get_text(r, len, out) && is_plain(out, len);
}

/* Only where there are some: then older versions do not know the file, and count no pins. */
static void put_far_pins(struct fm_writer *w, const struct fm_cache_use *in)
{
	fm_put_le32(w, in->far_count);
	for (unsigned i = 0; i < in->far_count; i++) {
		fm_put_le32(w, in->far[i].uid);
		put_node(w, in->far[i].node);
	}
}

static bool get_far_pins(struct fm_reader *r, struct fm_cache_use *out)
{
	bool is_sound = true;

	if (fm_reader_left(r) == 0)
		return true;
	out->far_count = fm_get_le32(r);
	if (r->failed || out->far_count == 0 || out->far_count > FM_CACHE_FAR_PINS_MAX)
		return false;
	for (unsigned i = 0; i < out->far_count && is_sound; i++) {
		out->far[i].uid = fm_get_le32(r);
		is_sound = get_node(r, out->far[i].node);
	}
	return is_sound;
}

size_t fm_cache_put_use(const struct fm_cache_use *in, uint8_t *out, size_t len)
{
	struct fm_writer w = begin(FM_CACHE_KIND_USE, out, len);

	fm_put_le64(&w, in->id);
	put_stamp(&w, &in->requested);
	put_stamp(&w, &in->used);
	put_stamp(&w, &in->verified);
	fm_put_bytes(&w, in->boot, sizeof(in->boot));
	fm_put_le32(&w, in->pin_count);
	for (unsigned i = 0; i < in->pin_count; i++)
		fm_put_le32(&w, in->pins[i]);
	if (in->far_count > 0)
		put_far_pins(&w, in);
	return end(&w, out);
}

int fm_cache_get_use(const uint8_t *in, size_t len, struct fm_cache_use *out)
{
	struct fm_reader r = open_frame(FM_CACHE_KIND_USE, in, len);
	struct fm_cache_use u = {.id = fm_get_le64(&r)};
	bool is_sound = get_stamp(&r, &u.requested);

	is_sound = get_stamp(&r, &u.used) && is_sound;
	is_sound = get_stamp(&r, &u.verified) && is_sound;
	fm_get_bytes(&r, u.boot, sizeof(u.boot));
	u.pin_count = fm_get_le32(&r);
	if (r.failed || !is_sound || u.id == 0 || u.pin_count > FM_CACHE_PINS_MAX)
		return -EBADMSG;
	for (unsigned i = 0; i < u.pin_count; i++)
		u.pins[i] = fm_get_le32(&r);
	if (r.failed || !get_far_pins(&r, &u) || !is_whole(&r))
		return -EBADMSG;
	*out = u;
	return 0;
}

size_t fm_cache_put_extents(uint64_t id, unsigned extents, const uint8_t *bits, uint8_t *out,
			    size_t len)
{
	struct fm_writer w = begin(FM_CACHE_KIND_EXTENTS, out, len);

	fm_put_le64(&w, id);
	fm_put_le32(&w, extents);
	fm_put_le32(&w, 0);
	fm_put_bytes(&w, bits, fm_cache_bits_len(extents));
	return end(&w, out);
}

int fm_cache_get_extents(const uint8_t *in, size_t len, uint64_t id, unsigned extents,
			 uint8_t *bits)
{
	struct fm_reader r = open_frame(FM_CACHE_KIND_EXTENTS, in, len);
	bool is_of_it = fm_get_le64(&r) == id;
	const uint8_t *at;

	is_of_it = fm_get_le32(&r) == extents && is_of_it;
	is_of_it = fm_get_le32(&r) == 0 && is_of_it;
	at = fm_get_span(&r, fm_cache_bits_len(extents));
	if (!is_of_it || !is_whole(&r) || (extents % 8 && at[extents / 8] >> extents % 8))
		return -EBADMSG;
	memcpy(bits, at, fm_cache_bits_len(extents));
	return 0;
}

static size_t put_node_hold(const struct fm_cache_hold_record *in, uint8_t *out, size_t len)
{
	struct fm_writer w = begin(FM_CACHE_KIND_NODE_HOLD, out, len);
	size_t node_len = strlen(in->node);

	fm_put_le64(&w, in->id);
	fm_put_le64(&w, in->number);
	fm_put_le64(&w, in->theirs);
	fm_put_le64(&w, (uint64_t)in->since_ns);
	fm_put_le32(&w, in->uid);
	fm_put_le16(&w, (uint16_t)node_len);
	fm_put_le16(&w, 0);
	fm_put_bytes(&w, in->node, node_len);
	return end(&w, out);
}

static int get_node_hold(const uint8_t *in, size_t len, struct fm_cache_hold_record *out)
{
	struct fm_reader r = open_frame(FM_CACHE_KIND_NODE_HOLD, in, len);
	struct fm_cache_hold_record h = {.id = fm_get_le64(&r)};
	size_t node_len;

	h.number = fm_get_le64(&r);
	h.theirs = fm_get_le64(&r);
	h.since_ns = (int64_t)fm_get_le64(&r);
	h.uid = fm_get_le32(&r);
	node_len = fm_get_le16(&r);
	r.failed |= fm_get_le16(&r) != 0;
	if (r.failed || node_len == 0 || node_len > FM_CACHE_NODE_MAX || h.id == 0 ||
	    h.number == 0 || h.since_ns < 0 || fm_reader_left(&r) != node_len ||
	    !get_text(&r, node_len, h.node) || !is_plain(h.node, node_len))
		return -EBADMSG;
	*out = h;
	return 0;
}

size_t fm_cache_put_hold(const struct fm_cache_hold_record *in, uint8_t *out, size_t len)
{
	struct fm_writer w;

	if (in->node[0])
		return put_node_hold(in, out, len);
	w = begin(FM_CACHE_KIND_HOLD, out, len);
	fm_put_le64(&w, in->id);
	fm_put_le64(&w, in->number);
	fm_put_le64(&w, in->process.start);
	fm_put_bytes(&w, in->process.boot, sizeof(in->process.boot));
	fm_put_le32(&w, in->uid);
	fm_put_le32(&w, (uint32_t)in->process.pid);
	fm_put_le64(&w, (uint64_t)in->since_ns);
	fm_put_le32(&w, 0);
	return end(&w, out);
}

int fm_cache_get_hold(const uint8_t *in, size_t len, struct fm_cache_hold_record *out)
{
	struct fm_cache_hold_record h = {.id = 0};
	struct fm_reader r;

	if (len > KIND_AT && in[KIND_AT] == FM_CACHE_KIND_NODE_HOLD)
		return get_node_hold(in, len, out);
	r = open_frame(FM_CACHE_KIND_HOLD, in, len);
	h.id = fm_get_le64(&r);
	h.number = fm_get_le64(&r);
	h.process.start = fm_get_le64(&r);
	fm_get_bytes(&r, h.process.boot, sizeof(h.process.boot));
	h.uid = fm_get_le32(&r);
	h.process.pid = (pid_t)fm_get_le32(&r);
	h.since_ns = (int64_t)fm_get_le64(&r);
	r.failed |= fm_get_le32(&r) != 0;
	if (!is_whole(&r) || h.id == 0 || h.number == 0 || h.process.pid <= 0 || h.since_ns < 0)
		return -EBADMSG;
	*out = h;
	return 0;
}

size_t fm_cache_put_afar(const struct fm_cache_afar_record *in, uint8_t *out, size_t len)
{
	struct fm_writer w = begin(FM_CACHE_KIND_AFAR, out, len);

	fm_put_le64(&w, in->number);
	fm_put_le64(&w, in->process.start);
	fm_put_bytes(&w, in->process.boot, sizeof(in->process.boot));
	fm_put_le32(&w, in->uid);
	fm_put_le32(&w, (uint32_t)in->process.pid);
	fm_put_bytes(&w, in->listing.bytes, sizeof(in->listing.bytes));
	fm_put_le16(&w, (uint16_t)in->count);
	fm_put_le16(&w, 0);
	for (unsigned i = 0; i < in->count; i++)
		put_node(&w, in->node[i]);
	return end(&w, out);
}

int fm_cache_get_afar(const uint8_t *in, size_t len, struct fm_cache_afar_record *out)
{
	struct fm_reader r = open_frame(FM_CACHE_KIND_AFAR, in, len);
	struct fm_cache_afar_record a = {.number = fm_get_le64(&r)};

	a.process.start = fm_get_le64(&r);
	fm_get_bytes(&r, a.process.boot, sizeof(a.process.boot));
	a.uid = fm_get_le32(&r);
	a.process.pid = (pid_t)fm_get_le32(&r);
	fm_get_bytes(&r, a.listing.bytes, sizeof(a.listing.bytes));
	a.count = fm_get_le16(&r);
	r.failed |= fm_get_le16(&r) != 0;
	if (r.failed || a.number == 0 || a.process.pid <= 0 || a.count == 0 ||
	    a.count > FM_CACHE_AFAR_NODES)
		return -EBADMSG;
	for (unsigned i = 0; i < a.count; i++)
		if (!get_node(&r, a.node[i]))
			return -EBADMSG;
	if (!is_whole(&r))
		return -EBADMSG;
	*out = a;
	return 0;
}
