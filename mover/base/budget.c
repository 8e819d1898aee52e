/* SPDX-License-Identifier: MIT */
/* budget - a counter, and a head before each piece that says what it counts for. */
#include "mover/base/budget.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "mover/base/log.h"

/* Keeps the alignment of malloc(). */
struct head {
	_Alignas(max_align_t) size_t bytes;	/* head included */
};

static uint64_t limit = UINT64_MAX;
static _Atomic uint64_t used;
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fm_share waiting;		/* under the lock */
static pthread_mutex_t await_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fm_list awaiting = { &awaiting, &awaiting };	/* under the lock */
static atomic_bool is_awaited;		/* there is one */
static atomic_bool is_said;		/* until there is room again: once is enough */

void fm_budget_set(uint64_t bytes)
{
	limit = bytes;
}

uint64_t fm_budget_used(void)
{
	return atomic_load(&used);
}

/* Never more than may be, not even for a moment: somebody else would be refused for it. */
static bool take(uint64_t bytes, uint64_t most)
{
	uint64_t now = fm_budget_used();

	do {
		if (now > most || bytes > most - now) {
			if (!atomic_exchange(&is_said, true))
				fm_log_warn("memory: what memory.total leaves beside the arena is "
					    "used up (%llu of %llu MiB); something is refused "
					    "until there is room again. To allow more, raise "
					    "memory.total",
					    (unsigned long long)(now >> 20),
					    (unsigned long long)(limit >> 20));
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&used, &now, now + bytes, memory_order_relaxed, memory_order_relaxed));
	return true;
}

uint64_t fm_budget_of_links(void)
{
	return limit / 8;
}

uint64_t fm_budget_most(void)
{
	return limit - fm_budget_of_links();
}

bool fm_budget_take(uint64_t bytes)
{
	return take(bytes, fm_budget_most());
}

bool fm_budget_take_leaving(uint64_t bytes, uint64_t left)
{
	return left <= fm_budget_most() && take(bytes, fm_budget_most() - left);
}

/* Under the lock: the limit may be another one now. */
static void waiting_ready(void)
{
	if (waiting.used == 0)
		fm_share_init(&waiting,
			      &(struct fm_share_limits){"bytes of memory for directories and pipes",
							limit / 2, limit / 16, 0, 1});
}

bool fm_budget_may_waiting(struct fm_share_id who, uint64_t bytes)
{
	bool may;

	pthread_mutex_lock(&waiting_lock);
	waiting_ready();
	may = fm_share_may(&waiting, who, bytes);
	pthread_mutex_unlock(&waiting_lock);
	return may;
}

bool fm_budget_could_waiting(struct fm_share_id who, uint64_t bytes)
{
	bool could;

	pthread_mutex_lock(&waiting_lock);
	waiting_ready();
	could = fm_share_could(&waiting, who, bytes);
	pthread_mutex_unlock(&waiting_lock);
	return could;
}

bool fm_budget_take_waiting(struct fm_share_id who, uint64_t bytes, struct fm_share_held *held)
{
	bool has;

	pthread_mutex_lock(&waiting_lock);
	waiting_ready();
	has = fm_share_take(&waiting, who, bytes, held, NULL) == 0;
	if (has && !fm_budget_take(bytes)) {
		fm_share_give(held, bytes);
		has = false;
	}
	pthread_mutex_unlock(&waiting_lock);
	return has;
}

void fm_budget_give_waiting(uint64_t bytes, struct fm_share_held *held)
{
	pthread_mutex_lock(&waiting_lock);
	fm_share_give(held, bytes);
	pthread_mutex_unlock(&waiting_lock);
	fm_budget_give(bytes);
}

void fm_budget_await(struct fm_budget_waiter *w)
{
	pthread_mutex_lock(&await_lock);
	fm_list_append(&awaiting, &w->at);
	atomic_store(&is_awaited, true);
	pthread_mutex_unlock(&await_lock);
}

bool fm_budget_await_no_more(struct fm_budget_waiter *w)
{
	bool was_there;

	pthread_mutex_lock(&await_lock);
	was_there = !fm_list_is_empty(&w->at);
	fm_list_del(&w->at);
	pthread_mutex_unlock(&await_lock);
	return was_there;
}

static void call_awaiting(void)
{
	struct fm_list *at;

	pthread_mutex_lock(&await_lock);
	atomic_store(&is_awaited, false);
	while ((at = fm_list_pop(&awaiting))) {
		struct fm_budget_waiter *w = fm_container_of(at, struct fm_budget_waiter, at);

		w->freed(w);
	}
	pthread_mutex_unlock(&await_lock);
}

/* Who waits sets the flag and takes again; who gives does the two in the other order, none late. */
void fm_budget_give(uint64_t bytes)
{
	uint64_t now = atomic_fetch_sub(&used, bytes) - bytes;

	if (atomic_load(&is_awaited))
		call_awaiting();
	if (now < limit / 2 && atomic_load_explicit(&is_said, memory_order_relaxed))
		atomic_store(&is_said, false);
}

static void *budget_realloc(void *at, size_t len, uint64_t most)
{
	struct head *old = at ? (struct head *)at - 1 : NULL, *new;
	size_t old_bytes = old ? old->bytes : 0, bytes = sizeof(*new) + len;

	if (len > SIZE_MAX / 2)
		return NULL;
	/* Both are there while the bytes are copied. */
	if (!take(bytes, most))
		return NULL;
	new = realloc(old, bytes);
	fm_budget_give(new ? old_bytes : bytes);
	if (!new)
		return NULL;
	new->bytes = bytes;
	return new + 1;
}

void *fm_budget_realloc(void *at, size_t len)
{
	return budget_realloc(at, len, fm_budget_most());
}

void *fm_budget_realloc_link(void *at, size_t len)
{
	return budget_realloc(at, len, limit);
}

/* What is large comes from the kernel as zeros, a page of it when that is touched: most of a buffer
 * never is. */
static void *budget_alloc(size_t len, uint64_t most)
{
	struct head *new;
	size_t bytes = sizeof(*new) + len;

	if (len > SIZE_MAX / 2 || !take(bytes, most))
		return NULL;
	new = calloc(1, bytes);
	if (!new) {
		fm_budget_give(bytes);
		return NULL;
	}
	new->bytes = bytes;
	return new + 1;
}

void *fm_budget_alloc(size_t len)
{
	return budget_alloc(len, fm_budget_most());
}

void *fm_budget_alloc_link(size_t len)
{
	return budget_alloc(len, limit);
}

void fm_budget_free(void *at)
{
	struct head *h = at ? (struct head *)at - 1 : NULL;

	if (!h)
		return;
	fm_budget_give(h->bytes);
	free(h);
}
