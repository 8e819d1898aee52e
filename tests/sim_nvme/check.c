/* SPDX-License-Identifier: MIT */
/* What must hold: after each step, at each mount, and in the end. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim_nvme/nvme_sim.h"

static bool is_text(const struct fm_json *said, const char *key, const char *text)
{
	return strcmp(fm_json_as_text(fm_json_get(said, key)), text) == 0;
}

/* By its name, or by what it is, as its peers look for it. */
static bool is_said(const struct node *n, unsigned volume, bool is_read_write)
{
	const struct fm_json *at;
	size_t i;

	for (i = 0; (at = fm_json_at(n->published, i)); i++)
		if ((is_text(at, "name", sim_volumes[volume]) ||
		     is_text(at, "wwid", sim_wwids[volume])) &&
		    fm_json_is_true(fm_json_get(at, "mounted")) &&
		    (!is_read_write || fm_json_is_true(fm_json_get(at, "read_write"))))
			return true;
	return false;
}

void check_said(const struct node *n, unsigned volume, bool is_read_write)
{
	if (!is_said(n, volume, is_read_write))
		sim_violate("%s mounts %s %s, and its peers were not told", n->name,
			    sim_volumes[volume], is_read_write ? "rw" : "ro");
}

void check_heard(const struct node *n, unsigned volume, const char *call)
{
	if (strcmp(call, "prepare") != 0 || sim.is_forced[volume])
		return;
	for (unsigned i = 0; i < sim.node_count; i++)
		if (n->has_heard_hand[i][volume] && !sim.node[i].was_forgotten)
			sim_violate("%s mounts %s, and has heard that %s has it by hand", n->name,
				    sim_volumes[volume], sim.node[i].name);
}

/* Out of the table of mounts, of a volume that is not configured, and what was written down of it
 * is lost: nothing is left to know it by. Until it is configured again, and a daemon has looked. */
static bool is_unknowable(const struct node *n, unsigned volume)
{
	return (n->is_out[volume] || n->was_out[volume]) && n->is_held_lost;
}

static bool has_left(const struct node *n, unsigned volume)
{
	const struct mounted *left = &n->device[volume].left;

	return left->is_there && !left->is_by_hand && !is_unknowable(n, volume);
}

/* What another host has reserved beside its mount a node cannot write, and unmounts when it hears
 * of it; what it has read is its affair. */
static bool writes(const struct node *n, unsigned volume)
{
	const struct device *d = &n->device[volume];

	return (has_left(n, volume) && !d->left.is_read_only && !d->left.is_beaten) ||
	       (d->mount.is_there && !d->mount.is_by_hand && !d->mount.is_read_only &&
		!d->mount.is_beaten);
}

static bool has_it(const struct node *n, unsigned volume)
{
	const struct device *d = &n->device[volume];

	return (has_left(n, volume) && !d->left.is_beaten) ||
	       (d->mount.is_there && !d->mount.is_by_hand && !d->mount.is_beaten);
}

/* What a person must not do (fmove-nvme(1), forget): a writer that is forgotten runs, and mmp or a
 * reservation lets it write beside who reads what the next writer has sealed. A reservation is for
 * what is written, so nobody has one of what is sealed. */
static bool is_back_from_the_dead(const struct node *n, unsigned volume)
{
	return n->was_forgotten && sim.mode[volume] == FM_VOLUME_SHARED_READ &&
	       (!sim.disk[volume].is_xfs || sim.has_reservations);
}

static bool is_written_by_the_dead(unsigned volume)
{
	for (unsigned i = 0; i < sim.node_count; i++)
		if (writes(&sim.node[i], volume) && is_back_from_the_dead(&sim.node[i], volume))
			return true;
	return false;
}

void check_clean(const struct node *n, unsigned volume)
{
	if (sim.was_by_hand[volume] || sim.is_forced[volume] || is_written_by_the_dead(volume))
		return;
	if (sim.disk[volume].is_dirty)
		sim_violate("%s mounts %s read-only, which was not cleanly unmounted", n->name,
			    sim_volumes[volume]);
	if (sim.disk[volume].is_lost)
		sim_violate("%s mounts %s read-only, of which the last bytes are lost", n->name,
			    sim_volumes[volume]);
}

