/* SPDX-License-Identifier: MIT */
/*
 * fuzz_about - any bytes as what a node says of a staging run, or asks and answers of datasets, or
 * of keeping them, or of who may read: refused, or understood as exactly what they say.
 *
 * links: fm_staging_service
 */
#include <stdlib.h>
#include <string.h>

#include "staging/service/about.h"
#include "staging/service/keep.h"
#include "staging/service/named.h"
#include "staging/service/there.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t again[FM_WIRE_STAGE_MAX];

static void check_same(const uint8_t *data, size_t size, size_t len)
{
	if (len != size || memcmp(data, again, len) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fm_stage_about about;
	static struct fm_stage_is is;
	static struct fm_stage_question question;
	static struct fm_stage_answer answer;
	static struct fm_stage_keep keep;
	static struct fm_stage_kept kept;
	static struct fm_stage_named named;
	char store[FM_WIRE_NAME_MAX + 1];

	if (size > FM_WIRE_STAGE_MAX)
		return 0;
	if (fm_stage_about_decode(data, size, &about) == 0)
		check_same(data, size, fm_stage_about_encode(&about, again));
	if (fm_stage_is_decode(data, size, &is) == 0)
		check_same(data, size, fm_stage_is_encode(&is, again));
	if (fm_stage_question_decode(data, size, &question) == 0)
		check_same(data, size, fm_stage_question_encode(&question, again));
	if (fm_stage_answer_decode(data, size, &answer) == 0)
		check_same(data, size, fm_stage_answer_encode(&answer, again));
	if (fm_stage_keep_decode(data, size, &keep) == 0)
		check_same(data, size, fm_stage_keep_encode(&keep, again));
	if (fm_stage_kept_decode(data, size, &kept) == 0)
		check_same(data, size, fm_stage_kept_encode(&kept, again));
	if (fm_stage_who_decode(data, size, store) == 0)
		check_same(data, size, fm_stage_who_encode(store, again));
	if (fm_stage_named_decode(data, size, &named) == 0)
		check_same(data, size, fm_stage_named_encode(&named, again));
	return 0;
}
