"""The vocabulary of the generators. The order matters: a seed's records follow from it."""

from __future__ import annotations

TAGS = tuple(
    """spark kafka python rust java linux cloud data ai ml opensource github coding webdev security privacy startup
    football tennis cycling running marathon olympics basketball formula1 climbing swimming skiing
    music jazz opera techno vinyl festival cinema theatre books poetry photography art design museum
    coffee tea pizza pasta baking vegan cheese chocolate wine recipe breakfast
    travel paris berlin rome madrid lisbon vienna oslo tokyo london train flight hiking camping beach mountains
    cats dogs birds bees trees garden flowers nature climate weather rain snow storm sunrise sunset stars moon
    election budget housing energy solar wind transport bikes traffic health science physics biology space mars
    monday friday weekend holiday birthday wedding school exam homework jobs remote office salary economy
    stocks""".split()
)
WORDS = tuple(
    """just really love this today watching new best ever why nobody talks about the how to build learn from
    thinking of going back again finally done with great morning everyone what a day so much more than expected
    anyone else seen it live now happening here can not believe wait for next week share your thoughts thread
    reading long paper simple idea big news small steps slow fast stream river water wheel over under between""".split()
)
LANGUAGES = ("en", "es", "pt", "fr", "de", "it", "ja", "tr", "nl", "sv")
CATEGORIES = ("books", "garden", "kitchen", "music", "shoes", "sport", "tools", "toys")
COUNTRIES = ("DE", "FR", "ES", "IT", "PT", "NL", "AT", "SE", "PL", "GR", "US", "JP")
SITES = ("north", "south", "east", "west", "harbour")
REFERRERS = ("search", "search", "direct", "mail", "social", "advert")
