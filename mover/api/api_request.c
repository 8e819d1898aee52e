/* SPDX-License-Identifier: MIT */
/*
 * api_request - see api_request.h. One table says which keys there are, of which type, and for
 * which operations.
 */
#include "mover/api/api_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/json.h"
#include "mover/base/err.h"
#include "mover/base/words.h"

static const char *const op_names[] = {
	[FM_API_PING] = "ping",	    [FM_API_PUT] = "put",	  [FM_API_GET] = "get",
	[FM_API_STAT] = "stat",	    [FM_API_LIST] = "list",	  [FM_API_REMOVE] = "remove",
	[FM_API_MKDIR] = "mkdir",   [FM_API_STATUS] = "status",	  [FM_API_CANCEL] = "cancel",
	[FM_API_JOBS] = "jobs",	    [FM_API_WAIT] = "wait",	  [FM_API_RESUME] = "resume",
	[FM_API_VERIFY] = "verify", [FM_API_COMMIT] = "commit",
	[FM_API_VOLUMES] = "volumes", [FM_API_SPACE] = "space",	  [FM_API_PURGE] = "purge",
};
_Static_assert(sizeof(op_names) / sizeof(op_names[0]) == FM_API_OP_COUNT,
	       "an operation has no name");

_Static_assert(FM_WANT_AUTO == 0 && FM_WANT_RDMA == 1 && FM_WANT_TCP == 2,
	       "order of fm_words_transport");
_Static_assert(FM_DURABILITY_DEFAULT == 0 && FM_DURABILITY_DISK == 1 && FM_DURABILITY_MEMORY == 2,
	       "order of fm_words_durability");
_Static_assert(FM_KIND_TCP == 0 && FM_KIND_RDMA == 1, "order of fm_words_kind");
_Static_assert(FM_PLAIN == 0 && FM_TLS == 1 && FM_TLS_KERNEL == 2, "order of fm_words_encryption");

#define OP(x) (1u << FM_API_##x)
#define ALL ((1u << FM_API_OP_COUNT) - 1)
#define TRANSFERS (OP(PUT) | OP(GET))
#define REQUESTS (OP(STAT) | OP(LIST) | OP(REMOVE) | OP(MKDIR) | OP(SPACE) | OP(PURGE))

#define NAMED (TRANSFERS | REQUESTS | OP(VERIFY))
#define BY_JOB (OP(CANCEL) | OP(WAIT) | OP(RESUME) | OP(COMMIT))

enum key_type { KEY_OP, KEY_ID, KEY_U64, KEY_BOOL, KEY_WORD, KEY_NAME, KEY_CHOICE, KEY_JOB, KEY_EXCLUDES };

struct key {
	const char *name;
	enum key_type type;
	size_t at;			/* in struct fm_api_request */
	unsigned ops;			/* where it may stand */
	unsigned required;		/* where it must */
	uint64_t max;			/* U64: the value; WORD and NAME: bytes */
	/* U64: a bool set if it is there; NAME: its length. 0: none */
	size_t flag_at;
	const char *const *choices;
};

#define AT(x) offsetof(struct fm_api_request, x)

