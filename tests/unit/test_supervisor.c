/* SPDX-License-Identifier: MIT */
/*
 * supervisor: a machine of the simulator's, with its own time: targets that go and come, a kernel
 * that reconnects and gives up, helper processes that take their time, fail, hang and die with the
 * supervisor.
 *
 * links: fm_nvmetcp
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mover/base/base64.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/base/log.h"
#include "mover/base/loop.h"
#include "nvmetcp/helper.h"
#include "nvmetcp/inventory.h"
#include "nvmetcp/mounts.h"
#include "nvmetcp/peers.h"
#include "nvmetcp/process.h"
#include "nvmetcp/superblock.h"
#include "nvmetcp/supervisor.h"
#include "tests/fm_test.h"

#define S FM_NS_PER_S
#define MS FM_NS_PER_MS
#define HOST "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
#define HOST_ID "11111111-2222-3333-4444-555555555555"
#define VOLUMES 2		/* each with a subsystem of its own */
#define PATHS 2			/* targets of one subsystem */
#define CONTROLLERS_MAX 16
#define MOUNTS_MAX 8
#define TWINS_MAX 20
#define STRANGERS_MAX 300
#define CALLS_MAX 64
#define FILES 8
#define DISCOVERY "nqn.2014-08.org.nvmexpress.discovery"
#define DISCOVERY_HOST "10.0.9.9"
#define DISCOVERY_NUMBER 100	/* of the controller there: nvme100 */
#define RIGHT 'a'		/* the letter of the UUID that the configuration names */

struct controller {
	bool is_there;
	unsigned volume, path;
	uint64_t id;
	uint64_t lost_ns;	/* 0: live */
	bool is_foreign;	/* made by somebody else */
};

struct mounted {
	bool is_there, is_read_only;
	unsigned dev;
	unsigned point;		/* the volume's */
	char letter;
	bool is_shut_down;	/* it writes nothing any more */
};

struct call {
	struct fm_helper *helper;	/* NULL: free, or only stuck */
	char key[400];
	struct fm_process process;
	struct fm_json *request;
	uint64_t due_ns, deadline_ns;
	uint64_t stuck_ns;		/* keeps its key until then */
	bool was_there;			/* connect, discover: another was there when it began */
};

/* What the next calls of a kind do. */
struct mood {
	const char *trouble;		/* of connects */
	bool hangs[VOLUMES];		/* every call of that volume */
	bool is_busy;			/* unmounts say -EBUSY */
	bool hangs_sync;		/* unmounts that write out first */
	bool hangs_unmount;		/* those that are not lazy */
	int sync_says;			/* not 0: what unmounts to be sealed end with */
	bool is_synced_late;		/* or tell of, when it is unmounted */
	bool fails_mount;
	int keep_says;			/* not 0: what FM_CALL_KEEP ends with */
	/* and does not die at its deadline, but ends five minutes later */
	bool hangs_mount;
	bool is_mounting_late;		/* then it has mounted all the same */
	bool leaves_discovery;		/* its controller, with an error */
	/* somebody else's unmount is still writing: disconnects that ask are told */
	bool is_written;
	unsigned hang_percent, fail_percent;
};

/* What another node says of a volume. */
struct peer_word {
	const char *writer;		/* NULL: it does not know it */
	bool is_mounted, is_read_write, is_sealed;
	int epoch;
};

#define MAPPER_MINOR 77

static struct sim {
	uint64_t now_ns, seed;
	struct fm_loop *loop;
	struct fm_supervisor *sup;
	struct fm_volume volume[VOLUMES];
	unsigned volume_count;
	const char *node;
	bool is_up[VOLUMES][PATHS];
	char letter[VOLUMES];
	struct controller controller[CONTROLLERS_MAX];
	unsigned dev[VOLUMES];		/* minor of the namespace's device; 0: none */
	unsigned next_dev;
	uint64_t next_id;
	struct mounted mounted[MOUNTS_MAX];
	struct call call[CALLS_MAX];
	struct mood mood;
	/* pid 0: none. A helper of an fmove-nvmed before this one */
	struct fm_process orphan;
	char *file[FILES];
	/* when the peers are heard that were asked; 0: they were not */
	uint64_t ask_ns;
	bool is_silent;			/* n2 does not answer ... */
	const char *silent_why;		/* ... for that reason; NULL: an ordinary one */
	/* n2's host id; NULL: it does not say what it is to targets */
	const char *n2_host;
	/* n2 answers, and has heard nothing of what this node says */
	bool is_deaf;
	int64_t said_epoch;		/* not 0: the number that n2 says, whatever it has heard */
	bool is_fmoved_away;		/* nobody can be asked */
	bool is_n2_removed;		/* fmoved has it as a peer no more */
	bool has_no_mmp, is_dirty;	/* the file system; was not unmounted */
	unsigned written_mounts;	/* how often it was mounted to write, as it says itself */
	bool has_secret, has_tls;	/* what somebody else has connected with */
	struct peer_word peer[VOLUMES];	/* what n2 says */
	char *published;
	bool is_save_broken;		/* it is written, and nobody knows that */
	bool is_disk_full;		/* nothing is written */
	const char *broken_file;	/* of that one only; NULL: of all */
	bool is_empty;			/* the target has no namespace for this host */
	/* the first volume's device has a partition, which somebody has mounted to write */
	bool has_part, is_part_mounted;
	/* more devices of the first namespace, as without native multipath: minors 300 and so on */
	unsigned twins;
	unsigned strangers;		/* namespaces of no volume, in use */
	unsigned busy_dev;		/* minor of one that something has; 0: none */
	/* somebody has mounted it, and what is mounted has a device of its own */
	bool is_btrfs_mounted;
	/* the volumes' file systems are such, too */
	bool is_btrfs;
	/* what is made of the first volume's device; NULL: nothing */
	const char *holder;
	bool is_blind;			/* what is mounted cannot be read, for want of memory */
	/* something else is mounted over the first volume's mount point */
	bool is_covered;
	bool is_moved;			/* what is mounted: to the mount point of now */
	bool is_mapped;			/* multipathd has the first volume's device */
	/* no path of any device is left, and the kernel keeps them */
	bool is_pathless;
	/* the first subsystem has a namespace 2 as well, which the kernel lists first */
	bool has_another;
	unsigned connects, prepares, mounts, saves, rescans, unmounts_lazy, syncs;
	/* minor of the device that is set read-only; 0: none */
	unsigned read_only_dev[VOLUMES];
	/* minor of the device that was prepared for a mount */
	unsigned prepared_dev[VOLUMES];
	bool is_target_able;		/* it has write protection and reservations */
	bool is_target_refusing;	/* write protection, which it offers */
	bool is_protected[VOLUMES];	/* by the target */
	char reserved_for[VOLUMES][64];	/* a host id; "": nobody */
	uint64_t connect_ns[512];
	/* when a helper that connects ended last, whatever it said */
	uint64_t connect_end_ns[VOLUMES];
	/* minor of a device that a file system still has; 0: none */
	unsigned held_dev[VOLUMES];
	uint64_t held_ns[VOLUMES];	/* until then */
	bool is_target_forgetful;	/* between a reservation and the mount */
	/* another host came and left since it has forgotten this one */
	bool is_reservation_missed;
	/* systemd's mount unit of the first volume starts or stops */
	bool is_unit_changing;
	unsigned unused;		/* calls that ask whether a device is free */
	const char *bad_name;		/* a wwid, instead of the right one */
	bool has_nguid;			/* namespaces have that, and no UUID */
	bool has_discovery;		/* a discovery controller is there */
	bool is_discovery_foreign;
	uint64_t size_bytes;
	char resolved[64];		/* what the name "target" is */
	bool can_resolve;
} sim;

static const char *const nqns[VOLUMES] = { "nqn.2026-01.org.fmove:a", "disk2" };
static const char *const names[VOLUMES] = { "one", "two" };
static const char *const points[VOLUMES] = { "/srv/one", "/srv/two" };
static const char *const hosts[VOLUMES][PATHS] = {{"10.0.0.1", "10.0.1.1"},
						  {"10.0.0.2", "10.0.1.2"}};

/* ---- time and chance ---- */

static uint64_t sim_now(void *ctx)
{
	(void)ctx;
	return sim.now_ns;
}

static uint64_t chance(void)
{
	sim.seed ^= sim.seed << 13;
	sim.seed ^= sim.seed >> 7;
	sim.seed ^= sim.seed << 17;
	return sim.seed;
}

static bool is_one_in(unsigned percent)
{
	return chance() % 100 < percent;
}

static void sim_fill(void *ctx, void *buf, size_t len)
{
	(void)ctx;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)(chance() >> 11);
}

static const struct fm_clock sim_clock = { sim_now, NULL };
static const struct fm_random sim_random = { sim_fill, NULL };

/* ---- the kernel ---- */

static bool has_controller(unsigned volume)
{
	for (unsigned i = 0; i < CONTROLLERS_MAX; i++)
		if (sim.controller[i].is_there && sim.controller[i].volume == volume)
			return true;
	return false;
}

static struct controller *make_controller(unsigned volume, unsigned path)
{
	for (unsigned i = 0; i < CONTROLLERS_MAX; i++) {
		struct controller *c = &sim.controller[i];

		if (c->is_there)
			continue;
		*c = (struct controller){
			.is_there = true, .volume = volume, .path = path, .id = ++sim.next_id};
		if (!sim.dev[volume])
			sim.dev[volume] = ++sim.next_dev;
		return c;
	}
	abort();
}

static void remove_controller(struct controller *c)
{
	c->is_there = false;
	if (!has_controller(c->volume))
		sim.dev[c->volume] = 0;
}

/* One path never has two. */
static void check_single(void)
{
	unsigned count[VOLUMES][PATHS] = { 0 };

	for (unsigned i = 0; i < CONTROLLERS_MAX; i++)
		if (sim.controller[i].is_there)
			count[sim.controller[i].volume][sim.controller[i].path]++;
	for (unsigned v = 0; v < VOLUMES; v++)
		for (unsigned p = 0; p < PATHS; p++)
			CU_ASSERT_TRUE_FATAL(count[v][p] <= 1);
}

static void kernel_tick(void)
{
	for (unsigned i = 0; i < CONTROLLERS_MAX; i++) {
		struct controller *c = &sim.controller[i];
		int loss_s = c->is_there ? sim.volume[c->volume].ctrl_loss_s : 0;

		if (!c->is_there)
			continue;
		if (sim.is_up[c->volume][c->path])
			c->lost_ns = 0;
		else if (!c->lost_ns)
			c->lost_ns = sim.now_ns;
		else if (loss_s >= 0 && sim.now_ns >= c->lost_ns + (uint64_t)loss_s * S)
			remove_controller(c);
	}
}

static void show_controller(struct fm_inventory *inv, unsigned i)
{
	const struct controller *c = &sim.controller[i];
	struct fm_inv_controller *to = &inv->controllers[inv->controller_count++];

	snprintf(to->name, sizeof(to->name), "nvme%u", i);
	to->id = c->id;
	strcpy(to->state, c->lost_ns ? "connecting" : "live");
	strcpy(to->transport, "tcp");
	strcpy(to->subsysnqn, nqns[c->volume]);
	strcpy(to->hostnqn, HOST);
	strcpy(to->traddr, hosts[c->volume][c->path]);
	strcpy(to->trsvcid, "4420");
	to->subsystem = (int)c->volume;
}

static void show_discovery(struct fm_inventory *inv)
{
	struct fm_inv_controller *to = &inv->controllers[inv->controller_count++];

	snprintf(to->name, sizeof(to->name), "nvme%u", DISCOVERY_NUMBER);
	to->id = 1000;
	strcpy(to->state, "live");
	strcpy(to->transport, "tcp");
	strcpy(to->subsysnqn, DISCOVERY);
	strcpy(to->hostnqn, HOST);
	strcpy(to->traddr, DISCOVERY_HOST);
	strcpy(to->trsvcid, "4420");
	to->subsystem = -1;
}

static bool is_device_read_only(unsigned volume)
{
	return sim.is_protected[volume] || sim.read_only_dev[volume] == sim.dev[volume];
}

/* UUID or NGUID, and the wwid that the kernel makes of it. */
static void name_namespace(struct fm_inv_namespace *ns, unsigned volume)
{
	char *name = sim.has_nguid ? ns->nguid : ns->uuid;

	strcpy(name, sim.has_nguid ? "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
				   : "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
	for (char *at = name; *at; at++)
		*at = *at == 'x' ? sim.letter[volume] : *at;
	snprintf(ns->wwid, sizeof(ns->wwid), "%s%s", sim.has_nguid ? "eui." : "uuid.", name);
}

static void show_namespace(struct fm_inventory *inv, unsigned volume)
{
	struct fm_inv_namespace *ns = &inv->namespaces[inv->namespace_count++];

	snprintf(ns->name, sizeof(ns->name), "nvme%un1", volume);
	name_namespace(ns, volume);
	if (sim.bad_name)
		snprintf(ns->wwid, sizeof(ns->wwid), "%s", sim.bad_name);
	ns->nsid = 1;
	ns->size_bytes = sim.size_bytes;
	ns->is_read_only = is_device_read_only(volume);
	ns->dev = makedev(259, sim.dev[volume]);
	ns->subsystem = (int)volume;
	if (volume == 0 && sim.has_part)
		ns->part[ns->part_count++] = makedev(259, 200);
	if (volume == 0 && sim.holder)
		strcpy(ns->holder, sim.holder);
	if (volume == 0 && sim.is_mapped) {
		strcpy(ns->mapper, "dm-4");
		ns->mapper_dev = ns->part[ns->part_count++] = makedev(253, MAPPER_MINOR);
	}
	for (unsigned i = 0; i < inv->controller_count && !sim.is_pathless; i++)
		if (inv->controllers[i].subsystem == (int)volume)
			ns->path[ns->path_count++] = (struct fm_inv_path){ .controller = (int)i };
}

static void show_twins(struct fm_inventory *inv)
{
	for (unsigned i = 0; i < sim.twins; i++) {
		struct fm_inv_namespace *ns = &inv->namespaces[inv->namespace_count];

		show_namespace(inv, 0);
		snprintf(ns->name, sizeof(ns->name), "nvme%un1", 50 + i);
		ns->dev = makedev(259, 300 + i);
	}
}

static void show_strangers(struct fm_inventory *inv)
{
	for (unsigned i = 0; i < sim.strangers; i++) {
		struct fm_inv_namespace *ns = &inv->namespaces[inv->namespace_count++];

		*ns = (struct fm_inv_namespace){.nsid = i + 1,
						.subsystem = -1,
						.dev = makedev(259, 1000 + i),
						.holder = "dm-0"};
		snprintf(ns->name, sizeof(ns->name), "nvme90n%u", i + 1);
		snprintf(ns->wwid, sizeof(ns->wwid), "eui.%016x", i);
	}
}

static void show_another(struct fm_inventory *inv)
{
	struct fm_inv_namespace *ns = &inv->namespaces[inv->namespace_count];

	show_namespace(inv, 0);
	strcpy(ns->name, "nvme0n2");
	memset(ns->uuid, 'b', 8);
	memset(ns->wwid + strlen("uuid."), 'b', 8);
	ns->nsid = 2;
	ns->dev = makedev(259, 99);
}

/* As inventory.c has them: none more than there are. */
static void fit_namespaces(struct fm_inventory *inv)
{
	size_t size = inv->namespace_count * sizeof(*inv->namespaces);
	struct fm_inv_namespace *fit = size ? malloc(size) : NULL;

	if (fit)
		memcpy(fit, inv->namespaces, size);
	free(inv->namespaces);
	inv->namespaces = fit;
}

static int world_inventory(void *ctx, struct fm_inventory **out, struct fm_err *err)
{
	struct fm_inventory *inv = calloc(1, sizeof(*inv));

	(void)ctx;
	(void)err;
	kernel_tick();
	inv->controllers = calloc(CONTROLLERS_MAX + 1, sizeof(*inv->controllers));
	inv->subsystems = calloc(VOLUMES, sizeof(*inv->subsystems));
	inv->namespaces =
		calloc(VOLUMES + 1 + sim.twins + sim.strangers, sizeof(*inv->namespaces));
	inv->subsystem_count = VOLUMES;
	for (unsigned v = 0; v < VOLUMES; v++)
		strcpy(inv->subsystems[v].nqn, nqns[v]);
	for (unsigned i = 0; i < CONTROLLERS_MAX; i++)
		if (sim.controller[i].is_there)
			show_controller(inv, i);
	if (sim.has_discovery)
		show_discovery(inv);
	if (sim.has_another && sim.dev[0])
		show_another(inv);
	for (unsigned v = 0; v < VOLUMES; v++)
		if (sim.dev[v])
			show_namespace(inv, v);
	if (sim.dev[0])
		show_twins(inv);
	show_strangers(inv);
	fit_namespaces(inv);
	*out = inv;
	return 0;
}

static void world_settings(void *ctx, const char *controller, struct fm_inv_settings *out)
{
	(void)ctx;
	(void)controller;
	*out = (struct fm_inv_settings){.queue_count = 3,
					.keep_alive_s = 5,
					.reconnect_delay_s = 2,
					.ctrl_loss_s = 30,
					.fast_io_fail_s = FM_INVENTORY_OFF,
					.has_secret = sim.has_secret,
					.has_controller_secret = sim.has_secret,
					.has_tls = sim.has_tls};
}

static unsigned minor_mounted(const struct mounted *m)
{
	return sim.is_btrfs ? 70 + m->point : m->dev;
}

static int world_mounts(void *ctx, struct fm_mounts *out, struct fm_err *err)
{
	char text[4096];
	int len = snprintf(text, sizeof(text), "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n");

	(void)ctx;
	if (sim.is_blind)
		return fm_err_set(err, -ENOMEM, "no memory");
	for (unsigned i = 0; i < MOUNTS_MAX; i++) {
		const struct mounted *m = &sim.mounted[i];

		if (m->is_there)
			len += snprintf(
				text + len, sizeof(text) - (size_t)len,
				"%u 1 %s:%u %s %s %s - %s /dev/nvme%un1 rw\n", i + 10,
				sim.is_btrfs ? "0" : "259", minor_mounted(m),
				sim.is_btrfs ? "/@" : "/",
				sim.is_moved ? sim.volume[m->point].mount_point : points[m->point],
				m->is_read_only ? "ro" : "rw", sim.is_btrfs ? "btrfs" : "ext4",
				m->point);
	}
	if (sim.is_btrfs_mounted)
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"97 1 0:60 / /mnt rw - btrfs /dev/nvme0n1 rw\n");
	if (sim.is_part_mounted)
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"98 1 259:200 / /mnt rw - ext4 /dev/disk/by-label/x rw\n");
	if (sim.is_covered)
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"99 %d 0:50 / %s rw - tmpfs tmpfs rw\n",
				sim.mounted[0].is_there ? 10 : 1, points[0]);
	return fm_mounts_parse(text, (size_t)len, out, err);
}

/* ---- helper processes ---- */

/* What it is asked for says it where names have moved along; else its key, which has a name. */
static unsigned volume_of_request(const struct fm_json *request, const char *key)
{
	const char *subsystem = fm_json_as_text(fm_json_get(request, "subsystem"));
	int64_t minor = fm_json_as_i64(fm_json_at(fm_json_get(request, "rdev"), 1));

	for (unsigned v = 0; v < VOLUMES; v++)
		if ((subsystem && strcmp(subsystem, nqns[v]) == 0) ||
		    (minor != 0 && sim.dev[v] == minor))
			return v;
	for (unsigned v = 0; v < VOLUMES; v++)
		if (strncmp(key, names[v], strlen(names[v])) == 0)
			return v;
	if (strncmp(key, "nvme0n1", 7) != 0)	/* a device that is no volume's */
		CU_ASSERT_EQUAL_FATAL(strncmp(key, "discovery controller nvme", 25), 0);
	return 0;
}

static unsigned volume_of_call(const struct call *c)
{
	return volume_of_request(c->request, c->key);
}

static const char *asked(const struct call *c, const char *key)
{
	return fm_json_as_text(fm_json_get(c->request, key));
}

static bool is_call(const struct call *c, const char *name)
{
	return strcmp(asked(c, "call"), name) == 0;
}

static unsigned path_of_request(const struct call *c, unsigned volume)
{
	for (unsigned p = 0; p < PATHS; p++)
		if (strcmp(hosts[volume][p], asked(c, "address")) == 0)
			return p;
	abort();
}

static struct controller *find_controller(unsigned volume, unsigned path)
{
	for (unsigned i = 0; i < CONTROLLERS_MAX; i++)
		if (sim.controller[i].is_there && sim.controller[i].volume == volume &&
		    sim.controller[i].path == path)
			return &sim.controller[i];
	return NULL;
}

static int world_start(void *ctx, struct fm_helper *helper, const char *key,
		       struct fm_json *request, uint64_t timeout_ns, struct fm_err *err)
{
	struct call *c = NULL;
	unsigned volume = volume_of_request(request, key);
	bool is_syncing = fm_json_is_true(fm_json_get(request, "sync"));
	bool is_hanging = sim.mood.hangs[volume] || is_one_in(sim.mood.hang_percent) ||
			  (is_syncing && sim.mood.hangs_sync);
	bool is_lazy = fm_json_is_true(fm_json_get(request, "lazy"));

	(void)ctx;
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		if (!sim.call[i].request)
			c = c ? c : &sim.call[i];
		else if (strcmp(sim.call[i].key, key) == 0)
			return fm_err_set(err, -EBUSY,
					  "%s: an earlier call still hangs in the kernel", key);
	}
	assert(c);
	*c = (struct call){.helper = helper,
			   .request = fm_json_share(request),
			   .deadline_ns = sim.now_ns + timeout_ns};
	snprintf(c->key, sizeof(c->key), "%s", key);
	c->process = (struct fm_process){ .pid = 7, .start = ++sim.next_id };
	if (helper->begins && helper->begins(helper, &c->process, err) < 0) {
		fm_json_free(c->request);
		*c = (struct call){ 0 };
		return err->code;
	}
	CU_ASSERT_TRUE(helper->is_freeing || (!is_lazy && !is_call(c, "disconnect")) ||
		       strncmp(key, "discovery", 9) == 0);
	is_hanging = is_hanging || (is_call(c, "unmount") && !is_lazy && sim.mood.hangs_unmount);
	c->due_ns = is_hanging ? FM_NEVER : sim.now_ns + (1 + chance() % 200) * MS;
	c->stuck_ns = is_hanging && is_one_in(50) ? c->deadline_ns + chance() % (60 * S) : 0;
	if (is_call(c, "mount") && sim.mood.hangs_mount) {
		c->due_ns = FM_NEVER;
		c->stuck_ns = c->deadline_ns + 300 * S;
	}
	sim.syncs += is_syncing;
	if (is_call(c, "connect")) {
		if (sim.connects < 512)
			sim.connect_ns[sim.connects] = sim.now_ns;
		sim.connects++;
		c->was_there = find_controller(volume, path_of_request(c, volume));
	}
	if (is_call(c, "discover") && sim.can_resolve) {
		c->was_there = sim.has_discovery;
		sim.has_discovery = true;
	}
	return 0;
}

static void world_give_up(void *ctx, struct fm_helper *helper)
{
	(void)ctx;
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].helper == helper && sim.call[i].deadline_ns > sim.now_ns)
			sim.call[i].deadline_ns = sim.now_ns;
}

static bool world_has_helper(void *ctx, const char *key)
{
	(void)ctx;
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].request && strncmp(sim.call[i].key, key, strlen(key)) == 0)
			return true;
	return false;
}

static bool world_may_live(void *ctx, const struct fm_process *process)
{
	(void)ctx;
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].request && sim.call[i].process.pid == process->pid &&
		    sim.call[i].process.start == process->start)
			return true;
	return sim.orphan.pid == process->pid && sim.orphan.start == process->start;
}

static bool world_may_stray(void *ctx)
{
	(void)ctx;
	return sim.orphan.pid > 0;
}

static int do_connect(const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	unsigned volume = volume_of_call(c), path = path_of_request(c, volume);
	struct controller *there = find_controller(volume, path);
	char name[32];

	if (sim.mood.trouble || !sim.is_up[volume][path] || is_one_in(sim.mood.fail_percent)) {
		fm_json_set(answer, "trouble",
			    fm_json_of_text(sim.mood.trouble ? sim.mood.trouble : "unreachable"));
		return fm_err_set(err, -ECONNREFUSED, "nobody answers");
	}
	/* As in the kernel: whether there is one is looked at in the beginning only. */
	if (!c->was_there || !there)
		there = make_controller(volume, path);
	check_single();
	snprintf(name, sizeof(name), "nvme%u", (unsigned)(there - sim.controller));
	fm_json_set(answer, "controller", fm_json_of_text(name));
	fm_json_set(answer, "cntlid", fm_json_of_i64(7));
	fm_json_set(answer, "was_there", fm_json_of_bool(c->was_there));
	return 0;
}

static void release(unsigned volume, const struct fm_json *host)
{
	if (!host)
		return;
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		CU_ASSERT_FALSE(sim.mounted[i].is_there && sim.mounted[i].point == volume);
	if (strcmp(sim.reserved_for[volume], fm_json_as_text(host)) == 0)
		sim.reserved_for[volume][0] = '\0';
}

static int do_disconnect(const struct call *c, struct fm_err *err)
{
	unsigned i = 0;

	if (sim.mood.is_written && fm_json_count(fm_json_get(c->request, "unused")) > 0)
		return fm_err_set(err, -EBUSY, "being written out");
	sscanf(asked(c, "controller"), "nvme%u", &i);
	if (i == DISCOVERY_NUMBER) {
		CU_ASSERT_FALSE(sim.is_discovery_foreign);
		CU_ASSERT_STRING_EQUAL(asked(c, "subsystem"), DISCOVERY);
		sim.has_discovery = false;
		return 0;
	}
	CU_ASSERT_TRUE(i < CONTROLLERS_MAX && !sim.controller[i].is_foreign);
	CU_ASSERT_STRING_EQUAL(asked(c, "subsystem"), nqns[sim.controller[i].volume]);
	if (sim.controller[i].is_there)
		remove_controller(&sim.controller[i]);
	return 0;
}

static unsigned minor_at(const struct call *c, const char *key)
{
	return (unsigned)fm_json_as_i64(fm_json_at(fm_json_get(c->request, key), 1));
}

static unsigned minor_asked(const struct call *c)
{
	return minor_at(c, "rdev");
}

/* An ext4 that was cleanly unmounted, with multiple mount protection unless sim.has_no_mmp. */
static uint8_t ext4[FM_SUPERBLOCK_BYTES] = {
	[1024 + 0x38] = 0x53, [1024 + 0x39] = 0xef,	/* magic */
	[1024 + 0x3a] = 1,				/* valid */
	[1024 + 0x4c] = 1,				/* revision: with features */
	[1024 + 0x5c] = 4,				/* a journal */
	[1024 + 0x60] = 0x40,				/* extents */
	[1024 + 0x61] = 1,				/* mmp */
};

static void put_superblock(struct fm_json *answer)
{
	char text[FM_BASE64_ROOM(FM_SUPERBLOCK_BYTES)];

	ext4[1024 + 0x38] = sim.is_btrfs ? 0 : 0x53;
	ext4[1024 + 0x61] = !sim.has_no_mmp;
	ext4[1024 + 0x60] = sim.is_dirty ? 0x44 : 0x40;
	ext4[1024 + 0x34] = (uint8_t)sim.written_mounts;
	fm_base64_encode(FM_BASE64, ext4, sizeof(ext4), text);
	fm_json_set(answer, "superblock", fm_json_of_text(text));
}

static int do_probe(const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	struct fm_inv_namespace ns = { 0 };
	unsigned volume = volume_of_call(c);

	if (sim.dev[volume] != minor_asked(c) || is_one_in(sim.mood.fail_percent))
		return fm_err_set(err, -ESTALE, "another device");
	name_namespace(&ns, volume);
	put_superblock(answer);
	fm_json_set_all(answer,
			fm_json_pack("{s:s, s:s, s:s, s:i, s:i, s:b}", "wwid", ns.wwid, "uuid",
				     ns.uuid, "nguid", ns.nguid, "nsid", 1, "size",
				     (long long)sim.size_bytes, "read_only",
				     is_device_read_only(volume)));
	return 0;
}

/* Peers are told before it happens, so that of two nodes that mount at the same time one hears of
 * the other. */
static void check_announced(unsigned volume, bool is_read_write)
{
	struct fm_json *said = fm_json_load(sim.published);
	const struct fm_json *at;
	bool is_told = false;
	size_t i;

	for (i = 0; (at = fm_json_at(fm_json_get(said, "volumes"), i)); i++)
		is_told = is_told ||
			  (strcmp(fm_json_as_text(fm_json_get(at, "name")),
				  sim.volume[volume].name) == 0 &&
			   fm_json_is_true(fm_json_get(at, "mounted")) &&
			   fm_json_is_true(fm_json_get(at, "read_write")) == is_read_write);
	CU_ASSERT_TRUE(is_told);
	fm_json_free(said);
}

static int do_prepare_target(unsigned volume, const struct fm_json *target, struct fm_json *answer,
			     struct fm_err *err)
{
	const struct fm_json *protect = fm_json_get(target, "write_protect"),
			     *host = fm_json_get(target, "reserve_as");

	if (!sim.is_target_able)
		return 0;
	if (protect && !sim.is_target_refusing)
		sim.is_protected[volume] = fm_json_is_true(protect);
	if (fm_json_is_true(protect) && sim.is_target_refusing)
		fm_json_set(answer, "unprotected", fm_json_of_text("Input/output error"));
	else if (fm_json_is_true(protect))
		fm_json_set(answer, "write_protected", fm_json_of_bool(true));
	if (!host)
		return 0;
	if (sim.reserved_for[volume][0] &&
	    strcmp(sim.reserved_for[volume], fm_json_as_text(host)) != 0)
		return fm_err_set(err, -EBADE, "reserved for another host");
	snprintf(sim.reserved_for[volume], sizeof(sim.reserved_for[volume]), "%s",
		 fm_json_as_text(host));
	fm_json_set(answer, "reserved", fm_json_of_bool(true));
	return 0;
}

static int do_prepare(const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	unsigned volume = volume_of_call(c);
	const struct fm_json *is_asked = fm_json_get(c->request, "read_only_device");
	bool is_set = fm_json_is_true(is_asked) && !is_device_read_only(volume);

	if (sim.dev[volume] != minor_asked(c) || asked(c, "wwid")[5] != sim.letter[volume] ||
	    is_one_in(sim.mood.fail_percent))
		return fm_err_set(err, -ESTALE, "another device");
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (sim.mounted[i].is_there && sim.mounted[i].point == volume)
			return fm_err_set(err, -EBUSY, "something is mounted there");
	if (is_set)
		sim.read_only_dev[volume] = sim.dev[volume];
	else if (is_asked && !fm_json_is_true(is_asked))
		sim.read_only_dev[volume] = 0;
	sim.prepared_dev[volume] = sim.dev[volume];
	sim.prepares++;
	fm_json_set(answer, "set_read_only", fm_json_of_bool(is_set));
	put_superblock(answer);
	return do_prepare_target(volume, fm_json_get(c->request, "target"), answer, err);
}

