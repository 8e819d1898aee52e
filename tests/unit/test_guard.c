/* SPDX-License-Identifier: MIT */
/*
 * guard: who may mount what, and how. A list of situations; each begins as one that is fine and
 * says what is different.
 *
 * links: fm_nvmetcp
 */
#include <string.h>
#include <sys/sysmacros.h>

#include "nvmetcp/guard.h"
#include "nvmetcp/identity.h"
#include "nvmetcp/mounts.h"
#include "tests/fm_test.h"

#define UUID_A "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
#define UUID_B "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
#define NGUID_A "0123456789abcdef0123456789abcdef"
#define GIB (UINT64_C(1) << 30)

/* Everything a decision is made of. It begins as: n1 is the writer of an exclusive ext4, alone. */
struct scene {
	struct fm_volume volume;
	struct fm_inv_namespace ns;
	struct fm_superblock sb;
	struct fm_mount mount[2];
	struct fm_mounts mounts;
	struct fm_guard_peer peer[2];
	struct fm_guard_facts facts;
};

static void scene_begin(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->volume = (struct fm_volume){
		.name = "data",
		.subsystem = "disk1",
		.uuid = UUID_A,
		.nguid = "",
		.mount_point = "/srv/data",
		.fs_type = "",
		.mount_options = "",
		.mode = FM_VOLUME_EXCLUSIVE,
		.writer = "n1",
	};
	s->ns = (struct fm_inv_namespace){
		.name = "nvme0n1",
		.nsid = 1,
		.wwid = "uuid." UUID_A,
		.uuid = UUID_A,
		.nguid = NGUID_A,
		.size_bytes = GIB,
		.dev = makedev(259, 1),
	};
	s->sb = (struct fm_superblock){ .type = "ext4", .clean = FM_CLEAN };
	s->mounts.mounts = s->mount;
	s->facts = (struct fm_guard_facts){.node = "n1",
					   .volume = &s->volume,
					   .ns = &s->ns,
					   .sb = &s->sb,
					   .mounts = &s->mounts,
					   .peers = s->peer,
					   .peers_why = ""};
}

static void file_system(struct scene *s, const char *type, enum fm_superblock_clean clean)
{
	snprintf(s->sb.type, sizeof(s->sb.type), "%s", type);
	s->sb.clean = clean;
}

static void peer(struct scene *s, const char *node, const char *writer, const char *mounted)
{
	s->peer[s->facts.peer_count++] =
		(struct fm_guard_peer){.node = node,
				       .writer = writer,
				       .is_mounted = mounted[0] != '\0',
				       .is_read_write = strcmp(mounted, "rw") == 0,
				       .silent_why = "",
				       .counts = true,
				       .has_answered = true,
				       .names_it = writer[0] != '\0'};
}

static void mounted(struct scene *s, unsigned minor, char *point)
{
	static char root[] = "/", type[] = "ext4", source[] = "/dev/x\n", options[] = "rw";

	s->mount[s->mounts.count++] = (struct fm_mount){.dev = makedev(259, minor),
							.root = root,
							.point = point,
							.fs_type = type,
							.source = source,
							.options = options};
}

/* ---- what is different ---- */

