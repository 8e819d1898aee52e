/* SPDX-License-Identifier: MIT */
/* xfer - see xfer.h. First the source: which chunk is next. Then the sink: which chunk is new. */
#include "mover/data/xfer.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mover/base/block.h"
#include "mover/base/budget.h"
#include "mover/base/crc32c.h"
#include "mover/base/env.h"
#include "mover/base/exit_code.h"
#include "mover/base/fault.h"
#include "mover/data/layout.h"
#include "mover/store/store.h"
#include "mover/transport/transport.h"
#include "mover/wire/wire.h"

/* smaller maps of chunks come from the heap, larger ones are pages touched on demand */
#define SEEN_SMALL_BYTES 4096u
#define SEEN_STEP 65536u		/* of these so much at a time is taken from the budget */
#define LOG_LOOK_BACK 32u
#define DAMAGED_MAX 65536u	/* stretches of what was there */
/* for lanes that have nothing to do while another one asks where data comes next */
#define LOOK_AGAIN_NS FM_NS_PER_MS

/* How many chunks a file of that size can have at most: holes may cut chunks as small as a
 * block. */
static uint64_t chunks_max(uint64_t size)
{
	uint64_t n;

	if (size == FM_SIZE_UNKNOWN)
		return FM_XFER_CHUNKS_MAX;
	n = size / FM_BLOCK + 1;
	return n < FM_XFER_CHUNKS_MAX ? n : FM_XFER_CHUNKS_MAX;
}

static int seen_new(struct fm_xfer *x, struct fm_err *err)
{
	x->seen_bytes = (size_t)((chunks_max(x->o.size) + 7) / 8);
	if (x->seen_bytes <= SEEN_SMALL_BYTES) {
		x->seen = FM_FAULT("xfer.seen") ? NULL : calloc(1, x->seen_bytes);
		return x->seen ? 0 : fm_err_sys(err, -ENOMEM, "allocate the map of chunks");
	}
	x->seen = FM_FAULT("xfer.seen") ? MAP_FAILED
					: mmap(NULL, x->seen_bytes, PROT_READ | PROT_WRITE,
					       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (x->seen == MAP_FAILED) {
		x->seen = NULL;
		return fm_err_sys(err, -ENOMEM, "map the list of chunks");
	}
	return 0;
}

/*
 * Takes memory of the budget for the bits of `seen` up to this chunk. Chunks come nearly in order
 * (fm_xfer_accept()), so only the bits below the furthest chunk are in memory.
 */
static bool seen_grow(struct fm_xfer *x, uint64_t seq)
{
	size_t end = (size_t)(seq / 8 / SEEN_STEP + 1) * SEEN_STEP;

	if (x->seen_bytes <= SEEN_SMALL_BYTES || end <= x->seen_taken)
		return true;
	if (!fm_budget_take(end - x->seen_taken))
		return false;
	x->seen_taken = end;
	return true;
}

static void seen_free(struct fm_xfer *x)
{
	fm_budget_give(x->seen_taken);
	if (x->seen && x->seen_bytes > SEEN_SMALL_BYTES)
		(void)munmap(x->seen, x->seen_bytes);	/* our own mapping: cannot fail */
	else
		free(x->seen);
}

/* Takes the memory beside the slots for a file that may block. */
static int beside_new(struct fm_xfer *x, struct fm_err *err)
{
	if (!x->o.file || !x->o.file->may_stand)
		return 0;
	return fm_beside_init(x, x->layout->places, x->o.who, err);
}

int fm_xfer_new(const struct fm_xfer_opts *opts, struct fm_xfer **out, struct fm_err *err)
{
	struct fm_xfer *x = FM_FAULT("xfer.new") ? NULL : fm_budget_alloc(sizeof(*x));
	int ret;

	if (!x)
		return fm_err_sys(err, -ENOMEM, "allocate the transfer");
	x->o = *opts;
	x->layout = fm_layout_of(opts->file);
	atomic_init(&x->refs, 1);
	fm_list_init(&x->link_at);
	fm_list_init(&x->source_at);
	fm_list_init(&x->landings);
	x->notify.run = opts->progressed;
	x->ended.run = opts->drained;
	fm_rate_set(&x->rate, opts->rate_bytes);
	if (opts->is_logged)
		x->log = FM_FAULT("xfer.log") ? NULL
					      : fm_budget_alloc(FM_XFER_LOG_MAX * sizeof(*x->log));
	if (opts->is_logged && !x->log) {
		fm_budget_free(x);
		return fm_err_sys(err, -ENOMEM, "allocate the list of what was written");
	}
	if (!opts->is_source && seen_new(x, err) < 0) {
		fm_budget_free(x->log);
		fm_budget_free(x);
		return -ENOMEM;
	}
	ret = beside_new(x, err);
	if (ret < 0) {
		seen_free(x);
		fm_budget_free(x->log);
		fm_budget_free(x);
		return ret;
	}
	if (opts->is_source && opts->size == 0)
		x->is_at_end = true;
	*out = x;
	return 0;
}

void fm_xfer_ref(struct fm_xfer *x)
{
	atomic_fetch_add_explicit(&x->refs, 1, memory_order_relaxed);
}

void fm_xfer_unref(struct fm_xfer *x)
{
	if (atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) == 1)
		fm_loop_post(x->o.control, &x->ended);
}

