/* SPDX-License-Identifier: MIT */
/*
 * The steps of the supervisor, each a call of a helper process: begun, and what follows from its
 * end.
 *
 * Happy path of a mount: probe (who the device is, and its first bytes), for XFS that is only read
 * xfs_state as well, the guard, the peers, the guard again, prepare (the device is nobody else's,
 * and as it is to be), mount. A wish that changes meanwhile ends it between two calls. Whatever
 * ends, a look follows.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mover/base/base64.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "nvmetcp/connection.h"
#include "nvmetcp/supervisor_priv.h"

#define CONNECT_NS (30 * FM_NS_PER_S)
#define DISCONNECT_NS (30 * FM_NS_PER_S)
/* less, so that the helper can say what it waits for */
#define DISCONNECT_WAIT_MS 25000
#define PROBE_NS (20 * FM_NS_PER_S)
#define XFS_STATE_NS (60 * FM_NS_PER_S)
#define PREPARE_NS (60 * FM_NS_PER_S)
#define RESTORE_NS (20 * FM_NS_PER_S)
#define KEEP_NS (20 * FM_NS_PER_S)
#define MOUNT_NS (180 * FM_NS_PER_S)		/* a journal may be replayed */
#define UNMOUNT_NS (120 * FM_NS_PER_S)		/* much may have to be written */
/* the same, and whether it was is not known if this is over */
#define SEAL_UNMOUNT_NS (600 * FM_NS_PER_S)
#define UNMOUNT_GONE_NS (15 * FM_NS_PER_S)	/* nothing can be */
#define HOLD_MAX_S 60
#define HOLD_BUSY_MAX_S 10			/* of an unmount: somebody will close his file */
#define REFUSAL_NS (10 * FM_NS_PER_S)
#define KEY_MAX 400

static void call_done(struct fm_helper *helper, int code, const char *text,
		      const struct fm_json *answer);

/* A mount that hangs is nowhere to be seen but in its note: without one it is not begun. */
static int mount_begins(struct fm_supervised *v, const struct fm_process *process,
			struct fm_err *err)
{
	bool is_read_write = v->how.verdict == FM_GUARD_READ_WRITE;
	int ret = fm_supervised_note_begun(v, process, is_read_write, err);

	if (ret < 0)
		return fm_err_wrap(err, "not mounted");
	if (!fm_supervised_hold(v, &v->ns, is_read_write))
		return fm_err_set(err, -EBUSY, "%u other devices of it are in use",
				  FM_SUPERVISED_HELD_MAX);
	/* What was not let go on waits for this mount: it would be in its own way. */
	if (fm_supervised_is_for_unit(v))
		fm_supervised_doubt_unit(v, is_read_write);
	return 0;
}

/*
 * Writes down that the target is asked again. The answer may be that another host has the
 * reservation. If fmove-nvmed is killed before it hears that, the next one knows from this note
 * that nobody heard it.
 */
static void keep_begins(struct fm_supervised *v)
{
	v->is_keep_asked = true;
	(void)fm_supervisor_save_mounted(v->sup, v);
}

/* Before, so that what a helper that is killed leaves is known to be its own. */
static int connect_begins(struct fm_supervised *v, const struct fm_process *process,
			  struct fm_err *err)
{
	const struct fm_owned_path *to = &v->connecting;
	int ret = fm_owned_expect(&v->sup->owned, to->subsystem, to->address, to->port, process,
				  err);

	if (ret < 0)
		return ret;
	v->connector = *process;
	fm_supervisor_save_owned(v->sup);
	return 0;
}

/*
 * Writes down what a helper is about to do. An unmount begins even if that fails: an fmove-nvmed
 * that starts later finds the mount, or the device in use.
 */
static int call_begins(struct fm_helper *helper, const struct fm_process *process,
		       struct fm_err *err)
{
	struct fm_supervised *v = fm_container_of(helper, struct fm_supervised, helper);

	if (v->begins == FM_CALL_MOUNT)
		return mount_begins(v, process, err);
	if (v->begins == FM_CALL_CONNECT)
		return connect_begins(v, process, err);
	if (v->begins == FM_CALL_KEEP && v->is_reservation_asked)
		keep_begins(v);
	if (v->begins == FM_CALL_UNMOUNT && v->is_left_read_write &&
	    fm_supervised_note_begun(v, process, true, err) < 0)
		fm_log_warn("volume %s: its unmount: %s", v->volume->name, err->text);
	return 0;
}

/* request is taken over; NULL is no memory for it. The key says what the call is about: see
 * helper.h. */
static int begin(struct fm_supervised *v, enum fm_supervised_call call, const char *key,
		 struct fm_json *request, uint64_t timeout_ns)
{
	const struct fm_supervisor_world *world = v->sup->world;
	struct fm_err err = { 0 };
	int ret;

	v->helper.done = call_done;
	v->helper.begins = call_begins;
	/* Without its controller everything else that hangs there ends. */
	v->helper.is_freeing = call == FM_CALL_DISCONNECT ||
			       (call == FM_CALL_UNMOUNT && v->is_lazy);
	v->begins = call;
	if (request)
		ret = world->start(world->ctx, &v->helper, key, request, timeout_ns, &err);
	else
		ret = fm_err_set(&err, -ENOMEM, "no memory for a request to a helper process");
	fm_json_free(request);
	if (ret == 0)
		v->call = call;
	else
		fm_supervised_error(v, err.text);
	return ret;
}

void fm_supervised_device_keys(const struct fm_supervised *v, char *key, size_t size)
{
	(void)snprintf(key, size, "%s: device ", v->volume->name);
}

static void key_of_device(const struct fm_supervised *v, dev_t dev, char key[static KEY_MAX])
{
	size_t len;

	fm_supervised_device_keys(v, key, KEY_MAX);
	len = strlen(key);
	(void)snprintf(key + len, KEY_MAX - len, "%u:%u", major(dev), minor(dev));
}

int fm_supervised_begin_on(struct fm_supervised *v, enum fm_supervised_call call, dev_t dev,
			   struct fm_json *request, uint64_t timeout_ns)
{
	char key[KEY_MAX];

	key_of_device(v, dev, key);
	return begin(v, call, key, request, timeout_ns);
}

/* ---- connect ---- */

static struct fm_json *connect_request(const struct fm_supervised *v,
				       const struct fm_supervised_path *path)
{
	const struct fm_volume *vol = v->volume;

	return fm_json_pack(
		"{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, "
		"s:b, s:b, s:b, s:s, s:s}",
		"call", "connect", "subsystem", vol->subsystem, "address", path->host, "port",
		path->port, "host_nqn", v->sup->host_nqn, "host_id", v->sup->host_id,
		"host_address", vol->host_address, "host_interface", vol->host_interface, "queues",
		(int)vol->queues, "queue_size", (int)vol->queue_size, "keep_alive_s",
		vol->keep_alive_s, "reconnect_delay_s", vol->reconnect_delay_s, "ctrl_loss_s",
		vol->ctrl_loss_s, "fast_io_fail_s", vol->fast_io_fail_s, "header_digest",
		vol->has_header_digest, "data_digest", vol->has_data_digest, "tls", vol->has_tls,
		"secret_file", vol->secret_file, "controller_secret_file",
		vol->controller_secret_file);
}

