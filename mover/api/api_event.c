/* SPDX-License-Identifier: MIT */
/* api_event - see api_event.h. Status, which is longer, is in api_status.c. */
#include "mover/api/api_event.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mover/api/api_limits.h"
#include "mover/base/exit_code.h"
#include "mover/base/json.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/words.h"
#include "mover/queue/queue.h"
#include "mover/services/request.h"
#include "mover/tree/names.h"

void fm_api_event_begin(struct fm_json_writer *w, char *buf, size_t cap, uint64_t id,
			const char *event)
{
	fm_jw_begin(w, buf, cap);
	fm_jw_object(w, NULL);
	fm_jw_u64(w, "id", id);
	fm_jw_text(w, "event", event);
}

int fm_api_event_end(struct fm_json_writer *w)
{
	fm_jw_object_end(w);
	return fm_jw_end(w);
}

int fm_api_event_accepted(char *buf, size_t cap, uint64_t id, const char *job)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "accepted");
	fm_jw_text(&w, "job", job);
	return fm_api_event_end(&w);
}

int fm_api_event_detached(char *buf, size_t cap, uint64_t id, const char *job)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	fm_jw_text(&w, "job", job);
	return fm_api_event_end(&w);
}

int fm_api_event_buffer(char *buf, size_t cap, uint64_t id, uint64_t number)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	fm_jw_u64(&w, "buffer", number);
	return fm_api_event_end(&w);
}

int fm_api_event_done(char *buf, size_t cap, uint64_t id)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	return fm_api_event_end(&w);
}

int fm_api_event_pong(char *buf, size_t cap, uint64_t id, const char *node)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	fm_jw_text(&w, "version", FM_VERSION);
	fm_jw_u64(&w, "api", FM_API_VERSION);
	fm_jw_text(&w, "node", node);
	return fm_api_event_end(&w);
}

static void error_add(struct fm_json_writer *w, const struct fm_err *err)
{
	fm_jw_text(w, "code", fm_api_errno_name(err->code));
	fm_jw_u64(w, "exit", (uint64_t)fm_api_exit(err->code));
	fm_jw_text(w, "text", err->text);
	fm_jw_bool(w, "full", err->is_full);
}

int fm_api_event_error(char *buf, size_t cap, const uint64_t *id, const struct fm_err *err)
{
	struct fm_json_writer w;

	fm_jw_begin(&w, buf, cap);
	fm_jw_object(&w, NULL);
	if (id)
		fm_jw_u64(&w, "id", *id);
	else
		fm_jw_null(&w, "id");
	fm_jw_text(&w, "event", "error");
	error_add(&w, err);
	return fm_api_event_end(&w);
}

int fm_api_event_failed(char *buf, size_t cap, uint64_t id, const struct fm_job_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "error");
	error_add(&w, &r->err);
	fm_jw_bool(&w, "kept", r->is_partial_kept);
	fm_jw_u64(&w, "bytes", r->bytes_reached);
	return fm_api_event_end(&w);
}

int fm_api_event_progress(char *buf, size_t cap, uint64_t id, const struct fm_queue_progress *q)
{
	const struct fm_job_progress *p = &q->job;
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "progress");
	fm_jw_text(&w, "state", p->state);
	fm_jw_u64_or_null(&w, "size", p->size, FM_SIZE_UNKNOWN);
	fm_jw_u64(&w, "bytes", p->bytes_done);
	fm_jw_u64(&w, "resent_bytes", p->bytes_resent);
	fm_jw_u64(&w, "resumed_bytes", p->bytes_resumed);
	fm_jw_u64(&w, "files", p->files);
	fm_jw_u64(&w, "corrupt_chunks", p->corrupt_chunks);
	fm_jw_u64(&w, "connections", p->conns);
	fm_jw_u64(&w, "before", q->before);
	fm_jw_u64(&w, "again_ms", q->again_ns / FM_NS_PER_MS);
	fm_jw_text(&w, "text", q->text);
	return fm_api_event_end(&w);
}

static void mode_add(struct fm_json_writer *w, uint32_t mode)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%04o", mode & 07777u);	/* always fits */
	fm_jw_text(w, "mode", text);
}

