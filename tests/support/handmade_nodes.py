"""Nodes of large directories that make no sense: NODES are {what is wrong: what makes it}; each maker is given what stores a blob and gives
its digest, and gives the digest of the top list."""

from casrewind.model import digest as digests
from casrewind.model import manifest, directory_nodes
from casrewind.model.directory_nodes import LIMITS, NodeList, NodeRef


def entry(content):
    return manifest.Entry(manifest.FILE, 0o644, len(content), 0, digests.of(content))


def leaf(*names):
    return manifest.encode_tree((name, entry(name)) for name in names)


def listed(level, *parts):
    return directory_nodes.encode(NodeList(level, [NodeRef(first, digest) for first, digest in parts]))


NODES = {
    "an empty node": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf())))),
    "nodes out of order": lambda put: put(listed(1, (b"b", put(leaf(b"b"))), (b"a", put(leaf(b"a"))))),
    "a node twice": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"a", put(leaf(b"a"))))),
    "a node twice under two names": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"a"))))),
    "names that overlap": lambda put: put(listed(1, (b"a", put(leaf(b"a", b"c"))), (b"b", put(leaf(b"b"))))),
    "names that overlap further up": lambda put: put(
        listed(
            2, (b"a", put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b", b"x"))))),),
            (b"m", put(listed(1, (b"m", put(leaf(b"m"))), (b"n", put(leaf(b"n")))))),
        )
    ),
    "names that are not in order in a node": lambda put: put(
        listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b", b"c").replace(b"\1\1\xa4\1c", b"\1\1\xa4\1a"))))
    ),
    "another first name": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"bb"))))),
    "no tree": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(b"just a file")))),
    "a chunk list": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(b"CRC1" + bytes(5))))),
    "one node": lambda put: put(listed(1, (b"a", put(leaf(b"a"))))),
    "no node": lambda put: put(listed(1)),
    "too many nodes": lambda put: put(listed(1, *((b"%04d" % n, put(leaf(b"%04d" % n))) for n in range(LIMITS.most + 1)))),
    "too many entries in a node": lambda put: put(leaf(*(b"%04d" % n for n in range(LIMITS.most + 1)))),
    "level 0": lambda put: put(listed(0, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b"))))),
    "a level too many": lambda put: put(listed(directory_nodes.MOST_LEVELS + 1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b"))))),
    "entries at level 2": lambda put: put(listed(2, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b"))))),
    "a list of its own level": lambda put: put(
        listed(1, (b"a", put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b")))))), (b"c", put(leaf(b"c"))))
    ),
    "cut short": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b"))))[:-1]),
    "something behind it": lambda put: put(listed(1, (b"a", put(leaf(b"a"))), (b"b", put(leaf(b"b")))) + b"x"),
}  # fmt: skip