void fm_supervised_connect(struct fm_supervised *v, unsigned path)
{
	struct fm_supervised_path *p = &v->path[path];
	char key[KEY_MAX];

	v->connecting = (struct fm_owned_path){ 0 };
	(void)snprintf(v->connecting.subsystem, sizeof(v->connecting.subsystem), "%s",
		       v->volume->subsystem);
	memcpy(v->connecting.address, p->host, sizeof(p->host));
	memcpy(v->connecting.port, p->port, sizeof(p->port));
	(void)snprintf(key, sizeof(key), "%s: connection", v->volume->name);
	if (begin(v, FM_CALL_CONNECT, key, connect_request(v, p), CONNECT_NS) < 0)
		fm_hold_failed(v->sup, &p->hold, 1, HOLD_MAX_S);
}

/*
 * Whether only a change of the configuration, here or at the target, can help. Then it is tried
 * less often.
 */
static bool is_slow_trouble(const char *trouble)
{
	static const enum fm_connection_trouble slow[] = {FM_TROUBLE_NOT_ALLOWED, FM_TROUBLE_SECRET,
							  FM_TROUBLE_REFUSED,	  FM_TROUBLE_KERNEL,
							  FM_TROUBLE_PERMISSION,  FM_TROUBLE_VALUE};

	for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		if (strcmp(trouble, fm_connection_trouble_name(slow[i])) == 0)
			return true;
	return false;
}

/* NULL: the volume has this path no more. */
static struct fm_supervised_path *connecting_path(struct fm_supervised *v)
{
	for (unsigned i = 0; i < v->path_count; i++)
		if (strcmp(v->path[i].port, v->connecting.port) == 0 &&
		    strcmp(v->path[i].host, v->connecting.address) == 0)
			return &v->path[i];
	return NULL;
}

static void connect_failed(struct fm_supervised *v, struct fm_supervised_path *path,
			   const char *text, const struct fm_json *answer)
{
	const char *trouble = fm_json_as_text(fm_json_get(answer, "trouble"));
	const struct fm_owned_path *to = &v->connecting;
	char line[FM_SUPERVISED_WHY_MAX];

	/* A helper that was killed, or died, cannot say what it has done. */
	if (trouble)
		fm_owned_forget(&v->sup->owned, &v->connector);
	else
		fm_owned_doubt(&v->sup->owned, &v->connector);
	(void)snprintf(line, sizeof(line), "%s port %s: %s", to->address, to->port, text);
	/* its own text names the target, where that matters */
	fm_supervised_error(v, trouble ? text : line);
	if (path)
		fm_hold_failed(v->sup, &path->hold,
			       trouble && is_slow_trouble(trouble) ? HOLD_MAX_S : 1, HOLD_MAX_S);
}

static void connect_done(struct fm_supervised *v, int code, const char *text,
			 const struct fm_json *answer)
{
	struct fm_supervised_path *path = connecting_path(v);
	const struct fm_owned_path *to = &v->connecting;
	struct fm_owned_list *owned = &v->sup->owned;
	int cntlid = 0, was_there = 0;
	const char *name = "";

	if (code == 0 && fm_json_unpack(answer, "{s:s, s:i, s:b}", "controller", &name, "cntlid",
					&cntlid, "was_there", &was_there) < 0) {
		code = -EBADMSG;
		text = "the helper process answered something that is no connection";
		answer = NULL;
	}
	if (code < 0) {
		connect_failed(v, path, text, answer);
		fm_supervisor_save_owned(v->sup);
		return;
	}
	v->connects += !was_there;
	if (was_there)
		fm_owned_forget(owned, &v->connector);
	else
		fm_owned_made(owned, &v->connector, name, cntlid);
	fm_supervisor_save_owned(v->sup);
	fm_log_info("volume %s: %s:%s: %s is %s", v->volume->name, to->address, to->port, name,
		    was_there ? "there already" : "connected");
	fm_supervised_worked(v);
	if (path)
		fm_hold_worked(v->sup, &path->hold);
}

/*
 * Waits before the next try, because a file is open. It is short at the end of the machine, when
 * every program ends.
 */
static void hold_busy(struct fm_supervised *v, struct fm_hold *hold)
{
	fm_hold_failed(v->sup, hold, 1, v->sup->is_closed ? 1 : HOLD_BUSY_MAX_S);
}

/* ---- disconnect ---- */

/*
 * Whether a disconnect waits until nobody uses the device. Not by force. Without a live path only
 * as long as an unmount may take, because nothing can be written any more.
 */
static bool is_use_respected(const struct fm_supervised *v)
{
	return !fm_supervised_is_forced(v) &&
	       !(v->lost_ns && fm_loop_now(v->sup->loop) >= v->lost_ns + UNMOUNT_NS);
}

static bool is_live_elsewhere(const struct fm_inventory *inv, const struct fm_inv_namespace *ns,
			      const struct fm_inv_controller *c)
{
	for (unsigned i = 0; i < ns->path_count; i++) {
		const struct fm_inv_controller *other = &inv->controllers[ns->path[i].controller];

		if (other != c && strcmp(other->state, "live") == 0)
			return true;
	}
	return false;
}

/* Whether the namespace cannot be reached any more without that controller, and matters to
 * somebody. */
static bool goes_with(const struct fm_supervised *v, const struct fm_inv_namespace *ns,
		      const struct fm_inv_controller *c)
{
	const struct fm_inventory *inv = v->sup->inv;

	if (ns->dev == 0 || !fm_inventory_is_path(ns, (int)(c - inv->controllers)) ||
	    is_live_elsewhere(inv, ns, c))
		return false;
	/* Others of the subsystem are no less in use because this volume is given up. */
	return is_use_respected(v) || (ns != fm_supervised_ns(v) && strcmp(c->state, "live") == 0);
}

/*
 * Devices that go with the controller: what uses one, a file system for instance that somebody else
 * has unmounted and the kernel is still writing out, would lose that.
 */
static struct fm_json *devices_of(const struct fm_supervised *v, const struct fm_inv_controller *c)
{
	const struct fm_inventory *inv = v->sup->inv;
	struct fm_json *all = fm_json_array();
	char device[64];