bool fm_xfer_has_io(const struct fm_xfer *x)
{
	return atomic_load_explicit(&x->refs, memory_order_acquire) > 1;
}

static void free_all(struct fm_again *a)
{
	struct fm_again *next;

	for (; a; a = next) {
		next = a->next;
		free(a);
	}
}

void fm_xfer_free(struct fm_xfer *x)
{
	assert(atomic_load(&x->refs) == 0 && x->is_removed && !x->notify.is_posted);
	free_all(x->again);
	free_all(x->later);
	fm_ranges_free(&x->have);
	fm_ranges_free(&x->damaged);
	fm_ranges_free(&x->wanted);
	seen_free(x);
	fm_beside_fini(x);
	fm_budget_free(x->log);
	fm_budget_free(x);
}

void fm_xfer_abandon(struct fm_xfer *x)
{
	assert(!x->link);
	atomic_store(&x->refs, 0);
	x->is_removed = true;
	fm_xfer_free(x);
}

static int place_in(const struct fm_xfer *x, enum fm_fill_state state);

/* Whether a chunk is read, or was and is not handed out yet. */
static bool is_filling(const struct fm_xfer *x)
{
	return place_in(x, FM_FILL_READING) >= 0 || place_in(x, FM_FILL_FULL) >= 0;
}

bool fm_xfer_is_sent(const struct fm_xfer *x)
{
	return x->is_at_end && !is_filling(x) && x->under_way == 0 && !x->again && !x->later &&
	       !x->is_rereading && x->wanted.count == 0 && !x->err.code;
}

void fm_xfer_tell_if_sent(struct fm_xfer *x)
{
	if (fm_xfer_is_sent(x) && !x->is_removed)
		fm_loop_post(x->o.control, &x->notify);
}

bool fm_xfer_must_look(struct fm_xfer *x, uint64_t *offset)
{
	if (!x->is_look_due || x->is_looking)
		return false;
	x->is_looking = true;
	*offset = x->next_offset;
	return true;
}

void fm_xfer_looked(struct fm_xfer *x, int ret, uint64_t from, uint64_t to)
{
	assert(x->is_look_due && x->is_looking);
	x->is_look_due = x->is_looking = false;
	x->has_looked = true;
	x->looked_from = from;
	x->looked_to = to;
	if (ret < 0)
		fm_xfer_fail(x, ret, "look for holes: %s", fm_err_name(ret));
}

int fm_xfer_set_have(struct fm_xfer *x, const struct fm_have *have)
{
	int ret;

	assert(x->have.count == 0 && x->chunks == 0 && x->next_seq == 0);
	/* A journal or a caller may say anything; READY says it to the peer. */
	if (have->ranges.count > FM_WIRE_RANGES_MAX || (have->ranges.count == 0 && have->crc != 0))
		return -EPROTO;
	for (size_t i = 0; i < have->ranges.count; i++) {
		const struct fm_range *r = &have->ranges.at[i];
		uint64_t end = r->offset + r->len;

		if (end > x->o.size || !fm_block_is_stretch(r->offset, end, x->o.size))
			return -EPROTO;
	}
	ret = fm_ranges_copy(&x->have, &have->ranges);
	if (ret < 0)
		return ret;
	x->have_bytes = fm_ranges_bytes(&x->have);
	x->is_rereading = x->have_bytes > 0;
	x->data_bytes += x->have_bytes;
	x->crc_parts ^= have->crc;
	if (x->o.is_source && x->have_bytes == x->o.size)
		x->is_at_end = true;
	return 0;
}

