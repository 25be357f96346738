"""The wiki's pages: an encyclopedia of an archipelago that does not exist. The same text every time.

`python pages.py` prints one JSON object: users, and pages with their revisions from old to new. `seed.php` stores them.
"""

import datetime
import json
import random

from texts import PEOPLE

SEED = 23
TODAY = datetime.datetime(2026, 9, 1, 9, 0, tzinfo=datetime.UTC)
EDITORS = [first.capitalize() for first, _ in PEOPLE[:6]]
ISLANDS = ["Verdania", "Ostrava Isle", "Kellmar", "Sundholm", "Tarrow", "Brightmere", "Nessay", "Collinder"]
STARTS = [
    "Al",
    "Bram",
    "Cor",
    "Dun",
    "Els",
    "Fal",
    "Gres",
    "Hol",
    "Ing",
    "Jar",
    "Kil",
    "Lan",
    "Mor",
    "Nor",
    "Oak",
    "Pel",
    "Quin",
    "Ros",
    "Stav",
    "Thorn",
    "Ul",
    "Vel",
    "Wick",
    "Yar",
]
ENDS = ["haven", "bridge", "mouth", "ford", "wick", "stead", "port", "dale", "burn", "field"]
TRADES = [
    "herring fishery",
    "glass works",
    "wool mill",
    "slate quarry",
    "salt pans",
    "boat yard",
    "observatory",
    "paper mill",
    "cider orchards",
    "rope walk",
]
SIGHTS = [
    "a covered market",
    "a sundial square",
    "a toll gate",
    "a tide mill",
    "a botanical garden",
    "a clock tower",
    "a seamen's chapel",
    "a stone bridge",
]
FESTIVALS = [
    "Lantern Night",
    "Herring Fair",
    "Regatta Week",
    "Kite Sunday",
    "Harvest Supper",
    "Bell Day",
    "Rope Dance",
    "Midwinter Swim",
    "Book Barrow",
    "Oyster Days",
]


def main() -> None:
    rng = random.Random(SEED)
    towns = make_towns(rng)
    lights = make_lighthouses(rng, towns)
    ferries = make_ferries(rng, towns)
    festivals = make_festivals(rng, towns)
    pages = [
        *(island_page(island, towns, lights) for island in ISLANDS),
        *(town_page(town, lights, ferries, festivals) for town in towns),
        *(lighthouse_page(light) for light in lights),
        *(ferry_page(ferry) for ferry in ferries),
        *(festival_page(festival) for festival in festivals),
        settlements_list(towns),
        lighthouses_list(lights),
        timetable(ferries),
        ("Main Page", front_page(towns)),
        *category_pages(),
    ]
    print(json.dumps({"users": [*EDITORS, "Admin"], "pages": [with_history(rng, title, text) for title, text in pages]}))


def make_towns(rng: random.Random) -> list[dict]:
    names = rng.sample([start + end for start in STARTS for end in ENDS], 72)
    towns = []
    for i, name in enumerate(names):
        first, last = rng.choice(PEOPLE)
        towns.append({
            "name": name, "island": ISLANDS[i % len(ISLANDS)], "people": rng.randint(180, 58_000), "founded": rng.randint(1120, 1890),
            "height": rng.randint(1, 410), "mayor": f"{first.capitalize()} {last}", "code": f"V{rng.randint(100, 999)}",
            "trade": rng.choice(TRADES), "sight": rng.choice(SIGHTS), "twin": rng.choice([other for other in names if other != name]),
        })  # fmt: skip
    return towns


def make_lighthouses(rng: random.Random, towns: list[dict]) -> list[dict]:
    return [
        {
            "name": f"{town['name']} Light", "town": town, "built": rng.randint(1790, 1930), "height": rng.randint(9, 61), "range": rng.randint(8, 28),
            "keeper": f"{rng.choice(PEOPLE)[0].capitalize()} {rng.choice(PEOPLE)[1]}", "flashes": rng.randint(1, 6), "automated": rng.randint(1955, 1999),
        }
        for town in rng.sample(towns, 24)
    ]  # fmt: skip


def make_ferries(rng: random.Random, towns: list[dict]) -> list[dict]:
    ferries = []
    for number in range(1, 21):
        here, there = rng.sample(towns, 2)
        ferries.append({
            "name": f"Ferry line {number}", "from": here, "to": there, "minutes": rng.randint(15, 190), "fare": rng.randint(2, 30) + 0.5,
            "first": f"{rng.randint(5, 8):02d}:{rng.choice([0, 15, 30, 45]):02d}", "last": f"{rng.randint(17, 22):02d}:{rng.choice([0, 15, 30, 45]):02d}",
            "opened": rng.randint(1880, 2001),
        })  # fmt: skip
    return ferries


