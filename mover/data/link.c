/* SPDX-License-Identifier: MIT */
/*
 * link - see link.h. The only file that takes the mutex of a link: xfer.c and its parts run under
 * it.
 */
#include "mover/data/link.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/data/rate.h"
#include "mover/store/held_file.h"
#include "mover/store/store.h"
#include "mover/data/xfer.h"

/* A slab stays leased this long after its last use, so that the next transfer finds it
 * registered... */
#define IDLE_NS (2 * FM_NS_PER_S)
/* ... but no longer than this when a session has none, or another connection of this one. */
#define IDLE_WANTED_NS (50 * FM_NS_PER_MS)

int fm_link_new(struct fm_slabs *slabs, struct fm_shared_rate *rate, struct fm_link **out,
		struct fm_err *err)
{
	struct fm_link *l = FM_FAULT("link.new") ? NULL : calloc(1, sizeof(*l));

	if (!l)
		return fm_err_sys(err, -ENOMEM, "allocate the session's shared state");
	pthread_mutex_init(&l->lock, NULL);
	atomic_init(&l->refs, 1);
	atomic_init(&l->stops, 0);
	atomic_init(&l->heard_ns, 0);
	atomic_init(&l->wants, 0);
	for (unsigned i = 0; i < FM_KIND_COUNT; i++)
		atomic_init(&l->flows[i], 0);
	l->slabs = slabs;
	l->rate = rate;
	for (unsigned i = 0; i < FM_LINK_BUCKETS; i++)
		fm_list_init(&l->xfers[i]);
	fm_list_init(&l->sources);
	fm_list_init(&l->rx_waiting);
	fm_slab_user_init(&l->slab_use[FM_SLAB_TX]);
	fm_slab_user_init(&l->slab_use[FM_SLAB_RX]);
	*out = l;
	return 0;
}

void fm_link_ref(struct fm_link *l)
{
	atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
}

void fm_link_unref(struct fm_link *l)
{
	if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1)
		return;
	assert(l->slab_use[FM_SLAB_TX].held == 0 && l->slab_use[FM_SLAB_RX].held == 0 &&
	       fm_list_is_empty(&l->sources));
	fm_slabs_unwant(l->slabs, FM_SLAB_TX, &l->slab_use[FM_SLAB_TX]);
	fm_slabs_unwant(l->slabs, FM_SLAB_RX, &l->slab_use[FM_SLAB_RX]);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static struct fm_xfer *find(struct fm_link *l, uint64_t id)
{
	fm_list_each(at, next, &l->xfers[id % FM_LINK_BUCKETS]) {
		struct fm_xfer *x = fm_container_of(at, struct fm_xfer, link_at);

		if (x->o.id == id)
			return x;
	}
	return NULL;
}

static bool is_needed(const struct fm_link *l, enum fm_slab_use use)
{
	return use == FM_SLAB_TX ? !fm_list_is_empty(&l->sources) : l->sinks > 0;
}

int fm_link_add(struct fm_link *l, struct fm_xfer *x)
{
	int ret = 0;

	pthread_mutex_lock(&l->lock);
	if (find(l, x->o.id)) {
		ret = -EEXIST;
	} else {
		fm_list_append(&l->xfers[x->o.id % FM_LINK_BUCKETS], &x->link_at);
		if (x->o.is_source)
			fm_list_append(&l->sources, &x->source_at);
		else
			l->sinks++;
		x->link = l;
		fm_link_ref(l);
	}
	pthread_mutex_unlock(&l->lock);
	return ret;
}

