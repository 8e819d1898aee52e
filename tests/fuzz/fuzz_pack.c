/* SPDX-License-Identifier: MIT */
/*
 * fuzz_pack - any bytes as a pack of a tree: refused, or entries that keep every promise of pack.h.
 *
 * What is accepted is written again and must give the same bytes; its outline must tell the same
 * entries.
 *
 * links: fm_tree
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/tree/pack.h"
#include "mover/tree/tree.h"

#define LEN_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_entry(const struct fm_pack_entry *e)
{
	struct fm_pack_xattr x;
	size_t at = 0;
	int ret;

	check(e->path_len > 0 ? fm_pack_is_good_path(e->path, e->path_len)
			      : e->type == FM_PACK_DIR);
	check((e->mode & ~01777u) == 0);
	check(e->offset + e->data_len <= e->size || e->type != FM_PACK_FILE);
	check(e->type == FM_PACK_FILE || e->data_len == 0);
	do {
		ret = fm_pack_next_xattr(e, &at, &x);
		check(ret >= 0);
	} while (ret > 0);
	check(at == e->xattr_len);
}

/* Everything in the pack into w; -EBADMSG where the reader stops. */
static int write_again(struct fm_pack_reader *r, struct fm_pack_writer *w)
{
	struct fm_pack_entry e;
	int ret;

	while ((ret = fm_pack_next(r, &e)) > 0) {
		uint8_t *at;

		check_entry(&e);
		at = fm_pack_add(w, &e);
		if (e.data_len > 0)
			memcpy(at, e.data, e.data_len);
	}
	return ret;
}

static void check_outline(const uint8_t *pack, size_t len)
{
	static uint8_t outline[LEN_MAX] __attribute__((aligned(8)));
	size_t outline_len = fm_pack_outline_len(pack, len);
	struct fm_pack_reader r;
	struct fm_pack_entry e;
	int ret;

	check(outline_len <= len);
	fm_pack_outline(pack, len, outline, outline_len);
	check(fm_pack_open_outline(&r, outline, outline_len) == 0);
	do {
		ret = fm_pack_next(&r, &e);
		check(ret >= 0);
	} while (ret > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t again[LEN_MAX] __attribute__((aligned(8)));
	struct fm_pack_writer w;
	struct fm_pack_reader r;
	int ret;

	if (size > LEN_MAX)
		return 0;
	ret = fm_pack_open(&r, data, size);
	check(ret == 0 || ret == -EBADMSG);
	if (ret < 0)
		return 0;
	fm_pack_begin(&w, again, size, r.flags);
	ret = write_again(&r, &w);
	check(ret == 0 || ret == -EBADMSG);
	if (ret == 0) {
		check(fm_pack_end(&w) == size && memcmp(again, data, size) == 0);
		check_outline(data, size);
	}
	return 0;
}
