/* SPDX-License-Identifier: MIT */
/*
 * check_versions - versions in which something is known to be wrong that concerns this node. See
 * check.h.
 *
 * A fault is in the table only if a public page says in which versions it is; the finding names
 * that page. Distributions put single mends into kernels whose number stays, so a number alone says
 * nothing: only kernels are compared that follow the stable releases one by one, which are those of
 * kernel.org and Debian. Of any other it is not known what is in it, and so there is no finding.
 */
#include "client/doctor/check.h"

#include <stdio.h>
#include <string.h>

struct version {
	unsigned at[3];
};

static int compare(const struct version *a, const struct version *b)
{
	for (size_t i = 0; i < sizeof(a->at) / sizeof(a->at[0]); i++)
		if (a->at[i] != b->at[i])
			return a->at[i] < b->at[i] ? -1 : 1;
	return 0;
}

/* "6.1.64", and how much of the text that is; 0: it begins with no such number. */
static size_t parse(const char *text, struct version *out)
{
	int len = 0;

	if (sscanf(text, "%3u.%3u.%5u%n", &out->at[0], &out->at[1], &out->at[2], &len) != 3)
		return 0;
	return (size_t)len;
}

/*
 * The stable release that the kernel was made from. Debian's says it when it tells who built it:
 * "#1 SMP PREEMPT_DYNAMIC Debian 6.1.64-1 (2023-11-30)", while its release is "6.1.0-14-amd64". One
 * of kernel.org has it for a release, and nothing behind it.
 */
static bool kernel_of(const struct fm_facts *f, struct version *out)
{
	static const char debian[] = " Debian ";
	const char *text = strstr(fm_text_of(&f->node.kernel_build), debian);
	size_t len;

	if (text) {
		text += strlen(debian);
		len = parse(text, out);
		return len > 0 && text[len] == '-';
	}
	text = fm_text_of(&f->node.kernel);
	len = parse(text, out);
	return f->node.kernel_build.is_known && len > 0 && text[len] == '\0';
}

/* OpenZFS as it was released: "2.2.0-1". Others have letters behind that. */
static bool zfs_of(const struct fm_facts *f, struct version *out)
{
	const char *text = fm_text_of(&f->node.zfs);
	size_t len = parse(text, out);

	return len > 0 && strcmp(text + len, "-1") == 0;
}

static bool has_store_of(const struct fm_facts *f, const char *type)
{
	for (size_t i = 0; i < f->stores_count; i++)
		if (fm_fact_is(&f->stores[i].type, type))
			return true;
	return false;
}

static bool has_ext4(const struct fm_facts *f)
{
	return has_store_of(f, "ext4");
}

static bool has_zfs(const struct fm_facts *f)
{
	return has_store_of(f, "zfs");
}

static bool has_nvme_tcp(const struct fm_facts *f)
{
	for (size_t i = 0; i < f->controllers_count; i++)
		if (fm_fact_is(&f->controllers[i].transport, "tcp"))
			return true;
	return false;
}

struct fault {
	const char *id;
	enum fm_severity severity;
	const char *what; /* has that version */
	bool (*version_of)(const struct fm_facts *f, struct version *out);
	bool (*concerns)(const struct fm_facts *f);
	struct version from, until; /* the first that has it; the first that has it no more */
	const char *means, *source;
};

/* OpenZFS, in each of its branches. */
#define ZFS_HOLES(...)                                                                             \
	"version-zfs-holes", FM_ERROR, "OpenZFS", zfs_of, has_zfs, __VA_ARGS__,                    \
		"A store is on ZFS. Of a file that was written just before, data may be shown as " \
		"a hole: what is copied then has zeros in its place, and its checksum is of "      \
		"these.",                                                                          \
		"https://github.com/openzfs/zfs/issues/15526"

static const struct fault faults[] = {
	{"version-ext4-direct",
	 FM_WARNING,
	 "Linux",
	 kernel_of,
	 has_ext4,
	 {{6, 1, 64}},
	 {{6, 1, 66}},
	 "A store is on ext4. What a program writes there past the page cache, one piece after the "
	 "other, may come to a wrong place in the file. fmove says the place of each piece.",
	 "https://bugs.debian.org/1057843"},
	{"version-nvme-address",
	 FM_WARNING,
	 "Linux",
	 kernel_of,
	 has_nvme_tcp,
	 {{6, 1, 0}},
	 {{6, 1, 18}},
	 "There are connections over NVMe/TCP. Whoever reads the address of one that is being made "
	 "anew, as \"nvme list\" does, may stop the machine. fmove does not read it.",
	 "https://www.kernel.org/pub/linux/kernel/v6.x/ChangeLog-6.1.18, \"nvme-tcp: don't access "
	 "released socket during error recovery\""},
	{ZFS_HOLES({{2, 1, 0}}, {{2, 1, 14}})},
	{ZFS_HOLES({{2, 2, 0}}, {{2, 2, 2}})},
};

static void look(const struct fault *fault, const struct fm_facts *f, struct fm_findings *list)
{
	const unsigned *until = fault->until.at;
	struct fm_finding *out;
	struct version v;

	if (!fault->concerns(f) || !fault->version_of(f, &v) || compare(&v, &fault->from) < 0 ||
	    compare(&v, &fault->until) >= 0)
		return;
	out = fm_finding_add(list, fault->id, fault->severity, f);
	fm_finding_read(out, "%s %u.%u.%u runs.", fault->what, v.at[0], v.at[1], v.at[2]);
	fm_finding_means(out, "%s", fault->means);
	fm_finding_means(out, "See %s.", fault->source);
	fm_finding_mend(out, "# install %s %u.%u.%u or newer, then boot it", fault->what, until[0],
			until[1], until[2]);
}

void fm_check_versions(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++)
		for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
			look(&faults[i], set->at[n], out);
}
