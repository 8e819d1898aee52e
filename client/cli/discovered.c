/* SPDX-License-Identifier: MIT */
/* discovered - see discovered.h. */
#include "client/cli/discovered.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "client/cli/fields.h"
#include "client/cli/show.h"
#include "config/config.h"
#include "config/options.h"
#include "config/value.h"
#include "mover/base/json.h"

#define DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"
#define NAME_ROOM (FM_VALUE_NAME_MAX + 1)

char *fm_discovered_address(const char *host, const char *port, char *out, size_t cap)
{
	bool is_v6 = strchr(host, ':') != NULL;

	/* one that is cut is no address: is_value() */
	(void)snprintf(out, cap, "%s%s%s:%s", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
	return out;
}

static const char *subsystem_of(const struct fm_json *entries, size_t i)
{
	return fm_field_text(fm_json_at(entries, i), "subsystem");
}

static char *address_of(const struct fm_json *entry, char out[static FM_DISCOVERED_ADDRESS_MAX])
{
	return fm_discovered_address(fm_field_text(entry, "address"), fm_field_text(entry, "port"),
				     out, FM_DISCOVERED_ADDRESS_MAX);
}

/* Whether the configuration takes that text for volumes.KEY. */
static bool is_value(const char *key, const char *text)
{
	const struct fm_option *o = fm_option_find("volumes", key);
	const struct fm_option_raw raw = { .type = FM_RAW_TEXT, .text = text };
	const struct fm_option_context ctx = { .dir = "." };
	struct fm_config_volume v = { 0 };
	char why[FM_OPTION_WHY_MAX];
	bool is = fm_option_set(o, &v, &ctx, &raw, why) == 0;

	fm_option_clear(o, &v);
	return is;
}

struct print {
	FILE *to;
	const struct fm_json *entries;
	const char *dialled_host;
	char name[FM_CONFIG_VOLUMES_MAX][NAME_ROOM];	/* of the volumes so far */
	unsigned count;
};

/* ---- names ---- */

/* Makes a name from what follows the last colon of the NQN. */
static void name_from(const char *subsystem, char out[static NAME_ROOM])
{
	const char *from = strrchr(subsystem, ':');
	size_t len = 0;

	for (from = from ? from + 1 : subsystem; *from && len < NAME_ROOM - 1; from++) {
		bool is_plain = isalnum((unsigned char)*from) && (unsigned char)*from < 0x80;

		if (is_plain || len > 0)
			out[len++] = is_plain || strchr("._-", *from) ? *from : '-';
	}
	if (len == 0)
		len = (size_t)sprintf(out, "volume");
	out[len] = '\0';
}

static bool is_taken(const struct print *p, const char *name)
{
	for (unsigned i = 0; i < p->count; i++)
		if (strcmp(p->name[i], name) == 0)
			return true;
	return false;
}

/* The name of the next volume, with a number if an earlier one has it already. */
static const char *name_of(struct print *p, const char *subsystem)
{
	char *out = p->name[p->count];
	char base[NAME_ROOM];

	name_from(subsystem, base);
	strcpy(out, base);
	for (unsigned n = 2; is_taken(p, out); n++)
		/* fits: at most 256 */
		(void)snprintf(out, NAME_ROOM, "%.*s-%u", (int)(NAME_ROOM - 5), base, n);
	p->count++;
	return out;
}

/* ---- lines ---- */

/* Prints a text in quotes, as libconfig reads it. */
static void print_quoted(FILE *to, const char *text)
{
	(void)fputc('"', to);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			(void)fputc('\\', to);
		(void)fputc(*text, to);
	}
	(void)fputc('"', to);
}

/* Prints a text in a comment, without anything that could end its line. */
static void print_shown(FILE *to, const char *text)
{
	char shown[1024];

	(void)fputs(fm_show(text, strlen(text), shown, sizeof(shown)), to);
}

/* The entry whose address is used: the one that was dialled, or the first. */
static size_t main_entry(const struct fm_json *entries, size_t first, bool *is_same)
{
	*is_same = true;
	for (size_t i = first; i < fm_json_count(entries); i++)
		if (strcmp(subsystem_of(entries, i), subsystem_of(entries, first)) == 0 &&
		    fm_field_is(fm_json_at(entries, i), "is_same_address"))
			return i;
	*is_same = false;
	return first;
}

