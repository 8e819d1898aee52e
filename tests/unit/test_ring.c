/* SPDX-License-Identifier: MIT */
/* links: fm_base */
/*
 * Every test that moves bytes runs twice, with io_uring and with threads: callers must not see a
 * difference. Where the kernel refuses io_uring both runs use threads; test_kind() says so. A lost
 * completion hangs the test, and ctest's deadline tells.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/loop.h"
#include "mover/base/ring.h"
#include "tests/fm_test.h"

#define DEPTH 4
#define BLOCK 4096
#define BLOCKS 64

static struct fm_loop *loop;
static struct fm_ring *ring;
/* registered with the ring: BLOCKS blocks to write from, then as many to read to */
static uint8_t *memory;
static bool is_threads_only;

struct op {
	struct fm_io io;
	unsigned dones;
};

static uint8_t *block(unsigned i)
{
	return memory + (size_t)i * BLOCK;
}

static struct fm_ring *make_ring(unsigned depth, bool with_memory)
{
	struct fm_ring_opts opts = { .depth = depth, .is_threads_only = is_threads_only };
	struct fm_ring *made = NULL;
	struct fm_err err;

	if (with_memory) {
		opts.memory = memory;
		opts.memory_len = 2 * BLOCKS * BLOCK;
	}
	if (fm_ring_new(loop, &opts, &made, &err) < 0) {
		printf("fm_ring_new: %s\n", err.text);
		exit(1);
	}
	return made;
}

static void set_up(unsigned depth)
{
	memory = mmap(NULL, 2 * BLOCKS * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		      -1, 0);
	if (memory == MAP_FAILED || fm_loop_new(&(struct fm_loop_opts){ 0 }, &loop, NULL) < 0)
		exit(1);
	for (size_t i = 0; i < BLOCKS * BLOCK; i++)
		memory[i] = (uint8_t)(i * 7 + i / BLOCK);
	ring = make_ring(depth, true);
}

static void tear_down(void)
{
	CU_ASSERT_EQUAL(fm_ring_in_flight(ring), 0);
	fm_ring_free(ring);
	fm_loop_free(loop);
	munmap(memory, 2 * BLOCKS * BLOCK);
}

/* Run body on a ring of each kind. */
static void on_both(unsigned depth, void (*body)(void))
{
	for (int i = 0; i < 2; i++) {
		is_threads_only = i == 1;
		set_up(depth);
		body();
		tear_down();
	}
}

static void op_done(struct fm_io *io)
{
	fm_container_of(io, struct op, io)->dones++;
}

static struct op make_op(int fd, void *buf, size_t len, uint64_t offset)
{
	return (struct op){.io = {.done = op_done,
				  .fd = fd,
				  .buf = buf,
				  .len = (uint32_t)len,
				  .offset = offset}};
}

static void wait_for(const struct op *op)
{
	while (op->dones == 0)
		fm_loop_step(loop, FM_NEVER);
	CU_ASSERT_EQUAL(op->dones, 1);
}

static void wait_for_all(void)
{
	while (fm_ring_in_flight(ring) > 0)
		fm_loop_step(loop, FM_NEVER);
}

static int64_t do_read(int fd, void *buf, size_t len, uint64_t offset)
{
	struct op op = make_op(fd, buf, len, offset);

	fm_ring_read(ring, &op.io);
	CU_ASSERT_EQUAL(op.dones, 0);
	wait_for(&op);
	return op.io.res;
}

static int64_t do_write(int fd, void *buf, size_t len, uint64_t offset)
{
	struct op op = make_op(fd, buf, len, offset);

	fm_ring_write(ring, &op.io);
	CU_ASSERT_EQUAL(op.dones, 0);
	wait_for(&op);
	return op.io.res;
}

static int temp_file(void)
{
	char name[] = "/tmp/fm_test_ring_XXXXXX";
	int fd = mkostemp(name, O_CLOEXEC);

	if (fd < 0)
		exit(1);
	unlink(name);
	return fd;
}

