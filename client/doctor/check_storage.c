/* SPDX-License-Identifier: MIT */
/*
 * check_storage - what is mounted by a name that changes, who connects volumes, and what room there
 * is. See check.h.
 */
#include "client/doctor/check.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "client/doctor/lookup.h"
#include "client/cli/show.h"

#define FULL_PERCENT 2u

/* "/dev/nvme0n1", "/dev/nvme1n1p2" */
static bool is_changing_name(const char *source)
{
	static const char prefix[] = "/dev/nvme", digits[] = "0123456789";
	const char *at = source + strlen(prefix);

	if (strncmp(source, prefix, strlen(prefix)) != 0 || strspn(at, digits) == 0)
		return false;
	at += strspn(at, digits);
	if (*at != 'n' || strspn(at + 1, digits) == 0)
		return false;
	at += 1 + strspn(at + 1, digits);
	return *at == '\0' || (*at == 'p' && strspn(at + 1, digits) > 0 &&
			       strspn(at + 1, digits) == strlen(at + 1));
}

/* More than one controller, or volumes: then a number can be another device's at the next boot. */
static bool has_others(const struct fm_facts *f)
{
	return f->controllers_count > 1 || (f->daemon.volumes.is_known && f->daemon.volumes.n > 0);
}

static void fstab(const struct fm_facts *f, struct fm_findings *list)
{
	for (size_t i = 0; i < f->fstab_count; i++) {
		const struct fm_facts_fstab *l = &f->fstab[i];
		struct fm_finding *out;

		if (!l->source.is_known || !is_changing_name(l->source.text))
			continue;
		out = fm_finding_add(list, "fstab-device-name", has_others(f) ? FM_ERROR : FM_NOTE,
				     f);
		fm_finding_read(out, "/etc/fstab mounts %s at %s by its number.", l->source.text,
				fm_shown(&l->point));
		fm_finding_means(out, "%s",
				 has_others(f)
					 ? "Numbers are given in the order of connecting: after a "
					   "boot this may be another disk, or a "
					   "volume that another node writes to."
					 : "Numbers are given in the order of connecting. There is "
					   "one controller now; with a second one this may be "
					   "another disk.");
		fm_finding_mend(
			out,
			"blkid -s UUID -o value %s    # then UUID=... in its place in /etc/fstab",
			l->source.text);
	}
}

/* ---- who connects ---- */

static void two_owners(const struct fm_facts *f, struct fm_findings *list)
{
	bool is_ours = fm_fact_is_true(&f->daemon.volumes);
	struct fm_finding *out;

	for (size_t i = 0; i < f->processes_count; i++)
		is_ours = is_ours || fm_fact_is(&f->processes[i].name, "fmove-nvmed");
	for (size_t i = 0; i < f->owners_count && is_ours; i++) {
		const struct fm_facts_owner *o = &f->owners[i];

		if (!o->name.is_known || fm_fact_is(&o->name, "fmove-nvmed"))
			continue;
		out = fm_finding_add(list, "nvme-two-owners", FM_ERROR, f);
		fm_finding_read(
			out,
			"%s connects NVMe targets at the boot (%s), and fmove-nvmed does, too.",
			o->name.text, fm_shown(&o->evidence));
		fm_finding_means(out, "What it connects has its timeouts and its secrets, comes "
				      "back after fmove-nvmed disconnected it, and may be "
				      "mounted without the guard of fmove-nvmed.");
		fm_finding_mend(out,
				"systemctl disable --now %s.service    # and its targets as "
				"volumes in fmove.conf, if they are wanted",
				o->name.text);
	}
}

/* "traddr=10.0.0.9,trsvcid=4420,src_addr=..." without the last, which older facts have. */
static bool is_same_target(const struct fm_facts_controller *a, const struct fm_facts_controller *b)
{
	const char *x = fm_text_of(&a->address), *y = fm_text_of(&b->address);
	size_t len = strstr(x, ",src_addr=") ? (size_t)(strstr(x, ",src_addr=") - x) : strlen(x);
	size_t other = strstr(y, ",src_addr=") ? (size_t)(strstr(y, ",src_addr=") - y) : strlen(y);

	return len > 0 && len == other && strncmp(x, y, len) == 0 &&
	       fm_fact_is_same(&a->subsystem, &b->subsystem);
}

static void connected_twice(const struct fm_facts *f, struct fm_findings *list)
{
	struct fm_finding *out;

	for (size_t i = 0; i < f->controllers_count; i++)
		for (size_t k = i + 1; k < f->controllers_count; k++) {
			const struct fm_facts_controller *a = &f->controllers[i],
							 *b = &f->controllers[k];

			if (!is_same_target(a, b) || !b->name.is_known || !a->host_nqn.is_known ||
			    !b->host_nqn.is_known || fm_fact_is_same(&a->host_nqn, &b->host_nqn))
				continue;
			out = fm_finding_add(list, "nvme-connected-twice", FM_ERROR, f);
			fm_finding_read(out,
					"%s and %s are the same subsystem at the same address, as "
					"host %s and as host %s.",
					fm_shown(&a->name), fm_shown(&b->name), a->host_nqn.text,
					b->host_nqn.text);
			fm_finding_means(out,
					 "The target takes this node for two hosts: a reservation "
					 "of the one does not hold the other off, and the volume "
					 "has two block devices.");
			fm_finding_mend(out,
					"nvme disconnect -d %s    # the one that fmove nvme status "
					"does not show, when nothing of it is mounted",
					fm_text_of(&b->name));
		}
}