static const struct key keys[] = {
	{ "op", KEY_OP, AT(op), ALL, ALL, 0, 0, NULL },
	{ "id", KEY_ID, AT(id), ALL, ALL, 0, 0, NULL },
	{ "node", KEY_WORD, AT(node), NAMED, TRANSFERS, FM_API_NODE_MAX, 0, NULL },
	{ "store", KEY_WORD, AT(store), NAMED, NAMED, FM_API_NODE_MAX, 0, NULL },
	{ "path", KEY_NAME, AT(path), NAMED, NAMED, FM_PATH_LEN_MAX, AT(path_len), NULL },
	{ "transport", KEY_CHOICE, AT(transport), TRANSFERS, 0, 0, 0, fm_words_transport },
	{ "durability", KEY_CHOICE, AT(durability), TRANSFERS, 0, 0, 0, fm_words_durability },
	{ "force", KEY_BOOL, AT(is_force), TRANSFERS, 0, 0, 0, NULL },
	{ "verify", KEY_CHOICE, AT(readback), OP(PUT), 0, 0, 0, fm_words_readback },
	{ "hold", KEY_BOOL, AT(is_held), OP(PUT), 0, 0, 0, NULL },
	{ "buffered", KEY_BOOL, AT(is_buffered), OP(PUT), 0, 0, 0, NULL },
	{ "generate", KEY_U64, AT(bytes_generated), OP(PUT), 0, FM_SIZE_LIMIT, AT(is_generated),
	  NULL },
	{ "discard", KEY_BOOL, AT(is_discarded), OP(GET), 0, 0, 0, NULL },
	{ "accept_corrupt", KEY_BOOL, AT(accepts_corrupt), TRANSFERS, 0, 0, 0, NULL },
	{ "limit", KEY_U64, AT(rate_bytes), TRANSFERS, 0, INT64_MAX, 0, NULL },
	{ "timeout_ms", KEY_U64, AT(timeout_ms), TRANSFERS | REQUESTS, 0, FM_API_MS_MAX, 0, NULL },
	{ "progress_ms", KEY_U64, AT(progress_ms), TRANSFERS | OP(WAIT) | OP(VERIFY), 0, FM_API_MS_MAX, 0,
	  NULL },
	{ "detach", KEY_BOOL, AT(is_detached), TRANSFERS, 0, 0, 0, NULL },
	{ "attended", KEY_BOOL, AT(is_attended), TRANSFERS, 0, 0, 0, NULL },
	{ "priority", KEY_CHOICE, AT(priority), TRANSFERS, 0, 0, 0, fm_words_priority },
	{ "retry_ms", KEY_U64, AT(retry_ms), TRANSFERS, 0, FM_API_MS_MAX, AT(has_retry), NULL },
	{ "local_store", KEY_WORD, AT(local_store), TRANSFERS, 0, FM_API_NODE_MAX, 0, NULL },
	{ "local_path", KEY_NAME, AT(local_path), TRANSFERS, 0, FM_PATH_LEN_MAX, AT(local_path_len),
	  NULL },
	{ "file", KEY_NAME, AT(file), TRANSFERS, 0, FM_QUEUE_FILE_PATH_MAX, AT(file_len), NULL },
	{ "after", KEY_NAME, AT(after), OP(LIST) | OP(SPACE), 0, FM_NAME_LEN_MAX, AT(after_len), NULL },
	{ "recursive", KEY_BOOL, AT(is_recursive), OP(REMOVE), 0, 0, 0, NULL },
	{ "partial", KEY_BOOL, AT(is_partial), OP(LIST), 0, 0, 0, NULL },
	{ "tree", KEY_BOOL, AT(is_tree), TRANSFERS, 0, 0, 0, NULL },
	{ "update", KEY_BOOL, AT(is_update), TRANSFERS, 0, 0, 0, NULL },
	{ "delete", KEY_BOOL, AT(is_delete), TRANSFERS, 0, 0, 0, NULL },
	{ "checksum", KEY_BOOL, AT(has_checksums), TRANSFERS, 0, 0, 0, NULL },
	{ "dry_run", KEY_BOOL, AT(is_dry), TRANSFERS | OP(PURGE), 0, 0, 0, NULL },
	{ "names", KEY_BOOL, AT(has_names), TRANSFERS, 0, 0, 0, NULL },
	{ "tree_bytes", KEY_U64, AT(tree_bytes), OP(PUT), 0, FM_SIZE_LIMIT, 0, NULL },
	{ "dev", KEY_U64, AT(dev), OP(PUT), 0, INT64_MAX, 0, NULL },
	{ "ino", KEY_U64, AT(ino), OP(PUT), 0, INT64_MAX, 0, NULL },
	{ "exclude", KEY_EXCLUDES, AT(excludes), TRANSFERS, 0, FM_TREE_EXCLUDE_LEN_MAX, 0, NULL },
	{ "job", KEY_JOB, AT(job), BY_JOB | OP(JOBS) | TRANSFERS, BY_JOB, FM_API_ID_MAX, 0, NULL },
	{ "code", KEY_WORD, AT(error_code), OP(COMMIT), 0, FM_API_CODE_MAX, 0, NULL },
	{ "text", KEY_WORD, AT(file), OP(COMMIT), 0, FM_ERR_TEXT_MAX - 1, 0, NULL },
	{ "keep", KEY_BOOL, AT(is_kept), OP(CANCEL), 0, 0, 0, NULL },
	{ "all", KEY_BOOL, AT(is_all), OP(JOBS), 0, 0, 0, NULL },
	{ "seq", KEY_U64, AT(after_seq), OP(JOBS), 0, FM_API_ID_MAX, 0, NULL },
};
#define KEY_COUNT (sizeof(keys) / sizeof(keys[0]))

static const struct key *key_find(const char *name)
{
	for (size_t i = 0; i < KEY_COUNT; i++)
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
			  k->choices[1], k->choices[2] ? ", " : "", k->choices[2] ? k->choices[2] : "");
}

/* A request of this connection by its number, or (a text) any job by its id. */
static int job_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
		    struct fm_err *err)
{
	const char *text;

