/* SPDX-License-Identifier: MIT */
/* json - see json.h. */
#include "mover/base/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/base64.h"
#include "mover/base/err.h"
#include "mover/base/plain.h"

/* ---- names that are no UTF-8 ---- */

/* Into out, without a terminator. */
static int name_decode(const char *text, char *out, size_t cap, size_t *out_len)
{
	size_t len = strlen(text), n = len / 4 * 3;

	for (unsigned i = 0; i < 2 && n > 0 && text[len - 1 - i] == '='; i++)
		n--;
	if (n > cap)
		return -ENAMETOOLONG;
	*out_len = n;
	return fm_base64_decode(FM_BASE64, text, (uint8_t *)out, n);
}

/* ---- writing ---- */

void fm_jw_begin(struct fm_json_writer *w, char *buf, size_t cap)
{
	assert(cap > 0);
	*w = (struct fm_json_writer){ .buf = buf, .cap = cap, .is_first = true };
}

void fm_jw_stream(struct fm_json_writer *w, FILE *to)
{
	*w = (struct fm_json_writer){.to = to, .is_first = true};
}

void fm_jw_keep(struct fm_json_writer *w, size_t bytes)
{
	w->kept = bytes;
}

/* More than the room may be taken: what is kept now may have been written to before. */
size_t fm_jw_room(const struct fm_json_writer *w)
{
	size_t taken = w->len + w->kept + 1;	/* the terminator */

	return taken < w->cap ? w->cap - taken : 0;
}

static void jw_raw(struct fm_json_writer *w, const char *text, size_t len)
{
	if (w->to) {
		(void)fwrite(text, 1, len, w->to); /* the stream knows of errors */
		return;
	}
	if (w->failed || len > fm_jw_room(w)) {
		w->failed = true;
		return;
	}
	memcpy(w->buf + w->len, text, len);
	w->len += len;
}

static void jw_str(struct fm_json_writer *w, const char *text)
{
	jw_raw(w, text, strlen(text));
}

/* A character that is not plain. One of more than four digits is two halves (RFC 8259, section 7),
 * so that no name is lost. */
static void jw_escape(struct fm_json_writer *w, const char *at, size_t len)
{
	const uint8_t *byte = (const uint8_t *)at;
	char escape[16];
	unsigned c = len == 1 ? byte[0] : byte[0] & (0x7fu >> len);

	for (size_t i = 1; i < len; i++)
		c = c << 6 | (byte[i] & 0x3f);
	/* always fits */
	if (c > 0xffff)
		(void)snprintf(escape, sizeof(escape), "\\u%04x\\u%04x", 0xd7c0 + (c >> 10),
			       0xdc00 + (c & 0x3ff));
	else
		(void)snprintf(escape, sizeof(escape), c == '\n' ? "\\n" : "\\u%04x", c);
	jw_str(w, escape);
}

/* One byte or character inside a string. */
static void jw_char(struct fm_json_writer *w, const char *at, size_t len)
{
	if (*at == '"' || *at == '\\')
		jw_raw(w, "\\", 1);
	if (fm_plain_len(at, len) > 0)
		jw_raw(w, at, len);
	else
		jw_escape(w, at, len);
}

/* Bytes that are no UTF-8 become question marks. */
static void jw_quoted(struct fm_json_writer *w, const char *text, size_t len)
{
	size_t n;

	jw_raw(w, "\"", 1);
	for (size_t i = 0; i < len; i += n ? n : 1) {
		n = fm_utf8_len(text + i, len - i);
		jw_char(w, n ? text + i : "?", n ? n : 1);
	}
	jw_raw(w, "\"", 1);
}

static void jw_key(struct fm_json_writer *w, const char *key)
{
	if (!w->is_first)
		jw_str(w, w->begins_line ? ",\n" : ",");
	w->is_first = w->begins_line = false;
	if (!key)
		return;
	jw_quoted(w, key, strlen(key));
	jw_raw(w, ":", 1);
}

