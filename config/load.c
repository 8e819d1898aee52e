/* SPDX-License-Identifier: MIT */
/*
 * load - text to struct fm_config, by libconfig. The only file that includes it.
 *
 * The text is hostile: it is looked over before libconfig sees it (size, NUL, nesting, @include,
 * which could name /dev/zero), and every setting must be one the table knows. peers.d adds one peer
 * per file, so that adding or removing a peer never edits a file that a person wrote. It is the
 * daemon's user's, and who reads it may be root: links are not followed there, and no error quotes
 * what a file says at a place where anything may stand.
 */
#include "config/config.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libconfig.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/check.h"
#include "config/entries.h"
#include "config/options.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

#define WORD_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.*-+"

struct load {
	struct fm_config *cfg;
	struct fm_option_context ctx;
	const char *file;	/* being read now */
	const struct fm_config_peer_text *with;	/* NULL: peers.d as it is */
	struct fm_config_entries *entries;	/* only these are asked for */
	struct fm_err *err;
};

/* One line for a person. */
static int fail(const struct load *l, unsigned line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int fail(const struct load *l, unsigned line, const char *fmt, ...)
{
	char text[FM_ERR_TEXT_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (line)
		return fm_err_set(l->err, -EINVAL, "%.200s:%u: %s", l->file, line, text);
	return fm_err_set(l->err, -EINVAL, "%.200s: %s", l->file, text);
}

static int fail_memory(const struct load *l)
{
	return fm_err_set(l->err, -ENOMEM, "%.200s: out of memory", l->file);
}

static void *zalloc(size_t count, size_t size)
{
	return FM_FAULT("config.alloc") ? NULL : calloc(count, size);
}

static char *copy_text(const char *text)
{
	return FM_FAULT("config.alloc") ? NULL : strdup(text);
}

static unsigned line_of(const config_setting_t *s)
{
	return config_setting_source_line(s);
}

/* ---- one setting ---- */

/* Takes a list of strings. The caller frees *items. */
static int raw_list(config_setting_t *s, struct fm_option_raw *raw, const char ***items)
{
	int count = config_setting_length(s);

	*items = zalloc((size_t)count + 1, sizeof(**items));
	if (!*items)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		(*items)[i] = config_setting_get_string_elem(s, i);
		if (!(*items)[i])	/* not a string */
			return 0;
	}
	raw->type = FM_RAW_LIST;
	raw->items = *items;
	raw->count = (size_t)count;
	return 0;
}

static int raw_from(config_setting_t *s, struct fm_option_raw *raw, const char ***items)
{
	*raw = (struct fm_option_raw){ .type = FM_RAW_OTHER };
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_STRING:
		raw->type = FM_RAW_TEXT;
		raw->text = config_setting_get_string(s);
		break;
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		raw->type = FM_RAW_INT;
		raw->number = config_setting_get_int64(s);
		break;
	case CONFIG_TYPE_BOOL:
		raw->type = FM_RAW_BOOL;
		raw->is_true = config_setting_get_bool(s) != 0;
		break;
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		return raw_list(s, raw, items);
	default:
		break;
	}
	return 0;
}

static int fail_unknown(const struct load *l, const config_setting_t *s, const char *section)
{
	const char *near = fm_option_nearest(section, config_setting_name(s));
	const char *dot = section ? "." : "";

	if (!section)
		section = "";
	if (near)
		return fail(l, line_of(s), "%s%s%.60s: unknown key; did you mean %s%s%s?", section,
			    dot, config_setting_name(s), section, dot, near);
	return fail(l, line_of(s),
		    "%s%s%.60s: unknown key; \"fmove config options\" lists those there are",
		    section, dot, config_setting_name(s));
}

static int load_setting(struct load *l, config_setting_t *s, const char *section, void *base,
			unsigned lines[static FM_CONFIG_OPTIONS_MAX])
{
	const struct fm_option *o = fm_option_find(section, config_setting_name(s));
	char why[FM_OPTION_WHY_MAX];
	struct fm_option_raw raw;
	const char **items = NULL;
	int ret;

	if (!o)
		return fail_unknown(l, s, section);
	ret = raw_from(s, &raw, &items);
	if (ret == 0)
		ret = fm_option_set(o, base, &l->ctx, &raw, why);
	free(items);
	if (ret == -EINVAL)
		return fail(l, line_of(s), "%s: %s", o->path, why);
	if (ret < 0)
		return fail_memory(l);
	lines[o - fm_options] = line_of(s);
	return 0;
}