	for (unsigned i = 0; i < inv->namespace_count; i++) {
		const struct fm_inv_namespace *ns = &inv->namespaces[i];

		if (!goes_with(v, ns, c))
			continue;
		(void)snprintf(device, sizeof(device), "/dev/%s", ns->name);
		(void)fm_json_add(all, fm_json_pack("{s:s, s:[i, i]}", "device", device, "rdev",
						    (int)major(ns->dev), (int)minor(ns->dev)));
	}
	return all;
}

void fm_supervised_disconnect(struct fm_supervised *v, const struct fm_inv_controller *c)
{
	char key[KEY_MAX];

	if (v->disconnect_hold.failures == 0)
		fm_log_info("volume %s: disconnecting %s (%s)", v->volume->name, c->name,
			    v->plan.why);
	(void)snprintf(key, sizeof(key), "%s: connection", v->volume->name);
	if (begin(v, FM_CALL_DISCONNECT, key,
		  fm_json_pack("{s:s, s:s, s:s, s:i, s:o*}", "call", "disconnect", "controller",
			       c->name, "subsystem", v->volume->subsystem, "wait_ms",
			       DISCONNECT_WAIT_MS, "unused", devices_of(v, c)),
		  DISCONNECT_NS) < 0)
		fm_hold_failed(v->sup, &v->disconnect_hold, 1, HOLD_MAX_S);
}

static void disconnect_done(struct fm_supervised *v, int code, const char *text)
{
	if (code == 0) {
		fm_supervised_worked(v);
		v->disconnect_hold = (struct fm_hold){ 0 };
		return;
	}
	fm_supervised_error(v, text);
	if (code == -EBUSY)
		hold_busy(v, &v->disconnect_hold);
	else
		fm_hold_failed(v->sup, &v->disconnect_hold, 1, HOLD_MAX_S);
}

/* ---- mount: probe, xfs_state, guard, prepare, mount ---- */

static void mount_failed(struct fm_supervised *v, const char *text)
{
	fm_supervised_error(v, text);
	v->is_refused = false;
	fm_hold_failed(v->sup, &v->mount_hold, 1, HOLD_MAX_S);
}

static void hold_refused(struct fm_supervised *v, const char *why)
{
	const struct fm_inv_namespace *ns = &v->ns;

	v->is_refused = true;
	(void)snprintf(v->refusal, sizeof(v->refusal), "%s", why);
	v->refused_facts = (struct fm_supervised_facts){.dev = ns->dev,
							.size_bytes = ns->size_bytes,
							.is_read_only = ns->is_read_only,
							.peers_version = v->sup->peers_version};
	memcpy(v->refused_facts.wwid, ns->wwid, sizeof(ns->wwid));
	v->mount_hold.until_ns = fm_loop_now(v->sup->loop) + REFUSAL_NS;
}

static void mount_refused(struct fm_supervised *v, const char *why)
{
	if (!v->is_refused || v->is_waiting || strcmp(v->refusal, why) != 0)
		fm_log_warn("volume %s: not mounted: %s", v->volume->name, why);
	v->is_waiting = false;
	hold_refused(v, why);
}

/* The mount waits for words. That is no error: it ends by itself. */
static void mount_waits(struct fm_supervised *v, const char *why)
{
	if (!v->is_refused || !v->is_waiting || strcmp(v->refusal, why) != 0)
		fm_log_info("volume %s: not mounted yet: %s", v->volume->name, why);
	fm_supervised_worked(v);
	v->is_waiting = true;
	hold_refused(v, why);
}

/* {"call": CALL, "device", "rdev", and the wwid if there is one}. */
static struct fm_json *device_request(const struct fm_inv_namespace *ns, const char *call,
				      bool has_wwid)
{
	char device[64];

	(void)snprintf(device, sizeof(device), "/dev/%s", ns->name);
	return fm_json_pack("{s:s, s:s, s:[i, i], s:s*}", "call", call, "device", device, "rdev",
			    (int)major(ns->dev), (int)minor(ns->dev), "wwid",
			    has_wwid && ns->wwid[0] ? ns->wwid : NULL);
}

static int begin_on_device(struct fm_supervised *v, enum fm_supervised_call call,
			   struct fm_json *request, uint64_t timeout_ns)
{
	int ret = fm_supervised_begin_on(v, call, v->ns.dev, request, timeout_ns);

	if (ret < 0)
		fm_hold_failed(v->sup, &v->mount_hold, 1, HOLD_MAX_S);
	return ret;
}

void fm_supervised_mount(struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	bool may_write;

	if (fm_supervised_is_left_hanging(v, &may_write)) {
		mount_failed(v,
			     "a mount or an unmount that was begun before fmove-nvmed was "
			     "restarted hangs in the kernel: nothing is "
			     "mounted until that ends, as it does when the target answers again or "
			     "this machine boots");
		return;
	}
	v->ns = *ns;
	v->has_sb = false;
	(void)begin_on_device(v, FM_CALL_PROBE, device_request(ns, "probe", true), PROBE_NS);
}

/* Replaces the identity that the look saw by that of the open device. */
static int take_identity(struct fm_inv_namespace *ns, const struct fm_json *answer)
{
	const char *wwid, *uuid, *nguid;
	long long size;
	int nsid, is_ro;

	if (fm_json_unpack(answer, "{s:s, s:s, s:s, s:i, s:I, s:b}", "wwid", &wwid, "uuid", &uuid,
			   "nguid", &nguid, "nsid", &nsid, "size", &size, "read_only", &is_ro) < 0)
		return -EBADMSG;
	if (strlen(wwid) >= sizeof(ns->wwid) || strlen(uuid) >= sizeof(ns->uuid) ||
	    strlen(nguid) >= sizeof(ns->nguid))
		return -EBADMSG;
	strcpy(ns->wwid, wwid);
	strcpy(ns->uuid, uuid);
	strcpy(ns->nguid, nguid);
	ns->nsid = (uint32_t)nsid;
	ns->size_bytes = (uint64_t)size;
	ns->is_read_only = is_ro;
	return 0;
}

static int take_superblock(struct fm_supervised *v, const struct fm_json *answer)
{
	const char *text = fm_json_as_text(fm_json_get(answer, "superblock"));
	uint8_t bytes[FM_SUPERBLOCK_BYTES];

	if (!text || fm_base64_decode(FM_BASE64, text, bytes, sizeof(bytes)) < 0)
		return -EBADMSG;
	v->sb_sum = fm_superblock_sum(bytes);
	return fm_superblock_parse(bytes, sizeof(bytes), &v->sb);
}

/*
 * What the target is asked for, where it can: a reservation for the writer, or write protection for
 * a sealed volume.
 */
static struct fm_json *target_request(const struct fm_supervised *v)
{
	bool is_reader = v->how.verdict == FM_GUARD_READ_ONLY;
	struct fm_json *target = fm_json_pack(
		"{s:s*}", "reserve_as", !is_reader && v->is_reserved ? v->sup->host_id : NULL);

