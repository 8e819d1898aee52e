/* SPDX-License-Identifier: MIT */
/* fields - see fields.h. */
#include "client/cli/fields.h"

#include <stddef.h>
#include <string.h>

#include "mover/base/json.h"

const char *fm_field_text(const struct fm_json *json, const char *key)
{
	const char *text = "";

	(void)fm_json_text(fm_json_get(json, key), &text);
	return text;
}

uint64_t fm_field_u64(const struct fm_json *json, const char *key)
{
	uint64_t n = 0;

	(void)fm_json_u64(fm_json_get(json, key), &n);
	return n;
}

int64_t fm_field_i64(const struct fm_json *json, const char *key)
{
	int64_t n = 0;

	(void)fm_json_i64(fm_json_get(json, key), &n);
	return n;
}

bool fm_field_is(const struct fm_json *json, const char *key)
{
	bool is = false;

	(void)fm_json_bool(fm_json_get(json, key), &is);
	return is;
}

const struct fm_json *fm_field_find(const struct fm_json *array, const char *key_a, const char *a,
				    const char *key_b, const char *b)
{
	for (size_t i = 0; i < fm_json_count(array); i++) {
		const struct fm_json *at = fm_json_at(array, i);

		if (strcmp(fm_field_text(at, key_a), a) == 0 &&
		    strcmp(fm_field_text(at, key_b), b) == 0)
			return at;
	}
	return NULL;
}

double fm_field_rate(const struct fm_json *now, const struct fm_json *before, const char *key,
		     double seconds)
{
	uint64_t a = fm_field_u64(before, key), b = fm_field_u64(now, key);

	return before && b > a && seconds > 0 ? (double)(b - a) / seconds : 0;
}
