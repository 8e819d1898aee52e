/* SPDX-License-Identifier: MIT */
/* slab - see slab.h. */
#include "mover/data/slab.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

/* Slabs that were asked for longer ago stand still, perhaps for ever. */
#define COMING_NS (200 * FM_NS_PER_MS)
/* Where there are more sessions than slabs, one that has had its slab for so long, or several times
 * that, gives it to one that has waited for so long. */
#define TURN_NS (100 * FM_NS_PER_MS)
/* Who waits tries every few milliseconds. Who did not for so long has something else to do. */
#define TRYING_NS (100 * FM_NS_PER_MS)
/* So many free ones, those that were given back last, are looked at for one that its user had. */
#define LOOK_BACK 64u

/* Whose bytes a slab has. Of one that is taken: who took it alone looks at that. */
struct left {
	uint64_t had_by;		/* who gave it back last; 0: nobody has */
	/* some may be of who had it before him: he took it and did not clear it */
	bool is_mixed;
};

struct fm_slabs {
	pthread_mutex_t lock;
	char *memory;
	uint32_t bytes;
	unsigned count;
	unsigned free_count;
	unsigned used[2];		/* per use */
	unsigned used_max[2];
	unsigned users[2];		/* who have or want one */
	struct fm_list wanting[2];	/* fm_slab_user.want_at */
	unsigned giving[2];		/* on their way back from all of them ... */
	uint64_t asked_ns[2];		/* ... since the last of these was asked for */
	uint64_t users_ever;		/* fm_slab_user.id */
	struct left *left;		/* by slab */
	/* the last one given back is taken first: it is warm in the caches */
	int free_list[];
};

int fm_slabs_new(void *memory, size_t len, uint32_t slab_bytes, struct fm_slabs **out,
		 struct fm_err *err)
{
	struct fm_slabs *s;
	size_t count = len / slab_bytes;

	if (count > FM_SLABS_MAX)
		return fm_err_set(err, -EINVAL,
				  "an arena of %zu bytes is more than %u slabs of %u: it must be "
				  "smaller, or the slabs larger",
				  len, FM_SLABS_MAX, slab_bytes);
	if (count < 2)
		return fm_err_set(err, -EINVAL,
				  "an arena of %zu bytes does not hold two slabs of %u", len,
				  slab_bytes);
	s = FM_FAULT("slab.new") ? NULL : calloc(1, sizeof(*s) + count * sizeof(s->free_list[0]));
	if (s)
		s->left = calloc(count, sizeof(s->left[0]));
	if (!s || !s->left) {
		free(s);
		return fm_err_sys(err, -ENOMEM, "allocate the list of slabs");
	}
	pthread_mutex_init(&s->lock, NULL);
	s->memory = memory;
	s->bytes = slab_bytes;
	s->count = (unsigned)count;
	s->used_max[FM_SLAB_TX] = s->count / 2;
	s->used_max[FM_SLAB_RX] = s->count - s->count / 2;
	fm_list_init(&s->wanting[FM_SLAB_TX]);
	fm_list_init(&s->wanting[FM_SLAB_RX]);
	for (unsigned i = 0; i < s->count; i++)
		s->free_list[s->free_count++] = (int)(s->count - 1 - i);
	*out = s;
	return 0;
}

void fm_slabs_free(struct fm_slabs *s)
{
	if (!s)
		return;
	assert(s->free_count == s->count);
	assert(s->users[FM_SLAB_TX] == 0 && s->users[FM_SLAB_RX] == 0);
	pthread_mutex_destroy(&s->lock);
	free(s->left);
	free(s);
}

/* ---- shares ---- */

void fm_slab_user_init(struct fm_slab_user *u)
{
	*u = (struct fm_slab_user){ 0 };
	fm_list_init(&u->want_at);
}

static bool is_user(const struct fm_slab_user *u)
{
	return u->held > 0 || u->wants;
}

static void set_wants(struct fm_slabs *s, enum fm_slab_use use, struct fm_slab_user *u, bool wants)
{
	bool was_user = is_user(u);

	if (u->wants == wants)
		return;
	u->wants = wants;
	if (wants)
		fm_list_append(&s->wanting[use], &u->want_at);
	else
		fm_list_del(&u->want_at);
	s->users[use] += (unsigned)is_user(u) - (unsigned)was_user;
}