int fm_xfer_take_back(struct fm_xfer *x, uint64_t offset, uint64_t len, uint32_t crc)
{
	int ret;

	if (!x->is_rereading || !fm_ranges_cover(&x->have, offset, len) ||
	    fm_ranges_overlap(&x->damaged, offset, len))
		return -EPROTO;
	if (!fm_block_is_stretch(offset, offset + len, x->o.size))
		return -EPROTO;
	ret = fm_ranges_add(&x->damaged, offset, len, DAMAGED_MAX);
	if (ret == 0 && x->o.is_source)
		ret = fm_ranges_add(&x->wanted, offset, len, DAMAGED_MAX);
	if (ret < 0)
		return -ENOMEM;
	x->have_bytes -= len;
	x->data_bytes -= len;
	x->damaged_bytes += len;
	x->crc_parts ^= crc;
	return 0;
}

void fm_xfer_reread(struct fm_xfer *x, uint64_t bytes, bool is_over)
{
	x->reread_bytes = bytes;
	x->is_rereading = !is_over;
}

void fm_xfer_count_kept(struct fm_xfer *x, uint64_t offset, uint64_t len, const uint32_t *block)
{
	uint64_t block_bytes = fm_digest_block_bytes(x->o.size);

	for (uint64_t i = offset / block_bytes; i <= (offset + len - 1) / block_bytes; i++)
		x->block_crc[i] ^= block[i];
}

int fm_xfer_take_kept(struct fm_xfer *x, uint64_t reread, bool is_over,
		      const struct fm_written *damaged)
{
	bool is_possible = reread >= x->reread_bytes && reread <= fm_ranges_bytes(&x->have);
	int ret = x->is_rereading && is_possible ? 0 : -EPROTO;

	if (ret == 0 && damaged->len > 0)
		ret = fm_xfer_take_back(x, damaged->offset, damaged->len, damaged->crc);
	if (ret == 0)
		fm_xfer_reread(x, reread, is_over);
	return ret;
}

/* The next chunk of a range that was there and turned out to be damaged. */
static bool next_wanted(struct fm_xfer *x, struct fm_chunk *out)
{
	struct fm_range *r = x->wanted.at;
	uint64_t grid_end, len;

	if (x->wanted.count == 0)
		return false;
	grid_end = (r->offset / x->o.chunk_bytes + 1) * x->o.chunk_bytes;
	len = grid_end - r->offset < r->len ? grid_end - r->offset : r->len;
	*out = (struct fm_chunk){ .seq = x->next_seq++, .offset = r->offset, .len = (uint32_t)len };
	r->offset += len;
	r->len -= len;
	if (r->len == 0)
		memmove(r, r + 1, --x->wanted.count * sizeof(*r));
	return true;
}

/*
 * Whether the transfer uses one connection at a time. A stream is read and written one chunk after
 * another, so several connections gain nothing. One keeps the data in the caches of one lane.
 */
static bool is_bound_kind(const struct fm_xfer *x)
{
	return x->o.is_ordered || x->layout->is_in_order;
}

/*
 * Whether the transfer is bound to a connection of a kind that may not carry it any more (a better
 * one came up), with nothing under way there.
 */
static bool is_bound_in_vain(const struct fm_xfer *x)
{
	return x->bound_to && !(x->o.kinds & 1u << x->bound_kind) && x->under_way == 0;
}

static bool may_bind(const struct fm_xfer *x, const void *who)
{
	return !is_bound_kind(x) || !x->bound_to || x->bound_to == who || is_bound_in_vain(x);
}

/* The first connection that gets a chunk of it gets the next ones. */
static void bind_to(struct fm_xfer *x, const void *who, unsigned kind)
{
	if (!is_bound_kind(x))
		return;
	x->bound_to = who;
	x->bound_kind = kind;
}

static bool may_join(const struct fm_xfer *x, const void *who)
{
	for (unsigned i = 0; i < x->o.only.conns; i++)
		if (!x->carriers[i] || x->carriers[i] == who)
			return true;
	return x->o.only.conns == 0;
}

/* A place that a connection left is the next one's. A sink lets none in, but counts all. */
static void join(struct fm_xfer *x, const void *who)
{
	unsigned i = 0, places = x->o.is_source ? x->o.only.conns : FM_ONLY_CONNS_MAX;

	while (i < places && x->carriers[i] != who)
		i++;
	if (i < places)
		return;
	for (i = 0; i < places && x->carriers[i];)
		i++;
	if (i == places)
		return;
	x->carriers[i] = who;
	x->joined++;
}

/* Whether that connection is one that may carry it. */
static bool may_carry(const struct fm_xfer *x, const struct fm_claim *c)
{
	return x->o.kinds & 1u << c->kind && fm_only_takes(&x->o.only, c->info) &&
	       may_join(x, c->who) && may_bind(x, c->who);
}

