/* SPDX-License-Identifier: MIT */
/*
 * api_request - see api_request.h. One table says which keys there are and of which type; which of
 * them an operation takes its row says.
 */
#include "mover/api/api_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mover/api/api_op.h"
#include "mover/base/json.h"
#include "mover/base/err.h"
#include "mover/base/group_id.h"
#include "mover/base/words.h"

_Static_assert(FM_WANT_AUTO == 0 && FM_WANT_RDMA == 1 && FM_WANT_TCP == 2,
	       "order of fm_words_transport");
_Static_assert(FM_DURABILITY_DEFAULT == 0 && FM_DURABILITY_DISK == 1 && FM_DURABILITY_MEMORY == 2,
	       "order of fm_words_durability");
_Static_assert(FM_KIND_TCP == 0 && FM_KIND_RDMA == 1, "order of fm_words_kind");
_Static_assert(FM_PLAIN == 0 && FM_TLS == 1 && FM_TLS_KERNEL == 2, "order of fm_words_encryption");

enum key_type {
	KEY_OP,
	KEY_ID,
	KEY_U64,
	KEY_BOOL,
	KEY_WORD,
	KEY_STORE,
	KEY_NAME,
	KEY_CHOICE,
	KEY_JOB,
	KEY_EXCLUDES,
	KEY_RANGES,
	KEY_GROUP,
	KEY_BUFFER
};

struct key {
	const char *name;
	enum key_type type;
	size_t at;			/* in struct fm_api_request */
	uint64_t max;			/* U64: the value; WORD and NAME: bytes */
	/* U64: a bool set if it is there; NAME: its length. 0: none */
	size_t flag_at;
	const char *const *choices;
};

#define AT(x) offsetof(struct fm_api_request, x)