/* Whether an entry from..to-1 of the same subsystem has that address. */
static bool is_there(const struct fm_json *entries, size_t from, size_t to, const char *subsystem,
		     const char *address)
{
	char other[FM_DISCOVERED_ADDRESS_MAX];

	for (size_t i = from; i < to; i++)
		if (strcmp(subsystem_of(entries, i), subsystem) == 0 &&
		    strcmp(address_of(fm_json_at(entries, i), other), address) == 0)
			return true;
	return false;
}

/* Prints the other addresses of the subsystem. */
static void print_paths(FILE *to, const struct fm_json *entries, size_t first, size_t main)
{
	char text[FM_DISCOVERED_ADDRESS_MAX], chosen[FM_DISCOVERED_ADDRESS_MAX];
	const char *subsystem = subsystem_of(entries, first);
	unsigned count = 0;

	address_of(fm_json_at(entries, main), chosen);
	for (size_t i = first; i < fm_json_count(entries) && count < FM_CONFIG_PATHS_MAX; i++) {
		if (strcmp(subsystem_of(entries, i), subsystem) != 0)
			continue;
		address_of(fm_json_at(entries, i), text);
		if (strcmp(text, chosen) == 0 || !is_value("address", text) ||
		    is_there(entries, first, i, subsystem, text))
			continue;
		(void)fprintf(to, "%s", count++ == 0 ? "\tpaths = [ " : ", ");
		print_quoted(to, text);
	}
	if (count > 0)
		(void)fprintf(to, " ];\n");
}

static void print_advertised(FILE *to, const struct fm_json *entries, size_t first)
{
	char text[FM_DISCOVERED_ADDRESS_MAX];

	for (size_t i = first; i < fm_json_count(entries); i++) {
		if (strcmp(subsystem_of(entries, i), subsystem_of(entries, first)) != 0)
			continue;
		(void)fprintf(to, "\t# The target advertises ");
		print_shown(to, address_of(fm_json_at(entries, i), text));
		(void)fprintf(to, "; below is the address that was dialled.\n");
	}
}

static void print_left_out(FILE *to, const char *why, const char *subsystem)
{
	(void)fprintf(to, "\n# left out, %s: ", why);
	print_shown(to, subsystem);
	(void)fputc('\n', to);
}

static void print_volume(struct print *p, size_t first)
{
	const char *subsystem = subsystem_of(p->entries, first), *name;
	char address[FM_DISCOVERED_ADDRESS_MAX];
	const struct fm_json *entry;
	bool is_same;
	size_t main = main_entry(p->entries, first, &is_same);

	entry = fm_json_at(p->entries, main);
	fm_discovered_address(is_same ? fm_field_text(entry, "address") : p->dialled_host,
			      fm_field_text(entry, "port"), address, sizeof(address));
	if (!is_value("subsystem", subsystem) || !address[0] || !is_value("address", address)) {
		print_left_out(p->to, "no configuration can name it", subsystem);
		return;
	}
	(void)fprintf(p->to, "%s {\n", p->count > 0 ? "," : "");
	name = name_of(p, subsystem);
	(void)fprintf(p->to, "\tname = \"%s\";\n\tsubsystem = ", name);
	print_quoted(p->to, subsystem);
	(void)fprintf(p->to, ";\n");
	if (!is_same)
		print_advertised(p->to, p->entries, first);
	(void)fprintf(p->to, "\taddress = ");
	print_quoted(p->to, address);
	(void)fprintf(p->to, ";\n");
	if (is_same)
		print_paths(p->to, p->entries, first, main);
	(void)fprintf(p->to,
		      "\t#mount = \"/srv/%s\";\n\t#mode = \"exclusive\";\n\t#writer = \"NODE\";\n}",
		      name);
}

void fm_discovered_print(FILE *to, const struct fm_json *entries, const char *dialled_host)
{
	struct print p = { .to = to, .entries = entries, .dialled_host = dialled_host };

	(void)fprintf(to, "volumes = (");
	for (size_t i = 0; i < fm_json_count(entries); i++) {
		const char *subsystem = subsystem_of(entries, i);
		bool is_first = strcmp(subsystem, DISCOVERY_NQN) != 0;

		for (size_t j = 0; j < i && is_first; j++)
			is_first = strcmp(subsystem_of(entries, j), subsystem) != 0;
		if (is_first && p.count < FM_CONFIG_VOLUMES_MAX)
			print_volume(&p, i);
		else if (is_first)
			print_left_out(to, "a configuration has room for no more", subsystem);
	}
	(void)fprintf(to, " );\n");
}
