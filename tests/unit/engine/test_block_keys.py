from hypothesis import given
from hypothesis import strategies as st

from engine.block_keys import child_key, pack, root_key

# Few letters, and those that stand between fields, so that examples nearly collide.
texts = st.text(alphabet="ab:0\x00\ud800", max_size=4)
tokens = st.lists(st.integers(0, 300), max_size=4)
contexts = st.tuples(texts.map(lambda t: t.encode("utf-8", "surrogatepass")), texts, texts, tokens)


def key_of(context):
    model, adapter, salt, block = context
    return child_key(root_key(model=model, adapter=adapter, salt=salt), pack(block))


@given(st.lists(contexts, min_size=2, max_size=30))
def test_what_differs_in_model_adapter_salt_or_tokens_differs_in_its_key(found):
    different = {(model, adapter, salt, tuple(block)) for model, adapter, salt, block in found}

    assert len({key_of(context) for context in found}) == len(different)


@given(contexts, st.permutations([0, 1, 2]))
def test_fields_cannot_pass_for_each_other(context, order):
    fields = [
        context[0],
        context[1].encode("utf-8", "surrogatepass"),
        context[2].encode("utf-8", "surrogatepass"),
    ]
    model, adapter, salt = (fields[i] for i in order)
    shuffled = (model, *(f.decode("utf-8", "surrogatepass") for f in (adapter, salt)), context[3])

    assert (key_of(shuffled) == key_of(context)) == (fields == [model, adapter, salt])


def test_the_same_block_after_another_prefix_is_another_block():
    root = root_key(model=b"m", adapter="", salt="")
    block = pack([7, 7])

    first, second = child_key(root, block), child_key(child_key(root, block), block)

    assert first != second
