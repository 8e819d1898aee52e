/* SPDX-License-Identifier: MIT */
/*
 * queue_json - a detached job as the text of its file, and back. One table for each struct says
 * which fields there are, for both ways.
 *
 * Only this daemon's user can have written what is read, but it may be torn, or of another version:
 * every value is checked again. A key that is not known is ignored: a later version of this format
 * that must be understood has another "version".
 */
#include "mover/queue/queue_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/exit_code.h"
#include "mover/base/group_id.h"
#include "mover/base/json.h"
#include "mover/base/words.h"
#include "mover/wire/wire.h"

#define VERSION 1
#define SEQ_MAX ((UINT64_C(1) << 53) - 1)

enum field_type { FIELD_U64, FIELD_U32, FIELD_I64, FIELD_BOOL, FIELD_TEXT, FIELD_CHOICE };

struct field {
	const char *name;
	enum field_type type;
	size_t at;
	size_t cap;			/* TEXT: bytes of the array */
	const char *const *choices;
};

#define RESULT(member) offsetof(struct fm_job_result, member)
#define DEADLINE(member) offsetof(struct fm_queue_deadline, member)
#define OPTS(member) offsetof(struct fm_queue_opts, member)

static const char *const ends[] = { "file", "descriptor", "store", NULL };

static const struct field result_fields[] = {
	{ "size", FIELD_U64, RESULT(size), 0, NULL },
	{ "data_bytes", FIELD_U64, RESULT(data_bytes), 0, NULL },
	{ "resent_bytes", FIELD_U64, RESULT(bytes_resent), 0, NULL },
	{ "resumed_bytes", FIELD_U64, RESULT(bytes_resumed), 0, NULL },
	{ "damaged_bytes", FIELD_U64, RESULT(bytes_damaged), 0, NULL },
	{ "corrupt_chunks", FIELD_U32, RESULT(corrupt_chunks), 0, NULL },
	{ "crc32c", FIELD_U32, RESULT(crc), 0, NULL },
	{ "durable", FIELD_BOOL, RESULT(is_durable), 0, NULL },
	{ "checked", FIELD_BOOL, RESULT(is_checked), 0, NULL },
	{ "was_there", FIELD_BOOL, RESULT(was_there), 0, NULL },
	{ "kind", FIELD_CHOICE, RESULT(kind), 0, fm_words_kind },
	{ "rdma_bytes", FIELD_U64, RESULT(kind_bytes[FM_KIND_RDMA]), 0, NULL },
	{ "tcp_bytes", FIELD_U64, RESULT(kind_bytes[FM_KIND_TCP]), 0, NULL },
	{ "plain_bytes", FIELD_U64, RESULT(encryption_bytes[FM_PLAIN]), 0, NULL },
	{ "tls_bytes", FIELD_U64, RESULT(encryption_bytes[FM_TLS]), 0, NULL },
	{ "ktls_bytes", FIELD_U64, RESULT(encryption_bytes[FM_TLS_KERNEL]), 0, NULL },
	{ "encryption", FIELD_CHOICE, RESULT(encryption), 0, fm_words_encryption },
	{ "connections", FIELD_U32, RESULT(conns), 0, NULL },
	{ "why", FIELD_TEXT, RESULT(why), sizeof(((struct fm_job_result *)0)->why), NULL },
	{ "note", FIELD_TEXT, RESULT(note), sizeof(((struct fm_job_result *)0)->note), NULL },
	{ "elapsed_ns", FIELD_U64, RESULT(elapsed_ns), 0, NULL },
	{ "mode", FIELD_U32, RESULT(attr.mode), 0, NULL },
	{ "mtime_ns", FIELD_I64, RESULT(attr.mtime_ns), 0, NULL },
	{ "tree", FIELD_BOOL, RESULT(is_tree), 0, NULL },
	{ "files", FIELD_U64, RESULT(tree.files), 0, NULL },
	{ "directories", FIELD_U64, RESULT(tree.dirs), 0, NULL },
	{ "links", FIELD_U64, RESULT(tree.links), 0, NULL },
	{ "hard_links", FIELD_U64, RESULT(tree.hard_links), 0, NULL },
	{ "tree_bytes", FIELD_U64, RESULT(tree.bytes), 0, NULL },
	{ "reused_files", FIELD_U64, RESULT(tree.reused_files), 0, NULL },
	{ "reused_bytes", FIELD_U64, RESULT(tree.reused_bytes), 0, NULL },
	{ "resumed_files", FIELD_U64, RESULT(tree.resumed_files), 0, NULL },
	{ "tree_resumed_bytes", FIELD_U64, RESULT(tree.resumed_bytes), 0, NULL },
	{ "tree_damaged_bytes", FIELD_U64, RESULT(tree.damaged_bytes), 0, NULL },
	{ "added", FIELD_U64, RESULT(tree.added), 0, NULL },
	{ "replaced", FIELD_U64, RESULT(tree.replaced), 0, NULL },
	{ "removed", FIELD_U64, RESULT(tree.removed), 0, NULL },
	{ "kept", FIELD_U64, RESULT(tree.kept), 0, NULL },
	{ "reflinked", FIELD_BOOL, RESULT(tree.is_reflinked), 0, NULL },
	{ NULL, FIELD_U64, 0, 0, NULL },
};

