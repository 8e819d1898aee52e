/* SPDX-License-Identifier: MIT */
/*
 * json - JSON for the local APIs, for daemons and their clients: a writer, a reader, and documents
 * that are built and changed in memory. The last two stand on jansson, which nothing else includes.
 *
 * The writer fills a buffer of its caller, with one check at the end, or prints to a stream as it
 * goes: no allocation. Texts and names are bytes of unknown origin: fm_jw_text() mends what is not
 * UTF-8, fm_jw_name() keeps it exactly, as {"bytes": BASE64}. The reader refuses duplicate keys and
 * NUL in any string. Any thread.
 */
#ifndef FM_JSON_H
#define FM_JSON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "mover/base/utf8.h"

struct fm_err;

/* ---- writing ---- */

struct fm_json_writer {
	char *buf;
	size_t cap;
	size_t len;
	size_t kept;		/* bytes at the end of the buffer that nothing is written to now */
	FILE *to;		/* NULL: into buf */
	bool is_first;		/* nothing stands before in this object or array */
	bool begins_line;	/* what comes next does */
	bool failed;		/* it did not fit */
};

void fm_jw_begin(struct fm_json_writer *w, char *buf, size_t cap);

/* Of any length; there is nothing to end, and an error is the stream's. */
void fm_jw_stream(struct fm_json_writer *w, FILE *to);

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

/*
 * INT64_MAX stands for more: readers have signed numbers, and one that is none of theirs would cost
 * them the whole document. A peer may have said it.
 */
void fm_jw_u64(struct fm_json_writer *w, const char *key, uint64_t v);
/* v, or null where it is `none`, which stands for "not known" or "no limit". */
void fm_jw_u64_or_null(struct fm_json_writer *w, const char *key, uint64_t v, uint64_t none);
void fm_jw_i64(struct fm_json_writer *w, const char *key, int64_t v);
void fm_jw_real(struct fm_json_writer *w, const char *key, double v);
void fm_jw_bool(struct fm_json_writer *w, const char *key, bool v);
void fm_jw_null(struct fm_json_writer *w, const char *key);
void fm_jw_text(struct fm_json_writer *w, const char *key, const char *text);
void fm_jw_name(struct fm_json_writer *w, const char *key, const char *name, size_t len);

/* The next value begins a line, if one stands before it in its object or array. */
void fm_jw_line(struct fm_json_writer *w);

/* All members of an object that is JSON already, as they are. It has some. */
void fm_jw_members(struct fm_json_writer *w, const char *object);

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

/*
 * ---- documents in memory ----
 *
 * For one owner who builds them, changes them, keeps them and writes them whole. A value is shared:
 * fm_json_free() gives up one share. Whoever sets or adds a value gives its share away, in failure,
 * too. NULL is what no memory, or a value that is no UTF-8, left: everything here takes it, fails
 * with it, and passes it on, so that a caller asks once, at the end.
 */

struct fm_json *fm_json_object(void);
struct fm_json *fm_json_array(void);
struct fm_json *fm_json_of_text(const char *text);
struct fm_json *fm_json_of_i64(int64_t v);
struct fm_json *fm_json_of_bool(bool v);

/*
 * A document by its format, as jansson's json_pack(): {} an object, [] an array; s a text, also for
 * each key; i an int, I a long long, b an int that is a flag; o a value whose share is given away,
 * O one that is shared. s*, o* and O*: left out with its key if it is NULL.
 */
struct fm_json *fm_json_pack(const char *format, ...);

/*
 * A document's values by such a format, with o for a value that stays the document's. s? before a
 * key: it may be missing, and its place stays as it is. -EINVAL with the reason. Strictly: for a
 * key that the format lacks, too.
 */
int fm_json_unpack(const struct fm_json *json, const char *format, ...);
int fm_json_unpack_strict(const struct fm_json *json, struct fm_err *err, const char *format, ...);
int fm_json_vunpack_strict(const struct fm_json *json, struct fm_err *err, const char *format,
			   va_list ap);

/* An object or array and nothing behind it, with no NUL in any string; NULL for all else. */
struct fm_json *fm_json_load(const char *text);

/* A text for free(), or NULL. */
enum fm_json_style {
	FM_JSON_ONE_LINE,
	FM_JSON_ASCII,	    /* one line, with all that is not ASCII escaped */
	FM_JSON_FILE,	    /* for people: lines, indented */
	FM_JSON_SORTED_FILE /* the same, with the keys in order */
};
char *fm_json_dump(const struct fm_json *json, enum fm_json_style style);

/* One more share of it. A copy shares nothing. */
struct fm_json *fm_json_share(const struct fm_json *json);
struct fm_json *fm_json_copy(const struct fm_json *json);
bool fm_json_is_equal(const struct fm_json *a, const struct fm_json *b);

/* What fm_json_get() finds, of a document that may be changed. */
struct fm_json *fm_json_part(struct fm_json *object, const char *key);

/* All that change something: 0, or negative if they could not. */
int fm_json_set(struct fm_json *object, const char *key, struct fm_json *value);
int fm_json_set_all(struct fm_json *object, struct fm_json *others); /* the members of others */
int fm_json_delete(struct fm_json *object, const char *key);
int fm_json_add(struct fm_json *array, struct fm_json *value);
int fm_json_add_all(struct fm_json *array, const struct fm_json *others);
int fm_json_remove(struct fm_json *array, size_t i);
void fm_json_clear(struct fm_json *json);

/* What it holds, or what stands here if it is something else or NULL. */
bool fm_json_is(const struct fm_json *json, enum fm_json_type type); /* false */
bool fm_json_is_true(const struct fm_json *json);		     /* false */
const char *fm_json_as_text(const struct fm_json *json);	     /* NULL */
int64_t fm_json_as_i64(const struct fm_json *json);		     /* 0 */
size_t fm_json_member_count(const struct fm_json *object);	     /* 0 */

/* The next member of an object that does not change meanwhile; the first if *at is NULL. */
bool fm_json_next(const struct fm_json *object, void **at, const char **key,
		  struct fm_json **value);

#endif