	if (r->op == FM_API_COMMIT || (r->op == FM_API_CANCEL && fm_json_type(value) == FM_JSON_INTEGER))
		return u64_take(k, value, r, err);
	if (fm_json_text(value, &text) < 0 || !*text)
		return fm_err_set(err, -EINVAL, "\"%s\": not the id of a job%s", k->name,
				  r->op == FM_API_CANCEL ? " or of a request" : "");
	if (strlen(text) > FM_QUEUE_ID_LEN)
		return fm_err_set(err, -ENOENT, "\"%.32s\" is no id of a job: those have %d characters",
				  text, FM_QUEUE_ID_LEN);
	memcpy(r->job_id, text, strlen(text) + 1);
	return 0;
}

/* An array of patterns. */
static int excludes_take(const struct key *k, const struct fm_json *value, struct fm_api_request *r,
			 struct fm_err *err)
{
	size_t count = fm_json_count(value), len;

	if (!value || fm_json_type(value) != FM_JSON_ARRAY || count > FM_TREE_EXCLUDES_MAX)
		return fm_err_set(err, -EINVAL, "\"%s\": not an array of at most %d patterns", k->name,
				  FM_TREE_EXCLUDES_MAX);
	for (size_t i = 0; i < count; i++) {
		if (fm_json_name(fm_json_at(value, i), r->excludes[i], sizeof(r->excludes[i]), &len) < 0 ||
		    len == 0)
			return fm_err_set(err, -EINVAL,
					  "\"%s\": a pattern is a string of 1 to %" PRIu64 " bytes",
					  k->name, k->max);
	}
	r->excludes_count = (unsigned)count;
	return 0;
}

struct taking {
	struct fm_api_request *request;
	struct fm_err *err;
	uint64_t seen;			/* bit n: keys[n] is there */
};
_Static_assert(KEY_COUNT <= 64, "a bit for every key");
_Static_assert(FM_ERR_TEXT_MAX <= FM_QUEUE_FILE_PATH_MAX, "the text of a commit fits where it is put");

static int key_take(void *ctx, const char *name, const struct fm_json *value)
{
	struct taking *t = ctx;
	const struct key *k = key_find(name);

	if (!k)
		return fm_err_set(t->err, -EINVAL, "unknown key \"%s\"", name);
	if (!(k->ops & 1u << t->request->op))
		return fm_err_set(t->err, -EINVAL, "\"%s\" has no meaning for %s", name,
				  op_names[t->request->op]);
	t->seen |= UINT64_C(1) << (k - keys);
	switch (k->type) {
	case KEY_OP:
	case KEY_ID:
		return 0;	/* taken first */
	case KEY_U64:
		return u64_take(k, value, t->request, t->err);
	case KEY_BOOL:
		if (fm_json_bool(value, (bool *)((char *)t->request + k->at)) < 0)
			return fm_err_set(t->err, -EINVAL, "\"%s\": neither true nor false", name);
		return 0;
	case KEY_WORD:
		return word_take(k, value, t->request, t->err);
	case KEY_NAME:
		return name_take(k, value, t->request, t->err);
	case KEY_CHOICE:
		return choice_take(k, value, t->request, t->err);
	case KEY_JOB:
		return job_take(k, value, t->request, t->err);
	case KEY_EXCLUDES:
		return excludes_take(k, value, t->request, t->err);
	}
	abort();	/* a type without case: our bug */
}

/* What decides about everything else: whom to answer and which keys may stand there. */
static int head_take(const struct fm_json *json, struct fm_api_request *r, struct fm_err *err)
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
	for (unsigned i = 0; i < FM_API_OP_COUNT; i++) {
		if (strcmp(op_names[i], text) == 0) {
			r->op = (enum fm_api_op)i;
			return 0;
		}
	}
	return fm_err_set(err, -EINVAL, "unknown operation \"%s\"", text);
}

static int required_check(const struct taking *t)
{
	for (size_t i = 0; i < KEY_COUNT; i++)
		if ((keys[i].required & 1u << t->request->op) && !(t->seen & UINT64_C(1) << i))
			return fm_err_set(t->err, -EINVAL, "%s needs \"%s\"",
					  op_names[t->request->op], keys[i].name);
	return 0;
}

int fm_api_request_parse(const char *msg, size_t len, struct fm_api_request *out,
			 struct fm_err *err)
{
	struct taking t = { .request = out, .err = err };
	struct fm_json *json;
	int ret;

	/* The strings at the end are only valid up to their terminator. */
	memset(out, 0, offsetof(struct fm_api_request, node));
	out->node[0] = out->store[0] = out->after[0] = out->path[0] = '\0';
	out->local_store[0] = out->local_path[0] = out->file[0] = '\0';
	ret = fm_json_parse(msg, len, &json, err);
	if (ret < 0)
		return ret;
	ret = head_take(json, out, err);
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

bool fm_api_op_is_transfer(enum fm_api_op op)
{
	return (TRANSFERS & 1u << op) != 0;
}
