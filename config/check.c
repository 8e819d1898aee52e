/* SPDX-License-Identifier: MIT */
/* check - see check.h. */
#include "config/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "config/options.h"
#include "config/own_dirs.h"
#include "config/value.h"
#include "mover/base/block.h"
#include "mover/base/err.h"

#define ARENA_UNIT (UINT64_C(64) << 10)	/* whole pages, whatever their size */
_Static_assert(FM_CONFIG_SLABS_MAX == 1048576, "as two messages say");

/* Writes where an option stands: "FILE:12: memory.slab", or "FILE: memory.slab (by default)". */
static void say_where(const struct fm_config *cfg, const char *section, const char *name, char *out,
		      size_t max)
{
	const struct fm_option *o = fm_option_find(section, name);
	unsigned line = cfg->line_of[o - fm_options];

	if (line)
		snprintf(out, max, "%.200s:%u: %s", cfg->file, line, o->path);
	else
		snprintf(out, max, "%.200s: %s (by default)", cfg->file, o->path);
}

static int refuse_size(const struct fm_config *cfg, const char *name, uint64_t is, const char *rule,
		       uint64_t bound, struct fm_err *err)
{
	char where[300], is_text[FM_VALUE_TEXT_MAX], bound_text[FM_VALUE_TEXT_MAX];

	say_where(cfg, "memory", name, where, sizeof(where));
	fm_value_size_print(is, is_text);
	fm_value_size_print(bound, bound_text);
	return fm_err_set(err, -EINVAL, "%s: %s is not allowed; must be %s (%s)", where, is_text,
			  rule, bound_text);
}

/* The smallest chunk that divides this slab into at most 64 chunks. */
static uint64_t least_chunk(uint64_t slab)
{
	uint64_t chunk = FM_BLOCK;

	while (chunk * FM_CONFIG_SLOTS_MAX < slab)
		chunk *= 2;
	return chunk;
}

static int check_slab(const struct fm_config *cfg, struct fm_err *err)
{
	const struct fm_config_memory *m = &cfg->memory;
	uint64_t chunk = cfg->mover.chunk_bytes, least = least_chunk(m->slab_bytes);

	if (!chunk && m->slab_bytes % least != 0)
		return refuse_size(cfg, "slab", m->slab_bytes,
				   "a multiple of a power of two that is a 64th of it or more",
				   least, err);
	if (chunk && (m->slab_bytes % chunk != 0 || m->slab_bytes < chunk))
		return refuse_size(cfg, "slab", m->slab_bytes, "a multiple of mover.chunk", chunk,
				   err);
	if (chunk && m->slab_bytes / chunk > FM_CONFIG_SLOTS_MAX)
		return refuse_size(cfg, "slab", m->slab_bytes, "at most 64 times mover.chunk",
				   FM_CONFIG_SLOTS_MAX * chunk, err);
	if (m->arena_bytes < 2 * m->slab_bytes)
		return refuse_size(cfg, "arena", m->arena_bytes, "at least twice memory.slab",
				   2 * m->slab_bytes, err);
	if (m->arena_bytes % m->slab_bytes != 0)
		return refuse_size(cfg, "arena", m->arena_bytes, "a multiple of memory.slab",
				   m->slab_bytes, err);
	if (m->arena_bytes / m->slab_bytes > FM_CONFIG_SLABS_MAX)
		return refuse_size(cfg, "arena", m->arena_bytes,
				   "at most 1048576 times memory.slab",
				   FM_CONFIG_SLABS_MAX * m->slab_bytes, err);
	return 0;
}

/*
 * Checks the arena where no slab size is given: a size that fits is chosen later, and what is left
 * over is not used.
 */
static int check_no_slab(const struct fm_config *cfg, struct fm_err *err)
{
	uint64_t arena = cfg->memory.arena_bytes, chunk = cfg->mover.chunk_bytes;

	if (arena < 2 * chunk)
		return refuse_size(cfg, "arena", arena, "at least twice mover.chunk", 2 * chunk,
				   err);
	if (arena % ARENA_UNIT != 0)
		return refuse_size(cfg, "arena", arena, "a multiple of the smallest slab",
				   ARENA_UNIT, err);
	if (chunk && arena / (FM_CONFIG_SLOTS_MAX * chunk) > FM_CONFIG_SLABS_MAX)
		return refuse_size(cfg, "arena", arena,
				   "at most 1048576 slabs of 64 times mover.chunk",
				   FM_CONFIG_SLABS_MAX * FM_CONFIG_SLOTS_MAX * chunk, err);
	return 0;
}

