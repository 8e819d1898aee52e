/* SPDX-License-Identifier: MIT */
/*
 * options_print - the option table for people: allowed ranges, help, the example file, the manual
 * page. See options.h.
 */
#include "config/options.h"

#include <inttypes.h>
#include <string.h>

#include "config/value.h"
#include "mover/base/env.h"

#define EXAMPLE_COLUMNS 100
#define HELP_COLUMNS 80

/* What a section is, in the order of the table. */
static const struct section {
	const char *name;
	bool is_list;
	bool is_commented;		/* in the example: its sample is no sensible beginning */
	const char *about;
	/* the element of a list in the example: name, value, ..., NULL */
	const char *const *sample;
} sections[] = {
	{"node", false, false, "This node.", NULL},
	{"memory", false, false,
	 "One fixed budget: the daemon never uses more, whatever it is asked to do.", NULL},
	{"mover", false, false, "How data is moved.", NULL},
	{"jobs", false, false, "Which transfers run, and which wait.", NULL},
	{"staging", false, false,
	 "Datasets of other nodes that this node keeps on its own disk (fmove stage). They are "
	 "removed when their room is "
	 "wanted and nobody needs them.",
	 NULL},
	{"metrics", false, false, "What fmoved counts, for Prometheus (fmove-metrics(7)).",
	 NULL},
	{"nvme", false, false,
	 "What fmove-nvmed, the supervisor of volumes, is told besides the volumes. fmoved looks "
	 "at socket alone: beside it is what fmove-nvmed says of stores.volume.",
	 NULL},
	{"stores", true, false,
	 "Named directories that other nodes may read or write. Remote names are NODE:STORE/PATH.",
	 (const char *const[]){"name", "data", "directory", "/var/lib/fmove/data", NULL}},
	{"peers", true, true,
	 "The other nodes. \"fmove join\" writes each into a file of its own, peers.d/NAME.conf, "
	 "holding name, addresses and key; what else is said of that peer, such as bench = true, "
	 "goes there, too. Removing an entry or a file and reloading revokes that peer.",
	 (const char *const[]){"name", "n2", "address", "10.0.0.2:7471", "key",
			       "Kz3wP0hnzBv3Wb5hCbYXGTVSgyQjXFWAFTuT7ndLmuw=", NULL}},
	{"sockets", true, true,
	 "Further sockets of the local API, each for one user: whoever connects there has that "
	 "user's rights, and no others, also as uid 0. For containers, into which such a socket is "
	 "mounted; on this machine it is for whom its directory, group and mode let in.",
	 (const char *const[]){"path", "/run/fmove/alice.sock", "user", "alice", NULL}},
	{"volumes", true, true,
	 "Shared NVMe-TCP volumes, which fmove-nvmed connects, watches and mounts; fmoved serves "
	 "those that stores.volume names. Every node has the same entry: that all name the "
	 "same writer is what keeps a file system from being written by two.",
	 (const char *const[]){"name", "data", "subsystem", "nqn.2026-01.org.example:data",
			       "address", "10.0.0.9:4420", "uuid",
			       "5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b", "mount", "/srv/data",
			       "writer", "n1", NULL}},
};

#define SECTIONS (sizeof(sections) / sizeof(sections[0]))

static void join_words(const struct fm_option *o, char *out, size_t max)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; o->words[i] && at < max; i++)
		at += (size_t)snprintf(out + at, max - at, "%s%s", i ? ", " : "", o->words[i]);
}