def make_festivals(rng: random.Random, towns: list[dict]) -> list[dict]:
    months = ["March", "April", "May", "June", "July", "August", "September", "October"]
    return [
        {"name": name, "town": town, "month": rng.choice(months), "since": rng.randint(1840, 1990), "visitors": rng.randint(4, 90) * 100}
        for name, town in zip(FESTIVALS, rng.sample(towns, len(FESTIVALS)), strict=True)
    ]


def box(rows: list[tuple[str, object]]) -> str:
    return '{| class="wikitable"\n! Property !! Value\n' + "".join(f"|-\n| {name} || {value}\n" for name, value in rows) + "|}\n"


def table(columns: list[str], rows: list[list[object]]) -> str:
    body = "".join("|-\n| " + " || ".join(map(str, row)) + "\n" for row in rows)
    return '{| class="wikitable sortable"\n! ' + " !! ".join(columns) + "\n" + body + "|}\n"


def island_page(island: str, towns: list[dict], lights: list[dict]) -> tuple[str, str]:
    own = sorted((t for t in towns if t["island"] == island), key=lambda t: t["name"])
    beacons = sorted(light["name"] for light in lights if light["town"]["island"] == island)
    text = (
        f"'''{island}''' is one of the eight islands of the Verdan archipelago. It has {len(own)} settlements with {sum(t['people'] for t in own):,} "
        f"inhabitants.\n\n== Settlements ==\n{table(['Settlement', 'Inhabitants', 'Founded'], [['[[' + t['name'] + ']]', t['people'], t['founded']] for t in own])}\n"
        "== Lighthouses ==\n" + ("".join(f"* [[{name}]]\n" for name in beacons) or "There are none.\n") + "\n[[Category:Islands]]"
    )  # fmt: skip
    return island, text


def town_page(town: dict, lights: list[dict], ferries: list[dict], festivals: list[dict]) -> tuple[str, str]:
    name = town["name"]
    parts = [
        f"'''{name}''' is a settlement on the island of [[{town['island']}]]. It is known for its {town['trade']} and {town['sight']}.\n",
        box([
            ("Island", f"[[{town['island']}]]"), ("Inhabitants", f"{town['people']:,}"), ("Founded", town["founded"]), ("Height above the sea", f"{town['height']} m"),
            ("Mayor", town["mayor"]), ("Postal code", town["code"]), ("Twin town", f"[[{town['twin']}]]"),
        ]),
        f"\n== History ==\n{name} was founded in {town['founded']} around the {town['trade']}. A fire in {town['founded'] + 97} spared only {town['sight']}; "
        "the streets were laid out anew within ten years.\n",
        f"\n== Economy ==\nThe {town['trade']} still employs about one in {3 + town['height'] % 9} inhabitants. The rest work in trade, schools and the harbour office.\n",
        "\n== Transport ==\n",
    ]  # fmt: skip
    lines = [f for f in ferries if name in (f["from"]["name"], f["to"]["name"])]
    parts.append(
        "".join(f"* [[{f['name']}]]: {f['from']['name']} to {f['to']['name']}\n" for f in lines)
        or "No ferry calls here; a bus runs every hour.\n"
    )
    parts.append("\n== Sights ==\n* The centre has " + town["sight"] + ".\n")
    parts.extend(f"* [[{light['name']}]]\n" for light in lights if light["town"] is town)
    parts.extend(f"* [[{festival['name']}]], every {festival['month']}\n" for festival in festivals if festival["town"] is town)
    parts.append("\n== See also ==\n* [[List of settlements]]\n\n[[Category:Settlements]]\n" + f"[[Category:{town['island']}]]")
    return name, "".join(parts)


def lighthouse_page(light: dict) -> tuple[str, str]:
    town = light["town"]
    text = (
        f"'''{light['name']}''' is a lighthouse near [[{town['name']}]] on [[{town['island']}]].\n"
        + box([("Built", light["built"]), ("Height of the tower", f"{light['height']} m"), ("Range", f"{light['range']} nautical miles"),
               ("Flashes", f"{light['flashes']} every 20 seconds"), ("Automated", light["automated"]), ("Last keeper", light["keeper"])])
        + f"\n== History ==\nThe tower was built in {light['built']}. {light['keeper']} was its last keeper and left in {light['automated']}, when the light was "
        "automated.\n\n== See also ==\n* [[List of lighthouses]]\n\n[[Category:Lighthouses]]"
    )  # fmt: skip
    return light["name"], text