static const struct field deadline_fields[] = {
	{ "at_ns", FIELD_U64, DEADLINE(at_ns), 0, NULL },
	{ "boot", FIELD_TEXT, DEADLINE(boot), FM_QUEUE_BOOT_LEN + 1, NULL },
	{ "left_ns", FIELD_U64, DEADLINE(left_ns), 0, NULL },
	{ "at_ms", FIELD_I64, DEADLINE(at_ms), 0, NULL },
	{ NULL, FIELD_U64, 0, 0, NULL },
};

static const struct field opts_fields[] = {
	{ "put", FIELD_BOOL, OPTS(job.is_put), 0, NULL },
	{ "end", FIELD_CHOICE, OPTS(end), 0, ends },
	{ "attended", FIELD_BOOL, OPTS(is_attended), 0, NULL },
	{ "uid", FIELD_U32, OPTS(job.who.uid), 0, NULL },
	{ "gid", FIELD_U32, OPTS(job.who.gid), 0, NULL },
	{ "priority", FIELD_CHOICE, OPTS(priority), 0, fm_words_priority },
	{ "transport", FIELD_CHOICE, OPTS(job.transport), 0, fm_words_transport },
	{ "durability", FIELD_CHOICE, OPTS(job.durability), 0, fm_words_durability },
	{ "force", FIELD_BOOL, OPTS(job.may_replace), 0, NULL },
	{ "readback", FIELD_BOOL, OPTS(job.is_readback), 0, NULL },
	{ "accept_corrupt", FIELD_BOOL, OPTS(job.accepts_corrupt), 0, NULL },
	{ "limit", FIELD_U64, OPTS(job.rate_bytes), 0, NULL },
	{ "timeout_ns", FIELD_U64, OPTS(job.timeout_ns), 0, NULL },
	{ "tree", FIELD_BOOL, OPTS(is_tree), 0, NULL },
	{ "update", FIELD_BOOL, OPTS(job.is_update), 0, NULL },
	{ "delete", FIELD_BOOL, OPTS(job.is_delete), 0, NULL },
	{ "checksum", FIELD_BOOL, OPTS(job.has_checksums), 0, NULL },
	{ "dry_run", FIELD_BOOL, OPTS(job.is_dry), 0, NULL },
	{ NULL, FIELD_U64, 0, 0, NULL },
};

/* ---- one field ---- */

static unsigned choice_at(const void *base, const struct field *f)
{
	unsigned i;

	memcpy(&i, (const char *)base + f->at, sizeof(i));
	return i;
}