static int check_memory(const struct fm_config *cfg, struct fm_err *err)
{
	const struct fm_config_memory *m = &cfg->memory;
	uint64_t need = m->arena_bytes + FM_CONFIG_OVERHEAD_BYTES + FM_CONFIG_BUDGET_MIN;
	int ret = m->slab_bytes ? check_slab(cfg, err) : check_no_slab(cfg, err);

	if (ret < 0)
		return ret;
	if (m->total_bytes < need)
		return refuse_size(cfg, "total", m->total_bytes,
				   "at least memory.arena and 56MiB for the daemon itself", need,
				   err);
	return 0;
}

/* An ID may name one store only: otherwise a path in it would have two meanings. */
static int check_shared(const struct fm_config *cfg, unsigned i, struct fm_err *err)
{
	const struct fm_config_store *s = &cfg->stores[i];

	if (!s->shared[0])
		return 0;
	if (strcmp(s->directory, "null:") == 0)
		return fm_err_set(err, -EINVAL,
				  "%.200s:%u: stores.shared: \"%s\" has no bytes that others could "
				  "see; remove it",
				  s->file, s->line, s->name);
	for (unsigned j = 0; j < i; j++)
		if (strcmp(s->shared, cfg->stores[j].shared) == 0)
			return fm_err_set(err, -EINVAL,
					  "%.200s:%u: stores.shared: \"%s\" is of the store \"%s\" "
					  "already, in line %u; remove or rename one",
					  s->file, s->line, s->shared, cfg->stores[j].name,
					  cfg->stores[j].line);
	return 0;
}

static const struct fm_config_volume *find_volume(const struct fm_config *cfg, const char *name)
{
	for (unsigned i = 0; i < cfg->volume_count; i++)
		if (strcmp(cfg->volumes[i].name, name) == 0)
			return &cfg->volumes[i];
	return NULL;
}

/*
 * The store is the whole volume: the same path in the stores of two nodes must be the same file,
 * and that is so without a word about directories below the mount point.
 */
static int check_volume(const struct fm_config *cfg, unsigned i, struct fm_err *err)
{
	const struct fm_config_store *s = &cfg->stores[i];
	const struct fm_config_volume *v = find_volume(cfg, s->volume);

	if (!s->volume[0])
		return 0;
	if (!v || !v->mount_point[0])
		return fm_err_set(err, -EINVAL,
				  "%.200s:%u: stores.volume: no entry of volumes with a mount has "
				  "the name \"%s\"; remove it or write that entry",
				  s->file, s->line, s->volume);
	if (strcmp(s->directory, v->mount_point) != 0)
		return fm_err_set(err, -EINVAL,
				  "%.200s:%u: stores.volume: \"%s\" is mounted at \"%.200s\"; say "
				  "that as the directory of the store \"%s\"",
				  s->file, s->line, s->volume, v->mount_point, s->name);
	if (s->shared[0])
		return fm_err_set(err, -EINVAL,
				  "%.200s:%u: stores.volume: the seal of \"%s\" says what is the "
				  "same on other nodes; remove shared",
				  s->file, s->line, s->volume);
	for (unsigned j = 0; j < i; j++)
		if (strcmp(s->volume, cfg->stores[j].volume) == 0)
			return fm_err_set(err, -EINVAL,
					  "%.200s:%u: stores.volume: \"%s\" is the store \"%s\" "
					  "already, in line %u; remove one",
					  s->file, s->line, s->volume, cfg->stores[j].name,
					  cfg->stores[j].line);
	return 0;
}

static int check_stores(const struct fm_config *cfg, struct fm_err *err)
{
	for (unsigned i = 0; i < cfg->store_count; i++) {
		const struct fm_config_store *s = &cfg->stores[i];

		for (unsigned j = 0; j < i; j++)
			if (strcmp(s->name, cfg->stores[j].name) == 0)
				return fm_err_set(err, -EINVAL,
						  "%.200s:%u: stores.name: \"%s\" is there "
						  "already, in line %u; remove or rename one",
						  s->file, s->line, s->name, cfg->stores[j].line);
		if (check_shared(cfg, i, err) < 0 || check_volume(cfg, i, err) < 0 ||
		    fm_own_dirs_check_spelling(cfg, s, err) < 0)
			return -EINVAL;
	}
	return 0;
}

