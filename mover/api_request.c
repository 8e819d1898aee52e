/* SPDX-License-Identifier: MIT */
/*
 * api_request - see api_request.h. One table says which keys there are, of which type, and for
 * which operations.
 */
#include "mover/api_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mover/api_json.h"
#include "mover/base/err.h"

static const char *const op_names[] = {
	[FM_API_PING] = "ping",	    [FM_API_PUT] = "put",	  [FM_API_GET] = "get",
	[FM_API_STAT] = "stat",	    [FM_API_LIST] = "list",	  [FM_API_REMOVE] = "remove",
	[FM_API_MKDIR] = "mkdir",   [FM_API_STATUS] = "status",	  [FM_API_CANCEL] = "cancel",
};
_Static_assert(sizeof(op_names) / sizeof(op_names[0]) == FM_API_OP_COUNT,
	       "an operation has no name");

/* In the order of the enums in engine.h. */
static const char *const transport_names[] = { "auto", "rdma", "tcp", NULL };
static const char *const durability_names[] = { "default", "disk", "memory", NULL };
_Static_assert(FM_WANT_AUTO == 0 && FM_WANT_RDMA == 1 && FM_WANT_TCP == 2,
	       "order of transport_names");
_Static_assert(FM_DURABILITY_DEFAULT == 0 && FM_DURABILITY_DISK == 1 && FM_DURABILITY_MEMORY == 2,
	       "order of durability_names");

#define OP(x) (1u << FM_API_##x)
#define ALL ((1u << FM_API_OP_COUNT) - 1)
#define TRANSFERS (OP(PUT) | OP(GET))
#define REQUESTS (OP(STAT) | OP(LIST) | OP(REMOVE) | OP(MKDIR))

enum key_type { KEY_OP, KEY_ID, KEY_U64, KEY_BOOL, KEY_WORD, KEY_NAME, KEY_CHOICE };

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
	{ "node", KEY_WORD, AT(node), TRANSFERS | REQUESTS, TRANSFERS, FM_API_NODE_MAX, 0, NULL },
	{ "store", KEY_WORD, AT(store), TRANSFERS | REQUESTS, TRANSFERS | REQUESTS, FM_API_NODE_MAX,
	  0, NULL },
	{ "path", KEY_NAME, AT(path), TRANSFERS | REQUESTS, TRANSFERS | REQUESTS, FM_PATH_LEN_MAX,
	  AT(path_len), NULL },
	{ "transport", KEY_CHOICE, AT(transport), TRANSFERS, 0, 0, 0, transport_names },
	{ "durability", KEY_CHOICE, AT(durability), TRANSFERS, 0, 0, 0, durability_names },
	{ "force", KEY_BOOL, AT(is_force), OP(PUT), 0, 0, 0, NULL },
	{ "generate", KEY_U64, AT(bytes_generated), OP(PUT), 0, FM_SIZE_LIMIT, AT(is_generated),
	  NULL },
	{ "discard", KEY_BOOL, AT(is_discarded), OP(GET), 0, 0, 0, NULL },
	{ "limit", KEY_U64, AT(rate_bytes), TRANSFERS, 0, INT64_MAX, 0, NULL },
	{ "timeout_ms", KEY_U64, AT(timeout_ms), TRANSFERS | REQUESTS, 0, FM_API_MS_MAX, 0, NULL },
	{ "progress_ms", KEY_U64, AT(progress_ms), TRANSFERS, 0, FM_API_MS_MAX, 0, NULL },
	{ "after", KEY_NAME, AT(after), OP(LIST), 0, FM_NAME_LEN_MAX, AT(after_len), NULL },
	{ "recursive", KEY_BOOL, AT(is_recursive), OP(REMOVE), 0, 0, 0, NULL },
	{ "job", KEY_U64, AT(job), OP(CANCEL), OP(CANCEL), FM_API_ID_MAX, 0, NULL },
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

	if (fm_json_text(value, &text) < 0)
		return fm_err_set(err, -EINVAL, "\"%s\": not a string", k->name);
	for (unsigned i = 0; k->choices[i]; i++) {
		if (strcmp(k->choices[i], text) == 0) {
			memcpy((char *)r + k->at, &i, sizeof(i));
			return 0;
		}
	}
	return fm_err_set(err, -EINVAL, "\"%s\": not one of %s, %s, %s", k->name, k->choices[0],
			  k->choices[1], k->choices[2]);
}

struct taking {
	struct fm_api_request *request;
	struct fm_err *err;
	unsigned seen;			/* bit n: keys[n] is there */
};

static int key_take(void *ctx, const char *name, const struct fm_json *value)
{
	struct taking *t = ctx;
	const struct key *k = key_find(name);

	if (!k)
		return fm_err_set(t->err, -EINVAL, "unknown key \"%s\"", name);
	if (!(k->ops & 1u << t->request->op))
		return fm_err_set(t->err, -EINVAL, "\"%s\" has no meaning for %s", name,
				  op_names[t->request->op]);
	t->seen |= 1u << (k - keys);
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
		if ((keys[i].required & 1u << t->request->op) && !(t->seen & 1u << i))
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

	/* The four strings at the end are only valid up to their terminator. */
	memset(out, 0, offsetof(struct fm_api_request, node));
	out->node[0] = out->store[0] = out->after[0] = out->path[0] = '\0';
	ret = fm_json_parse(msg, len, &json, err);
	if (ret < 0)
		return ret;
	ret = head_take(json, out, err);
	if (ret == 0)
		ret = fm_json_each(json, key_take, &t);
	if (ret == 0)
		ret = required_check(&t);
	fm_json_free(json);
	if (ret == 0 && out->progress_ms > 0 && out->progress_ms < FM_API_PROGRESS_MS_MIN)
		out->progress_ms = FM_API_PROGRESS_MS_MIN;
	return ret;
}

bool fm_api_op_is_transfer(enum fm_api_op op)
{
	return (TRANSFERS & 1u << op) != 0;
}