def ferry_page(ferry: dict) -> tuple[str, str]:
    here, there = ferry["from"], ferry["to"]
    text = (
        f"'''{ferry['name']}''' runs from [[{here['name']}]] on [[{here['island']}]] to [[{there['name']}]] on [[{there['island']}]].\n"
        + box([("Crossing", f"{ferry['minutes']} minutes"), ("Fare", f"{ferry['fare']:.2f} crowns"), ("First boat", ferry["first"]), ("Last boat", ferry["last"]), ("Opened", ferry["opened"])])
        + "\n== Service ==\nThe boats run every day but New Year's Day. Bicycles travel free.\n\n== See also ==\n* [[Ferry timetable]]\n\n[[Category:Ferries]]"
    )  # fmt: skip
    return ferry["name"], text


def festival_page(festival: dict) -> tuple[str, str]:
    text = (
        f"'''{festival['name']}''' is held in [[{festival['town']['name']}]] every {festival['month']}, since {festival['since']}. "
        f"About {festival['visitors']:,} people come.\n\n== Programme ==\n* Opening by the mayor, {festival['town']['mayor']}\n* Market\n* Music in the evening\n\n[[Category:Festivals]]"
    )
    return festival["name"], text


def settlements_list(towns: list[dict]) -> tuple[str, str]:
    rows = [
        ["[[" + t["name"] + "]]", f"[[{t['island']}]]", t["people"], t["founded"], t["height"], t["mayor"], t["code"]]
        for t in sorted(towns, key=lambda t: t["name"])
    ]
    columns = ["Settlement", "Island", "Inhabitants", "Founded", "Height (m)", "Mayor", "Postal code"]
    return "List of settlements", "All settlements of the Verdan archipelago.\n\n" + table(columns, rows) + "\n[[Category:Lists]]"


def lighthouses_list(lights: list[dict]) -> tuple[str, str]:
    rows = [
        [f"[[{x['name']}]]", f"[[{x['town']['island']}]]", x["built"], x["height"], x["range"], x["automated"]]
        for x in sorted(lights, key=lambda x: x["name"])
    ]
    columns = ["Lighthouse", "Island", "Built", "Height (m)", "Range (nmi)", "Automated"]
    return "List of lighthouses", "All lighthouses of the Verdan archipelago.\n\n" + table(columns, rows) + "\n[[Category:Lists]]"


def timetable(ferries: list[dict]) -> tuple[str, str]:
    rows = [
        [f"[[{f['name']}]]", f"[[{f['from']['name']}]]", f"[[{f['to']['name']}]]", f["first"], f["last"], f["minutes"], f"{f['fare']:.2f}"]
        for f in ferries
    ]
    columns = ["Line", "From", "To", "First boat", "Last boat", "Minutes", "Fare (crowns)"]
    return "Ferry timetable", "All ferry lines.\n\n" + table(columns, rows) + "\n[[Category:Lists]]"


def front_page(towns: list[dict]) -> str:
    featured = "".join(f"* [[{town['name']}]]\n" for town in towns[:12])
    return (
        "Welcome to '''Arena Wiki''', an encyclopedia of the Verdan archipelago.\n\n== Browse ==\n* [[List of settlements]]\n* [[List of lighthouses]]\n"
        "* [[Ferry timetable]]\n* [[Special:AllPages|All pages]]\n* [[Special:Categories|Categories]]\n* [[Special:RecentChanges|Recent changes]]\n\n"
        f"== Islands ==\n{''.join(f'* [[{island}]]' + chr(10) for island in ISLANDS)}\n== Featured settlements ==\n{featured}"
    )


def category_pages() -> list[tuple[str, str]]:
    names = ["Islands", "Settlements", "Lighthouses", "Ferries", "Festivals", "Lists", *ISLANDS]
    return [(f"Category:{name}", f"Pages on {name.lower() if name not in ISLANDS else name}.") for name in names]


def with_history(rng: random.Random, title: str, text: str) -> dict:
    """The page's revisions: beginnings first, the whole text last."""
    count = rng.choice([1, 1, 2, 3])
    paragraphs = text.split("\n\n")
    moment = TODAY - datetime.timedelta(days=rng.randint(20, 300), minutes=rng.randint(0, 1400))
    revisions = []
    for k in range(1, count + 1):
        kept = paragraphs if k == count else paragraphs[: max(1, len(paragraphs) * k // (count + 1))]
        comment = "New page" if k == 1 else rng.choice(["More details", "Figures checked", "Links added", "Wording"])
        revisions.append(
            {"user": rng.choice(EDITORS), "time": moment.strftime("%Y%m%d%H%M%S"), "comment": comment, "text": "\n\n".join(kept)}
        )
        moment += datetime.timedelta(days=rng.randint(1, 6), minutes=rng.randint(1, 600))
    return {"title": title, "revisions": revisions}


if __name__ == "__main__":
    main()