bool fm_link_remove(struct fm_link *l, struct fm_xfer *x)
{
	enum fm_slab_use use = x->o.is_source ? FM_SLAB_TX : FM_SLAB_RX;
	bool has_io;

	pthread_mutex_lock(&l->lock);
	assert(x->link == l && !x->is_removed);
	x->is_removed = true;
	fm_list_del(&x->link_at);
	fm_list_del(&x->source_at);
	if (!x->o.is_source)
		l->sinks--;
	fm_fill_cancel(x);
	fm_drain_cancel(x);
	if (!is_needed(l, use))
		fm_slabs_unwant(l->slabs, use, &l->slab_use[use]);
	atomic_fetch_add(&l->stops, 1);
	pthread_mutex_unlock(&l->lock);
	has_io = fm_xfer_has_io(x);
	fm_xfer_unref(x);
	fm_link_unref(l);
	return has_io;
}

struct fm_xfer *fm_link_find_sink(struct fm_link *l, uint64_t id)
{
	struct fm_xfer *x;

	pthread_mutex_lock(&l->lock);
	x = find(l, id);
	if (x && x->o.is_source)
		x = NULL;
	if (x)
		fm_xfer_ref(x);
	pthread_mutex_unlock(&l->lock);
	return x;
}

/* 0: the node's limit lets another chunk go. */
static uint64_t node_rate_when(struct fm_link *l, uint64_t now_ns)
{
	uint64_t when;

	pthread_mutex_lock(&l->rate->lock);
	when = fm_rate_when(l->rate->rate, now_ns);
	pthread_mutex_unlock(&l->rate->lock);
	return when;
}

static void node_rate_take(struct fm_link *l, uint64_t bytes, uint64_t now_ns)
{
	pthread_mutex_lock(&l->rate->lock);
	fm_rate_take(l->rate->rate, bytes, now_ns);
	pthread_mutex_unlock(&l->rate->lock);
}

/* Gives bytes back to the rate limit: they were claimed and are not sent. */
static void node_rate_give(struct fm_link *l, uint64_t bytes)
{
	pthread_mutex_lock(&l->rate->lock);
	fm_rate_give(l->rate->rate, bytes);
	pthread_mutex_unlock(&l->rate->lock);
}

/* Another thread's. */
static void looked_there(void *ctx, int ret, uint64_t from, uint64_t to)
{
	struct fm_xfer *x = ctx;
	struct fm_link *l = x->link;

	pthread_mutex_lock(&l->lock);
	fm_xfer_looked(x, ret, from, to);
	if (!x->is_removed)
		fm_loop_post(x->o.control, &x->notify);	/* which wakes the lanes */
	pthread_mutex_unlock(&l->lock);
	fm_xfer_unref(x);
	fm_link_unref(l);
}

/*
 * Asks the file where its next data is. The lock is released meanwhile: a cold disk takes long, and
 * the other lanes of the session need the lock.
 */
static void look_for_data(struct fm_link *l, struct fm_xfer *x, uint64_t offset)
{
	uint64_t from = offset, to = offset;
	int ret;

	fm_xfer_ref(x);
	pthread_mutex_unlock(&l->lock);
	if (x->o.file->holder) {
		fm_link_ref(l);
		fm_held_file_look(x->o.file, offset, looked_there, x);
		pthread_mutex_lock(&l->lock);
		return;
	}
	ret = x->o.file->ops->next_data(x->o.file, offset, &from, &to);
	pthread_mutex_lock(&l->lock);
	fm_xfer_looked(x, ret, from, to);
	pthread_mutex_unlock(&l->lock);
	fm_xfer_unref(x);
	pthread_mutex_lock(&l->lock);
}

/*
 * Goes once through the sources, to claim a chunk. True: a file was asked where its data is; the
 * list may have changed meanwhile.
 */
static bool claim_any(struct fm_link *l, const struct fm_claim *claim, struct fm_chunk *out,
		      uint64_t *again_ns, struct fm_xfer **found)
{
	uint64_t offset;

	fm_list_each(at, next, &l->sources) {
		struct fm_xfer *x = fm_container_of(at, struct fm_xfer, source_at);

		if (!fm_xfer_claim(x, claim, out, again_ns)) {
			if (!fm_xfer_must_look(x, &offset))
				continue;
			look_for_data(l, x, offset);
			return true;
		}
		if (++x->turns >= (x->o.weight ? x->o.weight : FM_WEIGHT_NORMAL)) {
			x->turns = 0;
			fm_list_del(at);
			fm_list_append(&l->sources, at);
		}
		fm_xfer_ref(x);
		*found = x;
		break;
	}
	return false;
}