static void make_pipe(int fds[2], int flags)
{
	if (pipe2(fds, O_CLOEXEC | flags) < 0)
		exit(1);
}

static void close_pipe(int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

/* ---------------------------------------------------------------------------------------- files */

static void check_write_read(void)
{
	int fd = temp_file();
	uint8_t own[3000];	/* not registered */

	CU_ASSERT_EQUAL(do_write(fd, block(0), 3 * BLOCK, 0), 3 * BLOCK);
	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS), 3 * BLOCK, 0), 3 * BLOCK);
	CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), 3 * BLOCK), 0);
	CU_ASSERT_EQUAL(do_read(fd, own, sizeof(own), 1000), sizeof(own));
	CU_ASSERT_EQUAL(memcmp(block(0) + 1000, own, sizeof(own)), 0);
	CU_ASSERT_EQUAL(do_write(fd, own, sizeof(own), 50000), sizeof(own));
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_END), 50000 + (off_t)sizeof(own));
	close(fd);
}

static void test_write_read(void)
{
	on_both(DEPTH, check_write_read);
}

static void check_end_of_file(void)
{
	int fd = temp_file();

	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS), BLOCK, 0), 0);
	CU_ASSERT_EQUAL(do_write(fd, block(0), 10000, 0), 10000);
	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS), 4 * BLOCK, 0), 10000);
	CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), 10000), 0);
	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS), BLOCK, 9999), 1);
	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS), BLOCK, 10000), 0);
	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS), BLOCK, 1 << 30), 0);
	close(fd);
}

static void test_end_of_file(void)
{
	on_both(DEPTH, check_end_of_file);
}

/* The last block of the file is not full, so that going on after it is not aligned. */
static void check_direct(void)
{
	char path[64];
	int fd = temp_file(), direct;

	CU_ASSERT_EQUAL(do_write(fd, block(0), 10000, 0), 10000);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (direct >= 0) {	/* not every file system has it */
		CU_ASSERT_EQUAL(do_read(direct, block(BLOCKS), 4 * BLOCK, 0), 10000);
		CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), 10000), 0);
		CU_ASSERT_EQUAL(do_write(direct, block(1), 2 * BLOCK, 2 * BLOCK), 2 * BLOCK);
		CU_ASSERT_EQUAL(do_read(direct, block(BLOCKS), BLOCK, 3 * BLOCK), BLOCK);
		CU_ASSERT_EQUAL(memcmp(block(2), block(BLOCKS), BLOCK), 0);
		close(direct);
	}
	close(fd);
}

static void test_direct(void)
{
	on_both(DEPTH, check_direct);
}

/* Goal: what is moved behind the bytes that were asked for, to fill a block, is moved and not
 * counted. */
static void check_pad(void)
{
	int fd = temp_file();
	struct op op[2] = {make_op(fd, block(0), 100, 0),
			   make_op(fd, block(1), BLOCK + 100, 2 * BLOCK)};
	struct op back = make_op(fd, block(BLOCKS), 4 * BLOCK - 10, 0),
		  short_back = make_op(fd, block(BLOCKS), BLOCK, 3 * BLOCK);

	op[0].io.pad = op[1].io.pad = BLOCK - 100;
	fm_ring_write(ring, &op[0].io);
	fm_ring_write(ring, &op[1].io);
	wait_for(&op[0]);
	wait_for(&op[1]);
	CU_ASSERT_EQUAL(op[0].io.res, 100);
	CU_ASSERT_EQUAL(op[1].io.res, BLOCK + 100);
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_END), 4 * BLOCK);
	back.io.pad = 10;
	fm_ring_read(ring, &back.io);
	wait_for(&back);
	CU_ASSERT_EQUAL(back.io.res, 4 * BLOCK - 10);
	CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), BLOCK), 0);
	CU_ASSERT_EQUAL(memcmp(block(1), block(BLOCKS + 2), 2 * BLOCK), 0);
	CU_ASSERT_EQUAL_FATAL(ftruncate(fd, 3 * BLOCK + 7), 0);
	short_back.io.pad = BLOCK;
	fm_ring_read(ring, &short_back.io);
	wait_for(&short_back);
	CU_ASSERT_EQUAL(short_back.io.res, 7);
	close(fd);
}

