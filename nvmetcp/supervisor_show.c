/* SPDX-License-Identifier: MIT */
/* What people are told of a volume: its state in one word, why in one line, and everything else as
 * JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/log.h"
#include "mover/base/utf8.h"
#include "nvmetcp/supervisor_priv.h"

const char *fm_supervised_state_name(enum fm_supervised_state state)
{
	static const char *const names[] = {
		[FM_STATE_DOWN] = "down",	      [FM_STATE_WAITING] = "waiting",
		[FM_STATE_CONNECTING] = "connecting", [FM_STATE_CONNECTED] = "connected",
		[FM_STATE_MOUNTING] = "mounting",     [FM_STATE_MOUNTED] = "mounted",
		[FM_STATE_UNMOUNTING] = "unmounting", [FM_STATE_DISCONNECTING] = "disconnecting",
		[FM_STATE_REFUSED] = "refused",	      [FM_STATE_DEGRADED] = "degraded",
	};

	return names[state];
}

/* ---- the state ---- */

static bool is_mount_wanted(const struct fm_supervised *v)
{
	return fm_supervised_want(v) == FM_WANT_UP && v->volume->mount_point[0];
}

static bool is_mounting(const struct fm_supervised *v)
{
	return v->call >= FM_CALL_PROBE && v->call <= FM_CALL_MOUNT;
}

static enum fm_supervised_state state_down(const struct fm_supervised *v)
{
	if (v->call == FM_CALL_UNMOUNT || v->plan.step == FM_STEP_UNMOUNT)
		return FM_STATE_UNMOUNTING;
	if (v->plan.step == FM_STEP_REFUSE)
		return FM_STATE_REFUSED;
	return (v->call != FM_CALL_NONE && v->call != FM_CALL_UNUSED) ||
			       v->plan.step != FM_STEP_NONE
		       ? FM_STATE_DISCONNECTING
		       : FM_STATE_DOWN;
}

static enum fm_supervised_state state_on_the_way(const struct fm_supervised *v)
{
	if (v->call == FM_CALL_DISCONNECT)
		return FM_STATE_DISCONNECTING;
	/* What failed is tried again and again: that is waiting, since the first failure. */
	if (v->tries > 0 || fm_supervised_in_use_why(v)[0])
		return FM_STATE_WAITING;
	if (v->call == FM_CALL_CONNECT)
		return FM_STATE_CONNECTING;
	/* A path is there and the kernel is at it; or nobody answers. */
	return v->plan.paths_live > 0 ? FM_STATE_CONNECTING : FM_STATE_WAITING;
}

static enum fm_supervised_state state_of(const struct fm_supervised *v)
{
	const struct fm_plan *plan = &v->plan;
	bool is_whole = plan->paths_live == plan->paths_wanted;

	/* What is mounted or connected is the former one's, and is about to go. */
	if (fm_supervised_blocker(v))
		return fm_supervised_want(v) == FM_WANT_DOWN ? FM_STATE_DISCONNECTING
							     : FM_STATE_WAITING;
	if (fm_supervised_want(v) == FM_WANT_DOWN)
		return state_down(v);
	if (v->call == FM_CALL_UNMOUNT || plan->step == FM_STEP_UNMOUNT)
		return FM_STATE_UNMOUNTING;
	if (plan->step == FM_STEP_REFUSE)
		return FM_STATE_REFUSED;
	if (plan->is_mounted)
		return is_whole ? FM_STATE_MOUNTED : FM_STATE_DEGRADED;
	if (is_mount_wanted(v) && v->is_refused && v->call != FM_CALL_MOUNT)
		return v->is_waiting ? FM_STATE_WAITING : FM_STATE_REFUSED;
	if (is_mounting(v) && v->tries == 0)
		return FM_STATE_MOUNTING;
	if (!is_mount_wanted(v) && plan->ns >= 0 && plan->paths_live > 0)
		return is_whole ? FM_STATE_CONNECTED : FM_STATE_DEGRADED;
	return state_on_the_way(v);
}

bool fm_supervised_is_as_wanted(const struct fm_supervised *v)
{
	switch (fm_supervised_want(v)) {
	case FM_WANT_DOWN:
		return v->state == FM_STATE_DOWN;
	case FM_WANT_CONNECTED:
		return v->state == FM_STATE_CONNECTED ||
		       (v->state == FM_STATE_DEGRADED && !v->plan.is_mounted);
	case FM_WANT_UP:
		return v->state == FM_STATE_MOUNTED || v->state == FM_STATE_CONNECTED ||
		       v->state == FM_STATE_DEGRADED;
	}
	return false;
}