/*
 * Fills in the defaults of the options that were not given. An option without a default must be
 * given.
 */
static int fill_section(struct load *l, const char *section, void *base, const unsigned *lines,
			unsigned line)
{
	for (unsigned i = 0; i < fm_option_count; i++) {
		const struct fm_option *o = &fm_options[i];
		char allowed[200];

		if (!fm_option_is_in(o, section) || lines[i])
			continue;
		if (!o->standard) {
			fm_option_allowed(o, allowed, sizeof(allowed));
			return fail(l, line, "%s: missing; it must be %s", o->path, allowed);
		}
		if (fm_option_set_standard(o, base, &l->ctx) < 0)
			return fail_memory(l);
	}
	return 0;
}

/* Reads the settings of a group into base. */
static int load_group(struct load *l, config_setting_t *group, const char *section, void *base,
		      unsigned lines[static FM_CONFIG_OPTIONS_MAX])
{
	int count = config_setting_length(group);

	for (int i = 0; i < count; i++) {
		int ret = load_setting(l, config_setting_get_elem(group, (unsigned)i), section,
				       base, lines);

		if (ret < 0)
			return ret;
	}
	return 0;
}

/* ---- the lists ---- */

/*
 * What is said in a list of groups: where its elements go in struct fm_config, and where an element
 * says the place it comes from.
 */
struct list {
	const char *section;
	unsigned max;
	size_t size;		/* of an element */
	size_t array;		/* in struct fm_config: of the pointer, of the count */
	size_t count;
	size_t file;		/* in the element */
	size_t line;
};

#define LIST(section, max, element, array, count)                                                  \
	{                                                                                          \
		section, max, sizeof(struct element), offsetof(struct fm_config, array),           \
			offsetof(struct fm_config, count), offsetof(struct element, file),         \
			offsetof(struct element, line)                                             \
	}

static const struct list lists[] = {
	LIST("stores", FM_CONFIG_STORES_MAX, fm_config_store, stores, store_count),
	LIST("peers", FM_CONFIG_PEERS_MAX, fm_config_peer, peers, peer_count),
	LIST("sockets", FM_CONFIG_SOCKETS_MAX, fm_config_socket, sockets, socket_count),
	LIST("volumes", FM_CONFIG_VOLUMES_MAX, fm_config_volume, volumes, volume_count),
};

#define LISTS (sizeof(lists) / sizeof(lists[0]))

static const struct list *find_list(const char *section)
{
	for (size_t i = 0; i < LISTS; i++)
		if (strcmp(lists[i].section, section) == 0)
			return &lists[i];
	return NULL;
}

static char **array_of(const struct list *list, struct fm_config *cfg)
{
	return (char **)(void *)((char *)cfg + list->array);
}

static unsigned *count_of(const struct list *list, struct fm_config *cfg)
{
	return (unsigned *)(void *)((char *)cfg + list->count);
}

static char **file_of(const struct list *list, void *element)
{
	return (char **)(void *)((char *)element + list->file);
}

static unsigned *line_in(const struct list *list, void *element)
{
	return (unsigned *)(void *)((char *)element + list->line);
}

/* Adds an element to the array, read from a group. Lists can come from several files (peers.d). */
static int load_element(struct load *l, const struct list *list, config_setting_t *s)
{
	unsigned lines[FM_CONFIG_OPTIONS_MAX] = { 0 };
	char **array = array_of(list, l->cfg);
	unsigned *count = count_of(list, l->cfg);
	char *element;
	int ret;

	if (*count == list->max)
		return fail(l, 0, "%s: more than %u, with those of " FM_CONFIG_PEERS_DIR,
			    list->section, list->max);
	if (!*array)
		*array = zalloc(list->max, list->size);
	if (!*array)
		return fail_memory(l);
	element = *array + *count * list->size;
	++*count;
	*line_in(list, element) =
		line_of(s) ? line_of(s) : 1; /* the root of a file in peers.d has no line */
	*file_of(list, element) = copy_text(l->file);
	if (!*file_of(list, element))
		return fail_memory(l);
	ret = load_group(l, s, list->section, element, lines);
	return ret < 0 ? ret
		       : fill_section(l, list->section, element, lines, *line_in(list, element));
}