void fm_xfer_unbind(struct fm_xfer *x, const void *who)
{
	if (x->bound_to == who)
		x->bound_to = NULL;
	for (unsigned i = 0; i < x->o.only.conns; i++)
		if (x->carriers[i] == who)
			x->carriers[i] = NULL;
	for (unsigned i = 0; i < x->beside.count; i++)
		if (x->fill[i].who == who)
			x->fill[i].who = NULL;
}

/*
 * A sink that may block has memory for a limited number of chunks; the window says how far the
 * source may go. A stream is read before the sink says whether it may come.
 */
static bool is_in_window(const struct fm_xfer *x)
{
	return !x->o.is_windowed || x->layout->is_in_order || x->next_seq < x->o.window;
}

/* Of the places in that state, the one with the earliest chunk; -1: there is none. */
static int place_in(const struct fm_xfer *x, enum fm_fill_state state)
{
	int found = -1;

	for (unsigned i = 0; x->o.is_source && i < x->beside.count; i++)
		if (x->fill[i].state == state &&
		    (found < 0 || x->filling[i].seq < x->filling[found].seq))
			found = (int)i;
	return found;
}

/* The empty place that was used last: its memory is still in the caches. -1: there is none. */
static int empty_place(const struct fm_xfer *x)
{
	int found = -1;

	for (unsigned i = 0; x->o.is_source && i < x->beside.count; i++)
		if (x->fill[i].state == FM_FILL_EMPTY &&
		    (found < 0 || x->filling[i].seq > x->filling[found].seq))
			found = (int)i;
	return found;
}

/* The place of the chunk that was read and is to be sent next; -1: none may be. */
static int place_to_send(const struct fm_xfer *x)
{
	int place = place_in(x, FM_FILL_FULL);

	if (place < 0 || (x->o.is_windowed && x->filling[place].seq >= x->o.window))
		return -1;
	return place;
}

/* Whether there is a next chunk, of packs: whether there may be. */
static bool has_next(const struct fm_xfer *x)
{
	if (x->beside.count > 0)
		return place_to_send(x) >= 0;
	if (x->again || (is_in_window(x) && x->wanted.count > 0))
		return true;
	return !x->is_starved && (x->later || (is_in_window(x) && !x->is_at_end));
}

bool fm_xfer_has_work(const struct fm_xfer *x, const struct fm_claim *c)
{
	return !x->err.code && may_carry(x, c) && has_next(x);
}

/*
 * Whether a connection has its share of the chunks that are left: half of an even share, but at
 * least two, so that one is read while one is sent.
 */
static bool has_its_share(const struct fm_xfer *x, const struct fm_claim *c)
{
	unsigned only = x->o.only.conns, conns = only && only < c->conns ? only : c->conns;
	uint64_t left, share;

	if (x->o.size == FM_SIZE_UNKNOWN || conns < 2 || !c->held)
		return false;
	left = (x->o.size - x->next_offset) / x->o.chunk_bytes + 1;
	share = left / (2 * conns);
	if (share >= FM_WIRE_SLOTS_MAX)
		return false;
	return c->held(c->who, x) >= (share > 2 ? share : 2);
}

static struct fm_rate *rate_of(struct fm_xfer *x)
{
	return x->o.rate_of ? &x->o.rate_of->rate : &x->rate;
}

static bool pop(struct fm_again **from, struct fm_chunk *out)
{
	struct fm_again *a = *from;

	if (!a)
		return false;
	*from = a->next;
	*out = a->chunk;
	free(a);
	return true;
}

static bool push(struct fm_again **to, const struct fm_chunk *chunk)
{
	struct fm_again *a = FM_FAULT("xfer.again") ? NULL : malloc(sizeof(*a));

	if (!a)
		return false;
	a->chunk = *chunk;
	a->next = *to;
	*to = a;
	return true;
}

/*
 * Takes the next chunk: a lost one first. A lost pack can be made again at once, even while the
 * tree has no new pack.
 */
static bool take_chunk(struct fm_xfer *x, const struct fm_claim *c, struct fm_chunk *out)
{
	if (pop(&x->again, out) || (is_in_window(x) && next_wanted(x, out)))
		return true;
	if (x->is_starved || has_its_share(x, c))
		return false;
	return pop(&x->later, out) || (is_in_window(x) && x->layout->next(x, out));
}

