/* SPDX-License-Identifier: MIT */
#include "mover/slab.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "mover/base/err.h"
#include "mover/base/fault.h"

struct fm_slabs {
	pthread_mutex_t lock;
	char *memory;
	uint32_t bytes;
	unsigned count;
	unsigned free_count;
	unsigned used[2];		/* per use */
	unsigned used_max[2];
	int waiting[2];
	int free_list[];		/* the last one given back is taken first: it is warm in the caches */
};

int fm_slabs_new(void *memory, size_t len, uint32_t slab_bytes, struct fm_slabs **out, struct fm_err *err)
{
	struct fm_slabs *s;
	size_t count = len / slab_bytes;

	if (count < 2 || count > 1 << 20)
		return fm_err_set(err, -EINVAL, "an arena of %zu bytes does not hold two slabs of %u", len, slab_bytes);
	s = FM_FAULT("slab.new") ? NULL : calloc(1, sizeof(*s) + count * sizeof(s->free_list[0]));
	if (!s)
		return fm_err_sys(err, -ENOMEM, "allocate the list of slabs");
	pthread_mutex_init(&s->lock, NULL);
	s->memory = memory;
	s->bytes = slab_bytes;
	s->count = (unsigned)count;
	s->used_max[FM_SLAB_TX] = s->count / 2;
	s->used_max[FM_SLAB_RX] = s->count - s->count / 2;
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
	assert(s->waiting[0] == 0 && s->waiting[1] == 0);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int fm_slabs_take(struct fm_slabs *s, enum fm_slab_use use)
{
	int slab = -EAGAIN;

	pthread_mutex_lock(&s->lock);
	if (s->used[use] < s->used_max[use]) {
		assert(s->free_count > 0);
		slab = s->free_list[--s->free_count];
		s->used[use]++;
	}
	pthread_mutex_unlock(&s->lock);
	return slab;
}

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

void fm_slabs_put(struct fm_slabs *s, enum fm_slab_use use, int slab)
{
	assert(slab >= 0 && (unsigned)slab < s->count);
	pthread_mutex_lock(&s->lock);
	assert(s->free_count < s->count && s->used[use] > 0);
	s->free_list[s->free_count++] = slab;
	s->used[use]--;
	pthread_mutex_unlock(&s->lock);
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

void fm_slabs_wait(struct fm_slabs *s, enum fm_slab_use use, int change)
{
	pthread_mutex_lock(&s->lock);
	s->waiting[use] += change;
	assert(s->waiting[use] >= 0);
	pthread_mutex_unlock(&s->lock);
}

bool fm_slabs_is_wanted(struct fm_slabs *s, enum fm_slab_use use)
{
	bool is_wanted;

	pthread_mutex_lock(&s->lock);
	is_wanted = s->waiting[use] > 0;
	pthread_mutex_unlock(&s->lock);
	return is_wanted;
}
