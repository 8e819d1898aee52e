/* SPDX-License-Identifier: MIT */
/*
 * fuzz_config - any bytes as a configuration: loaded whole and consistent, or refused with a line
 * that names the file. Its volumes are taken over by the supervisor without another word.
 *
 * links: fm_nvmed
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/check.h"
#include "config/config.h"
#include "mover/base/err.h"
#include "nvmetcp/daemon/volumes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_volumes(const struct fm_config *cfg)
{
	struct fm_volumes volumes;
	struct fm_err err = { 0 };

	if (fm_volumes_make(cfg, &volumes, &err) < 0 || volumes.count != cfg->volume_count)
		abort();
	for (unsigned i = 0; i < volumes.count; i++) {
		const struct fm_volume *v = &volumes.volume[i];

		if (!v->subsystem[0] || strchr(v->subsystem, ',') || v->address_count == 0 ||
		    !v->address[0].host[0] || strcmp(v->mount_point, "/") == 0)
			abort();
		if (v->mount_point[0] && v->mode != FM_VOLUME_READ_ONLY && !v->writer[0])
			abort();
	}
	fm_volumes_clear(&volumes);
}

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
	    (cfg->memory.slab_bytes && cfg->memory.slab_bytes < cfg->mover.chunk_bytes))
		abort();
	check_volumes(cfg);
	fm_config_free(cfg);
	return 0;
}