static void print_range(const struct fm_option *o, char *out, size_t max)
{
	char from[FM_VALUE_TEXT_MAX], to[FM_VALUE_TEXT_MAX];
	uint64_t ns = o->type == FM_OPTION_SECONDS ? FM_NS_PER_S : 1;
	bool is_time = o->type == FM_OPTION_TIME || o->type == FM_OPTION_SECONDS;

	is_time ? fm_value_time_print(o->min * ns, from) : fm_value_size_print(o->min, from);
	is_time ? fm_value_time_print(o->max * ns, to) : fm_value_size_print(o->max, to);
	if (o->type == FM_OPTION_RATE)
		snprintf(out, max, "%s, %s/s .. %s/s", FM_VALUE_RATE_FORM, from, to);
	else if (o->type == FM_OPTION_SECONDS)
		snprintf(out, max,
			 "a time in whole seconds such as \"10s\" or \"2min\", %s .. %s%s%s%s",
			 from, to, o->words ? ", or \"" : "", o->words ? o->words[0] : "",
			 o->words ? "\"" : "");
	else if (is_time)
		snprintf(out, max, "%s, %s .. %s", FM_VALUE_TIME_FORM, from, to);
	else
		snprintf(out, max, "%s such as \"64MiB\", %s .. %s%s%s%s",
			 o->type == FM_OPTION_POWER ? "a power of two" : "a size", from, to,
			 o->words ? ", or \"" : "", o->words ? o->words[0] : "",
			 o->words ? "\"" : "");
}

/* Of the types that no other words are made of. */
static const char *const forms[] = {
	[FM_OPTION_NAME] = "a name: " FM_VALUE_NAME_FORM,
	[FM_OPTION_DIRECTORY] = "an absolute path without \".\" and \"..\", or \"null:\"",
	[FM_OPTION_FILE] = "the path of a file",
	[FM_OPTION_SOCKET] =
		"an absolute path without \".\" and \"..\", of at most 107 bytes",
	[FM_OPTION_MOUNT_POINT] = "an absolute path without \".\", \"..\" and control "
				  "characters, in UTF-8, not \"/\"",
	[FM_OPTION_GROUP] = "the name of a group of this machine",
	[FM_OPTION_USER] = "the name of a user of this machine, not root",
	[FM_OPTION_LISTEN] =
		"\"ADDRESS:PORT\", \"[ADDRESS]:PORT\" or \":PORT\", port 0 .. 65535",
	[FM_OPTION_SERVE] = "\"ADDRESS:PORT\" or \"[ADDRESS]:PORT\" with a numeric address, "
			    "port 1 .. 65535, or \"unix:/PATH\" of a socket",
	[FM_OPTION_ADDRESS] = "\"HOST:PORT\" or \"[ADDRESS]:PORT\", port 1 .. 65535",
	[FM_OPTION_IP] = "an IPv4 or IPv6 address without a port",
	[FM_OPTION_NQN] = "1 to 223 bytes of UTF-8 without commas and control characters, "
			  "no blank at either end",
	[FM_OPTION_UUID] = "a UUID such as \"5b1e0c2a-6f4d-4b8e-9a37-0d2f1c3e4a5b\"",
	[FM_OPTION_NGUID] = "32 hexadecimal digits, with hyphens as in a UUID or without",
	[FM_OPTION_FLAGS] =
		"mount options with commas between, without blanks, quotes and backslashes",
	[FM_OPTION_KEY] = "a public key: 44 characters of base64 (fmove keygen prints it)",
	[FM_OPTION_BOOL] = "true or false",
	[FM_OPTION_WHO] =
		"a list of \"*\", \"peer:*\", \"peer:NAME\", \"user:NAME\", \"group:NAME\"",
	[FM_OPTION_ADDRESSES] =
		"a list of \"HOST:PORT\" or \"[ADDRESS]:PORT\", port 1 .. 65535",
	[FM_OPTION_NETWORKS] = "a list of networks such as \"10.0.0.0/30\" or "
			       "\"fd00:1::/64\": 7 bits or more, zeros behind them, "
			       "not link-local",
	[FM_OPTION_NODES] = "a list of nodes' names, or of \"*\" alone",
};