/* Checks that this is a list of groups, ( {...}, {...} ), with at most max of them. */
static int check_list(struct load *l, config_setting_t *s, unsigned max)
{
	int count = config_setting_length(s);

	if (!config_setting_is_list(s))
		return fail(l, line_of(s),
			    "%s: must be a list of groups: %s = ( { ... }, { ... } );",
			    config_setting_name(s), config_setting_name(s));
	if ((unsigned)count > max)
		return fail(l, line_of(s), "%s: %d entries; at most %u are allowed",
			    config_setting_name(s), count, max);
	for (int i = 0; i < count; i++) {
		config_setting_t *e = config_setting_get_elem(s, (unsigned)i);

		if (!config_setting_is_group(e))
			return fail(l, line_of(e) ? line_of(e) : line_of(s),
				    "%s: entry %d must be a group: { name = ...; }",
				    config_setting_name(s), i + 1);
	}
	return 0;
}

static int load_list(struct load *l, const struct list *list, config_setting_t *s)
{
	int ret = check_list(l, s, list->max);
	unsigned count = (unsigned)config_setting_length(s);

	for (unsigned i = 0; ret == 0 && i < count; i++)
		ret = load_element(l, list, config_setting_get_elem(s, i));
	return ret;
}

/* ---- a file ---- */

static const char *const groups[] = {"node",	"memory",  "mover", "jobs",
				      "staging", "metrics", "nvme"};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static int load_main_setting(struct load *l, config_setting_t *s)
{
	const char *name = config_setting_name(s);

	for (size_t i = 0; i < GROUPS; i++) {
		if (strcmp(name, groups[i]) != 0)
			continue;
		if (!config_setting_is_group(s))
			return fail(l, line_of(s), "%s: must be a group: %s = { ... };", name,
				    name);
		return load_group(l, s, name, l->cfg, l->cfg->line_of);
	}
	if (find_list(name))
		return load_list(l, find_list(name), s);
	return fail_unknown(l, s, NULL);
}

static int load_main(struct load *l, config_setting_t *root)
{
	int count = config_setting_length(root);
	int ret = 0;

	for (int i = 0; ret == 0 && i < count; i++)
		ret = load_main_setting(l, config_setting_get_elem(root, (unsigned)i));
	for (size_t i = 0; ret == 0 && i < GROUPS; i++)
		ret = fill_section(l, groups[i], l->cfg, l->cfg->line_of, 0);
	return ret;
}

static int load_peer_file(struct load *l, config_setting_t *root)
{
	return load_element(l, find_list("peers"), root);
}

/*
 * Skips the string, comment or number that begins at `at`; returns `at` if there is none. Counts
 * the lines.
 */
static const char *skip_token(const char *at, unsigned *line)
{
	const char *end = at;

	if (*at == '"') {
		for (end++; *end && *end != '"'; end++) {
			*line += *end == '\n';
			if (end[0] == '\\' && end[1])
				*line += *++end == '\n';
		}
		return *end ? end + 1 : end;
	}
	if (*at == '#' || (at[0] == '/' && at[1] == '/'))
		return at + strcspn(at, "\n");
	if (at[0] == '/' && at[1] == '*') {
		for (end += 2; *end && !(end[0] == '*' && end[1] == '/'); end++)
			*line += *end == '\n';
		return *end ? end + 2 : end;
	}
	return isalnum((unsigned char)*at) ? at + strspn(at, WORD_CHARS) : at;
}

/*
 * Whether libconfig 1.5 would silently keep only the low 32 bits of a number, for want of the
 * suffix L.
 */
static bool is_cut_number(const char *word, const char *end)
{
	char *stop;
	unsigned long long v;

	if (!isdigit((unsigned char)*word))
		return false;
	errno = 0;
	v = strtoull(word, &stop, word[0] == '0' && (word[1] | 0x20) == 'x' ? 16 : 10);
	return stop == end && (errno != 0 || v > INT32_MAX);
}

/*
 * Whether libconfig would take a line for an @include: at any line's start, comments included.
 * Inside a string or comment that look_over() skips, libconfig does not look either.
 */
static bool is_include(const char *text, const char *at)
{
	if (at != text && at[-1] != '\n')
		return false;
	at += strspn(at, " \t");
	return *at == '@';
}