static void field_write(struct fm_json_writer *w, const struct field *f, const void *base)
{
	const char *at = (const char *)base + f->at;
	uint64_t u64;
	uint32_t u32;
	int64_t i64;
	bool is;

	switch (f->type) {
	case FIELD_U64:
		memcpy(&u64, at, sizeof(u64));
		if (u64 > INT64_MAX)	/* "not known", "none": as if it was not there */
			fm_jw_null(w, f->name);
		else
			fm_jw_u64(w, f->name, u64);
		break;
	case FIELD_U32:
		memcpy(&u32, at, sizeof(u32));
		fm_jw_u64(w, f->name, u32);
		break;
	case FIELD_I64:
		memcpy(&i64, at, sizeof(i64));
		fm_jw_i64(w, f->name, i64);
		break;
	case FIELD_BOOL:
		memcpy(&is, at, sizeof(is));
		fm_jw_bool(w, f->name, is);
		break;
	case FIELD_TEXT:
		fm_jw_text(w, f->name, at);
		break;
	case FIELD_CHOICE:
		fm_jw_text(w, f->name, f->choices[choice_at(base, f)]);
		break;
	}
}

static void fields_write(struct fm_json_writer *w, const struct field *fields, const void *base)
{
	for (const struct field *f = fields; f->name; f++)
		field_write(w, f, base);
}

static int number_read(const struct field *f, const struct fm_json *value, char *at)
{
	uint64_t u64 = UINT64_MAX;
	uint32_t u32;
	int64_t i64;

	if (f->type == FIELD_I64) {
		if (fm_json_i64(value, &i64) < 0)
			return -EINVAL;
		memcpy(at, &i64, sizeof(i64));
		return 0;
	}
	if (fm_json_type(value) != FM_JSON_NULL && fm_json_u64(value, &u64) < 0)
		return -EINVAL;
	if (f->type == FIELD_U64) {
		memcpy(at, &u64, sizeof(u64));
		return 0;
	}
	if (u64 > UINT32_MAX)
		return -EINVAL;
	u32 = (uint32_t)u64;
	memcpy(at, &u32, sizeof(u32));
	return 0;
}

static int choice_read(const char *const *choices, const struct fm_json *value, unsigned *out)
{
	const char *text;
	int place = fm_json_text(value, &text) < 0 ? -1 : fm_word_parse(choices, text);

	if (place < 0)
		return -EINVAL;
	*out = (unsigned)place;
	return 0;
}

static int field_read(const struct field *f, const struct fm_json *value, void *base)
{
	char *at = (char *)base + f->at;
	const char *text;
	unsigned choice;
	bool is;

	switch (f->type) {
	case FIELD_BOOL:
		if (fm_json_bool(value, &is) < 0)
			return -EINVAL;
		memcpy(at, &is, sizeof(is));
		return 0;
	case FIELD_TEXT:
		if (fm_json_text(value, &text) < 0)
			return -EINVAL;
		(void)snprintf(at, f->cap, "%s", text);		/* cut if it is too long */
		return 0;
	case FIELD_CHOICE:
		if (choice_read(f->choices, value, &choice) < 0)
			return -EINVAL;
		memcpy(at, &choice, sizeof(choice));
		return 0;
	default:
		return number_read(f, value, at);
	}
}

/* Reads the fields of an object. A field that is missing keeps its value. */
static int fields_read(const struct field *fields, const struct fm_json *json, void *base,
		       struct fm_err *err)
{
	for (const struct field *f = fields; f->name; f++) {
		const struct fm_json *value = fm_json_get(json, f->name);

		if (value && field_read(f, value, base) < 0)
			return fm_err_set(err, -EINVAL, "\"%s\" is nothing that a job has",
					  f->name);
	}
	return 0;
}

/* ---- writing ---- */

/* The ID is a secret: the file is this daemon's user's alone, and nothing else tells it. */
static void group_write(struct fm_json_writer *w, const struct fm_queue_opts *o)
{
	char id[FM_GROUP_ID_TEXT_LEN + 1];

	if (!o->job.has_group)
		return;
	fm_group_id_print(o->job.group, id);
	fm_jw_text(w, "group", id);
}