static void test_pad(void)
{
	on_both(DEPTH, check_pad);
}

static void check_more_than_depth(void)
{
	struct op ops[BLOCKS];
	int fd = temp_file();

	for (unsigned i = 0; i < BLOCKS; i++) {
		ops[i] = make_op(fd, block(i), BLOCK, (uint64_t)i * BLOCK);
		fm_ring_write(ring, &ops[i].io);
	}
	CU_ASSERT_EQUAL(fm_ring_in_flight(ring), BLOCKS);
	wait_for_all();
	for (unsigned i = 0; i < BLOCKS; i++) {
		CU_ASSERT_EQUAL(ops[i].dones, 1);
		CU_ASSERT_EQUAL(ops[i].io.res, BLOCK);
		ops[i] = make_op(fd, block(BLOCKS + i), BLOCK, (uint64_t)i * BLOCK);
		fm_ring_read(ring, &ops[i].io);
	}
	wait_for_all();
	CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), BLOCKS * BLOCK), 0);
	close(fd);
}

static void test_more_than_depth(void)
{
	on_both(DEPTH, check_more_than_depth);
	on_both(1, check_more_than_depth);
}

struct chain {
	struct fm_io io;
	unsigned left;
};

static void chain_done(struct fm_io *io)
{
	struct chain *chain = fm_container_of(io, struct chain, io);

	CU_ASSERT_EQUAL(io->res, BLOCK);
	io->offset += BLOCK;
	if (--chain->left > 0)
		fm_ring_write(ring, io);
}

static void check_chain(void)
{
	int fd = temp_file();
	struct chain chain = {.io = {.done = chain_done, .fd = fd, .buf = block(0), .len = BLOCK},
			      .left = 100};

	fm_ring_write(ring, &chain.io);
	wait_for_all();
	CU_ASSERT_EQUAL(chain.left, 0);
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_END), 100 * BLOCK);
	close(fd);
}

static void test_chain(void)
{
	on_both(DEPTH, check_chain);
}

static void check_errors(void)
{
	int full = open("/dev/full", O_RDWR | O_CLOEXEC),
	    dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	void *nowhere = mmap(NULL, BLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int file = temp_file(), fds[2];

	CU_ASSERT_EQUAL(do_write(full, block(0), BLOCK, 0), -ENOSPC);
	CU_ASSERT_EQUAL(do_write(full, block(0), BLOCK, FM_IO_STREAM), -ENOSPC);
	CU_ASSERT_EQUAL(do_read(dir, block(0), BLOCK, 0), -EISDIR);
	close(dir);
	CU_ASSERT_EQUAL(do_read(dir, block(0), BLOCK, 0), -EBADF);
	CU_ASSERT_EQUAL(do_read(dir, block(0), BLOCK, FM_IO_STREAM), -EBADF);
	CU_ASSERT_EQUAL(do_write(file, block(0), BLOCK, 0), BLOCK);
	CU_ASSERT_EQUAL(do_read(file, nowhere, BLOCK, 0), -EFAULT);
	make_pipe(fds, 0);
	CU_ASSERT_EQUAL(do_read(fds[1], block(0), BLOCK, FM_IO_STREAM), -EBADF);
	close_pipe(fds);
	close(file);
	close(full);
	munmap(nowhere, BLOCK);
}

static void test_errors(void)
{
	on_both(DEPTH, check_errors);
}

/* -------------------------------------------------------------------------------------- streams */

static const int pipe_flags[] = { 0, O_NONBLOCK };

/* The reader is there before the bytes, and the loop sleeps meanwhile; they come in two pieces. */
static void check_pipe_waits(void)
{
	for (int i = 0; i < 2; i++) {
		struct op op;
		int fds[2];

		make_pipe(fds, pipe_flags[i]);
		op = make_op(fds[0], block(BLOCKS), 2000, FM_IO_STREAM);
		fm_ring_read(ring, &op.io);
		for (int pass = 0; pass < 10; pass++)
			fm_loop_step(loop, 0);
		CU_ASSERT_EQUAL(write(fds[1], block(0), 500), 500);
		for (int pass = 0; pass < 10; pass++)
			fm_loop_step(loop, 0);
		CU_ASSERT_EQUAL(op.dones, 0);
		CU_ASSERT_EQUAL(write(fds[1], block(0) + 500, 1500), 1500);
		wait_for(&op);
		CU_ASSERT_EQUAL(op.io.res, 2000);
		CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), 2000), 0);
		close_pipe(fds);
	}
}