static void jw_open(struct fm_json_writer *w, const char *key, const char *bracket)
{
	jw_key(w, key);
	jw_str(w, bracket);
	w->is_first = true;
}

static void jw_close(struct fm_json_writer *w, const char *bracket)
{
	jw_str(w, bracket);
	w->is_first = false;
}

void fm_jw_object(struct fm_json_writer *w, const char *key)
{
	jw_open(w, key, "{");
}

void fm_jw_object_end(struct fm_json_writer *w)
{
	jw_close(w, "}");
}

void fm_jw_array(struct fm_json_writer *w, const char *key)
{
	jw_open(w, key, "[");
}

void fm_jw_array_end(struct fm_json_writer *w)
{
	jw_close(w, "]");
}

void fm_jw_u64(struct fm_json_writer *w, const char *key, uint64_t v)
{
	char text[24];

	jw_key(w, key);
	v = v < INT64_MAX ? v : INT64_MAX;
	(void)snprintf(text, sizeof(text), "%" PRIu64, v);	/* always fits */
	jw_str(w, text);
}

void fm_jw_i64(struct fm_json_writer *w, const char *key, int64_t v)
{
	char text[24];

	jw_key(w, key);
	(void)snprintf(text, sizeof(text), "%" PRId64, v);	/* always fits */
	jw_str(w, text);
}

void fm_jw_real(struct fm_json_writer *w, const char *key, double v)
{
	char text[40];
	char *comma;

	assert(isfinite(v) && fabs(v) < 1e20);
	jw_key(w, key);
	(void)snprintf(text, sizeof(text), "%.9f", v);	/* fits, see the assertion */
	comma = strchr(text, ',');	/* what some locales put there */
	if (comma)
		*comma = '.';
	jw_str(w, text);
}

void fm_jw_bool(struct fm_json_writer *w, const char *key, bool v)
{
	jw_key(w, key);
	jw_str(w, v ? "true" : "false");
}

void fm_jw_null(struct fm_json_writer *w, const char *key)
{
	jw_key(w, key);
	jw_str(w, "null");
}

void fm_jw_u64_or_null(struct fm_json_writer *w, const char *key, uint64_t v, uint64_t none)
{
	if (v == none)
		fm_jw_null(w, key);
	else
		fm_jw_u64(w, key, v);
}

void fm_jw_text(struct fm_json_writer *w, const char *key, const char *text)
{
	jw_key(w, key);
	jw_quoted(w, text, strlen(text));
}

static void jw_base64(struct fm_json_writer *w, const uint8_t *in, size_t len)
{
	enum { PIECE = 48 }; /* bytes; of whole threes, so that only the last one is padded */
	char piece[FM_BASE64_ROOM(PIECE)];

	for (size_t at = 0; at < len; at += PIECE) {
		fm_base64_encode(FM_BASE64, in + at, len - at < PIECE ? len - at : PIECE, piece);
		jw_str(w, piece);
	}
}

void fm_jw_name(struct fm_json_writer *w, const char *key, const char *name, size_t len)
{
	jw_key(w, key);
	if (fm_is_utf8(name, len)) {
		jw_quoted(w, name, len);
		return;
	}
	jw_str(w, "{\"bytes\":\"");
	jw_base64(w, (const uint8_t *)name, len);
	jw_str(w, "\"}");
}

void fm_jw_line(struct fm_json_writer *w)
{
	w->begins_line = true;
}

void fm_jw_members(struct fm_json_writer *w, const char *object)
{
	size_t len = strlen(object);

	assert(len > 2 && object[0] == '{' && object[len - 1] == '}');
	jw_key(w, NULL);
	jw_raw(w, object + 1, len - 2);
}

int fm_jw_end(struct fm_json_writer *w)
{
	assert(!w->to);
	if (w->failed)
		return -EMSGSIZE;
	w->buf[w->len] = '\0';
	return (int)w->len;
}

/* ---- reading: struct fm_json is jansson's json_t ---- */

static const json_t *jansson(const struct fm_json *json)
{
	return (const json_t *)(const void *)json;
}

