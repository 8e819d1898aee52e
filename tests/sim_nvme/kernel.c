/* SPDX-License-Identifier: MIT */
/*
 * A node's kernel: controllers, devices and mounts, and what helper processes do there. The disks
 * are shared by all nodes.
 *
 * A call has two moments: when the kernel does it, and when the daemon hears of it; either may come
 * after the call's deadline, and what the kernel holds (is_stuck) is done although its process was
 * killed, or the daemon with it.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mover/base/base64.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/superblock.h"
#include "tests/sim_nvme/nvme_sim.h"

#define MAJOR 259
#define SIZE_BYTES (UINT64_C(1) << 40)

const char *const sim_volumes[VOLUMES_MAX] = { "one", "two" };
static const char *const subsystems[VOLUMES_MAX] = {"nqn.2026-01.org.fmove:one",
						    "nqn.2026-01.org.fmove:two"};
static const char *const hosts[VOLUMES_MAX] = { "10.0.0.1", "10.0.0.2" };
static const char *const points[VOLUMES_MAX] = { "/srv/one", "/srv/two" };
static const char *const uuids[VOLUMES_MAX] = {"aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
					       "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"};
const char *const sim_wwids[VOLUMES_MAX] = {"uuid.aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
					    "uuid.bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"};

void kernel_fill_volume(struct fm_volume *v, unsigned volume)
{
	*v = (struct fm_volume){
		.name = sim_volumes[volume],
		.subsystem = subsystems[volume],
		.address = {{hosts[volume], "4420"}},
		.address_count = 1,
		.host_address = "",
		.host_interface = "",
		.keep_alive_s = 5,
		.reconnect_delay_s = 2,
		.ctrl_loss_s = 600,
		.fast_io_fail_s = -1,
		.secret_file = "",
		.controller_secret_file = "",
		.iopolicy = "",
		.uuid = uuids[volume],
		.nguid = "",
		.mount_point = points[volume],
		.fs_type = sim.disk[volume].is_xfs ? "xfs" : "ext4",
		.mount_options = "",
		.mode = sim.mode[volume],
		.writer = "",
	};
}

/* ---- what the supervisor sees ---- */

static void show_volume(const struct node *n, struct fm_inventory *inv, unsigned v)
{
	const struct device *d = &n->device[v];
	struct fm_inv_controller *c = &inv->controllers[inv->controller_count];
	struct fm_inv_namespace *ns = &inv->namespaces[inv->namespace_count++];

	(void)snprintf(c->name, sizeof(c->name), "nvme%u", v);
	c->id = d->id;
	c->cntlid = d->cntlid;
	strcpy(c->state, "live");
	strcpy(c->transport, "tcp");
	strcpy(c->subsysnqn, subsystems[v]);
	strcpy(c->hostnqn, n->nqn);
	strcpy(c->traddr, hosts[v]);
	strcpy(c->trsvcid, "4420");
	c->subsystem = (int)v;
	(void)snprintf(ns->name, sizeof(ns->name), "nvme%un1", v);
	strcpy(ns->uuid, uuids[v]);
	strcpy(ns->wwid, sim_wwids[v]);
	ns->nsid = 1;
	ns->size_bytes = SIZE_BYTES;
	ns->is_read_only = d->is_read_only;
	ns->dev = makedev(MAJOR, d->dev);
	ns->subsystem = (int)v;
	ns->path[ns->path_count++] =
		(struct fm_inv_path){.controller = (int)inv->controller_count++};
}

/* Who reads what is sealed has other blocks than a person has written; or is to mount it anew. */
static void set_overruled(const struct node *n, unsigned volume, bool is_overruled)
{
	for (unsigned i = 0; i < sim.node_count; i++) {
		struct mounted *m = &sim.node[i].device[volume].mount;

		if (i != n->number && m->is_read_only)
			m->is_overruled = is_overruled || sim.is_forced[volume];
	}
}

/* A look sees what a person has mounted, and writes it down where it can. */
static void note_hands(struct node *n)
{
	for (unsigned v = 0; v < sim.volume_count; v++) {
		struct mounted *m = &n->device[v].mount;

		if (!m->is_there || !m->is_by_hand || m->is_noted || n->is_out[v] ||
		    !sim.is_user[v][n->number] || n->is_save_broken || n->saves_left > 0)
			continue;
		m->is_noted = true;
		if (sim_mutant != MUTANT_HANDS_UNSEEN)
			set_overruled(n, v, false);
	}
}