static const struct key keys[] = {
	[FM_API_KEY_OP] = {"op", KEY_OP, AT(op), 0, 0, NULL},
	[FM_API_KEY_ID] = {"id", KEY_ID, AT(id), 0, 0, NULL},
	[FM_API_KEY_NODE] = {"node", KEY_WORD, AT(node), FM_API_NODE_MAX, 0, NULL},
	[FM_API_KEY_STORE] = {"store", KEY_STORE, AT(store), FM_API_NODE_MAX, 0, NULL},
	[FM_API_KEY_PATH] = {"path", KEY_NAME, AT(path), FM_PATH_LEN_MAX, AT(path_len), NULL},
	[FM_API_KEY_TRANSPORT] = {"transport", KEY_CHOICE, AT(transport), 0, 0, fm_words_transport},
	[FM_API_KEY_DURABILITY] = {"durability", KEY_CHOICE, AT(durability), 0, 0,
				   fm_words_durability},
	[FM_API_KEY_FORCE] = {"force", KEY_BOOL, AT(is_force), 0, 0, NULL},
	[FM_API_KEY_VERIFY] = {"verify", KEY_CHOICE, AT(readback), 0, 0, fm_words_readback},
	[FM_API_KEY_HOLD] = {"hold", KEY_BOOL, AT(is_held), 0, 0, NULL},
	[FM_API_KEY_BUFFERED] = {"buffered", KEY_BOOL, AT(is_buffered), 0, 0, NULL},
	[FM_API_KEY_GENERATE] = {"generate", KEY_U64, AT(bytes_generated), FM_SIZE_LIMIT,
				 AT(is_generated), NULL},
	[FM_API_KEY_DISCARD] = {"discard", KEY_BOOL, AT(is_discarded), 0, 0, NULL},
	[FM_API_KEY_ACCEPT_CORRUPT] = {"accept_corrupt", KEY_BOOL, AT(accepts_corrupt), 0, 0, NULL},
	[FM_API_KEY_LIMIT] = {"limit", KEY_U64, AT(rate_bytes), INT64_MAX, 0, NULL},
	[FM_API_KEY_TIMEOUT_MS] = {"timeout_ms", KEY_U64, AT(timeout_ms), FM_API_MS_MAX, 0, NULL},
	[FM_API_KEY_PROGRESS_MS] = {"progress_ms", KEY_U64, AT(progress_ms), FM_API_MS_MAX, 0,
				    NULL},
	[FM_API_KEY_DETACH] = {"detach", KEY_BOOL, AT(is_detached), 0, 0, NULL},
	[FM_API_KEY_ATTENDED] = {"attended", KEY_BOOL, AT(is_attended), 0, 0, NULL},
	[FM_API_KEY_PRIORITY] = {"priority", KEY_CHOICE, AT(priority), 0, 0, fm_words_priority},
	[FM_API_KEY_RETRY_MS] = {"retry_ms", KEY_U64, AT(retry_ms), FM_API_MS_MAX, AT(has_retry),
				 NULL},
	[FM_API_KEY_LOCAL_STORE] = {"local_store", KEY_STORE, AT(local_store), FM_API_NODE_MAX, 0,
				    NULL},
	[FM_API_KEY_LOCAL_PATH] = {"local_path", KEY_NAME, AT(local_path), FM_PATH_LEN_MAX,
				   AT(local_path_len), NULL},
	[FM_API_KEY_FILE] = {"file", KEY_NAME, AT(file), FM_QUEUE_FILE_PATH_MAX, AT(file_len),
			     NULL},
	[FM_API_KEY_AFTER] = {"after", KEY_NAME, AT(after), FM_NAME_LEN_MAX, AT(after_len), NULL},
	[FM_API_KEY_RECURSIVE] = {"recursive", KEY_BOOL, AT(is_recursive), 0, 0, NULL},
	[FM_API_KEY_PARTIAL] = {"partial", KEY_BOOL, AT(is_partial), 0, 0, NULL},
	[FM_API_KEY_TREE] = {"tree", KEY_BOOL, AT(is_tree), 0, 0, NULL},
	[FM_API_KEY_UPDATE] = {"update", KEY_BOOL, AT(is_update), 0, 0, NULL},
	[FM_API_KEY_DELETE] = {"delete", KEY_BOOL, AT(is_delete), 0, 0, NULL},
	[FM_API_KEY_CHECKSUM] = {"checksum", KEY_BOOL, AT(has_checksums), 0, 0, NULL},
	[FM_API_KEY_DRY_RUN] = {"dry_run", KEY_BOOL, AT(is_dry), 0, 0, NULL},
	[FM_API_KEY_NAMES] = {"names", KEY_BOOL, AT(has_names), 0, 0, NULL},
	[FM_API_KEY_TREE_BYTES] = {"tree_bytes", KEY_U64, AT(tree_bytes), FM_SIZE_LIMIT, 0, NULL},
	[FM_API_KEY_DEV] = {"dev", KEY_U64, AT(dev), INT64_MAX, 0, NULL},
	[FM_API_KEY_INO] = {"ino", KEY_U64, AT(ino), INT64_MAX, 0, NULL},
	[FM_API_KEY_EXCLUDE] = {"exclude", KEY_EXCLUDES, AT(excludes), FM_TREE_EXCLUDE_LEN_MAX, 0,
				NULL},
	[FM_API_KEY_WHOLE_BLOCKS] = {"whole_blocks", KEY_BOOL, AT(is_verified), 0, 0, NULL},
	[FM_API_KEY_RANGES] = {"ranges", KEY_RANGES, AT(ranges), FM_JOB_RANGES_MAX, 0, NULL},
	[FM_API_KEY_JOB] = {"job", KEY_JOB, AT(job), FM_API_ID_MAX, 0, NULL},
	[FM_API_KEY_CODE] = {"code", KEY_WORD, AT(error_code), FM_API_CODE_MAX, 0, NULL},
	[FM_API_KEY_TEXT] = {"text", KEY_WORD, AT(file), FM_ERR_TEXT_MAX - 1, 0, NULL},
	[FM_API_KEY_KEEP] = {"keep", KEY_BOOL, AT(is_kept), 0, 0, NULL},
	[FM_API_KEY_ALL] = {"all", KEY_BOOL, AT(is_all), 0, 0, NULL},
	[FM_API_KEY_SEQ] = {"seq", KEY_U64, AT(after_seq), FM_API_ID_MAX, 0, NULL},
	[FM_API_KEY_NAME] = {"name", KEY_WORD, AT(name), FM_NAME_LEN_MAX, 0, NULL},
	[FM_API_KEY_PIN] = {"pin", KEY_BOOL, AT(is_pinned), 0, 0, NULL},
	[FM_API_KEY_PID] = {"pid", KEY_U64, AT(pid), INT32_MAX, 0, NULL},
	[FM_API_KEY_CHECK] = {"check", KEY_CHOICE, AT(check), 0, 0, fm_words_check},
	[FM_API_KEY_DEVICE] = {"device", KEY_WORD, AT(only.device), FM_RAIL_NAME_MAX - 1, 0, NULL},
	[FM_API_KEY_LOCAL] = {"local", KEY_WORD, AT(only.way[0].local), FM_ONLY_ADDRESS_MAX - 1, 0,
			      NULL},
	[FM_API_KEY_REMOTE] = {"remote", KEY_WORD, AT(only.way[0].remote),
			       FM_ONLY_ADDRESS_MAX - 1, 0, NULL},
	[FM_API_KEY_CONNECTIONS] = {"connections", KEY_U64, AT(conns), FM_ONLY_CONNS_MAX, 0, NULL},
	[FM_API_KEY_NODES] = {"nodes", KEY_WORD, AT(nodes), FM_API_NODES_MAX, 0, NULL},
	[FM_API_KEY_GROUP] = {"group", KEY_GROUP, AT(group), 0, AT(has_group), NULL},
	[FM_API_KEY_MEMBERS] = {"members", KEY_U64, AT(members), UINT32_MAX, 0, NULL},
	[FM_API_KEY_EXPECT] = {"expect", KEY_NAME, AT(expect), FM_GROUP_EXPECT_MAX, AT(expect_len),
			       NULL},
	[FM_API_KEY_EXPIRES_MS] = {"expires_ms", KEY_U64, AT(expires_ms), FM_API_MS_MAX, 0, NULL},
	[FM_API_KEY_CHECK_ONLY] = {"check_only", KEY_BOOL, AT(is_check), 0, 0, NULL},
	[FM_API_KEY_KEEP_LAST] = {"keep_last", KEY_U64, AT(keep_last), FM_KEEP_LAST_MAX, 0, NULL},
	[FM_API_KEY_LATER] = {"later", KEY_BOOL, AT(is_later), 0, 0, NULL},
	[FM_API_KEY_BUFFER] = {"buffer", KEY_BUFFER, AT(buffer), 0, AT(has_buffer), NULL},
	[FM_API_KEY_BYTES] = {"bytes", KEY_U64, AT(bytes), FM_SIZE_LIMIT, 0, NULL},
	[FM_API_KEY_TO] = {"to", KEY_NAME, AT(to), FM_PATH_LEN_MAX, AT(to_len), NULL},
};
_Static_assert(sizeof(keys) / sizeof(keys[0]) == FM_API_KEY_COUNT, "a key has no row");