/* clang-format off */
static void nothing(struct scene *s) { (void)s; }
static void another_node(struct scene *s) { s->facts.node = "n2"; }
static void no_writer(struct scene *s) { s->volume.writer = ""; }
static void shared(struct scene *s) { s->volume.mode = FM_VOLUME_SHARED_READ; }
static void shared_mmp(struct scene *s) { shared(s); s->sb.has_mmp = true; }
static void shared_xfs(struct scene *s) { shared(s); file_system(s, "xfs", FM_CLEAN_UNKNOWN); }
static void sealed(struct scene *s) { shared_mmp(s); s->facts.is_sealed = true; }
static void sealed_dirty(struct scene *s) { sealed(s); s->sb.clean = FM_UNCLEAN; }
static void unheard(struct scene *s) { shared_mmp(s); another_node(s); }
static void unheard_silent(struct scene *s)
{
	unheard(s);
	peer(s, "n1", "n1", "");
	s->peer[0].silent_why = "is not connected";
}
static void unheard_unnamed(struct scene *s) { unheard(s); peer(s, "n1", "", ""); }
static void unheard_lower(struct scene *s)
{
	unheard(s);
	peer(s, "n1", "n1", "");
	s->peer[0].number = 3;
	s->facts.number = 7;
}
static void unheard_yet(struct scene *s) { unheard_lower(s); s->peer[0].number = 7; }
static void unsealed(struct scene *s) { unheard(s); s->facts.has_heard = true; }
static void reader(struct scene *s) { unsealed(s); s->facts.is_sealed = true; }
static void reader_ext3(struct scene *s) { reader(s); file_system(s, "ext3", FM_CLEAN); }
static void reader_ext2(struct scene *s) { reader(s); file_system(s, "ext2", FM_CLEAN); }
static void reader_dirty(struct scene *s) { reader(s); s->sb.clean = FM_UNCLEAN; }
static void reader_xfs(struct scene *s) { reader(s); file_system(s, "xfs", FM_CLEAN); }
static void reader_xfs_dirty(struct scene *s) { reader(s); file_system(s, "xfs", FM_UNCLEAN); }
static void reader_xfs_unknown(struct scene *s)
{
	reader(s);
	file_system(s, "xfs", FM_CLEAN_UNKNOWN);
}
static void reader_btrfs(struct scene *s) { reader(s); file_system(s, "btrfs", FM_CLEAN_UNKNOWN); }
static void read_only(struct scene *s)
{
	s->volume.mode = FM_VOLUME_READ_ONLY;
	s->volume.writer = "";
}
static void read_only_dirty(struct scene *s) { read_only(s); s->sb.clean = FM_UNCLEAN; }
static void read_only_squashfs(struct scene *s)
{
	read_only(s);
	file_system(s, "squashfs", FM_CLEAN);
}
static void read_only_erofs(struct scene *s) { read_only(s); file_system(s, "erofs", FM_CLEAN); }
static void squashfs(struct scene *s) { file_system(s, "squashfs", FM_CLEAN); }
static void dirty(struct scene *s) { s->sb.clean = FM_UNCLEAN; }
static void damaged(struct scene *s) { s->sb.has_errors = true; }
static void damaged_reader(struct scene *s) { reader(s); s->sb.has_errors = true; }
static void blank(struct scene *s) { file_system(s, "", FM_CLEAN_UNKNOWN); }
static void blank_but_named(struct scene *s) { blank(s); s->volume.fs_type = "f2fs"; }
static void unknown_read_only(struct scene *s) { read_only(s); blank_but_named(s); }
static void unknown_shared(struct scene *s) { blank_but_named(s); shared(s); }
static void unknown_reader(struct scene *s) { reader(s); blank_but_named(s); }
static void unknown_known_to_peer(struct scene *s) { blank_but_named(s); peer(s, "n2", "n1", ""); }
static void unknown_beside_silent(struct scene *s) { blank_but_named(s); peer(s, "n2", "", ""); }
static void not_the_ext4(struct scene *s) { blank(s); s->volume.fs_type = "ext4"; }
static void not_the_xfs(struct scene *s) { blank(s); s->volume.fs_type = "xfs"; }
static void not_the_squashfs(struct scene *s)
{
	read_only(s);
	blank(s);
	s->volume.fs_type = "squashfs";
}
static void not_the_erofs(struct scene *s) { read_only(s); blank(s); s->volume.fs_type = "erofs"; }
static void not_the_ext4_reader(struct scene *s) { reader(s); not_the_ext4(s); }
static void another_type(struct scene *s) { s->volume.fs_type = "xfs"; }
static void ext3_by_ext4(struct scene *s)
{
	s->volume.fs_type = "ext4";
	file_system(s, "ext3", FM_CLEAN);
}
static void protected_device(struct scene *s) { s->ns.is_read_only = true; }
static void protected_reader(struct scene *s) { reader(s); s->ns.is_read_only = true; }
static void another_uuid(struct scene *s) { strcpy(s->ns.uuid, UUID_B); }
static void upper_case(struct scene *s) { s->volume.uuid = "AAAAAAAA-AAAA-AAAA-AAAA-AAAAAAAAAAAA"; }
static void no_uuid(struct scene *s) { s->ns.uuid[0] = '\0'; }
static void not_ready(struct scene *s) { s->ns.wwid[0] = s->ns.uuid[0] = '\0'; }
static void another_number(struct scene *s) { s->volume.nsid = 2; }
static void nguid_hyphens(struct scene *s)
{
	s->volume.nguid = "01234567-89ab-cdef-0123-456789abcdef";
}
static void another_nguid(struct scene *s) { s->volume.nguid = "ffffffffffffffffffffffffffffffff"; }
static void another_last(struct scene *s) { s->facts.last_wwid = "uuid." UUID_B; }
static void another_last_unnamed(struct scene *s)
{
	another_last(s);
	s->volume.uuid = "";
	s->volume.nsid = 1;
}
static void same_last_unnamed(struct scene *s)
{
	s->facts.last_wwid = "uuid." UUID_A;
	s->volume.uuid = "";
}
static void smaller(struct scene *s) { s->facts.last_size_bytes = 2 * GIB; }
static void same_size(struct scene *s) { s->facts.last_size_bytes = GIB; }
static void larger(struct scene *s) { s->facts.last_size_bytes = GIB / 2; }
static void larger_unnamed(struct scene *s) { larger(s); s->volume.uuid = ""; s->volume.nsid = 1; }
static void peer_silent(struct scene *s) { peer(s, "n2", "", ""); }
static void peer_agrees(struct scene *s) { s->sb.has_mmp = true; peer(s, "n2", "n1", ""); }
static void peer_agrees_no_mmp(struct scene *s) { peer(s, "n2", "n1", ""); }
static void peer_other_writer(struct scene *s)
{
	s->sb.has_mmp = true;
	peer(s, "n3", "n1", "");
	peer(s, "n2", "n2", "");
}
static void peer_writes(struct scene *s) { s->sb.has_mmp = true; peer(s, "n2", "n1", "rw"); }
static void peer_writes_unknown(struct scene *s) { peer(s, "n2", "", "rw"); }
static void peer_reads(struct scene *s) { shared_mmp(s); peer(s, "n2", "n1", "ro"); }
static void unheard_peer(struct scene *s)
{
	peer(s, "n2", "", "");
	s->peer[0].has_answered = false;
	s->peer[0].silent_why = "is not connected";
}
static void heard_once(struct scene *s, const char *mounted)
{
	peer(s, "n2", "n1", mounted);
	s->peer[0].has_answered = false;
	s->peer[0].silent_why = "is not connected";
}
static void one_of_two(struct scene *s) { unheard_peer(s); peer(s, "n3", "n1", ""); }
static void not_since(struct scene *s) { peer(s, "n2", "n1", ""); s->peer[0].has_answered = false; }
static void unheard_mmp(struct scene *s) { unheard_peer(s); s->sb.has_mmp = true; }
static void unheard_xfs(struct scene *s) { unheard_peer(s); file_system(s, "xfs", FM_CLEAN); }
static void unheard_reader(struct scene *s) { unheard_mmp(s); shared(s); }
static void heard_reader(struct scene *s) { heard_once(s, ""); shared_mmp(s); }
static void heard_reader_xfs(struct scene *s) { heard_once(s, ""); shared_xfs(s); }
static void before_unseal(struct scene *s)
{
	peer_agrees(s);
	shared(s);
	s->facts.number = 6;
	s->peer[0].number = 5;
}
static void at_unseal(struct scene *s) { before_unseal(s); s->peer[0].number = 6; }
static void at_unseal_silent(struct scene *s)
{
	heard_once(s, "");
	shared_mmp(s);
	s->facts.number = s->peer[0].number = 6;
}
static void before_unseal_silent(struct scene *s) { at_unseal_silent(s); s->peer[0].number = 5; }
static void before_unseal_forgotten(struct scene *s)
{
	before_unseal_silent(s);
	s->peer[0].is_forgotten = true;
}
static void knows_no_such(struct scene *s)
{
	peer(s, "n2", "", "");
	shared(s);
	s->facts.number = 6;
}
static void sealing(struct scene *s)
{
	before_unseal(s);
	s->facts.is_sealed = s->facts.is_sealing = true;
}
static void sealing_left(struct scene *s) { sealing(s); s->peer[0].number = 6; }
static void sealing_silent(struct scene *s)
{
	at_unseal_silent(s);
	s->facts.is_sealed = s->facts.is_sealing = true;
}
static void unheard_sealed(struct scene *s) { unheard_reader(s); s->facts.is_sealed = true; }
static void unheard_reservable(struct scene *s) { unheard_xfs(s); s->facts.is_reservable = true; }
static void same_host_reservable(struct scene *s)
{
	unheard_reservable(s);
	s->peer[0].is_same_host = true;
}
static void same_host_not_counted(struct scene *s)
{
	unheard_reservable(s);
	peer(s, "n3", "", "");
	s->peer[1].is_same_host = true;
	s->peer[1].counts = false;
}
static void same_host_forgotten(struct scene *s)
{
	same_host_not_counted(s);
	s->peer[1].counts = s->peer[1].is_forgotten = true;
}
static void same_host_mmp(struct scene *s)
{
	same_host_reservable(s);
	file_system(s, "ext4", FM_CLEAN);
	s->sb.has_mmp = true;
}
static void unheard_reader_reservable(struct scene *s) { unheard_reservable(s); shared(s); }
static void heard_reader_reservable(struct scene *s)
{
	heard_reader_xfs(s);
	s->facts.is_reservable = true;
}
static void unheard_not_counted(struct scene *s) { unheard_peer(s); s->peer[0].counts = false; }
static void unheard_forgotten(struct scene *s) { unheard_peer(s); s->peer[0].is_forgotten = true; }
static void unheard_forced(struct scene *s) { unheard_peer(s); s->facts.is_forced = true; }
static void silent_writes(struct scene *s) { heard_once(s, "rw"); s->sb.has_mmp = true; }
static void silent_writes_forgotten(struct scene *s)
{
	silent_writes(s);
	s->peer[0].is_forgotten = true;
}
static void silent_writes_forced(struct scene *s) { silent_writes(s); s->facts.is_forced = true; }
static void silent_writes_not_counted(struct scene *s)
{
	silent_writes(s);
	s->peer[0].counts = false;
}
static void silent_names_other(struct scene *s)
{
	silent_writes(s);
	s->peer[0].is_mounted = false;
	s->peer[0].writer = "n2";
}
static void answers_and_writes_forced(struct scene *s)
{
	peer(s, "n2", "n1", "rw");
	s->facts.is_forced = true;
}
static void heard_reader_exclusive(struct scene *s)
{
	heard_once(s, "");
	s->sb.has_mmp = true;
	s->peer[0].number = 5;
}
static void lost_reader_exclusive(struct scene *s) { unheard_mmp(s); s->facts.number = 5; }
static void heard_reader_answers(struct scene *s)
{
	heard_reader_exclusive(s);
	s->peer[0].has_answered = true;
}
static void peers_unknown(struct scene *s) { s->facts.peers_why = "fmoved does not answer"; }
static void peers_unknown_mmp(struct scene *s) { peers_unknown(s); s->sb.has_mmp = true; }
static void peers_unknown_shared(struct scene *s) { peers_unknown(s); shared_mmp(s); }
static void peer_same_name(struct scene *s) { peer(s, "n1", "n1", ""); }
static void peer_escape(struct scene *s) { peer(s, "n2", "\x1b[2J", ""); }
static void unheard_own_seal(struct scene *s)
{
	sealed(s);
	peer(s, "n2", "n1", "");
	s->peer[0].has_answered = false;
	s->peer[0].silent_why = "is off";
}
static void own_seal_forgotten(struct scene *s)
{
	unheard_own_seal(s);
	s->peer[0].is_forgotten = true;
}
static void own_seal_forced(struct scene *s) { unheard_own_seal(s); s->facts.is_forced = true; }
static void own_seal_mmp(struct scene *s) { unheard_own_seal(s); s->sb.has_mmp = true; }
static void own_seal_old_number(struct scene *s)
{
	sealed(s);
	peer(s, "n2", "n1", "ro");
	s->facts.number = 5;
	s->peer[0].number = 4;
}
static void own_seal_other_writer(struct scene *s) { sealed(s); peer(s, "n2", "n2", ""); }
static void sealed_and_read(struct scene *s) { sealed(s); peer(s, "n2", "n1", "ro"); }
static void reader_beside_reader(struct scene *s) { reader(s); peer(s, "n3", "n1", "ro"); }
static void reader_beside_writer(struct scene *s) { reader(s); peer(s, "n1", "n1", "rw"); }
static void reader_beside_other(struct scene *s) { reader(s); peer(s, "n3", "n1", "rw"); }
static void read_only_beside_writer(struct scene *s) { read_only(s); peer(s, "n2", "", "rw"); }
static void read_only_here_not_there(struct scene *s) { read_only(s); peer(s, "n2", "n2", ""); }
static void mounted_elsewhere(struct scene *s)
{
	static char point[] = "/mnt";
	mounted(s, 1, point);
}
static void point_in_use(struct scene *s)
{
	static char point[] = "/srv/data";
	mounted(s, 7, point);
}
/* clang-format on */