static void write_ends(struct fm_json_writer *w, const struct fm_queue_opts *o)
{
	fm_jw_text(w, "peer", o->job.node);
	fm_jw_text(w, "store", o->job.store);
	fm_jw_name(w, "path", o->job.path, o->job.path_len);
	group_write(w, o);
	if (o->end == FM_QUEUE_STORE) {
		fm_jw_text(w, "own_store", o->own_store);
		fm_jw_name(w, "own_path", o->own_path, o->own_path_len);
	} else {
		fm_jw_name(w, "file", o->file, o->file_len);
	}
	fm_jw_u64_or_null(w, "retry_ns", o->retry_ns, FM_RETRY_ALWAYS);
	if (!o->job.excludes)
		return;
	fm_jw_array(w, "excludes");
	for (unsigned i = 0; o->job.excludes[i]; i++)
		fm_jw_name(w, NULL, o->job.excludes[i], strlen(o->job.excludes[i]));
	fm_jw_array_end(w);
}

int fm_queue_encode(const struct fm_queue_job *j, char *buf, size_t cap)
{
	struct fm_json_writer w;

	fm_jw_begin(&w, buf, cap);
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, "version", VERSION);
	fm_jw_text(&w, "node", j->queue->c.node);
	fm_jw_u64(&w, "seq", j->seq);
	fm_jw_text(&w, "state", fm_words_state[j->state]);
	fm_jw_i64(&w, "created_ms", j->created_ms);
	fm_jw_i64(&w, "ended_ms", j->ended_ms);
	fm_jw_u64(&w, "tries", j->tries);
	fm_jw_bool(&w, "abandoned", j->is_abandoned);
	fm_jw_bool(&w, "sent", j->is_sent);
	fields_write(&w, opts_fields, &j->o);
	write_ends(&w, &j->o);
	if (j->noted.at_ns) {
		fm_jw_object(&w, "deadline");
		fields_write(&w, deadline_fields, &j->noted);
		fm_jw_object_end(&w);
	}
	if (j->code) {
		fm_jw_text(&w, "code", fm_api_errno_name(j->code));
		fm_jw_text(&w, "text", j->why ? j->why : fm_err_name(j->code));
	}
	if (!fm_queue_has_ended(j) && fm_queue_is_ending(j))
		fm_jw_text(&w, "ending", fm_api_errno_name(j->end_code));
	if (j->result && j->state == FM_QUEUE_DONE) {
		fm_jw_object(&w, "result");
		fields_write(&w, result_fields, j->result);
		fm_jw_object_end(&w);
	}
	fm_jw_object_end(&w);
	return fm_jw_end(&w);
}

/* ---- reading ---- */

/* Names out of the text; too large for a stack. */
struct names {
	char node[FM_WIRE_NAME_MAX + 1];
	char store[FM_WIRE_NAME_MAX + 1];
	char own_store[FM_WIRE_NAME_MAX + 1];
	char path[FM_PATH_LEN_MAX + 1];
	char own_path[FM_PATH_LEN_MAX + 1];
	char file[FM_QUEUE_FILE_PATH_MAX + 1];
	char excludes[FM_TREE_EXCLUDES_MAX][FM_TREE_EXCLUDE_LEN_MAX + 1];
	const char *list[FM_TREE_EXCLUDES_MAX + 1];
};

/* Reads a name. value may be NULL: the name is optional. */
static int name_read(const struct fm_json *value, char *out, size_t cap, size_t *len)
{
	*len = 0;
	out[0] = '\0';
	return value ? fm_json_name(value, out, cap, len) : 0;
}

static int excludes_read(const struct fm_json *json, struct names *n, struct fm_queue_opts *o)
{
	const struct fm_json *list = fm_json_get(json, "excludes");
	size_t count = fm_json_count(list), len;

	if (!list)
		return 0;
	if (count > FM_TREE_EXCLUDES_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (fm_json_name(fm_json_at(list, i), n->excludes[i], sizeof(n->excludes[i]),
				 &len) < 0)
			return -EINVAL;
		n->list[i] = n->excludes[i];
	}
	o->job.excludes = n->list;
	return 0;
}

