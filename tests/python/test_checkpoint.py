# SPDX-License-Identifier: MIT
# Needs: torch
# Nodes: 3
# Goal:   what ranks save with FmoveWriter any number of ranks loads, bit by bit; a save that fails leaves nothing; what is
#         not a checkpoint is refused, and nothing of it is executed.
# Method: gloo on this machine; tensors of every kind, whole and in parts, saved by some ranks and loaded by others.
import errno
import gc
import json
import os
import pickle
import random
import shutil
import unittest
from unittest import mock

import old_torch  # noqa: F401  before fmove.checkpoint
import ranks
import torch

import fmove
import fmove.torch
from fmove import checkpoint, loader, metadata, safetensors
from nodes import DIR, Case, descriptors


class Marks:
    """Whoever unpickles it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (self.path,))


def state(seed=0):
    torch.manual_seed(seed)
    shared = torch.randn(500)
    return {
        "weight": torch.randn(300, 200),
        "not contiguous": torch.randn(30, 40).t(),
        "every other": torch.randn(100)[::2],
        "shared": shared,
        "a part of it": shared[100:200],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "bfloat16": torch.randn(333).to(torch.bfloat16),
        "half": torch.randn(33).half(),
        "bool": torch.tensor([True, False, True]),
        "int8": torch.arange(77, dtype=torch.int8),
        "complex": torch.randn(7, dtype=torch.complex64).conj(),
        "step": seed,
        "words": {"a": [1, "two", None]},
    }


FULL = torch.arange(7 * 10 * 3, dtype=torch.float32).reshape(7, 10, 3)


GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")


def golden():
    return {
        "weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
        "bfloat16": torch.arange(5, dtype=torch.float32).to(torch.bfloat16),
        "int8": torch.arange(-3, 4, dtype=torch.int8),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "bool": torch.tensor([True, False, True]),
        "step": 7,
    }


class Checkpoint(Case):
    def assert_same(self, a, b):
        self.assertEqual(a.keys(), b.keys())
        for key, value in a.items():
            if isinstance(value, torch.Tensor):
                self.assertEqual((value.dtype, value.shape), (b[key].dtype, b[key].shape), key)
                self.assertTrue(torch.equal(value, b[key]), key)
            else:
                self.assertEqual(value, b[key], key)

    def save(self, kept, name="c", **how):
        ranks.save(kept, fmove.torch.FmoveWriter(self.name(name), **how), no_dist=True)

    def load(self, into, name="c", **how):
        ranks.load(into, fmove.torch.FmoveReader(self.name(name), **how), no_dist=True)
        return into

    def test_there_and_back(self):
        kept = state()
        self.save(kept)
        self.assert_same(self.load(ranks.empty_like(kept)), kept)
        self.assert_seen(["c"])
        self.assertEqual(sorted(os.listdir(f"{self.store}/c")), [".metadata", "rank0.safetensors"])

    def test_many_requests(self):
        kept = state()
        self.save(kept)
        with mock.patch.multiple(loader, SLOT=1000, SLOTS=3):
            self.assert_same(self.load(ranks.empty_like(kept)), kept)
        self.assert_idle()

    def test_no_room_for_a_buffer(self):
        class Full(fmove.Connection):
            def ask(self, op, *_):
                if op == "buffer":
                    raise fmove.errors.error(16, "no room", is_full=True)
                return super().ask(op, *_)

        full = Full()
        self.addCleanup(full.close)
        kept = state()
        self.save(kept)
        with mock.patch.multiple(loader, SLOT=1000, SLOTS=3):
            self.assert_same(self.load(ranks.empty_like(kept), connection=full), kept)

    def test_a_request_fails_among_others(self):
        """Those behind it are over when the load is."""
        kept = {"t": torch.randn(1 << 20)}
        self.save(kept)
        with open(f"{self.store}/c/rank0.safetensors", "r+b") as file:
            file.truncate(2 << 20)
        open_before = descriptors()
        with mock.patch.multiple(loader, SLOT=1 << 19, SLOTS=4):
            self.assertEqual(self.failure_of(lambda: self.load(ranks.empty_like(kept))).code, "EINVAL")
        gc.collect()  # the failure's frames have the mapping
        self.assertLessEqual(descriptors(), open_before)
        self.assert_idle()

    def test_files_are_safetensors(self):
        kept = state()
        self.save(kept)
        data = self.stored("c/rank0.safetensors")
        size = safetensors.length_of(data[:8], len(data))
        tensors, _ = safetensors.decode(data[8 : 8 + size], len(data))
        self.assertEqual(tensors.keys(), ranks.flat(kept).keys())
        part = data[8 + size :][tensors["int8"].begin : tensors["int8"].end]
        self.assertEqual(part, bytes(range(77)))

    def test_latest(self):
        for step in range(4):
            self.save({"t": torch.full((3,), float(step))}, f"step{step}", latest="last", keep_last=2)
        self.assert_seen(["last", "step2", "step3"])
        self.assertEqual(self.load({"t": torch.zeros(3)}, "last")["t"].tolist(), [3, 3, 3])

    def test_replicas(self):
        own = os.path.join(DIR, "n3", "s", self.id())
        self.save({"t": torch.ones(3)}, replicas=["n3"], latest="last")
        for node in ("n3", "n2"):
            name = self.name("last").replace("n2:", f"{node}:")
            into = {"t": torch.zeros(3)}
            ranks.load(into, fmove.torch.FmoveReader(name), no_dist=True)
            self.assertEqual(into["t"].tolist(), [1, 1, 1])
        # Where one of them cannot be, none is.
        os.mkdir(f"{own}/d")
        why = self.failure_of(lambda: self.save({"t": torch.zeros(3)}, "d", replicas=["n3"]))
        self.assertIsInstance(why, FileExistsError)
        why = self.failure_of(lambda: self.save({"t": torch.zeros(3)}, "e", replicas=["n4"]))
        self.assertIn("n4", str(why))
        self.assert_seen(["c", "last"])

    def test_a_node_that_is_lost_before_one_has_it(self):
        """None has it: the node is asked shortly before another one's commit."""
        lost = fmove.errors.error(errno.ECONNREFUSED, "n2 is not connected", exit=fmove.errors.UNREACHABLE)
        answer = fmove.Connection.answer

        def asked(self, op, fields, **how):
            if fields.get("node") == "n2" and op in ("look", "group_commit"):
                raise lost
            return answer(self, op, fields, **how)

        for more in ({}, {"latest": "last"}):
            with mock.patch.object(fmove.Connection, "answer", asked):
                why = self.failure_of(lambda: self.save({"t": torch.ones(3)}, replicas=["n3"], **more))
            self.assertEqual(why.code, "ECONNREFUSED")
            self.assertFalse(os.path.exists(os.path.join(DIR, "n3", "s", self.id(), "c")))

    def test_links_are_led_when_all_have_it(self):
        asked = []
        answer = fmove.Connection.answer

        def noted(self, op, fields, **how):
            if op == "link" or (op == "group_commit" and not fields.get("check_only")):
                asked.append((op, fields["node"]))
            return answer(self, op, fields, **how)

        with mock.patch.object(fmove.Connection, "answer", noted):
            self.save({"t": torch.ones(3)}, replicas=["n3"], latest="last")
        self.assertEqual(asked, [("group_commit", "n3"), ("group_commit", "n2"), ("link", "n3"), ("link", "n2")])
        # What cannot be led on one of them is found out before any has it.
        os.mkdir(os.path.join(DIR, "n3", "s", self.id(), "newest"))
        why = self.failure_of(lambda: self.save({"t": torch.ones(3)}, "d", replicas=["n3"], latest="newest"))
        self.assertIsInstance(why, FileExistsError)
        self.assertIn("newest is there, and no symbolic link", str(why))
        self.assert_seen(["c", "last"])

    def test_a_link_that_is_not_led(self):
        """It is saved, and said to be."""
        broken = fmove.errors.error(errno.EIO, "once")
        with mock.patch.object(fmove.Connection, "_lead", side_effect=broken):
            why = self.failure_of(lambda: self.save({"t": torch.ones(3)}, latest="last"))
            with fmove.torch.Saver(latest="last") as made:
                made.save({"t": torch.ones(3)}, self.name("d"))
                with self.assertRaises(fmove.FmoveError) as told:
                    made.wait()
        for name, one in (("c", why), ("d", told.exception)):
            self.assertEqual(one.strerror, f"{self.name(name)} is saved, but the link last was not led to it: once")
            self.assertTrue(pickle.loads(pickle.dumps(one)).is_published)
        self.assert_seen(["c", "d"])

    def test_names_as_torch_gives_them(self):
        writer, reader = fmove.torch.FmoveWriter(), fmove.torch.FmoveReader()
        self.assertTrue(writer.validate_checkpoint_id("n2:s/c"))
        self.assertTrue(reader.validate_checkpoint_id("fmove://n2/s/c"))
        self.assertFalse(writer.validate_checkpoint_id("/tmp/c"))
        writer.reset(self.name("c"))
        reader.reset(self.name("c"))
        ranks.save({"t": torch.ones(3)}, writer, no_dist=True)
        into = {"t": torch.zeros(3)}
        ranks.load(into, reader, no_dist=True)
        self.assertEqual(into["t"].tolist(), [1, 1, 1])
        self.assertEqual(pickle.loads(pickle.dumps(writer)).rotated, writer.rotated)

    # ---- several ranks ----

    def save_by(self, world, dim=0):
        def rank_of(rank):
            kept = {"full": ranks.sharded(FULL, rank, world, dim), "whole": torch.ones(5), "step": 9}
            ranks.save(kept, fmove.torch.FmoveWriter(self.name("c")))

        self.assertEqual(ranks.run(world, rank_of), [0] * world)

    def load_by(self, world, dim=0):
        def rank_of(rank):
            part = ranks.sharded(torch.zeros_like(FULL), rank, world, dim)
            into = {"full": part, "whole": torch.zeros(5), "step": None}
            ranks.load(into, fmove.torch.FmoveReader(self.name("c")))
            wanted = ranks.local(ranks.sharded(FULL, rank, world, dim))
            assert torch.equal(ranks.local(part), wanted), part
            assert into["whole"].tolist() == [1] * 5
            assert into["step"] == 9

        self.assertEqual(ranks.run(world, rank_of), [0] * world)

    def test_one_rank_saves_and_two_load(self):
        self.save_by(1)
        self.load_by(2)
        self.load_by(3, dim=1)

    def test_two_ranks_save_and_one_loads(self):
        self.save_by(2)
        wanted = [".metadata", "rank0.safetensors", "rank1.safetensors"]
        self.assertEqual(sorted(os.listdir(f"{self.store}/c")), wanted)
        into = {"full": torch.zeros_like(FULL), "whole": torch.zeros(5), "step": None}
        self.load(into)
        self.assertTrue(torch.equal(into["full"], FULL))
        self.assertEqual(into["step"], 9)
        self.load_by(1)

    def test_three_ranks_save_along_another_dimension_than_two_load(self):
        self.save_by(3, dim=1)
        self.load_by(2, dim=0)
        self.load_by(2, dim=2)

    def test_of_another_version_of_torch(self):
        """golden/ has one of each version that saved one; what they say is made again here."""
        versions = sorted(os.listdir(GOLDEN))
        for version in versions:
            os.makedirs(self.store, exist_ok=True)
            shutil.copytree(os.path.join(GOLDEN, version), os.path.join(self.store, version))
            kept = golden()
            self.assert_same(self.load(ranks.empty_like(kept), version), kept)
        self.assertIn("torch-1.13", versions)

    @unittest.skipUnless(hasattr(torch, "float8_e4m3fn"), "this torch has no float8")
    def test_float8(self):
        kept = {name: torch.arange(9, dtype=torch.float32).to(getattr(torch, name)) for name in ("float8_e4m3fn", "float8_e5m2")}
        self.save(kept)
        into = self.load({name: torch.empty_like(value) for name, value in kept.items()})
        for name, value in kept.items():
            self.assertTrue(torch.equal(into[name].view(torch.uint8), value.view(torch.uint8)), name)

    def test_a_rank_fails(self):
        """Nothing is seen, and nothing is left."""

        class Fails(ranks.dcp.default_planner.DefaultSavePlanner):
            def resolve_data(self, item):
                raise OSError(28, "it is too much")

        def rank_of(rank):
            kept = {"full": ranks.sharded(FULL, rank, 2)}
            planner = {"planner": Fails()} if rank == 1 else {}
            try:
                ranks.save(kept, fmove.torch.FmoveWriter(self.name("c")), **planner)
            except ranks.dcp.api.CheckpointException as why:
                assert 1 in why.failures, why
            else:
                raise AssertionError("it was saved")

        self.assertEqual(ranks.run(2, rank_of), [0, 0])
        self.assert_seen([])

    def test_ranks_that_find_different_checkpoints(self):
        for name in ("a", "b"):
            self.save({"whole": torch.ones(5)}, name)

        def rank_of(rank):
            try:
                ranks.load({"whole": torch.zeros(5)}, fmove.torch.FmoveReader(self.name("ab"[rank])))
            except ranks.dcp.api.CheckpointException as why:
                assert list(why.failures) == [1], why
                assert why.failures[1][0].code == "ESTALE", why
            else:
                raise AssertionError("it was loaded")

        self.assertEqual(ranks.run(2, rank_of), [0, 0])

    # ---- what goes wrong ----

    def failure_of(self, call):
        with self.assertRaises(ranks.dcp.api.CheckpointException) as caught:
            call()
        return caught.exception.failures[0][0]

    def test_a_planner_that_keeps_its_plans(self):
        writer = fmove.torch.FmoveWriter(self.name("c"))
        with self.assertRaisesRegex(fmove.FmoveError, "keeps its plans"):
            writer.prepare_global_plan([mock.Mock(usable=True), mock.Mock(usable=False)])
        self.assert_seen([])

    def test_what_cannot_be_saved(self):
        why = self.failure_of(lambda: self.save({"t": torch.eye(3).to_sparse()}))
        self.assertEqual(why.code, "ENOTSUP")
        self.assert_seen([])

    def test_what_is_there_stays(self):
        self.save({"t": torch.ones(3)})
        why = self.failure_of(lambda: self.save({"t": torch.zeros(3)}))
        self.assertIsInstance(why, FileExistsError)
        self.assertEqual(self.load({"t": torch.zeros(3)})["t"].tolist(), [1, 1, 1])
        self.save({"t": torch.full((3,), 2.0)}, force=True)
        self.assertEqual(self.load({"t": torch.zeros(3)})["t"].tolist(), [2, 2, 2])

    def test_no_daemon(self):
        nobody = fmove.Connection(self.local("nobody.sock"))
        kept = {"t": torch.ones(3)}
        why = self.failure_of(lambda: self.save(kept, connection=nobody))
        self.assertIsInstance(why, ConnectionRefusedError)
        why = self.failure_of(lambda: self.load(kept, connection=nobody))
        self.assertIsInstance(why, ConnectionRefusedError)
        self.assertEqual(kept["t"].tolist(), [1, 1, 1])

    def test_another_size(self):
        self.save({"t": torch.ones(3)})
        self.assertIn("t", str(self.failure_of(lambda: self.load({"t": torch.zeros(2, 2)}))))

    def test_replaced_while_it_is_loaded(self):
        self.save({"t": torch.ones(3)})
        case = self

        class Late(ranks.dcp.default_planner.DefaultLoadPlanner):
            def finish_plan(self, plan):
                case.save({"t": torch.zeros(3)}, force=True)
                return plan

        reader = fmove.torch.FmoveReader(self.name("c"))
        why = self.failure_of(
            lambda: ranks.load({"t": torch.zeros(3)}, reader, no_dist=True, planner=Late())
        )
        self.assertEqual(why.code, "ESTALE")

    def test_pickles_run_only_if_asked(self):
        mark = self.local("mark")
        self.save({"evil": Marks(mark)})
        why = self.failure_of(lambda: self.load({"evil": None}))
        self.assertIsInstance(why, pickle.UnpicklingError)
        self.assertFalse(os.path.exists(mark))
        self.load({"evil": None}, weights_only=False)
        self.assertTrue(os.path.exists(mark))

    def test_too_late(self):
        why = self.failure_of(lambda: self.save({"t": torch.ones(3)}, timeout=0.0))
        self.assertIsInstance(why, TimeoutError)
        self.assert_seen([])

    def test_group_of_before_is_discarded(self):
        """A save that nobody finished holds nothing up."""
        writer = checkpoint.FmoveWriter(self.name("c"))
        plan = ranks.dcp.SavePlan([])
        writer.set_up_storage_writer(True)
        writer.prepare_global_plan([plan])
        self.assertEqual(writer.missing(), "")
        ranks.save({"t": torch.ones(3)}, writer, no_dist=True)
        self.assert_seen(["c"])


