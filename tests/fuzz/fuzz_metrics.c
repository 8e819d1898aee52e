/* SPDX-License-Identifier: MIT */
/*
 * fuzz_metrics - a label of any bytes, and a header Accept. links: fm_metrics
 *
 * Whatever the bytes: the label is one line with two quotes that are not escaped, in UTF-8.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/utf8.h"
#include "mover/metrics/metrics.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_line(const char *text, size_t len)
{
	unsigned quotes = 0;

	assert(fm_is_utf8(text, len) && len > 0 && text[len - 1] == '\n');
	assert(memchr(text, '\n', len) == text + len - 1);
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\\')
			i++;
		else
			quotes += text[i] == '"';
	}
	assert(quotes == 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fm_metric table[] = {{"m", FM_METRIC_GAUGE, "h"}};
	static const char head[] = "# HELP m h\n# TYPE m gauge\n";
	char *bytes = calloc(1, size + 1), *text = NULL;
	const struct fm_metrics_label labels[] = {{"l", bytes}, {NULL, NULL}};
	struct fm_metrics *m = fm_metrics_new(table, 1);
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);

	if (!bytes || !m || !to)
		abort();
	memcpy(bytes, data, size);
	(void)fm_metrics_accepted(bytes);
	fm_metrics_add(m, 0, 1, labels);
	fm_metrics_write(m, FM_METRICS_TEXT, to);
	if (fclose(to) != 0)
		abort();
	assert(strncmp(text, head, strlen(head)) == 0);
	if (fm_metrics_left_out(m) == 0)
		check_line(text + strlen(head), len - strlen(head));
	fm_metrics_free(m);
	free(text);
	free(bytes);
	return 0;
}
