"""Fill the forum: users, categories, topics with comments and likes. The same content every time.

Run once on a freshly installed forum: `python seed.py`. Refuses to run twice.
"""

import datetime
import os
import random
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "local_settings")
import django

django.setup()

from django.contrib.auth import get_user_model
from django.db import transaction
from spirit.category.models import Category
from spirit.comment.like.models import CommentLike
from spirit.comment.models import Comment
from spirit.core.utils.markdown import Markdown
from spirit.topic.models import Topic
from texts import PASSWORD, PEOPLE, paragraph

SEED = 7
TODAY = datetime.datetime(2026, 9, 1, 9, 0, tzinfo=datetime.UTC)
CATEGORIES = [
    ("Announcements", "News from the team", "#d9534f", None),
    ("Home & Kitchen", "Appliances, cookware, cleaning", "#1aafd0", None),
    ("Electronics", "Computers, audio, cameras", "#6a67ce", None),
    ("Outdoors", "Camping, bikes, running", "#3bb44a", None),
    ("Buy & Sell", "Offers and requests", "#ffb900", None),
    ("Off-topic", "Everything else", "#888888", None),
    ("Keyboards", "", "", "Electronics"),
    ("Cameras", "", "", "Electronics"),
    ("Cycling", "", "", "Outdoors"),
]
THINGS = [
    "espresso machine", "mechanical keyboard", "trail running shoes", "4K monitor", "sourdough starter", "e-bike battery", "noise-cancelling headphones",
    "tent for two", "NAS enclosure", "robot vacuum", "cast iron skillet", "standing desk", "mirrorless camera", "sewing machine", "water filter", "heat pump",
    "garden sprinkler timer", "folding kayak",
]  # fmt: skip
TITLES = [
    "Best {p} under 300 pounds?", "My {p} broke after two weeks, what now?", "[Guide] How to maintain your {p}", "Which {p} do you recommend for beginners?",
    "{P} or renting one: a cost comparison", "Unpopular opinion: nobody needs a {p}", "Show us your {p} setup", "Help: {p} makes a strange noise",
    "Review: six months with the {p}", "Is the new {p} worth the upgrade?",
]  # fmt: skip


def main() -> None:
    if Topic.objects.exists():
        sys.exit("the forum is filled already; use reset to restore it")
    rng = random.Random(SEED)
    users = make_users()
    categories = make_categories()
    make_topics(rng, users, categories)
    print(f"forum: {len(users)} users, {Topic.objects.count()} topics, {Comment.objects.count()} comments")


def make_users() -> list:
    User = get_user_model()
    admin = User.objects.create_superuser("admin", "admin@example.com", PASSWORD)
    admin.st.is_administrator = admin.st.is_moderator = True
    admin.st.save()
    users = [
        User.objects.create_user(first, f"{first}@example.com", PASSWORD, first_name=first.capitalize(), last_name=last)
        for first, last in PEOPLE
    ]
    for user in users:
        user.st.is_verified = True
        user.st.save()
    return users


def make_categories() -> list:
    made: dict = {}
    for title, description, color, parent in CATEGORIES:
        made[title] = Category.objects.create(title=title, description=description, color=color, parent=made.get(parent))
    return list(made.values())


def make_topics(rng: random.Random, users: list, categories: list) -> None:
    pairs = [(title, thing) for title in TITLES for thing in THINGS]
    for i, (title, thing) in enumerate(rng.sample(pairs, 90)):
        author, started = rng.choice(users), TODAY - datetime.timedelta(days=rng.random() * 200 + 4)
        topic = Topic.objects.create(
            user=author, category=rng.choice(categories), title=title.format(p=thing, P=thing.capitalize()), date=started, last_active=started, view_count=rng.randint(3, 4000)
        )  # fmt: skip
        count = rng.choice([1, 2, 3, 5, 8, 13, 24])
        for k in range(count):
            writer = author if k == 0 else rng.choice(users)
            text = paragraph(rng, rng.randint(1, 6))
            if rng.random() < 0.2:
                text += "\n\n* first option\n* second option\n* none of them"
            if k and rng.random() < 0.2:
                text = f"> {paragraph(rng, 1)}\n\n{text}"
            comment = Comment.objects.create(
                user=writer,
                topic=topic,
                comment=text,
                comment_html=Markdown(writer).render(text),
                date=started + datetime.timedelta(hours=k * 3),
            )
            for fan in rng.sample(users, rng.choice([0, 0, 0, 1, 2, 5])):
                CommentLike.objects.create(user=fan, comment=comment)
                comment.likes_count += 1
            comment.save()
        topic.comment_count = count
        topic.last_active = started + datetime.timedelta(hours=3 * (count - 1))
        topic.is_pinned = i % 30 == 0
        topic.save()


if __name__ == "__main__":
    with transaction.atomic():
        main()