static int do_mount(const struct call *c, struct fm_err *err)
{
	unsigned volume = volume_of_call(c);
	bool is_read_only = strncmp(asked(c, "options"), "rw", 2) != 0;

	if (sim.dev[volume] != minor_asked(c) || asked(c, "wwid")[5] != sim.letter[volume] ||
	    is_one_in(sim.mood.fail_percent))
		return fm_err_set(err, -ESTALE, "another device");
	if (sim.mood.fails_mount)
		return fm_err_set(err, -EINVAL, "not this file system");
	CU_ASSERT_EQUAL(sim.prepared_dev[volume], sim.dev[volume]);
	CU_ASSERT_EQUAL(is_device_read_only(volume), is_read_only);
	CU_ASSERT_TRUE(!sim.is_target_able || sim.is_target_forgetful || is_read_only ||
		       strcmp(sim.reserved_for[volume], HOST_ID) == 0);
	check_announced(volume, strncmp(asked(c, "options"), "rw", 2) == 0);
	/* Never another identity, never twice. */
	CU_ASSERT_EQUAL(sim.letter[volume], RIGHT);
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (sim.mounted[i].is_there && sim.mounted[i].point == volume)
			return fm_err_set(err, -EBUSY, "something is mounted there");
	for (unsigned i = 0; i < MOUNTS_MAX; i++) {
		if (sim.mounted[i].is_there)
			continue;
		sim.mounted[i] = (struct mounted){.is_there = true,
						  .is_read_only = is_read_only,
						  .dev = sim.dev[volume],
						  .point = volume,
						  .letter = sim.letter[volume]};
		sim.prepared_dev[volume] = 0;
		sim.mounts++;
		sim.written_mounts += !is_read_only;
		return 0;
	}
	abort();
}

static void make_writable(const struct call *c, unsigned volume)
{
	CU_ASSERT_EQUAL(strncmp(asked(c, "device"), "/dev/nvme", 9), 0);
	CU_ASSERT_EQUAL(minor_at(c, is_call(c, "unmount") ? "device_rdev" : "rdev"),
			sim.dev[volume]);
	sim.read_only_dev[volume] = 0;
}

/* Of what is mounted. */
static int do_keep(const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	unsigned volume = volume_of_call(c);
	const struct fm_json *target = fm_json_get(c->request, "target");
	bool is_mounted = false;

	if (sim.dev[volume] != minor_asked(c) || asked(c, "wwid")[5] != sim.letter[volume] ||
	    is_one_in(sim.mood.fail_percent))
		return fm_err_set(err, -ESTALE, "another device");
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (sim.mounted[i].is_there && sim.mounted[i].point == volume)
			is_mounted = sim.mounted[i].is_read_only ==
				     fm_json_is_true(fm_json_get(target, "write_protect"));
	CU_ASSERT_TRUE(is_mounted);
	if (fm_json_is_true(fm_json_get(target, "write_protect")))
		sim.read_only_dev[volume] = sim.dev[volume];
	if (sim.is_reservation_missed)
		fm_json_set(answer, "missed", fm_json_of_bool(true));
	if (sim.mood.keep_says)
		return fm_err_set(err, sim.mood.keep_says, "it failed");
	return do_prepare_target(volume, target, answer, err);
}

static int do_restore(const struct call *c, struct fm_err *err)
{
	unsigned volume = volume_of_call(c);

	if (sim.dev[volume] != minor_asked(c))
		return fm_err_set(err, -ESTALE, "another device");
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (sim.mounted[i].is_there && sim.mounted[i].dev == minor_asked(c))
			return fm_err_set(err, -EBUSY, "it is mounted");
	release(volume, fm_json_get(c->request, "release_as"));
	if (fm_json_is_true(fm_json_get(c->request, "read_write_device")))
		make_writable(c, volume);
	return 0;
}

static int do_unmount(const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	bool is_lazy = fm_json_is_true(fm_json_get(c->request, "lazy"));
	bool is_shut_down = fm_json_is_true(fm_json_get(c->request, "shutdown"));
	bool is_kept = fm_json_is_true(fm_json_get(c->request, "keep_unsynced"));
	unsigned volume = volume_of_call(c);
	bool is_there = false;

	CU_ASSERT_TRUE(is_lazy || is_kept == fm_json_is_true(fm_json_get(c->request, "sync")));
	if (is_kept && sim.mood.sync_says) {
		fm_json_set(answer, "sync_error", fm_json_of_text("Input/output error"));
		return fm_err_set(err, sim.mood.sync_says, "left mounted: Input/output error");
	}
	if (is_kept && sim.mood.is_synced_late)
		fm_json_set(answer, "sync_error", fm_json_of_text("Input/output error"));
	for (unsigned i = 0; i < MOUNTS_MAX; i++) {
		struct mounted *m = &sim.mounted[i];

		if (!m->is_there || m->point != volume)
			continue;
		if (minor_mounted(m) != minor_asked(c))
			return fm_err_set(err, -ESTALE, "another device is there");
		is_there = true;
		m->is_shut_down = m->is_shut_down || is_shut_down;
		if (is_shut_down)
			fm_json_set(answer, "shut_down", fm_json_of_bool(true));
		if (!is_lazy && (sim.mood.is_busy || is_one_in(sim.mood.fail_percent)))
			return fm_err_set(err, -EBUSY, "in use");
		m->is_there = false;
		sim.unmounts_lazy += is_lazy;
	}
	if (is_kept && !is_there)
		fm_json_set(answer, "not_mounted", fm_json_of_bool(true));
	release(volume, fm_json_get(c->request, "release_as"));
	if (fm_json_is_true(fm_json_get(c->request, "read_write_device")))
		make_writable(c, volume);
	return 0;
}

static int do_resolve(struct fm_json *answer, struct fm_err *err)
{
	if (!sim.can_resolve)
		return fm_err_set(err, -EAGAIN, "nobody could be asked");
	fm_json_set(answer, "addresses", fm_json_pack("[s]", sim.resolved));
	return 0;
}

static int do_discover(const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	unsigned volume = volume_of_call(c);
	struct fm_json *all = fm_json_array();

	if (sim.mood.leaves_discovery) {
		fm_json_free(all);
		fm_json_set(answer, "left", fm_json_of_bool(true));
		return fm_err_set(err, -ETIMEDOUT, "it is still there");
	}
	sim.has_discovery = sim.has_discovery && c->was_there;
	if (!sim.can_resolve) {
		fm_json_free(all);
		return fm_err_set(err, -ECONNREFUSED, "nobody listens");
	}
	for (unsigned p = 0; p < PATHS; p++)
		fm_json_add(all, fm_json_pack("{s:s, s:s, s:s}", "subsystem", nqns[volume],
					      "address", hosts[volume][p], "port", "4420"));
	fm_json_add(all, fm_json_pack("{s:s, s:s, s:s}", "subsystem", "another", "address",
				      "10.9.9.9", "port", "4420"));
	fm_json_set(answer, "entries", all);
	return 0;
}

/* The kernel keeps the device for a file system; one that is gone it has no more. */
static int do_unused(const struct call *c, struct fm_err *err)
{
	unsigned volume = volume_of_call(c), dev = minor_asked(c);

	sim.unused++;
	if (asked(c, "unit_of") && sim.is_unit_changing && volume == 0)
		return fm_err_set(err, -EBUSY, "systemd is about to mount it");
	if (is_one_in(sim.mood.fail_percent))
		return fm_err_set(err, -EIO, "it cannot be looked at");
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		if (sim.mounted[i].is_there && sim.mounted[i].dev == dev)
			return fm_err_set(err, -EBUSY, "it is mounted");
	if (sim.busy_dev && dev == sim.busy_dev)
		return fm_err_set(err, -EBUSY, "it is in use");
	if (volume == 0 && dev == sim.dev[0] &&
	    (sim.is_part_mounted || sim.is_btrfs_mounted || sim.holder || sim.is_mapped))
		return fm_err_set(err, -EBUSY, "it is in use");
	if (dev && sim.dev[volume] == dev && sim.held_dev[volume] == dev &&
	    sim.now_ns < sim.held_ns[volume])
		return fm_err_set(err, -EBUSY, "it is in use");
	return 0;
}

static int do_call(const struct call *c, struct fm_json *answer, struct fm_err *err)
{
	if (is_call(c, "connect"))
		return do_connect(c, answer, err);
	if (is_call(c, "disconnect"))
		return do_disconnect(c, err);
	if (is_call(c, "probe"))
		return do_probe(c, answer, err);
	if (is_call(c, "prepare"))
		return do_prepare(c, answer, err);
	if (is_call(c, "keep"))
		return do_keep(c, answer, err);
	if (is_call(c, "restore"))
		return do_restore(c, err);
	if (is_call(c, "mount"))
		return do_mount(c, err);
	if (is_call(c, "unmount"))
		return do_unmount(c, answer, err);
	if (is_call(c, "unused"))
		return do_unused(c, err);
	if (is_call(c, "discover"))
		return do_discover(c, answer, err);
	return do_resolve(answer, err);
}

static void drop_call(struct call *c)
{
	if (is_call(c, "connect"))
		sim.connect_end_ns[volume_of_call(c)] = sim.now_ns;
	fm_json_free(c->request);
	*c = (struct call){ 0 };
}

/* Its slot is free before done() may start the next one. */
static void end_call(struct call *c)
{
	struct fm_helper *helper = c->helper;
	struct fm_json *answer = fm_json_object();
	struct fm_err err = { 0 };
	bool is_late = sim.now_ns >= c->deadline_ns;
	int code = is_late ? fm_err_set(&err, -ETIMEDOUT, "no answer in time")
			   : do_call(c, answer, &err);

	c->helper = NULL;
	if (!is_late || c->stuck_ns <= sim.now_ns)
		drop_call(c);
	helper->done(helper, code, err.text, is_late ? NULL : answer);
	fm_json_free(answer);
}

/* The kernel has let go of it. */
static void end_stuck(struct call *c)
{
	struct fm_err err;

	if (is_call(c, "mount") && sim.mood.is_mounting_late)
		CU_ASSERT_EQUAL(do_mount(c, &err), 0);
	drop_call(c);
}

static uint64_t when_call(const struct call *c)
{
	if (!c->helper)
		return c->request ? c->stuck_ns : FM_NEVER;
	return c->due_ns < c->deadline_ns ? c->due_ns : c->deadline_ns;
}

/* ---- files ---- */

static unsigned file_number(const char *name)
{
	static const char *const files[] = {FM_SUPERVISOR_BEGUN,  FM_SUPERVISOR_OWNED,
					    FM_SUPERVISOR_WISHES, FM_SUPERVISOR_MOUNTED,
					    FM_SUPERVISOR_SEALED, FM_SUPERVISOR_HEARD,
					    FM_SUPERVISOR_NODES,  FM_SUPERVISOR_HELD};

	for (unsigned i = 0; i < FILES; i++)
		if (strcmp(files[i], name) == 0)
			return i;
	abort();
}

static int world_load(void *ctx, const char *name, char **text, struct fm_err *err)
{
	const char *file = sim.file[file_number(name)];

	(void)ctx;
	if (!file)
		return fm_err_set(err, -ENOENT, "none");
	*text = strdup(file);
	return 0;
}

static int world_save(void *ctx, const char *name, const char *text, bool is_durable,
		      struct fm_err *err)
{
	unsigned i = file_number(name);

	(void)ctx;
	(void)is_durable;
	if (sim.is_disk_full && (!sim.broken_file || strcmp(sim.broken_file, name) == 0))
		return fm_err_set(err, -ENOSPC, "full");
	free(sim.file[i]);
	sim.file[i] = strdup(text);
	sim.saves++;
	/* The last step failed, a sync: what is in the file nobody knows. */
	return sim.is_save_broken && (!sim.broken_file || strcmp(sim.broken_file, name) == 0)
		       ? fm_err_set(err, -EIO, "broken")
		       : 0;
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
	const struct controller *c = &sim.controller[atoi(controller + strlen("nvme"))];

	(void)ctx;
	CU_ASSERT_TRUE(c->is_there && !c->lost_ns);
	sim.rescans++;
	if (!sim.is_empty && !sim.dev[c->volume])
		sim.dev[c->volume] = ++sim.next_dev;
}

static int world_publish(void *ctx, const char *text, struct fm_err *err)
{
	(void)ctx;
	(void)err;
	free(sim.published);
	sim.published = strdup(text);
	return 0;
}

static void world_ask_peers(void *ctx)
{
	(void)ctx;
	CU_ASSERT_EQUAL(sim.ask_ns, 0);
	sim.ask_ns = sim.now_ns + (1 + chance() % 200) * MS;
}

/* Of the first volume with that name; 0: nothing is published. */
static int64_t published_epoch(unsigned v)
{
	struct fm_json *said = fm_json_load(sim.published);
	const struct fm_json *at;
	int64_t epoch = 0;
	size_t i;

	for (i = 0; (at = fm_json_at(fm_json_get(said, "volumes"), i)); i++)
		if (strcmp(fm_json_as_text(fm_json_get(at, "name")), names[v]) == 0)
			epoch = fm_json_as_i64(fm_json_get(at, "epoch"));
	fm_json_free(said);
	return epoch;
}

/* A reader has heard of what this node says, unless it is deaf. */
static int64_t epoch_of_n2(unsigned v)
{
	int64_t epoch = sim.peer[v].epoch,
		here = strcmp(sim.volume[v].writer, sim.node) == 0 && !sim.is_deaf
			       ? published_epoch(v)
			       : 0;

	return !sim.peer[v].is_mounted && here > epoch ? here : epoch;
}

static struct fm_json *host_of(const char *host_id)
{
	char host[FM_PEER_HOST_LEN + 1];

	fm_peers_host(host_id, host);
	return fm_json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:i}", "name", FM_PEER_HOST,
			    "subsystem", FM_PEER_HOST_SUBSYSTEM, "wwid", host, "writer", "",
			    "mounted", 0, "read_write", 0, "sealed", 0, "epoch", 0);
}

static void hear_text(struct fm_peers *peers, const char *text)
{
	struct fm_json *json = NULL;

	CU_ASSERT_EQUAL_FATAL(fm_json_parse(text, strlen(text), &json, NULL), 0);
	CU_ASSERT_EQUAL(fm_peers_add(peers, json), 0);
	fm_json_free(json);
}

/* event is taken over. */
static void hear(struct fm_peers *peers, struct fm_json *event)
{
	char *text = fm_json_dump(event, FM_JSON_ONE_LINE);

	hear_text(peers, text);
	free(text);
	fm_json_free(event);
}

/* As fmoved passes it on. */
static void peers_answer(void)
{
	struct fm_json *volumes = fm_json_array(), *event;
	struct fm_peers peers = { 0 };

	sim.ask_ns = 0;
	for (unsigned v = 0; v < VOLUMES && !sim.is_silent; v++) {
		const struct peer_word *p = &sim.peer[v];

		if (p->writer)
			fm_json_add(volumes,
				    fm_json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:I}", "name",
						 names[v], "subsystem", nqns[v], "wwid", "",
						 "writer", p->writer, "mounted", p->is_mounted,
						 "read_write", p->is_read_write, "sealed",
						 p->is_sealed, "epoch",
						 (long long)(sim.said_epoch ? sim.said_epoch
									    : epoch_of_n2(v))));
	}
	if (sim.n2_host && !sim.is_silent)
		fm_json_add(volumes, host_of(sim.n2_host));
	event = fm_json_pack("{s:s, s:o}", "node", "n2", "volumes", volumes);
	if (sim.is_fmoved_away || sim.is_n2_removed) {
		fm_json_free(event);
		snprintf(peers.why, sizeof(peers.why), "%s",
			 sim.is_fmoved_away ? "fmoved of this node does not answer" : "");
		fm_supervisor_peers(sim.sup, &peers);
		return;
	}
	if (sim.is_silent)
		fm_json_set_all(event,
				fm_json_pack("{s:s, s:s}", "code", "EHOSTUNREACH", "text",
					     sim.silent_why ? sim.silent_why : "is not connected"));
	hear(&peers, event);
	fm_supervisor_peers(sim.sup, &peers);
}

static uint64_t world_wall(void *ctx)
{
	(void)ctx;
	return sim.now_ns / MS;
}

static const struct fm_supervisor_world world = {
	.read_inventory = world_inventory,
	.read_settings = world_settings,
	.read_mounts = world_mounts,
	.start = world_start,
	.give_up = world_give_up,
	.has_helper = world_has_helper,
	.may_live = world_may_live,
	.may_stray = world_may_stray,
	.set_iopolicy = world_iopolicy,
	.rescan = world_rescan,
	.load = world_load,
	.save = world_save,
	.publish = world_publish,
	.ask_peers = world_ask_peers,
	.wall_ms = world_wall,
	.boot = "this-boot",
};

/* ---- running it ---- */

static void settle(void)
{
	while (fm_loop_step(sim.loop, 0))
		;
}

static void run_for(uint64_t ns)
{
	uint64_t end = sim.now_ns + ns;

	for (;;) {
		struct call *first = NULL;
		bool is_ask;
		uint64_t next;

		settle();
		next = fm_loop_next_ns(sim.loop);
		for (unsigned i = 0; i < CALLS_MAX; i++)
			if (when_call(&sim.call[i]) < next) {
				first = &sim.call[i];
				next = when_call(first);
			}
		is_ask = sim.ask_ns && sim.ask_ns < next;
		next = is_ask ? sim.ask_ns : next;
		if (next > end)
			break;
		sim.now_ns = next > sim.now_ns ? next : sim.now_ns;
		(void)fm_loop_step(sim.loop, 0);	/* its clock */
		if (is_ask)
			peers_answer();
		else if (first && first->helper)
			end_call(first);
		else if (first)
			end_stuck(first);
	}
	sim.now_ns = end;
	settle();
}

static void set_volumes(const struct fm_volume *volumes, unsigned count)
{
	struct fm_supervisor_config config = {.node = sim.node,
					      .host_nqn = HOST,
					      .host_id = HOST_ID,
					      .volumes = volumes,
					      .count = count};
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_supervisor_set(sim.sup, &config, &err), 0);
}

static void set_config(void)
{
	set_volumes(sim.volume, sim.volume_count);
}

static void start_with(const struct fm_volume *volumes, unsigned count)
{
	struct fm_supervisor_opts opts = {.loop = sim.loop, .world = &world, .random = &sim_random};
	struct fm_err err;

	CU_ASSERT_EQUAL_FATAL(fm_supervisor_new(&opts, &sim.sup, &err), 0);
	set_volumes(volumes, count);
}

static void start_supervisor(void)
{
	start_with(sim.volume, sim.volume_count);
}

static struct fm_volume volume_of(unsigned v)
{
	return (struct fm_volume){
		.name = names[v],
		.subsystem = nqns[v],
		.address = {{hosts[v][0], "4420"}, {hosts[v][1], "4420"}},
		.address_count = 1,
		.host_address = "",
		.host_interface = "",
		.keep_alive_s = 5,
		.reconnect_delay_s = 2,
		.ctrl_loss_s = 30,
		.fast_io_fail_s = -1,
		.secret_file = "",
		.controller_secret_file = "",
		.iopolicy = "numa",
		.uuid = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
		.nguid = "",
		.mount_point = points[v],
		.fs_type = "ext4",
		.mount_options = "",
		.mode = FM_VOLUME_EXCLUSIVE,
		.writer = "n1",
	};
}

static void begin(unsigned volumes)
{
	struct fm_loop_opts opts = { .clock = &sim_clock, .is_simulated = true };
	struct fm_err err;

	memset(&sim, 0, sizeof(sim));
	sim.now_ns = S;
	sim.seed = 88172645463325252u;
	sim.node = "n1";
	sim.volume_count = volumes;
	sim.size_bytes = 1u << 30;
	for (unsigned v = 0; v < VOLUMES; v++) {
		sim.volume[v] = volume_of(v);
		sim.letter[v] = RIGHT;
		for (unsigned p = 0; p < PATHS; p++)
			sim.is_up[v][p] = true;
	}
	CU_ASSERT_EQUAL_FATAL(fm_loop_new(&opts, &sim.loop, &err), 0);
}

/* As SIGKILL does it: what the helpers were at may have been done or not. */
static void kill_supervisor(bool is_done)
{
	fm_supervisor_stop(sim.sup);
	for (unsigned i = 0; i < CALLS_MAX; i++) {
		struct call *c = &sim.call[i];
		struct fm_err err;
		struct fm_json *answer;

		if (c->helper) {
			answer = fm_json_object();
			if (is_done && c->due_ns != FM_NEVER)
				(void)do_call(c, answer, &err);
			fm_json_free(answer);
			c->helper->done(c->helper, -ECANCELED, "cancelled", NULL);
		}
		if (c->request)
			drop_call(c);
	}
	settle();
	fm_supervisor_free(sim.sup);
	sim.sup = NULL;
	sim.ask_ns = 0;
}

static void end(void)
{
	kill_supervisor(false);
	fm_loop_free(sim.loop);
	for (unsigned i = 0; i < FILES; i++)
		free(sim.file[i]);
	free(sim.published);
}

/* ---- what people see ---- */

static const char *shown(unsigned v, const char *key)
{
	static char text[512];
	struct fm_json *volume = fm_supervisor_show(sim.sup, names[v]);

	snprintf(text, sizeof(text), "%s",
		 volume ? fm_json_as_text(fm_json_get(volume, key)) : "(none)");
	fm_json_free(volume);
	return text;
}

static void is_state(unsigned v, const char *state)
{
	if (strcmp(shown(v, "state"), state) == 0)
		return;
	printf("\nvolume %u is %s, not %s: ", v, shown(v, "state"), state);
	printf("%s\n", shown(v, "text"));
	CU_FAIL_FATAL("another state");
}

static void wish(unsigned v, enum fm_plan_want want, bool is_forced)
{
	struct fm_err err;

	CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, names[v], want, is_forced, &err), 0);
}

static unsigned controllers(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < CONTROLLERS_MAX; i++)
		count += sim.controller[i].is_there;
	return count;
}

/* Its helper process has not answered yet. */
static bool is_under_way(const char *call)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].helper && is_call(&sim.call[i], call))
			return true;
	return false;
}

static void run_until(const char *call)
{
	for (unsigned i = 0; i < 500 && !is_under_way(call); i++)
		run_for(10 * MS);
	CU_ASSERT_TRUE_FATAL(is_under_way(call));
}

/* The peers have answered once more. */
static void run_until_asked(void)
{
	for (unsigned i = 0; i < 1000 && !sim.ask_ns; i++)
		run_for(10 * MS);
	for (unsigned i = 0; i < 1000 && sim.ask_ns; i++)
		run_for(10 * MS);
}

static void set_target(unsigned v, bool is_up)
{
	for (unsigned p = 0; p < PATHS; p++)
		sim.is_up[v][p] = is_up;
	kernel_tick();
}

/* ---- tests ---- */

static void test_straight(void)
{
	begin(1);
	start_supervisor();
	run_for(3 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(controllers(), 1);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	wish(0, FM_WANT_DOWN, false);
	run_for(3 * S);
	is_state(0, "down");
	CU_ASSERT_EQUAL(controllers(), 0);
	wish(0, FM_WANT_CONNECTED, false);
	run_for(3 * S);
	is_state(0, "connected");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
}

static void test_late_target(void)
{
	begin(1);
	set_target(0, false);
	start_supervisor();
	run_for(300 * S);
	is_state(0, "waiting");
	/* 1, 2, 4 ... 60 s, a quarter more or less */
	CU_ASSERT_TRUE(sim.connects >= 7 && sim.connects <= 16);
	for (unsigned i = 1; i < sim.connects; i++)
		CU_ASSERT_TRUE(sim.connect_ns[i] - sim.connect_ns[i - 1] >= S &&
			       sim.connect_ns[i] - sim.connect_ns[i - 1] < 62 * S);
	set_target(0, true);
	run_for(62 * S);
	is_state(0, "mounted");
	CU_ASSERT_STRING_EQUAL(shown(0, "error"), "");
	end();
}

static void test_short_loss(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	set_target(0, false);
	run_for(15 * S);
	is_state(0, "degraded");
	set_target(0, true);
	run_for(11 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.connects, 1);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
}

static void test_ctrl_loss(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	set_target(0, false);
	run_for(90 * S);
	is_state(0, "waiting");
	CU_ASSERT_EQUAL(controllers(), 0);
	CU_ASSERT_FALSE(sim.mounted[0].is_there);
	set_target(0, true);
	run_for(62 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();
}

/* Over a restart, too: that what is mounted is of a device that is gone, and was the volume's, is
 * written down. */
static void test_gone_over_restart(void)
{
	for (unsigned is_btrfs = 0; is_btrfs < 2; is_btrfs++) {
		begin(1);
		sim.is_btrfs = is_btrfs;
		sim.volume[0].fs_type = is_btrfs ? "btrfs" : "ext4";
		start_supervisor();
		run_for(20 * S);
		is_state(0, "mounted");
		kill_supervisor(false);
		remove_controller(&sim.controller[0]);
		set_target(0, false);
		start_supervisor();
		run_for(20 * S);
		is_state(0, "waiting");
		CU_ASSERT_FALSE(sim.mounted[0].is_there);
		end();
	}
}

/* What a person has mounted there of another device that is gone, or of a local disk, is his. */
static void test_gone_of_others(void)
{
	for (unsigned is_btrfs = 0; is_btrfs < 2; is_btrfs++) {
		begin(2);
		sim.is_btrfs = is_btrfs;
		start_supervisor();
		wish(0, FM_WANT_DOWN, false);
		wish(1, FM_WANT_DOWN, false);
		run_for(20 * S);
		sim.mounted[0] = (struct mounted){.is_there = true, .dev = 555};
		run_for(60 * S);
		is_state(0, "down");
		wish(0, FM_WANT_UP, false);
		sim.is_up[0][0] = false;
		run_for(60 * S);
		is_state(0, "refused");
		CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "something else is mounted"));
		CU_ASSERT_TRUE(sim.mounted[0].is_there);
		end();
	}
}

/* It is known by what it says that it is made of. */
static void test_btrfs(void)
{
	for (unsigned is_reader = 0; is_reader < 2; is_reader++) {
		begin(1);
		sim.is_btrfs = true;
		sim.volume[0].fs_type = "btrfs";
		sim.volume[0].mode = is_reader ? FM_VOLUME_READ_ONLY : FM_VOLUME_EXCLUSIVE;
		start_supervisor();
		run_for(60 * S);
		is_state(0, "mounted");
		kill_supervisor(false);
		start_supervisor();
		run_for(60 * S);
		is_state(0, "mounted");
		CU_ASSERT_EQUAL(sim.mounts, 1);
		set_target(0, false);
		run_for(90 * S);
		is_state(0, "waiting");
		CU_ASSERT_FALSE(sim.mounted[0].is_there);
		set_target(0, true);
		run_for(62 * S);
		is_state(0, "mounted");
		wish(0, FM_WANT_CONNECTED, false);
		run_for(20 * S);
		is_state(0, "connected");
		CU_ASSERT_EQUAL(sim.unmounts_lazy, 0);
		CU_ASSERT_EQUAL(sim.read_only_dev[0], 0);
		end();
	}
}

static void test_gone_in_use(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	set_target(0, false);
	sim.mood.is_busy = true;
	run_for(90 * S);
	set_target(0, true);
	run_for(62 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.unmounts_lazy, 1);
	CU_ASSERT_EQUAL(sim.syncs, 0);
	/* What is not lost is not given up without force. */
	wish(0, FM_WANT_DOWN, false);
	run_for(60 * S);
	is_state(0, "unmounting");
	CU_ASSERT_STRING_EQUAL(shown(0, "error"), "in use");
	wish(0, FM_WANT_DOWN, true);
	run_for(5 * S);
	is_state(0, "down");
	CU_ASSERT_EQUAL(sim.unmounts_lazy, 2);
	CU_ASSERT_EQUAL(sim.syncs, 1);
	end();
}

/* What is dirty is written out before a live device is taken away; once, for that can hang. */
static void test_force_writes_once(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	sim.mood.is_busy = true;
	wish(0, FM_WANT_DOWN, false);
	run_for(5 * S);
	CU_ASSERT_EQUAL(sim.syncs, 0);
	sim.mood.hangs_sync = true;
	wish(0, FM_WANT_DOWN, true);
	run_for(60 * S);
	CU_ASSERT_EQUAL(sim.syncs, 1);
	is_state(0, "unmounting");
	run_for(80 * S);
	is_state(0, "down");
	CU_ASSERT_EQUAL(sim.syncs, 1);
	CU_ASSERT_EQUAL(sim.unmounts_lazy, 1);
	/* Nor where the unmount itself has hung as long. */
	sim.mood = (struct mood){ .is_busy = true };
	wish(0, FM_WANT_UP, false);
	run_for(5 * S);
	is_state(0, "mounted");
	sim.mood.hangs[0] = true;
	wish(0, FM_WANT_DOWN, true);
	run_for(60 * S);
	sim.mood.hangs[0] = false;
	run_for(80 * S);
	is_state(0, "down");
	CU_ASSERT_EQUAL(sim.syncs, 1);
	end();
}

static void close_all(uint64_t force_ns)
{
	fm_supervisor_close(sim.sup, force_ns);
}

static bool is_all_down(void)
{
	const char *why;

	return fm_supervisor_is_all_down(sim.sup, &why);
}