/*
 * Refuses what libconfig should not see: deep nesting, which is freed by recursion, and @include,
 * which can read any file of the machine. Strings and comments are followed only to skip them. A
 * text that fools this is refused by libconfig.
 */
static int look_over(const struct load *l, const char *text)
{
	unsigned line = 1;
	int depth = 0;

	for (const char *at = text; *at;) {
		unsigned first = line;
		const char *end = skip_token(at, &line);

		if (is_include(text, at))
			return fail(l, line,
				    "@include: not supported; peers can stand in files of their "
				    "own in "
				    FM_CONFIG_PEERS_DIR);
		/*
		 * libconfig takes the rest of the file for part of it and says nothing. The text's
		 * last byte is a line's end, in no token.
		 */
		if (!*end && (*at == '"' || (at[0] == '/' && at[1] == '*')))
			return fail(l, first, "the %s that begins in this line does not end",
				    *at == '"' ? "string" : "comment");
		if (is_cut_number(at, end))
			return fail(l, first,
				    "%.*s: too large for a number; sizes stand in quotes, with "
				    "their unit: \"8GiB\"",
				    end - at > 40 ? 40 : (int)(end - at), at);
		if (end == at) {
			line += *at == '\n';
			if (strchr("{[(", *at) && ++depth > FM_CONFIG_DEPTH_MAX)
				return fail(l, line, "brackets nested deeper than %d",
					    FM_CONFIG_DEPTH_MAX);
			if (strchr("}])", *at) && depth > 0)
				depth--;
			end++;
		}
		at = end;
	}
	return 0;
}

/*
 * Reports a mistake of syntax, better than libconfig's own words. The line is not quoted: the file
 * may be no configuration, but something secret.
 */
static int fail_syntax(const struct load *l, const config_t *c)
{
	unsigned line = config_error_line(c) > 0 ? (unsigned)config_error_line(c) : 1;
	const char *what = config_error_text(c) ? config_error_text(c) : "syntax error";
	bool is_duplicate = strcmp(what, "duplicate setting name") == 0;

	if (is_duplicate)
		what = "said twice; remove one";
	else if (strcmp(what, "syntax error") == 0)
		what = "syntax error here or in the line before; settings are key = value; and "
		       "strings stand in quotes";
	return fail(l, line, "%s", what);
}

/*
 * Before 1.7.3 libconfig loses a string if a syntax error comes right behind it: a few bytes for a
 * mistake, once per attempt to load. Where a leak checker is linked in, it must not take them for
 * ours. Weak: NULL in every other build.
 */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

static bool read_string(config_t *c, const char *text)
{
	bool is_read;

	if (__lsan_disable)
		__lsan_disable();
	is_read = config_read_string(c, text) == CONFIG_TRUE;
	if (__lsan_enable)
		__lsan_enable();
	return is_read;
}

/* Parse a terminated text and hand its root to `apply`. */
static int parse(struct load *l, const char *text, int (*apply)(struct load *, config_setting_t *))
{
	config_t c;
	int ret = look_over(l, text);

	if (ret < 0)
		return ret;
	config_init(&c);
	if (read_string(&c, text))
		ret = apply(l, config_root_setting(&c));
	else
		ret = fail_syntax(l, &c);
	config_destroy(&c);
	return ret;
}

static int parse_bytes(struct load *l, const char *text, size_t len,
		       int (*apply)(struct load *, config_setting_t *))
{
	char *copy;
	int ret;

	if (len > FM_CONFIG_BYTES_MAX)
		return fail(l, 0, "larger than %u bytes", FM_CONFIG_BYTES_MAX);
	if (memchr(text, '\0', len))
		return fail(l, 0, "holds a NUL byte; a configuration is text");
	copy = zalloc(len + 2, 1);
	if (!copy)
		return fail_memory(l);
	memcpy(copy, text, len);
	copy[len] = '\n';	/* libconfig wants a comment in the last line to end */
	ret = parse(l, copy, apply);
	free(copy);
	return ret;
}