static int world_inventory(void *ctx, struct fm_inventory **out, struct fm_err *err)
{
	struct node *n = ctx;
	struct fm_inventory *inv;

	if (n->is_dying)
		return fm_err_set(err, -EIO, "dead");
	note_hands(n);
	inv = calloc(1, sizeof(*inv));
	inv->controllers = calloc(VOLUMES_MAX, sizeof(*inv->controllers));
	inv->subsystems = calloc(VOLUMES_MAX, sizeof(*inv->subsystems));
	inv->namespaces = calloc(VOLUMES_MAX, sizeof(*inv->namespaces));
	inv->subsystem_count = sim.volume_count;
	for (unsigned v = 0; v < sim.volume_count; v++) {
		strcpy(inv->subsystems[v].nqn, subsystems[v]);
		if (n->device[v].dev)
			show_volume(n, inv, v);
	}
	*out = inv;
	return 0;
}

static void world_settings(void *ctx, const char *controller, struct fm_inv_settings *out)
{
	(void)ctx;
	(void)controller;
	*out = (struct fm_inv_settings){ 0 };
}

static int world_mounts(void *ctx, struct fm_mounts *out, struct fm_err *err)
{
	const struct node *n = ctx;
	char text[1024], point[64];
	int len = snprintf(text, sizeof(text), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");

	if (n->is_dying)
		return fm_err_set(err, -EIO, "dead");
	if (sim.now_ns < n->blind_ns)
		return fm_err_set(err, -ENOMEM, "no memory");
	for (unsigned v = 0; v < sim.volume_count; v++) {
		const struct mounted *m = &n->device[v].mount;

		(void)snprintf(point, sizeof(point), "%s%s", m->is_elsewhere ? "/mnt" : "",
			       points[v]);
		if (m->is_there && !(m->is_by_hand && sim_mutant == MUTANT_HANDS_UNSEEN))
			len += snprintf(text + len, sizeof(text) - (size_t)len,
					"%u 1 %u:%u / %s %s - %s /dev/nvme%un1 rw\n", v + 10, MAJOR,
					m->dev, point, m->is_read_only ? "ro" : "rw",
					sim.disk[v].is_xfs ? "xfs" : "ext4", v);
	}
	return fm_mounts_parse(text, (size_t)len, out, err);
}

static int world_iopolicy(void *ctx, const char *subsystem, const char *policy, struct fm_err *err)
{
	(void)ctx;
	(void)subsystem;
	(void)policy;
	return fm_err_set(err, -EINVAL, "not known");
}

static void world_rescan(void *ctx, const char *controller)
{
	(void)ctx;
	(void)controller;
}

/* ---- calls ---- */

static const char *asked(const struct call *c, const char *key)
{
	const char *text = fm_json_as_text(fm_json_get(c->request, key));

	return text ? text : "";
}

static bool is_call(const struct call *c, const char *name)
{
	return strcmp(asked(c, "call"), name) == 0;
}

/* A key begins with the volume's name, or its device's where the node has no such volume. */
static unsigned volume_of_key(const char *key)
{
	if (strncmp(key, "nvme", 4) == 0)
		return (unsigned)(key[4] - '0');
	for (unsigned v = 0; v < sim.volume_count; v++)
		if (strncmp(key, sim_volumes[v], strlen(sim_volumes[v])) == 0)
			return v;
	abort();
}

static void drop_call(struct call *c)
{
	fm_json_free(c->request);
	fm_json_free(c->answer);
	*c = (struct call){ 0 };
}

static struct call *new_call(struct node *n)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (!n->call[i].request)
			return &n->call[i];
	return NULL;
}

/* It takes its time; or it hangs, until it is killed or in the kernel's hands, which lets go of it
 * some time. */
static void plan_call(struct call *c, uint64_t timeout_ns)
{
	c->deadline_ns = sim.now_ns + timeout_ns;
	c->act_ns = sim.now_ns + (1 + sim_below(200)) * MS;
	if (sim_is_one_in(sim.hang_percent)) {
		c->is_stuck = sim_is_one_in(60);
		c->act_ns = sim_is_one_in(30) ? sim.now_ns + sim_below(timeout_ns)
					      : c->deadline_ns + sim_below(200 * S);
		if (!c->is_stuck && c->act_ns >= c->deadline_ns)
			c->act_ns = FM_NEVER;
	}
	c->answer_ns = c->act_ns == FM_NEVER ? FM_NEVER : c->act_ns + sim_below(20) * MS;
}

