/* SPDX-License-Identifier: MIT */
/*
 * xattr_rules - the short list, and libattr's file.
 *
 * The file has one rule a line, "PATTERN ACTION", and comments behind a '#'. The first pattern that
 * a name matches counts.
 */
#include "mover/tree/xattr_rules.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "mover/tree/pack.h"

#define NAME_LEN_MAX 255
#define RULES_MAX 256	/* what is behind them says nothing; a system has a dozen */
#define PATTERN_MAX 128

struct rule {
	char pattern[PATTERN_MAX];
	bool is_skip;
};

static struct rule rules[RULES_MAX];
static size_t rule_count;
static pthread_once_t is_read = PTHREAD_ONCE_INIT;

/* A line that is no rule is passed over. */
static void read_line(const char *line)
{
	struct rule *rule = &rules[rule_count];
	char action[16];

	/* The widths leave room for the NULs. */
	if (sscanf(line, "%127s %15s", rule->pattern, action) != 2 || rule->pattern[0] == '#')
		return;
	rule->is_skip = strcmp(action, "skip") == 0;
	rule_count++;
}

static void read_rules(const char *path)
{
	FILE *file = fopen(path, "re");
	char line[512];

	rule_count = 0;
	while (file && rule_count < RULES_MAX && fgets(line, sizeof(line), file))
		read_line(line);
	if (file)
		(void)fclose(file);	/* only read */
}

static void read_once(void)
{
	read_rules(FM_XATTR_CONF);
}

void fm_xattr_rules_read(const char *path)
{
	(void)pthread_once(&is_read, read_once);	/* so that it is not read later */
	read_rules(path);
}

bool fm_xattr_may_travel(const char *name, size_t len)
{
	char terminated[NAME_LEN_MAX + 1];

	if (!fm_pack_is_good_xattr(name, len))	/* so it is no longer than that */
		return false;
	memcpy(terminated, name, len);
	terminated[len] = '\0';
	(void)pthread_once(&is_read, read_once);
	for (size_t i = 0; i < rule_count; i++)
		if (fnmatch(rules[i].pattern, terminated, 0) == 0)
			return !rules[i].is_skip;
	return true;
}