struct fm_xfer *fm_link_claim(struct fm_link *l, const struct fm_claim *claim, struct fm_chunk *out,
			      uint64_t *again_ns)
{
	struct fm_claim counted = *claim;
	struct fm_xfer *found = NULL;
	uint64_t when;

	counted.conns = atomic_load_explicit(&l->flows[claim->kind], memory_order_relaxed);
	*again_ns = FM_NEVER;
	when = node_rate_when(l, claim->now_ns);
	if (when) {
		*again_ns = when;
		return NULL;
	}
	pthread_mutex_lock(&l->lock);
	while (claim_any(l, &counted, out, again_ns, &found))
		;	/* what was found is claimed by this lane, or by another that came first */
	pthread_mutex_unlock(&l->lock);
	if (found)
		node_rate_take(l, out->len, claim->now_ns);
	return found;
}

/* As claim_any(), of those that are read beforehand. */
static bool fill_any(struct fm_link *l, const struct fm_claim *claim, uint64_t *again_ns,
		     struct fm_beside_place **found)
{
	uint64_t offset;
	unsigned place;

	fm_list_each(at, next, &l->sources) {
		struct fm_xfer *x = fm_container_of(at, struct fm_xfer, source_at);

		if (fm_xfer_fill(x, claim, &place, again_ns)) {
			fm_xfer_ref(x);
			*found = &x->beside.place[place];
			return false;
		}
		if (x->beside.count > 0 && fm_xfer_must_look(x, &offset)) {
			look_for_data(l, x, offset);
			return true;
		}
	}
	return false;
}

struct fm_beside_place *fm_link_fill(struct fm_link *l, const struct fm_claim *claim,
				     struct fm_lane *lane, uint64_t *again_ns)
{
	struct fm_beside_place *found = NULL;

	*again_ns = FM_NEVER;
	pthread_mutex_lock(&l->lock);
	while (fill_any(l, claim, again_ns, &found))
		;	/* what was found is read by this lane, or by another that came first */
	if (found)
		found->lane = lane;
	pthread_mutex_unlock(&l->lock);
	return found;
}

bool fm_link_has_work(struct fm_link *l, const struct fm_claim *claim)
{
	bool has = false;

	pthread_mutex_lock(&l->lock);
	fm_list_each(at, next, &l->sources) {
		if (fm_xfer_has_work(fm_container_of(at, struct fm_xfer, source_at), claim)) {
			has = true;
			break;
		}
	}
	pthread_mutex_unlock(&l->lock);
	return has;
}

void fm_link_unbind(struct fm_link *l, const void *who)
{
	pthread_mutex_lock(&l->lock);
	fm_list_each(at, next, &l->sources)
		fm_xfer_unbind(fm_container_of(at, struct fm_xfer, source_at), who);
	pthread_mutex_unlock(&l->lock);
}

bool fm_link_has_sink(struct fm_link *l)
{
	bool has;

	pthread_mutex_lock(&l->lock);
	has = l->sinks > 0;
	pthread_mutex_unlock(&l->lock);
	return has;
}

void fm_link_wait_rx(struct fm_link *l, struct fm_list *conn)
{
	pthread_mutex_lock(&l->lock);
	fm_list_append(&l->rx_waiting, conn);
	pthread_mutex_unlock(&l->lock);
}

void fm_link_leave_rx(struct fm_link *l, struct fm_list *conn)
{
	pthread_mutex_lock(&l->lock);
	fm_list_del(conn);
	pthread_mutex_unlock(&l->lock);
}