static int world_start(void *ctx, struct fm_helper *helper, const char *key,
		       struct fm_json *request, uint64_t timeout_ns, struct fm_err *err)
{
	struct node *n = ctx;
	struct call *c = new_call(n);

	if (n->is_dying)
		return fm_err_set(err, -ECANCELED, "dead");
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (n->call[i].request && !n->call[i].is_orphan &&
		    strcmp(n->call[i].key, key) == 0 &&
		    (n->call[i].helper || sim_mutant != MUTANT_HUNG_FORGOTTEN))
			return fm_err_set(err, -EBUSY,
					  "%s: an earlier call still hangs in the kernel", key);
	if (!c)
		return fm_err_set(err, -EAGAIN, "too many");
	*c = (struct call){
		.helper = helper, .request = fm_json_share(request), .volume = volume_of_key(key),
		.known_hosts = sim_known_hosts(n)};
	(void)snprintf(c->key, sizeof(c->key), "%s", key);
	c->process = (struct fm_process){.pid = 100 + (pid_t)sim_below(3), .start = ++sim.next_id};
	/* It waits for its daemon, and ends with it if that is killed here. */
	if (helper->begins && (helper->begins(helper, &c->process, err) < 0 || n->is_dying)) {
		drop_call(c);
		return fm_err_set(err, -ECANCELED, "it was not begun");
	}
	check_heard(n, c->volume, asked(c, "call"));
	plan_call(c, timeout_ns);
	return 0;
}

static void world_give_up(void *ctx, struct fm_helper *helper)
{
	struct node *n = ctx;

	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (n->call[i].helper == helper && n->call[i].deadline_ns > sim.now_ns)
			n->call[i].deadline_ns = sim.now_ns;
}

static bool world_has_helper(void *ctx, const char *key)
{
	const struct node *n = ctx;

	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (n->call[i].request && !n->call[i].is_orphan &&
		    strncmp(n->call[i].key, key, strlen(key)) == 0)
			return sim_mutant != MUTANT_HUNG_FORGOTTEN;
	return false;
}

/* Numbers of processes are given again. */
static bool world_may_live(void *ctx, const struct fm_process *process)
{
	const struct node *n = ctx;

	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (n->call[i].request && n->call[i].process.pid == process->pid &&
		    n->call[i].process.start == process->start)
			return sim_mutant != MUTANT_ORPHAN_FORGOTTEN;
	return false;
}

static bool world_may_stray(void *ctx)
{
	const struct node *n = ctx;

	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (n->call[i].request && n->call[i].is_orphan)
			return sim_mutant != MUTANT_STRAY_FORGOTTEN;
	return false;
}

void kernel_fill_world(struct fm_supervisor_world *world)
{
	world->read_inventory = world_inventory;
	world->read_settings = world_settings;
	world->read_mounts = world_mounts;
	world->start = world_start;
	world->give_up = world_give_up;
	world->has_helper = world_has_helper;
	world->may_live = world_may_live;
	world->may_stray = world_may_stray;
	world->set_iopolicy = world_iopolicy;
	world->rescan = world_rescan;
}

/* ---- what they do ---- */

static unsigned minor_asked(const struct call *c)
{
	return (unsigned)fm_json_as_i64(fm_json_at(fm_json_get(c->request, "rdev"), 1));
}

static int do_connect(struct device *d, struct fm_json *answer, unsigned volume)
{
	bool was_there = d->dev != 0;
	char name[32];

	if (!was_there) {
		d->id = ++sim.next_id;
		d->dev = (unsigned)d->id;
		d->is_read_only = d->is_prepared = false;
	}
	(void)snprintf(name, sizeof(name), "nvme%u", volume);
	return fm_json_set_all(answer, fm_json_pack("{s:s, s:i, s:b}", "controller", name, "cntlid",
						    7, "was_there", was_there));
}

/* What still has a device loses it with the controller, and what it had not written. */
static int do_disconnect(struct device *d, struct fm_err *err)
{
	if (d->mount.is_there)
		return fm_err_set(err, -EBUSY, "it is mounted");
	d->dev = 0;
	d->left = (struct mounted){ 0 };
	return 0;
}

