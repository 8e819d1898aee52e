/* SPDX-License-Identifier: MIT */
/*
 * fuzz_channel - any bytes as a message of a tree's channel, ask and answer: refused, or within
 * every limit of channel_msg.h.
 *
 * What is accepted is written again and must give the same bytes. The first byte says which of the
 * two it is.
 *
 * links: fm_tree
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/tree/channel_msg.h"
#include "mover/tree/pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
	if (!is_true)
		abort();
}

static void check_large(const struct fm_tree_large *l)
{
	check(fm_pack_is_good_path(l->path, strlen(l->path)));
	check(l->size <= (uint64_t)INT64_MAX && (l->mode & ~01777u) == 0 && l->fd == -1);
	check(strlen(l->id.node) <= FM_JOURNAL_NODE_MAX);
}

static void check_ask(const uint8_t *data, size_t size)
{
	static struct fm_channel_ask ask;
	static uint8_t again[FM_CHANNEL_ASK_MAX];

	if (size > sizeof(again) || fm_channel_get_ask(data, size, &ask) < 0)
		return;
	if (ask.op == FM_CHANNEL_CREATE_LARGE || ask.op == FM_CHANNEL_SEAL_LARGE)
		check_large(&ask.large);
	check(fm_channel_put_ask(&ask, again) == size && memcmp(again, data, size) == 0);
}

static void check_answer(const uint8_t *data, size_t size)
{
	static struct fm_tree_large larges[FM_CHANNEL_LARGES_MAX];
	static struct fm_channel_answer a;
	static uint8_t again[FM_CHANNEL_ANSWER_MAX];

	if (size > sizeof(again) || fm_channel_get_answer(data, size, &a) < 0)
		return;
	check(a.ret >= -4095 && a.ret <= (int64_t)FM_CHANNEL_PACK_MAX);
	check(a.text_len < FM_ERR_TEXT_MAX && a.note_len <= FM_CHANNEL_NOTE_MAX &&
	      a.need.count <= FM_TREE_OFFERS_MAX);
	check(a.larges_count <= FM_CHANNEL_LARGES_MAX && a.have.count <= FM_JOURNAL_PIECES_MAX);
	for (unsigned i = 0; i < a.larges_count; i++) {
		fm_channel_get_large(&a.larges_at, &larges[i]);
		check_large(&larges[i]);
	}
	a.larges = larges;
	check(fm_channel_put_answer(&a, again) == size && memcmp(again, data, size) == 0);
	fm_have_free(&a.have);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] & 1)
		check_ask(data + 1, size - 1);
	else
		check_answer(data + 1, size - 1);
	return 0;
}
