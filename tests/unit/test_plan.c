/* SPDX-License-Identifier: MIT */
/*
 * plan: the next step towards what is wanted. A list of situations written as words, and a small
 * model of the kernel where steps are carried out from random beginnings.
 *
 * links: fm_nvmetcp
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "nvmetcp/plan.h"
#include "tests/fm_test.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NQN "nqn.2026-01.org.fmove:data"
#define HOST "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
#define POINT "/srv/data"
#define WORLD_MAX 16

/* A machine: what the kernel has, and what the supervisor knows of it. */
struct world {
	struct fm_inv_controller controller[WORLD_MAX];
	struct fm_inv_subsystem subsystem[2];		/* ours, another one */
	struct fm_inv_namespace ns[WORLD_MAX];
	struct fm_inventory inv;
	struct fm_mount mount[WORLD_MAX];
	struct fm_mounts mounts;
	char text[4 * WORLD_MAX][96];			/* of the mounts */
	unsigned text_count;
	int mount_id;
	char owned[WORLD_MAX][32];
	struct fm_volume volume;
	struct fm_volume_address address[2];		/* A and B */
	bool is_held[2];
	struct fm_plan_device had[2];
	struct fm_plan_volume pv;
};

static void world_begin(struct world *w)
{
	memset(w, 0, sizeof(*w));
	strcpy(w->subsystem[0].nqn, NQN);
	strcpy(w->subsystem[1].nqn, "other");
	w->inv = (struct fm_inventory){.controllers = w->controller,
				       .subsystems = w->subsystem,
				       .subsystem_count = 2,
				       .namespaces = w->ns};
	w->mounts.mounts = w->mount;
	w->volume = (struct fm_volume){.name = "data",
				       .subsystem = NQN,
				       .uuid = "",
				       .nguid = "",
				       .mount_point = POINT,
				       .fs_type = "",
				       .mount_options = "",
				       .mode = FM_VOLUME_EXCLUSIVE,
				       .writer = "n1"};
	w->address[0] = (struct fm_volume_address){ "10.0.0.1", "4420" };
	w->address[1] = (struct fm_volume_address){ "fd00::2", "4421" };
	w->pv = (struct fm_plan_volume){.volume = &w->volume,
					.want = FM_WANT_UP,
					.host_nqn = HOST,
					.is_writable = true,
					.address = w->address,
					.address_count = 1,
					.is_held = w->is_held,
					.owned = (const char(*)[32])w->owned,
					.had = w->had};
}

/* ---- words ---- */

static void set_address(struct fm_inv_controller *c, char letter)
{
	static const struct { char letter; const char *host, *port; } places[] = {
		{ 'A', "10.0.0.1", "4420" }, { 'B', "fd00::2", "4421" },	/* the volume's */
		/* B as others may write it */
		{ 'b', "FD00:0::2", "4421" },
		{ 'p', "10.0.0.1", "4421" }, { 'X', "10.0.0.9", "4420" },
	};

	for (size_t i = 0; i < COUNT(places); i++) {
		if (places[i].letter != letter)
			continue;
		strcpy(c->traddr, places[i].host);
		strcpy(c->trsvcid, places[i].port);
	}
}

/* "nvme1=live@A*": name, state, address; * owned, h another host, s another subsystem, ? subsystem
 * unreadable, o RDMA. */
static void add_controller(struct world *w, const char *word)
{
	struct fm_inv_controller *c = &w->controller[w->inv.controller_count++];
	char letter, flags[16] = "";

	if (sscanf(word, "%31[^=]=%31[^@]@%c%15s", c->name, c->state, &letter, flags) < 3)
		abort();
	for (char *at = c->state; *at; at++)
		*at = *at == '_' ? ' ' : *at;
	strcpy(c->transport, strchr(flags, 'o') ? "rdma" : "tcp");
	strcpy(c->subsysnqn, strchr(flags, 's') ? "other" : strchr(flags, '?') ? "(efault)" : NQN);
	strcpy(c->hostnqn, strchr(flags, 'h') ? "nqn.another-host" : HOST);
	c->subsystem = strchr(flags, 's') ? 1 : 0;
	set_address(c, letter);
	if (strchr(flags, '*'))
		strcpy(w->owned[w->pv.owned_count++], c->name);
}