static const struct key *key_find(const char *name)
{
	for (size_t i = 0; i < FM_API_KEY_COUNT; i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

static int u64_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		    struct fm_err *err)
{
	uint64_t v;

	if (fm_json_u64(value, &v) < 0 || v > k->max)
		return fm_err_set(err, -EINVAL, "\"%s\": not a whole number of 0 to %" PRIu64,
				  k->name, k->max);
	memcpy((char *)r + k->at, &v, sizeof(v));
	if (k->flag_at > 0)
		*(bool *)((char *)r + k->flag_at) = true;
	return 0;
}

static int name_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		     struct fm_err *err)
{
	size_t len;
	int ret;

	ret = fm_json_name(value, (char *)r + k->at, k->max + 1, &len);
	if (ret == -ENAMETOOLONG)
		return fm_err_set(err, ret, "\"%s\": longer than %" PRIu64 " bytes", k->name,
				  k->max);
	if (ret == -EILSEQ)
		return fm_err_set(err, -EINVAL, "\"%s\": holds a NUL byte", k->name);
	if (ret < 0)
		return fm_err_set(err, ret, "\"%s\": neither a string nor {\"bytes\": BASE64}",
				  k->name);
	memcpy((char *)r + k->flag_at, &len, sizeof(len));
	return 0;
}