class Metadata(Case):
    """.metadata that is not one."""

    def good(self):
        properties = metadata.TensorProperties(dtype=torch.float32)
        chunk = metadata.ChunkStorageMetadata(torch.Size([2, 0]), torch.Size([2, 3]))
        tensor = metadata.TensorStorageMetadata(properties, torch.Size([4, 3]), [chunk])
        made = metadata.Metadata({"t": tensor, "b": metadata.BytesStorageMetadata()})
        made.storage_data = {
            metadata.MetadataIndex("t", [2, 0]): metadata.Stored("rank0.safetensors", 64, 24),
            metadata.MetadataIndex("b"): metadata.Stored("rank1.safetensors", 8, 0),
        }
        made.planner_data = {"t": ("x", 0), "b": [None, 1.5, {"é": True}]}
        return made

    def test_there_and_back(self):
        good = self.good()
        self.assertEqual(metadata.decode(metadata.encode(good)), good)

    def test_a_part_that_nobody_wrote(self):
        good = self.good()
        del good.storage_data[metadata.MetadataIndex("b")]
        with self.assertRaises(fmove.FmoveError):
            metadata.encode(good)

    def test_what_a_planner_keeps_and_json_cannot(self):
        good = self.good()
        good.planner_data = {1, 2}
        with self.assertRaises(fmove.FmoveError):
            metadata.encode(good)

    def refuses(self, change, code="EBADMSG"):
        text = json.loads(metadata.encode(self.good()))
        change(text)
        with self.assertRaises(fmove.FmoveError) as caught:
            metadata.decode(json.dumps(text).encode())
        self.assertEqual(caught.exception.code, code)

    def test_wrong_values(self):
        chunk = lambda text: text["values"]["t"]["chunks"][0]  # noqa: E731
        self.refuses(lambda text: text.update(format="another"))
        self.refuses(lambda text: text.update(version=2), "ENOTSUP")
        self.refuses(lambda text: text.pop("values"))
        self.refuses(lambda text: text["values"]["t"].update(dtype="save"))
        self.refuses(lambda text: text["values"]["t"].update(size=[3, 3]))
        for file in ("../x", "..", "", "a/b", 7):
            self.refuses(lambda text: chunk(text)["at"].__setitem__(0, file))
        for length in (-24, 25, 1 << 64, True, "24"):
            self.refuses(lambda text: chunk(text)["at"].__setitem__(2, length))
        self.refuses(lambda text: text.update(planner={"set": [1]}))
        self.refuses(lambda text: text.update(planner={}))

    def test_damaged(self):
        """Any bytes are a checkpoint's or an FmoveError, and nothing else."""
        good = metadata.encode(self.good())
        dice = random.Random(1)
        for _ in range(3000):
            data = bytearray(good)
            for _ in range(dice.randint(1, 4)):
                data[dice.randrange(len(data))] = dice.choice(b'0123456789[]{},"-e \x00\xff')
            try:
                metadata.decode(bytes(data[: dice.choice((len(data), dice.randrange(len(data))))]))
            except fmove.FmoveError as why:
                self.assertIn(why.code, ("EBADMSG", "ENOTSUP"))
        with self.assertRaises(fmove.FmoveError):
            metadata.decode(b'{"a":' * 100000)


if __name__ == "__main__":
    unittest.main()