static int group_read(const struct fm_json *value, struct fm_queue_opts *o)
{
	const char *text;

	if (!value)
		return 0;
	o->job.has_group = true;
	return fm_json_text(value, &text) < 0 ? -EINVAL : fm_group_id_parse(text, o->job.group);
}

static int ends_read(const struct fm_json *json, struct names *n, struct fm_queue_opts *o,
		     struct fm_err *err)
{
	const struct fm_json *retry = fm_json_get(json, "retry_ns");
	size_t len;
	int ret = name_read(fm_json_get(json, "peer"), n->node, sizeof(n->node), &len);

	if (ret == 0)
		ret = name_read(fm_json_get(json, "store"), n->store, sizeof(n->store), &len);
	if (ret == 0)
		ret = name_read(fm_json_get(json, "own_store"), n->own_store, sizeof(n->own_store),
				&len);
	if (ret == 0)
		ret = name_read(fm_json_get(json, "path"), n->path, sizeof(n->path),
				&o->job.path_len);
	if (ret == 0)
		ret = name_read(fm_json_get(json, "own_path"), n->own_path, sizeof(n->own_path),
				&o->own_path_len);
	if (ret == 0)
		ret = name_read(fm_json_get(json, "file"), n->file, sizeof(n->file), &o->file_len);
	if (ret == 0)
		ret = excludes_read(json, n, o);
	if (ret == 0)
		ret = group_read(fm_json_get(json, "group"), o);
	if (ret < 0 || !n->node[0] || !n->store[0] ||
	    (o->end == FM_QUEUE_STORE) != (n->own_store[0] != '\0') ||
	    (o->is_attended ? o->end == FM_QUEUE_STORE || o->file_len == 0
			    : o->end == FM_QUEUE_FILE))
		return fm_err_set(err, -EINVAL, "it does not say what is moved where");
	o->job.node = n->node;
	o->job.store = n->store;
	o->job.path = n->path;
	o->own_store = n->own_store;
	o->own_path = n->own_path;
	o->file = n->file;
	o->retry_ns = FM_RETRY_ALWAYS;
	if (retry && fm_json_type(retry) != FM_JSON_NULL && fm_json_u64(retry, &o->retry_ns) < 0)
		return fm_err_set(err, -EINVAL, "\"retry_ns\" is nothing that a job has");
	return 0;
}

static int deadline_read(struct fm_queue_job *j, const struct fm_json *json, struct fm_err *err)
{
	const struct fm_json *deadline = fm_json_get(json, "deadline");
	int ret = deadline ? fields_read(deadline_fields, deadline, &j->noted, err) : 0;

	if (ret == 0 && j->noted.at_ms < 0)
		return fm_err_set(err, -EINVAL, "its deadline is none that a job has");
	return ret;
}

static int result_read(struct fm_queue_job *j, const struct fm_json *json, struct fm_err *err)
{
	const struct fm_json *result = fm_json_get(json, "result");
	const char *text = "";
	const char *code = NULL;

	if (fm_json_text(fm_json_get(json, "code"), &code) == 0) {
		(void)fm_json_text(fm_json_get(json, "text"), &text);	/* "" if it is missing */
		fm_queue_set_why(j, fm_api_errno(code), text);
	}
	if (fm_json_text(fm_json_get(json, "ending"), &code) == 0)
		j->end_code = fm_api_errno(code);
	if (j->state != FM_QUEUE_DONE)
		return 0;
	j->result = calloc(1, sizeof(*j->result));
	if (!j->result)
		return fm_err_set(err, -ENOMEM, "no memory");
	return fields_read(result_fields, result, j->result, err);
}

