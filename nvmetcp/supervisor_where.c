/* SPDX-License-Identifier: MIT */
/*
 * Where a volume is: names are looked up and discovery controllers asked by helper processes,
 * beside the volume's steps. A helper that is killed meanwhile leaves its controller, which is then
 * removed. What was known stays in force until there is an answer: a resolver or a discovery
 * controller that is away is no reason to disconnect anything.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/supervisor_priv.h"

#define RESOLVE_NS (20 * FM_NS_PER_S)
#define DISCOVER_NS (30 * FM_NS_PER_S)
#define SWEEP_NS (30 * FM_NS_PER_S)
/* less, so that the helper can say what it waits for */
#define SWEEP_WAIT_MS 25000
#define AGAIN_NS (30 * FM_NS_PER_S)		/* while a path is missing: it may have moved */
#define AGAIN_WELL_NS (300 * FM_NS_PER_S)
#define HOLD_MAX_S 60
#define KEY_MAX 400

static void where_done(struct fm_helper *helper, int code, const char *text,
		       const struct fm_json *answer);

static bool is_literal(const char *host, char out[static FM_CONNECTION_ADDRESS_MAX])
{
	return fm_connection_address(host, out) == 0;
}

static void set_path(struct fm_supervised_path *path, const char *host, const char *port)
{
	if (strcmp(path->host, host) != 0 || strcmp(path->port, port) != 0)
		path->hold = (struct fm_hold){ 0 };
	(void)snprintf(path->host, sizeof(path->host), "%s", host);
	(void)snprintf(path->port, sizeof(path->port), "%s", port);
}

static bool is_same_where(const struct fm_volume *a, const struct fm_volume *b)
{
	if (a->is_discovered != b->is_discovered || a->address_count != b->address_count)
		return false;
	for (unsigned i = 0; i < a->address_count; i++)
		if (strcmp(a->address[i].host, b->address[i].host) != 0 ||
		    strcmp(a->address[i].port, b->address[i].port) != 0)
			return false;
	return true;
}

void fm_supervised_where_set(struct fm_supervised *v, const struct fm_volume *before)
{
	const struct fm_volume *vol = v->volume;
	char literal[FM_CONNECTION_ADDRESS_MAX];

	if (before && is_same_where(before, vol))
		return;
	v->where.at = 0;
	v->where.hold = (struct fm_hold){ 0 };
	v->where.is_outdated = v->where.is_busy;
	memset(v->path, 0, sizeof(v->path));
	v->path_count = vol->is_discovered ? 0 : vol->address_count;
	for (unsigned i = 0; i < v->path_count; i++)
		set_path(&v->path[i], is_literal(vol->address[i].host, literal) ? literal : "",
			 vol->address[i].port);
}

/* ---- what a discovery leaves, if it is killed ---- */

static bool is_discovery_there(const struct fm_supervisor *sup, const char *address,
			       const char *port)
{
	for (unsigned i = 0; sup->inv && i < sup->inv->controller_count; i++) {
		const struct fm_inv_controller *c = &sup->inv->controllers[i];

		if (strcmp(c->subsysnqn, FM_CONNECTION_DISCOVERY_NQN) == 0 &&
		    strcmp(c->trsvcid, port) == 0 && fm_owned_is_same_address(c->traddr, address) &&
		    !fm_owned_find(&sup->owned, c))
			return true;
	}
	return false;
}

int fm_supervisor_discovery_begins(struct fm_supervisor *sup, const char *address, const char *port,
				   const struct fm_process *process, struct fm_err *err)
{
	int ret = 0;

	/* Somebody else's is used, and stays. */
	if (!is_discovery_there(sup, address, port))
		ret = fm_owned_expect(&sup->owned, FM_CONNECTION_DISCOVERY_NQN, address, port,
				      process, err);
	if (ret < 0)
		return ret;
	sup->discoveries++;
	fm_supervisor_save_owned(sup);
	return 0;
}

void fm_supervisor_discovery_ended(struct fm_supervisor *sup, const struct fm_process *process,
				   const struct fm_json *answer)
{
	sup->discoveries--;
	if (sup->is_stopped)
		return;
	/* What it made is gone again, unless it says otherwise; what it used is somebody's. */
	if (answer && !fm_json_is_true(fm_json_get(answer, "left")))
		fm_owned_forget(&sup->owned, process);
	else
		fm_owned_doubt(&sup->owned, process);
	fm_supervisor_save_owned(sup);
	fm_supervisor_look_soon(sup);
}

static void swept(struct fm_helper *helper, int code, const char *text,
		  const struct fm_json *answer)
{
	struct fm_supervisor *sup = fm_container_of(helper, struct fm_supervisor, sweeper);

	(void)answer;
	sup->is_sweeping = false;
	if (sup->is_stopped)
		return;
	if (code < 0) {
		fm_log_warn("a discovery controller that was left: %s", text);
		fm_hold_failed(sup, &sup->sweep_hold, 1, HOLD_MAX_S);
	} else {
		sup->sweep_hold = (struct fm_hold){ 0 };
	}
	fm_supervisor_look_soon(sup);
}

