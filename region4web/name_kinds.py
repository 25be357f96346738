"""What a name is about, by its first telling word or sign: account, cart, search, price, date, ...

Enters: a name in any case. Leaves: a kind's number, or 0. Short lists of the interface words of ten languages; nothing
learned. A word means one kind only, and most names have none.
"""

from __future__ import annotations

import re

__all__ = ["KINDS", "NAME_READ", "letters", "name_kind"]

NAME_READ = 80
"""Characters of a name that are read."""

WORDS = {
    "account": """login logout signin signup signout register registration password username account konto profile anmelden abmelden registrieren
        connexion inscription compte contraseña cuenta entrar iniciar ingresar registrarse senha cadastre conta accedi registrati inloggen aanmelden
        войти вход регистрация пароль zaloguj logowanie rejestracja hasło ログイン 登录 注册 登入 logga giriş""",
    "cart": """cart basket bag checkout wishlist warenkorb merkzettel panier carrito carro cesta carrinho carrello winkelwagen корзина koszyk košík sepet
        カート 购物车 varukorg""",
    "search": "search suche suchen recherche rechercher buscar búsqueda busca pesquisar cerca ricerca zoek zoeken поиск найти szukaj hledat ara 検索 搜索 sök",
    "social": """facebook twitter instagram linkedin youtube pinterest whatsapp tiktok telegram reddit rss vk tumblr vimeo flickr mastodon bluesky
        вконтакте threads snapchat""",
    "consent": "cookie cookies gdpr consent",
    "legal": """privacy terms legal imprint impressum datenschutz agb disclaimer accessibility sitemap copyright mentions légales privacidad términos aviso
        privacidade privacyverklaring конфиденциальности регламент regulamin polityka trademark""",
    "pager": """next previous prev weiter zurück suivant précédent siguiente anterior próximo próxima successivo volgende vorige далее назад следующая
        następna poprzednia newer older 次へ 下一页""",
    "order": "sort sortieren trier ordenar filter filters filtern filtrer filtrar сортировать фильтр sorteer sortuj ordina refine",
    "share": "share teilen partager compartir compartilhar condividi delen поделиться udostępnij tweet print email e-mail permalink bookmark",
    "reply": """reply replies comment comments quote antworten kommentar kommentare répondre commentaire commentaires responder comentario comentarios
        comentários rispondi commenti ответить комментарии комментарий odpowiedz komentarze posted""",
    "subscribe": "newsletter subscribe abonnieren abonner suscribirse suscríbete inscreva iscriviti подписаться subskrybuj aanmelding updates",
    "contact": """contact kontakt contacto contato contatti phone telephone tel fax address adresse dirección telefon téléphone контакты адрес телефон
        hours directions support help hilfe aide ayuda ajuda aiuto""",
    "menu": "menu menü menú navigation toggle skip close schließen fermer cerrar fechar chiudi меню закрыть sluiten zamknij breadcrumb breadcrumbs",
    "language": """english deutsch français español italiano português русский polski nederlands svenska dansk norsk suomi türkçe čeština magyar română
        ελληνικά українська العربية 中文 日本語 한국어 language languages sprache langue idioma lingua język""",
    "date": """january february march april may june july august september october november december jan feb mar apr jun jul aug sep oct nov dec ago
        monday tuesday wednesday thursday friday saturday sunday januar februar märz mai juni juli oktober dezember janvier février mars avril juin
        juillet août septembre octobre novembre décembre enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
        января февраля марта апреля мая июня июля августа сентября октября ноября декабря yesterday today""",
    "related": "related recommended similar popular trending latest recent featured also ähnliche similaires relacionados похожие populaire beliebte",
    "advert": "advertisement sponsored anzeige publicité publicidad реклама reklama ad ads promoted",
}
SIGNS = ("number", "price", "copyright", "mail", "sign")
KINDS = (*WORDS, *SIGNS)
_NUMBER_OF = {kind: number for number, kind in enumerate(KINDS, 1)}
_KIND_OF_WORD = {word: _NUMBER_OF[kind] for kind, words in WORDS.items() for word in words.split()}
_CURRENCIES = frozenset("$€£¥₹₽")
_LETTERS = re.compile(r"[^\W\d_]+")


def letters(name: str) -> list[str]:
    """The words of a name's beginning, in lower case."""
    return _LETTERS.findall(name[:NAME_READ].lower())


def name_kind(name: str, words: list[str]) -> int:
    """Number of the name's kind, counted from 1 in KINDS; 0 for none. `words` are its letters()."""
    head = name[:NAME_READ]
    if not words:
        digits = sum(map(str.isdigit, head))
        if not digits:
            return _NUMBER_OF["sign"]
        if not _CURRENCIES.isdisjoint(head):
            return _NUMBER_OF["price"]
        return _NUMBER_OF["mail" if digits >= 8 else "number"]
    if "©" in head:
        return _NUMBER_OF["copyright"]
    if "@" in head and "." in head:
        return _NUMBER_OF["mail"]
    if not _CURRENCIES.isdisjoint(head):
        return _NUMBER_OF["price"]
    for i, word in enumerate(words):
        kind = _KIND_OF_WORD.get(word)
        if kind:
            return kind
        if word in ("log", "sign") and words[i + 1 : i + 2] in (["in"], ["up"], ["out"]):
            return _NUMBER_OF["account"]
    return 0
