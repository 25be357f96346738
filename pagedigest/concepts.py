"""Things people do on web sites, and the words by which tasks and controls name them.

Enters: words of a text. Leaves: the set of concepts it touches, as a bit mask. A task that says "cheapest" and a
button called "Sort by" share no word, but both touch `sort`. The words are general; no site is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagedigest.words import stem

__all__ = ["CONCEPTS", "concept_bit", "concept_mask"]

CONCEPTS: dict[str, str] = {
    "login": "login log_in log_me log_on logon signin sign_in sign_me password anmelden einloggen passwort connexion connecter iniciar_sesion acceder contraseña войти вход пароль 登录 登錄 ログ グイ accedi entrar kirjaudu logga_in",
    "account": "account profile my_account member membership konto compte cuenta profil аккаунт профиль 账户 会員 mypage dashboard username",
    "register": "register registration signup sign_up create_account join enrol enroll registrieren inscription inscrire registrarse регистрация 注册 登録 newcomer",
    "logout": "logout log_out log_me_out sign_out signout log_off abmelden deconnexion выйти",
    "forgot": "forgot forget forgotten lost remember recover recovery reset restore vergessen oublié olvidé olvidado",
    "search": "search find look look_up lookup query keyword keywords suche suchen finden recherche rechercher chercher buscar búsqueda поиск найти искать 搜索 検索 cerca pesquisar haku zoeken",
    "sort": "sort sorted order_by sort_by cheapest lowest highest newest oldest latest priciest expensive ascending descending best rated rating sortieren trier ordenar",
    "filter": "filter filters only narrow refine limit restrict show_only facet filtern filtrer filtrar",
    "cart": "order buy purchase checkout kaufen acheter comprar купить 购买 購入 cart basket bag add_to_cart add_to_basket add_to_bag warenkorb panier carrito корзину корзина 购物车 カー ート ostoskori koszyk",
    "buy": "buy purchase order checkout check_out pay payment price cost costs kaufen acheter comprar купить 购买 購入 paid money",
    "next": "next more older further load_more show_more earlier following continue weiter nächste suivant suivante siguiente следующая 下一 次へ page second third previous pagination pages zurück",
    "language": "language languages english german french spanish russian chinese japanese italian deutsch français español english_version sprache langue idioma язык русский 语言 中文 言語 日本 translate translation locale version",
    "contact": "contact email e_mail mail phone call telephone write reach message ask kontakt contacter contacto связь контакты 联系 問い 問合 get_in_touch",
    "help": "help support faq faqs question questions guide manual documentation docs how_to hilfe aide ayuda помощь 帮助 ヘル customer_service troubleshooting",
    "settings": "settings preferences options configure configuration change customize einstellungen paramètres configuración настройки 设置 設定 personal prefs",
    "subscribe": "subscribe subscription newsletter alerts notify notification notifications notified updates rss follow abonnieren abonner suscribirse подписаться 订阅",
    "share": "share tweet twitter facebook linkedin instagram youtube social pinterest whatsapp teilen partager compartir поделиться follow_us socials x",
    "download": "download downloads pdf install installer save export file files herunterladen télécharger descargar скачать 下载 ダウ ウン",
    "delete": "delete remove cancel clear discard erase trash drop löschen entfernen supprimer eliminar borrar удалить 删除 削除 dismiss",
    "edit": "edit change modify update rename correct bearbeiten modifier editar изменить 编辑 編集 rewrite fix",
    "create": "add create new post make write publish submit hinzufügen neu créer ajouter nuevo crear añadir добавить создать 新建 作成 insert start compose",
    "reply": "reply respond answer thank comment comments discuss discussion antworten kommentar répondre commentaire commentaires comentario comentarios комментарии ответить 评论 回复 コメ opinion thread forum",
    "review": "review reviews rating ratings opinion opinions stars feedback testimonials buyers customers bewertung avis reseña opiniones отзывы 评价 レビ rate",
    "shipping": "shipping delivery deliver deliveries parcel parcels ship shipment track tracking package versand lieferung livraison envío доставка 配送 送料 postage address",
    "returns": "money_back send_back send_it_back give_back take_back bring_back wrong_size damaged broken faulty return returns refund refunds exchange rückgabe retour devolución возврат warranty guarantee garantie",
    "repair": "repair repairs fix fixed service servicing maintenance broken stopped_working technician repairman reparatur réparation reparación ремонт 修理",
    "price": "price prices pricing plan plans cost costs fee fees cheap rate rates tariff preis prix precio цена 价格 料金 budget quote",
    "jobs": "opening openings vacancies apply job jobs career careers hiring vacancy vacancies work_here employment internship internships position recruit stellen emploi empleo вакансии 招聘 採用 apply",
    "about": "about about_us company team who_we founder founders history mission über propos nosotros компании 关于 会社 imprint impressum owner behind",
    "legal": "privacy terms cookie cookies legal policy policies conditions gdpr consent datenschutz agb confidentialité privacidad disclaimer licence license copyright data",
    "location": "location store stores map near nearest directions address branch locator city country region where standort magasin tienda находится 门店 店舗 visit office shop",
    "date": "date calendar day month year week today tomorrow january february march april may june july august september october november december archive archives datum schedule when time hours opening",
    "theme": "dark light mode theme appearance colour color contrast font dunkel sombre",
    "media": "video videos play watch listen podcast audio photo photos image images gallery picture pictures stream trailer track song",
    "author": "author wrote written by writer editor byline who reporter journalist autor auteur",
    "category": "category categories department section topic topics tag tags browse kategorie catégorie categoría рубрика 分类 menu collection type",
    "compare": "compare comparison versus vs difference vergleich comparer comparar",
    "favourite": "favourite favorite favorites favourites wishlist wish_list save_for saved bookmark like star watch watchlist merken follow",
    "upload": "upload attach attachment attachments file choose_file browse hochladen",
    "close": "close dismiss hide accept ok got_it cancel no_thanks schließen fermer cerrar закрыть 关闭 閉じ",
    "donate": "donate donation donations give gift sponsor support_us spenden don donar fundraise contribute charity",
    "version": "version release releases changelog news what_s update updates latest blog announcement newest history revision",
    "event": "event events ticket tickets book booking reserve reservation appointment veranstaltung événement evento reserva seat seats visit schedule",
    "volunteer": "volunteer join participate involved apply application member",
    "code": "code source github repository repo copy command snippet example terminal install api",
    "quantity": "quantity qty number amount count how_many menge quantité cantidad pieces",
    "proceed": "continue proceed submit confirm apply save ok go send done finish accept agree yes weiter senden speichern bestätigen valider envoyer enviar "
    "guardar aceptar отправить сохранить продолжить 提交 确定 送信 確認 update search place_order checkout add_to_cart add_to_bag buy_now",
    "reveal": "menu more show expand open toggle all see_all view_all hamburger options details settings dropdown choose select mehr plus más ещё 更多 メニ",
    "print": "print printable drucken imprimer imprimir",
}


def _tables() -> tuple[dict[str, int], dict[str, list[tuple[tuple[str, ...], int]]]]:
    single: dict[str, int] = {}
    phrases: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for bit, words in enumerate(CONCEPTS.values()):
        for entry in words.split():
            parts = tuple(entry.split("_"))
            if len(parts) == 1:
                single[entry] = single.get(entry, 0) | 1 << bit
                single[stem(entry)] = single.get(stem(entry), 0) | 1 << bit
            else:
                phrases.setdefault(parts[0], []).append((parts, 1 << bit))
    return single, phrases


_SINGLE, _PHRASES = _tables()


def concept_bit(name: str) -> int:
    """The mask of one concept."""
    return 1 << list(CONCEPTS).index(name)


def concept_mask(words: Sequence[str]) -> int:
    """Bits of the concepts that the words touch, in the order of `CONCEPTS`."""
    mask = 0
    for k, word in enumerate(words):
        found = _SINGLE.get(word)
        mask |= found if found is not None else _SINGLE.get(stem(word), 0)
        for parts, bit in _PHRASES.get(word, ()):
            if tuple(words[k : k + len(parts)]) == parts:
                mask |= bit
    return mask
