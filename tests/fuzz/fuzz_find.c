/* SPDX-License-Identifier: MIT */
/*
 * fuzz_find - any bytes as a question of a node that looks for one to join, and as an answer:
 * refused, or the same bytes when encoded again, and no answer larger than a question.
 *
 * links: fm_join
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/join/find_msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t nonce[FM_FIND_NONCE_LEN], again[FM_FIND_LEN];
	struct fm_find_found found;

	if (fm_find_decode(data, size, nonce) == 0) {
		fm_find_encode(nonce, again);
		check(size == FM_FIND_LEN && memcmp(again, data, size) == 0);
	}
	if (fm_find_found_decode(data, size, &found) == 0) {
		check(found.name[0] && strlen(found.name) <= FM_JOIN_NAME_MAX);
		check(fm_find_found_encode(&found, again) == size);
		check(size <= FM_FIND_LEN && memcmp(again, data, size) == 0);
	}
	return 0;
}