static void set_held(struct fm_slabs *s, enum fm_slab_use use, struct fm_slab_user *u,
		     unsigned held)
{
	bool was_user = is_user(u);

	u->held = held;
	s->users[use] += (unsigned)is_user(u) - (unsigned)was_user;
	if (held > 0 || !u->wants)
		return;
	/* it wanted one more, and waits from now on */
	fm_list_del(&u->want_at);
	fm_list_append(&s->wanting[use], &u->want_at);
	u->want_ns = u->tried_ns;
}

/* The share of one session, at least one slab. */
static unsigned share(const struct fm_slabs *s, enum fm_slab_use use)
{
	unsigned users = s->users[use];

	return users > 0 && s->used_max[use] > users ? s->used_max[use] / users : 1;
}

/* Whether somebody but u wants for his share. */
static bool is_short(const struct fm_slabs *s, enum fm_slab_use use, const struct fm_slab_user *u)
{
	unsigned most = share(s, use);

	fm_list_each(at, next, &s->wanting[use]) {
		const struct fm_slab_user *other =
			fm_container_of(at, struct fm_slab_user, want_at);

		if (other != u && other->held < most)
			return true;
	}
	return false;
}

/* Whether it has none, and tries to have one. */
static bool is_waiting(const struct fm_slab_user *u, uint64_t now_ns)
{
	return u->wants && u->held == 0 && now_ns < u->tried_ns + TRYING_NS;
}

/* Whether there are fewer slabs than sessions, u among them. */
static bool are_too_few(const struct fm_slabs *s, enum fm_slab_use use,
			const struct fm_slab_user *u)
{
	return s->users[use] + !is_user(u) > s->used_max[use];
}

/* Whether enough are left for who waits longer than u, and for u. */
static bool is_turn(const struct fm_slabs *s, enum fm_slab_use use, const struct fm_slab_user *u,
		    uint64_t now_ns)
{
	unsigned left = s->used_max[use] - s->used[use];

	if (!are_too_few(s, use, u))
		return left > 0;
	fm_list_each(at, next, &s->wanting[use]) {
		const struct fm_slab_user *other =
			fm_container_of(at, struct fm_slab_user, want_at);

		if (other == u || left == 0)
			break;
		left -= is_waiting(other, now_ns);
	}
	return left > 0;
}

/*
 * Whether u has had its slab long enough, and more have waited for their turn than slabs are on
 * their way back. The fewer wait, the longer is a turn, so that all of them have slabs for the same
 * time, whoever is asked first.
 */
static bool is_turn_over(const struct fm_slabs *s, enum fm_slab_use use,
			 const struct fm_slab_user *u, bool was_giving, uint64_t now_ns)
{
	unsigned coming = now_ns < s->asked_ns[use] + COMING_NS ? s->giving[use] : 0;
	unsigned waiting = 0, due = 0;
	uint64_t turn_ns;

	if (!are_too_few(s, use, u))
		return false;
	fm_list_each(at, next, &s->wanting[use]) {
		const struct fm_slab_user *other =
			fm_container_of(at, struct fm_slab_user, want_at);

		waiting += is_waiting(other, now_ns);
		due += is_waiting(other, now_ns) && now_ns >= other->want_ns + TURN_NS;
	}
	if (due <= (was_giving ? 0 : coming))
		return false;
	turn_ns = waiting < s->used_max[use] ? TURN_NS * s->used_max[use] / waiting : TURN_NS;
	return was_giving || now_ns >= u->held_ns + turn_ns;
}

/* Of the free ones: one that u had last, which mostly needs not be cleared; else the last given
 * back. */
static int pop_free(struct fm_slabs *s, const struct fm_slab_user *u)
{
	unsigned top = --s->free_count, at = top;
	int slab;

	while (at > 0 && top - at < LOOK_BACK && s->left[s->free_list[at]].had_by != u->id)
		at--;
	if (s->left[s->free_list[at]].had_by != u->id)
		at = top;
	slab = s->free_list[at];
	memmove(&s->free_list[at], &s->free_list[at + 1], (top - at) * sizeof(s->free_list[0]));
	return slab;
}

/*
 * Takes a slab. A session that already has its share leaves free slabs to those that have less.
 * Otherwise it could take back a slab that it just gave up for another.
 */
