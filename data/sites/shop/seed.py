"""Fill the shop: users, catalogue with pictures, reviews, orders, offers. The same content every time.

Run once on a migrated, empty database: `python seed.py`. Refuses to run twice.
"""

import datetime
import io
import os
import random
import sys
from decimal import Decimal

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shopsite.settings")
import django

django.setup()

from django.contrib.auth import get_user_model
from django.core.files.base import ContentFile
from django.db import transaction
from oscar.apps.catalogue.categories import create_from_breadcrumbs
from oscar.apps.catalogue.models import Product, ProductCategory, ProductClass, ProductImage
from oscar.apps.catalogue.reviews.models import ProductReview
from oscar.apps.order.models import Order
from oscar.apps.partner.models import Partner, StockRecord
from oscar.test import factories
from PIL import Image, ImageDraw
from texts import PASSWORD, PEOPLE, paragraph

SEED = 5
TODAY = datetime.datetime(2026, 9, 1, 9, 0, tzinfo=datetime.UTC)
BRANDS = ["Aurora", "Nordvik", "Kestrel", "Bramble", "Zephyr", "Halden"]
CATALOGUE = {
    "Home & Kitchen > Coffee": ["Espresso Machine", "Coffee Grinder", "French Press", "Milk Frother"],
    "Home & Kitchen > Cookware": ["Cast Iron Skillet", "Stock Pot", "Chef Knife", "Baking Sheet"],
    "Electronics > Audio": ["Noise Cancelling Headphones", "Bluetooth Speaker", "Turntable", "USB Microphone"],
    "Electronics > Computers": ["Mechanical Keyboard", "4K Monitor", "Vertical Mouse", "USB-C Dock"],
    "Outdoors > Camping": ["Two Person Tent", "Sleeping Bag", "Camp Stove", "Headlamp"],
    "Clothing > Shoes": ["Trail Running Shoes", "Leather Boots", "Canvas Sneakers", "Slippers"],
}


def main() -> None:
    if Product.objects.exists():
        sys.exit("the shop is filled already; use reset to restore it")
    rng = random.Random(SEED)
    users = make_users()
    products = make_catalogue(rng)
    reviews = make_reviews(rng, products, users)
    orders = make_orders(rng, products, users)
    print(f"shop: {len(users)} users, {len(products)} products, {reviews} reviews, {orders} orders")


def make_users() -> list:
    User = get_user_model()
    User.objects.create_superuser("superuser", "superuser@example.com", PASSWORD)
    users = []
    for first, last in PEOPLE:
        user = User.objects.create_user(first, f"{first}@example.com", PASSWORD, first_name=first.capitalize(), last_name=last)
        user.date_joined = TODAY - datetime.timedelta(days=400)
        user.save()
        users.append(user)
    return users


def make_catalogue(rng: random.Random) -> list:
    kind = ProductClass.objects.create(name="General", track_stock=True, requires_shipping=True)
    partner = Partner.objects.create(name="Arena Wholesale", code="arena")
    products = []
    for breadcrumbs, items in CATALOGUE.items():
        category = create_from_breadcrumbs(breadcrumbs)
        for item in items:
            for brand in rng.sample(BRANDS, 3):
                title = f"{brand} {item} {rng.choice(['Pro', 'Lite', '2', 'XL', 'Classic', 'S'])}, {rng.choice(['Black', 'Silver', 'Green', 'Blue', 'Red'])}"
                upc = f"AR{100000 + len(products):06d}"
                weight, warranty = rng.randint(100, 9000), rng.randint(1, 5)
                description = f"<p>{paragraph(rng, 4)}</p><ul><li>Weight: {weight} g</li><li>Warranty: {warranty} years</li></ul>"
                product = Product.objects.create(title=title, upc=upc, product_class=kind, description=description)
                ProductCategory.objects.create(product=product, category=category)
                price = Decimal(rng.randint(499, 39999)) / 100
                StockRecord.objects.create(
                    product=product,
                    partner=partner,
                    partner_sku=upc,
                    price_currency="GBP",
                    price=price,
                    num_in_stock=rng.choice([0, 3, 12, 80]),
                )
                picture = ProductImage(product=product, caption=title, display_order=0)
                picture.original.save(f"{upc}.jpg", ContentFile(picture_of(item, rng)))
                products.append(product)
    return products


def picture_of(item: str, rng: random.Random) -> bytes:
    image = Image.new("RGB", (400, 400), tuple(rng.randint(120, 250) for _ in range(3)))
    draw = ImageDraw.Draw(image)
    draw.rectangle([80, 80, 320, 320], outline=(20, 20, 20), width=6)
    draw.text((100, 190), item, fill=(0, 0, 0))
    out = io.BytesIO()
    image.save(out, "JPEG")
    return out.getvalue()


def make_reviews(rng: random.Random, products: list, users: list) -> int:
    count = 0
    for product in rng.sample(products, 50):
        for user in rng.sample(users, rng.randint(1, 6)):
            title = rng.choice(["Great value", "Not what I expected", "Solid", "Would buy again", "Arrived damaged", "Perfect gift"])
            status = ProductReview.FOR_MODERATION if rng.random() < 0.1 else ProductReview.APPROVED
            review = ProductReview.objects.create(
                product=product, user=user, score=rng.randint(1, 5), title=title, body=paragraph(rng, 3), status=status
            )
            ProductReview.objects.filter(pk=review.pk).update(date_created=TODAY - datetime.timedelta(days=rng.randint(1, 300)))
            count += 1
    return count


def make_orders(rng: random.Random, products: list, users: list) -> int:
    sellable = [p for p in products if p.stockrecords.first().num_in_stock > 3]
    for i in range(60):
        user = rng.choice(users)
        basket = factories.create_basket(empty=True)
        basket.owner = user
        basket.save()
        for product in rng.sample(sellable, rng.randint(1, 3)):
            basket.add_product(product, 1)
        address = factories.ShippingAddressFactory(
            first_name=user.first_name, last_name=user.last_name, line1=f"{rng.randint(1, 99)} Market Street", line4=rng.choice(["London", "Leeds", "Bristol"]),
            postcode="N1 9GU", phone_number="",
        )  # fmt: skip
        order = factories.create_order(number=str(200000 + i), basket=basket, user=user, shipping_address=address)
        draw = rng.random()
        if draw < 0.5:
            order.set_status("Being processed")
        elif draw < 0.6:
            order.set_status("Cancelled")
        Order.objects.filter(pk=order.pk).update(
            date_placed=TODAY - datetime.timedelta(days=rng.randint(0, 200), minutes=rng.randint(0, 600))
        )
    return Order.objects.count()


if __name__ == "__main__":
    with transaction.atomic():
        main()
