/* SPDX-License-Identifier: MIT */
/* target - see target.h. */
#include "mover/services/target.h"

#include <errno.h>
#include <string.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/node/node.h"
#include "mover/wire/wire.h"

int fm_target_peer(struct fm_engine *e, const char *node, struct fm_peer **out, struct fm_err *err)
{
	*out = fm_engine_peer(e, node);
	if (*out)
		return 0;
	return fm_err_set(err, -ENOENT,
			  "no node %s in the configuration of %s; fmove status lists its peers",
			  node, e->name);
}

int fm_target_check_store(const char *store, struct fm_err *err)
{
	if (fm_wire_is_good_name(store, strlen(store)))
		return 0;
	return fm_err_set(err, -EINVAL, "'%s' is no name of a store: 1 to %d bytes without '/'",
			  store, FM_WIRE_NAME_MAX);
}

int fm_target_check(struct fm_engine *e, const char *node, const char *store, struct fm_err *err)
{
	struct fm_peer *peer;
	int ret = 0;

	if (e->is_stopping)
		return fm_err_set(err, -EHOSTDOWN, "fmoved is stopping");
	if (node)
		ret = fm_target_peer(e, node, &peer, err);
	return ret == 0 && store ? fm_target_check_store(store, err) : ret;
}

/*
 * What refuses fmoved is no rule of the store: who is told that a rule refuses somebody takes his
 * right to read copies away.
 */
static int not_by_a_rule(int code)
{
	return code == -EACCES || code == -EPERM ? -EAGAIN : code;
}

static int say_silent(struct fm_engine *e, const struct fm_store_ref *ref, struct fm_err *err)
{
	const struct fm_store *s = ref->store;

	if (s->silent_why[0])
		return fm_err_set(err, not_by_a_rule(s->silent_code), "store %s: %s", s->name,
				  s->silent_why);
	if (s->silent_code < 0) {
		(void)fm_err_sys(err, s->silent_code, "store %s: open its directory", s->name);
		err->code = not_by_a_rule(err->code);
		return err->code;
	}
	return fm_err_set(err, -ETIMEDOUT, "store %s: %s has not answered for %llu s", s->name,
			  fm_store_silent_what(s),
			  (unsigned long long)((fm_engine_now(e) - ref->room_asked_ns) /
					       FM_NS_PER_S));
}

int fm_target_store(struct fm_engine *e, const char *store, size_t len, struct fm_store_ref **out,
		    struct fm_err *err)
{
	const struct fm_store_ref *silent;
	const char *volume;

	*out = fm_engine_store_get(e, store, len);
	if (*out)
		return 0;
	silent = fm_engine_store_silent(e, store, len);
	if (silent)
		return say_silent(e, silent, err);
	volume = fm_engine_volume_of(e, store, len);
	if (volume)
		return fm_err_set(err, -EAGAIN,
				  "store %.*s is on volume %s, which is not mounted at %s: fmove "
				  "nvme status %s there says why",
				  (int)len, store, volume, e->name, volume);
	return fm_err_set(err, -ENOENT, "no store %.*s; fmove df %s lists those there are",
			  (int)len, store, e->name);
}
