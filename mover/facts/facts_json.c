/* SPDX-License-Identifier: MIT */
/* facts_json - facts as a document and back. See facts.h. */
#include "mover/facts/facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/json.h"
#include "mover/base/err.h"
#include "mover/base/whole_file.h"

#define KEY_VERSION "fmove_facts"
#define KEY_UNKNOWN "unknown"

/* ---- writing ---- */

static void unknown_write(struct fm_json_writer *w, const char *key, const struct fm_fact *fact)
{
	fm_jw_object(w, key);
	fm_jw_text(w, KEY_UNKNOWN, fact->text ? fact->text : "");
	fm_jw_object_end(w);
}

static void fact_write(struct fm_json_writer *w, const struct fm_facts_row *row,
		       const struct fm_fact *fact)
{
	if (!fact->is_known)
		unknown_write(w, row->key, fact);
	else if (row->kind == FM_FACT_NUMBER)
		fm_jw_u64(w, row->key, fact->n);
	else if (row->kind == FM_FACT_BOOL)
		fm_jw_bool(w, row->key, fact->n != 0);
	else
		fm_jw_name(w, row->key, fact->text, strlen(fact->text));
}

static void item_write(struct fm_json_writer *w, struct fm_facts *facts,
		       const struct fm_facts_section *s, size_t i)
{
	fm_jw_object(w, s->max == 0 ? s->key : NULL);
	for (const struct fm_facts_row *row = s->rows; row->key; row++)
		fact_write(w, row, fm_facts_fact(facts, s, i, row));
	fm_jw_object_end(w);
}

static struct fm_fact *read_of(struct fm_facts *facts, const struct fm_facts_section *s)
{
	return (struct fm_fact *)(void *)((char *)facts + s->read_offset);
}

static void section_write(struct fm_json_writer *w, struct fm_facts *facts,
			  const struct fm_facts_section *s)
{
	if (s->max == 0) {
		item_write(w, facts, s, 0);
	} else if (!read_of(facts, s)->is_known) {
		unknown_write(w, s->key, read_of(facts, s));
	} else {
		fm_jw_array(w, s->key);
		for (size_t i = 0; i < fm_facts_count(facts, s); i++)
			item_write(w, facts, s, i);
		fm_jw_array_end(w);
	}
}

void fm_facts_put(struct fm_json_writer *w, const char *key, const struct fm_facts *facts)
{
	struct fm_facts *own = (struct fm_facts *)(uintptr_t)
		facts; /* the tables serve the reader, too; nothing is changed */

	fm_jw_object(w, key);
	fm_jw_u64(w, KEY_VERSION, FM_FACTS_VERSION);
	for (const struct fm_facts_section *s = fm_facts_sections; s->key; s++)
		section_write(w, own, s);
	fm_jw_u64(w, "left_out", facts->left_out);
	fm_jw_object_end(w);
}

int fm_facts_write(const struct fm_facts *facts, char *buf, size_t cap)
{
	struct fm_json_writer w;

	fm_jw_begin(&w, buf, cap);
	fm_facts_put(&w, NULL, facts);
	return fm_jw_end(&w);
}

/* ---- reading ---- */

/* {"unknown": REASON}, or not there at all. */
static bool is_unknown(const struct fm_json *value, const char **reason)
{
	*reason = "the document does not have it";
	if (!value)
		return true;
	if (fm_json_type(value) != FM_JSON_OBJECT)
		return false;
	return fm_json_text(fm_json_get(value, KEY_UNKNOWN), reason) == 0;
}

/* -EINVAL: not as its row says. */
static int fact_read(const struct fm_json *value, const struct fm_facts_row *row,
		     struct fm_fact *fact)
{
	char text[FM_FACT_TEXT_MAX];
	const char *reason;
	uint64_t n;
	size_t len;
	bool is;

	if (is_unknown(value, &reason)) {
		if (*reason)
			fm_fact_unknown(fact, "%s", reason);
		else
			fm_fact_drop(fact); /* it was not looked for */
		return 0;
	}
	if (row->kind == FM_FACT_NUMBER) {
		if (fm_json_u64(value, &n) < 0 || n > row->max)
			return -EINVAL;
		fm_fact_number(fact, n);
	} else if (row->kind == FM_FACT_BOOL) {
		if (fm_json_bool(value, &is) < 0)
			return -EINVAL;
		fm_fact_number(fact, is);
	} else {
		if (fm_json_name(value, text, sizeof(text), &len) < 0)
			return -EINVAL;
		fm_fact_text(fact, row->kind, text);
		if (!fact->is_known)
			return fact->text ? -EINVAL : -ENOMEM;
	}
	return 0;
}