static int word_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		     struct fm_err *err)
{
	const char *text;

	if (fm_json_text(value, &text) < 0)
		return fm_err_set(err, -EINVAL, "\"%s\": not a string without NUL", k->name);
	if (strlen(text) > k->max)
		return fm_err_set(err, -ENAMETOOLONG, "\"%s\": longer than %" PRIu64 " bytes",
				  k->name, k->max);
	memcpy((char *)r + k->at, text, strlen(text) + 1);
	return 0;
}

/* Else another node would take a user's request for one of this node itself. */
static int store_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		      struct fm_err *err)
{
	const char *text = (const char *)r + k->at;
	int ret = word_take(k, value, r, err);

	if (ret == 0 &&
	    strncmp(text, FM_STORE_INTERNAL_PREFIX, strlen(FM_STORE_INTERNAL_PREFIX)) == 0)
		return fm_err_set(err, -EINVAL, "\"%s\": '%s' is no name of a store", k->name,
				  text);
	return ret;
}

static int choice_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		       struct fm_err *err)
{
	const char *text;
	int place;

	if (fm_json_text(value, &text) < 0)
		return fm_err_set(err, -EINVAL, "\"%s\": not a string", k->name);
	place = fm_word_parse(k->choices, text);
	if (place >= 0) {
		memcpy((char *)r + k->at, &place, sizeof(place));
		return 0;
	}
	return fm_err_set(err, -EINVAL, "\"%s\": not one of %s, %s%s%s", k->name, k->choices[0],
			  k->choices[1], k->choices[2] ? ", " : "",
			  k->choices[2] ? k->choices[2] : "");
}

/*
 * Takes the key "job": the number of a request of this connection, or the id (a text) of any job,
 * as the operation says.
 */
static int job_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		    struct fm_err *err)
{
	const char *text;

	if (r->op->job == FM_API_JOB_REQUEST ||
	    (r->op->job == FM_API_JOB_EITHER && fm_json_type(value) == FM_JSON_INTEGER))
		return u64_take(k, value, r, err);
	if (fm_json_text(value, &text) < 0 || !*text)
		return fm_err_set(err, -EINVAL, "\"%s\": not the id of a job%s", k->name,
				  r->op->job == FM_API_JOB_EITHER ? " or of a request" : "");
	if (strlen(text) > FM_QUEUE_ID_LEN)
		return fm_err_set(err, -ENOENT,
				  "\"%.32s\" is no id of a job: those have %d characters", text,
				  FM_QUEUE_ID_LEN);
	memcpy(r->job_id, text, strlen(text) + 1);
	return 0;
}

/* An array of patterns. */
static int excludes_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
			 struct fm_err *err)
{
	size_t count = fm_json_count(value), len;

	if (!value || fm_json_type(value) != FM_JSON_ARRAY || count > FM_TREE_EXCLUDES_MAX)
		return fm_err_set(err, -EINVAL, "\"%s\": not an array of at most %d patterns",
				  k->name, FM_TREE_EXCLUDES_MAX);
	for (size_t i = 0; i < count; i++) {
		if (fm_json_name(fm_json_at(value, i), r->excludes[i], sizeof(r->excludes[i]),
				 &len) < 0 ||
		    len == 0)
			return fm_err_set(err, -EINVAL,
					  "\"%s\": a pattern is a string of 1 to %" PRIu64 " bytes",
					  k->name, k->max);
	}
	r->excludes_count = (unsigned)count;
	return 0;
}