bool fm_link_is_turn_rx(struct fm_link *l, const struct fm_list *conn, uint64_t now_ns)
{
	unsigned left = fm_slabs_left(l->slabs, FM_SLAB_RX), ahead = 0;
	bool is_turn;

	pthread_mutex_lock(&l->lock);
	fm_list_each(at, next, &l->rx_waiting) {
		if (at == conn)
			break;
		ahead++;
	}
	is_turn = ahead == 0 || ahead < left;
	if (!is_turn)
		l->starved_ns[FM_SLAB_RX] = now_ns;
	pthread_mutex_unlock(&l->lock);
	return is_turn;
}

int fm_link_take_slab(struct fm_link *l, enum fm_slab_use use, uint64_t now_ns)
{
	int slab;

	pthread_mutex_lock(&l->lock);
	slab = fm_slabs_take(l->slabs, use, &l->slab_use[use], now_ns);
	if (slab < 0)
		l->starved_ns[use] = now_ns;
	if (slab < 0 && !is_needed(l, use))
		/* the transfer has just ended */
		fm_slabs_unwant(l->slabs, use, &l->slab_use[use]);
	pthread_mutex_unlock(&l->lock);
	return slab;
}

void fm_link_put_slab(struct fm_link *l, enum fm_slab_use use, int slab, bool is_giving)
{
	fm_slabs_put(l->slabs, use, &l->slab_use[use], slab, is_giving);
}

void fm_link_clear_slab(struct fm_link *l, int slab)
{
	fm_slabs_clear(l->slabs, &l->slab_use[FM_SLAB_RX], slab);
}

bool fm_link_should_give(struct fm_link *l, enum fm_slab_use use, bool *is_giving, uint64_t used_ns,
			 uint64_t now_ns)
{
	bool is_needed_here;

	if (fm_slabs_ask_back(l->slabs, use, &l->slab_use[use], is_giving, now_ns))
		return true;
	pthread_mutex_lock(&l->lock);
	/* Another connection of the same session may be waiting for what this one does not use. */
	is_needed_here = now_ns < l->starved_ns[use] + IDLE_WANTED_NS;
	pthread_mutex_unlock(&l->lock);
	return now_ns >= used_ns + (is_needed_here || fm_slabs_is_wanted(l->slabs, use)
					    ? IDLE_WANTED_NS
					    : IDLE_NS);
}

/* ---- what is asked of a transfer, or told to it ---- */

static void lock(struct fm_xfer *x)
{
	pthread_mutex_lock(&x->link->lock);
}

static void unlock(struct fm_xfer *x)
{
	pthread_mutex_unlock(&x->link->lock);
}

void fm_link_moved(struct fm_xfer *x, struct fm_moved *out)
{
	lock(x);
	fm_xfer_moved(x, out);
	unlock(x);
}

int fm_link_error(struct fm_xfer *x, struct fm_err *out)
{
	lock(x);
	*out = x->err;
	unlock(x);
	return out->code;
}

void fm_link_set_kinds(struct fm_xfer *x, unsigned kinds)
{
	lock(x);
	x->o.kinds = kinds;
	unlock(x);
}

void fm_link_set_size(struct fm_xfer *x, uint64_t size)
{
	lock(x);
	x->o.size = size;
	unlock(x);
}

void fm_link_set_window(struct fm_xfer *x, uint64_t to)
{
	lock(x);
	x->o.window = to;
	unlock(x);
}

bool fm_link_is_sent(struct fm_xfer *x)
{
	bool is;

	lock(x);
	is = fm_xfer_is_sent(x);
	unlock(x);
	return is;
}

void fm_link_feed(struct fm_xfer *x)
{
	lock(x);
	fm_xfer_feed(x);
	unlock(x);
}

void fm_link_sent_whole(struct fm_xfer *x, struct fm_whole *out)
{
	lock(x);
	fm_xfer_sent_whole(x, out);
	unlock(x);
}

void fm_link_end_sink(struct fm_xfer *x, uint64_t size, struct fm_whole *out)
{
	lock(x);
	fm_xfer_end_sink(x, size, out);
	unlock(x);
}