/* Signs of what is there, and whether it was unmounted. */
static void fill_superblock(const struct disk *disk, uint8_t bytes[static FM_SUPERBLOCK_BYTES])
{
	memset(bytes, 0, FM_SUPERBLOCK_BYTES);
	/* Both write down, in other ways, what changes with each mount that writes. */
	memcpy(bytes + 2000, &disk->content, sizeof(disk->content));
	if (disk->is_xfs) {
		memcpy(bytes, "XFSB", 4);
		return;
	}
	bytes[1024 + 0x38] = 0x53;
	bytes[1024 + 0x39] = 0xef;
	bytes[1024 + 0x3a] = 1;		/* valid */
	bytes[1024 + 0x4c] = 1;		/* with features */
	bytes[1024 + 0x5c] = 4;		/* a journal */
	bytes[1024 + 0x60] = disk->is_dirty ? 0x44 : 0x40;	/* extents; to be recovered */
	bytes[1024 + 0x61] = 1;		/* mmp */
}

static int put_superblock(const struct call *c, struct fm_json *answer)
{
	char text[FM_BASE64_ROOM(FM_SUPERBLOCK_BYTES)];
	uint8_t bytes[FM_SUPERBLOCK_BYTES];

	fill_superblock(&sim.disk[c->volume], bytes);
	fm_base64_encode(FM_BASE64, bytes, sizeof(bytes), text);
	return fm_json_set(answer, "superblock", fm_json_of_text(text));
}

static int do_probe(const struct device *d, const struct call *c, struct fm_json *answer)
{
	(void)put_superblock(c, answer);
	return fm_json_set_all(
		answer, fm_json_pack("{s:s, s:s, s:s, s:i, s:I, s:b}", "wwid", sim_wwids[c->volume],
				     "uuid", uuids[c->volume], "nguid", "", "nsid", 1, "size",
				     (long long)SIZE_BYTES, "read_only", d->is_read_only));
}

/* Another mount or unmount of it is under way, by a process that nobody waits for any more: it has
 * the device open for itself. */
static bool is_held(const struct node *n, const struct call *c)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		const struct call *other = &n->call[i];

		if (other != c && other->request && other->volume == c->volume &&
		    !other->has_acted && is_call(other, "mount"))
			return true;
	}
	return n->device[c->volume].left.is_there;
}

/* ---- reservations ---- */

static unsigned host_of(const struct node *n)
{
	return sim.is_cloned ? 1 : n->number + 1;
}

bool kernel_is_taken(const struct node *n, unsigned volume)
{
	return sim.disk[volume].holder && sim.disk[volume].holder != host_of(n);
}

void kernel_restart_target(unsigned volume)
{
	sim_trace("the target of %s restarts", sim_volumes[volume]);
	sim.disk[volume].holder = sim.disk[volume].generation = 0;
	for (unsigned i = 0; i < sim.node_count; i++) {
		struct device *d = &sim.node[i].device[volume];

		d->cntlid++;
		d->mount.is_untold = d->mount.is_untold || d->mount.is_beaten;
	}
}

static void beat_others(const struct node *n, unsigned volume)
{
	for (unsigned i = 0; i < sim.node_count; i++) {
		struct device *d = &sim.node[i].device[volume];

		if (host_of(&sim.node[i]) == host_of(n))
			continue;
		d->mount.is_beaten =
			d->mount.is_beaten || (d->mount.is_there && !d->mount.is_read_only);
		d->left.is_beaten =
			d->left.is_beaten || (d->left.is_there && !d->left.is_read_only);
	}
}

static int reserve(const struct node *n, const struct call *c, struct fm_json *answer,
		   struct fm_err *err)
{
	if (!sim.has_reservations || !fm_json_get(fm_json_get(c->request, "target"), "reserve_as"))
		return 0;
	if (kernel_is_taken(n, c->volume))
		return fm_err_set(err, -EBADE, "reserved for another host");
	if (sim.disk[c->volume].holder == 0) {
		beat_others(n, c->volume);
		sim.disk[c->volume].generation++;
	}
	sim.disk[c->volume].holder = host_of(n);
	return fm_json_set(answer, "reserved", fm_json_of_bool(true));
}

/* Only with the device for itself. */
static int give_back(const struct node *n, const struct call *c, struct fm_json *answer)
{
	const struct device *d = &n->device[c->volume];

	if (!fm_json_get(c->request, "release_as"))
		return 0;
	if (d->mount.is_there || d->left.is_there)
		return fm_json_set(answer, "still_reserved", fm_json_of_text("it is in use"));
	if (sim.disk[c->volume].holder && !kernel_is_taken(n, c->volume)) {
		sim.disk[c->volume].holder = 0;
		sim.disk[c->volume].generation++;
	}
	return 0;
}

