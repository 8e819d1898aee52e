/* SPDX-License-Identifier: MIT */
/*
 * fields - the members of an answer, for printing: what is missing or of another type is "", 0 or
 * false. Any thread.
 */
#ifndef FM_CLIENT_FIELDS_H
#define FM_CLIENT_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

struct fm_json;

/* Lives as long as the document. */
const char *fm_field_text(const struct fm_json *json, const char *key);
uint64_t fm_field_u64(const struct fm_json *json, const char *key);
int64_t fm_field_i64(const struct fm_json *json, const char *key);
bool fm_field_is(const struct fm_json *json, const char *key);

/* The element of an array that has these texts under both keys. NULL: there is none. */
const struct fm_json *fm_field_find(const struct fm_json *array, const char *key_a, const char *a,
				    const char *key_b, const char *b);

/* By how much a count grew in a second between two answers; before may be NULL: 0, as for one that
 * did not grow. */
double fm_field_rate(const struct fm_json *now, const struct fm_json *before, const char *key,
		     double seconds);

#endif