/* The next chunk to read. */
static bool next_to_read(struct fm_xfer *x, const struct fm_claim *c, struct fm_chunk *out,
			 uint64_t *again_ns)
{
	if (!take_chunk(x, c, out)) {
		if (x->is_looking && c->now_ns + LOOK_AGAIN_NS < *again_ns)
			*again_ns = c->now_ns + LOOK_AGAIN_NS;
		return false;
	}
	if (x->layout->is_made)
		out->len = x->o.chunk_bytes;	/* one that is made again may come out longer */
	out->fed = x->fed;
	return true;
}

/* Takes a chunk that was read beforehand. */
static bool take_filled(struct fm_xfer *x, struct fm_chunk *out)
{
	int place = place_to_send(x);

	if (place < 0)
		return false;
	x->fill[place].state = FM_FILL_TAKEN;
	*out = x->filling[place];
	out->place = (unsigned)place;
	return true;
}

bool fm_xfer_claim(struct fm_xfer *x, const struct fm_claim *c, struct fm_chunk *out,
		   uint64_t *again_ns)
{
	uint64_t when;

	assert(x->o.is_source);
	if (x->err.code || !may_carry(x, c))
		return false;
	if (x->o.share && c->has_share && !c->has_share(c->who, x))
		return false;
	when = fm_rate_when(rate_of(x), c->now_ns);
	if (when) {
		if (when < *again_ns)
			*again_ns = when;
		return false;
	}
	if (x->beside.count > 0 ? !take_filled(x, out) : !next_to_read(x, c, out, again_ns))
		return false;
	bind_to(x, c->who, c->kind);
	join(x, c->who);
	fm_rate_take(rate_of(x), out->len, c->now_ns);
	x->under_way++;
	return true;
}

bool fm_xfer_fill(struct fm_xfer *x, const struct fm_claim *c, unsigned *place, uint64_t *again_ns)
{
	int at = empty_place(x);

	if (at < 0 || x->err.code)
		return false;
	/* It is not bound by that: the first connection that has room for the chunk gets it. */
	if (!may_carry(x, c))
		return false;
	if (!next_to_read(x, c, &x->filling[at], again_ns))
		return false;
	x->fill[at] = (struct fm_fill){ .state = FM_FILL_READING, .who = c->who, .kind = c->kind };
	*place = (unsigned)at;
	return true;
}

/* Whether there is something to send. */
static bool take_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res)
{
	return !x->is_removed && !x->err.code && x->layout->read(x, chunk, res);
}

void fm_xfer_filled(struct fm_xfer *x, unsigned place, int64_t res)
{
	assert(x->fill[place].state == FM_FILL_READING);
	x->fill[place].state = FM_FILL_EMPTY;
	if (take_read(x, &x->filling[place], res))
		x->fill[place].state = FM_FILL_FULL;
}

bool fm_xfer_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res)
{
	uint32_t asked = chunk->len;
	bool is_there;

	assert(x->under_way > 0);
	x->under_way--;		/* there may be none, and that may be the end */
	is_there = take_read(x, chunk, res);
	x->under_way += is_there;
	/* What is made again was made once more for one claim. Whose rate a removed one had may be
	 * freed. */
	if (!chunk->is_again && !x->is_removed)
		fm_rate_give(rate_of(x), asked - (is_there ? chunk->len : 0));
	return is_there;
}

void fm_xfer_put_off(struct fm_xfer *x, const struct fm_chunk *chunk)
{
	x->is_starved = chunk->fed == x->fed;
	if (!push(&x->later, chunk))
		fm_xfer_fail(x, -ENOMEM, "allocate a chunk to make later");
}

static void set_taken_to(struct fm_xfer *x, unsigned place, enum fm_fill_state state)
{
	assert(x->fill[place].state == FM_FILL_TAKEN);
	x->fill[place].state = state;
}

/* Whether a chunk stays in its place until the far end has it, because nobody can read it again. */
static bool is_kept(const struct fm_xfer *x)
{
	return x->o.is_source && x->layout->is_in_order;
}

void fm_xfer_copied(struct fm_xfer *x, unsigned place)
{
	if (!is_kept(x))
		set_taken_to(x, place, FM_FILL_EMPTY);
}

void fm_xfer_feed(struct fm_xfer *x)
{
	x->fed++;
	x->is_starved = false;
}

static void count(struct fm_xfer *x, const struct fm_chunk *c, const struct fm_conn_info *by)
{
	uint32_t part = fm_crc32c_part(c->crc, c->offset, c->len);

	x->chunks++;
	x->data_bytes += c->len;
	x->crc_parts ^= part;
	/* A size that is not known yet, or chunks larger than blocks. */
	if (x->o.size == FM_SIZE_UNKNOWN || x->o.chunk_bytes > FM_DIGEST_BLOCK_MIN)
		x->has_no_blocks = true;
	else
		x->block_crc[c->offset / fm_digest_block_bytes(x->o.size)] ^= part;
	x->kind_bytes[by->kind] += c->len;
	x->encryption_bytes[by->encryption] += c->len;
	x->direct_bytes += c->is_direct ? c->len : 0;
	if (!x->o.is_source && x->o.only.conns > 0)
		join(x, by);
}