	if (v->is_write_protected && fm_guard_is_writer(v->volume, v->sup->node))
		(void)fm_json_set(target, "write_protect", fm_json_of_bool(is_reader));
	return target;
}

/*
 * Whether xfs_logprint is needed: the superblock of XFS does not say whether it was cleanly
 * unmounted.
 */
static bool needs_xfs_state(const struct fm_supervised *v)
{
	return !fm_supervised_is_writable(v) && strcmp(v->sb.type, "xfs") == 0;
}

static struct fm_json *prepare_request(const struct fm_supervised *v)
{
	bool is_reader = v->how.verdict == FM_GUARD_READ_ONLY;
	struct fm_json *request = device_request(&v->ns, "prepare", true);
	int ret = request ? fm_json_set(request, "point", fm_json_of_text(v->volume->mount_point))
			  : -1;

	/* A writer's device that is read-only is so by us, or the guard would have refused. */
	if (ret == 0 && (is_reader || v->ns.is_read_only))
		ret = fm_json_set(request, "read_only_device", fm_json_of_bool(is_reader));
	if (ret == 0 && needs_xfs_state(v))
		ret = fm_json_set(request, "xfs", fm_json_of_bool(true));
	if (ret == 0)
		ret = fm_json_set(request, "target", target_request(v));
	if (ret == 0)
		return request;
	fm_json_free(request);
	return NULL;
}

static struct fm_json *mount_request(const struct fm_supervised *v)
{
	const struct fm_volume *vol = v->volume;
	struct fm_json *request = device_request(&v->ns, "mount", true);
	char *options;
	int ret;

	if (asprintf(&options, "%s%s%s", vol->mount_options, vol->mount_options[0] ? "," : "",
		     v->how.options) < 0)
		options = NULL;
	ret = options && request
		      ? fm_json_set_all(request,
					fm_json_pack("{s:s, s:s, s:s}", "point", vol->mount_point,
						     "type",
						     vol->fs_type[0] ? vol->fs_type : v->sb.type,
						     "options", options))
		      : -1;
	free(options);
	if (ret == 0)
		return request;
	fm_json_free(request);
	return NULL;
}

/*
 * Whether this node itself set the device read-only, for instance in a helper that was killed. That
 * is no reason to refuse the mount.
 */
static bool is_read_only_by_us(const struct fm_supervised *v)
{
	return v->ns.is_read_only && v->read_only_wwid[0] &&
	       strcmp(v->read_only_wwid, v->ns.wwid) == 0;
}

static void note_waits(struct fm_supervised *v, const struct fm_guard_answer *how,
		       const struct fm_guard_peer *peers)
{
	fm_json_free(v->waits_for);
	v->waits_for = how->waits_count > 0 ? fm_json_array() : NULL;
	for (unsigned i = 0; i < how->waits_count; i++)
		(void)fm_json_add(v->waits_for, fm_json_of_text(peers[how->waits_for[i]].node));
}

/* Asks the guard. The table of mounts is read anew, because the last look may be seconds old. */
static int ask_guard(struct fm_supervised *v, struct fm_guard_answer *how, struct fm_err *err)
{
	const struct fm_supervisor *sup = v->sup;
	bool is_writer = fm_guard_is_writer(v->volume, sup->node);
	struct fm_inv_namespace ns = v->ns;
	struct fm_guard_facts facts = {
		.node = sup->node, .volume = v->volume, .ns = &ns, .sb = &v->sb};
	struct fm_guard_peer *peers = NULL;
	struct fm_mounts mounts = { 0 };
	int ret = fm_supervised_guard_peers(v, &peers, &facts.peer_count);

	if (ret < 0)
		return fm_err_set(err, ret, "no memory for what peers say");
	ret = sup->world->read_mounts(sup->world->ctx, &mounts, err);
	if (ret == 0) {
		facts.mounts = &mounts;
		facts.peers = peers;
		facts.peers_why = fm_supervised_peers_why(v);
		facts.is_reservable = !v->is_unreservable;
		facts.is_forced = v->is_mount_forced;
		facts.is_sealed = is_writer ? !fm_supervised_is_writable(v) : v->is_heard_sealed;
		facts.is_sealing = is_writer && v->seal == FM_SEAL_WANTED && !v->is_written;
		facts.has_heard = v->is_heard_now;
		facts.number = v->epoch;
		ns.is_read_only = ns.is_read_only && !is_read_only_by_us(v);
		facts.last_wwid = v->last_wwid[0] ? v->last_wwid : NULL;
		facts.last_size_bytes =
			strcmp(v->last_wwid, v->ns.wwid) == 0 ? v->last_size_bytes : 0;
		fm_guard_decide(&facts, how);
		note_waits(v, how, peers);
		fm_mounts_free(&mounts);
	}
	free(peers);
	return ret;
}

/*
 * Writes down all that the preparation will do, because a helper that is killed undoes nothing. If
 * the note fails, the target is not asked for anything.
 */
static void note_prepare(struct fm_supervised *v)
{
	bool is_reader = v->how.verdict == FM_GUARD_READ_ONLY,
	     was_protected = v->is_write_protected, was_reserved = v->is_reserved;

	if (is_reader && !v->ns.is_read_only) {
		v->is_write_protected =
			v->is_write_protected || fm_guard_is_writer(v->volume, v->sup->node);
		fm_supervised_note_read_only(v, v->ns.wwid);
	}
	/* asked anew */
	v->is_protect_confirmed = v->is_taken = v->is_doubtful = v->is_keep_due = false;
	v->is_reserved_unknown = false;
	v->is_reserved = v->is_reserved || !is_reader;
	if (fm_supervisor_save_mounted(v->sup, v) < 0) {
		v->is_write_protected = was_protected;
		v->is_reserved = was_reserved;
	}
}

static void begin_prepare(struct fm_supervised *v, const struct fm_guard_answer *how)
{
	v->how = *how;
	v->is_restore_due = false;
	v->mounting_epoch = v->epoch;		/* as old as the cache that is dropped, or older */
	note_prepare(v);
	(void)begin_on_device(v, FM_CALL_PREPARE, prepare_request(v), PREPARE_NS);
}

/* Set read-only by us, and by nobody else; the writer's own is made writable for his next mount. */
static bool is_to_be_writable(const struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	return v->read_only_wwid[0] && strcmp(v->read_only_wwid, ns->wwid) == 0 &&
	       !v->is_write_protected && !fm_guard_is_writer(v->volume, v->sup->node);
}

/* Adds what is to be undone at a device to a request of "restore" or "unmount". */
static int put_undo(const struct fm_supervised *v, struct fm_json *request)
{
	return fm_json_set_all(request, fm_json_pack("{s:b, s:s*}", "read_write_device",
						     v->is_read_write_asked, "release_as",
						     v->is_release_asked ? v->sup->host_id : NULL));
}

