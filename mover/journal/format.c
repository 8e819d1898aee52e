/* SPDX-License-Identifier: MIT */
/*
 * format - head and records, little-endian, each field put and got in the order in which it stands.
 */
#include "mover/journal/format.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "mover/base/bytes.h"
#include "mover/base/crc32c.h"

#define MAGIC "FMOVEJNL"
#define MAGIC_LEN 8
#define KIND_FILE 1
#define KIND_TREE 2
#define FLAG_SYNCED 1
#define HEAD_CRC_AT (FM_JOURNAL_HEAD_LEN - 4)
#define NAME_ROOM (FM_JOURNAL_NAME_MAX + 1)	/* the last byte is always zero */

#define TYPE_PIECE 1
#define CRC_LEN 4	/* a record begins with its CRC, which is of what follows it */

static bool is_zero(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != 0)
			return false;
	return true;
}

/* ----------------------------------------------------------------------------------------- head */

static void put_numbers(struct fm_writer *w, const struct fm_identity *id)
{
	fm_put_le64(w, id->dev);
	fm_put_le64(w, id->ino);
	fm_put_le64(w, id->size);
	fm_put_le64(w, (uint64_t)id->mtime_ns);
	fm_put_le64(w, (uint64_t)id->ctime_ns);
}

static void get_numbers(struct fm_reader *r, struct fm_identity *id)
{
	id->dev = fm_get_le64(r);
	id->ino = fm_get_le64(r);
	id->size = fm_get_le64(r);
	id->mtime_ns = (int64_t)fm_get_le64(r);
	id->ctime_ns = (int64_t)fm_get_le64(r);
}

void fm_journal_head_put(const struct fm_journal_head *head, uint8_t out[FM_JOURNAL_HEAD_LEN])
{
	struct fm_writer w = { .at = out, .end = out + FM_JOURNAL_HEAD_LEN };
	size_t node_len = strnlen(head->source.node, sizeof(head->source.node));
	size_t name_len = strnlen(head->name, sizeof(head->name));
	static const uint8_t zeros[NAME_ROOM];

	assert(node_len <= FM_JOURNAL_NODE_MAX && name_len <= FM_JOURNAL_NAME_MAX);
	fm_put_bytes(&w, MAGIC, MAGIC_LEN);
	fm_put_le16(&w, FM_JOURNAL_VERSION);
	fm_put_u8(&w, head->is_tree ? KIND_TREE : KIND_FILE);
	fm_put_u8(&w, head->is_synced ? FLAG_SYNCED : 0);
	fm_put_u8(&w, (uint8_t)node_len);
	fm_put_u8(&w, (uint8_t)name_len);
	fm_put_le16(&w, 0);
	fm_put_bytes(&w, head->host.machine, sizeof(head->host.machine));
	fm_put_bytes(&w, head->host.boot, sizeof(head->host.boot));
	put_numbers(&w, &head->source);
	fm_put_bytes(&w, head->source.node, node_len);
	fm_put_bytes(&w, zeros, FM_JOURNAL_NODE_MAX - node_len);
	fm_put_le64(&w, head->ino);
	fm_put_bytes(&w, head->name, name_len);
	fm_put_bytes(&w, zeros, NAME_ROOM - name_len);
	fm_put_le32(&w, head->source.uid);
	fm_put_le32(&w, 0);
	fm_put_le32(&w, head->salt);
	fm_put_le32(&w, fm_crc32c(0, out, HEAD_CRC_AT));
	assert(!w.failed && w.at == w.end);
}

/* A name in a field of that room: len bytes, none of them NUL, and NULs behind them. out has one
 * byte more. */
static bool get_name(struct fm_reader *r, size_t len, size_t room, char *out)
{
	fm_get_bytes(r, out, room);
	out[room] = '\0';
	return len <= room && strlen(out) == len && is_zero((const uint8_t *)out + len, room - len);
}

static bool get_kind(struct fm_reader *r, struct fm_journal_head *head)
{
	uint8_t kind = fm_get_u8(r), flags = fm_get_u8(r);

	head->is_tree = kind == KIND_TREE;
	head->is_synced = flags == FLAG_SYNCED;
	return (kind == KIND_FILE || kind == KIND_TREE) && (flags == 0 || flags == FLAG_SYNCED);
}