static void test_pipe_waits(void)
{
	on_both(DEPTH, check_pipe_waits);
}

static void check_pipe_end(void)
{
	for (int i = 0; i < 2; i++) {
		struct op op;
		int fds[2];

		make_pipe(fds, pipe_flags[i]);
		op = make_op(fds[0], block(BLOCKS), BLOCK, FM_IO_STREAM);
		fm_ring_read(ring, &op.io);
		fm_loop_step(loop, 0);
		CU_ASSERT_EQUAL(write(fds[1], block(0), 500), 500);
		fm_loop_step(loop, 0);
		close(fds[1]);
		wait_for(&op);
		CU_ASSERT_EQUAL(op.io.res, 500);
		CU_ASSERT_EQUAL(do_read(fds[0], block(BLOCKS), BLOCK, FM_IO_STREAM), 0);
		close(fds[0]);
	}
}

static void test_pipe_end(void)
{
	on_both(DEPTH, check_pipe_end);
}

/* Much more than a pipe holds, both ends on the same ring: neither may hold up the other, or the
 * loop. */
static void check_pipe_through(void)
{
	for (int i = 0; i < 2; i++) {
		size_t len = BLOCKS * BLOCK;
		struct op in, out;
		int fds[2];

		make_pipe(fds, pipe_flags[i]);
		memset(block(BLOCKS), 0, len);
		out = make_op(fds[1], block(0), len, FM_IO_STREAM);
		in = make_op(fds[0], block(BLOCKS), len, FM_IO_STREAM);
		fm_ring_write(ring, &out.io);
		fm_ring_read(ring, &in.io);
		wait_for_all();
		CU_ASSERT_EQUAL(out.io.res, (int64_t)len);
		CU_ASSERT_EQUAL(in.io.res, (int64_t)len);
		CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), len), 0);
		close_pipe(fds);
	}
}

static void test_pipe_through(void)
{
	on_both(DEPTH, check_pipe_through);
}

static void check_pipe_cancel(void)
{
	for (int i = 0; i < 2; i++) {
		struct op in, out;
		int fds[2], full[2];

		make_pipe(fds, pipe_flags[i]);
		make_pipe(full, pipe_flags[i]);
		in = make_op(fds[0], block(BLOCKS), BLOCK, FM_IO_STREAM);
		out = make_op(full[1], block(0), BLOCKS * BLOCK, FM_IO_STREAM);
		fm_ring_read(ring, &in.io);
		fm_ring_write(ring, &out.io);
		for (int pass = 0; pass < 10; pass++)
			fm_loop_step(loop, 0);
		CU_ASSERT_EQUAL(fm_ring_in_flight(ring), 2);
		fm_ring_cancel(ring, &in.io);
		fm_ring_cancel(ring, &in.io);
		CU_ASSERT_EQUAL(in.dones, 0);
		wait_for(&in);
		CU_ASSERT_EQUAL(in.io.res, -ECANCELED);
		fm_ring_cancel(ring, &in.io);
		fm_ring_cancel(ring, &out.io);
		wait_for(&out);
		CU_ASSERT_EQUAL(out.io.res, -ECANCELED);
		close_pipe(fds);
		close_pipe(full);
	}
}