/* All down at the end of the machine; what is wished stays wished. */
static void test_close(void)
{
	begin(2);
	start_supervisor();
	wish(1, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	CU_ASSERT_FALSE(is_all_down());
	close_all(60 * S);
	CU_ASSERT_FALSE(is_all_down());
	run_for(3 * S);
	CU_ASSERT_TRUE(is_all_down());
	CU_ASSERT_EQUAL(controllers(), 0);
	/* A unit of one volume that is stopped at the same time. */
	wish(0, FM_WANT_DOWN, false);
	run_for(S);
	kill_supervisor(false);
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	is_state(1, "connected");
	close_all(60 * S);
	run_for(3 * S);
	fm_supervisor_open(sim.sup);
	run_for(5 * S);
	is_state(0, "mounted");
	is_state(1, "connected");
	end();
}

/* Files that are open are waited for as long as there is a target, and not longer than it was
 * said. */
static void test_close_in_use(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	sim.mood.is_busy = true;
	close_all(60 * S);
	run_for(58 * S);
	is_state(0, "unmounting");
	CU_ASSERT_EQUAL(sim.unmounts_lazy, 0);
	run_for(7 * S);
	CU_ASSERT_TRUE(is_all_down());
	CU_ASSERT_EQUAL(sim.unmounts_lazy, 1);
	CU_ASSERT_EQUAL(sim.syncs, 1);
	end();
}

/* With the target gone nobody waits for what hangs on it. */
static void test_close_without_target(void)
{
	for (unsigned i = 0; i < 2; i++) {
		begin(1);
		sim.volume[0].ctrl_loss_s = -1;
		start_supervisor();
		run_for(5 * S);
		sim.mood.hangs_unmount = true;
		if (i == 0)
			set_target(0, false);
		run_for(30 * S);
		close_all(60 * S);
		run_for(3 * S);
		CU_ASSERT_FALSE(is_all_down());
		if (i == 1)
			set_target(0, false);	/* under way already */
		run_for(10 * S);
		CU_ASSERT_TRUE(is_all_down());
		CU_ASSERT_EQUAL(controllers(), 0);
		CU_ASSERT_EQUAL(sim.syncs, 0);
		end();
	}
}

/* Unmounted by somebody else, and not written out yet. */
static void test_still_written(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	sim.mood.is_written = true;
	wish(0, FM_WANT_DOWN, false);
	run_for(30 * S);
	is_state(0, "disconnecting");
	CU_ASSERT_EQUAL(controllers(), 1);
	sim.mood.is_written = false;
	run_for(11 * S);
	is_state(0, "down");
	sim.mood.is_written = true;
	wish(0, FM_WANT_UP, false);
	run_for(5 * S);
	wish(0, FM_WANT_DOWN, true);
	run_for(5 * S);
	is_state(0, "down");
	/* Nor where it cannot be: as long as an unmount may take. */
	sim.volume[0].ctrl_loss_s = -1;
	set_config();
	wish(0, FM_WANT_UP, false);
	run_for(5 * S);
	set_target(0, false);
	run_for(5 * S);
	wish(0, FM_WANT_DOWN, false);
	run_for(60 * S);
	is_state(0, "disconnecting");
	run_for(70 * S);
	is_state(0, "down");
	end();
}

/* A reader's device is read-only, and no longer than that: the same node may be the writer next. */
static void test_reader_becomes_writer(void)
{
	begin(1);
	sim.volume[0].mode = FM_VOLUME_READ_ONLY;
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	CU_ASSERT_TRUE(sim.mounted[0].is_read_only && sim.read_only_dev[0] == sim.dev[0]);
	/* Known after a restart, and also when somebody else has unmounted it meanwhile. */
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	sim.volume[0].mode = FM_VOLUME_EXCLUSIVE;
	set_config();
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_FALSE(sim.mounted[0].is_read_only);
	CU_ASSERT_EQUAL(sim.read_only_dev[0], 0);
	end();
}

/* The target's protection, or somebody's, is not ours to take away. */
static void test_read_only_stays(void)
{
	begin(1);
	sim.volume[0].mode = FM_VOLUME_READ_ONLY;
	start_supervisor();
	settle();
	for (unsigned i = 0; i < 100 && sim.dev[0] == 0; i++)
		run_for(10 * MS);
	sim.read_only_dev[0] = sim.dev[0];
	run_for(5 * S);
	is_state(0, "mounted");
	wish(0, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	is_state(0, "connected");
	CU_ASSERT_TRUE(sim.dev[0] != 0 && sim.read_only_dev[0] == sim.dev[0]);
	end();
}

/* While it is prepared nobody else can have the device, so whoever waits for the permission to
 * mount it waits. */
static void test_prepare(void)
{
	begin(1);
	sim.volume[0].mode = FM_VOLUME_READ_ONLY;
	sim.mood.fails_mount = true;
	start_supervisor();
	run_until("prepare");
	CU_ASSERT_FALSE(fm_supervisor_is_mount_allowed(sim.sup, "one"));
	run_until("mount");
	CU_ASSERT_TRUE(fm_supervisor_is_mount_allowed(sim.sup, "one"));
	CU_ASSERT_EQUAL(sim.read_only_dev[0], sim.dev[0]);
	run_until("restore");
	run_for(500 * MS);
	CU_ASSERT_EQUAL(sim.read_only_dev[0], 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "error"), "not this file system"));
	run_until("prepare");
	wish(0, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	is_state(0, "connected");
	CU_ASSERT_EQUAL(sim.read_only_dev[0], 0);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	end();
}

/* Who is let mount it because it is mounted would do so when it is unmounted. */
static void test_leaving_is_not_allowed(void)
{
	struct fm_err err;

	begin(1);
	sim.volume[0].mode = FM_VOLUME_SHARED_READ;
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	CU_ASSERT_TRUE(fm_supervisor_is_mount_allowed(sim.sup, "one"));
	fm_supervisor_look_anew(sim.sup, "one");
	CU_ASSERT_FALSE(fm_supervisor_is_mount_allowed(sim.sup, "one"));
	CU_ASSERT_EQUAL(fm_supervisor_seal(sim.sup, "one", true, false, &err), 0);
	run_until("unmount");
	CU_ASSERT_TRUE(sim.mounted[0].is_there);
	CU_ASSERT_FALSE(fm_supervisor_is_mount_allowed(sim.sup, "one"));
	end();
}

static void test_one_hangs(void)
{
	begin(2);
	sim.mood.hangs[0] = true;
	start_supervisor();
	run_for(5 * S);
	is_state(1, "mounted");
	is_state(0, "connecting");
	run_for(40 * S);
	CU_ASSERT_TRUE(strstr(shown(0, "error"), "no answer in time") ||
		       strstr(shown(0, "error"), "hangs"));
	sim.mood.hangs[0] = false;
	run_for(180 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(controllers(), 2);
	end();
}

static void test_missed_namespace(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	CU_ASSERT_EQUAL(sim.rescans, 0);
	sim.dev[0] = 0;
	sim.is_empty = true;
	run_for(300 * S);
	is_state(0, "connecting");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "has no namespace"));
	/* 2, 4 ... 60 s, a quarter more or less */
	CU_ASSERT_TRUE(sim.rescans >= 7 && sim.rescans <= 14);
	sim.is_empty = false;
	wish(0, FM_WANT_UP, false);
	run_for(8 * S);
	is_state(0, "mounted");
	sim.dev[0] = 0;
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 3);
	CU_ASSERT_EQUAL(sim.connects, 1);
	end();
}

static void test_identity(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	set_target(0, false);
	run_for(40 * S);
	sim.letter[0] = 'b';
	set_target(0, true);
	run_for(70 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	set_target(0, false);
	run_for(40 * S);
	sim.letter[0] = RIGHT;
	set_target(0, true);
	run_for(70 * S);
	is_state(0, "mounted");
	end();
}

static void test_wish_in_doubt(void)
{
	struct fm_err err;

	begin(1);
	start_supervisor();
	run_for(5 * S);
	wish(0, FM_WANT_UP, false);
	sim.is_save_broken = true;
	CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, names[0], FM_WANT_DOWN, false, &err), -EIO);
	CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, names[0], FM_WANT_UP, false, &err), -EIO);
	CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, names[0], FM_WANT_DOWN, false, &err), -EIO);
	sim.is_save_broken = false;
	wish(0, FM_WANT_UP, false);
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.file[file_number("wishes.json")], "\"up\""));
	run_for(5 * S);
	is_state(0, "mounted");
	end();
}

static void test_not_writer(void)
{
	begin(1);
	sim.node = "n3";
	start_supervisor();
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "exclusive to node n1"));
	CU_ASSERT_EQUAL(sim.mounts, 0);
	sim.volume[0].writer = "n3";
	set_config();
	run_for(3 * S);
	is_state(0, "mounted");
	end();
}

static void test_refused_by_target(void)
{
	begin(1);
	sim.mood.trouble = "not-allowed";
	start_supervisor();
	run_for(600 * S);
	is_state(0, "waiting");
	CU_ASSERT_TRUE(sim.connects >= 10 && sim.connects <= 14);
	sim.mood.trouble = NULL;
	run_for(62 * S);
	is_state(0, "mounted");
	end();
}

static void test_restart(void)
{
	begin(2);
	start_supervisor();
	run_for(5 * S);
	kill_supervisor(false);
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(controllers(), 2);
	CU_ASSERT_EQUAL(sim.connects, 2);
	/* It still knows that they are its own, and what was wished. */
	wish(1, FM_WANT_DOWN, false);
	run_for(5 * S);
	kill_supervisor(false);
	start_supervisor();
	run_for(5 * S);
	is_state(1, "down");
	CU_ASSERT_EQUAL(controllers(), 1);
	end();
}

static void test_killed_while_connecting(void)
{
	begin(1);
	start_supervisor();
	settle();
	CU_ASSERT_EQUAL(sim.connects, 1);
	kill_supervisor(true);
	CU_ASSERT_EQUAL(controllers(), 1);
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.connects, 1);
	wish(0, FM_WANT_DOWN, false);
	run_for(5 * S);
	CU_ASSERT_EQUAL(controllers(), 0);
	end();
}

/* The helper was killed and has made nothing: what somebody else connects there after its end is
 * his. Over a restart, too. */
static void test_foreign_after_doubt(void)
{
	for (unsigned is_restarted = 0; is_restarted < 2; is_restarted++) {
		begin(1);
		sim.mood.hangs[0] = true;
		start_supervisor();
		run_for(20 * S);
		CU_ASSERT_EQUAL(sim.connects, 1);
		wish(0, FM_WANT_DOWN, false);
		if (is_restarted) {
			kill_supervisor(false);
			start_supervisor();
		}
		run_for(100 * S);
		sim.mood.hangs[0] = false;
		is_state(0, "down");
		make_controller(0, 0)->is_foreign = true;
		run_for(30 * S);
		is_state(0, "down");
		CU_ASSERT_EQUAL(controllers(), 1);
		wish(0, FM_WANT_UP, false);
		run_for(20 * S);
		is_state(0, "mounted");
		wish(0, FM_WANT_DOWN, false);
		run_for(20 * S);
		is_state(0, "down");
		CU_ASSERT_EQUAL(controllers(), 1);
		end();
	}
}

/* While the helper hangs in the kernel nobody can say whose it is: ours would have TLS. */
static void test_unfit_in_doubt(void)
{
	begin(1);
	sim.volume[0].has_tls = true;
	start_supervisor();
	settle();
	sim.call[0].due_ns = FM_NEVER;
	sim.call[0].stuck_ns = 300 * S;
	CU_ASSERT_TRUE(is_call(&sim.call[0], "connect"));
	run_for(40 * S);
	make_controller(0, 0)->is_foreign = true;
	run_for(40 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "without TLS"));
	/* It has ended, and that controller was there: taken for its own, and still not used. */
	run_for(300 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 0);
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	sim.has_tls = true;
	run_for(20 * S);
	is_state(0, "mounted");
	sim.controller[0].is_foreign = false;
	end();
}

static void test_foreign(void)
{
	begin(1);
	make_controller(0, 0)->is_foreign = true;
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.connects, 0);
	wish(0, FM_WANT_DOWN, false);
	run_for(5 * S);
	is_state(0, "down");
	CU_ASSERT_EQUAL(controllers(), 1);
	end();
}

/* Nor is what others connected without what the configuration asks for; what this node has
 * connected is as configured. */
static void test_foreign_unfit(void)
{
	static const char *const says[] = {"without a secret (secret_file)", "without TLS",
					   "whether with digests"};

	for (unsigned i = 0; i < 3; i++) {
		begin(1);
		sim.volume[0].secret_file = i == 0 ? "/etc/fmove/secret" : "";
		sim.volume[0].has_tls = i == 1;
		sim.volume[0].has_data_digest = i == 2;
		make_controller(0, 0)->is_foreign = true;
		start_supervisor();
		run_for(20 * S);
		is_state(0, "refused");
		CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), says[i]));
		CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "nvme disconnect -d nvme0"));
		CU_ASSERT_EQUAL(sim.connects + sim.mounts, 0);
		sim.has_secret = i == 0;
		sim.has_tls = i == 1;
		if (i == 2)
			remove_controller(&sim.controller[0]);
		run_for(20 * S);
		is_state(0, "mounted");
		CU_ASSERT_EQUAL(sim.connects, i == 2);
		kill_supervisor(false);
		start_supervisor();
		run_for(20 * S);
		is_state(0, "mounted");
		end();
	}
}

static void test_down_while_connecting(void)
{
	begin(1);
	start_supervisor();
	settle();
	wish(0, FM_WANT_DOWN, false);
	run_for(5 * S);
	is_state(0, "down");
	CU_ASSERT_EQUAL(controllers(), 0);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	end();
}

static void test_two_paths(void)
{
	begin(1);
	sim.volume[0].address_count = 2;
	sim.is_up[0][1] = false;
	start_supervisor();
	run_for(5 * S);
	is_state(0, "degraded");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	sim.is_up[0][1] = true;
	run_for(62 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(controllers(), 2);
	/* One path less in the configuration. */
	sim.volume[0].address_count = 1;
	set_config();
	run_for(5 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(controllers(), 1);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
}

static void test_names(void)
{
	begin(1);
	sim.volume[0].address[0].host = "target";
	strcpy(sim.resolved, hosts[0][0]);
	start_supervisor();
	run_for(10 * S);
	is_state(0, "waiting");
	sim.can_resolve = true;
	run_for(62 * S);
	is_state(0, "mounted");
	/* Nobody to ask any more, and nothing is lost by that. */
	sim.can_resolve = false;
	run_for(700 * S);
	is_state(0, "mounted");
	/* It has moved. */
	sim.can_resolve = true;
	strcpy(sim.resolved, hosts[0][1]);
	sim.is_up[0][0] = false;
	run_for(700 * S);
	is_state(0, "mounted");
	CU_ASSERT_PTR_NULL(find_controller(0, 0));
	CU_ASSERT_PTR_NOT_NULL(find_controller(0, 1));
	end();
}

static void test_discovery(void)
{
	begin(1);
	sim.volume[0].is_discovered = true;
	sim.volume[0].address[0].host = DISCOVERY_HOST;
	start_supervisor();
	run_for(10 * S);
	is_state(0, "waiting");
	sim.can_resolve = true;
	run_for(62 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(controllers(), 2);
	sim.can_resolve = false;
	run_for(700 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(controllers(), 2);
	end();
}

/* A helper that was killed leaves its discovery controller, and so does one that died with the
 * supervisor. */
static void test_discovery_left(void)
{
	begin(1);
	sim.volume[0].is_discovered = true;
	sim.volume[0].address[0].host = DISCOVERY_HOST;
	sim.can_resolve = true;
	sim.mood.hangs[0] = true;
	start_supervisor();
	run_for(10 * S);
	CU_ASSERT_TRUE(sim.has_discovery);
	sim.mood.hangs[0] = false;
	run_for(180 * S);
	CU_ASSERT_FALSE(sim.has_discovery);
	is_state(0, "mounted");
	/* Killed with the supervisor. */
	kill_supervisor(false);
	start_supervisor();
	settle();
	CU_ASSERT_TRUE(sim.has_discovery);
	kill_supervisor(false);
	sim.can_resolve = false;
	start_supervisor();
	run_for(5 * S);
	CU_ASSERT_FALSE(sim.has_discovery);
	CU_ASSERT_EQUAL(controllers(), 2);
	/* One that could not be removed. */
	sim.can_resolve = sim.mood.leaves_discovery = true;
	run_until("discover");
	run_until("disconnect");
	sim.mood.leaves_discovery = false;
	CU_ASSERT_TRUE(sim.has_discovery);
	run_for(20 * S);
	CU_ASSERT_FALSE(sim.has_discovery);
	sim.can_resolve = false;
	run_for(60 * S);
	/* Somebody else's stays, also when our helper was killed that used it. */
	sim.can_resolve = true;
	sim.is_discovery_foreign = true;
	sim.has_discovery = true;
	sim.mood.hangs[0] = true;
	run_for(10 * S);
	kill_supervisor(false);
	sim.mood.hangs[0] = false;
	start_supervisor();
	run_for(60 * S);
	is_state(0, "mounted");
	CU_ASSERT_TRUE(sim.has_discovery);
	end();
}

/* Somebody's discovery controller stays: one that came while a helper hangs in the kernel and makes
 * none, or after its end, and one that a helper found there. */
static void test_discovery_of_others(void)
{
	begin(1);
	sim.volume[0].is_discovered = true;
	sim.volume[0].address[0].host = DISCOVERY_HOST;
	sim.is_discovery_foreign = true;
	start_supervisor();
	settle();
	CU_ASSERT_TRUE_FATAL(is_call(&sim.call[0], "discover"));
	sim.call[0].due_ns = FM_NEVER;
	sim.call[0].stuck_ns = 100 * S;
	run_for(60 * S);
	wish(0, FM_WANT_DOWN, false);
	sim.has_discovery = true;
	run_for(30 * S);
	CU_ASSERT_TRUE(sim.has_discovery);
	sim.has_discovery = false;
	run_for(60 * S);
	sim.has_discovery = true;
	run_for(60 * S);
	CU_ASSERT_TRUE(sim.has_discovery);
	sim.has_discovery = false;
	run_for(20 * S);
	sim.can_resolve = true;
	wish(0, FM_WANT_UP, false);
	run_until("discover");
	for (unsigned i = 0; i < CALLS_MAX; i++)
		sim.call[i].was_there = sim.call[i].request && is_call(&sim.call[i], "discover");
	run_for(60 * S);
	is_state(0, "mounted");
	CU_ASSERT_TRUE(sim.has_discovery);
	end();
}

/* The helper was killed when it had set the device read-only, and nothing else. */
static void test_read_only_left(void)
{
	begin(1);
	sim.volume[0].mode = FM_VOLUME_READ_ONLY;
	start_supervisor();
	run_until("mount");
	kill_supervisor(false);
	sim.read_only_dev[0] = sim.dev[0];
	sim.volume[0].mode = FM_VOLUME_EXCLUSIVE;
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	CU_ASSERT_FALSE(sim.mounted[0].is_read_only);
	CU_ASSERT_EQUAL(sim.read_only_dev[0], 0);
	/* What somebody sets read-only later is his. */
	wish(0, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	sim.read_only_dev[0] = sim.dev[0];
	wish(0, FM_WANT_UP, false);
	run_for(5 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "is read-only"));
	end();
}

/* Without a UUID in the configuration it must be what it was, as long as the subsystem is the
 * same. */
static void test_last_time(void)
{
	begin(1);
	sim.volume[0].uuid = "";
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	sim.letter[0] = 'b';
	start_supervisor();
	run_for(5 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "the last time was uuid.aaaa"));
	CU_ASSERT_EQUAL(sim.mounts, 1);
	sim.letter[0] = RIGHT;
	run_for(15 * S);
	is_state(0, "mounted");
	end();
}

static void test_smaller_below_a_mount(void)
{
	begin(1);
	start_supervisor();
	run_for(5 * S);
	sim.size_bytes = 2u << 30;
	run_for(15 * S);
	CU_ASSERT_STRING_EQUAL(shown(0, "error"), "");
	sim.size_bytes = 1u << 29;
	run_for(15 * S);
	is_state(0, "mounted");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "error"), "fewer than the 1073741824"));
	wish(0, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	wish(0, FM_WANT_UP, false);
	run_for(5 * S);
	is_state(0, "refused");
	sim.size_bytes = 1u << 30;
	run_for(15 * S);
	is_state(0, "mounted");
	CU_ASSERT_STRING_EQUAL(shown(0, "error"), "");
	end();
}

/* What a target calls itself need not be UTF-8, and a line may be cut anywhere. */
static void test_no_utf8(void)
{
	struct fm_json *all;
	char *text;

	begin(1);
	sim.bad_name = "disk\xff\xe4";
	make_controller(0, 0)->is_foreign = true;
	start_supervisor();
	run_for(5 * S);
	CU_ASSERT_STRING_EQUAL(shown(0, "by_id"), "/dev/disk/by-id/nvme-disk??");
	all = fm_supervisor_show(sim.sup, NULL);
	text = fm_json_dump(all, FM_JSON_ONE_LINE);
	CU_ASSERT_PTR_NOT_NULL(text);
	free(text);
	fm_json_free(all);
	end();
}

static void test_reload(void)
{
	begin(2);
	start_supervisor();
	run_for(5 * S);
	sim.volume_count = 1;
	set_config();
	run_for(5 * S);
	CU_ASSERT_EQUAL(controllers(), 1);
	CU_ASSERT_STRING_EQUAL(shown(1, "state"), "(none)");
	/* Another mount point: first the one goes, then the other comes. */
	sim.volume[0].mount_point = points[1];
	sim.volume[0].name = names[1];
	set_config();
	run_for(10 * S);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
	end();
}

/*
 * Configured anew twice while the first still cannot be unmounted: the second never had anything
 * and goes at once, then the first goes and the last comes. Until then it is not mounted, though
 * the very thing that it names is: that is about to go.
 */
static void test_reload_twice(void)
{
	enum fm_supervisor_progress progress;
	const char *why;

	begin(1);
	start_supervisor();
	run_for(5 * S);
	sim.mood.is_busy = true;
	sim.volume[0].uuid = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";
	set_config();
	run_for(5 * S);
	sim.volume[0].uuid = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
	set_config();
	run_for(5 * S);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 2);
	is_state(0, "waiting");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "taken down first (unmounting)"));
	CU_ASSERT_EQUAL(fm_supervisor_progress(sim.sup, names[0], &progress, &why), 0);
	CU_ASSERT_EQUAL(progress, FM_PROGRESS_UNDER_WAY);
	wish(0, FM_WANT_DOWN, false);
	run_for(1 * S);
	is_state(0, "disconnecting");
	wish(0, FM_WANT_UP, false);
	sim.mood.is_busy = false;
	run_for(60 * S);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
	is_state(0, "mounted");
	end();
}

/* A failure of ours costs a try, never the volume. */
static void test_faults(void)
{
	static const char *const once[] = {"owned.alloc", "supervisor.owned", "supervisor.held",
					   "supervisor.room", "supervisor.volume"};
	struct fm_supervisor_config config = {.node = "n1",
					      .host_nqn = HOST,
					      .host_id = HOST_ID,
					      .volumes = sim.volume,
					      .count = 2};
	struct fm_err err;

	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
		begin(2);
		sim.volume_count = 1;
		start_supervisor();
		sim.volume_count = 2;
		fm_fault_arm(once[i], 1);
		if (fm_supervisor_set(sim.sup, &config, &err) < 0) {
			CU_ASSERT_EQUAL(err.code, -ENOMEM);
			CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
			set_config();
		}
		run_for(10 * S);
#ifdef FM_FAULTS
		CU_ASSERT_TRUE(fm_fault_fired());
#endif
		fm_fault_arm(NULL, 0);
		is_state(0, "mounted");
		is_state(1, "mounted");
		end();
	}
}

/* What is left out of what peers are told is free, to them. */
static void test_fault_of_words(void)
{
	static const char *const once[] = { "supervisor.say", "supervisor.strangers" };

	for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
		begin(1);
		sim.strangers = 2;
		start_supervisor();
		run_for(20 * S);
		is_state(0, "mounted");
		fm_fault_arm(once[i], 1);
		set_config();
		run_for(20 * S);
#ifdef FM_FAULTS
		CU_ASSERT_TRUE(fm_fault_fired());
#endif
		fm_fault_arm(NULL, 0);
		CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, "\"one\""));
		CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, "\"nvme90n2\""));
		end();
	}
}

/* What cannot be read is no state; what is of another boot has gone with it. */
static void test_bad_files(void)
{
	static const char *const bad[] = {"",
					  "nonsense",
					  "[]",
					  "{\"boot\": 1}",
					  "{\"boot\": \"other-boot\", \"controllers\": []}",
					  "{\"boot\": \"this-boot\", \"controllers\": [1]}"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin(1);
		for (unsigned f = 0; f < 3; f++)
			sim.file[f] = strdup(bad[i]);
		sim.file[file_number(FM_SUPERVISOR_HEARD)] = strdup(bad[i]);
		start_supervisor();
		run_for(5 * S);
		is_state(0, "mounted");
		end();
	}
}

static void nothing_said(void)
{
	fm_log_set_level(FM_LOG_ERROR);
}

/* ---- chance ---- */

#define LOOK_NS (11 * S)		/* one look at least */

/*
 * A connect of somebody else's beside ours is the kernel's affair. What comes while a helper
 * connects, and until one look after its end, is taken for its work if nobody hears what that was.
 */
static bool is_connecting(unsigned volume)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].request && is_call(&sim.call[i], "connect") &&
		    volume_of_call(&sim.call[i]) == volume)
			return true;
	return sim.connect_end_ns[volume] != 0 &&
	       sim.now_ns < sim.connect_end_ns[volume] + LOOK_NS;
}

static void chaos(void)
{
	unsigned v = (unsigned)(chance() % VOLUMES), p = (unsigned)(chance() % PATHS);

	switch (chance() % 10) {
	case 0:
	case 1:
		sim.is_up[v][p] = !sim.is_up[v][p];
		break;
	case 2:
		sim.letter[v] = sim.dev[v] ? sim.letter[v] : is_one_in(50) ? 'b' : RIGHT;
		break;
	case 3:
		sim.mood.fail_percent = (unsigned)(chance() % 60);
		break;
	case 4:
		sim.mood.hang_percent = (unsigned)(chance() % 30);
		break;
	case 5:
		sim.mood.is_busy = is_one_in(50);
		break;
	case 6:
		kill_supervisor(is_one_in(50));
		start_supervisor();
		break;
	case 7:
		wish(v, (enum fm_plan_want)(chance() % 3), is_one_in(20));
		sim.is_silent = is_one_in(50);
		break;
	case 8:
		fm_supervisor_wake(sim.sup);
		break;
	default:
		if (!find_controller(v, p) && !is_connecting(v) && is_one_in(20) && sim.is_up[v][p])
			make_controller(v, p)->is_foreign = true;
		break;
	}
	kernel_tick();
}

static void make_well(void)
{
	/* What is known by another name must go first: the device is made anew. */
	for (unsigned v = 0; v < VOLUMES; v++) {
		set_target(v, false);
		sim.mood = (struct mood){ 0 };
		sim.is_silent = false;
	}
	run_for(100 * S);
	for (unsigned v = 0; v < VOLUMES; v++) {
		sim.letter[v] = RIGHT;
		set_target(v, true);
		wish(v, FM_WANT_UP, false);
	}
	run_for(200 * S);
}

static void run_seed(uint64_t seed)
{
	begin(VOLUMES);
	sim.seed += seed * 0x9e3779b97f4a7c15u;
	sim.volume[0].address_count = 2;
	sim.is_target_able = seed % 2 == 0;
	sim.has_no_mmp = seed % 3 == 0;
	start_supervisor();
	for (unsigned i = 0; i < 30; i++) {
		run_for(chance() % (20 * S));
		chaos();
	}
	make_well();
	for (unsigned v = 0; v < VOLUMES; v++)
		is_state(v, "mounted");
	check_single();
	for (unsigned v = 0; v < VOLUMES; v++)
		wish(v, FM_WANT_DOWN, false);
	run_for(100 * S);
	for (unsigned v = 0; v < VOLUMES; v++)
		is_state(v, "down");
	for (unsigned i = 0; i < CONTROLLERS_MAX; i++)
		CU_ASSERT_TRUE(!sim.controller[i].is_there || sim.controller[i].is_foreign);
	end();
}

/* ---- other nodes, and sealing ---- */

static int64_t number(unsigned v, const char *key)
{
	struct fm_json *volume = fm_supervisor_show(sim.sup, names[v]);
	const struct fm_json *value = fm_json_get(volume, key);
	int64_t n =
		fm_json_is(value, FM_JSON_BOOL) ? fm_json_is_true(value) : fm_json_as_i64(value);

	fm_json_free(volume);
	return n;
}

/* What sealed.json has; NULL: it is lost. */
static void keep_state(const char *name, const char *text)
{
	char **file = &sim.file[file_number(name)];

	free(*file);
	*file = text ? strdup(text) : NULL;
}

static void keep_seals(const char *text)
{
	keep_state(FM_SUPERVISOR_SEALED, text);
}

/* One volume that n2 and this node share, whose number is known. */
static void begin_shared(const char *node, const char *writer)
{
	begin(1);
	sim.node = node;
	sim.volume[0].mode = FM_VOLUME_SHARED_READ;
	sim.volume[0].writer = writer;
	keep_seals("{\"one\":{\"subsystem\":\"nqn.2026-01.org.fmove:a\",\"state\":\"open\","
		   "\"epoch\":0}}");
}

static void n2_says(bool is_mounted, bool is_sealed, int epoch)
{
	sim.is_silent = false;
	sim.peer[0] = (struct peer_word){sim.volume[0].writer, is_mounted, false, is_sealed, epoch};
}

static int seal(bool is_sealed, bool is_forced)
{
	struct fm_err err;

	return fm_supervisor_seal(sim.sup, "one", is_sealed, is_forced, &err);
}

static void is_mounted_as(bool is_read_write, int64_t epoch)
{
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(number(0, "is_read_write"), is_read_write);
	CU_ASSERT_EQUAL(number(0, "mounted_epoch"), epoch);
}

/* What fmoved of this node is told: whether it stays mounted, which seal that is, who writes. */
static void here_is(bool is_there, int64_t seal, const char *written_by)
{
	char text[128];

	snprintf(text, sizeof(text), ",\"mounted_epoch\":%lld,\"written_by\":\"%s\"",
		 (long long)seal, written_by);
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, text));
	CU_ASSERT_EQUAL(!strstr(sim.published, "\"device\":0,"), is_there);
}

static void test_seal(void)
{
	int64_t epoch;

	begin_shared("n1", "n1");
	n2_says(false, false, 0);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(true, 0);
	here_is(true, 0, "");
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_TRUE(number(0, "is_sealed") && number(0, "epoch") == 1);
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, "\"sealed\":true"));
	here_is(true, 1, "");
	CU_ASSERT_EQUAL(seal(true, false), 0);
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_TRUE(number(0, "is_sealed") && number(0, "epoch") == 1);
	/* A reader is there: it is waited for. */
	n2_says(true, false, 1);
	run_for(10 * S);
	CU_ASSERT_EQUAL(seal(false, false), 0);
	CU_ASSERT_PTR_NULL(strstr(shown(0, "text"), "n2"));
	run_for(30 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "n2 has it mounted read-only"));
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, "\"sealed\":false"));
	here_is(false, 0, "");
	n2_says(false, false, 0);
	run_for(10 * S);
	is_mounted_as(true, 0);
	here_is(true, 0, "");
	CU_ASSERT_EQUAL(number(0, "epoch"), 2);
	/* Its own number was lost, a reader has one: it takes one that is higher than any. */
	n2_says(false, false, 7);
	run_for(10 * S);
	is_mounted_as(true, 0);
	epoch = number(0, "epoch");
	CU_ASSERT_TRUE(epoch > 7);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, (int)epoch + 1);
	end();
}