static int read_up_to(int fd, char *buf, size_t max, size_t *len)
{
	*len = 0;
	while (*len < max) {
		ssize_t n = read(fd, buf + *len, max - *len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		*len += (size_t)n;
	}
	return 0;
}

static int parse_fd(struct load *l, int fd, int (*apply)(struct load *, config_setting_t *))
{
	struct stat st;
	char *buf;
	size_t len;
	int ret;

	if (fstat(fd, &st) < 0)
		return fm_err_sys(l->err, -errno, "%.200s", l->file);
	if (!S_ISREG(st.st_mode))
		return fm_err_set(l->err, -EINVAL, "%.200s: not a regular file", l->file);
	buf = zalloc(FM_CONFIG_BYTES_MAX + 1, 1);
	if (!buf)
		return fail_memory(l);
	ret = read_up_to(fd, buf, FM_CONFIG_BYTES_MAX + 1, &len);
	if (ret < 0)
		fm_err_sys(l->err, ret, "%.200s", l->file);
	else
		ret = parse_bytes(l, buf, len, apply);
	free(buf);
	return ret;
}

int fm_config_no_file(const char *file, int code, struct fm_err *err)
{
	if (code == -ENOENT && strcmp(file, FM_CONFIG_DIR "/" FM_CONFIG_FILE) == 0)
		return fm_err_set(err, code,
				  "%.200s is not there: on the first node: fmove init --system; on "
				  "any other: the line that fmove invite prints on a node that is "
				  "set up. Both as root",
				  file);
	if (code == -ENOENT)
		return fm_err_set(err, code, "%.200s is not there: is the name right?", file);
	/* To whom that is said is a person, or fmoved itself. */
	if (code == -EACCES)
		return fm_err_set(err, code,
				  "%.200s may not be read by user %u (namei -l shows why): what "
				  "fmoved reads must be its user's; as a person, use sudo",
				  file, (unsigned)geteuid());
	return fm_err_sys(err, code, "%.200s", file);
}

/* Opens and parses a file. flags are added to those of open(). */
static int parse_file(struct load *l, int flags, int (*apply)(struct load *, config_setting_t *))
{
	int fd = FM_FAULT("config.open")
			 ? (errno = EIO, -1)
			 : open(l->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
	int ret;

	if (fd < 0 && errno == ELOOP && (flags & O_NOFOLLOW))
		return fm_err_set(l->err, -EINVAL,
				  "%.200s: a symbolic link, which is not followed here; put the "
				  "file itself there",
				  l->file);
	if (fd < 0)
		return fm_config_no_file(l->file, -errno, l->err);
	ret = parse_fd(l, fd, apply);
	close(fd);
	return ret;
}

/* ---- peers.d ---- */

static int is_peer_file(const struct dirent *e)
{
	return fm_config_entry_name_len(e->d_name) > 0;
}

/* Whether the text that is being tried replaces the file of that name. */
static bool is_instead(const struct load *l, const char *name)
{
	return l->with && strcmp(name, l->with->name) == 0;
}

/*
 * Reads a file of peers.d. It must have the name of its peer: so no two files can be one peer, and
 * removing one file revokes the peer for certain.
 */
static int load_named_peer_file(struct load *l, const char *name)
{
	const struct fm_config_peer *peer;
	int ret = is_instead(l, name) ? parse_bytes(l, l->with->text, strlen(l->with->text),
						    load_peer_file)
				      : parse_file(l, O_NOFOLLOW, load_peer_file);

	if (ret < 0)
		return ret;
	peer = &l->cfg->peers[l->cfg->peer_count - 1];
	if (strlen(peer->name) != strlen(name) - 5 ||
	    strncmp(peer->name, name, strlen(peer->name)) != 0)
		return fail(l, peer->line, "peers.name: \"%s\" must stand in a file %s.conf",
			    peer->name, peer->name);
	return 0;
}

static int load_peer_in(struct load *l, const char *dir, const char *name)
{
	char *file;
	int ret;

	if (asprintf(&file, "%s/%s", dir, name) < 0)
		return fail_memory(l);
	l->file = file;
	ret = load_named_peer_file(l, name);
	l->file = l->cfg->file;
	free(file);
	return ret;
}

static int load_peers_in(struct load *l, const char *dir)
{
	struct dirent **names;
	int count = scandir(dir, &names, is_peer_file, alphasort), ret = 0;

	if (count < 0 && errno != ENOENT)
		return fm_err_sys(l->err, -errno, "%.200s", dir);
	for (int i = 0; i < count; i++) {
		if (ret == 0 && !is_instead(l, names[i]->d_name))
			ret = load_peer_in(l, dir, names[i]->d_name);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
	/* behind the others, so that its mistake is told where it clashes with one of them */
	return ret == 0 && l->with ? load_peer_in(l, dir, l->with->name) : ret;
}

static int load_peers_dir(struct load *l)
{
	char *dir;
	int ret;

	if (asprintf(&dir, "%s/" FM_CONFIG_PEERS_DIR, l->cfg->dir) < 0)
		return fail_memory(l);
	ret = load_peers_in(l, dir);
	free(dir);
	return ret;
}

/* ---- the names of peers alone ---- */

static bool is_known_setting(const char *name)
{
	for (size_t i = 0; i < GROUPS; i++)
		if (strcmp(name, groups[i]) == 0)
			return true;
	return find_list(name);
}

static int name_peer(struct load *l, config_setting_t *s)
{
	const char *name;

	if (!config_setting_is_group(s) ||
	    config_setting_lookup_string(s, "name", &name) != CONFIG_TRUE ||
	    !fm_value_is_name(name))
		return -EINVAL;
	return fm_config_entries_add(l->entries, name, strlen(name));
}

/*
 * What has no name may be anybody's entry, and what is no setting at all may be "peers". What has
 * no node is not the whole file: a disk was full, or somebody is just writing it.
 */
static int name_peers(struct load *l, config_setting_t *root)
{
	config_setting_t *node = config_setting_get_member(root, "node");
	config_setting_t *peers = config_setting_get_member(root, "peers");
	int ret = peers && !config_setting_is_list(peers) ? -EINVAL : 0;

	if (!node || !config_setting_is_group(node))
		ret = -EINVAL;

	for (int i = 0; ret == 0 && i < config_setting_length(root); i++)
		if (!is_known_setting(
			    config_setting_name(config_setting_get_elem(root, (unsigned)i))))
			ret = -EINVAL;
	for (int i = 0; ret == 0 && peers && i < config_setting_length(peers); i++)
		ret = name_peer(l, config_setting_get_elem(peers, (unsigned)i));
	return ret;
}

int fm_config_entries_of_file(const char *file, struct fm_config_entries *entries)
{
	struct fm_err err = { 0 };
	struct load l = { .file = file, .entries = entries, .err = &err };

	return parse_file(&l, 0, name_peers);
}

/* ---- the store for measuring ---- */

static const struct fm_config_peer *first_bench_peer(const struct fm_config *cfg)
{
	for (unsigned i = 0; i < cfg->peer_count; i++)
		if (cfg->peers[i].may_bench)
			return &cfg->peers[i];
	return NULL;
}

/* Makes "peer:NAME" for each peer that may measure. NULL: no memory. */
static char **bench_rules(const struct fm_config *cfg)
{
	char **rules = zalloc(cfg->peer_count + 1, sizeof(*rules));
	unsigned count = 0;

	for (unsigned i = 0; rules && i < cfg->peer_count; i++) {
		if (!cfg->peers[i].may_bench)
			continue;
		if (asprintf(&rules[count], "peer:%s", cfg->peers[i].name) < 0) {
			rules[count] = NULL;
			while (count > 0)
				free(rules[--count]);
			free(rules);
			return NULL;
		}
		count++;
	}
	return rules;
}

static int fill_bench_store(struct load *l, struct fm_config_store *store, unsigned line)
{
	static const char *const own[] = { "name", "directory", "read", "write" };
	unsigned lines[FM_CONFIG_OPTIONS_MAX] = { 0 };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		lines[fm_option_find("stores", own[i]) - fm_options] = line;
	return fill_section(l, "stores", store, lines, line);
}

/*
 * Adds the store that peers measure with. It is a store like any other, so that who starts, reloads
 * or lists stores need not know of it.
 */
static int add_bench_store(struct load *l)
{
	const struct fm_config_peer *peer = first_bench_peer(l->cfg);
	struct fm_config *cfg = l->cfg;
	struct fm_config_store *store;

	if (!peer)
		return 0;
	if (cfg->store_count == FM_CONFIG_STORES_MAX)
		return fail(l, peer->line,
			    "peers.bench: takes the place of a store; at most %d with it",
			    FM_CONFIG_STORES_MAX - 1);
	if (!cfg->stores)
		cfg->stores = zalloc(FM_CONFIG_STORES_MAX, sizeof(*cfg->stores));
	if (!cfg->stores)
		return fail_memory(l);
	store = &cfg->stores[cfg->store_count++];
	store->line = peer->line;
	store->file = copy_text(peer->file);
	store->name = copy_text(FM_CONFIG_BENCH_STORE);
	store->directory = copy_text("null:");
	store->read = bench_rules(cfg);
	store->write = bench_rules(cfg);
	if (!store->file || !store->name || !store->directory || !store->read || !store->write)
		return fail_memory(l);
	return fill_bench_store(l, store, peer->line);
}

/* ---- the whole ---- */

/* The directory of the file: "/etc/fmove" for "/etc/fmove/fmove.conf", "." for "fmove.conf". */
static char *dir_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	if (!slash)
		return copy_text(".");
	if (slash == file)
		return copy_text("/");
	return FM_FAULT("config.alloc") ? NULL : strndup(file, (size_t)(slash - file));
}

static int load_new(struct load *l, const char *file, struct fm_err *err)
{
	*l = (struct load){ .file = file, .err = err };
	l->cfg = zalloc(1, sizeof(*l->cfg));
	if (!l->cfg)
		return fail_memory(l);
	l->cfg->file = copy_text(file);
	l->cfg->dir = dir_of(file);
	l->ctx.dir = l->cfg->dir;
	return l->cfg->file && l->cfg->dir ? 0 : fail_memory(l);
}

static int load_end(struct load *l, int ret, struct fm_config **out)
{
	if (ret == 0)
		ret = add_bench_store(l);
	if (ret == 0)
		ret = fm_config_check(l->cfg, l->err);
	if (ret < 0) {
		fm_config_free(l->cfg);
		return ret;
	}
	*out = l->cfg;
	return 0;
}

static int load_files(const char *file, bool has_peers, const struct fm_config_peer_text *with,
		      struct fm_config **out, struct fm_err *err)
{
	struct load l;
	int ret;

	assert(file && out);
	ret = load_new(&l, file, err);
	l.with = with;
	if (ret == 0)
		ret = parse_file(&l, 0, load_main);
	if (ret == 0 && has_peers)
		ret = load_peers_dir(&l);
	return load_end(&l, ret, out);
}

int fm_config_load(const char *file, struct fm_config **out, struct fm_err *err)
{
	return load_files(file, true, NULL, out, err);
}

int fm_config_load_alone(const char *file, struct fm_config **out, struct fm_err *err)
{
	return load_files(file, false, NULL, out, err);
}

int fm_config_try_peer(const char *file, const struct fm_config_peer_text *peer, struct fm_err *err)
{
	struct fm_config *cfg;
	int ret = load_files(file, true, peer, &cfg, err);

	if (ret == 0)
		fm_config_free(cfg);
	return ret;
}

int fm_config_load_string(const char *text, size_t len, const char *file, struct fm_config **out,
			  struct fm_err *err)
{
	struct load l;
	int ret;

	assert(text && file && out);
	ret = load_new(&l, file, err);
	if (ret == 0)
		ret = parse_bytes(&l, text, len, load_main);
	return load_end(&l, ret, out);
}

static void free_section(const char *section, void *base)
{
	for (unsigned i = 0; i < fm_option_count; i++)
		if (fm_option_is_in(&fm_options[i], section))
			fm_option_clear(&fm_options[i], base);
}

static void free_elements(const struct list *list, struct fm_config *cfg)
{
	for (unsigned i = 0; i < *count_of(list, cfg); i++) {
		char *element = *array_of(list, cfg) + i * list->size;

		free_section(list->section, element);
		free(*file_of(list, element));
	}
	free(*array_of(list, cfg));
}

void fm_config_share(struct fm_config *cfg)
{
	(void)atomic_fetch_add(&cfg->users, 1);
}

void fm_config_free(struct fm_config *cfg)
{
	if (!cfg)
		return;
	if (atomic_fetch_sub(&cfg->users, 1) > 0)
		return;
	for (size_t i = 0; i < LISTS; i++)
		free_elements(&lists[i], cfg);
	for (size_t i = 0; i < GROUPS; i++)
		free_section(groups[i], cfg);
	free(cfg->dir);
	free(cfg->file);
	free(cfg);
}