void fm_option_allowed(const struct fm_option *o, char *out, size_t max)
{
	bool may_be_empty = o->type <= FM_OPTION_TEXT_LAST && o->standard && !o->standard[0];
	char words[80];

	switch (o->type) {
	case FM_OPTION_UINT:
		snprintf(out, max, "%" PRIu64 " .. %" PRIu64, o->min, o->max);
		break;
	case FM_OPTION_SIZE:
	case FM_OPTION_POWER:
	case FM_OPTION_TIME:
	case FM_OPTION_SECONDS:
	case FM_OPTION_RATE:
		print_range(o, out, max);
		break;
	case FM_OPTION_CHOICE:
		join_words(o, words, sizeof(words));
		snprintf(out, max, "one of %s", words);
		break;
	case FM_OPTION_SET:
		join_words(o, words, sizeof(words));
		snprintf(out, max, "a list of %s", words);
		break;
	case FM_OPTION_WORD:
		snprintf(out, max, "1 to %" PRIu64 " letters, digits, '.', '_' or '-'%s", o->max,
			 may_be_empty ? ", or \"\"" : "");
		break;
	default:
		snprintf(out, max, "%s%s", forms[o->type], may_be_empty ? ", or \"\"" : "");
		break;
	}
}

void fm_option_quote(const struct fm_option *o, const char *value, char *out, size_t max)
{
	const char *text = value ? value : o->standard;
	size_t at;

	switch (o->type) {
	case FM_OPTION_UINT:
	case FM_OPTION_BOOL:
		snprintf(out, max, "%s", text);
		return;
	case FM_OPTION_SET:
	case FM_OPTION_WHO:
	case FM_OPTION_ADDRESSES:
	case FM_OPTION_NETWORKS:
	case FM_OPTION_NODES:
		break;
	default:
		snprintf(out, max, "\"%s\"", text);
		return;
	}
	at = (size_t)snprintf(out, max, "[ ");
	while (*text && at < max) {
		size_t len = strcspn(text, " ");

		at += (size_t)snprintf(out + at, max - at, "\"%.*s\"%s", (int)len, text,
				       text[len] ? ", " : " ");
		text += len + strspn(text + len, " ");
	}
	if (at < max)
		snprintf(out + at, max - at, "]");
}

/* Words of text in lines of at most `columns`, each behind `lead`. */
static void print_wrapped(FILE *to, const char *lead, size_t columns, const char *text)
{
	while (*text) {
		size_t room = columns - strlen(lead);
		size_t len = strlen(text);

		if (len > room) {
			for (len = room; len > 0 && text[len] != ' '; len--)
				;
			if (len == 0)
				len = strcspn(text, " ");
		}
		fprintf(to, "%s%.*s\n", lead, (int)len, text);
		text += len;
		text += strspn(text, " ");
	}
}

void fm_options_print_help(FILE *to)
{
	for (size_t s = 0; s < SECTIONS; s++) {
		fprintf(to, "%s%s\n", s ? "\n" : "", sections[s].name);
		print_wrapped(to, "  ", HELP_COLUMNS - 1, sections[s].about);
		for (unsigned i = 0; i < fm_option_count; i++) {
			const struct fm_option *o = &fm_options[i];
			char allowed[200], standard[64] = "must be given", line[600];

			if (!fm_option_is_in(o, sections[s].name))
				continue;
			fm_option_allowed(o, allowed, sizeof(allowed));
			if (o->standard)
				fm_option_quote(o, NULL, standard, sizeof(standard));
			fprintf(to, "  %s\n", o->path);
			snprintf(line, sizeof(line), "%s. %s%s%s; %s%s.", o->help,
				 o->standard ? "Default " : "", standard,
				 o->is_live ? "" : ", takes a restart",
				 o->type == FM_OPTION_WHO ? "" : "must be ", allowed);
			print_wrapped(to, "      ", HELP_COLUMNS - 1, line);
		}
	}
}