/* Of what is mounted, whoever has unmounted it meanwhile. */
static int do_keep(struct node *n, const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	const struct disk *disk = &sim.disk[c->volume];
	bool is_missed = disk->holder == 0 && disk->generation > 0;
	int ret = reserve(n, c, answer, err);

	if (is_missed && sim_mutant != MUTANT_MISSED)
		fm_json_set(answer, "missed", fm_json_of_bool(true));
	if (is_missed && (n->is_save_broken || n->saves_left > 0))
		n->device[c->volume].mount.is_untold = true;
	if (ret == 0 && sim.disk[c->volume].holder && n->device[c->volume].mount.is_taken &&
	    n->device[c->volume].mount.is_there)
		sim_violate("%s takes %s again, which another host had reserved beside its mount",
			    n->name, sim_volumes[c->volume]);
	if (ret == -EBADE)
		fm_json_set(answer, "is_taken", fm_json_of_bool(true)); /* for note_taken() */
	return ret == -EBADE && sim_mutant == MUTANT_TAKEN_AGAIN
		       ? fm_err_set(err, -EIO, "it failed")
		       : ret;
}

/* ---- mounts ---- */

static int do_prepare(const struct node *n, struct device *d, const struct call *c,
		      struct fm_json *answer, struct fm_err *err)
{
	const struct fm_json *is_asked = fm_json_get(c->request, "read_only_device");
	bool is_set = fm_json_is_true(is_asked) && !d->is_read_only;

	if (d->mount.is_there)
		return fm_err_set(err, -EBUSY, "something is mounted there");
	if (is_asked)
		d->is_read_only = fm_json_is_true(is_asked);
	d->is_prepared = true;
	d->content = sim.disk[c->volume].content;
	fm_json_set(answer, "set_read_only", fm_json_of_bool(is_set));
	if (fm_json_is_true(fm_json_get(c->request, "xfs")))
		fm_json_set(answer, "clean", fm_json_of_bool(!sim.disk[c->volume].is_dirty));
	(void)put_superblock(c, answer);
	return reserve(n, c, answer, err);
}

static bool is_written_elsewhere(const struct node *n, unsigned volume)
{
	for (unsigned i = 0; i < sim.node_count; i++) {
		const struct mounted *m = &sim.node[i].device[volume].mount;

		const struct mounted *left = &sim.node[i].device[volume].left;

		if (i != n->number &&
		    ((m->is_there && !m->is_read_only) || (left->is_there && !left->is_read_only)))
			return true;
	}
	return false;
}

/* What a person has forced he was told: who reads meanwhile reads a mixture of old and new, until
 * he mounts it anew. */
static void write_to_disk(const struct node *n, unsigned volume)
{
	sim.disk[volume].content++;
	for (unsigned i = 0; i < sim.node_count && sim.is_forced[volume]; i++) {
		struct mounted *m = &sim.node[i].device[volume].mount;

		m->is_overruled = m->is_overruled || (i != n->number && m->is_read_only);
	}
}

static int do_mount(const struct node *n, struct device *d, const struct call *c,
		    struct fm_err *err)
{
	struct disk *disk = &sim.disk[c->volume];
	bool is_read_only = strncmp(asked(c, "options"), "rw", 2) != 0;

	if (d->mount.is_there || d->left.is_there)
		return fm_err_set(err, -EBUSY, "something is mounted there");
	if (!is_read_only && d->is_read_only)
		return fm_err_set(err, -EACCES, "the device is read-only");
	if (!d->is_prepared || d->is_read_only != is_read_only)
		sim_violate("%s mounts %s %s, and its device is %s", n->name,
			    sim_volumes[c->volume], is_read_only ? "ro" : "rw",
			    d->is_prepared ? "writable" : "not prepared");
	check_said(n, c->volume, !is_read_only);
	if (!is_read_only && !disk->is_xfs && is_written_elsewhere(n, c->volume))
		return fm_err_set(err, -EBUSY, "multiple mount protection: another node has it");
	if (is_read_only)
		check_clean(n, c->volume);
	d->mount = (struct mounted){ .is_there = true, .is_read_only = is_read_only, .dev = d->dev,
				     .content = d->content, .known_hosts = c->known_hosts,
				     .is_beaten = !is_read_only && kernel_is_taken(n, c->volume) };
	d->is_prepared = false;
	if (!is_read_only) {
		write_to_disk(n, c->volume);
		disk->is_dirty = true;
		disk->is_lost = false;
	}
	sim_trace("%s: %s is mounted %s", n->name, sim_volumes[c->volume],
		  is_read_only ? "ro" : "rw");
	return 0;
}

