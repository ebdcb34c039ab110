"""Names that people can say and remember: rarely-cute-otter."""

from __future__ import annotations

import random
from collections.abc import Callable


def _words(text: str) -> list[str]:
    return text.split()


_ADVERBS = _words("""
    always amply aptly barely boldly brightly briskly calmly clearly cleverly closely coolly
    daily dearly deeply duly eagerly early easily evenly fairly firmly fondly freely freshly gently
    gladly greatly happily hardly highly hugely jointly justly keenly kindly largely lately
    lightly likely loosely loudly mainly mildly mostly nearly neatly newly nicely nimbly
    often openly overly partly plainly purely quickly quietly rarely really richly safely
    seldom simply slowly smoothly softly solely soundly steadily strongly subtly sunnily surely
    swiftly tenderly truly usually vastly warmly weekly wholly widely wisely yearly
""")

_ADJECTIVES = _words("""
    able agile alert amber ample apt azure balmy bold brave breezy bright brisk bubbly calm candid
    cheery chill clean clear clever cosy crisp curious cute dapper daring deft eager earnest
    elegant fair fancy fast fine fleet fluffy fond frank fresh funny gentle giddy glad golden good
    grand great handy happy hardy honest humble ideal jolly jovial keen kind light lively
    loyal lucid lucky mellow merry mighty mild modest neat nimble noble patient peppy placid
    playful plucky polite proud quick quiet rapid ready rosy sharp shiny silent smart smooth snug
    social soft spry steady sunny super sure swift tender tidy tranquil trusty upbeat valid vivid
    warm wise witty young zesty
""")

_ANIMALS = _words("""
    alpaca antelope badger bat beaver bee beetle bison bluejay bobcat buffalo butterfly camel
    caribou cat chamois cheetah chinchilla chipmunk cicada condor coyote crab crane cricket crow
    deer dingo dolphin donkey dove dragonfly duck eagle egret elk emu falcon fawn ferret finch
    firefly flamingo fox frog gazelle gecko gibbon giraffe goose grouse gull hare hawk hedgehog
    heron hippo horse hummingbird ibex ibis iguana impala jackdaw jaguar jay kestrel kingfisher
    kiwi koala koi ladybird lark lemur leopard lion lizard llama lobster lynx macaw magpie manatee
    marmot marten meerkat mole mongoose moose moth mouse narwhal newt nightingale ocelot octopus
    okapi orca oriole osprey otter owl ox oyster panda panther parrot partridge pelican penguin
    pheasant pigeon plover pony puffin puma quail rabbit raccoon raven reindeer robin salmon
    seahorse seal sparrow squid squirrel starling stork swallow swan tapir tern tiger toad toucan
    trout turtle vole wallaby walrus weasel whale wolf wombat wren yak zebra
""")

COMBINATIONS = len(_ADVERBS) * len(_ADJECTIVES) * len(_ANIMALS)


def pet_name(is_taken: Callable[[str], bool] = lambda _: False) -> str:
    """A name that nobody has yet; a number is added only when many have been tried."""
    name = ""
    for _ in range(100):
        words = (random.choice(words) for words in (_ADVERBS, _ADJECTIVES, _ANIMALS))
        name = "-".join(words)
        if not is_taken(name):
            return name
    number = 2
    while is_taken(f"{name}-{number}"):
        number += 1
    return f"{name}-{number}"
