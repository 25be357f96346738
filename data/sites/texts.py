"""Words that the test sites are filled with: people, products, sentences. All own; every draw comes from the given generator."""

import random

PEOPLE = [
    ("alice", "Smith"), ("bruno", "Rossi"), ("carmen", "Garcia"), ("devi", "Patel"), ("elif", "Kaya"), ("farid", "Nasser"), ("grace", "Lee"), ("hiro", "Tanaka"),
    ("ines", "Silva"), ("jonas", "Weber"), ("kofi", "Mensah"), ("lena", "Novak"), ("marco", "Bianchi"), ("nadia", "Haddad"), ("olga", "Petrova"), ("priya", "Rao"),
    ("quentin", "Moreau"), ("rosa", "Lopez"), ("sami", "Virtanen"), ("tove", "Lund"),
]  # fmt: skip
PASSWORD = "password123"
SENTENCES = [
    "I have used mine for {n} months and the only complaint is the noise.",
    "The manual says {n} minutes but in practice it takes twice as long.",
    "You can find replacement parts for about {n} pounds if you search by the model number.",
    "Has anyone tried the version from {y}? I read mixed reviews.",
    "Customer support answered after {n} days and sent a new one for free.",
    "I would not pay more than {n} pounds for that.",
    "Make sure to check the warranty, mine was only valid until {y}.",
    "My neighbour bought the same in {y} and it still works.",
    "Cleaning it every {n} days makes all the difference.",
    "There is a good comparison table in the pinned thread, look at row {n}.",
    "Could you post a photo of the connector?",
    "The second edition fixed most of what people disliked in {y}.",
]


def paragraph(rng: random.Random, sentences: int) -> str:
    """That many sentences with numbers and years filled in."""
    return " ".join(rng.choice(SENTENCES).format(n=rng.randint(2, 99), y=rng.randint(2015, 2024)) for _ in range(sentences))
