/* SPDX-License-Identifier: MIT */
/*
 * fuzz_config - any bytes as a configuration: loaded whole and consistent, or refused with a line that names the file.
 *
 * links: fm_config
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/check.h"
#include "config/config.h"
#include "mover/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fm_err err = { 0 };
	struct fm_config *cfg;

	if (fm_config_load_string((const char *)data, size, "fuzz.conf", &cfg, &err) < 0) {
		if (!strstr(err.text, "fuzz.conf"))
			abort();
		for (const char *c = err.text; *c; c++)
			if ((unsigned char)*c < ' ')
				abort();
		return 0;
	}
	if (fm_config_check(cfg, &err) < 0 || !cfg->node.name || !cfg->node.socket ||
	    cfg->memory.slab_bytes < cfg->mover.chunk_bytes)
		abort();
	fm_config_free(cfg);
	return 0;
}