void fm_xfer_acked(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by)
{
	assert(x->under_way > 0);
	x->under_way--;
	count(x, chunk, by);
	if (is_kept(x))
		set_taken_to(x, chunk->place, FM_FILL_EMPTY);
	fm_xfer_feed(x);
	fm_xfer_tell_if_sent(x);
	if (is_bound_in_vain(x) && !x->is_removed)
		/* connections of the other kind are to be woken */
		fm_loop_post(x->o.control, &x->notify);
}

void fm_xfer_lost(struct fm_xfer *x, const struct fm_chunk *chunk)
{
	assert(x->under_way > 0);
	x->under_way--;
	x->resent_bytes += chunk->len;
	if (!x->is_removed)
		/* all connections are to be woken */
		fm_loop_post(x->o.control, &x->notify);
	if (is_kept(x)) {
		x->filling[chunk->place] = *chunk;
		set_taken_to(x, chunk->place, FM_FILL_FULL);
	} else if (!push(&x->again, chunk)) {
		fm_xfer_fail(x, -ENOMEM, "allocate a chunk to send again");
	}
}

void fm_xfer_dropped(struct fm_xfer *x)
{
	assert(x->under_way > 0);
	x->under_way--;
}

bool fm_xfer_refused(struct fm_xfer *x, struct fm_chunk *chunk, bool is_busy)
{
	unsigned long long offset = chunk->offset;

	x->corrupt_chunks += !is_busy;
	x->resent_bytes += chunk->len;
	if (is_busy && ++chunk->busy_count >= FM_XFER_BUSY_MAX)
		fm_xfer_fail(x, -ETIMEDOUT,
			     "the far end asks for the chunk at byte %llu again and again, since "
			     "it looks at another copy of it",
			     offset);
	else if (!is_busy && ++chunk->corrupt_count >= FM_XFER_CORRUPT_MAX)
		fm_xfer_fail(
			x, -EBADMSG,
			"the chunk at byte %llu arrived damaged %d times: check the memory and the "
			"network of both nodes",
			offset, FM_XFER_CORRUPT_MAX);
	else
		return false;
	return true;
}

static bool is_seen(const struct fm_xfer *x, uint64_t seq)
{
	return x->seen[seq / 8] & 1u << seq % 8;
}

static bool is_cut(const struct fm_xfer *x, const struct fm_chunk *c)
{
	return x->layout->ends_on_blocks && (c->offset + c->len) % FM_BLOCK != 0;
}

/*
 * Checks the end of a chunk. Only the last chunk of a file may end off a block boundary. If the
 * size is not known yet, the first such chunk tells it.
 */
static int accept_end(struct fm_xfer *x, const struct fm_chunk *c)
{
	uint64_t end = c->offset + c->len;

	if (x->o.size != FM_SIZE_UNKNOWN)
		return end > x->o.size || (is_cut(x, c) && end != x->o.size) ? -ERANGE : 0;
	if (x->odd_end)
		return end > x->odd_end || (is_cut(x, c) && end != x->odd_end) ? -ERANGE : 0;
	if (is_cut(x, c))
		x->odd_end = end;
	return 0;
}

int fm_xfer_accept(struct fm_xfer *x, const struct fm_chunk *c)
{
	int ret;

	assert(!x->o.is_source);
	if (x->err.code)
		return -ECANCELED;
	if (c->seq >= x->chunks + FM_XFER_SEQ_AHEAD)
		return -ERANGE;
	if (c->seq >= x->seen_bytes * 8)
		return c->seq < FM_XFER_CHUNKS_MAX ? -ERANGE : -ENOMEM;
	if (c->len == 0 || c->len > x->o.chunk_bytes || c->offset > FM_SIZE_LIMIT - c->len)
		return -ERANGE;
	if (x->layout->begins_on_blocks && c->offset % FM_BLOCK != 0)
		return -ERANGE;
	ret = accept_end(x, c);
	if (ret < 0 || x->beside.count == 0)
		return ret;
	return is_seen(x, c->seq) ? -EALREADY : fm_drain_accept(x, c);
}

