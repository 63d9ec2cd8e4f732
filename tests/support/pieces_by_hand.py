"""Chains that no push makes, sealed with the right key by the product's own encoder."""

from casrewind.model import digest as digests
from casrewind.remote.piece_names import piece_name
from casrewind.remote.objects import Objects
from casrewind.remote.piece import CONTAINER, CONTENT, FIRST, PieceBuilder

from .handmade_points import DATA, DOMAIN, GOOD
from .machines import keys_of

def put_chain(url, pieces, *, trees=(GOOD,), blobs=(DATA,), domains=(DOMAIN,), chain="ab" * 16, name="liar", first=1, before=FIRST):
    """Put a chain with one list of records for each piece. The first has the blobs. Returns the MAC of the last."""
    objects, keys = Objects(url), keys_of(url)
    for number, records in enumerate(pieces, start=first):
        builder = PieceBuilder(keys)
        if number == first:
            for data in dict.fromkeys(blobs):
                builder.add(digests.of(data), CONTENT, data)
            for data in dict.fromkeys((*domains, *trees)):
                builder.add(digests.of(data), CONTAINER, data)
        builder.add_records(records)
        object_name = piece_name(chain, number)
        data, before = builder.finish(object_name, before, bytes(16), name)
        assert objects.put_new(object_name, data)
    return before