static void test_pipe_cancel(void)
{
	on_both(DEPTH, check_pipe_cancel);
}

/* Depth is 1: the second waits behind the first and never reaches the kernel. */
static void check_cancel_waiting(void)
{
	struct op first, second;
	int fds[2];

	make_pipe(fds, 0);
	first = make_op(fds[0], block(BLOCKS), 1, FM_IO_STREAM);
	second = make_op(fds[0], block(BLOCKS), 1, FM_IO_STREAM);
	fm_ring_read(ring, &first.io);
	fm_ring_read(ring, &second.io);
	fm_loop_step(loop, 0);
	fm_ring_cancel(ring, &second.io);
	CU_ASSERT_EQUAL(second.dones, 0);
	wait_for(&second);
	CU_ASSERT_EQUAL(second.io.res, -ECANCELED);
	CU_ASSERT_EQUAL(first.dones, 0);
	fm_ring_cancel(ring, &first.io);
	wait_for(&first);
	close_pipe(fds);
}

static void test_cancel_waiting(void)
{
	on_both(1, check_cancel_waiting);
}

/*
 * Goal: whatever a cancellation meets, its operation ends once, and the next one of the same struct
 * is not hit by it. Method: cancel after 0, 1, 2 passes, with and without a byte to read; then the
 * same struct must read a byte.
 */
static void check_cancel_races(void)
{
	struct op op;
	char c;
	int fds[2];

	make_pipe(fds, 0);
	for (unsigned i = 0; i < 600; i++) {
		op = make_op(fds[0], &c, 1, FM_IO_STREAM);
		if (i & 1)
			CU_ASSERT_EQUAL(write(fds[1], "a", 1), 1);
		fm_ring_read(ring, &op.io);
		for (unsigned pass = 0; pass < i / 2 % 3 && op.dones == 0; pass++)
			fm_loop_step(loop, 0);
		if (op.dones == 0)
			fm_ring_cancel(ring, &op.io);
		wait_for(&op);
		CU_ASSERT_TRUE(op.io.res == 1 || op.io.res == -ECANCELED);
		op.dones = 0;
		if (!(i & 1) || op.io.res == 1)
			CU_ASSERT_EQUAL(write(fds[1], "b", 1), 1);
		fm_ring_read(ring, &op.io);
		wait_for(&op);
		CU_ASSERT_EQUAL(op.io.res, 1);
	}
	close_pipe(fds);
}

static void test_cancel_races(void)
{
	on_both(DEPTH, check_cancel_races);
}

/* As many streams that wait for ever as there can be operations but one: files go on. */
static void check_streams_hold_up_no_file(void)
{
	struct op waiting[15];
	int file = temp_file(), fds[2];

	make_pipe(fds, 0);
	for (int i = 0; i < 15; i++) {
		waiting[i] = make_op(fds[0], block(BLOCKS), 1, FM_IO_STREAM);
		fm_ring_read(ring, &waiting[i].io);
	}
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(do_write(file, block(0), BLOCK, 0), BLOCK);
	for (int i = 0; i < 15; i++)
		fm_ring_cancel(ring, &waiting[i].io);
	wait_for_all();
	for (int i = 0; i < 15; i++)
		CU_ASSERT_EQUAL(waiting[i].io.res, -ECANCELED);
	close_pipe(fds);
	close(file);
}

static void test_streams_hold_up_no_file(void)
{
	on_both(16, check_streams_hold_up_no_file);
}