static const char *text_of(const struct fm_supervised *v, enum fm_supervised_state state)
{
	bool is_guards = state == FM_STATE_REFUSED ? v->plan.step != FM_STEP_REFUSE
						   : state == FM_STATE_WAITING && v->is_refused;

	if (is_guards)
		return v->refusal;
	if (fm_supervised_in_use_why(v)[0] && !v->plan.is_mounted && state != FM_STATE_REFUSED)
		return fm_supervised_in_use_why(v);
	if (state == FM_STATE_MOUNTED)
		return v->unsealed_why;
	if (state == FM_STATE_DOWN || state == FM_STATE_CONNECTED)
		return "";
	return v->plan.why;
}

void fm_supervised_update(struct fm_supervised *v)
{
	const struct fm_supervised *before = fm_supervised_blocker(v);
	enum fm_supervised_state state = state_of(v);

	if (before)
		(void)snprintf(v->text, sizeof(v->text),
			       "what it was configured as before is taken down first (%s)",
			       fm_supervised_state_name(before->state));
	else
		(void)snprintf(v->text, sizeof(v->text), "%s", text_of(v, state));
	if (!v->text[0] && !v->plan.is_mounted)
		fm_supervised_show_use(v, v->text, sizeof(v->text));
	if (state == v->state)
		return;
	v->state = state;
	v->since_ms = v->sup->world->wall_ms(v->sup->world->ctx);
	v->since_ns = fm_loop_now(v->sup->loop);
	fm_log_info("volume %s: %s%s%s", v->volume->name, fm_supervised_state_name(state),
		    v->text[0] ? ": " : "", v->text);
}

/* ---- JSON ---- */

/* Names come from a target, and a line may have been cut anywhere. */
static void put_text(struct fm_json *to, const char *key, const char *text)
{
	struct fm_json *value = fm_json_of_text(text);
	char *copy = value ? NULL : strdup(text);

	if (copy) {
		fm_utf8_mend(copy);
		value = fm_json_of_text(copy);
	}
	free(copy);
	(void)fm_json_set(to, key, value);
}

static void put_int(struct fm_json *to, const char *key, uint64_t value)
{
	(void)fm_json_set(to, key, fm_json_of_i64((int64_t)value));
}

/* -1: off, or never; left out: the kernel does not say. */
static void put_seconds(struct fm_json *to, const char *key, int seconds)
{
	if (seconds == FM_INVENTORY_OFF)
		(void)fm_json_set(to, key, fm_json_of_i64(-1));
	else if (seconds != FM_INVENTORY_UNKNOWN)
		(void)fm_json_set(to, key, fm_json_of_i64(seconds));
}

/*
 * The ANA state of the volume's namespace at that controller; if the namespace is not known, of the
 * first one of the controller.
 */
static const char *ana_of(const struct fm_supervised *v, unsigned controller)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);

	for (unsigned i = 0; ns && i < ns->path_count; i++)
		if (ns->path[i].controller == (int)controller)
			return ns->path[i].ana_state;
	return "";
}

static struct fm_json *show_controller(const struct fm_supervised *v, unsigned i)
{
	const struct fm_inv_controller *c = &v->sup->inv->controllers[i];
	struct fm_inv_settings settings;
	struct fm_json *to = fm_json_object();

	v->sup->world->read_settings(v->sup->world->ctx, c->name, &settings);
	put_text(to, "name", c->name);
	put_text(to, "state", c->state);
	put_text(to, "address", c->traddr);
	put_text(to, "port", c->trsvcid);
	(void)fm_json_set(to, "is_ours", fm_json_of_bool(fm_owned_find(&v->sup->owned, c)));
	put_seconds(to, "keep_alive_s", settings.keep_alive_s);
	put_seconds(to, "reconnect_delay_s", settings.reconnect_delay_s);
	put_seconds(to, "ctrl_loss_s", settings.ctrl_loss_s);
	put_seconds(to, "fast_io_fail_s", settings.fast_io_fail_s);
	if (settings.queue_count > 0)
		put_int(to, "queues", (uint64_t)settings.queue_count - 1);
	put_text(to, "ana", ana_of(v, i));
	return to;
}