static const struct situation {
	const char *name;
	void (*change)(struct scene *s);
	enum fm_guard_verdict verdict;
	const char *says;		/* the options, or a part of why */
} situations[] = {
	/* who */
	{"the writer of an exclusive volume", nothing, FM_GUARD_READ_WRITE, "rw"},
	{"another node than the writer", another_node, FM_GUARD_REFUSED,
	 "exclusive to node n1 and this is n2"},
	{"no writer at all", no_writer, FM_GUARD_REFUSED, "say writer = NODE"},
	{"the writer of a shared volume, with mmp", shared_mmp, FM_GUARD_READ_WRITE, "rw"},
	{"the same without mmp", shared, FM_GUARD_READ_WRITE, "rw"},
	{"the same on XFS, which has no mmp", shared_xfs, FM_GUARD_READ_WRITE, "rw"},
	{"the writer, once it is sealed", sealed, FM_GUARD_READ_ONLY, "ro,noload"},
	{"sealed but not cleanly unmounted", sealed_dirty, FM_GUARD_REFUSED, "since it was sealed"},
	{"a reader", reader, FM_GUARD_READ_ONLY, "ro,noload"},
	{"a reader before it is sealed", unsealed, FM_GUARD_REFUSED,
	 "is not sealed, n1 may write to it; there, when it has written: fmove nvme seal"},
	{"a reader that has not heard of the writer", unheard, FM_GUARD_WAITING,
	 "waits for the word of n1 whether \"data\" is sealed: fmoved must run"},
	{"the same, and it is silent", unheard_silent, FM_GUARD_WAITING,
	 "waits for the word of n1 whether \"data\" is sealed: n1 does not answer (is not "
	 "connected); fmoved must run"},
	{"the same, and it does not know the volume", unheard_unnamed, FM_GUARD_WAITING,
	 "n1 answers, and its configuration does not name it as the writer; say mode = "
	 "\"shared-read\" and writer = \"n1\" there"},
	{"the same, and it has lost its number", unheard_lower, FM_GUARD_WAITING,
	 "n1 says epoch 3, and this node has heard of 7: n1 takes a higher one by itself, within "
	 "an hour"},
	{"the same, and it has not answered since", unheard_yet, FM_GUARD_WAITING,
	 "the next answer of n1 is awaited, seconds"},
	{"a volume that nobody writes", read_only, FM_GUARD_READ_ONLY, "ro,noload"},
	/* what is on it */
	{"an unclean ext4: the writer replays its journal", dirty, FM_GUARD_READ_WRITE, "rw"},
	{"an unclean ext4: a reader must not", reader_dirty, FM_GUARD_REFUSED,
	 "on n1: fmove nvme unseal data, look at what is there, and seal it anew"},
	{"an unclean ext4 that nobody writes", read_only_dirty, FM_GUARD_REFUSED,
	 "was not cleanly unmounted"},
	{"ext3 for a reader", reader_ext3, FM_GUARD_READ_ONLY, "ro,noload"},
	{"ext2 for a reader: there is no journal", reader_ext2, FM_GUARD_READ_ONLY, "ro"},
	{"a clean XFS for a reader", reader_xfs, FM_GUARD_READ_ONLY, "ro,norecovery"},
	{"an unclean XFS for a reader", reader_xfs_dirty, FM_GUARD_REFUSED,
	 "was not cleanly unmounted"},
	{"an XFS that could not be asked", reader_xfs_unknown, FM_GUARD_REFUSED, "cannot be told"},
	{"btrfs for a reader: the device is read-only", reader_btrfs, FM_GUARD_READ_ONLY, "ro"},
	{"squashfs", read_only_squashfs, FM_GUARD_READ_ONLY, "ro"},
	{"erofs", read_only_erofs, FM_GUARD_READ_ONLY, "ro"},
	{"squashfs with a writer", squashfs, FM_GUARD_REFUSED, "nobody can write"},
	{"marked as damaged", damaged, FM_GUARD_REFUSED, "e2fsck -f /dev/nvme0n1"},
	{"marked as damaged, for a reader", damaged_reader, FM_GUARD_REFUSED, "e2fsck"},
	{"nothing known on it", blank, FM_GUARD_REFUSED, "no known file system"},
	{"nothing known on it, but the type was said", blank_but_named, FM_GUARD_READ_WRITE, "rw"},
	{"the same, read-only", unknown_read_only, FM_GUARD_READ_ONLY, "ro"},
	{"the same, a reader of what is sealed", unknown_reader, FM_GUARD_READ_ONLY, "ro"},
	{"the same on a shared volume", unknown_shared, FM_GUARD_REFUSED,
	 "says f2fs, which cannot be told to be on nvme0n1"},
	{"the same with a peer that knows the volume", unknown_known_to_peer, FM_GUARD_REFUSED,
	 "says f2fs, which cannot be told"},
	{"the same with a peer that does not know it", unknown_beside_silent, FM_GUARD_READ_WRITE,
	 "rw"},
	{"nothing known where ext4 was said", not_the_ext4, FM_GUARD_REFUSED,
	 "says ext4, and no known file system is on nvme0n1"},
	{"nothing known where XFS was said", not_the_xfs, FM_GUARD_REFUSED,
	 "says xfs, and no known file system is on nvme0n1"},
	{"nothing known where squashfs was said", not_the_squashfs, FM_GUARD_REFUSED,
	 "says squashfs, and no known"},
	{"nothing known where erofs was said", not_the_erofs, FM_GUARD_REFUSED,
	 "says erofs, and no known"},
	{"nothing known where a reader expects ext4", not_the_ext4_reader, FM_GUARD_REFUSED,
	 "says ext4, and no known"},
	{"another file system than was said", another_type, FM_GUARD_REFUSED,
	 "ext4 is on nvme0n1, the configuration says xfs"},
	{"ext3 where ext4 was said", ext3_by_ext4, FM_GUARD_READ_WRITE, "rw"},
	/* the device */
	{"a read-only device and the writer", protected_device, FM_GUARD_REFUSED, "is read-only"},
	{"a read-only device and a reader", protected_reader, FM_GUARD_READ_ONLY, "ro,noload"},
	{"another UUID", another_uuid, FM_GUARD_REFUSED,
	 "its UUID is " UUID_B ", the configuration says " UUID_A},
	{"the UUID in capitals", upper_case, FM_GUARD_READ_WRITE, "rw"},
	{"a namespace without UUID", no_uuid, FM_GUARD_REFUSED, "its UUID is not there"},
	{"attributes that are not filled in yet", not_ready, FM_GUARD_REFUSED, "is not ready"},
	{"another number", another_number, FM_GUARD_REFUSED,
	 "its number is 1, the configuration says 2"},
	{"the same NGUID with hyphens", nguid_hyphens, FM_GUARD_READ_WRITE, "rw"},
	{"another NGUID", another_nguid, FM_GUARD_REFUSED, "its NGUID is " NGUID_A},
	{"smaller than last time", smaller, FM_GUARD_REFUSED, "fewer than the 2147483648"},
	{"as large as last time", same_size, FM_GUARD_READ_WRITE, "rw"},
	{"larger than last time, known by its UUID", larger, FM_GUARD_READ_WRITE, "rw"},
	{"another namespace than last time, named by its UUID", another_last, FM_GUARD_READ_WRITE,
	 "rw"},
	{"another namespace than last time, known by its number only", another_last_unnamed,
	 FM_GUARD_REFUSED, "the last time was uuid.bbb"},
	{"the same namespace as last time, not named", same_last_unnamed, FM_GUARD_READ_WRITE,
	 "rw"},
	{"larger than last time, known by its number only", larger_unnamed, FM_GUARD_REFUSED,
	 "may be another namespace"},
	/* the others */
	{"a peer that does not know the volume", peer_silent, FM_GUARD_READ_WRITE, "rw"},
	{"a peer that agrees", peer_agrees, FM_GUARD_READ_WRITE, "rw"},
	{"a peer that agrees, without mmp", peer_agrees_no_mmp, FM_GUARD_READ_WRITE, "rw"},
	{"a peer that names another writer", peer_other_writer, FM_GUARD_REFUSED,
	 "configuration of n2 names \"n2\""},
	{"a peer that has it read-write", peer_writes, FM_GUARD_REFUSED,
	 "n2 has it mounted read-write"},
	{"a peer that has it read-write by hand", peer_writes_unknown, FM_GUARD_REFUSED,
	 "n2 has it mounted read-write"},
	{"a peer that still reads what is to be written", peer_reads, FM_GUARD_REFUSED,
	 "n2 has it mounted read-only"},
	{"a peer that reads what is sealed", sealed_and_read, FM_GUARD_READ_ONLY, "ro,noload"},
	{"two readers", reader_beside_reader, FM_GUARD_READ_ONLY, "ro,noload"},
	{"a reader while the writer writes", reader_beside_writer, FM_GUARD_REFUSED,
	 "n1 has it mounted read-write; there, when it has written: fmove nvme seal data"},
	{"a reader while somebody else writes", reader_beside_other, FM_GUARD_REFUSED,
	 "n3 has it mounted read-write; unmount it there first"},
	{"read-only while somebody writes", read_only_beside_writer, FM_GUARD_REFUSED,
	 "n2 has it mounted read-write"},
	{"read-only here, a writer there", read_only_here_not_there, FM_GUARD_REFUSED,
	 "names \"n2\" as the writer"},
	{"a peer with our own name", peer_same_name, FM_GUARD_REFUSED,
	 "another node calls itself n1"},
	{"a peer with control characters", peer_escape, FM_GUARD_REFUSED, "\"?[2J\""},
	/* who was not heard, or says nothing now */
	{"a peer that was not heard", unheard_peer, FM_GUARD_WAITING,
	 "waits for the word of n2 (is not connected) that nobody writes to it there; if that "
	 "machine is off: fmove nvme up --force data, once, or fmove nvme forget n2, for good"},
	{"one of two peers that was not heard", one_of_two, FM_GUARD_WAITING,
	 "the word of n2 (is not connected) that"},
	{"a peer that has said so before the configuration was what it is", not_since,
	 FM_GUARD_WAITING, "the word of n2 that"},
	{"a peer that was not heard, with mmp", unheard_mmp, FM_GUARD_READ_WRITE, "rw"},
	{"a peer that was not heard, on XFS", unheard_xfs, FM_GUARD_WAITING, "the word of n2"},
	{"a reader that was never heard, with mmp", unheard_reader, FM_GUARD_WAITING,
	 "that nobody has it mounted there"},
	{"a reader that had it unmounted, with mmp", heard_reader, FM_GUARD_READ_WRITE, "rw"},
	{"exclusive by now, and what a silent node knew of its seals is lost, with mmp",
	 lost_reader_exclusive, FM_GUARD_WAITING, "the word of n2"},
	{"exclusive by now, who knew a seal of it is silent, with mmp", heard_reader_exclusive,
	 FM_GUARD_WAITING, "the word of n2"},
	{"the same, and it has answered", heard_reader_answers, FM_GUARD_READ_WRITE, "rw"},
	{"a reader that had it unmounted, on XFS", heard_reader_xfs, FM_GUARD_WAITING,
	 "that nobody has it mounted there"},
	{"what is sealed, while another node was never heard", unheard_sealed, FM_GUARD_WAITING,
	 "the word of n2"},
	{"the same, and it does not answer", unheard_own_seal, FM_GUARD_WAITING,
	 "(is off) that nobody writes to it there"},
	{"the same, forgotten", own_seal_forgotten, FM_GUARD_READ_ONLY, "ro,noload"},
	{"the same, by force", own_seal_forced, FM_GUARD_READ_ONLY, "ro,noload"},
	{"the same, and mmp had let it be written", own_seal_mmp, FM_GUARD_WAITING,
	 "that nobody writes to it there"},
	{"what is sealed, and read at an older number", own_seal_old_number, FM_GUARD_READ_ONLY,
	 "ro,noload"},
	{"what is sealed, and another node is the writer by now", own_seal_other_writer,
	 FM_GUARD_REFUSED, "names \"n2\" as the writer"},
	{"a reader that has it unmounted, before it has heard of the unseal", before_unseal,
	 FM_GUARD_WAITING, "nobody has it mounted there"},
	{"a reader that has it unmounted at the unseal", at_unseal, FM_GUARD_READ_WRITE, "rw"},
	{"the same, silent now, with mmp", at_unseal_silent, FM_GUARD_READ_WRITE, "rw"},
	{"a silent reader that had it unmounted before the unseal, with mmp", before_unseal_silent,
	 FM_GUARD_WAITING, "the word of n2"},
	{"the same, forgotten", before_unseal_forgotten, FM_GUARD_READ_WRITE, "rw"},
	{"a peer that answers and knows no such volume", knows_no_such, FM_GUARD_READ_WRITE, "rw"},
	{"what is to be sealed, before the readers have left", sealing, FM_GUARD_WAITING,
	 "the word of n2"},
	{"what is to be sealed, when they have", sealing_left, FM_GUARD_READ_ONLY, "ro,noload"},
	{"to be sealed, where mmp protects nothing, and the reader is silent", sealing_silent,
	 FM_GUARD_WAITING, "waits for the word of n2"},
	{"the target may reserve it", unheard_reservable, FM_GUARD_READ_WRITE, "if reserved"},
	{"the same, and the peer is the same host to the target", same_host_reservable,
	 FM_GUARD_WAITING, "n2 has the NVMe host id of this node"},
	{"the same with mmp", same_host_mmp, FM_GUARD_READ_WRITE, "rw"},
	{"the target may reserve it, and who is the same host does not count",
	 same_host_not_counted, FM_GUARD_READ_WRITE, "if reserved"},
	{"the same, and that peer is forgotten", same_host_forgotten, FM_GUARD_READ_WRITE,
	 "if reserved"},
	{"the target may reserve it, a reader was never heard", unheard_reader_reservable,
	 FM_GUARD_WAITING, "the word of n2"},
	{"the target may reserve it, a reader had it unmounted", heard_reader_reservable,
	 FM_GUARD_READ_WRITE, "if reserved"},
	{"a peer that does not count", unheard_not_counted, FM_GUARD_READ_WRITE, "rw"},
	{"a peer that is forgotten", unheard_forgotten, FM_GUARD_READ_WRITE, "rw"},
	{"a peer that was not heard, by force", unheard_forced, FM_GUARD_READ_WRITE, "rw"},
	{"a silent peer that had it read-write", silent_writes, FM_GUARD_REFUSED,
	 "n2 had it mounted read-write when it answered last"},
	{"the same, forgotten", silent_writes_forgotten, FM_GUARD_READ_WRITE, "rw"},
	{"the same, by force", silent_writes_forced, FM_GUARD_READ_WRITE, "rw"},
	{"the same, though it does not count", silent_writes_not_counted, FM_GUARD_REFUSED,
	 "fmove nvme forget n2"},
	{"a silent peer that named another writer", silent_names_other, FM_GUARD_REFUSED,
	 "configuration of n2 names \"n2\""},
	{"a peer that answers and has it read-write, by force", answers_and_writes_forced,
	 FM_GUARD_REFUSED, "unmount it there first"},
	{"nobody knows who the peers are", peers_unknown, FM_GUARD_WAITING,
	 "which other nodes there are (fmoved does not answer)"},
	{"the same with mmp", peers_unknown_mmp, FM_GUARD_READ_WRITE, "rw"},
	{"the same of a shared volume with mmp", peers_unknown_shared, FM_GUARD_WAITING,
	 "say nodes = [ ] for it"},
	/* here */
	{"mounted elsewhere", mounted_elsewhere, FM_GUARD_REFUSED, "is mounted already, at /mnt"},
	{"something else at the mount point", point_in_use, FM_GUARD_REFUSED,
	 "something else is mounted at /srv/data"},
};