static void fill_in(struct fm_inv_namespace *ns, char letter)
{
	char uuid[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (char *at = uuid; *at; at++)
		*at = *at == 'x' ? letter : *at;
	strcpy(ns->uuid, uuid);
	snprintf(ns->wwid, sizeof(ns->wwid), "uuid.%s", uuid);
	ns->size_bytes = 1u << 30;
}

static unsigned minor_of(const char *device)
{
	unsigned a = 0, b = 0;

	sscanf(device, "nvme%un%u", &a, &b);
	return a * 16 + b;
}

/*
 * "nvme0n1=1a": device, number, letter of the UUID ('-': nothing filled in yet). i: ANA
 * inaccessible, s: another subsystem, 1 or 2: only the first or second controller is its path. Else
 * all of the subsystem are.
 */
static void add_namespace(struct world *w, const char *word)
{
	struct fm_inv_namespace *ns = &w->ns[w->inv.namespace_count++];
	char letter, flags[16] = "";

	if (sscanf(word, "%31[^=]=%u%c%15s", ns->name, &ns->nsid, &letter, flags) < 3)
		abort();
	ns->dev = makedev(259, minor_of(ns->name));
	ns->subsystem = strchr(flags, 's') ? 1 : 0;
	if (letter != '-')
		fill_in(ns, letter);
	for (unsigned i = 0; i < w->inv.controller_count; i++) {
		if (w->controller[i].subsystem != ns->subsystem ||
		    (strpbrk(flags, "12") && *strpbrk(flags, "12") != (char)('1' + i)))
			continue;
		strcpy(ns->path[ns->path_count].ana_state,
		       strchr(flags, 'i') ? "inaccessible" : "optimized");
		ns->path[ns->path_count++].controller = (int)i;
	}
}

static char *keep(struct world *w, const char *text)
{
	assert(w->text_count < COUNT(w->text));
	snprintf(w->text[w->text_count], sizeof(w->text[0]), "%s", text);
	return w->text[w->text_count++];
}

/* "/dev/nvme0n1@/srv/data=rw": source, point, rw or ro; part: of a directory of it; btrfs: a
 * subvolume, with a number of its own; fuse: a user says that source. */
static void add_mount(struct world *w, const char *word)
{
	static char root[] = "/", directory[] = "/dir", type[] = "ext4", btrfs[] = "btrfs",
		    fuse[] = "fuse.x";
	struct fm_mount *m = &w->mount[w->mounts.count];
	const struct fm_mount *below;
	char source[64], point[64], how[16];
	bool is_btrfs, is_fuse;

	if (sscanf(word, "%63[^@]@%63[^=]=%15s", source, point, how) != 3)
		abort();
	below = fm_mounts_at(&w->mounts, point);
	is_btrfs = strcmp(how, "btrfs") == 0;
	is_fuse = strcmp(how, "fuse") == 0;
	*m = (struct fm_mount){.id = ++w->mount_id,
			       .parent = below ? below->id : 0,
			       .fs_type = is_btrfs ? btrfs : is_fuse ? fuse : type,
			       .root = is_btrfs || strcmp(how, "part") == 0 ? directory : root,
			       .is_read_only = strcmp(how, "ro") == 0};
	m->source = keep(w, source);
	m->point = keep(w, point);
	m->options = m->root;
	w->mounts.count++;
	m->dev = strncmp(source, "/dev/nvme", 9) == 0 && !strchr(source + 9, 'p')
			 ? makedev(259, minor_of(source + 5))
			 : makedev(8, 1);
	if (is_btrfs || is_fuse)
		m->dev = makedev(0, (unsigned)(60 + w->mount_id));
}

static void for_each_word(struct world *w, const char *words,
			  void (*add)(struct world *, const char *))
{
	char copy[256], *rest;

	snprintf(copy, sizeof(copy), "%s", words);
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		add(w, word);
}

/* ---- situations ---- */

/* clang-format off */
static void one_path(struct world *w) { (void)w; }
static void two_paths(struct world *w) { w->pv.address_count = 2; }
static void first_held(struct world *w) { two_paths(w); w->is_held[0] = true; }
static void both_held(struct world *w) { first_held(w); w->is_held[1] = true; }
static void mount_held(struct world *w) { two_paths(w); w->pv.is_mount_held = true; }
static void read_only(struct world *w) { w->pv.is_writable = false; }
static void no_mount(struct world *w) { w->volume.mount_point = ""; }
static void connected(struct world *w) { w->pv.want = FM_WANT_CONNECTED; }
static void down(struct world *w) { w->pv.want = FM_WANT_DOWN; }
static void uuid_a(struct world *w) { w->volume.uuid = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"; }
static void number_2(struct world *w) { w->volume.nsid = 2; }
static void had(struct world *w)
{
	w->had[w->pv.had_count].dev = makedev(259, minor_of("nvme0n1"));
	strcpy(w->had[w->pv.had_count++].name, "nvme0n1");
}
static void had_before(struct world *w) { had(w); w->had[0].dev = makedev(259, 999); }
static void had_down(struct world *w) { had(w); down(w); }
static void uuid_a_down(struct world *w) { uuid_a(w); down(w); }
static void uuid_a_had_down(struct world *w) { uuid_a(w); had(w); down(w); }
static void discovered(struct world *w) { w->volume.is_discovered = true; }
static void not_resolved(struct world *w) { w->pv.address_count = 0; }
static void not_discovered(struct world *w) { discovered(w); w->pv.address_count = 0; }
/* Dialled is A; what the target advertises is X, and only discovery would say so. */
static void advertised(struct world *w) { discovered(w); w->address[0].host = "10.0.0.9"; }
/* clang-format on */

#define LIVE "nvme1=live@A*"
#define BOTH "nvme1=live@A* nvme2=live@B*"
#define NS "nvme0n1=1a"
#define UP_RW "/dev/nvme0n1@" POINT "=rw"
#define UP_RO "/dev/nvme0n1@" POINT "=ro"
#define UP_BTRFS "/dev/nvme0n1@" POINT "=btrfs"

static const struct situation {
	const char *name;
	void (*change)(struct world *w);
	const char *controllers, *namespaces, *mounts;
	enum fm_plan_step step;
	const char *says;		/* a part of why */
} situations[] = {
	/* connecting */
	{"first connect", one_path, "", "", "", FM_STEP_CONNECT, "10.0.0.1:4420"},
	{"the first path does not answer: the second", first_held, "", "", "", FM_STEP_CONNECT,
	 "fd00::2:4421"},
	{"neither answers", both_held, "", "", "", FM_STEP_WAIT,
	 "10.0.0.1:4420 could not be connected"},
	{"another subsystem at that address", one_path, "nvme1=live@As", "nvme0n1=1as", "",
	 FM_STEP_CONNECT, "10.0.0.1:4420"},
	{"the subsystem at another port", one_path, "nvme1=live@p", "", "", FM_STEP_CONNECT,
	 "10.0.0.1:4420"},
	{"as another host", one_path, "nvme1=live@Ah", "", "", FM_STEP_CONNECT, "10.0.0.1:4420"},
	{"over RDMA", one_path, "nvme1=live@Ao", "", "", FM_STEP_CONNECT, "10.0.0.1:4420"},
	{"connecting", one_path, "nvme1=connecting@A*", "", "", FM_STEP_WAIT,
	 "nvme1 (10.0.0.1:4420) is connecting"},
	{"connecting, its subsystem not known", one_path, "nvme1=connecting@A*?", "", "",
	 FM_STEP_WAIT, "is connecting"},
	{"somebody's, its subsystem not known", one_path, "nvme1=connecting@A?", "", "",
	 FM_STEP_CONNECT, "10.0.0.1"},
	{"resetting", one_path, "nvme1=resetting@A", "", "", FM_STEP_WAIT, "resetting"},
	{"deleting: not a second one beside it", one_path, "nvme1=deleting@A*", "", "",
	 FM_STEP_WAIT, "deleting"},
	{"deleting without I/O", one_path, "nvme1=deleting_(no_IO)@A*", "", "", FM_STEP_WAIT,
	 "deleting (no IO)"},
	{"dead", one_path, "nvme1=dead@A*", "", "", FM_STEP_WAIT, "nvme1 (10.0.0.1:4420) is dead"},
	{"one goes and another is there", one_path, "nvme1=deleting@A* nvme2=live@A*", NS, "",
	 FM_STEP_MOUNT, "nvme0n1"},
	{"the controller is gone (ctrl_loss_tmo), not mounted", one_path, "", "", "",
	 FM_STEP_CONNECT, "10.0.0.1"},
	{"discovery has not answered", not_discovered, "", "", "", FM_STEP_WAIT,
	 "discovery has not found"},
	{"its name cannot be resolved", not_resolved, "", "", "", FM_STEP_WAIT,
	 "is not resolved yet"},
	{"the same, and all is there", not_resolved, LIVE, NS, UP_RW, FM_STEP_WAIT,
	 "is not resolved yet"},
	{"the same, connected and not mounted", not_resolved, LIVE, NS, "", FM_STEP_MOUNT,
	 "nvme0n1"},
	{"discovered", discovered, "", "", "", FM_STEP_CONNECT, "10.0.0.1:4420"},
	{"advertised under another address: discovery's", advertised, "", "", "", FM_STEP_CONNECT,
	 "10.0.0.9:4420"},
	{"advertised under another address: the one dialled", one_path, "nvme1=live@X", "", "",
	 FM_STEP_CONNECT, "10.0.0.1:4420"},
	/* the namespace */
	{"no namespace yet", one_path, LIVE, "", "", FM_STEP_WAIT,
	 "no namespace for this host yet"},
	{"a namespace that is not filled in", one_path, LIVE, "nvme0n1=1-", "", FM_STEP_WAIT,
	 "nvme0n1 is not ready"},
	{"several, none named", one_path, LIVE, "nvme0n1=1a nvme0n2=2b", "", FM_STEP_REFUSE,
	 "(1: uuid.aaaa"},
	{"several, named by number", number_2, LIVE, "nvme0n1=1a nvme0n2=2b", "", FM_STEP_MOUNT,
	 "nvme0n2"},
	{"several, named by UUID", uuid_a, LIVE, "nvme0n1=1b nvme0n2=2a", "", FM_STEP_MOUNT,
	 "nvme0n2"},
	{"several, one not filled in yet", one_path, LIVE, "nvme0n1=1a nvme0n2=2-", "",
	 FM_STEP_WAIT, "nvme0n2 is not ready"},
	{"the same, the number is said", number_2, LIVE, "nvme0n2=2a nvme0n1=1-", "", FM_STEP_MOUNT,
	 "nvme0n2"},
	{"two targets with one name and one number", two_paths, BOTH, "nvme1n1=1a1 nvme2n1=1b2", "",
	 FM_STEP_REFUSE, "(1: uuid.aaaa"},
	{"the same, named by UUID", uuid_a, LIVE, "nvme2n1=1b nvme1n1=1a", "", FM_STEP_MOUNT,
	 "nvme1n1"},
	{"the named one is not there yet", uuid_a, LIVE, "nvme0n1=1b nvme0n2=2-", "", FM_STEP_WAIT,
	 "nvme0n2 is not ready"},
	{"its UUID has changed", uuid_a, LIVE, "nvme0n1=1b", "", FM_STEP_REFUSE,
	 "its UUID is bbbb"},
	{"its number has changed", number_2, LIVE, NS, "", FM_STEP_REFUSE, "its number is 1"},
	{"another one is mounted", uuid_a, LIVE, "nvme0n1=1b", UP_RW, FM_STEP_REFUSE,
	 "its UUID is bbbb"},
	{"another one is mounted, the right one there", uuid_a, LIVE, "nvme0n1=1b nvme0n2=2a",
	 UP_RW, FM_STEP_REFUSE, "it is mounted, unmount it"},
	{"another is added to the one that is mounted", one_path, LIVE, "nvme0n1=1a nvme0n2=2b",
	 UP_RW, FM_STEP_NONE, ""},
	{"the same UUID twice", uuid_a, LIVE, "nvme0n1=1a nvme0n2=2a", "", FM_STEP_REFUSE,
	 "several namespaces"},
	{"without native multipath: a device for each path", two_paths, BOTH,
	 "nvme1n1=1a1 nvme2n1=1a2", "", FM_STEP_MOUNT, "nvme1n1"},
	{"the same, the first path lost", two_paths, "nvme1=connecting@A* nvme2=live@B*",
	 "nvme1n1=1a1 nvme2n1=1a2", "", FM_STEP_MOUNT, "nvme2n1"},
	{"the same, mounted elsewhere by the other path", two_paths, BOTH,
	 "nvme1n1=1a1 nvme2n1=1a2", "/dev/nvme2n1@/mnt=rw", FM_STEP_REFUSE,
	 "nvme2n1 is mounted at /mnt"},
	{"of another subsystem", one_path, "nvme1=live@A* nvme2=live@Xs", "nvme9n1=1as", "",
	 FM_STEP_WAIT, "no namespace"},
	/* mounting */
	{"live, not mounted", one_path, LIVE, NS, "", FM_STEP_MOUNT, "nvme0n1"},
	{"adopted: somebody else connected it", one_path, "nvme5=live@A", NS, "", FM_STEP_MOUNT,
	 "nvme0n1"},
	{"the mount does not wait for the second path", two_paths, LIVE, NS, "", FM_STEP_MOUNT,
	 "nvme0n1"},
	{"the mount failed: the second path meanwhile", mount_held, LIVE, NS, "", FM_STEP_CONNECT,
	 "fd00::2:4421"},
	{"the mount failed and nothing else is missing", mount_held, BOTH, NS, "", FM_STEP_WAIT,
	 "could not be mounted"},
	{"the only path is connecting", one_path, "nvme1=connecting@A*", NS, "", FM_STEP_WAIT,
	 "is connecting"},
	{"ANA forbids the only path", one_path, LIVE, "nvme0n1=1ai", "", FM_STEP_WAIT,
	 "no path to nvme0n1 can be used"},
	{"mounted elsewhere", one_path, LIVE, NS, "/dev/nvme0n1@/mnt=rw", FM_STEP_REFUSE,
	 "nvme0n1 is mounted at /mnt, by somebody"},
	{"a partition of it is mounted", one_path, LIVE, NS, "/dev/nvme0n1p1@/mnt=rw",
	 FM_STEP_REFUSE, "mounted at /mnt"},
	{"mounted by somebody else before we are connected", one_path, "nvme5=live@X", NS,
	 "/dev/nvme0n1@/mnt=rw", FM_STEP_REFUSE, "mounted at /mnt"},
	{"something else at the mount point", one_path, "", "", "/dev/sda1@" POINT "=rw",
	 FM_STEP_REFUSE, "something else is mounted at " POINT},
	{"another namespace at the mount point", one_path, "nvme2=live@Xs", "nvme9n1=1as",
	 "/dev/nvme9n1@" POINT "=rw", FM_STEP_REFUSE, "/dev/nvme9n1"},
	{"a partition of a local disk there", one_path, "", "", "/dev/nvme7n1p2@" POINT "=rw",
	 FM_STEP_REFUSE, "something else"},
	{"a directory of it there", one_path, LIVE, NS, "/dev/nvme0n1@" POINT "=part",
	 FM_STEP_REFUSE, "something else"},
	{"something on top of it", one_path, LIVE, NS, UP_RW " tmpfs@" POINT "=rw", FM_STEP_REFUSE,
	 "tmpfs"},
	/* up */
	{"as wanted", one_path, LIVE, NS, UP_RW, FM_STEP_NONE, ""},
	{"as wanted, read-only", read_only, LIVE, NS, UP_RO, FM_STEP_NONE, ""},
	{"as wanted, and somebody binds a part of it", one_path, LIVE, NS,
	 UP_RW " /dev/nvme0n1@/c/data=part", FM_STEP_NONE, ""},
	{"without a mount point", no_mount, LIVE, NS, "", FM_STEP_NONE, ""},
	{"without a mount point, used by somebody", no_mount, LIVE, NS, "/dev/nvme0n1@/mnt=rw",
	 FM_STEP_NONE, ""},
	{"connected only", connected, LIVE, NS, "", FM_STEP_NONE, ""},
	{"connected only, but mounted", connected, LIVE, NS, UP_RW, FM_STEP_UNMOUNT,
	 "to be connected only"},
	{"mounted, the second path missing", two_paths, LIVE, NS, UP_RW, FM_STEP_CONNECT,
	 "fd00::2:4421"},
	{"mounted, the second path missing and not answering", both_held, LIVE, NS, UP_RW,
	 FM_STEP_WAIT, "fd00::2:4421 could not"},
	{"mounted, a short loss is the kernel's", one_path, "nvme1=connecting@A*", NS, UP_RW,
	 FM_STEP_WAIT, "is connecting"},
	{"mounted, one of two paths connecting", two_paths, "nvme1=live@A* nvme2=connecting@B*", NS,
	 UP_RW, FM_STEP_WAIT, "nvme2"},
	{"the second path written in another way", two_paths, "nvme1=live@A* nvme2=live@b", NS,
	 UP_RW, FM_STEP_NONE, ""},
	{"read-write wanted, mounted read-only (after an error)", one_path, LIVE, NS, UP_RO,
	 FM_STEP_UNMOUNT, "after an error"},
	{"read-only wanted, mounted read-write", read_only, LIVE, NS, UP_RW, FM_STEP_UNMOUNT,
	 "must be read-only"},
	{"the device is gone, the mount is there", had, "", "", UP_RW, FM_STEP_UNMOUNT,
	 "the device of " POINT " is gone"},
	{"the same, a new device with another number is there", had, LIVE, "nvme3n1=1a", UP_RW,
	 FM_STEP_UNMOUNT, "is gone"},
	{"the same, a btrfs", had, LIVE, "nvme3n1=1a", UP_BTRFS, FM_STEP_UNMOUNT, "is gone"},
	{"a btrfs of what has the name of one that is gone", had_before, "nvme1=live@As",
	 "nvme0n1=1bs", UP_BTRFS, FM_STEP_REFUSE, "something else is mounted"},
	{"a btrfs of the one that is gone", had_before, "", "", UP_BTRFS, FM_STEP_UNMOUNT,
	 "is gone"},
	{"a device is gone that the volume never had", one_path, "", "", UP_RW, FM_STEP_REFUSE,
	 "something else is mounted"},
	{"the same, and it may have had it", one_path, "", "", UP_RW, FM_STEP_REFUSE,
	 "(it may be the volume's own, whose device is gone)"},
	{"a local disk's btrfs is there", had, LIVE, NS, "/dev/nvme7n1@" POINT "=btrfs",
	 FM_STEP_REFUSE, "something else is mounted"},
	{"mounted, a btrfs", one_path, LIVE, NS, UP_BTRFS, FM_STEP_NONE, ""},
	{"a btrfs of it, mounted elsewhere", one_path, LIVE, NS, "/dev/nvme0n1@/mnt=btrfs",
	 FM_STEP_REFUSE, "nvme0n1 is mounted at /mnt, by somebody else"},
	{"a user's FUSE says that it is of the device", one_path, LIVE, NS,
	 "/dev/nvme0n1@/home/x=fuse", FM_STEP_MOUNT, "nvme0n1"},
	{"the same of a partition", one_path, LIVE, NS, "/dev/nvme0n1p1@/home/x=fuse",
	 FM_STEP_MOUNT, "nvme0n1"},
	{"a path that is no longer wanted", one_path, "nvme1=live@A* nvme2=live@B*", NS, UP_RW,
	 FM_STEP_DISCONNECT, "nvme2"},
	{"the same, somebody else's", one_path, "nvme1=live@A* nvme2=live@B", NS, UP_RW,
	 FM_STEP_NONE, ""},
	{"the same, while the wanted one is not live", one_path,
	 "nvme1=connecting@A* nvme2=live@B*", NS, UP_RW, FM_STEP_WAIT, "nvme1"},
	{"one path twice: somebody raced us", one_path, "nvme1=live@A nvme2=live@A*", NS, UP_RW,
	 FM_STEP_DISCONNECT, "nvme2"},
	{"the second of two devices is in use", one_path, "nvme1=live@A nvme2=live@A*",
	 "nvme1n1=1a1 nvme2n1=1a2", "/dev/nvme2n1@" POINT "=rw", FM_STEP_NONE, ""},
	/* down */
	{"down: nothing there", down, "", "", "", FM_STEP_NONE, ""},
	{"down: mounted", down, LIVE, NS, UP_RW, FM_STEP_UNMOUNT, "to be down"},
	{"down: unmounted, ours", down, LIVE, NS, "", FM_STEP_DISCONNECT, "nvme1"},
	{"down: connecting, ours", down, "nvme1=connecting@A*", NS, "", FM_STEP_DISCONNECT,
	 "nvme1"},
	{"down: deleting", down, "nvme1=deleting@A*", "", "", FM_STEP_WAIT, "nvme1 is deleting"},
	{"down: somebody else's stays", down, "nvme5=live@A", NS, "", FM_STEP_NONE, ""},
	{"down: somebody else's, mounted by us", down, "nvme5=live@A", NS, UP_RW, FM_STEP_UNMOUNT,
	 "to be down"},
	{"down: our name is another's by now", down, "nvme1=live@A*s", "nvme0n1=1as", "",
	 FM_STEP_NONE, ""},
	{"down: mounted elsewhere by somebody", down, LIVE, NS, "/dev/nvme0n1@/mnt=rw",
	 FM_STEP_REFUSE, "mounted at /mnt"},
	{"down: mounted elsewhere, not ours at all", down, "nvme5=live@A", NS,
	 "/dev/nvme0n1@/mnt=rw", FM_STEP_NONE, ""},
	{"down: the device is gone, the mount is there", had_down, "", "", UP_RW, FM_STEP_UNMOUNT,
	 "is gone"},
	{"down: a device is gone that the volume never had", down, "", "", UP_RW, FM_STEP_NONE, ""},
	{"down: a local disk's btrfs stays", had_down, "", "", "/dev/nvme7n1@" POINT "=btrfs",
	 FM_STEP_NONE, ""},
	{"down: a btrfs", down, LIVE, NS, UP_BTRFS, FM_STEP_UNMOUNT, "to be down"},
	{"down: another namespace that somebody mounted there", uuid_a_down, LIVE, "nvme0n1=1b",
	 UP_RW, FM_STEP_REFUSE, "nvme0n1 is mounted at " POINT ", by somebody else"},
	{"down: the same, connected by somebody else", uuid_a_down, "nvme5=live@A", "nvme0n1=1b",
	 UP_RW, FM_STEP_NONE, ""},
	{"down: another namespace, which the volume had before", uuid_a_had_down, LIVE,
	 "nvme0n1=1b", UP_RW, FM_STEP_UNMOUNT, "to be down"},
	{"down: it is not known which namespace it is", uuid_a_down, LIVE, "nvme0n1=1-", UP_RW,
	 FM_STEP_UNMOUNT, "to be down"},
	{"down: something else at the mount point stays", down, "", "", "/dev/sda1@" POINT "=rw",
	 FM_STEP_NONE, ""},
	{"down: of two, ours only", down, "nvme1=live@A nvme2=live@B*", NS, "", FM_STEP_DISCONNECT,
	 "nvme2"},
};

static void plan(const struct world *w, struct fm_plan *out)
{
	fm_plan_make(&w->pv, &w->inv, &w->mounts, out);
}

static void test_situations(void)
{
	for (size_t i = 0; i < COUNT(situations); i++) {
		const struct situation *t = &situations[i];
		struct fm_plan p;
		struct world w;
		bool is_right;

		world_begin(&w);
		for_each_word(&w, t->controllers, add_controller);
		for_each_word(&w, t->namespaces, add_namespace);
		for_each_word(&w, t->mounts, add_mount);
		t->change(&w);
		plan(&w, &p);
		is_right = p.step == t->step && strstr(p.why, t->says) && (t->says[0] || !p.why[0]);
		if (!is_right)
			printf("\n    %s: gave step %d: %s\n", t->name, p.step, p.why);
		CU_ASSERT_TRUE(is_right);
		CU_ASSERT_EQUAL(p.address >= 0, p.step == FM_STEP_CONNECT);
		CU_ASSERT_EQUAL(p.controller >= 0, p.step == FM_STEP_DISCONNECT);
		CU_ASSERT_TRUE(p.step != FM_STEP_MOUNT || p.ns >= 0);
	}
}

static void test_figures(void)
{
	struct fm_plan p;
	struct world w;

	world_begin(&w);
	two_paths(&w);
	for_each_word(&w, "nvme1=connecting@A* nvme2=live@b", add_controller);
	add_namespace(&w, NS);
	add_mount(&w, UP_RW);
	plan(&w, &p);
	CU_ASSERT_EQUAL(p.paths_wanted, 2);
	CU_ASSERT_EQUAL(p.paths_live, 1);
	CU_ASSERT_EQUAL(p.ns, 0);
	CU_ASSERT_TRUE(p.is_mounted && p.is_read_write);
	w.mount[0].is_read_only = true;
	down(&w);
	plan(&w, &p);
	CU_ASSERT_TRUE(p.step == FM_STEP_UNMOUNT && p.is_mounted && !p.is_read_write);
}

/* Goal: a live path without a namespace that may be the volume's is told, and no other. */
static void test_blind(void)
{
	static const struct {
		void (*change)(struct world *w);
		const char *controllers, *namespaces;
		unsigned count;
		int first;
	} cases[] = {
		{one_path, LIVE, NS, 0, 0},
		{one_path, LIVE, "", 1, 0},
		{one_path, LIVE, "nvme0n1=1-", 0, 0},
		{one_path, "nvme1=connecting@A*", "", 0, 0},
		{two_paths, BOTH, "nvme0n1=1a1", 1, 1},
		{two_paths, BOTH, "nvme0n1=1as", 2, 0},
		{uuid_a, LIVE, "nvme0n1=1b", 1, 0},
		{number_2, LIVE, "nvme0n1=1a nvme0n2=2b", 0, 0},
		{one_path, "nvme1=live@A* nvme2=live@X*", NS, 0, 0},
	};
	struct fm_plan p;
	struct world w;

	for (size_t i = 0; i < COUNT(cases); i++) {
		world_begin(&w);
		for_each_word(&w, cases[i].controllers, add_controller);
		for_each_word(&w, cases[i].namespaces, add_namespace);
		cases[i].change(&w);
		plan(&w, &p);
		CU_ASSERT_EQUAL(p.blind_count, cases[i].count);
		CU_ASSERT_TRUE(p.blind_count == 0 || p.blind[0] == cases[i].first);
	}
	world_begin(&w);
	for_each_word(&w, LIVE, add_controller);
	w.inv.is_cut = true;
	plan(&w, &p);
	CU_ASSERT_EQUAL(p.blind_count, 0);
}

/* What a target or a mount table calls itself reaches the log and the terminal. */
static void test_no_control_characters(void)
{
	struct fm_plan p;
	struct world w;

	world_begin(&w);
	add_mount(&w, "tmp\x1b[2J\n@" POINT "=rw");
	plan(&w, &p);
	CU_ASSERT_EQUAL(p.step, FM_STEP_REFUSE);
	CU_ASSERT_PTR_NULL(strpbrk(p.why, "\x1b\n"));
}

/* ---- a model of the kernel, for steps that are carried out ---- */

static unsigned random_below(uint64_t *state, unsigned n)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (unsigned)((*state >> 33) % n);
}

static void remove_controller(struct world *w, int at)
{
	unsigned kept = 0;

	w->controller[at] = w->controller[--w->inv.controller_count];
	for (unsigned i = 0; i < w->inv.namespace_count; i++) {
		struct fm_inv_namespace *ns = &w->ns[i];
		unsigned paths = 0;

		for (unsigned p = 0; p < ns->path_count; p++) {
			if (ns->path[p].controller == at)
				continue;
			if (ns->path[p].controller == (int)w->inv.controller_count)
				ns->path[p].controller = at;
			ns->path[paths++] = ns->path[p];
		}
		ns->path_count = paths;
		if (paths > 0)
			w->ns[kept++] = *ns;
	}
	w->inv.namespace_count = kept;
}

static bool has_namespace(const struct world *w)
{
	for (unsigned i = 0; i < w->inv.namespace_count; i++)
		if (w->ns[i].subsystem == 0)
			return true;
	return false;
}

static bool has_controller(const struct world *w)
{
	for (unsigned i = 0; i < w->inv.controller_count; i++)
		if (w->controller[i].subsystem == 0)
			return true;
	return false;
}

/* Time passes: what comes is there, what goes is gone, what was not filled in is, what is held may
 * be tried again. */
static void pass_time(struct world *w)
{
	for (int i = (int)w->inv.controller_count - 1; i >= 0; i--) {
		struct fm_inv_controller *c = &w->controller[i];

		if (strncmp(c->state, "deleting", 8) == 0 || strcmp(c->state, "dead") == 0) {
			remove_controller(w, i);
			continue;
		}
		strcpy(c->state, "live");
		strcpy(c->subsysnqn, c->subsystem == 0 ? NQN : "other");
	}
	for (unsigned i = 0; i < w->inv.namespace_count; i++) {
		struct fm_inv_namespace *ns = &w->ns[i];

		if (!ns->wwid[0])
			fill_in(ns, 'a');
		for (unsigned p = 0; p < ns->path_count; p++)
			strcpy(ns->path[p].ana_state, "optimized");
	}
	if (has_controller(w) && !has_namespace(w))
		add_namespace(w, "nvme8n1=1-");
	memset(w->is_held, 0, sizeof(w->is_held));
	w->pv.is_mount_held = false;
}

static void add_path(struct world *w, unsigned controller)
{
	for (unsigned i = 0; i < w->inv.namespace_count; i++)
		if (w->ns[i].subsystem == 0)
			w->ns[i].path[w->ns[i].path_count++].controller = (int)controller;
}

static void do_connect(struct world *w, const struct fm_plan *p, uint64_t *seed)
{
	char word[64];

	for (unsigned i = 0; i < w->inv.controller_count; i++) {
		const struct fm_inv_controller *c = &w->controller[i];

		/* One path never gets two. */
		CU_ASSERT_FALSE(strcmp(c->subsysnqn, NQN) == 0 && strcmp(c->hostnqn, HOST) == 0 &&
				strcmp(c->transport, "tcp") == 0 &&
				strcmp(c->trsvcid, w->address[p->address].port) == 0 &&
				(strcmp(c->traddr, w->address[p->address].host) == 0 ||
				 c->traddr[0] == 'F'));
	}
	CU_ASSERT_FALSE(w->is_held[p->address]);
	if (random_below(seed, 3) == 0) {
		w->is_held[p->address] = true;	/* it failed */
		return;
	}
	snprintf(word, sizeof(word), "nvme%u=connecting@%c*", 40 + w->pv.owned_count,
		 'A' + p->address);
	add_controller(w, word);
	add_path(w, w->inv.controller_count - 1);
}

static bool is_other_uuid(const struct world *w, const struct fm_inv_namespace *ns)
{
	return w->volume.uuid[0] && strcmp(ns->uuid, w->volume.uuid) != 0;
}

static void do_mount(struct world *w, const struct fm_plan *p, uint64_t *seed)
{
	const struct fm_inv_namespace *ns = &w->ns[p->ns];
	char word[96];

	CU_ASSERT_TRUE(ns->wwid[0] && ns->subsystem == 0 && !is_other_uuid(w, ns));
	CU_ASSERT_TRUE(w->volume.nsid == 0 || ns->nsid == w->volume.nsid);
	CU_ASSERT_TRUE(!fm_mounts_at(&w->mounts, POINT) &&
		       !fm_mounts_of(&w->mounts, ns->dev, NULL));
	if (random_below(seed, 3) == 0) {
		w->pv.is_mount_held = true;
		return;
	}
	snprintf(word, sizeof(word), "/dev/%s@" POINT "=%s", ns->name,
		 w->pv.is_writable ? "rw" : "ro");
	add_mount(w, word);
}

/* By its identity, or as it was seen before. */
static bool is_the_volumes(const struct world *w, const struct fm_mount *m)
{
	for (unsigned i = 0; i < w->pv.had_count; i++)
		if (fm_mount_is_of(m, w->had[i].dev, w->had[i].name))
			return true;
	for (unsigned i = 0; i < w->inv.namespace_count; i++) {
		const struct fm_inv_namespace *ns = &w->ns[i];

		if (fm_mount_is_of(m, ns->dev, ns->name))
			return (major(m->dev) == 0 || strcmp(m->root, "/") == 0) &&
			       ns->subsystem == 0 && (!ns->wwid[0] || !is_other_uuid(w, ns)) &&
			       (w->volume.nsid == 0 || ns->nsid == w->volume.nsid);
	}
	return false;
}

static void do_unmount(struct world *w)
{
	const struct fm_mount *m = fm_mounts_at(&w->mounts, POINT);

	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	CU_ASSERT_TRUE(is_the_volumes(w, m));
	for (size_t i = (size_t)(m - w->mount) + 1; i < w->mounts.count; i++)
		w->mount[i - 1] = w->mount[i];
	w->mounts.count--;
}

static void do_disconnect(struct world *w, const struct fm_plan *p)
{
	const struct fm_inv_controller *c = &w->controller[p->controller];
	bool is_owned = false;

	for (unsigned i = 0; i < w->pv.owned_count; i++)
		is_owned = is_owned || strcmp(w->owned[i], c->name) == 0;
	CU_ASSERT_TRUE(is_owned && c->subsystem == 0 && strcmp(c->hostnqn, HOST) == 0);
	for (unsigned i = 0; i < w->inv.namespace_count; i++)	/* no mount loses its last path */
		CU_ASSERT_FALSE(w->ns[i].path_count == 1 &&
				w->ns[i].path[0].controller == p->controller &&
				fm_mounts_of(&w->mounts, w->ns[i].dev, NULL));
	remove_controller(w, p->controller);
}

static void random_world(struct world *w, uint64_t *seed)
{
	static const char *const states[] = {"live",	  "live", "live",     "connecting",
					     "resetting", "new",  "deleting", "deleting_(no_IO)",
					     "dead"};
	static const char *const flags[] = {"*", "*", "", "", "h", "*h", "s", "*s", "*?", "?", "o"};
	static const char *const namespaces[] = {"nvme0n1=1a",	"nvme0n1=1b", "nvme0n1=1-",
						 "nvme0n2=2a",	"nvme0n2=2b", "nvme9n1=1as",
						 "nvme1n1=1a1", "nvme0n1=1ai"};
	static const char *const mounts[] = {
		"/dev/nvme0n1@" POINT "=rw",  "/dev/nvme0n1@" POINT "=ro",
		"/dev/nvme0n2@" POINT "=rw",  "/dev/nvme5n1@" POINT "=rw",
		"/dev/nvme9n1@" POINT "=rw",  "/dev/sda1@" POINT "=rw",
		"/dev/nvme0n1@/mnt=rw",	      "/dev/nvme0n1p1@/mnt=rw",
		"/dev/nvme0n1@" POINT "=part", "/dev/nvme0n1@" POINT "=btrfs",
		"/dev/nvme7n1@" POINT "=btrfs", "/dev/nvme0n1@/mnt=fuse"};
	static void (*const changes[])(struct world *) = {one_path,  two_paths, read_only, no_mount,
							  connected, down,	uuid_a,	   number_2,
							  both_held, mount_held, had};
	char word[64];

	world_begin(w);
	for (unsigned n = random_below(seed, 4); n > 0; n--) {
		snprintf(word, sizeof(word), "nvme%u=%s@%c%s", n,
			 states[random_below(seed, COUNT(states))], "AABbXp"[random_below(seed, 6)],
			 flags[random_below(seed, COUNT(flags))]);
		add_controller(w, word);
	}
	for (unsigned n = random_below(seed, 3); n > 0 && w->inv.controller_count > 0; n--) {
		const char *ns = namespaces[random_below(seed, COUNT(namespaces))];

		if (w->inv.namespace_count == 0 || strncmp(w->ns[0].name, ns, 7) != 0)
			add_namespace(w, ns);
		if (w->inv.namespace_count > 0 && w->ns[w->inv.namespace_count - 1].path_count == 0)
			w->inv.namespace_count--;	/* a device has a path */
	}
	for (unsigned n = random_below(seed, 3); n > 0; n--)
		add_mount(w, mounts[random_below(seed, COUNT(mounts))]);
	for (unsigned n = random_below(seed, 4); n > 0; n--)
		changes[random_below(seed, COUNT(changes) - (w->pv.had_count > 0))](w);
}

/* The end of a plan: what NONE claims is so. */
static bool is_as_wanted(const struct world *w, const struct fm_plan *p)
{
	const struct fm_mount *there = fm_mounts_at(&w->mounts, POINT);

	if (w->pv.want == FM_WANT_DOWN)
		return !p->is_mounted;
	if (p->paths_live != p->paths_wanted || p->ns < 0)
		return false;
	if (w->pv.want == FM_WANT_CONNECTED || !w->volume.mount_point[0])
		return !p->is_mounted;
	return there && fm_mount_is_of(there, w->ns[p->ns].dev, w->ns[p->ns].name) &&
	       p->is_mounted && p->is_read_write == w->pv.is_writable;
}

#define STEPS_MAX 60

static enum fm_plan_step run_plan(struct world *w, uint64_t *seed)
{
	struct fm_plan p = { .step = FM_STEP_WAIT };

	for (unsigned n = 0; n < STEPS_MAX; n++) {
		plan(w, &p);
		switch (p.step) {
		case FM_STEP_NONE:
			CU_ASSERT_TRUE(is_as_wanted(w, &p));
			return p.step;
		case FM_STEP_REFUSE:
			CU_ASSERT_TRUE(p.why[0]);
			return p.step;
		case FM_STEP_WAIT:
			CU_ASSERT_TRUE(p.why[0]);
			pass_time(w);
			break;
		case FM_STEP_CONNECT:
			do_connect(w, &p, seed);
			break;
		case FM_STEP_MOUNT:
			do_mount(w, &p, seed);
			break;
		case FM_STEP_UNMOUNT:
			do_unmount(w);
			break;
		case FM_STEP_DISCONNECT:
			do_disconnect(w, &p);
			break;
		}
	}
	printf("\n    no end: step %d: %s\n", p.step, p.why);
	return FM_STEP_WAIT;
}

/*
 * Goal:   from wherever the machine is, the steps end: as wanted, or refused. On the way nothing is
 *         disconnected that is not ours, nothing mounted that is not the volume's, no path made
 *         twice, no mount robbed of its last path.
 * Method: random machines, steps carried out in a model where connects and mounts fail now and
 * then. Every 5th changes its mind at the end: then it must come down as well.
 */
static void test_steps_end(void)
{
	unsigned done = 0, refused = 0;

	for (unsigned i = 1; i <= 20000; i++) {
		uint64_t seed = i * UINT64_C(0x9e3779b97f4a7c15);
		unsigned failures = CU_get_number_of_failures();
		enum fm_plan_step end;
		struct world w;

		random_world(&w, &seed);
		end = run_plan(&w, &seed);
		if (end == FM_STEP_NONE && i % 5 == 0) {
			down(&w);
			end = run_plan(&w, &seed);
		}
		CU_ASSERT_TRUE(end == FM_STEP_NONE || end == FM_STEP_REFUSE);
		done += end == FM_STEP_NONE;
		refused += end == FM_STEP_REFUSE;
		if (CU_get_number_of_failures() != failures) {
			printf("\n    seed %u\n", i);
			return;
		}
	}
	/* The beginnings are of all kinds. */
	CU_ASSERT_TRUE(done > 4000 && refused > 4000);
}

static const struct fm_test tests[] = {
	{ "every situation has its step", test_situations },
	{ "paths are counted, the mount is told", test_figures },
	{ "a path that has no namespace for the volume is told", test_blind },
	{ "a refusal is one line without control characters", test_no_control_characters },
	{ "from anywhere the steps end, and harm nothing on the way", test_steps_end },
};

FM_TEST_MAIN("plan", tests)