static void begin_undo(struct fm_supervised *v, bool is_read_write, bool is_release)
{
	struct fm_json *request = device_request(&v->ns, "restore", false);

	v->is_read_write_asked = is_read_write;
	v->is_release_asked = is_release;
	if (put_undo(v, request) < 0) {
		fm_json_free(request);
		request = NULL;
	}
	(void)begin_on_device(v, FM_CALL_RESTORE, request, RESTORE_NS);
}

/*
 * A mount that came to nothing leaves the device as it was. What cannot be done now is done by the
 * next unmount. At the writer it stays read-only: it is sealed, or to be sealed, and made writable
 * for the next mount that writes.
 */
static void begin_restore(struct fm_supervised *v)
{
	v->is_restore_due = false;
	if (v->how.verdict == FM_GUARD_READ_ONLY && is_to_be_writable(v, &v->ns))
		begin_undo(v, true, false);
}

void fm_supervised_restore(struct fm_supervised *v)
{
	if (v->is_restore_due && v->held_count == 0 && v->cut_dev == 0)
		begin_restore(v);
}

/*
 * Gives back a reservation of a volume that is not mounted: somebody else unmounted it, or the
 * mount failed. Until then no other host could write to it.
 */
void fm_supervised_release(struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	v->ns = *ns;
	begin_undo(v, false, true);
}

static void restore_done(struct fm_supervised *v, int code, const char *text)
{
	if (code < 0) {
		fm_log_warn("volume %s: %s: %s", v->volume->name,
			    v->is_release_asked ? "the target still keeps it for this host"
						: "the "
						  "device "
						  "is still "
						  "set "
						  "read-only",
			    text);
		return;
	}
	v->is_reserved = v->is_reserved && !v->is_release_asked;
	if (v->is_read_write_asked)
		fm_supervised_note_read_only(v, "");
	(void)fm_supervisor_save_mounted(v->sup, v);
}

/* What is not clean the guard refuses, with what to do. */
static bool is_changed(struct fm_supervised *v)
{
	if (v->sb.clean != FM_CLEAN || !fm_supervised_is_other_than_sealed(v))
		return false;
	fm_supervised_seal_anew(v, "what is on the device is not what was sealed");
	return true;
}

/*
 * Ends a seal of what is not clean. A replay of its journal makes it clean, but what was not in the
 * journal is lost: a person looks before readers do.
 */
static void end_unclean_seal(struct fm_supervised *v)
{
	char why[FM_SUPERVISED_WHY_MAX];

	(void)snprintf(why, sizeof(why),
		       "the %s on %s was not cleanly unmounted, after a crash or without its "
		       "target for instance, and what was written last may be lost: look at what "
		       "is there, then say fmove nvme seal %s again",
		       v->sb.type, v->ns.name, v->volume->name);
	fm_supervised_end_seal(v, why);
}

/*
 * Asks the guard, and announces the mount if it does not refuse. A refused mount is not announced:
 * two nodes that kept announcing would refuse each other for ever.
 */
static void decide(struct fm_supervised *v, bool is_asked)
{
	struct fm_guard_answer how;
	struct fm_err err = { 0 };

	if (!fm_supervised_has_number(v)) {
		mount_failed(v, "the number that it takes is not written down: see the log");
		return;
	}
	if (is_changed(v))	/* and a look follows */
		return;
	if (ask_guard(v, &how, &err) < 0) {
		mount_failed(v, err.text);
		return;
	}
	if (how.is_unclean && v->seal == FM_SEAL_WANTED)
		end_unclean_seal(v);		/* and a look follows */
	else if (how.verdict == FM_GUARD_REFUSED)
		mount_refused(v, how.why);
	else if (how.verdict == FM_GUARD_WAITING)
		mount_waits(v, how.why);
	else if (is_asked)
		begin_prepare(v, &how);
	else if (fm_supervised_ask(v) < 0)
		mount_failed(v, "that it is about to be mounted cannot be told to the peers, or "
				"not written down: see the log");
}

/* Between two calls of a mount: ended where it is wanted no more. */
static bool is_still_wanted(const struct fm_supervised *v)
{
	return fm_supervised_want(v) == FM_WANT_UP && v->volume->mount_point[0];
}

void fm_supervised_peers_asked(struct fm_supervised *v)
{
	v->call = FM_CALL_NONE;
	if (is_still_wanted(v))
		decide(v, true);
	fm_supervisor_look_soon(v->sup);
}

static void probe_done(struct fm_supervised *v, int code, const char *text,
		       const struct fm_json *answer)
{
	if (code == 0 &&
	    (take_identity(&v->ns, answer) < 0 || take_superblock(v, answer) < 0)) {
		code = -EBADMSG;
		text = "the helper process answered something that is no device";
	}
	if (code < 0) {
		mount_failed(v, text);
		return;
	}
	v->has_sb = true;
	if (!is_still_wanted(v))
		return;
	if (needs_xfs_state(v) && v->sb.clean == FM_CLEAN_UNKNOWN)
		(void)begin_on_device(v, FM_CALL_XFS_STATE,
				      device_request(&v->ns, "xfs_state", false), XFS_STATE_NS);
	else
		decide(v, false);
}

/*
 * Takes the answer of xfs_logprint. If it is not installed the state stays unknown, and the guard
 * refuses.
 */
static void xfs_state_done(struct fm_supervised *v, int code, const char *text,
			   const struct fm_json *answer)
{
	const struct fm_json *clean = fm_json_get(answer, "clean");

	if (code < 0 && code != -ENOENT) {
		mount_failed(v, text);
		return;
	}
	if (code < 0)
		fm_log_warn("volume %s: %s", v->volume->name, text);
	else
		v->sb.clean = fm_json_is_true(clean) ? FM_CLEAN : FM_UNCLEAN;
	if (is_still_wanted(v))
		decide(v, false);
}

/*
 * Begins the mount. Nobody on this node can write to the device now, so a seal takes effect from
 * here on.
 */
static void begin_mount(struct fm_supervised *v)
{
	bool is_reader = v->how.verdict == FM_GUARD_READ_ONLY;
	struct fm_err err = { 0 };

	if (is_reader && fm_supervised_sealed(v, &err) < 0) {
		mount_failed(v, err.text);
		begin_restore(v);
		return;
	}
	if (fm_guard_is_writer(v->volume, v->sup->node))
		v->mounting_epoch = is_reader ? v->epoch : 0;
	(void)begin_on_device(v, FM_CALL_MOUNT, mount_request(v), MOUNT_NS);
}