/* That it is apart from the stores is checked with them (own_dirs.h). */
static int check_staging(const struct fm_config *cfg, struct fm_err *err)
{
	const struct fm_config_staging *staging = &cfg->staging;
	const char *state = cfg->node.state_directory;
	char where[300];

	say_where(cfg, "staging", "low", where, sizeof(where));
	if (staging->low > staging->high)
		return fm_err_set(err, -EINVAL,
				  "%s: %u is not allowed; must be at most staging.high (%u)", where,
				  staging->low, staging->high);
	if (strcmp(staging->directory, "null:") == 0)
		return 0;
	say_where(cfg, "staging", "directory", where, sizeof(where));
	if (fm_own_dirs_spells_within(staging->directory, state) ||
	    fm_own_dirs_spells_within(state, staging->directory))
		return fm_err_set(err, -EINVAL,
				  "%s: \"%.200s\" and node.state_directory \"%.200s\" must not be "
				  "within each other; move one",
				  where, staging->directory, state);
	return 0;
}

static int check_addresses(const struct fm_config_peer *p, struct fm_err *err)
{
	for (unsigned i = 0; p->addresses[i]; i++) {
		bool is_twice = strcmp(p->addresses[i], p->address) == 0;

		for (unsigned j = 0; j < i; j++)
			is_twice = is_twice || strcmp(p->addresses[i], p->addresses[j]) == 0;
		if (is_twice)
			return fm_err_set(err, -EINVAL,
					  "%.200s:%u: peers.addresses: \"%s\" is said twice for "
					  "\"%s\"; remove one",
					  p->file, p->line, p->addresses[i], p->name);
	}
	return 0;
}

/* A node may not be called "hf", because fmove stage hf:ORG/NAME means Hugging Face. */
static int check_name(const char *where, const char *name, struct fm_err *err)
{
	if (strcmp(name, "hf") == 0)
		return fm_err_set(err, -EINVAL,
				  "%s: \"hf\" is not allowed; fmove stage hf:ORG/NAME is a "
				  "repository of Hugging Face: call the node something else",
				  where);
	return 0;
}

static int check_own_name(const struct fm_config *cfg, struct fm_err *err)
{
	char where[300];

	say_where(cfg, "node", "name", where, sizeof(where));
	return check_name(where, cfg->node.name, err);
}

static int check_peer(const struct fm_config *cfg, const struct fm_config_peer *p,
		      struct fm_err *err)
{
	char where[300];

	(void)snprintf(where, sizeof(where), "%.200s:%u: peers.name", p->file, p->line);
	if (check_name(where, p->name, err) < 0)
		return -EINVAL;
	if (strcmp(p->name, cfg->node.name) == 0)
		return fm_err_set(err, -EINVAL,
				  "%.200s:%u: peers.name: \"%s\" is this node's own name; remove "
				  "the entry", p->file,
				  p->line, p->name);
	for (const struct fm_config_peer *other = cfg->peers; other < p; other++) {
		if (strcmp(p->name, other->name) == 0)
			return fm_err_set(err, -EINVAL,
					  "%.200s:%u: peers.name: \"%s\" is there already, at "
					  "%.100s:%u; remove one",
					  p->file, p->line, p->name, other->file, other->line);
		if (memcmp(p->key, other->key, sizeof(p->key)) == 0)
			return fm_err_set(err, -EINVAL,
					  "%.200s:%u: peers.key: \"%s\" and \"%s\" have the same "
					  "key; each node needs its own (fmove keygen)",
					  p->file, p->line, p->name, other->name);
	}
	return check_addresses(p, err);
}

static int check_sockets(const struct fm_config *cfg, struct fm_err *err)
{
	for (unsigned i = 0; i < cfg->socket_count; i++) {
		const struct fm_config_socket *s = &cfg->sockets[i];
		bool is_taken = strcmp(s->path, cfg->node.socket) == 0;

		for (unsigned j = 0; j < i; j++)
			is_taken |= strcmp(s->path, cfg->sockets[j].path) == 0;
		if (is_taken)
			return fm_err_set(err, -EINVAL,
					  "%.200s:%u: sockets.path: \"%s\" is another socket's, "
					  "too",
					  s->file, s->line, s->path);
	}
	return 0;
}

int fm_config_check(const struct fm_config *cfg, struct fm_err *err)
{
	int ret = check_memory(cfg, err);

	if (ret == 0)
		ret = check_own_name(cfg, err);
	if (ret == 0)
		ret = check_stores(cfg, err);
	if (ret == 0)
		ret = check_staging(cfg, err);
	if (ret == 0)
		ret = check_sockets(cfg, err);
	for (unsigned i = 0; ret == 0 && i < cfg->peer_count; i++)
		ret = check_peer(cfg, &cfg->peers[i], err);
	return ret < 0 ? ret : fm_config_check_volumes(cfg, err);
}