/* Killed between the wish and the seal: it goes on. Down, or by another node, or for another mode,
 * it is refused. */
static void test_seal_refused(void)
{
	begin_shared("n1", "n1");
	start_supervisor();
	run_for(20 * S);
	sim.mood.is_busy = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_state(0, "unmounting");
	CU_ASSERT_EQUAL(number(0, "is_sealed"), false);
	kill_supervisor(false);
	start_supervisor();
	sim.mood.is_busy = false;
	run_for(30 * S);
	is_mounted_as(false, 1);
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(false, false), 0);
	CU_ASSERT_EQUAL(seal(true, false), -EINVAL);
	sim.node = "n3";
	set_config();
	CU_ASSERT_EQUAL(seal(true, false), -EACCES);
	sim.volume[0].mode = FM_VOLUME_EXCLUSIVE;
	set_config();
	CU_ASSERT_EQUAL(seal(true, false), -EINVAL);
	end();
}

/* It is open, has its number still, and says why; then it can be sealed. */
static void is_unsealed(const char *why)
{
	is_mounted_as(true, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), why));
	CU_ASSERT_PTR_NOT_NULL(strstr(fm_supervisor_unsealed_why(sim.sup, "one"), why));
	CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
	CU_ASSERT_PTR_NULL(strstr(sim.published, "\"sealed\":true"));
	CU_ASSERT_EQUAL(number(0, "epoch"), 0);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(30 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_STRING_EQUAL(shown(0, "text"), "");
	CU_ASSERT_STRING_EQUAL(fm_supervisor_unsealed_why(sim.sup, "one"), "");
	end();
}

static void begin_seal(void)
{
	begin_shared("n1", "n1");
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(true, 0);
}

/* What readers get was written: an unmount alone tells nobody when it was not. */
static void test_seal_unwritten(void)
{
	begin_seal();
	sim.mood.sync_says = -EIO;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);		/* it was never unmounted */
	CU_ASSERT_EQUAL(sim.syncs, 1);
	sim.mood.sync_says = 0;
	is_unsealed("Input/output error");

	begin_seal();
	sim.mood.is_synced_late = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 2);
	sim.mood.is_synced_late = false;
	is_unsealed("Input/output error");

	/* Nobody has heard of it. */
	begin_seal();
	sim.mood.hangs_unmount = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(599 * S);
	CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, "one"));
	run_for(100 * S);
	sim.mood.hangs_unmount = false;
	run_for(100 * S);
	is_unsealed("no answer in time");

	/* With files open it is written, and waited for. */
	begin_seal();
	sim.mood.is_busy = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(60 * S);
	CU_ASSERT_TRUE(sim.syncs > 1);
	sim.mood.is_busy = false;
	run_for(30 * S);
	is_mounted_as(false, 1);
	end();
}

/* An unmount that began before is no better. */
static void test_seal_while_unmounting(void)
{
	begin_seal();
	wish(0, FM_WANT_CONNECTED, false);
	run_until("unmount");
	wish(0, FM_WANT_UP, false);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.syncs, 0);
	is_unsealed("is not known");

	/* Nor is one that finds nothing to ask for errors any more. */
	begin_seal();
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_until("unmount");
	sim.mounted[0].is_there = false;
	run_for(20 * S);
	is_unsealed("had unmounted it just before");

	/* Who unmounts by force does not wait until all is written, and nothing is sealed then. */
	begin_seal();
	sim.mood.hangs_unmount = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_until("unmount");
	wish(0, FM_WANT_CONNECTED, true);
	run_for(200 * S);
	is_state(0, "connected");
	CU_ASSERT_EQUAL(sim.unmounts_lazy, 1);
	sim.mood.hangs_unmount = false;
	wish(0, FM_WANT_UP, false);
	run_for(100 * S);
	is_unsealed("is not known");
}

/*
 * The kernel tells of an error once. A helper that outlived its fmove-nvmed may have been told, or
 * have unmounted it: whether it had an answer for nobody is not known.
 */
static void test_seal_restarted(void)
{
	for (unsigned i = 0; i < 2; i++) {
		begin_seal();
		CU_ASSERT_EQUAL(seal(true, false), 0);
		run_until("unmount");
		kill_supervisor(i == 1);
		start_supervisor();
		run_for(20 * S);
		is_unsealed("restarted while it was written out");
	}

	/* The unmount began before it was to be sealed. */
	begin_seal();
	wish(0, FM_WANT_CONNECTED, false);
	run_until("unmount");
	wish(0, FM_WANT_UP, false);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	kill_supervisor(true);
	start_supervisor();
	run_for(20 * S);
	is_unsealed("restarted while it was written out");

	/* What cannot be written down is not begun. */
	begin_seal();
	CU_ASSERT_EQUAL(seal(true, false), 0);
	sim.is_save_broken = true;
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.syncs, 0);
	CU_ASSERT_EQUAL(number(0, "is_read_write"), true);
	sim.is_save_broken = false;
	run_for(70 * S);
	is_mounted_as(false, 1);
	end();
}

/* After a crash in the midst of it, or where the target was away: nobody but a person knows what is
 * lost. */
static void test_seal_unclean(void)
{
	begin_seal();
	sim.mood.is_busy = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	sim.mood.is_busy = false;
	sim.is_dirty = true;
	start_supervisor();
	run_for(30 * S);
	sim.is_dirty = false;
	is_unsealed("was not cleanly unmounted");

	/* What cannot be written down is not mounted to write, for it would be sealed after a
	 * restart. */
	begin_seal();
	sim.mood.is_busy = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	sim.mood.is_busy = false;
	sim.is_dirty = sim.is_save_broken = true;
	start_supervisor();
	run_for(30 * S);
	CU_ASSERT_EQUAL(number(0, "is_mounted"), false);
	CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
	sim.is_save_broken = false;
	run_for(70 * S);
	is_mounted_as(true, 0);
	end();
}

/* This node has sealed it, and n2 has it. */
static void begin_read(void)
{
	begin_shared("n1", "n1");
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	n2_says(true, false, 1);
	run_for(20 * S);
}

/* Who was there and is silent may read still. */
static void test_lost_reader(void)
{
	begin_read();
	sim.is_silent = true;
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(false, false), -EBUSY);
	/* Who was never heard since it began, but before. */
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(false, false), -EBUSY);
	is_mounted_as(false, 1);
	CU_ASSERT_EQUAL(seal(false, true), 0);
	run_for(30 * S);
	is_mounted_as(true, 0);
	end();
}

/* Readers may have what was sealed: a file that says so, and cannot be read, opens nothing. */
static void test_lost_seals(void)
{
	int64_t epoch;

	begin_shared("n1", "n1");
	keep_seals("nonsense");
	n2_says(true, false, 4);
	start_supervisor();
	run_for(20 * S);
	is_state(0, "waiting");
	n2_says(false, false, 4);
	run_for(20 * S);
	epoch = number(0, "epoch");
	CU_ASSERT_TRUE(number(0, "is_sealed") && epoch > 4);
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, (int)epoch);
	/* Who is silent may have it, also if nobody knows. */
	n2_says(false, false, 0);
	run_for(10 * S);
	sim.is_silent = true;
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(false, false), -EBUSY);
	sim.is_silent = false;
	run_for(10 * S);
	CU_ASSERT_EQUAL(seal(false, false), 0);
	run_for(20 * S);
	is_mounted_as(true, 0);
	end();
	/* An entry that makes no sense is no better. */
	begin_shared("n1", "n1");
	keep_seals("{\"one\":{\"subsystem\":\"nqn.2026-01.org.fmove:a\",\"state\":7}}");
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(number(0, "is_sealed") != 0);
	end();
	begin(1);
	keep_seals("nonsense");
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(number(0, "is_read_write"), true);
	end();
}

/* Asked for again while it is still mounted read-only: it is unmounted, and sealed anew. */
static void test_sealed_again_while_mounted(void)
{
	begin_shared("n1", "n1");
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	sim.mood.is_busy = true;
	CU_ASSERT_EQUAL(seal(false, false), 0);
	run_for(20 * S);
	is_state(0, "unmounting");
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	sim.mood.is_busy = false;
	run_for(60 * S);
	is_mounted_as(false, 3);
	end();
}

/* Readers may have what was sealed, and nobody here knows: it opens when each node has said that it
 * has nothing as old as that. */
static void test_lost_number(void)
{
	int64_t epoch;

	begin_shared("n1", "n1");
	keep_seals(NULL);
	sim.is_deaf = true;
	n2_says(false, false, 0);
	start_supervisor();
	run_for(60 * S);
	is_state(0, "waiting");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "that nobody has it mounted there"));
	epoch = number(0, "epoch");
	CU_ASSERT_TRUE(epoch > 0);
	/* That number is its own from now on. */
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(number(0, "epoch"), epoch);
	sim.is_deaf = false;
	run_for(10 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(number(0, "epoch"), epoch);
	/* It was the writer's, and another one came between. */
	sim.volume[0].writer = "n2";
	set_config();
	run_for(10 * S);
	sim.volume[0].writer = "n1";
	set_config();
	run_for(10 * S);
	CU_ASSERT_TRUE(number(0, "epoch") > epoch);
	end();

	begin_shared("n1", "n1");
	keep_seals(NULL);
	sim.is_silent = true;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "waiting");
	wish(0, FM_WANT_UP, true);
	run_for(20 * S);
	is_mounted_as(true, 0);
	end();

	/* Nobody may hear of a number that is not written down. */
	begin_shared("n1", "n1");
	keep_seals(NULL);
	sim.is_save_broken = true;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(number(0, "is_mounted"), false);
	sim.is_save_broken = false;
	run_for(70 * S);
	is_mounted_as(true, 0);
	end();
}

static void add_longest(struct fm_json *volumes)
{
	char longest[224] = "";

	/* Two bytes in JSON; what would be six is not taken. */
	memset(longest, '"', sizeof(longest) - 1);
	(void)fm_json_add(volumes,
			  fm_json_pack("{s:s#, s:s#, s:s#, s:s#, s:b, s:b, s:b, s:I}", "name",
				       longest, FM_PEER_NAME_MAX, "subsystem", longest, 223, "wwid",
				       longest, 159, "writer", longest, FM_PEER_NAME_MAX, "mounted",
				       true, "read_write", true, "sealed", true, "epoch",
				       (long long)INT64_MAX));
}

/* So many volumes, from node "n0", "n1" ... */
static void hear_longest(struct fm_peers *peers, unsigned node, unsigned count)
{
	struct fm_json *volumes = fm_json_array(), *event;
	char name[8];

	for (unsigned i = 0; i < count; i++)
		add_longest(volumes);
	snprintf(name, sizeof(name), "n%u", node);
	event = fm_json_pack("{s:s, s:o}", "node", name, "volumes", volumes);
	hear(peers, event);
}

/* As much as peers can say of as many volumes: what is written down of it is read again. */
static void test_all_is_heard_again(void)
{
	struct fm_peers peers = { 0 };
	char *text;

	for (unsigned i = 0; i < FM_PEERS_VOLUMES_MAX / FM_PEERS_EACH_MAX; i++)
		hear_longest(&peers, i, FM_PEERS_EACH_MAX);
	CU_ASSERT_EQUAL(peers.volume_count, FM_PEERS_VOLUMES_MAX);
	text = fm_peers_write(&peers);
	CU_ASSERT_TRUE(strlen(text) < FM_SUPERVISOR_STATE_BYTES_MAX);
	free(text);
	fm_peers_clear(&peers);
}

/* Other versions of fmove-nvmed read the file: its bytes stay as they are. */
static void test_heard_as_written(void)
{
	static const char written[] = "{\n \"n2\": {\n  \"node\": \"n2\",\n  \"volumes\": [\n"
				      "   {\n    \"epoch\": 7,\n    \"mounted\": true,\n"
				      "    \"name\": \"v\",\n    \"read_write\": false,\n"
				      "    \"sealed\": true,\n    \"subsystem\": \"q\\\"\",\n"
				      "    \"writer\": \"n2\",\n    \"wwid\": \"\"\n   }\n"
				      "  ]\n }\n}";
	struct fm_peers peers = { 0 }, again = { 0 };
	struct fm_err err = { 0 };
	char *text;

	hear(&peers,
	     fm_json_pack("{s:s, s:[{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:i}]}", "node", "n2",
			  "volumes", "name", "v", "subsystem", "q\"", "wwid", "", "writer", "n2",
			  "mounted", 1, "read_write", 0, "sealed", 1, "epoch", 7));
	text = fm_peers_write(&peers);
	CU_ASSERT_STRING_EQUAL(text, written);
	CU_ASSERT_EQUAL(fm_peers_read(&again, text, &err), 0);
	CU_ASSERT_EQUAL_FATAL(again.volume_count, 1);
	CU_ASSERT_TRUE(again.node_count == 0 && again.volumes[0].is_stale);
	again.volumes[0].is_stale = false;
	CU_ASSERT_EQUAL(memcmp(&again.volumes[0], &peers.volumes[0], sizeof(again.volumes[0])), 0);
	free(text);
	fm_peers_clear(&peers);
	fm_peers_clear(&again);
}

#define SAID(name) "{\"name\":\"" name "\",\"subsystem\":\"q\",\"wwid\":\"\",\"writer\":\"\"," \
	"\"mounted\":false,\"read_write\":false,\"sealed\":false,\"epoch\":0}"

/* A text with a NUL byte would be read as a shorter one. */
static void test_peer_says_nul(void)
{
	struct fm_peers peers = { 0 };

	hear_text(&peers, "{\"node\":\"n1\",\"volumes\":[" SAID("v") "]}");
	hear_text(&peers, "{\"node\":\"n2\",\"volumes\":[" SAID("v") "," SAID("w\\u0000") "]}");
	CU_ASSERT_TRUE(!fm_peers_are_silent(&peers, "n1") && fm_peers_are_silent(&peers, "n2"));
	CU_ASSERT_EQUAL(peers.volume_count, 1);
	fm_peers_clear(&peers);
}

/* One that says too much, or what makes no sense, is as one that does not answer; what the others
 * say stays. */
static void test_peer_says_too_much(void)
{
	struct fm_peers peers = { 0 };
	struct fm_json *event =
		fm_json_pack("{s:s, s:[{s:s}]}", "node", "bad", "volumes", "name", "v");

	hear_longest(&peers, 0, 3);
	hear_longest(&peers, 1, FM_PEERS_EACH_MAX + 1);
	hear(&peers, event);
	hear_longest(&peers, 2, FM_PEERS_EACH_MAX);
	CU_ASSERT_EQUAL(peers.volume_count, 3 + FM_PEERS_EACH_MAX);
	CU_ASSERT_FALSE(fm_peers_are_silent(&peers, "n0") || fm_peers_are_silent(&peers, "n2"));
	CU_ASSERT_TRUE(fm_peers_are_silent(&peers, "n1") && fm_peers_are_silent(&peers, "bad"));
	fm_peers_clear(&peers);

	/* Many nodes: each has its share, and who keeps to it loses nothing. */
	for (unsigned i = 0; i < 64; i++)
		hear_longest(&peers, i, i == 7 ? 65 : i == 63 ? 64 : 1);
	fm_peers_share(&peers);
	CU_ASSERT_EQUAL(peers.volume_count, 62 + 64);
	CU_ASSERT_TRUE(fm_peers_are_silent(&peers, "n7") && !fm_peers_are_silent(&peers, "n63"));
	fm_peers_clear(&peers);
}

/* What a peer says of volumes that are none of ours is not kept, unless it has them mounted; of
 * what may become ours it is. */
static void test_only_ours_is_kept(void)
{
	struct fm_peers peers = { 0 };
	struct fm_json *event;

	begin_shared("n1", "n1");
	n2_says(false, false, 0);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(true, 0);
	event = fm_json_pack(
		"{s:s, s:[{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:i}, {s:s, s:s, s:s, s:s, "
		"s:b, s:b, s:b, s:i}]}",
		"node", "n2", "volumes", "name", "other", "subsystem", "nqn.none-of-ours", "wwid",
		"uuid.zzz", "writer", "n2", "mounted", 0, "read_write", 0, "sealed", 0, "epoch", 0,
		"name", "renamed", "subsystem", nqns[0], "wwid", "uuid.yyy", "writer", "n2",
		"mounted", 1, "read_write", 1, "sealed", 0, "epoch", 0);
	while (sim.ask_ns == 0)
		run_for(100 * MS);
	sim.ask_ns = 0;
	hear(&peers, event);
	fm_supervisor_peers(sim.sup, &peers);
	CU_ASSERT_PTR_NULL(strstr(sim.file[file_number(FM_SUPERVISOR_HEARD)], "none-of-ours"));
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.file[file_number(FM_SUPERVISOR_HEARD)], "renamed"));
	end();
}

/* Each time the number that this one has, and more. */
static void raise_again_and_again(uint64_t duration)
{
	for (uint64_t at = 0; at < duration; at += 10 * S) {
		sim.said_epoch = number(0, "epoch") + 1000;
		run_for(10 * S);
	}
}

/* A hostile reader says a higher number each time: it is believed ever more rarely. */
static void test_number_raised_again_and_again(void)
{
	int64_t epoch;

	begin_shared("n1", "n1");
	n2_says(false, false, 0);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	for (uint64_t wait = 60 * S; wait < 16 * 60 * S; wait *= 2) {
		epoch = number(0, "epoch");
		sim.said_epoch = epoch + 1000;
		run_for(10 * S);
		CU_ASSERT_TRUE(number(0, "epoch") > epoch);
		/* It is to have heard of the new one before it is sealed again. */
		sim.said_epoch = number(0, "epoch") + 1000;
		run_for(10 * S);
		epoch = number(0, "epoch");
		raise_again_and_again(wait - 40 * S);
		CU_ASSERT_EQUAL(number(0, "epoch"), epoch);
		is_mounted_as(false, epoch);
		CU_ASSERT_EQUAL(number(0, "is_sealed"), 1);
		sim.said_epoch = epoch;
		run_for(40 * S);
	}
	/* After a quiet hour it is as at first. */
	run_for(3700 * S);
	for (unsigned i = 0; i < 2; i++) {
		epoch = number(0, "epoch");
		sim.said_epoch = epoch + 1000;
		run_for(10 * S);
		CU_ASSERT_TRUE(number(0, "epoch") > epoch);
		sim.said_epoch = number(0, "epoch");
		run_for(60 * S);
	}
	end();
}

/* An honest one says it until it is followed, which is an hour at most; and an hour of nothing to
 * say counts as that, however long the last one waited. */
static void test_number_raised_and_awaited(void)
{
	int64_t epoch;

	begin_shared("n1", "n1");
	n2_says(false, false, 0);
	start_supervisor();
	run_for(20 * S);
	for (unsigned i = 0; i < 10; i++) {
		epoch = number(0, "epoch");
		sim.said_epoch = epoch + 1000;
		for (unsigned k = 0; k < 61 && number(0, "epoch") == epoch; k++)
			run_for(60 * S);
		CU_ASSERT_TRUE(number(0, "epoch") > epoch);
	}
	sim.said_epoch = number(0, "epoch");
	run_for(3700 * S);
	for (unsigned i = 0; i < 2; i++) {
		epoch = number(0, "epoch");
		sim.said_epoch = epoch + 1000;
		run_for(10 * S);
		CU_ASSERT_TRUE(number(0, "epoch") > epoch);
		sim.said_epoch = number(0, "epoch");
		run_for(60 * S);
	}
	end();
}

/* A hostile writer jumps to the end of the numbers: its readers do not follow, so another writer
 * can be heard. */
static void test_number_jumps_to_the_end(void)
{
	begin_shared("n1", "n2");
	n2_says(false, true, 5);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 5);
	sim.peer[0].epoch = INT32_MAX;
	sim.said_epoch = (INT64_C(1) << 53) - 1;
	run_for(20 * S);
	is_mounted_as(false, 5);
	sim.said_epoch = INT64_MAX;
	run_for(20 * S);
	is_mounted_as(false, 5);
	sim.said_epoch = (INT64_C(1) << 52) - 1;
	run_for(20 * S);
	is_mounted_as(false, (INT64_C(1) << 52) - 1);
	/* Above that it goes in steps. */
	sim.said_epoch = (INT64_C(1) << 52) + 65536;
	run_for(20 * S);
	is_mounted_as(false, (INT64_C(1) << 52) + 65536);
	sim.said_epoch = (INT64_C(1) << 52) + 3 * 65536;
	run_for(20 * S);
	is_mounted_as(false, (INT64_C(1) << 52) + 65536);
	end();
}

/* A controller that lacks what is configured comes when the volume is mounted: it stays mounted,
 * and that is said. */
static void test_foreign_unfit_later(void)
{
	begin(1);
	sim.volume[0].has_tls = true;
	sim.is_up[0][1] = false;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(number(0, "is_mounted"), true);
	CU_ASSERT_STRING_EQUAL(shown(0, "unprotected"), "");
	make_controller(0, 1)->is_foreign = true;
	run_for(20 * S);
	CU_ASSERT_EQUAL(number(0, "is_mounted"), true);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "unprotected"), "without TLS"));
	end();
}

/* Whatever a peer says when it ends its session, of any length: it is shown as one that does not
 * answer, and is waited for. */
static void test_long_farewell(void)
{
	char why[2 * FM_PEERS_WHY_MAX + 1] = "";
	struct fm_json *one;

	for (size_t i = 0; i + 2 < sizeof(why); i += 2)
		memcpy(why + i, "\303\251", 2);
	begin_shared("n1", "n1");
	sim.is_silent = true;
	sim.silent_why = why;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "waiting");
	one = fm_supervisor_show(sim.sup, "one");
	CU_ASSERT_EQUAL(fm_json_count(fm_json_get(one, "peers")), 1);
	fm_json_free(one);
	end();
}

/* Whatever number a peer says, or a damaged file has: those that follow are such that every reader
 * takes them, for ever. */
static void test_last_number(void)
{
	const int64_t last = INT64_C(1) << 53,
		      bad[] = {INT64_MAX, last, last - 1, last / 2, last / 2 - 1};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin_shared("n1", "n1");
		n2_says(false, false, 0);
		sim.said_epoch = bad[i];
		start_supervisor();
		run_for(20 * S);
		sim.said_epoch = 0;
		run_for(20 * S);
		CU_ASSERT_EQUAL(seal(true, false), 0);
		run_for(20 * S);
		CU_ASSERT_TRUE(number(0, "is_sealed") != 0);
		CU_ASSERT_TRUE(number(0, "epoch") <= last / 2 + 2);
		end();
	}
	begin_shared("n1", "n1");
	keep_seals("{\"one\":{\"subsystem\":\"nqn.2026-01.org.fmove:a\",\"state\":\"open\","
		   "\"epoch\":9007199254740992}}");
	n2_says(false, false, 0);
	start_supervisor();
	run_for(60 * S);
	CU_ASSERT_TRUE(number(0, "is_sealed") && number(0, "epoch") < last / 2);
	end();
	/* A reader. */
	begin_shared("n1", "n2");
	keep_state(FM_SUPERVISOR_MOUNTED, "{\"one\":{\"subsystem\":\"nqn.2026-01.org.fmove:a\","
					  "\"wwid\":\"\",\"size_bytes\":0,"
					  "\"set_read_only\":\"\",\"writer\":\"n2\",\"writer_"
					  "epoch\":9007199254740992,\"writer_sealed\":true}}");
	n2_says(true, true, 5);
	start_supervisor();
	run_for(60 * S);
	is_mounted_as(false, 5);
	end();
}

/*
 * What is said of it is the same as before then, and is said again: what peers answer to that lets
 * it be mounted. n2 knows no such volume, so that it answers is all that is waited for.
 */
static void test_unseal_before_sealed(void)
{
	begin_shared("n1", "n1");
	sim.is_silent = false;
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	for (unsigned i = 0; i < 1000 && !strstr(sim.published, "\"mounted\":false"); i++)
		run_for(MS);
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, "\"mounted\":false"));
	CU_ASSERT_EQUAL(number(0, "is_sealed"), 0);
	CU_ASSERT_EQUAL(seal(false, false), 0);
	run_for(20 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(number(0, "epoch"), 0);
	end();
}

/* An unseal has a number of its own: what a reader said before it has heard of it is not enough,
 * though the file system is protected. */
static void test_unseal_number(void)
{
	begin_read();
	n2_says(false, false, 1);
	sim.is_deaf = true;
	run_for(10 * S);
	CU_ASSERT_EQUAL(seal(false, false), 0);
	run_for(60 * S);
	is_state(0, "waiting");
	CU_ASSERT_EQUAL(number(0, "epoch"), 2);
	/* To forget it is about this unseal: it is not for the next one. */
	sim.is_silent = true;
	run_for(10 * S);
	CU_ASSERT_EQUAL(fm_supervisor_forget(sim.sup, "n2", &(struct fm_err){ 0 }), 0);
	run_for(10 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 3);
	CU_ASSERT_EQUAL(seal(false, true), 0);
	wish(0, FM_WANT_UP, false);	/* takes the force back */
	run_for(60 * S);
	is_state(0, "waiting");
	/* What was said at that number holds, also over a boot and in silence. */
	sim.is_silent = sim.is_deaf = false;
	run_for(10 * S);
	is_mounted_as(true, 0);
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	sim.is_silent = true;
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(true, 0);
	/* But not for a seal: nothing protects what is mounted read-only, and n2 may be the writer
	 * by now. */
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(60 * S);
	is_state(0, "waiting");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "the word of n2"));
	CU_ASSERT_PTR_NULL(strstr(sim.published, "\"sealed\":true"));
	sim.is_silent = false;
	run_for(20 * S);
	is_mounted_as(false, 5);
	end();
}

/* Who takes himself for the writer counts with his own numbers, and is followed when he reads. */
static void test_number_of_another_writer(void)
{
	int again;

	begin_shared("n1", "n1");
	n2_says(false, false, 0);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	sim.peer[0] = (struct peer_word){ "n2", false, false, false, 9 };
	run_for(20 * S);
	CU_ASSERT_EQUAL(number(0, "epoch"), 1);
	n2_says(false, false, 1000000);
	run_for(60 * S);
	CU_ASSERT_TRUE(number(0, "epoch") > 1000000);
	is_mounted_as(false, number(0, "epoch"));
	/* He took himself for it once more, where nobody heard of it. */
	again = (int)number(0, "epoch") + 1000;
	n2_says(false, false, again);
	run_for(60 * S);
	CU_ASSERT_TRUE(number(0, "epoch") > again);
	is_mounted_as(false, number(0, "epoch"));
	end();
}

/* What the target can do for it: the writer alone may write, and nobody to what is sealed. */
static void test_target(void)
{
	unsigned mounts;

	begin_shared("n1", "n1");
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	CU_ASSERT_TRUE(number(0, "is_reserved") && !number(0, "is_write_protected"));
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_TRUE(sim.is_protected[0] && !sim.reserved_for[0][0]);
	CU_ASSERT_TRUE(number(0, "is_write_protected") && !number(0, "is_reserved"));
	/* By us also when it is connected anew. */
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	CU_ASSERT_TRUE(sim.is_protected[0]);
	kill_supervisor(false);
	start_supervisor();
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_EQUAL(number(0, "is_write_protected"), true);
	CU_ASSERT_EQUAL(seal(false, true), 0);
	run_for(20 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_TRUE(!sim.is_protected[0] && sim.reserved_for[0][0]);
	/* Unmounted by somebody else, it is given back as soon as it is wanted no more, connected
	 * or not; also after a restart. */
	kill_supervisor(false);
	start_supervisor();
	run_for(5 * S);
	CU_ASSERT_EQUAL(number(0, "is_reserved"), true);
	sim.mounted[0].is_there = false;
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	is_state(0, "connected");
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "");
	/* The writer is another node by the time that it is prepared: not mounted, and given
	 * back. */
	wish(0, FM_WANT_UP, false);
	run_until("prepare");
	mounts = sim.mounts;
	sim.volume[0].writer = "n2";
	set_config();
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, mounts);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "");
	end();
}

static void lose_what_target_keeps(void)
{
	sim.is_protected[0] = false;
	sim.reserved_for[0][0] = '\0';
}

static struct fm_supervisor_volume seen;
static unsigned seen_live, seen_volumes;

static void see_volume(void *ctx, const struct fm_supervisor_volume *v)
{
	(void)ctx;
	seen = *v;
	seen_volumes++;
}

static void see_controller(void *ctx, const struct fm_inv_controller *c)
{
	(void)ctx;
	seen_live += strcmp(c->state, "live") == 0;
}

/* What metrics are made of. */
static void visit(void)
{
	static const struct fm_supervisor_visitor visitor = {see_volume, see_controller};

	seen = (struct fm_supervisor_volume){.name = ""};
	seen_live = seen_volumes = 0;
	fm_supervisor_visit(sim.sup, &visitor, NULL);
}

/* Of one volume, on its way up and down. */
static void test_numbers(void)
{
	begin_shared("n1", "n1");
	start_supervisor();
	visit();
	CU_ASSERT_TRUE(seen_volumes == 1 && seen.mounts == 0 && !seen.is_mounted);
	run_for(20 * S);
	visit();
	CU_ASSERT_STRING_EQUAL(seen.name, names[0]);
	CU_ASSERT_STRING_EQUAL(seen.state, "mounted");
	CU_ASSERT_TRUE(seen.is_as_wanted && seen.is_mounted && seen.is_read_write);
	CU_ASSERT_TRUE(seen.mounts == 1 && seen.reconnects == 0 && seen.failures == 0);
	CU_ASSERT_TRUE(seen.connects == seen.paths_wanted && seen.paths_live == seen.paths_wanted);
	CU_ASSERT_EQUAL(seen_live, seen.paths_live);
	CU_ASSERT_TRUE(seen.size_bytes > 0 && seen.changed_ms > 0 && !seen.has_alarm);
	set_target(0, false);
	run_for(15 * S);
	visit();
	CU_ASSERT_STRING_EQUAL(seen.state, "degraded");
	CU_ASSERT_TRUE(seen.paths_live == 0 && seen_live == 0 && seen.is_mounted);
	set_target(0, true);
	run_for(12 * S);
	fm_supervisor_connected(sim.sup, "nvme0");
	fm_supervisor_connected(sim.sup, "nvme7");
	fm_supervisor_connected(sim.sup, NULL);
	visit();
	CU_ASSERT_TRUE(seen.reconnects == 1 && seen_live == seen.paths_wanted);
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	visit();
	CU_ASSERT_TRUE(seen.is_as_wanted && !seen.is_mounted && seen.mounts == 1);
	end();
}