static void identity(const struct fm_facts *f, struct fm_findings *list)
{
	static const char mark[] = ":uuid:";
	const char *uuid = strstr(fm_text_of(&f->daemon.host_nqn), mark);
	struct fm_finding *out;

	if (!uuid || !f->daemon.host_id.is_known ||
	    strcasecmp(uuid + strlen(mark), f->daemon.host_id.text) == 0)
		return;
	out = fm_finding_add(list, "nvme-host-identity", FM_WARNING, f);
	fm_finding_read(out, "The host NQN has the UUID %s, the host ID is %s.",
			uuid + strlen(mark), f->daemon.host_id.text);
	fm_finding_means(out, "Current kernels refuse a host NQN that they know with another ID, "
			      "so a tool that takes the other pair does not connect.");
	fm_finding_mend(out, "# the same UUID in both, by the file that is right: "
			     "/etc/nvme/hostnqn or /etc/nvme/hostid; before anything is connected");
}

/* ---- room ---- */

static void room(const struct fm_facts *f, struct fm_findings *list)
{
	char left[FM_SHOW_MAX], size[FM_SHOW_MAX];
	struct fm_finding *out;

	for (size_t i = 0; i < f->stores_count; i++) {
		const struct fm_facts_store *s = &f->stores[i];

		if (!s->size_bytes.is_known || !s->free_bytes.is_known ||
		    s->free_bytes.n >= s->size_bytes.n / 100 * FULL_PERCENT)
			continue;
		out = fm_finding_add(list, "store-full", FM_WARNING, f);
		fm_finding_read(out, "The file system of store %s has %s free of %s.",
				fm_shown(&s->name), fm_show_bytes(s->free_bytes.n, left),
				fm_show_bytes(s->size_bytes.n, size));
		fm_finding_means(out, "What does not fit is refused before its first byte. A disk "
				      "this full writes slower, too.");
		fm_finding_mend(
			out,
			"fmove df    # what is kept aside there goes with: fmove purge NODE:STORE");
	}
}

/* A store that nobody may write to may lie on a file system that is read-only for good. */
static void read_only(const struct fm_facts *f, struct fm_findings *list)
{
	struct fm_finding *out;

	for (size_t i = 0; i < f->stores_count; i++) {
		const struct fm_facts_store *s = &f->stores[i];

		if (!fm_fact_is_true(&s->read_only) || !fm_fact_is_true(&s->writers))
			continue;
		out = fm_finding_add(list, "store-read-only", FM_ERROR, f);
		fm_finding_read(out, "The file system of store %s is mounted read-only, and the "
				     "store's rules let somebody write.", fm_shown(&s->name));
		fm_finding_means(out, "Each put is refused. Many file systems become read-only "
				      "when their disk has errors.");
		fm_finding_mend(out, "dmesg | grep -iE 'remount|I/O error'    # whether the disk "
				     "is the cause");
		fm_finding_mend(out, "# if not: mount -o remount,rw, or write = [ ] in the store, "
				     "if nobody is to write");
	}
}

/* ---- disks and files ---- */

static void hot(const struct fm_facts *f, struct fm_findings *list)
{
	struct fm_finding *out;

	for (size_t i = 0; i < f->disks_count; i++) {
		const struct fm_facts_disk *d = &f->disks[i];

		if (!d->temperature_c.is_known || !d->temperature_max_c.is_known ||
		    d->temperature_c.n < d->temperature_max_c.n)
			continue;
		out = fm_finding_add(list, "disk-hot", FM_WARNING, f);
		fm_finding_read(out, "%s has %llu degrees Celsius; %llu is where it warns.",
				fm_shown(&d->name), (unsigned long long)d->temperature_c.n,
				(unsigned long long)d->temperature_max_c.n);
		fm_finding_means(out, "It slows down so that it does not become hotter: transfers "
				      "begin fast and become slow.");
		fm_finding_mend(out, "# air or a heat sink for it; fmove bench disk --thorough "
				     "shows what it does when it is warm");
	}
}

static void cached(const struct fm_facts *f, struct fm_findings *list)
{
	struct fm_finding *out;

	for (size_t i = 0; i < f->stores_count; i++) {
		const struct fm_facts_store *s = &f->stores[i];

		if (!s->direct.is_known || s->direct.n)
			continue;
		out = fm_finding_add(list, "store-without-direct", FM_NOTE, f);
		fm_finding_read(out, "The file system of store %s, %s, has no O_DIRECT.",
				fm_shown(&s->name), fm_shown(&s->type));
		fm_finding_means(out, "Its files go through the page cache: more processor time, "
				      "and memory that a GPU may share is filled with them.");
		fm_finding_mend(out, "# a directory on ext4 or xfs as the store, if that matters");
	}
}

void fm_check_storage(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		fstab(set->at[n], out);
		two_owners(set->at[n], out);
		connected_twice(set->at[n], out);
		identity(set->at[n], out);
		room(set->at[n], out);
		read_only(set->at[n], out);
		hot(set->at[n], out);
		cached(set->at[n], out);
	}
}