static struct fm_json *wrapped(const json_t *json)
{
	return (struct fm_json *)(uintptr_t)json;
}

int fm_json_parse(const char *text, size_t len, struct fm_json **out, struct fm_err *err)
{
	json_error_t why;
	json_t *json;

	json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
	if (!json && json_error_code(&why) == json_error_out_of_memory)
		return fm_err_set(err, -ENOMEM, "no memory for a JSON document");
	if (!json)
		return fm_err_set(err, -EINVAL, "not a JSON object: %s", why.text);
	if (!json_is_object(json)) {
		json_decref(json);
		return fm_err_set(err, -EINVAL, "not a JSON object");
	}
	*out = wrapped(json);
	return 0;
}

void fm_json_free(struct fm_json *json)
{
	json_decref((json_t *)(void *)json);
}

enum fm_json_type fm_json_type(const struct fm_json *json)
{
	switch (json_typeof(jansson(json))) {
	case JSON_OBJECT:
		return FM_JSON_OBJECT;
	case JSON_ARRAY:
		return FM_JSON_ARRAY;
	case JSON_STRING:
		return FM_JSON_TEXT;
	case JSON_INTEGER:
		return FM_JSON_INTEGER;
	case JSON_REAL:
		return FM_JSON_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return FM_JSON_BOOL;
	case JSON_NULL:
		break;
	}
	return FM_JSON_NULL;
}

const struct fm_json *fm_json_get(const struct fm_json *json, const char *key)
{
	return wrapped(json_object_get(jansson(json), key));
}

const struct fm_json *fm_json_at(const struct fm_json *json, size_t i)
{
	return wrapped(json_array_get(jansson(json), i));
}

size_t fm_json_count(const struct fm_json *json)
{
	return json_array_size(jansson(json));
}

int fm_json_each(const struct fm_json *json,
		 int (*each)(void *ctx, const char *key, const struct fm_json *value), void *ctx)
{
	json_t *object = (json_t *)(uintptr_t)json;	/* its iterator lacks the const */
	int ret = 0;

	for (void *at = json_object_iter(object); at && ret == 0;
	     at = json_object_iter_next(object, at))
		ret = each(ctx, json_object_iter_key(at), wrapped(json_object_iter_value(at)));
	return ret;
}

int fm_json_i64(const struct fm_json *json, int64_t *out)
{
	if (!json_is_integer(jansson(json)))
		return -EINVAL;
	*out = json_integer_value(jansson(json));
	return 0;
}

int fm_json_u64(const struct fm_json *json, uint64_t *out)
{
	int64_t v;

	if (fm_json_i64(json, &v) < 0 || v < 0)
		return -EINVAL;
	*out = (uint64_t)v;
	return 0;
}

int fm_json_real(const struct fm_json *json, double *out)
{
	if (!json_is_number(jansson(json)))
		return -EINVAL;
	*out = json_number_value(jansson(json));
	return 0;
}

int fm_json_bool(const struct fm_json *json, bool *out)
{
	if (!json_is_boolean(jansson(json)))
		return -EINVAL;
	*out = json_is_true(jansson(json));
	return 0;
}

int fm_json_text(const struct fm_json *json, const char **out)
{
	if (!json_is_string(jansson(json)))
		return -EINVAL;
	if (strlen(json_string_value(jansson(json))) != json_string_length(jansson(json)))
		return -EILSEQ;
	*out = json_string_value(jansson(json));
	return 0;
}

int fm_json_name(const struct fm_json *json, char *out, size_t cap, size_t *len)
{
	const char *text;
	size_t n = 0;
	int ret;

	if (json_is_object(jansson(json)) && json_object_size(jansson(json)) == 1) {
		ret = fm_json_text(fm_json_get(json, "bytes"), &text);
		if (ret == 0)
			ret = name_decode(text, out, cap - 1, &n);
		if (ret == 0 && memchr(out, '\0', n))
			ret = -EILSEQ;
	} else {
		ret = fm_json_text(json, &text);
		n = ret == 0 ? strlen(text) : 0;
		if (ret == 0 && n >= cap)
			ret = -ENAMETOOLONG;
		if (ret == 0)
			memcpy(out, text, n);
	}
	if (ret < 0)
		return ret;
	out[n] = '\0';
	*len = n;
	return 0;
}