/* The target comes back and has forgotten what it kept in memory. */
static void test_target_restarts(void)
{
	begin_shared("n1", "n1");
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	set_target(0, false);
	run_for(15 * S);
	is_state(0, "degraded");
	lose_what_target_keeps();
	set_target(0, true);
	run_for(12 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	CU_ASSERT_EQUAL(number(0, "is_reserved"), true);
	/* Faster than anybody looks: the kernel says that it has connected. */
	lose_what_target_keeps();
	fm_supervisor_connected(sim.sup, "nvme7");
	run_for(S);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "");
	fm_supervisor_connected(sim.sup, "nvme0");
	run_for(S);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	/* While the supervisor was not there. */
	kill_supervisor(false);
	lose_what_target_keeps();
	start_supervisor();
	run_for(2 * S);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	/* What is sealed. */
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_mounted_as(false, 1);
	lose_what_target_keeps();
	fm_supervisor_connected(sim.sup, NULL);
	run_for(20 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_TRUE(sim.is_protected[0] && number(0, "is_write_protected"));
	CU_ASSERT_EQUAL(seal(false, true), 0);
	run_for(20 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_FALSE(sim.is_protected[0]);
	end();
}

static void test_target_restarts_with_another(void)
{
	begin(1);
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	set_target(0, false);
	run_for(15 * S);
	strcpy(sim.reserved_for[0], "another host");
	set_target(0, true);
	run_for(30 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	CU_ASSERT_FALSE(sim.mounted[0].is_there);
	is_state(0, "refused");
	CU_ASSERT_STRING_EQUAL(shown(0, "text"), "reserved for another host");
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "another host");
	/* When that one has left, it is another mount, of what that one has written. */
	lose_what_target_keeps();
	run_for(70 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 2);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	CU_ASSERT_STRING_EQUAL(shown(0, "error"), "");
	CU_ASSERT_EQUAL(number(0, "is_reserved"), true);
	/* It offers that no more. */
	set_target(0, false);
	run_for(15 * S);
	lose_what_target_keeps();
	sim.is_target_able = false;
	set_target(0, true);
	run_for(30 * S);
	is_state(0, "mounted");
	CU_ASSERT_STRING_EQUAL(shown(0, "error"), "");
	CU_ASSERT_EQUAL(number(0, "is_reserved"), false);
	end();
}

/* It is back before the mount that rests on it is there: no look sees that as something that is
 * mounted. */
static void test_target_restarts_while_mounting(void)
{
	begin(1);
	sim.is_target_able = sim.is_target_forgetful = true;
	start_supervisor();
	run_until("mount");
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	lose_what_target_keeps();
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].helper)
			sim.call[i].due_ns = sim.now_ns + 5 * S;
	fm_supervisor_connected(sim.sup, NULL);
	run_for(2 * S);
	CU_ASSERT_TRUE(is_under_way("mount"));
	run_for(30 * S);
	is_state(0, "mounted");
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	CU_ASSERT_EQUAL(number(0, "is_reserved"), true);
	end();
}

/* Another host may have written beside what is mounted here: to take it again would have both
 * write, one after the other. */
static void test_reservation_is_not_taken_back(void)
{
	begin(1);
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	sim.mood.is_busy = true;
	strcpy(sim.reserved_for[0], "another host");
	fm_supervisor_connected(sim.sup, NULL);
	run_for(30 * S);
	/* In use, it is there yet: what that one has written it does not overwrite. */
	CU_ASSERT_TRUE(sim.mounted[0].is_there && sim.mounted[0].is_shut_down);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "another host"));
	CU_ASSERT_EQUAL(number(0, "is_reserved"), false);
	/* That one has left: not by a look, not by a connection, nor over a restart. */
	lose_what_target_keeps();
	run_for(70 * S);
	fm_supervisor_connected(sim.sup, NULL);
	run_for(30 * S);
	kill_supervisor(false);
	start_supervisor();
	run_for(30 * S);
	CU_ASSERT_TRUE(sim.mounted[0].is_there);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	sim.mood.is_busy = false;
	run_for(30 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 2);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	end();
}

/* With the mount beside which another host had it that is over: what a person mounts after it is
 * neither ended nor shut down. */
static void test_reservation_taken_is_over(void)
{
	begin(1);
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	strcpy(sim.reserved_for[0], "another host");
	fm_supervisor_connected(sim.sup, NULL);
	run_for(30 * S);
	CU_ASSERT_FALSE(sim.mounted[0].is_there);
	lose_what_target_keeps();
	sim.mounted[0] = (struct mounted){ .is_there = true, .dev = sim.dev[0], .letter = RIGHT };
	fm_supervisor_wake(sim.sup);
	run_for(30 * S);
	is_state(0, "mounted");
	CU_ASSERT_FALSE(sim.mounted[0].is_shut_down);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
}

/* What the target has said nobody may have heard: it ends as one that was refused does. */
static void test_reservation_in_doubt(void)
{
	for (unsigned is_killed = 0; is_killed < 2; is_killed++) {
		begin(1);
		sim.is_target_able = true;
		start_supervisor();
		run_for(20 * S);
		strcpy(sim.reserved_for[0], "another host");
		sim.mood.hangs[0] = !is_killed;
		sim.mood.is_busy = true;
		fm_supervisor_connected(sim.sup, NULL);
		run_until("keep");
		if (is_killed)
			kill_supervisor(true);
		else
			run_for(25 * S);
		sim.mood.hangs[0] = false;
		lose_what_target_keeps();
		if (is_killed)
			start_supervisor();
		run_for(200 * S);	/* an unmount may hang as well */
		CU_ASSERT_EQUAL(sim.mounts, 1);
		is_state(0, "unmounting");
		CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "is not known"));
		CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
		sim.mood.is_busy = false;
		run_for(90 * S);
		is_state(0, "mounted");
		CU_ASSERT_EQUAL(sim.mounts, 2);
		CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
		end();
	}
}

/* Mounted, and its target has forgotten it; `says` is what comes of asking again (0: it is taken
 * again), once. Then this fmove-nvmed ends, and whatever is open is closed: it is mounted anew. */
static void keep_once(int says, bool is_missed)
{
	begin(1);
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	lose_what_target_keeps();
	sim.is_reservation_missed = is_missed;
	sim.mood.keep_says = says;
	sim.mood.is_busy = true;
	fm_supervisor_connected(sim.sup, NULL);
	run_until("keep");
	run_for(500 * MS);
	sim.is_reservation_missed = false;
	sim.mood.keep_says = 0;
	kill_supervisor(false);
	start_supervisor();
	run_for(30 * S);
	is_state(0, "unmounting");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	CU_ASSERT_FALSE(sim.mounted[0].is_shut_down);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	sim.mood.is_busy = false;
	run_for(30 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();
}

/* Another host came and left before this node was connected again: the target tells that, and may
 * do so once. Where there was no memory for what it said, it may have said that somebody has it. */
static void test_reservation_missed(void)
{
	keep_once(0, true);
	keep_once(-EAGAIN, true);
	keep_once(-ENOMEM, false);
}

static void lose_file(const char *name)
{
	free(sim.file[file_number(name)]);
	sim.file[file_number(name)] = NULL;
}

/* Of what is mounted nothing is written down: the target is asked for it as if it had been. */
static void test_reservation_unknown(void)
{
	for (unsigned is_other = 0; is_other < 2; is_other++) {
		begin(1);
		sim.is_target_able = true;
		start_supervisor();
		run_for(20 * S);
		kill_supervisor(false);
		lose_file("mounted.json");
		start_supervisor();
		run_for(20 * S);
		is_state(0, "mounted");
		CU_ASSERT_EQUAL(number(0, "is_reserved"), 1);
		CU_ASSERT_EQUAL(sim.mounts, 1);
		kill_supervisor(false);
		lose_file("mounted.json");
		lose_what_target_keeps();
		if (is_other)
			strcpy(sim.reserved_for[0], "another host");
		start_supervisor();
		run_for(20 * S);
		CU_ASSERT_EQUAL(strcmp(sim.reserved_for[0], HOST_ID) == 0, !is_other);
		CU_ASSERT_EQUAL(sim.mounted[0].is_there, !is_other);
		end();
	}
	/* It is given back, though this node is not the writer any more. */
	begin(1);
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	kill_supervisor(false);
	lose_file("mounted.json");
	sim.volume[0].writer = sim.peer[0].writer = "n2";
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_FALSE(sim.mounted[0].is_there);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "");
	end();
	/* One that has none is none the worse. */
	begin(1);
	start_supervisor();
	run_for(20 * S);
	kill_supervisor(false);
	lose_file("mounted.json");
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(number(0, "is_reserved"), 0);
	end();
}

/* Nobody is told that the target protects what it did not say that it does; what it may do all the
 * same is asked to end. */
static void test_target_refuses(void)
{
	begin_shared("n1", "n1");
	sim.is_target_able = sim.is_target_refusing = true;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_TRUE(number(0, "is_read_only") && !number(0, "is_write_protected"));
	/* It was killed when it knew that, and what mounts it came to its end. */
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	wish(0, FM_WANT_UP, false);
	run_until("mount");
	kill_supervisor(true);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_EQUAL(number(0, "is_write_protected"), false);
	sim.is_protected[0] = true;
	sim.is_target_refusing = false;
	CU_ASSERT_EQUAL(seal(false, true), 0);
	run_for(20 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(sim.is_protected[0], false);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	CU_ASSERT_EQUAL(number(0, "is_write_protected"), true);
	end();
}

/* What somebody else has protected or reserved stays so, and says why. */
static void test_target_of_others(void)
{
	begin(1);
	sim.is_target_able = sim.is_protected[0] = true;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(
		strstr(shown(0, "text"), "the target protects it, and not because of us"));
	sim.volume[0].mode = FM_VOLUME_READ_ONLY;
	set_config();
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_TRUE(sim.is_protected[0] && !number(0, "is_write_protected"));
	sim.volume[0].mode = FM_VOLUME_EXCLUSIVE;
	sim.is_protected[0] = false;
	strcpy(sim.reserved_for[0], "another host");
	set_config();
	run_for(30 * S);
	is_state(0, "refused");
	CU_ASSERT_STRING_EQUAL(shown(0, "text"), "reserved for another host");
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "another host");
	sim.reserved_for[0][0] = '\0';
	run_for(30 * S);
	is_state(0, "mounted");
	end();
}

/* At every moment of a seal, and of what follows: what was wanted last is what it comes to. */
static void test_target_killed(void)
{
	for (unsigned ms = 0; ms < 2000; ms += 50) {
		begin_shared("n1", "n1");
		sim.is_target_able = true;
		start_supervisor();
		run_for(20 * S);
		is_mounted_as(true, 0);
		CU_ASSERT_EQUAL(seal(true, false), 0);
		run_for(ms * MS);
		kill_supervisor(ms % 100 == 0);	/* what was under way is done, or not */
		start_supervisor();
		CU_ASSERT_EQUAL(seal(false, true), 0);
		run_for(ms * MS);
		kill_supervisor(ms % 100 != 0);
		start_supervisor();
		run_for(30 * S);
		is_mounted_as(true, 0);
		CU_ASSERT_TRUE(!sim.is_protected[0] && sim.reserved_for[0][0]);
		end();
	}
}

/* What peers hear of a volume: "rw", "ro" or "" if it is not mounted nor about to be, "none" if
 * they hear nothing of it. */
static const char *told(unsigned v)
{
	struct fm_json *said = fm_json_load(sim.published);
	const struct fm_json *at;
	const char *is = "none";
	size_t i;

	for (i = 0; (at = fm_json_at(fm_json_get(said, "volumes"), i)); i++)
		if (strcmp(fm_json_as_text(fm_json_get(at, "name")), names[v]) == 0)
			is = !fm_json_is_true(fm_json_get(at, "mounted"))     ? ""
			     : fm_json_is_true(fm_json_get(at, "read_write")) ? "rw"
									      : "ro";
	fm_json_free(said);
	return is;
}

static void test_reader(void)
{
	unsigned mounts;

	begin_shared("n1", "n2");
	start_supervisor();
	run_for(30 * S);
	is_state(0, "waiting");
	CU_ASSERT_PTR_NOT_NULL(
		strstr(shown(0, "text"), "waits for the word of n2 whether \"one\" is sealed"));
	n2_says(true, false, 0);
	run_for(20 * S);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "is not sealed"));
	n2_says(true, true, 1);
	run_for(20 * S);
	is_mounted_as(false, 1);
	mounts = sim.mounts;
	here_is(true, 1, "");
	n2_says(true, true, 2);
	run_for(20 * S);
	is_mounted_as(false, 2);
	CU_ASSERT_EQUAL(sim.mounts, mounts + 1);
	here_is(true, 2, "");
	/* Silence changes nothing, also after a restart. */
	sim.is_silent = true;
	run_for(60 * S);
	is_mounted_as(false, 2);
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 2);
	/* Once it has said that it has nothing mounted the writer may write: it must be heard
	 * again. Also after a boot. */
	for (unsigned i = 0; i < 2; i++) {
		if (i == 0) {
			wish(0, FM_WANT_DOWN, false);
			run_for(20 * S);
			wish(0, FM_WANT_UP, false);
		} else {
			kill_supervisor(false);
			sim.mounted[0].is_there = false;
			start_supervisor();
		}
		run_for(60 * S);
		is_state(0, "waiting");
		CU_ASSERT_STRING_EQUAL(told(0), "");
		n2_says(true, true, 2);
		run_for(10 * S);
		is_mounted_as(false, 2);
		sim.is_silent = true;
	}
	/* What is older than what it has heard it does not take: that is an answer under way, or of
	 * a writer that has lost its state. */
	n2_says(true, true, 1);
	run_for(20 * S);
	is_mounted_as(false, 2);
	CU_ASSERT_EQUAL(published_epoch(0), 2);
	/* Nor one after which there would be none. */
	n2_says(true, true, 2);
	sim.said_epoch = INT64_C(1) << 60;
	run_for(20 * S);
	is_mounted_as(false, 2);
	sim.said_epoch = 0;
	/* It was to be written to, and what became of it nobody says. */
	n2_says(true, false, 3);
	run_for(20 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(published_epoch(0), 3);
	sim.is_silent = true;
	run_for(20 * S);
	kill_supervisor(false);
	start_supervisor();
	run_for(60 * S);
	is_state(0, "waiting");
	CU_ASSERT_EQUAL(published_epoch(0), 3);
	end();
}

/* An answer that was asked for before this node said that it has nothing mounted may be older than
 * what the writer did upon that. */
static void test_void_seal(void)
{
	begin_shared("n1", "n2");
	n2_says(true, true, 1);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 1);
	for (unsigned i = 0; i < 100 && !sim.ask_ns; i++)
		run_for(50 * MS);
	sim.ask_ns += 3 * S;
	wish(0, FM_WANT_DOWN, false);
	run_for(1 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	wish(0, FM_WANT_UP, false);
	sim.now_ns = sim.ask_ns;
	(void)fm_loop_step(sim.loop, 0);
	peers_answer();
	sim.is_silent = true;
	run_for(60 * S);
	is_state(0, "waiting");
	sim.is_silent = false;
	run_for(10 * S);
	is_mounted_as(false, 1);
	end();
}

/* The helper that mounts hangs past its deadline; until the kernel lets go of it, it may mount. */
static void begin_stuck_mount(void)
{
	begin(1);
	sim.mood.hangs_mount = true;
	start_supervisor();
	run_until("mount");
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(200 * S);
	CU_ASSERT_FALSE(is_under_way("mount"));
	is_state(0, "waiting");
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
}

static void test_stuck_mount(void)
{
	begin_stuck_mount();
	sim.mood.is_mounting_late = true;	/* which looks whether it is still announced */
	run_for(300 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	end();

	/* Taken down, and given to another node to write: what hangs would write all the same. */
	begin_stuck_mount();
	wish(0, FM_WANT_DOWN, false);
	sim.volume[0].writer = "n2";
	set_config();
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(300 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();

	begin_stuck_mount();
	sim.volume_count = 0;
	set_config();
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(300 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "none");
	end();
}

/* ---- what an earlier fmove-nvmed has begun ---- */

#define BEGUN                                                                                      \
	"{\"boot\": \"%s\", \"unknown\": false, \"begun\": [{\"pid\": 99, \"start\": 5, "          \
	"\"name\": \"%s\", \"subsystem\": \"%s\", "                                                \
	"\"wwid\": \"%s\", \"read_write\": %s, \"epoch\": 3}]}"

static void begin_with_orphan(const char *boot, const char *name, const char *subsystem,
			      const char *read_write)
{
	char text[1024];

	begin(1);
	sim.orphan = (struct fm_process){ .pid = 99, .start = 5 };
	snprintf(text, sizeof(text), BEGUN, boot, name, subsystem, "", read_write);
	keep_state(FM_SUPERVISOR_BEGUN, text);
	start_supervisor();
}

static void test_orphan(void)
{
	/* Said, and nothing mounted beside it, until it is over. */
	begin_with_orphan("this-boot", names[0], nqns[0], "true");
	run_for(100 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_EQUAL(sim.prepares, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "error"), "hangs in the kernel"));
	sim.orphan.pid = 0;
	run_for(60 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_PTR_NULL(strstr(sim.file[file_number(FM_SUPERVISOR_BEGUN)], "pid"));
	end();

	/* It ends because its device goes, and there are fewer. */
	begin_with_orphan("this-boot", names[0], nqns[0], "true");
	sim.volume_count = 2;
	set_config();
	run_for(20 * S);
	for (unsigned i = 0; i < CONTROLLERS_MAX; i++)
		if (sim.controller[i].is_there && sim.controller[i].volume == 0)
			remove_controller(&sim.controller[i]);
	sim.orphan.pid = 0;
	fm_supervisor_wake(sim.sup);
	run_for(60 * S);
	is_mounted_as(true, 0);
	end();

	/* Over restarts, too. */
	begin_with_orphan("this-boot", names[0], nqns[0], "false");
	run_for(5 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "ro");
	/* Its device is there by now and nobody has seen that it is free, nor how it was mounted if
	 * it was. */
	kill_supervisor(false);
	start_supervisor();
	run_for(5 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	end();

	/* Its number is another process's by now. */
	begin_with_orphan("this-boot", names[0], nqns[0], "true");
	sim.orphan.start = 6;
	run_for(60 * S);
	is_mounted_as(true, 0);
	end();

	/* What was begun before the boot is nothing. */
	begin_with_orphan("another-boot", names[0], nqns[0], "true");
	run_for(60 * S);
	is_mounted_as(true, 0);
	end();

	/* It is of no volume that is configured now. */
	begin_with_orphan("this-boot", "former", "nqn.former", "true");
	run_for(60 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, "\"name\":\"former\""));
	sim.orphan.pid = 0;
	run_for(60 * S);
	CU_ASSERT_PTR_NULL(strstr(sim.published, "\"name\":\"former\""));
	end();
}

static void begin_orphan(void)
{
	char text[1024];

	sim.orphan = (struct fm_process){ .pid = 99, .start = 5 };
	snprintf(text, sizeof(text), BEGUN, "this-boot", names[0], nqns[0], "", "true");
	keep_state(FM_SUPERVISOR_BEGUN, text);
}

/* What it was told nobody has heard, and what is asked after that finds nothing wrong. */
static void test_seal_beside_orphan(void)
{
	begin_seal();
	kill_supervisor(false);
	begin_orphan();
	start_supervisor();
	run_for(20 * S);
	sim.mood.is_busy = true;
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	sim.orphan.pid = 0;
	run_for(60 * S);
	CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
	sim.mood.is_busy = false;
	is_unsealed("restarted while it was written out");
}

/* Nor does its unmount write down a number that it has not taken yet. */
static void test_unmount_without_number(void)
{
	begin_seal();
	kill_supervisor(false);
	keep_seals("nonsense");
	begin_orphan();
	start_supervisor();
	sim.mood.is_busy = true;
	run_for(20 * S);
	CU_ASSERT_TRUE(sim.syncs > 0);
	CU_ASSERT_STRING_EQUAL(sim.file[file_number(FM_SUPERVISOR_SEALED)], "nonsense");
	end();
}

/* Nobody knows what stood there: it forbids, as long as there is somebody who may have been
 * meant. */
static void test_begun_makes_no_sense(void)
{
	static const char good[] = "{\"boot\": \"this-boot\", \"unknown\": false, \"begun\": [";
	static const char *const bad[] = {
		NULL,
		"",
		"{",
		"[]",
		"null",
		"{\"boot\": \"this-boot\"}",
		"{\"boot\": 1, \"unknown\": false, \"begun\": []}",
		"{\"boot\": \"this-boot\", \"unknown\": false, \"begun\": {}}",
		"{\"boot\": \"this-boot\", \"unknown\": true, \"begun\": []}",
		"{\"boot\": \"this-boot\", \"unknown\": false, \"begun\": [], \"more\": 1}",
		good,
		"{\"boot\": \"this-boot\", \"unknown\": false, \"begun\": [{\"pid\": 0, \"start\": "
		"5, \"name\": \"n\", \"subsystem\": \"s\", \"wwid\": \"\", \"read_write\": true, "
		"\"epoch\": 3}]}",
		"{\"boot\": \"this-boot\", \"unknown\": false, \"begun\": [{\"pid\": 99, "
		"\"start\": -5, \"name\": \"n\", \"subsystem\": \"s\", \"wwid\": \"\", "
		"\"read_write\": true, \"epoch\": 3}]}",
		"{\"boot\": \"this-boot\", \"unknown\": false, \"begun\": [{\"pid\": 4294967395, "
		"\"start\": 5, \"name\": \"n\", \"subsystem\": \"s\", \"wwid\": \"\", "
		"\"read_write\": true, \"epoch\": 3}]}",
		"{\"boot\": \"this-boot\", \"unknown\": false, \"begun\": [{\"pid\": 98, "
		"\"start\": 5, \"name\": \"n\", \"subsystem\": \"s\", \"wwid\": \"\", "
		"\"read_write\": \"yes\", \"epoch\": 3}]}",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin(1);
		sim.orphan = (struct fm_process){ .pid = 99, .start = 5 };
		keep_state(FM_SUPERVISOR_BEGUN, bad[i]);
		start_supervisor();
		run_for(100 * S);
		CU_ASSERT_STRING_EQUAL(told(0), "rw");
		CU_ASSERT_EQUAL(sim.prepares, 0);
		sim.orphan.pid = 0;
		run_for(60 * S);
		is_mounted_as(true, 0);
		end();
	}
}

/* No mount begins that a restart would not know of. */
static void test_begun_is_written_first(void)
{
	const char *file;

	begin(1);
	start_supervisor();
	run_until("mount");
	file = sim.file[file_number(FM_SUPERVISOR_BEGUN)];
	CU_ASSERT_PTR_NOT_NULL_FATAL(file);
	CU_ASSERT_PTR_NOT_NULL(strstr(file, "\"pid\": 7"));
	CU_ASSERT_PTR_NOT_NULL(strstr(file, "\"read_write\": true"));
	run_for(10 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_PTR_NULL(strstr(sim.file[file_number(FM_SUPERVISOR_BEGUN)], "pid"));
	end();

	begin(1);
	start_supervisor();
	run_until("prepare");
	sim.is_save_broken = true;
	run_for(30 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "error"), "written down"));
	sim.is_save_broken = false;
	run_for(100 * S);
	is_mounted_as(true, 0);
	end();
}

/* The table of mounts loses it before its last byte is written. */
static void test_unmount_is_told(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	is_mounted_as(true, 0);
	sim.mood.hangs_unmount = true;
	wish(0, FM_WANT_DOWN, false);
	run_until("unmount");
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.file[file_number(FM_SUPERVISOR_BEGUN)], "\"pid\": 7"));
	memset(sim.mounted, 0, sizeof(sim.mounted));
	run_for(30 * S);
	CU_ASSERT_TRUE(is_under_way("unmount"));
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	end();
}

/* Who comes after a restart finds the mount, or the device in use: nothing is lost by an unmount
 * that is noted nowhere. */
static void test_unmount_that_cannot_be_noted(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	is_mounted_as(true, 0);
	wish(0, FM_WANT_CONNECTED, false);
	sim.is_save_broken = true;
	sim.held_dev[0] = sim.dev[0];
	sim.held_ns[0] = sim.now_ns + 60 * S;
	run_for(10 * S);
	CU_ASSERT_EQUAL(number(0, "is_mounted"), false);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	kill_supervisor(false);
	start_supervisor();
	run_for(10 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();
}

/* ---- out of the table of mounts, and not free yet ---- */

/* A person unmounts; the file system has the device for so long, to write its last bytes or for
 * open files. */
static void unmount_by_hand(unsigned v, uint64_t held_for_ns)
{
	sim.held_dev[v] = sim.dev[v];
	sim.held_ns[v] = sim.now_ns + held_for_ns;
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		sim.mounted[i].is_there = sim.mounted[i].is_there && sim.mounted[i].point != v;
	fm_supervisor_wake(sim.sup);
}

/* Nobody else may have it before the last byte is written, and it is not mounted again beside what
 * is left of it. */
static void test_unmounted_by_hand(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	is_mounted_as(true, 0);
	unmount_by_hand(0, 60 * S);
	run_for(59 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	CU_ASSERT_EQUAL(sim.prepares, 1);
	is_state(0, "waiting");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "not free"));
	CU_ASSERT_TRUE(sim.unused >= 5 && sim.unused <= 12);	/* after 1, 2, 4, 8, 10 s */
	run_for(15 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_STRING_EQUAL(shown(0, "text"), "");

	/* Where it is not wanted mounted it is told as free, within a moment. */
	wish(0, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	is_state(0, "connected");
	end();
}

/* The reader's word is what the writer waits for before it writes. */
static void test_reader_unmounted_by_hand(void)
{
	begin_shared("n1", "n2");
	n2_says(false, true, 7);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 7);
	wish(0, FM_WANT_CONNECTED, false);
	sim.held_dev[0] = sim.dev[0];
	sim.held_ns[0] = sim.now_ns + 40 * S;
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "ro");
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();
}

/* A lazy unmount by force leaves the file system to whoever has a file open. The controller is
 * somebody else's, and stays. */
static void test_forced_and_held(void)
{
	begin(1);
	make_controller(0, 0)->is_foreign = true;
	start_supervisor();
	run_for(10 * S);
	is_mounted_as(true, 0);
	sim.mood.is_busy = true;
	sim.held_dev[0] = sim.dev[0];
	sim.held_ns[0] = sim.now_ns + 60 * S;
	wish(0, FM_WANT_DOWN, true);
	run_for(50 * S);
	CU_ASSERT_EQUAL(sim.unmounts_lazy, 1);
	is_state(0, "down");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "not free"));
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	CU_ASSERT_STRING_EQUAL(shown(0, "text"), "");
	end();
}

/* What cannot be looked at may be held: an error, a call that hangs, for which nobody waits. */
static void test_held_unknown(void)
{
	begin(2);
	start_supervisor();
	run_for(10 * S);
	sim.mood.fail_percent = 100;
	wish(0, FM_WANT_CONNECTED, false);
	unmount_by_hand(0, 0);
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "cannot be looked at"));
	sim.mood = (struct mood){ .hangs[0] = true };
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	wish(1, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	CU_ASSERT_STRING_EQUAL(told(1), "");
	is_state(1, "connected");
	sim.mood = (struct mood){ 0 };
	run_for(120 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();
}

/* The kernel has made it dead, and does not bring it back: not with the same number, and not for
 * that file system. */
static void test_held_and_gone(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	wish(0, FM_WANT_CONNECTED, false);
	unmount_by_hand(0, 1000 * S);
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	/* Without a path it may come back, and write. */
	set_target(0, false);
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(30 * S);	/* ctrl_loss_s is over */
	CU_ASSERT_EQUAL(controllers(), 0);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();

	/* Its number is another namespace's by now. */
	begin(1);
	start_supervisor();
	run_for(10 * S);
	wish(0, FM_WANT_CONNECTED, false);
	unmount_by_hand(0, 1000 * S);
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	sim.letter[0] = 'b';
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();
}

/* The configuration has no volume when the next fmove-nvmed starts. */
static void restart_without_volumes(void)
{
	kill_supervisor(false);
	sim.volume_count = 0;
	start_supervisor();
}

/* Whatever the configuration says: peers are told until the device is free, and it is taken
 * down. */
static void test_removed_while_held(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	sim.mood.is_busy = true;
	restart_without_volumes();
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	/* Once more: it is still written down. */
	restart_without_volumes();
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	sim.mood.is_busy = false;
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "none");
	CU_ASSERT_EQUAL(controllers(), 0);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 0);
	CU_ASSERT_PTR_NULL(strstr(sim.file[file_number(FM_SUPERVISOR_HELD)], "\"one\""));
	end();

	/* Out of the table of mounts. */
	begin(1);
	start_supervisor();
	run_for(10 * S);
	unmount_by_hand(0, 60 * S);
	sim.mood.is_written = true;
	restart_without_volumes();
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(60 * S);
	sim.mood.is_written = false;
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "none");
	end();
}

/*
 * The target is gone for good, and so is the volume from the configuration, or it is another one
 * now: its unmount hangs. Force that a person says is for what hangs.
 */
static void test_removed_and_forced(void)
{
	for (unsigned is_back = 0; is_back < 2; is_back++) {
		struct fm_err err = { 0 };

		begin(1);
		sim.volume[0].ctrl_loss_s = FM_VOLUME_NEVER;
		start_supervisor();
		run_for(10 * S);
		set_target(0, false);
		sim.mood.hangs_unmount = true;
		sim.volume_count = is_back;
		sim.volume[0].uuid = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";
		set_config();
		run_for(300 * S);
		CU_ASSERT_TRUE(sim.mounted[0].is_there);
		if (!is_back) {
			CU_ASSERT_STRING_EQUAL(told(0), "rw");
			CU_ASSERT_EQUAL(
				fm_supervisor_wish(sim.sup, names[0], FM_WANT_UP, false, &err),
				-ENOENT);
		}
		wish(0, FM_WANT_DOWN, false);
		run_for(300 * S);
		CU_ASSERT_TRUE(sim.mounted[0].is_there);
		wish(0, FM_WANT_DOWN, true);
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, names[0], FM_WANT_DOWN));
		run_for(300 * S);
		CU_ASSERT_FALSE(sim.mounted[0].is_there);
		CU_ASSERT_EQUAL(sim.unmounts_lazy, 1);
		CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, is_back);
		end();
	}
}

/* It comes back while the former one is taken down; or it is configured as it was, and stays as it
 * is. */