/* Not while another mount of it is under way, which has the device for itself, nor beside one. */
void kernel_mount_by_hand(struct node *n, unsigned volume)
{
	struct disk *disk = &sim.disk[volume];
	struct device *d = &n->device[volume];
	struct call any = { .volume = volume };

	if (d->dev == 0 || d->mount.is_there || d->is_read_only || is_held(n, &any) ||
	    (!disk->is_xfs && is_written_elsewhere(n, volume)))
		return;
	d->content = ++disk->content;
	set_overruled(n, volume, true);
	disk->is_dirty = true;
	d->mount = (struct mounted){ .is_there = true, .dev = d->dev, .content = d->content,
				     .is_by_hand = true, .is_elsewhere = sim_is_one_in(50) };
	sim.was_by_hand[volume] = true;
	sim_trace("%s: a person mounts %s%s", n->name, sim_volumes[volume],
		  d->mount.is_elsewhere ? " elsewhere" : "");
}

/* It is out of the table of mounts, and has the device until then. */
static void take_out(struct node *n, unsigned volume, uint64_t until_ns)
{
	struct device *d = &n->device[volume];

	sim_trace("%s: %s is out of the table of mounts", n->name, sim_volumes[volume]);
	d->left = d->mount;
	d->left_ns = until_ns;
	d->mount.is_there = false;
}

void kernel_leave(struct node *n, unsigned volume)
{
	struct device *d = &n->device[volume];

	sim_trace("%s: %s is %s", n->name, sim_volumes[volume],
		  d->left.is_read_only ? "left" : "written out");
	d->left.is_there = false;
	if (d->left.is_read_only)
		return;
	write_to_disk(n, volume);
	if (d->left.is_by_hand && !d->left.is_noted)
		set_overruled(n, volume, true);
	sim.disk[volume].is_dirty = is_written_elsewhere(n, volume);
}

bool kernel_is_unmounting(const struct node *n, unsigned volume)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (n->call[i].request && n->call[i].volume == volume &&
		    is_call(&n->call[i], "unmount"))
			return true;
	return n->device[volume].left.is_there;
}

/* Its last bytes take a moment; who has a file open in one that was unmounted lazily keeps it as
 * long as he likes. */
static uint64_t some_farewell(void)
{
	return sim.now_ns + (sim_is_one_in(30)	 ? sim_below(60 * S)
			     : sim_is_one_in(50) ? sim_below(2 * S)
						 : sim_below(50 * MS));
}

void kernel_unmount(struct node *n, unsigned volume)
{
	if (!n->device[volume].mount.is_there)
		return;
	sim_trace("%s: a person unmounts %s", n->name, sim_volumes[volume]);
	take_out(n, volume, some_farewell());
}

static int do_unmount(struct node *n, struct device *d, const struct call *c,
		      struct fm_json *answer)
{
	bool is_lazy = fm_json_is_true(fm_json_get(c->request, "lazy"));

	if (d->mount.is_there && !d->mount.is_elsewhere)
		take_out(n, c->volume, is_lazy ? some_farewell() : FM_NEVER);
	if (d->left.is_there && d->left_ns == FM_NEVER)
		kernel_leave(n, c->volume);
	if (fm_json_is_true(fm_json_get(c->request, "read_write_device")) && !d->left.is_there)
		d->is_read_only = false;
	return d->mount.is_there ? -EINVAL : give_back(n, c, answer);
}

/* An exclusive open. What is gone, or is another one by now, nobody has; a mount that hangs may not
 * have come to its device yet. */
static int do_unused(const struct device *d, const struct call *c, struct fm_err *err)
{
	unsigned dev = minor_asked(c);

	if (sim_mutant == MUTANT_UNMOUNT_IS_OVER || d->dev == 0 || d->dev != dev)
		return 0;
	return d->mount.is_there || d->left.is_there ? fm_err_set(err, -EBUSY, "it is in use") : 0;
}

