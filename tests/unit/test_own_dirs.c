/* SPDX-License-Identifier: MIT */
/* A store is apart from what its node keeps for itself. links: fm_config */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "config/own_dirs.h"
#include "mover/base/dirway.h"
#include "mover/base/err.h"
#include "tests/fm_test.h"
#include "tests/unit/remove_all.h"

/*
 * TOP/real has the configuration, by TOP/link; TOP/key has the key, by TOP/k, and TOP/keylink a
 * link to it; TOP/node is the node's state and TOP/cache its cache; TOP/here is TOP.
 */
static char top[32];
static struct fm_err err;

static void in_top(char out[static 96], const char *name)
{
	(void)snprintf(out, 96, "%s/%s", top, name);
}

static void make_dir(const char *name)
{
	char path[96];

	in_top(path, name);
	CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
}

static void make_link(const char *to, const char *name)
{
	char path[96];

	in_top(path, name);
	CU_ASSERT_EQUAL_FATAL(symlink(to, path), 0);
}

static void make(void)
{
	static const char *const dirs[] = { "real", "real/invites", "key", "keylink",
					    "node", "node/jobs", "cache", "cache/in", "data" };
	char path[96];
	FILE *f;

	(void)strcpy(top, "/tmp/fm-own.XXXXXX");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(top));
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++)
		make_dir(dirs[i]);
	make_link("real", "link");
	make_link("key", "k");
	make_link("../key/node.key", "keylink/node.key");
	make_link(".", "here");
	in_top(path, "key/node.key");
	f = fopen(path, "we");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	CU_ASSERT_EQUAL(fclose(f), 0);
}

/* state, key: in top; the configuration is link/f.conf. */
static struct fm_config *load(const char *store, const char *state, const char *key)
{
	char file[96], text[600];
	struct fm_config *cfg = NULL;

	in_top(file, "link/f.conf");
	(void)snprintf(text, sizeof(text),
		       "node = { name = \"n1\"; state_directory = \"%s/%s\"; key_file = \"%s/%s\"; "
		       "};\nstaging = { directory = \"%s/cache\"; };\n"
		       "stores = ( { name = \"a\"; directory = \"%s/%s\"; } );",
		       top, state, top, key, top, top, store);
	fm_err_clear(&err);
	(void)fm_config_load_string(text, strlen(text), file, &cfg, &err);
	return cfg;
}

/* Both ways of looking must say the same; a start asks only of what is there. */
static int tried(const char *store, const char *state, const char *key)
{
	struct fm_config *cfg = load(store, state, key);
	struct fm_err started = { 0 };
	struct fm_dirway way;
	int ret;

	if (!cfg) {
		printf("\n%s\n", err.text);
		return -ENOENT;
	}
	ret = fm_own_dirs_try(cfg, &cfg->stores[0], &err);
	if (fm_dirway_at(cfg->stores[0].directory, &way) == 0) {
		CU_ASSERT_EQUAL(fm_own_dirs_check(cfg, &cfg->stores[0], &way, &started), ret);
		CU_ASSERT_STRING_EQUAL(started.text, err.text);
	}
	fm_config_free(cfg);
	return ret;
}

static void test_links(void)
{
	static const struct {
		const char *store, *says;	/* NULL: it is taken */
	} cases[] = {
		{ "real/peers.d", "and the entries of peers (peers.d) in " },
		{ "real/invites", "and the invitations (invites) in " },
		{ "real/invites/x/y", "and the invitations (invites) in " },
		{ "real", "and the entries of peers (peers.d) in " },
		{ "real/other", NULL },
		{ "key", "and the key of the node (node.key_file) in " },
		{ "key/node.key", "and the key of the node (node.key_file) in " },
		{ "key/data", NULL },
		{ "here/node", "and the jobs of node.state_directory in " },
		{ "here/node/jobs", "and the jobs of node.state_directory in " },
		{ "here/node/peers/x", "and the addresses of peers (peers) of " },
		{ "here/node/data", NULL },
		{ "here/cache", "and the cache (staging.directory) in " },
		{ "here/cache/in", "and the cache (staging.directory) in " },
		{ "here/cache/none/x", "and the cache (staging.directory) in " },
		{ "here", "and the jobs of node.state_directory in " },
		{ "data", NULL },
		{ "none/at/all", NULL },
	};

	make();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(tried(cases[i].store, "node", "k/node.key"),
				cases[i].says ? -EPERM : 0);
		if (!cases[i].says)
			continue;
		if (!strstr(err.text, cases[i].says))
			printf("\n%s: %s\n", cases[i].store, err.text);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "must not be within each other; move one"));
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "f.conf:3: stores.directory: "));
	}
	remove_all(top);
}