static bool is_as_expected(const struct situation *t, const struct fm_guard_answer *a)
{
	if (a->verdict != t->verdict || strchr(a->why, '\n'))
		return false;
	if (t->verdict == FM_GUARD_REFUSED || t->verdict == FM_GUARD_WAITING)
		return !a->options && strstr(a->why, t->says);
	if (a->needs_reservation)
		return strcmp(t->says, "if reserved") == 0 &&
		       strstr(a->why, "waits for the word of n2");
	return strcmp(a->options, t->says) == 0 && !a->why[0];
}

static void test_situations(void)
{
	for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
		const struct situation *t = &situations[i];
		struct fm_guard_answer answer;
		struct scene s;

		scene_begin(&s);
		t->change(&s);
		fm_guard_decide(&s.facts, &answer);
		if (!is_as_expected(t, &answer))
			printf("\n    %s: gave %d, %s, %s\n", t->name, answer.verdict,
			       answer.options ? answer.options : "-", answer.why);
		CU_ASSERT_TRUE(is_as_expected(t, &answer));
	}
}

/*
 * Goal:   two nodes never both get read-write, whatever either has heard of the other.
 * Method: every pair of modes and of named writers (configurations that agree), each node asked
 * with and without an answer of the other.
 */
static void test_never_two_writers(void)
{
	static const char *const nodes[] = { "n1", "n2", "n3" };

	for (int mode = FM_VOLUME_EXCLUSIVE; mode <= FM_VOLUME_SHARED_READ; mode++) {
		for (unsigned w = 0; w < 3; w++) {
			unsigned writers = 0;

			for (unsigned n = 0; n < 3; n++) {
				struct fm_guard_answer answer;
				struct scene s;

				scene_begin(&s);
				s.sb.has_mmp = true;
				s.volume.mode = (enum fm_volume_mode)mode;
				s.volume.writer = nodes[w];
				s.facts.node = nodes[n];
				fm_guard_decide(&s.facts, &answer);
				writers += answer.verdict == FM_GUARD_READ_WRITE;
			}
			CU_ASSERT_EQUAL(writers, mode == FM_VOLUME_READ_ONLY ? 0 : 1);
		}
	}
}