uint64_t fm_link_open_window(struct fm_xfer *x)
{
	uint64_t to;

	lock(x);
	to = fm_drain_open(x);
	unlock(x);
	return to;
}

bool fm_link_is_drained(struct fm_xfer *x)
{
	bool is;

	lock(x);
	is = fm_drain_is_empty(x);
	unlock(x);
	return is;
}

size_t fm_link_take_log(struct fm_xfer *x, struct fm_written *out)
{
	size_t count;

	lock(x);
	count = fm_xfer_take_log(x, out);
	unlock(x);
	return count;
}

void fm_link_reread(struct fm_xfer *x, uint64_t bytes, bool is_over)
{
	lock(x);
	fm_xfer_reread(x, bytes, is_over);
	unlock(x);
}

int fm_link_take_back(struct fm_xfer *x, const struct fm_written *piece)
{
	int ret;

	lock(x);
	ret = fm_xfer_take_back(x, piece->offset, piece->len, piece->crc);
	unlock(x);
	return ret;
}

void fm_link_count_kept(struct fm_xfer *x, const struct fm_written *piece, const uint32_t *block)
{
	lock(x);
	fm_xfer_count_kept(x, piece->offset, piece->len, block);
	unlock(x);
}

int fm_link_take_kept(struct fm_xfer *x, uint64_t reread, bool is_over,
		      const struct fm_written *damaged)
{
	int ret;

	lock(x);
	ret = fm_xfer_take_kept(x, reread, is_over, damaged);
	unlock(x);
	return ret;
}

bool fm_link_is_removed(struct fm_xfer *x)
{
	bool is;

	lock(x);
	is = x->is_removed;
	unlock(x);
	return is;
}

bool fm_link_read(struct fm_xfer *x, struct fm_chunk *chunk, int64_t res)
{
	uint32_t asked = chunk->len;
	bool is_there;

	lock(x);
	is_there = fm_xfer_read(x, chunk, res);
	unlock(x);
	if (!chunk->is_again)
		node_rate_give(x->link, asked - (is_there ? chunk->len : 0));
	return is_there;
}

void fm_link_copied(struct fm_xfer *x, unsigned place)
{
	lock(x);
	fm_xfer_copied(x, place);
	unlock(x);
}

void fm_link_lost(struct fm_xfer *x, const struct fm_chunk *chunk)
{
	lock(x);
	fm_xfer_lost(x, chunk);
	unlock(x);
}

void fm_link_dropped(struct fm_xfer *x)
{
	lock(x);
	fm_xfer_dropped(x);
	unlock(x);
}

bool fm_link_refused(struct fm_xfer *x, struct fm_chunk *chunk, bool is_busy)
{
	bool is_given_up;

	lock(x);
	is_given_up = fm_xfer_refused(x, chunk, is_busy);
	unlock(x);
	return is_given_up;
}

void fm_link_acked(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by)
{
	lock(x);
	fm_xfer_acked(x, chunk, by);
	unlock(x);
}

void fm_link_changed(struct fm_xfer *x, const struct fm_chunk *chunk)
{
	lock(x);
	fm_xfer_dropped(x);
	fm_xfer_fail(x, -ESTALE,
		     "the source changed while it was sent: %u bytes in memory from byte %llu on; "
		     "put it again",
		     chunk->len, (unsigned long long)chunk->offset);
	unlock(x);
}

void fm_link_given_up(struct fm_xfer *x)
{
	lock(x);
	fm_xfer_dropped(x);
	fm_xfer_fail(x, -ECONNABORTED, "the far end gave the transfer up");
	unlock(x);
}

