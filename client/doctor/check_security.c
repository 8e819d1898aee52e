/* SPDX-License-Identifier: MIT */
/* check_security - who else may read a secret or write into a store. See check.h. */
#include "client/doctor/check.h"

#include <stdlib.h>
#include <string.h>

#include "client/doctor/lookup.h"
#include "mover/base/shell.h"

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

/* ---- listening where nobody is reached ---- */

/* Of "[::]:7471" and the like, for every address; 0: of one address, or not known. */
static unsigned port_for_all(const struct fm_facts *f)
{
	static const char *const all[] = { ":", "[::]:", "0.0.0.0:" };
	const char *listen = fm_text_of(&f->daemon.listen);

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strncmp(listen, all[i], strlen(all[i])) == 0)
			return (unsigned)strtoul(listen + strlen(all[i]), NULL, 10) & 0xffff;
	return 0;
}

/* Whether one of the rails, all of which are known, has an address of that interface. */
static bool has_rail(const struct fm_facts *f, const struct fm_fact *interface)
{
	const struct fm_facts_address *a = NULL;

	while ((a = fm_address_next(f, interface, a)) != NULL)
		for (size_t i = 0; i < f->rails_count; i++)
			if (!a->address.is_known || !f->rails[i].local.is_known ||
			    fm_fact_is_same(&a->address, &f->rails[i].local))
				return true;
	return false;
}

static void listens(const struct fm_facts *f, struct fm_findings *list)
{
	const unsigned port = port_for_all(f);
	struct fm_finding *out;

	if (port == 0 || !f->addresses_read.is_known || !f->ports_read.is_known ||
	    f->ports_count == 0 || f->rails_count == 0)
		return;
	for (size_t i = 0; i < f->routes_count; i++) {
		const struct fm_facts_route *r = &f->routes[i];

		if (!r->bits.is_known || r->bits.n > 0 || !r->interface.is_known ||
		    fm_port_of(f, &r->interface) || !fm_address_next(f, &r->interface, NULL) ||
		    has_rail(f, &r->interface))
			continue;
		out = fm_finding_add(list, "listens-on-lan", FM_NOTE, f);
		fm_finding_read(out, "fmoved listens at %s, so at %s, too, where the default route "
				     "leads; no rail goes over it.",
				f->daemon.listen.text, r->interface.text);
		fm_finding_means(out, "Who has no key is refused, but whoever is in that network "
				      "can try. Without need of it nobody should.");
		fm_finding_mend(out, "nft add table inet fmove");
		fm_finding_mend(out, "nft 'add chain inet fmove in { type filter hook input "
				     "priority 0; }'");
		fm_finding_mend(out, "nft add rule inet fmove in iifname %s tcp dport %u drop",
				r->interface.text, port);
		return; /* IPv4 and IPv6 may have one each */
	}
}

void fm_check_security(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		files(set->at[n], out);
		stores(set->at[n], out);
		listens(set->at[n], out);
	}
}