/* While it connects only we know of whose subsystem it is. */
static bool is_of(const struct fm_inv_controller *c, const struct fm_supervised *v)
{
	const struct fm_owned *o = fm_owned_find(&v->sup->owned, c);

	return strcmp(c->subsysnqn, v->volume->subsystem) == 0 ||
	       (o && strcmp(o->path.subsystem, v->volume->subsystem) == 0);
}

static struct fm_json *show_controllers(const struct fm_supervised *v)
{
	const struct fm_inventory *inv = v->sup->inv;
	struct fm_json *all = fm_json_array();

	for (unsigned i = 0; inv && i < inv->controller_count; i++)
		if (is_of(&inv->controllers[i], v))
			(void)fm_json_add(all, show_controller(v, i));
	return all;
}

static const char *mode_name(enum fm_volume_mode mode)
{
	switch (mode) {
	case FM_VOLUME_EXCLUSIVE:
		return "exclusive";
	case FM_VOLUME_READ_ONLY:
		return "read-only";
	case FM_VOLUME_SHARED_READ:
		return "shared-read";
	}
	return "";
}

/* As it was read before mounting; of a volume that was mounted before we came, as the kernel
 * says. */
static const char *fs_type_of(const struct fm_supervised *v)
{
	const struct fm_mount *mount =
		v->plan.is_mounted ? fm_mounts_at(&v->sup->mounts, v->volume->mount_point) : NULL;

	return mount ? mount->fs_type : v->has_sb ? v->sb.type : "";
}

static void show_device(const struct fm_supervised *v, struct fm_json *to)
{
	static const struct fm_inv_namespace none;
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	char device[64] = "", by_id[200] = "";

	if (!ns)
		ns = &none;
	if (ns->name[0])
		(void)snprintf(device, sizeof(device), "/dev/%s", ns->name);
	if (ns->wwid[0])
		(void)snprintf(by_id, sizeof(by_id), "/dev/disk/by-id/nvme-%s", ns->wwid);
	put_text(to, "device", device);
	put_text(to, "by_id", by_id);
	put_text(to, "wwid", ns->wwid);
	put_text(to, "uuid", ns->uuid);
	put_text(to, "nguid", ns->nguid);
	put_int(to, "nsid", ns->nsid);
	put_int(to, "size_bytes", ns->size_bytes);
	(void)fm_json_set(to, "is_read_only", fm_json_of_bool(ns->is_read_only));
	(void)fm_json_set(to, "is_write_protected",
			  fm_json_of_bool(ns->is_read_only && v->is_write_protected &&
					  v->is_protect_confirmed && fm_supervised_is_kept(v)));
	(void)fm_json_set(to, "is_reserved",
			  fm_json_of_bool(v->plan.is_read_write && v->is_reserved && !v->is_taken &&
					  fm_supervised_is_kept(v)));
	put_text(to, "fs_type", fs_type_of(v));
	put_text(to, "fs_uuid", v->has_sb ? v->sb.uuid : "");
}

static uint64_t next_try_ms(const struct fm_supervised *v)
{
	const struct fm_hold *holds[5 + FM_VOLUME_PATHS_MAX] = {&v->mount_hold, &v->unmount_hold,
								&v->disconnect_hold, &v->blind_hold,
								&v->where.hold};
	uint64_t now = fm_loop_now(v->sup->loop), next = FM_NEVER;
	unsigned count = 5;

	for (unsigned i = 0; i < v->path_count; i++)
		holds[count++] = &v->path[i].hold;
	for (unsigned i = 0; i < count; i++)
		if (holds[i]->until_ns > now && holds[i]->until_ns < next)
			next = holds[i]->until_ns;
	return next == FM_NEVER || fm_supervised_is_as_wanted(v) ? 0
								 : (next - now) / FM_NS_PER_MS + 1;
}

