/* SPDX-License-Identifier: MIT */
/*
 * replay - the main() of a fuzz target where there is no libFuzzer: every file given, or in a
 * directory given, once; and its beginnings.
 *
 * So what a fuzzer found once is tried in every test run, by every compiler. A message cut short is
 * the commonest damage there is: each input is tried at some of its lengths, too.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define INPUT_MAX (1u << 20)
#define CUTS 64			/* lengths tried of each */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned inputs;

/* In memory of just that size, so that a sanitizer sees the first byte beyond. */
static void try_one(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	/* it aborts if it does not like what it sees */
	(void)LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static int replay_file(const char *path)
{
	uint8_t *data = malloc(INPUT_MAX);
	FILE *f = fopen(path, "rb");
	size_t size;

	if (!data || !f) {
		perror(path);
		if (f)
			fclose(f);
		free(data);
		return 1;
	}
	size = fread(data, 1, INPUT_MAX, f);
	fclose(f);
	try_one(data, size);
	for (size_t i = 0; i < CUTS && i < size; i++)
		try_one(data, size < CUTS ? i : size * i / CUTS);
	free(data);
	inputs++;
	return 0;
}

static int replay_dir(const char *dir)
{
	struct dirent **names;
	int count = scandir(dir, &names, NULL, alphasort);
	char path[PATH_MAX];
	int ret = 0;

	if (count < 0) {
		perror(dir);
		return 1;
	}
	for (int i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.') {
			snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
			ret |= replay_file(path);
		}
		free(names[i]);
	}
	free(names);
	return ret;
}

int main(int argc, char **argv)
{
	struct stat st;
	int ret = 0;

	for (int i = 1; i < argc; i++) {
		if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode))
			ret |= replay_dir(argv[i]);
		else
			ret |= replay_file(argv[i]);
	}
	printf("%u inputs\n", inputs);
	return ret || inputs == 0;
}