/* Takes what the target answered. A request that failed may have been carried out all the same. */
static void take_target(struct fm_supervised *v, const struct fm_json *answer)
{
	const char *why = fm_json_as_text(fm_json_get(answer, "unprotected"));

	v->is_protect_confirmed = fm_json_is_true(fm_json_get(answer, "write_protected"));
	if (why)
		fm_log_warn("volume %s: the target does not protect what is sealed: %s",
			    v->volume->name, why);
	else if (fm_guard_is_writer(v->volume, v->sup->node))
		v->is_write_protected = v->is_protect_confirmed;
	if (v->how.verdict == FM_GUARD_READ_WRITE)
		v->is_reserved = fm_json_is_true(fm_json_get(answer, "reserved"));
	(void)fm_supervisor_save_mounted(v->sup, v);
}

/* The configuration names another writer meanwhile. */
static bool is_outdated(const struct fm_supervised *v)
{
	return v->how.verdict == FM_GUARD_READ_WRITE &&
	       !fm_guard_is_writer(v->volume, v->sup->node);
}

/* The guard would let it be mounted only if the target kept it for this node. */
static bool is_unprotected(const struct fm_supervised *v, const struct fm_guard_answer *how)
{
	return how->needs_reservation && !v->is_reserved;
}

/*
 * Asks the guard once more, with what is on the device now that nobody else can have it. Since the
 * probe, seconds ago, somebody may have written, and peers may have spoken. False: it is not
 * mounted.
 */
static bool is_still_allowed(struct fm_supervised *v, const struct fm_json *answer)
{
	const struct fm_json *clean = fm_json_get(answer, "clean");
	struct fm_guard_answer how;
	struct fm_err err = { 0 };

	if (take_superblock(v, answer) < 0) {
		mount_failed(v, "the helper process answered something that is no device");
		return false;
	}
	if (clean)
		v->sb.clean = fm_json_is_true(clean) ? FM_CLEAN : FM_UNCLEAN;
	if (is_changed(v))
		return false;
	if (ask_guard(v, &how, &err) < 0)
		mount_failed(v, err.text);
	else if (is_unprotected(v, &how))
		mount_waits(v, how.why);
	else if (how.verdict == v->how.verdict && strcmp(how.options, v->how.options) == 0)
		return true;
	else if (how.verdict == FM_GUARD_REFUSED)
		mount_refused(v, how.why);
	else if (how.verdict == FM_GUARD_WAITING)
		mount_waits(v, how.why);
	else
		mount_failed(v, "what is on the device has changed since it was looked at: it is "
				"looked at again");
	return false;
}

static void prepare_done(struct fm_supervised *v, int code, const char *text,
			 const struct fm_json *answer)
{
	bool was_asked = v->is_reserved;

	if (code < 0) {
		if (code == -EBADE)	/* another host has it reserved */
			mount_refused(v, text);
		else
			mount_failed(v, text);
		return;
	}
	v->is_refused = false;
	take_target(v, answer);
	/* Somebody else was first to set it read-only: that is his. */
	if (!v->ns.is_read_only && !fm_json_is_true(fm_json_get(answer, "set_read_only")) &&
	    !v->is_write_protected)
		fm_supervised_note_read_only(v, "");
	v->is_unreservable = was_asked && v->how.verdict == FM_GUARD_READ_WRITE && !v->is_reserved;
	if (is_unprotected(v, &v->how))
		mount_waits(v, v->how.why);
	else if (is_still_wanted(v) && !is_outdated(v) && is_still_allowed(v, answer))
		begin_mount(v);
	else
		begin_restore(v);
}

/*
 * Whether the helper itself gave this code. -ENOMEM counts as no answer: the helper may have
 * answered, but the answer was lost.
 */
static bool is_answered(int code)
{
	return code != -ETIMEDOUT && code != -EPROTO && code != -EBADMSG && code != -EMSGSIZE &&
	       code != -ENOMEM;
}

static void mount_done(struct fm_supervised *v, int code, const char *text,
		       const struct fm_json *answer)
{
	const char *unfit = fm_json_as_text(fm_json_get(answer, "unit_unfit"));

	/*
	 * Only then: a unit that had the permission may be mounting it yet, also where the helper
	 * has asked systemd for nothing. It is asked with the device (supervisor_held.c).
	 */
	if (code == 0)
		v->is_unit_in_doubt = v->is_unit_read_write = false;
	/* Once: also if it may be mounted yet. */
	if (fm_guard_is_writer(v->volume, v->sup->node) && (code == 0 || code == -ETIMEDOUT))
		v->is_mount_forced = false;
	if (code < 0) {
		mount_failed(v, text);
		v->is_restore_due = code != -ETIMEDOUT;
		return;
	}
	if (unfit)
		fm_log_warn("volume %s: mounted without systemd: %s", v->volume->name, unfit);
	v->is_sync_tried = false;
	fm_log_info("volume %s: %s (%s) is mounted at %s", v->volume->name, v->ns.name, v->ns.wwid,
		    v->volume->mount_point);
	v->mounts++;
	memcpy(v->last_wwid, v->ns.wwid, sizeof(v->last_wwid));
	v->last_size_bytes = v->ns.size_bytes;
	v->mounted_epoch = v->mounting_epoch;
	(void)fm_supervisor_save_mounted(v->sup, v);
	v->is_release_tried = false;
	fm_supervised_worked(v);
	fm_hold_worked(v->sup, &v->mount_hold);
}

/* ---- while it is mounted ---- */

static struct fm_json *keep_request(const struct fm_supervised *v)
{
	struct fm_json *request = device_request(&v->ns, "keep", true);
	struct fm_json *target = v->is_reservation_asked
					 ? fm_json_pack("{s:s}", "reserve_as", v->sup->host_id)
					 : fm_json_pack("{s:b}", "write_protect", 1);

	if (request && fm_json_set(request, "target", target) == 0)
		return request;
	fm_json_free(request);
	return NULL;
}

void fm_supervised_keep(struct fm_supervised *v, const struct fm_inv_namespace *ns)
{
	v->ns = *ns;
	v->is_reservation_asked = v->plan.is_read_write;
	if (fm_supervised_begin_on(v, FM_CALL_KEEP, ns->dev, keep_request(v), KEEP_NS) < 0) {
		v->is_keep_asked = false;
		fm_hold_failed(v->sup, &v->keep_hold, 1, HOLD_MAX_S);
	} else {
		v->is_keep_due = false;		/* unless it is lost again meanwhile */
	}
}

static void keep_failed(struct fm_supervised *v, const char *text)
{
	char line[FM_SUPERVISED_WHY_MAX];

	(void)snprintf(line, sizeof(line), "mounted, but the target was away and %s: %s",
		       v->is_reservation_asked ? "does not keep it for this host now"
					       : "does not protect what is sealed now",
		       text);
	fm_supervised_error(v, line);
	v->is_keep_due = true;
	fm_hold_failed(v->sup, &v->keep_hold, 1, HOLD_MAX_S);
	(void)fm_supervisor_save_mounted(v->sup, v);
}