int fm_journal_head_get(const uint8_t *in, size_t len, struct fm_journal_head *head)
{
	struct fm_reader r = { .at = in, .end = in + len };
	const uint8_t *magic = fm_get_span(&r, MAGIC_LEN);
	uint16_t version = fm_get_le16(&r);
	char name[NAME_ROOM + 1];
	size_t node_len, name_len;
	bool is_good;

	if (r.failed || memcmp(magic, MAGIC, MAGIC_LEN) != 0)
		return -EBADMSG;
	if (version != FM_JOURNAL_VERSION)
		return -EPROTONOSUPPORT;
	is_good = get_kind(&r, head);
	node_len = fm_get_u8(&r);
	name_len = fm_get_u8(&r);
	is_good = fm_get_le16(&r) == 0 && is_good;
	fm_get_bytes(&r, head->host.machine, sizeof(head->host.machine));
	fm_get_bytes(&r, head->host.boot, sizeof(head->host.boot));
	get_numbers(&r, &head->source);
	is_good = get_name(&r, node_len, FM_JOURNAL_NODE_MAX, head->source.node) && is_good;
	head->ino = fm_get_le64(&r);
	is_good = get_name(&r, name_len, NAME_ROOM, name) && is_good;
	memcpy(head->name, name, sizeof(head->name));
	head->source.uid = fm_get_le32(&r);
	is_good = fm_get_le32(&r) == 0 && is_good;
	head->salt = fm_get_le32(&r);
	if (fm_get_le32(&r) != fm_crc32c(0, in, len < HEAD_CRC_AT ? 0 : HEAD_CRC_AT) || r.failed)
		return -EBADMSG;
	return is_good ? 0 : -EBADMSG;
}

/* -------------------------------------------------------------------------------------- records */

bool fm_journal_entry_is_good(const struct fm_journal_entry *e, bool is_tree)
{
	if (is_tree ? e->path_len < 1 || e->path_len > FM_JOURNAL_PATH_MAX : e->path_len != 0)
		return false;
	if (e->path_len > 0 && memchr(e->path, '\0', e->path_len))
		return false;
	if (e->size > INT64_MAX || e->offset > e->size || e->len > e->size - e->offset)
		return false;
	return e->len > 0 || (e->size == 0 && e->crc == 0);
}

size_t fm_journal_record_len(size_t path_len)
{
	return FM_JOURNAL_RECORD_LEN + (path_len + 7) / 8 * 8;
}

void fm_journal_record_put(const struct fm_journal_entry *e, uint32_t salt, uint8_t *out)
{
	size_t len = fm_journal_record_len(e->path_len);
	struct fm_writer w = { .at = out + CRC_LEN, .end = out + len };
	struct fm_writer crc = { .at = out, .end = out + CRC_LEN };
	static const uint8_t zeros[8];

	fm_put_le16(&w, TYPE_PIECE);
	fm_put_le16(&w, (uint16_t)e->path_len);
	fm_put_le64(&w, e->size);
	fm_put_le64(&w, (uint64_t)e->mtime_ns);
	fm_put_le64(&w, e->identity);
	fm_put_le64(&w, e->offset);
	fm_put_le64(&w, e->len);
	fm_put_le32(&w, e->crc);
	fm_put_le32(&w, 0);
	fm_put_bytes(&w, e->path, e->path_len);
	fm_put_bytes(&w, zeros, (size_t)(w.end - w.at));
	assert(!w.failed && w.at == w.end);
	fm_put_le32(&crc, fm_crc32c(salt, out + CRC_LEN, len - CRC_LEN));
}

int fm_journal_record_get(const uint8_t *in, size_t len, const struct fm_journal_head *head,
			  struct fm_journal_entry *e)
{
	struct fm_reader r = { .at = in, .end = in + len };
	uint32_t crc = fm_get_le32(&r), zero;
	uint16_t type = fm_get_le16(&r);
	size_t whole, padding;

	e->path_len = fm_get_le16(&r);
	whole = fm_journal_record_len(e->path_len);
	if (r.failed || len < whole)
		return 0;
	if (fm_crc32c(head->salt, in + CRC_LEN, whole - CRC_LEN) != crc || type != TYPE_PIECE)
		return -EBADMSG;
	e->size = fm_get_le64(&r);
	e->mtime_ns = (int64_t)fm_get_le64(&r);
	e->identity = fm_get_le64(&r);
	e->offset = fm_get_le64(&r);
	e->len = fm_get_le64(&r);
	e->crc = fm_get_le32(&r);
	zero = fm_get_le32(&r);
	e->path = (const char *)fm_get_span(&r, e->path_len);
	padding = whole - FM_JOURNAL_RECORD_LEN - e->path_len;
	if (zero != 0 || !is_zero(fm_get_span(&r, padding), padding) ||
	    !fm_journal_entry_is_good(e, head->is_tree))
		return -EBADMSG;
	return (int)whole;
}