static int do_restore(const struct node *n, struct device *d, const struct call *c,
		      struct fm_json *answer, struct fm_err *err)
{
	if (d->mount.is_there)
		return fm_err_set(err, -EBUSY, "it is mounted");
	if (fm_json_is_true(fm_json_get(c->request, "read_write_device")))
		d->is_read_only = false;
	return give_back(n, c, answer);
}

static int do_xfs_state(const struct disk *disk, struct fm_json *answer)
{
	return fm_json_set(answer, "clean", fm_json_of_bool(!disk->is_dirty));
}

/* By force the devices are not named. */
static bool is_use_respected(const struct call *c)
{
	return fm_json_count(fm_json_get(c->request, "unused")) > 0;
}

static int do_call(struct node *n, const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	struct device *d = &n->device[c->volume];
	bool is_connection = is_call(c, "connect") || is_call(c, "disconnect");

	if (sim_is_one_in(sim.fail_percent) && !(is_call(c, "unmount") && d->left.is_there)) {
		if (is_call(c, "connect"))
			fm_json_set(answer, "trouble", fm_json_of_text("unreachable"));
		return fm_err_set(err, -EIO, "it failed");
	}
	if (is_call(c, "unused"))
		return do_unused(d, c, err);
	if (!is_connection && (d->dev == 0 || d->dev != minor_asked(c)))
		return fm_err_set(err, -ESTALE, "another device");
	if (is_call(c, "keep"))
		return do_keep(n, c, answer, err);
	if (!is_connection && !is_call(c, "mount") && !is_call(c, "unmount") && is_held(n, c))
		return fm_err_set(err, -EBUSY, "it is in use");
	if (is_call(c, "connect"))
		return do_connect(d, answer, c->volume);
	if (is_call(c, "disconnect"))
		return is_held(n, c) && is_use_respected(c)
			       ? fm_err_set(err, -EBUSY, "it is in use")
			       : do_disconnect(d, err);
	if (is_call(c, "probe"))
		return do_probe(d, c, answer);
	if (is_call(c, "xfs_state"))
		return do_xfs_state(&sim.disk[c->volume], answer);
	if (is_call(c, "prepare"))
		return do_prepare(n, d, c, answer, err);
	if (is_call(c, "mount"))
		return do_mount(n, d, c, err);
	if (is_call(c, "restore"))
		return do_restore(n, d, c, answer, err);
	if (is_call(c, "unmount"))
		return do_unmount(n, d, c, answer);
	return fm_err_set(err, -ENOSYS, "%s is not simulated", asked(c, "call"));
}

/* ---- their course ---- */

/* The device takes no writes for a moment: of what is unmounted only if all is written that is
 * known, and it stays mounted. */
static bool is_unwritten(struct call *c)
{
	if (sim.fail_percent == 0 || c->process.start % 4 != 0 ||
	    !fm_json_is_true(fm_json_get(c->request, "keep_unsynced")))
		return false;
	sim.disk[c->volume].is_lost = sim_mutant == MUTANT_LOST_UNTOLD;
	if (sim_mutant == MUTANT_LOST_UNTOLD)
		return false;
	c->answer = fm_json_pack("{s:s}", "sync_error", "it is lost");
	c->code = fm_err_set(&c->err, -EIO, "it is lost");
	c->has_acted = true;
	sim_trace("%s: what was written is lost", sim_volumes[c->volume]);
	return true;
}

/* An unmount takes it out of the table of mounts, and then, whatever becomes of its process, writes
 * what is to be written. */
static bool begins_to_write_out(struct node *n, struct call *c)
{
	struct device *d = &n->device[c->volume];

	if (!is_call(c, "unmount") || !d->mount.is_there || d->mount.is_elsewhere ||
	    d->mount.is_read_only || d->dev != minor_asked(c) ||
	    fm_json_is_true(fm_json_get(c->request, "lazy")) || sim_is_one_in(sim.fail_percent))
		return false;
	if (is_unwritten(c))
		return true;
	take_out(n, c->volume, FM_NEVER);
	c->is_stuck = true;
	c->act_ns = sim.now_ns + (sim_is_one_in(20) ? sim_below(30 * S) : sim_below(200 * MS));
	c->answer_ns = c->act_ns + MS;
	return true;
}

static void act(struct node *n, struct call *c)
{
	if (begins_to_write_out(n, c))
		return;
	c->answer = fm_json_object();
	c->code = do_call(n, c, c->answer, &c->err);
	c->has_acted = true;
	sim_trace("%s: %s %s: %s", n->name, sim_volumes[c->volume], asked(c, "call"),
		  c->code < 0 ? c->err.text : "done");
}