int fm_xfer_land(struct fm_xfer *x, const struct fm_chunk *c, struct fm_landing *l)
{
	int ret = x->is_removed ? -ECANCELED : fm_xfer_accept(x, c);

	assert(x->o.file->place && x->beside.count == 0);
	if (ret < 0)
		return ret;
	if (is_seen(x, c->seq))
		return -EALREADY;
	fm_list_each(at, next, &x->landings)
		if (fm_container_of(at, struct fm_landing, at)->seq == c->seq)
			return -EAGAIN;
	l->x = x;
	l->seq = c->seq;
	fm_list_append(&x->landings, &l->at);
	return 0;
}

void fm_xfer_landed(struct fm_landing *l)
{
	fm_list_del(&l->at);
	l->x = NULL;
}

/*
 * Chunks come nearly in order, so almost every one continues a stretch that was logged lately: few
 * stretches say it all, however fast the bytes come.
 */
static void log_written(struct fm_xfer *x, const struct fm_chunk *c)
{
	uint32_t crc = fm_crc32c_part(c->crc, c->offset, c->len);
	size_t oldest = x->log_count > LOG_LOOK_BACK ? x->log_count - LOG_LOOK_BACK : 0;

	for (size_t i = x->log_count; i-- > oldest;) {
		struct fm_written *w = &x->log[i];

		if (w->offset + w->len != c->offset && c->offset + c->len != w->offset)
			continue;
		if (w->len + c->len > FM_JOURNAL_PIECE_BYTES)
			continue;
		w->offset = w->offset < c->offset ? w->offset : c->offset;
		w->len += c->len;
		w->crc ^= crc;
		return;
	}
	if (x->log_count < FM_XFER_LOG_MAX)
		x->log[x->log_count++] =
			(struct fm_written){.offset = c->offset, .len = c->len, .crc = crc};
}

/*
 * Whether a chunk that was accepted lies beyond the end. The size may not have been known then: in
 * a get, chunks may overtake FOUND.
 */
static bool is_beyond_end(const struct fm_xfer *x, const struct fm_chunk *c)
{
	uint64_t end = c->offset + c->len;

	if (x->o.size == FM_SIZE_UNKNOWN)
		return false;
	return end > x->o.size || (is_cut(x, c) && end != x->o.size);
}

bool fm_xfer_came(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by)
{
	if (is_beyond_end(x, chunk)) {
		fm_xfer_fail(x, -EPROTO, "the peer sent byte %llu of a file of %llu bytes",
			     (unsigned long long)(chunk->offset + chunk->len - 1),
			     (unsigned long long)x->o.size);
		return false;
	}
	if (is_seen(x, chunk->seq)) {
		x->resent_bytes += chunk->len;
		return false;
	}
	if (!seen_grow(x, chunk->seq)) {
		fm_xfer_fail(x, -ENOMEM,
			     "no memory to remember that chunk number %llu came: give memory.total "
			     "a larger value, or mover.chunk at both nodes",
			     (unsigned long long)chunk->seq);
		return false;
	}
	x->seen[chunk->seq / 8] |= (uint8_t)(1u << chunk->seq % 8);
	count(x, chunk, by);
	return true;
}

void fm_xfer_note_written(struct fm_xfer *x, const struct fm_chunk *chunk)
{
	/* Of what was there the journal says already that it is, and will again be right. */
	if (x->log && !fm_ranges_overlap(&x->damaged, chunk->offset, chunk->len))
		log_written(x, chunk);
}

void fm_xfer_written(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by)
{
	if (fm_xfer_came(x, chunk, by))
		fm_xfer_note_written(x, chunk);
}

bool fm_xfer_read_wrong(struct fm_xfer *x, const struct fm_chunk *chunk, bool is_heard)
{
	x->corrupt_chunks++;
	if (is_heard && !is_seen(x, chunk->seq))
		return true;
	fm_xfer_fail(x, -EBADMSG,
		     "the disk gives back other bytes than were written to it: %u bytes at byte "
		     "%llu, and a connection that brought them broke meanwhile",
		     chunk->len, (unsigned long long)chunk->offset);
	return false;
}

size_t fm_xfer_take_log(struct fm_xfer *x, struct fm_written *out)
{
	size_t count = x->log_count;

	if (count > 0)
		memcpy(out, x->log, count * sizeof(*out));
	x->log_count = 0;
	return count;
}

struct fm_written *fm_xfer_steal_log(struct fm_xfer *x, size_t *count)
{
	struct fm_written *log = x->log;

	*count = x->log_count;
	x->log = NULL;
	x->log_count = 0;
	return log;
}