static int item_read(const struct fm_json *json, struct fm_facts *facts,
		     const struct fm_facts_section *s, size_t i, struct fm_err *err)
{
	int ret;

	if (json && fm_json_type(json) != FM_JSON_OBJECT)
		return fm_err_set(err, -EINVAL, "%s: not an object", s->key);
	for (const struct fm_facts_row *row = s->rows; row->key; row++) {
		ret = fact_read(fm_json_get(json, row->key), row, fm_facts_fact(facts, s, i, row));
		if (ret < 0)
			return fm_err_set(err, ret, "%s.%s: not a value that this fact can have",
					  s->key, row->key);
	}
	return 0;
}

static int list_read(const struct fm_json *json, struct fm_facts *facts,
		     const struct fm_facts_section *s, struct fm_err *err)
{
	size_t count = fm_json_count(json),
	       *counted = (size_t *)(void *)((char *)facts + s->count_offset);
	const char *reason;
	int ret;

	if (is_unknown(json, &reason)) {
		fm_fact_unknown(read_of(facts, s), "%s", reason);
		return 0;
	}
	if (fm_json_type(json) != FM_JSON_ARRAY)
		return fm_err_set(err, -EINVAL, "%s: not an array", s->key);
	if (count > s->max)
		return fm_err_set(err, -EINVAL, "%s: has %zu entries, at most %zu are allowed",
				  s->key, count, s->max);
	fm_fact_number(read_of(facts, s), 1);
	for (size_t i = 0; i < count; i++) {
		*counted = i + 1;
		ret = item_read(fm_json_at(json, i), facts, s, i, err);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int version_check(const struct fm_json *json, struct fm_err *err)
{
	uint64_t version;

	if (fm_json_u64(fm_json_get(json, KEY_VERSION), &version) < 0 || version == 0)
		return fm_err_set(err, -EINVAL, "not a document of facts: \"%s\" is missing",
				  KEY_VERSION);
	if (version > FM_FACTS_VERSION)
		return fm_err_set(err, -EOPNOTSUPP,
				  "facts of version %llu, this fmove knows %d: use the fmove that "
				  "wrote them, or a newer one",
				  (unsigned long long)version, FM_FACTS_VERSION);
	return 0;
}

static int all_read(const struct fm_json *json, struct fm_facts *facts, struct fm_err *err)
{
	int ret = version_check(json, err);

	for (const struct fm_facts_section *s = fm_facts_sections; ret == 0 && s->key; s++)
		ret = s->max == 0 ? item_read(fm_json_get(json, s->key), facts, s, 0, err)
				  : list_read(fm_json_get(json, s->key), facts, s, err);
	if (ret == 0)
		(void)fm_json_u64(fm_json_get(json, "left_out"),
				  &facts->left_out); /* 0 if it is not there */
	return ret;
}

int fm_facts_parse(const char *text, size_t len, struct fm_facts **out, struct fm_err *err)
{
	struct fm_facts *facts;
	struct fm_json *json;
	int ret;

	if (len > FM_FACTS_BYTES_MAX)
		return fm_err_set(err, -E2BIG, "longer than %u bytes", FM_FACTS_BYTES_MAX);
	ret = fm_json_parse(text, len, &json, err);
	if (ret < 0)
		return ret;
	facts = fm_facts_new();
	ret = facts ? all_read(json, facts, err) : fm_err_set(err, -ENOMEM, "no memory for facts");
	fm_json_free(json);
	if (ret < 0) {
		fm_facts_free(facts);
		return ret;
	}
	*out = facts;
	return 0;
}

int fm_facts_load(const char *path, struct fm_facts **out, struct fm_err *err)
{
	char *text = NULL;
	size_t len;
	int ret = fm_whole_file(path, FM_FACTS_BYTES_MAX, &text, &len, err);

	if (ret == 0)
		ret = fm_facts_parse(text, len, out, err);
	free(text);
	if (ret < 0)
		(void)fm_err_wrap(err, "%s", path);
	return ret;
}
