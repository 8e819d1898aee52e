/* SPDX-License-Identifier: MIT */
/* guard - see guard.h. Each rule is a function that refuses or lets pass; the table at the end is
 * their order. */
#include "nvmetcp/guard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/show.h"
#include "nvmetcp/identity.h"
#include "nvmetcp/mounts.h"

bool fm_guard_is_writer(const struct fm_volume *volume, const char *node)
{
	return volume->mode != FM_VOLUME_READ_ONLY && strcmp(volume->writer, node) == 0;
}

static bool refuse(struct fm_guard_answer *answer, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Always true. What peers and file systems call themselves may hold anything; it must not reach a
 * terminal as it is. */
static bool refuse(struct fm_guard_answer *answer, const char *fmt, ...)
{
	va_list args;

	answer->verdict = FM_GUARD_REFUSED;
	answer->options = NULL;
	va_start(args, fmt);
	vsnprintf(answer->why, sizeof(answer->why), fmt, args);
	va_end(args);
	for (char *c = answer->why; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return true;
}

static bool is_writable(const struct fm_guard_facts *f)
{
	return fm_guard_is_writer(f->volume, f->node) && !f->is_sealed;
}

/* "ext2", "ext3" and "ext4" are one family, with one driver. */
static bool is_ext(const char *type)
{
	return strncmp(type, "ext", 3) == 0;
}

/* ---- the rules: true if the answer is a refusal ---- */

static bool is_another_namespace(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	char why[FM_IDENTITY_WHY_MAX];

	if (fm_identity_check(f->volume, f->ns, why) == FM_IDENTITY_SAME)
		return false;
	return refuse(answer, "%s; it is not mounted", why);
}

/* Without a name of its own in the configuration it must be the one that it was: the only one that
 * is there may be a new one. */
static bool is_another_than_last(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const struct fm_volume *v = f->volume;

	if (!f->last_wwid || strcmp(f->last_wwid, f->ns->wwid) == 0 || v->uuid[0] || v->nguid[0])
		return false;
	return refuse(answer,
		      "%s is %s, and what was mounted the last time was %s: if it is meant all the "
		      "same, say its uuid or nguid "
		      "in the configuration, or give the volume another name",
		      f->ns->name, f->ns->wwid, f->last_wwid);
}

/* Less than there was is always wrong. More is fine, if it is known to be the same namespace by a
 * name that is its own. */
static bool is_another_size(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	uint64_t was = f->last_size_bytes, is = f->ns->size_bytes;

	if (was == 0 || is == was)
		return false;
	if (is < was)
		return refuse(answer,
			      "%s has %" PRIu64 " bytes, fewer than the %" PRIu64
			      " when it was mounted last: a part "
			      "of the file system would be missing; look at the target",
			      f->ns->name, is, was);
	if (f->volume->uuid[0] || f->volume->nguid[0])
		return false;
	return refuse(answer,
		      "%s has %" PRIu64 " bytes, when it was mounted last %" PRIu64
		      ": it may be another namespace; if "
		      "it was enlarged, say its uuid or nguid in the configuration",
		      f->ns->name, is, was);
}

static bool is_mode_against(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const struct fm_volume *v = f->volume;

	if (v->mode == FM_VOLUME_READ_ONLY)
		return false;
	if (!v->writer[0])
		return refuse(answer,
			      "the configuration names no writer for \"%s\"; say writer = NODE, "
			      "the same on every node",
			      v->name);
	if (v->mode == FM_VOLUME_EXCLUSIVE && !fm_guard_is_writer(v, f->node))
		return refuse(answer,
			      "\"%s\" is exclusive to node %s and this is %s: two nodes with one "
			      "file system destroy it; "
			      "for several readers mode = \"shared-read\" and fmove nvme seal",
			      v->name, v->writer, f->node);
	return false;
}

/* Whether this node is to read what that one writes. */
static bool is_waiting_for(const struct fm_guard_facts *f, const struct fm_guard_peer *p)
{
	return f->volume->mode == FM_VOLUME_SHARED_READ && strcmp(p->node, f->volume->writer) == 0;
}

/*
 * Refuses for what a silent peer said last: it may still have the volume mounted, and nobody here
 * can find out.
 */
static bool is_silent_peer_against(const struct fm_guard_facts *f, const struct fm_guard_peer *p,
				   struct fm_guard_answer *answer)
{
	if (p->is_mounted && p->is_read_write)
		return refuse(answer,
			      "%s had it mounted read-write when it answered last, and does not "
			      "answer now: wait for it; if that "
			      "machine is off for good: fmove nvme forget %s",
			      p->node, p->node);
	if (p->is_mounted && is_writable(f))
		return refuse(answer,
			      "%s had it mounted read-only when it answered last, and does not "
			      "answer now: it would not see what is "
			      "written, but a mixture of old and new; wait for it, say fmove nvme "
			      "unseal --force %s if nobody reads there, "
			      "or, if that machine is off for good, fmove nvme forget %s",
			      p->node, f->volume->name, p->node);
	return false;
}

static bool is_peer_against(const struct fm_guard_facts *f, const struct fm_guard_peer *p,
			    struct fm_guard_answer *answer)
{
	const struct fm_volume *v = f->volume;
	const char *writer = v->mode == FM_VOLUME_READ_ONLY ? "" : v->writer;
	bool is_silent = p->silent_why[0], is_overruled = f->is_forced && !p->has_spoken;

	if (p->is_forgotten || (is_silent && is_overruled && is_writable(f)))
		return false;
	if (strcmp(p->node, f->node) == 0 && !is_silent)
		return refuse(answer,
			      "another node calls itself %s too: both would be the writer; give "
			      "each its own node.name",
			      f->node);
	if (p->writer[0] && strcmp(p->writer, writer) != 0)
		return refuse(answer,
			      "the configuration of %s names \"%s\" as the writer of \"%s\", this "
			      "one \"%s\"; make them "
			      "agree",
			      p->node, p->writer, v->name, writer);
	if (is_silent)
		return is_silent_peer_against(f, p, answer);
	if (p->is_mounted && p->is_read_write && is_waiting_for(f, p))
		return refuse(answer,
			      "%s has it mounted read-write; there, when it has written: fmove "
			      "nvme seal %s",
			      p->node, v->name);
	if (p->is_mounted && p->is_read_write)
		return refuse(answer, "%s has it mounted read-write; unmount it there first",
			      p->node);
	if (p->is_mounted && is_writable(f))
		return refuse(answer,
			      "%s has it mounted read-only and would not see what is written, but "
			      "a mixture of old and "
			      "new; unmount it there first",
			      p->node);
	return false;
}

static bool is_any_peer_against(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	for (unsigned i = 0; i < f->peer_count; i++)
		if (is_peer_against(f, &f->peers[i], answer))
			return true;
	return false;
}

/* Answers "waiting". That is no error: it ends by itself when the words come. */
static void wait_for(const struct fm_guard_facts *f, struct fm_guard_answer *answer,
		     const char *node)
{
	answer->verdict = FM_GUARD_WAITING;
	for (unsigned i = 0; i < f->peer_count && answer->waits_count == 0; i++)
		if (strcmp(f->peers[i].node, node) == 0)
			answer->waits_for[answer->waits_count++] = i;
}

/*
 * What the writer said of this volume. A node may also speak of namespaces for which it has no
 * volume; an entry that names a writer is preferred. NULL: nothing is known of it.
 */
static const struct fm_guard_peer *find_writer(const struct fm_guard_facts *f)
{
	const struct fm_guard_peer *found = NULL;

	for (unsigned i = 0; i < f->peer_count; i++)
		if (strcmp(f->peers[i].node, f->volume->writer) == 0 &&
		    (!found || f->peers[i].writer[0]))
			found = &f->peers[i];
	return found;
}

/* Which of its words is missing, and what brings it. */
static void say_unheard(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const struct fm_guard_peer *p = find_writer(f);
	const char *writer = f->volume->writer;
	char why[300];

	if (!p || p->silent_why[0])
		(void)snprintf(why, sizeof(why),
			       "%s%s%.100s%sfmoved must run on both nodes, with the other one as a "
			       "peer",
			       p ? writer : "", p ? " does not answer (" : "",
			       p ? p->silent_why : "", p ? "); " : "");
	else if (!p->writer[0])
		(void)snprintf(why, sizeof(why),
			       "%s answers, and its configuration does not name it as the writer; "
			       "say mode = \"shared-read\" and writer = \"%s\" there, as here",
			       writer, writer);
	else if (p->number < f->number)
		(void)snprintf(why, sizeof(why),
			       "%s says epoch %" PRIu64 ", and this node has heard of %" PRIu64
			       ": %s takes a higher one by itself, within an hour",
			       writer, p->number, f->number, writer);
	else
		(void)snprintf(why, sizeof(why), "the next answer of %s is awaited, seconds",
			       writer);
	refuse(answer, "waits for the word of %s whether \"%s\" is sealed: %s", writer,
	       f->volume->name, why);
}

/* Clean on the disk is not enough: the writer may have it open the next moment, and readers would
 * not see what it writes. */
static bool is_not_sealed(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const struct fm_volume *v = f->volume;

	if (v->mode != FM_VOLUME_SHARED_READ || fm_guard_is_writer(v, f->node) ||
	    (f->has_heard && f->is_sealed))
		return false;
	if (f->has_heard)
		return refuse(answer,
			      "\"%s\" is not sealed, %s may write to it; there, when it has "
			      "written: fmove nvme seal %s",
			      v->name, v->writer, v->name);
	say_unheard(f, answer);
	wait_for(f, answer, v->writer);
	return true;
}

static bool is_mounted_already(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const struct fm_mount *there = fm_mounts_at(f->mounts, f->volume->mount_point);
	const struct fm_mount *mine = fm_mounts_of(f->mounts, f->ns->dev, NULL);
	struct fm_path_shown point, source;

	if (mine)
		return refuse(answer, "%s is mounted already, at %s", f->ns->name,
			      fm_path_show(mine->point, &point));
	if (there)
		return refuse(answer,
			      "something else is mounted at %s: %s, %s; unmount it or choose "
			      "another mount point",
			      fm_path_show(there->point, &point),
			      fm_path_show(there->source, &source), there->fs_type);
	return false;
}

static bool is_file_system_wrong(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const char *wanted = f->volume->fs_type, *is = f->sb->type;

	if (!is[0] && !wanted[0])
		return refuse(answer,
			      "no known file system is on %s; make one on the writer (mkfs), or "
			      "say which it is with type",
			      f->ns->name);
	if (!is[0] && fm_superblock_knows(wanted))
		return refuse(answer,
			      "the configuration says %s, and no known file system is on %s: it "
			      "may be another device, or its beginning "
			      "is overwritten; look at it on the writer (wipefs /dev/%s)",
			      wanted, f->ns->name, f->ns->name);
	if (is[0] && wanted[0] && strcmp(is, wanted) != 0 &&
	    !(is_ext(is) && strcmp(wanted, "ext4") == 0))
		return refuse(answer, "%s is on %s, the configuration says %s", is, f->ns->name,
			      wanted);
	if (f->sb->has_errors)
		return refuse(answer,
			      "the file system on %s is marked as damaged; on the writer, "
			      "unmounted: e2fsck -f /dev/%s",
			      f->ns->name, f->ns->name);
	return false;
}

/* A peer that knows the volume may reach it, whatever the mode says here. */
static bool is_reached_by_several(const struct fm_guard_facts *f)
{
	bool is_known = f->volume->mode == FM_VOLUME_SHARED_READ;

	for (unsigned i = 0; i < f->peer_count; i++)
		is_known = is_known || f->peers[i].writer[0];
	return is_known;
}

static bool is_writing_unsafe(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const char *type = f->sb->type;

	if (!is_writable(f))
		return false;
	if (f->ns->is_read_only)
		return refuse(answer,
			      "%s is read-only: the target protects it, and not because of us "
			      "(nvme get-feature -f 0x84 /dev/%s), or "
			      "it was set so here (blockdev --setrw /dev/%s)",
			      f->ns->name, f->ns->name, f->ns->name);
	if (strcmp(type, "squashfs") == 0 || strcmp(type, "erofs") == 0)
		return refuse(answer,
			      "%s is on %s, which nobody can write; say mode = \"read-only\"", type,
			      f->ns->name);
	if (!type[0] && is_reached_by_several(f))
		return refuse(answer,
			      "the configuration says %s, which cannot be told to be on %s: where "
			      "several nodes may reach a volume, "
			      "that is mounted read-only alone; say mode = \"read-only\", or take "
			      "ext4 or XFS",
			      f->volume->fs_type, f->ns->name);
	return false;
}

/* Mounted read-only, ext4 and XFS replay their journal all the same, below the feet of whoever else
 * has it. */
static bool is_reading_unsafe(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const char *type = f->sb->type;

	if (is_writable(f) || !(is_ext(type) || strcmp(type, "xfs") == 0) ||
	    f->sb->clean == FM_CLEAN)
		return false;
	answer->is_unclean = fm_guard_is_writer(f->volume, f->node) && f->sb->clean == FM_UNCLEAN;
	if (answer->is_unclean)
		return refuse(
			answer,
			"the %s on %s was not cleanly unmounted since it was sealed: another node "
			"has written to it; take the seal "
			"back (fmove nvme unseal %s), look at what is there, and seal it anew",
			type, f->ns->name, f->volume->name);
	/* A reader is asked this of what is sealed alone: its writer has it as it was then. */
	if (f->volume->mode == FM_VOLUME_SHARED_READ && f->sb->clean == FM_UNCLEAN)
		return refuse(
			answer,
			"the %s on %s was not cleanly unmounted since it was sealed: another node "
			"has written to it, and a reader must not replay its journal; on %s: fmove "
			"nvme unseal %s, look at what is there, and seal it anew",
			type, f->ns->name, f->volume->writer, f->volume->name);
	return refuse(answer,
		      "the %s on %s %s cleanly unmounted: without a replay of its journal it "
		      "cannot be read safely, and a "
		      "reader must not replay it; let the writer mount and unmount it",
		      type, f->ns->name,
		      f->sb->clean == FM_UNCLEAN ? "was not" : "cannot be told to have been");
}

/* ---- the permission ---- */

/* The file system itself keeps a second writer away: as long as it is mounted read-write, which
 * what is sealed is not. */
static bool is_protected(const struct fm_guard_facts *f)
{
	return is_writable(f) && is_ext(f->sb->type) && f->sb->has_mmp;
}

/*
 * Whether this node certainly does not read the volume. It must have said "not mounted" at the
 * number of the unseal or a higher one. A node that knows no such volume has said so with any
 * answer: whatever it hears of the volume later is younger.
 *
 * An exclusive volume has no readers. But it may have been shared before: a silent node that knew a
 * seal of it may still read. So may a silent node of which nothing is known, if there ever was a
 * seal.
 */
static bool has_left(const struct fm_guard_facts *f, const struct fm_guard_peer *p)
{
	if (f->volume->mode != FM_VOLUME_SHARED_READ)
		return p->has_answered || (p->number == 0 && (p->names_it || f->number == 0));
	return p->names_it ? p->number >= f->number : p->has_answered;
}

/* The writer's, mounted read-only. Readers may have it as well. */
static bool is_own_seal(const struct fm_guard_facts *f)
{
	return f->volume->mode == FM_VOLUME_SHARED_READ && f->is_sealed && !f->is_sealing &&
	       fm_guard_is_writer(f->volume, f->node);
}

/* A protection is against writers, while it is mounted read-write: not of what is sealed. That a
 * node does not read only it can say. */
static bool is_word_missing(const struct fm_guard_facts *f, const struct fm_guard_peer *p,
			    bool has_protection)
{
	if (is_own_seal(f))
		return p->counts && !p->is_forgotten && !p->has_answered;
	return p->counts && !p->is_forgotten &&
	       !((p->has_answered || has_protection) && has_left(f, p));
}

static bool is_any_word_missing(const struct fm_guard_facts *f, bool has_protection)
{
	bool is_missing =
		f->peers_why[0] && !(has_protection && f->volume->mode != FM_VOLUME_SHARED_READ);

	for (unsigned i = 0; i < f->peer_count; i++)
		is_missing = is_missing || is_word_missing(f, &f->peers[i], has_protection);
	return is_missing;
}

/*
 * A node that counts and has the same NVMe host id: to the target, a reservation of this node is
 * its own as well. NULL: none is known.
 */
static const struct fm_guard_peer *find_same_host(const struct fm_guard_facts *f)
{
	for (unsigned i = 0; i < f->peer_count; i++)
		if (f->peers[i].is_same_host && f->peers[i].counts && !f->peers[i].is_forgotten)
			return &f->peers[i];
	return NULL;
}

/* "n2 (is not connected), n3", cut where there is no more room. */
static void list_missing(const struct fm_guard_facts *f, struct fm_guard_answer *answer,
			 char *names, size_t cap)
{
	size_t at = 0;

	for (unsigned i = 0; i < f->peer_count && answer->waits_count < FM_GUARD_WAITS_MAX; i++) {
		const struct fm_guard_peer *p = &f->peers[i];
		bool has_why = p->silent_why[0];

		if (!is_word_missing(f, p, is_protected(f)))
			continue;
		answer->waits_for[answer->waits_count++] = i;
		if (at < cap)
			at += (size_t)snprintf(names + at, cap - at, "%s%s%s%s%s",
					       at > 0 ? ", " : "", p->node, has_why ? " (" : "",
					       p->silent_why, has_why ? ")" : "");
	}
}

/*
 * Adds to the reason that a reservation would permit the mount, if no other node had the same host
 * id.
 */
static void say_same_host(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const struct fm_guard_peer *same = find_same_host(f);
	size_t len = strlen(answer->why);

	if (same && f->is_reservable)
		(void)snprintf(answer->why + len, sizeof(answer->why) - len,
			       "; a reservation keeps neither away: %s has the NVMe host id of "
			       "this node, give it one of its own (fmove-nvme(1), RESERVATIONS)",
			       same->node);
}

/* Says which nodes are waited for, and what a person can do. */
static void say_waiting(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	const char *volume = f->volume->name;
	char names[200] = "";

	list_missing(f, answer, names, sizeof(names));
	if (answer->waits_count == 0)
		refuse(answer,
		       "waits to hear from fmoved which other nodes there are (%s); if no other "
		       "node reaches this volume, say "
		       "nodes = [ ] for it; or, once: fmove nvme up --force %s",
		       f->peers_why, volume);
	else
		refuse(answer,
		       "waits for the word of %s that nobody %s there; if that machine is off: "
		       "fmove nvme up --force %s, once, or "
		       "fmove nvme forget %s, for good",
		       names,
		       f->volume->mode == FM_VOLUME_SHARED_READ && !is_own_seal(f)
			       ? "has it mounted"
			       : "writes to it",
		       volume, f->peers[answer->waits_for[0]].node);
	say_same_host(f, answer);
	answer->verdict = FM_GUARD_WAITING;
}

/*
 * Nothing forbids the mount, but that alone is no permission: words may be missing.
 *
 * Words are needed to write, to seal (nobody else may write to what is sealed), and to mount an own
 * seal: while this node was off, the others may have forgotten it and named another writer, and it
 * would read beside that one. Whether the target reserves the volume is known only when it is
 * asked, between the guard and the mount.
 */
static bool is_waiting(const struct fm_guard_facts *f, struct fm_guard_answer *answer)
{
	if (!(is_writable(f) || f->is_sealing || is_own_seal(f)) || f->is_forced ||
	    !is_any_word_missing(f, is_protected(f)))
		return false;
	say_waiting(f, answer);
	answer->needs_reservation = is_writable(f) && f->is_reservable &&
				    !is_any_word_missing(f, true) && !find_same_host(f);
	return !answer->needs_reservation;
}

/* Without a journal (ext2, squashfs, erofs) there is nothing to leave alone; others must do with a
 * read-only device. */
static const char *options_of_reader(const char *type)
{
	if (strcmp(type, "ext4") == 0 || strcmp(type, "ext3") == 0)
		return "ro,noload";
	if (strcmp(type, "xfs") == 0)
		return "ro,norecovery";
	return "ro";
}

void fm_guard_decide(const struct fm_guard_facts *facts, struct fm_guard_answer *answer)
{
	/*
	 * The order decides which reason the user sees. Rules about who may mount come before rules
	 * about what is on the device.
	 */
	static bool (*const rules[])(const struct fm_guard_facts *, struct fm_guard_answer *) = {
		is_mode_against,   is_another_namespace, is_another_than_last, is_any_peer_against,
		is_not_sealed,	   is_mounted_already,	 is_file_system_wrong, is_another_size,
		is_writing_unsafe, is_reading_unsafe,	 is_waiting,
	};

	assert(facts->volume->mount_point[0]);
	*answer = (struct fm_guard_answer){ .verdict = FM_GUARD_REFUSED };
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i](facts, answer))
			return;
	answer->verdict = is_writable(facts) ? FM_GUARD_READ_WRITE : FM_GUARD_READ_ONLY;
	answer->options = is_writable(facts) ? "rw" : options_of_reader(facts->sb->type);
}