/* ---- the page ---- */

#define PAGE FM_SOURCE_DIR "/client/man/fmove-nvme.1"

/* What each row of its table says, as decisions, of n1, the writer, and of what n2 and n3 said. */
/* clang-format off */
static void both_silent(struct scene *s) { peer(s, "n2", "", ""); peer(s, "n3", "", ""); }
static void silent(struct scene *s)
{
	both_silent(s);
	for (unsigned i = 0; i < 2; i++) {
		s->peer[i].has_answered = false;
		s->peer[i].silent_why = "is off";
	}
}
static void silent_n3(struct scene *s)
{
	silent(s);
	s->peer[0].has_answered = true;
	s->peer[0].silent_why = "";
}
static void both_answer(struct scene *s) { peer(s, "n2", "n1", ""); peer(s, "n3", "n1", ""); }
static void xfs(struct scene *s) { file_system(s, "xfs", FM_CLEAN); }
static void mmp(struct scene *s) { s->sb.has_mmp = true; }
static void silent_mmp(struct scene *s) { silent(s); mmp(s); }
static void silent_reserved(struct scene *s) { silent(s); xfs(s); s->facts.is_reservable = true; }
static void silent_same_host(struct scene *s)
{
	silent_reserved(s);
	s->peer[1].is_same_host = true;
}
static void silent_xfs(struct scene *s) { silent(s); xfs(s); }
static void silent_n3_xfs(struct scene *s) { silent_n3(s); xfs(s); }
static void both_answer_xfs(struct scene *s) { both_answer(s); xfs(s); }
static void not_counted_xfs(struct scene *s) { silent_n3_xfs(s); s->peer[1].counts = false; }
static void shared_silent_mmp(struct scene *s) { silent_mmp(s); shared(s); }
static void shared_silent_reserved(struct scene *s) { silent_reserved(s); shared(s); }
static void readers_left(struct scene *s)
{
	both_answer(s);
	shared(s);
	s->facts.number = s->peer[0].number = s->peer[1].number = 6;
}
static void said_once(struct scene *s)
{
	readers_left(s);
	for (unsigned i = 0; i < 2; i++) {
		s->peer[i].has_answered = false;
		s->peer[i].silent_why = "is off";
	}
}
static void said_once_mmp(struct scene *s) { said_once(s); mmp(s); }
static void said_once_reserved(struct scene *s)
{
	said_once(s);
	xfs(s);
	s->facts.is_reservable = true;
}
static void said_once_xfs(struct scene *s) { said_once(s); xfs(s); }
static void one_before_mmp(struct scene *s) { said_once_mmp(s); s->peer[1].number = 5; }
/* clang-format on */

