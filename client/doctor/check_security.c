/* SPDX-License-Identifier: MIT */
/* check_security - who else may read a secret or write into a store. See check.h. */
#include "client/doctor/check.h"

#include "client/doctor/lookup.h"

#define OTHERS_AND_GROUP 077u
#define OTHERS_WRITE 02u
#define QUOTED_MAX (4 * FM_FACT_TEXT_MAX + 3)

static void files(const struct fm_facts *f, struct fm_findings *list)
{
	char quoted[QUOTED_MAX];
	struct fm_finding *out;

	for (size_t i = 0; i < f->files_count; i++) {
		const struct fm_facts_file *s = &f->files[i];

		if (!s->mode.is_known || (s->mode.n & OTHERS_AND_GROUP) == 0)
			continue;
		out = fm_finding_add(list, "secret-open", FM_ERROR, f);
		fm_finding_read(out, "The %s file %s has mode %04o.", fm_shown(&s->role),
				fm_shown(&s->path), (unsigned)s->mode.n);
		fm_finding_means(out, "Who can read it can be this node to its peers and targets.");
		if (*fm_shell_quote(fm_text_of(&s->path), quoted, sizeof(quoted)))
			fm_finding_mend(out, "chmod 600 -- %s", quoted);
		fm_finding_mend(out, "# if others may have read it: a new one (fmove keygen), and "
				     "its public key to the peers");
	}
}

static void stores(const struct fm_facts *f, struct fm_findings *list)
{
	char quoted[QUOTED_MAX];
	struct fm_finding *out;

	for (size_t i = 0; i < f->stores_count; i++) {
		const struct fm_facts_store *s = &f->stores[i];

		if (!s->mode.is_known || (s->mode.n & OTHERS_WRITE) == 0)
			continue;
		out = fm_finding_add(list, "store-writable", FM_WARNING, f);
		fm_finding_read(out,
				"The directory %s of store %s has mode %04o: every user of this "
				"machine may write there.",
				fm_shown(&s->directory), fm_shown(&s->name), (unsigned)s->mode.n);
		fm_finding_means(out, "Any of them can put files there past the rules of the "
				      "store, and replace what is stored if the directory is not "
				      "sticky.");
		if (*fm_shell_quote(fm_text_of(&s->directory), quoted, sizeof(quoted)))
			fm_finding_mend(out, "chmod o-w -- %s", quoted);
	}
}

void fm_check_security(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		files(set->at[n], out);
		stores(set->at[n], out);
	}
}