/* Who may put another link there has the node be another one. */
static void test_links_to_the_key(void)
{
	make();
	CU_ASSERT_EQUAL(tried("here/keylink", "node", "keylink/node.key"), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "key of the node"));
	CU_ASSERT_EQUAL(tried("key", "node", "keylink/node.key"), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "key of the node"));
	CU_ASSERT_EQUAL(tried("data", "node", "keylink/node.key"), 0);
	remove_all(top);
}

/* What is missing would be made in the store, however deep. */
static void test_what_is_missing(void)
{
	make();
	CU_ASSERT_EQUAL(tried("data", "here/data/some/state", "k/node.key"), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "jobs of node.state_directory"));
	CU_ASSERT_EQUAL(tried("data", "here/other/some/state", "k/node.key"), 0);
	CU_ASSERT_EQUAL(tried("data", "node", "here/data/none/node.key"), -EPERM);
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "key of the node"));
	CU_ASSERT_EQUAL(tried("none/a", "here/none/a/b", "k/node.key"), -EPERM);
	CU_ASSERT_EQUAL(tried("none/a", "here/none/ab", "k/node.key"), 0);
	remove_all(top);
}

/* The words are those of a refusal by the spelling, but for where a link leads. */
static void test_spelled(void)
{
	char expected[FM_ERR_TEXT_MAX], way[96];

	make();
	CU_ASSERT_PTR_NULL(load("link", "node", "k/node.key"));
	CU_ASSERT_EQUAL(err.code, -EINVAL);
	CU_ASSERT_PTR_NULL(strstr(err.text, "really"));
	(void)snprintf(expected, sizeof(expected),
		       "%s/link/f.conf:3: stores.directory: \"%s/real\" and the entries of peers "
		       "(peers.d) in %s/link must not be within each other; move one", top, top,
		       top);
	CU_ASSERT_EQUAL(tried("real", "node", "k/node.key"), -EPERM);
	CU_ASSERT_STRING_EQUAL(err.text, expected);
	CU_ASSERT_EQUAL(tried("here/real", "node", "k/node.key"), -EPERM);
	in_top(way, "here/real\" (really ");
	CU_ASSERT_PTR_NOT_NULL(strstr(err.text, way));
	remove_all(top);
}

/* A path that leads elsewhere than what was opened is looked at again. */
static void test_changed(void)
{
	struct fm_config *cfg;
	struct fm_dirway way;
	char path[96];

	make();
	cfg = load("data", "node", "k/node.key");
	CU_ASSERT_PTR_NOT_NULL_FATAL(cfg);
	CU_ASSERT_EQUAL(fm_dirway_at(top, &way), 0);
	CU_ASSERT_EQUAL(fm_own_dirs_check(cfg, &cfg->stores[0], &way, &err), -EAGAIN);
	way = (struct fm_dirway){ 0 };	/* of "null:" */
	CU_ASSERT_EQUAL(fm_own_dirs_check(cfg, &cfg->stores[0], &way, &err), 0);
	in_top(path, "data");
	CU_ASSERT_EQUAL(fm_dirway_at(path, &way), 0);
	CU_ASSERT_EQUAL(rmdir(path), 0);
	CU_ASSERT_EQUAL(fm_own_dirs_check(cfg, &cfg->stores[0], &way, &err), -ENOENT);
	fm_config_free(cfg);
	remove_all(top);
}

static const struct fm_test tests[] = {
	{ "wherever links lead", test_links },
	{ "a link to the key is as the key", test_links_to_the_key },
	{ "what is not there yet counts where it would be", test_what_is_missing },
	{ "one sentence", test_spelled },
	{ "what was opened is what is looked at", test_changed },
};

FM_TEST_MAIN("own_dirs", tests)