/* [OFFSET] or [OFFSET, LENGTH]; without a length it goes up to the end of the file. */
static int range_take(const struct fm_json *value, struct fm_range *out)
{
	size_t count = value && fm_json_type(value) == FM_JSON_ARRAY ? fm_json_count(value) : 0;

	out->len = UINT64_MAX;
	if (count < 1 || count > 2 || fm_json_u64(fm_json_at(value, 0), &out->offset) < 0 ||
	    out->offset > FM_SIZE_LIMIT)
		return -EINVAL;
	if (count == 2 && (fm_json_u64(fm_json_at(value, 1), &out->len) < 0 ||
			   out->len > FM_SIZE_LIMIT - out->offset))
		return -EINVAL;
	return 0;
}

static int ranges_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		       struct fm_err *err)
{
	size_t count = fm_json_count(value);
	uint64_t left = FM_SIZE_LIMIT;

	if (!value || fm_json_type(value) != FM_JSON_ARRAY || count < 1 || count > k->max)
		return fm_err_set(err, -EINVAL, "\"%s\": not an array of 1 to %" PRIu64 " ranges",
				  k->name, k->max);
	for (size_t i = 0; i < count; i++) {
		struct fm_range *range = &r->ranges[i];

		if (range_take(fm_json_at(value, i), range) < 0)
			return fm_err_set(err, -EINVAL,
					  "\"%s\": range %zu is neither [OFFSET, LENGTH] nor "
					  "[OFFSET], of no more bytes than a file may have",
					  k->name, i + 1);
		if (range->len == UINT64_MAX)
			continue;	/* where that is only the file knows */
		if (range->len > left)
			return fm_err_set(err, -EINVAL,
					  "\"%s\": more bytes than a file may have", k->name);
		left -= range->len;
	}
	r->range_count = (unsigned)count;
	return 0;
}

/* The ID of a group: its bytes in hexadecimal digits. */
static int group_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		      struct fm_err *err)
{
	const char *text;

	if (fm_json_text(value, &text) < 0 || fm_group_id_parse(text, r->group) < 0)
		return fm_err_set(err, -EINVAL, "\"%s\": not an ID of %d hexadecimal digits",
				  k->name, 2 * FM_GROUP_ID_LEN);
	r->has_group = true;
	return 0;
}

/* A buffer by its number, and what of it is meant. */
static int buffer_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		       struct fm_err *err)
{
	size_t count = value && fm_json_type(value) == FM_JSON_ARRAY ? fm_json_count(value) : 0;
	struct fm_api_part *part = &r->buffer;
	uint64_t *const to[] = {&part->number, &part->offset, &part->len};
	bool is_right = count == 1 || count == 3;

	for (size_t i = 0; is_right && i < count; i++)
		is_right = fm_json_u64(fm_json_at(value, i), to[i]) == 0 && *to[i] <= INT64_MAX;
	if (!is_right)
		return fm_err_set(err, -EINVAL, "\"%s\": neither [NUMBER, OFFSET, LENGTH] nor "
				  "[NUMBER]", k->name);
	part->is_whole = count == 1;
	r->has_buffer = true;
	return 0;
}

struct taking {
	struct fm_api_request *request;
	struct fm_err *err;
	uint64_t seen;			/* bit n: keys[n] is there */
};
_Static_assert(FM_ERR_TEXT_MAX <= FM_QUEUE_FILE_PATH_MAX,
	       "the text of a commit fits where it is put");

