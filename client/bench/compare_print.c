/* SPDX-License-Identifier: MIT */
/* compare_print - see compare_print.h. */
#include "client/bench/compare_print.h"

#include <stdio.h>

#include "client/bench/compare.h"
#include "client/bench/page.h"
#include "client/cli/show.h"
#include "mover/base/err.h"
#include "mover/base/exit_code.h"

static void print_one(const char *file, const struct fm_bench_path *a,
		      const struct fm_bench_path *b)
{
	static const char *const words[] = {"slower", "no more than noise", "faster"};
	char rate[FM_SHOW_MAX];

	if (!b)
		(void)printf("  %-30s not measured\n", file);
	else if (a->invalid || b->invalid)
		(void)printf("  %-30s %10s  not to be compared: %s\n", file,
			     fm_show_rate(b->rates.median, rate),
			     fm_bench_invalid_word((a->invalid | b->invalid) &
						   -(a->invalid | b->invalid)));
	else
		(void)printf("  %-30s %10s  %+.1f %%, %s\n", file,
			     fm_show_rate(b->rates.median, rate),
			     100 * (b->rates.median / a->rates.median - 1),
			     words[fm_compare_rates(a, b) + 1]);
}

static int status_of(struct fm_bench *const *all, size_t count)
{
	for (unsigned i = 0; i < all[0]->path_count; i++)
		for (size_t k = 1; k < count; k++) {
			const struct fm_bench_path *first = &all[0]->paths[i],
						   *other = fm_compare_find(all[k], first);

			if (other && (first->invalid || other->invalid))
				return FM_EXIT_PARTLY;
		}
	return FM_EXIT_DONE;
}

static void print(char *const *files, struct fm_bench *const *all, size_t count)
{
	char name[FM_BENCH_TEXT_MAX], rate[FM_SHOW_MAX];

	for (unsigned i = 0; i < all[0]->path_count; i++) {
		const struct fm_bench_path *first = &all[0]->paths[i];

		(void)printf("%s\n  %-30s %10s\n", fm_bench_path_name(first, name), files[0],
			     fm_show_rate(first->rates.median, rate));
		for (size_t k = 1; k < count; k++)
			print_one(files[k], first, fm_compare_find(all[k], first));
	}
}

/* The status, or -errno. */
static int print_as(bool is_page, char *const *files, struct fm_bench *const *all, size_t count)
{
	int status = status_of(all, count), ret = 0;

	if (is_page)
		ret = fm_page_print((const char *const *)files,
				    (const struct fm_bench *const *)all, count, status);
	else
		print(files, all, count);
	return ret < 0 ? ret : status;
}

int fm_compare_print(char *const *files, size_t count, bool is_page, struct fm_err *err)
{
	struct fm_bench *all[FM_COMPARE_MAX] = {NULL};
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++) {
		ret = fm_bench_load(files[i], &all[i], err);
		if (ret == 0 && i > 0 && (ret = fm_compare_check(all[0], all[i], err)) < 0)
			(void)fm_err_wrap(err, "%s and %s", files[0], files[i]);
	}
	if (ret == 0 && (ret = print_as(is_page, files, all, count)) < 0)
		(void)fm_err_sys(err, ret, "print the comparison");
	for (size_t i = 0; i < count; i++)
		fm_bench_free(all[i]);
	return ret;
}
