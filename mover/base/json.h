/* SPDX-License-Identifier: MIT */
/*
 * json - JSON for the local APIs, for daemons and their clients: a reader (on jansson, which only
 * nvmetcp includes besides, for documents that it changes) and a writer.
 *
 * The writer fills a buffer of its caller: no allocation, and one check at the end. Texts and names
 * are bytes of unknown origin: fm_jw_text() mends what is not UTF-8, fm_jw_name() keeps it exactly,
 * as {"bytes": BASE64}. The reader refuses duplicate keys and NUL in any string. Any thread.
 */
#ifndef FM_JSON_H
#define FM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mover/base/utf8.h"

struct fm_err;

/* ---- writing ---- */

struct fm_json_writer {
	char *buf;
	size_t cap;
	size_t len;
	size_t kept;		/* bytes at the end of the buffer that nothing is written to now */
	bool is_first;		/* nothing stands before in this object or array */
	bool failed;		/* it did not fit */
};

void fm_jw_begin(struct fm_json_writer *w, char *buf, size_t cap);

/*
 * From now on keep so many bytes free, for what has to come behind (0: none). What is longer than
 * fm_jw_room(), which may be none at all, does not fit.
 */
void fm_jw_keep(struct fm_json_writer *w, size_t bytes);
size_t fm_jw_room(const struct fm_json_writer *w);

/* key: NULL in arrays and for the outermost value. */
void fm_jw_object(struct fm_json_writer *w, const char *key);
void fm_jw_object_end(struct fm_json_writer *w);
void fm_jw_array(struct fm_json_writer *w, const char *key);
void fm_jw_array_end(struct fm_json_writer *w);

void fm_jw_u64(struct fm_json_writer *w, const char *key, uint64_t v);
void fm_jw_i64(struct fm_json_writer *w, const char *key, int64_t v);
void fm_jw_real(struct fm_json_writer *w, const char *key, double v);
void fm_jw_bool(struct fm_json_writer *w, const char *key, bool v);
void fm_jw_null(struct fm_json_writer *w, const char *key);
void fm_jw_text(struct fm_json_writer *w, const char *key, const char *text);
void fm_jw_name(struct fm_json_writer *w, const char *key, const char *name, size_t len);

/* Terminates. The length, or -EMSGSIZE. */
int fm_jw_end(struct fm_json_writer *w);

/* ---- reading ---- */

struct fm_json;

enum fm_json_type {
	FM_JSON_OBJECT,
	FM_JSON_ARRAY,
	FM_JSON_TEXT,
	FM_JSON_INTEGER,
	FM_JSON_REAL,
	FM_JSON_BOOL,
	FM_JSON_NULL
};

/* One object and nothing behind it. -EINVAL with the reason, -ENOMEM. */
int fm_json_parse(const char *text, size_t len, struct fm_json **out, struct fm_err *err);

/* NULL is allowed. Everything taken out of it dies with it. */
void fm_json_free(struct fm_json *json);

enum fm_json_type fm_json_type(const struct fm_json *json);

/*
 * The value of a key of an object, the i-th of an array; NULL if there is none (or json is NULL or
 * something else).
 */
const struct fm_json *fm_json_get(const struct fm_json *json, const char *key);
const struct fm_json *fm_json_at(const struct fm_json *json, size_t i);
size_t fm_json_count(const struct fm_json *json);

/*
 * Call each(ctx, key, value) for every member of an object until it returns other than 0, which is
 * returned.
 */
int fm_json_each(const struct fm_json *json,
		 int (*each)(void *ctx, const char *key, const struct fm_json *value), void *ctx);

/*
 * The value, or -EINVAL if it is of another type or out of range (json may be NULL). Text lives as
 * long as the document.
 */
int fm_json_u64(const struct fm_json *json, uint64_t *out);
int fm_json_i64(const struct fm_json *json, int64_t *out);
int fm_json_real(const struct fm_json *json, double *out);	/* integers too */
int fm_json_bool(const struct fm_json *json, bool *out);
int fm_json_text(const struct fm_json *json, const char **out);	/* -EILSEQ: it holds a NUL byte */

/*
 * A string or {"bytes": BASE64}, terminated in out, cap bytes with the terminator. -EINVAL, -EILSEQ
 * (NUL inside), -ENAMETOOLONG.
 */
int fm_json_name(const struct fm_json *json, char *out, size_t cap, size_t *len);

/*
 * One key of an object that is read whole: what it must be, and where it goes. With no place it is
 * known, and was read already.
 */
struct fm_json_key {
	const char *key;
	enum fm_json_type type;		/* FM_JSON_TEXT, FM_JSON_INTEGER, FM_JSON_BOOL */
	bool is_optional;		/* not there: its place stays as it is */
	union {
		const char **text;	/* lives as long as the document */
		int64_t *integer;
		bool *flag;
	};
};

/* Strictly: -EINVAL, with the key, for one that is missing, of another type, or none of these. */
int fm_json_read_keys(const struct fm_json *object, const struct fm_json_key *keys, size_t count,
		      struct fm_err *err);

#endif
