/* SPDX-License-Identifier: MIT */
/*
 * 06-group - publish several files at once: ./06-group NODE STORE PATH FILE... Nobody sees any of
 * them before all of them are there.
 *
 * Here one process does all of it. The members may as well be put by any process on any node that
 * is told the ID, as in a checkpoint of many ranks, of which one begins and commits.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <fmove.h>

static int put_member(struct fmove *c, const struct fmove_name *group, const char *id,
		      const char *file, struct fmove_error *err)
{
	const struct fmove_options options = {.struct_size = sizeof(options), .group = id};
	const char *slash = strrchr(file, '/');
	char path[FMOVE_PATH_MAX + 1];
	const struct fmove_name to = {group->node, group->store, path};
	struct fmove_result result = {.struct_size = sizeof(result)};
	int fd = open(file, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0) {
		*err = (struct fmove_error){.code = -errno, .exit = 1};
		snprintf(err->text, sizeof(err->text), "%s: %s", file, strerror(errno));
		return err->code;
	}
	snprintf(path, sizeof(path), "%s/%s", group->path, slash ? slash + 1 : file);
	ret = fmove_put(c, fd, &to, &options, &result, err);
	close(fd);
	return ret;
}

int main(int argc, char **argv)
{
	struct fmove_group_options options = {.struct_size = sizeof(options)};
	char id[FMOVE_GROUP_ID_LEN + 1];
	struct fmove_name group;
	struct fmove_error err;
	struct fmove *c;
	int ret;

	if (argc < 5) {
		fprintf(stderr, "usage: %s NODE STORE PATH FILE...\n", argv[0]);
		return 2;
	}
	group = (struct fmove_name){.node = argv[1], .store = argv[2], .path = argv[3]};
	options.members = (uint32_t)argc - 4;
	ret = fmove_connect(NULL, &c, &err);
	if (ret < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return err.exit;
	}
	fmove_group_id(id);
	ret = fmove_group_begin(c, &group, id, &options, &err);
	if (ret == 0) {
		for (int i = 4; i < argc && ret == 0; i++)
			ret = put_member(c, &group, id, argv[i], &err);
		if (ret == 0)
			ret = fmove_group_commit(c, &group, id, NULL, NULL, &err);
		if (ret < 0)
			fmove_group_discard(c, &group, id, NULL);
	}
	fmove_close(c);
	if (ret < 0) {
		fprintf(stderr, "%s: %s\n", argv[0], err.text);
		return err.exit;
	}
	printf("%d files are at %s:%s/%s\n", argc - 4, argv[1], argv[2], argv[3]);
	return 0;
}