static void fail_misplaced(struct fm_xfer *x, const struct fm_chunk *c, int ret)
{
	if (ret == -ENOMEM)
		fm_xfer_fail(x, ret,
			     "it has more than %llu chunks, which is as many as can be remembered: "
			     "give mover.chunk a larger value at both nodes",
			     (unsigned long long)FM_XFER_CHUNKS_MAX);
	else if (ret < 0 && ret != -ECANCELED && ret != -EALREADY && ret != -EAGAIN)
		fm_xfer_fail(x, -EPROTO,
			     "the peer sent a chunk that does not belong there (number %llu, byte "
			     "%llu, %u bytes)",
			     (unsigned long long)c->seq, (unsigned long long)c->offset, c->len);
}

int fm_link_accept(struct fm_xfer *x, const struct fm_chunk *c)
{
	int ret;

	lock(x);
	ret = fm_xfer_accept(x, c);
	fail_misplaced(x, c, ret);
	unlock(x);
	return ret;
}

int fm_link_land(struct fm_xfer *x, const struct fm_chunk *c, struct fm_landing *l)
{
	int ret;

	lock(x);
	ret = fm_xfer_land(x, c, l);
	fail_misplaced(x, c, ret);
	unlock(x);
	if (ret == 0)
		fm_xfer_ref(x);
	return ret;
}

void fm_link_landed(struct fm_landing *l, const struct fm_chunk *chunk, bool is_as_sent,
		    const struct fm_conn_info *by)
{
	struct fm_xfer *x = l->x;

	lock(x);
	fm_xfer_landed(l);
	if (is_as_sent)
		fm_xfer_written(x, chunk, by);
	else
		x->corrupt_chunks++;
	unlock(x);
	fm_xfer_unref(x);
}

void fm_link_land_not(struct fm_landing *l)
{
	struct fm_xfer *x = l->x;

	lock(x);
	fm_xfer_landed(l);
	unlock(x);
	fm_xfer_unref(x);
}

void fm_link_written(struct fm_xfer *x, const struct fm_chunk *chunk, const struct fm_conn_info *by)
{
	lock(x);
	fm_xfer_written(x, chunk, by);
	unlock(x);
}

void fm_link_corrupt(struct fm_xfer *x)
{
	lock(x);
	x->corrupt_chunks++;
	unlock(x);
}

bool fm_link_read_wrong(struct fm_xfer *x, const struct fm_chunk *chunk, bool is_heard)
{
	bool comes_again;

	lock(x);
	comes_again = fm_xfer_read_wrong(x, chunk, is_heard);
	unlock(x);
	return comes_again;
}

void fm_link_fail_io(struct fm_xfer *x, int code, const char *what, uint64_t offset)
{
	lock(x);
	fm_xfer_fail_io(x, code, what, offset);
	unlock(x);
}

struct fm_beside_place *fm_link_filled(struct fm_xfer *x, const struct fm_chunk *chunk,
				       bool is_as_sent, const struct fm_conn_info *by,
				       struct fm_lane *lane)
{
	struct fm_beside_place *place;

	lock(x);
	if (is_as_sent)
		(void)fm_xfer_came(x, chunk, by); /* that it had not come was looked for */
	else
		x->corrupt_chunks++;
	place = fm_drain_filled(x, chunk->seq, is_as_sent, lane);
	unlock(x);
	return place;
}

static void place_ended(struct fm_beside_place *place, int64_t res)
{
	struct fm_beside_place *next = NULL;
	struct fm_xfer *x = place->x;
	struct fm_link *l = x->link;

	if (!x->o.is_source)
		res = fm_drain_look(place, res);
	lock(x);
	if (x->o.is_source)
		fm_fill_ended(place, res);
	else
		next = fm_drain_ended(place, res);
	unlock(x);
	if (next)
		fm_link_start(next);
	fm_xfer_unref(x);
	fm_link_unref(l);
}

void fm_link_start(struct fm_beside_place *place)
{
	struct fm_xfer *x = place->x;

	fm_xfer_ref(x);
	fm_link_ref(x->link);
	if (x->o.is_source)
		fm_fill_start(place, place_ended);
	else
		fm_drain_start(place, place_ended);
}
