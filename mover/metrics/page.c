/* SPDX-License-Identifier: MIT */
/* page - see page.h. */
#include "mover/metrics/page.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "mover/base/fault.h"
#include "mover/metrics/process.h"

int fm_page_make(struct fm_metrics *m, unsigned first, const char *accept, char **body, size_t *len,
		 const char **type)
{
	enum fm_metrics_format format = fm_metrics_accepted(accept);
	FILE *to = FM_FAULT("metrics.page") ? NULL : open_memstream(body, len);
	bool is_whole;

	if (!to)
		return -ENOMEM;
	fm_metrics_add_process(m, first);
	fm_metrics_write(m, format, to);
	is_whole = !ferror(to);
	if (fclose(to) != 0 || !is_whole) {
		free(*body);
		return -ENOMEM;
	}
	*type = fm_metrics_content_type(format);
	return 0;
}