static const char *sample_value(const struct section *s, const char *name)
{
	for (size_t i = 0; s->sample && s->sample[i]; i += 2)
		if (strcmp(s->sample[i], name) == 0)
			return s->sample[i + 1];
	return NULL;
}

/*
 * Prints an option for the example. One that must be given stands there; others are comments with
 * their default.
 */
static void print_example_option(FILE *to, const struct section *s, const struct fm_option *o,
				 const char *indent)
{
	char text[600], allowed[200], value[128], lead[16];
	const char *sample = sample_value(s, fm_option_name(o));
	bool is_said = sample || !o->standard;

	if (!sample && !o->standard)
		sample = "n1";
	fm_option_allowed(o, allowed, sizeof(allowed));
	snprintf(text, sizeof(text), "%s. Must be %s.", o->help, allowed);
	snprintf(lead, sizeof(lead), "%s# ", indent);
	print_wrapped(to, lead, EXAMPLE_COLUMNS, text);
	fm_option_quote(o, sample, value, sizeof(value));
	fprintf(to, "%s%s%s = %s;\n", indent, is_said ? "" : "#", fm_option_name(o), value);
}

static void print_example_section(FILE *to, const struct section *s)
{
	const char *indent = s->is_commented ? "#\t" : "\t";
	bool is_first = true;

	fprintf(to, "\n");
	print_wrapped(to, "# ", EXAMPLE_COLUMNS, s->about);
	fprintf(to, "%s%s %s{\n", s->is_commented ? "#" : "", s->name, s->is_list ? "= ( " : "= ");
	for (unsigned i = 0; i < fm_option_count; i++) {
		if (!fm_option_is_in(&fm_options[i], s->name))
			continue;
		if (!is_first)
			fprintf(to, s->is_commented ? "#\n" : "\n");
		is_first = false;
		print_example_option(to, s, &fm_options[i], indent);
	}
	fprintf(to, "%s}%s;\n", s->is_commented ? "#" : "", s->is_list ? " )" : "");
}

void fm_options_print_example(FILE *to)
{
	fprintf(to,
		"# fmove.conf - everything that can be said, with the defaults. See "
		"fmove.conf(5).\n"
		"# \"fmove config check FILE\" checks a file; \"systemctl reload fmoved\" takes "
		"over what can be.\n");
	for (size_t s = 0; s < SECTIONS; s++)
		print_example_section(to, &sections[s]);
}

/*
 * Prints a text for roff, which takes a leading dot or quote for a request and a backslash for an
 * escape.
 */
static void print_man_text(FILE *to, const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", to);
	for (; *text; text++) {
		if (*text == '\\')
			fputs("\\e", to);
		else if (*text == '-')
			fputs("\\-", to);
		else if (*text == '"')
			fputs("\\(dq", to);
		else
			fputc(*text, to);
	}
}

static void print_man_option(FILE *to, const struct fm_option *o)
{
	char allowed[200], standard[64];

	fm_option_allowed(o, allowed, sizeof(allowed));
	fprintf(to, ".TP\n.B %s\n", o->path);
	print_man_text(to, o->help);
	fputs(".\nMust be ", to);
	print_man_text(to, allowed);
	fputs(".\n", to);
	if (o->standard) {
		fm_option_quote(o, NULL, standard, sizeof(standard));
		fputs("Default: ", to);
		print_man_text(to, standard);
		fputs(".\n", to);
	} else {
		fputs("Must be given.\n", to);
	}
	if (!o->is_live)
		fputs("A change takes a restart.\n", to);
}

void fm_options_print_man(FILE *to)
{
	for (size_t s = 0; s < SECTIONS; s++) {
		fprintf(to, ".SS %s\n", sections[s].name);
		print_man_text(to, sections[s].about);
		fputc('\n', to);
		for (unsigned i = 0; i < fm_option_count; i++)
			if (fm_option_is_in(&fm_options[i], sections[s].name))
				print_man_option(to, &fm_options[i]);
	}
}