void fm_xfer_fail(struct fm_xfer *x, int code, const char *fmt, ...)
{
	va_list ap;

	assert(code < 0);
	if (x->err.code)
		return;
	x->err.code = code;
	va_start(ap, fmt);
	/* a cut text is still a text */
	(void)vsnprintf(x->err.text, sizeof(x->err.text), fmt, ap);
	va_end(ap);
	if (!x->is_removed)
		fm_loop_post(x->o.control, &x->notify);
}

/* A socket may be reset, a server not answer: that is no word of the peer. */
static bool means_peer(int code)
{
	enum fm_exit status = fm_api_exit(code);

	return status == FM_EXIT_UNREACHABLE || status == FM_EXIT_CANCELLED;
}

/* The advice that is added to an error text, or "". */
static const char *advice(int code)
{
	if (code != -ENOSPC && code != -EDQUOT)
		return "";
	return "; make room there: fmove df shows what stores have, fmove purge removes what they "
	       "keep aside";
}

void fm_xfer_fail_io(struct fm_xfer *x, int code, const char *what, uint64_t offset)
{
	struct fm_file *file = x->o.file;
	struct fm_err why = { 0 };

	if (code == -ECANCELED && x->is_removed)
		return;
	if (file->ops->why && code != -ECANCELED)
		file->ops->why(file, &why);
	if (why.code)
		fm_xfer_fail(x, why.code, "%s", why.text);
	fm_xfer_fail(x, means_peer(code) ? -EIO : code, "%s%s%s%s at byte %llu: %s%s",
		     file->store ? "store " : "", file->store ? file->store : "",
		     file->store ? ": " : "", what, (unsigned long long)offset, fm_err_name(code),
		     advice(code));
}

/* CRC and size of the whole, and the blocks where they are known; its mtime is left to the
 * caller. */
static void digest(const struct fm_xfer *x, uint64_t size, struct fm_digest *out)
{
	uint64_t block_bytes = fm_digest_block_bytes(size);

	*out = (struct fm_digest){ .crc = fm_xfer_crc(x, size), .size = size };
	if (x->has_no_blocks || size != x->o.size || size <= block_bytes)
		return;
	out->blocks = (unsigned)((size + block_bytes - 1) / block_bytes);
	memcpy(out->block, x->block_crc, out->blocks * sizeof(out->block[0]));
}

uint32_t fm_xfer_crc(const struct fm_xfer *x, uint64_t size)
{
	return fm_crc32c_whole(x->crc_parts, size);
}

void fm_xfer_moved(const struct fm_xfer *x, struct fm_moved *out)
{
	*out = (struct fm_moved){.bytes = x->data_bytes,
				 .chunks = x->chunks,
				 .resent = x->resent_bytes,
				 .direct = x->direct_bytes,
				 .resumed = x->have_bytes,
				 .reread = x->reread_bytes,
				 .damaged = x->damaged_bytes,
				 .carriers = x->joined,
				 .corrupt = x->corrupt_chunks};
	memcpy(out->kind_bytes, x->kind_bytes, sizeof(out->kind_bytes));
	memcpy(out->encryption_bytes, x->encryption_bytes, sizeof(out->encryption_bytes));
}

void fm_moved_add(struct fm_moved *to, const struct fm_moved *more)
{
	to->bytes += more->bytes;
	to->chunks += more->chunks;
	for (unsigned i = 0; i < FM_KIND_COUNT; i++)
		to->kind_bytes[i] += more->kind_bytes[i];
	for (unsigned i = 0; i < FM_ENCRYPTION_COUNT; i++)
		to->encryption_bytes[i] += more->encryption_bytes[i];
	to->resent += more->resent;
	to->direct += more->direct;
	to->resumed += more->resumed;
	to->reread += more->reread;
	to->damaged += more->damaged;
	to->carriers += more->carriers;
	to->corrupt += more->corrupt;
}

static void whole(const struct fm_xfer *x, uint64_t size, struct fm_whole *out)
{
	*out = (struct fm_whole){.err = x->err,
				 .size = size,
				 .data_bytes = x->data_bytes,
				 .chunks = x->chunks,
				 .crc = fm_xfer_crc(x, size)};
	digest(x, size, &out->digest);
}

void fm_xfer_sent_whole(const struct fm_xfer *x, struct fm_whole *out)
{
	whole(x, x->layout->size(x), out);
	if (x->have_bytes > 0)
		out->digest.blocks = 0;
}

void fm_xfer_end_sink(struct fm_xfer *x, uint64_t size, struct fm_whole *out)
{
	whole(x, size, out);
	out->is_gapless = x->beside.count == 0 || fm_drain_end(x) == 0;
}