static void show_state(const struct fm_supervised *v, struct fm_json *to)
{
	static const char *const wants[] = {
		[FM_WANT_DOWN] = "down", [FM_WANT_CONNECTED] = "connected", [FM_WANT_UP] = "up"};
	const struct fm_volume *vol = v->volume;
	char alarm[FM_SUPERVISED_WHY_MAX];

	put_text(to, "name", vol->name);
	put_text(to, "wanted", wants[fm_supervised_want(v)]);
	put_text(to, "state", fm_supervised_state_name(v->state));
	put_int(to, "since_ms", v->since_ms);
	put_text(to, "text", v->text);
	(void)fm_json_set(to, "waits_for",
			  v->state == FM_STATE_WAITING && v->is_refused && v->waits_for
				  ? fm_json_copy(v->waits_for)
				  : fm_json_array());
	fm_supervised_show_alarm(v, alarm, sizeof(alarm));
	put_text(to, "alarm", alarm);
	put_text(to, "unprotected", v->unfit);
	put_text(to, "error", v->error);
	put_int(to, "error_ms", v->error_ms);
	put_int(to, "tries", v->tries);
	put_int(to, "next_try_ms", next_try_ms(v));
	put_text(to, "subsystem", vol->subsystem);
	put_text(to, "mode", mode_name(vol->mode));
	put_text(to, "writer", vol->writer);
	(void)fm_json_set(to, "is_writer",
			  fm_json_of_bool(v->sup->node && fm_guard_is_writer(vol, v->sup->node)));
	put_int(to, "paths_live", v->plan.paths_live);
	put_int(to, "paths_wanted", v->plan.paths_wanted);
	put_text(to, "mount_point", vol->mount_point);
	(void)fm_json_set(to, "is_mounted", fm_json_of_bool(v->plan.is_mounted));
	(void)fm_json_set(to, "is_read_write", fm_json_of_bool(v->plan.is_read_write));
}

static struct fm_json *show_one(const struct fm_supervised *v)
{
	struct fm_json *to = fm_json_object();

	if (!to)
		return NULL;
	show_state(v, to);
	show_device(v, to);
	(void)fm_json_set(to, "controllers", show_controllers(v));
	fm_supervised_show_peers(v, to);
	return to;
}

/*
 * Whether a new volume of the same name is shown instead: the configuration changed while this one
 * is being taken down.
 */
static bool is_shadowed(const struct fm_supervised *v)
{
	fm_list_each(at, next, &v->sup->volumes) {
		const struct fm_supervised *other = fm_container_of(at, struct fm_supervised, link);

		if (v->is_retired && !other->is_retired &&
		    strcmp(other->volume->name, v->volume->name) == 0)
			return true;
	}
	return false;
}

struct fm_json *fm_supervisor_show(const struct fm_supervisor *sup, const char *volume)
{
	struct fm_json *all = volume ? NULL : fm_json_array();

	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (is_shadowed(v))
			continue;
		if (!volume)
			(void)fm_json_add(all, show_one(v));
		else if (strcmp(v->volume->name, volume) == 0)
			return show_one(v);
	}
	return all;
}

/* ---- numbers ---- */

const char *fm_supervisor_node(const struct fm_supervisor *sup)
{
	return sup->node;
}

static void visit_one(const struct fm_supervised *v, const struct fm_supervisor_visitor *visitor,
		      void *ctx)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);
	const struct fm_inventory *inv = v->sup->inv;
	const struct fm_supervisor_volume seen = {
		.name = v->volume->name,
		.state = fm_supervised_state_name(v->state),
		.is_as_wanted = fm_supervised_is_as_wanted(v),
		.is_mounted = v->plan.is_mounted,
		.is_read_write = v->plan.is_read_write,
		.has_alarm = fm_supervised_has_alarm(v),
		.paths_live = v->plan.paths_live,
		.paths_wanted =
			fm_supervised_want(v) == FM_WANT_DOWN ? 0 : v->plan.paths_wanted,
		.failures = v->tries,
		.size_bytes = ns ? ns->size_bytes : 0,
		.changed_ms = v->since_ms,
		.mounts = v->mounts,
		.connects = v->connects,
		.reconnects = v->reconnects,
	};

	visitor->see_volume(ctx, &seen);
	for (unsigned i = 0; inv && i < inv->controller_count; i++)
		if (is_of(&inv->controllers[i], v))
			visitor->see_controller(ctx, &inv->controllers[i]);
}

void fm_supervisor_visit(const struct fm_supervisor *sup,
			 const struct fm_supervisor_visitor *visitor, void *ctx)
{
	fm_list_each(at, next, &sup->volumes) {
		const struct fm_supervised *v = fm_container_of(at, struct fm_supervised, link);

		if (!v->is_retired)
			visit_one(v, visitor, ctx);
	}
}