static void sweep(struct fm_supervisor *sup, const struct fm_owned *o)
{
	struct fm_json *request = fm_json_pack("{s:s, s:s, s:s, s:i}", "call", "disconnect",
					       "controller", o->controller, "subsystem",
					       o->path.subsystem, "wait_ms", SWEEP_WAIT_MS);
	struct fm_err err = { 0 };
	char key[KEY_MAX];

	(void)snprintf(key, sizeof(key), "discovery controller %s", o->controller);
	fm_log_info("%s (%s port %s) was left by a discovery that did not end: disconnecting",
		    o->controller, o->path.address, o->path.port);
	sup->sweeper.done = swept;
	sup->is_sweeping = request && sup->world->start(sup->world->ctx, &sup->sweeper, key,
							request, SWEEP_NS, &err) == 0;
	fm_json_free(request);
	if (!sup->is_sweeping)
		fm_hold_failed(sup, &sup->sweep_hold, 1, HOLD_MAX_S);
}

void fm_supervisor_sweep(struct fm_supervisor *sup)
{
	if (sup->discoveries > 0 || sup->is_sweeping || fm_hold_is_on(sup, &sup->sweep_hold))
		return;
	for (unsigned i = 0; i < sup->owned.count; i++) {
		const struct fm_owned *o = &sup->owned.entry[i];

		if (o->is_expected || !o->controller[0] ||
		    strcmp(o->path.subsystem, FM_CONNECTION_DISCOVERY_NQN) != 0)
			continue;
		sweep(sup, o);
		return;
	}
}

/* ---- asking ---- */

static bool is_to_ask(const struct fm_volume *vol)
{
	char literal[FM_CONNECTION_ADDRESS_MAX];

	for (unsigned i = 0; i < vol->address_count; i++)
		if (vol->is_discovered || !is_literal(vol->address[i].host, literal))
			return true;
	return false;
}

static void where_failed(struct fm_supervised *v, const char *text)
{
	v->where.at = (v->where.at + 1) % v->volume->address_count;
	fm_supervised_error(v, text);
	fm_hold_failed(v->sup, &v->where.hold, 1, HOLD_MAX_S);
}

/* A discovery controller that a helper leaves, because it is killed, is known to be its own. */
static int where_begins(struct fm_helper *helper, const struct fm_process *process,
			struct fm_err *err)
{
	struct fm_supervised *v = fm_container_of(helper, struct fm_supervised, where.helper);

	v->where.process = *process;
	return v->where.is_discovering
		       ? fm_supervisor_discovery_begins(v->sup, v->where.literal, v->where.port,
							process, err)
		       : 0;
}

static void begin(struct fm_supervised *v, const char *what, struct fm_json *request,
		  uint64_t timeout_ns)
{
	const struct fm_supervisor_world *world = v->sup->world;
	struct fm_err err = { 0 };
	char key[KEY_MAX];
	int ret;

	(void)snprintf(key, sizeof(key), "%s: %s", v->volume->name, what);
	v->where.helper.begins = where_begins;
	v->where.helper.done = where_done;
	if (request)
		ret = world->start(world->ctx, &v->where.helper, key, request, timeout_ns, &err);
	else
		ret = fm_err_set(&err, -ENOMEM, "no memory for a request to a helper process");
	fm_json_free(request);
	v->where.is_busy = ret == 0;
	if (ret < 0)
		where_failed(v, err.text);
}

static void begin_discovery(struct fm_supervised *v, const char *literal)
{
	const struct fm_volume *vol = v->volume;

	(void)snprintf(v->where.literal, sizeof(v->where.literal), "%s", literal);
	(void)snprintf(v->where.port, sizeof(v->where.port), "%s", vol->address[v->where.at].port);
	v->where.is_discovering = true;
	begin(v, "discovery",
	      fm_json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "call", "discover", "address",
			   literal, "port", vol->address[v->where.at].port, "host_nqn",
			   v->sup->host_nqn, "host_id", v->sup->host_id, "host_address",
			   vol->host_address, "host_interface", vol->host_interface),
	      DISCOVER_NS);
}

uint64_t fm_supervised_where_ask(struct fm_supervised *v)
{
	const struct fm_volume *vol = v->volume;
	char literal[FM_CONNECTION_ADDRESS_MAX];

	if (fm_supervised_want(v) == FM_WANT_DOWN || v->where.is_busy || !is_to_ask(vol))
		return FM_NEVER;
	if (fm_hold_is_on(v->sup, &v->where.hold))
		return v->where.hold.until_ns;
	v->where.at %= vol->address_count;
	while (!vol->is_discovered && is_literal(vol->address[v->where.at].host, literal))
		v->where.at = (v->where.at + 1) % vol->address_count;
	if (vol->is_discovered && is_literal(vol->address[v->where.at].host, literal)) {
		begin_discovery(v, literal);
	} else {
		v->where.is_discovering = false;
		begin(v, "names",
		      fm_json_pack("{s:s, s:s}", "call", "resolve", "host",
				   vol->address[v->where.at].host),
		      RESOLVE_NS);
	}
	return v->where.is_busy ? FM_NEVER : v->where.hold.until_ns;
}