/* Its place is free before done() may start the next one. */
static void end_call(struct node *n, struct call *c, int code, const char *text,
		     const struct fm_json *answer)
{
	struct fm_helper *helper = c->helper;
	struct fm_json *kept = fm_json_share(answer);

	c->helper = NULL;
	if (c->has_acted || !c->is_stuck)
		drop_call(c);
	node_enter(n);
	helper->done(helper, code, text, kept);
	fm_json_free(kept);
	node_leave(n);
}

static bool is_at(const struct call *c, unsigned volume, const char *call)
{
	return c->request && c->helper && c->volume == volume && is_call(c, call);
}

bool kernel_is_at(const struct node *n, unsigned volume, const char *call)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (is_at(&n->call[i], volume, call))
			return true;
	return false;
}

uint64_t kernel_next(const struct node *n, const struct call *c)
{
	uint64_t end = c->answer_ns < c->deadline_ns ? c->answer_ns : c->deadline_ns;

	if (!c->request)
		return FM_NEVER;
	if (!c->helper)
		return c->act_ns;
	if (!c->has_acted && c->act_ns < c->deadline_ns)
		return c->act_ns;
	return end > n->stalled_ns ? end : n->stalled_ns;
}

/* What cannot be written down, or is not because the daemon dies of it, the next one does not
 * know. */
static void note_taken(struct node *n, const struct call *c)
{
	struct mounted *m = &n->device[c->volume].mount;

	if (fm_json_get(c->answer, "is_taken"))
		m->is_taken = !n->is_save_broken && n->saves_left == 0;
}

void kernel_step(struct node *n, struct call *c)
{
	char text[sizeof(c->err.text)];

	if (!c->has_acted && sim.now_ns >= c->act_ns &&
	    (!c->helper || c->act_ns < c->deadline_ns)) {
		act(n, c);
		if (!c->helper && c->has_acted)
			drop_call(c);
		return;
	}
	if (c->has_acted && c->answer_ns <= c->deadline_ns) {
		note_taken(n, c);
		(void)snprintf(text, sizeof(text), "%s", c->code < 0 ? c->err.text : "");
		end_call(n, c, c->code, text, c->answer);
		return;
	}
	sim_trace("%s: %s %s: no answer in time", n->name, sim_volumes[c->volume],
		  asked(c, "call"));
	end_call(n, c, -ETIMEDOUT, "no answer in time", NULL);
}

static uint64_t some_hang(void)
{
	return sim_is_one_in(50) ? sim_below(200 * S) : sim_below(5 * S);
}

void kernel_hang(struct node *n, unsigned volume, const char *call)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		struct call *c = &n->call[i];

		if (!is_at(c, volume, call) || c->has_acted)
			continue;
		c->is_stuck = true;
		c->act_ns = sim.now_ns + some_hang();
	}
}

/* What was begun is done or not; what the kernel holds it does when it can. */
void kernel_kill_helpers(struct node *n)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		struct call *c = &n->call[i];
		struct fm_helper *helper = c->helper;

		if (!c->request)
			continue;
		if (!c->has_acted && is_call(c, "mount") && sim_is_one_in(20)) {
			c->is_stuck = true;
			c->act_ns = sim.now_ns + some_hang();
		}
		if (helper && !c->has_acted && !c->is_stuck && c->act_ns != FM_NEVER &&
		    sim_is_one_in(50))
			act(n, c);
		c->helper = NULL;
		if (c->has_acted || !c->is_stuck)
			drop_call(c);
		else
			c->is_orphan = true;
		if (helper)
			helper->done(helper, -ECANCELED, "cancelled", NULL);
	}
}

/* The kernel lets go of what hangs. */
void kernel_release(struct call *c)
{
	if (!c->request || c->has_acted || c->act_ns <= sim.now_ns)
		return;
	c->act_ns = sim.now_ns;
	c->answer_ns = sim.now_ns + MS;
}

void kernel_cut_power(struct node *n)
{
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		struct call *c = &n->call[i];
		struct fm_helper *helper = c->helper;

		if (c->request)
			drop_call(c);
		if (helper) {
			fm_supervisor_stop(n->sup);
			helper->done(helper, -ECANCELED, "cancelled", NULL);
		}
	}
	memset(n->device, 0, sizeof(n->device));
}