static void tree_add(struct fm_json_writer *w, const struct fm_tree_count *c)
{
	fm_jw_bool(w, "tree", true);
	fm_jw_u64(w, "files", c->files);
	fm_jw_u64(w, "dirs", c->dirs);
	fm_jw_u64(w, "links", c->links);
	fm_jw_u64(w, "hard_links", c->hard_links);
	fm_jw_u64(w, "reused_files", c->reused_files);
	fm_jw_u64(w, "reused_bytes", c->reused_bytes);
	fm_jw_bool(w, "reflinked", c->is_reflinked);
	fm_jw_u64(w, "resumed_files", c->resumed_files);
	fm_jw_u64(w, "added", c->added);
	fm_jw_u64(w, "replaced", c->replaced);
	fm_jw_u64(w, "removed", c->removed);
	fm_jw_u64(w, "kept", c->kept);
	fm_jw_u64(w, "wanted_files", c->wanted_files);
	fm_jw_u64(w, "wanted_bytes", c->wanted_bytes);
}

/* The transports that carried the data. Both, if RDMA connections came or went meanwhile. */
static const char *transport_of(const struct fm_job_result *r)
{
	if (r->kind_bytes[FM_KIND_RDMA] > 0 && r->kind_bytes[FM_KIND_TCP] > 0)
		return "rdma+tcp";
	return fm_words_kind[r->kind];
}

/*
 * How the data was encrypted. Connections of several kinds may have carried it. "ktls": the kernel
 * encrypted at one end at least, of every connection.
 */
static const char *encryption_of(const struct fm_job_result *r)
{
	uint64_t plain = r->encryption_bytes[FM_PLAIN], tls = r->encryption_bytes[FM_TLS];
	uint64_t kernel = r->encryption_bytes[FM_TLS_KERNEL];

	if (plain + tls + kernel == 0)
		return fm_words_encryption[r->encryption];
	if (plain > 0)
		return tls + kernel > 0 ? "tls+plain" : "plain";
	return tls > 0 ? "tls" : "ktls";
}

/*
 * The bytes of an earlier try that were used. A tree counts its large files as they were found, so
 * what was damaged in them, and came again, is taken off.
 */
static uint64_t resumed_of(const struct fm_job_result *r)
{
	if (!r->is_tree)
		return r->bytes_resumed;
	return r->tree.resumed_bytes > r->bytes_damaged ? r->tree.resumed_bytes - r->bytes_damaged
							: 0;
}

/* What the file was whose ranges came: another text, another version of it. */
static void version_add(struct fm_json_writer *w, const struct fm_attr *attr)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "%" PRIx64 "-%" PRIx64 "-%" PRIx64, attr->ino,
		       (uint64_t)attr->mtime_ns, (uint64_t)attr->ctime_ns);	/* always fits */
	fm_jw_text(w, "version", text);
}

static void result_add(struct fm_json_writer *w, const struct fm_job_result *r)
{
	double seconds = (double)r->elapsed_ns / (double)FM_NS_PER_S;
	uint64_t bytes = r->is_tree ? r->tree.bytes : r->size;
	uint64_t resumed = resumed_of(r),
		 spared = r->is_tree ? r->tree.reused_bytes + resumed : resumed;
	uint64_t moved = spared > bytes ? 0 : bytes - spared;
	char crc[16];

	(void)snprintf(crc, sizeof(crc), "%08" PRIx32, r->crc);	/* always fits */
	fm_jw_u64(w, "bytes", bytes);
	fm_jw_u64(w, "data_bytes", r->data_bytes);
	fm_jw_real(w, "seconds", seconds);
	fm_jw_real(w, "gb_per_s", seconds > 0 ? (double)moved / 1e9 / seconds : 0);
	fm_jw_text(w, "transport", transport_of(r));
	fm_jw_u64(w, "rdma_bytes", r->kind_bytes[FM_KIND_RDMA]);
	fm_jw_u64(w, "tcp_bytes", r->kind_bytes[FM_KIND_TCP]);
	fm_jw_text(w, "encryption", encryption_of(r));
	fm_jw_text(w, "why", r->why);
	fm_jw_u64(w, "connections", r->conns);
	if (!r->was_there)
		fm_jw_text(w, "crc32c", crc);
	fm_jw_bool(w, "durable", r->is_durable);
	fm_jw_bool(w, "checked", r->is_checked);
	fm_jw_u64(w, "resent_bytes", r->bytes_resent);
	fm_jw_u64(w, "direct_bytes", r->bytes_direct);
	fm_jw_u64(w, "resumed_bytes", resumed);
	fm_jw_u64(w, "damaged_bytes", r->bytes_damaged + r->tree.damaged_bytes);
	fm_jw_u64(w, "corrupt_chunks", r->corrupt_chunks);
	mode_add(w, r->attr.mode);
	fm_jw_i64(w, "mtime_ns", r->attr.mtime_ns);
	if (r->is_tree)
		tree_add(w, &r->tree);
	if (r->is_ranged)
		version_add(w, &r->attr);
	fm_jw_text(w, "note", r->note);
}