int fm_slabs_take(struct fm_slabs *s, enum fm_slab_use use, struct fm_slab_user *u,
		  uint64_t now_ns)
{
	int slab = -EAGAIN;

	pthread_mutex_lock(&s->lock);
	u->tried_ns = now_ns;
	if (is_turn(s, use, u, now_ns) && (u->held < share(s, use) || !is_short(s, use, u))) {
		assert(s->free_count > 0);
		if (!u->id)
			u->id = ++s->users_ever;
		slab = pop_free(s, u);
		s->used[use]++;
		if (u->held == 0)
			u->held_ns = now_ns;
		set_held(s, use, u, u->held + 1);
	} else if (!u->wants) {
		u->want_ns = now_ns;
	}
	set_wants(s, use, u, slab < 0);
	pthread_mutex_unlock(&s->lock);
	return slab;
}

void fm_slabs_unwant(struct fm_slabs *s, enum fm_slab_use use, struct fm_slab_user *u)
{
	pthread_mutex_lock(&s->lock);
	set_wants(s, use, u, false);
	pthread_mutex_unlock(&s->lock);
}

bool fm_slabs_is_wanted(struct fm_slabs *s, enum fm_slab_use use)
{
	bool is_wanted;

	pthread_mutex_lock(&s->lock);
	is_wanted = is_short(s, use, NULL);
	pthread_mutex_unlock(&s->lock);
	return is_wanted;
}

bool fm_slabs_ask_back(struct fm_slabs *s, enum fm_slab_use use, struct fm_slab_user *u,
		       bool *is_giving, uint64_t now_ns)
{
	bool was_giving = *is_giving;
	unsigned coming;

	pthread_mutex_lock(&s->lock);
	coming = !was_giving && now_ns < u->asked_ns + COMING_NS ? u->giving : 0;
	*is_giving = s->used[use] == s->used_max[use] &&
		     ((u->held > share(s, use) + coming && is_short(s, use, u)) ||
		      is_turn_over(s, use, u, was_giving, now_ns));
	u->giving += (unsigned)*is_giving - (unsigned)was_giving;
	s->giving[use] += (unsigned)*is_giving - (unsigned)was_giving;
	if (*is_giving && !was_giving)
		u->asked_ns = s->asked_ns[use] = now_ns;
	pthread_mutex_unlock(&s->lock);
	return *is_giving;
}

/* ---- slabs ---- */

unsigned fm_slabs_left(struct fm_slabs *s, enum fm_slab_use use)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->used_max[use] - s->used[use];
	if (n > s->free_count)
		n = s->free_count;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void fm_slabs_put(struct fm_slabs *s, enum fm_slab_use use, struct fm_slab_user *u, int slab,
		  bool is_giving)
{
	struct left *left;

	assert(slab >= 0 && (unsigned)slab < s->count);
	left = &s->left[slab];
	pthread_mutex_lock(&s->lock);
	assert(s->free_count < s->count && s->used[use] > 0 && u->held > 0 &&
	       u->giving >= is_giving);
	s->free_list[s->free_count++] = slab;
	left->is_mixed |= left->had_by && left->had_by != u->id;
	left->had_by = u->id;
	s->used[use]--;
	u->giving -= is_giving;
	s->giving[use] -= is_giving;
	set_held(s, use, u, u->held - 1);
	pthread_mutex_unlock(&s->lock);
}

void fm_slabs_clear(struct fm_slabs *s, const struct fm_slab_user *u, int slab)
{
	struct left *left;

	assert(slab >= 0 && (unsigned)slab < s->count && u->id);
	left = &s->left[slab];
	if (left->is_mixed || (left->had_by && left->had_by != u->id))
		memset(fm_slabs_at(s, slab), 0, s->bytes);
	*left = (struct left){ .had_by = u->id };
}

void *fm_slabs_at(const struct fm_slabs *s, int slab)
{
	assert(slab >= 0 && (unsigned)slab < s->count);
	return s->memory + (size_t)slab * s->bytes;
}

uint32_t fm_slabs_bytes(const struct fm_slabs *s)
{
	return s->bytes;
}

unsigned fm_slabs_count(const struct fm_slabs *s)
{
	return s->count;
}

unsigned fm_slabs_free_count(struct fm_slabs *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->free_count;
	pthread_mutex_unlock(&s->lock);
	return n;
}
