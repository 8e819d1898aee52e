/* SPDX-License-Identifier: MIT */
/* fields - see fields.h. */
#include "client/cli/fields.h"

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