/* More that may never end than the ring is deep: files go on, and what waits is given up too. */
static void check_standing_holds_up_no_file(void)
{
	struct op standing[20];
	int file = temp_file(), fds[2];

	make_pipe(fds, 0);
	for (int i = 0; i < 20; i++) {
		standing[i] = make_op(fds[0], block(BLOCKS), 1, FM_IO_STREAM);
		standing[i].io.may_stand = true;
		fm_ring_read(ring, &standing[i].io);
	}
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(do_write(file, block(0), BLOCK, 0), BLOCK);
	for (int i = 0; i < 20; i++)
		fm_ring_cancel(ring, &standing[i].io);
	wait_for_all();
	for (int i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(standing[i].io.res, -ECANCELED);
	close_pipe(fds);
	close(file);
}

static void test_standing_holds_up_no_file(void)
{
	on_both(16, check_standing_holds_up_no_file);
}

static void check_pipe_broken(void)
{
	int fds[2];

	make_pipe(fds, 0);
	close(fds[0]);
	CU_ASSERT_EQUAL(do_write(fds[1], block(0), BLOCK, FM_IO_STREAM), -EPIPE);
	close(fds[1]);
}

static void test_pipe_broken(void)
{
	signal(SIGPIPE, SIG_IGN);
	on_both(DEPTH, check_pipe_broken);
	signal(SIGPIPE, SIG_DFL);
}

static void check_socket(void)
{
	static const int flags[] = { 0, SOCK_NONBLOCK };

	for (int i = 0; i < 2; i++) {
		size_t len = BLOCKS * BLOCK;
		struct op in, out;
		int fds[2];

		CU_ASSERT_EQUAL_FATAL(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags[i], 0, fds), 0);
		memset(block(BLOCKS), 0, len);
		in = make_op(fds[0], block(BLOCKS), len, FM_IO_STREAM);
		out = make_op(fds[1], block(0), len, FM_IO_STREAM);
		fm_ring_read(ring, &in.io);
		fm_loop_step(loop, 0);
		fm_ring_write(ring, &out.io);
		wait_for_all();
		CU_ASSERT_EQUAL(in.io.res, (int64_t)len);
		CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), len), 0);
		close_pipe(fds);
	}
}

static void test_socket(void)
{
	on_both(DEPTH, check_socket);
}

static void check_terminal_with(int flags)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
	struct op op;

	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return;		/* no terminals here */
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC | flags);
	CU_ASSERT_TRUE_FATAL(slave >= 0);
	op = make_op(slave, block(BLOCKS), 6, FM_IO_STREAM);
	fm_ring_read(ring, &op.io);
	for (int pass = 0; pass < 10; pass++)
		fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(write(master, "hello\n", 6), 6);
	wait_for(&op);
	CU_ASSERT_EQUAL(op.io.res, 6);
	CU_ASSERT_EQUAL(memcmp(block(BLOCKS), "hello\n", 6), 0);
	op.dones = 0;
	fm_ring_read(ring, &op.io);
	for (int pass = 0; pass < 10; pass++)
		fm_loop_step(loop, 0);
	fm_ring_cancel(ring, &op.io);
	wait_for(&op);
	CU_ASSERT_EQUAL(op.io.res, -ECANCELED);
	close(slave);
	close(master);
}

/* A terminal is read line by line; somebody who types nothing can be given up. */
static void check_terminal(void)
{
	check_terminal_with(0);
	check_terminal_with(O_NONBLOCK);
}

static void test_terminal(void)
{
	on_both(DEPTH, check_terminal);
}

/*
 * Kernels differ in which non-blocking descriptors io_uring waits for itself and which it answers
 * EAGAIN for. Where it does, the ring has to wait.
 */
