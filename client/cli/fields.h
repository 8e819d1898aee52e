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

#endif