/* ---- answers ---- */

static void ask_later(struct fm_supervised *v)
{
	bool is_well = v->plan.paths_wanted > 0 && v->plan.paths_live == v->plan.paths_wanted;

	v->where.hold = (struct fm_hold){.until_ns = fm_loop_now(v->sup->loop) +
						     (is_well ? AGAIN_WELL_NS : AGAIN_NS)};
}

/* Chooses an address: the one in use if it is among them, else the first. NULL: there is none. */
static const char *choose(const struct fm_json *addresses, const char *used)
{
	const char *first = NULL;
	const struct fm_json *at;
	size_t i;

	for (i = 0; (at = fm_json_at(addresses, i)); i++) {
		const char *text = fm_json_as_text(at);

		if (text && strcmp(text, used) == 0)
			return text;
		first = first ? first : text;
	}
	return first;
}

static void resolved(struct fm_supervised *v, const struct fm_json *answer)
{
	const struct fm_volume *vol = v->volume;
	unsigned at = v->where.at % vol->address_count;
	const char *host = choose(fm_json_get(answer, "addresses"),
				  vol->is_discovered ? "" : v->path[at].host);
	char literal[FM_CONNECTION_ADDRESS_MAX];

	if (!host || !is_literal(host, literal)) {
		where_failed(v, "the resolver's answer has no address");
		return;
	}
	if (vol->is_discovered) {
		begin_discovery(v, literal);
		return;
	}
	if (strcmp(v->path[at].host, literal) != 0)
		fm_log_info("volume %s: %s is %s", vol->name, vol->address[at].host, literal);
	set_path(&v->path[at], literal, vol->address[at].port);
	/* The next name at once; after the last one there is time. */
	v->where.hold = (struct fm_hold){ 0 };
	do {
		v->where.at = (v->where.at + 1) % vol->address_count;
	} while (is_literal(vol->address[v->where.at].host, literal));
	if (v->where.at <= at)
		ask_later(v);
}

static bool take_entry(const struct fm_supervised *v, const struct fm_json *entry,
		       struct fm_supervised_path *path)
{
	const char *subsystem, *address, *port;
	char literal[FM_CONNECTION_ADDRESS_MAX];

	if (fm_json_unpack(entry, "{s:s, s:s, s:s}", "subsystem", &subsystem, "address", &address,
			   "port", &port) < 0 ||
	    strcmp(subsystem, v->volume->subsystem) != 0 || !is_literal(address, literal) ||
	    strlen(port) >= sizeof(path->port))
		return false;
	set_path(path, literal, port);
	return true;
}

static bool has(const struct fm_supervised_path *paths, unsigned count,
		const struct fm_supervised_path *path)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(paths[i].host, path->host) == 0 &&
		    strcmp(paths[i].port, path->port) == 0)
			return true;
	return false;
}

static void keep_hold(const struct fm_supervised *v, struct fm_supervised_path *path)
{
	for (unsigned i = 0; i < v->path_count; i++)
		if (has(&v->path[i], 1, path))
			path->hold = v->path[i].hold;
}

static void discovered(struct fm_supervised *v, const struct fm_json *answer)
{
	struct fm_supervised_path found[FM_VOLUME_PATHS_MAX] = { 0 };
	unsigned count = 0;
	char line[FM_SUPERVISED_WHY_MAX];
	const struct fm_json *entry;
	size_t i;

	for (i = 0; (entry = fm_json_at(fm_json_get(answer, "entries"), i)); i++) {
		if (count == FM_VOLUME_PATHS_MAX || !take_entry(v, entry, &found[count]) ||
		    has(found, count, &found[count]))
			continue;
		if (!has(v->path, v->path_count, &found[count]))
			fm_log_info("volume %s: discovery at %s says %s:%s", v->volume->name,
				    v->where.literal, found[count].host, found[count].port);
		keep_hold(v, &found[count++]);
	}
	if (count == 0) {
		(void)snprintf(line, sizeof(line),
			       "the discovery controller at %s knows no %s for this host",
			       v->where.literal, v->volume->subsystem);
		where_failed(v, line);
		return;
	}
	memcpy(v->path, found, sizeof(found));
	v->path_count = count;
	ask_later(v);
}

static void where_done(struct fm_helper *helper, int code, const char *text,
		       const struct fm_json *answer)
{
	struct fm_supervised *v = fm_container_of(helper, struct fm_supervised, where.helper);
	char line[FM_SUPERVISED_WHY_MAX];

	v->where.is_busy = false;
	if (v->where.is_discovering)
		fm_supervisor_discovery_ended(v->sup, &v->where.process, answer);
	if (v->sup->is_stopped)
		return;
	if (v->where.is_outdated) {
		v->where.is_outdated = false;
	} else if (code < 0) {
		(void)snprintf(line, sizeof(line), "%s: %s",
			       v->where.is_discovering ? "discovery" : "address", text);
		where_failed(v, line);
	} else if (v->where.is_discovering) {
		discovered(v, answer);
	} else {
		resolved(v, answer);
	}
	fm_supervisor_look_soon(v->sup);
}