/* ---- a whole object ---- */

static const char *type_name(enum fm_json_type type)
{
	static const char *const names[] = {
		[FM_JSON_OBJECT] = "object", [FM_JSON_ARRAY] = "array",
		[FM_JSON_TEXT] = "string",   [FM_JSON_INTEGER] = "integer",
		[FM_JSON_REAL] = "real",     [FM_JSON_BOOL] = "true or false",
		[FM_JSON_NULL] = "null",
	};

	return names[type];
}

static const char *value_name(const struct fm_json *value)
{
	if (fm_json_type(value) == FM_JSON_BOOL)
		return json_is_true(jansson(value)) ? "true" : "false";
	return type_name(fm_json_type(value));
}

static int read_key(const struct fm_json *object, const struct fm_json_key *k, struct fm_err *err)
{
	const struct fm_json *value = fm_json_get(object, k->key);
	int ret;

	if (!value && k->is_optional)
		return 0;
	if (!value)
		return fm_err_set(err, -EINVAL, "Object item not found: %s", k->key);
	if (!k->text)
		return 0;
	if (k->type == FM_JSON_TEXT)
		ret = fm_json_text(value, k->text);
	else if (k->type == FM_JSON_INTEGER)
		ret = fm_json_i64(value, k->integer);
	else
		ret = fm_json_bool(value, k->flag);
	if (ret == -EILSEQ)
		return fm_err_set(err, -EINVAL, "%s has a NUL byte in it", k->key);
	return ret < 0 ? fm_err_set(err, -EINVAL, "Expected %s, got %s", type_name(k->type),
				    value_name(value))
		       : 0;
}

struct unknown {
	const struct fm_json_key *keys;
	size_t count, unknown;
	char names[FM_ERR_TEXT_MAX];
};

static int note_unknown(void *ctx, const char *key, const struct fm_json *value)
{
	struct unknown *u = ctx;
	size_t len = strlen(u->names);

	(void)value;
	for (size_t i = 0; i < u->count; i++)
		if (strcmp(u->keys[i].key, key) == 0)
			return 0;
	/* what does not fit is cut */
	(void)snprintf(u->names + len, sizeof(u->names) - len, "%s%s", u->unknown++ ? ", " : "",
		       key);
	return 0;
}

int fm_json_read_keys(const struct fm_json *object, const struct fm_json_key *keys, size_t count,
		      struct fm_err *err)
{
	struct unknown u = { .keys = keys, .count = count };
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = read_key(object, &keys[i], err);
	if (ret < 0)
		return ret;
	(void)fm_json_each(object, note_unknown, &u);
	return u.unknown ? fm_err_set(err, -EINVAL, "%zu object item(s) left unpacked: %s",
				      u.unknown, u.names)
			 : 0;
}

/* ---- documents in memory ---- */

static json_t *editable(struct fm_json *json)
{
	return (json_t *)(void *)json;
}

struct fm_json *fm_json_object(void)
{
	return wrapped(json_object());
}

struct fm_json *fm_json_array(void)
{
	return wrapped(json_array());
}

struct fm_json *fm_json_of_text(const char *text)
{
	return wrapped(json_string(text));
}

struct fm_json *fm_json_of_i64(int64_t v)
{
	return wrapped(json_integer(v));
}

struct fm_json *fm_json_of_bool(bool v)
{
	return wrapped(json_boolean(v));
}

struct fm_json *fm_json_pack(const char *format, ...)
{
	va_list ap;
	json_t *json;

	va_start(ap, format);
	json = json_vpack_ex(NULL, 0, format, ap);
	va_end(ap);
	return wrapped(json);
}