/* Of a node that was never heard nobody knows that it is the same host. */
static bool is_clone_unknown(const struct node *a, const struct node *b, unsigned volume)
{
	const struct mounted *of_a = &a->device[volume].mount, *of_b = &b->device[volume].mount;

	return sim.has_reservations && sim.is_cloned &&
	       !((of_a->known_hosts & 1u << b->number) && (of_b->known_hosts & 1u << a->number));
}

static void check_pair(const struct node *a, const struct node *b, unsigned volume)
{
	if (sim.is_forced[volume] || is_clone_unknown(a, b, volume))
		return;
	if (writes(a, volume) && writes(b, volume))
		sim_violate("%s and %s both write to %s", a->name, b->name, sim_volumes[volume]);
	else if (writes(a, volume) && has_it(b, volume) && !is_back_from_the_dead(a, volume))
		sim_violate("%s writes to %s, and %s reads it", a->name, sim_volumes[volume],
			    b->name);
	else if (writes(b, volume) && has_it(a, volume) && !is_back_from_the_dead(b, volume))
		sim_violate("%s writes to %s, and %s reads it", b->name, sim_volumes[volume],
			    a->name);
}

/* What a person has mounted is told from the moment when the node has seen it, until it is free. */
static bool is_to_be_told(const struct node *n, unsigned volume, const struct mounted *m)
{
	if (!m->is_there || !n->published || (m->is_by_hand && !m->is_told))
		return false;
	return m == &n->device[volume].mount || !is_unknowable(n, volume);
}

static void check_volume(unsigned volume)
{
	for (unsigned i = 0; i < sim.node_count; i++) {
		const struct node *n = &sim.node[i];
		const struct mounted *m = &n->device[volume].mount, *left = &n->device[volume].left;

		if (is_to_be_told(n, volume, left) && !is_said(n, volume, !left->is_read_only))
			sim_violate("%s still %s %s, and tells its peers that it does not", n->name,
				    left->is_read_only ? "reads" : "writes to",
				    sim_volumes[volume]);
		if (is_to_be_told(n, volume, m) && !is_said(n, volume, !m->is_read_only))
			sim_violate("%s has %s %s, and tells its peers that it has not", n->name,
				    sim_volumes[volume], m->is_read_only ? "ro" : "rw");
		for (unsigned k = 0; k < i; k++)
			check_pair(&sim.node[k], n, volume);
	}
}

void check_step(void)
{
	for (unsigned v = 0; v < sim.volume_count; v++)
		check_volume(v);
}

/* ---- mounted by hand ---- */

static bool is_writing_anyhow(const struct node *n, unsigned volume)
{
	const struct mounted *m = &n->device[volume].mount;

	return m->is_there && !m->is_read_only;
}

static unsigned writers_but(const struct node *n, unsigned volume)
{
	unsigned count = 0;

	for (unsigned i = 0; i < sim.node_count; i++)
		count += i != n->number && is_writing_anyhow(&sim.node[i], volume);
	return count;
}

void check_hands(void)
{
	for (unsigned v = 0; v < sim.volume_count; v++) {
		for (unsigned i = 0; i < sim.node_count; i++) {
			const struct node *n = &sim.node[i];

			if (!n->sup || !is_writing_anyhow(n, v))
				continue;
			if (!is_said(n, v, true))
				sim_violate("%s has %s by hand, and tells nobody", n->name,
					    sim_volumes[v]);
			if (sim.is_user[v][i] && writers_but(n, v) > 0 &&
			    fm_supervisor_count(n->sup).alarms == 0)
				sim_violate("%s and another node write to %s: no alarm there",
					    n->name, sim_volumes[v]);
		}
	}
}

/* ---- in the end ---- */