int fm_api_event_job(char *buf, size_t cap, uint64_t id, const struct fm_job_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	result_add(&w, r);
	return fm_api_event_end(&w);
}

int fm_api_event_prepared(char *buf, size_t cap, uint64_t id, const struct fm_job_result *r,
			  uint64_t sent)
{
	struct fm_json_writer w;
	char text[32];

	fm_api_event_begin(&w, buf, cap, id, "prepared");
	if (r)
		result_add(&w, r);
	(void)snprintf(text, sizeof(text), "%016" PRIx64, sent);	/* always fits */
	if (sent)
		fm_jw_text(&w, "sent", text);
	return fm_api_event_end(&w);
}

/* ---- directory entries ---- */

/* The largest: every byte of the name escaped as six, or 128 of them would not fit one message. */
#define ENTRY_TEXT_MAX (FM_NAME_LEN_MAX * 6 + 200)
_Static_assert(ENTRY_TEXT_MAX * 128 + 200 <= FM_API_MSG_MAX, "a full list does not fit a message");

static const char *type_name(enum fm_node_type type)
{
	switch (type) {
	case FM_NODE_FILE:
		return "file";
	case FM_NODE_DIR:
		return "directory";
	case FM_NODE_LINK:
		return "link";
	case FM_NODE_OTHER:
		break;
	}
	return "other";
}

static void attr_add(struct fm_json_writer *w, const struct fm_attr *attr)
{
	fm_jw_text(w, "type", type_name(attr->type));
	fm_jw_u64(w, "size", attr->size);
	mode_add(w, attr->mode);
	fm_jw_i64(w, "mtime_ns", attr->mtime_ns);
}

int fm_api_event_stat(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	attr_add(&w, &r->entries[0].attr);
	return fm_api_event_end(&w);
}

int fm_api_event_look(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	attr_add(&w, &r->entries[0].attr);
	if (r->says[0])
		fm_jw_name(&w, "says", r->says, strlen(r->says));
	return fm_api_event_end(&w);
}

static void bytes_add(struct fm_json_writer *w, const char *key, uint64_t bytes)
{
	if (bytes >= FM_SIZE_LIMIT)
		fm_jw_null(w, key);
	else
		fm_jw_u64(w, key, bytes);
}

static void members_add(struct fm_json_writer *w, const char *key,
			const struct fm_group_names *names)
{
	fm_jw_object(w, key);
	fm_jw_u64(w, "count", names->count);
	fm_jw_name(w, "names", names->text, strlen(names->text));
	fm_jw_object_end(w);
}

int fm_api_event_missing(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "error");
	error_add(&w, &r->err);
	members_add(&w, "missing", r->missing);
	return fm_api_event_end(&w);
}

int fm_api_event_groups(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	fm_jw_array(&w, "groups");
	for (size_t i = 0; i < r->groups->count; i++) {
		const struct fm_group_view *v = &r->groups->group[i];

		fm_jw_object(&w, NULL);
		fm_jw_name(&w, "path", v->path, strlen(v->path));
		fm_jw_text(&w, "peer", v->peer);
		fm_jw_u64(&w, "uid", v->uid);
		fm_jw_i64(&w, "begun_ns", v->begun_ns);
		fm_jw_i64(&w, "expires_ns", v->expires_ns);
		fm_jw_bool(&w, "force", v->may_replace);
		fm_jw_u64(&w, "members", v->expected);
		members_add(&w, "there", &v->there);
		members_add(&w, "coming", &v->coming);
		members_add(&w, "missing", &v->missing);
		fm_jw_object_end(&w);
	}
	fm_jw_array_end(&w);
	fm_jw_bool(&w, "more", r->groups->is_more);
	return fm_api_event_end(&w);
}