static void test_removed_and_back(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	sim.mood.is_busy = true;
	restart_without_volumes();
	run_for(10 * S);
	sim.volume_count = 1;
	set_config();
	run_for(10 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	is_state(0, "waiting");
	sim.mood.is_busy = false;
	run_for(60 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
	kill_supervisor(false);
	start_supervisor();
	run_for(10 * S);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();

	/* So it does if its uuid is said by now; if that is another one's, it is taken down. */
	begin(1);
	sim.volume[0].uuid = "";
	start_supervisor();
	run_for(10 * S);
	kill_supervisor(false);
	sim.volume[0].uuid = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa";
	start_supervisor();
	run_for(10 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	kill_supervisor(false);
	sim.volume[0].uuid = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";
	start_supervisor();
	run_for(60 * S);
	CU_ASSERT_FALSE(sim.mounted[0].is_there);
	end();
}

/*
 * People are told to say the uuid of a volume, and to read the configuration again: it stays
 * mounted, also without a path. One that names another namespace is taken down.
 */
static void test_named_by_now(void)
{
	static const struct {
		bool has_nguid, is_lost;
		const char *uuid, *nguid;
	} names_of[] = {
		{ false, false, "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "" },
		{ false, true, "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "" },
		{ true, false, "", "aaaaaaaa-aaaa-aaaa-aaaaaaaaaaaaaaaa" },
		{ true, true, "", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
	};

	for (unsigned i = 0; i < sizeof(names_of) / sizeof(names_of[0]); i++) {
		begin(1);
		sim.has_nguid = names_of[i].has_nguid;
		sim.volume[0].uuid = "";
		start_supervisor();
		run_for(10 * S);
		if (names_of[i].is_lost) {
			set_target(0, false);
			run_for(60 * S);
			CU_ASSERT_EQUAL(sim.dev[0], 0);
		}
		sim.volume[0].uuid = names_of[i].uuid;
		sim.volume[0].nguid = names_of[i].nguid;
		set_config();
		CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
		if (!names_of[i].is_lost) {
			run_for(30 * S);
			is_mounted_as(true, 0);
			CU_ASSERT_EQUAL(sim.mounts, 1);
		}
		sim.volume[0].uuid = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";
		sim.volume[0].nguid = "";
		set_config();
		run_for(60 * S);
		CU_ASSERT_FALSE(sim.mounted[0].is_there);
		end();
	}
}

static bool is_in_file(const char *name, const char *what)
{
	return sim.file[file_number(name)] && strstr(sim.file[file_number(name)], what);
}

/* A volume that is only called something else stays as it is, with what is known of it. */
static void test_called_anew(void)
{
	static const char anew[] = "one-anew";
	unsigned mounts;

	begin(1);
	start_supervisor();
	run_for(10 * S);
	sim.volume[0].name = anew;
	set_config();
	run_for(20 * S);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, anew));
	CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_MOUNTED, "\"one-anew\""));
	CU_ASSERT_FALSE(is_in_file(FM_SUPERVISOR_MOUNTED, "\"one\""));
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();

	/* Nor is a wish lost. */
	begin(1);
	start_supervisor();
	run_for(10 * S);
	wish(0, FM_WANT_DOWN, false);
	run_for(10 * S);
	sim.volume[0].name = anew;
	set_config();
	run_for(20 * S);
	CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, anew, FM_WANT_DOWN));
	CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_WISHES, "\"one-anew\""));
	CU_ASSERT_FALSE(is_in_file(FM_SUPERVISOR_WISHES, "\"one\""));
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();

	/* So over a restart: what was sealed is. */
	begin_seal();
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	mounts = sim.mounts;
	kill_supervisor(false);
	sim.volume[0].name = anew;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, mounts);
	CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, anew));
	CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_SEALED, "\"one-anew\""));
	CU_ASSERT_FALSE(is_in_file(FM_SUPERVISOR_SEALED, "\"one\""));
	end();

	/* A mount that hangs is known by the name of before, and goes on being told. */
	begin(1);
	sim.mood.hangs_mount = true;
	start_supervisor();
	run_until("mount");
	run_for(200 * S);
	CU_ASSERT_FALSE(is_under_way("mount"));
	sim.volume[0].name = anew;
	set_config();
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 2);
	end();
}

#define UUID_OF_ONE "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"

/* A sealed volume is unmounted by a wish, and fmove-nvmed ends; there may be a boot. */
static void begin_sealed_down(const char *uuid)
{
	begin_shared("n1", "n1");
	sim.volume[0].uuid = uuid;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	CU_ASSERT_FALSE(sim.mounted[0].is_there);
	CU_ASSERT_FALSE(is_in_file(FM_SUPERVISOR_HELD, "\"one\""));
	kill_supervisor(false);
	lose_file(FM_SUPERVISOR_HELD);
}

static void is_sealed_down(const char *name)
{
	unsigned mounts = sim.mounts;

	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, name, FM_WANT_DOWN));
	CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, name));
	CU_ASSERT_EQUAL(sim.mounts, mounts);
}

/* The files that it writes for another name, in that order. */
static const char *const named_files[] = {FM_SUPERVISOR_WISHES, FM_SUPERVISOR_SEALED,
					  FM_SUPERVISOR_MOUNTED};

/* Also what is not mounted has its wish and its seal under another name, wherever a kill takes the
 * start that gives it. */
static void test_called_anew_down(void)
{
	static const char anew[] = "one-anew";
	char *before[3];

	for (unsigned written = 0; written <= 3; written++) {
		begin_sealed_down(UUID_OF_ONE);
		for (unsigned i = 0; i < 3; i++)
			before[i] = strdup(sim.file[file_number(named_files[i])]);
		sim.volume[0].name = anew;
		is_sealed_down(anew);
		kill_supervisor(false);
		for (unsigned i = 0; i < 3; i++) {
			CU_ASSERT_TRUE(is_in_file(named_files[i], "\"one-anew\""));
			CU_ASSERT_FALSE(is_in_file(named_files[i], "\"one\""));
			if (i >= written)
				keep_state(named_files[i], before[i]);
			free(before[i]);
		}
		is_sealed_down(anew);
		end();
	}

	/* Its uuid is said by now, too. */
	begin_sealed_down("");
	sim.volume[0].name = anew;
	sim.volume[0].uuid = UUID_OF_ONE;
	is_sealed_down(anew);
	end();
}

/* Full disks, too, lose no wish: what names were given is not written of one file alone. */
static void test_called_anew_full(void)
{
	static const char anew[] = "one-anew";

	for (unsigned is_reload = 0; is_reload < 2; is_reload++)
		for (unsigned is_freed = 0; is_freed < 2; is_freed++) {
			begin_sealed_down(UUID_OF_ONE);
			if (is_reload)
				start_supervisor();
			sim.is_disk_full = true;
			sim.broken_file = is_freed ? NULL : FM_SUPERVISOR_WISHES;
			sim.volume[0].name = anew;
			sim.volume_count = 2;
			if (is_reload)
				set_config();
			else
				start_supervisor();
			sim.is_disk_full = !is_freed;
			run_for(20 * S);
			/* The mount of the other one is noted in the file of both. */
			CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, "two"));
			CU_ASSERT_EQUAL(is_in_file(FM_SUPERVISOR_MOUNTED, "\"two\""), is_freed);
			CU_ASSERT_EQUAL(is_in_file(FM_SUPERVISOR_WISHES, anew), is_freed);
			kill_supervisor(false);
			sim.is_disk_full = false;
			is_sealed_down(anew);
			end();
		}

	/* Nor does a name that was taken back before all was written. */
	begin_sealed_down(UUID_OF_ONE);
	sim.is_disk_full = true;
	sim.broken_file = FM_SUPERVISOR_MOUNTED;
	sim.volume[0].name = anew;
	is_sealed_down(anew);
	kill_supervisor(false);
	CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_WISHES, anew));
	sim.is_disk_full = false;
	sim.volume[0].name = "one";
	is_sealed_down("one");
	end();
}

/* What an fmove-nvmed of before wrote: it does not say of which volume it is. */
static void age_state(const char *file)
{
	static const char *const words[] = {"nsid", "uuid", "nguid", "mount_point"};
	struct fm_json *all = fm_json_load(sim.file[file_number(file)]), *entry, *wish;
	const char *name;
	char *text;

	for (void *it = NULL; fm_json_next(all, &it, &name, &entry);) {
		for (unsigned i = 0; i < 4; i++)
			CU_ASSERT_EQUAL(fm_json_delete(entry, words[i]), 0);
		wish = fm_json_share(fm_json_get(entry, "want"));
		if (wish)
			(void)fm_json_set(all, name, wish);
	}
	text = fm_json_dump(all, FM_JSON_SORTED_FILE);
	keep_state(file, text);
	free(text);
	fm_json_free(all);
}

/* That goes with the name as well, once it was started with the name of then. */
static void test_called_anew_aged(void)
{
	static const char anew[] = "one-anew";
	unsigned mounts;
	char *mounted;

	begin_sealed_down(UUID_OF_ONE);
	for (unsigned i = 0; i < 3; i++)
		age_state(named_files[i]);
	is_sealed_down("one");
	kill_supervisor(false);
	sim.volume[0].name = anew;
	is_sealed_down(anew);
	end();

	/* Without that the namespace tells, where nothing is known by the name of now. */
	for (unsigned is_known = 0; is_known < 2; is_known++) {
		begin_sealed_down(UUID_OF_ONE);
		for (unsigned i = 0; i < 3; i++)
			age_state(named_files[i]);
		if (is_known)
			keep_state(FM_SUPERVISOR_WISHES, "{\"one\":\"down\",\"one-anew\":\"up\"}");
		sim.volume[0].name = anew;
		start_supervisor();
		CU_ASSERT_EQUAL(fm_supervisor_wants(sim.sup, anew, FM_WANT_DOWN), !is_known);
		CU_ASSERT_EQUAL(fm_supervisor_is_sealed(sim.sup, anew), !is_known);
		end();
	}

	/* What is mounted is known at once. */
	begin_seal();
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	mounts = sim.mounts;
	kill_supervisor(false);
	age_state(FM_SUPERVISOR_SEALED);
	age_state(FM_SUPERVISOR_MOUNTED);
	sim.volume[0].name = anew;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, anew));
	CU_ASSERT_EQUAL(sim.mounts, mounts);
	end();

	/* One that gave it another name was killed before it had written all of it. */
	begin_sealed_down(UUID_OF_ONE);
	mounted = strdup(sim.file[file_number(FM_SUPERVISOR_MOUNTED)]);
	sim.volume[0].name = anew;
	is_sealed_down(anew);
	kill_supervisor(false);
	age_state(FM_SUPERVISOR_WISHES);
	age_state(FM_SUPERVISOR_SEALED);
	keep_state(FM_SUPERVISOR_MOUNTED, mounted);
	free(mounted);
	is_sealed_down(anew);
	end();
}

/* Names that move along, or in a circle: each volume keeps its own, also after a kill. */
static void test_called_anew_along(void)
{
	static const char *const now[2][VOLUMES] = {{"one-anew", "one"}, {"two", "one"}};
	char *before[3];

	for (unsigned at = 0; at < 8; at++) {
		begin_sealed_down(UUID_OF_ONE);
		sim.volume_count = 2;
		start_supervisor();
		run_for(20 * S);
		kill_supervisor(false);
		for (unsigned i = 0; i < 3; i++)
			before[i] = strdup(sim.file[file_number(named_files[i])]);
		keep_state(FM_SUPERVISOR_NODES,
			   "{\"n9\":{\"since_ms\":1,\"forgotten\":{\"one\":\"n1\"}}}");
		sim.volume[0].name = now[at % 2][0];
		sim.volume[1].name = now[at % 2][1];
		is_sealed_down(now[at % 2][0]);
		/* of neither: it is not said of which volume that was */
		CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_NODES, "\"n9\""));
		CU_ASSERT_FALSE(is_in_file(FM_SUPERVISOR_NODES, "\"one"));
		kill_supervisor(false);
		for (unsigned i = 0; i < 3; i++) {
			if (i >= at / 2)
				keep_state(named_files[i], before[i]);
			free(before[i]);
		}
		is_sealed_down(now[at % 2][0]);
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one", FM_WANT_UP));
		CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, "one"));
		CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
		end();
	}
}

/* As an fmove-nvmed of before had written it, of two namespaces of one subsystem. */
static void keep_aged_of_two(void)
{
	char text[1024];

	(void)snprintf(text, sizeof(text),
		       "{\"one\":{\"subsystem\":\"%s\",\"wwid\":\"uuid." UUID_OF_ONE
		       "\",\"size_bytes\":1,\"set_read_only\":\"\"},\"two\":{\"subsystem\":\"%s\","
		       "\"wwid\":\"uuid.bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb\",\"size_bytes\":1,"
		       "\"set_read_only\":\"\"}}",
		       nqns[0], nqns[0]);
	keep_state(FM_SUPERVISOR_MOUNTED, text);
	keep_state(FM_SUPERVISOR_WISHES, "{\"one\":\"down\",\"two\":\"connected\"}");
}

/* The namespace tells it also where an fmove-nvmed of before did not say whose an entry is. */
static void test_called_anew_along_aged(void)
{
	static const char *const now[][VOLUMES] = {
		{"one", "two"}, {"one-anew", "one"}, {"two", "three"}, {"two", "one"}};

	for (unsigned at = 0; at < 4; at++) {
		begin(2);
		sim.volume[1].subsystem = nqns[0];
		sim.volume[1].uuid = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";
		keep_aged_of_two();
		for (unsigned v = 0; v < 2; v++)
			sim.volume[v].name = now[at][v];
		start_supervisor();
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, now[at][0], FM_WANT_DOWN));
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, now[at][1], FM_WANT_CONNECTED));
		end();
	}
}

/* What each of the two volumes is wanted to be, and is, by its name of now; over a restart, too. */
static void is_first_down(const char *name, bool is_second_there)
{
	for (unsigned starts = 0; starts < 2; starts++) {
		run_for(60 * S);
		CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1 + is_second_there);
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, name, FM_WANT_DOWN));
		CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, name));
		CU_ASSERT_FALSE(fm_supervisor_is_mounted(sim.sup, name));
		if (is_second_there) {
			CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, sim.volume[1].name,
							   FM_WANT_UP));
			CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, sim.volume[1].name));
			CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, sim.volume[1].name));
		}
		kill_supervisor(false);
		start_supervisor();
	}
}

/* A reload does the same, also while something is under way of one of them. */
static void test_called_anew_reloaded(void)
{
	static const char *const now[][VOLUMES] = {{"one-anew", "one"}, {"two", "three"},
						   {"two", "one"}};

	for (unsigned at = 0; at < 6; at++) {
		char forgotten[64];
		unsigned mounts;

		begin_sealed_down(UUID_OF_ONE);
		sim.volume_count = 2;
		keep_state(FM_SUPERVISOR_NODES,
			   "{\"n9\":{\"since_ms\":1,\"forgotten\":{\"one\":\"n1\"}}}");
		start_supervisor();
		if (at % 2)
			run_until("mount");
		else
			run_for(20 * S);
		mounts = sim.mounts;
		sim.volume[0].name = now[at / 2][0];
		sim.volume[1].name = now[at / 2][1];
		set_config();
		is_first_down(now[at / 2][0], true);
		if (at % 2 == 0) {
			(void)snprintf(forgotten, sizeof(forgotten), "\"%s\"", now[at / 2][0]);
			CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_NODES, forgotten));
			CU_ASSERT_EQUAL(sim.mounts, mounts);
		}
		end();
	}

	/* It gets the name of one that goes, and is unmounted yet. */
	begin_sealed_down(UUID_OF_ONE);
	sim.volume_count = 2;
	start_supervisor();
	run_for(20 * S);
	sim.volume[0].name = "two";
	sim.volume_count = 1;
	set_config();
	is_first_down("two", false);
	end();
}

static void keep_forgotten(const char *volume, const char *writer)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		       "{\"n9\":{\"since_ms\":1,\"forgotten\":{\"%s\":\"%s\"}}}", volume,
		       writer ? writer : "");
	keep_state(FM_SUPERVISOR_NODES, text);
}

/* What is no longer configured ends it for no volume that has got its name meanwhile. */
static void test_forgotten_of_its_name(void)
{
	for (unsigned is_taken = 0; is_taken < 2; is_taken++) {
		begin(1);
		keep_forgotten("one", sim.volume[0].writer);
		keep_state(FM_SUPERVISOR_HELD,
			   "{\"boot\":\"this-boot\",\"held\":[{\"name\":\"one\",\"subsystem\":"
			   "\"s\",\"nsid\":1,\"uuid\":\"\",\"nguid\":\"\",\"mount_point\":\"/m\","
			   "\"mode\":0,\"writer\":\"n5\",\"wwid\":\"\",\"read_write\":true}]}");
		if (!is_taken)
			sim.volume[0].name = "two";
		start_supervisor();
		CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 2);
		run_for(20 * S);
		CU_ASSERT_EQUAL(is_in_file(FM_SUPERVISOR_NODES, "\"one\""), is_taken);
		end();
	}
}

/* As a kill leaves it that takes a reload in the midst of giving that name to another volume. */
static void give_away(const char *file, const char *name)
{
	struct fm_json *all = fm_json_load(sim.file[file_number(file)]);
	char given[64], *text;

	(void)snprintf(given, sizeof(given), "/given-away/%s", name);
	CU_ASSERT_EQUAL(fm_json_set(all, given, fm_json_copy(fm_json_get(all, name))), 0);
	CU_ASSERT_EQUAL(fm_json_delete(all, name), 0);
	text = fm_json_dump(all, FM_JSON_SORTED_FILE);
	keep_state(file, text);
	free(text);
	fm_json_free(all);
}

/* One that was gone for a while comes back by another name as it was, and has no other wish. */
static void test_called_anew_later(void)
{
	for (unsigned is_up = 0; is_up < 2; is_up++) {
		struct fm_err err;

		begin_sealed_down(UUID_OF_ONE);
		sim.volume_count = 2;
		start_supervisor();
		run_for(20 * S);
		set_volumes(&sim.volume[1], 1);
		run_for(20 * S);
		sim.volume[0].name = "one-anew";
		set_config();
		run_for(20 * S);
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one-anew", FM_WANT_DOWN));
		CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, "one-anew"));
		if (is_up)
			CU_ASSERT_EQUAL(
				fm_supervisor_wish(sim.sup, "one-anew", FM_WANT_UP, false, &err),
				0);
		kill_supervisor(false);
		sim.volume[0].name = "one-at-last";
		start_supervisor();
		CU_ASSERT_EQUAL(fm_supervisor_wants(sim.sup, "one-at-last", FM_WANT_DOWN), !is_up);
		end();
	}

	/* Another one gets the name that it had by the same reload; that may be written or not. */
	for (unsigned at = 0; at < 4; at++) {
		begin_sealed_down(UUID_OF_ONE);
		sim.volume_count = 2;
		keep_forgotten("two", sim.volume[1].writer);
		start_supervisor();
		run_for(20 * S);
		set_volumes(&sim.volume[1], 1);
		run_for(20 * S);
		sim.volume[0].name = at % 2 ? "two" : "three";
		sim.volume[1].name = "one";
		sim.is_disk_full = at / 2;
		set_config();
		sim.is_disk_full = false;
		is_first_down(sim.volume[0].name, true);
		for (unsigned i = 0; i < 3; i++)
			CU_ASSERT_FALSE(is_in_file(named_files[i], "given-away"));
		/* Who is forgotten goes with the one that was there; a start cannot tell. */
		CU_ASSERT_EQUAL(is_in_file(FM_SUPERVISOR_NODES, "\"one\""), at < 2);
		kill_supervisor(false);
		for (unsigned i = 0; i < 3; i++)
			give_away(named_files[i], sim.volume[0].name);
		is_sealed_down(sim.volume[0].name);
		end();
	}
}

/* The second volume alone is configured by now, by that name. */
static void set_second(const char *name, bool is_restart)
{
	sim.volume[1].name = name;
	if (is_restart) {
		kill_supervisor(false);
		start_with(&sim.volume[1], 1);
	} else {
		set_volumes(&sim.volume[1], 1);
	}
	run_for(60 * S);
}

/* Another one has got its name before it comes back; that may be noted or not. */
static void test_called_anew_taken(void)
{
	for (unsigned at = 0; at < 8; at++) {
		begin_sealed_down(UUID_OF_ONE);
		sim.volume_count = 2;
		start_supervisor();
		run_for(20 * S);
		set_second("two", false);
		sim.is_disk_full = at / 4;
		set_second("one", at & 1);
		sim.is_disk_full = false;
		CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, "one"));
		CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
		sim.volume[0].name = at & 2 ? "two" : "three";
		set_config();
		is_first_down(sim.volume[0].name, true);
		for (unsigned i = 0; i < 3; i++)
			CU_ASSERT_FALSE(is_in_file(named_files[i], "given-away"));
		end();
	}

	/* It is taken down yet when the other one is to have its name. */
	begin_shared("n1", "n1");
	sim.volume[0].uuid = UUID_OF_ONE;
	sim.volume_count = 2;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	set_volumes(&sim.volume[1], 1);
	set_second("one", false);
	CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, "one"));
	sim.volume[0].name = "three";
	set_config();
	run_for(60 * S);
	CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, "three"));
	CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
	end();
}

/* A second volume that was never configured before, in the same subsystem or another one. */
static void make_second_new(bool is_same_subsystem)
{
	sim.volume[1].name = "one";
	sim.volume[1].mode = FM_VOLUME_SHARED_READ;
	if (!is_same_subsystem)
		return;
	sim.volume[1].subsystem = nqns[0];
	memcpy(sim.volume[1].address, sim.volume[0].address, sizeof(sim.volume[0].address));
	sim.volume[1].uuid = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb";
}

/* A new one has got its name, by a reload or over a restart, and something was wished of it. */
static void test_called_anew_new(void)
{
	for (unsigned at = 0; at < 16; at++) {
		bool is_up = at & 4, is_mounted = is_up && !(at & 1);
		struct fm_err err;

		begin_sealed_down(UUID_OF_ONE);
		start_supervisor();
		run_for(20 * S);
		make_second_new(at & 1);
		sim.is_disk_full = at & 8;
		set_second("one", at & 2);
		sim.is_disk_full = false;
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one", FM_WANT_DOWN));
		CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
		if (is_up)
			CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, "one", FM_WANT_UP, false, &err),
					0);
		run_for(60 * S);
		sim.volume[0].name = "three";
		sim.volume_count = 2;
		set_config();
		for (unsigned starts = 0; starts < 2; starts++) {
			run_for(60 * S);
			CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "three", FM_WANT_DOWN));
			CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, "three"));
			CU_ASSERT_FALSE(fm_supervisor_is_mounted(sim.sup, "three"));
			CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one",
							   is_up ? FM_WANT_UP : FM_WANT_DOWN));
			CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
			CU_ASSERT_EQUAL(fm_supervisor_is_mounted(sim.sup, "one"), is_mounted);
			kill_supervisor(false);
			start_supervisor();
		}
		for (unsigned i = 0; i < 3; i++)
			CU_ASSERT_FALSE(is_in_file(named_files[i], "given-away"));
		end();
	}
}

/*
 * The one that had the name is in use yet, and unmounted when another one of its subsystem, of
 * which nothing is written there, has got it: what it was mounted as is not that one's.
 */
static void test_called_anew_busy(void)
{
	for (unsigned is_restart = 0; is_restart < 2; is_restart++) {
		struct fm_err err;

		begin_shared("n1", "n1");
		sim.volume[0].uuid = UUID_OF_ONE;
		sim.volume[0].nsid = 1;
		make_second_new(true);
		sim.volume[1].name = "two";
		sim.volume[1].mode = FM_VOLUME_EXCLUSIVE;
		sim.volume[1].uuid = "";
		sim.volume[1].nsid = 2;
		sim.volume_count = 2;
		start_supervisor();
		wish(1, FM_WANT_DOWN, false);
		run_for(20 * S);
		CU_ASSERT_EQUAL(seal(true, false), 0);
		run_for(20 * S);
		sim.mood.is_busy = true;
		set_second("one", false);
		if (is_restart)
			set_second("one", true);
		CU_ASSERT_TRUE(sim.mounted[0].is_there);
		sim.mood.is_busy = false;
		run_for(120 * S);
		CU_ASSERT_FALSE(sim.mounted[0].is_there);
		CU_ASSERT_FALSE(is_in_file(FM_SUPERVISOR_MOUNTED, "\"one\""));
		CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_MOUNTED, "\"size_bytes\": 1073741824"));
		sim.has_another = true;
		set_second("one", true);
		CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, "one", FM_WANT_UP, false, &err), 0);
		run_for(60 * S);
		/* It may be mounted, which a helper process cannot do here. */
		CU_ASSERT_STRING_EQUAL(shown(0, "error"), "another device");
		end();
	}
}

/* Nor is who was forgotten for what had its name when fmove-nvmed ran last forgotten for it. */
static void test_forgotten_of_another(void)
{
	begin_sealed_down(UUID_OF_ONE);
	make_second_new(false);
	keep_forgotten("one", "n1");
	start_with(&sim.volume[1], 1);
	CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_NODES, "\"n9\""));
	CU_ASSERT_FALSE(is_in_file(FM_SUPERVISOR_NODES, "\"one\""));
	kill_supervisor(false);
	keep_forgotten("one", "n1");
	start_with(&sim.volume[1], 1);
	CU_ASSERT_TRUE(is_in_file(FM_SUPERVISOR_NODES, "\"one\""));
	end();
}

/* The namespace that had the name, for another mount point: all that is known of it goes on. */
static void test_another_mount_point(void)
{
	for (unsigned is_restart = 0; is_restart < 2; is_restart++) {
		begin_sealed_down(UUID_OF_ONE);
		sim.volume[0].mount_point = "/mnt/elsewhere";
		is_sealed_down("one");
		CU_ASSERT_EQUAL(seal(false, false), 0);
		run_for(20 * S);
		sim.volume[0].mount_point = points[0];
		if (is_restart) {
			kill_supervisor(false);
			start_supervisor();
		} else {
			set_config();
		}
		run_for(20 * S);
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one", FM_WANT_DOWN));
		CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "one"));
		end();
	}
}

/* Each of two that had the name of a third one has its own when they come back. */
static void test_called_anew_taken_again(void)
{
	for (unsigned is_restart = 0; is_restart < 2; is_restart++) {
		const char *second;
		struct fm_err err;

		begin_sealed_down(UUID_OF_ONE);
		second = sim.volume[1].mount_point;
		sim.volume_count = 2;
		start_supervisor();
		run_for(20 * S);
		set_second("two", false);
		set_second("one", is_restart);
		CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, "one", FM_WANT_DOWN, false, &err), 0);
		run_for(20 * S);
		sim.volume[1].mount_point = "/mnt/third";
		set_second("two", is_restart);
		set_second("one", is_restart);
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one", FM_WANT_UP));
		sim.volume[1].mount_point = second;
		sim.volume[1].name = "two";
		sim.volume[0].name = "three";
		set_config();
		run_for(60 * S);
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "three", FM_WANT_DOWN));
		CU_ASSERT_TRUE(fm_supervisor_is_sealed(sim.sup, "three"));
		CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "two", FM_WANT_DOWN));
		CU_ASSERT_FALSE(fm_supervisor_is_sealed(sim.sup, "two"));
		end();
	}
}

/* There are no more of them than there can be volumes. */
static void test_called_anew_bound(void)
{
	struct fm_json *all = fm_json_object();
	unsigned count = 0;
	char *text, key[64];

	begin(1);
	for (unsigned i = 0; i < 300; i++) {
		(void)snprintf(key, sizeof(key), "/given-away/gone-%u", i);
		CU_ASSERT_EQUAL(fm_json_set(all, key, fm_json_pack("{s:s}", "want", "down")), 0);
	}
	CU_ASSERT_EQUAL(fm_json_set(all, "one",
				    fm_json_pack("{s:s,s:s,s:i,s:s,s:s,s:s,s:s}", "want", "down",
						 "subsystem", "nqn.of-before", "nsid", 1, "uuid",
						 "", "nguid", "", "mount_point", "/mnt/before",
						 "wwid", "")),
			0);
	text = fm_json_dump(all, FM_JSON_SORTED_FILE);
	keep_state(FM_SUPERVISOR_WISHES, text);
	free(text);
	fm_json_free(all);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.file[file_number(FM_SUPERVISOR_WISHES)],
				      "/given-away/one"));
	for (const char *p = sim.file[file_number(FM_SUPERVISOR_WISHES)]; p && *p; p++)
		count += strncmp(p, "/given-away/", 12) == 0;
	CU_ASSERT_EQUAL(count, FM_VOLUMES_MAX);
	end();
}

static void keep_wishes(const char *name, const char *want, const char *of_another)
{
	const struct fm_volume *volume = &sim.volume[0];
	char text[1024];

	(void)snprintf(text, sizeof(text),
		       "{\"%s\":{\"want\":\"%s\",\"subsystem\":\"%s\",\"nsid\":%u,\"uuid\":\"%s\","
		       "\"nguid\":\"%s\",\"mount_point\":\"%s\",\"wwid\":\"\"},\"%s\":\"down\"}",
		       name, want, volume->subsystem, volume->nsid, volume->uuid, volume->nguid,
		       volume->mount_point, of_another);
	keep_state(FM_SUPERVISOR_WISHES, text);
}

/* A wish that the file has survives, whatever else could not be written of the volume. */
static void test_wish_again(void)
{
	struct fm_err err;

	begin(1);
	keep_wishes("one", "down", "two");
	start_supervisor();
	run_for(10 * S);
	sim.volume[0].mount_point = "/mnt/elsewhere";
	set_config();
	run_for(10 * S);
	sim.is_disk_full = true;
	wish(0, FM_WANT_DOWN, false);
	wish(0, FM_WANT_DOWN, false);
	CU_ASSERT_EQUAL(fm_supervisor_wish(sim.sup, "one", FM_WANT_UP, false, &err), -ENOSPC);
	end();
}

static void keep_wish_of_another(const char *name)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "{\"%s\":{\"want\":\"down\",\"subsystem\":\"nqn.gone\",\"nsid\":1,"
		       "\"uuid\":\"\",\"nguid\":\"\",\"mount_point\":\"/gone\",\"wwid\":\"\"}}",
		       name);
	keep_state(FM_SUPERVISOR_WISHES, text);
}

/* What an fmove-nvmed of before left where it was, when the name was another one for a while. */
static void keep_mounted_as(const char *name)
{
	struct fm_json *all = fm_json_load(sim.file[file_number(FM_SUPERVISOR_MOUNTED)]);
	char *text;

	CU_ASSERT_EQUAL(fm_json_set(all, name, fm_json_copy(fm_json_get(all, "one"))), 0);
	text = fm_json_dump(all, FM_JSON_SORTED_FILE);
	keep_state(FM_SUPERVISOR_MOUNTED, text);
	free(text);
	fm_json_free(all);
}