/* Another host had it reserved beside this mount, and its node goes on with it. */
static bool is_stale(const struct mounted *m)
{
	return m->is_there && m->is_beaten && !m->is_untold && !m->is_by_hand;
}

#define STALE_NS (20 * S)		/* to look, to ask the target and to unmount */

void check_stale(void)
{
	for (unsigned i = 0; i < sim.node_count; i++) {
		const struct node *n = &sim.node[i];

		if (n->sup && sim.now_ns > n->stalled_ns + STALE_NS &&
		    sim.now_ns > n->booted_ns + STALE_NS && is_stale(&n->device[0].mount))
			sim_violate("%s goes on with %s, which another host had reserved beside it",
				    n->name, sim_volumes[0]);
	}
}

/* What a node must have in the end: 'w', 'r' or '-'. */
static char wanted(const struct node *n, unsigned volume)
{
	const struct node *writer = &sim.node[n->writer[volume]];

	if (!sim.is_user[volume][n->number])
		return '-';
	if (sim.mode[volume] == FM_VOLUME_EXCLUSIVE)
		return n == writer ? 'w' : '-';
	if (!writer->sup || !fm_supervisor_is_sealed(writer->sup, sim_volumes[volume]))
		return n == writer ? 'w' : '-';
	return 'r';
}

static char present(const struct node *n, unsigned volume)
{
	const struct mounted *m = &n->device[volume].mount;

	if (!m->is_there)
		return '-';
	if (!m->is_read_only)
		return m->is_elsewhere ? '-' : is_stale(m) ? 'o' : 'w';
	return m->content == sim.disk[volume].content || m->is_overruled || sim.is_hand_lost[volume]
		       ? 'r'
		       : 'o';
}

static void complain(const struct node *n, unsigned volume)
{
	struct fm_json *shown = n->sup ? fm_supervisor_show(n->sup, sim_volumes[volume]) : NULL;
	char *text = shown ? fm_json_dump(shown, FM_JSON_ONE_LINE) : NULL;

	sim_violate("all is well again, and %s has %s as '%c', not '%c': %.1500s", n->name,
		    sim_volumes[volume], present(n, volume), wanted(n, volume),
		    text ? text : "its daemon does not run");
	free(text);
	fm_json_free(shown);
}

/*
 * Whose state is lost does not know that it set the device read-only itself, or that it has
 * reserved it; what was sealed another writer, or a person, may have left open when its power went.
 * It says what to do, and a person does that.
 */
static void help(struct node *n, unsigned volume, const char *text)
{
	if (strstr(text, "(blockdev --setrw ")) {
		sim_trace("%s: a person says blockdev --setrw for %s", n->name,
			  sim_volumes[volume]);
		n->device[volume].is_read_only = false;
	}
	if (strstr(text, "reserved for another host"))
		sim.disk[volume].holder = 0;
	if (strstr(text, "(fmove nvme unseal "))
		sim_seal(n, volume, false);
	if (strstr(text, ": fmove nvme unseal "))
		sim_seal(&sim.node[n->writer[volume]], volume, false);
}

void check_help(void)
{
	for (unsigned i = 0; i < sim.node_count; i++) {
		for (unsigned v = 0; v < sim.volume_count; v++) {
			struct node *n = &sim.node[i];
			struct fm_json *shown =
				n->sup ? fm_supervisor_show(n->sup, sim_volumes[v]) : NULL;
			const char *text = fm_json_as_text(fm_json_get(shown, "text"));

			if (text)
				help(n, v, text);
			fm_json_free(shown);
		}
	}
}

bool check_is_calm(bool is_last)
{
	bool is_calm = true;

	for (unsigned v = 0; v < sim.volume_count; v++) {
		for (unsigned i = 0; i < sim.node_count; i++) {
			const struct node *n = &sim.node[i];

			if (n->sup && present(n, v) == wanted(n, v))
				continue;
			is_calm = false;
			if (is_last)
				complain(n, v);
		}
	}
	return is_calm;
}
