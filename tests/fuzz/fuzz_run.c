/* SPDX-License-Identifier: MIT */
/*
 * fuzz_run - any bytes as a message of a staging run: refused, or understood as exactly what they
 * say.
 *
 * links: fm_staging_run
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "staging/run/encode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t again[FM_RUN_BYTES_MAX];
	struct fm_run_msg m;
	int ret = fm_run_decode(data, size, &m);

	if (ret == -EBADMSG)
		return 0;
	if (ret != 0 || fm_run_encode(&m, again) != size || memcmp(again, data, size) != 0)
		abort();
	return 0;
}