int fm_json_unpack(const struct fm_json *json, const char *format, ...)
{
	va_list ap;
	int ret;

	va_start(ap, format);
	ret = json_vunpack_ex((json_t *)(uintptr_t)json, NULL, 0, format, ap);
	va_end(ap);
	return ret < 0 ? -EINVAL : 0;
}

int fm_json_vunpack_strict(const struct fm_json *json, struct fm_err *err, const char *format,
			   va_list ap)
{
	json_error_t why;

	if (json_vunpack_ex((json_t *)(uintptr_t)json, &why, JSON_STRICT, format, ap) == 0)
		return 0;
	return fm_err_set(err, -EINVAL, "%s", why.text);
}

int fm_json_unpack_strict(const struct fm_json *json, struct fm_err *err, const char *format, ...)
{
	va_list ap;
	int ret;

	va_start(ap, format);
	ret = fm_json_vunpack_strict(json, err, format, ap);
	va_end(ap);
	return ret;
}

struct fm_json *fm_json_load(const char *text)
{
	return wrapped(json_loads(text, JSON_REJECT_DUPLICATES, NULL));
}

char *fm_json_dump(const struct fm_json *json, enum fm_json_style style)
{
	static const size_t flags[] = {
		[FM_JSON_ONE_LINE] = JSON_COMPACT,
		[FM_JSON_ASCII] = JSON_COMPACT | JSON_ENSURE_ASCII,
		[FM_JSON_FILE] = JSON_INDENT(1),
		[FM_JSON_SORTED_FILE] = JSON_INDENT(1) | JSON_SORT_KEYS,
	};

	return json_dumps(jansson(json), flags[style]);
}

struct fm_json *fm_json_share(const struct fm_json *json)
{
	return wrapped(json_incref((json_t *)(uintptr_t)json));
}

struct fm_json *fm_json_copy(const struct fm_json *json)
{
	return wrapped(json_deep_copy(jansson(json)));
}

bool fm_json_is_equal(const struct fm_json *a, const struct fm_json *b)
{
	return json_equal(jansson(a), jansson(b));
}

struct fm_json *fm_json_part(struct fm_json *object, const char *key)
{
	return wrapped(json_object_get(jansson(object), key));
}

int fm_json_set(struct fm_json *object, const char *key, struct fm_json *value)
{
	return json_object_set_new(editable(object), key, editable(value));
}

int fm_json_set_all(struct fm_json *object, struct fm_json *others)
{
	return json_object_update_new(editable(object), editable(others));
}

int fm_json_delete(struct fm_json *object, const char *key)
{
	return json_object_del(editable(object), key);
}

int fm_json_add(struct fm_json *array, struct fm_json *value)
{
	return json_array_append_new(editable(array), editable(value));
}

int fm_json_add_all(struct fm_json *array, const struct fm_json *others)
{
	return json_array_extend(editable(array), (json_t *)(uintptr_t)others);
}

int fm_json_remove(struct fm_json *array, size_t i)
{
	return json_array_remove(editable(array), i);
}

void fm_json_clear(struct fm_json *json)
{
	(void)json_object_clear(editable(json)); /* one of them is for what it is */
	(void)json_array_clear(editable(json));
}

bool fm_json_is(const struct fm_json *json, enum fm_json_type type)
{
	return json && fm_json_type(json) == type;
}

bool fm_json_is_true(const struct fm_json *json)
{
	return json_is_true(jansson(json));
}

const char *fm_json_as_text(const struct fm_json *json)
{
	return json_string_value(jansson(json));
}

int64_t fm_json_as_i64(const struct fm_json *json)
{
	return json_integer_value(jansson(json));
}

size_t fm_json_member_count(const struct fm_json *object)
{
	return json_object_size(jansson(object));
}

bool fm_json_next(const struct fm_json *object, void **at, const char **key, struct fm_json **value)
{
	json_t *json = (json_t *)(uintptr_t)object; /* its iterator lacks the const */

	*at = *at ? json_object_iter_next(json, *at) : json_object_iter(json);
	if (!*at)
		return false;
	*key = json_object_iter_key(*at);
	*value = wrapped(json_object_iter_value(*at));
	return true;
}