int fm_api_event_space(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	const struct fm_store_space *s = &r->page->space;
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	if (r->store[0]) {
		fm_jw_text(&w, "store", r->store);
		bytes_add(&w, "size", s->size);
		bytes_add(&w, "free", s->free);
		bytes_add(&w, "used", s->used);
		if (s->quota > 0)
			bytes_add(&w, "quota", s->quota);
		else
			fm_jw_null(&w, "quota");
		bytes_add(&w, "promised", s->promised);
		bytes_add(&w, "aside", s->aside);
		fm_jw_u64(&w, "aside_trees", s->trees);
		if (s->silent_ns > 0)
			fm_jw_u64(&w, "silent_ms", s->silent_ns / FM_NS_PER_MS);
		else
			fm_jw_null(&w, "silent_ms");
		if (s->code != 0)
			fm_jw_text(&w, "code", fm_api_errno_name(s->code));
		else
			fm_jw_null(&w, "code");
		fm_jw_bool(&w, "counting", s->is_counting);
		fm_jw_bool(&w, "read", s->may_read);
		fm_jw_bool(&w, "write", s->may_write);
	}
	return fm_api_event_end(&w);
}

/* The shortest name takes four bytes of a page, and at most so many as text; longer ones take six
 * for each byte. */
#define NAME_TEXT_MAX 60
_Static_assert(FM_TREE_NAMES_LEN / 4 * NAME_TEXT_MAX + 200 <= FM_API_MSG_MAX,
	       "a full page of names does not fit a message");

int fm_api_event_names(char *buf, size_t cap, uint64_t id, const struct fm_tree_names *page)
{
	static const char *const words[] = {[FM_TREE_ADDED] = "added",
					    [FM_TREE_REPLACED] = "replaced",
					    [FM_TREE_REMOVED] = "removed"};
	struct fm_json_writer w;
	struct fm_tree_name name;
	size_t pos = 0;

	fm_api_event_begin(&w, buf, cap, id, "names");
	fm_jw_array(&w, "names");
	while (fm_tree_names_next(page->at, page->len, &pos, &name) > 0) {
		fm_jw_object(&w, NULL);
		fm_jw_text(&w, "change", words[name.change]);
		fm_jw_name(&w, "path", name.path, name.len);
		fm_jw_object_end(&w);
	}
	fm_jw_array_end(&w);
	return fm_api_event_end(&w);
}

#define ASIDE_TEXT_MAX (FM_PATH_LEN_MAX * 6 + 200)
_Static_assert(ASIDE_TEXT_MAX *FM_SPACE_ASIDE_MAX + 200 <= FM_API_MSG_MAX,
	       "a full page does not fit a message");

int fm_api_event_purged(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	fm_jw_array(&w, "aside");
	for (size_t i = 0; i < r->page->count; i++) {
		const struct fm_aside *a = &r->page->aside[i];

		fm_jw_object(&w, NULL);
		fm_jw_name(&w, "path", a->path, strlen(a->path));
		bytes_add(&w, "bytes", a->bytes);
		fm_jw_i64(&w, "since_ns", a->since_ns);
		fm_jw_object_end(&w);
	}
	fm_jw_array_end(&w);
	fm_jw_bool(&w, "more", r->is_more);
	return fm_api_event_end(&w);
}

int fm_api_event_link(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	fm_jw_array(&w, "gone");
	for (size_t i = 0; i < r->count; i++)
		fm_jw_name(&w, NULL, r->entries[i].name, strlen(r->entries[i].name));
	fm_jw_array_end(&w);
	fm_jw_text(&w, "stays", r->stays);
	return fm_api_event_end(&w);
}

int fm_api_event_list(char *buf, size_t cap, uint64_t id, const struct fm_request_result *r)
{
	struct fm_json_writer w;

	fm_api_event_begin(&w, buf, cap, id, "done");
	fm_jw_array(&w, "entries");
	for (size_t i = 0; i < r->count; i++) {
		fm_jw_object(&w, NULL);
		fm_jw_name(&w, "name", r->entries[i].name, strlen(r->entries[i].name));
		attr_add(&w, &r->entries[i].attr);
		if (r->entries[i].whole == FM_SIZE_UNKNOWN)
			fm_jw_null(&w, "whole");
		else if (r->entries[i].whole > 0)
			fm_jw_u64(&w, "whole", r->entries[i].whole);
		fm_jw_object_end(&w);
	}
	fm_jw_array_end(&w);
	fm_jw_bool(&w, "more", r->is_more);
	return fm_api_event_end(&w);
}