/* Only what was said of it last is its own. */
static void test_called_anew_before(void)
{
	/* A volume that is no more had the name. */
	begin(1);
	sim.volume[0].name = "one-anew";
	keep_wishes("one", "up", "one-anew");
	start_supervisor();
	run_for(10 * S);
	CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, "one-anew"));
	kill_supervisor(false);

	/* Also where nothing is wished of it. */
	keep_wish_of_another("one-again");
	sim.volume[0].name = "one-again";
	start_supervisor();
	run_for(10 * S);
	CU_ASSERT_TRUE(fm_supervisor_is_mounted(sim.sup, "one-again"));
	CU_ASSERT_EQUAL(sim.mounts, 1);
	kill_supervisor(false);

	/* Of whom nobody knows it is may be its own. */
	sim.volume[0].name = "one-at-last";
	keep_state(FM_SUPERVISOR_WISHES, "{\"one-at-last\":\"down\"}");
	start_supervisor();
	CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one-at-last", FM_WANT_DOWN));
	end();

	/* It was called otherwise, removed, and came back by this name. */
	begin(1);
	start_supervisor();
	run_for(10 * S);
	kill_supervisor(false);
	keep_wishes("one-former", "down", "two");
	keep_mounted_as("one-former");
	start_supervisor();
	run_for(10 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	is_mounted_as(true, 0);
	kill_supervisor(false);

	/* The word alone, as it was written before. */
	keep_wishes("two", "up", "one");
	start_supervisor();
	CU_ASSERT_TRUE(fm_supervisor_wants(sim.sup, "one", FM_WANT_DOWN));
	end();
}

/* Without the file what is mounted is told by its wwid, and left alone. What another boot had says
 * nothing. */
static void test_removed_unknown(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	kill_supervisor(false);
	lose_file(FM_SUPERVISOR_HELD);
	sim.volume_count = 0;
	start_supervisor();
	run_for(60 * S);
	CU_ASSERT_PTR_NOT_NULL(
		strstr(sim.published, "\"wwid\":\"uuid.aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa\","
				      "\"writer\":\"\",\"mounted\":true,\"read_write\":true"));
	CU_ASSERT_EQUAL(sim.mounts, 1);
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		sim.mounted[i].is_there = false;
	run_for(60 * S);
	CU_ASSERT_PTR_NULL(strstr(sim.published, "uuid."));
	end();

	begin(1);
	sim.volume_count = 0;
	keep_state(FM_SUPERVISOR_HELD,
		   "{\"boot\":\"another\",\"held\":[{\"name\":\"one\",\"subsystem\":\"s\",\"nsid\":"
		   "1,\"uuid\":\"\",\"nguid\":\"\","
		   "\"mount_point\":\"/"
		   "m\",\"mode\":0,\"writer\":\"n1\",\"wwid\":\"\",\"read_write\":true}]}");
	start_supervisor();
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 0);
	end();
}

/* Whether peers hear of that namespace, under whichever name, that it is mounted to write. */
static bool is_told_written(char letter)
{
	struct fm_json *said = fm_json_load(sim.published);
	const struct fm_json *at;
	bool is_told = false;
	size_t i;

	for (i = 0; (at = fm_json_at(fm_json_get(said, "volumes"), i)); i++)
		is_told = is_told || (fm_json_as_text(fm_json_get(at, "wwid"))[5] == letter &&
				      fm_json_is_true(fm_json_get(at, "mounted")) &&
				      fm_json_is_true(fm_json_get(at, "read_write")));
	fm_json_free(said);
	return is_told;
}

/* Which namespace is the volume's nobody looks for while something else is at its mount point. What
 * is beneath is mounted all the same. */
static void test_covered(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	sim.is_covered = true;
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	/* Also when it is out of the table, and not free; and without the file, as long as it is in
	 * the table. */
	sim.is_covered = true;
	unmount_by_hand(0, 60 * S);
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	run_for(60 * S);
	CU_ASSERT_FALSE(is_told_written('a'));
	sim.is_covered = false;
	run_for(60 * S);
	is_mounted_as(true, 0);
	kill_supervisor(false);
	sim.is_covered = true;
	lose_file(FM_SUPERVISOR_HELD);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	end();
}

/* Where nothing says which namespace it is, another one takes its place, and what the file system
 * still has is told all the same. */
static void test_another_came(void)
{
	begin(1);
	sim.volume[0].uuid = "";
	start_supervisor();
	run_for(10 * S);
	unmount_by_hand(0, 120 * S);
	run_for(5 * S);
	sim.has_another = sim.mood.is_written = true;
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	restart_without_volumes();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	sim.mood.is_written = false;
	run_for(120 * S);
	CU_ASSERT_FALSE(is_told_written('a'));
	end();
}

/* What is of no volume, and out of the table of mounts, is told until its device is free. */
static void test_stranger_held(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	kill_supervisor(false);
	lose_file(FM_SUPERVISOR_HELD);
	sim.volume_count = 0;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 0);
	unmount_by_hand(0, 60 * S);
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	run_for(60 * S);
	CU_ASSERT_FALSE(is_told_written('a'));
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 0);
	end();
}

/* The same, unmounted while no fmove-nvmed ran; then it is configured, and mounted. */
static void test_stranger_left(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	kill_supervisor(false);
	lose_file(FM_SUPERVISOR_HELD);
	sim.volume_count = 0;
	start_supervisor();
	run_for(20 * S);
	kill_supervisor(false);
	sim.held_dev[0] = sim.dev[0];
	sim.held_ns[0] = sim.now_ns + 60 * S;
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		sim.mounted[i].is_there = false;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	sim.volume_count = 1;
	set_config();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	CU_ASSERT_EQUAL(sim.mounts, 1);
	run_for(60 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
	end();
}

/* A mount of no volume that hangs, and nobody has a note of it: it may be of whatever is there. */
static void test_stranger_stray(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	lose_file(FM_SUPERVISOR_HELD);
	lose_file(FM_SUPERVISOR_BEGUN);
	sim.orphan = (struct fm_process){ .pid = 99, .start = 5 };
	sim.volume_count = 0;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	sim.orphan.pid = 0;
	run_for(60 * S);
	CU_ASSERT_FALSE(is_told_written('a'));
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 0);
	end();
}

/* What is another volume's by now the former one does not go on holding, which would never be
 * free. */
static void test_renamed(void)
{
	struct fm_json *shows;

	begin(1);
	start_supervisor();
	run_for(10 * S);
	sim.is_moved = true;
	sim.volume[0].name = "one-anew";
	sim.volume[0].mount_point = "/srv/anew";
	set_config();
	run_for(60 * S);
	shows = fm_supervisor_show(sim.sup, "one-anew");
	CU_ASSERT_STRING_EQUAL(fm_json_as_text(fm_json_get(shows, "state")), "mounted");
	fm_json_free(shows);
	CU_ASSERT_TRUE(is_told_written('a'));
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
	end();
}

/* The kernel may keep a device without a path, and write when one is back. */
static void test_stranger_without_path(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	kill_supervisor(false);
	lose_file(FM_SUPERVISOR_HELD);
	sim.volume_count = 0;
	sim.is_pathless = true;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_TRUE(is_told_written('a'));
	end();
}

/* More devices than can be looked at at once: each is tried, and until then it counts as in use. */
static void test_more_than_can_be_held(void)
{
	begin(1);
	make_controller(0, 0)->is_foreign = true;
	sim.twins = TWINS_MAX;
	sim.busy_dev = 300 + TWINS_MAX - 1;
	start_supervisor();
	run_for(120 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "not free"));
	sim.busy_dev = 0;
	run_for(60 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
}

/* More than peers take: then they take nothing, and wait for this node. What is left out would be
 * told to be free. */
static void test_more_than_can_be_said(void)
{
	struct fm_json *said;

	begin(1);
	sim.strangers = STRANGERS_MAX;
	start_supervisor();
	run_for(20 * S);
	said = fm_json_load(sim.published);
	/* and the host, and the volume */
	CU_ASSERT_EQUAL(fm_json_count(fm_json_get(said, "volumes")), STRANGERS_MAX + 2);
	fm_json_free(said);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "peers_why"), "more than 255 volumes"));
	/* The host stands among them. */
	sim.strangers = 255;
	run_for(20 * S);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "peers_why"), "more than 255 volumes"));
	sim.strangers = 254;
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(shown(0, "peers_why"), "");
	sim.strangers = 10;
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(shown(0, "peers_why"), "");
	end();
}

/* A partition that somebody mounts by hand, what LVM makes of the namespace, btrfs: the file system
 * there is of another device. */
static void test_used_in_parts(void)
{
	for (unsigned is_volume = 0; is_volume < 2; is_volume++) {
		for (unsigned how = 0; how < 3; how++) {
			begin(is_volume);
			make_controller(0, 0)->is_foreign = true;
			sim.volume[0].writer = "n2";
			sim.has_part = true;
			start_supervisor();
			run_for(20 * S);
			CU_ASSERT_FALSE(is_told_written('a'));
			sim.is_part_mounted = how == 0;
			sim.holder = how == 1 ? "dm-0" : NULL;
			sim.is_btrfs_mounted = how == 2;
			run_for(20 * S);
			CU_ASSERT_TRUE(is_told_written('a'));
			kill_supervisor(false);
			start_supervisor();
			run_for(20 * S);
			CU_ASSERT_TRUE(is_told_written('a'));
			sim.is_part_mounted = sim.is_btrfs_mounted = false;
			sim.holder = NULL;
			run_for(60 * S);
			CU_ASSERT_FALSE(is_told_written('a'));
			end();
		}
	}
	begin(1);
	sim.has_part = true;
	sim.holder = "dm-0";
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "nvme0n1 is in use by dm-0"));
	sim.holder = NULL;
	sim.is_part_mounted = true;
	run_for(20 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "mounted at /mnt"));
	sim.is_part_mounted = false;
	run_for(20 * S);
	is_mounted_as(true, 0);
	end();
}

/* Who keeps others waiting says by what; who has it mounted elsewhere says where. */
static void test_used_is_shown(void)
{
	begin(1);
	start_supervisor();
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	is_state(0, "connected");
	CU_ASSERT_STRING_EQUAL(shown(0, "text"), "");
	sim.has_part = true;
	sim.holder = "dm-0";
	run_for(20 * S);
	is_state(0, "connected");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "in use by dm-0"));
	sim.holder = NULL;
	sim.is_part_mounted = true;
	run_for(20 * S);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "mounted at /mnt"));
	sim.is_part_mounted = false;
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(shown(0, "text"), "");
	end();
	begin(1);
	start_supervisor();
	run_for(10 * S);
	sim.volume[0].writer = sim.peer[0].writer = "n2";
	sim.volume[0].mount_point = "/srv/elsewhere";
	sim.peer[0] = (struct peer_word){ "n2", true, true, false, 0 };
	kill_supervisor(false);
	lose_file(FM_SUPERVISOR_HELD);
	start_supervisor();
	run_for(30 * S);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "alarm"), "unmount it here"));
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "alarm"), "/srv/one"));
	end();
}

/* multipathd takes what comes: no node waits for that, and who would mount it says what to do. */
static void test_multipath(void)
{
	begin(1);
	make_controller(0, 0)->is_foreign = true;
	sim.volume[0].writer = "n2";
	sim.is_mapped = true;
	start_supervisor();
	run_for(60 * S);
	CU_ASSERT_FALSE(is_told_written('a'));
	is_state(0, "refused");
	end();
	begin(1);
	sim.is_mapped = true;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "multipath -f dm-4"));
	sim.is_mapped = false;
	run_for(20 * S);
	is_mounted_as(true, 0);
	end();
}

/* What cannot be written down is not mounted; what is damaged is no reason not to start. */
static void test_held_file(void)
{
	static const char *const bad[] = {
		"{", "[]", "{\"boot\":1,\"held\":[]}",
		"{\"boot\":\"this-boot\",\"held\":[1,{},{\"name\":\"\"}]}",
		"{\"boot\":\"this-boot\",\"held\":[{\"name\":\"one\",\"subsystem\":\"s\",\"nsid\":-"
		"1,\"uuid\":\"\",\"nguid\":\"\","
		"\"mount_point\":\"/"
		"m\",\"mode\":7,\"writer\":\"n1\",\"wwid\":\"\",\"read_write\":true}]}"};

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin(1);
		keep_state(FM_SUPERVISOR_HELD, bad[i]);
		start_supervisor();
		run_for(10 * S);
		is_mounted_as(true, 0);
		CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).volumes, 1);
		end();
	}
	begin(1);
	start_supervisor();
	sim.is_save_broken = true;
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	sim.is_save_broken = false;
	run_for(60 * S);
	is_mounted_as(true, 0);
	end();
}

/* Without mmp: what the other node says is all that keeps it from writing, too. Mounted read-write
 * here. */
static void begin_as_writer(void)
{
	begin(1);
	sim.has_no_mmp = true;
	sim.peer[0] = (struct peer_word){ "n1", false, false, false, 0 };
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(true, 0);
}

/* That call hangs in the kernel, past its deadline, for so long. */
static void hang_on(const char *call, uint64_t ns)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].helper && is_call(&sim.call[i], call)) {
			sim.call[i].due_ns = FM_NEVER;
			sim.call[i].stuck_ns = sim.now_ns + ns;
		}
}

/* The next fmove-nvmed finds the call of the one before under way. */
static void restart_with_orphan(void)
{
	for (unsigned i = 0; i < CALLS_MAX; i++)
		if (sim.call[i].helper)
			sim.orphan = sim.call[i].process;
	kill_supervisor(false);
	start_supervisor();
}

/* Force is for the mount that a person waits for: where it is mounted there is none, and one of a
 * later day was not meant. */
static void test_force_is_no_store(void)
{
	begin_as_writer();
	wish(0, FM_WANT_UP, true);
	run_for(10 * S);
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	unmount_by_hand(0, 10 * S);
	run_for(30 * S);
	is_state(0, "refused");
	sim.is_silent = true;
	run_for(60 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	wish(0, FM_WANT_UP, true);
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();
}

/* What is being unmounted is still there: the mount after that is the one that is waited for. */
static void test_force_while_unmounting(void)
{
	begin_as_writer();
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	run_for(10 * S);
	sim.is_silent = true;
	run_for(10 * S);
	wish(0, FM_WANT_DOWN, false);
	run_until("unmount");
	CU_ASSERT_TRUE(is_under_way("unmount"));
	wish(0, FM_WANT_UP, true);
	run_for(30 * S);
	is_mounted_as(true, 0);
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();
}

/* Who waits for force, and mounts it by hand meanwhile, does not mean a later mount either. */
static void test_force_ends_with_mount_by_hand(void)
{
	begin(1);
	sim.has_no_mmp = true;
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	start_supervisor();
	run_for(20 * S);
	wish(0, FM_WANT_UP, true);
	run_for(10 * S);
	is_state(0, "refused");
	sim.mounted[0] = (struct mounted){ .is_there = true, .dev = sim.dev[0], .letter = RIGHT };
	fm_supervisor_wake(sim.sup);
	run_for(20 * S);
	is_mounted_as(true, 0);
	unmount_by_hand(0, 0);
	sim.is_silent = true;
	run_for(60 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	end();
}

/* What cannot be seen may be mounted: the force that was said of it would lie in wait until it is
 * unmounted, by hand and unseen. */
static void test_force_unseen(void)
{
	begin_as_writer();
	sim.is_blind = true;
	wish(0, FM_WANT_UP, true);
	run_for(10 * S);
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	unmount_by_hand(0, 0);
	run_until_asked();
	sim.is_silent = true;
	run_until_asked();
	sim.is_blind = false;
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	wish(0, FM_WANT_UP, true);
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();
}

/* Mounted by hand, elsewhere: nobody waits for a mount that a later day would bring. */
static void test_force_elsewhere(void)
{
	begin(1);
	sim.has_no_mmp = true;
	sim.volume_count = 2;
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	start_supervisor();
	run_for(20 * S);
	sim.mounted[0] =
		(struct mounted){.is_there = true, .dev = sim.dev[0], .point = 1, .letter = RIGHT};
	fm_supervisor_wake(sim.sup);
	run_for(20 * S);
	wish(0, FM_WANT_UP, true);
	run_for(20 * S);
	sim.mounted[0].is_there = false;
	sim.is_silent = true;
	fm_supervisor_wake(sim.sup);
	run_for(60 * S);
	for (unsigned i = 0; i < MOUNTS_MAX; i++)
		CU_ASSERT_FALSE(sim.mounted[i].is_there && sim.mounted[i].point == 0);
	end();
}

/* An unmount that an earlier fmove-nvmed began, or that hangs past its deadline: the mount after it
 * is the one that is waited for. */
static void test_force_while_unmount_hangs(void)
{
	for (unsigned is_restarted = 0; is_restarted < 2; is_restarted++) {
		begin_as_writer();
		sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
		run_for(10 * S);
		sim.is_silent = true;
		run_for(10 * S);
		sim.mood.hangs_unmount = true;
		wish(0, FM_WANT_DOWN, false);
		run_until("unmount");
		hang_on("unmount", 300 * S);
		if (is_restarted)
			restart_with_orphan();
		else
			run_for(130 * S);
		wish(0, FM_WANT_UP, true);
		run_for(20 * S);
		CU_ASSERT_EQUAL(sim.mounts, 1);
		sim.mounted[0].is_there = false;
		sim.orphan.pid = 0;
		run_for(300 * S);
		is_mounted_as(true, 0);
		CU_ASSERT_EQUAL(sim.mounts, 2);
		end();
	}
}

/* Nor does it go over from a mount of what is sealed to one that writes. */
static void test_force_ends_with_unseal(void)
{
	struct fm_err err;

	begin_shared("n1", "n1");
	keep_seals("{\"one\":{\"subsystem\":\"nqn.2026-01.org.fmove:a\",\"state\":\"sealed\","
		   "\"epoch\":7}}");
	n2_says(true, false, 7);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 7);
	wish(0, FM_WANT_UP, true);
	run_for(10 * S);
	CU_ASSERT_EQUAL(fm_supervisor_seal(sim.sup, names[0], false, false, &err), 0);
	run_for(2 * S);
	sim.is_silent = true;
	run_for(60 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
}

/* What somebody else has mounted is there, whether that can be written down or not. */
static void test_told_unnoted(void)
{
	begin(1);
	sim.volume[0].writer = "n2";
	n2_says(false, false, 0);
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	sim.is_save_broken = true;
	sim.mood.is_busy = true;
	sim.mounted[0] = (struct mounted){ .is_there = true, .dev = sim.dev[0], .letter = RIGHT };
	fm_supervisor_wake(sim.sup);
	run_for(10 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	end();
}

/* No file says that it was mounted. */
static void test_held_over_restart(void)
{
	begin(1);
	start_supervisor();
	run_for(10 * S);
	wish(0, FM_WANT_CONNECTED, false);
	unmount_by_hand(0, 60 * S);
	kill_supervisor(false);
	for (unsigned i = 0; i < FILES; i++) {
		free(sim.file[i]);
		sim.file[i] = NULL;
	}
	start_supervisor();
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	run_for(60 * S);
	is_mounted_as(true, 0);
	end();

	/* What is mounted is told as it is: a reader is no writer because it was restarted. */
	begin_shared("n1", "n2");
	n2_says(false, true, 7);
	start_supervisor();
	run_for(20 * S);
	kill_supervisor(false);
	start_supervisor();
	run_for(5 * S);
	is_mounted_as(false, 7);
	end();
}

/* The helper that asked systemd to mount it was killed, and systemd goes on. */
static void test_unit_goes_on(void)
{
	begin(1);
	sim.mood.hangs_mount = true;
	sim.is_unit_changing = true;
	start_supervisor();
	run_until("mount");
	sim.mood.hangs_mount = false;
	wish(0, FM_WANT_CONNECTED, false);
	run_for(500 * S);
	CU_ASSERT_FALSE(world_has_helper(NULL, names[0]));
	CU_ASSERT_EQUAL(sim.mounts, 0);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "systemd"));
	/* Nor is it forgotten when the device goes: the unit would mount the next one. */
	set_target(0, false);
	run_for(60 * S);
	CU_ASSERT_EQUAL(controllers(), 0);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	sim.is_unit_changing = false;
	run_for(15 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();

	/* The same when fmove-nvmed was restarted meanwhile. */
	begin_with_orphan("this-boot", names[0], nqns[0], "true");
	sim.is_unit_changing = true;
	run_for(10 * S);
	sim.orphan.pid = 0;
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	CU_ASSERT_EQUAL(sim.mounts, 0);
	sim.is_unit_changing = false;
	run_for(30 * S);
	is_mounted_as(true, 0);
	end();

	/* Nor is it over when the helper says that its own mount failed: a unit that was let go on
	 * may be waiting yet. The device stays read-only until that is over. */
	begin(1);
	sim.volume[0].mode = FM_VOLUME_READ_ONLY;
	sim.mood.fails_mount = true;
	sim.is_unit_changing = true;
	start_supervisor();
	run_until("mount");
	wish(0, FM_WANT_CONNECTED, false);
	run_for(60 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "ro");
	CU_ASSERT_EQUAL(sim.read_only_dev[0], sim.dev[0]);
	sim.is_unit_changing = false;
	run_for(15 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	CU_ASSERT_EQUAL(sim.read_only_dev[0], 0);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	end();

	/* What its writer has sealed is not the unit's to mount: that waits for this very mount,
	 * and is not waited for. */
	begin_seal();
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_until("mount");
	sim.mood.fails_mount = true;
	sim.is_unit_changing = true;
	run_for(10 * S);
	CU_ASSERT_FALSE(sim.mounted[0].is_there);
	CU_ASSERT_STRING_NOT_EQUAL(shown(0, "error"), "");
	sim.mood.fails_mount = false;
	run_for(60 * S);
	is_mounted_as(false, 1);
	end();

	/* A mount that has ended is not asked about. */
	begin(1);
	sim.is_unit_changing = true;
	start_supervisor();
	run_for(10 * S);
	is_mounted_as(true, 0);
	wish(0, FM_WANT_CONNECTED, false);
	run_for(5 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();
}

/* What was clean when it was looked at is looked at again when nobody else can have it. */
static void test_dirty_since_the_probe(void)
{
	begin_shared("n1", "n2");
	n2_says(false, true, 7);
	start_supervisor();
	run_until("prepare");
	sim.is_dirty = true;
	run_for(5 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "was not cleanly unmounted"));
	sim.is_dirty = false;
	run_for(60 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
}

/* A mount that is under way stays one to write, whom ever the configuration names as the writer by
 * now. */
static void test_other_writer_while_mounting(void)
{
	begin(1);
	start_supervisor();
	run_until("mount");
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	sim.volume[0].writer = "n2";
	set_config();
	settle();
	CU_ASSERT_TRUE(is_under_way("mount"));
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_STRING_EQUAL(told(0), "");
	end();
}

static void test_other_writer(void)
{
	begin(1);
	sim.peer[0].writer = "n2";
	start_supervisor();
	run_for(30 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "configuration of n2 names \"n2\""));
	CU_ASSERT_EQUAL(sim.mounts, 0);
	/* Silence takes nothing back, also over a restart; the peer itself does. */
	sim.is_silent = true;
	run_for(30 * S);
	is_state(0, "refused");
	kill_supervisor(false);
	start_supervisor();
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 0);
	sim.is_silent = false;
	sim.peer[0].writer = "n1";
	run_for(30 * S);
	is_state(0, "mounted");
	wish(0, FM_WANT_DOWN, false);
	run_for(30 * S);
	sim.is_silent = false;
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	wish(0, FM_WANT_UP, false);
	run_for(30 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "n2 has it mounted read-write"));
	sim.is_silent = true;
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(
		strstr(shown(0, "text"), "n2 had it mounted read-write when it answered last"));
	kill_supervisor(false);
	start_supervisor();
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 1);
	end();
	/* One that was never heard refuses nothing. */
	begin(1);
	sim.is_silent = true;
	start_supervisor();
	run_for(30 * S);
	is_state(0, "mounted");
	end();
}

/* It said nothing when it was asked to leave, with files open there: what it has is in use until it
 * says otherwise. */
static void test_silent_reader(void)
{
	begin_read();
	CU_ASSERT_EQUAL(seal(false, false), 0);
	sim.is_silent = true;
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(
		strstr(shown(0, "text"), "n2 had it mounted read-only when it answered last"));
	kill_supervisor(false);
	start_supervisor();
	run_for(60 * S);
	is_state(0, "refused");
	/* A person says that nobody reads there; also when the unseal was accepted long ago. */
	CU_ASSERT_EQUAL(seal(false, true), 0);
	run_for(30 * S);
	is_mounted_as(true, 0);
	end();
}

/* ---- whose word is waited for ---- */

static void is_waiting_for(const char *name)
{
	struct fm_json *volume = fm_supervisor_show(sim.sup, names[0]);
	const struct fm_json *waits_for = fm_json_get(volume, "waits_for");

	is_state(0, "waiting");
	CU_ASSERT_EQUAL(fm_json_count(waits_for), name[0] ? 1 : 0);
	if (name[0])
		CU_ASSERT_STRING_EQUAL(fm_json_as_text(fm_json_at(waits_for, 0)), name);
	CU_ASSERT_FALSE(number(0, "is_mounted"));
	CU_ASSERT_STRING_EQUAL(told(0), "");
	fm_json_free(volume);
}

/* Nothing but words keeps a second writer away, and n2 does not speak. */
static void begin_unprotected(void)
{
	begin(1);
	sim.has_no_mmp = sim.is_silent = true;
}

/* Down and up again, which is one more mount. */
static void mount_anew(void)
{
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	is_state(0, "down");
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
}

static int forget(const char *node)
{
	struct fm_err err;

	return fm_supervisor_forget(sim.sup, node, &err);
}

static void test_waiting(void)
{
	enum fm_supervisor_progress progress;
	const char *why;

	begin_unprotected();
	start_supervisor();
	run_for(60 * S);
	is_waiting_for("n2");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "fmove nvme forget n2"));
	CU_ASSERT_EQUAL(fm_supervisor_progress(sim.sup, names[0], &progress, &why), 0);
	CU_ASSERT_EQUAL(progress, FM_PROGRESS_UNDER_WAY);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).refused, 0);
	/* It lifts by itself. */
	sim.is_silent = false;
	run_for(7 * S);
	is_state(0, "mounted");
	/* Silence afterwards takes nothing away, and what was heard holds for this writer. */
	sim.is_silent = true;
	run_for(20 * S);
	is_state(0, "mounted");
	mount_anew();
	is_state(0, "mounted");
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	end();
}

/* What n2 said before it could know whom this node names now permits nothing: it may have mounted
 * since. */
static void test_configured_anew(void)
{
	begin_unprotected();
	sim.is_silent = false;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	sim.volume[0].writer = "n2";
	set_config();
	run_for(20 * S);
	sim.is_silent = true;
	sim.volume[0].writer = "n1";
	set_config();
	run_for(60 * S);
	is_waiting_for("n2");
	/* Also what it was asked before that, and answers after. */
	for (unsigned i = 0; i < 100 && !sim.ask_ns; i++)
		run_for(100 * MS);
	sim.volume[0].writer = "n2";
	set_config();
	settle();
	sim.volume[0].writer = "n1";
	set_config();
	settle();
	CU_ASSERT_NOT_EQUAL_FATAL(sim.ask_ns, 0);
	sim.is_silent = false;
	sim.now_ns = sim.ask_ns;
	(void)fm_loop_step(sim.loop, 0);
	peers_answer();
	sim.is_silent = true;
	run_for(60 * S);
	is_waiting_for("n2");
	sim.is_silent = false;
	run_for(7 * S);
	is_state(0, "mounted");
	end();
}

/* It was sealed once, and what a silent reader said of that is lost: with mmp it waits for that
 * node. One that was never sealed does not. */
static void test_lost_words_of_exclusive(void)
{
	for (unsigned was_sealed = 0; was_sealed < 2; was_sealed++) {
		begin(1);
		sim.is_silent = true;
		keep_state(
			FM_SUPERVISOR_MOUNTED,
			was_sealed
				? "{\"one\":{\"subsystem\":\"nqn.2026-01.org.fmove:a\",\"wwid\":"
				  "\"\",\"size_bytes\":0,\"set_read_only\":\"\","
				  "\"writer\":\"n1\",\"writer_epoch\":5,\"writer_sealed\":false}}"
				: "{}");
		start_supervisor();
		run_for(30 * S);
		is_state(0, was_sealed ? "waiting" : "mounted");
		sim.is_silent = false;
		run_for(20 * S);
		is_mounted_as(true, 0);
		end();
	}
}

static void test_force(void)
{
	begin_unprotected();
	start_supervisor();
	run_for(20 * S);
	wish(0, FM_WANT_UP, true);
	run_for(20 * S);
	is_state(0, "mounted");
	/* Once. */
	mount_anew();
	is_waiting_for("n2");
	/* Nor is it kept for another writer, or over a restart. */
	set_target(0, false);
	run_for(60 * S);
	wish(0, FM_WANT_UP, true);
	kill_supervisor(false);
	start_supervisor();
	set_target(0, true);
	run_for(100 * S);
	is_waiting_for("n2");
	end();
}

/* Force is about what was said before it: who speaks after it counts, also when it is silent
 * again. */
static void test_force_of_who_speaks(void)
{
	begin_unprotected();
	set_target(0, false);
	start_supervisor();
	run_for(20 * S);
	wish(0, FM_WANT_UP, true);
	run_for(10 * S);
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	sim.is_silent = false;
	run_for(10 * S);
	sim.is_silent = true;
	run_for(10 * S);
	set_target(0, true);
	run_for(100 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 0);
	/* Said once more it is about that, too. */
	wish(0, FM_WANT_UP, true);
	run_for(20 * S);
	is_state(0, "mounted");
	end();
	/* Nor is it about what is said by who answers when it is given. */
	begin_unprotected();
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	sim.is_silent = false;
	start_supervisor();
	run_for(20 * S);
	wish(0, FM_WANT_UP, true);
	sim.is_silent = true;
	run_for(60 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 0);
	end();
}

/* What is taken down with all the others is not forced when they come back. */
static void test_force_ends_with_all(void)
{
	begin_unprotected();
	set_target(0, false);
	start_supervisor();
	run_for(20 * S);
	wish(0, FM_WANT_UP, true);
	run_for(5 * S);
	close_all(0);
	run_for(20 * S);
	fm_supervisor_open(sim.sup);
	set_target(0, true);
	run_for(100 * S);
	is_waiting_for("n2");
	end();
}