static int key_take(void *ctx, const char *name, const struct fm_json *value)
{
	struct taking *t = ctx;
	const struct fm_api_op *op = t->request->op;
	const struct key *k = key_find(name);

	if (!k)
		return fm_err_set(t->err, -EINVAL, "unknown key \"%s\"", name);
	if (k->type == KEY_OP || k->type == KEY_ID)
		return 0;	/* taken first */
	if (!((op->takes | op->needs) & UINT64_C(1) << (k - keys)))
		return fm_err_set(t->err, -EINVAL, "\"%s\" has no meaning for %s", name, op->name);
	t->seen |= UINT64_C(1) << (k - keys);
	switch (k->type) {
	case KEY_OP:
	case KEY_ID:
		break;
	case KEY_U64:
		return u64_take(k, value, t->request, t->err);
	case KEY_BOOL:
		if (fm_json_bool(value, (bool *)((char *)t->request + k->at)) < 0)
			return fm_err_set(t->err, -EINVAL, "\"%s\": neither true nor false", name);
		return 0;
	case KEY_WORD:
		return word_take(k, value, t->request, t->err);
	case KEY_STORE:
		return store_take(k, value, t->request, t->err);
	case KEY_NAME:
		return name_take(k, value, t->request, t->err);
	case KEY_CHOICE:
		return choice_take(k, value, t->request, t->err);
	case KEY_JOB:
		return job_take(k, value, t->request, t->err);
	case KEY_EXCLUDES:
		return excludes_take(k, value, t->request, t->err);
	case KEY_RANGES:
		return ranges_take(k, value, t->request, t->err);
	case KEY_GROUP:
		return group_take(k, value, t->request, t->err);
	case KEY_BUFFER:
		return buffer_take(k, value, t->request, t->err);
	}
	abort();	/* a type without case: our bug */
}

/*
 * Takes the two keys that decide about all others: "id", whom to answer, and "op", which says what
 * keys are allowed.
 */
static int head_take(const struct fm_json *json, const struct fm_api_op *const *ops,
		     struct fm_api_request *r, struct fm_err *err)
{
	const char *text;
	uint64_t id;

	if (fm_json_u64(fm_json_get(json, "id"), &id) < 0 || id > FM_API_ID_MAX)
		return fm_err_set(err, -EINVAL, "\"id\": not a whole number of 0 to %" PRIu64,
				  FM_API_ID_MAX);
	r->id = id;
	r->has_id = true;
	if (fm_json_text(fm_json_get(json, "op"), &text) < 0)
		return fm_err_set(err, -EINVAL, "\"op\": not a string");
	for (; *ops; ops++) {
		if (strcmp((*ops)->name, text) == 0) {
			r->op = *ops;
			return 0;
		}
	}
	return fm_err_set(err, -EINVAL, "unknown operation \"%s\"", text);
}

static int required_check(const struct taking *t)
{
	for (size_t i = 0; i < FM_API_KEY_COUNT; i++)
		if (t->request->op->needs & ~t->seen & UINT64_C(1) << i)
			return fm_err_set(t->err, -EINVAL, "%s needs \"%s\"",
					  t->request->op->name, keys[i].name);
	return 0;
}

int fm_api_request_parse(const char *msg, size_t len, const struct fm_api_op *const *ops,
			 struct fm_api_request *out, struct fm_err *err)
{
	struct taking t = { .request = out, .err = err };
	struct fm_json *json;
	int ret;

	/* The strings at the end are only valid up to their terminator. */
	memset(out, 0, offsetof(struct fm_api_request, node));
	out->node[0] = out->store[0] = out->name[0] = out->after[0] = out->path[0] = '\0';
	out->local_store[0] = out->local_path[0] = out->file[0] = '\0';
	ret = fm_json_parse(msg, len, &json, err);
	if (ret < 0)
		return ret;
	ret = head_take(json, ops, out, err);
	if (ret == 0)
		ret = fm_json_each(json, key_take, &t);
	if (ret == 0)
		ret = required_check(&t);
	fm_json_free(json);
	out->is_store = out->local_store[0] != '\0';
	if (ret == 0 && out->progress_ms > 0 && out->progress_ms < FM_API_PROGRESS_MS_MIN)
		out->progress_ms = FM_API_PROGRESS_MS_MIN;
	return ret;
}
