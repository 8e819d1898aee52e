/* SPDX-License-Identifier: MIT */
/* range_args - see range_args.h. */
#include "client/cli/range_args.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/value.h"
#include "mover/base/err.h"

#define NUMBER_MAX 64			/* bytes of a written one */

static int add(struct fm_range_args *r, uint64_t offset, uint64_t length, struct fm_err *err)
{
	struct fmove_range *grown;
	size_t cap = r->cap > 0 ? 2 * r->cap : 64;

	if (r->count == FM_RANGE_ARGS_MAX)
		return fm_err_set(err, -E2BIG, "more than %u ranges", FM_RANGE_ARGS_MAX);
	if (r->count == r->cap) {
		grown = realloc(r->at, cap * sizeof(*grown));
		if (!grown)
			return fm_err_set(err, -ENOMEM, "no memory for %zu ranges", cap);
		r->at = grown;
		r->cap = cap;
	}
	r->at[r->count++] = (struct fmove_range){offset, length};
	return 0;
}

/* Takes a number of len bytes. */
static int take_size(const char *text, size_t len, uint64_t *out)
{
	char number[NUMBER_MAX];

	if (len == 0 || len >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, len);
	number[len] = '\0';
	return fm_value_size_typed(number, out);
}

/* Takes a range of len bytes, its two numbers parted by one of `by`. */
static int add_text(struct fm_range_args *r, const char *text, size_t len, const char *by,
		    struct fm_err *err)
{
	size_t first = strcspn(text, by), second = first + 1;
	uint64_t offset, length = FMOVE_TO_END;

	if (*by == ' ' && first < len)
		second += strspn(text + second, by);
	if (first < len && second < len && take_size(text + second, len - second, &length) < 0)
		first = len;
	if (first >= len || take_size(text, first, &offset) < 0 || offset > INT64_MAX ||
	    (length != FMOVE_TO_END && length > (uint64_t)INT64_MAX - offset))
		return fm_err_set(err, -EINVAL, "\"%.*s\" is no range OFFSET%cLENGTH%s",
				  len < 80 ? (int)len : 80, text, *by,
				  *by == ':' ? " or OFFSET: (up to the end)" : "");
	return add(r, offset, length, err);
}

int fm_range_args_add(struct fm_range_args *r, const char *text, struct fm_err *err)
{
	int ret = 0;

	for (;;) {
		size_t len = strcspn(text, ",");

		ret = add_text(r, text, len, ":", err);
		if (ret < 0 || text[len] == '\0')
			return ret;
		text += len + 1;
	}
}

static int read_lines(struct fm_range_args *r, FILE *in, struct fm_err *err)
{
	char line[2 * NUMBER_MAX + 2];
	int ret = 0;

	for (unsigned n = 1; ret == 0 && fgets(line, sizeof(line), in); n++) {
		size_t len = strcspn(line, "\n");

		if (!line[len] && !feof(in))
			return fm_err_set(err, -EINVAL, "line %u is too long for a range", n);
		while (len > 0 && strchr(" \t\r", line[len - 1]))
			len--;
		line[len] = '\0';
		if (len > 0)
			ret = add_text(r, line, len, " \t", err);
		if (ret < 0)
			fm_err_wrap(err, "line %u", n);
	}
	return ret == 0 && ferror(in) ? fm_err_sys(err, -errno, "read") : ret;
}

int fm_range_args_read(struct fm_range_args *r, const char *path, struct fm_err *err)
{
	bool is_stdin = strcmp(path, "-") == 0;
	FILE *in = is_stdin ? stdin : fopen(path, "re");
	int ret;

	if (!in)
		return fm_err_sys(err, -errno, "open");
	ret = read_lines(r, in, err);
	if (!is_stdin)
		(void)fclose(in);	/* only read */
	if (ret == 0 && r->count == 0)
		ret = fm_err_set(err, -EINVAL, "there is no range in it");
	return ret;
}

void fm_range_args_free(struct fm_range_args *r)
{
	free(r->at);
}