static void keep_conflicts(struct fm_supervised *v, const char *text)
{
	char line[FM_SUPERVISED_WHY_MAX];

	(void)snprintf(line, sizeof(line),
		       "mounted, but the target was away and does not keep it for this host now: "
		       "%s; nothing more is written to it here, and it is unmounted as soon as no "
		       "file is open on it",
		       text);
	fm_supervised_error(v, line);
	v->is_taken = true;
	(void)fm_supervisor_save_mounted(v->sup, v);
}

/*
 * Notes that another host may have had the reservation and written: nobody heard the answer of the
 * target, or the target says that there was one.
 */
static void note_doubt(struct fm_supervised *v, int code, const struct fm_json *answer)
{
	bool is_missed = fm_json_is_true(fm_json_get(answer, "missed"));

	v->is_doubtful = v->is_doubtful || is_missed ||
			 (v->is_reservation_asked && !is_answered(code));
	if (is_missed)
		fm_log_warn("volume %s: the target was away, and another host may have written to "
			    "it since: it is unmounted as soon as no file is open on it, and "
			    "mounted anew",
			    v->volume->name);
}

static void keep_done(struct fm_supervised *v, int code, const char *text,
		      const struct fm_json *answer)
{
	const char *why = fm_json_as_text(fm_json_get(answer, "unprotected"));
	bool is_kept = fm_json_is_true(
		fm_json_get(answer, v->is_reservation_asked ? "reserved" : "write_protected"));

	v->is_keep_asked = false;
	note_doubt(v, code, answer);
	if (code == -EBADE && v->is_reservation_asked) {
		keep_conflicts(v, text);
		return;
	}
	if (code < 0 || why) {
		keep_failed(v, code < 0 ? text : why);
		return;
	}
	if (v->keep_hold.failures > 0)
		fm_supervised_worked(v);
	v->keep_hold = (struct fm_hold){ 0 };
	if (is_kept)
		fm_log_info("volume %s: the target %s (asked again, since it may have been away)",
			    v->volume->name,
			    v->is_reservation_asked ? "keeps it for this host"
						    : "protects what is sealed");
	else if (!v->is_reserved_unknown)
		fm_log_warn("volume %s: the target offers no %s any more", v->volume->name,
			    v->is_reservation_asked ? "reservations" : "write protection");
	if (v->is_reservation_asked)
		v->is_reserved = is_kept;
	else
		v->is_write_protected = v->is_protect_confirmed = is_kept;
	v->is_reserved_unknown = v->is_reserved_unknown && !v->is_reservation_asked;
	(void)fm_supervisor_save_mounted(v->sup, v);
}

/* ---- unmount ---- */

/*
 * Whether the file system is to be shut down. Another host has the reservation and may have
 * written. When it leaves, what is still unwritten here would go over that. This includes a file
 * system that became read-only after an error: it may still write.
 */
static bool is_to_be_shut_down(const struct fm_supervised *v, const struct fm_mount *mount)
{
	const struct fm_inv_namespace *ns = fm_supervised_ns(v);

	return v->is_taken && !v->is_shut_down && ns &&
	       ns == fm_supervisor_device_of(v->sup, mount);
}

/*
 * Whether this node may have the reservation. For a read-only mount it may belong to another node
 * with the same host id.
 */
static bool may_be_reserved(const struct fm_supervised *v, const struct fm_mount *mount)
{
	return v->is_reserved || (v->is_reserved_unknown && !mount->is_read_only);
}

/*
 * The request of an unmount. If the device is to be disconnected next, dirty data is written first,
 * which is tried once.
 */
static struct fm_json *unmount_request(struct fm_supervised *v, const struct fm_mount *mount,
				       const struct fm_inv_namespace *ns, bool is_synced)
{
	struct fm_json *request = fm_json_pack(
		"{s:s, s:s, s:[i, i], s:b, s:b, s:b, s:b}", "call", "unmount", "point",
		v->volume->mount_point, "rdev", (int)major(mount->dev), (int)minor(mount->dev),
		"lazy", v->is_lazy, "sync", is_synced || v->is_seal_written, "keep_unsynced",
		v->is_seal_written, "shutdown", is_to_be_shut_down(v, mount));
	char device[64];

	v->is_read_write_asked = ns && !v->is_lazy && is_to_be_writable(v, ns);
	v->is_release_asked = ns && may_be_reserved(v, mount) && !v->is_lazy &&
			      fm_inventory_is_live(v->sup->inv, ns) &&
			      !fm_supervised_is_host_shared(v);
	if ((!v->is_read_write_asked && !v->is_release_asked) || !request)
		return request;
	(void)snprintf(device, sizeof(device), "/dev/%s", ns->name);
	if (fm_json_set_all(request, fm_json_pack("{s:s, s:[i, i]}", "device", device,
						  "device_rdev", (int)major(ns->dev),
						  (int)minor(ns->dev))) == 0 &&
	    put_undo(v, request) == 0)
		return request;
	fm_json_free(request);
	return NULL;
}

/* Before the helper begins: who restarts while it is at that does not hear how it ends. */
static int note_writing_out(struct fm_supervised *v)
{
	struct fm_err err = { 0 };
	int ret = v->is_seal_written || v->is_left_read_write
			  ? fm_supervised_note_unheard(v, true, &err)
			  : 0;

	if (ret < 0)
		fm_supervised_error(v, err.text);
	return ret;
}

/* If that cannot be written down, the seal ends with a restart, which is not worth more. */
static void note_heard(struct fm_supervised *v)
{
	struct fm_err err = { 0 };

	if (fm_supervised_note_unheard(v, false, &err) < 0)
		fm_log_warn("volume %s: %s", v->volume->name, err.text);
}

/*
 * Unmounts the volume. A lazy unmount does not tell whether everything was written. So it is used
 * only after an unmount that hung, and only if the device is gone or a person forces it.
 */