/* Reads what a job has beside its options: number, state, times, result. */
static int rest_read(struct fm_queue_job *j, const struct fm_json *json, struct fm_err *err)
{
	uint64_t tries = 0;
	unsigned state;

	if (fm_json_u64(fm_json_get(json, "seq"), &j->seq) < 0 || j->seq > SEQ_MAX || j->seq == 0)
		return fm_err_set(err, -EINVAL, "\"seq\" is nothing that a job has");
	if (choice_read(fm_words_state, fm_json_get(json, "state"), &state) < 0)
		return fm_err_set(err, -EINVAL, "\"state\" is none that a job can be in");
	j->state = (enum fm_queue_state)state;
	if (fm_json_i64(fm_json_get(json, "created_ms"), &j->created_ms) < 0 || j->created_ms < 0 ||
	    fm_json_i64(fm_json_get(json, "ended_ms"), &j->ended_ms) < 0 || j->ended_ms < 0)
		return fm_err_set(err, -EINVAL, "its times are none that a job has");
	(void)fm_json_u64(fm_json_get(json, "tries"), &tries);		/* only shown */
	j->tries = (unsigned)tries;
	/* false if it is missing */
	(void)fm_json_bool(fm_json_get(json, "abandoned"), &j->is_abandoned);
	/* a daemon that did not write this down may have sent it */
	j->is_sent = !fm_json_get(json, "sent");
	(void)fm_json_bool(fm_json_get(json, "sent"), &j->is_sent);
	if (deadline_read(j, json, err) < 0)
		return err->code;
	return result_read(j, json, err);
}

/* Left out, it would be root's; and asked to become (uid_t)-1, the kernel lets everything be. */
static int owner_check(const struct fm_json *json, const struct fm_who *who, struct fm_err *err)
{
	if (!fm_json_get(json, "uid") || !fm_json_get(json, "gid") || who->uid == (uid_t)-1 ||
	    who->gid == (gid_t)-1)
		return fm_err_set(err, -EINVAL, "it does not say whose it is");
	return 0;
}

static int head_check(struct fm_queue *q, const struct fm_json *json, struct fm_err *err)
{
	const char *node = "";
	uint64_t version;

	if (fm_json_u64(fm_json_get(json, "version"), &version) < 0 || version != VERSION)
		return fm_err_set(err, -EINVAL, "it is of another version of fmoved");
	(void)fm_json_text(fm_json_get(json, "node"), &node);	/* "" is no node's name */
	if (strcmp(node, q->c.node) != 0)
		return fm_err_set(err, -EXDEV, "it is a job of node %.64s, this is %s", node,
				  q->c.node);
	return 0;
}

static int decode(struct fm_queue *q, const char *id, const struct fm_json *json, struct names *n,
		  struct fm_queue_job **out, struct fm_err *err)
{
	struct fm_queue_opts o = {
		.fd = -1, .journal = -1, .is_detached = true, .priority = FM_QUEUE_NORMAL};
	struct fm_queue_job *j;
	int ret = head_check(q, json, err);

	if (ret == 0)
		ret = fields_read(opts_fields, json, &o, err);
	if (ret == 0)
		ret = owner_check(json, &o.job.who, err);
	if (ret == 0)
		ret = ends_read(json, n, &o, err);
	if (ret < 0)
		return ret;
	j = fm_queue_job_new(q, &o);
	if (!j)
		return fm_err_set(err, -ENOMEM, "no memory");
	(void)snprintf(j->id, sizeof(j->id), "%s", id);
	ret = rest_read(j, json, err);
	if (ret < 0) {
		fm_queue_job_free(j);
		return ret;
	}
	*out = j;
	return 0;
}

int fm_queue_decode(struct fm_queue *q, const char *id, const char *text, size_t len,
		    struct fm_queue_job **out, struct fm_err *err)
{
	struct fm_json *json = NULL;
	struct names *n = calloc(1, sizeof(*n));
	int ret = n ? fm_json_parse(text, len, &json, err) : fm_err_set(err, -ENOMEM, "no memory");

	if (ret == 0)
		ret = decode(q, id, json, n, out, err);
	fm_json_free(json);
	free(n);
	return ret;
}