static const struct page_row {
	const char *text;		/* of the page; NULL: the row before goes on */
	void (*change)(struct scene *s);
	unsigned waits;			/* for so many nodes; 0: it is mounted read-write ... */
	bool is_reserved;		/* ... only if the target reserves it */
} page_rows[] = {
	{"ext4 with mmp|the file system|nobody", silent_mmp, 0, false},
	{"reserved by its target,|the target|nobody", silent_reserved, 0, true},
	{"with host ids that differ|", silent_same_host, 2, false},
	{"XFS, other ext4|words|each of its \\fBnodes\\fP", silent_xfs, 2, false},
	{NULL, silent, 2, false},
	{NULL, silent_n3_xfs, 1, false},
	{NULL, both_answer_xfs, 0, false},
	{NULL, not_counted_xfs, 0, false},
	{"shared\\-read, besides|words of readers|each of them, once", shared_silent_mmp, 2, false},
	{NULL, shared_silent_reserved, 2, false},
	{NULL, one_before_mmp, 1, false},
	{NULL, said_once_mmp, 0, false},
	{NULL, said_once_reserved, 0, true},
	{NULL, said_once_xfs, 2, false},
	{NULL, readers_left, 0, false},
};

/* The page's next line of it; "": there is none. */
static void next_row(FILE *page, char *line, int size)
{
	if (!fgets(line, size, page) || strncmp(line, ".TE", 3) == 0)
		line[0] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

static void check_row(const struct page_row *row)
{
	struct fm_guard_answer answer;
	struct scene s;

	scene_begin(&s);
	row->change(&s);
	fm_guard_decide(&s.facts, &answer);
	if (row->waits > 0 ? answer.verdict != FM_GUARD_WAITING || answer.waits_count != row->waits
			   : answer.verdict != FM_GUARD_READ_WRITE)
		printf("\n    row %zu: gave %d, for %u: %s\n", row - page_rows, answer.verdict,
		       answer.waits_count, answer.why);
	CU_ASSERT_EQUAL(answer.verdict, row->waits > 0 ? FM_GUARD_WAITING : FM_GUARD_READ_WRITE);
	CU_ASSERT_TRUE(row->waits == 0 || answer.waits_count == row->waits);
	CU_ASSERT_EQUAL(answer.needs_reservation, row->is_reserved);
}

static void test_page(void)
{
	FILE *page = fopen(PAGE, "re");
	char line[200] = "";

	CU_ASSERT_PTR_NOT_NULL_FATAL(page);
	while (strcmp(line, "volume|protected by|waits for\n") != 0 &&
	       fgets(line, sizeof(line), page))
		;
	for (size_t i = 0; i < sizeof(page_rows) / sizeof(page_rows[0]); i++) {
		if (page_rows[i].text) {
			next_row(page, line, sizeof(line));
			CU_ASSERT_STRING_EQUAL(line, page_rows[i].text);
		}
		check_row(&page_rows[i]);
	}
	next_row(page, line, sizeof(line));
	CU_ASSERT_STRING_EQUAL(line, "");
	fclose(page);
}

static const struct fm_test tests[] = {
	{"every situation has its answer", test_situations},
	{"of several nodes one may write at most, without a word between them",
	 test_never_two_writers},
	{"the table of fmove-nvme(1): what is protected by what, and waits for whom", test_page},
};

FM_TEST_MAIN("guard", tests)