void fm_supervised_unmount(struct fm_supervised *v, const struct fm_mount *mount)
{
	const struct fm_inv_namespace *ns;
	bool is_synced, was_announced, was_read_write;
	char key[KEY_MAX];

	if (!mount)
		return;
	ns = fm_supervisor_device_of(v->sup, mount);
	v->is_gone = !ns;
	v->is_lazy = (v->is_gone || fm_supervised_is_forced(v)) && v->hung_unmounts > 0;
	is_synced = v->is_lazy && ns && fm_inventory_is_live(v->sup->inv, ns) &&
		    !v->is_sync_tried && !v->is_taken;
	v->is_sync_tried = v->is_sync_tried || is_synced;
	/* Also if the file system has become read-only by an error, but not of what was sealed. */
	v->is_seal_written = v->seal == FM_SEAL_WANTED && !v->is_lazy && ns && !ns->is_read_only &&
			     !v->is_taken;
	key_of_device(v, ns ? ns->dev : mount->dev, key);
	if (v->is_lazy)	/* beside the one that hangs */
		(void)snprintf(key, sizeof(key), "%s: %s", v->volume->name,
			       is_synced ? "sync" : "mount point");
	if (v->unmount_hold.failures == 0 || v->is_lazy)
		fm_log_info("volume %s: unmounting %s%s (%s)", v->volume->name,
			    v->volume->mount_point, v->is_lazy ? " lazily" : "", v->plan.why);
	was_announced = v->is_announced;
	was_read_write = v->is_left_read_write;
	/* It is out of the table of mounts before its last byte is written. */
	v->is_left_read_write = v->is_left_read_write || !mount->is_read_only;
	v->is_announced = v->is_announced || !mount->is_read_only;
	if (note_writing_out(v) < 0 ||
	    begin(v, FM_CALL_UNMOUNT, key, unmount_request(v, mount, ns, is_synced),
		  v->is_gone	       ? UNMOUNT_GONE_NS :
		  v->is_seal_written ? SEAL_UNMOUNT_NS :
				       UNMOUNT_NS) < 0) {
		note_heard(v);
		v->is_announced = was_announced;
		v->is_left_read_write = was_read_write;
		v->hung_unmounts++;
		hold_busy(v, &v->unmount_hold);
	}
}

static void unmounted(struct fm_supervised *v, const struct fm_json *answer)
{
	const char *lost = fm_json_as_text(fm_json_get(answer, "sync_error"));
	const char *left = fm_json_as_text(fm_json_get(answer, "still_read_only"));
	const char *kept = fm_json_as_text(fm_json_get(answer, "still_reserved"));

	if (lost)
		fm_log_warn("volume %s: what was still to be written is lost: %s", v->volume->name,
			    lost);
	if (left)
		fm_log_warn("volume %s: the device is still set read-only: %s", v->volume->name,
			    left);
	if (kept)
		fm_log_warn("volume %s: the target still keeps it for this host: %s",
			    v->volume->name, kept);
	v->is_sync_tried = false;
	if (v->is_read_write_asked && !left)
		fm_supervised_note_read_only(v, "");
	v->is_reserved = kept || (v->is_reserved && !v->is_release_asked);
	v->is_reserved_unknown = v->is_reserved_unknown && !v->is_release_asked;
	(void)fm_supervisor_save_mounted(v->sup, v);
}

static void note_shut_down(struct fm_supervised *v, const struct fm_json *answer)
{
	const char *why = fm_json_as_text(fm_json_get(answer, "still_writes"));

	if (why && !v->is_shutdown_failed)
		fm_log_error("volume %s: another host has it reserved, and that nothing more is "
			     "written to it here is not certain: %s: end what uses it",
			     v->volume->name, why);
	v->is_shutdown_failed = v->is_shutdown_failed || why;
	if (v->is_shut_down || !fm_json_is_true(fm_json_get(answer, "shut_down")))
		return;
	v->is_shut_down = true;
	fm_log_error("volume %s: another host has it reserved: nothing more is written to it here, "
		     "and what was not written yet is lost",
		     v->volume->name);
}

/*
 * Ends a seal whose last bytes may be lost. True: the unmount was left for that, and nothing hangs.
 * It may also have begun before the seal was wanted, so that nobody asked for errors.
 */
static bool end_unwritten_seal(struct fm_supervised *v, int code, const char *text,
			       const struct fm_json *answer)
{
	const char *lost = fm_json_as_text(fm_json_get(answer, "sync_error"));
	bool is_gone = fm_json_is_true(fm_json_get(answer, "not_mounted"));
	bool was_written = v->is_seal_written && is_answered(code) && !lost && !is_gone;
	char why[FM_SUPERVISED_WHY_MAX];

	if (v->seal != FM_SEAL_WANTED || was_written || (code < 0 && is_answered(code) && !lost) ||
	    !(v->is_seal_written || v->is_left_read_write)) {
		note_heard(v);
		return false;
	}
	(void)snprintf(why, sizeof(why),
		       "whether all that was written has come to the device is not known, or it "
		       "has not (%.200s): dmesg may say more; write it again, then say fmove nvme "
		       "seal %s",
		       code < 0 ? text :
		       lost	? lost :
		       is_gone	? "somebody else had unmounted it just before" :
				  "it was unmounted by force or without its target",
		       v->volume->name);
	fm_supervised_end_seal(v, why);
	return code < 0 && is_answered(code);
}

static void unmount_done(struct fm_supervised *v, int code, const char *text,
			 const struct fm_json *answer)
{
	note_shut_down(v, answer);
	if (end_unwritten_seal(v, code, text, answer))
		return;
	if (code == 0) {
		unmounted(v, answer);
		fm_supervised_worked(v);
		v->unmount_hold = (struct fm_hold){ 0 };
		v->hung_unmounts = 0;
		return;
	}
	v->hung_unmounts++;
	v->is_sync_tried = v->is_sync_tried || code == -ETIMEDOUT;	/* that was at writing it */
	/* With the lazy one to come there is nothing to wait for. */
	if ((v->is_gone || fm_supervised_is_forced(v)) && !v->is_lazy)
		return;
	fm_supervised_error(v, text);
	hold_busy(v, &v->unmount_hold);
}

/* ---- the end of each ---- */

static void call_done(struct fm_helper *helper, int code, const char *text,
		      const struct fm_json *answer)
{
	struct fm_supervised *v = fm_container_of(helper, struct fm_supervised, helper);
	enum fm_supervised_call call = v->call;

	v->call = FM_CALL_NONE;
	if (v->sup->is_stopped)
		return;
	switch (call) {
	case FM_CALL_CONNECT:
		connect_done(v, code, text, answer);
		break;
	case FM_CALL_DISCONNECT:
		disconnect_done(v, code, text);
		break;
	case FM_CALL_PROBE:
		probe_done(v, code, text, answer);
		break;
	case FM_CALL_XFS_STATE:
		xfs_state_done(v, code, text, answer);
		break;
	case FM_CALL_PREPARE:
		prepare_done(v, code, text, answer);
		break;
	case FM_CALL_MOUNT:
		mount_done(v, code, text, answer);
		break;
	case FM_CALL_RESTORE:
		restore_done(v, code, text);
		break;
	case FM_CALL_UNMOUNT:
		unmount_done(v, code, text, answer);
		break;
	case FM_CALL_KEEP:
		keep_done(v, code, text, answer);
		break;
	case FM_CALL_UNUSED:
		fm_supervised_unused_done(v, code, text);
		break;
	case FM_CALL_PEERS:
	case FM_CALL_NONE:
		break;
	}
	fm_supervisor_look_soon(v->sup);
}