/* What is written down of a mount that reads is no note of one that writes. */
static void test_note_of_another_mount(void)
{
	bool is_begun = false;

	begin_read();
	n2_says(false, false, 1);
	run_for(10 * S);
	CU_ASSERT_EQUAL(seal(false, false), 0);
	run_until("unmount");
	sim.is_save_broken = true;
	for (unsigned i = 0; i < 6000; i++) {
		run_for(10 * MS);
		is_begun = is_begun || is_under_way("prepare");
	}
	CU_ASSERT_FALSE(is_begun);
	sim.is_save_broken = false;
	run_for(70 * S);
	is_mounted_as(true, 0);
	end();
}

static void test_forget(void)
{
	begin_unprotected();
	sim.is_silent = false;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(forget("n2"), -EBUSY);
	CU_ASSERT_EQUAL(forget("n3"), -ENOENT);
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	kill_supervisor(false);
	sim.is_silent = true;
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	start_supervisor();
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_waiting_for("n2");
	CU_ASSERT_EQUAL(forget("n2"), 0);
	run_for(20 * S);
	is_state(0, "mounted");
	/* Over a boot. */
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 3);
	/* It speaks. */
	sim.is_silent = false;
	run_for(20 * S);
	sim.is_silent = true;
	mount_anew();
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "n2 had it mounted read-write"));
	/* The writer is another one, and this one again: also while the supervisor was not
	 * there. */
	for (unsigned i = 0; i < 2; i++) {
		CU_ASSERT_EQUAL(forget("n2"), 0);
		run_for(20 * S);
		is_state(0, "mounted");
		for (unsigned k = 0; k < 2; k++) {
			sim.volume[0].writer = k == 0 ? "n2" : "n1";
			if (i == 0) {
				set_config();
			} else {
				kill_supervisor(false);
				start_supervisor();
			}
			run_for(20 * S);
		}
		is_state(0, "refused");
	}
	end();
}

/* A person mounted it to write, and has it read-only by now: the writer waits for that to end. */
static void test_read_only_by_now(void)
{
	begin_shared("n1", "n2");
	n2_says(true, true, 1);
	start_supervisor();
	run_for(30 * S);
	is_mounted_as(false, 1);
	CU_ASSERT_STRING_EQUAL(told(0), "ro");
	sim.mood.is_busy = true;
	sim.mounted[0].is_read_only = false;
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	/* As long as a file is open that says nothing. */
	sim.mounted[0].is_read_only = true;
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	sim.mood.is_busy = false;
	run_for(60 * S);
	/* What was sealed is another thing by now. */
	CU_ASSERT_STRING_EQUAL(told(0), "");
	is_state(0, "waiting");
	n2_says(true, true, 3);
	run_for(20 * S);
	is_mounted_as(false, 3);
	CU_ASSERT_STRING_EQUAL(told(0), "ro");
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();
}

/* A person mounts it to write, somewhere, and unmounts it again. */
static void write_by_hand(void)
{
	sim.has_part = sim.is_part_mounted = true;
	fm_supervisor_wake(sim.sup);
	run_for(10 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	sim.is_part_mounted = false;
	fm_supervisor_wake(sim.sup);
	run_for(30 * S);
}

/* Readers must not keep what is older than what somebody has written to what is sealed: at the
 * writer. */
static void test_sealed_and_written(void)
{
	begin_seal();
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	is_mounted_as(false, 1);
	/* Down and up it is the same. */
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_mounted_as(false, 1);
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 1);
	/* Somebody has written where it is not mounted, at another place. */
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	sim.read_only_dev[0] = 0;
	write_by_hand();
	CU_ASSERT_EQUAL(number(0, "epoch"), 2);
	CU_ASSERT_EQUAL(number(0, "is_sealed"), false);
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_mounted_as(false, 3);
	/* Or when nobody looked: what is on the device tells. */
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	kill_supervisor(false);
	sim.written_mounts++;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(number(0, "epoch"), 3);
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_mounted_as(false, 5);
	/* Also in the moment after the last question. */
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	wish(0, FM_WANT_UP, false);
	run_until("prepare");
	sim.written_mounts++;
	run_for(20 * S);
	is_mounted_as(false, 7);
	/* Sealed by one that wrote down no sum. */
	kill_supervisor(false);
	keep_seals("{\"one\":{\"subsystem\":\"nqn.2026-01.org.fmove:a\",\"state\":\"sealed\","
		   "\"epoch\":7}}");
	sim.mounted[0].is_there = false;
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 7);
	kill_supervisor(false);
	sim.mounted[0].is_there = false;
	sim.written_mounts++;
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 9);
	end();

	/* Nobody hears of a number that could not be written down. */
	begin_seal();
	CU_ASSERT_EQUAL(seal(true, false), 0);
	run_for(20 * S);
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	sim.read_only_dev[0] = 0;
	sim.is_save_broken = true;
	sim.broken_file = FM_SUPERVISOR_SEALED;
	write_by_hand();
	CU_ASSERT_EQUAL(number(0, "is_sealed"), false);
	CU_ASSERT_EQUAL(published_epoch(0), 1);
	wish(0, FM_WANT_UP, false);
	run_for(60 * S);
	CU_ASSERT_EQUAL(published_epoch(0), 1);
	CU_ASSERT_EQUAL(number(0, "is_mounted"), false);
	sim.is_save_broken = false;
	run_for(120 * S);
	CU_ASSERT_EQUAL(number(0, "is_mounted"), true);
	CU_ASSERT_EQUAL(number(0, "is_sealed"), true);
	CU_ASSERT_TRUE(published_epoch(0) > 2);
	end();
}

/*
 * Until every node that counts has answered once more it is mounted nowhere: one that is off, or
 * was forgotten before, keeps it from all.
 */
static void test_sealed_anew_waits(void)
{
	for (unsigned i = 0; i < 2; i++) {
		begin_seal();
		CU_ASSERT_EQUAL(seal(true, false), 0);
		run_for(20 * S);
		is_mounted_as(false, 1);
		sim.is_silent = true;
		run_for(10 * S);
		CU_ASSERT_EQUAL(fm_supervisor_forget(sim.sup, "n2", &(struct fm_err){ 0 }), 0);
		wish(0, FM_WANT_CONNECTED, false);
		run_for(20 * S);
		sim.read_only_dev[0] = 0;
		write_by_hand();
		wish(0, FM_WANT_UP, false);
		run_for(60 * S);
		is_state(0, "waiting");
		CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "the word of n2"));
		CU_ASSERT_PTR_NULL(strstr(sim.published, "\"sealed\":true"));
		if (i == 0)
			wish(0, FM_WANT_UP, true);
		else
			CU_ASSERT_EQUAL(
				fm_supervisor_forget(sim.sup, "n2", &(struct fm_err){ 0 }), 0);
		run_for(20 * S);
		is_mounted_as(false, 3);
		end();
	}
}

/* And at a reader: it says a higher number than that of the seal, until it hears one. */
static void test_read_and_written(void)
{
	begin_shared("n1", "n2");
	n2_says(true, true, 7);
	start_supervisor();
	run_for(20 * S);
	is_mounted_as(false, 7);
	wish(0, FM_WANT_CONNECTED, false);
	run_for(20 * S);
	sim.is_silent = true;
	run_for(10 * S);
	write_by_hand();
	CU_ASSERT_EQUAL(published_epoch(0), 7);		/* which is the last one it does not know */
	kill_supervisor(false);
	start_supervisor();
	wish(0, FM_WANT_UP, false);
	n2_says(true, true, 8);
	run_for(20 * S);
	CU_ASSERT_EQUAL(published_epoch(0), 9);
	is_state(0, "waiting");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "n2 takes a higher one by itself"));
	n2_says(false, false, 20);
	run_for(20 * S);
	n2_says(true, true, 21);
	run_for(20 * S);
	is_mounted_as(false, 21);
	/* What is not sealed gets a new number anyway. */
	wish(0, FM_WANT_CONNECTED, false);
	n2_says(false, false, 22);
	run_for(20 * S);
	write_by_hand();
	CU_ASSERT_EQUAL(published_epoch(0), 22);
	n2_says(true, true, 23);
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_mounted_as(false, 23);
	end();
}

/* After a restart nothing is known of what is mounted until a look has seen it. */
static void test_forget_unseen(void)
{
	begin_unprotected();
	sim.is_silent = false;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	kill_supervisor(false);
	sim.is_silent = sim.is_blind = true;
	start_supervisor();
	run_for(10 * S);
	CU_ASSERT_EQUAL(forget("n2"), -EAGAIN);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	sim.is_blind = false;
	run_for(10 * S);
	CU_ASSERT_EQUAL(forget("n2"), 0);
	CU_ASSERT_STRING_EQUAL(told(0), "rw");
	end();
}

/* Who was a peer once counts, configured or not, until it is forgotten. */
static void test_vanished(void)
{
	begin_unprotected();
	sim.is_silent = false;
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	sim.is_n2_removed = true;
	run_for(60 * S);
	is_state(0, "refused");
	kill_supervisor(false);
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	CU_ASSERT_EQUAL(sim.mounts, 0);
	CU_ASSERT_EQUAL(forget("n2"), 0);
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(forget("n2"), -ENOENT);
	end();
}

/* Who the peers were is lost, and what one of them said is not: what forbids can be forgotten. */
static void test_vanished_and_lost(void)
{
	begin_unprotected();
	sim.is_silent = false;
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	start_supervisor();
	run_for(20 * S);
	kill_supervisor(false);
	sim.is_n2_removed = true;
	keep_state(FM_SUPERVISOR_NODES, "damaged");
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "fmove nvme forget n2"));
	CU_ASSERT_EQUAL(forget("n3"), -ENOENT);
	CU_ASSERT_EQUAL(forget("n2"), 0);
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(forget("n2"), -ENOENT);
	end();
}

/* Nobody says who the peers are; nobody but those that are named counts; there are none. */
static void test_who_counts(void)
{
	begin_unprotected();
	sim.is_fmoved_away = true;
	start_supervisor();
	run_for(60 * S);
	is_waiting_for("");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "which other nodes there are"));
	sim.volume[0].has_nodes = true;
	set_config();
	run_for(20 * S);
	is_state(0, "mounted");
	end();

	begin_unprotected();
	sim.volume[0].has_nodes = true;
	sim.volume[0].node[0] = "n1";
	sim.volume[0].node[1] = "n3";
	sim.volume[0].node_count = 2;
	start_supervisor();
	run_for(20 * S);
	is_waiting_for("n3");
	/* Who is named and was never a peer can be forgotten as well. */
	CU_ASSERT_EQUAL(forget("n3"), 0);
	run_for(20 * S);
	is_state(0, "mounted");
	wish(0, FM_WANT_DOWN, false);
	run_for(20 * S);
	sim.volume[0].node_count = 1;
	set_config();
	wish(0, FM_WANT_UP, false);
	run_for(20 * S);
	is_state(0, "mounted");
	end();

	begin_unprotected();
	sim.is_n2_removed = true;
	start_supervisor();
	run_for(5 * S);
	is_state(0, "mounted");
	end();
}

/* Two nodes that both have it read-write: a person did that. The one that is not the writer leaves,
 * if it can. */
static void test_two_writers(void)
{
	begin(1);
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	/* Once may be that it is about to be, and refused. */
	run_until_asked();
	CU_ASSERT_STRING_EQUAL(shown(0, "alarm"), "");
	run_for(10 * S);
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "alarm"), "n2 has it mounted read-write as well"));
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "alarm"), "unmount it there now"));
	here_is(true, 0, "n2");
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).alarms, 1);
	is_state(0, "mounted");
	/* Silence ends nothing. */
	sim.is_silent = true;
	run_for(20 * S);
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).alarms, 1);
	/* It is the other one's. */
	sim.is_silent = false;
	sim.mood.is_busy = true;
	sim.volume[0].writer = "n2";
	sim.peer[0].writer = "n2";
	set_config();
	run_for(60 * S);
	is_state(0, "unmounting");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "alarm"), "unmounts it as soon as no file is open"));
	sim.mood.is_busy = false;
	run_for(30 * S);
	is_state(0, "refused");
	CU_ASSERT_STRING_EQUAL(shown(0, "alarm"), "");
	CU_ASSERT_EQUAL(fm_supervisor_count(sim.sup).alarms, 0);
	end();
}

/* A target that keeps it for this node protects it without words; one that offers no such thing
 * does not, and is not asked again and again. */
static void test_reserved_without_words(void)
{
	begin_unprotected();
	sim.is_target_able = true;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	end();

	begin_unprotected();
	start_supervisor();
	run_for(100 * S);
	is_waiting_for("n2");
	CU_ASSERT_EQUAL(sim.prepares, 1);
	/* The target came back as another one. */
	sim.is_target_able = true;
	fm_supervisor_connected(sim.sup, NULL);
	run_for(20 * S);
	is_state(0, "mounted");
	end();
}

/* Two machines with one host id are one host to the target: each would have what the other one has
 * reserved. */
static void test_same_host(void)
{
	begin_unprotected();
	sim.is_target_able = true;
	sim.is_silent = false;
	sim.n2_host = HOST_ID;
	start_supervisor();
	run_for(5 * S);
	CU_ASSERT_PTR_NOT_NULL(strstr(sim.published, "\"" FM_PEER_HOST_SUBSYSTEM "\""));
	kill_supervisor(true);
	/* It is known over a restart, and silence changes nothing. */
	sim.mounted[0].is_there = false;
	sim.reserved_for[0][0] = '\0';
	sim.mounts = 0;
	sim.is_silent = true;
	start_supervisor();
	run_for(30 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	is_waiting_for("n2");
	CU_ASSERT_PTR_NOT_NULL(strstr(shown(0, "text"), "n2 has the NVMe host id of this node"));
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "");
	/* It has got one of its own, and is silent again. */
	sim.is_silent = false;
	sim.n2_host = "99999999-2222-3333-4444-555555555555";
	run_until_asked();
	run_for(10 * S);
	is_state(0, "mounted");
	kill_supervisor(true);
	sim.mounted[0].is_there = false;
	sim.is_silent = true;
	start_supervisor();
	run_for(30 * S);
	is_state(0, "mounted");
	CU_ASSERT_EQUAL(sim.mounts, 2);
	end();
}

/* To the target the other one's reservation is this one's: it is not given back below its mount,
 * nor while nobody can say whether it has one. */
static void test_same_host_is_left_its_own(void)
{
	begin(1);
	sim.is_target_able = true;
	sim.is_silent = false;
	sim.n2_host = HOST_ID;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	sim.peer[0] = (struct peer_word){ "n1", true, true, false, 0 };
	run_until_asked();
	wish(0, FM_WANT_DOWN, false);
	run_for(30 * S);
	is_state(0, "down");
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	wish(0, FM_WANT_CONNECTED, false);
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	sim.is_silent = true;
	sim.peer[0] = (struct peer_word){ "n1", false, false, false, 0 };
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], HOST_ID);
	sim.is_silent = false;
	run_for(30 * S);
	CU_ASSERT_STRING_EQUAL(sim.reserved_for[0], "");
	end();
}

/* Said of what is configured only later, or is so again: no answer brings it any more. */
static void test_said_of_what_is_not_configured(void)
{
	begin_unprotected();
	sim.is_target_able = true;
	sim.peer[1] = (struct peer_word){ "n1", true, true, false, 0 };
	sim.is_silent = false;
	start_supervisor();
	run_for(20 * S);
	is_state(0, "mounted");
	sim.is_silent = true;
	run_for(10 * S);
	sim.volume_count = 2;
	set_config();
	run_for(30 * S);
	CU_ASSERT_EQUAL(sim.mounts, 1);
	is_state(1, "refused");
	CU_ASSERT_PTR_NOT_NULL(
		strstr(shown(1, "text"), "n2 had it mounted read-write when it answered last"));
	end();
}

/*
 * Its configuration was copied from the writer: a node of the name that it has by now was a peer,
 * and may have it. fmoved names no peer of its own name.
 */
static void test_takes_the_name_of_the_writer(void)
{
	begin_unprotected();
	sim.node = "n1";
	sim.volume[0].writer = "n2";
	start_supervisor();
	run_for(20 * S);
	is_state(0, "refused");
	kill_supervisor(true);
	sim.node = "n2";
	sim.is_n2_removed = true;
	start_supervisor();
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	is_waiting_for("n2");
	CU_ASSERT_EQUAL(forget("n2"), 0);
	run_for(20 * S);
	is_state(0, "mounted");
	end();
}

/* Whoever agreed to that another node writes has not agreed to this one. */
static void test_takes_another_name(void)
{
	begin_unprotected();
	sim.volume[0].writer = "n3";
	sim.peer[0] = (struct peer_word){ "n3", false, false, false, 0 };
	sim.is_silent = false;
	start_supervisor();
	run_for(20 * S);
	sim.is_silent = true;
	run_for(20 * S);
	is_state(0, "refused");
	sim.node = "n3";
	set_config();
	run_for(20 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	is_waiting_for("n2");
	sim.is_silent = false;
	run_for(20 * S);
	is_state(0, "mounted");
	end();
}

/*
 * Words let it be mounted, so no reservation was needed; when they are void after that, one is, and
 * the target was not asked because that could not be written down.
 */
static void test_words_void_while_prepared(void)
{
	begin_unprotected();
	sim.is_silent = false;
	start_supervisor();
	run_until("probe");
	while (!strstr(sim.published, "\"mounted\":true"))
		run_for(MS);
	sim.is_save_broken = true;
	run_until("prepare");
	sim.is_save_broken = false;
	CU_ASSERT_EQUAL(number(0, "is_reserved"), 0);
	sim.is_silent = true;
	sim.volume[0].writer = "n2";
	set_config();
	sim.volume[0].writer = "n1";
	set_config();
	run_for(100 * S);
	CU_ASSERT_EQUAL(sim.mounts, 0);
	is_waiting_for("n2");
	end();
}

static void test_chance(void)
{
	for (uint64_t seed = 1; seed <= 600; seed++) {
		unsigned before = CU_get_number_of_failures();

		run_seed(seed);
		if (CU_get_number_of_failures() != before) {
			printf("\nseed %" PRIu64 "\n", seed);
			return;
		}
	}
}

static const struct fm_test tests[] = {
	{"connects, identifies, mounts, and takes down again", test_straight},
	{"a target that is down at the start is awaited with patience", test_late_target},
	{"a short loss is the kernel's affair", test_short_loss},
	{"a controller that the kernel gave up is made anew, and mounted by identity",
	 test_ctrl_loss},
	{"the same after a restart", test_gone_over_restart},
	{"what others mounted there, and what is gone of it, is theirs", test_gone_of_others},
	{"btrfs, which has a device number of its own", test_btrfs},
	{"what is lost is unmounted though in use; what is not, only by force", test_gone_in_use},
	{"before a lazy unmount by force what is dirty is written, or that is tried once",
	 test_force_writes_once},
	{"at the end of the machine all is down, and nothing of it remembered", test_close},
	{"the same with files open", test_close_in_use},
	{"the same with the target gone", test_close_without_target},
	{"what is still being written is not disconnected, but by force", test_still_written},
	{"a device that was set read-only is writable again when it is unmounted",
	 test_reader_becomes_writer},
	{"a device that was read-only before stays so", test_read_only_stays},
	{"allowed to be mounted when it is prepared; one that was not mounted is as it was",
	 test_prepare},
	{"not allowed to be mounted when it is about to be unmounted", test_leaving_is_not_allowed},
	{"one volume that hangs does not keep another", test_one_hangs},
	{"a namespace that the kernel has missed is looked for, with patience",
	 test_missed_namespace},
	{"another namespace at the same place is not mounted", test_identity},
	{"a wish that could not be written down is written when it is said again",
	 test_wish_in_doubt},
	{"who is not the named writer is refused, until the configuration changes",
	 test_not_writer},
	{"a target that says no is not asked often", test_refused_by_target},
	{"after a restart it adopts, and knows its own and the wishes", test_restart},
	{"killed while connecting, it finds what it made", test_killed_while_connecting},
	{"what others connected is used and left", test_foreign},
	{"also what they connected after a connect of ours that was killed",
	 test_foreign_after_doubt},
	{"but not without the secret, TLS or digest that are configured", test_foreign_unfit},
	{"nor while a connect of ours hangs, which it may be", test_unfit_in_doubt},
	{"a wish for down while connecting", test_down_while_connecting},
	{"two paths: degraded with one; one less after a reload", test_two_paths},
	{"names are looked up, and what was known is kept", test_names},
	{"discovery is asked, and what was known is kept", test_discovery},
	{"what a discovery leaves that was killed is removed", test_discovery_left},
	{"and nobody else's discovery controller", test_discovery_of_others},
	{"what a mount leaves that was killed is undone", test_read_only_left},
	{"without a name of its own it must be what it was the last time", test_last_time},
	{"smaller below a mount: said at once, and not mounted again", test_smaller_below_a_mount},
	{"names that are no UTF-8 are shown as far as they are", test_no_utf8},
	{"a volume that is no longer configured is taken down", test_reload},
	{"a volume that is configured anew twice in a row", test_reload_twice},
	{"a failure of ours costs a try", test_faults},
	{"what cannot be said for want of memory is not left out", test_fault_of_words},
	{"files of state that make no sense are no state", test_bad_files},
	{"sealed: read-only, also after a restart; unsealed: when no reader is there", test_seal},
	{"sealing goes on after a kill, and is for the writer of a shared volume that is up",
	 test_seal_refused},
	{"what could not be written is not sealed", test_seal_unwritten},
	{"what was unmounted otherwise is not sealed", test_seal_while_unmounting},
	{"what was being written out at a restart is not sealed", test_seal_restarted},
	{"nor beside what was hanging at a restart, once that has ended", test_seal_beside_orphan},
	{"an unmount writes down no number that is not taken", test_unmount_without_number},
	{"what is not clean is not sealed", test_seal_unclean},
	{"a reader that is silent keeps it sealed, but by force", test_lost_reader},
	{"a file of seals that is lost opens nothing", test_lost_seals},
	{"a writer that has lost its number takes a new one, and waits for the word of all at that",
	 test_lost_number},
	{"no number that a peer says, or a damaged file has, is the last one", test_last_number},
	{"all that peers can say is read again after a restart", test_all_is_heard_again},
	{"what peers said is written as it ever was", test_heard_as_written},
	{"a peer that says a NUL byte has said nothing", test_peer_says_nul},
	{"a peer that says much when it goes is shown all the same", test_long_farewell},
	{"unsealed before it was sealed: peers are asked anew, and it is mounted",
	 test_unseal_before_sealed},
	{"an unseal waits for each reader's word at its own number", test_unseal_number},
	{"the number of who was a writer of its own is followed when it is one no more",
	 test_number_of_another_writer},
	{"a reader that has left mounts only what it hears afresh", test_void_seal},
	{"sealed again while it is mounted read-only: anew", test_sealed_again_while_mounted},
	{"a target that can protects what is sealed and keeps what is written for one host",
	 test_target},
	{"what metrics are made of follows a volume up and down", test_numbers},
	{"what a target forgot that was away is taken again", test_target_restarts},
	{"also one that was back before the mount was there", test_target_restarts_while_mounting},
	{"what another host has reserved meanwhile is unmounted, and mounted when that has left",
	 test_target_restarts_with_another},
	{"a reservation that another host had meanwhile is not taken again",
	 test_reservation_is_not_taken_back},
	{"that is over with that mount", test_reservation_taken_is_over},
	{"nor is one trusted whose refusal nobody may have heard", test_reservation_in_doubt},
	{"nor one that another host had while this node was away", test_reservation_missed},
	{"what is mounted, and not written down, is asked for as well", test_reservation_unknown},
	{"what the target refused to protect is not said to be protected", test_target_refuses},
	{"what somebody else has protected or reserved stays so", test_target_of_others},
	{"killed at any moment of a seal, it can be written again", test_target_killed},
	{"a reader mounts what is sealed, anew with each epoch, and leaves what is not",
	 test_reader},
	{"a mount that hangs past its deadline stays announced until it is over", test_stuck_mount},
	{"a peer that says too much concerns no other", test_peer_says_too_much},
	{"what peers say of volumes that are none of ours is not kept", test_only_ours_is_kept},
	{"a peer that raises the number again and again is believed ever more rarely",
	 test_number_raised_again_and_again},
	{"one that waits until it is followed waits for an hour at most",
	 test_number_raised_and_awaited},
	{"a writer that jumps to the end of the numbers is not followed",
	 test_number_jumps_to_the_end},
	{"a controller that is not as configured and comes later is reported",
	 test_foreign_unfit_later},
	{"what an earlier fmove-nvmed has begun is told until its process has ended", test_orphan},
	{"a file of what was begun that makes no sense forbids", test_begun_makes_no_sense},
	{"a mount is written down before it begins", test_begun_is_written_first},
	{"what is being unmounted is told as mounted", test_unmount_is_told},
	{"an unmount that cannot be written down is done, and a restart knows of it",
	 test_unmount_that_cannot_be_noted},
	{"what a person has unmounted is told as mounted until its device is free",
	 test_unmounted_by_hand},
	{"a reader's too", test_reader_unmounted_by_hand},
	{"and what was unmounted by force, lazily", test_forced_and_held},
	{"a device that cannot be looked at is not free, and keeps nobody waiting",
	 test_held_unknown},
	{"a device that is gone is free, one without a path is not", test_held_and_gone},
	{"what is of no volume is told until its device is free", test_stranger_held},
	{"the same, over a restart, and when it is configured", test_stranger_left},
	{"a mount of no volume may hang, and nobody knows of what", test_stranger_stray},
	{"a volume under another name", test_renamed},
	{"a volume that is configured no more is told until its device is free, over restarts",
	 test_removed_while_held},
	{"and may come back meanwhile", test_removed_and_back},
	{"and is unmounted by force if a person says so", test_removed_and_forced},
	{"which namespace it is may be said while it is mounted", test_named_by_now},
	{"a volume that is called something else stays as it is", test_called_anew},
	{"so does one that is down, over a restart", test_called_anew_down},
	{"also with a full disk", test_called_anew_full},
	{"also what an fmove-nvmed of before wrote", test_called_anew_aged},
	{"also where names move along", test_called_anew_along},
	{"also at the upgrade itself", test_called_anew_along_aged},
	{"also where they do so at a reload", test_called_anew_reloaded},
	{"also if it was gone for a while", test_called_anew_later},
	{"and another one has got its name meanwhile", test_called_anew_taken},
	{"one that was never configured before has", test_called_anew_new},
	{"the same one, to be mounted elsewhere, goes on", test_another_mount_point},
	{"while the one that had it is in use", test_called_anew_busy},
	{"who was forgotten for the one before is not for the new one", test_forgotten_of_another},
	{"or several have", test_called_anew_taken_again},
	{"of whom no more are known than there can be", test_called_anew_bound},
	{"who is forgotten stays so where something else had its name", test_forgotten_of_its_name},
	{"what a name meant before is not taken for it", test_called_anew_before},
	{"a wish that the file has survives", test_wish_again},
	{"without a file what is mounted is told by its wwid", test_removed_unknown},
	{"what is mounted beneath something else is told", test_covered},
	{"what is held is told also when another namespace is the volume's", test_another_came},
	{"what is mounted and has no path is told, too", test_stranger_without_path},
	{"more devices than can be looked at at once count as in use until each was tried",
	 test_more_than_can_be_held},
	{"nothing is left out where more is to be told than peers take",
	 test_more_than_can_be_said},
	{"so is a partition that is mounted, and what is made of the device", test_used_in_parts},
	{"what keeps others waiting is shown where it is", test_used_is_shown},
	{"what multipathd has is not in use, and not mounted", test_multipath},
	{"what peers are told to be mounted is written down first", test_held_file},
	{"force is for the mount that is waited for, not for a later one", test_force_is_no_store},
	{"force said during an unmount is for the mount after it", test_force_while_unmounting},
	{"force ends with a mount by hand", test_force_ends_with_mount_by_hand},
	{"force ends with an unseal without it", test_force_ends_with_unseal},
	{"force ends where it cannot be seen what is mounted", test_force_unseen},
	{"force ends with a mount by hand, wherever", test_force_elsewhere},
	{"force said while an unmount hangs is for the mount after it",
	 test_force_while_unmount_hangs},
	{"force ends with the end of the machine", test_force_ends_with_all},
	{"force is not about who speaks after it", test_force_of_who_speaks},
	{"a note of a mount that reads is none of one that writes", test_note_of_another_mount},
	{"what is mounted is told also where that cannot be written down", test_told_unnoted},
	{"a device that is in use is found by who is started later, without any file",
	 test_held_over_restart},
	{"a mount that systemd goes on with is told until its unit rests", test_unit_goes_on},
	{"a reader looks again whether it is clean when nobody else can have it",
	 test_dirty_since_the_probe},
	{"another writer is configured while it is mounted: peers hear of it",
	 test_other_writer_while_mounting},
	{"a peer that names another writer, or writes, refuses until it says otherwise",
	 test_other_writer},
	{"what may have been written, and is read-only by now, is mounted anew",
	 test_read_only_by_now},
	{"what is sealed and was written is sealed anew", test_sealed_and_written},
	{"what is sealed anew waits for each node", test_sealed_anew_waits},
	{"what was written at a reader is to be sealed anew", test_read_and_written},
	{"a reader that falls silent is there until it says otherwise, or a person does",
	 test_silent_reader},
	{"without a protection a node's word is waited for, and lifts it", test_waiting},
	{"what was said before the configuration was what it is permits nothing",
	 test_configured_anew},
	{"what a reader of former seals said is lost, and the volume is exclusive now",
	 test_lost_words_of_exclusive},
	{"by force, once", test_force},
	{"a node that is forgotten does not count, until it speaks or the writer is another one",
	 test_forget},
	{"nor is one forgotten before this node has seen what it has itself", test_forget_unseen},
	{"a peer that is configured no more counts until it is forgotten", test_vanished},
	{"and can be forgotten where that is lost", test_vanished_and_lost},
	{"who counts: those that are named, or all that fmoved has ever named", test_who_counts},
	{"a reservation protects without words", test_reserved_without_words},
	{"but not from a node that is the same host to the target", test_same_host},
	{"nor is its reservation given back below its mount", test_same_host_is_left_its_own},
	{"what a peer has mounted forbids, also if it was not configured here then",
	 test_said_of_what_is_not_configured},
	{"a node that takes the writer's name waits for who had it",
	 test_takes_the_name_of_the_writer},
	{"a node with another name asks anew", test_takes_another_name},
	{"words that are void while it is prepared permit nothing", test_words_void_while_prepared},
	{"two nodes that write: an alarm, and who is not the writer leaves", test_two_writers},
	{"whatever happens: one controller a path, the right identity, and well in the end",
	 test_chance},
};

int main(void)
{
	nothing_said();
	return fm_test_main("supervisor", tests, sizeof(tests) / sizeof(tests[0]));
}