static void check_again(void)
{
	char name[] = "/tmp/fm_test_ring_XXXXXX";
	int file = mkostemp(name, O_CLOEXEC), fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct inotify_event event = { .wd = -1 };
	struct op op = make_op(fd, &event, sizeof(event), FM_IO_STREAM);
	int watched = inotify_add_watch(fd, name, IN_MODIFY);

	CU_ASSERT_TRUE_FATAL(file >= 0 && watched >= 0);
	fm_ring_read(ring, &op.io);
	for (int pass = 0; pass < 10; pass++)
		fm_loop_step(loop, 0);
	CU_ASSERT_EQUAL(op.dones, 0);
	CU_ASSERT_EQUAL(write(file, "x", 1), 1);
	wait_for(&op);
	CU_ASSERT_EQUAL(op.io.res, (int64_t)sizeof(event));
	CU_ASSERT_EQUAL(event.wd, watched);
	op.dones = 0;
	fm_ring_read(ring, &op.io);
	for (int pass = 0; pass < 10; pass++)
		fm_loop_step(loop, 0);
	fm_ring_cancel(ring, &op.io);
	wait_for(&op);
	CU_ASSERT_EQUAL(op.io.res, -ECANCELED);
	unlink(name);
	close(file);
	close(fd);
}

static void test_again(void)
{
	on_both(DEPTH, check_again);
}

/* A file given as a stream (standard input from a file) goes on where its descriptor stands. */
static void check_file_as_stream(void)
{
	int fd = temp_file();

	CU_ASSERT_EQUAL(do_write(fd, block(0), 5000, FM_IO_STREAM), 5000);
	CU_ASSERT_EQUAL(do_write(fd, block(0) + 5000, 5000, FM_IO_STREAM), 5000);
	CU_ASSERT_EQUAL(lseek(fd, 0, SEEK_SET), 0);
	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS), 3000, FM_IO_STREAM), 3000);
	CU_ASSERT_EQUAL(do_read(fd, block(BLOCKS) + 3000, 4 * BLOCK, FM_IO_STREAM), 7000);
	CU_ASSERT_EQUAL(memcmp(block(0), block(BLOCKS), 10000), 0);
	close(fd);
}

static void test_file_as_stream(void)
{
	on_both(DEPTH, check_file_as_stream);
}

/* ------------------------------------------------------------------------------- life and death */

static void *loop_thread(void *arg)
{
	struct op op = make_op(*(int *)arg, block(0), BLOCK, 0);

	fm_ring_write(ring, &op.io);
	wait_for(&op);
	CU_ASSERT_EQUAL(op.io.res, BLOCK);
	return NULL;
}

/* A lane's ring is made by whoever makes the lane. */
static void check_other_thread(void)
{
	int fd = temp_file();
	pthread_t thread;

	pthread_create(&thread, NULL, loop_thread, &fd);
	pthread_join(thread, NULL);
	close(fd);
}

static void test_other_thread(void)
{
	on_both(DEPTH, check_other_thread);
}

static void test_kind(void)
{
	struct fm_ring *bare;

	is_threads_only = false;
	set_up(DEPTH);
	bare = make_ring(DEPTH, false);
	printf("%s; %s ...", fm_ring_kind(ring), fm_ring_kind(bare));
	if (strncmp(fm_ring_kind(ring), "threads", 7) != 0) {
		CU_ASSERT_STRING_EQUAL(fm_ring_kind(bare), "io_uring");
		CU_ASSERT_PTR_NOT_NULL(strstr(fm_ring_kind(ring), "io_uring"));
	}
	fm_ring_free(bare);
	is_threads_only = true;
	bare = make_ring(DEPTH, true);
	CU_ASSERT_STRING_EQUAL(fm_ring_kind(bare), "threads");
	fm_ring_free(bare);
	tear_down();
}

/* Make a ring with the named point failing, look at its kind, use it. */
static void check_degraded(const char *point, const char *kind)
{
	fm_fault_arm(point, 1);
	set_up(DEPTH);
	/* not in a build without fault points, or where threads are all there is */
	if (fm_fault_fired())
		CU_ASSERT_STRING_EQUAL(fm_ring_kind(ring), kind);
	fm_fault_arm(NULL, 0);
	check_write_read();
	tear_down();
}

static void test_degraded(void)
{
	is_threads_only = false;
	check_degraded("ring.uring", "threads (io_uring refused: Operation not permitted)");
	check_degraded("ring.register", "io_uring (memory not registered: Cannot allocate memory)");
}

static void check_injected(void)
{
	int fd = temp_file();

	fm_fault_arm("ring.write", 2);
	CU_ASSERT_EQUAL(do_write(fd, block(0), BLOCK, 0), BLOCK);
	if (fm_fault_count() > 0) {	/* the points are compiled in */
		CU_ASSERT_EQUAL(do_write(fd, block(0), BLOCK, 0), -EIO);
		CU_ASSERT_TRUE(fm_fault_fired());
	}
	fm_fault_arm(NULL, 0);
	close(fd);
}

static void test_injected(void)
{
	on_both(DEPTH, check_injected);
}

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* With io_uring some points only make the ring fall back, and the ring works all the same. */
static void check_new_faults(void)
{
	struct fm_ring_opts opts = { .depth = DEPTH, .memory = memory, .memory_len = BLOCK };
	bool has_fired = true;
	unsigned n, fds = count_fds();

	opts.is_threads_only = is_threads_only;
	for (n = 1; has_fired && n < 100; n++) {
		struct fm_ring *made = NULL;
		struct fm_err err = { 0 };
		int ret;

		fm_fault_arm(NULL, n);
		ret = fm_ring_new(loop, &opts, &made, &err);
		has_fired = fm_fault_fired();
		CU_ASSERT_TRUE(ret == 0 || has_fired);
		CU_ASSERT_EQUAL(ret, err.code);
		CU_ASSERT_EQUAL(ret < 0, err.text[0] != '\0' && !made);
		fm_ring_free(made);
		CU_ASSERT_EQUAL(count_fds(), fds);
	}
	fm_fault_arm(NULL, 0);
	CU_ASSERT_FALSE(has_fired);
}

static void test_new_faults(void)
{
	on_both(DEPTH, check_new_faults);
	fm_ring_free(NULL);
}

static const struct fm_test tests[] = {
	{"a ring says what it is made of", test_kind},
	{"what was written is read back, in registered memory or not", test_write_read},
	{"a read ends short at the end of the file", test_end_of_file},
	{"a direct read ends at the end of a file that is not a whole block", test_direct},
	{"what fills a block is moved and not counted", test_pad},
	{"more operations than the ring is deep all come to their end", test_more_than_depth},
	{"done() may start the next operation with the same struct", test_chain},
	{"each error of the system comes through", test_errors},
	{"a read from a pipe waits for all its bytes, and the loop does not", test_pipe_waits},
	{"the end of a pipe ends a read with what came before", test_pipe_end},
	{"both ends of a pipe move more than it holds", test_pipe_through},
	{"an operation that waits for a pipe can be cancelled", test_pipe_cancel},
	{"an operation that waits for its turn can be cancelled", test_cancel_waiting},
	{"a cancellation hits its own operation or nothing, whenever it comes", test_cancel_races},
	{"streams that wait for ever hold up no file", test_streams_hold_up_no_file},
	{"files that may never answer have half of the depth", test_standing_holds_up_no_file},
	{"a pipe that nobody reads is an error", test_pipe_broken},
	{"a socket works like a pipe", test_socket},
	{"a terminal is read, and given up", test_terminal},
	{"a descriptor without data is waited for, whoever does the waiting", test_again},
	{"a file can be read and written as a stream", test_file_as_stream},
	{"a ring may be made on one thread and used on the loop's", test_other_thread},
	{"a ring does without what the kernel refuses", test_degraded},
	{"an injected failure is an I/O error", test_injected},
	{"a ring that cannot be made leaves nothing behind", test_new_faults},
};
FM_TEST_MAIN("ring", tests)
